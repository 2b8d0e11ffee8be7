//! Boots at the prices of a machine model: sums, ranges, every command that takes `--as`, and what is refused.

use crate::support::boots::Scratch;
use crate::support::schemas::Schemas;
use crate::support::{assert_adds_up, bootscope, list, ns, run};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const MODEL: &str = "published-2016";

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/kept/{name}.tar.zst"))
}

fn shipped() -> Value {
    serde_json::from_str(include_str!("../../../../report/src/models/published-2016.json")).unwrap()
}

#[test]
fn priced_rows_sum_to_the_priced_total_within_its_range() {
    let shown = run(bootscope("show").args(["--json", "--as", MODEL]).arg(kept("lab-exits"))).exits(0).json();
    assert_adds_up(&shown);
    let total = ns(&shown["total_ns"]);
    let sum = |list: &Value, field: &str| -> i64 {
        let rows = list.as_array().unwrap();
        rows.iter().map(|row| row[field].as_i64().unwrap()).sum()
    };
    assert_eq!(sum(&shown["where"], "self_ns"), total);
    let priced = &shown["priced"];
    let count = |field: &str| ns(&priced[field]);
    // The prices of the model. A replay may place a switch between threads some instructions earlier or later.
    let expected = count("instructions") as f64 * 0.5 + (count("accesses") * 4000 + count("pages") * 1000) as f64;
    assert!((expected + count("waited_ns") as f64 - total as f64).abs() <= 10_000.0, "{expected} {priced}");
    assert!(count("accesses") > 150_000 && count("waited_ns") > 140_000_000 && count("not_placed") == 0, "{priced}");
    for (end, phase_field, row_field) in [("low_ns", "low_ns", "self_low_ns"), ("high_ns", "high_ns", "self_high_ns")] {
        assert_eq!(sum(&shown["phases"], phase_field), count(end));
        assert_eq!(sum(&shown["where"], row_field), count(end));
    }
    for row in list(&shown["where"]).iter().chain(list(&shown["functions"])) {
        let [low, value, high] = ["self_low_ns", "self_ns", "self_high_ns"].map(|field| ns(&row[field]));
        assert!(low <= value && value <= high, "{row}");
    }
    assert_eq!((&shown["unit"], &shown["warning_lines"][0]["code"]), (&json!("priced"), &json!("priced")));
    let mut schemas = Schemas::read();
    schemas.check_part(priced, "Priced");
    schemas.check(&shipped());
}

/// A model that says what the guest's clock says gives back the recorded times.
#[test]
fn a_model_of_one_nanosecond_changes_no_time() {
    let scratch = Scratch::new();
    let mut model = shipped();
    let free = json!({"ns": 0, "low_ns": 0, "high_ns": 0});
    model["prices"].as_object_mut().unwrap().values_mut().for_each(|price| *price = free.clone());
    model["prices"]["instruction"] = json!({"ns": 1, "low_ns": 1, "high_ns": 1});
    let file = scratch.path("one.json");
    fs::write(&file, model.to_string()).unwrap();
    let recording = kept("lab-exits");
    let priced = run(bootscope("show").args(["--json", "--as"]).arg(&file).arg(&recording)).exits(0).json();
    let plain = run(bootscope("show").arg("--json").arg(&recording)).exits(0).json();
    // A replay may place a boundary at the first record after it.
    const OFF_NS: i64 = 100;
    for (list, field) in [("where", "self_ns"), ("phases", "start_ns")] {
        let of = |shown: &Value| -> BTreeMap<String, i64> {
            let rows = shown[list].as_array().unwrap();
            rows.iter().map(|row| (row["name"].as_str().unwrap().to_owned(), ns(&row[field]))).collect()
        };
        let (priced, plain) = (of(&priced), of(&plain));
        assert!(priced.keys().eq(plain.keys()), "{list}");
        assert!(priced.values().zip(plain.values()).all(|(a, b)| (a - b).abs() < OFF_NS), "{list}: {priced:?}");
    }
    assert_eq!(priced["total_ns"], plain["total_ns"]);
}

