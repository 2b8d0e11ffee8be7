//! Every line of the table of metrics is in every view: the journal, the results, CSV, the history, budgets, the text
//! of a bench and of a recording, the page and JSON.

use benchmark::budgets::judge::Baseline;
use benchmark::budgets::{self, Budgets, Observed, Status};
use benchmark::history::{Filter, History};
use benchmark::metrics::{Better, METRICS, Metric, Source, Unit, Values};
use benchmark::{Boot, Document, Head, Measured, Plan, Stop, Variant};
use report::{Check, Layout, Median, PageBoot, PastBenches, Summary};

const ROUNDS: u32 = 12;

/// A distinct value for every source; the second variant's values are half as much again.
fn values(round: u32, variant: usize) -> Values {
    let mut place = 0;
    Values::gather(|source| {
        place += 1;
        // The free memory of the guest must be more than zero.
        let base = if source == Source::Meminfo("MemTotal") { (90 << 30) + 54_321 } else { place << 30 };
        Some(base + base / 2 * variant as u64 + u64::from(1 + round * 7 % 5) * 1000)
    })
}

fn document() -> Document {
    let boot = |number: u32| {
        let (round, variant) = (number / 2, number as usize % 2);
        let metrics = values(round, variant);
        let measured =
            Measured { outcome: "reached".to_owned(), total_ns: Some(1_000_000_000), metrics, ..Measured::default() };
        Boot { number, round: Some(round), variant, began_ns: 0, measured }
    };
    let plan =
        Plan { variants: 2, warm_ups: 0, stop: Stop { rounds: ROUNDS, ..Stop::default() }, seed: 1, ..Plan::default() };
    let mut head = Head::of(plan, vec![Variant::named("before"), Variant::named("after")]);
    head.created = "2026-01-02T03:04:05Z".to_owned();
    Document::new(head, (0..2 * ROUNDS).map(boot).collect(), None)
}

#[test]
fn every_metric_is_in_every_view_of_a_bench() {
    let document = document();
    let json: serde_json::Value = serde_json::to_value(&document).unwrap();
    assert_eq!(serde_json::from_value::<Document>(json.clone()).unwrap(), document, "all comes back");
    let text = report::bench(&document, false, Layout { width: 100, ..Layout::default() });
    let mut csv = Vec::new();
    report::bench_csv(&document, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    for metric in METRICS {
        let (name, first) = (metric.name, values(0, 0).get(metric).unwrap());
        if !matches!(metric.from, Source::Less(..)) {
            assert_eq!(json["boots"][0][metric.field()], first, "{name}: the raw sample");
        }
        let runs = &json["results"]["variants"][1][name];
        assert!(runs["mean"].as_f64().unwrap() > 1.2 * first as f64, "{name}: {runs}");
        let compared = json["results"]["comparisons"][0]["metrics"].as_array().unwrap();
        let compared = compared.iter().find(|moved| moved["name"] == name);
        assert_eq!(compared.is_some(), metric.is_compared(), "{name}");
        assert!(compared.is_none_or(|moved| moved["by"]["change"] == "more"), "{name}: {compared:?}");
        assert!(text.lines().any(|line| line.starts_with(metric.text)), "{name} has no row:\n{text}");
        let verdict = if metric.better == Better::Higher { "more, which is better" } else { "more, which is worse" };
        let listed = text.lines().find(|line| line.starts_with(&format!("metric: {}: +", metric.text)));
        assert_eq!(listed.is_some_and(|line| line.ends_with(verdict)), metric.is_compared(), "{name}: {listed:?}");
        let column = csv.lines().next().unwrap().split(',').position(|title| title == metric.field()).expect(name);
        assert_eq!(csv.lines().nth(1).unwrap().split(',').nth(column), Some(first.to_string().as_str()), "{name}");
    }
    let old_name = json["results"]["comparisons"][0]["memory"].as_array().unwrap();
    let in_bytes = METRICS.iter().filter(|metric| metric.is_compared() && metric.unit == Unit::Bytes);
    assert!(old_name.iter().map(|moved| moved["name"].as_str().unwrap()).eq(in_bytes.map(|metric| metric.name)));
}

#[test]
fn every_metric_is_in_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let mut history = History::open(&folder.path().join("history.db")).unwrap();
    let document = document();
    let bench = history.add(&document).unwrap().bench;
    let entries = history.entries(&Filter::default()).unwrap();
    let json = serde_json::to_value(&entries).unwrap();
    for metric in METRICS {
        let expected = document.results.variants[1].metrics.known(metric.name).unwrap().median.estimate;
        let medians = history.medians(&Filter::default(), metric).unwrap();
        assert_eq!(medians.last(), Some(&(bench, expected)), "{}", metric.name);
        assert_eq!(entries[1].level(metric).unwrap().median, expected, "{}", metric.name);
        assert_eq!(json[1]["metrics"][metric.name]["median"], expected, "{}", metric.name);
        let past = PastBenches {
            schema: report::HISTORY_SCHEMA.to_owned(),
            database: "history.db".to_owned(),
            entries_in_all: 2,
            entries: entries.clone(),
            setup: Some(history.setup(entries[0].setup).unwrap()),
            metric: metric.name.to_owned(),
            medians: medians.iter().map(|&(bench, median)| Median::of(metric, bench, median)).collect(),
            asked_for_changes: 2,
            changes: Vec::new(),
        };
        let text = past.text(Layout { width: 120, ..Layout::default() });
        assert!(text.lines().any(|line| line == metric.text), "{text}");
        let amount = shown(metric, expected);
        assert!(text.lines().any(|line| line.contains(&amount) && line.contains("after")), "{amount}\n{text}");
    }
}

