//! The recording folder: its state at every moment of writing, and how it reads back.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use recording::{Error, Manifest, Oddity, Recording, State, StreamEnd, Writer, import};
use tempfile::TempDir;

const UNBOUNDED: u64 = u64::MAX;

fn scratch() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("boots/a");
    (dir, path)
}

fn writer(path: &Path) -> Writer {
    Writer::create(path, false, &Manifest::begun_now()).unwrap()
}

fn kinds(recording: &Recording) -> Vec<Oddity> {
    recording.diagnostics.iter().map(|d| d.kind).collect()
}

/// The expected index, computed slowly: chunk `i` arrives at `10 * i` ns.
fn expected_index(chunks: &[Vec<u8>]) -> String {
    let mut text = String::new();
    let (mut offset, mut previous) = (0, b'\n');
    for (i, chunk) in chunks.iter().enumerate() {
        for &byte in chunk {
            if previous == b'\n' {
                text += &format!("{offset} {}\n", 10 * i);
            }
            previous = byte;
            offset += 1;
        }
    }
    text
}

fn record_chunks(path: &Path, chunks: &[Vec<u8>], max_bytes: u64) -> StreamEnd {
    let mut writer = writer(path);
    let mut stream = writer.stream("console", "serial", max_bytes).unwrap();
    for (i, chunk) in chunks.iter().enumerate() {
        stream.append(chunk, 10 * i as i64).unwrap();
    }
    stream.finish().unwrap()
}

/// Bytes with many line ends.
fn chunks() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let byte = prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()];
    prop::collection::vec(prop::collection::vec(byte, 0..40), 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_stream_keeps_its_bytes_and_indexes_their_lines(chunks in chunks()) {
        let (_dir, path) = scratch();
        let end = record_chunks(&path, &chunks, UNBOUNDED);
        let all = chunks.concat();
        prop_assert_eq!(end, StreamEnd { total_bytes: all.len() as u64, dropped_bytes: 0 });
        prop_assert_eq!(fs::read(path.join("console.log")).unwrap(), all);
        let index = fs::read_to_string(path.join("console.idx")).unwrap();
        prop_assert_eq!(index, expected_index(&chunks));
    }

    #[test]
    fn a_bounded_stream_keeps_its_start_and_its_end(chunks in chunks(), max_bytes in 0..300_u64) {
        let (_dir, path) = scratch();
        let end = record_chunks(&path, &chunks, max_bytes);
        let all = chunks.concat();
        let log = fs::read(path.join("console.log")).unwrap();
        let idx = fs::read_to_string(path.join("console.idx")).unwrap();
        prop_assert!((log.len() + idx.len()) as u64 <= max_bytes);
        // The tail holds everything beyond the limit, so nothing is dropped.
        prop_assert_eq!(end.dropped_bytes, 0);
        let tail = fs::read(path.join("console.tail.log")).unwrap_or_default();
        prop_assert_eq!([log, tail].concat(), all);
        let tail_idx = fs::read_to_string(path.join("console.tail.idx")).unwrap_or_default();
        prop_assert_eq!(idx + &tail_idx, expected_index(&chunks));
    }
}

#[test]
fn an_endless_stream_keeps_both_ends_and_counts_the_rest() {
    let (_dir, path) = scratch();
    let chunks: Vec<Vec<u8>> =
        (0..20_000).map(|i| format!("line {i:06} ........................\n").into_bytes()).collect();
    let end = record_chunks(&path, &chunks, 10_000);
    let log = fs::read(path.join("console.log")).unwrap();
    let tail = fs::read_to_string(path.join("console.tail.log")).unwrap();
    assert!(log.starts_with(b"line 000000 "));
    assert!(tail.ends_with("line 019999 ........................\n"));
    assert_eq!(tail.len(), 64 << 10);
    let total = chunks.concat().len() as u64;
    assert_eq!(end.total_bytes, total);
    assert_eq!(end.dropped_bytes, total - (log.len() + tail.len()) as u64);
    // The first offset in the tail's index is that of a line of the whole stream.
    let index = fs::read_to_string(path.join("console.tail.idx")).unwrap();
    let (offset, ns) = index.lines().next().unwrap().split_once(' ').unwrap();
    let offset: usize = offset.parse().unwrap();
    let number = ns.parse::<usize>().unwrap() / 10;
    assert!(chunks.concat()[offset..].starts_with(format!("line {number:06}").as_bytes()));
}

