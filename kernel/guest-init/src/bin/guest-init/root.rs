//! Mounts the root file system before the mark. It loads the modules, waits for the device, and mounts it in this
//! program's own folder. Then the program starts itself by its first name, whose first instructions are the mark. A
//! boot's own initial RAM file system would start the root's init in the same way.
//!
//! Modules are deleted after they are loaded: their files would be counted as page cache. A failure here keeps the boot
//! from its end mark. It is reported on console and port, and the machine powers off.

use crate::arch::Port;
use crate::arch::port_io::allow_ports;
use crate::end;
use guest_init::config::{Config, Root};
use guest_init::cpio::{CONFIG_PATH, DEV_PATH, INIT_PATH, MODULES_PATH, SYSROOT_PATH};
use guest_init::messages::Lacked;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::system::finit_module;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The longest time that a device may take to appear after its driver is loaded.
const MAX_DEVICE_WAIT: Duration = Duration::from_secs(10);
/// The interval at which it is polled; a boot can seem longer by this much.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Mounts the root and marks the hand-over. On failure, reports the reason and powers off.
pub fn mount_and_mark() -> ! {
    let why = match mount_root() {
        Ok(()) => format!("{INIT_PATH}: {}", Command::new(INIT_PATH).args(std::env::args_os().skip(1)).exec()),
        Err(why) => why,
    };
    println!("bootscope: no root: {why}");
    allow_ports(true);
    let port = Port::connected();
    port.report_lack(Lacked::Root, why);
    end::power_off(port)
}

fn mount_root() -> Result<(), String> {
    let text = std::fs::read_to_string(CONFIG_PATH).map_err(|e| format!("{CONFIG_PATH}: {e}"))?;
    let (config, _) = Config::parse(&text);
    let root = config.root.as_ref().ok_or("the configuration names none")?;
    for file in &config.modules {
        load(&Path::new(MODULES_PATH).join(file)).map_err(|e| format!("module {file}: {e}"))?;
    }
    mount_device(root)
}

fn load(path: &Path) -> io::Result<()> {
    match finit_module(File::open(path)?, c"", 0) {
        // The kernel already has it, built in under the same name.
        Ok(()) | Err(Errno::EXIST) => std::fs::remove_file(path),
        Err(e) => Err(e.into()),
    }
}

fn mount_device(root: &Root) -> Result<(), String> {
    mount("bootscope", DEV_PATH, "devtmpfs", MountFlags::empty(), None).map_err(|e| format!("devtmpfs: {e}"))?;
    let device = Path::new(DEV_PATH).join(&root.device);
    let began = Instant::now();
    while !device.exists() {
        if began.elapsed() > MAX_DEVICE_WAIT {
            return Err(format!("{} did not appear within {MAX_DEVICE_WAIT:?}", root.device));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let options = root.dax.then_some(c"dax");
    // erofs is never written, so it is mounted read-only.
    let how = if root.file_system == "erofs" { MountFlags::RDONLY } else { MountFlags::empty() };
    let name = root.file_system.as_str();
    mount(&device, SYSROOT_PATH, name, how, options).map_err(|e| {
        let with = if root.dax { " with -o dax" } else { "" };
        format!("{} cannot be mounted as {name}{with}: {e}; the kernel's log says more", root.device)
    })?;
    unmount(DEV_PATH, UnmountFlags::DETACH).map_err(|e| format!("{DEV_PATH}: {e}"))
}
