//! The kernel's log: its records from `/dev/kmsg`, with callers if the kernel records them. Otherwise the output of
//! `dmesg`. Also the devices whose probe the kernel still puts off.

use crate::bounded::{self, Cut};
use crate::gather::{Collected, File};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The limit on the log. A kernel's buffer can be up to 2 GiB; usual ones are 128 KiB to 16 MiB.
const MAX_BYTES: usize = 32 << 20;
/// The devices that still wait for a probe, with the reason.
const DEVICES_DEFERRED: &str = "/sys/kernel/debug/devices_deferred";
const DEVICES_MAX_BYTES: usize = 1 << 20;
/// Character device 1, 11 (Documentation/admin-guide/devices.txt).
const DEVICE: u64 = 0x10b;
/// Room for a record, which has at most 8 KiB (`PRINTKRB_RECORD_MAX` and its escapes).
const RECORD_BYTES: usize = 16 << 10;

pub(crate) fn collect(until: Instant) -> Collected {
    let mut collected = Collected::default();
    match records(Path::new("/dev/kmsg"), until) {
        Ok((bytes, cut)) => collected.put(File::evidence("kmsg.txt", bytes, "/dev/kmsg"), cut),
        Err(why) => match bounded::program(Command::new("dmesg").args(["-S", "-r"]), MAX_BYTES, until) {
            Ok(content) => collected.put(File::evidence("dmesg.txt", content.bytes, "dmesg -S -r"), content.cut),
            Err(also) => {
                collected.missing("kernel log", format!("/dev/kmsg: {why}, and {also}{}", bounded::root_hint()))
            }
        },
    }
    match bounded::read(DEVICES_DEFERRED, DEVICES_MAX_BYTES) {
        Ok(content) => {
            collected.put(devices_deferred(content.bytes), content.cut);
        }
        // The kernel is older than 4.20, or nothing is mounted there.
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => collected.missing(DEVICES_DEFERRED, format!("{e}{}", bounded::root_hint())),
    }
    collected
}

/// The list of devices. Readers know it by the suppliers in it; without one, it says to people alone what is missing.
fn devices_deferred(list: Vec<u8>) -> File {
    let is_evidence = String::from_utf8_lossy(&list).contains("supplier ");
    File { is_evidence, ..File::evidence("devices-deferred.txt", list, DEVICES_DEFERRED) }
}

/// Reads records one by one until the log ends.
fn records(path: &Path, until: Instant) -> std::io::Result<(Vec<u8>, Cut)> {
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut log = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    // Another file may be in its place. Reading a pipe would take data from its real reader.
    let kind = log.metadata()?;
    if !kind.file_type().is_char_device() || kind.rdev() != DEVICE {
        return Err(std::io::Error::other("it is not the kernel's device"));
    }
    let (mut bytes, mut record) = (Vec::new(), vec![0; RECORD_BYTES]);
    while bytes.len() < MAX_BYTES && Instant::now() < until {
        match log.read(&mut record) {
            Ok(0) => return Ok((bytes, Cut::No)),
            Ok(length) => bytes.extend_from_slice(&record[..length]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok((bytes, Cut::No)),
            // The oldest records were overwritten in the meantime: the next read starts with the oldest remaining one.
            Err(e) if [ErrorKind::BrokenPipe, ErrorKind::Interrupted].contains(&e.kind()) => {}
            Err(e) if bytes.is_empty() => return Err(e),
            Err(_) => return Ok((bytes, Cut::Bytes)),
        }
    }
    let cut = if bytes.len() < MAX_BYTES { Cut::Time } else { Cut::Bytes };
    Ok((bytes, cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_in_the_devices_place_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "6,1,0,-;no kernel's").unwrap();
        let until = Instant::now() + std::time::Duration::from_secs(5);
        assert!(records(file.path(), until).is_err() && records(Path::new("/dev/null"), until).is_err());
    }

    #[test]
    fn a_list_of_devices_without_suppliers_is_for_people() {
        assert!(devices_deferred(b"1c.usb\tplatform: wait for supplier /soc/phy\n".to_vec()).is_evidence);
        assert!(!devices_deferred(b"cpufreq-dt\t\n".to_vec()).is_evidence);
    }
}