#[test]
fn a_killed_recording_opens_with_its_files() {
    let (_dir, path) = scratch();
    let mut killed = writer(&path);
    let mut console = killed.stream("console", "serial", UNBOUNDED).unwrap();
    console.append(b"hello\nwor", 5).unwrap();
    let mut partial = killed.partial("trace.txt", "tracefs").unwrap();
    partial.append(b"# tracer").unwrap();
    drop((console, partial, killed));
    let hidden = fs::read_dir(&path).unwrap().any(|entry| entry.unwrap().file_name().as_encoded_bytes()[0] == b'.');
    assert!(!hidden, "nothing is left but what can be read");

    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.manifest().state, State::Running);
    assert_eq!(recording.manifest().outcome_word(), "running");
    assert_eq!(kinds(&recording), [Oddity::UnfinishedRecording, Oddity::UnfinishedFile]);
    let names: Vec<&str> = recording.names().collect();
    assert_eq!(names, ["console.idx", "console.log", "trace.txt"]);
    let read = |name| recording.read(name).unwrap();
    assert_eq!(read("console.log").unwrap(), b"hello\nwor");
    assert_eq!(read("trace.txt").unwrap(), b"# tracer");
    assert_eq!(read("kmsg.log"), None);
}

#[test]
fn a_finished_recording_lists_its_evidence() {
    let (_dir, path) = scratch();
    let mut writer = writer(&path);
    writer.put("kmsg.log", b"6,0,0,-;x\n", "guest-init").unwrap();
    writer.finish(Manifest::begun_now()).unwrap();

    let recording = Recording::open(&path).unwrap();
    assert_eq!(kinds(&recording), []);
    let manifest = recording.manifest();
    assert_eq!(manifest.state, State::Finished);
    let evidence = &manifest.evidence[0];
    assert_eq!((evidence.file.as_str(), evidence.bytes), ("kmsg.log", 10));
    assert_eq!(evidence.origin, "guest-init");
    assert!(!path.join("kmsg.log.partial").exists());
}

#[test]
fn a_missing_or_damaged_manifest_is_a_diagnostic() {
    let (_dir, path) = scratch();
    fs::create_dir_all(&path).unwrap();
    assert!(matches!(Recording::open(&path), Err(Error::NotARecording { .. })));
    fs::write(path.join("console.log"), "x").unwrap();
    assert_eq!(kinds(&Recording::open(&path).unwrap()), [Oddity::MissingManifest]);
    for damaged in ["", "{", "[]", "{\"schema\":7}", "{\"schema\":\"foo/1\"}", "\u{0}"] {
        fs::write(path.join("recording.json"), damaged).unwrap();
        let recording = Recording::open(&path).unwrap();
        assert_eq!(kinds(&recording), [Oddity::DamagedManifest], "{damaged:?}");
        assert!(recording.read("console.log").unwrap().is_some());
    }
}

#[test]
fn a_later_schema_is_an_error_that_says_so() {
    let (_dir, path) = scratch();
    fs::create_dir_all(&path).unwrap();
    let text = r#"{"schema":"bootscope.recording/2","inputs":"not a list any more"}"#;
    fs::write(path.join("recording.json"), text).unwrap();
    let error = Recording::open(&path).unwrap_err().to_string();
    assert!(error.contains("bootscope.recording/2") && error.contains("newer bootscope"), "{error}");
}

#[test]
fn unknown_fields_are_ignored_and_missing_ones_have_defaults() {
    let (_dir, path) = scratch();
    fs::create_dir_all(&path).unwrap();
    let text = r#"{"schema":"bootscope.recording/1","state":"finished","new":{"x":1}}"#;
    fs::write(path.join("recording.json"), text).unwrap();
    assert_eq!(kinds(&Recording::open(&path).unwrap()), []);
}

