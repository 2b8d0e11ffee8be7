use super::*;
use std::fmt::Write as _;

fn table() -> impl Iterator<Item = &'static Form> {
    table::FORMS.into_iter().flatten()
}

/// The text, with each found identity between « and ».
fn marked(text: &str) -> String {
    let mut spans = spans(text.as_bytes());
    let mut out = text.as_bytes().to_vec();
    spans.reverse();
    for Span { range, .. } in spans {
        out.splice(range.end..range.end, "»".bytes());
        out.splice(range.start..range.start, "«".bytes());
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn each_form_finds_its_example_and_no_form_finds_anything_in_the_other() {
    let mut wrong = String::new();
    for (number, form) in table().enumerate() {
        let plain = form.example.replace(['«', '»'], "");
        let found = marked(&plain);
        if found != form.example {
            let _ = writeln!(wrong, "{}: {found}\n   not: {}", form.name, form.example);
        }
        if !PATTERNS.each[number].0.is_match(&without_escapes(plain.as_bytes())) {
            let _ = writeln!(wrong, "{}: another form finds its example", form.name);
        }
        let found = marked(form.other);
        if found != form.other {
            let _ = writeln!(wrong, "{}: finds in the other: {found}", form.name);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A lake's word for an identity must not be an identity itself.
#[test]
fn a_lake_word_is_not_an_identity() {
    for form in table() {
        let plain = form.example.replace(['«', '»'], "");
        let lake = |line: &[u8]| replace_spans(line, &spans(line), |kind, _| kind.lake_word().into_bytes());
        let once = lake(plain.as_bytes());
        let twice = lake(&once);
        assert_eq!(String::from_utf8_lossy(&twice), String::from_utf8_lossy(&once), "{}", form.name);
    }
}

/// Texts from the logs and tables of real boots.
#[test]
fn texts_of_every_machine_stay() {
    let texts = [
        "initcall acpi_init",
        "pci 0000:00:1f.2: [8086:2922] BAR 0 [io 0xc040-0xc05f]",
        "DEVICE_PROBE psm",
        "SYSINIT clocks · DELAY",
        "lab::decode::init",
        "std::io::cafe::read",
        "ACPI: PNP0A08:00: x",
        "mpt3sas version 43.100.00.00 loaded",
        "systemd 252 (252.39-1~deb12u2)",
        "Linux 4.19.0.17, firmware version: 10.20.30.40, fw is 1.2.3.4",
        "loopback 127.0.0.1 ::1",
        "13:31:32 6.1.0-50",
        "systemd-udevd.service",
        "dev-vda1.device",
        "serial-getty@ttyS0.service",
        "console-setup.service vconsole.keymap=de",
        "usb 1-1: New USB device strings: Mfr=1, Product=3, SerialNumber=5",
        "usb usb1: SerialNumber: 0000:00:14.0",
        "/usr/lib/systemd/systemd",
        "systemd-ask-password-console.path: started",
        "DMI: QEMU Standard PC (Q35 + ICH9, 2009)/X, BIOS 1.16.2-debian-1.16.2-1 04/01/2014",
        "Command line: BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro console=ttyS0,115200n8 quiet",
        "systemd[1]: Started systemd-logind.service - User Login Management.",
        "systemd[1]: Created slice user.slice - User and Session Slice.",
        "audit: type=2000 audit(1795528701.337:1): state=initialized audit_enabled=0 res=1 key=(null)",
    ];
    for text in texts {
        assert_eq!(marked(text), text);
    }
}

#[test]
fn colours_and_escapes_join_no_words() {
    for (text, expected) in [
        ("\u{1b}[32m10.0.2.15\u{1b}[0m", "\u{1b}[32m«10.0.2.15»\u{1b}[0m"),
        (r"\x1b[0;1m10.0.2.15\x1b[0m", r"\x1b[0;1m«10.0.2.15»\x1b[0m"),
        (r#"{"MESSAGE":"up\n10.0.2.15 \/home\/anna\/x"}"#, r#"{"MESSAGE":"up\n«10.0.2.15» \/home\/«anna»\/x"}"#),
        (r#"{"x":"password=\"hunter2\""}"#, r#"{"x":"password=\"«hunter2»\""}"#),
    ] {
        assert_eq!(marked(text), expected);
    }
}

/// The forms have one example each; these are other lines of the same forms.
#[test]
fn each_place_of_an_identity_is_known() {
    let lines = [
        "netroot=iscsi:«anna:pa55»@«10.9.8.7»::3260:1:x",
        "MYSQL_PASSWORD: «data7» SECRET_KEY_BASE=«8fa1»",
        "echo root:«root77» | chpasswd",
        "post https://«hooks.slack.com»/services/«T0/B0/x1»",
        r"dev-disk-by\x2dlabel-«heron\x2ddata».device /dev/disk/by-partlabel/«heron»",
        "Found device /dev/disk/by-label/«heron».",
        r"/dev/mapper/«web7--vg»-root dev-mapper-debian\x2d\x2dvg\x2droot.device",
        "pvscan[300] VG «web7» run autoactivation.",
        "spl_hostid=0x«00bab10c» OF: fdt: Machine serial «10000000abcdef12»",
        "androidboot.em.did=«201a2b3c4d5e6f77» phone number +«491701234567»",
        "PXE: pxelinux.cfg/«C0A8»",
        "hostnamectl set-hostname «web7» sethostname(\"«web7»\", 4)",
        " host   : «web7»",
        "[    1.000000]  domain : «corp»",
        "auto url=«seed7»/x netcfg/get_domain=«corp»",
        "libvirtd: guest=«customer7» NetBIOS name «WEB7»",
        "«web7» console login: ",
        "Last login: Tue Nov 24 10:11:12 from «laptop7»",
        "«web-7»# uname",
        "policy: set '«Office»' (wlan0) as default",
        "Created slice User Slice of «anna». Slice User Slice of UID 1000.",
        "groupadd: new group: name=«anna», GID=1001",
        "chown «anna»:staff /srv, Mounting /media/«anna»/usb, run ~«anna»/x",
        "git clone «git@git.corp.example»:«anna»/x",
        "passwd/user-fullname=\"«Anna Berg»\"",
    ];
    for line in lines {
        assert_eq!(marked(&line.replace(['«', '»'], "")), line);
    }
}

/// Finds each identity in the logs of the readers' tests, and no other. All other lines stay the same.
#[test]
fn in_real_logs_no_line_without_an_identity_changes() {
    const IDENTITIES: [&str; 19] = [
        "deb12",
        "da998ada",
        "e30ae4a9e3e74371905e27b7ccdc5a3b",
        // EFI's GUID of one of its variables.
        "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f",
        "mroos@t5140",
        "root@ci",
        "mingo@earth5",
        // From a journal: its file, and its boot.
        "4d8080745ac04294a86c06f54eb1ce3d",
        "e7c77a60f35b4e7288600b4bbf632929",
        // The builder of a kernel and the build host: replacements for the names in the public log.
        "m@h",
        "a@b",
        "root@host",
        "XXX@XXX",
        // The names of boards before a login prompt.
        "buildroot login:",
        "am62xx-evm login:",
        "debian login:",
        "vyasa-rk3288 login:",
        "Vyasa-RK3288",
        // The default number of a kind of USB adapter.
        "00e04c000001",
    ];
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../evidence/tests/data")];
    let (mut files, mut lines, mut wrong) = (0, 0, String::new());
    let mut met = std::collections::BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            let bytes = crate::anonymous::unpacked(&bytes).map_or(bytes, |(text, _)| text);
            if path.extension().is_some_and(|extension| extension == "md") || !crate::anonymous::is_text(&bytes) {
                continue;
            }
            files += 1;
            let mut learned = crate::learned_identities::LearnedIdentities::default();
            learned.text(&bytes);
            let scrubber = crate::scrub::Scrubber::new(&learned);
            for line in bytes.split(|byte| *byte == b'\n') {
                lines += 1;
                if scrubber.text(line) == line {
                    continue;
                }
                let text = String::from_utf8_lossy(line);
                let identities = || IDENTITIES.into_iter().filter(|identity| text.contains(identity));
                met.extend(identities());
                if identities().next().is_none() {
                    let _ = writeln!(wrong, "{}: {}", path.display(), marked(&text));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(files > 60 && lines > 40_000, "{files} files, {lines} lines");
    assert_eq!(met.len(), IDENTITIES.len(), "{met:?}");
}

#[test]
fn the_document_has_every_form() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/identities.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once("cargo test -p capture` -->\n").unwrap();
    let (forms, after) = rest.split_once("<!-- end of forms -->").unwrap();
    let mut expected = "| form | token | example |\n|---|---|---|\n".to_owned();
    for form in table() {
        let example = form.example.replace('|', "\\|");
        let _ = writeln!(expected, "| {} | `{}-…` | `` {} `` |", form.name, form.kind.word(), example.trim());
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, format!("{before}cargo test -p capture` -->\n{expected}<!-- end of forms -->{after}"))
            .unwrap();
    } else {
        assert_eq!(forms, expected, "BLESS=1 writes the section anew");
    }
}
