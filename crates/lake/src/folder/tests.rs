use super::*;
use crate::rewrite::test_faults::{CANNOT_EXCHANGE, KILL_POINTS_LEFT};
use crate::tables::machines;
use recording::Manifest;
use report::{Summary, WhereLine};
use std::collections::HashMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

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

/// All identities in a table, sorted, including repeated ones.
fn ids(folder: &Path, kind: TableKind) -> Vec<String> {
    let table = tables().iter().find(|table| table.kind == kind).unwrap();
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
fn a_boot_that_is_added_twice_is_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = Lake::open(folder.path()).unwrap();
    assert_eq!(lake.add(some(0..5)).unwrap(), Added { new: 5, there: 0 });
    assert_eq!(lake.add(some(3..8)).unwrap(), Added { new: 3, there: 2 });
    assert_eq!(lake.add([some(8..9), some(8..9)].concat()).unwrap(), Added { new: 1, there: 1 });
    let mut again = Lake::open(folder.path()).unwrap();
    assert_eq!((again.boots().len(), again.add(some(0..9)).unwrap()), (9, Added { new: 0, there: 9 }));
    assert_eq!(ids(folder.path(), TableKind::Boots), named(&some(0..9)));
    assert_eq!(ids(folder.path(), TableKind::Rows), twice_each(&some(0..9)), "each has two rows");
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
                // The boots of each writer overlap with those of the next.
                for from in (writer * 20..writer * 20 + 40).step_by(4) {
                    lake.add(some(from..from + 4)).unwrap();
                }
            });
        }
    });
    assert_eq!(ids(folder.path(), TableKind::Boots), named(&some(0..100)));
    assert_eq!(ids(folder.path(), TableKind::Rows), twice_each(&some(0..100)));
}

/// Tests a kill after each of the renames of a batch.
#[test]
fn the_next_writer_removes_what_a_kill_left() {
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
        assert_eq!(ids(folder.path(), TableKind::Boots), named(&some(1..5)));
        assert_eq!(ids(folder.path(), TableKind::Rows), twice_each(&some(1..5)));
        for table in tables() {
            let left = entries(&folder.path().join(table.name).join("day=2026-11-26")).unwrap();
            assert_eq!(left.len(), 1, "{left:?}");
        }
        assert!(!folder.path().join(ADDING).exists());
    }
}

