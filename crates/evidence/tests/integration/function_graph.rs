//! Text of the tracer function_graph: each call has the length that the kernel printed.

use std::io::Read;
use std::path::{Path, PathBuf};
use timeline::{DiagnosticKind as K, Ns, SpanKind, TrackKind};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/function-graph").join(name)
}

/// The kernel's output for each call that has ended: its name (if the line has it), and its length.
fn printed() -> (Vec<(String, f64)>, Vec<f64>) {
    let mut text = String::new();
    let packed = std::fs::File::open(fixture("linux-6.1-acpi-and-serial.txt.gz")).unwrap();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    let (mut leaves, mut others) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| line.contains(" us ")) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let length = columns[2].trim_start_matches(['+', '!', '#', '*', '@', '$', ' ']).trim_end_matches(" us");
        let length: f64 = length.parse().unwrap();
        match columns[3].strip_suffix("();") {
            Some(name) => leaves.push((name.to_owned(), length)),
            None => others.push(length),
        }
    }
    (leaves, others)
}

#[test]
fn calls_of_a_boot_have_the_lengths_that_the_kernel_printed() {
    let files = ["linux-6.1-acpi-and-serial.txt.gz", "linux-6.1-dmesg.txt.gz"].map(fixture);
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("function-graph-{}", std::process::id()));
    recording::import(&files, &into, false).unwrap();
    let timeline = evidence::load(&recording::Recording::open(&into).unwrap()).unwrap();
    let init = timeline.tracks.find(TrackKind::Thread, 1).unwrap();
    let calls: Vec<_> = timeline.spans.iter().map(|(_, span)| span).filter(|s| s.kind == SpanKind::Call).collect();
    assert!(calls.iter().all(|call| call.track == init));
    let of_name = |name: &str| calls.iter().find(|call| timeline.names.get(call.name) == name).copied();
    assert_eq!(of_name("acpi_init").unwrap().start, Ns(5_424_246_000));
    let (leaves, others) = printed();
    assert_eq!((calls.len(), leaves.len() > 500, others.len() > 200), (leaves.len() + others.len(), true, true));
    // Stamps are cut to microseconds. A thread that moves to another CPU gets stamps of that CPU's clock.
    let mut ours: Vec<i64> = calls.iter().map(|call| (call.end - call.start).0).collect();
    let mut theirs: Vec<f64> = leaves.iter().map(|leaf| leaf.1).chain(others).collect();
    ours.sort_unstable();
    theirs.sort_by(f64::total_cmp);
    let off = ours.iter().zip(&theirs).map(|(our, their)| (*our as f64 / 1000.0 - their).abs());
    let far = off.clone().filter(|off| *off > 2.0).count();
    assert!(far * 50 < ours.len(), "{far} of {}", ours.len());
    let (off, all) = (off.sum::<f64>(), theirs.iter().sum::<f64>());
    assert!(off * 1000.0 < all, "{off} of {all} us");
    let unreadable = timeline.diagnostics.count(K::LinesUnreadable);
    assert_eq!(unreadable, 0);
}

#[test]
fn lines_without_a_time_are_counted() {
    let text =
        b"# tracer: function_graph\n#\n 1)   8.623 us    |  local_touch_nmi();\n 1)               |  do_idle() {\n";
    let found = evidence::recognise(text);
    assert_eq!(found.kinds, ["calls of a kernel (function_graph)"]);
    let mut diagnostics = timeline::Diagnostics::default();
    assert!(evidence::function_graph::stamps("f", text, &mut diagnostics).is_empty());
    assert_eq!(diagnostics.count(K::LinesUnreadable), 2);
}
