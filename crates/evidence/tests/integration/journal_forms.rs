//! One journal of a real Debian 12 in the forms that `journalctl` prints, and its kernel's messages as `dmesg --json` prints them. All
//! must say the same.

use crate::imports::{imported, imported_texts, phase_rows};
use evidence::journal::{Entry, Journal};
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use timeline::{DiagnosticKind as K, Diagnostics, EndEvidence, Ns, ServiceUnit, SpanKind, Timeline};

fn text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/journal").join(name);
    let bytes = std::fs::read(path).unwrap();
    let mut text = String::new();
    match name.ends_with(".gz") {
        true => flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).map(drop).unwrap(),
        false => text = String::from_utf8(bytes).unwrap(),
    }
    text
}

fn entries(text: &str) -> Vec<Entry> {
    let (mut journal, mut diagnostics) = (Journal::default(), Diagnostics::default());
    journal.read("j", text.as_bytes(), &mut diagnostics);
    journal.choose(&mut diagnostics);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    journal.entries
}

fn units(timeline: &Timeline) -> HashMap<String, ServiceUnit> {
    timeline.units.iter().map(|unit| (timeline.names.get(unit.name).to_owned(), unit.clone())).collect()
}

#[test]
fn forms_with_all_fields_have_the_same_entries() {
    let export = entries(&text("debian12.export"));
    let times =
        |entries: &[Entry]| entries.iter().map(|e| (e.at, e.message.clone(), e.kind, e.took)).collect::<Vec<_>>();
    for name in ["debian12-json-pretty.txt.gz", "debian12-verbose.txt.gz"] {
        let text = text(name);
        assert!(evidence::recognise(text.as_bytes()).kinds == ["journal"], "{name}");
        assert_eq!(times(&entries(&text)), times(&export), "{name}");
    }
    let rows = text("debian12-json-pretty.txt.gz").replace("\n\t", "");
    let rows: Vec<&str> = rows.split_inclusive('}').map(str::trim).filter(|row| !row.is_empty()).collect();
    for (before, after) in [("\x1e", "\n"), ("data: ", "\n\n"), ("", "\n")] {
        let text: String = rows.iter().map(|row| format!("{before}{}{after}", row.replace('\n', ""))).collect();
        assert_eq!(times(&entries(&text)), times(&export), "{before:?}");
    }
}

/// Stamps of the wall clock are placed by the length that systemd states at the end of the boot.
#[test]
fn a_journal_with_dates_is_placed_by_the_end_of_its_boot() {
    let (exact, exact_end) = {
        let timeline = imported(&["journal/debian12.export"]);
        (units(&timeline), timeline.end.unwrap().at)
    };
    for (name, error_ms) in [("debian12-short-precise.txt.gz", 100), ("debian12-with-unit.txt.gz", 1100)] {
        let timeline = imported(&[&format!("journal/{name}")]);
        let end = timeline.end.unwrap();
        assert_eq!(end.evidence, EndEvidence::SystemdFinished);
        assert!((end.at - exact_end).abs() <= end.error, "{name}: {}", end.at);
        assert_eq!(phase_rows(&timeline)[0].2, 10_539_000, "the kernel's part, to a millisecond");
        let units = units(&timeline);
        let placed = exact.iter().filter_map(|(name, unit)| Some((unit.settled?, units.get(name)?.settled?)));
        let errors: Vec<i64> = placed.map(|(exact, dated)| (exact - dated).abs().0 / 1_000_000).collect();
        assert!(errors.len() > 40 && errors.iter().all(|error| *error <= error_ms), "{name}: {errors:?}");
    }
}

#[test]
fn messages_from_before_the_clock_was_set_have_no_time() {
    let text = text("debian12-short-precise.txt.gz");
    let set = text.find("Finished systemd-journal-flush").unwrap();
    let set = text[..set].rfind('\n').unwrap();
    let early = text[..set].replace("Nov 24 13:", "Nov 24 08:");
    let timeline = imported_texts(&[("j", &format!("{early}{}", &text[set..]))]);
    assert_eq!(timeline.end.unwrap().at, Ns::from_ms(43_229));
    let units = units(&timeline);
    assert!(units.contains_key("ssh.service") && !units.contains_key("systemd-sysusers.service"));
    assert!(timeline.diagnostics.count(K::MessagesWithoutStamp) > 100);
    let back = text[..set].replace("Nov 24 13:", "Nov 24 19:");
    let timeline = imported_texts(&[("j", &format!("{back}{}", &text[set..]))]);
    assert_eq!((timeline.end.unwrap().at, self::units(&timeline).len()), (Ns::from_ms(43_229), units.len()));
}

