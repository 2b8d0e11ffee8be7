//! Starts Firecracker, reads its output, and ends it.
//!
//! Firecracker inherits pipes for console and log. It makes the socket of its API itself, in a folder that no other user may enter. The
//! folder is removed once there is a connection. Time zero is taken just before Firecracker is executed.
//!
//! Firecracker ends when its guest resets, and also when a vCPU cannot go on. The exit status can be 0 for both. The log
//! distinguishes them.

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
use super::log::{LogEvent, parse_line};
use super::requests::{machine, start as start_vcpus};
use crate::Error;
use crate::cpu_time::CpuTimes;
use crate::lines::{Lines, shown};
use crate::vmm::api::Api;
use crate::vmm::api_vmm::{ApiVmm, Next, VcpuStart, pipe, stdio};
use crate::vmm::socket_folder::socket_folder;
use crate::vmm::{ARRIVAL_ERROR_NS, Exit, GuestEnd, Heard, Launch, News, SetUpMark, Source, Vmm, Zero};

/// Longest wait for the socket of the API.
const MAX_SOCKET_WAIT: Duration = Duration::from_secs(10);
/// Time between two attempts to connect to it.
const CONNECT_INTERVAL: Duration = Duration::from_millis(1);

/// Times of the steps of the start, in ns since time zero.
#[derive(Debug, Default)]
struct Milestones {
    listens_ns: Option<i64>,
    complete_ns: Option<i64>,
    started_ns: Option<i64>,
    /// Arrival of the guest's first byte.
    printed_ns: Option<i64>,
}

/// A running Firecracker.
#[derive(Debug)]
pub(super) struct Machine {
    vmm: ApiVmm<Source>,
    /// News that `hear` has not returned yet.
    waiting: VecDeque<Heard>,
    log: Lines,
    milestones: Milestones,
    /// The reason why a vCPU could not go on.
    failed: Option<String>,
    /// True if `hear` has returned the end of the guest.
    is_over: bool,
}

/// Starts the Firecracker at this path, and a machine in it.
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
    // Used if the log does not contain the start of the vCPUs.
    let at_ns = vm.elapsed_ns();
    vm.waiting.push_back(Heard::News { news: vec![News::Running], at_ns });
    vm.milestones.started_ns = Some(at_ns);
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
    let inputs = vec![(Source::Console, console), (Source::Vmm, log)];
    let vm = Machine {
        vmm: ApiVmm::execute(NAME, command, &inherited, inputs)?,
        waiting: VecDeque::new(),
        log: Lines::default(),
        milestones: Milestones::default(),
        failed: None,
        is_over: false,
    };
    Ok((vm, socket))
}

impl Machine {
    /// Waits for the socket of its API, and connects to it.
    fn connect(&mut self, socket: &Path) -> Result<Api, Error> {
        let began = Instant::now();
        loop {
            match UnixStream::connect(socket) {
                Ok(stream) => {
                    return Api::new(stream).map_err(|error| self.vmm.refusal(&error.to_string(), is_complaint));
                }
                Err(error) if self.vmm.process.has_ended() || began.elapsed() > MAX_SOCKET_WAIT => {
                    return Err(self.vmm.refusal(&format!("its API could not be reached: {error}"), is_complaint));
                }
                Err(_) => std::thread::sleep(CONNECT_INTERVAL),
            }
        }
    }

    /// Parses bytes of its log, and returns the news in them.
    fn take_log(&mut self, bytes: &[u8], at_ns: i64) -> Vec<News> {
        let (milestones, failed, mut news) = (&mut self.milestones, &mut self.failed, Vec::new());
        self.log.feed(bytes, &mut |line| {
            if !line.whole {
                return;
            }
            match parse_line(&String::from_utf8_lossy(line.text)) {
                Some(LogEvent::Listens) => drop(milestones.listens_ns.get_or_insert(at_ns)),
                Some(LogEvent::Complete) => drop(milestones.complete_ns.get_or_insert(at_ns)),
                // The log can report the start before the API's answer arrives.
                Some(LogEvent::Started) => {
                    milestones.started_ns = Some(milestones.started_ns.map_or(at_ns, |ns| ns.min(at_ns)))
                }
                Some(LogEvent::Booted(text)) => news.push(News::Logged(shown(text.as_bytes(), 200))),
                Some(LogEvent::Failed(text)) => drop(failed.get_or_insert_with(|| shown(text.as_bytes(), 200))),
                None => {}
            }
        });
        news
    }

    /// The reason why the guest ended, once Firecracker has ended: from its log, and from its exit status.
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

/// True if a line reports an error. All lines of the levels INFO, DEBUG and WARN report progress.
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
        if let Some(event) = self.waiting.pop_front() {
            return event;
        }
        let (source, at_ns, bytes) = match self.vmm.next(patience) {
            Next::Output { input, at_ns, bytes } => (input, at_ns, bytes),
            Next::Silence => return Heard::Silence,
            Next::Ended => {
                let end = if self.is_over || self.vmm.process.is_reaped() { None } else { self.ending() };
                self.is_over = true;
                let at_ns = self.elapsed_ns();
                return end.map_or(Heard::Gone, |end| Heard::News { news: vec![News::Off(end)], at_ns });
            }
        };
        // One of its two pipes was closed, which is no news. When both are, Firecracker has ended.
        if bytes.is_empty() {
            return Heard::News { news: Vec::new(), at_ns };
        }
        if source == Source::Console {
            self.milestones.printed_ns.get_or_insert(at_ns);
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
        // Firecracker has no state to save, and it would pass a request to end on to the guest.
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
        let milestones = &self.milestones;
        self.vmm.marks(
            &[
                ("monitor ready", milestones.listens_ns, "Firecracker's log: API server started"),
                (
                    "machine complete",
                    milestones.complete_ns,
                    "Firecracker's log: the machine is built, the kernel loaded",
                ),
            ],
            &VcpuStart {
                known_ns: &[milestones.started_ns, milestones.printed_ns],
                since_ns: milestones.complete_ns,
                evidence: "Firecracker's log, its answer to InstanceStart, or the guest's first byte: the vCPUs run",
            },
        )
    }
}
