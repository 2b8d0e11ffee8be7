//! Reads a kernel trace: which thread ran where, what each waited for, and when process 1 became a program.

use crate::boot::offers::{Offers, Stamped, StampedText};
use crate::boot::{Found, Placing};
use crate::formats::ftrace::{Event, Stamps, Trace, boots, is_event};
use crate::formats::{perfetto, trace_dat};
use crate::input::text::Line;
use crate::input::{File, FirstOf, Input, is_imported};
use crate::readers::reader::{Evidence, Own, Reader};
use guest_init::cpio::ROOT_PATH;
use hashbrown::HashMap;
use std::rc::Rc;
use timeline::{DiagnosticKind, Diagnostics, FileLoss, Ns, Os, Phase, SpanKind, SpanRow, Ticks, Timeline};

/// A running kernel switches threads more often than this. If a boot ends this soon after its trace's last event, the
/// trace has the whole boot.
const SILENT_MAX: Ns = Ns::from_ms(10);

/// The trace of a recording: the first of several counts.
#[derive(Default)]
pub(crate) struct Files {
    files: FirstOf,
    /// The part of the first that is of the boot in question, if the trace has several.
    of_boot: Option<File>,
}

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["kernel trace"]
    }

    fn own(&self) -> &'static [Own] {
        &[Own::Plain("trace.txt")]
    }

    fn loss(&self, _own: usize, _is_index: bool) -> FileLoss {
        FileLoss::TraceEvents
    }

    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        line.bytes.starts_with(b"# tracer: ").then_some(0)
    }

    fn may_be_line(&self, line: Line<'_>) -> Option<usize> {
        is_event(line).then_some(0)
    }

    fn is_whole(&self, bytes: &[u8]) -> Option<String> {
        let perfetto = || perfetto::recognise(bytes).then_some(perfetto::KIND);
        trace_dat::recognise(bytes).or_else(perfetto).map(str::to_owned)
    }

    fn add(&mut self, _own: Option<usize>, mut input: Input, diagnostics: &mut Diagnostics) {
        let (name, bytes) = (input.file.name.clone(), &input.file.bytes);
        let text = match trace_dat::recognise(bytes) {
            Some(_) => Some(trace_dat::text(&name, bytes, diagnostics)),
            None => perfetto::recognise(bytes).then(|| perfetto::text(&name, bytes, diagnostics)),
        };
        if let Some(bytes) = text {
            input.file = Rc::new(File { name, bytes: bytes.into() });
        }
        self.files.add(input);
    }

    fn has_boot(&self) -> bool {
        !self.files.is_empty()
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let diagnostics = &mut timeline.diagnostics;
        let first: &File = self.files.used(DiagnosticKind::SecondTrace, diagnostics)?;
        if is_imported(&first.name) {
            let of_boot = boots::of_boot(&first.name, &first.bytes, found.manifest.boot, diagnostics);
            self.of_boot = of_boot.map(|bytes| File { name: first.name.clone(), bytes: bytes.into() });
        }
        let first = self.of_boot.as_ref().unwrap_or(first);
        match Trace::read(&first.name, &first.bytes, diagnostics) {
            Ok(trace) => {
                // Only Linux writes such traces.
                found.subject.os = Os::Linux;
                Some(Box::new(trace))
            }
            Err(not) => {
                diagnostics.note(DiagnosticKind::TraceEmpty, || not.to_string());
                None
            }
        }
    }
}

impl StampedText for Trace<'_> {
    fn stamps(&self) -> Stamps {
        self.stamps
    }

    fn messages(&self) -> Box<dyn Iterator<Item = Stamped<'_>> + '_> {
        let console = self.console().iter();
        Box::new(console.map(|c| Stamped { text: c.text, ticks: Some(c.ticks), arrival: None }))
    }

    fn markers(&self) -> HashMap<u64, Option<Ticks>> {
        Trace::markers(self).iter().map(|marker| (marker.seq, Some(marker.ticks))).collect()
    }

    fn earliest(&self) -> Option<Ticks> {
        self.records().map(|record| record.ticks).min()
    }

    fn functions(&self) -> Box<dyn Iterator<Item = (&[u8], Ticks)> + '_> {
        Box::new(self.records().filter_map(|record| match record.event {
            Event::InitcallStart(function) => Some((function.name, record.ticks)),
            _ => None,
        }))
    }
}

impl Evidence for Trace<'_> {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        offers.trace = Some((self.file(), self));
    }

    fn threads(&mut self, boot: &mut Placing<'_>) {
        let Some(clock) = boot.clocks.trace.clone() else { return };
        let built = self.build(&clock, &mut boot.timeline);
        boot.init = built.thread(1);
        boot.ports = built.ports();
    }

    /// Adds the phases that begin when process 1 runs a program. If there is a root to mount, bootscope's own program
    /// is first.
    fn phases(&mut self, boot: &mut Placing<'_>) {
        let init = boot.init();
        let timeline = &mut boot.timeline;
        let programs = timeline.spans.iter().map(|(_, span)| span).filter(|s| s.kind == SpanKind::Process);
        let mut execs: Vec<SpanRow> = programs.filter(|s| s.track == init).collect();
        execs.sort_by_key(|exec| exec.start);
        let mounts = execs.first().is_some_and(|exec| timeline.names.get(exec.detail).ends_with(ROOT_PATH));
        const ROOT_FIRST: [Phase; 2] = [Phase::ModulesAndRoot, Phase::Process1];
        let ahead: Vec<(&SpanRow, Phase)> = match execs.as_slice() {
            all if mounts => all.iter().zip(ROOT_FIRST).collect(),
            // The last of several programs is the root's init; those before are the initrd's.
            [initrd, .., root] => vec![(initrd, Phase::Process1), (root, Phase::UserSpace)],
            all => all.iter().map(|exec| (exec, Phase::Process1)).collect(),
        };
        for (exec, phase) in ahead {
            let evidence = format!("trace: exec {}", timeline.names.get(exec.detail));
            timeline.boundary(phase, exec.start, boot.trace_error, &evidence);
        }
    }

    /// Limits how long the last thread is known to have run. It is known to have run until the end mark only if the
    /// trace reaches there. A recording's own trace was read after the boot, so it reaches the end if it has all
    /// declared events. For an imported trace, it is unknown when it was read or when tracing stopped.
    fn finish(&mut self, boot: &mut Placing<'_>) {
        let shows_threads = self.counts.switches > 0 && !boot.clocks.only_ticks;
        let reaches_the_end = !is_imported(self.file()) && self.is_whole();
        let (Some(clock), Some(end)) = (&boot.clocks.trace, boot.timeline.end) else { return };
        let last = clock.to_ns(self.last);
        let silent = end.at - last;
        if !shows_threads || reaches_the_end || silent <= SILENT_MAX.max(boot.trace_error + end.error) {
            return;
        }
        boot.timeline.threads_seen_until = Some(last);
        let (file, cost, last) = (self.file(), Some(silent), boot.timeline.unit.show_at(last));
        boot.timeline.diagnostics.add(DiagnosticKind::TraceEndsEarly, &last, 1, cost, || file.to_owned());
    }
}
