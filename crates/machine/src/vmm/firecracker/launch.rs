//! Starting Firecracker, hearing it, and ending it.
//!
//! Console and log are pipes that it inherits. It makes the socket of its API itself, in a folder that nobody else may
//! enter; the folder goes as soon as there is a connection. Time zero is taken just before it is executed.
//!
//! Firecracker ends when its guest resets, and also when a vCPU cannot go on; its exit status can be 0 for both. Its log tells them
//! apart.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::NAME;
use super::api::Api;
use super::log::{Told, told};
use super::requests::{Request, machine, start as start_vcpus};
use crate::Error;
use crate::child::{ends_with_us, inherit, words};
use crate::clock::{Moment, monotonic_ns};
use crate::cpu_time::CpuTimes;
use crate::lines::{Lines, shown};
use crate::vmm::listen::{Piece, What, listen, ways};
use crate::vmm::process::Process;
use crate::vmm::{ARRIVAL_ERROR_NS, Exit, GuestEnd, Heard, Launch, News, SetUpMark, Source, Vmm, Zero};

/// How long the socket of the API may take to be there.
const SOCKET: Duration = Duration::from_secs(10);
/// How often it is looked for.
const SOCKET_TICK: Duration = Duration::from_millis(1);
/// How long its last words are waited for where it refuses a machine.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// So many of them are quoted.
const LAST_LINES: usize = 3;
/// How late a waiting thread usually runs on a host that is not overloaded.
const WAKE_ERROR_NS: i64 = 100_000;

/// When it had done what, in ns since time zero.
#[derive(Debug, Default)]
struct Said {
    executed_ns: i64,
    listens_ns: Option<i64>,
    complete_ns: Option<i64>,
    started_ns: Option<i64>,
}

/// A running Firecracker.
#[derive(Debug)]
pub(super) struct Machine {
    process: Process,
    zero: Zero,
    heard: Receiver<Piece<Source>>,
    /// What was heard before somebody listened, and news that are not told yet.
    waiting: VecDeque<Heard>,
    log: Lines,
    said: Said,
    /// Why a vCPU could not go on.
    failed: Option<String>,
    /// That the end was told.
    is_over: bool,
    command: Vec<String>,
}

/// Starts the Firecracker at this path, and in it a machine.
pub(super) fn start(program: &Path, launch: &Launch<'_>) -> Result<Machine, Error> {
    let requests = machine(launch.guest, launch.kernel_line, launch.initrd.map(AsRawFd::as_raw_fd))?;
    let folder = Folder::new()?;
    let (mut vm, socket) = execute(program, &folder, launch.initrd)?;
    let mut api = vm.connect(&socket)?;
    drop(folder);
    for request in &requests {
        vm.request(&mut api, request)?;
    }
    vm.request(&mut api, &start_vcpus())?;
    // Where its log does not say when that was.
    let at_ns = vm.elapsed_ns();
    vm.waiting.push_back(Heard::News { news: vec![News::Running], at_ns });
    vm.said.started_ns = Some(at_ns);
    Ok(vm)
}

