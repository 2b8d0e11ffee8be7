//! How the program that started a recording follows it: progress, and whether to stop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Sees how a boot goes, and can stop it. The thread that records calls it every 50 ms or so.
pub trait Observer {
    /// How the boot goes.
    fn progress(&mut self, _progress: &Progress<'_>) {}

    /// The user has to do something now, in a sentence, or the boot does not begin.
    fn want(&mut self, _what: &str) {}

    /// Whether to stop now. The recording is finished all the same, with the outcome `interrupted`.
    fn stop(&mut self) -> bool {
        false
    }
}

/// Looks at nothing and never stops anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}

/// How a boot goes.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Since time zero.
    pub elapsed_ns: i64,
    /// What is being done.
    pub stage: Stage,
    /// The console's last line that is not blank, without control characters.
    pub last_line: &'a str,
    /// What the console has printed.
    pub console_bytes: u64,
    /// What guest-init has transferred.
    pub evidence_bytes: u64,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The machine boots.
    Booting,
    /// Process 1 gathers its evidence and transfers it.
    Gathering,
}

/// A flag that Ctrl-C and requests to end set, for an [`Observer`] to pass on. The second one of a kind ends the program
/// at once, as if nobody had asked for the first; the VMM ends with it.
///
/// # Errors
/// If the system refuses the handlers.
pub fn stop_on_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the first looks at the flag before the second sets it.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
