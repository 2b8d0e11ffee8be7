//! Child processes that end with bootscope, even if it is killed. The kernel sends them SIGKILL when the *thread* that started them ends,
//! so that thread must stay.
//!
//! Children of these programs are not ended this way, because a child does not inherit the request. QEMU has children only if the user's
//! own arguments request them. To end those, a second process would have to watch every boot.

#![allow(unsafe_code, reason = "something is done between fork and exec")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Makes the program end with the thread that starts it.
pub(crate) fn ends_with_us(command: &mut Command) {
    let parent = rustix::process::getpid();
    let in_child = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If bootscope ended before the request took effect, the signal would never come.
        if getppid() != Some(parent) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe code may run. This makes two plain system calls (prctl, getppid), allocates
    // nothing and takes no lock.
    unsafe { command.pre_exec(in_child) };
}

/// Lets the child inherit these descriptors under their numbers.
pub(crate) fn inherit(command: &mut Command, fds: &[BorrowedFd<'_>]) {
    let numbers: Vec<i32> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let in_child = move || {
        for &number in &numbers {
            // SAFETY: the child is a copy of this process, in which the caller holds these descriptors open across the call of `spawn`.
            // Nothing has run in the child since then that could have closed them.
            let fd = unsafe { BorrowedFd::borrow_raw(number) };
            fcntl_setfd(fd, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe code may run. This makes plain system calls (fcntl), allocates nothing (the list
    // was made before) and takes no lock.
    unsafe { command.pre_exec(in_child) };
}

/// The words of a command line.
pub(crate) fn words(command: &Command) -> Vec<String> {
    let all = std::iter::once(command.get_program()).chain(command.get_args());
    all.map(|word| word.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    const PARENT: &str = "BOOTSCOPE_TEST_PARENT";

    #[test]
    #[ignore = "the program that the other test kills"]
    fn parent() {
        if std::env::var_os(PARENT).is_none() {
            return;
        }
        let mut command = Command::new("sleep");
        ends_with_us(command.arg("1000"));
        let mut child = command.spawn().unwrap();
        println!("child {}", child.id());
        child.wait().unwrap();
    }

    #[test]
    fn a_kill_ends_what_was_started_too() {
        let mut parent = Command::new(std::env::current_exe().unwrap());
        parent.args(["--ignored", "--exact", "child::tests::parent", "--nocapture"]).env(PARENT, "1");
        let mut parent = parent.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(parent.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("child ") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "it never started its own");
        }
        let stat = format!("/proc/{}/stat", line["child ".len()..].trim());
        let alive = || {
            let mut text = String::new();
            let read = std::fs::File::open(&stat).and_then(|mut file| file.read_to_string(&mut text));
            read.is_ok() && !text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
        };
        assert!(alive());
        parent.kill().unwrap();
        parent.wait().unwrap();
        let killed = Instant::now();
        while alive() {
            assert!(killed.elapsed() < Duration::from_secs(10), "it outlived the one that started it");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
