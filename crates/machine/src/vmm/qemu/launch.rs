//! Starts QEMU, talks to it, and ends it.
//!
//! QEMU inherits all it needs: pipes, the monitor's socket, guest RAM, the initrd. Time zero is taken just before it is executed, when
//! everything else is prepared. QEMU must not outlive bootscope. The kernel kills it when the thread that started it ends, so that
//! thread must stay. Dropping a [`Machine`] kills it too. It runs in its own process group: Ctrl-C reaches bootscope, which then ends
//! QEMU.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};

use super::NAME;
use super::arguments::{Cpu, Inherited, Plugin, arguments};
use super::linker::Linker;
use super::monitor::{Event, Monitor};
use super::mtree::ram_extents;
use super::replies::{accepted, disk_requests, stands};
use super::set_up::{Milestones, marks};
use crate::Error;
use crate::arch::{self, Arch};
use crate::child::{ends_with_us, inherit, words};
use crate::clock::{Moment, monotonic_ns};
use crate::cpu_time::CpuTimes;
use crate::host::memory_file;
use crate::vmm::listen::{Content, Piece, listen, piece_queue};
use crate::vmm::process::Process;
use crate::vmm::{
    ARRIVAL_ERROR_NS, Answer, Cpus, Exit, Heard, Instruments, Launch, News, Question, SetUpMark, Source, Ticket, Vmm,
    Zero,
};

/// The human monitor's command that shows all CPUs' registers.
const REGISTERS: &str = "info registers -a";
const REGISTERS_ORIGIN: &str = "QEMU's `info registers -a`, at the end";

/// The source of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// Output that is recorded.
    Recorded(Source),
    /// QEMU's monitor.
    Monitor,
}

/// A running QEMU.
#[derive(Debug)]
pub(super) struct Machine {
    process: Process,
    zero: Zero,
    /// The program was executed at this time or earlier.
    executed_ns: i64,
    pieces: Receiver<Piece<Input>>,
    monitor: Monitor,
    /// The recorder's end of the connection to the gdbstub, until it is taken.
    gdbstub: Option<UnixStream>,
    milestones: Milestones,
    /// The questions that are not answered yet.
    questions: BTreeMap<Ticket, Question>,
    ram: Option<File>,
    /// The file for the plugin's first-execution trace.
    first_executions: Option<File>,
    command: Vec<String>,
    linker: Option<Linker>,
    arch: &'static Arch,
}

/// The id of guest RAM's memory backend.
const RAM_ID: &str = "ram";

/// Starts the QEMU at this path, with these CPUs. `environment` configures the plugin before it is installed.
pub(super) fn start(
    qemu: &Path,
    cpu: Cpu,
    environment: Option<(&str, String)>,
    launch: &Launch<'_>,
) -> Result<Machine, Error> {
    let instruments = &launch.instruments;
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(Error::host("make a pipe"));
    let ((console, to_console), (vmm, to_vmm)) = (pipe()?, pipe()?);
    let (guest, to_guest) = launch.channel.is_some().then(pipe).transpose()?.unzip();
    let (firmware, to_firmware) = instruments.firmware.is_some().then(pipe).transpose()?.unzip();
    let (ours, qemus) = UnixStream::pair().map_err(Error::host("make a socket"))?;
    let gdbstub = || UnixStream::pair().map_err(Error::host("make a socket"));
    let (gdbstub, to_gdbstub) = instruments.gdbstub.then(gdbstub).transpose()?.unzip();
    let ram = instruments.ram.then(|| memory_file("bootscope-ram")).transpose()?;

    let mut inputs = vec![(Input::Recorded(Source::Console), console), (Input::Recorded(Source::Vmm), vmm)];
    inputs.extend(guest.map(|fd| (Input::Recorded(Source::Guest), fd)));
    inputs.extend(firmware.map(|fd| (Input::Recorded(Source::Firmware), fd)));
    // The monitor is last, so that the guest's output from before its end is received before the news of that end.
    let also_ours = ours.try_clone().map_err(Error::host("copy a socket"))?;
    inputs.push((Input::Monitor, OwnedFd::from(also_ours)));
    let (sender, pieces) = piece_queue();
    listen(inputs, sender)?;
    let monitor = Monitor::new(ours, instruments.held).map_err(Error::host("write to a socket"))?;

    let fds = Inherited {
        monitor: qemus.as_raw_fd(),
        gdbstub: to_gdbstub.as_ref().map(AsRawFd::as_raw_fd),
        console: to_console.as_raw_fd(),
        guest: to_guest.as_ref().map(AsRawFd::as_raw_fd).zip(launch.channel),
        firmware: to_firmware.as_ref().map(AsRawFd::as_raw_fd).zip(instruments.firmware),
        ram: ram.as_ref().map(AsRawFd::as_raw_fd),
        initrd: launch.initrd.map(AsRawFd::as_raw_fd),
        port: instruments.port,
    };
    let mut inherited = vec![qemus.as_fd(), to_console.as_fd()];
    inherited.extend(to_gdbstub.as_ref().map(AsFd::as_fd));
    inherited.extend(to_guest.as_ref().map(AsFd::as_fd));
    inherited.extend(to_firmware.as_ref().map(AsFd::as_fd));
    inherited.extend(ram.as_ref().map(AsFd::as_fd));
    inherited.extend(launch.initrd.map(AsFd::as_fd));
    inherited.extend(instruments.plugin_files().map(|file| file.as_fd()));

    let first_executions = instruments.first_executions.map(File::try_clone).transpose();
    let first_executions = first_executions.map_err(Error::host("copy a file"))?;
    let linker = instruments.linker.then(Linker::ask).flatten();
    let mut command = command(qemu, &to_vmm, linker.as_ref())?;
    command.envs(environment);
    inherit(&mut command, &inherited);
    ends_with_us(&mut command);
    let zero = Zero { moment: Moment::now(), ns: monotonic_ns() };
    let plugin = plugin(instruments, zero);
    command.args(arguments(launch.guest, cpu, launch.kernel_line, &fds, plugin.as_ref())?);
    let broken = |e: io::Error| Error::VmmBroken { binary: qemu.to_path_buf(), why: e.to_string().into() };
    let child = command.spawn().map_err(broken)?;
    Ok(Machine {
        process: Process::new(&child),
        zero,
        executed_ns: monotonic_ns() - zero.ns,
        pieces,
        monitor,
        gdbstub,
        milestones: Milestones::default(),
        questions: BTreeMap::new(),
        ram,
        first_executions,
        command: words(&command),
        linker,
        arch: arch::of(launch.guest),
    })
}

