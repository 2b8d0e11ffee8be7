//! trace-cmd's `trace.dat` against the text that the kernel or trace-cmd itself prints of the same records.

use evidence::ftrace::{Context, Event, Record, Trace};
use evidence::trace_dat;
use proptest::prelude::*;
use std::io::Read;
use std::path::{Path, PathBuf};
use timeline::{DiagnosticKind as K, Diagnostics};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/trace-dat").join(name)
}

fn fixture(name: &str) -> Vec<u8> {
    let packed = std::fs::read(path(name)).unwrap();
    if !name.ends_with(".gz") {
        return packed;
    }
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    bytes
}

fn text(bytes: &[u8]) -> Vec<u8> {
    let mut diagnostics = Diagnostics::default();
    let text = trace_dat::text("t", bytes, &mut diagnostics);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    text
}

fn records(text: &[u8]) -> Vec<Record<'_>> {
    Trace::read("t", text, &mut Diagnostics::default()).unwrap().records().collect()
}

/// Compares with the kernel's own lines, except for stamp digits that the kernel leaves out and for names in front of a
/// line, which may be later ones.
#[test]
fn a_boots_text_equals_the_kernels() {
    let (ours, kernels) = (text(&fixture("boot-v7-zstd.dat")), fixture("boot.txt.gz"));
    let (ours, kernels) = (records(&ours), records(&kernels));
    assert_eq!((ours.len(), kernels.len()), (5109, 5109));
    for (our, kernel) in ours.iter().zip(&kernels) {
        // The kernel rounds its stamps.
        assert_eq!((our.ticks.0 + 500) / 1000, kernel.ticks.0 / 1000);
        assert_eq!((our.pid, our.cpu, our.context, our.event), (kernel.pid, kernel.cpu, kernel.context, kernel.event));
    }
    assert!(ours.iter().any(|record| record.ticks.0 % 1000 != 0));
    assert!(ours.iter().any(|record| record.context == Context::Hardirq));
    assert!(ours.iter().any(|record| matches!(record.event, Event::Exec { file: b"/init", .. })));
}

#[test]
fn each_versions_text_equals_trace_cmds() {
    for name in ["record-v6.dat.gz", "record-v7-none.dat.gz", "record-v7-zlib.dat", "record-v7-zstd.dat"] {
        let report =
            fixture(&name.replace(".dat.gz", ".report.gz").replace(".dat", ".report.gz").replace(".gz.gz", ".gz"));
        let ours = text(&fixture(name));
        let (ours, theirs) = (records(&ours), records(&report));
        assert_eq!(ours.len(), theirs.len(), "{name}");
        assert!(ours.len() > 150, "{name}: {}", ours.len());
        let mut parsed = 0;
        for (our, their) in ours.iter().zip(&theirs) {
            assert_eq!((our.ticks, our.pid, our.cpu), (their.ticks, their.pid, their.cpu), "{name}");
            // trace-cmd prints the events that bootscope parses in its own format, and other events as the kernel does.
            match (our.event, their.event) {
                (Event::Switch { prev, next, .. }, Event::Switch { prev: p, next: n, .. }) => {
                    assert_eq!((prev, next), (p, n));
                    parsed += 1;
                }
                (ours, theirs) => {
                    assert_eq!(std::mem::discriminant(&ours), std::mem::discriminant(&theirs), "{our:?} {their:?}")
                }
            }
        }
        assert!(parsed > 10, "{name}: {parsed}");
    }
}

/// Reads files in the same way as `import` and `show`.
#[test]
fn an_imported_file_gives_the_same_boot_as_its_text() {
    let shown = |files: &[&str]| {
        let into =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-dat-{}-{}", std::process::id(), files[0]));
        let files: Vec<PathBuf> = files.iter().map(|name| path(name)).collect();
        let found = evidence::recognise(&std::fs::read(&files[0]).unwrap());
        assert!(found.of_a_boot, "{found:?}");
        recording::import(&files, &into, false).unwrap();
        evidence::load(&recording::Recording::open(&into).unwrap()).unwrap()
    };
    let ours = shown(&["boot-v7-zstd.dat", "boot-dmesg.txt.gz"]);
    let kernels = shown(&["boot.txt.gz", "boot-dmesg.txt.gz"]);
    assert_eq!((ours.spans.len(), ours.waits.len()), (kernels.spans.len(), kernels.waits.len()));
    assert!(ours.spans.len() > 1000, "{}", ours.spans.len());
    let (our, kernel) = (ours.end.unwrap(), kernels.end.unwrap());
    assert_eq!(our.evidence, kernel.evidence);
    assert!((our.at - kernel.at).abs().0 < 1000, "{our:?} {kernel:?}");
    let kinds =
        |timeline: &timeline::Timeline| timeline.diagnostics.iter().map(|d| (d.kind, d.count)).collect::<Vec<_>>();
    assert_eq!(kinds(&ours), kinds(&kernels));
}

#[test]
fn unreadable_and_cut_files_have_diagnostics() {
    let whole = fixture("record-v7-zstd.dat");
    let mut big = whole.clone();
    big[12] = 1;
    let mut diagnostics = Diagnostics::default();
    assert!(trace_dat::text("t", &big, &mut diagnostics).is_empty());
    assert_eq!(diagnostics.count(K::TraceFileUnreadable), 1);
    // Behind the last options are texts that are not needed.
    for cut in (0..21_270).step_by(37) {
        let mut diagnostics = Diagnostics::default();
        let text = trace_dat::text("t", &whole[..cut], &mut diagnostics);
        assert!(!diagnostics.is_empty(), "{cut}");
        assert!(text.len() <= self::text(&whole).len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A file with any changed bytes is read or refused.
    #[test]
    fn damaged_files_are_read_or_refused(
        which in 0..2usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = fixture(["record-v6.dat.gz", "record-v7-zstd.dat"][which]);
        changes.into_iter().for_each(|(at, value)| *at.get_mut(&mut bytes) = value);
        let text = trace_dat::text("t", &bytes, &mut Diagnostics::default());
        if let Ok(trace) = Trace::read("t", &text, &mut Diagnostics::default()) {
            prop_assert!(trace.records().count() < 100_000);
        }
    }
}