#[test]
fn an_existing_folder_is_refused_and_force_replaces_only_a_recording() {
    let (_dir, path) = scratch();
    drop(writer(&path));
    let create = |force| Writer::create(&path, force, &Manifest::begun_now());
    assert!(matches!(create(false), Err(Error::Exists { .. })));
    fs::write(path.join("old.log"), "x").unwrap();
    drop(create(true).unwrap());
    assert!(!path.join("old.log").exists());

    fs::create_dir(path.join("mine")).unwrap();
    assert!(matches!(create(true), Err(Error::Foreign { .. })));
    fs::remove_dir(path.join("mine")).unwrap();
    for not_a_manifest in ["{}", "not json", "{\"schema\":\"other/1\"}"] {
        fs::write(path.join("recording.json"), not_a_manifest).unwrap();
        assert!(matches!(create(true), Err(Error::Foreign { .. })));
    }
    fs::remove_file(path.join("recording.json")).unwrap();
    fs::write(path.join("thesis.tex"), "x").unwrap();
    assert!(matches!(create(true), Err(Error::Foreign { .. })));
    assert!(path.join("thesis.tex").exists());
}

#[test]
fn a_recording_without_content_can_be_discarded() {
    let (_dir, path) = scratch();
    let mut first = writer(&path);
    first.put("kmsg.log", b"x", "").unwrap();
    let _stream = first.stream("console", "serial", UNBOUNDED).unwrap();
    first.discard().unwrap();
    assert!(!path.exists());
    // A folder that already existed is kept.
    fs::create_dir(&path).unwrap();
    writer(&path).discard().unwrap();
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}

#[test]
fn a_file_in_the_way_is_refused() {
    let (_dir, path) = scratch();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "x").unwrap();
    let error = Writer::create(&path, true, &Manifest::begun_now()).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"x");
}

#[test]
fn two_recorders_cannot_share_a_folder() {
    let (_dir, path) = scratch();
    let first = writer(&path);
    let second = Writer::create(&path, true, &Manifest::begun_now());
    assert!(matches!(second, Err(Error::InUse { .. })));
    drop(first);
    assert!(Writer::create(&path, true, &Manifest::begun_now()).is_ok());
}

#[test]
fn names_that_climb_out_are_refused() {
    let (_dir, path) = scratch();
    let mut writer = writer(&path);
    for bad in ["../x", "/etc/passwd", "a/b", "", ".x", "recording.json", "x.partial"] {
        assert!(matches!(writer.put(bad, b"", ""), Err(Error::BadName { .. })), "{bad:?}");
    }
}

#[test]
fn a_file_that_cannot_be_created_is_named_and_earlier_files_stay() {
    let (_dir, path) = scratch();
    let mut writer = writer(&path);
    writer.put("whole.txt", b"whole", "").unwrap();
    fs::create_dir(path.join("big.bin.partial")).unwrap();
    let text = writer.put("big.bin", b"x", "").unwrap_err().to_string();
    assert!(text.contains("big.bin.partial"), "{text}");
    fs::remove_dir(path.join("big.bin.partial")).unwrap();
    drop(writer);
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.read("whole.txt").unwrap().unwrap(), b"whole");
    assert_eq!(recording.read_head("whole.txt", 3).unwrap().unwrap(), b"who");
    assert_eq!(recording.read_head("whole.txt", 1 << 20).unwrap().unwrap(), b"whole");
    assert_eq!(recording.read_head("none.txt", 3).unwrap(), None);
}

#[test]
fn links_and_folders_in_a_recording_are_not_followed() {
    let (_dir, path) = scratch();
    drop(writer(&path));
    std::os::unix::fs::symlink("/etc/passwd", path.join("console.log")).unwrap();
    fs::create_dir(path.join("sub")).unwrap();
    fs::write(path.join("escape\x1b[2J.log"), "x").unwrap();
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.names().count(), 0);
    assert_eq!(recording.read("console.log").unwrap(), None);
    let ignored: Vec<&str> =
        recording.diagnostics.iter().filter(|d| d.kind == Oddity::IgnoredEntry).map(|d| d.detail.as_str()).collect();
    assert_eq!(ignored, ["console.log", "escape\\u{1b}[2J.log", "sub"]);
}

