//! The common part of the VMMs that are driven through an HTTP API: the process, its output pipes and the requests to it.
//!
//! Time zero is taken just before the program is executed, when everything else is prepared.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};

use super::api::{Api, Request};
use super::listen::{Content, Piece, listen, piece_queue};
use super::process::Process;
use super::{SetUpMark, Zero};
use crate::Error;
use crate::child::{ends_with_us, inherit, words};
use crate::clock::{Moment, monotonic_ns};
use crate::lines::shown;

/// Usual delay of a waiting thread on a host that is not overloaded.
const WAKE_ERROR_NS: i64 = 100_000;
/// Longest wait for the last output of a VMM that refuses a machine.
const LAST_OUTPUT_WAIT: Duration = Duration::from_millis(300);
/// Longest quotation of that output, in lines.
const MAX_QUOTED_LINES: usize = 3;

/// A running VMM. An `I` names one of its inputs to the recorder.
#[derive(Debug)]
pub(super) struct ApiVmm<I> {
    name: &'static str,
    pub(super) process: Process,
    pub(super) zero: Zero,
    pieces: Receiver<Piece<I>>,
    /// The program was executed at this time or earlier, in ns since time zero.
    executed_ns: i64,
    /// The command line, and then each request.
    pub(super) command: Vec<String>,
}

/// The result of one wait for output.
#[derive(Debug)]
pub(super) enum Next<I> {
    /// Bytes and their arrival in ns since time zero. They are empty where one of the inputs ended.
    Output { input: I, at_ns: i64, bytes: Vec<u8> },
    /// No output arrived in that time.
    Silence,
    /// All inputs have ended.
    Ended,
}

/// A pipe: bootscope's end, and the one that a VMM inherits.
pub(super) fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    pipe_with(PipeFlags::CLOEXEC).map_err(Error::host("make a pipe"))
}

/// A descriptor as a program's standard output or error.
pub(super) fn stdio(fd: &OwnedFd) -> Result<Stdio, Error> {
    fd.try_clone().map(Stdio::from).map_err(Error::host("copy a pipe"))
}

impl<I: Copy + Send + 'static> ApiVmm<I> {
    /// Executes a command in its own process group, with these descriptors inherited. Where several inputs are readable, the first in
    /// the list is read first.
    pub(super) fn execute(
        name: &'static str,
        mut command: Command,
        inherited: &[BorrowedFd<'_>],
        inputs: Vec<(I, OwnedFd)>,
    ) -> Result<ApiVmm<I>, Error> {
        let (sender, pieces) = piece_queue();
        listen(inputs, sender)?;
        command.stdin(Stdio::null()).process_group(0);
        inherit(&mut command, inherited);
        ends_with_us(&mut command);
        let zero = Zero { moment: Moment::now(), ns: monotonic_ns() };
        let binary = PathBuf::from(command.get_program());
        let child = command.spawn().map_err(|e| Error::VmmBroken { binary, why: e.to_string().into() })?;
        Ok(ApiVmm {
            name,
            process: Process::new(&child),
            zero,
            pieces,
            executed_ns: monotonic_ns() - zero.ns,
            command: words(&command),
        })
    }
}

/// The evidence for the start of the vCPUs, which no VMM reports at once.
#[derive(Debug)]
pub(super) struct VcpuStart<'a> {
    /// Times at which the vCPUs are known to run: the VMM's reports, and the guest's first output.
    pub(super) known_ns: &'a [Option<i64>],
    /// The vCPUs did not run before this time.
    pub(super) since_ns: Option<i64>,
    /// The source of these times, in words.
    pub(super) evidence: &'a str,
}

impl<I: Copy> ApiVmm<I> {
    /// The present time, in ns since time zero.
    pub(super) fn elapsed_ns(&self) -> i64 {
        monotonic_ns() - self.zero.ns
    }

    /// Waits for the next output, at most for `patience`.
    pub(super) fn next(&mut self, patience: Duration) -> Next<I> {
        match self.pieces.recv_timeout(patience) {
            Ok(piece) => {
                let bytes = if let Content::Bytes(bytes) = piece.content { bytes } else { Vec::new() };
                Next::Output { input: piece.input, at_ns: piece.at_ns - self.zero.ns, bytes }
            }
            Err(RecvTimeoutError::Timeout) => Next::Silence,
            Err(RecvTimeoutError::Disconnected) => Next::Ended,
        }
    }

    /// Sends a request, and waits until it is done.
    ///
    /// # Errors
    /// If the VMM refuses it. The error quotes the complaints among its last lines.
    pub(super) fn request(
        &mut self,
        api: &mut Api,
        request: &Request,
        is_complaint: fn(I, &str) -> bool,
    ) -> Result<(), Error> {
        self.command.push(request.text());
        api.put(request).map_err(|error| self.refusal(&format!("`{}`: {error}", request.text()), is_complaint))
    }

    /// The error that no machine was started, with the reason and the complaints among the VMM's last lines.
    pub(super) fn refusal(&mut self, why: &str, is_complaint: fn(I, &str) -> bool) -> Error {
        let mut lines = VecDeque::new();
        // A guest that goes on printing does not prolong this.
        let until = Instant::now() + LAST_OUTPUT_WAIT;
        while let Ok(piece) = self.pieces.recv_timeout(until.saturating_duration_since(Instant::now())) {
            let Content::Bytes(bytes) = piece.content else { continue };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            lines.extend(
                text.lines().filter(|line| is_complaint(piece.input, line)).map(|line| shown(line.as_bytes(), 300)),
            );
            lines.drain(..lines.len().saturating_sub(MAX_QUOTED_LINES));
        }
        let output = Vec::from(lines).join("; ");
        let why = if output.is_empty() { why.to_owned() } else { format!("{why}; it said: {output}") };
        Error::VmmRefused { name: self.name, why }
    }

    /// The marks of the set-up: the execution, the `seen` ones that have a time, and the start of the vCPUs. No other mark is later
    /// than that start.
    pub(super) fn marks(&self, seen: &[(&'static str, Option<i64>, &str)], start: &VcpuStart<'_>) -> Vec<SetUpMark> {
        let executed = SetUpMark {
            name: "executed",
            at_ns: self.executed_ns,
            error_ns: self.executed_ns,
            evidence: format!("the call that starts {} returned: it ran by then", self.name),
        };
        let first_ns = start.known_ns.iter().flatten().min().copied();
        let mark = |&(name, at_ns, evidence): &(_, Option<i64>, &str)| {
            let at_ns = at_ns?.min(first_ns.unwrap_or(i64::MAX));
            Some(SetUpMark { name, at_ns, error_ns: WAKE_ERROR_NS, evidence: evidence.to_owned() })
        };
        let began = first_ns.map(|at_ns| SetUpMark {
            name: "first instruction",
            at_ns,
            error_ns: start.since_ns.map_or(at_ns, |since| at_ns - since).max(WAKE_ERROR_NS),
            evidence: start.evidence.to_owned(),
        });
        std::iter::once(executed).chain(seen.iter().filter_map(mark)).chain(began).collect()
    }
}
