//! Runs a user's command in a process group that does not outlive bootscope. The command's output goes into a log.
//!
//! bootscope kills the group when the command has ended, the time is up or the user stops. A guard in the group kills it
//! when bootscope itself is killed: it waits for the end of a pipe that only bootscope holds open. A process that the command
//! starts in a new session is in another group, and survives.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Interval between checks of a running command.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time that a command has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// The same if the user stopped the command and waits for it.
const GRACE_STOPPED: Duration = Duration::from_millis(100);

/// Runs its argument as a command, and kills the whole process group as soon as standard input ends. This shell ignores
/// SIGTERM, so that it stays until the command has reacted to the signal and ended.
const GUARDED: &str = r#"
exec 3<&0 </dev/null
{ read -r _ <&3; kill -KILL 0; } &
guard=$!
trap : TERM
sh -c "$1" 3<&-
status=$?
kill -KILL $guard 2>/dev/null
exit $status
"#;

pub(crate) enum CommandEnd {
    Exit(ExitStatus),
    Timeout,
    Stopped,
}

/// The command that runs `words` with `sh -c` in a folder. The caller may add to its environment.
pub(crate) fn command(words: &str, folder: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", GUARDED, "sh", words]).current_dir(folder);
    command
}

/// Runs a command to its end. Calls `stop` at each check and ends the command early if that returns true.
pub(crate) fn run(
    mut command: Command,
    log: File,
    timeout: Duration,
    stop: &mut dyn FnMut() -> bool,
) -> io::Result<CommandEnd> {
    command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
    let mut child = command.process_group(0).spawn()?;
    let began = Instant::now();
    loop {
        if has_ended(&child)? {
            // The child is not reaped yet, so its process id still names this group.
            signal(&child, Signal::KILL);
            return Ok(CommandEnd::Exit(child.wait()?));
        }
        let stopped = stop();
        if stopped || began.elapsed() >= timeout {
            end(&mut child, if stopped { GRACE_STOPPED } else { GRACE });
            return Ok(if stopped { CommandEnd::Stopped } else { CommandEnd::Timeout });
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// True if a command has ended. Does not reap it.
fn has_ended(child: &Child) -> io::Result<bool> {
    let Some(pid) = pid(child) else { return Ok(false) };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(pid), options)?.is_some())
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Sends a signal to a command's whole group.
fn signal(child: &Child, signal: Signal) {
    if let Some(group) = pid(child) {
        let _ = kill_process_group(group, signal);
    }
}

/// Ends a command and all processes in its group: with SIGTERM first, then with SIGKILL.
fn end(child: &mut Child, grace: Duration) {
    signal(child, Signal::TERM);
    let signalled = Instant::now();
    while signalled.elapsed() < grace && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(POLL_INTERVAL);
    }
    signal(child, Signal::KILL);
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_may_clean_up_after_sigterm() {
        let folder = tempfile::tempdir().unwrap();
        let started = folder.path().join("started");
        let cleaned = folder.path().join("cleaned");
        let build = format!(
            "trap 'sleep 0.3; touch {}; exit 1' TERM; touch {}; sleep 60 & wait",
            cleaned.display(),
            started.display()
        );
        let mut command = command(&build, folder.path());
        let mut child = command.stdin(Stdio::piped()).process_group(0).spawn().unwrap();
        let begun = Instant::now();
        while !started.exists() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the build did not start");
            std::thread::sleep(POLL_INTERVAL);
        }
        end(&mut child, Duration::from_secs(30));
        assert!(cleaned.exists(), "killed before it had cleaned up");
    }

    #[test]
    fn background_processes_of_a_command_end_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let command = command("sleep 60 & echo $! > pid; exit 3", folder.path());
        let ended = run(command, log, Duration::MAX, &mut || false).unwrap();
        assert!(matches!(ended, CommandEnd::Exit(status) if status.code() == Some(3)));
        let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
        let stat = format!("/proc/{}/stat", pid.trim());
        let began = Instant::now();
        // It may be a zombie that its parent has not reaped yet.
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(began.elapsed() < Duration::from_secs(30), "it still runs");
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
