//! Checks the header of the plugin's files, for the readers of both kinds of file. Each reader passes the kinds of
//! diagnostic for a missing and for an unknown header.

use plugin_formats::NotThisHeader;
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// The header; without one, `None` and a diagnostic of the kind `missing` or `unknown`. An empty file has no
/// diagnostic.
pub(crate) fn known<H>(
    header: Result<H, NotThisHeader>,
    (place, bytes): (&str, &[u8]),
    [missing, unknown]: [DiagnosticKind; 2],
    diagnostics: &mut Diagnostics,
) -> Option<H> {
    match header {
        Ok(header) => return Some(header),
        Err(NotThisHeader::Other) if bytes.is_empty() => {}
        Err(NotThisHeader::Other) => diagnostics.note(missing, || place.to_owned()),
        Err(NotThisHeader::Unknown { version, clock }) => {
            diagnostics.note(unknown, || format!("{place}: version {version}, clock {clock}"));
        }
    }
    None
}

/// QEMU's name of the guest's architecture.
pub(crate) fn target(padded: &[u8; 8]) -> String {
    String::from_utf8_lossy(padded).trim_end_matches('\0').to_owned()
}

/// The time from `zero` to `at` on the same clock. It is clamped, not wrapped: times in the files never step back, and
/// so must not step back here.
pub(crate) fn since(zero: u64, at: u64) -> Ns {
    clamped(i128::from(at) - i128::from(zero))
}

/// A length of time, clamped to the range of [`Ns`].
pub(crate) fn clamped(ns: i128) -> Ns {
    Ns(i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX }))
}
