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
