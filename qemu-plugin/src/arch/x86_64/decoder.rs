//! Decodes the ending of a block of x86 code from the bytes of its last instruction.
//!
//! Opcodes are as in the Intel SDM, volume 2, appendix A. Only control transfers are decoded. Lengths are not, because QEMU
//! has already found the instruction's end. It does not matter if the code is 16, 32 or 64 bits wide: a displacement is as
//! wide as the rest of the instruction. This module does not depend on QEMU.

use super::super::Exit;
use crate::ending::Ending;
use plugin_formats::exits::Kind;

/// The ending, and its target relative to the instruction's end, if that is fixed.
pub fn decode(bytes: &[u8]) -> (Ending, Option<i64>) {
    let Some((&opcode, rest)) = after_prefixes(bytes).split_first() else { return (Ending::Other, None) };
    match opcode {
        0xe8 => (Ending::Call, displacement(rest)),
        0xe9 | 0xeb => (Ending::Jump, displacement(rest)),
        0x70..=0x7f | 0xe0..=0xe3 => (Ending::Branch, displacement(rest)),
        0xc2 | 0xc3 | 0xca | 0xcb => (Ending::Return, None),
        0x9a => (Ending::CallIndirect, None),
        0xea => (Ending::JumpIndirect, None),
        0xcf => (Ending::InterruptReturn, None),
        0xf4 => (Ending::Halt, None),
        0xcc | 0xcd | 0xf1 => (Ending::Trap, None),
        0xff => (group_5(rest), None),
        0x0f => two_byte(rest),
        _ => (Ending::Other, None),
    }
}

/// True if these are only the first bytes of a jump or a call, without its target.
pub fn lacks_target(bytes: &[u8]) -> bool {
    matches!(decode(bytes), (Ending::Call | Ending::Jump | Ending::Branch, None))
}

/// True for a call to another segment.
pub fn is_far_call(bytes: &[u8]) -> bool {
    match after_prefixes(bytes) {
        [0x9a, ..] => true,
        [0xff, modrm, ..] => modrm >> 3 & 7 == 3,
        _ => false,
    }
}

/// True if the instruction writes to a port.
pub fn writes_port(bytes: &[u8]) -> bool {
    matches!(after_prefixes(bytes).first(), Some(0xe6 | 0xe7 | 0xee | 0xef | 0x6e | 0x6f))
}

/// The access of an instruction that leaves the guest, or reads a clock.
pub fn exit(bytes: &[u8]) -> Option<Exit> {
    let rest = after_prefixes(bytes);
    let string = |kind| Exit { is_string: true, ..Exit::new(kind) };
    Some(match *rest {
        [opcode @ 0xe4..=0xe7, port] => {
            let (kind, is_clock) = match opcode < 0xe6 {
                true => (Kind::PortRead, is_clock_port(port)),
                false => (Kind::PortWrite, port == LATCH_PORT),
            };
            Exit { port: Some(port), is_clock, ..Exit::new(kind) }
        }
        [0xec | 0xed] => Exit::new(Kind::PortRead),
        [0xee | 0xef] => Exit::new(Kind::PortWrite),
        [0x6c | 0x6d] => string(Kind::PortRead),
        [0x6e | 0x6f] => string(Kind::PortWrite),
        [0xf4] => Exit::new(Kind::Halt),
        [0x0f, 0x30] => Exit::new(Kind::MsrWrite),
        [0x0f, 0x32] => Exit::new(Kind::MsrRead),
        [0x0f, 0xa2] => Exit::new(Kind::Cpuid),
        [0x0f, 0x31] | [0x0f, 0x01, 0xf9] => Exit::new(Kind::ClockRead),
        // vmcall, vmmcall
        [0x0f, 0x01, 0xc1 | 0xd9] => Exit::new(Kind::Hypercall),
        _ => return None,
    })
}

/// The port that latches a counter of a PC's interval timer, so that it can be read.
const LATCH_PORT: u8 = 0x43;

