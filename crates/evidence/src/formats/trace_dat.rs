//! Converts trace-cmd's file of a kernel's trace, `trace.dat`, to the text that the kernel would print.
//!
//! ```text
//! 17 08 44 "tracing" "6\0" or "7\0"   byte order, bytes of a long, bytes of a page
//! version 6   header_page, header_event, formats of events, kallsyms, printk formats, names of threads, options, a list of
//!             the CPUs' places ("flyrecord"), one behind the other
//! version 7   name and version of the compression, place of the first options; options have the place of each section
//! ```
//! (trace-cmd-dat.v6(5), trace-cmd-dat.v7(5).) A CPU's data are the pages of the kernel's ring buffer;
//! [`trace_records`] reads them and prints the lines. The file has the format of each event, so the trace of any kernel
//! can be read.
//!
//! Stamps here have all their digits, unlike in the kernel's own text. [`UNPACKED_BYTES_MAX`] bounds the memory for
//! unpacked data and for the text. The file's places and lengths are checked before use.

mod formats;
mod pages;
mod parts;

pub(crate) use formats::Formats;

use crate::input::UNPACKED_BYTES_MAX;
use crate::input::text::{Lines, lossy};
use pages::{Item, Items};
use parts::Parts;
use std::collections::HashMap;
use timeline::{DiagnosticKind, Diagnostics};
use trace_records::{Forms, Names, Printer, Stamps};

const MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// The text has at most this number of bytes for each byte of records, plus [`TEXT_BYTES_SMALL`], and never more than
/// [`UNPACKED_BYTES_MAX`]. A line of a real trace is two to four times as long as its record.
const TEXT_RATIO_MAX: usize = 4;
const TEXT_BYTES_SMALL: usize = 16 << 20;

pub(crate) fn text_bytes_max(records_bytes: usize) -> usize {
    let most = usize::try_from(UNPACKED_BYTES_MAX).unwrap_or(usize::MAX);
    records_bytes.saturating_mul(TEXT_RATIO_MAX).saturating_add(TEXT_BYTES_SMALL).min(most)
}
/// Clocks of Linux's trace that do not count nanoseconds.
const COUNTERS: [&str; 3] = ["x86-tsc", "counter", "uptime"];

/// Reads the formats of events from perf's data about tracepoints, which begin like version 6.
pub(crate) fn formats(bytes: &[u8]) -> Option<Formats> {
    parts::formats(bytes)
}

/// Recognises such a file by its first bytes. Returns its version in words.
pub(crate) fn recognise(bytes: &[u8]) -> Option<&'static str> {
    match bytes.strip_prefix(MAGIC)?.first_chunk()? {
        b"6\0" => Some("kernel trace (trace.dat, version 6)"),
        b"7\0" => Some("kernel trace (trace.dat, version 7)"),
        _ => None,
    }
}

