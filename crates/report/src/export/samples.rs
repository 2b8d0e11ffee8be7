//! Samples in other programs' formats: `perf script` text, folded stacks, a flame graph.
//!
//! A stack's weight is the sum of its samples' periods. Two events are never added up. A format with room for one event
//! shows the requested one, or the one with most samples, and names it. Each export states that its figures are
//! sampled, and their error.

use super::MAX_FRAMES;
use super::flame_graph::{draw, merged};
use super::folded::{DEEPER_FRAMES, frame};
use crate::chart::{self, Positions};
use crate::lanes::Label;
use crate::text::counted;
use crate::{Boot, harmless};
use std::collections::BTreeMap;
use std::io::{self, Write};
use timeline::{NameId, Names, Ns, Sample, Sampled, SampledEvent, Unit};

/// A format that samples can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleFormat {
    /// `perf script` text.
    Perf,
    /// A line for each stack, with its weight.
    Folded,
    /// A flame graph.
    Svg,
}

impl SampleFormat {
    pub const ALL: [SampleFormat; 3] = [SampleFormat::Perf, SampleFormat::Folded, SampleFormat::Svg];

    /// The format with this name.
    pub fn named(name: &str) -> Option<SampleFormat> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The value of `--to` that selects it.
    pub fn name(self) -> &'static str {
        match self {
            SampleFormat::Perf => "perf",
            SampleFormat::Folded => "folded",
            SampleFormat::Svg => "svg",
        }
    }

    /// Its content and its readers, in a line.
    pub fn about(self) -> &'static str {
        match self {
            SampleFormat::Perf => "perf script text, which import reads",
            SampleFormat::Folded => "sampled stacks, for flame graph tools",
            SampleFormat::Svg => "a flame graph, for any browser",
        }
    }

    /// Writes the samples of `event`, or of the event with most samples. `perf` without `event` writes all samples.
    ///
    /// # Errors
    /// If `out` cannot be written, or if the boot has no samples or none with this event.
    pub fn write(self, boot: &Boot, event: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
        let refuse = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let sampled = boot.timeline.sampled.as_ref().ok_or_else(|| refuse(NO_SAMPLES.to_owned()))?;
        let names = &boot.timeline.names;
        let events = sampled.events();
        let all = || events.iter().map(|event| harmless(names.get(event.name))).collect::<Vec<_>>().join(", ");
        let chosen = match event {
            Some(name) => events.iter().find(|event| names.get(event.name) == name),
            None => events.first(),
        };
        let chosen = chosen.ok_or_else(|| {
            refuse(format!("there are no samples of {}; there are {}", event.unwrap_or("any event"), all()))
        })?;
        let left_out = events.len() - 1;
        match self {
            SampleFormat::Perf => perf(sampled, event.map(|_| chosen.name), names, out),
            SampleFormat::Folded => {
                super::warnings(boot).try_for_each(|warning| writeln!(out, "# (warning: {warning})"))?;
                // The brackets keep a comment from ending in a number.
                writeln!(out, "# ({})", about(chosen, left_out, names))?;
                folded(chosen, names, out)
            }
            SampleFormat::Svg => flame_graph(boot, chosen, left_out, out),
        }
    }
}

const NO_SAMPLES: &str = "there are no samples in it: record --lab --append 'sample=1000', or import perf script text";

/// A sentence about the figures: the event, its weights and its error.
fn about(event: &SampledEvent, left_out: usize, names: &Names) -> String {
    let weights = if event.has_periods { "each weighs its period" } else { "each weighs the same" };
    let others = match left_out {
        0 => String::new(),
        n => format!("; {} not in here", counted(n as u64, "more event")),
    };
    let name = harmless(names.get(event.name));
    format!(
        "sampled: {} of {name}, {weights}; a share p has a binomial standard error of √(p(1−p)/{:.0}){others}",
        counted(event.all.samples, "sample"),
        event.effective_samples()
    )
}

