//! Guests made for a test: a process 1 of a few lines of C, in its own initial RAM file system.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The part of x86-64 Linux that a process 1 without a C library needs.
const PRELUDE: &str = r#"
static long call(long n, long a, long b, long c, long d) {
    long r; register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return r;
}
static void say(const char *text) { long n = 0; while (text[n]) n++; call(1, 1, (long)text, n, 0); }
static void ends(long how) { call(169, 0xfee1dead, 672274793, how, 0); }
static void power_off(void) { ends(0x4321fedc); }
static void restart(void) { ends(0x01234567); }
static void wait(void) { for (;;) call(34, 0, 0, 0, 0); }
"#;

/// An initial RAM file system with this body of a C function as `/init`, with the calls of the prelude.
pub fn initrd(folder: &Path, body: &str) -> PathBuf {
    let program = folder.join("init");
    let mut compiler = Command::new("cc")
        .args(["-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-Os", "-w", "-x", "c", "-", "-o"])
        .arg(&program)
        .stdin(Stdio::piped())
        .spawn()
        .expect("cc, which Rust links with, is there");
    let source = format!("{PRELUDE}\nvoid _start(void) {{ {body} }}\n");
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success(), "cc refused:\n{source}");
    let archive = folder.join("initrd.cpio");
    std::fs::write(&archive, cpio(&std::fs::read(&program).unwrap())).unwrap();
    archive
}

/// A cpio archive (newc) of `/init`, and of the console's device, without which it could print nothing.
fn cpio(init: &[u8]) -> Vec<u8> {
    let mut archive = Vec::new();
    let mut entry = |name: &str, mode: u32, device: [usize; 2], bytes: &[u8]| {
        archive.extend_from_slice(b"070701");
        let fields = [1, mode as usize, 0, 0, 1, 0, bytes.len(), 0, 0, device[0], device[1], name.len() + 1, 0];
        archive.extend(fields.iter().flat_map(|field| format!("{field:08x}").into_bytes()));
        archive.extend_from_slice(name.as_bytes());
        archive.push(0);
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend_from_slice(bytes);
        archive.resize(archive.len().next_multiple_of(4), 0);
    };
    entry("dev", 0o040_755, [0, 0], b"");
    entry("dev/console", 0o020_600, [5, 1], b"");
    entry("init", 0o100_755, [0, 0], init);
    entry("TRAILER!!!", 0, [0, 0], b"");
    archive
}
