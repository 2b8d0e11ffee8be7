//! Compares `docs/json.md` with the program: documents of real benches, histories, checks and ranges fit it, and the
//! fields that it describes occur.

use crate::support::boots::{Scratch, recorded};
use crate::support::json_schema::misfits;
use crate::support::lab::record_lab;
use crate::support::schemas::Schemas;
use crate::support::{bootscope, run, skip};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn lab() -> Option<PathBuf> {
    let lab = std::env::var_os("BOOTSCOPE_LIB").map(|lib| Path::new(&lib).join("lab")).filter(|lab| lab.is_file());
    if lab.is_none() {
        skip("BOOTSCOPE_LIB has no lab");
    }
    lab
}

/// A bench of the lab.
fn bench(lab: &Path, into: &Path, db: &Path, flags: &[&str]) -> Value {
    let mut command = bootscope("bench");
    command.args([
        "--json",
        "--accel",
        "tcg",
        "--init",
        "keep",
        "--until",
        "^init: done",
        "--memory",
        "128M",
        "--kernel",
    ]);
    command.arg(lab).arg("-o").arg(into).arg("--db").arg(db).args(flags);
    run(&mut command).exits(if flags.contains(&"until=^never said") { 1 } else { 0 }).json()
}

#[test]
fn the_page_describes_the_printed_documents() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    let db = scratch.path("history.db");
    let mut schemas = Schemas::read();
    let ab = scratch.path("ab");
    let sweep = ["--deterministic", "--runs", "2", "--sweep", "append=delay.vm_mem=1,delay.vm_mem=2,delay.vm_mem=4"];
    for (into, flags) in [
        (&ab, &["--runs", "6", "--warm-ups", "0", "--vary", "append=delay.vm_mem=1"][..]),
        (&scratch.path("sweep"), &[&sweep[..], &["--at", "100"]].concat()[..]),
        (&scratch.path("repeats"), &["--deterministic", "--no-dither", "--runs", "1", "--vary", "append=ps2=probe"]),
        (&scratch.path("never"), &["--runs", "6", "--warm-ups", "0", "--vary", "until=^never said"]),
    ] {
        schemas.check(&bench(&lab, into, &db, flags));
    }
    schemas.check(&run(bootscope("history").args(["--json", "--db"]).arg(&db)).exits(0).json());
    let metric = run(bootscope("history").args(["--json", "--metric", "vmm_cpu", "--db"]).arg(&db)).exits(0).json();
    assert!(metric["medians"][0]["median"].as_f64() > Some(1e6) && metric["medians"][0]["median_ns"].is_null());
    schemas.check(&metric);
    schemas.check(&run(bootscope("history").args(["--bench", "1", "--db"]).arg(&db)).exits(0).json());
    let add = &mut bootscope("history");
    schemas.check(&run(add.args(["--json", "--db"]).arg(&db).arg("--add").arg(&ab)).exits(0).json());
    let budgets = scratch.path("budgets.toml");
    fs::write(&budgets, "total = [\"100s\", \"+500%\"]\n").unwrap();
    schemas.check(&run(bootscope("check").arg("--json").arg(&budgets).arg(&ab)).exits(0).json());
    let (samples, of_samples) = (scratch.path("perf.txt"), scratch.path("samples"));
    let text =
        "# sampled from: 1.0\n# period: 1000000 ns\n# lost: 2\ninit 1 [000] 7.5: 300 cycles:u:\n\t12 main (/init)\n";
    fs::write(&samples, text).unwrap();
    run(bootscope("import").arg(&samples).arg("-o").arg(&of_samples)).exits(0);
    let shown = run(bootscope("show").arg("--json").arg(&of_samples)).exits(0).json();
    schemas.check_part(&shown["sampled"], "Sampled");
    check_user_space(&mut schemas, &scratch);
    let findings = |recording: &Path| run(bootscope("findings").arg("--json").arg(recording)).exits(0).json();
    schemas.check(&findings(&of_samples));
    let slow = scratch.path("slow");
    let mut command = record_lab(&slow);
    command.args(["--deterministic", "--silence", "20ms", "--append", "calibrate=delay ps2=probe"]);
    recorded(&mut command, &slow, "reached");
    let silent = run(bootscope("show").arg("--json").arg(&slow)).exits(0).json();
    schemas.check_part(&silent["silences"], "Silences");
    let watched = scratch.path("watched");
    let variable = "lab::clock::TICKS@lab::device::device_attach,lab::em::stop";
    recorded(
        record_lab(&watched).args(["--deterministic", "--trace", "exits", "--watch", variable]),
        &watched,
        "reached",
    );
    let shown = run(bootscope("show").arg("--json").arg(&watched)).exits(0).json();
    assert_eq!(shown["watched"]["never_entered"], json!(["lab::em::stop"]));
    schemas.check_part(&shown["watched"], "Watched");
    schemas.check_part(&shown["exits"], "Exits");
    // The lab waits for no clock here, and its calls are not followed.
    let example: Value = serde_json::from_str(include_str!("../../../../report/src/show.example.json")).unwrap();
    schemas.check_part(&example["exits"], "Exits");
    let model = include_str!("../../../../report/src/models/published-2016.json");
    schemas.check(&serde_json::from_str(model).unwrap());
    let priced = run(bootscope("show").args(["--json", "--as", "published-2016"]).arg(&watched)).exits(0).json();
    schemas.check_part(&priced["priced"], "Priced");
    schemas.check(&findings(&slow));
    schemas.check(&run(bootscope("findings").args(["--json", "--explain", "calibration"])).exits(0).json());
    let tried = scratch.path("try");
    let slow_cpus = scratch.path("slow-cpus");
    let words = "tsc_sync=check aps=serial";
    recorded(record_lab(&slow_cpus).args(["--deterministic", "--cpus", "4", "--append", words]), &slow_cpus, "reached");
    let mut trying = bootscope("try");
    trying.arg(&slow_cpus).args(["--json", "--runs", "1", "--append", "panic=vm_mem", "tsc-check", "cpu-start"]);
    schemas.check(&run(trying.arg("-o").arg(&tried).arg("--db").arg(&db)).exits(0).json());
    schemas.check(&serde_json::from_slice(&fs::read(tried.join("bench.json")).unwrap()).unwrap());
    schemas.check(&run(bootscope("findings").arg("--json").arg(&slow_cpus).arg("--db").arg(&db)).exits(0).json());
    fs::remove_file(of_samples.join("00-perf.txt")).unwrap();
    let lost = run(bootscope("show").arg("--json").arg(&of_samples)).exits(0).json();
    schemas.check_part(&lost["warning_lines"][0], "WarningLine");
    check_lake(&mut schemas, &scratch, &slow);
    let unseen = schemas.unseen();
    // Fields of a stock kernel, a hang, luck, a nearly equal remedy, a resumed bench, several rounds, sources, ranges,
    // an option that instructions cannot judge, and a variant without a trace. These have their own tests.
    const ELSEWHERE: [&str; 44] = [
        "Checked.undecided",
        "Checked.detail",
        "CallsMoved.",
        "DiffLine.",
        "DiffAmount.",
        "Plan.leaves_out",
        "Stop.sure",
        "Ask.looks",
        "Against.uncountable",
        "Against.not_comparable",
        "NotComparable.",
        "Bench.up_to",
        "Boot.milestones",
        "Evidence.purpose",
        "PastProof.booted",
        "Against.likely_rows",
        "Likely.",
        "Bench.continued",
        "Boot.guest",
        "VariantRuns.guest",
        "EntryMetrics.guest",
        "Modes.",
        "Order.",
        "LevelChange.",
        "Range",
        "Bisect.",
        "Commit.",
        "ProofLine.rounds_needed",
        "Untried.",
        "Try.layouts",
        "Trial.sources",
        "Sources.",
        "Remedy.along",
        "ProofLine.along",
        "HistoryBoots.",
        "Machine.",
        "MachineBoot.",
        "Update.",
        "BootPart.",
        "Step.",
        "MovedPart.",
        "HistoryAddBoots.",
        "AddedBoot.",
        "NotAdded.",
    ];
    let here = unseen.iter().filter(|field| !ELSEWHERE.iter().any(|known| field.starts_with(known)));
    let rare =
        ["CannotSay.commit", "CannotSay.why", "Description.modes", "Description.order", "Stop.width", "Stop.budget_ns"];
    let here: Vec<&String> = here.filter(|field| !rare.contains(&field.as_str())).collect();
    assert!(here.is_empty(), "the page tells of what is not printed: {here:?}");
}

