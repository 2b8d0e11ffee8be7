//! `--like` repeats the options that a recording was made with, and a packed recording is the same recording.

use crate::support::boots::{QUIET, Scratch, evidence, kernel, manifest, record, recorded};
use crate::support::{bootscope, run, shown};

#[test]
#[ignore = "10 s: in make test-all"]
fn like_repeats_every_option_but_those_given() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let (first, packed) = (scratch.path("first"), scratch.path("first.tar.zst"));
    let mut command = record(&kernel, &first);
    command.args(["--append", QUIET, "--memory", "320M", "--cpus", "2", "--machine", "q35", "--no-firmware-log"]);
    command.args(["--timeout", "5m", "--trace", "none", "--", "-device", "virtio-rng-pci"]);
    recorded(&mut command, &first, "reached");
    run(bootscope("pack").arg(&first)).exits(0);

    // A packed recording has the options too.
    let second = scratch.path("second");
    recorded(bootscope("record").arg("--like").arg(&packed).arg("-o").arg(&second), &second, "reached");
    let (of_first, of_second) = (manifest(&first), manifest(&second));
    assert_eq!(of_first["how"], of_second["how"]);
    assert_eq!(of_first["subject"], of_second["subject"]);
    assert_eq!(of_first["inputs"], of_second["inputs"]);
    assert_eq!(evidence(&first, "cmdline.txt"), evidence(&second, "cmdline.txt"));
    assert!(!second.join("firmware.log").exists() && !evidence(&second, "cmdline.txt").contains("trace_event"));

    let third = scratch.path("third");
    let mut command = bootscope("record");
    command
        .arg("--like")
        .arg(&first)
        .args(["--append", "quiet tsc=reliable no_timer_check", "--cpus", "1", "-o"])
        .arg(&third);
    recorded(&mut command, &third, "reached");
    let mut expected = of_first["how"].clone();
    expected["append"] = "quiet tsc=reliable no_timer_check".into();
    expected["cpus"] = 1.into();
    assert_eq!(manifest(&third)["how"], expected, "that one, but");
    assert!(evidence(&third, "cmdline.txt").contains("quiet tsc=reliable no_timer_check"));
}

#[test]
fn a_packed_recording_reads_as_the_same_recording() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let (folder, packed) = (scratch.path("boot"), scratch.path("small.tar.zst"));
    recorded(record(&kernel, &folder).args(["--append", QUIET]), &folder, "reached");
    run(bootscope("pack").arg(&folder).arg("-o").arg(&packed)).exits(0);
    assert_eq!(shown(&packed), shown(&folder));
    for format in ["perfetto", "folded", "csv", "json"] {
        let of = |recording| run(bootscope("export").args(["--to", format]).arg(recording)).exits(0).stdout;
        assert!(of(&packed) == of(&folder), "{format} differs");
    }
    let again = scratch.path("again.tar.zst");
    run(bootscope("pack").arg(&folder).arg("-o").arg(&again)).exits(0);
    assert!(std::fs::read(&again).unwrap() == std::fs::read(&packed).unwrap(), "packed twice, the same bytes");
    let sizes = [&folder, &packed].map(|path| size(path));
    assert!(sizes[1] < sizes[0], "packed {} of {} bytes", sizes[1], sizes[0]);
}

fn size(path: &std::path::Path) -> u64 {
    if path.is_file() {
        return path.metadata().unwrap().len();
    }
    std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}