#[test]
fn of_several_boots_with_dates_the_last_one_counts() {
    let text = text("debian12-short-precise.txt.gz");
    let rebooted = text.replace("Nov 24", "Nov 25");
    for between in ["", "-- Reboot --\n", "-- Boot 00000000000000000000000000000002 --\n"] {
        let both = imported_texts(&[("j", &format!("{text}{between}{rebooted}"))]);
        let one = imported_texts(&[("j", &rebooted)]);
        assert_eq!(phase_rows(&both), phase_rows(&one), "{between}");
        assert_eq!(both.diagnostics.count(K::LogOtherBoot), 245, "{between}");
    }
}

#[test]
fn a_description_names_a_unit_where_nothing_else_does() {
    let text = "\
[    1.000000] box kernel: Linux version 3.10.0\n\
[    2.000000] box systemd[1]: Starting Network Manager...\n\
[    8.500000] box systemd[1]: Started Network Manager.\n\
[    8.600000] box systemd[1]: Reached target Multi-User System.\n\
[    9.000000] box systemd[1]: Startup finished in 1.000s (kernel) + 7.900s (userspace) = 8.900s.\n";
    let timeline = imported_texts(&[("j", text)]);
    let units = units(&timeline);
    let manager = &units["Network Manager"];
    assert_eq!(manager.settled.unwrap() - manager.start.unwrap(), Ns::from_ms(6500));
    assert!(units.contains_key("multi-user.target"));
    let phases = phase_rows(&timeline);
    assert_eq!((phases[0].2, phases.last().unwrap().2), (1_000_000, 8_900_000));
}

