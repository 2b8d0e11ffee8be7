//! Starting QEMU, and ending it.
//!
//! Everything it needs is inherited: pipes, the monitor's socket, guest RAM, the initrd. Time zero is taken just before
//! it is executed, when all else is done. It never outlives us: the kernel kills it when the thread that started it
//! ends (so a [`Vm`] must be started by a thread that stays), and dropping a [`Vm`] kills it too. It is in its own
//! process group: Ctrl-C reaches us, and we end it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::Receiver;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::Error;
use crate::arguments::{Cpu, Inherited, Plugin, arguments};
use crate::child::ends_with_us;
use crate::clock::{Moment, monotonic_ns};
use crate::linker::Linker;
use crate::listen::{Heard, Source, listen};
use crate::monitor::Monitor;
use crate::options::RecordOptions;

/// What is started, and with which instruments.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) options: &'a RecordOptions,
    pub(crate) qemu: &'a Path,
    pub(crate) cpu: Cpu,
    pub(crate) kernel_line: &'a str,
    pub(crate) initrd: Option<&'a File>,
    pub(crate) instruments: Instruments<'a>,
}

/// What watches the boot from outside. With none of it, only console and guest-init's port are heard.
#[derive(Debug, Default)]
pub(crate) struct Instruments<'a> {
    /// Guest RAM in a file of ours.
    pub(crate) ram: bool,
    /// The firmware's debug port.
    pub(crate) firmware: bool,
    /// The plugin's object.
    pub(crate) plugin: Option<&'a Path>,
    /// Where it notes first runs.
    pub(crate) first_run: Option<&'a File>,
    /// Where it notes calls.
    pub(crate) calls: Option<&'a File>,
    /// The dynamic linker's statistics.
    pub(crate) linker: bool,
}

/// A running QEMU.
#[derive(Debug)]
pub(crate) struct Vm {
    pid: Pid,
    exit: Option<Exit>,
    /// Time zero.
    pub(crate) zero: Zero,
    /// CLOCK_MONOTONIC when the program had been executed, at the latest.
    pub(crate) executed_ns: i64,
    pub(crate) heard: Receiver<Heard>,
    pub(crate) monitor: Monitor,
    pub(crate) ram: Option<File>,
    /// Where the plugin notes first runs.
    pub(crate) first_run: Option<File>,
    /// The full command line.
    pub(crate) command: Vec<String>,
    pub(crate) linker: Option<Linker>,
}

/// The moment just before QEMU was executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zero {
    /// CLOCK_MONOTONIC.
    pub(crate) ns: i64,
    /// On both clocks, a moment earlier.
    pub(crate) moment: Option<Moment>,
}

/// How QEMU ended and what it used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    pub(crate) status: ExitStatus,
    pub(crate) max_rss_bytes: u64,
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
}

