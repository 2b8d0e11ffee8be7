//! Queries lakes of simulated fleets, whose answers are known. `make lake` builds the tested program, `bootscope-lake`, and
//! `make test-lake` runs these tests.

mod support;

use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use support::{TemporaryLake, answer, answer_and_status, error, fleet};
use synthetic_fleet::Fleet;

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_else(|| panic!("{field} in {row}"))
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field} in {row}"))
}

#[test]
#[ignore = "needs bootscope-lake: make test-lake runs it"]
fn planted_regressions_are_found_with_their_update_and_nothing_else_is() {
    let fleet = Fleet { boots: 60_000, kinds: 40, rows: 40, regressions: 10, ratio: 1.08, ..fleet() };
    let made = TemporaryLake::new(&fleet);
    let (found, code) = answer_and_status(&["ask", made.path(), "regressions", "--json"]);
    assert_eq!(code, 1, "regressions were found");
    assert_eq!(found["boots"], 60_000);
    let planted = fleet.planted();
    let is = |row: &Value, planted: &synthetic_fleet::Planted| {
        row["hardware"] == *planted.hardware && row["name"] == *planted.name && row["kernel"] == *planted.kernel
    };
    let rows: Vec<&Value> = found["rows"].as_array().unwrap().iter().filter(|row| !row["name"].is_null()).collect();
    let right = planted.iter().filter(|planted| rows.iter().any(|row| is(row, planted))).count();
    let wrong: Vec<_> = rows.iter().filter(|row| !planted.iter().any(|planted| is(row, planted))).collect();
    assert!(right >= 9, "{right} of 10 were found");
    assert!(wrong.len() <= 1, "not planted: {wrong:?}");
    for row in &rows {
        let (low, high) = (number(row, "slower_low_ns"), number(row, "slower_high_ns"));
        assert!(low > 0.0 && low <= number(row, "near_ns") && number(row, "near_ns") <= high, "{row}");
        assert!(number(row, "slower_ns") > 0.0 && number(row, "per_day_ns") > 0.0, "{row}");
        assert!(number(row, "boots_before") + number(row, "boots_after") <= 1500.0, "{row}");
    }
}

#[test]
#[ignore = "needs bootscope-lake: make test-lake runs it"]
fn a_fleet_without_regressions_has_none() {
    let fleet = Fleet { boots: 60_000, kinds: 40, rows: 40, regressions: 0, seed: 8, ..fleet() };
    let made = TemporaryLake::new(&fleet);
    let (found, code) = answer_and_status(&["ask", made.path(), "regressions", "--json"]);
    assert_eq!((found["rows"].as_array().unwrap().len(), code), (0, 0), "{found}");
}

#[test]
#[ignore = "needs bootscope-lake: make test-lake runs it"]
fn slow_machines_are_outliers_in_their_row() {
    let fleet = Fleet { boots: 60_000, kinds: 40, rows: 20, days: 10, seed: 5, ..fleet() };
    let made = TemporaryLake::new(&fleet);
    let slow = fleet.slow_machines();
    assert!(!slow.is_empty(), "the seed has one");
    let found = answer(&["ask", made.path(), "outliers", "--json"]);
    let rows = found["rows"].as_array().unwrap();
    let named: HashSet<(&str, &str)> = rows.iter().map(|row| (text(row, "machine"), text(row, "name"))).collect();
    let right = slow.iter().filter(|slow| named.contains(&(&*slow.machine, &*slow.name))).count();
    assert_eq!(right, slow.len(), "of {slow:?} only {named:?}");
    assert!(named.len() <= slow.len() + 1, "too many: {named:?}");
}

