//! Devices that still wait for a probe, as `/sys/kernel/debug/devices_deferred` lists them (`drivers/base/dd.c`).
//!
//! ```text
//! fe2b0000.mmc    platform: wait for supplier /syscon@fdc20000/io-domains
//! cpufreq-dt
//! ```
//! A tab stands before the reason. Kernels before 5.11 list devices alone. Only a supplier makes a list recognisable.

use crate::input::records_max;
use crate::input::text::{Lines, lossy};
use timeline::{DiagnosticKind, Diagnostics};

/// The name of this evidence in diagnostics.
const NAME: &str = "devices_deferred";
/// The bytes of memory for a device with its reason.
const ROW_COST: usize = 160;

/// Devices and reasons, in the order of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DevicesDeferred {
    pub(crate) devices: Vec<(String, String)>,
}

impl DevicesDeferred {
    /// Reads a list. Counts what is not of its form, and devices beyond the bound.
    pub(crate) fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> DevicesDeferred {
        let mut list = DevicesDeferred::default();
        let most = records_max(bytes.len(), ROW_COST);
        for line in Lines::new(bytes).filter(|line| !line.bytes.is_empty()) {
            let place = || format!("{file}:{}", line.number);
            match device(line.bytes) {
                Some(_) if list.devices.len() >= most => {
                    diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, place);
                }
                Some((device, why)) => list.devices.push((lossy(device).into_owned(), lossy(why).into_owned())),
                None => diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, place),
            }
        }
        list
    }
}

/// True if a line is certainly of this list: it names a supplier.
pub(crate) fn is_line(line: &[u8]) -> bool {
    let why = memchr::memchr(b'\t', line).map(|tab| &line[tab + 1..]);
    device(line).is_some() && why.is_some_and(|why| memchr::memmem::find(why, b"supplier ").is_some())
}

/// The device, and the reason or nothing.
fn device(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (device, why) = match memchr::memchr(b'\t', line) {
        Some(tab) => (&line[..tab], &line[tab + 1..]),
        None => (line, &line[line.len()..]),
    };
    let is_name = !device.is_empty() && device.iter().all(|b| b.is_ascii_graphic());
    is_name.then_some((device, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_their_reasons() {
        let text = b"fe2b0000.mmc\tplatform: wait for supplier /syscon@fdc20000/io-domains\ncpufreq-dt\t\n1-0008\nnot a name\n";
        let mut diagnostics = Diagnostics::default();
        let found = DevicesDeferred::read("f", text, &mut diagnostics).devices;
        let found: Vec<_> = found.iter().map(|(device, why)| (device.as_str(), why.as_str())).collect();
        let mmc = ("fe2b0000.mmc", "platform: wait for supplier /syscon@fdc20000/io-domains");
        assert_eq!(found, [mmc, ("cpufreq-dt", ""), ("1-0008", "")]);
        assert_eq!(diagnostics.count(DiagnosticKind::LinesUnreadable), 1);
    }

    #[test]
    fn only_a_supplier_makes_a_line_certain() {
        assert!(is_line(b"fdab0000.npu\tplatform: supplier 2-0042 not ready"));
        for other in ["cpufreq-dt\t", "1-0008", "a b\tsupplier c", "\tsupplier c", "dummy\tother"] {
            assert!(!is_line(other.as_bytes()), "{other}");
        }
    }
}
