//! Starting Firecracker, hearing it, and ending it.
//!
//! Console and log are pipes that it inherits. It makes the socket of its API itself, in a folder that nobody else may
//! enter; the folder goes as soon as there is a connection. Time zero is taken just before it is executed.
//!
//! Firecracker ends when its guest resets, and also when a vCPU cannot go on; its exit status can be 0 for both. Its log tells them
//! apart.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{WaitId, WaitIdOptions, waitid};
use tempfile::TempDir;

use super::NAME;
use super::log::{Told, told};
use super::requests::{machine, start as start_vcpus};
use crate::Error;
use crate::cpu_time::CpuTimes;
use crate::lines::{Lines, shown};
use crate::vmm::api::Api;
use crate::vmm::folder::socket_folder;
use crate::vmm::started::{Next, Runs, Started, pipe, stdio};
use crate::vmm::{ARRIVAL_ERROR_NS, Exit, GuestEnd, Heard, Launch, News, SetUpMark, Source, Vmm, Zero};

/// How long the socket of the API may take to be there.
const SOCKET: Duration = Duration::from_secs(10);
/// How often it is looked for.
const SOCKET_TICK: Duration = Duration::from_millis(1);
/// When it had done what, in ns since time zero.
#[derive(Debug, Default)]
struct Said {
    listens_ns: Option<i64>,
    complete_ns: Option<i64>,
    started_ns: Option<i64>,
    /// When the guest's first byte came.
    printed_ns: Option<i64>,
}

/// A running Firecracker.
#[derive(Debug)]
pub(super) struct Machine {
    vmm: Started<Source>,
    /// What was heard before somebody listened, and news that are not told yet.
    waiting: VecDeque<Heard>,
    log: Lines,
    said: Said,
    /// Why a vCPU could not go on.
    failed: Option<String>,
    /// That the end was told.
    is_over: bool,
}

/// Starts the Firecracker at this path, and in it a machine.
pub(super) fn start(program: &Path, launch: &Launch<'_>) -> Result<Machine, Error> {
    let requests = machine(launch.guest, launch.kernel_line, launch.initrd.map(AsRawFd::as_raw_fd))?;
    let folder = socket_folder().map_err(Error::host("make a folder for Firecracker's socket"))?;
    let (mut vm, socket) = execute(program, &folder, launch.initrd)?;
    let mut api = vm.connect(&socket)?;
    drop(folder);
    for request in &requests {
        vm.vmm.request(&mut api, request, is_complaint)?;
    }
    vm.vmm.request(&mut api, &start_vcpus(), is_complaint)?;
    // Where its log does not say when that was.
    let at_ns = vm.elapsed_ns();
    vm.waiting.push_back(Heard::News { news: vec![News::Running], at_ns });
    vm.said.started_ns = Some(at_ns);
    Ok(vm)
}

fn execute(program: &Path, folder: &TempDir, initrd: Option<&File>) -> Result<(Machine, PathBuf), Error> {
    let ((console, to_console), (log, to_log)) = (pipe()?, pipe()?);
    let socket = folder.path().join("api");
    let mut command = Command::new(program);
    command
        .arg("--api-sock")
        .arg(&socket)
        .args(["--log-path", &format!("/proc/self/fd/{}", to_log.as_raw_fd())])
        .args(["--level", "Debug", "--show-level", "--boot-timer"])
        .stdout(stdio(&to_console)?)
        .stderr(stdio(&to_log)?);
    let mut inherited = vec![to_log.as_fd()];
    inherited.extend(initrd.map(AsFd::as_fd));
    let ears = vec![(Source::Console, console), (Source::Vmm, log)];
    let vm = Machine {
        vmm: Started::execute(NAME, command, &inherited, ears)?,
        waiting: VecDeque::new(),
        log: Lines::default(),
        said: Said::default(),
        failed: None,
        is_over: false,
    };
    Ok((vm, socket))
}

impl Machine {
    /// Connects to its API, once that is there.
    fn connect(&mut self, socket: &Path) -> Result<Api, Error> {
        let began = Instant::now();
        loop {
            match UnixStream::connect(socket) {
                Ok(stream) => {
                    return Api::new(stream).map_err(|undone| self.vmm.refusal(&undone.to_string(), is_complaint));
                }
                Err(error) if self.vmm.process.has_ended() || began.elapsed() > SOCKET => {
                    return Err(self.vmm.refusal(&format!("its API could not be reached: {error}"), is_complaint));
                }
                Err(_) => std::thread::sleep(SOCKET_TICK),
            }
        }
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
            waitid(WaitId::Pid(self.vmm.process.pid()), options).ok().flatten().and_then(|status| status.exit_status());
        (status == Some(0)).then_some(GuestEnd::Reset)
    }
}

/// Whether a line says what is wrong: all else that it logs is how it goes on.
fn is_complaint(_: Source, line: &str) -> bool {
    let is_log = line.contains(":INFO] ") || line.contains(":DEBUG] ") || line.contains(":WARN] ");
    !is_log && !line.trim().is_empty()
}

impl Vmm for Machine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn zero(&self) -> Zero {
        self.vmm.zero
    }

    fn elapsed_ns(&self) -> i64 {
        self.vmm.elapsed_ns()
    }

    fn command(&self) -> &[String] {
        &self.vmm.command
    }

    fn hear(&mut self, patience: Duration) -> Heard {
        if let Some(heard) = self.waiting.pop_front() {
            return heard;
        }
        let (source, at_ns, bytes) = match self.vmm.next(patience) {
            Next::Said { ear, at_ns, bytes } => (ear, at_ns, bytes),
            Next::Silence => return Heard::Silence,
            Next::Ended => {
                let end = if self.is_over || self.vmm.process.is_reaped() { None } else { self.ending() };
                self.is_over = true;
                let at_ns = self.elapsed_ns();
                return end.map_or(Heard::Gone, |end| Heard::News { news: vec![News::Off(end)], at_ns });
            }
        };
        // That one of its two pipes is closed is no news: when both are, it has ended.
        if bytes.is_empty() {
            return Heard::News { news: Vec::new(), at_ns };
        }
        if source == Source::Console {
            self.said.printed_ns.get_or_insert(at_ns);
        }
        if source == Source::Vmm {
            let news = self.take_log(&bytes, at_ns);
            if !news.is_empty() {
                self.waiting.push_back(Heard::News { news, at_ns });
            }
        }
        Heard::Said { source, at_ns, bytes }
    }

    fn cpu_times(&self) -> CpuTimes {
        CpuTimes::of(self.vmm.process.pid())
    }

    fn quit(&mut self) -> bool {
        // It has nothing to put away, and asks the guest where it is told to end.
        false
    }

    fn kill(&mut self) {
        self.vmm.process.kill();
    }

    fn wait(&mut self) -> Result<Exit, Error> {
        self.vmm.process.wait()
    }

    fn arrival_error_ns(&self) -> i64 {
        ARRIVAL_ERROR_NS
    }

    fn set_up(&mut self, _counter_hz: Option<f64>) -> Vec<SetUpMark> {
        let said = &self.said;
        self.vmm.marks(
            &[
                ("monitor ready", said.listens_ns, "Firecracker's log: API server started"),
                ("machine complete", said.complete_ns, "Firecracker's log: the machine is built, the kernel loaded"),
            ],
            &Runs {
                known_ns: &[said.started_ns, said.printed_ns],
                since_ns: said.complete_ns,
                evidence: "Firecracker's log, its answer to InstanceStart, or the guest's first byte: the vCPUs run",
            },
        )
    }
}
