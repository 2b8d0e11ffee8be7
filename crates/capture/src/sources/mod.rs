//! The table of sources: what is asked of a running machine, in which order, and for how long.

mod container;
mod firmware;
mod journal;
mod kernel_log;
mod machine;
mod packages;
mod processes;
mod systemd;
mod tpm;
mod trace;

use crate::gather::{Gather, Given};
use rustix::time::ClockId;
use std::time::{Duration, Instant, SystemTime};

/// Asks all of them. systemd comes first, since it knows when the boot was done; the others are asked at once after it.
pub(crate) fn ask(gather: &mut Gather) {
    let container = container::found();
    gather.subject = machine::subject(container.as_ref());
    let asked = gather.ask("systemd", Duration::from_secs(15), systemd::manager);
    let (given, finish) = gather.answer(asked).unwrap_or_default();
    gather.keep(given);

    type Source = Box<dyn FnOnce(Instant) -> Given + Send>;
    let is_contained = container.is_some();
    let mut sources: Vec<(&'static str, u64, Source)> = vec![
        ("units", 20, Box::new(systemd::units)),
        ("/proc", 10, Box::new(|_| machine::ask())),
        ("processes", 10, Box::new(move |until| processes::ask(is_contained, until))),
        ("packages", 10, Box::new(packages::ask)),
    ];
    match &container {
        // A container can often read them. Taken as its own, the boot of its host would stand for that of the container.
        Some(container) => gather.missing.push(crate::Missing {
            what: "kernel log, trace buffer, times of firmware and loader, TPM event log".to_owned(),
            why: format!("this is {container}, and they tell of its host's boot; to have them, capture the host"),
        }),
        None => sources.extend([
            ("kernel log", 10, Box::new(kernel_log::ask) as Source),
            ("trace buffer", 10, Box::new(move |until| trace::ask(finish, until))),
            ("firmware", 10, Box::new(firmware::ask)),
            ("TPM event log", 10, Box::new(|_| tpm::ask())),
        ]),
    }
    if gather.options.journal {
        let began = container.and_then(|container| container.began);
        sources.push(("journal", 20, Box::new(move |until| journal::ask(began, finish, until))));
    }
    let asked: Vec<_> = sources
        .into_iter()
        .map(|(what, seconds, source)| gather.ask(what, Duration::from_secs(seconds), source))
        .collect();
    for asked in asked {
        if let Some(given) = gather.answer(asked) {
            gather.keep(given);
        }
    }
}

/// When systemd was done, if it said so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finish {
    /// µs of the clock that does not jump.
    pub monotonic_us: u64,
    /// Seconds of the wall clock, as it goes now.
    pub wall_s: u64,
}

impl Finish {
    fn at(monotonic_us: u64) -> Finish {
        Finish { monotonic_us, wall_s: wall_s(ClockId::Monotonic, monotonic_us / 1_000_000) }
    }
}

/// Seconds of the wall clock, as it goes now, when another clock was at that second.
fn wall_s(clock: ClockId, second: u64) -> u64 {
    let now = u64::try_from(rustix::time::clock_gettime(clock).tv_sec).unwrap_or(0);
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    wall.as_secs().saturating_sub(now.saturating_sub(second))
}
