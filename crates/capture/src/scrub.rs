//! Replaces what tells one machine from all others: its name, its numbers, addresses of its network, its users' folders.
//!
//! Equal values get equal tokens within one capture, so that a device is still the same device in every file. The salt is random,
//! and forgotten: tokens of two captures cannot be compared, and a short value cannot be found by trying all.
//!
//! It must not change how a line is read: tokens have letters, digits and `-` alone. Short names (`a`) are left: no word is safe.

use crate::bounded;
use crate::forms::Forms;
use crate::gather::File;
use regex::bytes::{Captures, Regex, RegexBuilder};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

/// A shorter value says nothing of one machine, and stands in too many words.
const VALUE_BYTES_MIN: usize = 4;
const VALUES_MAX: usize = 2000;

/// Files with a value each, and what it is called then.
const VALUES: [(&str, &str); 9] = [
    ("/proc/sys/kernel/hostname", "host"),
    ("/etc/hostname", "host"),
    ("/etc/machine-id", "machine"),
    ("/var/lib/dbus/machine-id", "machine"),
    ("/proc/sys/kernel/random/boot_id", "boot"),
    ("/sys/class/dmi/id/product_serial", "serial"),
    ("/sys/class/dmi/id/product_uuid", "serial"),
    ("/sys/class/dmi/id/board_serial", "serial"),
    ("/sys/class/dmi/id/chassis_serial", "serial"),
];

/// Folders with a folder for each device, and the file in it that has its number.
const DEVICES: [(&str, &str); 5] = [
    ("/sys/block", "serial"),
    ("/sys/block", "device/serial"),
    ("/sys/block", "device/wwid"),
    ("/sys/class/nvme", "serial"),
    ("/sys/bus/usb/devices", "serial"),
];

/// What vendors write where there is no number; and names that are no machine's own.
const NOBODYS: [&str; 13] = [
    "localhost",
    "last",
    "none",
    "not specified",
    "not applicable",
    "to be filled by o.e.m.",
    "default string",
    "system serial number",
    "unknown",
    "linux",
    "kernel",
    "systemd",
    "root",
];

/// What is replaced on this machine.
pub(crate) struct Scrubber {
    salt: [u8; 32],
    /// Values that are known beforehand, and what each is.
    values: BTreeMap<Vec<u8>, &'static str>,
    known: Option<Regex>,
    forms: Forms,
}

/// Replaces what is this machine's own in all texts.
pub(crate) fn scrub(files: &mut [File]) {
    let scrubber = Scrubber::of_this_machine(std::iter::empty());
    for file in files.iter_mut().filter(|file| !file.is_binary) {
        file.bytes = scrubber.text(&file.bytes);
        file.origin = String::from_utf8_lossy(&scrubber.text(file.origin.as_bytes())).into_owned();
    }
}