#[test]
#[ignore = "needs bootscope-lake: make test-lake runs it"]
fn a_machine_that_fell_silent_is_reported() {
    let fleet = Fleet { boots: 20_000, kinds: 4, rows: 3, ..fleet() };
    let silent = fleet.boot(3).machine.unwrap();
    let made = TemporaryLake::filtered(&fleet, |day, boot| day < 60 || boot.machine.as_deref() != Some(&silent));
    let (found, code) = answer_and_status(&["ask", made.path(), "coverage", "--json"]);
    assert_eq!(code, 1);
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{found}");
    assert_eq!(text(&rows[0], "machine"), silent);
    assert!((29.0..36.0).contains(&number(&rows[0], "silent_days")), "{found}");
    assert!(found["remarks"][0].as_str().unwrap().starts_with("200 machines, of which"), "{found}");
}

#[test]
#[ignore = "needs bootscope-lake: make test-lake runs it"]
fn percentiles_and_means_agree_with_the_boots() {
    let fleet = Fleet { boots: 3000, kinds: 3, rows: 5, ..fleet() };
    let made = TemporaryLake::new(&fleet);
    let boots: Vec<_> = (0..fleet.boots).map(|number| fleet.boot(number)).collect();
    let found = answer(&["ask", made.path(), "boot-times", "--by", "hardware", "--json"]);
    assert_eq!(found["boots"], 3000);
    for row in found["rows"].as_array().unwrap() {
        let of = boots.iter().filter(|boot| boot.hardware.as_deref() == row["hardware"].as_str());
        let mut totals: Vec<i64> = of.map(|boot| boot.summary.total_ns).collect();
        totals.sort_unstable();
        assert_eq!(totals.len() as f64, number(row, "boots"));
        let middle = (totals[totals.len() / 2 - 1] + totals[totals.len() / 2]) as f64 / 2.0;
        assert!((number(row, "p50_ns") - middle).abs() < 1.0, "{row} {middle}");
        assert!(number(row, "p95_low_ns") < number(row, "p95_ns"), "{row}");
        assert!(number(row, "p95_ns") < number(row, "p95_high_ns"), "{row}");
    }
    let found = answer(&["ask", made.path(), "slowest-rows", "--by", "os", "--json"]);
    let rows = found["rows"].as_array().unwrap();
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for row in boots.iter().flat_map(|boot| &boot.summary.wheres) {
        *sums.entry(&row.name).or_default() += row.self_ns;
    }
    assert_eq!(rows.len(), sums.len());
    for row in rows {
        let mean = sums[text(row, "name")] as f64 / 3000.0;
        assert!((number(row, "mean_ns") / mean - 1.0).abs() < 1e-9, "{row} {mean}");
    }
    let shares: f64 = rows.iter().map(|row| number(row, "share")).sum();
    assert!((shares - 1.0).abs() < 1e-9, "the rows are all of the boot: {shares}");
}

#[test]
#[ignore = "needs bootscope-lake: make test-lake runs it"]
fn savings_are_the_sums_of_the_boots_findings() {
    let fleet = Fleet { boots: 900, kinds: 8, rows: 3, days: 9, ..fleet() };
    let made = TemporaryLake::new(&fleet);
    let found = answer(&["ask", made.path(), "what-pays", "--json"]);
    for row in found["rows"].as_array().unwrap() {
        let boots = (0..fleet.boots).map(|number| fleet.boot(number));
        let all: Vec<_> = boots.flat_map(|boot| boot.summary.findings).filter(|of| of.id == text(row, "id")).collect();
        let saved: i64 = all.iter().map(|finding| finding.cost_ns).sum();
        assert_eq!(number(row, "boots"), all.len() as f64);
        assert!((number(row, "per_day_ns") - saved as f64 / 9.0).abs() < 1.0, "{row} {saved}");
        assert!((number(row, "share") - all.len() as f64 / 900.0).abs() < 1e-9, "{row}");
    }
    assert_eq!(found["rows"].as_array().unwrap().len(), 2);
}

