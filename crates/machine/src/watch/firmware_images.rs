//! Finds the programs of UEFI firmware in guest memory, which are there only while they run, by the code that the plugin saw run.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use arch::FirmwarePlace;
use plugin_formats::Bytes;
use plugin_formats::first_executions::{HEADER_BYTES, RECORD_BYTES_MOST, Record, Stream, read_header};
use recording::{GuestSpec, read_regular};

use crate::memory::{EfiImages, PhysicalMemory};

/// The file of a recording that has the list.
pub(crate) const FILE: &str = "firmware-images.txt";
/// Upper bound for the firmware's file: a flash of QEMU's arm64 machines, which packages fill up.
const MAX_FIRMWARE_BYTES: u64 = 64 << 20;
/// Pause between two looks. The plugin writes at most once in this time.
const PAUSE_NS: i64 = 10_000_000;
/// Upper bound for the bytes of a look.
const LOOK_BYTES: u64 = 1 << 20;
/// Addresses from here on are a kernel's: firmware is over.
const KERNEL_HALF: u64 = 1 << 63;

/// The images that were seen so far.
#[derive(Debug)]
pub(super) struct FirmwareImages {
    images: EfiImages,
    /// The plugin's file of first executions, as far as it is written.
    executions: File,
    /// The position of the next record.
    read_bytes: u64,
    stream: Option<Stream>,
    is_over: bool,
    next_ns: i64,
}

impl FirmwareImages {
    /// `None` for a guest whose firmware is not UEFI.
    pub(super) fn of(guest: &GuestSpec, place: Option<FirmwarePlace>, executions: File) -> Option<FirmwareImages> {
        let file = read_regular(&firmware(guest)?, MAX_FIRMWARE_BYTES).ok()?;
        let images = EfiImages::of(place?, &file)?;
        Some(FirmwareImages { images, executions, read_bytes: 0, stream: None, is_over: false, next_ns: 0 })
    }

    /// The time at which the next look is due, while firmware may run.
    pub(super) fn next_ns(&self) -> Option<i64> {
        (!self.is_over).then_some(self.next_ns)
    }

    /// Ends the watch, because guest memory cannot be read.
    pub(super) fn give_up(&mut self) {
        self.is_over = true;
    }

    /// Takes the images of code that ran since the last look.
    pub(super) fn look(&mut self, ram: &dyn PhysicalMemory, now_ns: i64) {
        self.next_ns = now_ns + PAUSE_NS;
        self.is_over = self.take_blocks(ram).is_none();
    }

    /// `None` if firmware is over, or if the file cannot be read.
    fn take_blocks(&mut self, ram: &dyn PhysicalMemory) -> Option<()> {
        let mut bytes = Vec::new();
        self.executions.seek(SeekFrom::Start(self.read_bytes)).ok()?;
        (&self.executions).take(LOOK_BYTES).read_to_end(&mut bytes).ok()?;
        let mut content = &bytes[..];
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None if bytes.len() < HEADER_BYTES => return Some(()),
            None => {
                content = &bytes[HEADER_BYTES..];
                self.read_bytes += HEADER_BYTES as u64;
                self.stream.insert(Stream::new(&read_header(&bytes).ok()?))
            }
        };
        let mut records = Bytes::new(content);
        // The last record may not be whole yet.
        while content.len() - records.at() >= RECORD_BYTES_MOST {
            match stream.read(&mut records).ok()? {
                Record::Block(_, block) if block.vaddr >= KERNEL_HALF => return None,
                Record::Block(_, block) => self.images.ran(ram, block.vaddr),
                _ => {}
            }
        }
        self.read_bytes += records.at() as u64;
        Some(())
    }

    /// The list for the recording, if anything was found.
    pub(super) fn list(&self) -> Option<String> {
        self.images.list()
    }
}

/// The file with the firmware's code: the user's, or the first flash among QEMU's own options.
fn firmware(guest: &GuestSpec) -> Option<PathBuf> {
    let flashes = guest.extra.iter().filter(|option| option.contains("if=pflash"));
    let mut files = flashes.flat_map(|option| option.split(',')).filter_map(|value| value.strip_prefix("file="));
    guest.bios.clone().or_else(|| files.next().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_firmware_is_the_users() {
        let extra = |options: &[&str]| GuestSpec {
            extra: options.iter().map(|&option| option.to_owned()).collect(),
            ..GuestSpec::default()
        };
        assert_eq!(firmware(&GuestSpec::default()), None);
        assert_eq!(firmware(&extra(&["-drive", "if=none,file=/disk"])), None);
        let code = "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd";
        let both = extra(&["-drive", code, "-drive", "if=pflash,unit=1,file=/vars.fd"]);
        assert_eq!(firmware(&both), Some("/usr/share/OVMF/OVMF_CODE_4M.fd".into()));
        assert_eq!(firmware(&GuestSpec { bios: Some("/b".into()), ..both }), Some("/b".into()));
    }
}
