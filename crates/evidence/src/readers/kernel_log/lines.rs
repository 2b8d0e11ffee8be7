//! Lines by which a file is recognised as a log of a kernel, firmware or a boot loader.

use crate::formats::kernel_log::{LoaderStamps, Loggers, Prefix, kmsg_record};
use crate::formats::{linux_words, other_kernels};
use crate::input::text;
use crate::readers::kernel_log::speakers;

/// True if a kernel, firmware or a boot loader prints this line.
pub(super) fn speaks(line: &str) -> bool {
    other_kernels::system(line).is_some() || speakers::runs_before_the_kernel(line) || linux_words::says(line)
}

/// False if no line has a time, and none says how long something took.
pub(super) fn have_times(bytes: &[u8]) -> bool {
    let has_length = |line: &[u8]| line.starts_with(b"initcall ") && memchr::memmem::find(line, b" usecs").is_some();
    let is_dated = |line: &[u8]| Prefix::strip(line).0.stamped || has_kernel_stamp(line) || has_length(line);
    Loggers::detect(bytes).name().is_some()
        || LoaderStamps::detect(bytes, &Loggers::detect(bytes)).is_any()
        || text::Lines::new(bytes).any(|line| is_dated(line.bytes) || kmsg_record(line.bytes).is_some())
}

/// `[Sat Nov 21 07:17:05 2026] text`, as `dmesg -T` prints it.
pub(super) fn has_date(text: &[u8]) -> bool {
    const DAYS: [&[u8]; 7] = [b"[Mon ", b"[Tue ", b"[Wed ", b"[Thu ", b"[Fri ", b"[Sat ", b"[Sun "];
    DAYS.iter().any(|day| text.starts_with(day)) && text.get(25) == Some(&b']')
}

/// A stamp of printk's behind those of a logger: within the first bytes of the line.
pub(super) fn has_kernel_stamp(text: &[u8]) -> bool {
    const LOOKED_AT: usize = 80;
    let start = &text[..text.len().min(LOOKED_AT)];
    memchr::memchr_iter(b'[', start).skip_while(|&at| at == 0).any(|at| Prefix::strip(&text[at..]).0.stamped)
}

/// The text behind `host kernel: `, as a journal has it.
pub(super) fn behind_origin(text: &[u8]) -> Option<&[u8]> {
    const ORIGIN: &[u8] = b" kernel: ";
    const MAX_BYTES: usize = 120;
    let at = memchr::memmem::find(&text[..text.len().min(MAX_BYTES)], ORIGIN)?;
    Some(&text[at + ORIGIN.len()..])
}

/// True if only a kernel prints this message, for logs without any stamps.
pub(super) fn is_kernel_message(text: &[u8]) -> bool {
    if text.starts_with(b"calling  ") || text.starts_with(b"Linux version ") {
        return true;
    }
    text.starts_with(b"initcall ") && memchr::memmem::find(text, b" returned ").is_some()
}
