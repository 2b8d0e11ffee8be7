//! Facts that a boot's files state beside its times: when it began on the wall clock, its boot ID, firmware and packages.
//!
//! ```text
//! recording.json     `created`, and of a capture the hash of the boot ID
//! proc-uptime.txt    the seconds that a captured machine ran
//! packages.txt       `NAME VERSION` lines
//! hardware.txt       `bios_version: …`
//! a journal          __REALTIME_TIMESTAMP, __MONOTONIC_TIMESTAMP and _BOOT_ID, in µs (systemd.journal-fields(7))
//! a kernel's log     `DMI: MODEL, BIOS VERSION DATE`; `rtc_cmos …: setting system clock to … UTC (1795684442)`
//! ```
//! A log of several boots counts for the last of them, as in `show`.

use recording::{Recording, boot_key};
use regex::bytes::{Captures, Regex};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

/// The most bytes of a file that are searched.
const MAX_BYTES: usize = 64 << 20;

/// The facts that files state.
#[derive(Debug, Default)]
pub(super) struct Marks {
    pub began: Option<SystemTime>,
    /// The hash of the boot ID; empty if unknown.
    pub boot_key: String,
    pub firmware: String,
    /// The machine's model, as its firmware states it.
    pub machine: String,
    pub packages: String,
}

impl Marks {
    /// Searches the files of a recording.
    pub(super) fn of(recording: &Recording) -> Result<Marks, recording::Error> {
        let manifest = recording.manifest();
        let mut marks = Marks { boot_key: manifest.boot_key.clone(), ..Marks::default() };
        let mut uptime = None;
        let mut bios = String::new();
        for name in recording.names() {
            let Some(bytes) = recording.read_head(name, MAX_BYTES)? else { continue };
            let text = || String::from_utf8_lossy(&bytes);
            match name {
                recording::MANIFEST_NAME => {}
                "packages.txt" => marks.packages = text().into_owned(),
                "proc-uptime.txt" => uptime = text().split(' ').next().and_then(|seconds| seconds.parse::<f64>().ok()),
                "hardware.txt" => bios = field(&text(), "bios_version: ").unwrap_or_default(),
                _ => marks.search(&bytes),
            }
        }
        if !bios.is_empty() {
            marks.firmware = bios;
        }
        let created = recording::parse_rfc3339(&manifest.created);
        let uptime = uptime.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        if manifest.outcome.is_some() {
            marks.began = created;
        } else if let Some((created, uptime)) = created.zip(uptime) {
            // By now the clock may have been set; at the boot's beginning it may not.
            marks.began = created.checked_sub(uptime);
        }
        Ok(marks)
    }

    /// Searches a journal or a log.
    fn search(&mut self, bytes: &[u8]) {
        static DMI: LazyLock<Regex> = LazyLock::new(|| regex(r"DMI: ([^\r\n]{1,200}), BIOS ([^\r\n]{1,100})"));
        static CLOCK: LazyLock<Regex> =
            LazyLock::new(|| regex(r"(?m)^.*?\[ *([0-9]+\.[0-9]+)\].*setting system clock to .*\(([0-9]{1,18})\)"));
        if let Some(found) = DMI.captures_iter(bytes).last() {
            let dmi = |group| found.get(group).map(|m| String::from_utf8_lossy(m.as_bytes()).trim().to_owned());
            self.machine = dmi(1).unwrap_or_default();
            self.firmware = dmi(2).unwrap_or_default();
        }
        if let Some((stamp, epoch)) = CLOCK
            .captures_iter(bytes)
            .last()
            .and_then(|found| Some((number(&found, 1)?.parse::<f64>().ok()?, number(&found, 2)?.parse::<u64>().ok()?)))
        {
            let since = Duration::try_from_secs_f64(stamp).unwrap_or_default();
            self.began = Duration::from_secs(epoch).checked_sub(since).map(|began| SystemTime::UNIX_EPOCH + began);
        }
        self.search_journal(bytes);
    }

