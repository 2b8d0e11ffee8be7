//! Answers a page's what-if questions. Savings apply one after the other, as with `bootscope what-if --save
//! 'ROW=-PERCENT%'`.

use analysis::{Becomes, Groups, Saving, WhatIf, boot_path, phases, tables};
use std::fmt::Write;
use timeline::Timeline;

/// A row, and the share that it is made shorter by.
#[derive(Clone, Debug, PartialEq)]
pub struct Less {
    /// The row's name as the page shows it.
    pub row: String,
    /// The saved share, from 0 to 1.
    pub by: f64,
}

/// The answer as JSON, with the fields of `what-if --json` that the page shows. A number that a double may not hold is
/// a text. On failure there is one field, `wrong`, with the reason.
pub fn answer(timeline: &Timeline, savings: &[Less]) -> String {
    try_answer(timeline, savings).unwrap_or_else(|why| wrong(&why))
}

/// The JSON answer that carries only the reason for a failure.
pub fn wrong(why: &str) -> String {
    format!("{{\"wrong\":{}}}", quoted(why))
}

fn try_answer(timeline: &Timeline, savings: &[Less]) -> Result<String, String> {
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
