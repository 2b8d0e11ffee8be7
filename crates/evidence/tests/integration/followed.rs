//! Call traces that are damaged anywhere: nothing panics, and the boot path still adds up to the nanosecond.

#[allow(dead_code, reason = "the program's own tests use the rest")]
#[path = "../../../cli/tests/black_box/support/followed.rs"]
mod made;

use analysis::{Groups, Side};
use recording::Recording;
use timeline::{Ns, Timeline};

/// Loads a recording of a deterministic boot with these calls, and checks that the results of the analyses add up.
fn adds_up(folder: &std::path::Path, calls: &[u8]) -> Timeline {
    std::fs::write(folder.join("calls.bin"), calls).unwrap();
    let timeline = evidence::load(&Recording::open(folder).unwrap()).unwrap();
    let (total, phases, path) =
        (analysis::total(&timeline), analysis::phases(&timeline), analysis::boot_path(&timeline));
    assert_eq!(phases.iter().map(|phase| phase.length()).sum::<Ns>(), total);
    let tables = analysis::tables(&timeline, &path, &phases, &Groups::linux());
    if !path.stretches.is_empty() {
        for rows in [&tables.wheres, &tables.functions] {
            assert_eq!(rows.iter().map(|row| row.self_time).sum::<Ns>(), total);
        }
    }
    let side = Side { timeline: &timeline, path: &path, functions: &tables.functions, wheres: &tables.wheres };
    assert!(analysis::diff(side, side, true).is_empty());
    timeline
}

#[test]
fn with_any_byte_changed_it_still_adds_up() {
    let folder = std::env::temp_dir().join(format!("bootscope-followed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("recording.json"),
        r#"{"schema": "bootscope.recording/1", "time_base": "guest-virtual"}"#,
    )
    .unwrap();
    let whole = made::small_boot(400).bytes(4000);
    let boot = adds_up(&folder, &whole);
    assert_eq!((boot.cpus_followed_until, analysis::total(&boot)), (Some(Ns::MAX), Ns(4000)));
    for at in 80..whole.len() {
        for value in [0, 0x7f, 0xff, whole[at] ^ 0x10] {
            let mut broken = whole.clone();
            broken[at] = value;
            adds_up(&folder, &broken);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
