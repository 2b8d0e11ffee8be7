//! The header of a file of the plugin's, for the readers of both: what is wrong with it is counted by the kinds they name.
//! What is in the file, they read.

use plugin_formats::NotThisHeader;
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// The header that was read, unless it is none; `missing` and `unknown` are what it then is. An empty file lacks nothing.
pub fn known<H>(
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

/// The guest's architecture, as QEMU calls it.
pub fn target(padded: &[u8; 8]) -> String {
    String::from_utf8_lossy(padded).trim_end_matches('\0').to_owned()
}

/// From time zero to a moment of the same clock. Clamped, not wrapped: times in the files never go back, and must not here.
pub fn since(zero: u64, at: u64) -> Ns {
    clamped(i128::from(at) - i128::from(zero))
}

/// A length of time, or the longest that there is.
pub fn clamped(ns: i128) -> Ns {
    Ns(i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX }))
}
