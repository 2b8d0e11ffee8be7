//! The interface between the recorder and a virtual machine monitor (VMM). It must not depend on one VMM.
//!
//! A [`Program`] is found once and starts machines. A [`Vmm`] is a machine that was started. The watcher receives its output piece
//! by piece ([`Heard`]), and sends it a [`Question`] about the machine's state. While the watcher waits for an answer it goes on
//! receiving, so a question never delays the stamps of arrivals.
//!
//! The options, the monitor protocol and the answer formats of QEMU stay within `qemu/`. `firecracker/` and `cloud_hypervisor/`
//! contain theirs, and share an API over HTTP ([`api`]). `serial/` is a board on a serial port, which answers no questions.
//! Another VMM is another folder and a line in [`find`]. This module does not interpret facts: see [`crate::ending`].

mod api;
mod api_vmm;
pub(crate) mod cloud_hypervisor;
pub(crate) mod firecracker;
mod listen;
mod process;
pub(crate) mod qemu;
pub(crate) mod serial;
mod socket_folder;
#[cfg(test)]
pub(crate) mod stub;
mod unsupported_options;

use std::fmt;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recording::{GuestSpec, Target, VmmKind};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::clock::Moment;
use crate::cpu_time::CpuTimes;
use crate::guest_channel::Wire;
use crate::memory::Extent;
use crate::refusal::Text;

/// The reason why a device makes one boot differ from the next.
pub(crate) const WHY_NOT_REPEATED: &str =
    "its requests are answered by the host's clock, and the boot would not repeat";

/// Output on a pipe is stamped at most this late, on a host that is not overloaded.
pub(crate) const ARRIVAL_ERROR_NS: i64 = 1_000_000;

/// Finds the program that the guest specification names, or the port of its board.
///
/// # Errors
/// If it is not there, does not run, or is too old.
pub(crate) fn find(guest: &GuestSpec) -> Result<Box<dyn Program>, Error> {
    Ok(match &guest.target {
        Target::Board(board) => Box::new(serial::BoardPort::of(board)?),
        Target::Vmm { kind: VmmKind::Qemu, program } => Box::new(qemu::Qemu::find(program)?),
        Target::Vmm { kind: VmmKind::Firecracker, program } => Box::new(firecracker::Firecracker::find(program)?),
        Target::Vmm { kind: VmmKind::CloudHypervisor, program } => {
            Box::new(cloud_hypervisor::CloudHypervisor::find(program)?)
        }
    })
}

/// A VMM that is installed here.
pub(crate) trait Program: fmt::Debug {
    /// The name for messages to the user.
    fn name(&self) -> &'static str;

    fn path(&self) -> &Path;

    /// The version that the program reports.
    fn version(&self) -> &str;

    /// Checks that this version can run the guest, and can repeat the boot exactly if the guest is deterministic.
    /// `spared` are devices to which this guest sends no request. `yields` is true if its waiting CPUs let others run.
    ///
    /// # Errors
    /// The first option that this version does not support.
    fn check(&self, guest: &GuestSpec, spared: &[&str], yields: bool) -> Result<(), Error>;

    /// The path of bootscope's plugin, if this version loads it. The error is the reason why not.
    fn plugin(&self) -> Result<PathBuf, String>;

    /// True if its guests run only with KVM.
    fn needs_kvm(&self) -> bool {
        false
    }

    /// True if guest RAM can be a file of bootscope's, from which logs and traces are read.
    fn shows_memory(&self) -> bool {
        true
    }

    /// The demands of the guest's machine; `None` if they cannot be asked for.
    fn machine_facts(&self, _guest: &GuestSpec) -> Option<MachineFacts> {
        None
    }

    /// Starts a machine. The calling thread must stay until the machine has ended, because the machine ends with its thread.
    ///
    /// # Errors
    /// If the machine cannot be described, or the program cannot be executed.
    fn start(&self, launch: &Launch<'_>) -> Result<Box<dyn Vmm>, Error>;
}

/// The demands and devices of a machine, as its VMM makes it without a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MachineFacts {
    /// bootscope's default number of CPUs, or the machine's own if it refuses that.
    pub(crate) cpus: u32,
    /// bootscope's default size of memory, or the machine's own if it refuses that.
    pub(crate) memory_bytes: u64,
    /// True if guest RAM can be a file of bootscope's.
    pub(crate) takes_memory_file: bool,
    /// True if a device with I/O ports can be added.
    pub(crate) has_io_ports: bool,
    /// True if it makes a device tree for the kernel. `None` if the VMM does not say.
    pub(crate) makes_device_tree: Option<bool>,
}

