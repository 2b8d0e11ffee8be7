//! The data of a boot's page: the [`Table`]s and their order.
//!
//! The order is that of need. The first picture needs the first parts (`boot`, `tracks`, `stays`, `frames`). The charts
//! need the next, with spans in chunks. Lists come last. Names and labels come in parts too, each before its first use.
//! All text has passed [`crate::harmless()`] here, so the page does not need to check it.
//!
//! ```text
//! boot     json                                   one text: the facts, see `facts`
//! tracks   name kind number created by idle thing  by: 1 + the creating track; thing: see `analysis::Things`
//! stays    length kind on goes_on frames           the boot path from zero on, without a gap; frames: the length of its chain
//! frames   track span                              the chains, each waiter before the thread it waits for; span: 1 + its number
//! running  track cpu from length                   length: 1 + it; 0: to the end
//! names    name                                    further names; their numbers go on from part to part
//! labels   name detail kind thing                  further labels, likewise
//! spans    track start length depth label          further spans, by track and start, outer ones first
//! waits    track from woken length kind on         woken: after `from`; length: 1 + it; 0: never seen to run again
//! marks    at name track
//! unplaced has_later later name                    messages without a time; later: the time of the next message that has one
//! samples  at cpu thread event function            if they have a place in the boot's time; cpu: 1 + it; function: the innermost
//! stacks   event parent name weight                the samples' stacks, merged for each event; parent: 1 + its number
//! calls    parent name kind calls self             every call by path; parent: 1 + its number
//! console  stamped at text
//!
//! These tables follow if the page runs the boot again by itself (`page_data::Parts` reads them):
//! model        os end end_track cpus is_followed followed decompressor is_logged has_timeouts is_traced      one row; without a path, the only table
//! order        name                               all names, by their order in the recording
//! track_names  name is_unnamed unit is_init        of each track; unit: 1 + its name; is_init: it is a thread of process 1
//! units        name settled                       those that have started, or failed
//! nodes        node                               of each span: 1 + its call
//! in_spans     spent                              of each call
//! holds        topic track from to
//! turns        track cpu from to
//! off          track from is_known ready until by
//! boundaries   phase name at error evidence       phase: `page_data::phase_number`
//!
//! end      (no columns)                            the page is complete
//! ```

mod facts;
mod model;
mod stacks;

use super::boot::{ConsoleLine, PageBoot};
use super::for_a_browser::safe;
use crate::Boot;
use crate::text::harmless_bytes;
use analysis::StretchKind;
use facts::facts;
use model::model;
use page_data::{Column, Table};
use stacks::stacks;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use timeline::{EndEvidence, NameId, Ns, Running, Sample, SpanKind, SpanRow, TrackKind, WaitedOn};

/// The time at which a part is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// For the first picture.
    First,
    /// After it.
    Later,
}

/// The most spans of a part: a browser works on them for a tenth of a second.
const CHUNK: usize = 1 << 16;

/// Bytes of text after which a part ends: a console or the names of a boot can have gigabytes.
const CHUNK_BYTES: usize = 4 << 20;

/// The most console lines in a page: half from the start, half from the end.
const MAX_LINES: usize = 200_000;

/// The most bytes of a console line.
const MAX_LINE_BYTES: usize = 4_000;