#[test]
#[ignore = "needs bootscope-lake: make test-lake runs it"]
fn labels_and_conditions_choose_boots() {
    let fleet = Fleet { boots: 300, kinds: 3, rows: 2, days: 3, ..fleet() };
    let made = TemporaryLake::labelled(&fleet, |number| if number % 2 == 0 { "db" } else { "web" });
    let found = answer(&["ask", made.path(), "boot-times", "--by", "label:team", "--json"]);
    let rows = found["rows"].as_array().unwrap();
    let counts: BTreeMap<&str, f64> = rows.iter().map(|row| (text(row, "label:team"), number(row, "boots"))).collect();
    assert_eq!(counts, BTreeMap::from([("db", 150.0), ("web", 150.0)]));
    let machine = fleet.boot(5).machine.unwrap();
    let found = answer(&["ask", made.path(), "boots", "--where", &format!("machine={machine}"), "--json"]);
    let rows = found["rows"].as_array().unwrap();
    assert!(!rows.is_empty() && rows.iter().all(|row| text(row, "machine") == machine), "{found}");
    assert_eq!(found["boots"], rows.len());
    let found = answer(&["ask", made.path(), "boots", "--since", "2026-01-03", "--json"]);
    assert_eq!(found["boots"], 100, "the third day of three");
}

#[test]
#[ignore = "needs bootscope-lake: make test-lake runs it"]
fn the_page_agrees_with_the_questions() {
    let fleet = Fleet { boots: 30_000, kinds: 10, rows: 20, regressions: 3, ratio: 1.2, ..fleet() };
    let made = TemporaryLake::new(&fleet);
    let page = answer(&["page-data", made.path()]);
    // The type that the page is drawn from can read the document, and loses nothing.
    let drawn = report::LakePage::read(page.to_string().as_bytes()).unwrap();
    assert_eq!((drawn.kinds.len(), drawn.regressions.len()), (10, page["regressions"].as_array().unwrap().len()));
    assert!(!drawn.remarks.contains_key("totals"), "{:?}", drawn.remarks);
    assert_eq!(page["schema"], "bootscope.lake-page/1");
    let (days, kernels) = (page["days"].as_array().unwrap(), page["kernels"].as_array().unwrap());
    assert_eq!((days.len(), kernels.len()), (90, 6));
    assert!(days.is_sorted_by_key(|day| day.as_str()));
    let mut boots = 0.0;
    for kind in page["kinds"].as_array().unwrap() {
        for cell in kind["cells"].as_array().unwrap() {
            assert!(number(cell, "day") < 90.0 && number(cell, "kernel") < 6.0, "{cell}");
            boots += number(cell, "boots");
        }
    }
    assert_eq!(boots, 30_000.0);
    for planted in fleet.planted() {
        let regressions = page["regressions"].as_array().unwrap();
        let found = regressions.iter().find(|row| row["name"] == *planted.name && row["hardware"] == *planted.hardware);
        let behind = found.unwrap_or_else(|| panic!("{planted:?}"))["boots"].as_array().unwrap();
        assert_eq!(behind.len(), 5);
        let all: Vec<_> = (0..fleet.boots).map(|number| fleet.boot(number)).collect();
        for of_behind in behind {
            let boot = all.iter().find(|boot| boot.id == text(of_behind, "boot_id")).unwrap();
            let row = boot.summary.wheres.iter().find(|row| row.name == planted.name).unwrap();
            assert_eq!(number(of_behind, "self_ns"), row.self_ns as f64);
            assert!(boot.summary.subject.kernel >= planted.kernel, "{of_behind}");
        }
    }
}

#[test]
#[ignore = "needs bootscope-lake: make test-lake runs it"]
fn rows_of_boots_that_were_not_added_are_ignored() {
    let fleet = Fleet { boots: 40, kinds: 2, rows: 3, days: 2, ..fleet() };
    let made = TemporaryLake::new(&fleet);
    let sql = "select count(*) as n, count(distinct boot_id) as boots from rows";
    let whole = answer(&["sql", made.path(), sql, "--json"]);
    assert_eq!((&whole[0]["n"], &whole[0]["boots"]), (&120.into(), &40.into()));
    // As after a kill: the file of `boots` of the second day does not have its name yet.
    let day = std::path::Path::new(made.path()).join("boots/day=2026-01-02");
    let file = std::fs::read_dir(&day).unwrap().next().unwrap().unwrap().path();
    let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
    std::fs::remove_file(&file).unwrap();
    let adding = format!("{{\"day\":\"2026-01-02\",\"name\":\"{name}\"}}");
    std::fs::write(std::path::Path::new(made.path()).join("adding.json"), adding).unwrap();
    let half = answer(&["sql", made.path(), sql, "--json"]);
    assert_eq!((&half[0]["n"], &half[0]["boots"]), (&60.into(), &20.into()));
}

