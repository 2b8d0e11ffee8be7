//! Polls guest memory for the programs of UEFI firmware, which are there only while they run.

use std::path::PathBuf;

use arch::FirmwarePlace;
use recording::{GuestSpec, SMALL_BYTES_MAX, read_regular};

use crate::memory::{EfiImages, PhysicalMemory, Rom};
use crate::vmm::Vmm;

/// The file of a recording that has the list.
pub(crate) const FILE: &str = "firmware-images.txt";
/// Pause between two looks; and as a multiple of the last one's duration, so that looks take at most a fifth of a host CPU.
const PAUSE_NS: i64 = 50_000_000;
const PAUSE_FACTOR: i64 = 4;

/// The images that were seen so far.
#[derive(Debug)]
pub(super) struct FirmwareImages {
    images: EfiImages,
    next_ns: i64,
}

impl FirmwareImages {
    /// Begins with the images that run in the ROM itself. `None` for a guest with QEMU's own firmware, which is not UEFI.
    pub(super) fn of(guest: &GuestSpec, place: Option<FirmwarePlace>) -> Option<FirmwareImages> {
        let file = firmware(guest)?;
        let mut images = EfiImages::default();
        let rom = place.zip(read_regular(&file, SMALL_BYTES_MAX).ok());
        if let Some(rom) = rom.and_then(|(place, bytes)| Rom::new(place, bytes)) {
            images.look(&rom);
        }
        Some(FirmwareImages { images, next_ns: 0 })
    }

    pub(super) fn is_due(&self, now_ns: i64) -> bool {
        now_ns >= self.next_ns
    }

    pub(super) fn look(&mut self, ram: &dyn PhysicalMemory, began_ns: i64, vm: &dyn Vmm) {
        self.images.look(ram);
        let done_ns = vm.elapsed_ns();
        self.next_ns = done_ns + PAUSE_NS.max(PAUSE_FACTOR * (done_ns - began_ns));
    }

    /// The list for the recording, if anything was found.
    pub(super) fn list(&self) -> Option<String> {
        self.images.list()
    }
}

/// The file with the firmware's code: that of `--bios`, or the first flash among QEMU's own options.
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
