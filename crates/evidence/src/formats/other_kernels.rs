//! Words of kernels other than Linux in their logs: the system, its release, its first line, and the start of process 1.

use timeline::{Ns, Os};

/// A system, the words by which its log is known, and the words with which it starts process 1.
struct Words {
    os: fn() -> Os,
    /// A line of its log contains these, and no line of another system's.
    says: &'static [&'static str],
    /// The line with the release begins so; the release is the next word.
    release: &'static str,
    /// The lines at which the kernel has its root and starts process 1: what they begin with, and what they contain. An earlier entry
    /// is better evidence than a later one.
    process_1: &'static [(&'static str, &'static str)],
    /// The line after which the root is mounted.
    root: &'static [(&'static str, &'static str)],
    /// The stamp of the kernel's first line, where its clock does not begin with 0.
    clock_zero: Ns,
    /// The description of a log without times, and what gives them.
    without_times: &'static str,
}

const ELSEWHERE: &str = "a log of another system without times: stamp each line of its console (`grabserial -t`, `ts`)";

/// Most systems' words.
const PLAIN: Words = Words {
    os: || Os::Unknown,
    says: &[],
    release: "",
    process_1: &[],
    root: &[],
    clock_zero: Ns::ZERO,
    without_times: ELSEWHERE,
};

/// Sources: NetBSD's sys/kern/vfs_subr.c and init_main.c, FreeBSD's sys/kern/init_main.c, vfs_mountroot.c and kern_tc.c (both clocks
/// begin with 1 s), OpenBSD's sys/kern/subr_disk.c, DragonFly's sys/kern/vfs_conf.c, illumos' uts/common/os/main.c, Unikraft's
/// lib/ukboot/boot.c, ESP-IDF's components/bootloader and esp_system, Zephyr's kernel/banner.c, NuttX' sched/init, RTEMS' and Haiku's
/// kernel banners, Fuchsia's zircon/kernel.
const SYSTEMS: [Words; 13] = [
    Words {
        os: || Os::NetBsd,
        says: &["The NetBSD Foundation"],
        release: "NetBSD ",
        process_1: &[("root file system type: ", ""), ("root on ", " dumps on ")],
        root: &[("root file system type: ", "")],
        clock_zero: Ns::from_ms(1000),
        without_times: "NetBSD's messages without times: stamp each line of the console (`grabserial -t`, `ts`), or read them with \
                        `dmesg` of NetBSD 9 or newer, which prints times",
    },
    Words {
        os: || Os::FreeBsd,
        says: &["The FreeBSD Project", "FreeBSD is a registered trademark"],
        release: "FreeBSD ",
        process_1: &[("start_init: trying ", ""), ("Trying to mount root from ", "")],
        clock_zero: Ns::from_ms(1000),
        without_times: "FreeBSD's messages without times: set kern.msgbuf_show_timestamp=2 in /boot/loader.conf, stamp each line of the console (`grabserial -t`), or build the kernel with TSLOG",
        ..PLAIN
    },
    Words {
        os: || Os::Other("OpenBSD".to_owned()),
        says: &["https://www.OpenBSD.org", "http://www.OpenBSD.org"],
        release: "OpenBSD ",
        process_1: &[("root on ", " swap on ")],
        root: &[("root on ", " swap on ")],
        without_times: "OpenBSD's messages, which have no times: stamp each line of the console (`grabserial -t`, `ts`)",
        ..PLAIN
    },
    Words {
        os: || Os::Other("DragonFly".to_owned()),
        says: &["The DragonFly Project"],
        release: "DragonFly v",
        process_1: &[("Mounting root from ", "")],
        without_times: "DragonFly's messages, which have no times: stamp each line of the console (`grabserial -t`, `ts`)",
        ..PLAIN
    },
    Words {
        os: || Os::Other("illumos".to_owned()),
        says: &["SunOS Release 5."],
        release: "SunOS Release ",
        process_1: &[("root on ", " fstype ")],
        root: &[("root on ", " fstype ")],
        without_times: "illumos' messages without times: stamp each line of the console (`grabserial -t`, `ts`)",
        ..PLAIN
    },
    Words {
        os: || Os::Other("Unikraft".to_owned()),
        says: &["[libukboot]", "[libkvmplat]"],
        release: "Unikraft ",
        process_1: &[("Info: [libukboot]", "Calling main(")],
        ..PLAIN
    },
    Words {
        os: || Os::Other("ESP-IDF".to_owned()),
        says: &["boot: ESP-IDF ", "cpu_start: "],
        release: "boot: ESP-IDF ",
        process_1: &[
            ("main_task: Calling app_main()", ""),
            ("app_start: Starting scheduler", ""),
            ("cpu_start: Starting scheduler", ""),
        ],
        ..PLAIN
    },
    Words {
        os: || Os::Other("Zephyr".to_owned()),
        says: &["Booting Zephyr OS", "BOOTING ZEPHYR OS"],
        release: "*** Booting Zephyr OS build ",
        ..PLAIN
    },
    Words { os: || Os::Other("NuttX".to_owned()), says: &["NuttShell (NSH)", "nx_start: "], ..PLAIN },
    Words { os: || Os::Other("RTEMS".to_owned()), says: &["*** BEGIN OF TEST ", "RTEMS-"], ..PLAIN },
    Words { os: || Os::Other("Haiku".to_owned()), says: &["Welcome to kernel debugger output!"], ..PLAIN },
    Words {
        os: || Os::Other("Fuchsia".to_owned()),
        says: &["welcome to Zircon", "Zircon kernel"],
        process_1: &[("userboot: ", "")],
        ..PLAIN
    },
    Words { os: || Os::Other("seL4".to_owned()), says: &["Booting all finished, dropped to user space"], ..PLAIN },
];

