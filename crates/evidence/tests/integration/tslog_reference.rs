//! The boot path of generated logs, against a slow model, and against FreeBSD's own scripts if they are there.
//!
//! The scripts (freebsd-boot-profiling) have no licence, so they are not here. `BOOTSCOPE_TSLOG_SCRIPTS` names a folder
//! that has them; they need sh, perl and look. `scripts/compare-tslog` fetches them and compares 260 logs in ten
//! styles. Every run compares bootscope's output with theirs for a dozen small logs, stored in
//! `data/tslog/public-scripts`.

use crate::tslog_model::styles::STYLES;
use crate::tslog_model::{Record, Rules, Shape, log, stacks, text};
#[allow(dead_code, reason = "the dumps of timelines are other tests'")]
use evidence::tslog::{Counter, Log, build};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use timeline::{Ns, TimeBase, Timeline, TrackKind};

type Stacks = BTreeMap<String, u64>;

/// The path of a log by the program's own code; a tick is a nanosecond.
fn path(text: &str) -> Stacks {
    let mut timeline = Timeline::new(TimeBase::Evidence);
    let mut log = Log::default();
    log.read("tslog.txt", text.as_bytes(), &mut timeline.diagnostics);
    build(log, Counter::Rate(1e9, timeline::RateSource::User), &mut timeline);
    timeline.finalize(Ns::ZERO);
    let path = analysis::boot_path(&timeline);
    let mut stacks = Stacks::new();
    for stretch in &path.stretches {
        *stacks.entry(stack(&timeline, stretch)).or_default() += stretch.length().0 as u64;
    }
    stacks
}

/// Formats a stretch as the scripts do.
fn stack(timeline: &Timeline, stretch: &analysis::Stretch) -> String {
    let name = |id| timeline.names.get(id);
    let mut frames: Vec<String> = Vec::new();
    for frame in stretch.chain.iter() {
        let track = timeline.tracks.get(frame.track);
        let root = match (name(track.name), track.kind) {
            (_, TrackKind::Firmware) if frame.span.is_some() => None,
            ("thread0" | "init" | "loader", _) => Some("kernel".to_owned()),
            (named, _) => Some(format!("THREAD {named}")),
        };
        let mut spans = Vec::new();
        let mut at = frame.span;
        while let Some(span) = at {
            let row = timeline.spans.get(span);
            spans.push(format!("{} {}", name(row.name), name(row.detail)).trim_end().to_owned());
            at = timeline.spans.parent(span);
        }
        frames.extend(root);
        frames.extend(spans.into_iter().rev());
    }
    frames.join(";")
}

fn shapes() -> impl Iterator<Item = Shape> {
    (0..8).map(|n| Shape { loader: n & 1 > 0, wild: n & 2 > 0, ties: n & 4 > 0 })
}

#[track_caller]
fn same(found: &Stacks, expected: &Stacks, what: &str, records: &[Record]) {
    for stack in found.keys().chain(expected.keys()) {
        let (found, expected) = (found.get(stack), expected.get(stack));
        assert_eq!(found, expected, "{what}: {stack}\n{}", text(records));
    }
}

#[test]
fn the_path_equals_the_models() {
    for seed in 0..60 {
        for shape in shapes() {
            let records = log(seed, shape, 20 + (seed as usize * 7) % 200);
            same(&path(&text(&records)), &stacks(&records, Rules::Ours), &format!("{seed} {shape:?}"), &records);
        }
    }
}

/// FreeBSD's scripts, with replacements for the BSD programs that they call.
struct Scripts {
    folder: PathBuf,
    shims: PathBuf,
}

impl Scripts {
    /// Finds the scripts and the tools that they need. Prints which is missing.
    fn find() -> Option<Scripts> {
        let Some(folder) = std::env::var_os("BOOTSCOPE_TSLOG_SCRIPTS").map(PathBuf::from) else {
            println!("SKIPPED: BOOTSCOPE_TSLOG_SCRIPTS names no folder with tslog.sh and stackcollapse-tslog.pl");
            return None;
        };
        for tool in ["sh", "perl", "look", "sort", "sed"] {
            let output = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().unwrap();
            if !output.status.success() {
                println!("SKIPPED: {tool} is not installed");
                return None;
            }
        }
        assert!(folder.join("tslog.sh").exists(), "{}: there is no tslog.sh", folder.display());
        let shims =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tslog-shims-{:?}", std::thread::current().id()));
        std::fs::create_dir_all(&shims).unwrap();
        let shim = |name: &str, script: &str| {
            let path = shims.join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        };
        shim("sysctl", "case \"$2\" in debug.tslog) cat \"$TSLOG\" ;; debug.tslog_user) : ;; *) exit 1 ;; esac");
        shim("uname", "echo FreeBSD");
        // BSD's mktemp takes a prefix, GNU's a template.
        shim("mktemp", "exec /usr/bin/mktemp -d \"$TMPDIR/tslog.XXXXXX\"");
        shim("lam", "sed -e \"s/^/$2/\"");
        Some(Scripts { folder, shims })
    }

