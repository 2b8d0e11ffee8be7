//! The pseudo file systems that hold the evidence, mounted in folders of this program's own: the user's init then finds
//! /proc, /sys and /dev as the kernel left them, and a root that is read-only or empty is no obstacle.

use crate::arch::Port;
use guest_init::cpio::{KMSG_PATH, PROC_PATH, TRACING_PATH};
use rustix::fs::{CWD, FileType, Mode, makedev, mkdirat, mknodat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::path::{Path, PathBuf};

/// What could be mounted.
pub struct Mounts {
    /// procfs.
    pub proc: Option<PathBuf>,
    /// tracefs, or the folder that stands for it in debugfs.
    pub tracing: Option<PathBuf>,
    /// A device node for the kernel log (it may still fail to open).
    pub kmsg: PathBuf,
    mounted: Vec<&'static str>,
}

impl Mounts {
    /// Mounts what can be mounted and says what cannot.
    pub fn new(port: Port) -> Mounts {
        let mut mounts = Mounts { proc: None, tracing: None, kmsg: kmsg_node(), mounted: Vec::new() };
        mounts.tracing = mounts.tracing(port);
        match mounts.mount("proc", PROC_PATH) {
            Ok(()) => mounts.proc = Some(PathBuf::from(PROC_PATH)),
            Err(e) => port.lack("procfs", e),
        }
        mounts
    }

    /// tracefs came with Linux 4.1; before that it was a folder of debugfs.
    fn tracing(&mut self, port: Port) -> Option<PathBuf> {
        match self.mount("tracefs", TRACING_PATH) {
            Ok(()) => return Some(PathBuf::from(TRACING_PATH)),
            Err(e) => port.lack("tracefs", e),
        }
        match self.mount("debugfs", TRACING_PATH) {
            Ok(()) => Some(Path::new(TRACING_PATH).join("tracing")).filter(|path| path.exists()),
            Err(e) => {
                port.lack("debugfs", e);
                None
            }
        }
    }

    fn mount(&mut self, kind: &str, at: &'static str) -> Result<(), Errno> {
        // The archive has brought the folder; without it (somebody started this program by hand) it is made.
        if !Path::new(at).is_dir() {
            mkdirat(CWD, at, Mode::from_raw_mode(0o755))?;
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("bootscope", at, kind, flags, None)?;
        self.mounted.push(at);
        Ok(())
    }

    /// Unmounts everything. Every file that was opened there must be closed by now.
    pub fn undo(self, port: Port) {
        for at in self.mounted.iter().rev() {
            if let Err(e) = unmount(*at, UnmountFlags::empty()) {
                port.lack("unmount", format_args!("{at}: {e}"));
            }
        }
    }
}

/// The node that the archive brought, or one made now, or the usual one.
fn kmsg_node() -> PathBuf {
    let ours = Path::new(KMSG_PATH);
    let made = || mknodat(CWD, ours, FileType::CharacterDevice, Mode::from_raw_mode(0o600), makedev(1, 11)).is_ok();
    if ours.exists() || made() { ours.to_path_buf() } else { PathBuf::from("/dev/kmsg") }
}