    /// Searches a journal for the first entry of its last boot.
    fn search_journal(&mut self, bytes: &[u8]) {
        static FIELD: LazyLock<Regex> = LazyLock::new(|| {
            regex(
                r#"(?m)(?:^|[{,]\s*")(__REALTIME_TIMESTAMP|__MONOTONIC_TIMESTAMP|_BOOT_ID)"?\s*[=:]\s*"?([0-9A-Za-z-]{1,40})"#,
            )
        });
        let mut entry = Entry::default();
        let mut last: Option<Entry> = None;
        let mut end = |entry: &mut Entry| {
            let entry = std::mem::take(entry);
            if entry.real_us.is_some() && last.as_ref().is_none_or(|last| last.boot_id != entry.boot_id) {
                last = Some(entry);
            }
        };
        for found in FIELD.captures_iter(bytes) {
            let (Some(name), Some(value)) = (number(&found, 1), number(&found, 2)) else { continue };
            // An entry has each field once, so a second one is the next entry's.
            match name.as_str() {
                "__REALTIME_TIMESTAMP" => {
                    if entry.real_us.is_some() {
                        end(&mut entry);
                    }
                    entry.real_us = value.parse().ok();
                }
                "__MONOTONIC_TIMESTAMP" => {
                    if entry.monotonic_us.is_some() {
                        end(&mut entry);
                    }
                    entry.monotonic_us = value.parse().ok();
                }
                _ => {
                    if entry.boot_id.is_some() {
                        end(&mut entry);
                    }
                    entry.boot_id = Some(value);
                }
            }
        }
        end(&mut entry);
        let Some(last) = last else { return };
        if let Some(began) = last.real_us.and_then(|real| real.checked_sub(last.monotonic_us?)) {
            self.began = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(began));
        }
        let key = boot_key(last.boot_id.as_deref().unwrap_or_default());
        if self.boot_key.is_empty() {
            self.boot_key = key;
        }
    }
}

/// The fields of a journal's entry.
#[derive(Default)]
struct Entry {
    real_us: Option<u64>,
    monotonic_us: Option<u64>,
    boot_id: Option<String>,
}

fn regex(text: &str) -> Regex {
    Regex::new(&format!("(?-u){text}")).expect("a constant")
}

fn number(found: &Captures, group: usize) -> Option<String> {
    found.get(group).map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned())
}

fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searched(text: &str) -> Marks {
        let mut marks = Marks::default();
        marks.search(text.as_bytes());
        marks
    }

    fn seconds(marks: &Marks) -> f64 {
        marks.began.unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64()
    }

    #[test]
    fn a_kernels_log_has_its_clock_and_its_firmware() {
        let log = "[    0.000000] DMI: QEMU Standard PC (Q35 + ICH9, 2009), BIOS 1.16.2-debian-1.16.2-1 04/01/2014\n\
                   [    1.500000] rtc_cmos 00:03: setting system clock to 2026-11-26T09:14:02 UTC (1795684442)\n";
        let marks = searched(log);
        assert_eq!(seconds(&marks), 1_795_684_440.5);
        assert_eq!(marks.firmware, "1.16.2-debian-1.16.2-1 04/01/2014");
        assert_eq!(marks.machine, "QEMU Standard PC (Q35 + ICH9, 2009)");
    }

    #[test]
    fn a_journal_has_its_last_boot() {
        let entry = |real: u64, monotonic: u64, boot: char| {
            format!(
                "__CURSOR=s=1\n__REALTIME_TIMESTAMP={real}\n__MONOTONIC_TIMESTAMP={monotonic}\n_BOOT_ID={}\nMESSAGE=x\n\n",
                boot.to_string().repeat(32)
            )
        };
        let text = entry(900_000_000, 5_000_000, 'a')
            + &entry(2_000_000_000, 2_000_000, 'b')
            + &entry(9_000_000_000, 3_000_000, 'b');
        let marks = searched(&text);
        assert_eq!((seconds(&marks), marks.boot_key.len()), (1998.0, 32));
        assert_ne!(marks.boot_key, searched(&entry(1, 0, 'a')).boot_key);
        let json =
            r#"{"_BOOT_ID":"BB","__MONOTONIC_TIMESTAMP":"2000000","MESSAGE":"x","__REALTIME_TIMESTAMP":"2000000000"}"#;
        let json = json.replace("BB", &"b".repeat(32));
        let marks_of_json = searched(&format!("{json}\n{json}\n"));
        assert_eq!((seconds(&marks_of_json), &marks_of_json.boot_key), (1998.0, &marks.boot_key));
        // A token in place of the ID.
        assert_eq!(searched(&json.replace(&"b".repeat(32), "uuid-0123abcd")).boot_key, "");
    }

    #[test]
    fn other_text_has_no_marks() {
        for text in
            ["", "\u{0}\u{ff}", "__REALTIME_TIMESTAMP=5\n__MONOTONIC_TIMESTAMP=7\n", "setting system clock to x (1)"]
        {
            let marks = searched(text);
            assert!(marks.began.is_none() && marks.boot_key.is_empty() && marks.firmware.is_empty(), "{text}");
        }
    }
}
