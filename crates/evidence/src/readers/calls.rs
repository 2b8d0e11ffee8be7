//! Reads every call as evidence of a boot: the track on each CPU, and the steps of process 1 in the kernel.

mod build;
pub mod contexts;
mod load;
mod pieces;
mod placed;
pub mod profile;

use build::{Built, build};
pub use load::BootCalls;

use crate::boot::followed::Followed;
use crate::boot::regions::{self, RanIn};
use crate::boot::{Found, Placing};
use crate::formats::calls::{PluginClock, read, recognise};
use crate::input::{File, Input};
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Own, Reader};
use std::rc::Rc;
use timeline::{
    DiagnosticKind, Diagnostics, EndEvidence, FileLoss, Initcalls, NameId, Ns, Phase, SpanKind, TimeBase, Timeline,
};

/// Only the first file is used.
#[derive(Default)]
pub(crate) struct Files {
    file: Option<Rc<File>>,
}

impl Reader for Files {
    fn own(&self) -> &'static [Own] {
        &[Own::Plain("calls.bin")]
    }

    fn loss(&self, _own: usize, _is_index: bool) -> FileLoss {
        FileLoss::Calls
    }

    fn is_whole(&self, bytes: &[u8]) -> Option<String> {
        recognise(bytes).then(|| "every call of a boot".to_owned())
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.file.get_or_insert(input.file);
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let file = self.file.as_ref()?;
        let diagnostics = &mut timeline.diagnostics;
        let calls = read(&file.name, &file.bytes, diagnostics);
        if found.exits.is_some() {
            found.call_nodes.clone_from(&calls.nodes);
        }
        let regions = found.stages.clone();
        let symbols = found.lists.names(calls.called(), &calls.target, regions::entered_at(&regions), diagnostics);
        let ran_in = found.first_executions.as_ref().map(|run| RanIn::new(run, &regions)).unwrap_or_default();
        let compression = found.compression();
        let followed = Followed { calls, symbols, regions, ran_in, compression };
        Some(Box::new(Calls { followed, placed: None }))
    }
}

struct Calls {
    followed: Followed,
    /// The result of placing them; `None` if they could not be placed.
    placed: Option<Built>,
}

impl Evidence for Calls {
    fn threads(&mut self, boot: &mut Placing<'_>) {
        if !self.is_on_the_clock(boot) {
            return;
        }
        boot.calls_placed = true;
        let (first, init) = (boot.first_thread(), boot.init());
        let placed = build(&self.followed, first, &mut boot.timeline);
        boot.user_space = placed.end;
        // The trace identifies process 1 more reliably.
        if init == first {
            boot.init = placed.init.or(boot.init);
        }
        self.placed = Some(placed);
    }

    /// Sets the phases of initcalls. Other CPUs may be started between two of the levels.
    fn phases(&mut self, boot: &mut Placing<'_>) {
        let Some(error) = self.placed.as_ref().map(|placed| placed.error) else { return };
        let init = boot.init();
        let timeline = &mut boot.timeline;
        let names = &timeline.names;
        let (smp, run) = (names.find("smp_init"), names.find("run_init_process"));
        let of_init: Vec<_> = timeline.spans.iter().map(|(_, s)| s).filter(|s| s.track == init).collect();
        let call = |name: Option<NameId>| of_init.iter().find(|s| Some(s.name) == name).copied();
        let (smp, run) = (call(smp), call(run));
        if let Some(run) = run {
            timeline.boundary(Phase::Process1, run.start, error, "calls: run_init_process");
        }
        if timeline.spans.iter().any(|(_, s)| s.kind == SpanKind::Level) {
            return;
        }
        let initcalls = || of_init.iter().filter(|s| s.kind == SpanKind::Initcall);
        let (first, last) = (initcalls().map(|s| s.start).min(), initcalls().map(|s| s.end).max());
        let (Some(first), Some(last)) = (first, last) else { return };
        let later = smp.and_then(|smp| initcalls().map(|s| s.start).filter(|start| *start >= smp.end).min());
        match (smp, later) {
            (Some(smp), Some(later)) if first < smp.start => {
                timeline.boundary(Phase::Initcalls(Initcalls::Early), first, error, "calls: the first initcall");
                timeline.boundary(Phase::StartOtherCpus, smp.start, error, "calls: smp_init");
                let evidence = "calls: the first initcall after smp_init";
                timeline.boundary(Phase::Initcalls(Initcalls::PureToLate), later, error, evidence);
            }
            _ => timeline.boundary(Phase::Initcalls(Initcalls::All), first, error, "calls: the first initcall"),
        }
        timeline.boundary(Phase::HandOver, last, error, "calls: the last initcall returned");
    }

    fn end(&self, boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let (at, track) = boot.user_space.filter(|_| boot.is_by_calls_alone())?;
        let evidence = EndEvidence::UserSpaceRan;
        Some(EndCandidate { rank: EndRank::UserSpaceRan, at, error: Ns::ZERO, evidence, track: Some(track) })
    }

    /// An imported call trace of a deterministic boot sets the time base by itself.
    fn finish(&mut self, boot: &mut Placing<'_>) {
        let is_virtual = self.followed.calls.clock == PluginClock::Virtual;
        if boot.is_imported() && is_virtual && boot.is_by_calls_alone() {
            boot.timeline.time_base = TimeBase::GuestVirtual;
            boot.timeline.unit = TimeBase::GuestVirtual.unit();
        }
    }

    fn into_calls(self: Box<Self>) -> Option<Followed> {
        Some(self.followed)
    }
}

impl Calls {
    /// True if the calls can be placed on this timeline. Those of a deterministic boot are not on a host's clock.
    fn is_on_the_clock(&self, boot: &mut Placing<'_>) -> bool {
        let calls = &self.followed.calls;
        let fits = match boot.manifest.time_base {
            recording::TimeBase::Host => calls.clock == PluginClock::Host,
            recording::TimeBase::GuestVirtual => calls.clock == PluginClock::Virtual,
            recording::TimeBase::Evidence => boot.timeline.running.is_empty(),
        };
        if !fits {
            boot.timeline.diagnostics.note(DiagnosticKind::CallTraceOfAnotherClock, String::new);
        }
        fits && !calls.switches.is_empty()
    }
}