#[test]
fn the_users_files_stay_even_if_adding_json_names_them() {
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

/// A lake with three batches on one day and one on another: boots 0 to 11 and 12 to 14. Every third boot is of machine `b`, the
/// others are of `a`.
fn fleet(folder: &Path) -> Lake {
    let mut lake = Lake::open(folder).unwrap();
    let of_machine = |mut boot: Boot, id: usize| {
        boot.machine = Some(if id % 3 == 0 { "b" } else { "a" }.to_owned());
        boot.labels = vec![("team".to_owned(), format!("team-{id}"))];
        boot
    };
    for from in (0..15).step_by(4) {
        let day = if from == 12 { "2026-11-27T00:00:00Z" } else { "2026-11-26T01:02:03Z" };
        lake.add((from..15.min(from + 4)).map(|id| of_machine(boot(id, day), id)).collect()).unwrap();
    }
    lake
}

fn every_third(is_it: bool) -> Vec<String> {
    (0..15).filter(|id| (id % 3 == 0) == is_it).map(|id| format!("{id:032x}")).collect()
}

/// Checks that `boots` has each boot once and that no boot lacks rows. Returns the boots, sorted.
fn checked_boots(folder: &Path) -> Vec<String> {
    let there = ids(folder, TableKind::Boots);
    let counted = |of| {
        let mut counted: HashMap<String, usize> = HashMap::new();
        ids(folder, of).into_iter().for_each(|id| *counted.entry(id).or_default() += 1);
        counted
    };
    let (rows, labels) = (counted(TableKind::Rows), counted(TableKind::Labels));
    for id in &there {
        assert_eq!((rows.get(id), labels.get(id)), (Some(&2), Some(&1)), "{id}");
    }
    let mut once = there.clone();
    once.dedup();
    assert_eq!(once, there);
    there
}

/// Collects the content and the paths of all files under a folder.
fn bytes_under(folder: &Path, into: &mut Vec<u8>, names: &mut Vec<PathBuf>) {
    for path in entries(folder).unwrap() {
        if path.is_dir() {
            bytes_under(&path, into, names);
        } else {
            into.extend(fs::read(&path).unwrap());
            names.push(path);
        }
    }
}

fn files_of_days(folder: &Path) -> Vec<usize> {
    let days = entries(&folder.join("boots")).unwrap();
    days.iter().map(|day| entries(day).unwrap().len()).collect()
}

#[test]
fn a_machine_that_is_forgotten_leaves_nothing_and_may_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = fleet(folder.path());
    let own = folder.path().join("rows/day=2026-11-26/own.txt");
    fs::write(&own, "mine").unwrap();
    assert_eq!(lake.forget(|_, machine| machine == Some("b")).unwrap(), 5);
    assert_eq!(checked_boots(folder.path()), every_third(false));
    assert_eq!(lake.boots().len(), 10);
    for table in tables() {
        for path in &lake.files(table).unwrap() {
            for column in table.columns.iter().filter(|column| column.kind == crate::Type::Text) {
                for text in Stored::open(path).unwrap().texts(column.name).unwrap().into_iter().flatten() {
                    let is_bs =
                        |id: &String| text == *id || text == format!("team-{}", i64::from_str_radix(id, 16).unwrap());
                    assert!(text != "b" && !every_third(true).iter().any(is_bs), "{text} in {}", path.display());
                }
            }
        }
    }
    assert_eq!(fs::read(&own).unwrap(), b"mine");
    let (mut all, mut names) = (Vec::new(), Vec::new());
    bytes_under(folder.path(), &mut all, &mut names);
    assert!(names.iter().all(|name| !name.to_string_lossy().contains("ing/")), "{names:?}");
    assert_eq!(lake.forget(|_, machine| machine == Some("b")).unwrap(), 0);
    assert_eq!(lake.add(some(0..15)).unwrap(), Added { new: 5, there: 10 });
    assert_eq!(ids(folder.path(), TableKind::Boots).len(), 15);
}

#[test]
fn empty_files_are_removed_and_one_boot_can_be_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = fleet(folder.path());
    assert_eq!(lake.forget(|id, _| id == format!("{:032x}", 13)).unwrap(), 1);
    assert_eq!((files_of_days(folder.path()), checked_boots(folder.path()).len()), (vec![3, 1], 14));
    assert_eq!(lake.forget(|id, _| id > format!("{:032x}", 7).as_str()).unwrap(), 6);
    assert_eq!(files_of_days(folder.path()), [2]);
    assert_eq!(checked_boots(folder.path()), named(&some(0..8)));
    assert_eq!(lake.forget(|_, _| true).unwrap(), 8);
    let (mut all, mut names) = (Vec::new(), Vec::new());
    bytes_under(folder.path(), &mut all, &mut names);
    assert_eq!(names, [folder.path().join(HEAD)]);
}

/// All rows of a table as texts, sorted.
fn rows(lake: &Lake, table: &Table) -> Vec<Vec<String>> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let mut rows = Vec::new();
    for path in lake.files(table).unwrap() {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let row =
            |row: parquet::record::Row| row.get_column_iter().map(|(name, value)| format!("{name}={value}")).collect();
        rows.extend(reader.get_row_iter(None).unwrap().map(|found| row(found.unwrap())));
    }
    rows.sort();
    rows
}

