//! Boots of a kernel for 32-bit ARM, on QEMU's `virt` and on the board of seed 003: the recordings have the same data
//! as on x86-64.

use crate::support::boots::{Scratch, evidence, manifest, record, recorded};
use crate::support::other_archs::OtherArch;
use crate::support::{assert_adds_up, list, run, shown, skip, text};
use std::path::{Path, PathBuf};
use std::process::Command;

const ARM: OtherArch = OtherArch {
    name: "arm",
    variable: "BOOTSCOPE_TEST_KERNEL_ARM",
    fetched_as: "6.1-armmp",
    counter_hz: 62.5e6,
    cpus: "1",
};

#[test]
#[ignore = "10 s: in make test-all"]
fn two_deterministic_boots_of_a_zimage_are_equal() {
    let Some(document) = ARM.is_equal_twice() else { return };
    let phases: Vec<&str> = list(&document["phases"]).iter().map(|phase| text(&phase["name"])).collect();
    for phase in ["firmware", "decompressor", "early kernel", "hand-over", "process 1"] {
        assert!(phases.contains(&phase), "{phase} in {phases:?}");
    }
}

/// The device tree for the board in Debian's package, beside its kernel.
fn sabrelite(kernel: &Path) -> Option<PathBuf> {
    let tree = kernel.with_file_name("dtbs").join("imx6q-sabrelite.dtb");
    if !tree.is_file() {
        skip(&format!("there is no {}: scripts/fetch-kernel {} fetches it", tree.display(), ARM.fetched_as));
        return None;
    }
    Some(tree)
}

fn on_sabrelite(kernel: &Path, tree: &Path, boot: &Path) -> Command {
    let mut command = record(kernel, boot);
    command.args(["--machine", "sabrelite", "--append", "nosmp", "--deterministic", "--dtb"]).arg(tree);
    command
}

#[test]
fn the_boards_console_and_evidence_arrive_by_its_own_serial_ports() {
    let Some(kernel) = ARM.kernel() else { return };
    let Some(tree) = sabrelite(&kernel) else { return };
    let scratch = Scratch::new();
    let boot = scratch.path("boot");
    recorded(&mut on_sabrelite(&kernel, &tree, &boot), &boot, "reached");
    let manifest = manifest(&boot);
    let input =
        list(&manifest["inputs"]).iter().find(|input| input["role"] == "dtb").expect("the device tree is an input");
    assert_eq!(text(&input["sha256"]).len(), 64);
    let log = evidence(&boot, "kmsg.log");
    for words in ["SABRE Lite", "console=ttymxc1 ", "clocksource: mxc_timer1"] {
        assert!(log.contains(words), "{words}");
    }
    let document = shown(&boot);
    assert_adds_up(&document);
    // Its CPU has no counter that programs can read.
    assert_eq!(list(&document["clocks"])[0]["hz"].as_f64(), Some(1e9), "{}", document["clocks"]);
}

#[test]
fn a_device_tree_is_asked_for_where_it_is_needed_and_nowhere_else() {
    let Some(kernel) = ARM.kernel() else { return };
    let scratch = Scratch::new();
    let refused = |args: &[&str], words: &[&str]| {
        let mut command = record(&kernel, &scratch.path("boot"));
        run(command.args(args)).refuses(words);
    };
    refused(&["--machine", "sabrelite"], &["sabrelite", "--dtb"]);
    refused(&["--dtb", "/proc/version"], &["/proc/version is no device tree"]);
    refused(&["--trace", "calls"], &["--trace calls", "arm"]);
    refused(&["--arch", "x86_64"], &["leave out --arch"]);
}