#[test]
fn every_metric_with_less_is_better_can_have_a_budget() {
    let document = document();
    let variants = [0, 1].map(|v| Observed::of_variant(&document, v, "bench"));
    for metric in METRICS {
        let budget = format!("[metric]\n{} = \"+10%\"\n", metric.name);
        if metric.better != Better::Lower {
            let refused = Budgets::parse(&budget).unwrap_err();
            assert!(refused.line == 2 && refused.why.contains("vmm_max_rss"), "{refused}");
            continue;
        }
        let budgets = Budgets::parse(&budget).unwrap();
        let [first, second] = variants.clone();
        let checked = budgets::check(&budgets, &[(second, Some(Baseline::Rounds(Box::new(first))))]).unwrap();
        assert_eq!(checked.iter().map(|c| c.status).collect::<Vec<_>>(), [Status::Over], "{}", metric.name);
        let text =
            Check::new("budgets.toml", variants[1..].iter(), checked).text(Layout { width: 120, ..Layout::default() });
        assert!(text.contains(metric.name), "{text}");
        if metric.unit == Unit::Bytes {
            assert_eq!(Budgets::parse(&budget.replace("metric", "memory")).unwrap().all[0].what, budgets.all[0].what);
        }
    }
}

#[test]
fn every_metric_is_in_every_view_of_a_recording() {
    let (timeline, mut facts) = (crate::sample::timeline(), crate::sample::facts());
    facts.metrics = values(0, 0);
    let boot = report::Boot::new(&timeline, &facts);
    let summary = Summary::of(&boot);
    let json = serde_json::to_value(&summary).unwrap();
    let text = report::show(&summary, Layout { width: 400, ..Layout::default() });
    let mut page = Vec::new();
    report::page(&[PageBoot { name: "a", boot: &boot, console: &[] }], report::Asks::Nobody, &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    for metric in METRICS {
        let value = values(0, 0).get(metric).unwrap();
        if !matches!(metric.from, Source::Less(..)) {
            assert_eq!(json["metrics"][metric.field()], value);
            let by_older_name = &json["memory"][metric.field()];
            assert!(*by_older_name == value || metric.unit != Unit::Bytes && by_older_name.is_null());
        }
        let amount = shown(metric, value as f64);
        assert!(text.contains(&format!("{} {amount}", metric.text)), "{}: {amount}\n{text}", metric.name);
        assert!(page.contains(&format!("<dt>{}</dt><dd>{amount}</dd>", metric.text)), "{}", metric.name);
    }
}

/// An amount as tables show it, computed without them.
fn shown(metric: &Metric, value: f64) -> String {
    match metric.unit {
        Unit::Nanoseconds => timeline::Ns(value.round() as i64).to_string(),
        Unit::Bytes => match value / f64::from(1 << 30) {
            gib if gib >= 100.0 => format!("{gib:.0} GiB"),
            gib if gib >= 10.0 => format!("{gib:.1} GiB"),
            gib => format!("{gib:.2} GiB"),
        },
    }
}

#[test]
fn the_page_on_json_has_the_table() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let title = "| metric | unit | better | where from |\n|---|---|---|---|\n";
    let (before, after) = page.split_once(title).expect("the page has the table's title");
    let rest = &after[after.find("\n### ").expect("the table ends")..];
    let rows: String = METRICS.iter().map(row).collect();
    let expected = format!("{before}{title}{rows}{rest}");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    assert!(page == expected, "docs/json.md: run again with BLESS=1\n{rows}");
}

fn row(metric: &Metric) -> String {
    let unit = match metric.unit {
        Unit::Nanoseconds => "ns",
        Unit::Bytes => "bytes",
    };
    let better = match metric.better {
        Better::Lower => "lower",
        Better::Higher => "higher",
        Better::Neither => "",
    };
    let from = match metric.from {
        Source::Length => "time zero to the end mark".to_owned(),
        Source::TimedWaits => {
            "the guest waits for its clock: its CPUs are halted, or a loop reads the clock (deterministic boots)"
                .to_owned()
        }
        Source::Meminfo(line) => format!("`{line}` of the guest's `/proc/meminfo` at the end mark"),
        Source::MeminfoAfterWorkload(line) => format!("`{line}` of the guest's `/proc/meminfo` after the workload"),
        Source::VmmMaxRss => "the VMM's maximum resident set, until it ended".to_owned(),
        Source::VmmCpuTime => "user and system time of the VMM on the host, until it ended".to_owned(),
        Source::Less(all, part) => format!("`{all}` − `{part}`"),
    };
    format!("| `{}` | {unit} | {better} | {from} |\n", metric.name)
}
