//! A lake as one page that opens from disk: its tables, and the application that shows the rest.
//!
//! All text must pass [`esc`]. The content policy is that of a boot's page: no script but the application.

use super::LakePage;
use crate::html::{Asks, MAX_ROWS, begin, esc, nonce};
use crate::text::{counted, percent, thousands};
use std::collections::BTreeMap;
use std::io::{self, Write};
use timeline::Ns;

type Out<'a> = &'a mut dyn Write;

/// Writes the page.
///
/// # Errors
/// If `out` cannot be written.
pub fn lake_page(document: &LakePage, out: &mut dyn Write) -> io::Result<()> {
    let title = if document.lake.is_empty() { "Lake".to_owned() } else { format!("Lake {}", document.lake) };
    let nonce = nonce();
    begin(&title, &nonce, Asks::Nobody, out)?;
    writeln!(out, "<main>\n<h1>{}</h1>\n<p>{}</p>", esc(&title), esc(&subject(document)))?;
    regressions(document, out)?;
    totals(document, out)?;
    rows(document, out)?;
    outliers(document, out)?;
    missing(document, out)?;
    savings(document, out)?;
    writeln!(out, "</main>\n</div>")?;
    crate::page::write_lake(document, &nonce, out)?;
    writeln!(out, "</body>\n</html>")
}

/// A line such as `1 000 000 boots of 10 000 machines, 2026-01-01 to 2026-03-31`.
fn subject(document: &LakePage) -> String {
    let counts = format!("{} of {}", counted(document.boots, "boot"), counted(document.machines, "machine"));
    let days = match (document.days.first(), document.days.last()) {
        (Some(first), Some(last)) if first != last => format!(", {first} to {last}"),
        (Some(day), _) => format!(", {day}"),
        (None, _) => String::new(),
    };
    let since = if document.since.is_empty() { String::new() } else { format!(", since {}", document.since) };
    format!("{counts}{days}{since}.")
}

/// A cell of a table, with text or a figure.
enum Cell {
    Text(String),
    Figure(String),
}

fn text(text: &str) -> Cell {
    Cell::Text(esc(text))
}

fn figure(text: impl Into<String>) -> Cell {
    Cell::Figure(text.into())
}

fn time(ns: f64) -> Cell {
    figure(shown(ns))
}

fn shown(ns: f64) -> String {
    Ns::rounded(ns).to_string()
}

fn count(n: u64) -> Cell {
    figure(thousands(n))
}

/// An interval such as `4.50 to 5.50 ms`; both ends have their units.
fn between(low: f64, high: f64) -> Cell {
    figure(format!("{} to {}", shown(low), shown(high)))
}

fn ratio(ratio: Option<f64>) -> Cell {
    figure(ratio.map_or("new".to_owned(), |ratio| format!("{:+.1} %", (ratio - 1.0) * 100.0)))
}

/// A p-value, at most three digits.
fn chance(p: f64) -> Cell {
    figure(if p >= 0.001 { format!("{p:.3}") } else { format!("{p:.0e}") })
}

/// Writes a section: its title, a sentence about it, its columns, the rows that fit in a page, and its remarks.
fn section(
    title: &str,
    what: &str,
    columns: &[&str],
    all: usize,
    rows: impl Iterator<Item = Vec<Cell>>,
    remarks: &mut dyn Iterator<Item = &str>,
    out: Out,
) -> io::Result<()> {
    writeln!(out, "<section><h2>{title}</h2><span class=\"faint\">{}</span>\n<p>{what}</p>", thousands(all as u64))?;
    if all > 0 {
        write!(out, "<div class=\"wide tall\" tabindex=\"0\"><table><thead><tr>")?;
        columns.iter().try_for_each(|column| write!(out, "<th scope=\"col\">{column}</th>"))?;
        writeln!(out, "</tr></thead><tbody>")?;
        for row in rows.take(MAX_ROWS) {
            write!(out, "<tr>")?;
            for (i, cell) in row.iter().enumerate() {
                match cell {
                    Cell::Text(text) if i == 0 => write!(out, "<th scope=\"row\">{text}</th>")?,
                    Cell::Text(text) => write!(out, "<td>{text}</td>")?,
                    Cell::Figure(text) => write!(out, "<td class=\"n\">{text}</td>")?,
                }
            }
            writeln!(out, "</tr>")?;
        }
        writeln!(out, "</tbody></table></div>")?;
    }
    if all > MAX_ROWS {
        let more = thousands((all - MAX_ROWS) as u64);
        writeln!(out, "<p>{more} more are in the charts, or in what <code>bootscope lake ask</code> prints.</p>")?;
    }
    for remark in remarks {
        writeln!(out, "<p>{}.</p>", esc(remark.trim_end_matches('.')))?;
    }
    writeln!(out, "</section>")
}