/// The rank of a line in which a kernel other than Linux says that it has its root and starts process 1: 0 is the best evidence.
pub(crate) fn process_1_rank(text: &str) -> Option<usize> {
    let is = |(begin, inside): &(&str, &str)| text.starts_with(begin) && text.contains(inside);
    SYSTEMS.iter().find_map(|system| system.process_1.iter().position(is))
}

/// True if a kernel other than Linux says that it has its root and starts process 1.
pub(crate) fn starts_process_1(text: &str) -> bool {
    process_1_rank(text).is_some()
}

/// True if a kernel other than Linux says that its root is mounted.
pub(crate) fn mounts_root(text: &str) -> bool {
    let words = SYSTEMS.iter().flat_map(|system| system.root);
    words.into_iter().any(|(begin, inside)| text.starts_with(begin) && text.contains(inside))
}

/// True if a kernel says that it measures a clock's rate, before its own clock runs.
pub(crate) fn measures_a_clock(text: &str) -> bool {
    const WORDS: [&str; 3] = ["Calibrating TSC", "Calibrating delay loop", "alibrating timer"];
    WORDS.iter().any(|words| text.contains(words))
}

/// The system whose kernel prints this.
pub(crate) fn system(text: &str) -> Option<Os> {
    of(text).map(|system| (system.os)())
}

/// The stamp of the first line of the kernel that prints this.
pub(crate) fn clock_zero(text: &str) -> Option<Ns> {
    of(text).map(|system| system.clock_zero)
}

/// The description of the log that has this line, for one without times.
pub(crate) fn without_times(text: &str) -> Option<&'static str> {
    let banner = || SYSTEMS.iter().find(|system| release_of(system, text).is_some());
    of(text).or_else(banner).map(|system| system.without_times)
}

fn of(text: &str) -> Option<&'static Words> {
    // The number of the build is in no other line with a release: `NetBSD 9.0 (GENERIC) #0: …`.
    let is_banner = |system: &&Words| text.contains(" #") && release_of(system, text).is_some();
    let says = SYSTEMS.iter().find(|system| system.says.iter().any(|words| text.contains(words)));
    says.or_else(|| SYSTEMS.iter().find(is_banner))
}

/// The release that a kernel of this system prints: `NetBSD 9.0 (GENERIC) #0: …`.
pub(crate) fn release(os: &Os, text: &str) -> Option<String> {
    let system = SYSTEMS.iter().find(|system| (system.os)() == *os)?;
    release_of(system, text)
}

fn release_of(system: &Words, text: &str) -> Option<String> {
    let rest = text.strip_prefix(system.release).filter(|_| !system.release.is_empty())?;
    let release = rest.split_whitespace().next()?;
    let digits = release.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '-');
    digits.starts_with(|c: char| c.is_ascii_digit()).then(|| release.to_owned())
}

/// True for the first words of a kernel of this kind: a log that has them again holds another boot.
pub(crate) fn is_first_message(text: &[u8]) -> bool {
    const WORDS: [&[u8]; 7] = [
        b"Copyright (c) 1996, 1997, 1998, 1999, 2000",
        b"---<<BOOT>>---",
        b"Copyright (c) 1992-",
        b"SunOS Release 5.",
        b"boot: ESP-IDF ",
        b"*** Booting Zephyr OS ",
        b"*** BOOTING ZEPHYR OS ",
    ];
    WORDS.iter().any(|words| text.starts_with(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_known_by_their_words() {
        let line = "    2018, 2019, 2020 The NetBSD Foundation, Inc.  All rights reserved.";
        assert_eq!((system(line), clock_zero(line)), (Some(Os::NetBsd), Some(Ns::from_ms(1000))));
        assert_eq!(release(&Os::NetBsd, "NetBSD 9.0 (GENERIC) #0: x").as_deref(), Some("9.0"));
        assert_eq!(release(&Os::NetBsd, "NetBSD is there"), None);
        let openbsd = Some(Os::Other("OpenBSD".to_owned()));
        assert_eq!(system("OpenBSD 7.4 (GENERIC.MP) #1397: Tue Oct 10 09:02:37 MDT 2023"), openbsd);
        assert_eq!(system("OpenBSD 7.4 is out"), None);
        assert_eq!(system("Linux version 6.1.0"), None);
        assert!(starts_process_1("root file system type: ffs"));
        assert!(starts_process_1("root on sd0a (1a2b.a) swap on sd0b dump on sd0b"));
        assert!(!starts_process_1("root on a hub"));
        assert!(
            process_1_rank("start_init: trying /sbin/init") < process_1_rank("Trying to mount root from ufs:/dev/x")
        );
        assert!(mounts_root("root file system type: ffs") && !mounts_root("Trying to mount root from ufs:/dev/x"));
    }

    #[test]
    fn a_log_without_times_is_named() {
        for (line, name) in [
            ("OpenBSD 7.2 (RAMDISK_CD) #725: Tue Sep 27 12:02:48 MDT 2022", "OpenBSD's"),
            ("Copyright (c) 1992-2021 The FreeBSD Project.", "FreeBSD's"),
            ("DragonFly v6.4.0-RELEASE #0: x", "DragonFly's"),
        ] {
            assert!(without_times(line).is_some_and(|text| text.starts_with(name)), "{line}");
        }
        assert_eq!(without_times("FreeBSD clang version 15.0.7"), None);
    }
}
