//! UEFI's times of a boot: the ACPI table FPDT, the record that it points to, or the values that Linux shows from both
//! in `/sys`.
//!
//! ```text
//! FPDT   ACPI header of 36 bytes, then records of 16 bytes: type 0 has the address of the boot's table, type 1 that of resume
//! FBPT   "FBPT", length; then records: type 2, 48 bytes, has five u64 in ns since reset, from 8 bytes on:
//!        end of reset, loader is loaded, loader is started, ExitBootServices is called, ExitBootServices returns
//! S3PT   the same of the last resume from sleep
//! /sys/firmware/acpi/fpdt/boot/bootloader_launch_ns:5855973785       `grep . /sys/firmware/acpi/fpdt/boot/*`, and in a tar
//! ```
//! (ACPI specification 6.5, section 5.2.24, all numbers little-endian; Linux,
//! `Documentation/ABI/testing/sysfs-firmware-acpi`.) A value that the firmware never set is 0. The FPDT itself has
//! addresses and no times: it is recognised so that `import` can say which data is missing. Its checksum is the sum of
//! all its bytes, which must be 0.
//!
//! All of it happens before the kernel. [`crate::readers::before_kernel`] places it.

use crate::formats::steps::{Step, Steps};
use crate::input::text::{Lines, whole_number};
use timeline::{DiagnosticKind, Diagnostics, Ns, Phase};

/// The program's name in views.
const PROGRAM: &str = "UEFI firmware";
pub(crate) const TABLE: &[u8] = b"FPDT";
pub(crate) const BOOT_TABLE: &[u8] = b"FBPT";
pub(crate) const RESUME_TABLE: &[u8] = b"S3PT";
pub(crate) const ACPI_HEADER_BYTES: usize = 36;
pub(crate) const BOOT_TABLE_HEADER_BYTES: usize = 8;
/// The record with the times of a boot.
const BOOT_RECORD: (u16, usize) = (2, 48);

/// The five times: Linux's name of each, the name of the step, and the phase that begins there.
const TIMES: [(&str, &str, Option<Phase>); 5] = [
    ("firmware_start_ns", "firmware runs", None),
    ("bootloader_load_ns", "load the boot loader", None),
    ("bootloader_launch_ns", "boot loader", Some(Phase::Loader)),
    ("exitbootservice_start_ns", "ExitBootServices", None),
    ("exitbootservice_end_ns", "ExitBootServices done", None),
];

/// The times of a boot, in ns since reset; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times(pub [u64; 5]);

/// Reads a little-endian number of up to 8 bytes.
fn number_at(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// True if the bytes begin with this signature and a plausible length.
pub(crate) fn is_table(bytes: &[u8], signature: &[u8], header_bytes: usize) -> bool {
    let length = number_at(bytes, 4, 4).and_then(|length| usize::try_from(length).ok());
    bytes.starts_with(signature) && length.is_some_and(|length| length >= header_bytes)
}

/// Checks an FPDT's checksum, if the file has all its bytes.
fn check(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) {
    let length = number_at(bytes, 4, 4).and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    match bytes.get(..length) {
        None => diagnostics.note_about(DiagnosticKind::FileCut, file, || file.to_owned()),
        Some(table) => {
            if table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) != 0 {
                diagnostics.note(DiagnosticKind::FpdtChecksumWrong, || file.to_owned());
            }
        }
    }
}