fn regressions(document: &LakePage, out: Out) -> io::Result<()> {
    let rows = document.regressions.iter().map(|one| {
        vec![
            text(&one.name),
            text(&kind(&one.hardware, &one.time_base)),
            text(&one.kernel),
            text(&one.since),
            time(one.before_ns),
            time(one.after_ns),
            time(one.slower_ns),
            between(one.slower_low_ns, one.slower_high_ns),
            ratio(one.ratio),
            chance(one.p),
            count(one.boots_before),
            count(one.boots_after),
            time(one.per_day_ns),
        ]
    });
    section(
        "Regressions",
        "What became slower, with which kernel, on which kind of machine. <em>p</em>: how likely chance alone shows so much \
         somewhere in the lake.",
        &[
            "row",
            "hardware",
            "kernel",
            "since",
            "before",
            "after",
            "slower by",
            "interval",
            "change",
            "p",
            "boots before",
            "boots after",
            "costs a day",
        ],
        document.regressions.len(),
        rows,
        &mut document.remarks("regressions"),
        out,
    )
}

/// The name of a kind of machine.
fn kind(hardware: &str, time_base: &str) -> String {
    let hardware = if hardware.is_empty() { "kind not known" } else { hardware };
    if matches!(time_base, "host" | "") { hardware.to_owned() } else { format!("{hardware} ({time_base})") }
}

/// Writes each kind with its first and its last day. Only the charts show the days between.
fn totals(document: &LakePage, out: Out) -> io::Result<()> {
    let rows = document.kinds.iter().map(|one| {
        let mut days: BTreeMap<usize, Vec<&super::LakeCell>> = BTreeMap::new();
        one.cells.iter().for_each(|cell| days.entry(cell.day).or_default().push(cell));
        let of_day = |day: Option<(&usize, &Vec<&super::LakeCell>)>| {
            let Some((&day, cells)) = day else { return figure("") };
            let median = mean(cells.iter().map(|cell| (cell.boots - cell.not_ended.min(cell.boots), cell.p50_ns)));
            figure(median.map_or(String::new(), |ns| format!("{} ({})", shown(ns), esc(&document.days[day]))))
        };
        let over_all = |value: fn(&super::LakeCell) -> Option<f64>| {
            mean(one.cells.iter().map(|cell| (cell.boots - cell.not_ended.min(cell.boots), value(cell))))
                .map_or(figure(""), time)
        };
        let not_ended = one.cells.iter().fold(0_u64, |sum, cell| sum.saturating_add(cell.not_ended));
        vec![
            text(&kind(&one.hardware, &one.time_base)),
            count(one.boots),
            count(one.machines),
            count(not_ended),
            of_day(days.first_key_value()),
            of_day(days.last_key_value()),
            over_all(|cell| cell.p50_ns),
            over_all(|cell| cell.p95_ns),
        ]
    });
    section(
        "Totals",
        "How long the boots of each kind of machine take. Medians and 95th percentiles are of a day and a kernel. Where a cell has \
         several, it is their mean, weighted by boots.",
        &["hardware", "boots", "machines", "not ended", "median, first day", "median, last day", "median", "95 %"],
        document.kinds.len(),
        rows,
        &mut document.remarks("totals"),
        out,
    )
}

/// The mean of figures, weighted by their numbers of boots; `None` if no boot has a figure.
fn mean(figures: impl Iterator<Item = (u64, Option<f64>)>) -> Option<f64> {
    let weighted = figures.filter_map(|(boots, figure)| Some((boots as f64, figure?)));
    let (boots, sum) = weighted.fold((0.0, 0.0), |(all, sum), (boots, figure)| (all + boots, sum + boots * figure));
    (boots > 0.0).then(|| sum / boots)
}

