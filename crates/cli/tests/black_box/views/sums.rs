//! Every column with a total adds up to it, as printed: in `show`, `diff` and `what-if`, for the kept recordings.

use crate::support::{bootscope, list, run, text};
use std::path::{Path, PathBuf};

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/kept/{name}.tar.zst"))
}

/// Recordings of all kinds that have times.
const KEPT: [&str; 10] = [
    "lab-two-cpus",
    "lab-deterministic",
    "linux-traced-no-symbols",
    "linux-first-run-cut",
    "linux-calls-cut",
    "guestfs-beside-log",
    "trace-and-log",
    "tslog-beside-linux",
    "tslog-in-two-parts",
    "log-excerpt",
];

/// The numbers of listed rows; further rows are in "everything else".
const ROW_LIMITS: [&str; 4] = ["1", "3", "20", "1000"];

/// A printed time, and its largest rounding error.
#[derive(Clone, Copy, Debug, Default)]
struct Printed {
    ns: f64,
    off_ns: f64,
}

/// `−1.91 ms`, `4 435.1 ms`, `≥ 877 M instr`, `0`, or nothing.
fn printed(cell: &str) -> Printed {
    let cell = cell.trim().replace('−', "-").replace(['+', '≥'], "");
    let cell = cell.trim();
    if cell.is_empty() || cell == "0" {
        return Printed::default();
    }
    let unit_at = cell.find(char::is_alphabetic).unwrap_or_else(|| panic!("no time: {cell:?}"));
    let (number, unit) = (cell[..unit_at].replace(' ', ""), &cell[unit_at..]);
    let unit_ns = match unit {
        "ns" | "instr" => 1.0,
        "µs" | "k instr" => 1e3,
        "ms" | "M instr" => 1e6,
        "s" | "G instr" => 1e9,
        _ => panic!("no unit of time: {cell:?}"),
    };
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let value: f64 = number.parse().unwrap_or_else(|e| panic!("{cell:?}: {e}"));
    Printed { ns: value * unit_ns, off_ns: unit_ns * 0.5 / 10f64.powi(decimals as i32) }
}

/// The lines of a table from its header to its total.
fn table<'a>(output: &'a str, title: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let mut lines = output.lines().skip_while(|line| !line.starts_with(&format!("{title}  ")));
    let header = lines.next()?;
    let mut rows = Vec::new();
    for line in lines {
        rows.push(line);
        if line.starts_with("total") {
            return Some((header, rows));
        }
    }
    panic!("the table {title:?} has no total:\n{output}");
}

/// The cell of a line in a right-aligned column.
fn cell<'a>(header: &str, column: &str, line: &'a str) -> &'a str {
    let at = header.find(&format!("  {column}")).map(|at| at + 2 + column.len());
    let end = header[..at.unwrap_or_else(|| panic!("no column {column:?} in {header:?}"))].chars().count();
    let bytes = line.char_indices().nth(end).map_or(line.len(), |(at, _)| at);
    let within = &line[..bytes];
    if within.ends_with(' ') || within.chars().count() < end { "" } else { within.rsplit("  ").next().unwrap_or("") }
}

/// Checks the sum of a column. Returns its total.
#[track_caller]
fn assert_column(output: &str, title: &str, column: &str) -> Option<Printed> {
    let (header, lines) = table(output, title)?;
    let (total, rows) = lines.split_last().expect("a total");
    let total = printed(cell(header, column, total));
    let rows: Vec<Printed> = rows.iter().map(|line| printed(cell(header, column, line))).collect();
    let sum: f64 = rows.iter().map(|row| row.ns).sum();
    let off: f64 = rows.iter().map(|row| row.off_ns).sum::<f64>() + total.off_ns;
    assert!((sum - total.ns).abs() <= off + 1e-3, "{title}, {column}: {sum} ns, not {}\n{output}", total.ns);
    Some(total)
}

#[test]
fn the_tables_of_a_boot_add_up() {
    for name in KEPT {
        let mut found = 0;
        for top in ROW_LIMITS {
            let shown = run(bootscope("show").arg(kept(name)).args(["--top", top])).exits(0);
            found += usize::from(assert_column(shown.text(), "phase", "length").is_some());
            found += usize::from(assert_column(shown.text(), "where the boot path went", "self").is_some());
            for (view, title) in
                [("--functions", "function on the boot path"), ("--all-threads", "All threads (not the boot path)")]
            {
                let shown = run(bootscope("show").arg(kept(name)).args([view, "--top", top])).exits(0);
                found += usize::from(assert_column(shown.text(), title, "self").is_some());
            }
        }
        assert_eq!(found, 4 * ROW_LIMITS.len(), "{name}: tables are missing");
    }
}

