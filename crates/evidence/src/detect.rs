//! What a file holds, told by its content and never by its name.
//!
//! A capture of a serial line can hold several things one after the other (firmware, kernel, a
//! dump between markers), so every line is looked at and each kind that was found is reported, the
//! one with the most lines first. Containers are told by their first bytes.

use crate::kernel_log::{Prefix, kmsg_record};
use crate::text::{Line, Lines};
use crate::tslog;
use std::ops::Range;

/// A kind of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Text of `/sys/kernel/tracing/trace`: [`crate::ftrace`].
    Trace,
    /// Records of `/dev/kmsg`: [`crate::kernel_log`].
    Kmsg,
    /// Kernel messages as dmesg or a console prints them, perhaps with a logger's stamps: [`crate::kernel_log`].
    KernelLog,
    /// A launch as libguestfs' boot-analysis prints it: [`crate::guestfs`].
    Guestfs,
    /// SeaBIOS's debug lines: [`crate::firmware`].
    SeaBios,
    /// `/proc/kallsyms`.
    Kallsyms,
    /// FreeBSD's `debug.tslog`: [`crate::tslog`].
    Tslog,
    /// FreeBSD's `debug.tslog_user`: [`crate::tslog`].
    TslogUser,
    /// Compressed by gzip.
    Gzip,
    /// Compressed by zstd, as a packed recording is.
    Zstd,
    /// Text of no kind that is known.
    Text,
    /// No text.
    Binary,
}

impl std::fmt::Display for Format {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Format::Trace => "kernel trace",
            Format::Kmsg => "kernel log records",
            Format::KernelLog => "kernel log",
            Format::Guestfs => "libguestfs events",
            Format::SeaBios => "SeaBIOS debug lines",
            Format::Kallsyms => "kernel symbols",
            Format::Tslog => "TSLOG dump",
            Format::TslogUser => "TSLOG process table",
            Format::Gzip => "compressed by gzip: unpack it first",
            Format::Zstd => "compressed by zstd: unpack it first",
            Format::Text => "text of no known kind",
            Format::Binary => "no text",
        })
    }
}

/// A kind that was found, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// What.
    pub format: Format,
    /// How many lines are of it; 0 for what has no lines.
    pub lines: u64,
    /// Where its first line starts.
    pub start: usize,
    /// Where its last line ends.
    pub end: usize,
}

/// What the bytes hold, most lines first; nothing only for an empty file.
pub fn detect(bytes: &[u8]) -> Vec<Found> {
    detect_in(bytes, std::slice::from_ref(&(0..bytes.len())))
}

/// The same, of some whole lines of a file only: somebody knows the others.
pub(crate) fn detect_in(bytes: &[u8], parts: &[Range<usize>]) -> Vec<Found> {
    let whole = |format| Found { format, lines: 0, start: 0, end: bytes.len() };
    match bytes {
        [] => return Vec::new(),
        [0x1f, 0x8b, ..] => return vec![whole(Format::Gzip)],
        [0x28, 0xb5, 0x2f, 0xfd, ..] => return vec![whole(Format::Zstd)],
        _ => {}
    }
    let mut found: Vec<Found> = Vec::new();
    for (line, from) in parts.iter().flat_map(|part| Lines::new(&bytes[part.clone()]).map(|line| (line, part.start))) {
        let Some(format) = format_of(line) else { continue };
        let (start, end) = (from + line.offset, from + line.offset + line.bytes.len());
        match found.iter_mut().find(|f| f.format == format) {
            Some(known) => (known.lines, known.end) = (known.lines + 1, end),
            None => found.push(Found { format, lines: 1, start, end }),
        }
    }
    // Loggers put their stamps before each line, and then only they know what is behind them.
    if found.is_empty() {
        found.push(whole(if looks_binary(bytes) { Format::Binary } else { Format::Text }));
    }
    // Stable: of equals, what came first.
    found.sort_by_key(|f| std::cmp::Reverse(f.lines));
    found
}

fn format_of(line: Line<'_>) -> Option<Format> {
    let text = line.bytes.strip_suffix(b"\r").unwrap_or(line.bytes);
    let first = *text.first()?;
    // Before all others: these events quote lines of the kernel and of the firmware.
    if crate::guestfs::is_event(text) {
        return Some(Format::Guestfs);
    }
    match first {
        b'S' if text.starts_with(b"SeaBIOS (version ") => return Some(Format::SeaBios),
        b'0' if text.starts_with(b"0x") => return tslog::is_record(text).then_some(Format::Tslog),
        b'0'..=b'9' if tslog::is_process(text) => return Some(Format::TslogUser),
        b'#' if text.starts_with(b"# tracer: ") => return Some(Format::Trace),
        b'[' | b'<' if Prefix::strip(text).0.stamped => return Some(Format::KernelLog),
        b'[' if has_date(text) => return Some(Format::KernelLog),
        b'0'..=b'9' if kmsg_record(text).is_some() => return Some(Format::Kmsg),
        b'0'..=b'9' | b'a'..=b'f' if is_symbol(text) => return Some(Format::Kallsyms),
        _ => {}
    }
    if crate::ftrace::is_event(line) {
        return Some(Format::Trace);
    }
    (has_kernel_stamp(text) || is_kernel_message(text)).then_some(Format::KernelLog)
}

