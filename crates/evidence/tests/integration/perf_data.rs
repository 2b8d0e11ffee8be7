//! perf's own files against the output of `perf script`.

use evidence::perf_data::PerfData;
use proptest::prelude::*;
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use timeline::{DiagnosticKind as K, Diagnostics, Sample, SampledFrame, Timeline};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/perf-data").join(name)
}

fn unpacked(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path(name)).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Imports these files and reads them, as `import` and `show` do.
fn imported(files: &[&str]) -> Timeline {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("perf-data-{}-{number}", std::process::id()));
    let files: Vec<PathBuf> = files.iter().map(|name| path(name)).collect();
    recording::import(&files, &into, false).unwrap();
    evidence::load(&recording::Recording::open(&into).unwrap()).unwrap()
}

/// A sample's kernel functions, outermost first. Lists of functions have the plain name of a function with a `__pi_`
/// name.
fn kernels(timeline: &Timeline, sample: &Sample) -> Vec<String> {
    let kernel = sample.stack.iter().filter(|frame| frame.address >> 63 == 1);
    let name = |frame: &SampledFrame| timeline.names.get(frame.name).trim_start_matches("__pi_").to_owned();
    kernel.map(name).collect()
}

#[track_caller]
fn same_samples(name: &str, expected: usize, in_the_kernel: usize) {
    let ours = imported(&[&format!("{name}.data.gz"), "kallsyms.txt"]);
    let perfs = imported(&[&format!("{name}.script.gz")]);
    let (our, perf) = (ours.sampled.as_ref().unwrap(), perfs.sampled.as_ref().unwrap());
    assert_eq!((our.samples().len(), perf.samples().len()), (expected, expected), "{name}");
    assert_eq!(our.lost, Some(0));
    let text = |timeline: &Timeline, id| timeline.names.get(id).to_owned();
    let mut kernel_functions = 0;
    for (our, perf) in our.samples().iter().zip(perf.samples()) {
        let summary = |timeline: &Timeline, s: &Sample| {
            (s.at, s.period, s.thread.tid, text(timeline, s.thread.name), text(timeline, s.event), s.stack.len())
        };
        assert_eq!(summary(&ours, our), summary(&perfs, perf), "{name}");
        assert!(perf.cpu.is_none_or(|cpu| our.cpu == Some(cpu)));
        let (our, perf) = (kernels(&ours, our), kernels(&perfs, perf));
        assert_eq!(our, perf, "{name}");
        kernel_functions += our.len();
    }
    assert!(kernel_functions >= in_the_kernel, "{name}: {kernel_functions}");
    let kinds: Vec<K> = ours.diagnostics.iter().map(|d| d.kind).collect();
    assert!(!kinds.contains(&K::SampleUnreadable) && !kinds.contains(&K::FileCut), "{kinds:?}");
}

#[test]
fn samples_equal_what_perf_prints() {
    same_samples("plain", 57, 19);
    same_samples("two", 282, 350);
}

#[test]
fn packed_samples_are_read() {
    same_samples("z", 59, 1);
}

#[test]
fn a_file_from_a_pipe_is_read() {
    same_samples("pipe", 27, 0);
}

#[test]
fn functions_without_a_list_have_the_name_of_their_file() {
    let timeline = imported(&["plain.data.gz"]);
    let mut files: HashMap<String, u32> = HashMap::new();
    for sample in timeline.sampled.as_ref().unwrap().samples() {
        let innermost = sample.stack.last().unwrap();
        assert!(!innermost.is_named);
        *files.entry(timeline.names.get(innermost.name).to_owned()).or_default() += 1;
    }
    assert!(files["[gzip]"] > 5, "{files:?}");
}

#[test]
fn tracepoints_are_a_kernel_trace() {
    let timeline = imported(&["sched.data.gz"]);
    let script = String::from_utf8(unpacked("sched.script.gz")).unwrap();
    let switches = script.lines().filter(|line| line.contains("sched:sched_switch:")).count();
    assert!(switches > 30, "{switches}");
    // Each switch begins a stretch on a CPU, except those to the idle thread.
    let to_idle = script.lines().filter(|line| line.contains("next_comm=swapper/")).count();
    assert!(timeline.running.len() >= switches - to_idle, "{} {switches} {to_idle}", timeline.running.len());
    let programs: Vec<&str> = timeline.processes.iter().map(|process| timeline.names.get(process.name)).collect();
    assert!(programs.iter().any(|name| name.contains("gzip")), "{programs:?}");
    assert!(timeline.sampled.is_none());
}

#[test]
fn a_file_cut_anywhere_is_read_up_to_the_cut() {
    for name in ["plain", "z", "pipe", "sched"] {
        let whole = unpacked(&format!("{name}.data.gz"));
        for cut in (8..whole.len()).step_by(whole.len() / 60) {
            PerfData::read("p", &whole[..cut], &mut Diagnostics::default());
        }
    }
    let mut diagnostics = Diagnostics::default();
    PerfData::read("p", &unpacked("plain.data.gz")[..3000], &mut diagnostics);
    assert_eq!(diagnostics.count(K::FileCut), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A file with any changed bytes is read or refused.
    #[test]
    fn damaged_files_are_read_or_refused(
        which in 0..4usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = unpacked(["plain.data.gz", "z.data.gz", "pipe.data.gz", "two.data.gz"][which]);
        changes.into_iter().for_each(|(at, value)| *at.get_mut(&mut bytes) = value);
        PerfData::read("p", &bytes, &mut Diagnostics::default());
    }
}

/// The figures are those of `perf report`.
#[test]
fn events_of_a_pipe_without_names_are_told_apart() {
    let timeline = imported(&["pipe-three-events.data.gz"]);
    let sampled = timeline.sampled.as_ref().unwrap();
    let events = sampled.events();
    let mut all: Vec<(&str, u64)> =
        events.iter().map(|event| (timeline.names.get(event.name), event.all.samples)).collect();
    all.sort_unstable_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    assert_eq!(all, [("cycles:pp", 98), ("instructions:pp", 79), ("branches:pp", 14)]);
    assert_eq!(sampled.lost, Some(2));
}
