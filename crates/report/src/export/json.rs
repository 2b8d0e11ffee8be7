//! The whole timeline as JSON, schema `bootscope.timeline/1`: everything that the views are computed from.
//!
//! One object with, in this order: `schema`, `time_base`, `total_ns`, `end` (at_ns, error_ns, track, evidence, and code: the
//! evidence's name for programs), and these arrays, one element per line:
//! * `warnings`: a sentence for each warning
//! * `warning_lines`: the same warnings, each with code, affects, text
//! * `clocks`: name, hz, residual_ns, rate_from
//! * `tracks`: track (its number below), name, kind, id (the evidence's number), created_ns, created_by, idle
//! * `phases`: name, start_ns, end_ns, error_ns, evidence
//! * `spans`: track, start_ns, end_ns, depth, kind, name, detail; by track, then start, outer ones first
//! * `marks`: track, at_ns, name
//! * `waits`: track, from_ns, woken_ns, until_ns (`null`: never), by (`thread`, `interrupt`, `holders`, `halted`,
//!   `nothing`, `unknown`), and the thread, interrupt or topic
//! * `running`: track, cpu, from_ns, to_ns
//! * `path`: from_ns, to_ns, how (`running`, `runqueue`, `interrupt`, `wait`), stack (outermost first, made harmless; above
//!   [`MAX_FRAMES`] frames: the outermost ones, the number of frames left out, and the innermost one)
//! * `findings`: the most valuable ones, at most five, each as in `show --json`
//! * `diagnostics`: code, kind, about, count, first, severity, affects, effect, cost_ns, text
//!
//! The object also has `found`, as in `show --json`: what the findings save together, and the rules that could not
//! look.
//!
//! Text is unchanged from the evidence, quoted as JSON demands, because a program reads it.

use super::{Export, MAX_FRAMES, csv};
use crate::lanes::{Open, Slice};
use crate::sources::{end_evidence, rate_source};
use crate::{Boot, DiagnosticLine, WarningLine};
use analysis::StretchKind;
use serde::Serialize;
use serde_json::json;
use std::io::{self, Write};
use timeline::{Ns, TrackKind, WaitedOn};

pub struct Json;

impl Export for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn extension(&self) -> &'static str {
        "json"
    }

    fn about(&self) -> &'static str {
        "the whole timeline, for programs"
    }

    fn has_findings(&self) -> bool {
        true
    }

    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
        let t = boot.timeline;
        let base = crate::summary::time_base(t.time_base);
        let end = t.end.map(|e| {
            let track = e.track.map(|t| t.0);
            json!({"at_ns": e.at.0, "error_ns": e.error.0, "track": track, "evidence": end_evidence(e.evidence, &t.names), "code": e.evidence.code()})
        });
        let end = end.unwrap_or_default();
        write!(
            out,
            "{{\"schema\":\"bootscope.timeline/1\",\"time_base\":\"{base}\",\"unit\":\"{}\",\"total_ns\":{},\"end\":{}",
            t.unit.name(),
            boot.total.0,
            crate::json(&end, false)?
        )?;
        let warnings = WarningLine::all(t);
        array(out, "warnings", warnings.iter().map(|warning| &warning.text))?;
        array(out, "warning_lines", warnings.iter())?;
        array(out, "clocks", t.clocks.iter().map(clock))?;
        array(out, "tracks", t.tracks.iter().map(|(id, track)| track_row(boot, id.0, track)))?;
        array(out, "phases", boot.phases.iter().map(phase))?;
        array(out, "spans", t.spans.iter().map(|(id, row)| span(boot, id, row)))?;
        array(
            out,
            "marks",
            t.marks.iter().map(|m| json!({"track": m.track.0, "at_ns": m.at.0, "name": t.names.get(m.name)})),
        )?;
        array(out, "waits", t.waits.iter().map(|w| wait(boot, w)))?;
        let timed_waits = t.timed_waits.iter().flat_map(|waits| waits.stretches());
        array(out, "timed_waits", timed_waits.map(|(from, to)| json!({"from_ns": from.0, "to_ns": to.0})))?;
        array(out, "holds", t.holds.iter().map(|h| hold(boot, h)))?;
        array(out, "processes", t.processes.iter().map(|p| process(boot, p)))?;
        array(out, "running", t.running.iter().map(running))?;
        let mut open = Open::new(boot.path_slices());
        array(out, "path", boot.path().stretches.iter().map(|s| stretch(boot, s, open.at(s.from))))?;
        array(out, "findings", boot.findings.iter().flat_map(|found| &found.findings))?;
        write!(out, ",\n\"found\":{}", crate::json(&boot.findings.as_ref().map(|found| &found.found), false)?)?;
        array(out, "diagnostics", t.diagnostics.iter().map(|d| DiagnosticLine::new(d, t.unit)))?;
        writeln!(out, "}}")
    }
}

fn array<T: Serialize>(out: &mut dyn Write, name: &str, rows: impl Iterator<Item = T>) -> io::Result<()> {
    write!(out, ",\n\"{name}\":[")?;
    for (i, row) in rows.enumerate() {
        write!(out, "{}", if i == 0 { "\n" } else { ",\n" })?;
        crate::write_json(&mut *out, &row, false)?;
    }
    write!(out, "]")
}

