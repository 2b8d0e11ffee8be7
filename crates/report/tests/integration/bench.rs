//! The printed text of a bench: it has the required words, and nothing that controls a terminal or a browser.

use benchmark::metrics::{Source, Values};
use benchmark::{Axis, Boot, Document, Ended, Head, Measured, PhaseTime, Plan, Stop, Variant};
use report::page::Column;
use report::{Layout, bench as shown, bench_csv, bench_markdown, bench_page};

const MS: i64 = 1_000_000;

/// A bench with these totals, in ms, in rounds. A boot without a total hung.
fn document(variants: &[(&str, &[Option<i64>])]) -> Document {
    let rounds = variants.iter().map(|v| v.1.len()).max().unwrap_or(0) as u32;
    let stop = Stop { rounds, ..Stop::default() };
    let plan = Plan { variants: variants.len(), warm_ups: 0, stop, seed: 1, ..Plan::default() };
    let head = Head::of(plan, variants.iter().map(|v| Variant::named(v.0)).collect());
    let mut boots = Vec::new();
    for round in 0..rounds {
        for (variant, (_, totals)) in variants.iter().enumerate() {
            let measured = totals[round as usize].map_or_else(failed, |ms| measured(ms * MS));
            boots.push(Boot { number: boots.len() as u32, round: Some(round), variant, began_ns: 0, measured });
        }
    }
    Document::new(head, boots, Some(Ended::Rounds))
}

fn measured(total_ns: i64) -> Measured {
    let part = |name: &str, ns: i64| PhaseTime { name: name.to_owned(), ns, waited_ns: 0 };
    let short = total_ns / 1000;
    Measured {
        outcome: "reached".to_owned(),
        total_ns: Some(total_ns),
        phases: vec![part("firmware", short), part("kernel", total_ns - short)],
        rows: vec![part("initcall acpi_init", total_ns - short), part("firmware", short)],
        metrics: Values::gather(|source| (source == Source::VmmMaxRss).then_some(100 << 20)),
        ..Measured::default()
    }
}

fn failed() -> Measured {
    Measured { outcome: "hang".to_owned(), detail: crate::sample::HOSTILE.to_owned(), ..Measured::default() }
}

/// The page without its application, which is not part of the bench.
fn tables(page: &[u8]) -> &str {
    std::str::from_utf8(page).unwrap().split_once("</main>").unwrap().0
}

fn text(document: &Document) -> String {
    shown(document, false, Layout { width: 200, wide_tables: true, ..Layout::default() })
}