/// Reads the times in a boot table.
fn boot_table(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Option<Times> {
    let length = number_at(bytes, 4, 4).and_then(|length| usize::try_from(length).ok())?;
    if bytes.len() < length {
        diagnostics.note_about(DiagnosticKind::FileCut, file, || file.to_owned());
    }
    let mut rest = bytes.get(BOOT_TABLE_HEADER_BYTES..length.min(bytes.len()))?;
    while let (Some(kind), Some(length)) = (number_at(rest, 0, 2), number_at(rest, 2, 1)) {
        let length = usize::try_from(length).ok()?;
        if (kind, length) == (u64::from(BOOT_RECORD.0), BOOT_RECORD.1) && rest.len() >= length {
            let time = |place: usize| number_at(rest, 8 + 8 * place, 8).unwrap_or(0);
            return Some(Times([0, 1, 2, 3, 4].map(time)));
        }
        // At least 4 bytes, so that a record with a length of 0 does not cause an endless loop.
        let Some(next) = rest.get(length.max(4)..) else { break };
        rest = next;
    }
    diagnostics.note_about(DiagnosticKind::LinesUnreadable, PROGRAM, || file.to_owned());
    None
}

/// Reads the name and value of one of Linux's files: `…/bootloader_launch_ns:5855973785`. The separator may also be `=`
/// or spaces.
pub(crate) fn value(line: &[u8]) -> Option<(usize, u64)> {
    let line = line.trim_ascii();
    let digits = line.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, digits) = line.split_at(line.len() - digits);
    let value = whole_number(digits)?;
    let name = before.trim_ascii_end().strip_suffix(b":").or_else(|| before.trim_ascii_end().strip_suffix(b"="));
    let name = name.unwrap_or(before.trim_ascii_end()).trim_ascii_end();
    let which = TIMES.iter().position(|(file, ..)| name.ends_with(file.as_bytes()))?;
    let directory = &name[..name.len() - TIMES[which].0.len()];
    (directory.is_empty() || directory.ends_with(b"/")).then_some((which, value))
}

/// The times as steps, in ns since reset.
pub fn steps(times: Times, file: &str, diagnostics: &mut Diagnostics) -> Steps {
    let mut steps = Steps::new(PROGRAM, Ns(1));
    let known = times.0.iter().zip(TIMES).filter(|(ns, _)| **ns > 0);
    for (ns, (_, name, begins)) in known {
        let Ok(at) = i64::try_from(*ns) else {
            diagnostics.note_about(DiagnosticKind::LinesUnreadable, PROGRAM, || file.to_owned());
            continue;
        };
        if steps.steps.is_empty() {
            let reset = Step { at: Ns::ZERO, name: "reset".to_owned(), begins: Some(Phase::Firmware) };
            steps.add(reset, diagnostics, String::new);
        }
        steps.add(Step { at: Ns(at), name: name.to_owned(), begins }, diagnostics, || format!("{file}: {name}"));
    }
    steps.hands_over = times.0[4] > 0;
    steps
}

/// Reads a file. The result has no times if the file has none.
pub fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Times {
    if is_table(bytes, TABLE, ACPI_HEADER_BYTES) {
        check(file, bytes, diagnostics);
        diagnostics.note(DiagnosticKind::FpdtWithoutTimes, || file.to_owned());
        return Times::default();
    }
    if is_table(bytes, BOOT_TABLE, BOOT_TABLE_HEADER_BYTES) {
        return boot_table(file, bytes, diagnostics).unwrap_or_default();
    }
    if is_table(bytes, RESUME_TABLE, BOOT_TABLE_HEADER_BYTES) {
        diagnostics.note(DiagnosticKind::FpdtOfResume, || file.to_owned());
        return Times::default();
    }
    let mut times = Times::default();
    for (which, ns) in Lines::new(bytes).filter_map(|line| value(line.bytes)) {
        times.0[which] = ns;
    }
    // In a tar of the directory, each value is a file, and only its name shows which value it is.
    if let (Some(ns), Some(which)) = (whole_number(bytes.trim_ascii()), by_name(file)) {
        times.0[which] = ns;
    }
    times
}

/// The index of the time that a file of Linux's directory has.
pub(crate) fn by_name(file: &str) -> Option<usize> {
    let name = file.rsplit(['/', ':']).next()?;
    TIMES.iter().position(|(of, ..)| *of == name)
}
