//! What tells one machine from all others and is known by its form: addresses of its hardware and its networks, identifiers of disks and
//! file systems, serial numbers, its users' folders; and what must be nobody else's: passwords and keys.
//!
//! It must not take for one what is none: names of functions, PCI addresses, times, versions.

use regex::bytes::{Captures, Regex, RegexBuilder};
use std::borrow::Cow;
use std::net::Ipv6Addr;
use std::sync::LazyLock;

const FORMS: &str = r"(?x)
    (?P<uuid>   \b[0-9a-fA-F]{8} (?:-|\\{1,2}x2d) [0-9a-fA-F]{4} (?:-|\\{1,2}x2d) [0-9a-fA-F]{4} (?:-|\\{1,2}x2d) [0-9a-fA-F]{4} (?:-|\\{1,2}x2d) [0-9a-fA-F]{12}\b )
  | (?P<ethernet> \benx[0-9a-f]{12}\b )
  | (?P<address> [0-9a-fA-F]{0,4} (?: : [0-9a-fA-F]{0,4} ){2,15} )
  | (?P<internet> \b(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}\b )
  | (?P<home> /(?:home|Users)/ ) (?P<user> [^/\s\x22':,;\\]+ )
  | (?P<before> SerialNumber:\s* | dev-disk-by\\{1,2}x2did- | /dev/disk/by-id/ ) (?P<after> [^\s/,;]+? ) (?P<end> \.(?:device|swap)\b | [\s/,;] | $ )
";
/// Behind these words stand versions, which may look like addresses.
const VERSIONS: [&str; 12] = [
    "version",
    "version:",
    "ver",
    "ver.",
    "driver",
    "driver:",
    "firmware",
    "firmware:",
    "fw",
    "revision",
    "release",
    "bios",
];
/// What only its owner may know, and numbers that are known by the name before them, or by their length.
const SECRETS: &str = r#"(?xi)
    (?P<secret> (?:^|[\s?&;,"'\[({]) [\w.-]*? (?:key|token|passw(?:or)?d|passphrase|pwd|secret|credentials?|psk) = )
        (?: "[^"]*" | '[^']*' | \[secret\] | [^\s&,;"')\]]+ )
  | (?P<told> \b (?:token|passw(?:or)?d|passphrase|pwd|secret|psk) :\ +) (?: \[secret\] | [^\s,;"')\]]+ )
  | (?P<url> \b[a-z][a-z0-9+.-]*:// ) [^\s/@]+ (?P<at> @ )
  | (?P<disk> \b(?:part)?uuid= | /by-(?:part)?uuid/ | by\\{1,2}x2d(?:part)?uuid- ) [0-9a-f]{4,8} (?: (?:-|\\{1,2}x2d) [0-9a-f]{2,12} ){0,4} \b
  | (?P<dashed> (?:^|[\s=(,;]) ) [0-9a-f]{2} (?: -[0-9a-f]{2} ){5,6} \b
  | (?P<long> \b[0-9a-f]{32}\b )
  | (?P<serial> \b(?: [\w.-]*serial (?:no|[_-]?number)? = | serial\ number:?\s+ | S/N[:=]\s* ) ) (?P<number> [^\s,;"'()]+ )
"#;

/// Finds what is known by its form.
pub(crate) struct Forms(Regex);

impl Forms {
    pub(crate) fn new() -> Forms {
        Forms(built(FORMS))
    }

    /// A text with something else in place of each, given what it is and its value.
    pub(crate) fn replaced(&self, text: &[u8], token: impl Fn(&'static str, &[u8]) -> Vec<u8>) -> Vec<u8> {
        self.0.replace_all(text, |found: &Captures<'_>| form(text, found, &token)).into_owned()
    }
}

fn built(pattern: &str) -> Regex {
    let built = RegexBuilder::new(pattern).unicode(false).multi_line(true).build();
    built.expect("the pattern is a constant, and a test builds it")
}

fn form(text: &[u8], found: &Captures<'_>, token: &impl Fn(&'static str, &[u8]) -> Vec<u8>) -> Vec<u8> {
    let whole = &found[0];
    if let (Some(before), Some(after), Some(end)) = (found.name("before"), found.name("after"), found.name("end")) {
        return [before.as_bytes(), &token("serial", after.as_bytes()), end.as_bytes()].concat();
    }
    if let (Some(home), Some(user)) = (found.name("home"), found.name("user")) {
        return [home.as_bytes(), &token("user", user.as_bytes())].concat();
    }
    if found.name("uuid").is_some() {
        let plain = String::from_utf8_lossy(whole).replace("\\\\x2d", "-").replace("\\x2d", "-");
        return token("uuid", plain.as_bytes());
    }
    if found.name("ethernet").is_some() {
        return [b"enx", &token("ethernet", &whole[3..])[..]].concat();
    }
    let (before, after) = found.get(0).map_or((&[][..], &[][..]), |at| (&text[..at.start()], &text[at.end()..]));
    if found.name("internet").is_some() {
        return if is_internet(before, whole, after) { token("ip", whole) } else { whole.to_vec() };
    }
    // A colon before or behind it is the sentence's.
    let first = usize::from(whole.starts_with(b":") && !whole.starts_with(b"::"));
    let last = whole.len() - usize::from(whole.ends_with(b":") && !whole.ends_with(b"::"));
    let before = if first > 0 { &[][..] } else { before };
    match whole.get(first..last).and_then(|core| address(before, core, after)) {
        Some((kind, value)) => [&whole[..first], &token(kind, &value), &whole[last..]].concat(),
        None => whole.to_vec(),
    }
}

/// Whether four numbers are an address and no version. Of nobody's own are the machine itself and all machines.
fn is_internet(before: &[u8], whole: &[u8], after: &[u8]) -> bool {
    let is_nobodys = [&b"127."[..], b"0.", b"255."].iter().any(|nobodys| whole.starts_with(nobodys));
    // `07` is no part of an address, but one of a version.
    let is_padded = whole.split(|&byte| byte == b'.').any(|part| part.len() > 1 && part[0] == b'0');
    let digit = |bytes: &[u8], at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let goes_on = matches!(after, [b'.', ..]) && digit(after, 1)
        || matches!(after, [b'-' | b'+' | b'~', next, ..] if next.is_ascii_alphanumeric());
    let came_on = before.ends_with(b".") || before.ends_with(b"-");
    let words = String::from_utf8_lossy(&before[before.len().saturating_sub(24)..]).to_ascii_lowercase();
    let last = words.trim_end().rsplit([' ', '\t', '(', ',']).next().unwrap_or_default();
    !(is_nobodys || is_padded || goes_on || came_on || VERSIONS.contains(&last))
}

/// An address of hardware, or of the Internet's version 6, and what it is.
fn address(before: &[u8], whole: &[u8], after: &[u8]) -> Option<(&'static str, Vec<u8>)> {
    let text = String::from_utf8_lossy(whole);
    let parts: Vec<&str> = text.split(':').collect();
    if (parts.len() == 6 || parts.len() == 8) && parts.iter().all(|part| part.len() == 2) {
        let is_nobodys = ["00", "ff"].iter().any(|all| parts.iter().all(|part| part == all));
        return (!is_nobodys).then(|| ("mac", text.replace(':', "").into_bytes()));
    }
    // `decode::init` ends as an address begins.
    let in_a_word =
        |byte: Option<&u8>| byte.is_some_and(|&byte| byte.is_ascii_alphanumeric() || b"_.:".contains(&byte));
    let is_shortened = text.contains("::");
    if in_a_word(before.last()) || after.first().is_some_and(|&byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    if is_shortened && !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let ip = text.parse::<Ipv6Addr>().ok()?;
    (!ip.is_loopback() && !ip.is_unspecified() && whole.len() > 3).then(|| ("ip", whole.to_vec()))
}

/// A text without what is a machine's own, and without secrets. In place of each stands a word that says what it is, the same for every
/// machine: `[address]`, `[secret]`, `[serial]`, `[user]`, `[uuid]`.
#[must_use]
pub fn without_identities(text: &str) -> Cow<'_, str> {
    static BUILT: LazyLock<(Regex, Forms)> = LazyLock::new(|| (built(SECRETS), Forms::new()));
    // Each of the forms has one of these in it. Most texts are names of functions.
    let may_have_one = text.bytes().any(|byte| b":=/.-@\\".contains(&byte)) || text.len() >= 32;
    if !may_have_one && !text.contains("enx") && !text.contains("erial") {
        return Cow::Borrowed(text);
    }
    let (secrets, forms) = &*BUILT;
    let without = secrets.replace_all(text.as_bytes(), |found: &Captures<'_>| {
        let of = |name: &str| found.name(name).map_or(&b""[..], |found| found.as_bytes());
        let number = of("number");
        let is = |name: &str| found.name(name).is_some();
        let word: &[u8] = match () {
            () if is("secret") || is("told") => b"[secret]",
            () if is("url") => b"[user]",
            () if is("disk") || is("long") => b"[uuid]",
            () if is("dashed") => b"[address]",
            // `SerialNumber=3` of a USB device says which of its texts has it.
            () if number.len() < 4 && number.iter().all(u8::is_ascii_digit) => number,
            () => b"[serial]",
        };
        let before = ["secret", "told", "url", "disk", "dashed", "serial"].map(of).concat();
        [&before, word, of("at")].concat()
    });
    let without = forms.replaced(&without, |kind, _| match kind {
        "ip" | "mac" | "ethernet" => b"[address]".to_vec(),
        kind => format!("[{kind}]").into_bytes(),
    });
    match String::from_utf8(without) {
        Ok(without) if without != text => Cow::Owned(without),
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_machines_own_becomes_a_word() {
        let texts = [
            ("e1000 eth0: 52:54:00:12:34:56", "e1000 eth0: [address]"),
            ("IP-Config: 10.0.2.15 via 10.0.2.2, up", "IP-Config: [address] via [address], up"),
            ("eth0: link 52:54:00:12:34:56: up, addr:fe80::1: up", "eth0: link [address]: up, addr:[address]: up"),
            ("listens on [fe80::5054:ff:fe12:3456]:22", "listens on [[address]]:22"),
            ("route 2001:db8:0:0:0:0:0:1", "route [address]"),
            ("ifup enx525400123456.service", "ifup enx[address].service"),
            ("usb 1-1: SerialNumber: ABC123", "usb 1-1: SerialNumber: [serial]"),
            ("androidboot.serialno=0123ABC quiet", "androidboot.serialno=[serial] quiet"),
            ("disk (serial=S3Z2-NB0K)", "disk (serial=[serial])"),
            ("root=UUID=7fb9d1a0-0d45-4d4f-9f0a-0a5e3a1f9a0b ro", "root=UUID=[uuid] ro"),
            (
                r"dev-disk-by\x2duuid-7fb9d1a0\x2d0d45\x2d4d4f\x2d9f0a\x2d0a5e3a1f9a0b.device",
                r"dev-disk-by\x2duuid-[uuid].device",
            ),
            ("root=PARTUUID=1234abcd-01 ro", "root=PARTUUID=[uuid] ro"),
            ("mount /dev/disk/by-uuid/AB12-34CD", "mount /dev/disk/by-uuid/[uuid]"),
            (r"dev-disk-by\x2duuid-AB12\x2d34CD.device", r"dev-disk-by\x2duuid-[uuid].device"),
            ("BOOTIF=01-52-54-00-12-34-56", "BOOTIF=[address]"),
            ("link 52-54-00-12-34-56 is up", "link [address] is up"),
            ("/var/log/journal/0123456789abcdef0123456789ABCDEF/x", "/var/log/journal/[uuid]/x"),
            ("login: password: hunter2", "login: password: [secret]"),
            ("exec /home/anna/run", "exec /home/[user]/run"),
            ("quiet api_key=abc123 password='a b' ro", "quiet api_key=[secret] password=[secret] ro"),
            ("luks.passphrase=\"x y\" TOKEN=t", "luks.passphrase=[secret] TOKEN=[secret]"),
            ("get https://anna:pa55@example.org/x?token=t&a=1", "get https://[user]@example.org/x?token=[secret]&a=1"),
        ];
        for (text, expected) in texts {
            assert_eq!(without_identities(text), expected);
            assert_eq!(without_identities(expected), expected, "again");
        }
    }

    /// As the logs and the tables of real boots have them.
    #[test]
    fn what_is_every_machines_stays() {
        let texts = [
            "initcall acpi_init",
            "pci 0000:00:1f.2: [8086:2922] BAR 0 [io 0xc040-0xc05f]",
            "DEVICE_PROBE psm",
            "SYSINIT clocks · DELAY",
            "lab::decode::init",
            "core::face::add",
            "cafe::dead::beef",
            "std::io::cafe::read",
            "ACPI: PNP0A08:00: x",
            "vmxnet3 driver - version 1.7.0.0-k-NAPI",
            "be2net driver 14.6.0.0",
            "megasas: 07.719.03.00-rc1",
            "mpt3sas version 43.100.00.00 loaded",
            "systemd 252 (252.39-1~deb12u2)",
            "Serial: 8250/16550 driver, 4 ports, IRQ sharing enabled",
            "loopback 127.0.0.1 ::1",
            "ff:ff:ff:ff:ff:ff",
            "13:31:32 6.1.0-50",
            "systemd-udevd.service",
            "dev-vda1.device",
            "serial-getty@ttyS0.service",
            "console-setup.service vconsole.keymap=de",
            "usb 1-1: New USB device strings: Mfr=1, Product=3, SerialNumber=5",
            "/usr/lib/systemd/systemd",
            "systemd-ask-password-console.path: started",
            "log-2026-11-26-10-11-12-13.txt",
            "cert 'CA: 6ccece7e4c6c0d1f6149f3dd27dfcc5cbb419ea1'",
            "dev-disk-by\\x2dlabel-root.device",
        ];
        for text in texts {
            assert_eq!(without_identities(text), text);
        }
    }
}
