//! speedscope's evented profiles (speedscope.app; the file format is public and versioned by `$schema`).
//!
//! There is one profile per lane that has slices, the boot path first. Events open and close frames in order of time.
//! Frames are shared and written last, when all are known.

use super::Export;
use crate::Boot;
use crate::lanes::{Edge, Label, Lane, edges};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{self, Write};
use timeline::Unit;

pub struct Speedscope;

impl Export for Speedscope {
    fn name(&self) -> &'static str {
        "speedscope"
    }

    fn extension(&self) -> &'static str {
        "speedscope.json"
    }

    fn about(&self) -> &'static str {
        "a profile per track, for speedscope.app"
    }

    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
        let mut frames = Frames { boot, numbers: HashMap::new(), labels: Vec::new() };
        write!(
            out,
            "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\
             \"exporter\":\"bootscope {}\",\"name\":{},\"activeProfileIndex\":0,\"profiles\":[",
            env!("CARGO_PKG_VERSION"),
            Value::from(title(boot))
        )?;
        let mut first = true;
        for lane in boot.lanes() {
            if lane.slices().next().is_some() {
                write!(out, "{}", if first { "\n" } else { ",\n" })?;
                first = false;
                write_profile(&lane, &mut frames, out)?;
            }
        }
        write!(out, "],\n\"shared\":{{\"frames\":[")?;
        for (i, label) in frames.labels.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(out, "{comma}\n{{\"name\":{}}}", Value::from(boot.text(*label)))?;
        }
        writeln!(out, "]}}}}")
    }
}

/// The profile's name: the kernel, and the warnings.
fn title(boot: &Boot) -> String {
    let subject = &boot.facts.subject;
    let mut title = "boot".to_owned();
    let words = [&subject.os, &subject.kernel].into_iter().filter(|word| !word.is_empty());
    for (i, word) in words.enumerate() {
        title += if i == 0 { " of " } else { " " };
        title += &crate::harmless(word);
    }
    super::warnings(boot).for_each(|warning| title += &format!("; warning: {warning}"));
    title
}

struct Frames<'a> {
    boot: &'a Boot<'a>,
    numbers: HashMap<Label, usize>,
    labels: Vec<Label>,
}

impl Frames<'_> {
    fn number(&mut self, label: Label) -> usize {
        *self.numbers.entry(label).or_insert_with(|| {
            self.labels.push(label);
            self.labels.len() - 1
        })
    }
}

fn write_profile(lane: &Lane, frames: &mut Frames, out: &mut dyn Write) -> io::Result<()> {
    let start = lane.slices().map(|s| s.start).min().unwrap_or_default();
    let end = lane.slices().map(|s| s.end).max().unwrap_or_default().max(frames.boot.total);
    let name = Value::from(lane.name.as_str());
    let unit = match frames.boot.timeline.unit {
        Unit::Nanoseconds | Unit::GuestTime | Unit::Instructions | Unit::Priced => "nanoseconds",
        Unit::Ticks | Unit::Count => "none",
    };
    write!(
        out,
        "{{\"type\":\"evented\",\"name\":{name},\"unit\":\"{unit}\",\"startValue\":{},\"endValue\":{},\"events\":[",
        start.0.min(0),
        end.0
    )?;
    let mut first = true;
    edges(lane.slices(), |edge| {
        let (kind, slice) = match edge {
            Edge::Begin(slice) => ('O', slice),
            Edge::End(slice) => ('C', slice),
        };
        let comma = if first { "" } else { "," };
        first = false;
        write!(out, "{comma}\n{{\"type\":\"{kind}\",\"frame\":{},\"at\":{}}}", frames.number(slice.label), edge.at().0)
    })?;
    write!(out, "]}}")
}
