//! Words of Linux in its log: what only it says, its first message, its root, its command line.

pub(crate) mod user_space;

/// The first words of messages that only Linux prints: of its version, start, memory, initcalls and root.
const SAYS: [&str; 9] = [
    "Linux version ",
    "Booting Linux on ",
    COMMAND_LINE,
    "BIOS-e820: ",
    "calling  ",
    "Freeing unused kernel ",
    "Freeing init memory: ",
    "Freeing initrd memory: ",
    "VFS: Mounted root ",
];
const COMMAND_LINE: &str = "Kernel command line: ";

/// True if only Linux prints this message.
pub(crate) fn says(text: &str) -> bool {
    SAYS.iter().any(|begin| text.starts_with(begin)) || text.starts_with("initcall ") && text.contains(" returned ")
}

/// True for a message that Linux prints before all others, or right after them.
pub(crate) fn is_first_message(text: &str) -> bool {
    text.starts_with("Linux version ") || text.starts_with("Booting Linux on ")
}

/// True if a message reports that a file system of a device is mounted. The first such message is the root's, whether
/// the kernel or an initrd mounts it. (Each file system has its own words: fs/ext4/super.c, fs/xfs/xfs_log.c,
/// fs/btrfs/super.c.)
pub(crate) fn mounts_a_device(text: &str) -> bool {
    const DRIVERS: [(&str, &str); 5] = [
        ("VFS: Mounted root ", ""),
        ("EXT4-fs (", "): mounted filesystem"),
        ("XFS (", "): Ending clean mount"),
        ("BTRFS info (device ", "first mount of filesystem"),
        ("F2FS-fs (", "): Mounted with"),
    ];
    DRIVERS.iter().any(|(begin, word)| text.starts_with(begin) && text.contains(word))
}

/// The kernel's release, from its banner (`Linux version 6.1.0-47-cloud-amd64 …`).
pub(crate) fn release(text: &str) -> Option<&str> {
    text.strip_prefix("Linux version ")?.split_whitespace().next()
}

/// The command line that Linux was started with, from the message that has it.
pub(crate) fn command_line(text: &str) -> Option<&str> {
    text.strip_prefix(COMMAND_LINE).map(str::trim)
}

/// The number of CPUs that run, from the message of it: `smp: Brought up 1 node, 4 CPUs`, and in older kernels `SMP: Total
/// of 4 processors activated` and `Brought up 4 CPUs`.
pub(crate) fn cpus(text: &str) -> Option<u32> {
    let text = text.strip_prefix("smp: ").or_else(|| text.strip_prefix("SMP: ")).unwrap_or(text);
    let number = match text.strip_prefix("Total of ") {
        Some(rest) => rest.split_once(" processors activated")?.0,
        None => text.strip_prefix("Brought up ")?.split_once(" CPU")?.0.rsplit(' ').next()?,
    };
    number.parse().ok().filter(|&cpus| cpus > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_cpus_is_read() {
        for (text, expected) in [
            ("smp: Brought up 1 node, 4 CPUs", Some(4)),
            ("smp: Brought up 2 nodes, 128 CPUs", Some(128)),
            ("Brought up 1 CPUs", Some(1)),
            ("smp: Brought up 1 node, 1 CPU", Some(1)),
            ("SMP: Total of 8 processors activated.", Some(8)),
            ("SMP: Total of 2 processors activated (48.00 BogoMIPS).", Some(2)),
            ("smp: Brought up 1 node, many CPUs", None),
            ("smp: Bringing up secondary CPUs ...", None),
            ("Brought up 0 CPUs", None),
            ("smpboot: Total of 4 processors activated (19161.60 BogoMIPS)", None),
        ] {
            assert_eq!(cpus(text), expected, "{text}");
        }
    }
}
