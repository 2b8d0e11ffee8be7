//! No program that writes a log or searches for one contains the magic, so that a search of memory finds only logs.

mod support;

use std::path::Path;
use support::{CRATE, cc, folder, run, rustc, tslog_rlib};
use tslog::layout::TicksSource;
use tslog::{Log, Region, find};

static REGION: Region<1, 0> = Region::new();

fn magic() -> [u8; 16] {
    let log = Log::start(&REGION, TicksSource::Unknown);
    // SAFETY: a log begins with its header, and the header begins with the magic.
    unsafe { log.base().cast::<[u8; 16]>().read() }
}

fn contains(program: &Path, bytes: &[u8]) -> bool {
    let program = std::fs::read(program).expect("a program");
    program.windows(bytes.len()).any(|window| window == bytes)
}

#[test]
fn the_magic_is_in_no_program() {
    let magic = magic();
    assert_eq!(magic[..6], *b"\x89TSLOG");
    assert_eq!(find(&magic).collect::<Vec<_>>(), [0]);
    let folder = folder("hidden");
    let (program, object) = (folder.join("mixed"), folder.join("mixed.o"));
    let mut cc = cc();
    cc.args(["-O2", "-fPIC", "-DTSLOG", "-DTSLOG_RUST", "-c", "-I"]).arg(Path::new(CRATE).join("include"));
    run(cc.arg(Path::new(CRATE).join("tests/programs/mixed.c")).arg("-o").arg(&object));
    let mut rustc = rustc();
    rustc.args(["-C", "opt-level=3", "-C", "panic=abort", "--extern"]);
    rustc.arg(format!("tslog={}", tslog_rlib(&folder, true).display()));
    rustc.arg("-C").arg(format!("link-arg={}", object.display()));
    run(rustc.arg(Path::new(CRATE).join("tests/programs/mixed.rs")).arg("-o").arg(&program));
    assert!(contains(&program, b"a string takes all"), "constants are found this way");
    for half in [&magic[..8], &magic[8..]] {
        assert!(!contains(&program, half), "{}", program.display());
    }
    let this = std::env::current_exe().expect("it runs");
    assert!(!contains(&this, &magic), "{}", this.display());
}