fn rows(document: &LakePage, out: Out) -> io::Result<()> {
    let rows = document.slowest_rows.iter().map(|one| {
        vec![
            text(&one.name),
            time(one.mean_ns),
            // The mean of a single boot has no interval.
            one.mean_low_ns
                .zip(one.mean_high_ns)
                .map_or_else(|| figure("–".to_owned()), |(low, high)| between(low, high)),
            figure(percent(one.share)),
            count(one.boots_with_it),
            count(one.boots),
        ]
    });
    section(
        "Where the time goes",
        "What a boot takes for each row of its boot path, over all boots.",
        &["row", "a boot", "interval", "share", "boots with it", "boots"],
        document.slowest_rows.len(),
        rows,
        &mut document.remarks("slowest_rows"),
        out,
    )
}

fn outliers(document: &LakePage, out: Out) -> io::Result<()> {
    let rows = document.outliers.iter().map(|one| {
        vec![
            text(&one.machine),
            text(&kind(&one.hardware, &one.time_base)),
            text(&one.name),
            time(one.mean_ns),
            time(one.others_ns),
            time(one.slower_ns),
            ratio(one.ratio),
            chance(one.p),
            count(one.boots),
            count(one.machines),
        ]
    });
    section(
        "Slower than their kind",
        "Machines that take longer for a row than others of their kind do.",
        &[
            "machine",
            "hardware",
            "row",
            "its mean",
            "the others'",
            "slower by",
            "change",
            "p",
            "boots",
            "machines of the kind",
        ],
        document.outliers.len(),
        rows,
        &mut document.remarks("outliers"),
        out,
    )
}

fn missing(document: &LakePage, out: Out) -> io::Result<()> {
    let rows = document.missing.iter().map(|one| {
        vec![
            text(&one.machine),
            text(&one.hardware),
            text(&one.kernel),
            text(&one.last),
            figure(format!("{:.1}", one.silent_days)),
            figure(format!("{:.1}", one.usual_days)),
            chance(one.p),
            count(one.boots),
        ]
    });
    section(
        "Not reporting",
        "Machines that have been silent for longer than is usual for them.",
        &["machine", "hardware", "kernel", "last boot", "days silent", "usual days", "p", "boots"],
        document.missing.len(),
        rows,
        &mut document.remarks("missing"),
        out,
    )
}

