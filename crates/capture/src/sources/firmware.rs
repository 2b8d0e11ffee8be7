//! Times left by firmware and boot loaders: the ACPI table FPDT, the loader's EFI variables, coreboot's and U-Boot's
//! times.

use crate::bounded::{self, Cut, Failed};
use crate::gather::{Collected, File};
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const MAX_BYTES: usize = 1 << 20;
/// The limit on U-Boot's records: far more than it can hold.
const MAX_RECORDS: usize = 1000;
/// The vendor GUID of variables of the boot loader specification (systemd's `src/basic/efivars.h`).
const LOADER: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
const LOADER_VARIABLES: [&str; 6] = [
    "LoaderTimeInitUSec",
    "LoaderTimeExecUSec",
    "LoaderTimeMenuUSec",
    "LoaderInfo",
    "LoaderFirmwareInfo",
    "LoaderFirmwareType",
];

pub(crate) fn collect(until: Instant) -> Collected {
    let mut collected = Collected::default();
    fpdt(Path::new("/sys/firmware/acpi"), &mut collected);
    loader(Path::new("/sys/firmware/efi/efivars"), &mut collected);
    bootstage(Path::new("/proc/device-tree/bootstage"), &mut collected);
    match bounded::program(Command::new("cbmem").arg("-t"), MAX_BYTES, until) {
        Ok(content) => collected.put(File::evidence("cbmem.txt", content.bytes, "cbmem -t"), content.cut),
        Err(Failed::Absent(_)) => coreboot(Path::new("/sys/bus/coreboot/devices"), &mut collected),
        Err(why) => collected.missing("times of coreboot", why.to_string()),
    }
    collected
}

/// Reads coreboot's timestamps as they lie in memory, where Linux shows them.
fn coreboot(devices: &Path, collected: &mut Collected) {
    let memory = devices.join("cbmem-54494d45/mem");
    match bounded::read(&memory, MAX_BYTES) {
        Ok(content) => {
            let origin = memory.display().to_string();
            let file = File { is_binary: true, ..File::evidence("cbmem.bin", content.bytes, &origin) };
            collected.put(file, content.cut);
        }
        Err(e) if e.kind() == ErrorKind::NotFound && !devices.exists() => {}
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let why = "there is no program cbmem, which comes with coreboot's sources, and this kernel does not show its memory \
                       (CONFIG_GOOGLE_CBMEM)";
            collected.missing("times of coreboot", why);
        }
        Err(e) => collected.missing("times of coreboot", format!("{}: {e}{}", memory.display(), bounded::root_hint())),
    }
}

