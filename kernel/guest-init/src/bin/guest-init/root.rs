//! The root file system, before the mark: its modules are loaded, its device awaited, and it is mounted in a folder of this
//! program's own. Then the program starts itself by its first name, whose first instructions are the mark, as a boot's own
//! initial RAM file system would start the root's init.
//!
//! Modules are removed when they are loaded: what is left of them would be counted as page cache. What fails here keeps the
//! boot from its end mark; it is said, on console and port, and the machine goes off.

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

/// How long a device may take to appear after its driver is there.
const DEVICE_PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked for: this is by how much a boot can seem longer.
const LOOK: Duration = Duration::from_micros(200);

/// Mounts the root and marks the hand-over; or says why not, and powers off.
pub fn mount_and_mark() -> ! {
    let why = match mounted() {
        Ok(()) => format!("{INIT_PATH}: {}", Command::new(INIT_PATH).args(std::env::args_os().skip(1)).exec()),
        Err(why) => why,
    };
    println!("bootscope: no root: {why}");
    allow_ports(true);
    let port = Port::heard();
    port.lack(Lacked::Root, why);
    end::power_off(port)
}

fn mounted() -> Result<(), String> {
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
        // The kernel has it already, built in under the same name.
        Ok(()) | Err(Errno::EXIST) => std::fs::remove_file(path),
        Err(e) => Err(e.into()),
    }
}

fn mount_device(root: &Root) -> Result<(), String> {
    mount("bootscope", DEV_PATH, "devtmpfs", MountFlags::empty(), None).map_err(|e| format!("devtmpfs: {e}"))?;
    let device = Path::new(DEV_PATH).join(&root.device);
    let began = Instant::now();
    while !device.exists() {
        if began.elapsed() > DEVICE_PATIENCE {
            return Err(format!("{} did not appear within {DEVICE_PATIENCE:?}", root.device));
        }
        std::thread::sleep(LOOK);
    }
    let options = root.dax.then_some(c"dax");
    // A file system that is never written says so itself.
    let how = if root.file_system == "erofs" { MountFlags::RDONLY } else { MountFlags::empty() };
    let name = root.file_system.as_str();
    mount(&device, SYSROOT_PATH, name, how, options).map_err(|e| {
        let with = if root.dax { " with -o dax" } else { "" };
        format!("{} cannot be mounted as {name}{with}: {e}; the kernel's log says more", root.device)
    })?;
    unmount(DEV_PATH, UnmountFlags::DETACH).map_err(|e| format!("{DEV_PATH}: {e}"))
}