#[test]
#[ignore = "needs bootscope-lake: make test-lake runs it"]
fn statements_that_write_or_read_elsewhere_are_refused() {
    let fleet = Fleet { boots: 4, kinds: 1, rows: 1, days: 1, ..fleet() };
    let made = TemporaryLake::new(&fleet);
    let out = made.dir.path().join("out.csv");
    let to = out.display();
    let outside = made.dir.path().join("outside.csv");
    std::fs::write(&outside, "secret\nx\n").unwrap();
    let from = outside.display();
    for sql in [
        format!("copy boots to '{to}'"),
        format!("copy (select 1) to '{to}' stored as csv"),
        format!("create external table x stored as csv location '{from}'"),
        "insert into boots select * from boots".to_owned(),
        "create table x as select 1".to_owned(),
        "create view x as select 1".to_owned(),
        "drop table boots".to_owned(),
        "delete from boots".to_owned(),
        "set datafusion.execution.batch_size = 1".to_owned(),
        format!("select * from '{from}'"),
        format!("select * from \"{from}\""),
        format!("select * from read_csv('{from}')"),
        format!("explain analyze copy boots to '{to}'"),
        "select 1; select 2".to_owned(),
    ] {
        let message = error(&["sql", made.path(), &sql]);
        assert!(!message.contains("secret"), "{sql}: {message}");
        assert!(!out.exists(), "{sql} wrote");
    }
    assert_eq!(answer(&["sql", made.path(), "select count(*) as n from boots", "--json"])[0]["n"], 4);
}

#[test]
#[ignore = "needs bootscope-lake: make test-lake runs it"]
fn other_folders_and_later_lakes_give_one_clear_error() {
    let fleet = Fleet { boots: 4, kinds: 1, rows: 1, days: 1, ..fleet() };
    let made = TemporaryLake::new(&fleet);
    let empty = tempfile::tempdir().unwrap();
    let message = error(&["ask", empty.path().to_str().unwrap(), "regressions"]);
    assert!(message.contains("is no lake") && message.contains("bootscope lake add"), "{message}");
    let message = error(&["ask", "/nowhere/at/all", "regressions"]);
    assert!(message.contains("cannot open the lake /nowhere/at/all"), "{message}");
    std::fs::write(std::path::Path::new(made.path()).join("lake.json"), "{\"schema\": \"bootscope.lake/2\"}").unwrap();
    let message = error(&["sql", made.path(), "select 1"]);
    assert!(message.contains("bootscope.lake/2") && message.contains("use a later one"), "{message}");
}

#[test]
#[ignore = "needs bootscope-lake: make test-lake runs it"]
fn tables_and_csv_agree() {
    let fleet = Fleet { boots: 40, kinds: 2, rows: 3, days: 2, ..fleet() };
    let made = TemporaryLake::new(&fleet);
    let csv = support::output(&["ask", made.path(), "boot-times", "--csv"]).1;
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 3, "{csv}");
    assert!(lines[0].starts_with("by,hardware,time_base,kernel,boots,not_ended,p50_ns"), "{csv}");
    let table = support::output(&["ask", made.path(), "boot-times"]).1;
    assert!(table.contains("p95 ms") && table.contains("\n40 boots\n"), "{table}");
    let quiet = support::output(&["ask", made.path(), "boot-times", "--quiet"]).1;
    assert!(!quiet.contains("40 boots"), "{quiet}");
    let csv = support::output(&["sql", made.path(), "select 'a,b' as \"x y\", null as n", "--csv"]).1;
    assert_eq!(csv, "x y,n\n\"a,b\",\n");
}