#[track_caller]
fn says(document: &Document, words: &[&str]) -> String {
    let text = text(document);
    for word in words {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
    assert!(!text.contains("NaN") && !text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
    text
}

fn some(totals: &[i64]) -> Vec<Option<i64>> {
    totals.iter().map(|&t| Some(t)).collect()
}

#[test]
fn one_variant_has_its_figures_and_marks() {
    let totals = some(&[500, 510, 490, 505, 495, 500, 502, 498, 900, 501]);
    let text = says(
        &document(&[("as given", &totals)]),
        &[
            "10 boots; all rounds are done",
            "total   540 ms ± 127 ms",
            "1 outlier: boot 8 (900 ms, 400 ms more than the median); all figures include it",
        ],
    );
    let line = |name: &str| text.lines().find(|l| l.starts_with(name)).unwrap().to_owned();
    assert!(line("kernel").ends_with('*') && !line("firmware").ends_with('*'), "{text}");
    assert!(line("initcall acpi_init").contains("99.9 %  *"), "{text}");
}

#[test]
fn verdicts_are_words_to_act_on() {
    let base = some(&[500, 510, 490, 505, 495, 500, 502, 498, 503, 501]);
    let moved = |by: i64| -> Vec<Option<i64>> {
        base.iter().enumerate().map(|(i, t)| t.map(|t| t + by + (i as i64 * 7) % 5 - 2)).collect()
    };
    says(
        &document(&[("a", &base), ("b", &moved(100))]),
        &["b is slower than a by 100 ms", "10 pairs", "initcall acpi_init"],
    );
    says(&document(&[("a", &base), ("b", &moved(-100))]), &["b is faster than a by 100 ms", "−99.9 ms"]);
    says(
        &document(&[("a", &base), ("b", &moved(0))]),
        &["b and a: no difference beyond 5 %", "minimum detectable difference"],
    );
    let noisy = some(&[300, 800, 400, 700, 350, 900, 500, 450, 600, 410]);
    let mut other = noisy.clone();
    other.rotate_left(3);
    says(
        &document(&[("a", &noisy), ("b", &other)]),
        &["the noise is too large to say whether they differ by 5 %", "2661 pairs would"],
    );
    says(
        &document(&[("a", &base[..5]), ("b", &moved(100)[..5])]),
        &["too few boots for a verdict; at least --runs 6 is needed"],
    );
}

/// Deterministic boots count instructions: 877 M, and no milliseconds of wall-clock time.
#[test]
fn a_deterministic_bench_counts_instructions() {
    let mut deterministic = document(&[("a", &some(&[2000; 5])), ("b", &some(&[1123; 5]))]);
    deterministic.head.deterministic = true;
    let unknown = Document::new(deterministic.head.clone(), deterministic.boots.clone(), deterministic.ended);
    let guest_time = says(&unknown, &["b is faster than a by 877 ms", "all figures are guest time", "1.12 s"]);
    assert!(!guest_time.contains("M instr") && !guest_time.contains("G instr"), "its waits are unknown: {guest_time}");
    deterministic.boots.iter_mut().for_each(|boot| boot.measured.waited_ns = Some(0));
    let deterministic = Document::new(deterministic.head, deterministic.boots, deterministic.ended);
    let text = says(&deterministic, &["b is faster than a by 877 M instr", "not wall time", "1.12 G"]);
    assert_eq!(text.matches("wall time").count(), 1, "{text}");
    let figures = bench_markdown(&deterministic) + &text;
    for unit in [" ms", " µs", " ns", " s "] {
        assert!(!figures.contains(unit), "{unit:?} in:\n{figures}");
    }
}

/// A phase certainly loses 391 ms, but no single row does. The likeliest rows are listed, and marked as likely only.
#[test]
fn likely_rows_are_listed_if_no_row_is_proven() {
    let mut state = 7_u64;
    // Knuth's MMIX generator: its upper bits, from 0 to 1.
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 31) as f64
    };
    let mut boots = document(&[("a", &some(&[0; 7])), ("b", &some(&[0; 7]))]);
    for boot in &mut boots.boots {
        let part = |name: String, ns: i64| PhaseTime { name, ns, waited_ns: 0 };
        let mut rows: Vec<PhaseTime> =
            (0..400).map(|i| part(format!("row {i}"), MS + (random() * 1e6) as i64)).collect();
        for (i, lost) in [(17, 250.0), (90, 100.0), (200, 41.0)] {
            let lost_now = if boot.variant == 1 { lost } else { 0.0 };
            rows[i].ns += ((300.0 - lost_now + (random() - 0.5) * 1.5 * lost) * 1e6) as i64;
        }
        let length = rows.iter().map(|row| row.ns).sum();
        boot.measured.phases = vec![part("initcalls".to_owned(), length)];
        (boot.measured.total_ns, boot.measured.rows) = (Some(length), rows);
    }
    let document = Document::new(boots.head, boots.boots, boots.ended);
    let text = says(
        &document,
        &[
            "likely row (not proven)",
            "95 % interval alone",
            "row 17",
            "no row is proven",
            "About 10 of 400 rows would do so by chance",
        ],
    );
    assert!(text.contains("phase that changed") && !text.contains("row that changed"), "{text}");
    let json = serde_json::to_value(&document).unwrap();
    let likely = &json["results"]["comparisons"][0]["likely_rows"];
    assert_eq!((&likely["phase"], &likely["tested"]), (&"initcalls".into(), &400.into()));
    assert_eq!(likely["rows"][0]["name"], "row 17");
}

#[test]
fn an_interval_is_printed_if_there_is_one() {
    let base = some(&[500, 510, 490, 505, 495, 500, 502, 498, 503, 501]);
    let slower: Vec<Option<i64>> = base.iter().map(|t| t.map(|t| t * 6 / 5)).collect();
    let enough = document(&[("a", &base), ("b", &slower)]);
    let text = says(&enough, &["(95 % interval 1."]);
    let row = |markdown: &str| markdown.lines().last().unwrap().split('|').map(str::trim).map(str::to_owned).collect();
    let cells: Vec<String> = row(&bench_markdown(&enough));
    assert!(text.contains("is slower than a by 100 ms (") && cells[9].starts_with("1.") && cells[9].contains('–'));
    // Three pairs have no 95 % interval: their range contains the ratio in three of four cases.
    let few = document(&[("a", &base[..3]), ("b", &slower[..3])]);
    let text = says(&few, &["ratio 1.2000 (too few boots for an interval)"]);
    let cells: Vec<String> = row(&bench_markdown(&few));
    assert_eq!((cells[8].as_str(), cells[9].as_str()), ("1.2000", ""), "{cells:?}");
    let mut page = Vec::new();
    bench_page(&few, &[], &mut page).unwrap();
    assert!(!text.contains("95 %") && !tables(&page).contains("95 %"), "{text}");
}

