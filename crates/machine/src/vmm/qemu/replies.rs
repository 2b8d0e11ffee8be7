//! Parses the answers of QEMU's human monitor.
//!
//! These answers are text that hardly changed in ten years. The answers of the machine protocol have types that differ between
//! versions.

use crate::vmm::Stand;

/// The positions of the CPUs, from the text of `info registers -a`.
pub(super) fn stands(registers: &str, instruction_pointers: &[&str]) -> Vec<Stand> {
    let mut cpus: Vec<Stand> = Vec::new();
    for line in registers.lines().map(str::trim) {
        if line.starts_with("CPU#") {
            cpus.push(Stand { halted: false, address: 0 });
        }
        let Some(cpu) = cpus.last_mut() else {
            continue;
        };
        // `RIP=ffffffff9abb85c3 RFL=00000203 … HLT=0`, `EIP=`, or ` pc       ffffffff80a12b34`.
        let value = |key: &str| {
            let mut words = line.split_whitespace();
            let rest = words.find_map(|word| word.strip_prefix(key))?;
            if rest.is_empty() { words.next() } else { Some(rest) }
        };
        if let Some(address) = instruction_pointers.iter().find_map(|name| value(name)) {
            cpu.address = u64::from_str_radix(address, 16).unwrap_or(0);
            cpu.halted = value("HLT=") == Some("1");
        }
    }
    cpus
}

/// The number of requests to all disks, from the text of `info blockstats`.
pub(crate) fn disk_requests(statistics: &str) -> u64 {
    // `virtio0: rd_bytes=512 … rd_operations=1 wr_operations=0 … idle_time_ns=5`: the idle time also changes without requests.
    let counts = statistics.split_whitespace().filter_map(|word| word.split_once("_operations="));
    counts.filter_map(|(_, count)| count.parse::<u64>().ok()).fold(0, u64::saturating_add)
}

/// The host port of each connection that the guest has accepted, from the text of `info usernet`.
pub(super) fn accepted(connections: &str) -> Vec<u16> {
    // `TCP[ESTABLISHED]  37  127.0.0.1 39083  10.0.2.15 22  0 0`: state, descriptor, the host's end, the guest's end. A connection that
    // the guest has not answered yet is `TCP[SYN_SENT]`. (libslirp's src/misc.c: slirp_connection_info.)
    let mut ports = Vec::new();
    for line in connections.lines() {
        let mut words = line.split_whitespace();
        if words.next() == Some("TCP[ESTABLISHED]") {
            ports.extend(words.nth(2).and_then(|port| port.parse::<u16>().ok()));
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTERS: [&str; 2] = ["RIP=", "EIP="];

    #[test]
    fn registers_are_read_for_each_cpu() {
        let text = "\r\nCPU#0\r\nRAX=0000 RBX=01\r\nRIP=ffffffff9abb85c3 RFL=00000203 [------C] CPL=0 HLT=0\r\n\
                    CPU#1\r\nEIP=0000fff0 EFL=00000002 [-------] CPL=0 II=0 A20=1 SMM=0 HLT=1\r\n";
        let expected =
            [Stand { halted: false, address: 0xffff_ffff_9abb_85c3 }, Stand { halted: true, address: 0xfff0 }];
        assert_eq!(stands(text, &POINTERS), expected);
        assert_eq!(stands("unknown command", &POINTERS), []);
    }

    #[test]
    fn a_connection_counts_once_the_guest_has_accepted_it() {
        let text = "Hub -1 (#net073):\r\n  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\r\n  \
                    TCP[ESTABLISHED]   37       127.0.0.1 39083       10.0.2.15    22     0     0\r\n  \
                    TCP[SYN_SENT]      38       127.0.0.1 39084       10.0.2.15    22     0     0\r\n  \
                    TCP[HOST_FORWARD]  12       127.0.0.1 39083               *    22     0     0\r\n";
        assert_eq!(accepted(text), [39083]);
        assert!(accepted("unknown command").is_empty());
    }

    #[test]
    fn requests_are_counted_and_idle_time_is_not() {
        let text = "virtio0: rd_bytes=512 wr_bytes=0 rd_operations=3 wr_operations=1 flush_operations=0 \
                    rd_total_time_ns=99 idle_time_ns=5\r\nfloppy0: rd_operations=2 wr_operations=0\r\n";
        assert_eq!(disk_requests(text), 6);
        assert_eq!(disk_requests(""), 0);
    }
}
