//! Starting cloud-hypervisor, hearing it, and ending it.
//!
//! It inherits all that it needs: pipes for console, log and events, the listening socket of its API, guest RAM, the initrd. The
//! socket has a name in a folder that nobody else may enter, and only until bootscope has connected, which is
//! before cloud-hypervisor is executed. A socket without a name would be one that every user of the host can connect to.
//!
//! A guest that resets is started anew in the same memory, for ever, and one that switches its machine off takes cloud-hypervisor
//! with it. Either is the end of a recording, so the process is stopped as soon as an event says so: memory stays as it was.

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
use crate::vmm::folder::socket_folder;
use crate::vmm::started::{Next, Runs, Started, pipe, stdio};
use crate::vmm::{
    ARRIVAL_ERROR_NS, Answer, Exit, GuestEnd, Heard, Launch, News, Question, SetUpMark, Source, Ticket, Vmm, Zero,
};

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ear {
    /// What is recorded.
    Of(Source),
    /// The event monitor.
    Events,
}

/// When it had done what, in ns since time zero.
#[derive(Debug, Default)]
struct Said {
    booting_ns: Option<i64>,
    booted_ns: Option<i64>,
    answered_ns: Option<i64>,
    /// When the guest's first byte came.
    printed_ns: Option<i64>,
}

/// A running cloud-hypervisor.
#[derive(Debug)]
pub(super) struct Machine {
    vmm: Started<Ear>,
    /// News that are not told yet.
    waiting: VecDeque<Heard>,
    log: Lines,
    events: Events,
    said: Said,
    /// Why a vCPU could not go on.
    failed: Option<String>,
    /// Whether the machine has ended, and stands still since.
    is_over: bool,
    ram: Option<(File, u64)>,
    /// How often it was asked, and the answers that nobody has taken.
    asked: u64,
    answers: BTreeMap<Ticket, Answer>,
}

/// Starts the cloud-hypervisor at this path, and in it a machine.
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
        said: Said::default(),
        failed: None,
        is_over: false,
        ram: ram.map(|file| (file, launch.guest.memory_bytes)),
        asked: 0,
        answers: BTreeMap::new(),
    };
    // Its own copy is the only one now, so that a request ends with it.
    drop(listener);
    let mut api = Api::new(ours).map_err(|undone| vm.vmm.refusal(&undone.to_string(), is_complaint))?;
    vm.vmm.request(&mut api, &request, is_complaint)?;
    vm.vmm.request(&mut api, &boot(), is_complaint)?;
    let at_ns = vm.elapsed_ns();
    vm.waiting.push_back(Heard::News { news: vec![News::Running], at_ns });
    vm.said.answered_ns = Some(at_ns);
    Ok(vm)
}

/// Whether somebody's line says what is wrong.
fn is_complaint(ear: Ear, line: &str) -> bool {
    ear == Ear::Of(Source::Vmm) && log::is_complaint(line)
}

/// The socket of its API, and a connection to it, which is accepted once it runs.
fn api_socket() -> Result<(UnixListener, UnixStream), Error> {
    const DOING: &str = "make a socket for cloud-hypervisor's API";
    let folder = socket_folder().map_err(Error::host(DOING))?;
    let path = folder.path().join("api");
    let listener = UnixListener::bind(&path).map_err(Error::host(DOING))?;
    let ours = UnixStream::connect(&path).map_err(Error::host(DOING))?;
    Ok((listener, ours))
}

