//! Endless or huge input, or input that claims to be huge: it is refused or truncated at a reported limit, and memory
//! stays bounded.

use crate::support::journals::Bench;
use crate::support::{Ran, bootscope, fixture, ran, run};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Runs a command, and returns its peak memory in MiB, polled from the kernel until the program ends.
fn measured(command: &mut Command) -> (Ran, u64) {
    let what = format!("{command:?}");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let watch = std::thread::spawn(move || {
        let mut most_kib = 0;
        while let Ok(text) = fs::read_to_string(&status) {
            let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let Some(peak) = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse::<u64>().ok()) else { break };
            most_kib = peak.max(most_kib);
            std::thread::sleep(Duration::from_millis(2));
        }
        most_kib >> 10
    });
    let output = child.wait_with_output().unwrap();
    (ran(output, what), watch.join().unwrap())
}

/// A shell command that prints a log followed by zeros.
fn log_and_zeros(then: &str) -> Command {
    let mut shell = Command::new("sh");
    let script = format!("{{ cat \"$0\"; head -c 400M /dev/zero; }} 2>/dev/null {then}");
    shell.args(["-c", &script]).arg(fixture("log/linux-6.1-serial.log"));
    shell
}

#[test]
fn endless_input_is_truncated_at_a_reported_limit() {
    let folder = TempDir::new().unwrap();
    let into = folder.path().join("a");
    let mut log = log_and_zeros("").stdout(Stdio::piped()).spawn().unwrap();
    let mut command = bootscope("import");
    command.args(["-", "-o"]).arg(&into).stdin(log.stdout.take().unwrap());
    let (import, peak_mib) = measured(&mut command);
    // It holds the other end of the pipe, and the writer would wait for it.
    drop(command);
    let import = import.exits(0);
    log.wait().unwrap();
    println!("400 MiB on standard input took {peak_mib} MiB of memory");
    assert!((256..320).contains(&peak_mib), "{peak_mib} MiB");
    for words in ["stdin goes on after 256 MiB", "left out", "kernel log"] {
        assert!(import.stderr.contains(words), "no {words:?} in: {}", import.stderr);
    }
    assert_eq!(fs::metadata(into.join("00-stdin")).unwrap().len(), 256 << 20);
    let manifest = fs::read_to_string(into.join("recording.json")).unwrap();
    assert!(manifest.contains("stdin went on: only its beginning was imported"), "{manifest}");
}

#[test]
fn a_file_beyond_the_limit_is_refused_unread() {
    let folder = TempDir::new().unwrap();
    let (huge, into) = (folder.path().join("huge.log"), folder.path().join("a"));
    fs::File::create(&huge).unwrap().set_len(2 << 30).unwrap();
    let (import, peak_mib) = measured(bootscope("import").arg(&huge).arg("-o").arg(&into));
    import.refuses(&["huge.log", "1073741824", "cut out"]);
    assert!(peak_mib < 64 && !into.exists(), "{peak_mib} MiB");
}

#[test]
fn a_compressed_file_beyond_the_limit_is_reported_at_import() {
    let folder = TempDir::new().unwrap();
    let packed = folder.path().join("log.gz");
    let made = log_and_zeros("| gzip -1").stdout(fs::File::create(&packed).unwrap()).status().unwrap();
    assert!(made.success());
    let (import, peak_mib) = measured(bootscope("import").arg(&packed).arg("-o").arg(folder.path().join("a")));
    let import = import.exits(0);
    assert!(import.stderr.contains("log.gz unpacks to more than 256 MiB"), "{}", import.stderr);
    assert!(peak_mib < 600, "{peak_mib} MiB");
}

/// A packed recording of one file of zeros. It declares this size in its header, or in its frame.
fn bomb(path: &Path, in_the_frame: bool) {
    const BYTES: u64 = 2 << 30;
    let mut packed = zstd::Encoder::new(fs::File::create(path).unwrap(), 1).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_path("a/console.log").unwrap();
    header.set_size(if in_the_frame { 1 } else { BYTES });
    header.set_cksum();
    if in_the_frame {
        packed.set_pledged_src_size(Some(BYTES)).unwrap();
    }
    std::io::copy(&mut &header.as_bytes()[..], &mut packed).unwrap();
    let zeros = vec![0; 1 << 20];
    if in_the_frame {
        (0..BYTES >> 20).for_each(|n| {
            let length = if n == 0 { zeros.len() - header.as_bytes().len() } else { zeros.len() };
            std::io::Write::write_all(&mut packed, &zeros[..length]).unwrap();
        });
    } else {
        (0..1100).for_each(|_| std::io::Write::write_all(&mut packed, &zeros).unwrap());
    }
    packed.finish().unwrap();
}