/// Returns the first trace of a file as the text that the kernel would print. It is empty if nothing can be read.
/// Counts lost and left-out events.
pub fn text(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Vec<u8> {
    let unreadable = |why: &str, diagnostics: &mut Diagnostics| {
        diagnostics.note(DiagnosticKind::TraceFileUnreadable, || format!("{file}: {why}"));
        Vec::new()
    };
    let parts = match Parts::read(bytes) {
        Ok(parts) => parts,
        Err(why) => return unreadable(why, diagnostics),
    };
    for what in &parts.unused {
        diagnostics.note(DiagnosticKind::TracePartUnused, || format!("{file}: {what}"));
    }
    let Some(forms) = Forms::of(&parts.formats) else {
        return unreadable("it has no formats of events", diagnostics);
    };
    let items = Items::of(&parts);
    if items.damaged > 0 || parts.is_cut {
        let pages = items.damaged.max(1);
        diagnostics.note_many(DiagnosticKind::TracePageDamaged, pages, || file.to_owned());
    }
    let names = Names::new(functions(&parts.kallsyms, parts.long_bytes), 0);
    let stamps = if is_in_ns(&parts) { Stamps::Nanoseconds } else { Stamps::Counter };
    let mut printer = Printer::new(&forms, &parts.formats.numbers, &names, stamps);
    items.all.iter().for_each(|item| printer.learn(items.record(item)));
    for line in Lines::new(&parts.threads) {
        let (pid, name) = crate::input::text::word(line.bytes);
        if let Some(pid) = crate::input::text::whole_number(pid).and_then(|pid| u32::try_from(pid).ok()) {
            printer.know(pid, name);
        }
    }
    lines(file, &parts, &items, &mut printer, diagnostics)
}

/// Prints all lines, below the heading that the kernel writes.
fn lines(file: &str, parts: &Parts, items: &Items, printer: &mut Printer, diagnostics: &mut Diagnostics) -> Vec<u8> {
    let kept = items.all.len() as u64;
    // Pages note the losses before them too: do not count these twice.
    let noted = items.all.iter().map(|item| item.lost).filter(|lost| *lost != u64::MAX).fold(0, u64::saturating_add);
    let written = kept.saturating_add(parts.overwritten.saturating_sub(noted));
    let cpus = parts.cpus.len();
    let mut out = format!("# tracer: nop\n#\n# entries-in-buffer/entries-written: {kept}/{written}   #P:{cpus}\n#\n")
        .into_bytes();
    let (mut unknown, mut left_out) = (0, items.beyond);
    let most = text_bytes_max(parts.cpus.iter().map(|cpu| cpu.pages.len()).sum());
    for (place, item) in items.all.iter().enumerate() {
        if out.len() > most {
            left_out += (items.all.len() - place) as u64;
            break;
        }
        match item.lost {
            0 => {}
            u64::MAX => out.extend_from_slice(format!("CPU:{} [LOST EVENTS]\n", item.cpu).as_bytes()),
            lost => out.extend_from_slice(format!("CPU:{} [LOST {lost} EVENTS]\n", item.cpu).as_bytes()),
        }
        unknown += u64::from(!printer.line(items.record(item), item.cpu, stamp(parts, item), &mut out));
    }
    diagnostics.add(DiagnosticKind::EntriesBeyondBound, file, left_out, None, || file.to_owned());
    diagnostics.note_many(DiagnosticKind::TraceEventDamaged, unknown, || file.to_owned());
    out
}

/// Returns a record's stamp, converted to nanoseconds if the file has the rule for its counter.
fn stamp(parts: &Parts, item: &Item) -> u64 {
    let Some(rule) = parts.tsc_to_ns else { return item.stamp };
    let ns = (u128::from(item.stamp) * u128::from(rule.multiplier)) >> rule.shift.min(64);
    u64::try_from(ns).unwrap_or(u64::MAX).wrapping_add(rule.offset)
}

fn is_in_ns(parts: &Parts) -> bool {
    parts.tsc_to_ns.is_some() || !COUNTERS.contains(&parts.clock.as_str())
}

/// Reads functions by address from a copy of `/proc/kallsyms`. With four-byte longs, the sign bit is extended.
fn functions(kallsyms: &[u8], long_bytes: u8) -> Vec<(u64, String)> {
    let functions = Lines::new(kallsyms).filter_map(|line| {
        let mut words = line.bytes.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
        let address = u64::from_str_radix(std::str::from_utf8(address).ok()?, 16).ok()?;
        let address = if long_bytes == 4 && address >> 31 == 1 { address | u64::MAX << 32 } else { address };
        matches!(kind, b"t" | b"T" | b"w" | b"W").then(|| (address, lossy(name).into_owned()))
    });
    functions.collect()
}

/// Prints the lines of single records, as perf has them: bytes, CPU and stamp, in order of time.
pub(crate) fn lines_of(formats: &Formats, records: &[(Vec<u8>, u32, u64)], threads: &HashMap<u32, Vec<u8>>) -> Vec<u8> {
    let Some(forms) = Forms::of(formats) else { return Vec::new() };
    let names = Names::new(Vec::new(), 0);
    let mut printer = Printer::new(&forms, &formats.numbers, &names, Stamps::Nanoseconds);
    records.iter().for_each(|record| printer.learn(&record.0));
    threads.iter().for_each(|(pid, name)| printer.know(*pid, name));
    let mut out = b"# tracer: nop\n".to_vec();
    let most = text_bytes_max(records.iter().map(|(record, ..)| record.len()).sum());
    for (record, cpu, stamp) in records {
        if out.len() > most {
            break;
        }
        printer.line(record, *cpu, *stamp, &mut out);
    }
    out
}
