//! Lets the program that started a recording follow it and stop it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::refusal::Words;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Follows a boot and can stop it. The recording thread calls it about every 50 ms.
pub trait Observer {
    /// Receives the progress of the boot.
    fn progress(&mut self, _progress: &Progress<'_>) {}

    /// Receives, in a sentence, what the user has to do now so that the boot begins.
    fn want(&mut self, _what: &str) {}

    /// The way the user writes a setting, for errors and for the recording's notes.
    fn words(&self) -> Words {
        Words::default()
    }

    /// Returns true to stop now. The recording is finished all the same, with the outcome `interrupted`.
    fn stop(&mut self) -> bool {
        false
    }
}

/// An observer that ignores progress and never stops a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}

/// The progress of a boot.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Since time zero.
    pub elapsed_ns: i64,
    pub stage: Stage,
    /// The console's last line that is not blank, without control characters.
    pub last_line: &'a str,
    /// Bytes that the console has printed.
    pub console_bytes: u64,
    /// Bytes that guest-init has transferred.
    pub evidence_bytes: u64,
}

/// The current stage of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The machine boots.
    Booting,
    /// Process 1 gathers its evidence and transfers it.
    Gathering,
}

/// A flag that Ctrl-C, SIGTERM and SIGHUP set, for an [`Observer`] to pass on. A second such signal ends the program at once, by its
/// default action; the VMM ends with it.
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