/// The ports of a PC's interval timer: its three counters, and the port that shows the third one's output.
fn is_clock_port(port: u8) -> bool {
    matches!(port, 0x40..=0x42 | 0x61)
}

/// True if a PC has a clock at this physical address: the HPET, or the counter of the local APIC's timer.
pub fn is_clock_at(address: u64) -> bool {
    matches!(address, 0xfed0_0000..0xfed0_0400 | 0xfee0_0390..0xfee0_0394)
}

/// True if the instruction repeats itself: a string instruction with `rep`.
pub fn repeats(bytes: &[u8]) -> bool {
    let rest = after_prefixes(bytes);
    let rep = bytes[..bytes.len() - rest.len()].iter().any(|prefix| matches!(prefix, 0xf2 | 0xf3));
    rep && matches!(rest.first(), Some(0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf))
}

/// Skips legacy prefixes and REX. In 32-bit code the REX bytes are instructions of one byte, and then nothing is left.
fn after_prefixes(bytes: &[u8]) -> &[u8] {
    let is_prefix =
        |b: &u8| matches!(b, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3) || (0x40..=0x4f).contains(b);
    let n = bytes.iter().take_while(|b| is_prefix(b)).count();
    &bytes[n..]
}

fn group_5(rest: &[u8]) -> Ending {
    match rest.first().map(|modrm| modrm >> 3 & 7) {
        Some(2 | 3) => Ending::CallIndirect,
        Some(4 | 5) => Ending::JumpIndirect,
        _ => Ending::Other,
    }
}

fn two_byte(rest: &[u8]) -> (Ending, Option<i64>) {
    match rest.split_first() {
        Some((0x80..=0x8f, rest)) => (Ending::Branch, displacement(rest)),
        Some((0x07 | 0x35 | 0xaa, _)) => (Ending::InterruptReturn, None),
        Some((0x05 | 0x34 | 0x0b, _)) => (Ending::Trap, None),
        _ => (Ending::Other, None),
    }
}