/// Checks a lake with a recording, and an add of a missing one.
fn check_lake(schemas: &mut Schemas, scratch: &Scratch, recording: &Path) {
    let lake = scratch.path("lake");
    let ask = |command: &str, exits: i32, flags: &[&str]| {
        let mut lake_command = bootscope("lake");
        lake_command.args([command, "--json"]).args(flags);
        if command == "add" {
            lake_command.arg(recording).arg(scratch.path("nowhere")).arg("--to");
        }
        run(lake_command.arg(&lake)).exits(exits).json()
    };
    schemas.check(&ask("add", 1, &[]));
    schemas.check(&ask("compact", 0, &[]));
    schemas.check(&ask("forget", 1, &["--boot", "none"]));
}

/// Checks the processes and units of a hand-made trace: a service that waits for a disk, then its child.
fn check_user_space(schemas: &mut Schemas, scratch: &Scratch) {
    let (trace, log, into) = (scratch.path("trace.txt"), scratch.path("dmesg.txt"), scratch.path("user"));
    let switch = |from: &str, state: &str, to: &str| {
        let (from, to) = (from.split_once('-').unwrap(), to.split_once('-').unwrap());
        format!(
            "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> next_comm={} next_pid={} next_prio=120",
            from.0, from.1, to.0, to.1
        )
    };
    let waking = |comm: &str, pid: u32| format!("sched_waking: comm={comm} pid={pid} prio=120 target_cpu=000");
    let new = |pid: u32| format!("task_newtask: pid={pid} comm=x clone_flags=1200000 oom_score_adj=0");
    let joins = "cgroup_attach_task: dst_root=0 dst_id=3 dst_level=2 dst_path=/system.slice/a.service pid=7 comm=(a)";
    let runs = |file: &str, pid: u32| format!("sched_process_exec: filename={file} pid={pid} old_pid={pid}");
    let happens = [
        ("init-1", ".....", runs("/sbin/init", 1)),
        ("init-1", ".....", new(7)),
        ("init-1", "d..1.", joins.to_owned()),
        ("init-1", "d....", switch("init-1", "S", "a-7")),
        ("a-7", ".....", runs("/bin/a", 7)),
        ("a-7", "d....", switch("a-7", "D", "swapper-0")),
        ("<idle>-0", "d.h1.", "irq_handler_entry: irq=9 name=virtio0-req.0".to_owned()),
        ("<idle>-0", "d.h2.", "block_rq_complete: 254,0 R () 0 + 8 [0]".to_owned()),
        ("<idle>-0", "d.h1.", waking("a", 7)),
        ("<idle>-0", "d.h1.", "irq_handler_exit: irq=9 ret=handled".to_owned()),
        ("<idle>-0", "d....", switch("swapper-0", "R", "a-7")),
        ("a-7", ".....", new(8)),
        ("a-7", "d....", switch("a-7", "S", "b-8")),
        ("b-8", ".....", "sched_process_exit: comm=b pid=8 prio=120".to_owned()),
        ("b-8", "d....", waking("a", 7)),
        ("b-8", "d....", switch("b-8", "X", "a-7")),
        ("a-7", ".....", "sched_process_exit: comm=a pid=7 prio=120".to_owned()),
        ("a-7", "d....", waking("init", 1)),
        ("a-7", "d....", switch("a-7", "X", "init-1")),
    ];
    let lines = happens
        .iter()
        .enumerate()
        .map(|(at, (task, flags, event))| format!("{task:>16} [000] {flags} {:>5}.{:06}: {event}\n", 1, 10_000 * at));
    fs::write(&trace, format!("# tracer: nop\n{}", lines.collect::<String>())).unwrap();
    let messages = "[    1.000000] systemd[1]: systemd 252 running in system mode\n\
                [    1.030000] systemd[1]: Starting a.service - A...\n[    1.180000] systemd[1]: Finished a.service - A.\n";
    fs::write(&log, messages).unwrap();
    run(bootscope("import").arg(&trace).arg(&log).arg("-o").arg(&into)).exits(0);
    let shown = run(bootscope("show").arg("--json").arg(&into)).exits(0).json();
    let service = &shown["processes"][1];
    assert_eq!((&service["unit"], &service["waits"][0]["for"]), (&json!("a.service"), &json!("disk")), "{service:#}");
    shown["processes"].as_array().unwrap().iter().for_each(|process| schemas.check_part(process, "Process"));
    assert_eq!(shown["units"][0]["pids"], json!([7, 8]), "{:#}", shown["units"]);
    schemas.check_part(&shown["units"][0], "Unit");
}

