//! A really full disk: a small tmpfs, in the test's own mount namespace.
//!
//! If such a namespace cannot be created, the test says so and passes.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use recording::{Error, Manifest, Outcome, OutcomeKind, Recording, State, Writer, import, pack};
use tempfile::TempDir;

const DISK: &str = "BOOTSCOPE_TEST_SMALL_DISK";
/// The exit status of a test program in which a test failed.
const FAILED: Option<i32> = Some(101);

/// Runs the test `name` again in a new process with a disk of 512 KiB. That process runs `check`.
fn on_a_small_disk(name: &str, check: impl FnOnce(&Path)) {
    if let Some(disk) = env::var_os(DISK) {
        return check(Path::new(&disk));
    }
    let dir = TempDir::new().unwrap();
    let script = r#"mount -t tmpfs -o size=512k none "$1" || exit 77; exec "$2" --exact "$3" --nocapture"#;
    // Root needs no user namespace, which a chroot does not give even to root.
    let is_root = fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0);
    let mut command = Command::new("unshare");
    command
        .args([if is_root { "-m" } else { "-rm" }, "sh", "-c", script, "sh"])
        .arg(dir.path())
        .arg(env::current_exe().unwrap())
        .arg(name);
    match command.env(DISK, dir.path()).status() {
        Ok(status) if status.success() => {}
        Ok(status) if status.code() == FAILED => panic!("it failed on the small disk"),
        Ok(status) => println!("SKIPPED: no mount namespace of its own can be made here ({status})"),
        Err(error) => println!("SKIPPED: no mount namespace of its own can be made here ({error})"),
    }
}

/// Bytes that do not compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

#[test]
fn a_recording_that_filled_the_disk_is_finished() {
    on_a_small_disk("a_recording_that_filled_the_disk_is_finished", |disk| {
        let path = disk.join("a");
        let mut writer = Writer::create(&path, false, &Manifest::begun_now()).unwrap();
        writer.put("whole.txt", b"whole", "").unwrap();
        let mut stream = writer.stream("console", "serial", u64::MAX).unwrap();
        let error = (0..).find_map(|_| stream.append(&noise(1000), 7).err()).unwrap();
        assert!(matches!(error, Error::DiskFull { .. }), "{error}");
        assert!(matches!(writer.put("more.txt", &noise(9000), ""), Err(Error::DiskFull { .. })));
        drop(stream);
        writer.release();
        writer.put("small.json", b"{}", "").unwrap();

        let detail = error.to_string();
        let outcome = Some(Outcome { kind: OutcomeKind::Interrupted, detail, at_ns: None });
        writer.finish(Manifest { outcome, ..Manifest::begun_now() }).unwrap();
        let recording = Recording::open(&path).unwrap();
        assert_eq!(recording.manifest().state, State::Finished);
        assert_eq!(recording.manifest().outcome_word(), "interrupted");
        assert_eq!(recording.read("whole.txt").unwrap().unwrap(), b"whole");
        assert!(recording.read("console.log").unwrap().unwrap().len() > 300_000);
    });
}

#[test]
fn an_import_that_does_not_fit_leaves_no_folder() {
    on_a_small_disk("an_import_that_does_not_fit_leaves_no_folder", |disk| {
        let elsewhere = TempDir::new().unwrap();
        let log = elsewhere.path().join("boot.log");
        fs::write(&log, noise(1 << 20)).unwrap();
        let import = || import(std::slice::from_ref(&log), &disk.join("a"), false);
        // With 512 KiB it fails while the evidence is copied, and with 8 KiB already before.
        for room in [512 << 10, 8 << 10] {
            let filler = disk.join("filler");
            fs::write(&filler, noise((512 << 10) - room)).unwrap();
            let error = import().unwrap_err();
            assert!(matches!(error, Error::DiskFull { .. }), "{error}");
            fs::remove_file(&filler).unwrap();
            assert_eq!(fs::read_dir(disk).unwrap().count(), 0);
        }
        fs::write(&log, noise(1 << 10)).unwrap();
        import().unwrap();
    });
}

#[test]
fn a_pack_that_does_not_fit_leaves_nothing() {
    on_a_small_disk("a_pack_that_does_not_fit_leaves_nothing", |disk| {
        let elsewhere = TempDir::new().unwrap();
        let path = elsewhere.path().join("a");
        let mut writer = Writer::create(&path, false, &Manifest::begun_now()).unwrap();
        writer.put("b.bin", &noise(1 << 20), "").unwrap();
        writer.finish(Manifest::begun_now()).unwrap();

        let error = pack(&path, &disk.join("a.tar.zst"), false).unwrap_err();
        assert!(matches!(error, Error::DiskFull { .. }), "{error}");
        assert_eq!(fs::read_dir(disk).unwrap().count(), 0);
    });
}