/// Rows that are only named after a phase do not count as explained.
#[test]
fn the_explained_share_leaves_out_every_row_of_a_phase() {
    let mut explained = Vec::new();
    for name in KEPT {
        let document = run(bootscope("show").arg(kept(name)).arg("--json")).exits(0).json();
        let total = document["total_ns"].as_i64().unwrap() as f64;
        let of_phases = |row: &&serde_json::Value| {
            let name = text(&row["name"]);
            (name.starts_with('(') && !name.contains(" · ")) || name.starts_with("between initcalls")
        };
        let phases: i64 =
            list(&document["where"]).iter().filter(of_phases).map(|row| row["self_ns"].as_i64().unwrap()).sum();
        let rest = (1.0 - document["explained"].as_f64().unwrap()) * total;
        assert!(
            phases as f64 <= rest + 1.0,
            "{name}: rows of phases have {phases} ns, of {rest} that are not explained"
        );
        // Narrower rows count as explained. A log of phases alone explains next to nothing.
        explained.push(document["explained"].as_f64().unwrap());
    }
    let most = explained.iter().filter(|&&share| share > 0.5).count();
    assert!(most > explained.len() / 2, "{explained:?}");
}

#[test]
fn the_tables_of_a_diff_add_up() {
    let pairs = KEPT.iter().enumerate().flat_map(|(n, before)| KEPT[n + 1..].iter().map(move |after| (before, after)));
    let mut comparable = 0;
    for (before, after) in pairs {
        for top in ROW_LIMITS {
            let compared = run(bootscope("diff").args([kept(before), kept(after)]).args(["--top", top])).exits(0);
            let output = compared.text();
            // Boots of different kinds of time have no table, and those of which one lacks a trace have no rows.
            if output.split_whitespace().collect::<Vec<_>>().join(" ").contains("not comparable") {
                break;
            }
            comparable += 1;
            let change = |title: &str, column: &str| assert_column(output, title, column).expect(title);
            let totals = ["phase", "where the boot path went"].map(|title| {
                for column in ["before", "after"] {
                    change(title, column);
                }
                change(title, "change").ns
            });
            let functions = change("function, step or message", "boot path").ns;
            assert_eq!((totals[0], totals[1]), (functions, functions), "{before}, {after}\n{output}");
        }
    }
    assert!(comparable >= 10 * ROW_LIMITS.len(), "{comparable} pairs and limits are comparable");
}

/// The printed time before, minus the saving, is the printed time after.
#[test]
fn the_times_of_a_ledger_can_be_subtracted() {
    for name in ["lab-two-cpus", "lab-deterministic", "linux-traced-no-symbols", "tslog-in-two-parts"] {
        let document = run(bootscope("show").arg(kept(name)).arg("--json")).exits(0).json();
        let rows: Vec<&str> = list(&document["where"]).iter().map(|row| text(&row["name"])).collect();
        let mut command = bootscope("what-if");
        command.arg(kept(name)).args(["--top", "3"]);
        for (row, saving) in
            rows.iter().filter(|row| !row.contains('(')).take(6).zip(["", "=-50%", "=-33%"].iter().cycle())
        {
            command.arg("--save").arg(format!("{row}{saving}"));
        }
        let ledger = run(&mut command).exits(0);
        let output = ledger.text();
        assert_column(output, "what is left", "self");
        // Every earlier row is listed, counted in "everything else", or reported as gone. Other waits may be new.
        let count = |after: &str| {
            let rest = output.lines().find_map(|line| line.split_once(after)?.1.split(' ').next());
            rest.map_or(0, |rows| rows.parse::<usize>().unwrap())
        };
        assert!(3 + count("everything else (") + count("not listed: ") >= rows.len(), "{} rows\n{output}", rows.len());
        let mut lines = output.lines();
        let header = lines.next().unwrap();
        let mut before = printed(cell(header, "total", lines.next().unwrap())).ns;
        let steps: Vec<&str> = lines.take_while(|line| line.starts_with("  ")).collect();
        assert_eq!(steps.len(), 6, "{output}");
        for line in steps {
            let ranged = cell(header, "saved", line).contains(" to ") || cell(header, "total", line).contains(" to ");
            let of = |column: &str| printed(cell(header, column, line)).ns;
            if ranged {
                // A range of boots has no single total to continue from.
                break;
            }
            let (was, now, saved, total) = (of("boot path"), of("becomes"), of("saved"), of("total"));
            assert!((before - saved - total).abs() < 1.0, "{line}\n{output}");
            let step = line.trim().split("  ").next().unwrap();
            let says_why = output.lines().any(|line| line.starts_with(&format!("{step}: ")));
            assert!((was - now - saved).abs() < 1.0 || says_why, "{line}\n{output}");
            before = total;
        }
    }
}