    fn run(&self, script: &str, text: &str) -> String {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let scratch = self.shims.join(format!("scratch-{}", RUNS.fetch_add(1, Ordering::Relaxed)));
        std::fs::create_dir_all(&scratch).unwrap();
        let log = scratch.join("tslog.txt");
        std::fs::write(&log, text).unwrap();
        let path = format!("{}:{}", self.shims.display(), std::env::var("PATH").unwrap());
        let output = Command::new("sh")
            .args(["-c", script])
            .current_dir(&self.folder)
            .envs([("PATH", path.as_str()), ("LC_ALL", "C")])
            .envs([("TSLOG", &log), ("TMPDIR", &scratch)])
            .output()
            .unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        std::fs::remove_dir_all(&scratch).unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// The ticks that tslog.sh gives each stack, from the log's first record on.
    fn stacks(&self, text: &str) -> Stacks {
        lengths(&self.run("sh tslog.sh 2>/dev/null", text))
    }

    /// The ticks of each stack after stackcollapse-tslog.pl.
    fn collapsed(&self, text: &str) -> Stacks {
        let output = self.run("sh tslog.sh 2>/dev/null | perl stackcollapse-tslog.pl", text);
        let lines = output.lines().filter_map(|line| line.rsplit_once(' '));
        lines
            .filter(|(stack, _)| *stack != "BIOS")
            .map(|(stack, ticks)| (stack.to_owned(), ticks.parse().unwrap()))
            .collect()
    }
}

/// Computes the ticks of each stack from the output of tslog.sh, which has the start of each.
fn lengths(output: &str) -> Stacks {
    let lines = output.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
    let lines: Vec<(u64, &str)> = lines.map(|(ticks, stack)| (ticks.parse().unwrap(), stack)).collect();
    let mut stacks = Stacks::new();
    for pair in lines.windows(2).filter(|pair| pair[0].1 != "BIOS" && pair[0].0 < pair[1].0) {
        *stacks.entry(pair[0].1.to_owned()).or_default() += pair[1].0 - pair[0].0;
    }
    stacks
}

/// Moves records as the scripts do: a record that is not later than the one before it gets the next tick, and all that
/// follow move by as much.
fn bumped(records: &[Record]) -> Vec<Record> {
    let (mut last, mut shift) = (0, 0);
    let mut moved = records.to_vec();
    for r in &mut moved {
        if r.ticks <= last {
            shift += last + 1 - r.ticks;
        }
        last = r.ticks;
        r.ticks += shift;
    }
    moved
}

/// The ticks that the two give to different stacks.
fn apart(ours: &Stacks, theirs: &Stacks) -> u64 {
    ours.iter().map(|(stack, ticks)| ticks.saturating_sub(theirs.get(stack).copied().unwrap_or(0))).sum()
}

/// The stacks that stackcollapse-tslog.pl leaves out. It reaches a stack only through the stacks around it, and does
/// not know those that have no ticks of their own.
fn unreached(stacks: &Stacks) -> Vec<&String> {
    let reached = |stack: &&String| stack.match_indices(';').all(|(at, _)| stacks.contains_key(&stack[..at]));
    stacks.keys().filter(|stack| !reached(stack)).collect()
}

#[test]
fn the_public_scripts_agree() {
    let Some(scripts) = Scripts::find() else { return };
    let (mut ticks, mut differ, mut left_out) = (0, 0, 0);
    for seed in 0..30 {
        for loader in [false, true] {
            let shape = Shape { loader, ..Shape::default() };
            let records = log(seed, shape, 60 + (seed as usize * 11) % 200);
            let text = text(&records);
            let (ours, theirs) = (path(&text), scripts.stacks(&text));
            // By their own rules the scripts are right …
            same(&theirs, &stacks(&records, Rules::Scripts), &format!("{seed} {shape:?}"), &records);
            // … and without waits, the rules are the same.
            let waits = records.iter().filter(|r| r.text.starts_with("WAIT ")).count();
            if waits == 0 {
                same(&ours, &theirs, &format!("{seed} {shape:?}"), &records);
            }
            assert_eq!(ours.values().sum::<u64>(), theirs.values().sum::<u64>(), "{seed} {shape:?}: total");
            ticks += ours.values().sum::<u64>();
            differ += apart(&ours, &theirs);

            let collapsed = scripts.collapsed(&text);
            let missing = unreached(&theirs);
            let expected: Stacks =
                theirs.iter().filter(|(stack, _)| !missing.contains(stack)).map(|(s, t)| (s.clone(), *t)).collect();
            same(&collapsed, &expected, &format!("collapsed {seed} {shape:?}"), &records);
            left_out += missing.iter().map(|stack| theirs[*stack]).sum::<u64>();
        }
    }
    eprintln!(
        "of {ticks} ticks, {differ} are on other stacks: a blamed stack of theirs stays from the release to the wait's \
         end, and begins a tick late; {left_out} more are left out by stackcollapse-tslog.pl"
    );
}

#[test]
fn the_public_scripts_move_equal_ticks() {
    let Some(scripts) = Scripts::find() else { return };
    for seed in 0..10 {
        let records = log(seed, Shape { ties: true, ..Shape::default() }, 100);
        let moved = bumped(&records);
        let by = moved.last().unwrap().ticks - records.last().unwrap().ticks;
        assert!(by > 0, "the log has equal ticks");
        let (ours, theirs) = (path(&text(&records)), scripts.stacks(&text(&records)));
        let total = |stacks: &Stacks| stacks.values().sum::<u64>();
        // The log's last record is after the end mark, but its tick may be equal.
        let longer = total(&theirs) - total(&ours);
        assert!(longer <= by && longer + 1 >= by, "{seed}: theirs is longer by {longer}, ties moved it by {by}");
        assert_eq!(total(&path(&text(&moved))), total(&theirs), "{seed}: the moved log is theirs");
    }
}

/// A case in which the scripts are wrong. After a wait without a holder, the script takes the last hold before the wait
/// for one inside it, and shows the holder's stack at a time when no thread waits.
#[test]
fn the_public_scripts_blame_outside_of_waits() {
    let log = "0x1 1000 ENTER mi_startup\n0x2 1100 THREAD worker\n0x2 1200 EVENT HOLD root mount\n0x2 1300 ENTER work\n\
               0x2 1400 EXIT work\n0x2 1500 EVENT RELEASE root mount\n0x1 2000 EVENT WAIT root mount\n\
               0x1 2100 EVENT UNWAIT root mount\n0x1 2200 EXIT mi_startup\n0x3 2300 ENTER start_init\n0x3 2400 EXIT start_init\n";
    let stacks = |all: &[(&str, u64)]| -> Stacks { all.iter().map(|(s, t)| ((*s).to_owned(), *t)).collect() };
    let ours = [("kernel", 100), ("kernel;mi_startup", 1200), ("kernel;start_init", 100)];
    assert_eq!(path(log), stacks(&ours));
    let Some(scripts) = Scripts::find() else { return };
    let theirs = scripts.stacks(log);
    assert_eq!(theirs.get("THREAD worker;work"), Some(&100), "{theirs:?}");
    assert_eq!(theirs.values().sum::<u64>(), 1400);
}

fn public() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tslog/public-scripts")
}