impl Launch<'_> {
    /// Starts QEMU.
    pub(crate) fn start(&self) -> Result<Vm, Error> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(Error::host("make a pipe"));
        let ((console, to_console), (vmm, to_vmm)) = (pipe()?, pipe()?);
        let (guest, to_guest) = self.options.guest.has_guest_init().then(pipe).transpose()?.unzip();
        let (firmware, to_firmware) = self.instruments.firmware.then(pipe).transpose()?.unzip();
        let (ours, qemus) = UnixStream::pair().map_err(Error::host("make a socket"))?;
        let ram = self.instruments.ram.then(|| memory_file("bootscope-ram")).transpose()?;

        let mut ears = vec![(Source::Console, console), (Source::Vmm, vmm)];
        let also_ours = ours.try_clone().map_err(Error::host("copy a socket"))?;
        ears.push((Source::Monitor, OwnedFd::from(also_ours)));
        ears.extend(guest.map(|fd| (Source::Guest, fd)));
        ears.extend(firmware.map(|fd| (Source::Firmware, fd)));
        let heard = listen(ears)?;
        let monitor = Monitor::new(ours).map_err(Error::host("write to a socket"))?;

        let fds = Inherited {
            monitor: qemus.as_raw_fd(),
            console: to_console.as_raw_fd(),
            guest: to_guest.as_ref().map(AsRawFd::as_raw_fd),
            firmware: to_firmware.as_ref().map(AsRawFd::as_raw_fd),
            ram: ram.as_ref().map(AsRawFd::as_raw_fd),
            initrd: self.initrd.map(AsRawFd::as_raw_fd),
        };
        let mut inherited = vec![qemus.as_fd(), to_console.as_fd()];
        inherited.extend(to_guest.as_ref().map(AsFd::as_fd));
        inherited.extend(to_firmware.as_ref().map(AsFd::as_fd));
        inherited.extend(ram.as_ref().map(AsFd::as_fd));
        inherited.extend(self.initrd.map(AsFd::as_fd));
        inherited.extend(self.instruments.first_run.iter().chain(&self.instruments.calls).map(|file| file.as_fd()));

        let first_run = self.instruments.first_run.map(File::try_clone).transpose();
        let first_run = first_run.map_err(Error::host("copy a file"))?;
        let linker = self.instruments.linker.then(Linker::ask).flatten();
        let mut command = self.command(&to_vmm, linker.as_ref())?;
        inherit(&mut command, &inherited);
        ends_with_us(&mut command);
        let zero = Zero { moment: Moment::now(), ns: monotonic_ns() };
        command.args(self.arguments(&fds, zero)?);
        let child =
            command.spawn().map_err(|e| Error::QemuBroken { binary: self.qemu.to_path_buf(), why: e.to_string() })?;
        let executed_ns = monotonic_ns();
        let pid = Pid::from_child(&child);
        Ok(Vm { pid, exit: None, zero, executed_ns, heard, monitor, ram, first_run, command: words(&command), linker })
    }

    fn arguments(&self, fds: &Inherited, zero: Zero) -> Result<Vec<String>, Error> {
        let plugin = self.instruments.plugin.map(|object| Plugin {
            object,
            fd: self.instruments.first_run.map(AsRawFd::as_raw_fd),
            calls_fd: self.instruments.calls.map(AsRawFd::as_raw_fd),
            zero_ns: zero.ns,
        });
        arguments(self.options, self.cpu, self.kernel_line, fds, plugin.as_ref())
    }

    fn command(&self, to_vmm: &OwnedFd, linker: Option<&Linker>) -> Result<Command, Error> {
        let copy = || to_vmm.try_clone().map(Stdio::from).map_err(Error::host("copy a pipe"));
        let mut command = Command::new(self.qemu);
        command.stdin(Stdio::null()).stdout(copy()?).stderr(copy()?).process_group(0);
        if let Some(path) = linker.and_then(Linker::output) {
            // glibc's linker counts its own cycles and writes them there; others do nothing.
            command.env("LD_DEBUG", "statistics").env("LD_DEBUG_OUTPUT", path);
        }
        Ok(command)
    }
}

/// Lets the child keep these descriptors, under the numbers they have.
fn inherit(command: &mut Command, fds: &[BorrowedFd<'_>]) {
    let numbers: Vec<i32> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let in_child = move || {
        for &number in &numbers {
            // SAFETY: the child is a copy of this process, in which the caller held these descriptors open across the
            // call of `spawn`; nothing has run in it since that could have closed them.
            let fd = unsafe { BorrowedFd::borrow_raw(number) };
            fcntl_setfd(fd, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only what is async-signal-safe may run: this makes plain system calls (fcntl),
    // allocates nothing (the list was made before) and takes no lock.
    unsafe { command.pre_exec(in_child) };
}

impl Vm {
    /// Nanoseconds since time zero.
    pub(crate) fn elapsed_ns(&self) -> i64 {
        monotonic_ns() - self.zero.ns
    }

    /// QEMU's process.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Kills QEMU, if it still runs, and what it started.
    pub(crate) fn kill(&mut self) {
        if self.exit.is_none() {
            // It leads its own process group, whose number is no other's until QEMU is reaped. It can only fail because
            // QEMU has ended by itself.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
    }

    /// Waits for QEMU's end, and tells what it used.
    pub(crate) fn wait(&mut self) -> Result<Exit, Error> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let exit = reap(self.pid).map_err(Error::host("wait for QEMU"))?;
        self.exit = Some(exit);
        Ok(exit)
    }
}

impl Drop for Vm {
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
        status: ExitStatus::from_raw(status),
        // Linux counts it in KiB.
        max_rss_bytes: unsigned(usage.ru_maxrss) * 1024,
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
    })
}

/// A file that is only memory and is gone with its last user.
pub(crate) fn memory_file(name: &str) -> Result<File, Error> {
    memfd_create(name, MemfdFlags::CLOEXEC).map(File::from).map_err(Error::host("make a file in memory"))
}

fn words(command: &Command) -> Vec<String> {
    let all = std::iter::once(command.get_program()).chain(command.get_args());
    all.map(|word| word.to_string_lossy().into_owned()).collect()
}
