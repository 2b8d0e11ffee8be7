//! Lakes of made-up fleets, and what `bootscope-lake` says of them.

use lake::{Boot, Lake};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use synthetic_fleet::Fleet;

/// What the tests' fleets have in common.
pub fn fleet() -> Fleet {
    Fleet { seed: 1, boots: 0, kinds: 1, days: 90, rows: 1, regressions: 0, ratio: 1.0 }
}

/// A lake that goes when this does.
pub struct Made {
    /// Where it is.
    pub dir: tempfile::TempDir,
    path: String,
}

impl Made {
    /// Of all boots of a fleet.
    pub fn new(fleet: &Fleet) -> Made {
        Made::of(fleet, |_, _| true)
    }

    /// Of those that are wanted, by their day and what they are.
    pub fn of(fleet: &Fleet, is_wanted: impl Fn(u64, &Boot) -> bool) -> Made {
        Made::with(fleet, |day, _, boot| is_wanted(day, &boot).then_some(boot))
    }

    /// Of all boots, with the label `team` by their number.
    pub fn labelled(fleet: &Fleet, team: impl Fn(u64) -> &'static str) -> Made {
        Made::with(fleet, |_, number, boot| {
            Some(Boot { labels: vec![("team".to_owned(), team(number).to_owned())], ..boot })
        })
    }

    fn with(fleet: &Fleet, change: impl Fn(u64, u64, Boot) -> Option<Boot>) -> Made {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lake");
        let mut lake = Lake::open(&path).unwrap();
        for day in 0..fleet.days {
            let boots = fleet.of_day(day).filter_map(|number| change(day, number, fleet.boot(number)));
            lake.add(boots.collect()).unwrap();
        }
        let path = path.to_str().unwrap().to_owned();
        Made { dir, path }
    }

    /// Its folder.
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

/// A document, and the exit status.
pub fn asked(args: &[&str]) -> (Value, i32) {
    let (code, out, said) = output(args);
    let document = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e}: {out}{said}"));
    (document, code)
}

/// A document.
pub fn answer(args: &[&str]) -> Value {
    asked(args).0
}

/// What is said of something that cannot be done.
pub fn failed(args: &[&str]) -> String {
    let (code, out, said) = output(args);
    assert_eq!((code, out.as_str()), (2, ""), "{args:?} did not fail: {said}");
    assert_eq!(said.lines().count(), 1, "one line: {said}");
    said
}
