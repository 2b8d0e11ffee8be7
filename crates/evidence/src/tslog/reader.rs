//! A kernel's own event log as evidence of a boot: it tells all of it.

use super::{Counter, Counts, Log, build, is_process, is_record};
use crate::boot::Boot;
use crate::clocks;
use crate::input::Input;
use crate::reader::{Evidence, Own, Reader, Taken, WholeBoot};
use crate::subject::Subject;
use crate::text::Line;
use recording::Accel;
use timeline::{Clock, Diagnostics, FileLoss, RateSource, Ticks, TimeBase};

/// All of it is one log: several files may each have a part.
#[derive(Default)]
pub(crate) struct Files {
    log: Log,
}

/// Its place in [`Files::own`].
const MEMORY: usize = 2;

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["TSLOG dump", "TSLOG process table"]
    }

    fn own(&self) -> &'static [Own] {
        &[Own::Plain("tslog.txt"), Own::Plain("tslog_user.txt"), Own::Plain("tslog.bin")]
    }

    fn loss(&self, _own: usize, _is_index: bool) -> FileLoss {
        FileLoss::LogEvents
    }

    /// It took its lines when it was asked.
    fn wants_files(&self) -> bool {
        false
    }

    fn take(&mut self, name: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Taken {
        if may_be_memory(bytes) {
            let records = self.log.read_memory(name, bytes, diagnostics);
            if records > 0 {
                return Taken::All(format!("TSLOG in an image of memory ({records} records)"));
            }
        }
        let Counts { records, processes, rates, facts, others } = self.log.read(name, bytes, diagnostics);
        let mut known = vec![
            (records, "TSLOG dump"),
            (processes, "TSLOG process table"),
            (rates, "rate of the TSLOG's counter"),
            (facts, "what the machine and its system are"),
        ];
        known.retain(|(lines, _)| *lines > 0);
        let kinds = known.into_iter().map(|(lines, what)| format!("{what} ({lines} lines)")).collect();
        Taken::Lines { kinds, of_a_boot: records + processes > 0, others }
    }

    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        if is_record(line.bytes) {
            return Some(0);
        }
        is_process(line.bytes).then_some(1)
    }

    fn add(&mut self, own: Option<usize>, input: Input, diagnostics: &mut Diagnostics) {
        let (name, bytes) = (&input.file.name, &input.file.bytes);
        if own == Some(MEMORY) {
            self.log.read_memory(name, bytes, diagnostics);
        } else {
            self.log.read(name, bytes, diagnostics);
        }
    }

    fn has_boot(&self) -> bool {
        !self.log.is_empty()
    }

    fn read<'f>(&'f mut self, boot: &mut Boot<'f>) -> Option<Box<dyn Evidence + 'f>> {
        boot.subject = Subject::of(self.log.facts());
        self.has_boot().then(|| -> Box<dyn Evidence + 'f> { Box::new(std::mem::take(&mut self.log)) })
    }

    fn into_event_log(self: Box<Self>) -> Option<Log> {
        Some(self.log)
    }
}

/// Whether it makes sense to look for a log in binary form: a TSLOG as text has none.
fn may_be_memory(bytes: &[u8]) -> bool {
    !is_record(bytes.split(|&b| b == b'\n').next().unwrap_or_default())
}

impl Evidence for Log {
    fn whole_boot(&mut self, boot: &mut Boot<'_>) -> Option<WholeBoot> {
        let counter =
            match (boot.clocks.counter.clone().or_else(|| counter_from_the_start(boot)), boot.manifest.ticks_hz) {
                (Some(counter), _) => Counter::Clock(counter),
                (None, Some(hz)) => Counter::Rate(hz, RateSource::User),
                (None, None) => Counter::Unknown,
            };
        let joined = matches!(counter, Counter::Clock(_));
        if !joined {
            // Nothing says when on the host its first record was: so that is time zero, and what the host saw is left out.
            boot.timeline.time_base = TimeBase::Evidence;
        }
        boot.timeline.cpu_count = boot.manifest.subject.cpus;
        let built = build(std::mem::take(self), counter, &mut boot.timeline);
        Some(WholeBoot { first: built.loader.or(built.main).filter(|_| joined), begins: built.begins })
    }
}

/// Under TCG the guest's counter is the host's, and 0 when the CPUs are started: process 1's own stamps say so to 0.1 ms.
fn counter_from_the_start(boot: &Boot<'_>) -> Option<Clock> {
    let manifest = boot.manifest;
    let hz = manifest.host.tsc_hz.filter(|hz| *hz > 0.0 && manifest.subject.accelerator() == Some(Accel::Tcg))?;
    let started = boot.cpus_started.as_ref()?;
    let mut clock = Clock::linear(clocks::COUNTER, hz, Ticks(0), started.at, RateSource::HostFromStart);
    clock.residual = started.error;
    Some(clock)
}