#[test]
fn import_keeps_the_bytes_under_plain_names() {
    let (dir, path) = scratch();
    let log = dir.path().join("my serial\u{1b} log.txt");
    fs::write(&log, b"\xff\0\n").unwrap();
    let same = dir.path().join("x.partial");
    fs::write(&same, b"y").unwrap();
    import(&[log, same], &path, false).unwrap();
    let recording = Recording::open(&path).unwrap();
    let names: Vec<&str> = recording.names().collect();
    assert_eq!(names, ["00-my_serial__log.txt", "01-x.partial_"]);
    assert_eq!(recording.read(names[0]).unwrap().unwrap(), b"\xff\0\n");
    assert_eq!(recording.manifest().inputs.len(), 2);
    assert_eq!(recording.manifest().outcome, None);
}

#[test]
fn import_of_a_missing_file_names_it_and_creates_nothing() {
    let (dir, path) = scratch();
    let error = import(&[dir.path().join("gone.log")], &path, false).unwrap_err();
    assert!(error.to_string().contains("gone.log") && error.to_string().ends_with("check the path"), "{error}");
    // A chain of errors does not repeat a message.
    assert!(std::error::Error::source(&error).is_none());
    let error = import(&[dir.path().to_path_buf()], &path, false).unwrap_err().to_string();
    assert_eq!(error.matches("is a directory").count(), 1, "{error}");
    assert!(error.ends_with("name a file in it"), "{error}");
    assert!(!path.exists());
}

/// Manifests that no recorder writes: too long, or with too many values for their length.
#[test]
fn a_manifest_beyond_its_bounds_is_damaged() {
    let many = |piece: &str, count: usize| {
        format!(r#"{{"schema":"bootscope.recording/1","notes":[{}""]}}"#, piece.repeat(count))
    };
    let long = many(&format!(r#""{}","#, "x".repeat(1000)), 5000);
    let (values, usual) = (many(r#""","#, 40_000), many(r#""a note","#, 1000));
    for (text, expected) in
        [(&long, vec![Oddity::DamagedManifest]), (&values, vec![Oddity::DamagedManifest]), (&usual, vec![])]
    {
        let (_dir, path) = scratch();
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("recording.json"), text).unwrap();
        fs::write(path.join("console.log"), "x").unwrap();
        let recording = Recording::open(&path).unwrap();
        assert_eq!(kinds(&recording), expected, "{} bytes", text.len());
    }
}

#[test]
fn links_put_into_a_recording_are_not_followed() {
    let (dir, path) = scratch();
    let victim = dir.path().join("victim");
    fs::write(&victim, "root's").unwrap();
    let mut writer = writer(&path);
    for name in ["kmsg.log.partial", "console.log", "guest.idx"] {
        std::os::unix::fs::symlink(&victim, path.join(name)).unwrap();
    }
    let refused = writer.put("kmsg.log", b"the guest's", "process 1").unwrap_err().to_string();
    assert!(refused.contains("kmsg.log.partial"), "{refused}");
    assert!(writer.stream("console", "serial", UNBOUNDED).is_err());
    assert!(writer.stream("guest", "process 1", UNBOUNDED).is_err());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "root's");
}

#[test]
fn in_a_shared_folder_the_recording_folder_must_be_the_users_own() {
    let (dir, _) = scratch();
    let (shared, theirs) = (dir.path().join("tmp"), dir.path().join("tmp/boot"));
    fs::create_dir_all(&theirs).unwrap();
    // Another user may have created it: everyone can write into it.
    let set = |path: &Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    set(&shared, 0o1777);
    set(&theirs, 0o777);
    for force in [false, true] {
        let refused = Writer::create(&theirs, force, &Manifest::begun_now()).unwrap_err().to_string();
        assert!(refused.contains("tmp/boot") && refused.contains("not yours alone"), "{refused}");
    }
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
    set(&theirs, 0o755);
    Writer::create(&theirs, false, &Manifest::begun_now()).unwrap();
    Writer::create(&shared.join("new"), false, &Manifest::begun_now()).unwrap();
}