/// A folder for the socket, gone when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, Error> {
        let user = xdg::BaseDirectories::new();
        let parent = user.get_runtime_directory().cloned().unwrap_or_else(|_| std::env::temp_dir());
        let folder = parent.join(format!("bootscope-{}-{}", std::process::id(), monotonic_ns()));
        // It must not be there yet: one that is would be somebody else's.
        DirBuilder::new().mode(0o700).create(&folder).map_err(Error::host("make a folder for Firecracker's socket"))?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Where it cannot be removed, that is all.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn execute(program: &Path, folder: &Folder, initrd: Option<&File>) -> Result<(Machine, PathBuf), Error> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(Error::host("make a pipe"));
    let ((console, to_console), (log, to_log)) = (pipe()?, pipe()?);
    let (sender, heard) = ways();
    listen(vec![(Source::Console, console), (Source::Vmm, log)], sender)?;
    let socket = folder.0.join("api");
    let mut command = Command::new(program);
    command
        .arg("--api-sock")
        .arg(&socket)
        .args(["--log-path", &format!("/proc/self/fd/{}", to_log.as_raw_fd())])
        .args(["--level", "Debug", "--show-level", "--boot-timer"])
        .stdin(Stdio::null())
        .stdout(stdio(&to_console)?)
        .stderr(stdio(&to_log)?)
        .process_group(0);
    let mut inherited = vec![to_log.as_fd()];
    inherited.extend(initrd.map(AsFd::as_fd));
    inherit(&mut command, &inherited);
    ends_with_us(&mut command);
    let zero = Zero { moment: Moment::now(), ns: monotonic_ns() };
    let broken = |e: io::Error| Error::VmmBroken { binary: program.to_path_buf(), why: e.to_string() };
    let child = command.spawn().map_err(broken)?;
    let vm = Machine {
        process: Process::new(&child),
        zero,
        heard,
        waiting: VecDeque::new(),
        log: Lines::default(),
        said: Said { executed_ns: monotonic_ns() - zero.ns, ..Said::default() },
        failed: None,
        is_over: false,
        command: words(&command),
    };
    Ok((vm, socket))
}

fn stdio(fd: &OwnedFd) -> Result<Stdio, Error> {
    fd.try_clone().map(Stdio::from).map_err(Error::host("copy a pipe"))
}

impl Machine {
    /// Connects to its API, once that is there.
    fn connect(&mut self, socket: &Path) -> Result<Api, Error> {
        let began = Instant::now();
        loop {
            match UnixStream::connect(socket) {
                Ok(stream) => return Api::new(stream).map_err(|undone| self.refusal(&undone.to_string())),
                Err(error) if self.process.has_ended() || began.elapsed() > SOCKET => {
                    return Err(self.refusal(&format!("its API could not be reached: {error}")));
                }
                Err(_) => std::thread::sleep(SOCKET_TICK),
            }
        }
    }

    fn request(&mut self, api: &mut Api, request: &Request) -> Result<(), Error> {
        self.command.push(request.text());
        api.put(&request.path, &request.body).map_err(|undone| self.refusal(&format!("`{}`: {undone}", request.text())))
    }

    /// That no machine was started, for this reason and with what Firecracker said last.
    fn refusal(&mut self, why: &str) -> Error {
        let mut lines = VecDeque::new();
        while let Ok(piece) = self.heard.recv_timeout(LAST_WORDS) {
            let What::Said(bytes) = piece.what else { continue };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            lines.extend(text.lines().filter(|line| is_complaint(line)).map(|line| shown(line.as_bytes(), 300)));
            lines.drain(..lines.len().saturating_sub(LAST_LINES));
        }
        let said = Vec::from(lines).join("; ");
        let why = if said.is_empty() { why.to_owned() } else { format!("{why}; it said: {said}") };
        Error::VmmRefused { name: NAME, why }
    }

    /// Takes what it logs; what of it is news.
    fn take_log(&mut self, bytes: &[u8], at_ns: i64) -> Vec<News> {
        let (said, failed, mut news) = (&mut self.said, &mut self.failed, Vec::new());
        self.log.feed(bytes, &mut |line| {
            if !line.whole {
                return;
            }
            match told(&String::from_utf8_lossy(line.text)) {
                Some(Told::Listens) => drop(said.listens_ns.get_or_insert(at_ns)),
                Some(Told::Complete) => drop(said.complete_ns.get_or_insert(at_ns)),
                // The API's answer comes after it.
                Some(Told::Started) => said.started_ns = Some(said.started_ns.map_or(at_ns, |ns| ns.min(at_ns))),
                Some(Told::Booted(text)) => news.push(News::Logged(shown(text.as_bytes(), 200))),
                Some(Told::Failed(text)) => drop(failed.get_or_insert_with(|| shown(text.as_bytes(), 200))),
                None => {}
            }
        });
        news
    }

