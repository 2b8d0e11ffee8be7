//! The journal as `journalctl -o verbose` prints it: each entry has a line with its date and cursor, and then a field in each line.
//!
//! ```text
//! Tue 2026-11-24 13:58:21.337100 UTC [s=4d80…;i=1;b=e7c7…;m=12d1554;t=661061a6d5e0c;x=a755…]
//!     _TRANSPORT=kernel
//!     MESSAGE=Linux version 6.1.0
//! ```
//! (systemd's `src/shared/logs-show.c`, output_verbose.) The cursor has the boot, and the time when journald got the message, in
//! hexadecimal µs.

use super::{Entry, FIELD_BYTES_MAX, Journal, NAME, is_field, text};
use crate::input::text::{Lines, word};
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// The boot's id and the time in the line that an entry begins with.
fn head(line: &[u8]) -> Option<(&[u8], Ns)> {
    let at = memchr::memmem::find(line, b" [s=")?;
    let cursor = line[at + 2..].strip_suffix(b"]")?;
    let field = |key: &[u8]| cursor.split(|byte| *byte == b';').find_map(|field| field.strip_prefix(key));
    let us = i64::from_str_radix(std::str::from_utf8(field(b"m=")?).ok()?, 16).ok()?;
    Some((field(b"b=")?, Ns(us.checked_mul(1000).filter(|ns| *ns >= 0)?)))
}

/// True if bytes begin with an entry.
pub(super) fn begins(bytes: &[u8]) -> bool {
    let mut lines = Lines::new(bytes).map(|line| line.bytes).filter(|line| !line.starts_with(b"-- "));
    lines.next().is_some_and(|line| head(line).is_some())
}

/// Adds the entries. Further lines of a value are left out.
pub(super) fn read(journal: &mut Journal, file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) {
    let mut entry = Entry::default();
    for line in Lines::new(bytes) {
        let place = || format!("{file}:{}", line.number);
        if let Some((boot, at)) = head(line.bytes) {
            journal.add(std::mem::take(&mut entry), place, diagnostics);
            entry.boot = text(boot, FIELD_BYTES_MAX);
            (entry.received, entry.has_field) = (Some(at), true);
        } else if let Some(field) = line.bytes.strip_prefix(b"    ") {
            let equals = memchr::memchr(b'=', field).filter(|at| is_field(&field[..*at]));
            equals.into_iter().for_each(|at| entry.set(&field[..at], &field[at + 1..]));
        } else if !line.bytes.is_empty() && word(line.bytes).0 != b"--" {
            diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, place);
        }
    }
    journal.add(entry, || file.to_owned(), diagnostics);
}