fn execute(program: &Path, listener: &UnixListener, inherited: &[BorrowedFd<'_>]) -> Result<Started<Ear>, Error> {
    let ((console, to_console), (log, to_log), (events, to_events)) = (pipe()?, pipe()?, pipe()?);
    let mut command = Command::new(program);
    command
        .args(["--api-socket", &format!("fd={}", listener.as_raw_fd())])
        .args(["--event-monitor", &format!("fd={}", to_events.as_raw_fd())])
        .stdout(stdio(&to_console)?)
        .stderr(stdio(&to_log)?);
    let inherited: Vec<BorrowedFd<'_>> = inherited.iter().copied().chain([to_events.as_fd()]).collect();
    // Why a machine was switched off is read before that it was.
    let ears = vec![(Ear::Of(Source::Vmm), log), (Ear::Of(Source::Console), console), (Ear::Events, events)];
    Started::execute(NAME, command, &inherited, ears)
}

impl Machine {
    /// Takes what it logs; what of it is news.
    fn take_log(&mut self, bytes: &[u8]) -> Vec<News> {
        let (failed, mut news) = (&mut self.failed, Vec::new());
        self.log.feed(bytes, &mut |line| {
            if !line.whole {
                return;
            }
            match log::told(&String::from_utf8_lossy(line.text)) {
                Some(log::Told::Failed(text)) => drop(failed.get_or_insert_with(|| shown(text.as_bytes(), 200))),
                Some(log::Told::Because(text)) => {
                    failed.iter_mut().for_each(|failed| *failed = shown(text.as_bytes(), 200));
                }
                Some(log::Told::Reported(text)) => news.push(News::Logged(shown(text.as_bytes(), 200))),
                None => {}
            }
        });
        news
    }

    /// Takes events; what of them is news.
    fn take_events(&mut self, bytes: &[u8], at_ns: i64) -> Vec<News> {
        let mut news = Vec::new();
        for told in self.events.feed(bytes) {
            match told {
                events::Told::Runs => {}
                events::Told::Booting => drop(self.said.booting_ns.get_or_insert(at_ns)),
                events::Told::Booted => drop(self.said.booted_ns.get_or_insert(at_ns)),
                events::Told::Panicked => news.push(News::Panicked),
                events::Told::Resets => news.extend(self.end(GuestEnd::Reset)),
                events::Told::Off => {
                    let failed = self.failed.as_ref().map(|why| format!("a vCPU could not go on: {why}"));
                    news.extend(self.end(failed.map_or(GuestEnd::PowerOff, GuestEnd::Other)));
                }
            }
        }
        news
    }

    /// The machine has ended so, and is kept as it is. Where a vCPU cannot go on, cloud-hypervisor ends in its own way. None if the
    /// machine had ended before, because the guest was started anew.
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
        if let Some(heard) = self.waiting.pop_front() {
            return heard;
        }
        let (ear, at_ns, bytes) = match self.vmm.next(patience) {
            Next::Said { ear, at_ns, bytes } => (ear, at_ns, bytes),
            Next::Silence => return Heard::Silence,
            Next::Ended => return Heard::Gone,
        };
        match ear {
            // That one of its pipes is closed is no news: when all are, it has ended.
            _ if bytes.is_empty() => Heard::News { news: Vec::new(), at_ns },
            Ear::Events => Heard::News { news: self.take_events(&bytes, at_ns), at_ns },
            Ear::Of(source) => {
                if source == Source::Console {
                    self.said.printed_ns.get_or_insert(at_ns);
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
                // At its end no vCPU runs any more, and what still does takes the machine apart.
                if !(self.is_over || self.vmm.process.is_suspended()) {
                    return None;
                }
                Answer::Stopped
            }
            Question::Cpus | Question::Disks | Question::Connections => return None,
        };
        self.asked += 1;
        self.answers.insert(Ticket(self.asked), answer);
        Some(Ticket(self.asked))
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
        // It has nothing to put away. Where a vCPU cannot go on, it is about to end.
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
        let said = &self.said;
        self.vmm.marks(
            &[
                ("monitor ready", said.booting_ns, "cloud-hypervisor's event vm booting: the machine is described"),
                (
                    "machine complete",
                    said.booted_ns,
                    "cloud-hypervisor's event vm booted: the machine was made and its vCPUs started",
                ),
            ],
            // An event comes by another way than the answer, and on a busy host can be heard later than what follows it.
            &Runs {
                known_ns: &[said.booted_ns, said.answered_ns, said.printed_ns],
                since_ns: said.booting_ns,
                evidence: "cloud-hypervisor's answer to vm.boot, its event vm booted, or the guest's first byte: the vCPUs run",
            },
        )
    }
}
