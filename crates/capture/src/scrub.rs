//! Replaces identities of one machine or one person by tokens.
//!
//! Equal values get equal tokens within one recording, so a device stays the same device in every file. The salt is
//! random and is not kept. So tokens of two recordings cannot be compared, and a short value cannot be found by trying
//! all values.
//!
//! It must not change how a line is read: tokens have only letters, digits and `-`.

use crate::bounded;
use crate::forms::{self, Kind, Span};
use crate::gather::File;
use crate::learned_identities::{IdentityMatcher, LearnedIdentities, Words, byte_arrays};
use regex::bytes::Regex;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::LazyLock;

const MAX_VALUES: usize = 2000;

/// Files with one value each, and the kind of the value.
const VALUES: [(&str, Kind); 11] = [
    ("/proc/sys/kernel/hostname", Kind::Host),
    ("/proc/sys/kernel/domainname", Kind::Host),
    ("/etc/hostname", Kind::Host),
    ("/etc/machine-id", Kind::Uuid),
    ("/var/lib/dbus/machine-id", Kind::Uuid),
    ("/proc/sys/kernel/random/boot_id", Kind::Uuid),
    ("/sys/class/dmi/id/product_uuid", Kind::Uuid),
    ("/sys/class/dmi/id/product_serial", Kind::Serial),
    ("/sys/class/dmi/id/board_serial", Kind::Serial),
    ("/sys/class/dmi/id/chassis_serial", Kind::Serial),
    ("/sys/class/dmi/id/chassis_asset_tag", Kind::Serial),
];

/// Folders with a folder for each device, and the file in it with the device's number.
const DEVICES: [(&str, &str); 5] = [
    ("/sys/block", "serial"),
    ("/sys/block", "device/serial"),
    ("/sys/block", "device/wwid"),
    ("/sys/class/nvme", "serial"),
    ("/sys/bus/usb/devices", "serial"),
];

/// Vendors' texts in place of a missing number, and names that many machines have.
const PLACEHOLDERS: [&str; 10] = [
    "localhost",
    "(none)",
    "not specified",
    "not applicable",
    "to be filled by o.e.m.",
    "default string",
    "system serial number",
    "chassis serial number",
    "base board serial number",
    "no asset tag",
];

/// Adds this machine's names and numbers, from its own files, and its users.
pub(crate) fn learn_this_machine(learned: &mut LearnedIdentities) {
    let mut add = |kind, value: &str| {
        let is_own = !PLACEHOLDERS.contains(&value.to_ascii_lowercase().as_str()) && !value.contains("hcd");
        // The serial number of a USB host is the address of its PCI device.
        if is_own && !value.starts_with("0000:") {
            learned.add(kind, value.as_bytes());
        }
    };
    VALUES
        .iter()
        .filter_map(|(path, kind)| Some((*kind, bounded::line(path)?)))
        .for_each(|(kind, value)| add(kind, &value));
    for (folder, file) in DEVICES {
        let devices = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_VALUES);
        devices
            .filter_map(|device| bounded::line(device.path().join(file)))
            .for_each(|value| add(Kind::Serial, &value));
    }
    let homes = fs::read_dir("/home").into_iter().flatten().flatten().take(MAX_VALUES);
    homes.filter_map(|home| home.file_name().into_string().ok()).for_each(|user| add(Kind::User, &user));
}

/// Learns the identities of this machine, and those in the captured files.
pub(crate) fn learn(files: &[File]) -> LearnedIdentities {
    let mut learned = LearnedIdentities::default();
    learn_this_machine(&mut learned);
    files.iter().filter(|file| !file.is_binary).for_each(|file| learned.text(&file.bytes));
    learned
}

/// Replaces the identities in all captured texts.
pub(crate) fn scrub(files: &mut [File], scrubber: &Scrubber) {
    for file in files.iter_mut().filter(|file| !file.is_binary) {
        file.bytes = scrubber.text(&file.bytes);
        file.origin = scrubber.word(&file.origin);
    }
}

/// Replaces the identities of one recording in all its texts.
pub(crate) struct Scrubber {
    salt: [u8; 32],
    pub matcher: IdentityMatcher,
}