/// The file of a document's schema: `docs/schemas/show.json` for `bootscope.show/1`.
fn file(name: &str) -> PathBuf {
    let name = name.trim_start_matches("bootscope.").trim_end_matches("/1");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/schemas/{name}.json"))
}

#[test]
fn the_schemas_are_those_of_the_types() {
    let mut files = Vec::new();
    for (name, schema) in report::schemas() {
        let text = serde_json::to_string_pretty(schema.as_value()).unwrap() + "\n";
        let path = file(name);
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == text, "{} is not what the types say: BLESS=1 writes it", path.display());
        files.push(path.file_name().unwrap().to_owned());
    }
    let kept = fs::read_dir(file("").parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut kept: Vec<_> = kept.collect();
    kept.sort();
    assert_eq!(kept, files, "a schema of no document");
}

#[test]
fn the_examples_fit_their_schemas() {
    let examples = [
        include_str!("../../../../report/src/show.example.json"),
        include_str!("../../../../report/src/diff.example.json"),
        include_str!("../../../../report/src/what-if.example.json"),
        include_str!("../../../../report/src/lab.example.json"),
        include_str!("../../../../report/src/fit.example.json"),
    ];
    for example in examples.map(|text| serde_json::from_str::<Value>(text).unwrap()) {
        let name = example["schema"].as_str().unwrap();
        let schema: Value = serde_json::from_str(&fs::read_to_string(file(name)).unwrap()).unwrap();
        assert_eq!(misfits(&schema, &example), [""; 0], "{name}");
        // A misfit must be detected: for every field, a document without it, with another type, and with an additional
        // field.
        for field in example.as_object().unwrap().keys() {
            let mut changed = example.clone();
            changed[field] = json!({"a": "field of no type"});
            assert_ne!(misfits(&schema, &changed), [""; 0], "{name}: {field}");
            changed.as_object_mut().unwrap().remove(field);
            let required = schema["required"].as_array().unwrap().contains(&json!(field));
            assert_eq!(misfits(&schema, &changed).is_empty(), !required, "{name}: {field}");
        }
        let mut more = example.clone();
        more["more"] = json!(1);
        assert_eq!(misfits(&schema, &more), ["/more is in no schema"], "{name}");
    }
}

#[test]
fn the_page_and_the_schemas_have_the_same_fields() {
    let page = Schemas::read();
    let mut compared = 0;
    for (name, schema) in report::schemas() {
        compared += page.compare(name, schema.as_value());
    }
    assert!(compared > 30, "{compared} tables");
}

#[test]
fn fields_missing_in_the_page_are_detected() {
    let right = json!({"schema": "bootscope.history-add/1", "database": "a", "added": [{"from": "b", "bench": 1, "new": true}]});
    Schemas::read().check(&right);
    let wrong = [
        ("/added/0/bench", json!("1"), "no integer"),
        ("/added/0", json!({"from": "b", "bench": 1}), "new is missing"),
        ("/added/0", json!({"from": "b", "bench": 1, "new": true, "more": 1}), "more is not on the page"),
        ("/database", json!(null), "no text"),
    ];
    for (at, value, says) in wrong {
        let mut document = right.clone();
        *document.pointer_mut(at).unwrap() = value;
        let message = std::panic::catch_unwind(|| Schemas::read().check(&document)).unwrap_err();
        let message = message.downcast_ref::<String>().unwrap();
        assert!(message.contains(says), "{message}");
    }
}