/// Reads the times that Linux takes from the table, in the format of `grep . …/fpdt/boot/*`. Without them, it reads the
/// table itself.
fn fpdt(acpi: &Path, collected: &mut Collected) {
    let mut text = String::new();
    let boot = acpi.join("fpdt/boot");
    for entry in fs::read_dir(&boot).into_iter().flatten().flatten().take(64) {
        if let Some(value) = bounded::line(entry.path()) {
            let _ = writeln!(text, "{}:{value}", entry.path().display());
        }
    }
    if !text.is_empty() {
        collected.put(File::evidence("fpdt.txt", text.into_bytes(), "/sys/firmware/acpi/fpdt/boot"), Cut::No);
        return;
    }
    let table = acpi.join("tables/FPDT");
    match bounded::read(&table, MAX_BYTES) {
        Ok(content) => {
            let file = File { is_binary: true, ..File::for_people("fpdt.bin", content.bytes, "ACPI table FPDT") };
            collected.put(file, content.cut);
            collected.missing(
                "UEFI's times",
                "the kernel has no /sys/firmware/acpi/fpdt (CONFIG_ACPI_FPDT), and the table has addresses alone",
            );
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => collected.missing("UEFI's times", format!("{}: {e}{}", table.display(), bounded::root_hint())),
    }
}

/// Variables of the boot loader: four bytes of attributes, then UTF-16.
fn loader(variables: &Path, collected: &mut Collected) {
    let mut text = String::new();
    for name in LOADER_VARIABLES {
        match bounded::read(variables.join(format!("{name}-{LOADER}")), 4096) {
            Ok(content) => _ = writeln!(text, "{name}={}", utf16(content.bytes.get(4..).unwrap_or_default())),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => collected.missing(name, e.to_string()),
        }
    }
    collected.put(File::evidence("efi-loader.txt", text.into_bytes(), "EFI variables of the boot loader"), Cut::No);
}

/// Decodes UTF-16, without control characters.
pub(super) fn utf16(bytes: &[u8]) -> String {
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    String::from_utf16_lossy(&units).chars().filter(|c| !c.is_control()).collect()
}

/// U-Boot's records in the device tree, in the format of `dtc`.
fn bootstage(node: &Path, collected: &mut Collected) {
    let mut text = String::new();
    for entry in fs::read_dir(node).into_iter().flatten().flatten().take(MAX_RECORDS) {
        let (path, cell) = (entry.path(), |name: &str| {
            let bytes = bounded::read(entry.path().join(name), 4).ok()?.bytes;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        });
        let Some(name) = bounded::line(path.join("name")).filter(|_| path.is_dir()) else { continue };
        let name: String = name.chars().filter(|c| !c.is_control() && *c != '"').collect();
        let kind = ["mark", "accum"].into_iter().find_map(|kind| Some((kind, cell(kind)?)));
        if let Some((kind, us)) = kind {
            let _ = write!(text, "\t{} {{\n\t\tname = \"{name}\";\n\t\t{kind} = <0x{us:x}>;\n\t}};\n", text.len());
        }
    }
    if !text.is_empty() {
        let text = format!("bootstage {{\n{text}}};\n");
        collected.put(File::evidence("bootstage.txt", text.into_bytes(), "/proc/device-tree/bootstage"), Cut::No);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_firmware_become_what_readers_take() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, bytes: &[u8]| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        put("acpi/fpdt/boot/bootloader_launch_ns", b"5855973785\n");
        let wide: Vec<u8> = "5123\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
        put(&format!("efi/LoaderTimeInitUSec-{LOADER}"), &[&[6, 0, 0, 0][..], &wide].concat());
        put("coreboot/cbmem-54494d45/mem", &[0xff, 2]);
        put("stage/0/name", b"board_init_f\0");
        put("stage/0/mark", &[0, 2, 0x2b, 0x9a]);
        put("stage/1/name", b"dm_f\0");
        put("stage/1/accum", &[0, 0, 0x15, 0x0d]);
        let mut collected = Collected::default();
        fpdt(&root.path().join("acpi"), &mut collected);
        loader(&root.path().join("efi"), &mut collected);
        bootstage(&root.path().join("stage"), &mut collected);
        let text = |place: usize| String::from_utf8(collected.files[place].bytes.clone()).unwrap();
        assert!(text(0).ends_with("acpi/fpdt/boot/bootloader_launch_ns:5855973785\n"), "{}", text(0));
        assert_eq!(text(1), "LoaderTimeInitUSec=5123\n");
        assert!(text(2).contains("name = \"board_init_f\";\n\t\tmark = <0x22b9a>;"), "{}", text(2));
        assert!(text(2).contains("name = \"dm_f\";\n\t\taccum = <0x150d>;"), "{}", text(2));
        coreboot(&root.path().join("coreboot"), &mut collected);
        assert_eq!((collected.files[3].name, &collected.files[3].bytes[..]), ("cbmem.bin", &[0xff, 2][..]));
        coreboot(&root.path().join("none"), &mut collected);
        assert_eq!(collected.missing, []);
        coreboot(&root.path().join("stage"), &mut collected);
        assert!(collected.missing[0].why.contains("CONFIG_GOOGLE_CBMEM"));
    }

    #[test]
    fn a_table_without_times_says_so() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("tables")).unwrap();
        fs::write(root.path().join("tables/FPDT"), b"FPDT").unwrap();
        let mut collected = Collected::default();
        fpdt(root.path(), &mut collected);
        assert_eq!((collected.files.len(), collected.missing.len()), (1, 1));
    }
}
