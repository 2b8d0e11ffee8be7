//! Lakes of simulated fleets, and calls of `bootscope-lake`.

use lake::{Boot, Lake};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use synthetic_fleet::Fleet;

/// Common parameters of the tests' fleets.
pub fn fleet() -> Fleet {
    Fleet { seed: 1, boots: 0, kinds: 1, days: 90, rows: 1, regressions: 0, ratio: 1.0 }
}

/// A temporary lake, which is removed on drop.
pub struct TemporaryLake {
    /// The folder that contains the lake.
    pub dir: tempfile::TempDir,
    path: String,
}

impl TemporaryLake {
    /// A lake with all boots of a fleet.
    pub fn new(fleet: &Fleet) -> TemporaryLake {
        TemporaryLake::filtered(fleet, |_, _| true)
    }

    /// A lake with the boots for which `is_wanted(day, boot)` is true.
    pub fn filtered(fleet: &Fleet, is_wanted: impl Fn(u64, &Boot) -> bool) -> TemporaryLake {
        TemporaryLake::with(fleet, |day, _, boot| is_wanted(day, &boot).then_some(boot))
    }

    /// A lake with all boots. The label `team` is chosen by the boot's number.
    pub fn labelled(fleet: &Fleet, team: impl Fn(u64) -> &'static str) -> TemporaryLake {
        TemporaryLake::with(fleet, |_, number, boot| {
            Some(Boot { labels: vec![("team".to_owned(), team(number).to_owned())], ..boot })
        })
    }

    fn with(fleet: &Fleet, change: impl Fn(u64, u64, Boot) -> Option<Boot>) -> TemporaryLake {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lake");
        let mut lake = Lake::open(&path).unwrap();
        for day in 0..fleet.days {
            let boots = fleet.of_day(day).filter_map(|number| change(day, number, fleet.boot(number)));
            lake.add(boots.collect()).unwrap();
        }
        let path = path.to_str().unwrap().to_owned();
        TemporaryLake { dir, path }
    }

    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Exit status, standard output and standard error.
pub fn output(args: &[&str]) -> (i32, String, String) {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/lake-engine/release/bootscope-lake");
    let program = std::env::var_os("BOOTSCOPE_LAKE").map_or(built, PathBuf::from);
    let out = Command::new(&program).args(args).output();
    let out = out.unwrap_or_else(|e| panic!("{}: {e}: run make lake", program.display()));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (out.status.code().unwrap_or(-1), text(out.stdout), text(out.stderr))
}

/// The printed document, and the exit status.
pub fn answer_and_status(args: &[&str]) -> (Value, i32) {
    let (code, out, errors) = output(args);
    let document = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e}: {out}{errors}"));
    (document, code)
}

/// The printed document.
pub fn answer(args: &[&str]) -> Value {
    answer_and_status(args).0
}

/// The error message of a command that must fail.
pub fn error(args: &[&str]) -> String {
    let (code, out, message) = output(args);
    assert_eq!((code, out.as_str()), (2, ""), "{args:?} did not fail: {message}");
    assert_eq!(message.lines().count(), 1, "one line: {message}");
    message
}
