//! Runs the user's command that switches a board off and on.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process_group};

use super::Input;
use crate::Error;
use crate::child::ends_with_us;
use crate::clock::monotonic_ns;
use crate::vmm::listen::{Content, Piece};

/// The running command.
#[derive(Debug)]
pub(super) struct PowerCycle {
    text: String,
    pid: Pid,
    began: Instant,
    time_limit: Duration,
    is_late: bool,
    /// True if it has ended. Another process may then have its number.
    is_over: bool,
}

impl PowerCycle {
    /// Starts the command with `sh`, and returns the pipe with its output. A thread that does nothing else waits for its end, and sends
    /// the moment of the end, which is the board's time zero.
    pub(super) fn start(
        text: &str,
        time_limit: Duration,
        sender: SyncSender<Piece<Input>>,
    ) -> Result<(PowerCycle, OwnedFd), Error> {
        let (output, to_output) = pipe_with(PipeFlags::CLOEXEC).map_err(Error::host("make a pipe"))?;
        let also = to_output.try_clone().map_err(Error::host("copy a pipe"))?;
        let mut command = Command::new("sh");
        command.arg("-c").arg(text).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::from(to_output)).stderr(Stdio::from(also));
        ends_with_us(&mut command);
        let mut child =
            command.spawn().map_err(Error::host("start sh for the command that switches the board off and on"))?;
        // The command has its own copies of the pipe's end. The copies here would keep it open.
        drop(command);
        let pid = Pid::from_child(&child);
        let wait = move || {
            let status = child.wait();
            let at_ns = monotonic_ns();
            if let Ok(status) = status {
                // This fails only if the receiver is gone.
                let _ = sender.send(Piece { input: Input::Cycled(status), at_ns, content: Content::Ended(None) });
            }
        };
        thread::Builder::new().name("power".to_owned()).spawn(wait).map_err(Error::host("start a thread"))?;
        Ok((
            PowerCycle {
                text: text.to_owned(),
                pid,
                began: Instant::now(),
                time_limit,
                is_late: false,
                is_over: false,
            },
            output,
        ))
    }

    /// Ends the command if it has run for too long.
    pub(super) fn end_if_late(&mut self) {
        if !self.is_late && self.began.elapsed() > self.time_limit {
            self.is_late = true;
            self.end();
        }
    }

    /// The reason why the board is not switched on after the command ended with `status`. The text follows the board's name.
    /// Returns `None` if the board is switched on.
    pub(super) fn failure(&mut self, status: ExitStatus) -> Option<String> {
        self.is_over = true;
        let how = match (self.is_late, status.success()) {
            (true, _) => format!("did not end within {} s", self.time_limit.as_secs()),
            (false, false) => format!("ended with {status}"),
            (false, true) => return None,
        };
        Some(format!("was not switched on: its command `{}` {how}; run it by itself to see why", self.text))
    }

    fn end(&self) {
        // The command leads its own process group. This can fail only if the command has ended by itself.
        let _ = kill_process_group(self.pid, Signal::KILL);
    }
}

impl Drop for PowerCycle {
    /// Ends a command that still runs. Processes that an ended command left running belong to the user, and stay.
    fn drop(&mut self) {
        if !self.is_over {
            self.end();
        }
    }
}
