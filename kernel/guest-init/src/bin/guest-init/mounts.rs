//! Mounts the pseudo file systems with the evidence in this program's own folders. So the user's init finds /proc, /sys
//! and /dev as the kernel left them, and a root that is read-only or empty is no obstacle.

use crate::arch::Port;
use guest_init::cpio::{KMSG_PATH, PROC_PATH, TRACING_PATH};
use rustix::fs::{CWD, FileType, Mode, makedev, mkdirat, mknodat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::path::{Path, PathBuf};

/// The mounted file systems.
pub struct Mounts {
    pub proc: Option<PathBuf>,
    /// tracefs, or its folder in debugfs.
    pub tracing: Option<PathBuf>,
    /// A device node for the kernel log (opening it may still fail).
    pub kmsg: PathBuf,
    mounted: Vec<&'static str>,
}

impl Mounts {
    /// Mounts all file systems, and reports those that cannot be mounted.
    pub fn new(port: Port) -> Mounts {
        let mut mounts = Mounts { proc: None, tracing: None, kmsg: kmsg_node(), mounted: Vec::new() };
        mounts.tracing = mounts.tracing(port);
        match mounts.mount("proc", PROC_PATH) {
            Ok(()) => mounts.proc = Some(PathBuf::from(PROC_PATH)),
            Err(e) => port.report_lack("procfs", e),
        }
        mounts
    }

    /// tracefs exists since Linux 4.1; before, it was a folder of debugfs.
    fn tracing(&mut self, port: Port) -> Option<PathBuf> {
        match self.mount("tracefs", TRACING_PATH) {
            Ok(()) => return Some(PathBuf::from(TRACING_PATH)),
            Err(e) => port.report_lack("tracefs", e),
        }
        match self.mount("debugfs", TRACING_PATH) {
            Ok(()) => Some(Path::new(TRACING_PATH).join("tracing")).filter(|path| path.exists()),
            Err(e) => {
                port.report_lack("debugfs", e);
                None
            }
        }
    }

    fn mount(&mut self, kind: &str, at: &'static str) -> Result<(), Errno> {
        // The archive contains the folder. Without the archive (this program was started by hand), it is created.
        if !Path::new(at).is_dir() {
            mkdirat(CWD, at, Mode::from_raw_mode(0o755))?;
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("bootscope", at, kind, flags, None)?;
        self.mounted.push(at);
        Ok(())
    }

    /// Unmounts everything. Every file opened there must be closed before.
    pub fn undo(self, port: Port) {
        for at in self.mounted.iter().rev() {
            if let Err(e) = unmount(*at, UnmountFlags::empty()) {
                port.report_lack("unmount", format_args!("{at}: {e}"));
            }
        }
    }
}

/// The node from the archive, or one made now, or the usual one.
fn kmsg_node() -> PathBuf {
    let ours = Path::new(KMSG_PATH);
    let made = || mknodat(CWD, ours, FileType::CharacterDevice, Mode::from_raw_mode(0o600), makedev(1, 11)).is_ok();
    if ours.exists() || made() { ours.to_path_buf() } else { PathBuf::from("/dev/kmsg") }
}
