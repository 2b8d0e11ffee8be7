//! A VMM that was just executed: its process, what it says by the descriptors that it inherited, and what it was asked for.
//!
//! Time zero is taken just before it is executed, when all else is done.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};

use super::api::{Api, Request};
use super::listen::{Piece, What, listen, ways};
use super::process::Process;
use super::{SetUpMark, Zero};
use crate::Error;
use crate::child::{ends_with_us, inherit, words};
use crate::clock::{Moment, monotonic_ns};
use crate::lines::shown;

/// How late a waiting thread usually runs on a host that is not overloaded.
const WAKE_ERROR_NS: i64 = 100_000;
/// How long its last words are waited for where it refuses a machine.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// So many of them are quoted.
const LAST_LINES: usize = 3;

/// One that runs. By an `E` it speaks.
#[derive(Debug)]
pub(super) struct Started<E> {
    name: &'static str,
    pub(super) process: Process,
    pub(super) zero: Zero,
    heard: Receiver<Piece<E>>,
    /// When the program had been executed, at the latest, in ns since time zero.
    executed_ns: i64,
    /// The command line, and then each request.
    pub(super) command: Vec<String>,
}

/// What comes next of what it says.
#[derive(Debug)]
pub(super) enum Next<E> {
    /// These bytes, in ns since time zero; none where one of its ways ended.
    Said { ear: E, at_ns: i64, bytes: Vec<u8> },
    /// Nothing in that time.
    Silence,
    /// Nothing any more: all its ways have ended.
    Ended,
}

/// A pipe: our end, and the one that a VMM inherits.
pub(super) fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    pipe_with(PipeFlags::CLOEXEC).map_err(Error::host("make a pipe"))
}

/// A descriptor as a program's standard output or error.
pub(super) fn stdio(fd: &OwnedFd) -> Result<Stdio, Error> {
    fd.try_clone().map(Stdio::from).map_err(Error::host("copy a pipe"))
}

impl<E: Copy + Send + 'static> Started<E> {
    /// Executes a command, which inherits these descriptors, in a process group of its own. Ears that are in front are read first
    /// where more than one has something to say.
    pub(super) fn execute(
        name: &'static str,
        mut command: Command,
        inherited: &[BorrowedFd<'_>],
        ears: Vec<(E, OwnedFd)>,
    ) -> Result<Started<E>, Error> {
        let (sender, heard) = ways();
        listen(ears, sender)?;
        command.stdin(Stdio::null()).process_group(0);
        inherit(&mut command, inherited);
        ends_with_us(&mut command);
        let zero = Zero { moment: Moment::now(), ns: monotonic_ns() };
        let binary = PathBuf::from(command.get_program());
        let child = command.spawn().map_err(|e| Error::VmmBroken { binary, why: e.to_string() })?;
        Ok(Started {
            name,
            process: Process::new(&child),
            zero,
            heard,
            executed_ns: monotonic_ns() - zero.ns,
            command: words(&command),
        })
    }
}

/// When the vCPUs began to run, which no VMM says at once.
#[derive(Debug)]
pub(super) struct Runs<'a> {
    /// When they are known to have run: that it was said, and that the guest had printed.
    pub(super) known_ns: &'a [Option<i64>],
    /// They did not run before this.
    pub(super) since_ns: Option<i64>,
    /// What says so.
    pub(super) evidence: &'a str,
}

impl<E: Copy> Started<E> {
    /// Now, in ns since time zero.
    pub(super) fn elapsed_ns(&self) -> i64 {
        monotonic_ns() - self.zero.ns
    }

    /// What it says next, if it does within this time.
    pub(super) fn next(&mut self, patience: Duration) -> Next<E> {
        match self.heard.recv_timeout(patience) {
            Ok(piece) => {
                let bytes = if let What::Said(bytes) = piece.what { bytes } else { Vec::new() };
                Next::Said { ear: piece.ear, at_ns: piece.at_ns - self.zero.ns, bytes }
            }
            Err(RecvTimeoutError::Timeout) => Next::Silence,
            Err(RecvTimeoutError::Disconnected) => Next::Ended,
        }
    }

    /// Sends a request, and waits until it is done.
    ///
    /// # Errors
    /// If the VMM refuses it, with those of its last lines that complain.
    pub(super) fn request(
        &mut self,
        api: &mut Api,
        request: &Request,
        is_complaint: fn(E, &str) -> bool,
    ) -> Result<(), Error> {
        self.command.push(request.text());
        api.put(request).map_err(|undone| self.refusal(&format!("`{}`: {undone}", request.text()), is_complaint))
    }

    /// That no machine was started, for this reason and with those of its last lines that complain.
    pub(super) fn refusal(&mut self, why: &str, is_complaint: fn(E, &str) -> bool) -> Error {
        let mut lines = VecDeque::new();
        // A guest that goes on printing does not hold this up.
        let until = Instant::now() + LAST_WORDS;
        while let Ok(piece) = self.heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
            let What::Said(bytes) = piece.what else { continue };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            lines.extend(
                text.lines().filter(|line| is_complaint(piece.ear, line)).map(|line| shown(line.as_bytes(), 300)),
            );
            lines.drain(..lines.len().saturating_sub(LAST_LINES));
        }
        let said = Vec::from(lines).join("; ");
        let why = if said.is_empty() { why.to_owned() } else { format!("{why}; it said: {said}") };
        Error::VmmRefused { name: self.name, why }
    }

    /// The marks of its set-up: that it was executed, those of these that were seen, and when the vCPUs began to run, none of the others
    /// later than that.
    pub(super) fn marks(&self, seen: &[(&'static str, Option<i64>, &str)], runs: &Runs<'_>) -> Vec<SetUpMark> {
        let executed = SetUpMark {
            name: "executed",
            at_ns: self.executed_ns,
            error_ns: self.executed_ns,
            evidence: format!("the call that starts {} returned: it ran by then", self.name),
        };
        let first_ns = runs.known_ns.iter().flatten().min().copied();
        let mark = |&(name, at_ns, evidence): &(_, Option<i64>, &str)| {
            let at_ns = at_ns?.min(first_ns.unwrap_or(i64::MAX));
            Some(SetUpMark { name, at_ns, error_ns: WAKE_ERROR_NS, evidence: evidence.to_owned() })
        };
        let began = first_ns.map(|at_ns| SetUpMark {
            name: "first instruction",
            at_ns,
            error_ns: runs.since_ns.map_or(at_ns, |since| at_ns - since).max(WAKE_ERROR_NS),
            evidence: runs.evidence.to_owned(),
        });
        std::iter::once(executed).chain(seen.iter().filter_map(mark)).chain(began).collect()
    }
}
