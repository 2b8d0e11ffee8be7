//! The results from call traces, on hand-made files with known answers: spans, waits, the boot path by function to the
//! nanosecond, phases, exports, import. `calls.rs` has real boots.

use crate::support::followed::{BASE, CALL, Followed, INTERRUPT, STACK, TAIL, small_boot};
use crate::support::{bootscope, list, ns, run, shown, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn import(file: &Followed, end: u64, folder: &Path) -> PathBuf {
    let recording = folder.join("boot");
    let files = file.write(folder, end);
    run(bootscope("import").args(files).arg("-o").arg(&recording)).exits(0);
    recording
}

/// The rows by name: self, total and count.
fn table(document: &Value, name: &str) -> BTreeMap<String, (i64, i64, u64)> {
    let row = |row: &Value| {
        let name = format!("{} {}", text(&row["name"]), row["detail"].as_str().unwrap_or(""));
        (name.trim().to_owned(), (ns(&row["self_ns"]), ns(&row["total_ns"]), row["count"].as_u64().unwrap()))
    };
    list(&document[name]).iter().map(row).collect()
}

fn expected(rows: &[(&str, i64, i64, u64)]) -> BTreeMap<String, (i64, i64, u64)> {
    rows.iter().map(|&(name, own, total, count)| (name.to_owned(), (own, total, count))).collect()
}

#[test]
fn every_call_is_counted_and_every_nanosecond_has_its_function() {
    let folder = tempfile::tempdir().unwrap();
    let document = shown(&import(&small_boot(400), 4000, folder.path()));
    assert_eq!((ns(&document["total_ns"]), document["diagnostics"].clone()), (4000, Value::Array(Vec::new())));
    let functions = expected(&[
        ("bar", 1000, 1000, 10),
        ("default_idle", 1080, 1080, 1),
        ("rest_init", 440, 1520, 1),
        ("initcall foo", 400, 1400, 1),
        ("memset", 400, 400, 40),
        ("user space", 200, 200, 1),
        ("kernel_init", 175, 1675, 1),
        ("do_one_initcall", 100, 1500, 1),
        ("setup_arch", 90, 490, 1),
        ("0xf1000", 80, 80, 1),
        ("(no function known)", 35, 35, 3),
    ]);
    assert_eq!(table(&document, "functions"), functions);
    let wheres = expected(&[
        ("initcall foo", 1400, 1400, 1),
        ("default_idle · wait", 1000, 1000, 1),
        ("setup_arch", 490, 490, 1),
        ("rest_init", 440, 1520, 1),
        ("user space", 200, 200, 1),
        ("kernel_init", 175, 1675, 1),
        ("do_one_initcall", 100, 1500, 1),
        ("default_idle", 80, 1080, 1),
        ("0xf1000", 80, 80, 1),
        ("(before the kernel)", 20, 20, 1),
        ("(early kernel)", 15, 15, 2),
    ]);
    assert_eq!(table(&document, "where"), wheres);
    // All but the own time of the steps' callers and of the stacks' bottoms.
    assert_eq!(document["explained"].as_f64().unwrap(), (4000 - 440 - 175 - 100 - 35) as f64 / 4000.0);
    assert_eq!(document["cpu_followed"], true);
}

#[test]
fn phases_and_tracks_come_from_stacks_and_initcalls() {
    let folder = tempfile::tempdir().unwrap();
    let recording = import(&small_boot(400), 4000, folder.path());
    let document = shown(&recording);
    let phase = |p: &Value| (text(&p["name"]).to_owned(), ns(&p["start_ns"]), ns(&p["end_ns"]));
    let phases: Vec<_> = list(&document["phases"]).iter().map(phase).collect();
    let expected = [
        ("before the kernel", 0, 100),
        ("early kernel", 100, 1100),
        ("initcalls: all levels", 1100, 2500),
        ("hand-over", 2500, 4000),
    ];
    assert_eq!(phases, expected.map(|(name, start, end)| (name.to_owned(), start, end)));
    let export = run(bootscope("export").arg(&recording).args(["--to", "csv"])).exits(0);
    let spans: Vec<&str> = export.text().lines().skip(1).filter_map(|line| line.split_once(',')).map(|s| s.1).collect();
    let expected = [
        "code without names,20,100,0,call,0xf1000,",
        "swapper/0,110,600,0,call,setup_arch,",
        "swapper/0,600,4000,0,call,rest_init,",
        "swapper/0,2620,3700,1,call,default_idle,",
        "init,1005,4000,0,call,kernel_init,",
        "init,1050,2550,1,call,do_one_initcall,",
        "init,1100,2500,2,initcall,initcall,foo",
    ];
    let mut sorted: Vec<&str> = spans.clone();
    sorted.sort_unstable();
    let mut wanted = expected.to_vec();
    wanted.sort_unstable();
    assert_eq!(sorted, wanted);
}

/// A short interrupt hangs from the bottom of its stack and came while `foo` ran. The times of both stay correct.
#[test]
fn interrupts_are_not_charged_to_the_interrupted_function() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = small_boot(400);
    // 300 of foo's 1400 instructions belong to a timer: the path of bar has that much less.
    file.symbol(BASE + 0x2000, "asm_timer").path(14, 8, INTERRUPT, BASE + 0x2000, 3, 300);
    let bytes = file.bytes(4000);
    let whole = small_boot(400).bytes(4000);
    assert!(bytes.len() > whole.len());
    file.path(12, 11, CALL, BASE + 0x800, 10, 700);
    let functions = table(&shown(&import(&file, 4000, folder.path())), "functions");
    assert_eq!((functions["bar"].0, functions["asm_timer"].0, functions["initcall foo"].0), (700, 300, 400));
    assert_eq!((functions["asm_timer"].2, functions["bar"].2), (3, 10));
}