/// Passes the parts of one boot to `each`, in order. `boots` is the number of boots in the page. With `runs_again`, the
/// parts for running the boot again follow.
///
/// # Errors
/// Those of `each`.
pub fn each_part(
    page_boot: &PageBoot,
    boots: usize,
    runs_again: bool,
    each: &mut impl FnMut(Needed, &Table) -> io::Result<()>,
) -> io::Result<()> {
    let PageBoot { boot, console, .. } = *page_boot;
    let json = facts(page_boot, boots)?;
    let mut first = |table: &Table| each(Needed::First, table);
    first(&Table::new("boot", 1).with("json", Column::Texts(vec![json.into()])))?;
    first(&tracks(boot))?;
    let mut names = Names::default();
    let (stays, frames) = stays(boot, &mut names);
    first(&stays)?;
    first(&frames)?;
    let mut later = |table: &Table| each(Needed::Later, table);
    later(&running(boot))?;
    spans(boot, &mut names, &mut later)?;
    let (waits, marks, calls) = (waits(boot, &mut names), marks(boot, &mut names), calls(boot, &mut names));
    let (unplaced, samples) = (unplaced(boot, &mut names), samples(boot, &mut names));
    let stacks = stacks(boot, &mut names);
    let model = if runs_again { model(boot, &mut names) } else { Vec::new() };
    names.further(boot, &mut later)?;
    for table in [waits, marks, unplaced, samples, stacks, calls].into_iter().chain(model) {
        later(&table)?;
    }
    lines(console, &mut later)?;
    later(&Table::new("end", 0))?;
    Ok(())
}

/// The number of a kind: its place in `facts::KINDS`.
fn kind(kind: SpanKind) -> u8 {
    kind as u8
}

fn tracks(boot: &Boot) -> Table<'static> {
    let tracks: Vec<_> = boot.timeline.tracks.iter().collect();
    let kind = |kind| match kind {
        TrackKind::Vmm => 0,
        TrackKind::Firmware => 1,
        TrackKind::Thread => 2,
        TrackKind::Cpu => 3,
        TrackKind::Interrupts => 4,
        TrackKind::Console => 5,
    };
    let text = |column: &dyn Fn(timeline::TrackId) -> String| -> Column<'static> {
        Column::Texts(tracks.iter().map(|(id, _)| Cow::Owned(column(*id))).collect())
    };
    let things = &boot.tables().things.of_track;
    Table::new("tracks", tracks.len())
        .with("name", text(&|id| safe(boot.track_name(id))))
        .with("kind", Column::Bytes(tracks.iter().map(|(_, t)| kind(t.kind)).collect()))
        .with("number", Column::Counts(tracks.iter().map(|(_, t)| t.id).collect()))
        .with("created", Column::Deltas(tracks.iter().map(|(_, t)| t.created.map_or(0, |(at, _)| at.0)).collect()))
        .with(
            "by",
            Column::Counts(tracks.iter().map(|(_, t)| t.created.map_or(0, |(_, by)| 1 + u64::from(by.0))).collect()),
        )
        .with("idle", Column::Bytes(tracks.iter().map(|(_, t)| u8::from(t.idle)).collect()))
        .with("thing", Column::Counts(things.iter().map(|&thing| u64::from(thing)).collect()))
}

/// The boot path, and its chains of waits.
fn stays(boot: &Boot, names: &mut Names) -> (Table<'static>, Table<'static>) {
    let (mut lengths, mut kinds, mut on, mut goes_on, mut counts) = (vec![], vec![], vec![], vec![], vec![]);
    let (mut tracks, mut spans) = (vec![], vec![]);
    for stay in boot.stays.iter() {
        let (kind, by) = match stay.kind {
            StretchKind::Running => (0, None),
            StretchKind::Runqueue => (1, None),
            StretchKind::Interrupt(by) => (2, Some(by)),
            StretchKind::Topic(by) => (3, Some(by)),
            StretchKind::Wait => (4, None),
        };
        lengths.push(length(stay.from, stay.to));
        kinds.push(kind);
        on.push(by.map_or(0, |by| 1 + names.name(by)));
        goes_on.push(u8::from(stay.goes_on));
        counts.push(stay.chain.len() as u64);
        for frame in &stay.chain {
            tracks.push(i64::from(frame.track.0));
            spans.push(frame.span.map_or(0, |span| 1 + i64::from(span.0)));
        }
    }
    let stays = Table::new("stays", lengths.len())
        .with("length", Column::Counts(lengths))
        .with("kind", Column::Bytes(kinds))
        .with("on", Column::Counts(on))
        .with("goes_on", Column::Bytes(goes_on))
        .with("frames", Column::Counts(counts));
    let frames =
        Table::new("frames", tracks.len()).with("track", Column::Deltas(tracks)).with("span", Column::Deltas(spans));
    (stays, frames)
}