/// The machine to start, and its instruments.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) guest: &'a GuestSpec,
    /// True if the host's hardware runs the guest's instructions.
    pub(crate) kvm: bool,
    pub(crate) kernel_line: &'a str,
    pub(crate) initrd: Option<&'a File>,
    /// The device to which the guest writes its messages, if it has one.
    pub(crate) channel: Option<Wire>,
    pub(crate) instruments: Instruments<'a>,
}

/// The instruments that watch the boot from outside. Without any, only the console and the channel are recorded.
#[derive(Debug, Default)]
pub(crate) struct Instruments<'a> {
    /// True if guest RAM is a file of bootscope's.
    pub(crate) ram: bool,
    /// The firmware's debug port.
    pub(crate) firmware: Option<u16>,
    /// The plugin's shared object.
    pub(crate) plugin: Option<&'a Path>,
    /// The file for the plugin's first-execution trace.
    pub(crate) first_executions: Option<&'a File>,
    /// The file for the plugin's call trace.
    pub(crate) calls: Option<&'a File>,
    /// The file for the plugin's counts of accesses that leave the guest.
    pub(crate) exits: Option<&'a File>,
    /// The plugin records the times of calls that took at least this long.
    pub(crate) min_call_ns: Option<u64>,
    /// After this number of blocks of user space, the plugin records no more first executions.
    pub(crate) user_blocks: Option<u32>,
    /// True if the dynamic linker's statistics are recorded.
    pub(crate) linker: bool,
    /// True if the machine has a gdbstub, through which vCPUs can be stopped and read.
    pub(crate) gdbstub: bool,
    /// The host port that is forwarded to the guest port of the awaited service.
    pub(crate) port: Option<u16>,
    /// True if the vCPUs wait at their first instruction until the recorder resumes them.
    pub(crate) held: bool,
}

impl<'a> Instruments<'a> {
    /// The files that the plugin writes.
    pub(crate) fn plugin_files(&self) -> impl Iterator<Item = &'a File> {
        [self.first_executions, self.calls, self.exits].into_iter().flatten()
    }
}

/// A machine that was started. Dropping it ends it.
///
/// Times are ns since time zero, unless documented otherwise. A machine with only a serial port (a board) keeps these defaults.
pub(crate) trait Vmm: fmt::Debug {
    /// The name for messages to the user.
    fn name(&self) -> &'static str;

    /// Time zero. Before a board is switched on, it is the present moment.
    fn zero(&self) -> Zero;

    /// The present time. It stays 0 until a board is switched on.
    fn elapsed_ns(&self) -> i64;

    /// The time since listening began. It equals `elapsed_ns`, but also advances before a board is switched on.
    fn listened_ns(&self) -> i64 {
        self.elapsed_ns()
    }

    /// True if a signal (SIGSTOP) has stopped its process, which then answers no question.
    fn is_suspended(&self) -> bool {
        false
    }

    /// The full command line.
    fn command(&self) -> &[String];

    /// Waits for output or news, at most for `patience`.
    fn hear(&mut self, patience: Duration) -> Heard;

    /// Sends a question without waiting: the answer arrives during later calls of `hear`. `None` if it cannot be sent.
    fn ask(&mut self, _question: Question) -> Option<Ticket> {
        None
    }

    /// The answer to a question: `None` if it has not arrived yet, `Some(None)` if the VMM refused.
    fn answer(&mut self, _ticket: Ticket) -> Option<Option<Answer>> {
        Some(None)
    }

    /// The connection to its gdbstub, if the machine was started with one. Only the first call returns it.
    fn gdbstub(&mut self) -> Option<UnixStream> {
        None
    }

    /// Resumes the vCPUs, which a gdbstub client may have left stopped.
    fn resume_vcpus(&mut self) {}

    /// The file that holds guest RAM, if the machine was started with one.
    fn ram(&self) -> Option<&File> {
        None
    }

    /// The size of the instruments' records. It grows while code runs that never ran before.
    fn instrument_bytes(&self) -> u64 {
        0
    }

