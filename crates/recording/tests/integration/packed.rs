//! Packed recordings: they read like their folder, and entries that no recording has are refused.

use std::fs;
use std::path::{Path, PathBuf};

use recording::{Error, Manifest, Oddity, Recording, Writer, pack};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

fn recorded(dir: &Path) -> PathBuf {
    let path = dir.join("linux-6.1");
    let mut writer = Writer::create(&path, false, &Manifest::begun_now()).unwrap();
    let mut console = writer.stream("console", "serial", 1 << 20).unwrap();
    console.append(b"one\ntwo\n", 7).unwrap();
    console.finish().unwrap();
    writer.put("trace.txt", &[b'x'; 100_000], "tracefs").unwrap();
    writer.finish(Manifest::begun_now()).unwrap();
    path
}

#[test]
fn a_packed_recording_reads_like_its_folder() {
    let dir = TempDir::new().unwrap();
    let folder = recorded(dir.path());
    let out = dir.path().join("a.tar.zst");
    pack(&folder, &out, false).unwrap();

    let (a, b) = (Recording::open(&folder).unwrap(), Recording::open(&out).unwrap());
    assert_eq!(a.manifest(), b.manifest());
    assert_eq!(b.diagnostics, []);
    assert_eq!(a.names().collect::<Vec<_>>(), b.names().collect::<Vec<_>>());
    for name in a.names() {
        assert_eq!(a.read(name).unwrap(), b.read(name).unwrap(), "{name}");
    }
    assert!(fs::metadata(&out).unwrap().len() < 2000);

    assert!(matches!(pack(&folder, &out, false), Err(Error::Exists { .. })));
    let first = fs::read(&out).unwrap();
    pack(&folder, &out, true).unwrap();
    assert_eq!(fs::read(&out).unwrap(), first, "the same recording gives the same bytes");
}

#[test]
fn a_truncated_archive_gives_the_entries_that_it_holds() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("r");
    let mut writer = Writer::create(&folder, false, &Manifest::begun_now()).unwrap();
    writer.put("a.txt", b"small", "").unwrap();
    // Incompressible bytes, so that the truncated archive ends within this file.
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(1 << 20)
    .collect();
    writer.put("b.bin", &noise, "").unwrap();
    writer.finish(Manifest::begun_now()).unwrap();
    let out = dir.path().join("a.tar.zst");
    pack(&folder, &out, false).unwrap();

    let whole = fs::read(&out).unwrap();
    fs::write(&out, &whole[..whole.len() / 2]).unwrap();
    let recording = Recording::open(&out).unwrap();
    let kinds: Vec<Oddity> = recording.diagnostics.iter().map(|d| d.kind).collect();
    assert_eq!(kinds, [Oddity::CutArchive, Oddity::UnfinishedFile]);
    assert_eq!(recording.read("a.txt").unwrap().unwrap(), b"small");
    let part = recording.read("b.bin").unwrap().unwrap();
    assert!(noise.starts_with(&part) && part.len() > 100_000);
    assert_eq!(recording.read_head("b.bin", 1000).unwrap().unwrap(), noise[..1000]);

    for cut in [0, 1, 4, 10] {
        fs::write(&out, &whole[..cut]).unwrap();
        let error = Recording::open(&out).unwrap_err();
        assert!(matches!(error, Error::NotARecording { .. }), "{cut}: {error}");
    }
}

/// A packed file with these entries: path, written unchanged, and type.
fn hostile(dir: &Path, entries: &[(&str, EntryType)]) -> PathBuf {
    let mut builder = Builder::new(Vec::new());
    for (path, kind) in entries {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(2);
        header.set_cksum();
        builder.append(&header, &b"{}"[..]).unwrap();
    }
    let out = dir.join("hostile.tar.zst");
    let tar = builder.into_inner().unwrap();
    fs::write(&out, zstd::encode_all(tar.as_slice(), 1).unwrap()).unwrap();
    out
}

fn check_refused(entries: &[(&str, EntryType)], why: &str) {
    let dir = TempDir::new().unwrap();
    let error = Recording::open(&hostile(dir.path(), entries)).unwrap_err();
    assert!(matches!(error, Error::HostilePack { .. }), "{entries:?}: {error}");
    assert!(error.to_string().contains(why), "{entries:?}: {error}");
}

#[test]
fn entries_that_no_recording_has_are_refused() {
    let file = EntryType::Regular;
    check_refused(&[("a/x.log", file), ("../../etc/cron.d/x", file)], "climbs out");
    check_refused(&[("/etc/passwd", file)], "climbs out");
    check_refused(&[("a/../x", file)], "climbs out");
    check_refused(&[("a/x", file), ("a/x", file)], "comes twice");
    check_refused(&[("a/x", file), ("b/y", file)], "another folder");
    check_refused(&[("a/b/y", file)], "folder inside");
    check_refused(&[("a/x", EntryType::Symlink)], "link");
    check_refused(&[("a/x", EntryType::Link)], "link");
    check_refused(&[("a/x", EntryType::Fifo)], "link or a device");
    check_refused(&[("a/x\x1b[2J", file)], "name");
    check_refused(&[("a/.hidden", file)], "name");
}

