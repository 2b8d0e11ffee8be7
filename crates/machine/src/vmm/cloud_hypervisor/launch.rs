//! Starts cloud-hypervisor, reads its output, and ends it.
//!
//! cloud-hypervisor inherits all it needs: pipes for console, log and events, the listening socket of its API, guest RAM, and the initrd.
//! The socket has a name in a folder that no other user may enter. The name exists only until bootscope has connected, before
//! cloud-hypervisor is executed. Every user of the host could connect to a socket without a name.
//!
//! A guest that resets is started again by cloud-hypervisor in the same memory, for ever. If a guest switches its machine off,
//! cloud-hypervisor ends. Both end the recording, so bootscope stops the process as soon as an event reports either. The
//! memory then stays unchanged.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::NAME;
use super::events::{self, Events};
use super::log;
use super::memory::extents;
use super::requests::{Inherited, boot, machine};
use crate::Error;
use crate::cpu_time::CpuTimes;
use crate::host::memory_file;
use crate::lines::{Lines, shown};
use crate::vmm::api::Api;
use crate::vmm::api_vmm::{ApiVmm, Next, VcpuStart, pipe, stdio};
use crate::vmm::socket_folder::socket_folder;
use crate::vmm::{
    ARRIVAL_ERROR_NS, Answer, Exit, GuestEnd, Heard, Launch, News, Question, SetUpMark, Source, Ticket, Vmm, Zero,
};

/// The source of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// Output that is recorded.
    Recorded(Source),
    /// The event monitor.
    Events,
}

/// Times of the steps of the start, in ns since time zero.
#[derive(Debug, Default)]
struct Milestones {
    booting_ns: Option<i64>,
    booted_ns: Option<i64>,
    answered_ns: Option<i64>,
    /// Arrival of the guest's first byte.
    printed_ns: Option<i64>,
}

/// A running cloud-hypervisor.
#[derive(Debug)]
pub(super) struct Machine {
    vmm: ApiVmm<Input>,
    /// News that `hear` has not returned yet.
    waiting: VecDeque<Heard>,
    log: Lines,
    events: Events,
    milestones: Milestones,
    /// The reason why a vCPU could not go on.
    failed: Option<String>,
    /// True if the machine has ended, and is stopped since then.
    is_over: bool,
    ram: Option<(File, u64)>,
    /// The number of questions so far.
    question_count: u64,
    /// The answers that are not fetched yet.
    answers: BTreeMap<Ticket, Answer>,
}

/// Starts the cloud-hypervisor at this path, and a machine in it.
pub(super) fn start(program: &Path, launch: &Launch<'_>) -> Result<Machine, Error> {
    let ram = launch.instruments.ram.then(|| memory_file("bootscope-ram")).transpose()?;
    if let Some(ram) = &ram {
        ram.set_len(launch.guest.memory_bytes).map_err(Error::host("size guest memory"))?;
    }
    let fds = Inherited { initrd: launch.initrd.map(AsRawFd::as_raw_fd), ram: ram.as_ref().map(AsRawFd::as_raw_fd) };
    let request = machine(launch.guest, launch.kernel_line, fds)?;
    let (listener, ours) = api_socket()?;
    let mut inherited = vec![listener.as_fd()];
    inherited.extend(launch.initrd.map(AsFd::as_fd));
    inherited.extend(ram.as_ref().map(AsFd::as_fd));
    let vmm = execute(program, &listener, &inherited)?;
    let mut vm = Machine {
        vmm,
        waiting: VecDeque::new(),
        log: Lines::default(),
        events: Events::default(),
        milestones: Milestones::default(),
        failed: None,
        is_over: false,
        ram: ram.map(|file| (file, launch.guest.memory_bytes)),
        question_count: 0,
        answers: BTreeMap::new(),
    };
    // cloud-hypervisor's copy of the listener is now the only one, so a request fails when cloud-hypervisor ends.
    drop(listener);
    let mut api = Api::new(ours).map_err(|error| vm.vmm.refusal(&error.to_string(), is_complaint))?;
    vm.vmm.request(&mut api, &request, is_complaint)?;
    vm.vmm.request(&mut api, &boot(), is_complaint)?;
    let at_ns = vm.elapsed_ns();
    vm.waiting.push_back(Heard::News { news: vec![News::Running], at_ns });
    vm.milestones.answered_ns = Some(at_ns);
    Ok(vm)
}

/// True if a line reports an error.
fn is_complaint(input: Input, line: &str) -> bool {
    input == Input::Recorded(Source::Vmm) && log::is_complaint(line)
}

/// The socket of its API, and a connection to it, which cloud-hypervisor accepts once it runs.
fn api_socket() -> Result<(UnixListener, UnixStream), Error> {
    const DOING: &str = "make a socket for cloud-hypervisor's API";
    let folder = socket_folder().map_err(Error::host(DOING))?;
    let path = folder.path().join("api");
    let listener = UnixListener::bind(&path).map_err(Error::host(DOING))?;
    let ours = UnixStream::connect(&path).map_err(Error::host(DOING))?;
    Ok((listener, ours))
}