    /// The host CPU time that its threads have used.
    fn cpu_times(&self) -> CpuTimes;

    /// Requests its end. Returns true if the request was sent.
    fn quit(&mut self) -> bool;

    /// Ends it, if it still runs, and the processes that it started.
    fn kill(&mut self);

    /// Waits for its end, and returns its exit status and resource usage.
    ///
    /// # Errors
    /// If the system refuses.
    fn wait(&mut self) -> Result<Exit, Error>;

    /// The largest error of its output's stamps, on a host that is not overloaded.
    fn arrival_error_ns(&self) -> i64;

    /// The action that the user has to take now for the machine to start, as a sentence.
    fn wants(&self) -> Option<String> {
        None
    }

    /// Notes for the recording on the quality of the output and its stamps, in sentences.
    fn notes(&self) -> Vec<Text> {
        Vec::new()
    }

    /// The steps of the machine's set-up that were observed. `counter_hz` is the rate of the host's counter, if known.
    fn set_up(&mut self, counter_hz: Option<f64>) -> Vec<SetUpMark>;
}

/// The moment just before the program was executed, or when a board was switched on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zero {
    /// CLOCK_MONOTONIC.
    pub(crate) ns: i64,
    /// The same on both clocks, read shortly before.
    pub(crate) moment: Option<Moment>,
}

/// The result of one wait for output.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Output from a source.
    Said { source: Source, at_ns: i64, bytes: Vec<u8> },
    /// News of the machine from the VMM. It is empty if the VMM only answered a question.
    News { news: Vec<News>, at_ns: i64 },
    /// No output and no news arrived in that time.
    Silence,
    /// The VMM has ended, and all its output was received.
    Gone,
}

/// The source of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The serial console.
    Console,
    /// The firmware's debug port.
    Firmware,
    /// The guest's channel.
    Guest,
    /// The VMM's standard output and standard error.
    Vmm,
}

/// A change of the machine's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The guest's CPUs run.
    Running,
    /// They were stopped.
    Stopped,
    /// The guest has ended.
    Off(GuestEnd),
    /// The guest reported to the VMM that it panicked.
    Panicked,
    /// A line that the guest caused the VMM to log. It may be the end mark.
    Logged(String),
}

/// The reason why a guest has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GuestEnd {
    /// It reset the machine.
    Reset,
    /// It switched the machine off.
    PowerOff,
    /// It panicked, and the VMM stopped it for that.
    Panic,
    /// The VMM was requested to end.
    Asked,
    /// Another reason, as the VMM names it.
    Other(String),
}

/// A question that only the VMM can answer, or a request to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// The layout of guest RAM in its file.
    Ram,
    /// The instruction each CPU is at.
    Cpus,
    /// The number of requests to the disks.
    Disks,
    /// The connections from the host that the guest has accepted.
    Connections,
    /// A request to stop the CPUs. The answer says that they have stopped.
    Stop,
}

/// The VMM's answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The layout of guest RAM in its file.
    Ram(Vec<Extent>),
    Cpus(Cpus),
    /// The number of requests to all disks since the start.
    Disks(u64),
    /// The host port of each accepted connection.
    Accepted(Vec<u16>),
    /// The CPUs have stopped.
    Stopped,
}

/// The CPUs, as the VMM reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// The position of each CPU.
    pub(crate) stands: Vec<Stand>,
    /// All registers, as text for the user.
    pub(crate) text: String,
    /// The origin of that text.
    pub(crate) origin: &'static str,
}

/// The position of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stand {
    pub(crate) halted: bool,
    pub(crate) address: u64,
}

/// The number of a question that was sent, by which its answer is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(crate) u64);

/// The end of the VMM.
#[derive(Clone, Debug)]
pub(crate) struct Exit {
    /// The predicate of a sentence whose subject is the VMM's name.
    pub(crate) how: String,
    /// `None` for a board, which has no process.
    pub(crate) used: Option<Used>,
}

/// The resource usage of the VMM's process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) max_rss_bytes: u64,
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
}

/// A step of the machine's set-up. `vmm.json` lists them in order of time.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SetUpMark {
    pub(crate) name: &'static str,
    pub(crate) at_ns: i64,
    pub(crate) error_ns: i64,
    pub(crate) evidence: String,
}
