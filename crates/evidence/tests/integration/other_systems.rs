//! Logs of systems other than Linux that stamp their own lines: which boot of several counts, where the clock begins, and the error.

use super::imports::imported_texts;
use analysis::{phases, total};
use timeline::{DiagnosticKind as K, EndEvidence, Ns, Timeline};

fn log(text: &str) -> Timeline {
    imported_texts(&[("board.log", text)])
}

/// The lines that were placed.
fn placed(timeline: &Timeline) -> Vec<&str> {
    timeline.marks.iter().map(|mark| timeline.names.get(mark.name)).collect()
}

#[test]
fn a_board_that_restarts_shows_its_last_boot() {
    let zephyr = "\
*** Booting Zephyr OS build v3.4.0 ***\n\
[00:00:00.426,849] <dbg> app: start\n\
[00:00:07.431,300] <inf> app: up\n\
*** Booting Zephyr OS build v3.4.0 ***\n\
[00:00:00.426,849] <dbg> app: start again\n\
[00:00:03.431,300] <inf> app: up again\n";
    let timeline = log(zephyr);
    assert_eq!(timeline.diagnostics.count(K::LogOtherBoot), 3);
    assert_eq!(total(&timeline), Ns::from_us(3_431_300));
    assert!(placed(&timeline).iter().all(|text| text.ends_with("again")), "{:?}", placed(&timeline));
    let esp = "\
I (227265) wifi:flush txq\n\
I (227300) wifi:stop sw txq\n\
ESP-ROM:esp32s3-20210327\n\
I (24) boot: ESP-IDF v4.4.6 2nd stage bootloader\n\
I (44) boot: Enabling RNG early entropy source...\n\
I (382) cpu_start: Starting app cpu, entry point is 0x403755fc\n\
I (370) cpu_start: App cpu up.\n\
I (405) cpu_start: Starting scheduler on PRO CPU.\n\
I (3275) app: up\n";
    let timeline = log(esp);
    assert_eq!(timeline.diagnostics.count(K::LogOtherBoot), 2);
    assert_eq!((total(&timeline), timeline.end.unwrap().evidence), (Ns::from_ms(405), EndEvidence::Process1Started));
    let first = phases(&timeline).into_iter().find(|phase| phase.name.starts_with("kernel")).unwrap();
    assert_eq!((first.start, first.end), (Ns::from_ms(24), Ns::from_ms(405)));
}

#[test]
fn whole_seconds_of_free_bsd_are_times() {
    let text = "\
[1] ---<<BOOT>>---\n\
[1] Copyright (c) 1992-2023 The FreeBSD Project.\n\
[1] FreeBSD 14.0-RELEASE #0 releng/14.0-n265380: Fri Nov 10 05:57:23 UTC 2023\n\
[2] Timecounters tick every 1.000 msec\n\
[7] ugen0.1: <AMD XHCI root HUB> at usbus0\n\
[12] Trying to mount root from zfs:zroot/ROOT/default []...\n\
[16] Dual Console: Serial Primary, Video Secondary\n";
    let timeline = log(text);
    let end = timeline.end.unwrap();
    let second = Ns::from_ms(1000);
    assert_eq!((end.at, end.error, end.evidence), (Ns::from_ms(11_000), second, EndEvidence::Process1Started));
    assert_eq!(timeline.diagnostics.count(K::LogOtherBoot), 0, "its first lines are of one boot");
    assert!(phases(&timeline).iter().all(|phase| phase.error >= second));
    // A number in brackets alone is no time.
    let other = text.replace("FreeBSD", "Other").replace("---<<BOOT>>---", "");
    assert!(evidence::recognise(other.as_bytes()).kinds.is_empty());
}

#[test]
fn the_line_with_the_release_names_the_system() {
    let text = "\
[     1.000000] NetBSD 10.0 (GENERIC) #0: Thu Mar 28 08:33:33 UTC 2024\n\
[     1.000003] mainbus0 (root)\n\
[     3.453041] wd0 at atabus0 drive 0\n\
[     8.800402] root file system type: ffs\n";
    let timeline = log(text);
    assert_eq!(total(&timeline), Ns::from_us(7_800_402), "its clock begins with 1 s");
    let threads: Vec<&str> = timeline.tracks.iter().map(|(_, track)| timeline.names.get(track.name)).collect();
    assert!(!threads.contains(&"swapper/0"), "{threads:?}");
}
