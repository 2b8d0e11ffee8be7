//! The user's workload: a command that the root's shell runs after the evidence transfer, and the memory used after it.
//!
//! The root's folders /dev, /proc and /sys, if it has them, are mounted while the workload runs. guest-init then sends
//! a line each second, so that the host does not take the silence for a hang. If the workload fails, guest-init reports
//! it and does not measure memory: the figures would not be the workload's.

use crate::arch::Port;
use crate::arch::port_io::{allow_ports, tsc};
use crate::gather;
use crate::mounts::Mounts;
use guest_init::config::Config;
use guest_init::cpio::SYSROOT_PATH;
use guest_init::messages::{Lacked, Message};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

const SHELL: &str = "/bin/sh";
/// The value that a login would set.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const PSEUDO: [(&str, &str); 3] = [("devtmpfs", "dev"), ("proc", "proc"), ("sysfs", "sys")];

/// Runs the workload, if there is one.
pub fn run(port: Port, config: &Config, mounts: &Mounts) {
    let Some(command) = &config.workload else { return };
    let mounted = pseudo_file_systems();
    match spawn_shell(command).and_then(|child| wait_for_end(port, child)) {
        Ok(status) if status.success() => gather::memory_after_workload(port, config, mounts),
        Ok(status) => port.report_lack(Lacked::Workload, status),
        Err(e) => port.report_lack(Lacked::Workload, format_args!("{SHELL} of the root cannot be started: {e}")),
    }
    for at in mounted.iter().rev() {
        unmount(at, UnmountFlags::DETACH)
            .unwrap_or_else(|e| port.report_lack("unmount", format_args!("{}: {e}", at.display())));
    }
}

/// Mounts the pseudo file systems, and returns those that could be mounted. The command itself reports the others if it
/// needs them.
fn pseudo_file_systems() -> Vec<PathBuf> {
    let mounted = PSEUDO.iter().filter_map(|(kind, folder)| {
        let at = Path::new(SYSROOT_PATH).join(folder);
        mount("bootscope", &at, *kind, MountFlags::empty(), None).ok().map(|()| at)
    });
    mounted.collect()
}

fn spawn_shell(command: &str) -> std::io::Result<Child> {
    let mut shell = Command::new(SHELL);
    shell.args(["-c", command]).env_clear().env("PATH", PATH).env("HOME", "/");
    let in_child = || {
        allow_ports(false);
        std::os::unix::fs::chroot(SYSROOT_PATH)?;
        std::env::set_current_dir("/")
    };
    // SAFETY: between fork and exec, only code that needs no lock of another thread may run; process 1 has one thread.
    unsafe { shell.pre_exec(in_child) };
    shell.spawn()
}

fn wait_for_end(port: Port, mut child: Child) -> std::io::Result<ExitStatus> {
    let mut last_message = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(5));
        if last_message.elapsed() > Duration::from_secs(1) {
            port.send_message(&Message::Tick { tsc: tsc() });
            last_message = Instant::now();
        }
    }
}
