//! A kernel trace as evidence of a boot: who ran where and waited for whom, and when process 1 became a program.

use super::{Trace, is_event};
use crate::boot::Boot;
use crate::clocks::Offers;
use crate::reader::{Evidence, File, Input, Own, Reader};
use crate::text::Line;
use guest_init::cpio::ROOT_PATH;
use std::rc::Rc;
use timeline::{DiagnosticKind, Diagnostics, Phase, SpanKind, SpanRow};

/// The first one counts.
#[derive(Default)]
pub(crate) struct Files {
    files: Vec<Rc<File>>,
}

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["kernel trace"]
    }

    fn own(&self) -> &'static [Own] {
        &[Own::Plain("trace.txt")]
    }

    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        line.bytes.starts_with(b"# tracer: ").then_some(0)
    }

    fn may_be_line(&self, line: Line<'_>) -> Option<usize> {
        is_event(line).then_some(0)
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.files.push(input.file);
    }

    fn has_boot(&self) -> bool {
        !self.files.is_empty()
    }

    fn read<'f>(&'f mut self, boot: &mut Boot<'f>) -> Option<Box<dyn Evidence + 'f>> {
        let diagnostics = &mut boot.timeline.diagnostics;
        let (first, further) = self.files.split_first()?;
        for further in further {
            diagnostics.note(DiagnosticKind::SecondTrace, || further.name.clone());
        }
        match Trace::read(&first.name, &first.bytes, diagnostics) {
            Ok(trace) => Some(Box::new(trace)),
            Err(not) => {
                diagnostics.note(DiagnosticKind::TraceEmpty, || not.to_string());
                None
            }
        }
    }
}

impl Evidence for Trace<'_> {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        offers.trace = Some(self);
    }

    fn threads(&mut self, boot: &mut Boot<'_>) {
        let Some(clock) = boot.clocks.trace.clone() else { return };
        boot.init = self.build(&clock, &mut boot.timeline).thread(1);
    }

    /// Process 1 runs a program: where there is a root to mount, first bootscope's own.
    fn phases(&mut self, boot: &mut Boot<'_>) {
        let init = boot.init();
        let timeline = &mut boot.timeline;
        let programs = timeline.spans.iter().map(|(_, span)| span).filter(|s| s.kind == SpanKind::Process);
        let mut execs: Vec<SpanRow> = programs.filter(|s| s.track == init).collect();
        execs.sort_by_key(|exec| exec.start);
        let mounts = execs.first().is_some_and(|exec| timeline.names.get(exec.detail).ends_with(ROOT_PATH));
        let root_first = [Phase::ModulesAndRoot, Phase::Process1];
        let phases = if mounts { &root_first[..] } else { &root_first[1..] };
        for (exec, &phase) in execs.iter().zip(phases) {
            let evidence = format!("trace: exec {}", timeline.names.get(exec.detail));
            timeline.boundary(phase, exec.start, boot.trace_error, &evidence);
        }
    }
}
