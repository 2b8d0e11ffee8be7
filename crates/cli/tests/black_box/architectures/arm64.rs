//! Boots of an arm64 kernel: bootscope detects the architecture from the image, and the recordings have the same data
//! as on x86-64.

use crate::support::boots::{Scratch, record, recorded};
use crate::support::other_archs::{OtherArch, has_early_names};
use crate::support::{assert_adds_up, run, shown};

const ARM64: OtherArch = OtherArch {
    name: "aarch64",
    variable: "BOOTSCOPE_TEST_KERNEL_ARM64",
    fetched_as: "6.1-cloud-arm64",
    counter_hz: 62.5e6,
    cpus: "2",
};

#[test]
fn an_arm64_kernel_is_recorded_as_any_other() {
    ARM64.is_recorded_as_any_other();
}

#[test]
fn two_deterministic_boots_of_an_arm64_kernel_are_equal() {
    ARM64.is_equal_twice();
}

#[test]
fn an_arm64_kernel_that_panics_has_names_from_its_image() {
    let Some(kernel) = ARM64.kernel() else { return };
    let scratch = Scratch::new();
    let boot = scratch.path("boot");
    recorded(record(&kernel, &boot).args(["--init", "keep", "--deterministic"]), &boot, "panic");
    let document = shown(&boot);
    assert_adds_up(&document);
    has_early_names(&document);
}

#[test]
#[ignore = "11 s: in make test-all"]
fn calls_of_an_arm64_kernel_are_followed() {
    ARM64.is_followed();
}

#[test]
fn a_kernel_of_another_architecture_than_given_is_refused() {
    let Some(kernel) = ARM64.kernel() else { return };
    let scratch = Scratch::new();
    let mut command = record(&kernel, &scratch.path("boot"));
    run(command.args(["--arch", "x86_64"])).refuses(&["leave out --arch"]);
}