fn values() -> Vec<(String, &'static str)> {
    let mut found: Vec<(String, &'static str)> =
        VALUES.iter().filter_map(|(path, kind)| Some((bounded::line(path)?, *kind))).collect();
    // A machine that calls itself by its full name is called by its short one, too.
    let short = |(name, kind): &(String, &'static str)| Some((name.split_once('.')?.0.to_owned(), *kind));
    let hosts: Vec<_> = found.iter().filter(|(_, kind)| *kind == "host").filter_map(short).collect();
    found.extend(hosts);
    for (folder, file) in DEVICES {
        let devices = fs::read_dir(folder).into_iter().flatten().flatten().take(VALUES_MAX);
        found.extend(devices.filter_map(|device| Some((bounded::line(device.path().join(file))?, "serial"))));
    }
    found
}

impl Scrubber {
    /// One that knows what this machine's own is, and these names of hosts.
    pub(crate) fn of_this_machine(hosts: impl Iterator<Item = String>) -> Scrubber {
        Scrubber::new(values().into_iter().chain(hosts.map(|host| (host, "host"))).collect())
    }

    fn new(values: Vec<(String, &'static str)>) -> Scrubber {
        let mut all = BTreeMap::new();
        for (value, kind) in values.into_iter().take(VALUES_MAX) {
            let is_nobodys = NOBODYS.contains(&value.to_ascii_lowercase().as_str())
                || value.bytes().all(|byte| byte == value.as_bytes()[0])
                || value.len() < VALUE_BYTES_MIN;
            if !is_nobodys {
                // A boot's number stands in the journal without its dashes.
                if kind == "boot" {
                    all.insert(value.replace('-', "").into_bytes(), kind);
                }
                all.insert(value.into_bytes(), kind);
            }
        }
        // The longest first: a serial number may begin as another one does.
        let mut words: Vec<&Vec<u8>> = all.keys().collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        let words: Vec<String> = words.iter().map(|word| regex::escape(&String::from_utf8_lossy(word))).collect();
        let pattern = format!(r"(?P<left>^|[^0-9A-Za-z])(?P<value>{})(?P<right>$|[^0-9A-Za-z])", words.join("|"));
        let build =
            |pattern: &str| RegexBuilder::new(pattern).unicode(false).multi_line(true).size_limit(64 << 20).build();
        let known = if words.is_empty() { None } else { build(&pattern).ok() };
        Scrubber { salt: salt(), values: all, known, forms: Forms::new() }
    }

    fn token(&self, kind: &str, value: &[u8]) -> Vec<u8> {
        let digest = Sha256::new().chain_update(self.salt).chain_update(value.to_ascii_lowercase()).finalize();
        let mut token = kind.as_bytes().to_vec();
        token.push(b'-');
        token.extend(digest.iter().take(4).flat_map(|byte| format!("{byte:02x}").into_bytes()));
        token
    }

    pub(crate) fn text(&self, bytes: &[u8]) -> Vec<u8> {
        let mut text = bytes.to_vec();
        if let Some(known) = &self.known {
            // A separator between two values belongs to both: twice finds the second one too.
            for _ in 0..2 {
                text = known.replace_all(&text, |found: &Captures<'_>| self.known_value(found)).into_owned();
            }
        }
        self.forms.replaced(&text, |kind, value| match kind {
            // The name of an interface has room for so much.
            "ethernet" => self.token("mac", value)["mac-".len()..].to_vec(),
            kind => self.token(kind, value),
        })
    }

    fn known_value(&self, found: &Captures<'_>) -> Vec<u8> {
        let (left, value, right) = (&found["left"], &found["value"], &found["right"]);
        let kind = self.values.get(value).copied().unwrap_or("value");
        [left, &self.token(kind, value), right].concat()
    }
}

/// Random bytes of the kernel's.
fn salt() -> [u8; 32] {
    let mut salt = [0; 32];
    let random = fs::File::open(Path::new("/dev/urandom")).and_then(|mut random| random.read_exact(&mut salt));
    // Without them the addresses of this process, which are random too, and the time.
    if random.is_err() {
        let now = std::time::SystemTime::now();
        salt = Sha256::digest(format!("{now:?} {:p} {}", &salt, std::process::id())).into();
    }
    salt
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubbed(text: &str) -> String {
        let values = [
            ("web7.example.org", "host"),
            ("web7", "host"),
            ("S3Z2NB0K", "serial"),
            ("00000000", "serial"),
            ("a", "host"),
        ];
        let scrubber = Scrubber::new(values.map(|(value, kind)| (value.to_owned(), kind)).to_vec());
        String::from_utf8(scrubber.text(text.as_bytes())).unwrap()
    }

    #[test]
    fn what_is_this_machines_own_is_gone() {
        let text = "6,1,0,-;virtio_net eth0: 52:54:00:12:34:56 web7 web7.example.org web7 login: 10.0.2.15 fe80::5054:ff:fe12:3456\n\
                    root=UUID=7fb9d1a0-0d45-4d4f-9f0a-0a5e3a1f9a0b usb 1-1: SerialNumber: ABC123\n\
                    Id=dev-disk-by\\x2did-ata\\x2dSAMSUNG_S3Z2NB0K.device /home/anna/x dev-disk-by\\x2duuid-7fb9d1a0\\x2d0d45\\x2d4d4f\\x2d9f0a\\x2d0a5e3a1f9a0b.device\n";
        let out = scrubbed(text);
        for gone in ["52:54", "web7", "example", "10.0.2", "fe80", "7fb9d1a0", "ABC123", "S3Z2NB0K", "SAMSUNG", "anna"]
        {
            assert!(!out.contains(gone), "{gone}: {out}");
        }
        assert_eq!(out.lines().count(), 3);
        assert!(out.starts_with("6,1,0,-;virtio_net eth0: mac-"), "{out}");
        assert!(
            out.contains("Id=dev-disk-by\\x2did-serial-")
                && out.contains(".device /home/user-")
                && out.contains("/x dev-disk-by\\x2duuid-uuid-"),
            "{out}"
        );
        // The same file system has the same token in both forms.
        let token = |text: &str, before: &str| text.split(before).nth(1).unwrap()[..13].to_owned();
        assert_eq!(token(&out, "root=UUID="), token(&out, "by\\x2duuid-"));
        let words: Vec<&str> = out.lines().next().unwrap().split(' ').collect();
        assert_eq!(words[3], words[5]);
    }

    #[test]
    fn what_is_nobodys_own_stays() {
        let text = "pci 0000:00:1f.2: [8086:2922] BAR 0 [io 0xc040-0xc05f] 13:31:32 6.1.0-50 127.0.0.1 ::1 a 00000000\n\
                    ACPI: PNP0A08:00: ff:ff:ff:ff:ff:ff std::io systemd 252 (252.39-1~deb12u2) InactiveExitTimestampMonotonic=105152907\n";
        assert_eq!(scrubbed(text), text);
    }

    #[test]
    fn two_captures_have_nothing_in_common() {
        assert_ne!(scrubbed("10.0.2.15"), scrubbed("10.0.2.15"));
    }
}
