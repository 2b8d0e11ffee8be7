//! Files that bootscope keeps between runs, and files that users write for it: a file of `budgets`, a `lake.json` with the notes
//! beside it, and a `history`. The first byte chooses one. A grammar makes the file from the rest, or after an `R` the rest is the
//! file.
#![no_main]

mod made;

use benchmark::budgets::{Budgets, Kind, Noise, Observed, What, check};
use benchmark::history::{Filter, History};
use benchmark::metrics::TOTAL;
use benchmark::{Boot, Document, Head, Measured, Plan, Stop, Variant};
use lake::Lake;
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use std::fs;

const BUDGETS: [&str; 12] = [
    "baseline = \"{w}\"",
    "total = [\"{n}s\", \"+{n}%\"]",
    "total = \"{t}s\"",
    "[phase]",
    "[function]",
    "[milestone]",
    "[memory]",
    "[metric]",
    "[instructions]",
    "vmm_max_rss = \"{n}M\"",
    "\"{w}\" = \"+{n}ms\"",
    "initcalls = [\"{n}ms\", \"{w}\"]",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((which, rest)) = bytes.split_first() else { return };
    match (which % 3, rest.strip_prefix(b"R")) {
        (0, Some(raw)) => budgets(raw),
        (0, None) => budgets(&made::text(&mut Unstructured::new(rest), &BUDGETS).unwrap_or_default()),
        (1, Some(raw)) => lake(&raw.splitn(2, |&byte| byte == 0).map(<[u8]>::to_vec).collect::<Vec<_>>()),
        (1, None) => lake(&notes(&mut Unstructured::new(rest)).unwrap_or_default()),
        (_, Some(raw)) => history(&serde_json::from_slice(raw).unwrap_or_default(), &mut Unstructured::new(&[])),
        (_, None) => {
            let (mut document, mut u) = (bench(), Unstructured::new(rest));
            if made::change(&mut u, &mut document).is_ok() {
                history(&document, &mut u);
            }
        }
    }
});

/// A valid file has the line of each budget, and boots can be checked against it. An error has its line.
fn budgets(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Budgets::parse(&text) {
        Ok(budgets) => {
            let lines = 1 + text.matches('\n').count();
            assert!(budgets.all.iter().all(|budget| (1..=lines).contains(&budget.line)));
            let mut boots = Observed::new("boots", Noise::Clock);
            (0..3)
                .for_each(|round| boots.add(round, [(What::total(), 1e9), (What::new(Kind::Phase, "initcalls"), 1e6)]));
            let _ = check(&budgets, &[(boots, None)]);
        }
        Err(error) => assert!(error.line > 0 && !error.why.contains('\n')),
    }
}

fn notes(u: &mut Unstructured) -> Result<Vec<Vec<u8>>> {
    let head = json!({"schema": "bootscope.lake/1", "about": "x"});
    let adding = json!({"day": "2026-11-26", "name": "0123456789abcdef"});
    [head, adding]
        .into_iter()
        .map(|mut note| {
            made::change(u, &mut note)?;
            let mut text = note.to_string().into_bytes();
            made::damage(u, &mut text)?;
            Ok(text)
        })
        .collect()
}

/// With any notes, a lake without tables has no boots, and no file outside of it changes.
fn lake(notes: &[Vec<u8>]) {
    let around = tempfile::tempdir_in("/dev/shm").expect("a folder in /dev/shm");
    let folder = around.path().join("lake");
    fs::create_dir(&folder).expect("room in /dev/shm");
    fs::write(around.path().join("0123456789abcdef.parquet"), "theirs").expect("room in /dev/shm");
    for (name, note) in ["lake.json", "adding.json"].iter().zip(notes) {
        fs::write(folder.join(name), note).expect("room in /dev/shm");
    }
    if let Ok(mut lake) = Lake::existing(&folder) {
        assert!(lake.boots().is_empty());
        let _ = lake.add(Vec::new());
        let _ = lake.compact(None);
    }
    assert_eq!(fs::read_dir(around.path()).expect("a folder").count(), 2);
}

/// A bench of two variants.
fn bench() -> Value {
    let stop = Stop { rounds: 3, ..Stop::default() };
    let plan = Plan { leaves_out: false, leaves_out_first: false, variants: 2, warm_ups: 0, stop, seed: 1 };
    let boot = |number: u32| {
        let measured = Measured { total_ns: Some(1_000_000 + i64::from(number)), ..Measured::default() };
        Boot { number, round: Some(number / 2), variant: number as usize % 2, began_ns: 0, measured }
    };
    let head = Head::of(plan, vec![Variant::named("a"), Variant::named("b")]);
    serde_json::to_value(Document::new(head, (0..6).map(boot).collect(), None)).expect("a document is plain data")
}

/// An added document is found again, and a damaged database does not crash.
fn history(document: &Value, u: &mut Unstructured) {
    let Ok(document) = serde_json::from_value::<Document>(document.clone()) else { return };
    let document = document.computed_again();
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in /dev/shm");
    let path = folder.path().join("history.db");
    let mut history = History::open(&path).expect("a new history");
    if history.add(&document).is_ok() {
        let entries = history.entries(&Filter::default()).expect("what was added is read");
        assert_eq!(entries.len(), document.results.variants.len());
    }
    drop(history);
    let mut bytes = fs::read(&path).expect("it is there");
    if made::damage(u, &mut bytes).is_ok() {
        fs::write(&path, bytes).expect("room in /dev/shm");
        if let Ok(history) = History::open_existing(&path) {
            let _ = history.entries(&Filter::default());
            let _ = history.medians(&Filter::default(), &TOTAL);
            let _ = history.trials(None);
            let _ = history.document(1);
        }
    }
}
