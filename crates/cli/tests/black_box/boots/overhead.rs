//! The overhead of recording is measured on demand, saved, and stated only in recordings of the same kernel, machine
//! and number of CPUs.

use crate::support::boots::{QUIET, Scratch, kernel, manifest, record, recorded};
use crate::support::{bootscope, run, shown, text};

#[test]
#[ignore = "23 s: in make test-all"]
fn overhead_is_stated_in_recordings_of_the_measured_kind() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let cache = scratch.path("cache");
    let measured = run(bootscope("record")
        .args(["--json", "--accel", "tcg", "--append", QUIET, "--overhead", "2", "--kernel"])
        .arg(&kernel)
        .env("XDG_CACHE_HOME", &cache))
    .exits(0)
    .json();
    assert_eq!(measured["schema"], "bootscope.overhead/1");
    let ratio = measured["ratio"].as_f64().unwrap();
    // Two pairs on a busy host give a poor estimate, but they are boots of the same kernel.
    assert!(ratio > 0.2 && ratio < 5.0, "{measured}");
    assert!(text(&measured["how"]).contains("2 pairs"), "{measured}");

    for (cpus, stated) in [("1", true), ("2", false)] {
        let into = scratch.path(&format!("with-{cpus}"));
        let mut command = record(&kernel, &into);
        command.args(["--append", QUIET, "--cpus", cpus]).env("XDG_CACHE_HOME", &cache);
        recorded(&mut command, &into, "reached");
        let noted = manifest(&into)["overhead"].clone();
        assert_eq!(noted["ratio"].as_f64(), stated.then_some(ratio), "{cpus} CPUs: {noted}");
        assert_eq!(shown(&into)["overhead"]["ratio"].as_f64(), stated.then_some(ratio));
    }
}