/// For a dozen small logs, the difference to the scripts' output is the reviewed one.
#[test]
fn the_public_scripts_output_for_small_logs() {
    let mut logs: Vec<PathBuf> = std::fs::read_dir(public()).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.retain(|path| path.extension().is_some_and(|e| e == "log"));
    logs.sort();
    assert_eq!(logs.len(), 12);
    for log in logs {
        let ours = path(&std::fs::read_to_string(&log).unwrap());
        let theirs = lengths(&std::fs::read_to_string(log.with_extension("theirs")).unwrap());
        crate::support::compare(&log, &difference(&ours, &theirs));
    }
}

/// The totals, and each stack with different ticks.
fn difference(ours: &Stacks, theirs: &Stacks) -> String {
    let total = |stacks: &Stacks| stacks.values().sum::<u64>();
    let mut text = format!("ours {}, theirs {} ticks; {} elsewhere\n", total(ours), total(theirs), apart(ours, theirs));
    let all: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    for stack in all {
        let ticks = |stacks: &Stacks| stacks.get(stack).copied().unwrap_or(0);
        if ticks(ours) != ticks(theirs) {
            text.push_str(&format!("{stack}: ours {}, theirs {}\n", ticks(ours), ticks(theirs)));
        }
    }
    text
}

/// Compares 26 logs of each of ten styles with the scripts. bootscope equals the model for all styles that the model
/// covers. Differences to the scripts are printed for review. `BOOTSCOPE_TSLOG_BLESS` writes the small logs of the test
/// above.
#[test]
#[ignore = "by hand: scripts/compare-tslog"]
fn ten_styles_beside_the_public_scripts() {
    let Some(scripts) = Scripts::find() else { panic!("there are no scripts to compare with") };
    println!("style                  same of  of ticks, elsewhere  totals differ by");
    for style in &STYLES {
        let (mut same_logs, mut ticks, mut elsewhere, mut totals) = (0, 0, 0, 0);
        for seed in 0..26 {
            let records = style.log(seed, 20 + (seed as usize * 13) % 180);
            let text = text(&records);
            let (ours, theirs) = (path(&text), scripts.stacks(&text));
            if !matches!(style.name, "unwait-lost" | "exit-lost" | "exit-without-detail" | "scheduler-never-left") {
                same(&ours, &stacks(&records, Rules::Ours), &format!("{} {seed}", style.name), &records);
            }
            let total = |stacks: &Stacks| stacks.values().sum::<u64>();
            ticks += total(&ours);
            elsewhere += apart(&ours, &theirs);
            totals += total(&ours).abs_diff(total(&theirs));
            same_logs += u32::from(ours == theirs);
            if style.name != "equal-ticks" {
                assert_eq!(total(&ours), total(&theirs), "{} {seed}\n{text}", style.name);
            }
            if std::env::var_os("BOOTSCOPE_TSLOG_DIFFERENCES").is_some() && ours != theirs {
                println!("{} {seed}\n{text}{}", style.name, difference(&ours, &theirs));
            }
        }
        println!("{:22} {same_logs:4} 26  {ticks:9} {elsewhere:10}  {totals:16}", style.name);
        if std::env::var_os("BOOTSCOPE_TSLOG_BLESS").is_some() {
            let waits = |seed: &u64| style.log(*seed, 40).iter().any(|r| r.text.starts_with("WAIT "));
            let seed = (0..100).find(waits).expect("a log in which somebody waits");
            bless(&scripts, style.name, &text(&style.log(seed, 40)));
        }
    }
    if std::env::var_os("BOOTSCOPE_TSLOG_BLESS").is_some() {
        bless(&scripts, "holder-that-holds-on", NEVER_RELEASED);
        bless(&scripts, "scheduler-alone", SCHEDULER);
    }
}