#[test]
fn the_kernels_messages_as_json_are_a_kernel_log() {
    let lines: Vec<(Ns, String)> = entries(&text("debian12.export"))
        .into_iter()
        .filter_map(|entry| Some((entry.at.filter(|_| entry.identifier == "kernel")?, entry.message)))
        .collect();
    let stamp = |at: &Ns| format!("{:5}.{:06}", at.0 / 1_000_000_000, at.0 / 1000 % 1_000_000);
    let plain: String = lines.iter().map(|(at, text)| format!("[{}] {text}\n", stamp(at))).collect();
    let message = |(at, text): &(Ns, String)| {
        format!("{{\n \"pri\": 6,\n \"time\": {},\n \"msg\": {}\n }}", stamp(at).trim(), serde_json::json!(text))
    };
    let json = format!("{{\n \"dmesg\": [\n {}\n ]\n}}\n", lines.iter().map(message).collect::<Vec<_>>().join(","));
    assert_eq!(evidence::recognise(json.as_bytes()).kinds, ["kernel log (dmesg --json)"]);
    let (json, plain) = (imported_texts(&[("j", &json)]), imported_texts(&[("j", &plain)]));
    assert_eq!(phase_rows(&json), phase_rows(&plain));
    let marks = |timeline: &Timeline| {
        timeline.marks.iter().map(|m| (m.at, timeline.names.get(m.name).to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(marks(&json), marks(&plain));
    assert!(marks(&json).len() > 50);
}

const DATED: &str = "\
Nov 24 13:58:21 box kernel: Linux version 6.1.0 (x@y) #1 SMP\n\
Nov 24 13:58:21 box kernel: ata1: SATA link up 6.0 Gbps\n\
Nov 24 13:58:21 box systemd-journald[123]: Journal started\n\
Nov 24 13:58:21 box systemd[1]: Starting udev.service - Manager...\n\
Nov 24 13:58:23 box systemd[1]: Started udev.service - Manager.\n\
Nov 24 13:58:24 box kernel: iwlwifi 0000:03:00.0: loaded firmware\n\
Nov 24 13:58:24 box systemd[1]: Starting wait-online.service - Wait...\n\
Nov 24 13:59:02 box systemd[1]: Finished wait-online.service - Wait.\n\
Nov 24 13:59:03 box sshd[77]: Server listening on port 22.\n";

/// The gaps of a boot, longest first, each with its length in ms.
fn gaps(timeline: &Timeline) -> Vec<(String, i64)> {
    let spans = timeline.spans.iter().map(|(_, span)| span).filter(|span| span.kind == SpanKind::Message);
    let mut gaps: Vec<(String, i64)> =
        spans.map(|span| (timeline.names.get(span.name).to_owned(), (span.end - span.start).0 / 1_000_000)).collect();
    gaps.sort_by_key(|gap| -gap.1);
    gaps
}

/// The names of threads with gaps, sorted.
fn gap_threads(timeline: &Timeline) -> Vec<String> {
    let spans = timeline.spans.iter().map(|(_, span)| span).filter(|span| span.kind == SpanKind::Message);
    let mut threads: Vec<String> =
        spans.map(|span| timeline.names.get(timeline.tracks.get(span.track).name).to_owned()).collect();
    threads.sort();
    threads.dedup();
    threads
}

/// Without the end of a boot its length is unknown, but gaps of seconds are evidence.
#[test]
fn a_journal_with_dates_alone_has_gaps() {
    let timeline = imported_texts(&[("j", DATED)]);
    assert_eq!(analysis::total(&timeline), Ns::from_ms(42_000));
    let waits = "systemd: Starting wait-online.service - Wait...";
    let udev = "systemd: Starting udev.service - Manager...";
    assert_eq!(gaps(&timeline), [(waits.to_owned(), 38_000), (udev.to_owned(), 2_000)], "one second is no gap");
    let settled = |name: &str| units(&timeline)[name].settled.unwrap();
    assert_eq!(settled("wait-online.service"), Ns::from_ms(41_000));
    let phase = analysis::phases(&timeline).pop().unwrap();
    assert_eq!(phase.error, Ns::from_ms(1005), "the resolution is the error");
    assert_eq!(timeline.end.unwrap().error, Ns::from_ms(1005), "of the end mark, too");
    assert_eq!(gap_threads(&timeline), ["init"]);
    let precise = DATED.replace(" box", ".000250 box");
    assert_eq!(imported_texts(&[("j", &precise)]).end.unwrap().error, Ns::from_ms(5) + Ns::from_us(1));
    // A machine that goes on for days has booted long before.
    let later = "Nov 24 15:00:00 box CRON[99]: session opened\nNov 26 15:00:00 box CRON[99]: session opened\n";
    let timeline = imported_texts(&[("j", &format!("{DATED}{later}"))]);
    assert_eq!(analysis::total(&timeline), Ns::from_ms(42_000));
    assert_eq!(timeline.diagnostics.count(K::LogLater), 2);
    // The last usual target is an end mark.
    let reached =
        DATED.replace("sshd[77]: Server listening on port 22.", "systemd[1]: Reached target graphical.target.");
    let end = imported_texts(&[("j", &reached)]).end.unwrap();
    assert!(matches!(end.evidence, EndEvidence::SystemdReached(_)));
    assert_eq!((end.at, end.error), (Ns::from_ms(42_000), Ns::from_ms(1005)));
}

/// A file of syslog with the kernel's messages alone counts from its first line.
#[test]
fn messages_of_the_kernel_alone_have_gaps_too() {
    let text = "\
Mar  3 10:00:00 box kernel: Linux version 2.6.18 (x@y) #1\n\
Mar  3 10:00:00 box kernel: usb 1-1: new high speed USB device\n\
Mar  3 10:00:07 box kernel: sd 0:0:0:0: Attached scsi disk sda\n";
    let timeline = imported_texts(&[("j", text)]);
    assert_eq!(gaps(&timeline), [("kernel: usb 1-1: new high speed USB device".to_owned(), 7_000)]);
    assert_eq!(gap_threads(&timeline), ["swapper/0"]);
    assert!(phase_rows(&timeline)[0].0.starts_with("kernel"), "{:?}", phase_rows(&timeline));
}

/// Messages of a boot's user space are no gaps of the kernel's first thread.
#[test]
fn gaps_after_the_kernel_s_part_are_process_1_s() {
    let timeline = imported(&["journal/debian12-short-precise.txt.gz"]);
    assert_eq!(gap_threads(&timeline), ["init"]);
    let init = timeline.tracks.find(timeline::TrackKind::Thread, 1).unwrap();
    assert_eq!(timeline.tracks.get(init).created.unwrap().0, Ns::from_ms(10_539));
}

#[test]
fn json_without_the_other_clock_is_placed_by_dates() {
    let row = |us: u64, by: &str, more: &str, message: &str| {
        let at = 1_795_528_701_000_000 + us;
        format!(
            "{{\"__REALTIME_TIMESTAMP\":\"{at}\",\"_BOOT_ID\":\"b\",\"SYSLOG_IDENTIFIER\":\"{by}\",{more}\"MESSAGE\":\"{message}\"}}\n"
        )
    };
    let unit = |id: &str| format!("\"_PID\":\"1\",\"UNIT\":\"foo.service\",\"MESSAGE_ID\":\"{id}\",");
    let text = [
        row(0, "kernel", "\"_TRANSPORT\":\"kernel\",", "Linux version 6.1.0"),
        row(300_000, "systemd-journald", "\"_PID\":\"123\",", "Journal started"),
        row(600_000, "systemd", &unit("7d4958e842da4a758f6c1cdc7b36dcc5"), "Starting foo.service..."),
        row(31_000_000, "systemd", &unit("39f53479d3a045ac8e11786248231fbf"), "Started foo.service."),
    ];
    let timeline = imported_texts(&[("j", &text.concat())]);
    assert_eq!(gaps(&timeline)[0], ("systemd: Starting foo.service...".to_owned(), 30_400));
    assert_eq!(units(&timeline)["foo.service"].settled, Some(Ns::from_ms(30_700)));
}

/// The step of a clock that a program set is no time of the boot, with the end of the boot and without it, forwards and backwards.
#[test]
fn a_step_of_the_wall_clock_is_no_time_of_the_boot() {
    let text = |set: &str| {
        format!(
            "\
Feb 14 10:11:58 pi kernel: Linux version 5.10.17-v7+ (x@y) #1 SMP\n\
Feb 14 10:11:58 pi systemd[1]: Starting udev.service - udev...\n\
Feb 14 10:12:01 pi systemd[1]: Started udev.service - udev.\n\
Feb 14 10:12:01 pi systemd[1]: Starting time.service - Network Time...\n\
Feb 14 10:12:03 pi systemd[1]: Started time.service - Network Time.\n\
{set} 08:30:00 pi systemd[1]: Time has been changed\n\
{set} 08:30:05 pi systemd[1]: Started ssh.service - OpenBSD Secure Shell server.\n"
        )
    };
    let finished = " 08:30:06 pi systemd[1]: Startup finished in 3.000s (kernel) + 11.000s (userspace) = 14.000s.\n";
    for set in ["Mar 20", "Jan  2"] {
        let timeline = imported_texts(&[("j", &text(set))]);
        assert_eq!(analysis::total(&timeline), Ns::from_ms(10_000), "{set}");
        assert_eq!(timeline.diagnostics.count(K::WallClockSet), 1, "{set}");
        let changed = "systemd: Time has been changed";
        assert_eq!(gaps(&timeline)[0], (changed.to_owned(), 5_000), "{set}");
        let timeline = imported_texts(&[("j", &format!("{}{set}{finished}", text(set)))]);
        assert_eq!(units(&timeline)["udev.service"].settled, Some(Ns::from_ms(6_000)), "{set}");
        assert_eq!(timeline.end.unwrap().at, Ns::from_ms(14_000), "{set}");
    }
    // Nothing says that the clock was set: a silence.
    let silent = text("Feb 14").replace("Time has been changed", "Reached target basic.target.");
    assert_eq!(imported_texts(&[("j", &silent)]).diagnostics.count(K::WallClockSet), 0);
}

/// The silence before a step is longer than the step. The message states how long the step is.
#[test]
fn the_stated_step_is_taken_out_and_not_the_wait_before_it() {
    let text = "\
Mar 14 14:05:51 pi systemd[1]: Started chrony.service - chrony, an NTP client/server.\n\
Mar 14 14:06:12 pi chronyd[754]: Selected source 192.0.2.1 (2.debian.pool.ntp.org)\n\
Mar 14 14:06:12 pi chronyd[754]: System clock wrong by 16.044301 seconds\n\
Mar 14 14:06:28 pi chronyd[754]: System clock was stepped by 16.044301 seconds\n\
Mar 14 14:06:30 pi chronyd[754]: Selected source 192.0.2.2 (2.debian.pool.ntp.org)\n";
    let timeline = imported_texts(&[("j", text)]);
    assert_eq!(gaps(&timeline)[0].1, 21_000);
    assert_eq!(analysis::total(&timeline), Ns::from_ms(23_000));
    assert_eq!(timeline.diagnostics.count(K::WallClockSet), 1);
}
