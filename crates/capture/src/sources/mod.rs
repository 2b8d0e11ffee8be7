//! The table of sources on a running machine, with their order and their time limits.

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

use crate::gather::{Collected, Gather};
use rustix::time::ClockId;
use std::time::{Duration, Instant, SystemTime};

/// Runs all sources. systemd runs first, because it has the end of the boot; the others then run in parallel.
pub(crate) fn collect(gather: &mut Gather) {
    let container = container::detect();
    gather.subject = machine::subject(container.as_ref());
    if container.is_none() {
        gather.boot_key = machine::boot_key();
    }
    let pending = gather.start("systemd", Duration::from_secs(15), systemd::manager);
    let (collected, finish) = gather.wait_for(pending).unwrap_or_default();
    gather.keep(collected);

    type Source = Box<dyn FnOnce(Instant) -> Collected + Send>;
    let is_contained = container.is_some();
    let mut sources: Vec<(&'static str, u64, Source)> = vec![
        ("units", 20, Box::new(systemd::units)),
        ("/proc", 10, Box::new(|_| machine::collect())),
        ("processes", 10, Box::new(move |until| processes::collect(is_contained, until))),
        ("packages", 10, Box::new(packages::collect)),
    ];
    match &container {
        // A container can often read these sources. But they are about the host's boot, which would be taken for the
        // container's.
        Some(container) => gather.missing.push(crate::Missing {
            what: "kernel log, trace buffer, times of firmware and loader, TPM event log".to_owned(),
            why: format!("this is {container}, and they tell of its host's boot; to have them, capture the host"),
        }),
        None => sources.extend([
            ("kernel log", 10, Box::new(kernel_log::collect) as Source),
            ("trace buffer", 10, Box::new(move |until| trace::collect(finish, until))),
            ("firmware", 10, Box::new(firmware::collect)),
            ("TPM event log", 10, Box::new(|_| tpm::collect())),
        ]),
    }
    if gather.options.journal {
        let began = container.and_then(|container| container.began);
        sources.push(("journal", 20, Box::new(move |until| journal::collect(began, finish, until))));
    }
    let pending: Vec<_> = sources
        .into_iter()
        .map(|(what, seconds, source)| gather.start(what, Duration::from_secs(seconds), source))
        .collect();
    for pending in pending {
        if let Some(collected) = gather.wait_for(pending) {
            gather.keep(collected);
        }
    }
}

/// The end of the boot, if systemd reported it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finish {
    /// µs of the monotonic clock, which never jumps.
    pub monotonic_us: u64,
    /// Seconds of the current wall clock.
    pub wall_s: u64,
}

impl Finish {
    fn at(monotonic_us: u64) -> Finish {
        Finish { monotonic_us, wall_s: wall_s(ClockId::Monotonic, monotonic_us / 1_000_000) }
    }
}

/// The second of the current wall clock at which another clock had the value `second`.
fn wall_s(clock: ClockId, second: u64) -> u64 {
    let now = u64::try_from(rustix::time::clock_gettime(clock).tv_sec).unwrap_or(0);
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    wall.as_secs().saturating_sub(now.saturating_sub(second))
}