/// The length from an instant to a later one, or 0 if it is not later.
fn length(from: Ns, to: Ns) -> u64 {
    u64::try_from(i128::from(to.0) - i128::from(from.0)).unwrap_or(0)
}

/// A length plus one, or 0 if the interval never ended.
fn until(from: Ns, to: Ns) -> u64 {
    if to == Ns::MAX { 0 } else { length(from, to).saturating_add(1) }
}

fn spans(boot: &Boot, names: &mut Names, each: &mut impl FnMut(&Table) -> io::Result<()>) -> io::Result<()> {
    let things = &boot.tables().things.of_span;
    let mut all = boot.timeline.spans.iter();
    loop {
        let chunk: Vec<_> = all.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            return Ok(());
        }
        let labels = chunk.iter().map(|(id, row)| names.label(row, things[id.0 as usize])).collect();
        names.further(boot, each)?;
        let rows = || chunk.iter().map(|(_, row)| row);
        each(
            &Table::new("spans", chunk.len())
                .with("track", Column::Deltas(rows().map(|row| i64::from(row.track.0)).collect()))
                .with("start", Column::Deltas(rows().map(|row| row.start.0).collect()))
                .with("length", Column::Counts(rows().map(|row| length(row.start, row.end)).collect()))
                .with(
                    "depth",
                    Column::Counts(chunk.iter().map(|(id, _)| boot.timeline.spans.depth(*id).into()).collect()),
                )
                .with("label", Column::Counts(labels)),
        )?;
    }
}

/// The stretches of threads on CPUs: from the scheduler's trace, or without one, from the kernel's log.
fn running(boot: &Boot) -> Table<'static> {
    let traced = &boot.timeline.running;
    let mut all: Vec<&Running> =
        if traced.is_empty() { &boot.timeline.occupancy.turns } else { traced }.iter().collect();
    all.sort_by_key(|r| (r.track, r.from));
    Table::new("running", all.len())
        .with("track", Column::Deltas(all.iter().map(|r| i64::from(r.track.0)).collect()))
        .with("cpu", Column::Counts(all.iter().map(|r| u64::from(r.cpu)).collect()))
        .with("from", Column::Deltas(all.iter().map(|r| r.from.0).collect()))
        .with("length", Column::Counts(all.iter().map(|r| until(r.from, r.to)).collect()))
}

fn waits(boot: &Boot, names: &mut Names) -> Table<'static> {
    let all = &boot.timeline.waits;
    let by: Vec<(u8, u64)> = all
        .iter()
        .map(|wait| match wait.by {
            WaitedOn::Thread(track) => (0, u64::from(track.0)),
            WaitedOn::Interrupt(name) => (1, names.name(name)),
            WaitedOn::Holders(topic) => (2, names.name(topic)),
            WaitedOn::Nothing => (3, 0),
            WaitedOn::Halted => (4, 0),
            WaitedOn::Unknown => (5, 0),
        })
        .collect();
    Table::new("waits", all.len())
        .with("track", Column::Deltas(all.iter().map(|w| i64::from(w.track.0)).collect()))
        .with("from", Column::Deltas(all.iter().map(|w| w.from.0).collect()))
        .with("woken", Column::Counts(all.iter().map(|w| length(w.from, w.woken)).collect()))
        .with("length", Column::Counts(all.iter().map(|w| until(w.from, w.until)).collect()))
        .with("kind", Column::Bytes(by.iter().map(|(kind, _)| *kind).collect()))
        .with("on", Column::Counts(by.iter().map(|(_, on)| *on).collect()))
}