/// Spans outnumber everything else: a plain struct is faster than a tree of values.
#[derive(Serialize)]
struct SpanOut<'a> {
    track: u32,
    start_ns: i64,
    end_ns: i64,
    depth: u32,
    kind: &'static str,
    name: &'a str,
    detail: &'a str,
}

fn span<'a>(boot: &'a Boot, id: timeline::SpanId, row: timeline::SpanRow) -> SpanOut<'a> {
    SpanOut {
        track: row.track.0,
        start_ns: row.start.0,
        end_ns: row.end.0,
        depth: boot.timeline.spans.depth(id),
        kind: csv::kind(row.kind),
        name: boot.timeline.names.get(row.name),
        detail: boot.timeline.names.get(row.detail),
    }
}

#[derive(Serialize)]
struct RunningOut {
    track: u32,
    cpu: u32,
    from_ns: i64,
    to_ns: i64,
}

fn running(r: &timeline::Running) -> RunningOut {
    RunningOut { track: r.track.0, cpu: r.cpu, from_ns: r.from.0, to_ns: r.to.0 }
}

#[derive(Serialize)]
struct WaitOut<'a> {
    track: u32,
    from_ns: i64,
    woken_ns: i64,
    until_ns: Option<i64>,
    by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<&'a str>,
}

fn wait<'a>(boot: &'a Boot, w: &timeline::Wait) -> WaitOut<'a> {
    let (by, thread, interrupt) = match w.by {
        WaitedOn::Thread(track) => ("thread", Some(track.0), None),
        WaitedOn::Interrupt(name) => ("interrupt", None, Some(boot.timeline.names.get(name))),
        WaitedOn::Holders(topic) => ("holders", None, Some(boot.timeline.names.get(topic))),
        WaitedOn::Nothing => ("nothing", None, None),
        WaitedOn::Halted => ("halted", None, None),
        WaitedOn::Unknown => ("unknown", None, None),
    };
    let until_ns = (w.until != Ns::MAX).then_some(w.until.0);
    WaitOut { track: w.track.0, from_ns: w.from.0, woken_ns: w.woken.0, until_ns, by, thread, interrupt }
}

/// An open end is `null`.
fn hold(boot: &Boot, h: &timeline::Hold) -> serde_json::Value {
    let bound = |at: Ns| (at != Ns::MIN && at != Ns::MAX).then_some(at.0);
    json!({
        "topic": boot.timeline.names.get(h.topic),
        "track": h.track.0,
        "from_ns": bound(h.from),
        "to_ns": bound(h.to),
    })
}

fn process(boot: &Boot, p: &timeline::Process) -> serde_json::Value {
    json!({
        "pid": p.pid,
        "ppid": p.parent,
        "depth": p.depth,
        "name": boot.timeline.names.get(p.name),
        "start_ns": p.start.0,
        "end_ns": p.end.map(|end| end.0),
    })
}

#[derive(Serialize)]
struct StretchOut {
    from_ns: i64,
    to_ns: i64,
    how: &'static str,
    stack: Vec<String>,
}

fn stretch(boot: &Boot, s: &analysis::Stretch, open: &[Slice]) -> StretchOut {
    let how = match s.kind {
        StretchKind::Running => "running",
        StretchKind::Runqueue => "runqueue",
        StretchKind::Interrupt(_) => "interrupt",
        StretchKind::Topic(_) | StretchKind::Wait => "wait",
    };
    let text = |slices: &[Slice]| slices.iter().map(|slice| boot.text(slice.label)).collect::<Vec<_>>();
    let stack = match open {
        [outer @ .., innermost] if open.len() > MAX_FRAMES => {
            let (outer, between) = outer.split_at(MAX_FRAMES - 2);
            [text(outer), vec![format!("({} frames between)", between.len()), boot.text(innermost.label)]].concat()
        }
        _ => text(open),
    };
    StretchOut { from_ns: s.from.0, to_ns: s.to.0, how, stack }
}

fn clock(c: &timeline::Clock) -> serde_json::Value {
    json!({"name": c.name, "hz": c.hz, "residual_ns": c.residual.0, "rate_from": rate_source(&c.rate_from)})
}

fn phase(p: &analysis::Phase) -> serde_json::Value {
    json!({"name": p.name, "start_ns": p.start.0, "end_ns": p.end.0, "error_ns": p.error.0, "evidence": p.evidence})
}

fn track_row(boot: &Boot, number: u32, track: &timeline::Track) -> serde_json::Value {
    let kind = match track.kind {
        TrackKind::Vmm => "vmm",
        TrackKind::Firmware => "firmware",
        TrackKind::Thread => "thread",
        // Both are `cpu`, because earlier versions of the document have no other word.
        TrackKind::Cpu | TrackKind::Interrupts => "cpu",
        TrackKind::Console => "console",
    };
    json!({
        "track": number,
        "name": boot.timeline.names.get(track.name),
        "kind": kind,
        "id": track.id,
        "created_ns": track.created.map(|(at, _)| at.0),
        "created_by": track.created.map(|(_, by)| by.0),
        "idle": track.idle,
    })
}
