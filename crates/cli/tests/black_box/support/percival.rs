//! Logs in TSLOG's text form with the times of Percival's two machines (Profiling the FreeBSD kernel boot, 2018). Each
//! row of his tables comes from nesting as in a kernel, so only the right rules reproduce his tables.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The ticks per second.
pub const HZ: &str = "2.5GHz";
const TICKS_PER_US: u64 = 2_500;

const THREAD0: &str = "0xffffffff81000000";
const INIT: &str = "0xfffff80001000000";
const USBUS0: &str = "0xfffff80002000000";
const G_EVENT: &str = "0xfffff80003000000";

/// The time of each row, in microseconds.
pub type Rows = BTreeMap<&'static str, u64>;

/// Converts rows of `(name, milliseconds)`.
pub fn rows(ms: &[(&'static str, f64)]) -> Rows {
    ms.iter().map(|&(name, ms)| (name, (ms * 1e3).round() as u64)).collect()
}

/// The table of his laptop.
pub fn laptop() -> Rows {
    rows(&[
        ("THREAD usbus0", 9_000.0),
        ("THREAD g_event", 2_600.0),
        ("DEVICE_PROBE psm", 2_000.0),
        ("SYSINIT cpu · DELAY", 1_000.0),
        ("SYSINIT clocks · DELAY", 1_000.0),
        ("_vprintf", 720.0),
        ("hammer_time · DELAY", 640.0),
        ("SYSINIT vm_mem", 640.0),
        ("DEVICE_ATTACH atkbd · DELAY", 430.0),
        ("VFS_MOUNT zfs", 190.0),
        ("SYSINIT cpu_mp · DELAY", 60.0),
        ("everything else", 1_080.0),
    ])
}

/// The table of his EC2 c5.4xlarge. His rows are 4 ms short of his total: all but one are rounded to 10 ms, and the
/// rest gets the difference.
pub fn ec2() -> Rows {
    rows(&[
        ("_vprintf", 3_240.0),
        ("DEVICE_PROBE psm", 1_570.0),
        ("SYSINIT cpu · DELAY", 1_000.0),
        ("SYSINIT clocks · DELAY", 1_000.0),
        ("DEVICE_ATTACH ena · DELAY", 800.0),
        ("hammer_time · DELAY", 640.0),
        ("SYSINIT start_aps", 620.0),
        ("SYSINIT vm_mem", 460.0),
        ("DEVICE_ATTACH atkbd · DELAY", 430.0),
        ("DEVICE_PROBE hpt*", 330.0),
        ("DEVICE_ATTACH nvme · DELAY", 250.0),
        ("SYSINIT cpu_mp · DELAY", 156.0),
        ("everything else", 474.0),
    ])
}

/// The same machine with other sizes, by his measurements: 2680 + 35 ms per CPU, 41 and 10.4 ms per AP, and the given
/// microseconds per GB.
pub fn ec2_of(cpus: u64, gb: u64, us_per_gb: u64) -> Rows {
    let mut rows = ec2();
    rows.insert("_vprintf", 2_680_000 + 35_000 * cpus);
    rows.insert("SYSINIT start_aps", 41_000 * (cpus - 1));
    rows.insert("SYSINIT cpu_mp · DELAY", 10_400 * (cpus - 1));
    rows.insert("SYSINIT vm_mem", us_per_gb * gb);
    rows
}

/// The sum of all rows in nanoseconds.
pub fn total_ns(rows: &Rows) -> i64 {
    rows.values().sum::<u64>() as i64 * 1_000
}

/// Writes the log of a boot with these rows into a folder, for `import`.
pub fn write(rows: &Rows, folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, Log::new(rows).boot()).unwrap();
    path
}

/// The number of small functions in "everything else", each shorter than the shortest listed row.
const SMALL: usize = 40;
/// The number of places that print.
const PRINTS: u64 = 64;

struct Log<'a> {
    rows: &'a Rows,
    text: String,
    /// The ticks so far.
    now: u64,
    prints: u64,
}

impl<'a> Log<'a> {
    fn new(rows: &'a Rows) -> Self {
        Log { rows, text: String::new(), now: 14_000_000, prints: 0 }
    }

    /// The whole boot, from the first C function to the first process.
    fn boot(mut self) -> String {
        self.on(THREAD0, "ENTER hammer_time");
        self.print();
        self.delay("hammer_time · DELAY", 4);
        self.on(THREAD0, "EXIT hammer_time");
        self.on(THREAD0, "ENTER mi_startup");
        self.sysinits();
        self.mount_root();
        assert_eq!(self.prints, PRINTS, "as many places print as share the row");
        let us = (self.now - 14_000_000) / TICKS_PER_US;
        assert_eq!(us, self.rows.values().sum::<u64>(), "every row is in the log");
        self.text
    }

    fn sysinits(&mut self) {
        self.sysinit("announce", |log| (0..20).for_each(|_| log.print()));
        self.sysinit("vm_mem", |log| {
            log.spend("SYSINIT vm_mem", 1, 2);
            log.print();
            log.spend("SYSINIT vm_mem", 1, 2);
        });
        self.sysinit("cpu", |log| {
            log.print();
            log.delay("SYSINIT cpu · DELAY", 1);
        });
        self.sysinit("cpu_mp", |log| log.delay("SYSINIT cpu_mp · DELAY", 15));
        self.sysinit("configure2", Log::devices);
        self.sysinit("clocks", |log| log.delay("SYSINIT clocks · DELAY", 1));
        self.sysinit("start_aps", |log| log.spend("SYSINIT start_aps", 1, 1));
        for i in 0..SMALL {
            self.sysinit(&format!("small_{i}"), |log| log.spend("everything else", 1, SMALL as u64));
        }
    }

