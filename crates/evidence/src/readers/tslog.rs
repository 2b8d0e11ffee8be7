//! Reads a kernel's own event log, which covers the whole boot.

use crate::boot::subject::Subject;
use crate::boot::{Found, Placing, arch, clocks};
use crate::formats::tslog::{Counter, Counts, Log, build, is_process, is_record};
use crate::input::Input;
use crate::input::text::Line;
use crate::readers::reader::{Evidence, Own, Reader, Taken, WholeBoot};
use recording::Accel;
use timeline::{Clock, Diagnostics, FileLoss, Ns, RateSource, Ticks, TimeBase, Timeline};

/// The files of one log: each may have a part of it.
#[derive(Default)]
pub(crate) struct Files {
    log: Log,
}

/// The index of `tslog.bin` in [`Files::own`].
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

    /// `take` has already read the lines.
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
        let mut line_counts = vec![
            (records, "TSLOG dump"),
            (processes, "TSLOG process table"),
            (rates, "rate of the TSLOG's counter"),
            (facts, "what the machine and its system are"),
        ];
        line_counts.retain(|(lines, _)| *lines > 0);
        let kinds = line_counts.into_iter().map(|(lines, what)| format!("{what} ({lines} lines)")).collect();
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

    fn read<'f>(&'f mut self, found: &mut Found<'f>, _timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        *found.subject = Subject::of(self.log.facts());
        self.has_boot().then(|| -> Box<dyn Evidence + 'f> { Box::new(std::mem::take(&mut self.log)) })
    }

    fn into_event_log(self: Box<Self>) -> Option<Log> {
        Some(self.log)
    }
}

/// True if the bytes may be a log in binary form: they are not if they begin with a record as text.
fn may_be_memory(bytes: &[u8]) -> bool {
    !is_record(bytes.split(|&b| b == b'\n').next().unwrap_or_default())
}

impl Evidence for Log {
    fn whole_boot(&mut self, boot: &mut Placing<'_>) -> Option<WholeBoot> {
        let counter = match (
            boot.clocks.counter.clone().or_else(|| counter_from_the_start(boot, self)),
            boot.manifest.ticks_hz,
        ) {
            (Some(counter), _) => Counter::Clock(counter),
            (None, Some(hz)) => Counter::Rate(hz, RateSource::User),
            (None, None) => Counter::Unknown,
        };
        let joined = matches!(counter, Counter::Clock(_));
        if !joined {
            // The host time of the first record is unknown. So that record is time zero, and the host's observations
            // are left out.
            boot.timeline.time_base = TimeBase::Evidence;
        }
        boot.timeline.cpu_count = boot.manifest.subject.cpus;
        let built = build(std::mem::take(self), counter, &mut boot.timeline);
        Some(WholeBoot { first: built.loader.or(built.main).filter(|_| joined), begins: built.begins })
    }
}

/// The clock of a guest whose counter is 0 when the CPUs start. That holds under TCG; process 1's own stamps confirm it
/// to 0.1 ms. The rate is the host's counter's, or the one that the log gives.
fn counter_from_the_start(boot: &Placing<'_>, log: &Log) -> Option<Clock> {
    let manifest = boot.manifest;
    let of_host = || Some((manifest.host.tsc_hz.filter(|hz| *hz > 0.0)?, RateSource::HostFromStart));
    let (hz, from) = if arch::counts_as_the_host(manifest) { of_host()? } else { log.own_rate()? };
    if boot.is_virtual() {
        return Some(Clock::linear(clocks::COUNTER, hz, Ticks(0), Ns::ZERO, from));
    }
    let started = boot.cpus_started.as_ref().filter(|_| manifest.subject.accelerator() == Some(Accel::Tcg))?;
    let mut clock = Clock::linear(clocks::COUNTER, hz, Ticks(0), started.at, from);
    clock.residual = started.error;
    Some(clock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Moment;
    use recording::{Host, Manifest, Subject};

    /// The clock of a log with a rate of 62.5 MHz. The guest started after 100 ms on a host whose counter runs at 2.3
    /// GHz.
    fn clock(arch: &str, accelerator: &str, time_base: recording::TimeBase) -> Option<(f64, Ns, bool)> {
        let manifest = Manifest {
            time_base,
            how: serde_json::json!({"arch": arch}),
            host: Host { tsc_hz: Some(2.3e9), ..Host::default() },
            subject: Subject { accelerator: accelerator.to_owned(), ..Subject::default() },
            ..Manifest::default()
        };
        let mut found = Found::new(&manifest);
        *found.cpus_started = Some(Moment { at: Ns::from_ms(100), error: Ns::from_us(100), evidence: String::new() });
        let mut boot = Placing::new(&found, Timeline::new(TimeBase::Host));
        let mut log = Log::default();
        let text = b"0x0 21 ENTER mi_startup\n0x0 21 EVENT TSLOG hz 62500000\n";
        log.read("tslog.txt", text, &mut boot.timeline.diagnostics);
        let clock = counter_from_the_start(&boot, &log)?;
        Some((clock.hz, clock.to_ns(Ticks(0)), clock.rate_from == RateSource::HostFromStart))
    }

    /// The arm64 timer is not the host's counter. With the host's rate, a boot of 16 ms once took 0.5 ms.
    #[test]
    fn a_counter_unlike_the_hosts_has_the_rate_in_the_log() {
        use recording::TimeBase::{GuestVirtual, Host};
        assert_eq!(clock("x86_64", "tcg", Host), Some((2.3e9, Ns::from_ms(100), true)));
        for arch in ["aarch64", "riscv64"] {
            assert_eq!(clock(arch, "tcg", Host), Some((62.5e6, Ns::from_ms(100), false)));
            assert_eq!(clock(arch, "tcg", GuestVirtual), Some((62.5e6, Ns::ZERO, false)));
            assert_eq!(clock(arch, "kvm", Host), None, "the host's own timer, from long before");
        }
    }
}
