//! The order of measurements by firmware and loader, from the TPM's event log, which has no times. It has the kind of
//! each event, with the name of a variable or an action. Digests, contents of variables, and a loader's own texts are
//! left out: they may identify one machine.
//!
//! Each event is `PCR, type, digest, length, data`, little-endian. In a newer log, the first event lists the digests of
//! the others (TCG PC Client Platform Firmware Profile, "Event Logging").

use super::firmware::utf16;
use crate::bounded;
use crate::gather::{Collected, File};
use std::fmt::Write as _;
use std::io::ErrorKind;

const PATH: &str = "/sys/kernel/security/tpm0/binary_bios_measurements";
const MAX_BYTES: usize = 4 << 20;
const MAX_EVENTS: usize = 10_000;
const SHA1_BYTES: usize = 20;
const SPEC_ID: &[u8] = b"Spec ID Event03\0";

const EFI_ACTION: u32 = 0x8000_0007;
const EFI_VARIABLES: [u32; 3] = [0x8000_0001, 0x8000_0002, 0x8000_00e0];
/// The largest length of a subject; a longer one is cut.
const MAX_SUBJECT_CHARS: usize = 100;

const KINDS: [(u32, &str); 18] = [
    (0, "EV_PREBOOT_CERT"),
    (1, "EV_POST_CODE"),
    (3, "EV_NO_ACTION"),
    (4, "EV_SEPARATOR"),
    (5, "EV_ACTION"),
    (6, "EV_EVENT_TAG"),
    (7, "EV_S_CRTM_CONTENTS"),
    (8, "EV_S_CRTM_VERSION"),
    (13, "EV_IPL"),
    (0x8000_0001, "EV_EFI_VARIABLE_DRIVER_CONFIG"),
    (0x8000_0002, "EV_EFI_VARIABLE_BOOT"),
    (0x8000_0003, "EV_EFI_BOOT_SERVICES_APPLICATION"),
    (0x8000_0004, "EV_EFI_BOOT_SERVICES_DRIVER"),
    (0x8000_0006, "EV_EFI_GPT_EVENT"),
    (0x8000_0007, "EV_EFI_ACTION"),
    (0x8000_0008, "EV_EFI_PLATFORM_FIRMWARE_BLOB"),
    (0x8000_0009, "EV_EFI_HANDOFF_TABLES"),
    (0x8000_00e0, "EV_EFI_VARIABLE_AUTHORITY"),
];

pub(crate) fn collect() -> Collected {
    let mut collected = Collected::default();
    match bounded::read(PATH, MAX_BYTES) {
        Ok(content) => {
            collected.put(File::for_people("tpm-events.txt", events(&content.bytes).into_bytes(), PATH), content.cut)
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => collected.missing("TPM event log", format!("{PATH}: {e}{}", bounded::root_hint())),
    }
    collected
}

/// Takes bytes from the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }
}

/// One line for each event: its PCR, its kind, and its subject, or else the length of its data.
fn events(bytes: &[u8]) -> String {
    let (mut cursor, mut text, mut digests) = (Cursor(bytes), String::new(), None);
    for number in 0..MAX_EVENTS {
        let Some((pcr, kind, data)) = event(&mut cursor, digests.as_deref()) else { break };
        if number == 0 {
            digests = sizes(data);
        }
        let name = KINDS.iter().find(|(known, _)| *known == kind).map(|(_, name)| (*name).to_owned());
        let name = name.unwrap_or_else(|| format!("kind {kind:#x}"));
        let _ = write!(text, "PCR {pcr} {name}");
        match subject(kind, data) {
            Some(subject) => _ = writeln!(text, ": {subject}"),
            None => _ = writeln!(text, ", {} bytes", data.len()),
        }
    }
    if !cursor.0.is_empty() {
        let _ = writeln!(text, "{} bytes that follow are no event", cursor.0.len());
    }
    text
}

fn event<'a>(cursor: &mut Cursor<'a>, digests: Option<&[(u16, usize)]>) -> Option<(u32, u32, &'a [u8])> {
    let (pcr, kind) = (cursor.u32()?, cursor.u32()?);
    match digests {
        None => _ = cursor.take(SHA1_BYTES)?,
        Some(sizes) => {
            for _ in 0..cursor.u32()?.min(64) {
                let algorithm = cursor.u16()?;
                cursor.take(sizes.iter().find(|(known, _)| *known == algorithm)?.1)?;
            }
        }
    }
    let length = usize::try_from(cursor.u32()?).ok()?;
    Some((pcr, kind, cursor.take(length)?))
}