/// `[Sat Nov 21 07:17:05 2026] text`, as `dmesg -T` prints it.
fn has_date(text: &[u8]) -> bool {
    const DAYS: [&[u8]; 7] = [b"[Mon ", b"[Tue ", b"[Wed ", b"[Thu ", b"[Fri ", b"[Sat ", b"[Sun "];
    DAYS.iter().any(|day| text.starts_with(day)) && text.get(25) == Some(&b']')
}

/// `ffffffff81000000 T _text`
fn is_symbol(text: &[u8]) -> bool {
    let Some(space) = text.iter().take(17).position(|&b| b == b' ').filter(|at| [8, 16].contains(at)) else {
        return false;
    };
    text[..space].iter().all(u8::is_ascii_hexdigit)
        && text.get(space + 1).is_some_and(u8::is_ascii_alphabetic)
        && text.get(space + 2) == Some(&b' ')
        && text.len() > space + 3
}

/// A stamp of printk's behind those of a logger: within the first bytes of the line.
fn has_kernel_stamp(text: &[u8]) -> bool {
    const LOOKED_AT: usize = 80;
    let start = &text[..text.len().min(LOOKED_AT)];
    memchr::memchr_iter(b'[', start).skip_while(|&at| at == 0).any(|at| Prefix::strip(&text[at..]).0.stamped)
}

/// What only a kernel says, for logs without any stamps.
fn is_kernel_message(text: &[u8]) -> bool {
    if text.starts_with(b"calling  ") || text.starts_with(b"Linux version ") {
        return true;
    }
    text.starts_with(b"initcall ") && memchr::memmem::find(text, b" returned ").is_some()
}

/// Text has no NULs to speak of; consoles have a few.
fn looks_binary(bytes: &[u8]) -> bool {
    const LOOKED_AT: usize = 4096;
    let start = &bytes[..bytes.len().min(LOOKED_AT)];
    memchr::memchr_iter(0, start).count() * 32 > start.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &[(Format, u64)]) -> Vec<Found> {
        let found = detect(bytes);
        let short: Vec<_> = found.iter().map(|f| (f.format, f.lines)).collect();
        assert_eq!(short, expected);
        found
    }

    #[test]
    fn dates_of_dmesg() {
        let text = b"[Sat Nov 21 07:17:05 2026] smp: up\n[Sat Nov 21 07:17:06 2026] x\n";
        assert_eq!(detect(text).iter().map(|f| (f.format, f.lines)).collect::<Vec<_>>(), [(Format::KernelLog, 2)]);
        assert_eq!(detect(b"[Saturday] hello\n")[0].format, Format::Text);
    }

    #[test]
    fn each_format_by_a_line_or_two() {
        check(b"# tracer: nop\n#\n  init-1  [000] .....  1.5: initcall_level: level=early\n", &[(Format::Trace, 2)]);
        check(b"6,1,0,-;Linux version 6.1\n SUBSYSTEM=x\n7,2,1,-;b\n", &[(Format::Kmsg, 2)]);
        check(b"[    0.000000] a\r\n<6>[    0.100000] b\nlogin:\n", &[(Format::KernelLog, 2)]);
        check(b"[0.1 0.1] [    0.000000] a\n", &[(Format::KernelLog, 1)]);
        check(b"calling  a+0x0/0x1 @ 1\ninitcall a+0x0/0x1 returned 0 after 1 usecs\n", &[(Format::KernelLog, 2)]);
        check(b"ffffffff81000000 T _text\nffffffff81000001 t foo [mod]\n", &[(Format::Kallsyms, 2)]);
        check(b"0xfffff80 123 ENTER mi_startup\n0x0 124 EVENT WAIT x y\n", &[(Format::Tslog, 2)]);
        check(b"98 0 0 0 \"\" \"\"\n1 0 5 0 \"/sbin/init\" \"dev\"\n", &[(Format::TslogUser, 2)]);
        check(b"    #1: +5 [appliance] \"[    0.000000] a\"\n0.1ms [trace] \"launch\"\n", &[(Format::Guestfs, 2)]);
        check(b"\x28\xb5\x2f\xfd....", &[(Format::Zstd, 0)]);
        check(b"\x1f\x8b\x08", &[(Format::Gzip, 0)]);
        check(b"hello\n", &[(Format::Text, 0)]);
        check(&[0; 64], &[(Format::Binary, 0)]);
        check(b"", &[]);
    }

    #[test]
    fn several_in_one_capture() {
        let bytes = b"SeaBIOS (version 1.16.2)\nBooting\n[    0.000000] Linux version 6.1\n[    0.100000] b\n";
        let found = check(bytes, &[(Format::KernelLog, 2), (Format::SeaBios, 1)]);
        assert_eq!((found[0].start, found[0].end), (33, 82));
    }
}