#[test]
fn a_packed_file_that_declares_too_much_is_refused_before_it_is_unpacked() {
    let folder = TempDir::new().unwrap();
    for in_the_frame in [false, true] {
        let path = folder.path().join("bomb.tar.zst");
        bomb(&path, in_the_frame);
        let began = Instant::now();
        let (show, peak_mib) = measured(bootscope("show").arg(&path));
        show.refuses(&["bomb.tar.zst", "larger than", "tar --zstd -xf"]);
        println!("refused after {:?} with {peak_mib} MiB of memory", began.elapsed());
        assert!(peak_mib < 64, "{peak_mib} MiB");
    }
    // The same limit applies without a declared size: data after an honest header cannot exceed the declared size.
    run(bootscope("show").arg("/dev/zero")).refuses(&["/dev/zero"]);
}

/// The program under limits set by the shell's `ulimit`.
fn limited(limits: &str, arguments: &[&Path]) -> Ran {
    let mut command = bootscope("");
    let program = command.get_program().to_owned();
    let environment: Vec<_> =
        command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    command = Command::new("sh");
    command.args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")]).arg(program).args(arguments);
    for (name, value) in environment {
        match value {
            Some(value) => command.env(&name, value),
            None => command.env_remove(&name),
        };
    }
    run(&mut command)
}

#[test]
fn one_gigabyte_of_addresses_is_enough_for_a_history() {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("history.db");
    let rounds: Vec<Vec<Option<f64>>> = (0..7).map(|_| vec![Some(1000.0)]).collect();
    let bench = Bench { created: "2026-01-01T08:30:00Z", kernels: &["aaaa"], rounds: &rounds };
    let bench = bench.write(&folder.path().join("bench"));
    run(bootscope("history").arg("--db").arg(&db).arg("--add").arg(&bench)).exits(0);
    let [history, option, one] = ["history", "--db", "--bench"].map(Path::new);
    // Adding the bench again reads the existing ones, and another command prints one.
    limited("ulimit -v 1000000", &[history, option, &db, Path::new("--add"), &bench]).exits(0);
    let document = limited("ulimit -v 1000000", &[history, option, &db, one, Path::new("1")]).exits(0).json();
    assert_eq!(document["boots"].as_array().map(Vec::len), Some(7), "{document}");
}

#[test]
fn a_small_stack_is_enough() {
    let folder = TempDir::new().unwrap();
    let into = folder.path().join("a");
    let log = fixture("log/linux-6.1-serial.log");
    let limits = "ulimit -s 64";
    limited(limits, &[Path::new("import"), &log, Path::new("-o"), &into]).exits(0);
    for view in ["show", "findings"] {
        limited(limits, &[Path::new(view), &into, Path::new("--json")]).exits(0).json();
    }
}

#[test]
fn a_manifest_full_of_notes_is_damaged_and_takes_no_memory() {
    let folder = TempDir::new().unwrap();
    let log = fs::read(fixture("log/linux-6.1-kmsg.log")).unwrap();
    let notes = r#""","#.repeat(10_000_000);
    let manifest = format!(r#"{{"schema":"bootscope.recording/1","notes":[{notes}""]}}"#);
    let recording = folder.path().join("a");
    fs::create_dir(&recording).unwrap();
    fs::write(recording.join("recording.json"), &manifest).unwrap();
    fs::write(recording.join("kmsg.log"), &log).unwrap();
    let packed = folder.path().join("a.tar.zst");
    let mut archive = tar::Builder::new(zstd::Encoder::new(fs::File::create(&packed).unwrap(), 3).unwrap());
    archive.append_dir_all("a", &recording).unwrap();
    archive.into_inner().unwrap().finish().unwrap();
    for (path, most_mib) in [(&recording, 64), (&packed, 128)] {
        let (show, peak_mib) = measured(bootscope("show").arg(path).arg("--json"));
        let document = show.exits(0).json();
        let codes: Vec<_> = document["diagnostics"].as_array().unwrap().iter().map(|d| d["code"].clone()).collect();
        assert!(codes.iter().any(|code| code == "manifest-damaged"), "{codes:?}");
        println!("{} took {peak_mib} MiB", path.display());
        assert!(peak_mib < most_mib, "{peak_mib} MiB");
    }
}
