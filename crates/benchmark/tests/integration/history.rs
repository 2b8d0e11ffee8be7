//! The history returns what was added, also with several writers, and changes no file that is not a history.

use crate::support::documents::document;
use benchmark::history::{Filter, Setup};
use benchmark::metrics::TOTAL;
use benchmark::{Document, History, HistoryError};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

fn folder() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("new/history.db");
    (folder, path)
}

#[test]
fn the_history_returns_what_was_added() {
    let (_folder, path) = folder();
    let mut history = History::open(&path).unwrap();
    let documents: Vec<Document> = (0..5).map(|day| document(day, "aaaa", 1_000.0 + f64::from(day))).collect();
    for document in documents.iter().rev() {
        assert!(history.add(document).unwrap().new);
    }
    let again = history.add(&documents[2]).unwrap();
    assert!(!again.new);
    assert_eq!(history.document(again.bench).unwrap().as_ref(), Some(&documents[2]), "every raw sample");
    assert_eq!(history.document(99).unwrap(), None);
    let entries = history.entries(&Filter::default()).unwrap();
    assert_eq!(entries.len(), 5);
    for (entry, document) in entries.iter().zip(&documents) {
        let total = document.results.variants[0].total.as_ref().unwrap();
        assert_eq!(entry.created, document.head.created, "in order of time");
        assert_eq!((entry.median_ns, entry.sd_ns), (Some(total.median.estimate), total.sd));
        assert_eq!((entry.boots, entry.failed), (8, 1));
    }
    drop(history);
    assert_eq!(History::open_existing(&path).unwrap().entries(&Filter::default()).unwrap(), entries);
}

#[test]
fn entries_are_found_by_kernel_time_and_setup() {
    let (_folder, path) = folder();
    let mut history = History::open(&path).unwrap();
    for (day, kernel) in [(1, "aaaa"), (2, "abbb"), (3, "aaaa")] {
        history.add(&document(day, kernel, 1_000.0)).unwrap();
    }
    let mut other = document(4, "aaaa", 1_000.0);
    other.head.variants[0].how["append"] = "quiet acpi=off".into();
    history.add(&other).unwrap();
    let found = |filter: Filter| {
        let entries = history.entries(&filter).unwrap();
        assert_eq!(history.count(&filter).unwrap() as usize, entries.len());
        entries.iter().map(|e| e.created[8..10].parse::<u32>().unwrap() - 1).collect::<Vec<_>>()
    };
    let kernel = |text: &str| Filter { kernel: Some(text.to_owned()), ..Filter::default() };
    assert_eq!(found(kernel("aa")), [1, 3, 4]);
    assert_eq!(found(kernel("vmlinuz-a")), [1, 2, 3, 4], "by its name");
    assert_eq!(found(kernel("%")), [] as [u32; 0], "no pattern");
    assert_eq!(found(Filter { since: Some("2026-01-04".to_owned()), ..Filter::default() }), [3, 4]);
    let setup = history.setup_of(&other, 0).unwrap();
    assert_eq!(found(Filter { setup, ..Filter::default() }), [4]);
    let newest = Filter { newest: Some(2), ..Filter::default() };
    assert_eq!(history.entries(&newest).unwrap().len(), 2);
    let kept = history.setup(setup.unwrap()).unwrap();
    assert_eq!(kept.append, "quiet acpi=off");
    assert_eq!(Setup { setup: 0, ..kept }, Setup::of(&other, 0));
    // Another kernel booted in the same way has the same setup, so that kernels can be compared.
    let setups: Vec<i64> = history.entries(&Filter::default()).unwrap().iter().map(|e| e.setup).collect();
    assert!(setups[0] == setups[1] && setups[1] == setups[2] && setups[2] != setups[3]);
}

#[test]
fn setups_are_compared_by_meaning_not_by_text() {
    let (_folder, path) = folder();
    let mut history = History::open(&path).unwrap();
    let mut of_a_year_ago = document(1, "aaaa", 1_000.0);
    history.add(&of_a_year_ago).unwrap();
    // A later version writes a new option, whose default means the behaviour of the earlier version.
    of_a_year_ago.head.variants[0].how["first_run"] = true.into();
    let setup = history.setup_of(&of_a_year_ago, 0).unwrap();
    assert!(setup.is_some() && history.setup_of(&document(1, "aaaa", 1_000.0), 0).unwrap() == setup);
    // A recorder with other options takes a different time, so this is another setup.
    of_a_year_ago.head.variants[0].how["first_run"] = false.into();
    assert_eq!(history.setup_of(&of_a_year_ago, 0).unwrap(), None);
    of_a_year_ago.head.variants[0].how["until"] = "power-off".into();
    assert_eq!(history.setup_of(&of_a_year_ago, 0).unwrap(), None);
}

#[test]
fn a_bench_without_a_boot_is_kept_too() {
    let (_folder, path) = folder();
    let mut history = History::open(&path).unwrap();
    let mut none = document(1, "aaaa", 1_000.0);
    none.boots.clear();
    let none = Document::new(none.head, none.boots, None);
    history.add(&none).unwrap();
    let entries = history.entries(&Filter::default()).unwrap();
    assert_eq!((entries[0].boots, entries[0].median_ns), (0, None));
    assert!(history.medians(&Filter::default(), &TOTAL).unwrap().is_empty());
}

