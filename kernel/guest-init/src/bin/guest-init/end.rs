//! The end of process 1: the machine powers off, or the user's own init replaces it.

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

/// The kernel's own candidates for an init, the one of an initrd first.
const USUAL_INITS: [&str; 5] = ["/init", "/sbin/init", "/etc/init", "/bin/init", "/bin/sh"];

/// Does what the configuration requests. If an init cannot be started, reports it and powers the machine off.
pub fn end(port: Port, config: &Config) -> ! {
    if config.then == Then::Exec {
        if config.root.is_some() {
            switch_root().unwrap_or_else(|e| port.report_lack("switch_root", e));
        }
        let usual = USUAL_INITS.iter().map(|path| path.to_string());
        let candidates: Vec<String> = config.init.clone().map_or_else(|| usual.collect(), |path| vec![path]);
        for path in candidates.iter().filter(|path| config.init.is_some() || std::path::Path::new(path).exists()) {
            port.send_message(&Message::End { outcome: format!("exec {path}") });
            port.report_lack("init", format_args!("{path}: {}", become_init(path)));
        }
        println!("bootscope: none of {candidates:?} could be started as init; powering off");
    }
    power_off(port)
}

/// Makes the mounted root the root directory, as `switch_root` does.
fn switch_root() -> io::Result<()> {
    std::env::set_current_dir(SYSROOT_PATH)?;
    mount_move(".", "/")?;
    std::os::unix::fs::chroot(".")?;
    std::env::set_current_dir("/")
}

/// Executes the init. Returns only on failure, with the reason. Arguments and environment are the kernel's; the exec
/// closes every file that this program opened.
fn become_init(path: &str) -> io::Error {
    allow_ports(false);
    let error = Command::new(path).args(std::env::args_os().skip(1)).exec();
    allow_ports(true);
    error
}

/// Replaces the kernel's panic "Attempted to kill init", which the host would take for the boot's end.
pub fn power_off_on_panic(port: Port) {
    std::panic::set_hook(Box::new(move |info| {
        port.report_lack("guest-init", info);
        power_off(port)
    }));
}

/// Powers the machine off.
pub fn power_off(port: Port) -> ! {
    port.send_message(&Message::End { outcome: "poweroff".into() });
    if let Err(e) = reboot(RebootCommand::PowerOff) {
        port.report_lack("poweroff", e);
    }
    // This machine cannot be powered off, but the host has received the end message.
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