#[test]
fn a_bomb_is_refused() {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("bomb.tar.zst");
    let mut zstd = zstd::Encoder::new(fs::File::create(&out).unwrap(), 1).unwrap();
    let mut header = Header::new_gnu();
    header.set_path("a/x").unwrap();
    header.set_size(1 << 40);
    header.set_cksum();
    std::io::Write::write_all(&mut zstd, header.as_bytes()).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..1100 {
        std::io::Write::write_all(&mut zstd, &zeros).unwrap();
    }
    zstd.finish().unwrap();
    assert!(matches!(Recording::open(&out), Err(Error::TooLarge { .. })));
}

#[test]
fn other_files_are_no_recordings() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x");
    for bytes in [&b"hello"[..], b"", b"\x28\xb5\x2f\xfdgarbage"] {
        fs::write(&path, bytes).unwrap();
        let error = Recording::open(&path).unwrap_err();
        assert!(matches!(error, Error::NotARecording { .. }), "{error}");
    }
    let error = Recording::open(&dir.path().join("gone")).unwrap_err();
    assert!(error.to_string().contains("gone"));
}

/// The packed size limits the unpacked size too: 100 MB of zeros pack to 10 KB.
#[test]
fn a_small_pack_does_not_become_large() {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("small.tar.zst");
    let mut archive = tar::Builder::new(zstd::Encoder::new(fs::File::create(&out).unwrap(), 3).unwrap());
    for (name, bytes) in [("a/recording.json", 2), ("a/console.log", 100 << 20)] {
        let mut header = Header::new_gnu();
        header.set_size(bytes);
        header.set_cksum();
        archive.append_data(&mut header, name, std::io::Read::take(std::io::repeat(b' '), bytes)).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap();
    let error = Recording::open(&out).unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit, .. } if limit == 64 << 20), "{error}");
}

/// The mode of a packed file, and those of the files in it.
fn modes(packed: &Path) -> (u32, Vec<u32>) {
    use std::os::unix::fs::PermissionsExt;
    let outer = fs::metadata(packed).unwrap().permissions().mode() & 0o777;
    let mut archive = tar::Archive::new(zstd::Decoder::new(fs::File::open(packed).unwrap()).unwrap());
    let inner = archive.entries().unwrap().map(|entry| entry.unwrap().header().mode().unwrap()).collect();
    (outer, inner)
}

#[test]
fn only_the_owner_reads_a_capture_and_the_umask_decides_for_a_recording() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("plain"), "").unwrap();
    let plain = fs::metadata(dir.path().join("plain")).unwrap().permissions();
    let plain = std::os::unix::fs::PermissionsExt::mode(&plain) & 0o777;
    let folder = recorded(dir.path());
    let packed = dir.path().join("boot.tar.zst");
    recording::pack(&folder, &packed, false).unwrap();
    assert_eq!(modes(&packed).0, plain);
    assert!(modes(&packed).1.iter().all(|&mode| mode == 0o644));
    // The same file as a capture: it replaces one that others may read.
    fs::write(folder.join(recording::CAPTURE), "took 1 ms: all\n").unwrap();
    recording::pack(&folder, &packed, true).unwrap();
    let (outer, inner) = modes(&packed);
    assert_eq!(outer, 0o600);
    assert!(inner.len() > 2 && inner.iter().all(|&mode| mode == 0o600), "{inner:?}");
    let captured = recording::InMemory {
        manifest: recording::Manifest::begun_now(),
        files: vec![(recording::CAPTURE.to_owned(), Vec::new(), String::new())],
    };
    let here = dir.path().join("here.tar.zst");
    captured.pack(&here, false).unwrap();
    assert_eq!(modes(&here), (0o600, vec![0o600; 2]));
}

/// The header of a zstd frame declares how much it unpacks to: 64 MiB of files and 64 MiB of headers may be declared.
#[test]
fn a_small_pack_that_declares_more_than_it_may_have_is_refused_before_it_is_unpacked() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("declared.tar.zst");
    let open = |declared: u64| {
        // The magic, a header with a window and a size of 8 bytes, the smallest window.
        let mut bytes = b"\x28\xb5\x2f\xfd\xc0\x00".to_vec();
        bytes.extend(declared.to_le_bytes());
        fs::write(&path, bytes).unwrap();
        Recording::open(&path).unwrap_err()
    };
    let error = open((128 << 20) + 1);
    assert!(matches!(error, Error::TooLarge { limit, .. } if limit == 64 << 20), "{error}");
    let error = open(128 << 20);
    assert!(matches!(error, Error::NotARecording { .. }), "nothing follows the header: {error}");
}