/// Linux's `__switch_to_asm` calls into itself to fill the return stack buffer. A jump to what looks like the beginning
/// of a function may also happen within that function.
#[test]
fn a_jump_within_a_function_is_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = small_boot(400);
    let whole = file.bytes(4000);
    file.path(14, 12, CALL, BASE + 0x835, 240, 200).path(15, 14, TAIL, BASE + 0x870, 7, 100);
    file.path(12, 11, CALL, BASE + 0x800, 10, 700);
    assert!(file.bytes(4000).len() > whole.len());
    let functions = table(&shown(&import(&file, 4000, folder.path())), "functions");
    assert_eq!((functions["bar"].0, functions["bar"].2), (1000, 10));
}

/// A function with both long and short calls: each time stays in its spans.
#[test]
fn long_and_short_calls_of_one_path() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = Followed::default();
    for (i, name) in (0..).zip(["kernel_init", "work", "leaf"]) {
        file.symbol(BASE + i * 0x100, name);
    }
    file.path(2, 0, STACK, 0x1000, 0, 0).path(3, 2, CALL, BASE, 1, 1000).open(3, 0, 0);
    // One call of work takes 600, five take 80 each; leaf is half of each.
    file.path(4, 3, CALL, BASE + 0x100, 6, 500).path(5, 4, CALL, BASE + 0x200, 6, 500).span(4, 100, 700).switch(0, 2);
    let functions = table(&shown(&import(&file, 2000, folder.path())), "functions");
    assert_eq!(functions["work"], (500, 1000, 6));
    assert_eq!(functions["leaf"], (500, 500, 6));
    assert_eq!(functions["kernel_init"], (1000, 2000, 1));
}

#[test]
fn exports_have_the_calls_and_folded_has_the_short_ones_too() {
    let folder = tempfile::tempdir().unwrap();
    let recording = import(&small_boot(400), 4000, folder.path());
    for format in ["perfetto", "speedscope", "chrome", "json", "svg"] {
        let file = folder.path().join(format);
        run(bootscope("export").arg(&recording).args(["--to", format, "-o"]).arg(&file)).exits(0);
        let bytes = std::fs::read(&file).unwrap();
        assert!(bytes.windows(12).any(|w| w == b"default_idle"), "{format} has no default_idle");
    }
    let folded = run(bootscope("export").arg(&recording).args(["--to", "folded"])).exits(0);
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for line in folded.text().lines() {
        let (stack, ns) = line.rsplit_once(' ').unwrap();
        *sums.entry(stack).or_default() += ns.parse::<i64>().unwrap();
    }
    assert_eq!(sums.values().sum::<i64>(), 4000);
    assert_eq!(sums["init;kernel_init;do_one_initcall;initcall foo;bar"], 1000);
    assert_eq!(sums["init;kernel_init;do_one_initcall;initcall foo"], 400);
    assert_eq!(sums["swapper/0;setup_arch;memset"], 400);
    assert_eq!(sums["swapper/0;rest_init;default_idle;wait"], 1000);
}

#[test]
fn a_file_truncated_anywhere_is_shown_and_adds_up() {
    let folder = tempfile::tempdir().unwrap();
    let [calls, symbols] = small_boot(400).write(folder.path(), 4000);
    let whole = std::fs::read(&calls).unwrap();
    for len in (80..whole.len()).step_by(61) {
        std::fs::write(&calls, &whole[..len]).unwrap();
        let recording = folder.path().join(format!("cut-{len}"));
        run(bootscope("import").args([&calls, &symbols]).arg("-o").arg(&recording)).exits(0);
        shown(&recording);
    }
}

