//! Samples as tables of the page. Every figure here must be marked *sampled* and have its error beside it.

use super::{MAX_ROWS, esc};
use crate::sampled::{MAX_EVENTS, about, empty_intervals, lost_and_unseen, on, track_name};
use crate::text::thousands;
use crate::{SampledEventLines, SampledLine, SampledOnKind, SampledTrackLine, Summary};
use std::io::{self, Write};

/// Writes a table of functions for each event, because events count different things, and the places of its samples.
pub fn section(s: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let Some(sampled) = &s.sampled else { return Ok(()) };
    for event in sampled.events.iter().take(MAX_EVENTS) {
        writeln!(
            out,
            "<details open class=\"sampled\"><summary><h2>Sampled: {}</h2> <span class=\"faint\">{}</span></summary>\n\
             <p>Sampled {}.</p>",
            esc(&event.name),
            thousands(event.samples),
            esc(&about(event))
        )?;
        functions(event, out)?;
        tracks(event, SampledOnKind::Program, out)?;
        tracks(event, SampledOnKind::Thread, out)?;
        tracks(event, SampledOnKind::Cpu, out)?;
        writeln!(out, "</details>")?;
    }
    more(sampled.events.len().saturating_sub(MAX_EVENTS), "sampled events", out)?;
    let empty = empty_intervals(sampled, s).map_or(String::new(), |empty| format!("; {empty}"));
    writeln!(out, "<p class=\"faint\">Sampled: {}{}.</p>", esc(&lost_and_unseen(sampled, s)), esc(&empty))
}

fn functions(event: &SampledEventLines, out: &mut dyn Write) -> io::Result<()> {
    heading(["function", "self, sampled", "total, sampled"], out)?;
    let shown = &event.functions[..event.functions.len().min(MAX_ROWS)];
    for SampledLine { name, self_share, self_error, total_share, total_error } in shown {
        let cells = [share(*self_share, *self_error), share(*total_share, *total_error)];
        row(name, cells, out)?;
    }
    end(event.functions.len() - shown.len(), out)
}

fn tracks(event: &SampledEventLines, kind: SampledOnKind, out: &mut dyn Write) -> io::Result<()> {
    let tracks: Vec<&SampledTrackLine> = event.tracks.iter().filter(|track| track.kind == kind).collect();
    if tracks.is_empty() {
        return Ok(());
    }
    heading([on(kind), "samples", "share, sampled"], out)?;
    let shown = &tracks[..tracks.len().min(MAX_ROWS)];
    for track in shown {
        let samples = (track.samples.to_string(), thousands(track.samples));
        row(&track_name(track), [samples, share(track.share, track.error)], out)?;
    }
    end(tracks.len() - shown.len(), out)
}

fn heading([first, second, third]: [&str; 3], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<div class=\"wide tall\" tabindex=\"0\"><table class=\"sortable\"><thead><tr><th scope=\"col\">{first}</th>\
         <th scope=\"col\" class=\"n\">{second}</th><th scope=\"col\" class=\"n\" aria-sort=\"descending\">{third}</th>\
         </tr></thead><tbody>"
    )
}

/// Writes a row. Each cell has the value to sort by and the text to read.
fn row(name: &str, cells: [(String, String); 2], out: &mut dyn Write) -> io::Result<()> {
    write!(out, "<tr><th scope=\"row\">{}</th>", esc(name))?;
    cells.iter().try_for_each(|(value, text)| write!(out, "<td class=\"n\" data-v=\"{value}\">{text}</td>"))?;
    writeln!(out, "</tr>")
}

fn share(share: f64, error: f64) -> (String, String) {
    (share.to_string(), crate::sampled::share(share, error))
}

fn end(left_out: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "</tbody></table></div>")?;
    more(left_out, "rows", out)
}

fn more(left_out: usize, what: &str, out: &mut dyn Write) -> io::Result<()> {
    if left_out == 0 {
        return Ok(());
    }
    let left_out = thousands(left_out as u64);
    writeln!(out, "<p>{left_out} more {what} are in <code>bootscope show --json</code>.</p>")
}