impl Scrubber {
    /// A scrubber for these identities, and for those with a form.
    pub(crate) fn new(learned: &LearnedIdentities) -> Scrubber {
        Scrubber { salt: salt(), matcher: learned.matcher() }
    }

    fn token(&self, kind: Kind, value: &[u8]) -> Vec<u8> {
        let digest = Sha256::new().chain_update(self.salt).chain_update(normalized(kind, value)).finalize();
        let mut token = kind.word().as_bytes().to_vec();
        token.push(b'-');
        token.extend(digest.iter().take(4).flat_map(|byte| format!("{byte:02x}").into_bytes()));
        token
    }

    pub(crate) fn text(&self, text: &[u8]) -> Vec<u8> {
        let mut lines = LineScrubber::new(self);
        let mut out = Vec::with_capacity(text.len());
        text.split_inclusive(|&byte| byte == b'\n').for_each(|line| out.extend_from_slice(&lines.next(line)));
        out
    }

    pub(crate) fn word(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.text(text.as_bytes())).into_owned()
    }
}

/// Goes through the lines of a text. It has state because a private key has many lines.
pub(crate) struct LineScrubber<'s> {
    scrubber: &'s Scrubber,
    key_lines_left: usize,
}

impl<'s> LineScrubber<'s> {
    pub(crate) fn new(scrubber: &'s Scrubber) -> LineScrubber<'s> {
        LineScrubber { scrubber, key_lines_left: 0 }
    }

    /// The next line, with tokens.
    pub(crate) fn next<'l>(&mut self, line: &'l [u8]) -> Cow<'l, [u8]> {
        let token = |kind, value: &[u8]| self.scrubber.token(kind, value);
        let line = with_arrays(line, &self.scrubber.matcher, token);
        let mut spans = private_key(&line, &mut self.key_lines_left);
        spans.extend(all_spans(&line, &self.scrubber.matcher));
        if spans.is_empty() {
            return line;
        }
        Cow::Owned(forms::replace_spans(&line, &forms::merge_spans(spans), token))
    }
}

/// Replaces identities in a line's arrays of numbers.
fn with_arrays<'l>(line: &'l [u8], matcher: &IdentityMatcher, token: impl Fn(Kind, &[u8]) -> Vec<u8>) -> Cow<'l, [u8]> {
    let (mut out, mut done) = (Vec::new(), 0);
    for (range, bytes) in byte_arrays(line) {
        let spans = all_spans(&bytes, matcher);
        if !spans.is_empty() {
            out.extend_from_slice(&line[done..range.start]);
            out.extend(numbers(&forms::replace_spans(&bytes, &spans, &token)));
            done = range.end;
        }
    }
    if done == 0 {
        return Cow::Borrowed(line);
    }
    out.extend_from_slice(&line[done..]);
    Cow::Owned(out)
}

/// A text as an array of numbers, as `journalctl` writes text that is not UTF-8.
fn numbers(bytes: &[u8]) -> Vec<u8> {
    let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
    format!("[{}]", numbers.join(",")).into_bytes()
}

pub(crate) fn all_spans(line: &[u8], matcher: &IdentityMatcher) -> Vec<Span> {
    let mut spans = forms::spans(line);
    spans.extend(matcher.spans(&forms::without_escapes(line), Words::Text));
    forms::merge_spans(spans)
}

/// The parts of a private key in a line. `left` is the number of its lines that may follow.
fn private_key(line: &[u8], left: &mut usize) -> Vec<Span> {
    /// The lines of the longest key in use: RSA of 16,384 bits.
    const MAX_KEY_LINES: usize = 250;
    static MARKS: LazyLock<[Regex; 2]> = LazyLock::new(|| {
        [r"-----(?:(BEGIN)|END) [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----", r"[0-9A-Za-z+/]{16,}=*|[0-9A-Za-z+/]{2,}=*\s*$"]
            .map(|pattern| Regex::new(pattern).expect("the pattern is a constant, and a test builds it"))
    });
    let [marks, base64] = &*MARKS;
    let mut spans = Vec::new();
    let mut add = |from: usize, to: usize| {
        let found = base64.find_iter(&line[from..to]).map(|found| from + found.start()..from + found.end());
        spans.extend(found.map(|range| Span { range, kind: Kind::Secret }));
    };
    let mut from = 0;
    if *left > 0 || line.len() > 30 {
        for mark in marks.captures_iter(line) {
            let Some(whole) = mark.get(0) else { continue };
            if *left > 0 {
                add(from, whole.start());
            }
            *left = if mark.get(1).is_some() { MAX_KEY_LINES } else { 0 };
            from = whole.end();
        }
    }
    if *left > 0 {
        add(from, line.trim_ascii_end().len().max(from));
        *left -= 1;
    }
    spans
}