fn marks(boot: &Boot, names: &mut Names) -> Table<'static> {
    let all = &boot.timeline.marks;
    Table::new("marks", all.len())
        .with("at", Column::Deltas(all.iter().map(|m| m.at.0).collect()))
        .with("name", Column::Counts(all.iter().map(|m| names.name(m.name)).collect()))
        .with("track", Column::Deltas(all.iter().map(|m| i64::from(m.track.0)).collect()))
}

fn unplaced(boot: &Boot, names: &mut Names) -> Table<'static> {
    let all = &boot.timeline.unplaced;
    Table::new("unplaced", all.len())
        .with("has_later", Column::Bytes(all.iter().map(|m| u8::from(m.before.is_some())).collect()))
        .with("later", Column::Deltas(all.iter().map(|m| m.before.unwrap_or_default().0).collect()))
        .with("name", Column::Counts(all.iter().map(|m| names.name(m.name)).collect()))
}

/// The samples. They have a separate clock, so they have a place only if the boot has nothing else and its times come
/// from that clock.
fn samples(boot: &Boot, names: &mut Names) -> Table<'static> {
    let end = boot.timeline.end.filter(|end| end.evidence == EndEvidence::LastSample);
    let alone = boot.timeline.sampled.as_ref().and_then(|sampled| Some((sampled, sampled.within()?.1, end?)));
    let placed = alone.iter().flat_map(|(sampled, last, end)| {
        let placed = |sample| -> Option<(&Sample, i64)> { Some((sample, (sample.at? - *last + end.at).0)) };
        sampled.samples().iter().filter_map(placed)
    });
    let mut all: Vec<(&Sample, i64)> = placed.collect();
    all.sort_by_key(|(_, at)| *at);
    let rows = || all.iter().map(|(sample, _)| *sample);
    let innermost = |sample: &Sample| sample.stack.last().map_or(NameId::EMPTY, |frame| frame.name);
    Table::new("samples", all.len())
        .with("at", Column::Deltas(all.iter().map(|(_, at)| *at).collect()))
        .with("cpu", Column::Counts(rows().map(|s| s.cpu.map_or(0, |cpu| cpu.saturating_add(1))).collect()))
        .with("thread", Column::Counts(rows().map(|s| names.name(s.thread.name)).collect()))
        .with("event", Column::Counts(rows().map(|s| names.name(s.event)).collect()))
        .with("function", Column::Counts(rows().map(|s| names.name(innermost(s))).collect()))
}

fn calls(boot: &Boot, names: &mut Names) -> Table<'static> {
    let all: Vec<_> = boot.timeline.profile.nodes().map(|(_, node)| node).collect();
    let parent =
        |parent: Option<timeline::NodeId>| parent.map_or(0, |parent| 1 + u64::from(timeline::number(parent.index())));
    Table::new("calls", all.len())
        .with("parent", Column::Counts(all.iter().map(|node| parent(node.parent)).collect()))
        .with("name", Column::Counts(all.iter().map(|node| names.name(node.name)).collect()))
        .with("kind", Column::Bytes(all.iter().map(|node| kind(node.kind)).collect()))
        .with("calls", Column::Counts(all.iter().map(|node| node.calls).collect()))
        .with("self", Column::Counts(all.iter().map(|node| node.own).collect()))
}

