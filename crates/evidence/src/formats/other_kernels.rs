//! Words of kernels other than Linux in their logs: the system, its release, and the start of process 1.

use timeline::{Ns, Os};

/// A system, the words by which its log is known, and the words with which it starts process 1.
struct Words {
    os: fn() -> Os,
    /// A line of its log contains these, and no line of another system's.
    says: &'static [&'static str],
    /// The line with the release begins so; the release is the next word.
    release: &'static str,
    /// The line at which the kernel has its root and starts process 1: what it begins with, and what it contains.
    process_1: &'static [(&'static str, &'static str)],
    /// The stamp of the kernel's first line, where its clock does not begin with 0.
    clock_zero: Ns,
}

/// Sources: NetBSD's sys/kern/vfs_subr.c and init_main.c (its clock begins with 1.000000), FreeBSD's sys/kern/init_main.c and
/// vfs_mountroot.c, OpenBSD's sys/kern/subr_disk.c, illumos' uts/common/os/main.c, Unikraft's lib/ukboot/boot.c.
const SYSTEMS: [Words; 5] = [
    Words {
        os: || Os::NetBsd,
        says: &["The NetBSD Foundation"],
        release: "NetBSD ",
        process_1: &[("root file system type: ", "")],
        clock_zero: Ns::from_ms(1000),
    },
    Words {
        os: || Os::FreeBsd,
        says: &["The FreeBSD Project", "FreeBSD is a registered trademark"],
        release: "FreeBSD ",
        process_1: &[("start_init: trying ", ""), ("Trying to mount root from ", "")],
        clock_zero: Ns::ZERO,
    },
    Words {
        os: || Os::Other("OpenBSD".to_owned()),
        says: &["https://www.OpenBSD.org", "http://www.OpenBSD.org"],
        release: "OpenBSD ",
        process_1: &[("root on ", " swap on ")],
        clock_zero: Ns::ZERO,
    },
    Words {
        os: || Os::Other("illumos".to_owned()),
        says: &["SunOS Release 5."],
        release: "SunOS Release ",
        process_1: &[("root on ", " fstype ")],
        clock_zero: Ns::ZERO,
    },
    Words {
        os: || Os::Other("Unikraft".to_owned()),
        says: &["[libukboot]", "[libkvmplat]"],
        release: "Unikraft ",
        process_1: &[("Info: [libukboot]", "Calling main(")],
        clock_zero: Ns::ZERO,
    },
];

/// True if a kernel other than Linux says that it has its root and starts process 1.
pub(crate) fn starts_process_1(text: &str) -> bool {
    let words = SYSTEMS.iter().flat_map(|system| system.process_1);
    words.into_iter().any(|(begin, inside)| text.starts_with(begin) && text.contains(inside))
}

/// The system whose kernel prints this.
pub(crate) fn system(text: &str) -> Option<Os> {
    of(text).map(|system| (system.os)())
}

/// The stamp of the first line of the kernel that prints this.
pub(crate) fn clock_zero(text: &str) -> Option<Ns> {
    of(text).map(|system| system.clock_zero)
}

fn of(text: &str) -> Option<&'static Words> {
    SYSTEMS.iter().find(|system| system.says.iter().any(|words| text.contains(words)))
}

/// The release that a kernel of this system prints: `NetBSD 9.0 (GENERIC) #0: …`.
pub(crate) fn release(os: &Os, text: &str) -> Option<String> {
    let system = SYSTEMS.iter().find(|system| (system.os)() == *os)?;
    let release = text.strip_prefix(system.release)?.split_whitespace().next()?;
    release.starts_with(|c: char| c.is_ascii_digit()).then(|| release.to_owned())
}

/// True for the first words of a kernel of this kind: a log that has them again holds another boot.
pub(crate) fn is_first_message(text: &[u8]) -> bool {
    text.starts_with(b"Copyright (c) 1996, 1997, 1998, 1999, 2000")
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
        assert_eq!(system("Linux version 6.1.0"), None);
        assert!(starts_process_1("root file system type: ffs"));
        assert!(starts_process_1("root on sd0a (1a2b.a) swap on sd0b dump on sd0b"));
        assert!(!starts_process_1("root on a hub"));
    }
}
