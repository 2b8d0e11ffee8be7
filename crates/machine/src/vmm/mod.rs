//! The virtual machine monitor: what a recorder needs of it, and nothing of how one does it.
//!
//! A [`Program`] is found once and starts machines; a [`Vmm`] is a machine that was started. The watcher
//! receives what it says, piece by piece ([`Heard`]), and asks it for what only it knows ([`Question`]). While the watcher waits
//! for an answer it goes on receiving, so a question never delays the stamps of arrivals.
//!
//! Only `qemu/` knows QEMU: its options, its monitor's language, the form of its answers. So it is with `firecracker/` and `cloud_hypervisor/`,
//! which share an API over HTTP ([`api`]). `serial/` is a board on a serial port, which is heard and cannot be asked. Another VMM is another folder and a line in [`find`]. Nothing here
//! decides what a fact means: see [`crate::ending`].

mod api;
mod asked;
pub(crate) mod channel;
pub(crate) mod cloud_hypervisor;
pub(crate) mod firecracker;
mod folder;
mod listen;
mod process;
pub(crate) mod qemu;
pub(crate) mod serial;
mod started;
#[cfg(test)]
pub(crate) mod stub;

use std::fmt;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recording::{GuestSpec, VmmKind};
use serde::Serialize;

use crate::Error;
use crate::clock::Moment;
use crate::cpu_time::CpuTimes;
use crate::memory::Extent;
use channel::Wire;

/// How late what is said on a pipe is stamped, at most, on a host that is not overloaded.
pub(crate) const ARRIVAL_ERROR_NS: i64 = 1_000_000;

/// The program that a guest asks for, or the port of a board.
///
/// # Errors
/// If it is not there, does not run, or is too old.
pub(crate) fn find(guest: &GuestSpec) -> Result<Box<dyn Program>, Error> {
    Ok(match (&guest.board, guest.vmm) {
        (Some(board), _) => Box::new(serial::Line::of(board)?),
        (None, VmmKind::Qemu) => Box::new(qemu::Qemu::find(&guest.qemu)?),
        (None, VmmKind::Firecracker) => Box::new(firecracker::Firecracker::find(&guest.qemu)?),
        (None, VmmKind::CloudHypervisor) => Box::new(cloud_hypervisor::CloudHypervisor::find(&guest.qemu)?),
    })
}

/// A VMM that is installed here.
pub(crate) trait Program: fmt::Debug {
    /// What people call it.
    fn name(&self) -> &'static str;

    /// Where it is.
    fn path(&self) -> &Path;

    /// Its version, as it says.
    fn version(&self) -> &str;

    /// Says what this guest asks for that this version cannot do, or cannot do twice alike where that is asked for.
    /// `spared` are devices that this guest sends no request, and `yields` whether its waiting CPUs let others run.
    ///
    /// # Errors
    /// If there is anything.
    fn check(&self, guest: &GuestSpec, spared: &[&str], yields: bool) -> Result<(), Error>;

    /// bootscope's plugin, if this version loads it; or why not.
    fn plugin(&self) -> Result<PathBuf, String>;

    /// Whether its guests run by KVM alone.
    fn needs_kvm(&self) -> bool {
        false
    }

    /// Whether guest RAM can be a file of ours, so that logs and traces are read there.
    fn shows_memory(&self) -> bool {
        true
    }

    /// Starts a machine. The thread that calls this must stay until the machine has ended: it ends with its thread.
    ///
    /// # Errors
    /// If the machine cannot be described, or the program cannot be executed.
    fn start(&self, launch: &Launch<'_>) -> Result<Box<dyn Vmm>, Error>;
}

/// What is started, and with which instruments.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) guest: &'a GuestSpec,
    /// Whether the host's hardware runs the guest's instructions.
    pub(crate) kvm: bool,
    pub(crate) kernel_line: &'a str,
    pub(crate) initrd: Option<&'a File>,
    /// Where the guest writes its messages, if it does.
    pub(crate) channel: Option<Wire>,
    pub(crate) instruments: Instruments<'a>,
}

/// What watches the boot from outside. With none of it, only console and channel are heard.
#[derive(Debug, Default)]
pub(crate) struct Instruments<'a> {
    /// Guest RAM in a file of ours.
    pub(crate) ram: bool,
    /// The firmware's debug port.
    pub(crate) firmware: Option<u16>,
    /// The plugin's object.
    pub(crate) plugin: Option<&'a Path>,
    /// Where it notes first executions.
    pub(crate) first_executions: Option<&'a File>,
    /// Where it notes calls.
    pub(crate) calls: Option<&'a File>,
    /// The shortest call that it notes with its times.
    pub(crate) min_call_ns: Option<u64>,
    /// After how many blocks of user space it notes no more first executions.
    pub(crate) user_blocks: Option<u32>,
    /// The dynamic linker's statistics.
    pub(crate) linker: bool,
    /// A gdbstub, through which vCPUs can be stopped and read.
    pub(crate) gdbstub: bool,
    /// The port of the host that leads to the guest's, where a service of the guest's is waited for.
    pub(crate) port: Option<u16>,
    /// Whether the vCPUs wait at their first instruction until somebody lets them run.
    pub(crate) held: bool,
}

/// A machine that was started. Dropping it ends it.
///
/// Times are ns since time zero, unless they say otherwise. One that can only be heard leaves what it has not as it is here.
pub(crate) trait Vmm: fmt::Debug {
    /// What people call it.
    fn name(&self) -> &'static str;