#[test]
fn equal_boots_do_not_differ() {
    let folder = tempfile::tempdir().unwrap();
    let boot = import(&small_boot(400), 4000, folder.path());
    let document = run(bootscope("diff").arg(&boot).arg(&boot).arg("--json")).exits(0).json();
    for list_of in ["phases", "rows", "functions", "paths"] {
        assert_eq!(list(&document[list_of]), &[] as &[Value], "{list_of}");
    }
    assert_eq!((document["evidence"].as_str(), document["paths_compared"].as_u64()), (Some("calls"), Some(14)));
    let output = run(bootscope("diff").arg(&boot).arg(&boot)).exits(0);
    assert!(output.text().contains("no difference: 14 functions, on 14 paths"), "{}", output.text());
}

/// `foo` takes 100 more, `bar` is called once more without taking longer, one function is gone, and another is new.
#[test]
fn a_diff_names_what_changed_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let before = import(&small_boot(400), 4000, &folder.path().join("before"));
    let mut changed = small_boot(500);
    changed.path(12, 11, CALL, BASE + 0x800, 11, 1000);
    changed
        .symbol(BASE + 0x600, "do_one_initcall")
        .path(6, 5, CALL, BASE + 0x3000, 40, 400)
        .symbol(BASE + 0x3000, "memclear");
    let after = import(&changed, 4100, &folder.path().join("after"));
    let document = run(bootscope("diff").arg(&before).arg(&after).arg("--json")).exits(0).json();
    let lines = |of: &str| -> Vec<(String, String, i64)> {
        let line = |l: &Value| (text(&l["name"]).to_owned(), text(&l["what"]).to_owned(), ns(&l["on_path_change_ns"]));
        list(&document[of]).iter().map(line).collect()
    };
    let line = |name: &str, what: &str, ns: i64| (name.to_owned(), what.to_owned(), ns);
    let changes = [
        line("memclear", "appeared", 400),
        line("memset", "vanished", -400),
        line("initcall foo", "changed", 100),
        line("bar", "changed", 0),
    ];
    // foo's callers have more time under them, but are not changed themselves.
    let under = |name: &str| line(name, "changed", 0);
    let functions = lines("functions");
    assert_eq!(functions[..4], changes);
    let callers: Vec<_> = ["(init: no function known)", "do_one_initcall", "kernel_init"].map(under).to_vec();
    assert_eq!(functions[4..], callers);
    assert_eq!(lines("paths"), changes);
    let foo = &list(&document["paths"])[2];
    assert_eq!(foo["callers"], serde_json::json!(["init", "kernel_init", "do_one_initcall"]));
    let amount = serde_json::json!({"calls": 1, "self_ns": 500, "total_ns": 1500, "on_path_ns": 500});
    assert_eq!(foo["after"], amount);
    let rows: Vec<_> = list(&document["rows"]).iter().map(|r| text(&r["name"])).collect();
    assert_eq!(rows, ["initcall foo"]);
    assert_eq!(ns(&document["after"]["total_ns"]) - ns(&document["before"]["total_ns"]), 100);
    let output = run(bootscope("diff").arg(&before).arg(&after)).exits(0);
    assert!(output.text().contains("memset ← setup_arch ← swapper/0"), "{}", output.text());
}

/// Without call traces, the functions of the two boot paths are compared.
#[test]
fn the_common_functions_of_two_logs_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str, us: u32| {
        let end = 1000 + us;
        let text = format!(
            "[    0.001000] calling  foo+0x0/0x1 @ 1\n[    0.00{end}] initcall foo+0x0/0x1 returned 0 after {us} usecs\n\
             [    0.009000] Run /init as init process\n"
        );
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        crate::support::imported(&file, &folder.path().join(format!("{name}.boot")))
    };
    let (before, after) = (log("a", 500), log("b", 800));
    let document = run(bootscope("diff").arg(&before).arg(&after).arg("--json")).exits(0).json();
    assert_eq!((document["evidence"].as_str(), document["floor"].is_null()), (Some("boot path"), true));
    let foo = crate::support::rows(&document["functions"], "name", "initcall foo");
    assert_eq!(foo.iter().map(|foo| ns(&foo["on_path_change_ns"])).collect::<Vec<_>>(), [300_000]);
}

/// The activity of the CPU alone does not show what would come sooner.
#[test]
fn what_if_needs_waits() {
    let folder = tempfile::tempdir().unwrap();
    let boot = import(&small_boot(400), 4000, folder.path());
    run(bootscope("what-if").arg(&boot).args(["--save", "initcall foo"])).refuses(&["--trace events,calls"]);
}