fn displacement(rest: &[u8]) -> Option<i64> {
    match *rest {
        [a] => Some(a as i8 as i64),
        [a, b] => Some(i16::from_le_bytes([a, b]) as i64),
        [a, b, c, d] => Some(i32::from_le_bytes([a, b, c, d]) as i64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], ending: Ending, displacement: Option<i64>) {
        assert_eq!(decode(bytes), (ending, displacement), "{bytes:02x?}");
    }

    #[test]
    fn calls_and_jumps_carry_their_displacement() {
        check(&[0xe8, 0x10, 0, 0, 0], Ending::Call, Some(16));
        check(&[0xe8, 0xf0, 0xff, 0xff, 0xff], Ending::Call, Some(-16));
        check(&[0xe8, 0xfe, 0xff], Ending::Call, Some(-2)); // 16-bit code
        check(&[0x66, 0xe8, 1, 0, 0, 0], Ending::Call, Some(1)); // 16-bit code, 32-bit operand
        check(&[0x2e, 0xe8, 1, 0, 0, 0], Ending::Call, Some(1)); // padded by the kernel's alternatives
        check(&[0xeb, 0xfe], Ending::Jump, Some(-2));
        check(&[0xe9, 0, 1, 0, 0], Ending::Jump, Some(256));
        check(&[0x75, 0x02], Ending::Branch, Some(2));
        check(&[0x0f, 0x84, 0, 1, 0, 0], Ending::Branch, Some(256));
        check(&[0xe2, 0xfc], Ending::Branch, Some(-4));
    }

    #[test]
    fn a_jump_that_is_cut_off() {
        assert!(lacks_target(&[0x0f, 0x84]) && lacks_target(&[0xe8]) && lacks_target(&[0x75]));
        assert!(lacks_target(&[0xe9, 1, 0, 0]) && !lacks_target(&[0xe9, 1, 0, 0, 0]) && !lacks_target(&[0xc3]));
    }

    #[test]
    fn far_calls_and_writes_to_ports() {
        assert!(is_far_call(&[0x48, 0xff, 0x18]) && is_far_call(&[0x9a, 0, 0, 0, 0]));
        assert!(!is_far_call(&[0xff, 0x10]) && !is_far_call(&[0xe8, 0, 0, 0, 0]));
        assert!(writes_port(&[0xee]) && writes_port(&[0x66, 0xef]) && writes_port(&[0xf3, 0x6e]));
        assert!(!writes_port(&[0xec]) && !writes_port(&[0x0f, 0xee]) && !writes_port(&[]));
    }

    #[test]
    fn accesses_that_leave_the_guest() {
        let kind = |bytes: &[u8]| exit(bytes).map(|exit| (exit.kind, exit.port, exit.is_string, exit.is_clock));
        assert_eq!(kind(&[0xe4, 0x61]), Some((Kind::PortRead, Some(0x61), false, true)));
        assert_eq!(kind(&[0xe6, 0x61]), Some((Kind::PortWrite, Some(0x61), false, false)));
        assert_eq!(kind(&[0x66, 0xed]), Some((Kind::PortRead, None, false, false)));
        assert_eq!(kind(&[0xf3, 0x6e]), Some((Kind::PortWrite, None, true, false)));
        assert_eq!(kind(&[0x0f, 0x31]), Some((Kind::ClockRead, None, false, true)));
        for (bytes, expected) in [
            (&[0xee][..], Kind::PortWrite),
            (&[0x0f, 0x30], Kind::MsrWrite),
            (&[0x0f, 0x32], Kind::MsrRead),
            (&[0x0f, 0xa2], Kind::Cpuid),
            (&[0x0f, 0x01, 0xf9], Kind::ClockRead), // rdtscp
            (&[0x0f, 0x01, 0xc1], Kind::Hypercall), // vmcall
            (&[0x0f, 0x01, 0xd9], Kind::Hypercall), // vmmcall
            (&[0xf4], Kind::Halt),
        ] {
            assert_eq!(exit(bytes).map(|exit| exit.kind), Some(expected), "{bytes:02x?}");
        }
        for bytes in [&[][..], &[0x0f], &[0x0f, 0xee], &[0xe4], &[0x0f, 0x01, 0xd0], &[0x89, 0xec], &[0x66]] {
            assert_eq!(exit(bytes), None, "{bytes:02x?}");
        }
        assert!(is_clock_at(0xfed0_00f0) && !is_clock_at(0xfec0_0000) && !is_clock_at(0xfee0_00b0));
    }

    #[test]
    fn string_instructions_repeat() {
        assert!(repeats(&[0xf3, 0x48, 0xab]) && repeats(&[0xf2, 0xae]) && repeats(&[0x66, 0xf3, 0x6f]));
        assert!(!repeats(&[0xab]) && !repeats(&[0xf3, 0x90]) && !repeats(&[0xf3]) && !repeats(&[]));
    }

    #[test]
    fn other_endings_have_no_target() {
        check(&[0xff, 0xd0], Ending::CallIndirect, None); // call *%rax
        check(&[0x41, 0xff, 0xd3], Ending::CallIndirect, None); // call *%r11
        check(&[0xff, 0x15, 0, 0, 0, 0], Ending::CallIndirect, None); // call *0(%rip)
        check(&[0xff, 0xe0], Ending::JumpIndirect, None);
        check(&[0xff, 0x30], Ending::Other, None); // push
        check(&[0xff], Ending::Other, None);
        check(&[0xc3], Ending::Return, None);
        check(&[0xf3, 0xc3], Ending::Return, None);
        check(&[0x48, 0xcf], Ending::InterruptReturn, None); // iretq
        check(&[0x48, 0x0f, 0x07], Ending::InterruptReturn, None); // sysretq
        check(&[0x0f, 0xaa], Ending::InterruptReturn, None); // rsm
        check(&[0xf4], Ending::Halt, None);
        check(&[0x0f, 0x05], Ending::Trap, None);
        check(&[0x90], Ending::Other, None);
        check(&[0x48], Ending::Other, None); // dec %eax in 32-bit code
        check(&[], Ending::Other, None);
    }
}
