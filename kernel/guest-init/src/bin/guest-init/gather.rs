//! Reads the evidence, file by file, into the carrier.

use crate::arch::Port;
use crate::carrier::Carrier;
use crate::mounts::Mounts;
use guest_init::config::Config;
use guest_init::files::{self, Evidence, Source};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Transfers all evidence. It reads the memory figures first, before the transfer itself takes memory.
pub fn transfer(port: Port, config: &Config, mounts: &Mounts) {
    let first: Vec<(&Evidence, io::Result<Vec<u8>>)> =
        files::FIRST.iter().map(|evidence| (evidence, path(evidence.source, mounts).and_then(std::fs::read))).collect();
    let mut carrier = Carrier::new(port, config, mounts.proc.as_deref(), available_bytes(&first));
    for (evidence, contents) in first {
        match contents {
            Ok(bytes) => carrier.carry(evidence.name, &mut bytes.as_slice()),
            Err(e) => port.report_lack(evidence.name, e),
        }
    }
    let payload = (config.payload_bytes > 0).then_some(&files::PAYLOAD);
    for evidence in files::REST.iter().chain(payload) {
        match open(evidence.source, config, mounts) {
            Ok(mut source) => carrier.carry(evidence.name, &mut *source),
            Err(e) => port.report_lack(evidence.name, e),
        }
    }
    carrier.finish();
}

/// Transfers the memory figures after the workload. It uses a new carrier, so that no carrier took memory while the
/// workload ran.
pub fn memory_after_workload(port: Port, config: &Config, mounts: &Mounts) {
    let evidence = &files::AFTER_WORKLOAD;
    match path(evidence.source, mounts).and_then(std::fs::read) {
        Ok(bytes) => {
            let mut carrier = Carrier::new(port, config, mounts.proc.as_deref(), None);
            carrier.carry(evidence.name, &mut bytes.as_slice());
            carrier.finish();
        }
        Err(e) => port.report_lack(evidence.name, e),
    }
}

/// The available memory by the kernel: `MemAvailable`, or in kernels before 3.14 `MemFree`.
fn available_bytes(first: &[(&Evidence, io::Result<Vec<u8>>)]) -> Option<u64> {
    let meminfo = first.iter().find(|(evidence, _)| evidence.name == "meminfo.txt")?.1.as_ref().ok()?;
    let meminfo = String::from_utf8_lossy(meminfo);
    let field = |key: &str| {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
        rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    field("MemAvailable:").or_else(|| field("MemFree:")).map(|kib| kib << 10)
}

fn path(source: Source, mounts: &Mounts) -> io::Result<PathBuf> {
    let (root, name, kind) = match source {
        Source::Proc(name) => (mounts.proc.as_deref(), name, "procfs"),
        Source::Tracing(name) => (mounts.tracing.as_deref(), name, "tracefs"),
        Source::Kmsg => (Some(mounts.kmsg.as_path()), "", "kmsg"),
        Source::Payload => (None, "", "file"),
    };
    let root: &Path = root.ok_or_else(|| io::Error::other(format!("no {kind}")))?;
    Ok(if name.is_empty() { root.to_path_buf() } else { root.join(name) })
}

fn open(source: Source, config: &Config, mounts: &Mounts) -> io::Result<Box<dyn Read>> {
    Ok(match source {
        Source::Payload => Box::new(Payload { at: 0, end: config.payload_bytes }),
        Source::Kmsg => {
            let flags = OFlags::NONBLOCK.bits() as i32;
            Box::new(Kmsg(OpenOptions::new().read(true).custom_flags(flags).open(&mounts.kmsg)?))
        }
        _ => Box::new(File::open(path(source, mounts)?)?),
    })
}

/// The kernel log: each read returns one record, and "would block" is the end. If records were overwritten before they
/// were read, the kernel returns EPIPE once and goes on. The records' own numbers show the gap.
struct Kmsg(File);

impl Read for Kmsg {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(e) if e.raw_os_error() == Some(Errno::PIPE.raw_os_error()) => {}
                result => return result,
            }
        }
    }
}

/// Generates the test pattern.
struct Payload {
    at: u64,
    end: u64,
}

impl Read for Payload {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = (self.end - self.at).min(buffer.len() as u64) as usize;
        files::payload(self.at, &mut buffer[..bytes]);
        self.at += bytes as u64;
        Ok(bytes)
    }
}
