//! `bootscope check`: budgets that are kept, exceeded or undecided, and the output for CI.

use crate::support::journals::Bench;
use crate::support::{bootscope, fixture, imported, list, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

struct Case(TempDir);

impl Case {
    fn new(budgets: &str) -> Case {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("budgets.toml"), budgets).unwrap();
        Case(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A bench of totals around these values in ms, one for each variant.
    fn bench(&self, name: &str, created: &str, kernels: &[&str], around_ms: &[f64]) -> PathBuf {
        let round = |r: u32| around_ms.iter().map(|ms| Some(ms + f64::from(r * 37 % 11))).collect();
        let rounds: Vec<Vec<Option<f64>>> = (0..10).map(round).collect();
        Bench { created, kernels, rounds: &rounds }.write(&self.path(name))
    }

    fn check(&self, boots: &Path) -> Command {
        let mut command = bootscope("check");
        command.arg(self.path("budgets.toml")).arg(boots);
        command
    }
}

const DAY: &str = "2026-01-05T00:00:00Z";

fn statuses(document: &Value) -> Vec<(String, String)> {
    let one = |c: &Value| (c["name"].as_str().unwrap().to_owned(), c["status"].as_str().unwrap().to_owned());
    list(&document["budgets"]).iter().map(one).collect()
}

#[test]
fn budgets_are_exceeded_kept_or_undecided() {
    let case = Case::new(
        "total = [\"1.2s\", \"900ms\"]\n[phase]\ninitcalls = \"502ms\"\n[function]\n\"initcall acpi_init\" = \"250ms\"\n\
         [memory]\nvmm_max_rss = \"50M\"\n",
    );
    let bench = case.bench("b", DAY, &["aaaa"], &[1000.0]);
    let document = run(case.check(&bench).arg("--json")).exits(1).json();
    assert_eq!((document["schema"].as_str(), document["status"].as_str()), (Some("bootscope.check/1"), Some("over")));
    let expected = [
        ("total", "within"),
        ("total", "over"),
        ("initcalls", "cannot-tell"),
        ("initcall acpi_init", "within"),
        ("vmm_max_rss", "over"),
    ];
    assert_eq!(statuses(&document), expected.map(|(name, status)| (name.to_owned(), status.to_owned())));
    let text = run(&mut case.check(&bench)).exits(1);
    let lines: Vec<&str> = text.text().lines().collect();
    assert!(lines[1].starts_with("over"), "what is over comes first: {lines:#?}");
    assert!(
        lines.last().unwrap().starts_with("5 budgets: 2 within, 2 over, 1 that these boots cannot tell"),
        "{lines:#?}"
    );
}

#[test]
fn a_bench_is_checked_and_shown_up_to_a_milestone() {
    let case = Case::new("total = \"700ms\"\n[milestone]\n\"unit:ssh.service\" = [\"1s\", \"800ms\"]\n");
    let bench = case.bench("b", DAY, &["aaaa", "bbbb"], &[1000.0, 950.0]);
    let all = run(case.check(&bench).args(["--variant", "kernel=aaaa", "--json"])).exits(1).json();
    let status = |document: &Value| statuses(document).into_iter().map(|(_, status)| status).collect::<Vec<_>>();
    assert_eq!(status(&all), ["over", "within", "over"], "905 ms to ssh, 1005 ms in all");
    let early = ["--variant", "kernel=aaaa", "--up-to", "process-1", "--json"];
    std::fs::write(case.path("budgets.toml"), "total = \"700ms\"\n").unwrap();
    assert_eq!(status(&run(case.check(&bench).args(early)).exits(0).json()), ["within"], "603 ms to process 1");

    let shown = run(bootscope("show").arg("--json").arg(&bench).args(["--up-to", "unit:ssh.service"])).exits(0).json();
    let median =
        |variant: usize| shown["results"]["variants"][variant]["total"]["median"]["estimate"].as_f64().unwrap();
    assert!((904e6..906e6).contains(&median(0)) && (859e6..861e6).contains(&median(1)), "{} {}", median(0), median(1));
    assert_eq!(shown["up_to"], "unit:ssh.service");
    let text = run(bootscope("show").arg(&bench).args(["--up-to", "unit:ssh.service"])).exits(0);
    assert!(text.text().contains("to the milestone unit:ssh.service"), "{}", text.text());
    run(bootscope("show").arg(&bench).args(["--up-to", "unit:sshd.service"])).refuses(&["nearest: unit:ssh.service"]);
}

#[test]
fn undecided_budgets_have_the_chosen_exit_status() {
    let case = Case::new("total = \"1004ms\"");
    let bench = case.bench("b", DAY, &["aaaa"], &[1000.0]);
    run(&mut case.check(&bench)).exits(0);
    for (chosen, status) in [("3", 3), ("fail", 1), ("ok", 0)] {
        run(case.check(&bench).args(["--undecided", chosen])).exits(status);
    }
    run(case.check(&bench).args(["--undecided", "maybe"])).refuses(&["ok, fail"]);
}

/// A gate that measured nothing fails, and says why.
#[test]
fn a_check_that_measured_nothing_fails() {
    let case = Case::new("total = \"10s\"");
    let nothing = |boots: &Path, why: &str| {
        let xml = case.path("check.xml");
        let ran = run(case.check(boots).arg("--json").arg("--junit").arg(&xml)).exits(1);
        let document = ran.json();
        assert_eq!((document["status"].as_str(), &document["is_measured"]), (Some("cannot-tell"), &false.into()));
        assert_eq!(document["budgets"][0]["undecided"], why, "{document}");
        let xml = std::fs::read_to_string(&xml).unwrap();
        assert!(xml.contains("errors=\"1\"") && xml.contains("<error message="), "{xml}");
        run(case.check(boots).args(["--undecided", "ok"])).exits(0);
    };
    let few: Vec<Vec<Option<f64>>> = (0..4).map(|_| vec![Some(1000.0)]).collect();
    let few = Bench { created: DAY, kernels: &["aaaa"], rounds: &few }.write(&case.path("few"));
    nothing(&few, "too-few");
    let none = Bench { created: DAY, kernels: &["aaaa"], rounds: &[] }.write(&case.path("none"));
    nothing(&none, "no-boots");
    std::fs::write(case.path("budgets.toml"), "kernel = \"6.12\"\ntotal = \"10s\"").unwrap();
    nothing(&case.bench("other", DAY, &["aaaa"], &[1000.0]), "other-kernel");
    // The trace of all boots is lost, and with it the row.
    std::fs::write(case.path("budgets.toml"), "[function]\n\"initcall acpi_init\" = \"10s\"").unwrap();
    let lost = case.bench("lost", DAY, &["aaaa"], &[1000.0]);
    let journal = lost.join("bench.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    let text =
        text.replace("initcall acpi_init", "kernel: no trace").replace("\"outcome\"", "\"traced\":false,\"outcome\"");
    std::fs::write(&journal, text).unwrap();
    nothing(&lost, "no-evidence");
}

#[test]
fn references_of_several_machines_are_written_and_checked() {
    let case = Case::new("total = \"+4%\"\n[phase]\ninitcalls = \"900ms\"\n");
    let before = case.bench("before", DAY, &["aaaa"], &[1000.0]);
    let reference = case.path("reference.toml");
    let write = |boots: &Path| run(case.check(boots).arg("--write-reference").arg(&reference));
    let written = write(&before).exits(0);
    assert!(written.text().contains("total 1004.500ms + 4%"), "{}", written.text());
    let check = |boots: &Path| {
        let mut command = bootscope("check");
        command.arg(&reference).arg(boots);
        command
    };
    for (ms, status) in [(1010.0, 0), (1100.0, 1)] {
        let now = case.bench(&format!("now-{ms}"), DAY, &["bbbb"], &[ms]);
        run(&mut check(&now)).exits(status);
    }
    // Boots elsewhere have no reference, until they get one.
    let elsewhere = case.bench("elsewhere", DAY, &["aaaa"], &[1200.0]);
    let journal = elsewhere.join("bench.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, text.replacen("\"accelerator\":\"tcg\"", "\"accelerator\":\"kvm\"", 1)).unwrap();
    run(&mut check(&elsewhere)).refuses(&["no budget is for", "tcg"]);
    write(&elsewhere).exits(0);
    run(&mut check(&elsewhere)).exits(0);
    run(&mut check(&before)).exits(0);
}

#[test]
fn kernel_ci_gets_ktap_sarif_and_a_report_for_kcidb() {
    let case = Case::new("total = [\"900ms\", \"1004ms\", \"2s\"]\n");
    let bench = case.bench("b", DAY, &["aaaa"], &[1000.0]);
    let (ktap, sarif, kcidb) = (case.path("check.ktap"), case.path("check.sarif"), case.path("kcidb.json"));
    let mut command = case.check(&bench);
    command.arg("--ktap").arg(&ktap).arg("--sarif").arg(&sarif).arg("--kcidb").arg(&kcidb);
    run(command.args(["--kcidb-build", "lab:build-7"])).exits(1);
    let text = std::fs::read_to_string(&ktap).unwrap();
    let results: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let expected = [
        "KTAP version 1",
        "1..4",
        "ok 1 every boot reaches its end mark",
        "not ok 2 total at most 900ms",
        "ok 3 total at most 1004ms # SKIP undecided",
        "ok 4 total at most 2s",
    ];
    assert_eq!(results, expected);
    assert!(text.contains("# value 1004500000 limit 900000000 unit ns"), "{text}");
    let read = |path: &Path| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let sarif = read(&sarif);
    let results = list(&sarif["runs"][0]["results"]);
    let rules: Vec<&str> = results.iter().map(|result| result["ruleId"].as_str().unwrap()).collect();
    assert_eq!(rules, ["over-budget", "undecided"], "{sarif}");
    let region = &results[0]["locations"][0]["physicalLocation"]["region"];
    assert_eq!((region["startLine"].as_u64(), sarif["version"].as_str()), (Some(1), Some("2.1.0")));
    let report = read(&kcidb);
    let tests = list(&report["tests"]);
    let statuses: Vec<&str> = tests.iter().map(|test| test["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["PASS", "FAIL", "DONE", "PASS"], "{report}");
    assert_eq!(tests[1]["path"], "boot.total.total.900ms");
    assert!(
        tests.iter().all(|test| test["id"].as_str().unwrap().starts_with("lab:") && test["build_id"] == "lab:build-7")
    );
    assert_eq!(tests[1]["number"]["value"], 1.0045);
    run(case.check(&bench).arg("--kcidb").arg(&kcidb)).refuses(&["--kcidb-build"]);
    run(case.check(&bench).arg("--kcidb").arg(&kcidb).args(["--kcidb-build", "Lab"])).refuses(&["ORIGIN:ID"]);
}

#[test]
fn a_limit_over_the_first_variant_a_bench_and_the_history() {
    let case = Case::new("total = \"+5%\"");
    for (ms, status) in [(1010.0, 0), (1150.0, 1)] {
        let pair = case.bench(&format!("ab-{ms}"), DAY, &["aaaa", "bbbb"], &[1000.0, ms]);
        run(&mut case.check(&pair)).exits(status);
        let before = case.bench("before", "2026-01-01T00:00:00Z", &["aaaa"], &[1000.0]);
        let now = case.bench(&format!("now-{ms}"), DAY, &["bbbb"], &[ms]);
        run(case.check(&now).arg("--baseline").arg(&before)).exits(status);
        let db = case.path("history.db");
        run(bootscope("history").arg("--db").arg(&db).arg("--add").args([&before, &now])).exits(0);
        let document =
            run(case.check(&now).args(["--json", "--baseline", "history", "--db"]).arg(&db)).exits(status).json();
        let base = document["budgets"][0]["baseline"]["estimate"].as_f64().unwrap();
        assert!((base / 1e6 - 1005.0).abs() < 6.0, "the bench of the other kernel: {base}");
    }
    let alone = case.bench("alone", DAY, &["cccc"], &[1000.0]);
    run(&mut case.check(&alone)).refuses(&["line 1", "+5%", "--baseline"]);
    let db = case.path("empty.db");
    run(bootscope("history").arg("--db").arg(&db).arg("--add").arg(&alone)).exits(0);
    run(case.check(&alone).args(["--baseline", "history", "--db"]).arg(&db)).refuses(&["no earlier bench"]);
}

#[test]
fn a_boot_that_failed_fails_the_check() {
    let case = Case::new("total = \"10s\"");
    let rounds: Vec<Vec<Option<f64>>> = (0..9).map(|r| vec![(r != 4).then_some(1000.0)]).collect();
    let bench = Bench { created: DAY, kernels: &["aaaa"], rounds: &rounds }.write(&case.path("b"));
    let text = run(&mut case.check(&bench)).exits(1);
    assert!(text.text().contains("1 of 9 boots did not reach the end mark"), "{}", text.text());
}

/// Text that would end an attribute, a cell or a command without escapes.
const HOSTILE: &str = "a<b>&\\\"c|%0A::error::";

#[test]
fn output_for_ci_is_well_formed_with_any_name() {
    let case = Case::new(&format!("total = \"900ms\"\n[function]\n\"{HOSTILE}\" = \"+2ms\"\n"));
    let bench = case.bench("b", DAY, &["aaaa", "bbbb"], &[1000.0, 1000.0]);
    let journal = bench.join("bench.jsonl");
    let name = Value::from(HOSTILE.replace("\\\"", "\"")).to_string();
    let text = std::fs::read_to_string(&journal).unwrap().replace("\"initcall acpi_init\"", &name);
    std::fs::write(&journal, text).unwrap();
    let (junit, markdown) = (case.path("check.xml"), case.path("summary.md"));
    std::fs::write(&markdown, "before\n").unwrap();
    let mut command = case.check(&bench);
    command.arg("--github").arg("--junit").arg(&junit).arg("--markdown").arg(&markdown);
    let output = run(&mut command).exits(1);
    let lines: Vec<&str> = output.text().lines().collect();
    assert!(lines[0].starts_with("::error file=") && lines[0].contains("line=1"), "{lines:#?}");
    assert!(
        lines.iter().all(|line| line.starts_with("::error file=") || line.starts_with("::warning file=")),
        "{lines:#?}"
    );
    let xml = std::fs::read_to_string(&junit).unwrap();
    for part in
        ["tests=\"3\"", "failures=\"1\"", "a&lt;b&gt;&amp;&quot;c|%0A::error::", "every boot reaches its end mark"]
    {
        assert!(xml.contains(part), "no {part} in {xml}");
    }
    let well_formed = "import sys, xml.dom.minidom as m; m.parse(sys.argv[1])";
    match Command::new("python3").args(["-c", well_formed]).arg(&junit).status() {
        Ok(status) => assert!(status.success(), "{xml}"),
        Err(why) => crate::support::skip(&format!("no python3 to parse the XML with: {why}")),
    }
    let summary = std::fs::read_to_string(&markdown).unwrap();
    assert!(summary.starts_with("before\n### Boot budgets: over"), "it is appended: {summary}");
    assert!(summary.contains("c\\|%0A"), "{summary}");
}

#[test]
fn recordings_must_be_boots_of_one_kind() {
    let case = Case::new("total = \"20s\"\n");
    std::fs::create_dir(case.path("boots")).unwrap();
    for name in ["boots/a", "boots/b", "boots/c", "boots/d"] {
        imported(&fixture("log/linux-6.1-serial.log"), &case.path(name));
    }
    let status = |folder: &str| {
        let exits = if folder == "boots" && case.path("boots/e").exists() { 0 } else { 1 };
        let document = run(case.check(&case.path(folder)).arg("--json")).exits(exits).json();
        (document["boots"][0]["reached"].clone(), document["budgets"][0]["status"].clone())
    };
    assert_eq!(status("boots"), (4.into(), "cannot-tell".into()), "four are too few");
    assert_eq!(status("boots/a"), (1.into(), "cannot-tell".into()));
    imported(&fixture("log/linux-6.1-serial.log"), &case.path("boots/e"));
    assert_eq!(status("boots"), (5.into(), "within".into()));
    run(&mut case.check(&case.path("nowhere"))).refuses(&["nowhere"]);
    let early = run(case.check(&case.path("boots/a")).args(["--json", "--up-to", "line:initcall cn_proc_init"]))
        .exits(1)
        .json();
    assert_eq!(early["boots"][0]["reached"], 1);
    let never = run(case.check(&case.path("boots")).args(["--json", "--up-to", "unit:ssh.service"])).exits(1);
    assert!(never.stderr.contains("did not pass \"unit:ssh.service\""), "{}", never.stderr);
    let boots = &never.json()["boots"][0];
    assert_eq!((&boots["reached"], &boots["failed"]), (&0.into(), &5.into()), "who did not pass it failed");
}

#[test]
fn errors_in_budgets_are_reported_with_their_line() {
    for (budgets, words) in [
        ("total = \"fast\"", &["line 1", "1.2s"][..]),
        ("[function]\ninitcall_acpi_init = \"5ms\"", &["line 2", "nearest", "initcall acpi_init"]),
        ("[phase]\ninitcals = \"5ms\"", &["line 2", "\"initcalls\""]),
        ("[memory]\nrss = \"5M\"", &["line 2", "vmm_max_rss"]),
        ("[instructions]\ntotal = \"5M\"", &["line 2", "--deterministic"]),
        ("", &["no budget"]),
        ("totl = \"1s\"", &["totl", "total"]),
    ] {
        let case = Case::new(budgets);
        let bench = case.bench("b", DAY, &["aaaa"], &[1000.0]);
        let words: Vec<&str> = ["budgets.toml"].iter().chain(words).copied().collect();
        run(&mut case.check(&bench)).refuses(&words);
    }
    let case = Case::new("total = \"1s\"");
    let three = case.bench("b", DAY, &["a", "b", "c"], &[1000.0, 1000.0, 1000.0]);
    run(&mut case.check(&three)).refuses(&["3 variants", "--variant", "kernel=c"]);
    run(case.check(&three).args(["--variant", "kernel=x"])).refuses(&["kernel=x", "kernel=c"]);
    run(case.check(&three).args(["--variant", "kernel=c"])).exits(1);
}
