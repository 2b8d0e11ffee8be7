//! What savings bring, asked by a page of itself: as `bootscope what-if --save 'ROW=-PERCENT%'`, one after the other.

use analysis::{Becomes, Groups, Saving, WhatIf, boot_path, phases, tables};
use std::fmt::Write;
use timeline::Timeline;

/// A row, and by what share it takes less.
#[derive(Clone, Debug, PartialEq)]
pub struct Less {
    /// The row, as the page shows it.
    pub row: String,
    /// From 0 to 1.
    pub by: f64,
}

/// The answer as JSON: the fields of `what-if --json` that the page shows, numbers that a double may not hold as texts; or
/// `wrong`, why there is none.
pub fn answer(timeline: &Timeline, savings: &[Less]) -> String {
    worked_out(timeline, savings).unwrap_or_else(|why| wrong(&why))
}

/// The answer where there is none, and why.
pub fn wrong(why: &str) -> String {
    format!("{{\"wrong\":{}}}", quoted(why))
}

fn worked_out(timeline: &Timeline, savings: &[Less]) -> Result<String, String> {
    let groups = Groups::of(&timeline.os);
    let mut boot = WhatIf::new(timeline.clone(), groups.clone()).map_err(|e| e.to_string())?;
    let mut steps = Vec::new();
    for Less { row, by } in savings {
        let saving = Saving { name: row.clone(), becomes: Becomes::Less(*by) };
        let rung = boot.save(&saving).map_err(|e| e.to_string())?;
        let (worst, best) = match rung.range {
            Some(range) => (whole(range.saved_at_worst.0), whole(range.saved_at_best.0)),
            None => ("null".to_owned(), "null".to_owned()),
        };
        let (before, saved, total) = (whole(rung.before.0), whole((rung.before - rung.after).0), whole(rung.after.0));
        steps.push(format!(
            "{{\"name\":{},\"before_ns\":{before},\"saved_ns\":{saved},\"saved_at_worst_ns\":{worst},\
             \"saved_at_best_ns\":{best},\"total_ns\":{total}}}",
            quoted(row)
        ));
    }
    let left = boot.timeline();
    let rows = tables(left, &boot_path(left), &phases(left), &groups).wheres;
    let rows: Vec<String> = rows
        .iter()
        .map(|row| format!("{{\"name\":{},\"self_ns\":{}}}", quoted(&row.name), whole(row.self_time.0)))
        .collect();
    Ok(format!("{{\"steps\":[{}],\"where\":[{}]}}", steps.join(","), rows.join(",")))
}

fn whole(number: i64) -> String {
    if number.unsigned_abs() < 1 << 53 { number.to_string() } else { format!("\"{number}\"") }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