fn savings(document: &LakePage, out: Out) -> io::Result<()> {
    let rows = document.what_pays.iter().map(|one| {
        let title = if one.title.is_empty() { &one.id } else { &one.title };
        vec![
            text(title),
            text(&one.id),
            time(one.mean_ns),
            time(one.per_day_ns),
            between(one.per_day_low_ns, one.per_day_high_ns),
            count(one.boots),
            figure(percent(one.share)),
            count(one.machines),
            count(one.kinds),
        ]
    });
    section(
        "What pays",
        "What a remedy saves: its saving in a boot, times the boots of a day.",
        &["finding", "id", "saves a boot", "saves a day", "interval", "boots", "share", "machines", "kinds"],
        document.what_pays.len(),
        rows,
        &mut document.remarks("what_pays"),
        out,
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::EXAMPLE;
    use super::*;
    use crate::page::Column;
    use serde_json::{Value, json};

    fn page(document: &LakePage) -> String {
        let mut out = Vec::new();
        lake_page(document, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn changed(change: impl FnOnce(&mut Value)) -> LakePage {
        let mut value = serde_json::from_str(EXAMPLE).unwrap();
        change(&mut value);
        LakePage::read(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_tables_have_the_figures_of_the_document() {
        let page = page(&LakePage::read(EXAMPLE.as_bytes()).unwrap());
        for expected in [
            "<h1>Lake lake</h1>\n<p>1 000 000 boots of 10 000 machines, 2026-01-01 to 2026-01-02.</p>",
            "<th scope=\"row\">initcall acpi_init</th><td>kind-000 cpus=1 memory=1024M</td><td>6.1.0-21-cloud-amd64</td>",
            "<td class=\"n\">10.0 ms</td><td class=\"n\">10.5 ms</td><td class=\"n\">500 µs</td>\
             <td class=\"n\">450 µs to 550 µs</td><td class=\"n\">+5.0 %</td><td class=\"n\">1e-9</td>",
            "<td class=\"n\">1.00 s (2026-01-01)</td>",
            "<p>looked at 60200 series of 200 kinds of machine; p is corrected for that.</p>",
        ] {
            assert!(page.contains(expected), "{expected}\n{page}");
        }
    }

    #[test]
    fn text_from_machines_stays_text() {
        let evil = "</script><script>ran=1</script><img src=x onerror=ran=1>\u{202e}\u{1b}[31m";
        let hostile = changed(|v| {
            fn everywhere(v: &mut Value, evil: &str) {
                match v {
                    Value::String(text) => *text = evil.to_owned(),
                    Value::Array(all) => all.iter_mut().for_each(|v| everywhere(v, evil)),
                    Value::Object(all) => all.values_mut().for_each(|v| everywhere(v, evil)),
                    _ => {}
                }
            }
            everywhere(v, evil);
            v["schema"] = json!("bootscope.lake-page/1");
        });
        let page = page(&hostile);
        let tables = page.split_once("<div id=\"tables\">").unwrap().1.split_once("</main>").unwrap().0;
        assert!(
            tables.contains("&lt;script&gt;ran=1") && !tables.contains("<script") && !tables.contains("<img"),
            "{tables}"
        );
        assert!(!page.contains(['\u{202e}', '\u{1b}']) && !page.contains("ran=1</script"));
        // The application's data contains the machine's text, made harmless.
        let parts = crate::page::read(&page).unwrap();
        let Column::Texts(json) = &parts[0].columns[0].1 else { panic!("{:?}", parts[0]) };
        assert!(json[0].contains("</script><script>ran=1") && !json[0].contains(['\u{202e}', '\u{1b}']));
    }

    #[test]
    fn the_application_gets_every_cell() {
        let document = changed(|v| {
            let mut cell = v["kinds"][0]["cells"][0].clone();
            (cell["day"], cell["p50_ns"], cell["p95_ns"]) = (json!(1), Value::Null, Value::Null);
            v["kinds"][0]["cells"].as_array_mut().unwrap().push(cell);
            let kind = v["kinds"][0].clone();
            v["kinds"].as_array_mut().unwrap().push(kind);
        });
        let parts = crate::page::read(&page(&document)).unwrap();
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_ref()).collect();
        assert_eq!(names, ["lake", "cells", "end"]);
        let column = |name: &str| &parts[1].columns.iter().find(|(one, _)| one == name).unwrap().1;
        assert_eq!(*column("kind"), Column::Deltas(vec![0, 0, 1, 1]));
        assert_eq!(*column("day"), Column::Deltas(vec![0, 1, 0, 1]));
        assert_eq!(*column("boots"), Column::Counts(vec![55; 4]));
        assert_eq!(*column("p50"), Column::Deltas(vec![1_000_000_000, 0, 1_000_000_000, 0]));
        let Column::Texts(json) = &parts[0].columns[0].1 else { panic!("{:?}", parts[0]) };
        let json: Value = serde_json::from_str(&json[0]).unwrap();
        assert_eq!(json["kinds"][1]["cells"], json!([]));
        assert_eq!(json["regressions"][0]["boots"][0]["boot_id"], "00112233445566778899aabbccddeeff");
    }

    #[test]
    fn a_lake_without_boots_has_a_page_too() {
        let empty = changed(|v| {
            for list in ["days", "kernels", "kinds", "regressions", "slowest_rows", "outliers", "what_pays", "missing"]
            {
                v[list] = json!([]);
            }
            v["boots"] = json!(0);
            v["machines"] = json!(0);
        });
        assert!(page(&empty).contains("<p>0 boots of 0 machines.</p>"));
    }

    #[test]
    fn rows_left_out_of_a_table_are_counted() {
        let many = changed(|v| {
            let one = v["regressions"][0].clone();
            v["regressions"] = json!(vec![one; MAX_ROWS + 7]);
        });
        assert!(
            page(&many).contains("<p>7 more are in the charts, or in what <code>bootscope lake ask</code> prints.</p>")
        );
    }
}
