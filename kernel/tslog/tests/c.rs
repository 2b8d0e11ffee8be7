//! Tests of `tslog.h`: its example records a boot, and C and Rust, linked into one program, write into one log.

mod support;

use std::path::Path;
use support::{CRATE, cc, folder, run, rustc, tslog_rlib, without_own_rate};

/// The lines of a log with `T` in place of the ticks.
fn without_ticks(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let mut words: Vec<&str> = line.splitn(3, ' ').collect();
        assert!(words.len() == 3 && words[1].parse::<u64>().is_ok_and(|ticks| ticks > 0), "{line}");
        words[1] = "T";
        words.join(" ")
    };
    text.lines().map(line).collect()
}

#[test]
fn the_example_records_a_boot() {
    let program = folder("c-example").join("boot");
    let source = Path::new(CRATE).join("examples/boot.c");
    let mut cc = cc();
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-DTSLOG", "-I"]).arg(Path::new(CRATE).join("include"));
    run(cc.arg(&source).arg("-o").arg(&program));
    let lines = without_ticks(&without_own_rate(&run(&mut support::program(&program)), 1));
    let expected = [
        "0x0 T ENTER main hammer_time",
        &format!("0x0 T EVENT {} 67", source.display()),
        "0x0 T ENTER mount_root",
        "0x0 T EVENT WAIT root mount",
        "0x1000 T THREAD usbus0",
        "0x1000 T EVENT HOLD root mount",
        "0x1000 T ENTER delay",
        "0x1000 T EXIT delay",
        "0x1000 T EVENT RELEASE root mount",
        "0x0 T EVENT UNWAIT root mount",
        "0x0 T ENTER VFS_MOUNT zfs",
        "0x0 T EXIT VFS_MOUNT zfs",
        "0x0 T EXIT mount_root",
        "0x0 T EXIT main hammer_time",
        "0x0 T EVENT TSLOG before-start 1",
    ];
    assert_eq!(lines, expected);
}

/// Compiles one of the test programs, runs it and returns its output.
fn program(name: &str) -> String {
    let program = folder(&format!("c-{name}")).join(name);
    let mut cc = cc();
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-DTSLOG", "-I"]).arg(Path::new(CRATE).join("include"));
    let source = Path::new(CRATE).join(format!("tests/programs/{name}.c"));
    run(cc.arg(source).arg("-o").arg(&program));
    run(&mut support::program(&program))
}

#[test]
fn names_are_printed_after_the_kernel_has_moved_and_when_the_arena_is_full() {
    let printed = without_own_rate(&program("moved"), 3);
    let mut lines = printed.lines();
    let mut next = || lines.next().unwrap_or_default().to_owned();
    let old = next();
    assert!(old.contains(" EVENT copied @0x"), "{printed}");
    assert!(next().ends_with(" EVENT copied early"), "{printed}");
    assert_eq!(next(), "unresolved 1");
    let words = |line: String| line.split(' ').skip(2).collect::<Vec<_>>().join(" ");
    let rest = [(); 3].map(|()| words(next()));
    assert_eq!(rest, ["EVENT seven..", "EVENT (arena-full)", "EVENT (empty) "]);
    assert_eq!(next(), "overflows 1");
    // Two bytes of the arena are left, for a letter and its NUL.
    assert_eq!([(); 2].map(|()| words(next())), ["EVENT seven", "EVENT m"]);
    assert_eq!(next(), "overflows 1");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_start_that_is_interrupted_anywhere_shows_no_torn_header_and_loses_no_event() {
    assert_eq!(program("started"), "torn 0, seen 1, early 1, lost 0\n");
}

#[test]
fn c_and_rust_write_into_one_log() {
    let folder = folder("c-and-rust");
    let (rlib, object, program) = (tslog_rlib(&folder, true), folder.join("part.o"), folder.join("mixed"));
    let programs = Path::new(CRATE).join("tests/programs");
    let mut cc = cc();
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-fPIC", "-DTSLOG", "-DTSLOG_RUST", "-c", "-I"]);
    run(cc.arg(Path::new(CRATE).join("include")).arg(programs.join("mixed.c")).arg("-o").arg(&object));
    let mut rustc = rustc();
    rustc.args(["-O", "-C", "panic=abort", "--extern"]).arg(format!("tslog={}", rlib.display()));
    rustc.arg("-C").arg(format!("link-arg={}", object.display()));
    run(rustc.arg(programs.join("mixed.rs")).arg("-o").arg(&program));

    let printed = run(&mut support::program(&program));
    let parts: Vec<&str> = printed.split("--\n").collect();
    let [by_rust, by_c, counts] = parts[..] else { panic!("{printed}") };
    assert_eq!(by_rust, by_c);
    let expected = [
        "0x7 T ENTER attach_all",
        "0xc T ENTER c_attach",
        "0x1000 T THREAD usbus0",
        "0xc T EVENT HOLD root mount",
        "0xc T EVENT RELEASE root mount",
        "0xc T EXIT c_attach done",
        "0x7 T EVENT from_Rust two words",
        "0x7 T EXIT attach_all",
        "0x0 T EVENT TSLOG before-start 3",
        "0x0 T EVENT TSLOG hz 2445431964",
    ];
    assert_eq!(without_ticks(by_rust), expected);
    let expected =
        format!("Counts {{ reserved: 16, dropped: {}, before_start: 3, arena_overflows: 0 }}", 2_000_000 + 8 - 16);
    assert_eq!(counts.trim_end(), expected);
}