#[test]
fn compacting_merges_the_files_of_a_day_and_changes_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = fleet(folder.path());
    let before: Vec<_> = tables().iter().map(|table| rows(&lake, table)).collect();
    assert_eq!(lake.compact(Some("2026-11-26")).unwrap(), Compacted::default(), "that day is not over");
    assert_eq!(lake.compact(Some("2026-11-27")).unwrap(), Compacted { days: 1, before: 3, after: 1 });
    assert_eq!(files_of_days(folder.path()), [1, 1]);
    assert_eq!(lake.compact(None).unwrap(), Compacted::default(), "again there is nothing to do");
    for (table, before) in tables().iter().zip(before) {
        if table.kind != TableKind::Machines {
            assert_eq!(rows(&lake, table), before, "{}", table.name);
        }
        let path = &lake.files(table).unwrap()[0];
        let reader = parquet::file::reader::SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        use parquet::file::reader::FileReader;
        for group in reader.metadata().row_groups() {
            assert_eq!(group.sorting_columns().map(Vec::len), Some(table.sorted_by), "{}", table.name);
        }
    }
    let first = &lake.files(boots()).unwrap()[0];
    let sorted = texts(first, "boot_id").unwrap();
    assert_eq!(sorted, named(&some(0..12)), "of one kind, kernel and time they are sorted by their identities");
    assert_eq!(lake.add(some(0..15)).unwrap(), Added { new: 0, there: 15 });
}

/// Checks, in each file, the number of boots and the first and last boot of each machine.
#[test]
fn machines_are_counted_when_files_are_written_and_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = fleet(folder.path());
    let counted = |lake: &Lake| -> Vec<(Option<String>, i64, Option<i64>)> {
        let mut all = Vec::new();
        for path in lake.files(machines()).unwrap() {
            let stored = Stored::open(&path).unwrap();
            let (boots, last) = (stored.column("boots").unwrap(), stored.column("last_began").unwrap());
            let names = stored.texts("machine").unwrap().into_iter().enumerate();
            all.extend(names.map(|(row, name)| (name, boots.integer(row).unwrap(), last.integer(row))));
        }
        all.sort();
        all
    };
    let of = |name: &str, boots, began| (Some(name.to_owned()), boots, Some(began));
    let (first, second) = (1_795_654_923_000, 1_795_737_600_000);
    let before = [of("a", 2, first), of("a", 2, second), of("a", 3, first), of("a", 3, first), of("b", 1, first)];
    assert_eq!(counted(&lake)[..5], before);
    lake.compact(None).unwrap();
    assert_eq!(counted(&lake), [of("a", 2, second), of("a", 8, first), of("b", 1, second), of("b", 4, first)]);
    lake.forget(|_, machine| machine == Some("a")).unwrap();
    assert_eq!(counted(&lake), [of("b", 1, second), of("b", 4, first)]);
}

#[test]
fn small_files_become_one_and_large_ones_stay() {
    let sizes = |all: &[usize]| all.iter().map(|&size| (size, size.to_string())).collect::<Vec<_>>();
    let merged = |all: &[usize]| merge_groups(sizes(all), 10, 3);
    assert_eq!(merged(&[3, 1, 2]), [["1", "2", "3"]]);
    assert_eq!(merged(&[9, 1, 12, 3]), [["1", "3"]]);
    assert_eq!(merged(&[6, 5, 4, 3]), [["3", "4"]]);
    assert_eq!(merged(&[1, 2, 3, 0, 1]), [vec!["0", "1", "1"], vec!["2", "3"]], "no more than so many at once");
    assert!(merged(&[10, 11, 9]).is_empty() && merged(&[]).is_empty());
}

