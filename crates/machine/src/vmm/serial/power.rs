//! The user's command that switches a board off and on.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process_group};

use super::Ear;
use crate::Error;
use crate::child::ends_with_us;
use crate::clock::monotonic_ns;
use crate::vmm::listen::{Piece, What};

/// The command, which runs.
#[derive(Debug)]
pub(super) struct Cycle {
    text: String,
    pid: Pid,
    began: Instant,
    within: Duration,
    is_late: bool,
    /// Whether it has ended, and its number may be another's.
    is_over: bool,
}

impl Cycle {
    /// Runs it by the shell, with what it prints as a pipe. Its end is sent with the moment, which is the board's time zero: a thread
    /// does nothing but wait for it.
    pub(super) fn start(
        text: &str,
        within: Duration,
        sender: SyncSender<Piece<Ear>>,
    ) -> Result<(Cycle, OwnedFd), Error> {
        let (output, to_output) = pipe_with(PipeFlags::CLOEXEC).map_err(Error::host("make a pipe"))?;
        let also = to_output.try_clone().map_err(Error::host("copy a pipe"))?;
        let mut command = Command::new("sh");
        command.arg("-c").arg(text).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::from(to_output)).stderr(Stdio::from(also));
        ends_with_us(&mut command);
        let mut child = command.spawn().map_err(Error::host("start sh for --power-cycle"))?;
        // The command has its own copies of the pipe's end; ours would keep it open.
        drop(command);
        let pid = Pid::from_child(&child);
        let wait = move || {
            let status = child.wait();
            let at_ns = monotonic_ns();
            if let Ok(status) = status {
                // Nobody is left to hear it where that fails.
                let _ = sender.send(Piece { ear: Ear::Cycled(status), at_ns, what: What::Ended(None) });
            }
        };
        thread::Builder::new().name("power".to_owned()).spawn(wait).map_err(Error::host("start a thread"))?;
        Ok((
            Cycle { text: text.to_owned(), pid, began: Instant::now(), within, is_late: false, is_over: false },
            output,
        ))
    }

    /// Ends the command if it has run for too long.
    pub(super) fn end_if_late(&mut self) {
        if !self.is_late && self.began.elapsed() > self.within {
            self.is_late = true;
            self.end();
        }
    }

    /// Why the board is not switched on after the command ended so, in words that follow the board's name; none if it is.
    pub(super) fn over(&mut self, status: ExitStatus) -> Option<String> {
        self.is_over = true;
        let how = match (self.is_late, status.success()) {
            (true, _) => format!("did not end within {} s", self.within.as_secs()),
            (false, false) => format!("ended with {status}"),
            (false, true) => return None,
        };
        Some(format!("was not switched on: --power-cycle `{}` {how}; run it by itself to see why", self.text))
    }

    fn end(&self) {
        // It leads its own process group. It can only fail because the command has ended by itself.
        let _ = kill_process_group(self.pid, Signal::KILL);
    }
}

impl Drop for Cycle {
    /// What the command left running once the board was switched on is the user's; a command that still runs is not.
    fn drop(&mut self) {
        if !self.is_over {
            self.end();
        }
    }
}