#[test]
fn every_view_of_boots_takes_a_model() {
    let scratch = Scratch::new();
    let recording = kept("lab-exits");
    let with = |words: &[&str]| {
        let mut command = bootscope(words[0]);
        command.args(&words[1..]).args(["--as", MODEL]).arg(&recording);
        command
    };
    let shown = run(&mut with(&["show", "--json", "--no-findings"])).exits(0).json();
    let total = &shown["total_ns"];
    for words in [&["findings", "--json"][..], &["what-if", "--json", "--save", "THREAD usbus0"]] {
        let document = run(&mut with(words)).exits(0).json();
        assert_eq!((&document["unit"], &document["total_ns"]), (&json!("priced"), total), "{words:?}");
    }
    let diff = run(with(&["diff", "--json"]).arg(&recording)).exits(0).json();
    assert_eq!((&diff["before"]["total_ns"], &diff["after"]["total_ns"]), (total, total));
    let page = scratch.path("page.html");
    run(with(&["report", "-o"]).arg(&page)).refuses(&["-o"]);
    run(bootscope("report").args(["--as", MODEL]).arg(&recording).arg("-o").arg(&page)).exits(0);
    assert!(fs::read_to_string(&page).unwrap().contains("prices of the machine model published-2016"));
    let exported = run(&mut with(&["export", "--to", "csv"])).exits(0);
    assert!(exported.text().contains("start_priced_ns,"));
    let budgets = scratch.path("budgets.toml");
    for (budget, status) in [("total = \"900ms\"", 0), ("total = \"700ms\"", 1)] {
        fs::write(&budgets, budget).unwrap();
        run(bootscope("check").args(["--as", MODEL]).arg(&budgets).arg(&recording)).exits(status);
    }
    fs::write(&budgets, "total = \"700M instr\"").unwrap();
    run(bootscope("check").args(["--as", MODEL]).arg(&budgets).arg(&recording)).refuses(&["line 1"]);
}

#[test]
fn what_has_no_price_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    let show = |model: &str, name: &str| run(bootscope("show").args(["--as", model]).arg(kept(name)));
    show(MODEL, "lab-two-cpus").refuses(&["measured by a clock", "--deterministic"]);
    show(MODEL, "lab-deterministic").refuses(&["timed waits", "record it again"]);
    show("published-2061", "lab-exits").refuses(&["published-2061", "published-2016"]);
    let file = scratch.path("model.json");
    let refuses = |text: &str, words: &[&str]| {
        fs::write(&file, text).unwrap();
        show(file.to_str().unwrap(), "lab-exits").refuses(words);
    };
    refuses("[", &["model.json is not a machine model", "line 1"]);
    let mut model = shipped();
    model["prices"]["cpuid"]["ns"] = json!(-4);
    refuses(&model.to_string(), &["prices.cpuid.ns is -4 ns", "give 0 to"]);
    let mut model = shipped();
    model["arch"] = json!("aarch64");
    for field in ["port_read", "port_write", "msr_read", "msr_write", "cpuid"] {
        model["prices"].as_object_mut().unwrap().remove(field);
    }
    refuses(&model.to_string(), &["published-2016 is of aarch64", "x86_64"]);
    model["prices"].as_object_mut().unwrap().remove("halt");
    refuses(&model.to_string(), &["prices.halt is missing"]);
    let [a, dither] = [kept("lab-exits"), "--dither".into()];
    run(bootscope("diff").args([&a, &a, &dither]).args(["2", "--as", MODEL])).refuses(&["--dither", "--as"]);
    run(bootscope("bench").args(["--as", MODEL, "--continue", "x"])).refuses(&["--continue", "--as"]);
    run(bootscope("bench").args(["--as", MODEL, "--lab", "--runs", "1"])).refuses(&["bench measures", "show --as"]);
}