fn bless(scripts: &Scripts, name: &str, log: &str) {
    std::fs::create_dir_all(public()).unwrap();
    std::fs::write(public().join(format!("{name}.log")), log).unwrap();
    std::fs::write(public().join(format!("{name}.theirs")), scripts.run("sh tslog.sh 2>/dev/null", log)).unwrap();
}

/// Both the scripts and bootscope charge usb.
const NEVER_RELEASED: &str = "0x1 1000 ENTER mi_startup\n0x2 1010 THREAD stuck\n0x2 1020 EVENT HOLD root mount\n\
     0x3 1030 THREAD usb\n0x3 1040 EVENT HOLD root mount\n0x1 1100 EXIT mi_startup\n0x4 1110 ENTER start_init\n\
     0x4 1120 EVENT WAIT root mount\n0x3 1200 ENTER usb_explore\n0x3 1800 EXIT usb_explore\n\
     0x3 1900 EVENT RELEASE root mount\n0x4 1910 EVENT UNWAIT root mount\n0x4 2000 EXIT start_init\n";

/// The scripts stay in the scheduler; bootscope stays in the function around it.
const SCHEDULER: &str = "0x1 1000 ENTER hammer_time\n0x1 1010 EXIT hammer_time\n0x1 1020 ENTER mi_startup\n\
     0x1 1500 ENTER SYSINIT scheduler\n0x2 2000 ENTER start_init\n0x2 2500 EXIT start_init\n0x2 2600 ENTER syscall\n";
