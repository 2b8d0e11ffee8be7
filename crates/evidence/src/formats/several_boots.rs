//! Numbers of boots in a log of several.

/// The number of a boot with this many behind it: 0, -1, …
pub(crate) fn boot_number(behind: usize) -> String {
    if behind == 0 { "0".to_owned() } else { format!("-{behind}") }
}
