//! Words of Linux in its log: what only it says, its first message, its root, its command line.

pub(crate) mod user_space;

/// How messages begin that only Linux prints: who it is, how it was started, what memory it got, what it calls.
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

/// Whether a message of a kernel's log is Linux's.
pub(crate) fn says(text: &str) -> bool {
    SAYS.iter().any(|begin| text.starts_with(begin)) || text.starts_with("initcall ") && text.contains(" returned ")
}

/// True for a message that Linux prints before all others, or right after them.
pub(crate) fn is_first_message(text: &str) -> bool {
    text.starts_with("Linux version ") || text.starts_with("Booting Linux on ")
}

/// Whether a message says that a file system of a device is mounted. The first such is the root's, be it the kernel that
/// mounts it or an initrd. (Each file system has words of its own: fs/ext4/super.c, fs/xfs/xfs_log.c, fs/btrfs/super.c.)
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
