//! The file of silences, as `docs/json.md` describes it: a line a fact, so that people can read it too.

use std::fmt::Write;

use super::names::Names;
use super::stack::{How, Stack};
use super::{Silence, Stop};
use crate::arch::Mode;

/// Its name in the recording.
pub(crate) const FILE: &str = "silence.txt";

pub(super) fn write(after_ns: i64, silences: &[Silence], names: &Names, remarks: &[String]) -> String {
    let mut out = format!("# bootscope silence 1\n# silent-after-ns {after_ns}\n");
    for remark in &names.remarks {
        line(&mut out, format_args!("# names {}", remark.replace(['\n', '\r'], " ")));
    }
    for remark in remarks {
        line(&mut out, format_args!("# note {}", remark.replace(['\n', '\r'], " ")));
    }
    for silence in silences {
        line(&mut out, format_args!("silence {} {}", silence.from_ns, silence.until_ns));
        for Stop { at_ns, stood_ns, cpus } in &silence.stops {
            line(&mut out, format_args!("stop {at_ns} {stood_ns}"));
            for (number, stack) in cpus.iter().enumerate() {
                cpu(&mut out, number, stack, names);
            }
        }
    }
    out
}

fn cpu(out: &mut String, number: usize, stack: &Stack, names: &Names) {
    let mode = match stack.mode {
        Mode::Boot => "in-firmware",
        Mode::Kernel => "in-kernel",
        Mode::User => "in-process",
    };
    let how = match stack.how {
        How::FramePointers => "frame-pointers",
        How::Words => "words",
        How::Not => "none",
    };
    line(out, format_args!("cpu {number} {mode} {how}"));
    let mut entry = |sign: char, address: u64| {
        let place = names.place(address).filter(|_| stack.mode == Mode::Kernel);
        match place {
            Some(place) => line(out, format_args!("{sign} {address:016x} {}+{:#x}", place.name, address - place.start)),
            None => line(out, format_args!("{sign} {address:016x}")),
        }
    };
    entry(' ', stack.pc);
    let callers = names.callers(stack);
    for found in &stack.returns {
        let sign = if callers.iter().any(|caller| std::ptr::eq(*caller, found)) { ' ' } else { '?' };
        entry(sign, found.address);
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a String takes all");
}
