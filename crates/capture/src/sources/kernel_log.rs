//! The kernel's log: its records as `/dev/kmsg` has them, with callers where the kernel notes them; else what `dmesg` prints.

use crate::bounded::{self, Cut};
use crate::gather::{File, Given};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The largest buffer that a kernel can be told to keep is 2 GiB, the usual ones 128 KiB to 16 MiB.
const BYTES_MAX: usize = 32 << 20;
/// Character device 1, 11 (Documentation/admin-guide/devices.txt).
const DEVICE: u64 = 0x10b;
/// A record has 8 KiB at most (`PRINTKRB_RECORD_MAX` and its escapes).
const RECORD_BYTES: usize = 16 << 10;

pub(crate) fn ask(until: Instant) -> Given {
    let mut given = Given::default();
    match records(Path::new("/dev/kmsg"), until) {
        Ok((bytes, cut)) => given.put(File::evidence("kmsg.txt", bytes, "/dev/kmsg"), cut),
        Err(why) => match bounded::program(Command::new("dmesg").args(["-S", "-r"]), BYTES_MAX, until) {
            Ok(content) => given.put(File::evidence("dmesg.txt", content.bytes, "dmesg -S -r"), content.cut),
            Err(also) => given.missing("kernel log", format!("/dev/kmsg: {why}, and {also}{}", bounded::as_root())),
        },
    }
    given
}

/// Reads records one by one until there is none more.
fn records(path: &Path, until: Instant) -> std::io::Result<(Vec<u8>, Cut)> {
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut log = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    // Something else may be in its place: who reads a pipe takes from whoever waits for it.
    let kind = log.metadata()?;
    if !kind.file_type().is_char_device() || kind.rdev() != DEVICE {
        return Err(std::io::Error::other("it is not the kernel's device"));
    }
    let (mut bytes, mut record) = (Vec::new(), vec![0; RECORD_BYTES]);
    while bytes.len() < BYTES_MAX && Instant::now() < until {
        match log.read(&mut record) {
            Ok(0) => return Ok((bytes, Cut::No)),
            Ok(length) => bytes.extend_from_slice(&record[..length]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok((bytes, Cut::No)),
            // The oldest records were overwritten meanwhile: the next read has the oldest that is left.
            Err(e) if [ErrorKind::BrokenPipe, ErrorKind::Interrupted].contains(&e.kind()) => {}
            Err(e) if bytes.is_empty() => return Err(e),
            Err(_) => return Ok((bytes, Cut::Bytes)),
        }
    }
    let cut = if bytes.len() < BYTES_MAX { Cut::Time } else { Cut::Bytes };
    Ok((bytes, cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_devices_place_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "6,1,0,-;no kernel's").unwrap();
        let until = Instant::now() + std::time::Duration::from_secs(5);
        assert!(records(file.path(), until).is_err() && records(Path::new("/dev/null"), until).is_err());
    }
}