    /// Buses within buses, with printing within probes and delays within both.
    fn devices(&mut self) {
        self.enter("DEVICE_ATTACH nexus0");
        self.enter("DEVICE_ATTACH acpi0");
        for driver in ["hptnr", "hpt27xx", "hptrr"] {
            self.within(&format!("DEVICE_PROBE {driver}"), |log| log.spend("DEVICE_PROBE hpt*", 1, 3));
        }
        self.within("DEVICE_PROBE psm", |log| {
            log.spend("DEVICE_PROBE psm", 1, 4);
            log.within("send_aux_command", |log| log.within("DELAY", |log| log.spend("DEVICE_PROBE psm", 1, 2)));
            log.print();
            log.within("DELAY", |log| log.spend("DEVICE_PROBE psm", 1, 4));
        });
        self.within("DEVICE_ATTACH atkbd", |log| {
            log.delay("DEVICE_ATTACH atkbd · DELAY", 2);
            log.print();
        });
        self.within("DEVICE_ATTACH ena", |log| log.delay("DEVICE_ATTACH ena · DELAY", 8));
        self.within("DEVICE_ATTACH nvme", |log| log.delay("DEVICE_ATTACH nvme · DELAY", 5));
        self.within("DEVICE_ATTACH usbus0", |log| {
            if log.has("THREAD usbus0") {
                log.on(THREAD0, "EVENT HOLD root mount");
                log.on(USBUS0, "THREAD usbus0");
            }
            log.print();
        });
        self.exit("DEVICE_ATTACH acpi0");
        self.exit("DEVICE_ATTACH nexus0");
        if self.has("THREAD g_event") {
            self.on(G_EVENT, "THREAD g_event");
        }
        (self.prints..PRINTS).for_each(|_| self.print());
    }

    /// Process 1 waits for the buses to be explored, then for the disks to be tasted, and mounts.
    fn mount_root(&mut self) {
        self.on(INIT, "ENTER start_init");
        self.on(INIT, "ENTER vfs_mountroot");
        if self.has("THREAD usbus0") {
            self.on(INIT, "EVENT WAIT root mount");
            self.on(USBUS0, "ENTER usb_bus_explore");
            self.spend("THREAD usbus0", 1, 2);
            self.on(USBUS0, "EXIT usb_bus_explore");
            self.spend("THREAD usbus0", 1, 2);
            self.on(USBUS0, "EVENT RELEASE root mount");
            self.on(INIT, "EVENT UNWAIT root mount");
        }
        if self.has("THREAD g_event") {
            self.on(INIT, "EVENT HOLD GEOM events");
            self.on(INIT, "ENTER g_waitidle");
            self.on(INIT, "EVENT WAIT GEOM events");
            // Two disks with one passphrase.
            for _ in 0..2 {
                self.on(G_EVENT, "ENTER pkcs5v2_genkey");
                self.spend("THREAD g_event", 1, 2);
                self.on(G_EVENT, "EXIT pkcs5v2_genkey");
            }
            self.on(G_EVENT, "EVENT RELEASE GEOM events");
            self.on(INIT, "EVENT UNWAIT GEOM events");
            self.on(INIT, "EXIT g_waitidle");
        }
        if self.has("VFS_MOUNT zfs") {
            self.on(INIT, "ENTER VFS_MOUNT zfs");
            self.on(INIT, "ENTER spa_import");
            self.spend("VFS_MOUNT zfs", 1, 1);
            self.on(INIT, "EXIT spa_import");
            self.on(INIT, "EXIT VFS_MOUNT zfs");
        }
        self.on(INIT, "EXIT vfs_mountroot");
        self.on(INIT, "EXIT start_init");
    }

    fn has(&self, row: &str) -> bool {
        self.rows.contains_key(row)
    }

    fn on(&mut self, thread: &str, what: &str) {
        let _ = writeln!(self.text, "{thread} {} {what}", self.now);
    }

    fn enter(&mut self, what: &str) {
        self.on(THREAD0, &format!("ENTER {what}"));
    }

    fn exit(&mut self, what: &str) {
        self.on(THREAD0, &format!("EXIT {what}"));
    }

    fn within(&mut self, what: &str, inside: impl FnOnce(&mut Self)) {
        self.enter(what);
        inside(self);
        self.exit(what);
    }

    fn sysinit(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        self.within(&format!("SYSINIT {name}"), inside);
    }

    /// Spends a part of a row's time.
    fn spend(&mut self, row: &str, part: u64, of: u64) {
        self.now += self.ticks(row) * part / of;
    }

    /// Spends one of `of` equal parts. Together they are the whole time, to the tick.
    fn spend_one(&mut self, row: &str, which: u64, of: u64) {
        let all = self.ticks(row);
        self.now += all * (which + 1) / of - all * which / of;
    }

    fn ticks(&self, row: &str) -> u64 {
        self.rows.get(row).copied().unwrap_or(0) * TICKS_PER_US
    }

    /// Spends a row's time in this number of delays.
    fn delay(&mut self, row: &str, times: u64) {
        for i in 0..times {
            self.within("DELAY", |log| log.spend_one(row, i, times));
        }
    }

    /// Spends an equal part of all printing.
    fn print(&mut self) {
        let which = self.prints;
        self.prints += 1;
        self.within("_vprintf", |log| log.spend_one("_vprintf", which, PRINTS));
    }
}
