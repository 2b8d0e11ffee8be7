//! The boots in a trace of several: a ring buffer that outlives reboots (`trace_instance=`) has the events of one boot behind those of
//! another.
//!
//! The kernel prints the earliest first event of all CPUs, so the events of two boots mix. On one CPU they follow each other, and the
//! clock begins again. A CPU whose clock never does belongs to the last boot, unless it is later than all events that surely are.

use super::line::{Entry, Record};
use super::{Stamps, entries};
use crate::formats::several_boots::boot_number;
use hashbrown::HashMap;
use timeline::{DiagnosticKind, Diagnostics, Ticks};

/// A clock that jitters steps back by less, in ns.
const STEP_BACK_MIN: u64 = 1_000_000;

/// The boots of one CPU.
#[derive(Clone, Copy, Default)]
struct Cpu {
    /// The number of times that its clock began again.
    restarts: usize,
    last: u64,
}

impl Cpu {
    fn add(&mut self, ticks: Ticks) {
        let begins = ticks.0.saturating_add(STEP_BACK_MIN) <= self.last && ticks.0 <= self.last / 2;
        self.restarts += usize::from(begins);
        self.last = if begins { ticks.0 } else { self.last.max(ticks.0) };
    }
}

fn records(bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    entries(bytes).filter_map(|(_, entry)| match entry {
        Entry::Event(record) if record.stamps == Stamps::Nanoseconds => Some(record),
        _ => None,
    })
}

/// The text of one boot: that with this number, where 0 is the last and -1 the one before. `None` if the trace has one boot.
pub(crate) fn of_boot(file: &str, bytes: &[u8], chosen: Option<i32>, diagnostics: &mut Diagnostics) -> Option<Vec<u8>> {
    let mut cpus: HashMap<u32, Cpu> = HashMap::new();
    records(bytes).for_each(|record| cpus.entry(record.cpu).or_default().add(record.ticks));
    let boots = cpus.values().map(|cpu| cpu.restarts).max()?;
    let number = chosen.unwrap_or_default().unsigned_abs() as usize;
    if boots == 0 || number > boots {
        if number > boots {
            diagnostics.note_about(DiagnosticKind::LogBootMissing, &boot_number(number), || file.to_owned());
        }
        return None;
    }
    let sure = cpus.values().filter(|cpu| cpu.restarts > 0).map(|cpu| cpu.last).max().unwrap_or_default();
    // The boots behind a CPU's last event.
    let behind_last = |cpu: &Cpu| usize::from(cpu.restarts == 0 && cpu.last > sure);
    let mut seen: HashMap<u32, Cpu> = HashMap::new();
    let mut others = vec![0_u64; boots + 1];
    let mut out = Vec::new();
    for (line, entry) in entries(bytes) {
        let record = match entry {
            Entry::Event(record) if record.stamps == Stamps::Nanoseconds => record,
            // The heading counts the events of all boots.
            Entry::Heading if super::entries_written(line.bytes).is_some() => continue,
            _ => {
                push(&mut out, line.bytes);
                continue;
            }
        };
        let at = seen.entry(record.cpu).or_default();
        at.add(record.ticks);
        let cpu = &cpus[&record.cpu];
        let behind = cpu.restarts - at.restarts + behind_last(cpu);
        if behind == number {
            push(&mut out, line.bytes);
        } else {
            others[behind.min(boots)] += 1;
        }
    }
    for (behind, lines) in others.iter().enumerate().filter(|(_, lines)| **lines > 0) {
        let about = format!("boot {}", boot_number(behind));
        diagnostics.add(DiagnosticKind::LogOtherBoot, &about, *lines, None, || file.to_owned());
    }
    Some(out)
}

fn push(out: &mut Vec<u8>, line: &[u8]) {
    out.extend_from_slice(line);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two boots in a buffer of two CPUs, as the kernel prints it: CPU 1 has its second boot's first event before CPU 0's last of the
    /// first boot. CPU 2 ran in the first boot only.
    const TEXT: &[u8] = b"# tracer: nop
#
# entries-in-buffer/entries-written: 7/7   #P:3
#
            init-1       [001] .....    20.000000: initcall_level: level=early
            init-1       [001] .....     0.100000: initcall_level: level=core
            init-1       [001] .....     0.500000: initcall_level: level=fs
            init-1       [000] .....    21.000000: initcall_level: level=arch
            init-1       [002] .....    21.500000: initcall_level: level=late
            init-1       [000] .....     0.200000: initcall_level: level=subsys
            init-1       [000] .....     0.700000: initcall_level: level=device
";

    fn levels(chosen: Option<i32>) -> (Vec<String>, Diagnostics) {
        let mut diagnostics = Diagnostics::default();
        let text = of_boot("t", TEXT, chosen, &mut diagnostics);
        let text = String::from_utf8(text.unwrap_or_else(|| TEXT.to_vec())).unwrap();
        let levels = text.lines().filter_map(|line| Some(line.split_once("level=")?.1.to_owned())).collect();
        (levels, diagnostics)
    }

    #[test]
    fn the_events_of_each_boot_are_told_apart_on_each_cpu() {
        let (last, diagnostics) = levels(None);
        assert_eq!(last, ["core", "fs", "subsys", "device"]);
        assert_eq!(diagnostics.count(DiagnosticKind::LogOtherBoot), 3);
        assert_eq!(levels(Some(-1)).0, ["early", "arch", "late"]);
        let (all, diagnostics) = levels(Some(-2));
        assert_eq!((all.len(), diagnostics.count(DiagnosticKind::LogBootMissing)), (7, 1));
    }

    #[test]
    fn a_clock_that_jitters_is_of_one_boot() {
        let text = b" init-1 [000] ..... 0.100500: initcall_level: level=early\n init-1 [000] ..... 0.100400: initcall_level: level=core\n";
        assert_eq!(of_boot("t", text, None, &mut Diagnostics::default()), None);
    }
}
