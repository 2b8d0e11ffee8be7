//! A VMM that is a program on this host: finds it, reads its version, and ends its process.

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
use crate::refusal::{Text, text};
use crate::vmm::{Exit, Used};
use recording::Field;

/// Longest wait for all threads of a process to stop.
const MAX_STOP_WAIT: Duration = Duration::from_millis(500);
const STOP_POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Fails unless the path is the program itself. `option` names it in messages.
///
/// The VMM of a wrapper script is the script's child. When bootscope ends, the kernel would kill the script, and the VMM would run on
/// for ever. bootscope would also stamp and measure the script.
pub(super) fn check_program(path: &Path, vmm: &str, option: impl Into<Text>) -> Result<(), Error> {
    let mut magic = [0; 4];
    let broken = |why: Text| Error::VmmBroken { binary: path.to_path_buf(), why };
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).map_err(|e| broken(e.to_string().into()))?;
    if magic == *b"\x7fELF" {
        return Ok(());
    }
    let why = format!("it is a script that starts {vmm}, and if bootscope were killed, {vmm} would run on: ");
    Err(broken(text![why, "name the program itself with ", option]))
}

/// The program of a VMM that runs guests only with KVM.
#[derive(Clone, Debug)]
pub(super) struct Binary {
    pub(super) path: PathBuf,
    /// The version that the program reports, such as `1.7.0`.
    pub(super) version: String,
}

impl Binary {
    /// Finds the program, by path or in `$PATH`, and reads its version, which follows `prefix` in its output.
    ///
    /// # Errors
    /// If it is not there, is a script, or is another program.
    pub(super) fn find(binary: &Path, kind: VmmKind, prefix: &str) -> Result<Binary, Error> {
        let path = which(binary).ok_or_else(|| {
            let program = Field::Vmm.is(format!("/path/to/{}", kind.as_str()));
            let instead = text![format!("put {} into $PATH, or name it with ", kind.name()), program];
            Error::VmmMissing { binary: binary.to_path_buf(), instead }
        })?;
        check_program(&path, kind.name(), Field::Vmm)?;
        let version = ask_version(&path, prefix)?;
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

/// Runs the program with `--version`, and returns the version that follows `prefix` in its output.
///
/// # Errors
/// If it does not run, or prints something else.
pub(super) fn ask_version(path: &Path, prefix: &str) -> Result<String, Error> {
    let broken = |why: String| Error::VmmBroken { binary: path.to_path_buf(), why: why.into() };
    let mut command = Command::new(path);
    ends_with_us(command.arg("--version").stdin(Stdio::null()));
    let output = command.output().map_err(|e| broken(e.to_string()))?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let version = stdout.lines().next().and_then(|line| line.strip_prefix(prefix));
    version.map(|version| version.trim().to_owned()).ok_or_else(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        broken(format!("`--version` says {:?}", stdout.lines().chain(stderr.lines()).next().unwrap_or("nothing")))
    })
}

/// The process of a VMM, which leads its own process group. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    exit: Option<Exit>,
}

impl Process {
    pub(super) fn new(child: &Child) -> Process {
        Process { pid: Pid::from_child(child), exit: None }
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    pub(super) fn is_reaped(&self) -> bool {
        self.exit.is_some()
    }

    /// True if it has ended. This does not reap it.
    pub(super) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.is_reaped() || matches!(waitid(WaitId::Pid(self.pid), options), Ok(Some(_)))
    }

    /// Stops all its threads with a signal, also those that run guest code. It can then only be ended.
    pub(super) fn suspend(&self) {
        if !self.is_reaped() {
            // This can fail only if the process has ended by itself.
            let _ = kill_process(self.pid, Signal::STOP);
        }
    }

    /// Waits for a moment until all threads have stopped. Returns false if they have not: a thread that waits in the kernel for
    /// another one never stops.
    pub(super) fn wait_until_stopped(&self) -> bool {
        let began = Instant::now();
        while !self.has_ended() && began.elapsed() < MAX_STOP_WAIT {
            if self.is_stopped() {
                return true;
            }
            std::thread::sleep(STOP_POLL_INTERVAL);
        }
        false
    }

    /// True if a signal (SIGSTOP) has stopped it and it was not resumed.
    pub(super) fn is_stopped(&self) -> bool {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !self.is_reaped() && matches!(waitid(WaitId::Pid(self.pid), options), Ok(Some(_)))
    }

    /// Ends it, and the processes that it started.
    pub(super) fn kill(&mut self) {
        if !self.is_reaped() {
            // The group's number cannot be reused before the process is reaped. This can fail only if the process has ended by itself.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
    }

    /// Waits for its end, and returns its exit status and resource usage.
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

/// Reaps a child by `wait4`, the only call that returns the usage of one child. `getrusage` sums over all children.
fn reap(pid: Pid) -> io::Result<Exit> {
    let mut status = 0;
    // SAFETY: `rusage` consists of plain numbers, and zero is a valid value of each.
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
            // Linux counts `ru_maxrss` in KiB.
            max_rss_bytes: unsigned(usage.ru_maxrss) * 1024,
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
        }),
    })
}