#[test]
fn other_files_are_refused_and_not_changed() {
    let (folder, path) = folder();
    assert!(matches!(History::open_existing(&path), Err(HistoryError::None(_))));
    let check = |content: &[u8], words: &str| {
        let file = folder.path().join("other.db");
        std::fs::write(&file, content).unwrap();
        let error = History::open(&file).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("other.db"), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), content);
    };
    check(
        b"this is no database, but long enough to be taken for one by its length: it has a hundred bytes in it, or more", "no database");
    let file = folder.path().join("made.db");
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE songs (title)").unwrap();
    check(&std::fs::read(&file).unwrap(), "no history of bootscope");
    drop(History::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = History::open(&path).unwrap_err().to_string();
    assert!(error.contains("later bootscope (layout 99"), "{error}");
}

#[test]
fn a_damaged_file_is_reported_and_not_changed() {
    let (_folder, path) = folder();
    let mut history = History::open(&path).unwrap();
    for day in 0..20 {
        history.add(&document(day, "aaaa", 1_000.0)).unwrap();
    }
    drop(history);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[5000..].fill(0xa5);
    std::fs::write(&path, &bytes).unwrap();
    let found = History::open(&path).and_then(|history| history.entries(&Filter::default()));
    let error = found.unwrap_err().to_string();
    assert!(error.contains("damaged") && error.contains("history.db"), "{error}");
    let added = History::open(&path).and_then(|mut history| history.add(&document(30, "aaaa", 1.0)));
    assert!(added.is_err(), "nothing is added to it");
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_lock_is_waited_for_and_then_reported() {
    let (_folder, path) = folder();
    let mut history = History::open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    history.wait_at_most(Duration::from_millis(50)).unwrap();
    let error = history.add(&document(1, "aaaa", 1.0)).unwrap_err().to_string();
    assert!(error.contains("locked") && error.contains("history.db"), "{error}");
    assert!(history.entries(&Filter::default()).unwrap().is_empty(), "who reads does not wait");
    history.wait_at_most(Duration::from_secs(20)).unwrap();
    let waits = std::thread::spawn(move || history.add(&document(1, "aaaa", 1.0)));
    std::thread::sleep(Duration::from_millis(100));
    other.execute_batch("COMMIT").unwrap();
    assert!(waits.join().unwrap().unwrap().new);
}

/// The writer that [`many_processes_lose_nothing`] starts: the same test in another process.
fn write(path: &Path, writer: u32, each: u32) {
    for i in 0..each {
        // A new connection each time, as in a CI where each bench is a process.
        History::open(path).unwrap().add(&document(i, &format!("kernel{writer}"), 1_000.0)).unwrap();
    }
}

#[test]
fn many_processes_lose_nothing() {
    const WRITERS: u32 = 6;
    const EACH: u32 = 15;
    if let Some(path) = std::env::var_os("BOOTSCOPE_TEST_WRITES_TO") {
        let writer = std::env::var("BOOTSCOPE_TEST_WRITER").unwrap().parse().unwrap();
        return write(Path::new(&path), writer, EACH);
    }
    let (_folder, path) = folder();
    let this = std::env::current_exe().unwrap();
    let start = |writer: u32| {
        let mut command = Command::new(&this);
        command.args(["--exact", "history::many_processes_lose_nothing"]);
        command.env("BOOTSCOPE_TEST_WRITES_TO", &path).env("BOOTSCOPE_TEST_WRITER", writer.to_string());
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    // All writers start at the same time, and the history does not exist yet.
    let writers: Vec<_> = (0..WRITERS).map(start).collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let history = History::open_existing(&path).unwrap();
    for writer in 0..WRITERS {
        let filter = Filter { kernel: Some(format!("kernel{writer}")), ..Filter::default() };
        assert_eq!(history.count(&filter).unwrap(), u64::from(EACH), "writer {writer}");
    }
}

/// Variable with the folder in which this test runs again. No user may write there, not even root.
const READ_ONLY: &str = "BOOTSCOPE_TEST_READ_ONLY";

#[test]
fn a_database_that_may_not_be_written_is_read() {
    if let Some(folder) = std::env::var_os(READ_ONLY) {
        return read_all_in(Path::new(&folder));
    }
    let folder = TempDir::new().unwrap();
    // A closed database has no log beside it.
    History::open(&folder.path().join("closed.db")).unwrap().add(&document(1, "aaaa", 1_000.0)).unwrap();
    // A killed writer leaves the added bench in the log beside the database. Copies with and without the log's index.
    let open = folder.path().join("open.db");
    let mut writer = History::open(&open).unwrap();
    writer.add(&document(1, "aaaa", 1_000.0)).unwrap();
    for (name, parts) in
        [("indexed.db", &["", "-wal", "-shm"][..]), ("logged.db", &["", "-wal"]), ("a%20b #?.db", &["", "-wal"])]
    {
        for part in parts {
            let from = folder.path().join(format!("open.db{part}"));
            std::fs::copy(&from, folder.path().join(format!("{name}{part}"))).unwrap();
        }
        assert!(std::fs::metadata(folder.path().join(format!("{name}-wal"))).unwrap().len() > 0);
    }
    let script =
        r#"mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 77; exec "$2" --exact "$3" --nocapture"#;
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let mut again = Command::new("unshare");
    again.args([if is_root { "-m" } else { "-rm" }, "sh", "-c", script, "sh"]).arg(folder.path());
    again.arg(std::env::current_exe().unwrap()).arg("history::a_database_that_may_not_be_written_is_read");
    match again.env(READ_ONLY, folder.path()).output() {
        Ok(ran) if ran.status.success() => {
            assert!(String::from_utf8_lossy(&ran.stdout).contains("1 passed"), "it did not run again: {ran:?}");
        }
        Ok(ran) if ran.status.code() == Some(101) => panic!("it failed in the folder that may not be written: {ran:?}"),
        other => println!("SKIPPED: no mount namespace of its own can be made here ({other:?})"),
    }
}

fn read_all_in(folder: &Path) {
    assert!(std::fs::write(folder.join("x"), "").is_err(), "it may be written");
    for name in ["closed.db", "open.db", "indexed.db", "logged.db", "a%20b #?.db"] {
        let path = folder.join(name);
        let history = History::open_existing(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let entries = history.entries(&Filter::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(entries.len(), 1, "{name}");
        assert!(history.document(entries[0].bench).unwrap().is_some(), "{name}");
        let error = History::open(&path).and_then(|mut history| history.add(&document(2, "aaaa", 1.0))).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

/// A rollback journal of SQLite that names a journal of several databases. SQLite deletes that file after the rollback.
fn journal_that_names(other: &Path, pages: u32) -> Vec<u8> {
    const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let mut journal = MAGIC.to_vec();
    // Records, the seed of their checksums, pages of the database, bytes of a sector, and bytes of a page.
    journal.extend([0, 0, pages, 512, 4096].iter().flat_map(|number: &u32| number.to_be_bytes()));
    journal.resize(512, 0);
    let name = other.as_os_str().as_encoded_bytes();
    journal.extend((0x4000_0000u32 / 4096 + 1).to_be_bytes());
    journal.extend(name);
    journal.extend((name.len() as u32).to_be_bytes());
    journal.extend(name.iter().map(|byte| u32::from(*byte)).sum::<u32>().to_be_bytes());
    journal.extend(MAGIC);
    journal
}

/// A link in the place of a history may lead to another database of the user.
#[test]
fn a_link_to_a_history_is_not_followed() {
    let (folder, path) = folder();
    History::open(&path).unwrap().add(&document(1, "aaaa", 1_000.0)).unwrap();
    let before = std::fs::read(&path).unwrap();
    let link = folder.path().join("link.db");
    for target in [path.clone(), folder.path().join("missing.db")] {
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let added = History::open(&link).and_then(|mut history| history.add(&document(2, "aaaa", 1.0)));
        for error in [added.unwrap_err(), History::open_existing(&link).err().unwrap()] {
            let text = error.to_string();
            assert!(text.contains("link.db") && text.contains(&format!("name {}", target.display())), "{text}");
        }
        assert!(target != path || std::fs::read(&path).unwrap() == before);
    }
    assert!(!folder.path().join("missing.db").exists());
    // A link to the folder is not one to another file.
    let above = tempfile::TempDir::new().unwrap();
    std::os::unix::fs::symlink(folder.path(), above.path().join("folder")).unwrap();
    let by_folder = above.path().join("folder").join(path.file_name().unwrap());
    assert!(History::open(&by_folder).and_then(|mut history| history.add(&document(3, "aaaa", 1.0))).is_ok());
}

/// Another user's history lies in a folder with files that SQLite reads beside it.
#[test]
fn files_beside_a_history_change_no_other_file() {
    let mut changed = Vec::new();
    for (ending, is_link) in [("-journal", false), ("-journal", true), ("-wal", true), ("-shm", true)] {
        for is_read in [true, false] {
            let (folder, path) = folder();
            History::open(&path).unwrap().add(&document(1, "aaaa", 1_000.0)).unwrap();
            let letter = folder.path().join("letter.txt");
            std::fs::write(&letter, "Dear\n").unwrap();
            let mut beside = path.clone().into_os_string();
            beside.push(ending);
            if is_link {
                std::os::unix::fs::symlink(&letter, &beside).unwrap();
            } else {
                let pages = std::fs::metadata(&path).unwrap().len() / 4096;
                std::fs::write(&beside, journal_that_names(&letter, pages as u32)).unwrap();
            }
            let refused = match is_read {
                true => History::open_existing(&path).err(),
                false => History::open(&path).and_then(|mut history| history.add(&document(2, "aaaa", 1.0))).err(),
            };
            let found = std::fs::read_to_string(&letter).unwrap_or_else(|e| e.to_string());
            if found != "Dear\n" || !refused.is_some_and(|e| e.to_string().contains(ending)) {
                changed.push(format!("{ending}, link {is_link}, read {is_read}: {found:?}"));
            }
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}
