//! Tests the archive against Debian's own cpio.

use guest_init::config::{Config, Root};
use guest_init::cpio::{self, Module};
use std::io::Write;
use std::process::{Command, Stdio};

/// The output of `cpio` for the archive, or `None` if there is no cpio.
fn cpio(arguments: &[&str], archive: &[u8]) -> Option<String> {
    let mut child = match Command::new("cpio")
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    {
        Ok(child) => child,
        Err(e) => {
            let why = format!("SKIPPED: cannot run cpio ({e}); Debian's package `cpio` has it\n");
            let _ = std::io::stderr().write_all(why.as_bytes());
            return None;
        }
    };
    // cpio stops reading at the trailer. The rest is padding, so a closed pipe is then not an error.
    let _ = child.stdin.take().expect("piped").write_all(archive);
    let output = child.wait_with_output().expect("cpio ends");
    assert!(output.status.success(), "cpio: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn debian_s_cpio_lists_every_entry_with_its_kind() {
    let archive = cpio::archive(b"\x7fELF not really", &Config::default(), &[]);
    let Some(listing) = cpio(&["-tv", "--quiet"], &archive) else { return };
    let kinds: Vec<(&str, &str)> = listing
        .lines()
        .map(|line| (line.split(' ').next().unwrap_or(""), line.rsplit(' ').next().unwrap_or("")))
        .collect();
    assert_eq!(
        kinds,
        [
            ("drwxr-xr-x", "dev"),
            ("crw-------", "dev/console"),
            ("drwxr-xr-x", "bootscope"),
            ("drwxr-xr-x", "bootscope/proc"),
            ("drwxr-xr-x", "bootscope/tracing"),
            ("crw-------", "bootscope/kmsg"),
            ("-rw-r--r--", "bootscope/config"),
            ("-rwxr-xr-x", "bootscope/init"),
        ]
    );
    assert!(listing.contains("5,   1") && listing.contains("1,  11"), "device numbers:\n{listing}");
}

#[test]
fn a_root_has_its_modules_and_the_name_that_mounts_it() {
    let root = Root { device: "vda".into(), file_system: "ext4".into(), dax: false };
    let config = Config { root: Some(root), modules: vec!["virtio.ko".into()], ..Config::default() };
    let module = Module { file: "virtio.ko".into(), bytes: b"\x7fELF module".to_vec() };
    let archive = cpio::archive(b"\x7fELF", &config, &[module]);
    let Some(listing) = cpio(&["-tv", "--quiet"], &archive) else { return };
    assert!(listing.contains("bootscope/root -> /bootscope/init"), "{listing}");
    for folder in ["bootscope/sysroot", "bootscope/modules"] {
        assert!(listing.lines().any(|l| l.starts_with("drwxr-xr-x") && l.ends_with(folder)), "{folder}: {listing}");
    }
    let Some(text) = cpio(&["-i", "--to-stdout", "--quiet", "bootscope/modules/virtio.ko"], &archive) else { return };
    assert_eq!(text, "\x7fELF module");
}

#[test]
fn contents_come_out_as_they_went_in_for_every_length() {
    for bytes in 0..9 {
        let elf: Vec<u8> = (0..bytes).map(|i| b'a' + i).collect();
        let archive = cpio::archive(&elf, &Config::default(), &[]);
        assert_eq!(archive.len() % 512, 0);
        let Some(text) = cpio(&["-i", "--to-stdout", "--quiet", "bootscope/init"], &archive) else { return };
        assert_eq!(text.as_bytes(), elf);
    }
    let config = Config { payload_bytes: 12345, ..Config::default() };
    let archive = cpio::archive(b"", &config, &[]);
    let Some(text) = cpio(&["-i", "--to-stdout", "--quiet", "bootscope/config"], &archive) else { return };
    assert_eq!(Config::parse(&text), (config, vec![]));
}