/// Tests a kill at each moment, with and without a file system that can exchange folders.
#[test]
fn a_kill_while_files_are_rewritten_leaves_each_boot_whole_or_not_at_all() {
    let before = in_memory();
    fleet(before.path());
    for (compacts, can_exchange) in [(false, true), (false, false), (true, true), (true, false)] {
        for moment in 0.. {
            let folder = in_memory();
            copy(before.path(), folder.path());
            let mut lake = Lake::existing(folder.path()).unwrap();
            let own = folder.path().join("rows/day=2026-11-26/own.txt");
            fs::write(&own, "mine").unwrap();
            CANNOT_EXCHANGE.set(!can_exchange);
            KILL_POINTS_LEFT.set(Some(moment));
            let was_killed = catch_unwind(AssertUnwindSafe(|| match compacts {
                true => lake.compact(None).unwrap().days,
                false => lake.forget(|_, machine| machine == Some("b")).unwrap(),
            }))
            .is_err();
            KILL_POINTS_LEFT.set(None);
            if !was_killed {
                assert!(moment > 20, "{moment}");
                break;
            }
            // A reader's view at this moment. Without exchange, a day's folder may be missing.
            let at_once = whole_in(folder.path(), can_exchange);
            // The next writer completes or undoes the change.
            let mut next = Lake::existing(folder.path()).unwrap();
            next.add(Vec::new()).unwrap();
            let there = checked_boots(folder.path());
            assert_eq!(fs::read(&own).unwrap(), b"mine", "moment {moment}");
            assert!(!folder.path().join(".rewriting").exists() && !folder.path().join(".preparing").exists());
            let (all, kept) = (named(&some(0..15)), every_third(false));
            if compacts {
                assert_eq!(there, all, "moment {moment}");
                assert!(!can_exchange || at_once == all, "moment {moment}");
            } else {
                assert!(there == all || there == kept, "moment {moment}: {there:?}");
                assert!(!can_exchange || every_third(false).iter().all(|id| at_once.contains(id)), "moment {moment}");
            }
        }
    }
    CANNOT_EXCHANGE.set(false);
}

/// A folder in memory: syncing thousands of files would take minutes on a real disk.
fn in_memory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

fn copy(folder: &Path, to: &Path) {
    for path in entries(folder).unwrap() {
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir(&to).unwrap();
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

fn whole_in(folder: &Path, can_exchange: bool) -> Vec<String> {
    if can_exchange { checked_boots(folder) } else { ids(folder, TableKind::Boots) }
}

/// Files of another version keep columns that this version does not know, and merge with this version's files.
#[test]
fn columns_of_other_versions_are_kept() {
    use parquet::basic::{Repetition, Type as Physical};
    use parquet::data_type::{ByteArray, ByteArrayType};
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, id: &str, extra: &str| {
        let text = |name: &str| {
            let field = parquet::schema::types::Type::primitive_type_builder(name, Physical::BYTE_ARRAY);
            std::sync::Arc::new(field.with_repetition(Repetition::REQUIRED).build().unwrap())
        };
        let schema = parquet::schema::types::Type::group_type_builder("labels");
        let schema = schema.with_fields(vec![text("boot_id"), text(extra)]).build().unwrap();
        let path = folder.path().join(name);
        let file = File::create(&path).unwrap();
        let mut writer =
            parquet::file::writer::SerializedFileWriter::new(file, schema.into(), Default::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        for value in [id, extra] {
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<ByteArrayType>().write_batch(&[ByteArray::from(value)], None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        path
    };
    let from = [write("1", "one", "earlier"), write("2", "two", "later")].map(|path| Stored::open(&path).unwrap());
    let to = folder.path().join("merged");
    let labels = tables().iter().find(|table| table.kind == TableKind::Labels).unwrap();
    crate::stored::merge(labels, &from, &["two".to_owned(), "one".to_owned()], &to).unwrap();
    let merged = Stored::open(&to).unwrap();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(merged.texts("boot_id").unwrap(), [some("two"), some("one")]);
    assert_eq!(merged.texts("earlier").unwrap(), [None, some("earlier")]);
    assert_eq!(merged.texts("later").unwrap(), [some("later"), None]);
}