fn lines(console: &[ConsoleLine], each: &mut impl FnMut(&Table) -> io::Result<()>) -> io::Result<()> {
    let tail = console.len().saturating_sub(MAX_LINES / 2).max(MAX_LINES / 2);
    let shown: Vec<&ConsoleLine> = match console.len() <= MAX_LINES {
        true => console.iter().collect(),
        false => console[..MAX_LINES / 2].iter().chain(&console[tail..]).collect(),
    };
    let text = |line: &ConsoleLine| {
        // A serial console ends its lines with CR and LF.
        let whole = line.text.strip_suffix(b"\r").unwrap_or(line.text);
        let kept = &whole[..whole.len().min(MAX_LINE_BYTES)];
        // A tab stays a tab: an escape in its place would change the look of the line.
        let mut text = kept.split(|&b| b == b'\t').map(harmless_bytes).collect::<Vec<_>>().join("\t");
        if kept.len() < whole.len() {
            text += &format!("… ({} bytes)", whole.len());
        }
        text
    };
    in_chunks(
        shown.iter().map(|line| (line.at, text(line))),
        |(_, text)| text.len(),
        |chunk| {
            each(
                &Table::new("console", chunk.len())
                    .with("stamped", Column::Bytes(chunk.iter().map(|(at, _)| u8::from(at.is_some())).collect()))
                    .with("at", Column::Deltas(chunk.iter().map(|(at, _)| at.unwrap_or_default().0).collect()))
                    .with("text", Column::Texts(chunk.iter().map(|(_, text)| Cow::Borrowed(text.as_str())).collect())),
            )
        },
    )
}

/// Passes items on in chunks of [`CHUNK_BYTES`] or a little more.
fn in_chunks<T>(
    all: impl Iterator<Item = T>,
    bytes: impl Fn(&T) -> usize,
    mut each: impl FnMut(&[T]) -> io::Result<()>,
) -> io::Result<()> {
    let (mut chunk, mut size) = (Vec::new(), 0);
    for one in all {
        size += bytes(&one);
        chunk.push(one);
        if size >= CHUNK_BYTES || chunk.len() >= CHUNK {
            each(&chunk)?;
            chunk.clear();
            size = 0;
        }
    }
    if chunk.is_empty() { Ok(()) } else { each(&chunk) }
}

/// The names and labels of the parts, in the order of first use. The most frequent ones then mostly have the smallest
/// numbers, which take the fewest bytes.
#[derive(Default)]
struct Names {
    of_name: HashMap<NameId, u64>,
    names: Vec<NameId>,
    of_label: HashMap<(NameId, NameId, SpanKind, u32), u64>,
    labels: Vec<(u64, u64, u8, u64)>,
    /// The numbers of names and labels that the parts so far have.
    written: (usize, usize),
}

impl Names {
    fn name(&mut self, name: NameId) -> u64 {
        let names = &mut self.names;
        *self.of_name.entry(name).or_insert_with(|| {
            names.push(name);
            names.len() as u64 - 1
        })
    }

    fn label(&mut self, row: &SpanRow, thing: u32) -> u64 {
        let key = (row.name, row.detail, row.kind, thing);
        if let Some(&known) = self.of_label.get(&key) {
            return known;
        }
        let label = (self.name(row.name), self.name(row.detail), kind(row.kind), u64::from(thing));
        self.labels.push(label);
        let number = self.labels.len() as u64 - 1;
        self.of_label.insert(key, number);
        number
    }

    /// Passes on the names and labels that no part has yet.
    fn further(&mut self, boot: &Boot, each: &mut impl FnMut(&Table) -> io::Result<()>) -> io::Result<()> {
        let (names, labels) = (&self.names[self.written.0..], &self.labels[self.written.1..]);
        let texts = names.iter().map(|name| safe(boot.timeline.names.get(*name)));
        in_chunks(texts, String::len, |chunk| {
            let texts = chunk.iter().map(|text| Cow::Borrowed(text.as_str())).collect();
            each(&Table::new("names", chunk.len()).with("name", Column::Texts(texts)))
        })?;
        if !labels.is_empty() {
            each(
                &Table::new("labels", labels.len())
                    .with("name", Column::Counts(labels.iter().map(|label| label.0).collect()))
                    .with("detail", Column::Counts(labels.iter().map(|label| label.1).collect()))
                    .with("kind", Column::Bytes(labels.iter().map(|label| label.2).collect()))
                    .with("thing", Column::Counts(labels.iter().map(|label| label.3).collect())),
            )?;
        }
        self.written = (self.names.len(), self.labels.len());
        Ok(())
    }
}