/// The normal form of a value: equal for all spellings of one identity.
fn normalized(kind: Kind, value: &[u8]) -> Vec<u8> {
    let lower =
        String::from_utf8_lossy(value).to_ascii_lowercase().replace("\\x2d", "-").replace("x2d", "-").replace('\\', "");
    match kind {
        Kind::Mac | Kind::Uuid => {
            let plain = if kind == Kind::Uuid { lower.replace("_2d", "") } else { lower };
            plain.bytes().filter(u8::is_ascii_alphanumeric).collect()
        }
        _ => lower.into_bytes(),
    }
}

/// Random bytes from the kernel.
fn salt() -> [u8; 32] {
    let mut salt = [0; 32];
    let random = fs::File::open(Path::new("/dev/urandom")).and_then(|mut random| random.read_exact(&mut salt));
    // Without them, the salt is from this process' addresses, which are random too, and from the time.
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
        let mut learned = LearnedIdentities::default();
        for value in ["web7.example.org", "web7"] {
            learned.add(Kind::Host, value.as_bytes());
        }
        for value in ["S3Z2NB0K", "00000000"] {
            learned.add(Kind::Serial, value.as_bytes());
        }
        learned.text(text.as_bytes());
        String::from_utf8(Scrubber::new(&learned).text(text.as_bytes())).unwrap()
    }

    #[test]
    fn identities_of_this_machine_are_gone() {
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
    fn one_address_has_one_token_however_it_is_written() {
        let text = "eth0 52:54:00:AB:34:56 52-54-00-ab-34-56 5254.00ab.3456 enx525400ab3456 525400ab3456 BOOTIF=01-52-54-00-ab-34-56\n";
        let out = scrubbed(text);
        let tokens: std::collections::BTreeSet<&str> =
            out.match_indices("mac-").map(|(at, _)| &out[at..at + 12]).collect();
        assert_eq!((tokens.len(), out.matches("mac-").count()), (1, 6), "{out}");
    }

    #[test]
    fn a_private_key_is_gone_to_its_last_line_and_what_follows_stays() {
        let key = "-----BEGIN OPENSSH PRIVATE KEY-----\n\
                   [   12.345678] cloud-init[512]: b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZWQy\n\
                   QyNTUx==\n\
                   -----END OPENSSH PRIVATE KEY-----\n\
                   initcall acpi_init\n";
        let out = scrubbed(key);
        assert!(!out.contains("b3Blb") && !out.contains("QyNTUx"), "{out}");
        assert!(out.contains("] cloud-init[512]: secret-") && out.ends_with("-----\ninitcall acpi_init\n"), "{out}");
        let line = r#"{"MESSAGE":"-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA75\nabcd\n-----END RSA PRIVATE KEY-----\n","PRIORITY":"6"}"#;
        let out = scrubbed(line);
        assert!(!out.contains("MIIEp") && out.ends_with(r#"","PRIORITY":"6"}"#), "{out}");
    }

    #[test]
    fn texts_of_no_machine_stay() {
        let text = "pci 0000:00:1f.2: [8086:2922] BAR 0 [io 0xc040-0xc05f] 13:31:32 6.1.0-50 127.0.0.1 ::1 a 00000000\n\
                    ACPI: PNP0A08:00: ff:ff:ff:ff:ff:ff std::io systemd 252 (252.39-1~deb12u2) InactiveExitTimestampMonotonic=105152907\n";
        assert_eq!(scrubbed(text), text);
    }

    #[test]
    fn two_captures_have_nothing_in_common() {
        assert_ne!(scrubbed("10.0.2.15"), scrubbed("10.0.2.15"));
    }
}