/// The name of a variable, or of the firmware's action.
fn subject(kind: u32, data: &[u8]) -> Option<String> {
    let text = match kind {
        EFI_ACTION => String::from_utf8_lossy(data).into_owned(),
        kind if EFI_VARIABLES.contains(&kind) => {
            // GUID, number of units of the name, number of bytes of the content, the name (UEFI_VARIABLE_DATA).
            let mut cursor = Cursor(data.get(16..)?);
            let units = usize::try_from(u64::from(cursor.u32()?) | u64::from(cursor.u32()?) << 32).ok()?;
            cursor.take(8)?;
            utf16(cursor.take(units.checked_mul(2)?)?)
        }
        _ => return None,
    };
    let text: String = text.chars().filter(|c| !c.is_control()).take(MAX_SUBJECT_CHARS).collect();
    (!text.is_empty()).then_some(text)
}

/// The algorithms of a newer log, and the length of each one's digest.
fn sizes(first: &[u8]) -> Option<Vec<(u16, usize)>> {
    let mut cursor = Cursor(first.strip_prefix(SPEC_ID)?);
    cursor.take(8)?;
    (0..cursor.u32()?.min(64)).map(|_| Some((cursor.u16()?, usize::from(cursor.u16()?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by hand from the specification: the head, then a separator with a SHA-256 digest.
    fn log() -> Vec<u8> {
        let head = [SPEC_ID, &[0; 4], &[0, 2, 0, 2], &[1, 0, 0, 0], &[0x0b, 0, 32, 0], &[0]].concat();
        let length = u32::try_from(head.len()).unwrap().to_le_bytes();
        let first = [&[0, 0, 0, 0, 3, 0, 0, 0][..], &[0; 20], &length, &head].concat();
        let second = [&[7, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0x0b, 0][..], &[9; 32], &[4, 0, 0, 0], &[0; 4]].concat();
        [first, second].concat()
    }

    #[test]
    fn events_of_a_newer_log() {
        assert_eq!(events(&log()), "PCR 0 EV_NO_ACTION, 33 bytes\nPCR 7 EV_SEPARATOR, 4 bytes\n");
    }

    /// From OVMF and systemd-boot with swtpm: see its README.
    #[test]
    fn a_real_log_says_what_came_after_what() {
        let text = events(include_bytes!("../../../evidence/tests/data/efi/tpm-log.bin"));
        let lines: Vec<&str> = text.lines().collect();
        let place = |line: &str| lines.iter().position(|of| *of == line).unwrap_or_else(|| panic!("{line}: {text}"));
        let secure_boot = place("PCR 7 EV_EFI_VARIABLE_DRIVER_CONFIG: SecureBoot");
        let boots = place("PCR 4 EV_EFI_ACTION: Calling EFI Application from Boot Option");
        let left = place("PCR 5 EV_EFI_ACTION: Exit Boot Services Returned with Success");
        assert!(secure_boot < boots && boots < left && left + 1 == lines.len(), "{text}");
        assert!(!text.contains("no event") && !text.contains("kind 0x"), "{text}");
        // The loader measures the kernel's command line, which this source omits.
        assert!(lines.iter().any(|line| line.starts_with("PCR 12 EV_IPL, ")), "{text}");
    }

    #[test]
    fn a_variables_name_is_never_longer_than_its_event() {
        let event = |units: u64| [&[0; 16][..], &units.to_le_bytes(), &[0; 8], b"P\0K\0"].concat();
        assert_eq!(subject(EFI_VARIABLES[0], &event(2)).as_deref(), Some("PK"));
        for units in [0, 3, u64::MAX, 1 << 62] {
            assert_eq!(subject(EFI_VARIABLES[0], &event(units)), None, "{units}");
        }
    }

    #[test]
    fn a_log_cut_anywhere_is_read_as_far_as_it_goes() {
        let log = log();
        for length in 0..log.len() {
            assert!(events(&log[..length]).lines().count() <= 2);
        }
    }
}
