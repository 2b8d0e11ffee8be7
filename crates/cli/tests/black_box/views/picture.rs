//! `report --svg`: the picture of a log, and what it refuses.

use crate::support::{bootscope, fixture, imported, run};
use std::fs;

#[test]
fn a_log_has_a_picture_for_a_mail() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let written = run(bootscope("report").arg("--svg").arg(&recording)).exits(0);
    let file = folder.path().join("a.svg");
    assert!(written.stderr.contains("a.svg"), "{}", written.stderr);
    let svg = fs::read_to_string(&file).unwrap();
    assert!(svg.len() < 100_000, "{} bytes", svg.len());
    for part in ["Linux 6.1.0-47-cloud-amd64: 2.04 s", "early kernel", "1.75 s, 85.6 %", "..TIMER", ">message</text>"] {
        assert!(svg.contains(part), "{part} is not in {svg}");
    }
    run(bootscope("report").arg("--svg").arg(&recording)).exits(2);
    run(bootscope("report").args(["--svg", "--force"]).arg(&recording)).exits(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), svg, "the same recording gives the same picture");
    let refused = run(bootscope("report").arg("--svg").args([&recording, &recording])).exits(2);
    assert!(refused.stderr.contains("one recording"), "{}", refused.stderr);
}
