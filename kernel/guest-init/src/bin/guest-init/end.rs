//! The end of process 1: the machine goes off, or the user's own init takes its place.

use crate::arch::Port;
use crate::arch::port_io::allow_ports;
use guest_init::config::{Config, Then};
use guest_init::cpio::SYSROOT_PATH;
use guest_init::messages::Message;
use rustix::mount::mount_move;
use rustix::system::{RebootCommand, reboot};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Where the kernel itself looks for an init, the one of an initrd first.
const USUAL_INITS: [&str; 5] = ["/init", "/sbin/init", "/etc/init", "/bin/init", "/bin/sh"];

/// Does what the host asked for. An init that cannot be started is said, and the machine goes off instead.
pub fn end(port: Port, config: &Config) -> ! {
    if config.then == Then::Exec {
        if config.root.is_some() {
            switch_root().unwrap_or_else(|e| port.lack("switch_root", e));
        }
        let usual = USUAL_INITS.iter().map(|path| path.to_string());
        let candidates: Vec<String> = config.init.clone().map_or_else(|| usual.collect(), |path| vec![path]);
        for path in candidates.iter().filter(|path| config.init.is_some() || std::path::Path::new(path).exists()) {
            port.say(&Message::End { outcome: format!("exec {path}") });
            port.lack("init", format_args!("{path}: {}", become_init(path)));
        }
        println!("bootscope: none of {candidates:?} could be started as init; powering off");
    }
    power_off(port)
}

/// Makes the mounted root the root of everything, as `switch_root` does.
fn switch_root() -> io::Result<()> {
    std::env::set_current_dir(SYSROOT_PATH)?;
    mount_move(".", "/")?;
    std::os::unix::fs::chroot(".")?;
    std::env::set_current_dir("/")
}

/// Returns only if it failed, and why. Arguments and environment are those that the kernel gave; every file this
/// program opened is closed by the exec.
fn become_init(path: &str) -> io::Error {
    allow_ports(false);
    let error = Command::new(path).args(std::env::args_os().skip(1)).exec();
    allow_ports(true);
    error
}

/// Without this a panic would be the kernel's: "Attempted to kill init", and the host would take it for the boot's end.
pub fn power_off_on_panic(port: Port) {
    std::panic::set_hook(Box::new(move |info| {
        port.lack("guest-init", info);
        power_off(port)
    }));
}

/// Switches the machine off.
pub fn power_off(port: Port) -> ! {
    port.say(&Message::End { outcome: "poweroff".into() });
    if let Err(e) = reboot(RebootCommand::PowerOff) {
        port.lack("poweroff", e);
    }
    // No way to switch this machine off: the host has heard that there is nothing more to come.
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