    /// Time zero. Until a board is switched on it is not known, and no time passes.
    fn zero(&self) -> Zero;

    /// Now.
    fn elapsed_ns(&self) -> i64;

    /// Time since listening began: the same, but it also passes before a board is switched on.
    fn listened_ns(&self) -> i64 {
        self.elapsed_ns()
    }

    /// True if a signal has stopped its process (SIGSTOP), so that it answers nothing.
    fn is_suspended(&self) -> bool {
        false
    }

    /// The full command line.
    fn command(&self) -> &[String];

    /// Waits for something to be said, so long at most.
    fn hear(&mut self, patience: Duration) -> Heard;

    /// Asks, and waits for nothing: the answer comes while one hears on. None if it cannot be asked.
    fn ask(&mut self, _question: Question) -> Option<Ticket> {
        None
    }

    /// The answer to a question, if it has come: and that may be a refusal.
    fn answer(&mut self, _ticket: Ticket) -> Option<Option<Answer>> {
        Some(None)
    }

    /// The connection to its gdbstub, if one was asked for: once.
    fn gdbstub(&mut self) -> Option<UnixStream> {
        None
    }

    /// Lets the vCPUs run on, which somebody may have stopped by the gdbstub and not let go.
    fn let_run(&mut self) {}

    /// The file that guest RAM is, if it was asked for.
    fn ram(&self) -> Option<&File> {
        None
    }

    /// How much the instruments have noted: it grows while code runs that never ran before.
    fn noted_bytes(&self) -> u64 {
        0
    }

    /// What its threads have used of the host's CPUs.
    fn cpu_times(&self) -> CpuTimes;

    /// Asks it to end; whether that could be said.
    fn quit(&mut self) -> bool;

    /// Ends it, if it still runs, and what it started.
    fn kill(&mut self);

    /// Waits for its end, and tells what it used.
    ///
    /// # Errors
    /// If the system refuses.
    fn wait(&mut self) -> Result<Exit, Error>;

    /// How far off the stamps of what it says may be, on a host that is not overloaded.
    fn arrival_error_ns(&self) -> i64;

    /// What the user has to do now for the machine to start, in a sentence; none if nothing.
    fn wants(&self) -> Option<String> {
        None
    }

    /// What a reader should know of how it was heard, in sentences.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// How it set the machine up, as far as that was seen. `counter_hz` is the rate of the host's counter, if known.
    fn set_up(&mut self, counter_hz: Option<f64>) -> Vec<SetUpMark>;
}

/// The moment just before the program was executed, or when a board was switched on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zero {
    /// CLOCK_MONOTONIC.
    pub(crate) ns: i64,
    /// On both clocks, a moment earlier.
    pub(crate) moment: Option<Moment>,
}

/// What one hears in a moment.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Somebody said something.
    Said { source: Source, at_ns: i64, bytes: Vec<u8> },
    /// The VMM told something of the machine; nothing, where that was only an answer.
    News { news: Vec<News>, at_ns: i64 },
    /// Nothing was said in that time.
    Silence,
    /// The VMM has ended, and all that it said was heard.
    Gone,
}

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The console.
    Console,
    /// The firmware's debug port.
    Firmware,
    /// The guest's channel.
    Guest,
    /// The VMM's standard output and standard error.
    Vmm,
}

/// Something about the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The guest's CPUs run.
    Running,
    /// They were stopped.
    Stopped,
    /// The guest is at its end.
    Off(GuestEnd),
    /// The guest told the VMM that it panicked.
    Panicked,
    /// A line that the VMM logs because the guest asked for it: it may be the end mark.
    Logged(String),
}

/// Why a guest is at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GuestEnd {
    /// It reset the machine.
    Reset,
    /// It switched the machine off.
    PowerOff,
    /// It panicked, and the VMM stopped it for that.
    Panic,
    /// Somebody told the VMM to end.
    Asked,
    /// Another reason, in the VMM's word.
    Other(String),
}

/// What only the VMM knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Where guest RAM lies in its file.
    Ram,
    /// Where the CPUs stand.
    Cpus,
    /// How much the disks were asked for.
    Disks,
    /// Which connections from the host the guest has accepted.
    Connections,
    /// That it stops the CPUs, and that they stand.
    Stop,
}

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Guest RAM.
    Ram(Vec<Extent>),
    /// The CPUs.
    Cpus(Cpus),
    /// Requests to all disks so far.
    Disks(u64),
    /// Of each accepted connection, the port of the host's that it came to.
    Accepted(Vec<u16>),
    /// The CPUs stand.
    Stopped,
}

/// The CPUs, as the VMM sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// Where each stands.
    pub(crate) stands: Vec<Stand>,
    /// All registers, for people.
    pub(crate) text: String,
    /// Where that text is from.
    pub(crate) origin: &'static str,
}

/// Where a CPU stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stand {
    pub(crate) halted: bool,
    pub(crate) address: u64,
}

/// A question that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(crate) u64);

/// How the VMM ended.
#[derive(Clone, Debug)]
pub(crate) struct Exit {
    /// In words that follow its name.
    pub(crate) how: String,
    /// None of what is no process.
    pub(crate) used: Option<Used>,
}

/// What the VMM's process used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) max_rss_bytes: u64,
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
}

/// A moment of the set-up, as `vmm.json` lists them, in order of time.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SetUpMark {
    pub(crate) name: &'static str,
    pub(crate) at_ns: i64,
    pub(crate) error_ns: i64,
    pub(crate) evidence: String,
}
