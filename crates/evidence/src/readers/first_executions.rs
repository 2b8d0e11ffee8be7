//! Adds a first-execution trace to a boot: the machine's stages, and the lengths of functions' first calls.

pub mod first_calls;

use crate::boot::arch;
use crate::boot::lists::Lists;
use crate::boot::offers::{Offers, StampedText};
use crate::boot::printed::Printed;
use crate::boot::regions::{self, Region, Stage};
use crate::boot::{Found, Placing};
use crate::formats::first_executions::{Block, FirstExecutions, PluginClock, read, recognise};
use crate::formats::ftrace::Stamps;
use crate::formats::symbols::Symbols;
use crate::input::{File, Input};
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Own, Reader};
use hashbrown::HashMap;
use recording::{GuestSpec, Until};
use std::cell::OnceCell;
use std::rc::Rc;
use timeline::{
    Diagnostics, EFI_STUB, EndEvidence, FileLoss, NameId, Ns, Phase, SpanKind, SpanRow, SyncPoint, Ticks, TimedWaits,
    Timeline,
};

/// First calls shorter than this (20 µs) are not spans: they would be most of the spans and little of the time.
const FIRST_CALL_MIN: Ns = Ns(20_000);

/// Linux maps no program's code below this address (`vm.mmap_min_addr`).
const PROGRAMS_FROM: u64 = 64 << 10;

/// The file of a recording: the first one counts.
#[derive(Default)]
pub(crate) struct Files {
    file: Option<Rc<File>>,
}

impl Reader for Files {
    fn own(&self) -> &'static [Own] {
        &[Own::Plain("first-run.bin")]
    }

    fn loss(&self, _own: usize, _is_index: bool) -> FileLoss {
        FileLoss::FirstExecutions
    }

    fn is_whole(&self, bytes: &[u8]) -> Option<String> {
        recognise(bytes).then(|| "when code ran for the first time".to_owned())
    }

    fn read_beside(&self, timeline: &mut Timeline) {
        if let Some(file) = &self.file {
            let run = read(&file.name, &file.bytes, &mut timeline.diagnostics);
            timed_waits(&run, timeline);
        }
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.file.get_or_insert(input.file);
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let file = self.file.as_ref()?;
        let run = Rc::new(read(&file.name, &file.bytes, &mut timeline.diagnostics));
        let stages = regions::outside_programs(regions::regions(&run), &run, &found.lists.programs);
        *found.stages = stages;
        timed_waits(&run, timeline);
        *found.first_executions = Some(run.clone());
        Some(Box::new(FirstExecutionTrace {
            run,
            lists: found.lists.clone(),
            entered: regions::entered_at(&found.stages),
            programs_from: found.stages.iter().find(|region| region.stage == Stage::UserSpace).map(|region| region.at),
            names: OnceCell::new(),
        }))
    }
}

/// Sets the guest's timed waits, if they were recorded.
fn timed_waits(run: &FirstExecutions, timeline: &mut Timeline) {
    if run.clock == PluginClock::Virtual {
        timeline.timed_waits = run.timed_waits.clone().map(TimedWaits::new);
    }
}

struct FirstExecutionTrace<'f> {
    run: Rc<FirstExecutions>,
    lists: Lists<'f>,
    /// The address at which the kernel's image was entered.
    entered: Option<u64>,
    /// The time at which a program first ran.
    programs_from: Option<Ns>,
    /// The names of the code that ran, and defects of the lists. Reading them takes longer than all else, so it is done
    /// once.
    names: OnceCell<(Symbols, Diagnostics)>,
}

impl FirstExecutionTrace<'_> {
    fn names(&self) -> &(Symbols, Diagnostics) {
        self.names.get_or_init(|| {
            let mut diagnostics = Diagnostics::default();
            (self.lists.names(self.run.called(), &self.run.target, self.entered, &mut diagnostics), diagnostics)
        })
    }
}

