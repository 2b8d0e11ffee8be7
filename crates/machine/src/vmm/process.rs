//! A VMM that is a program of this host's: how it is found and asked its version, and how its process is ended.

#![allow(unsafe_code, reason = "wait4 is a call of C")]

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use recording::VmmKind;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::Error;
use crate::child::ends_with_us;
use crate::vmm::{Exit, Used};

/// How long threads may take to stand still.
const STOPPING: Duration = Duration::from_millis(500);
const STOPPING_TICK: Duration = Duration::from_micros(200);

/// Fails unless it is the program itself, which one names `by` an option. A script's VMM is its child: the kernel would kill the script
/// when we end, and the VMM would run on for ever; and what is stamped and measured would be the script.
pub(super) fn check_program(path: &Path, vmm: &str, by: &str) -> Result<(), Error> {
    let mut magic = [0; 4];
    let broken = |why: String| Error::VmmBroken { binary: path.to_path_buf(), why };
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).map_err(|e| broken(e.to_string()))?;
    if magic == *b"\x7fELF" {
        return Ok(());
    }
    Err(broken(format!(
        "it is a script that starts {vmm}, and if bootscope were killed, {vmm} would run on: name the program itself \
         with {by}"
    )))
}

/// A VMM's program that runs guests by KVM alone.
#[derive(Clone, Debug)]
pub(super) struct Binary {
    pub(super) path: PathBuf,
    /// As the program says it, such as `1.7.0`.
    pub(super) version: String,
}

impl Binary {
    /// Finds the program, by path or in `$PATH`, and asks its version, which it says behind these words.
    ///
    /// # Errors
    /// If it is not there, is a script, or is another program.
    pub(super) fn find(binary: &Path, kind: VmmKind, words: &str) -> Result<Binary, Error> {
        let (name, option) = (kind.name(), kind.as_str());
        let path = which(binary).ok_or_else(|| {
            let binary = binary.display();
            Error::option(format!(
                "{binary} is not there: put {name} into $PATH, or name it with --vmm /path/to/{option}"
            ))
        })?;
        check_program(&path, name, "--vmm")?;
        let version = ask_version(&path, words)?;
        Ok(Binary { path, version })
    }
}

/// The program of this path, or the first of this name in `$PATH`.
pub(super) fn which(binary: &Path) -> Option<PathBuf> {
    if binary.components().count() > 1 {
        return binary.is_file().then(|| binary.to_path_buf());
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(binary))
        .find(|candidate| candidate.is_file())
}

/// The version that the program says behind these words.
///
/// # Errors
/// If it does not run, or says something else.
pub(super) fn ask_version(path: &Path, words: &str) -> Result<String, Error> {
    let broken = |why: String| Error::VmmBroken { binary: path.to_path_buf(), why };
    let mut command = Command::new(path);
    ends_with_us(command.arg("--version").stdin(Stdio::null()));
    let output = command.output().map_err(|e| broken(e.to_string()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let version = said.lines().next().and_then(|line| line.strip_prefix(words));
    version.map(|version| version.trim().to_owned()).ok_or_else(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        broken(format!("`--version` says {:?}", said.lines().chain(stderr.lines()).next().unwrap_or("nothing")))
    })
}

/// A VMM's process, which leads a process group of its own. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    exit: Option<Exit>,
}

impl Process {
    /// That was just started.
    pub(super) fn new(child: &Child) -> Process {
        Process { pid: Pid::from_child(child), exit: None }
    }

    /// Its number.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether it was waited for.
    pub(super) fn is_reaped(&self) -> bool {
        self.exit.is_some()
    }

    /// Whether it has ended. It is still to be waited for.
    pub(super) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.is_reaped() || matches!(waitid(WaitId::Pid(self.pid), options), Ok(Some(_)))
    }

    /// Has all its threads stand still, those that run guest code too. It goes no further than to its end.
    pub(super) fn suspend(&self) {
        if !self.is_reaped() {
            // It can only fail because it has ended by itself.
            let _ = kill_process(self.pid, Signal::STOP);
        }
    }

    /// Waits until they do, for a moment; whether they do. A thread that waits in the kernel for another one never will.
    pub(super) fn is_suspended(&self) -> bool {
        let began = Instant::now();
        while !self.has_ended() && began.elapsed() < STOPPING {
            if self.stands() {
                return true;
            }
            std::thread::sleep(STOPPING_TICK);
        }
        false
    }

    /// True if a signal has stopped it (SIGSTOP), and nothing has let it go on.
    pub(super) fn stands(&self) -> bool {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !self.is_reaped() && matches!(waitid(WaitId::Pid(self.pid), options), Ok(Some(_)))
    }

    /// Ends it, and what it started.
    pub(super) fn kill(&mut self) {
        if !self.is_reaped() {
            // Its group's number is no other's until it is reaped. It can only fail because it has ended by itself.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
    }

    /// Waits for its end, and tells what it used.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn wait(&mut self) -> Result<Exit, Error> {
        if let Some(exit) = &self.exit {
            return Ok(exit.clone());
        }
        let exit = reap(self.pid).map_err(Error::host("wait for the VMM"))?;
        Ok(self.exit.insert(exit).clone())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let _ = self.wait();
    }
}

/// `wait4`, which alone tells what one child used: `getrusage` sums over all there ever were.
fn reap(pid: Pid) -> io::Result<Exit> {
    let mut status = 0;
    // SAFETY: `rusage` is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live variables of the types that wait4 fills in, and outlive the call.
        let reaped = unsafe { libc::wait4(pid.as_raw_nonzero().get(), &raw mut status, 0, &raw mut usage) };
        if reaped >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let unsigned = |n: i64| u64::try_from(n).unwrap_or(0);
    let ns = |t: libc::timeval| unsigned(t.tv_sec) * 1_000_000_000 + unsigned(t.tv_usec) * 1000;
    Ok(Exit {
        how: format!("ended with {}", ExitStatus::from_raw(status)),
        used: Some(Used {
            // Linux counts it in KiB.
            max_rss_bytes: unsigned(usage.ru_maxrss) * 1024,
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
        }),
    })
}