#[test]
fn a_metric_that_no_boot_has_has_no_row() {
    let text = says(&document(&[("as given", &some(&[500, 510, 490]))]), &["VMM's peak memory"]);
    assert!(!text.contains("guest memory") && !text.contains("page cache"), "{text}");
}

/// A sweep of words, which have no scaling model.
#[test]
fn a_sweep_of_words_lists_what_changed() {
    let base = some(&[500, 510, 490, 505, 495, 500, 502, 498, 503, 501]);
    let slower: Vec<Option<i64>> = base.iter().map(|t| t.map(|t| t * 6 / 5)).collect();
    let swept = |variants: &[(&str, &[Option<i64>])]| {
        let mut document = document(variants);
        let values = variants.iter().map(|v| v.0.to_owned()).collect();
        document.head.sweep = vec![Axis { key: "append".to_owned(), values }];
        document
    };
    says(&swept(&[("append=quiet", &base), ("append=", &slower)]), &["row that changed", "initcall acpi_init"]);
    let many: Vec<(&str, &[Option<i64>])> = ["a", "b", "c", "d", "e", "f"].map(|v| (v, slower.as_slice())).to_vec();
    says(&swept(&many), &["--verbose prints what changed in each of them"]);
}

#[test]
fn failures_modes_and_sameness_are_reported() {
    let hung: Vec<Option<i64>> = [Some(500), None, Some(501), None].to_vec();
    says(&document(&[("as given", &hung)]), &["2 boots ended with hang: boot 1 (", "total   "]);
    says(&document(&[("as given", &[None, None])]), &["no boot reached its end mark", "2 boots ended with hang"]);
    let two = some(&[500, 700, 501, 702, 499, 701, 500, 699, 502, 700, 498, 701]);
    says(&document(&[("as given", &two)]), &["the boots fall into two groups: 6 take about 500 ms, 6 about 701 ms"]);
    says(&document(&[("as given", &some(&[500, 500, 500]))]), &["all boots took exactly as long"]);
    says(&document(&[("a", &[Some(5), None]), ("b", &[None, Some(5)])]), &["cannot be compared", "1 of 2"]);
    let mut given_up = document(&[("a", &[Some(5)]), ("b", &[None])]);
    given_up.ended = Some(Ended::NeverReached(1));
    says(&given_up, &["given up because b never reached its end mark"]);
    given_up.ended = None;
    says(&given_up, &["it was killed, or is still running"]);
    says(&document(&[("as given", &[])]), &["0 boots"]);
}

#[test]
fn hostile_names_harm_no_reader() {
    let name = crate::sample::HOSTILE;
    let found = document(&[("a", &some(&[5, 6, 7])), (name, &[None, Some(8), None])]);
    says(&found, &[]);
    let markdown = bench_markdown(&found);
    assert_eq!(markdown.lines().count(), 4, "{markdown}");
    let mut csv = Vec::new();
    bench_csv(&found, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert_eq!(csv.lines().count(), 7, "{csv}");
    assert!(csv.lines().nth(1).unwrap().starts_with("0,0,a,0,0,reached,5000000,104857600,,,,"), "{csv}");
    let mut page = Vec::new();
    bench_page(&found, &[], &mut page).unwrap();
    let shown = tables(&page);
    assert!(!shown.contains("<script") && !shown.contains("<img") && shown.contains("<circle"));
    // The application's data also has the name, made harmless.
    let parts = report::page::read(std::str::from_utf8(&page).unwrap()).unwrap();
    let Some(Column::Texts(json)) = parts[0].column("json") else { panic!("{parts:?}") };
    let carried: serde_json::Value = serde_json::from_str(&json[0]).unwrap();
    assert_eq!(carried["results"]["variants"][1]["name"], report::harmless(name).as_ref());
    assert_eq!(carried["boots"].as_array().unwrap().len(), found.boots.len());
    assert_eq!(carried["boots"][0]["total_ns"], 5_000_000);
    assert_eq!(parts.last().map(|part| part.name.as_ref()), Some("end"));
}