impl Evidence for FirstExecutionTrace<'_> {
    /// Offers the time of the machine's first instruction on the host's clock, and initcalls that a trace has on the
    /// guest's clock too.
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        let run = &self.run;
        if offers.is_hosted() && run.clock == PluginClock::Host && !run.blocks.is_empty() {
            offers.started = Some(run.blocks.get(0).at);
        }
        if run.clock == PluginClock::Virtual {
            offers.process_1_ran = self.programs_from;
        }
        if let Some((_, trace)) = offers.trace {
            // Defects of the lists are counted where their names are shown.
            offers.counter_seen = seen(run, trace, || &self.names().0);
        }
    }

    /// Adds first calls, unless a trace of every call is known: that is better evidence.
    fn place(&mut self, boot: &mut Placing<'_>) {
        if boot.calls_placed {
            return;
        }
        let run = &self.run;
        let (symbols, of_the_lists) = self.names();
        boot.timeline.diagnostics.extend(of_the_lists.clone());
        if symbols.is_empty() {
            return;
        }
        let found_calls = first_calls::calls(run, symbols, FIRST_CALL_MIN, &mut boot.timeline.diagnostics);
        boot.first_switch = found_calls.first_switch;
        let first_thread = boot.first_thread();
        first_calls::add(&found_calls, symbols, first_thread, &mut boot.timeline);
        boot.printed = Printed::find(run, symbols);
    }

    fn around(&mut self, boot: &mut Placing<'_>) {
        let Some(machine) = boot.machine else { return };
        let ran = (&*self.run, &*self.lists.programs);
        regions::add(ran, &boot.found.stages, machine.firmware, &mut boot.timeline);
        // Stages are not needed where every call is known.
        if boot.timeline.cpus_followed_until.is_none() {
            stages(boot, machine.firmware);
        }
    }

    /// The first block of user space after the kernel started process 1, if that is the end mark. An earlier block may belong to a helper.
    fn end(&self, boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let guest = GuestSpec::of(&boot.manifest.how).filter(|_| !boot.is_imported())?;
        let started = boot.timeline.boundaries.iter().filter(|b| b.phase == Phase::Process1).min_by_key(|b| b.error)?;
        let at = program_ran(&self.run, started.at - started.error).filter(|_| guest.until == Until::Init)?;
        let error = if self.run.clock == PluginClock::Virtual { Ns::ZERO } else { regions::ERROR };
        let evidence = EndEvidence::UserSpaceRan;
        Some(EndCandidate { rank: EndRank::UserSpaceRan, at, error, evidence, track: None })
    }

    fn last_sign(&self, _boot: &Placing<'_>) -> Option<Ns> {
        self.run.blocks.iter().next_back().map(|block| block.at)
    }
}

/// The time at which a program's code ran for the first time at `from` or later.
fn program_ran(run: &FirstExecutions, from: Ns) -> Option<Ns> {
    let kernel = arch::of(&run.target)?.facts.linux.image.lowest_address;
    let is_program_s = |block: &Block| block.at >= from && (PROGRAMS_FROM..kernel).contains(&block.address);
    run.blocks.iter().find(is_program_s).map(|block| block.at)
}

/// Matches the first run of initcalls with the trace's record of each call, just before it. The trace must have stamps
/// of the guest's counter. Names that several functions share are not used.
fn seen<'s>(run: &FirstExecutions, trace: &dyn StampedText, names: impl FnOnce() -> &'s Symbols) -> Vec<SyncPoint> {
    if run.clock != PluginClock::Host || trace.stamps() != Stamps::Counter {
        return Vec::new();
    }
    let mut called: HashMap<u64, Ticks> = HashMap::new();
    let symbols = names();
    for (name, ticks) in trace.functions() {
        if let Some(address) = std::str::from_utf8(name).ok().and_then(|name| symbols.only(name)) {
            called.entry(address).or_insert(ticks);
        }
    }
    let point = |(i, address)| Some(SyncPoint { ticks: called.remove(address)?, at: run.blocks.get(i).at });
    run.blocks.addresses().iter().enumerate().filter_map(point).collect()
}

/// Adds a span for each of loader, setup code, decompressor and EFI stub.
fn stages(boot: &mut Placing<'_>, track: timeline::TrackId) {
    let decompressing = regions::decompressing(&boot.compression());
    boot.timeline.decompressor = Some(boot.timeline.names.intern(&decompressing));
    let lasting: Vec<&Region> = boot.found.stages.iter().filter(|r| r.lasts() && r.stage != Stage::Kernel).collect();
    for pair in lasting.windows(2) {
        let what = match pair[0].stage {
            Stage::Loader => "loader",
            Stage::SetupCode => "setup code",
            Stage::Decompressor => &decompressing,
            Stage::EfiStub => EFI_STUB,
            _ => continue,
        };
        let name = boot.timeline.names.intern(what);
        let (start, end) = (pair[0].at, pair[1].at);
        let row = SpanRow { name, detail: NameId::EMPTY, start, end, track, kind: SpanKind::Stage };
        boot.timeline.spans.push(row, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::first_executions::Ending::{Call, Jump};
    use crate::formats::first_executions::tests::blocks;

    #[test]
    fn a_helper_before_process_1_is_not_process_1() {
        let rows = [
            (1, 0x40_1000, 4, Call, 0, 1), // a helper
            (2, 0xffff_ffff_8100_0000, 4, Call, 0, 1),
            (7, 0x8000, 4, Jump, 0, 1), // starts a CPU
            (7, 0x5555_5555_4000, 4, Call, 0, 1),
        ];
        let ran = |target: &str, from_us| {
            let mut run = blocks(&rows);
            run.target = target.to_owned();
            program_ran(&run, Ns::from_us(from_us)).map(|at| at.0 / 1000)
        };
        assert_eq!(ran("x86_64", 0), Some(1));
        assert_eq!(ran("x86_64", 6), Some(7));
        assert_eq!(ran("x86_64", 8), None);
        assert_eq!(ran("unknown", 0), None, "which addresses are the kernel's is not known");
    }
}
