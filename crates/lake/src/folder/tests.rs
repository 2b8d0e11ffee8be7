use super::*;
use crate::tables::Of;
use recording::Manifest;
use report::{Summary, WhereLine};

fn boot(id: usize, created: &str) -> Boot {
    let manifest = Manifest { created: created.to_owned(), ..Manifest::default() };
    let row = |name: &str, self_ns| WhereLine { name: name.to_owned(), self_ns, ..WhereLine::default() };
    let summary = Summary {
        unit: timeline::Unit::Nanoseconds.name().to_owned(),
        wheres: vec![row("initcall acpi_init", 5), row("kernel", 2)],
        ..Summary::default()
    };
    Boot { id: format!("{id:032x}"), manifest, summary, machine: None, hardware: None, ended: true, labels: Vec::new() }
}

fn some(ids: std::ops::Range<usize>) -> Vec<Boot> {
    ids.map(|id| boot(id, "2026-11-26T01:02:03Z")).collect()
}

/// All identities in a table, sorted, with those that come twice.
fn ids(folder: &Path, of: Of) -> Vec<String> {
    let table = tables().iter().find(|table| table.of == of).unwrap();
    let files = Lake::open(folder).unwrap().files(table).unwrap();
    let mut ids: Vec<String> = files.iter().flat_map(|path| texts(path, "boot_id").unwrap()).collect();
    ids.sort();
    ids
}

fn twice_each(boots: &[Boot]) -> Vec<String> {
    boots.iter().flat_map(|boot| [boot.id.clone(), boot.id.clone()]).collect()
}

fn named(boots: &[Boot]) -> Vec<String> {
    boots.iter().map(|boot| boot.id.clone()).collect()
}

#[test]
fn a_boot_that_is_added_twice_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = Lake::open(folder.path()).unwrap();
    assert_eq!(lake.add(some(0..5)).unwrap(), Added { new: 5, there: 0 });
    assert_eq!(lake.add(some(3..8)).unwrap(), Added { new: 3, there: 2 });
    assert_eq!(lake.add([some(8..9), some(8..9)].concat()).unwrap(), Added { new: 1, there: 1 });
    let mut again = Lake::open(folder.path()).unwrap();
    assert_eq!((again.boots().len(), again.add(some(0..9)).unwrap()), (9, Added { new: 0, there: 9 }));
    assert_eq!(ids(folder.path(), Of::Boots), named(&some(0..9)));
    assert_eq!(ids(folder.path(), Of::Rows), twice_each(&some(0..9)), "each has two rows");
}

#[test]
fn a_day_is_a_folder_and_a_boot_without_a_time_is_of_1970() {
    let folder = tempfile::tempdir().unwrap();
    let days = [
        "2026-11-26T23:59:59Z",
        "2026-11-27T00:00:00Z",
        "",
        "1969-12-31T00:00:00Z",
        "tomorrow",
        "9999-12-31T23:59:60Z",
    ];
    let boots: Vec<Boot> = days.iter().enumerate().map(|(id, created)| boot(id, created)).collect();
    Lake::open(folder.path()).unwrap().add(boots).unwrap();
    let found = entries(&folder.path().join("boots")).unwrap();
    let found: Vec<_> = found.iter().map(|day| day.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(found, ["day=1970-01-01", "day=2026-11-26", "day=2026-11-27", "day=9999-12-31"]);
}

#[test]
fn writers_at_once_lose_nothing_and_add_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = folder.path();
            scope.spawn(move || {
                let mut lake = Lake::open(path).unwrap();
                // Each overlaps with the next one.
                for from in (writer * 20..writer * 20 + 40).step_by(4) {
                    lake.add(some(from..from + 4)).unwrap();
                }
            });
        }
    });
    assert_eq!(ids(folder.path(), Of::Boots), named(&some(0..100)));
    assert_eq!(ids(folder.path(), Of::Rows), twice_each(&some(0..100)));
}

/// Whatever file of a batch was the last to get its name.
#[test]
fn what_a_kill_left_is_removed_by_the_next_who_adds() {
    for named_before_the_kill in 0..tables().len() {
        let folder = tempfile::tempdir().unwrap();
        Lake::open(folder.path()).unwrap().add(some(0..3)).unwrap();
        let file = Lake::open(folder.path()).unwrap().files(boots()).unwrap().remove(0);
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let batch = Batch { day: "2026-11-26".to_owned(), name };
        for table in &tables()[named_before_the_kill..] {
            fs::rename(batch.file(folder.path(), table), batch.partial(folder.path(), table)).unwrap();
        }
        fs::write(folder.path().join(ADDING), serde_json::to_vec(&batch).unwrap()).unwrap();
        let mut lake = Lake::open(folder.path()).unwrap();
        assert!(lake.boots().is_empty(), "no boot is half in it");
        assert_eq!(lake.add(some(1..5)).unwrap(), Added { new: 4, there: 0 });
        assert_eq!(ids(folder.path(), Of::Boots), named(&some(1..5)));
        assert_eq!(ids(folder.path(), Of::Rows), twice_each(&some(1..5)));
        for table in tables() {
            let left = entries(&folder.path().join(table.name).join("day=2026-11-26")).unwrap();
            assert_eq!(left.len(), 1, "{left:?}");
        }
        assert!(!folder.path().join(ADDING).exists());
    }
}

#[test]
fn the_users_own_files_stay_whatever_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Lake::open(folder.path()).unwrap().add(some(0..3)).unwrap();
    let own = ["rows/day=2026-11-26/own.parquet", "rows/notes.partial", "outside/0123456789abcdef.parquet"];
    fs::create_dir(path("outside")).unwrap();
    own.iter().for_each(|name| fs::write(path(name), "").unwrap());
    let noted = r#"{"day": "../outside", "name": "0123456789abcdef"}"#;
    for noted in [noted, "", "{}", r#"{"day": "2026-11-26", "name": "../../../../own"}"#] {
        fs::write(path(ADDING), noted).unwrap();
        Lake::open(folder.path()).unwrap().add(some(0..3)).unwrap();
        assert!(own.iter().all(|name| path(name).exists()) && !path(ADDING).exists(), "{noted}");
    }
}

#[test]
fn boots_whose_files_were_removed_can_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = Lake::open(folder.path()).unwrap();
    lake.add(some(0..3)).unwrap();
    for table in tables() {
        fs::remove_dir_all(folder.path().join(table.name)).unwrap();
    }
    assert_eq!(lake.add(some(2..4)).unwrap(), Added { new: 2, there: 0 });
}

#[test]
fn other_folders_and_later_lakes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.txt"), "").unwrap();
    assert!(matches!(Lake::open(folder.path()), Err(Error::NotALake { .. })));
    let head = folder.path().join(HEAD);
    fs::write(&head, r#"{"schema": "bootscope.lake/2"}"#).unwrap();
    assert!(Lake::open(folder.path()).unwrap_err().to_string().contains("update bootscope"));
    for wrong in ["", "{}", "[", r#"{"schema": "bootscope.recording/1"}"#] {
        fs::write(&head, wrong).unwrap();
        assert!(matches!(Lake::open(folder.path()), Err(Error::Head { .. })), "{wrong}");
    }
}

#[test]
fn a_damaged_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    Lake::open(folder.path()).unwrap().add(some(0..3)).unwrap();
    let file = Lake::open(folder.path()).unwrap().files(boots()).unwrap().remove(0);
    fs::write(&file, "PAR1 no, not at all PAR1").unwrap();
    let said = Lake::open(folder.path()).unwrap_err().to_string();
    assert!(said.contains(file.to_str().unwrap()), "{said}");
}
