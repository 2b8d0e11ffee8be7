//! coreboot's timestamps as they lie in memory: `cbmem -r 54494d45`, or Linux's
//! `/sys/bus/coreboot/devices/cbmem-54494d45/mem`.
//!
//! ```text
//! u64 base   u16 places   u16 ticks in a µs   u32 entries   then for each: u32 id, i64 ticks since the base
//! ```
//! All numbers are little-endian, and nothing fills up. (coreboot, `timestamp_serialized.h`.) The table becomes the text of `cbmem -t`. A
//! stamp before the counter's zero moves all of them, so that the first is at 0.

use std::fmt::Write as _;

const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 12;
/// Far more than coreboot has room for.
const PLACES_MAX: usize = 4096;
const MHZ_MAX: u16 = 20_000;
const IDS: std::ops::Range<u32> = 1..2000;
/// One of these is in each table: the starts of coreboot's stages.
const STAGES: [u32; 3] = [1, 10, 11];
/// A boot takes less, in µs.
const US_MAX: i128 = 3_600_000_000;

/// The stamps that most boards have, as `cbmem` names them.
const NAMES: [(u32, &str); 31] = [
    (0, "1st timestamp"),
    (1, "start of romstage"),
    (2, "before RAM initialization"),
    (3, "after RAM initialization"),
    (4, "end of romstage"),
    (5, "start of verified boot"),
    (6, "end of verified boot"),
    (8, "starting to load ramstage"),
    (9, "finished loading ramstage"),
    (10, "start of ramstage"),
    (11, "start of bootblock"),
    (12, "end of bootblock"),
    (13, "starting to load romstage"),
    (14, "finished loading romstage"),
    (30, "early chipset initialization"),
    (31, "device enumeration"),
    (40, "device configuration"),
    (50, "device enable"),
    (60, "device initialization"),
    (65, "Option ROM initialization"),
    (67, "Option ROM run done"),
    (70, "device setup done"),
    (75, "cbmem post"),
    (80, "write tables"),
    (85, "finalize chips"),
    (90, "starting to load payload"),
    (98, "ACPI wake jump"),
    (99, "selfboot jump"),
    (100, "start of postcar"),
    (101, "end of postcar"),
    (1101, "jumping to kernel"),
];

/// Each stamp's time in µs and its id, in order of time; `None` for other bytes.
fn stamps(bytes: &[u8]) -> Option<Vec<(i128, u32)>> {
    let base = i64::from_le_bytes(*bytes.first_chunk()?);
    let places = usize::from(u16::from_le_bytes(*bytes.get(8..)?.first_chunk()?));
    let mhz = u16::from_le_bytes(*bytes.get(10..)?.first_chunk()?);
    let entries = u32::from_le_bytes(*bytes.get(12..)?.first_chunk()?) as usize;
    let is_header = (2..=places).contains(&entries) && places <= PLACES_MAX && (1..=MHZ_MAX).contains(&mhz);
    let table = bytes.get(HEADER_BYTES..)?.get(..entries * ENTRY_BYTES).filter(|_| is_header && base >= 0)?;
    let entry = |entry: &[u8]| -> Option<(i128, u32)> {
        let id = u32::from_le_bytes(*entry.first_chunk()?);
        let ticks = i64::from_le_bytes(*entry.get(4..)?.first_chunk()?);
        let us = (i128::from(base) + i128::from(ticks)).div_euclid(mhz.into());
        (IDS.contains(&id) && us.abs() < US_MAX).then_some((us, id))
    };
    let mut all: Vec<(i128, u32)> = table.chunks_exact(ENTRY_BYTES).map(entry).collect::<Option<_>>()?;
    all.iter().any(|(_, id)| STAGES.contains(id)).then_some(())?;
    all.push((i128::from(base) / i128::from(mhz), 0));
    all.sort_by_key(|(us, _)| *us);
    let early = all.first().map_or(0, |(us, _)| (*us).min(0));
    all.iter_mut().for_each(|(us, _)| *us -= early);
    all.last().is_some_and(|(us, _)| *us < US_MAX).then_some(all)
}

/// True for such a table.
pub(crate) fn is_table(bytes: &[u8]) -> bool {
    stamps(bytes).is_some()
}

/// The table as `cbmem -t` prints it.
pub(crate) fn text(bytes: &[u8]) -> Option<Vec<u8>> {
    let stamps = stamps(bytes)?;
    let mut out = format!("{} entries total:\n\n", stamps.len());
    let mut last = 0;
    for (us, id) in stamps {
        let name = NAMES.iter().find(|(known, _)| *known == id).map(|(_, name)| *name);
        let name = name.map_or_else(|| format!("stamp {id}"), str::to_owned);
        let _ = writeln!(out, "{id:4}:{name:<50} {us} ({})", us - last);
        last = us;
    }
    Some(out.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::cbmem::read;
    use timeline::{Diagnostics, Ns};

    fn table(base: u64, mhz: u16, entries: &[(u32, i64)]) -> Vec<u8> {
        let mut bytes = base.to_le_bytes().to_vec();
        bytes.extend(192_u16.to_le_bytes());
        bytes.extend(mhz.to_le_bytes());
        bytes.extend(u32::try_from(entries.len()).unwrap().to_le_bytes());
        entries.iter().for_each(|(id, ticks)| {
            bytes.extend(id.to_le_bytes());
            bytes.extend(ticks.to_le_bytes());
        });
        // The memory of the places that are free.
        bytes.extend([0; 64]);
        bytes
    }

    fn steps(bytes: &[u8]) -> Vec<(String, Ns)> {
        let steps = read("t", &text(bytes).unwrap(), &mut Diagnostics::default());
        steps.steps.into_iter().map(|step| (step.name, step.at)).collect()
    }

    #[test]
    fn stamps_are_ticks_since_the_base() {
        let bytes = table(4_000, 2_000, &[(11, 20_000), (10, 400_000), (77, 401_000)]);
        let expected = [
            ("reset", 0),
            ("1st timestamp", 2),
            ("start of bootblock", 12),
            ("start of ramstage", 202),
            ("stamp 77", 202),
        ];
        assert_eq!(steps(&bytes), expected.map(|(name, us)| (name.to_owned(), Ns::from_us(us))));
    }

    #[test]
    fn a_stamp_before_the_counters_zero_moves_all() {
        let bytes = table(1_000, 1, &[(990, -3_000), (1, 500)]);
        let expected = [("stamp 990", 0), ("1st timestamp", 3_000), ("start of romstage", 3_500)];
        assert_eq!(steps(&bytes), expected.map(|(name, us)| (name.to_owned(), Ns::from_us(us))));
    }

    #[test]
    fn other_bytes_are_no_table() {
        let good = table(4_000, 2_000, &[(11, 20_000), (10, 400_000)]);
        assert!(is_table(&good));
        for cut in 0..HEADER_BYTES + 2 * ENTRY_BYTES {
            assert!(!is_table(&good[..cut]));
        }
        assert!(!is_table(&table(0, 0, &[(11, 1), (10, 2)])) && !is_table(&table(0, 1, &[(11, 1), (70_000, 2)])));
        assert!(!is_table(&table(0, 1, &[(60, 1), (70, 2)])) && !is_table(&table(0, 1, &[(11, 1), (10, i64::MAX)])));
        assert!(!is_table(&[0; 4096]) && !is_table(&[0xff; 4096]) && !is_table(&[1; 4096]));
    }
}