fn execute(program: &Path, listener: &UnixListener, inherited: &[BorrowedFd<'_>]) -> Result<ApiVmm<Input>, Error> {
    let ((console, to_console), (log, to_log), (events, to_events)) = (pipe()?, pipe()?, pipe()?);
    let mut command = Command::new(program);
    command
        .args(["--api-socket", &format!("fd={}", listener.as_raw_fd())])
        .args(["--event-monitor", &format!("fd={}", to_events.as_raw_fd())])
        .stdout(stdio(&to_console)?)
        .stderr(stdio(&to_log)?);
    let inherited: Vec<BorrowedFd<'_>> = inherited.iter().copied().chain([to_events.as_fd()]).collect();
    // The log is first, so that the reason for an end is read before the event of that end.
    let inputs =
        vec![(Input::Recorded(Source::Vmm), log), (Input::Recorded(Source::Console), console), (Input::Events, events)];
    ApiVmm::execute(NAME, command, &inherited, inputs)
}

impl Machine {
    /// Parses bytes of its log, and returns the news in them.
    fn take_log(&mut self, bytes: &[u8]) -> Vec<News> {
        let (failed, mut news) = (&mut self.failed, Vec::new());
        self.log.feed(bytes, &mut |line| {
            if !line.whole {
                return;
            }
            match log::parse_line(&String::from_utf8_lossy(line.text)) {
                Some(log::LogEvent::Failed(text)) => drop(failed.get_or_insert_with(|| shown(text.as_bytes(), 200))),
                Some(log::LogEvent::Because(text)) => {
                    failed.iter_mut().for_each(|failed| *failed = shown(text.as_bytes(), 200));
                }
                Some(log::LogEvent::Reported(text)) => news.push(News::Logged(shown(text.as_bytes(), 200))),
                None => {}
            }
        });
        news
    }

    /// Parses bytes of its event monitor, and returns the news in them.
    fn take_events(&mut self, bytes: &[u8], at_ns: i64) -> Vec<News> {
        let mut news = Vec::new();
        for event in self.events.feed(bytes) {
            match event {
                events::MachineEvent::Runs => {}
                events::MachineEvent::Booting => drop(self.milestones.booting_ns.get_or_insert(at_ns)),
                events::MachineEvent::Booted => drop(self.milestones.booted_ns.get_or_insert(at_ns)),
                events::MachineEvent::Panicked => news.push(News::Panicked),
                events::MachineEvent::Resets => news.extend(self.end(GuestEnd::Reset)),
                events::MachineEvent::Off => {
                    let failed = self.failed.as_ref().map(|why| format!("a vCPU could not go on: {why}"));
                    news.extend(self.end(failed.map_or(GuestEnd::PowerOff, GuestEnd::Other)));
                }
            }
        }
        news
    }

    /// Notes the end of the machine, and stops the process to keep the memory unchanged. If a vCPU cannot go on, cloud-hypervisor ends by
    /// itself. Returns `None` if the machine had ended before, because the guest was started again.
    fn end(&mut self, how: GuestEnd) -> Option<News> {
        if self.failed.is_none() {
            self.vmm.process.suspend();
        }
        (!std::mem::replace(&mut self.is_over, true)).then_some(News::Off(how))
    }
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
        let (input, at_ns, bytes) = match self.vmm.next(patience) {
            Next::Output { input, at_ns, bytes } => (input, at_ns, bytes),
            Next::Silence => return Heard::Silence,
            Next::Ended => return Heard::Gone,
        };
        match input {
            // One of its pipes was closed, which is no news. When all are, cloud-hypervisor has ended.
            _ if bytes.is_empty() => Heard::News { news: Vec::new(), at_ns },
            Input::Events => Heard::News { news: self.take_events(&bytes, at_ns), at_ns },
            Input::Recorded(source) => {
                if source == Source::Console {
                    self.milestones.printed_ns.get_or_insert(at_ns);
                }
                if source == Source::Vmm {
                    let news = self.take_log(&bytes);
                    self.waiting.extend((!news.is_empty()).then_some(Heard::News { news, at_ns }));
                }
                Heard::Said { source, at_ns, bytes }
            }
        }
    }

    fn ask(&mut self, question: Question) -> Option<Ticket> {
        let answer = match question {
            Question::Ram => Answer::Ram(extents(self.ram.as_ref()?.1)),
            Question::Stop => {
                self.vmm.process.suspend();
                // After its end no vCPU runs. The threads that still run dismantle the machine.
                if !(self.is_over || self.vmm.process.wait_until_stopped()) {
                    return None;
                }
                Answer::Stopped
            }
            Question::Cpus | Question::Disks | Question::Connections => return None,
        };
        self.question_count += 1;
        self.answers.insert(Ticket(self.question_count), answer);
        Some(Ticket(self.question_count))
    }

    fn answer(&mut self, ticket: Ticket) -> Option<Option<Answer>> {
        Some(self.answers.remove(&ticket))
    }

    fn ram(&self) -> Option<&File> {
        self.ram.as_ref().map(|(file, _)| file)
    }

    fn cpu_times(&self) -> CpuTimes {
        CpuTimes::of(self.vmm.process.pid())
    }

    fn quit(&mut self) -> bool {
        // cloud-hypervisor has no state to save. If a vCPU cannot go on, it is about to end by itself.
        self.failed.is_some()
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
                ("monitor ready", milestones.booting_ns, "cloud-hypervisor's event vm booting: the machine is described"),
                (
                    "machine complete",
                    milestones.booted_ns,
                    "cloud-hypervisor's event vm booted: the machine was made and its vCPUs started",
                ),
            ],
            // The event arrives on another descriptor than the answer. On a busy host it can be read later than output that followed it.
            &VcpuStart {
                known_ns: &[milestones.booted_ns, milestones.answered_ns, milestones.printed_ns],
                since_ns: milestones.booting_ns,
                evidence: "cloud-hypervisor's answer to vm.boot, its event vm booted, or the guest's first byte: the vCPUs run",
            },
        )
    }
}