/// Writes the samples as `perf script` text. Unknown times and CPUs are left out. A function without a name appears by
/// its address.
fn perf(sampled: &Sampled, only: Option<NameId>, names: &Names, out: &mut dyn Write) -> io::Result<()> {
    if let Some(began) = sampled.began {
        writeln!(out, "# sampled from: {}", seconds(began))?;
    }
    if let Some(period) = sampled.period {
        writeln!(out, "# period: {} ns", period.0)?;
    }
    if let Some(lost) = sampled.lost {
        writeln!(out, "# lost: {lost}")?;
    }
    if sampled.unsampled_cpus > 0 {
        writeln!(out, "# CPUs not sampled: {}", sampled.unsampled_cpus)?;
    }
    for sample in sampled.samples().iter().filter(|sample| only.is_none_or(|only| sample.event == only)) {
        write!(out, "{} {}", harmless(names.get(sample.thread.name)), sample.thread.tid)?;
        sample.cpu.map_or(Ok(()), |cpu| write!(out, " [{cpu:03}]"))?;
        sample.at.map_or(Ok(()), |at| write!(out, " {}:", seconds(at)))?;
        sample.period.map_or(Ok(()), |period| write!(out, " {period}"))?;
        let (mode, module) = match sample.is_user {
            Some(true) => (":u", "[user]"),
            Some(false) => (":k", "[kernel]"),
            None => ("", "[unknown]"),
        };
        let event = names.get(sample.event);
        writeln!(out, " {}{}:", harmless(event), if event.contains(':') { "" } else { mode })?;
        for frame in sample.stack.iter().rev() {
            let name = if frame.is_named { harmless(names.get(frame.name)) } else { "[unknown]".into() };
            writeln!(out, "\t{:16x} {name} ({module})", frame.address)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn seconds(at: Ns) -> String {
    format!("{}.{:09}", at.0.div_euclid(1_000_000_000), at.0.rem_euclid(1_000_000_000))
}

/// The name of the thread, then the outermost [`MAX_FRAMES`] functions.
fn path(sample: &Sample) -> Vec<NameId> {
    let frames = sample.stack.iter().map(|frame| frame.name);
    std::iter::once(sample.thread.name).chain(frames).take(MAX_FRAMES + 1).collect()
}

/// The stacks in the order of their names, each with its weight. Deeper frames are cut.
fn stacks(event: &SampledEvent) -> BTreeMap<Vec<NameId>, u128> {
    let mut stacks = BTreeMap::new();
    for (sample, weight) in event.weighed() {
        *stacks.entry(path(sample)).or_default() += u128::from(weight);
    }
    stacks
}

fn folded(event: &SampledEvent, names: &Names, out: &mut dyn Write) -> io::Result<()> {
    let mut lines: BTreeMap<String, u128> = BTreeMap::new();
    for (stack, weight) in stacks(event) {
        let deeper = (stack.len() > MAX_FRAMES).then(|| DEEPER_FRAMES.to_owned());
        let shown = stack.iter().take(MAX_FRAMES).map(|&name| frame(&harmless(names.get(name))));
        let line: Vec<String> = shown.chain(deeper).collect();
        *lines.entry(line.join(";")).or_default() += weight;
    }
    lines.iter().try_for_each(|(line, weight)| writeln!(out, "{line} {weight}"))
}

/// Draws the stacks with the chart's code. Stacks lie beside each other by name; the boot's chart has them in order of
/// time.
fn flame_graph(boot: &Boot, event: &SampledEvent, left_out: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut names = boot.timeline.names.clone();
    let about = about(event, left_out, &names);
    let title = format!("Sampled: {}, {} {}", names.get(event.name), boot.facts.subject.os, boot.facts.subject.kernel);
    let unit =
        if COUNT_TIME.contains(&names.get(event.name)) && event.has_periods { Unit::Nanoseconds } else { Unit::Count };
    let deeper = names.intern(DEEPER_FRAMES);
    // The weights are shifted so that their sum fits in the 63 bits of a length.
    let shift = (128 - event.all.weight.leading_zeros()).saturating_sub(62);
    let stacks = stacks(event).into_iter().map(|(mut stack, weight)| {
        if let Some(frame) = stack.get_mut(MAX_FRAMES) {
            *frame = deeper;
        }
        (stack, Ns(i64::try_from(weight >> shift).unwrap_or(i64::MAX)))
    });
    let merged = merged(stacks, |name| names.get(name), |name| Label::Span(name, NameId::EMPTY));
    let heading = chart::Heading {
        title: harmless(title.trim()).into_owned(),
        about,
        whole: "all samples",
        warnings: super::warnings(boot).collect(),
        positions: Positions::Sampled { effective: event.effective_samples() },
    };
    draw(boot, names, unit, merged, &heading, out)
}

/// Events whose periods are nanoseconds.
const COUNT_TIME: [&str; 5] = ["nmi", "cpu-clock", "task-clock", "cpu-clock:pppH", "task-clock:pppH"];