    /// How the guest ended, when Firecracker has: by its log, and by its exit status.
    fn ending(&self) -> Option<GuestEnd> {
        if let Some(why) = &self.failed {
            return Some(GuestEnd::Other(format!("a vCPU could not go on: {why}")));
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status =
            waitid(WaitId::Pid(self.process.pid()), options).ok().flatten().and_then(|status| status.exit_status());
        (status == Some(0)).then_some(GuestEnd::Reset)
    }
}

/// Whether a line says what is wrong: all else that it logs is how it goes on.
fn is_complaint(line: &str) -> bool {
    let is_log = line.contains(":INFO] ") || line.contains(":DEBUG] ") || line.contains(":WARN] ");
    !is_log && !line.trim().is_empty()
}

impl Vmm for Machine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn zero(&self) -> Zero {
        self.zero
    }

    fn elapsed_ns(&self) -> i64 {
        monotonic_ns() - self.zero.ns
    }

    fn command(&self) -> &[String] {
        &self.command
    }

    fn hear(&mut self, patience: Duration) -> Heard {
        if let Some(heard) = self.waiting.pop_front() {
            return heard;
        }
        let piece = match self.heard.recv_timeout(patience) {
            Ok(piece) => piece,
            Err(RecvTimeoutError::Timeout) => return Heard::Silence,
            Err(RecvTimeoutError::Disconnected) => {
                let end = if self.is_over || self.process.is_reaped() { None } else { self.ending() };
                self.is_over = true;
                let at_ns = self.elapsed_ns();
                return end.map_or(Heard::Gone, |end| Heard::News { news: vec![News::Off(end)], at_ns });
            }
        };
        let at_ns = piece.at_ns - self.zero.ns;
        let source = piece.ear;
        // That one of its two pipes is closed is no news: when both are, the channel ends.
        let What::Said(bytes) = piece.what else { return Heard::News { news: Vec::new(), at_ns } };
        if source == Source::Vmm {
            let news = self.take_log(&bytes, at_ns);
            if !news.is_empty() {
                self.waiting.push_back(Heard::News { news, at_ns });
            }
        }
        Heard::Said { source, at_ns, bytes }
    }

    fn cpu_times(&self) -> CpuTimes {
        CpuTimes::of(self.process.pid())
    }

    fn quit(&mut self) -> bool {
        // It has nothing to put away, and asks the guest where it is told to end.
        false
    }

    fn kill(&mut self) {
        self.process.kill();
    }

    fn wait(&mut self) -> Result<Exit, Error> {
        self.process.wait()
    }

    fn arrival_error_ns(&self) -> i64 {
        ARRIVAL_ERROR_NS
    }

    fn set_up(&mut self, _counter_hz: Option<f64>) -> Vec<SetUpMark> {
        marks(&self.said)
    }
}

fn marks(said: &Said) -> Vec<SetUpMark> {
    let executed = SetUpMark {
        name: "executed",
        at_ns: said.executed_ns,
        error_ns: said.executed_ns,
        evidence: "the call that starts Firecracker returned: it ran by then".to_owned(),
    };
    let heard = [
        ("monitor ready", said.listens_ns, "Firecracker's log: API server started"),
        ("machine complete", said.complete_ns, "Firecracker's log: the machine is built, the kernel loaded"),
        (
            "first instruction",
            said.started_ns,
            "Firecracker's log or its answer to InstanceStart: the vCPUs were started",
        ),
    ];
    let mark = |(name, at_ns, evidence): (_, Option<i64>, &str)| {
        Some(SetUpMark { name, at_ns: at_ns?, error_ns: WAKE_ERROR_NS, evidence: evidence.to_owned() })
    };
    std::iter::once(executed).chain(heard.into_iter().filter_map(mark)).collect()
}