fn plugin<'a>(instruments: &Instruments<'a>, zero: Zero) -> Option<Plugin<'a>> {
    instruments.plugin.map(|object| Plugin {
        object,
        fd: instruments.first_executions.map(AsRawFd::as_raw_fd),
        calls_fd: instruments.calls.map(AsRawFd::as_raw_fd),
        exits_fd: instruments.exits.map(AsRawFd::as_raw_fd),
        min_call_ns: instruments.min_call_ns,
        user_blocks: instruments.user_blocks,
        zero_ns: zero.ns,
    })
}

fn command(qemu: &Path, to_vmm: &OwnedFd, linker: Option<&Linker>) -> Result<Command, Error> {
    let copy = || to_vmm.try_clone().map(Stdio::from).map_err(Error::host("copy a pipe"));
    let mut command = Command::new(qemu);
    command.stdin(Stdio::null()).stdout(copy()?).stderr(copy()?).process_group(0);
    if let Some(path) = linker.and_then(Linker::output) {
        // glibc's linker counts its own cycles and writes them there. Other linkers ignore these variables.
        command.env("LD_DEBUG", "statistics").env("LD_DEBUG_OUTPUT", path);
    }
    Ok(command)
}

impl Machine {
    fn take_events(&mut self, bytes: &[u8], at_ns: i64) -> Vec<News> {
        let mut all = Vec::new();
        for event in self.monitor.feed(bytes) {
            match event {
                Event::Greeting => {
                    self.milestones.greeting_ns.get_or_insert(at_ns);
                    self.linker.as_mut().map(Linker::read);
                }
                Event::Complete => drop(self.milestones.complete_ns.get_or_insert(at_ns)),
                Event::News(news) => {
                    if news == News::Running {
                        self.milestones.running_ns.get_or_insert(at_ns);
                    }
                    all.push(news);
                }
            }
        }
        all
    }
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
        loop {
            let piece = match self.pieces.recv_timeout(patience) {
                Ok(piece) => piece,
                Err(RecvTimeoutError::Timeout) => return Heard::Silence,
                Err(RecvTimeoutError::Disconnected) => return Heard::Gone,
            };
            let at_ns = piece.at_ns - self.zero.ns;
            match (piece.input, piece.content) {
                // QEMU has ended when all inputs have.
                (_, Content::Ended(_)) => {}
                (Input::Recorded(source), Content::Bytes(bytes)) => return Heard::Said { source, at_ns, bytes },
                (Input::Monitor, Content::Bytes(bytes)) => {
                    return Heard::News { news: self.take_events(&bytes, at_ns), at_ns };
                }
            }
        }
    }

    fn ask(&mut self, question: Question) -> Option<Ticket> {
        let words = match question {
            Question::Ram => "info mtree -f",
            Question::Cpus => REGISTERS,
            Question::Disks => "info blockstats",
            Question::Connections => "info usernet",
            Question::Stop => "stop",
        };
        let ticket = Ticket(self.monitor.ask(words).ok()?);
        self.questions.insert(ticket, question);
        Some(ticket)
    }

    fn answer(&mut self, ticket: Ticket) -> Option<Option<Answer>> {
        let answer = self.monitor.answer(ticket.0)?;
        let question = self.questions.remove(&ticket);
        Some(question.zip(answer.ok()).and_then(|(question, text)| match question {
            Question::Ram => ram_extents(&text, RAM_ID).ok().map(Answer::Ram),
            Question::Cpus => Some(Answer::Cpus(Cpus {
                stands: stands(&text, self.arch.facts.qemu.instruction_pointers),
                text,
                origin: REGISTERS_ORIGIN,
            })),
            Question::Disks => Some(Answer::Disks(disk_requests(&text))),
            Question::Connections => Some(Answer::Accepted(accepted(&text))),
            Question::Stop => Some(Answer::Stopped),
        }))
    }

    fn gdbstub(&mut self) -> Option<UnixStream> {
        self.gdbstub.take()
    }

    fn resume_vcpus(&mut self) {
        // This can fail only if QEMU has ended.
        let _ = self.monitor.cont();
    }

    fn ram(&self) -> Option<&File> {
        self.ram.as_ref()
    }

    fn instrument_bytes(&self) -> u64 {
        self.first_executions.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |meta| meta.len())
    }

    fn cpu_times(&self) -> CpuTimes {
        CpuTimes::of(self.process.pid())
    }

    fn is_suspended(&self) -> bool {
        self.process.is_stopped()
    }

    fn quit(&mut self) -> bool {
        self.monitor.quit().is_ok()
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

    fn set_up(&mut self, counter_hz: Option<f64>) -> Vec<SetUpMark> {
        let linker = self.linker.as_mut().map_or("", Linker::read);
        marks(self.executed_ns, &self.milestones, linker, counter_hz)
    }
}
