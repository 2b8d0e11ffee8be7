//! The table of sources: what is asked of a running machine, in which order, and for how long.

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
use std::time::{Duration, Instant, SystemTime};

/// Asks all of them. systemd comes first, since it knows when the boot was done; the others are asked at once.
pub(crate) fn ask(gather: &mut Gather) {
    gather.subject = machine::subject();
    let asked = gather.ask("systemd", Duration::from_secs(20), systemd::ask);
    let (given, finish) = gather.answer(asked).unwrap_or_default();
    gather.keep(given);

    type Source = Box<dyn FnOnce(Instant) -> Given + Send>;
    let mut sources: Vec<(&'static str, u64, Source)> = vec![
        ("kernel log", 10, Box::new(kernel_log::ask)),
        ("/proc", 10, Box::new(|_| machine::ask())),
        ("processes", 10, Box::new(processes::ask)),
        ("trace buffer", 10, Box::new(move |until| trace::ask(finish, until))),
        ("firmware", 10, Box::new(firmware::ask)),
        ("TPM event log", 10, Box::new(|_| tpm::ask())),
        ("packages", 10, Box::new(packages::ask)),
    ];
    if gather.options.journal {
        sources.push(("journal", 20, Box::new(move |until| journal::ask(finish, until))));
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
    if machine::is_contained() {
        gather.missing.push(crate::Missing {
            what: "the machine's own processes".to_owned(),
            why: "this is a container: its kernel and firmware are the host's".to_owned(),
        });
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
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let ago = u64::try_from(now.tv_sec).unwrap_or(0).saturating_sub(monotonic_us / 1_000_000);
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Finish { monotonic_us, wall_s: wall.as_secs().saturating_sub(ago) }
    }
}
