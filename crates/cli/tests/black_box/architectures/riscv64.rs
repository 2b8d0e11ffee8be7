//! Boots of a riscv64 kernel: bootscope detects the architecture from the image, and the recordings have the same data
//! as on x86-64.

use crate::support::boots::{Scratch, record};
use crate::support::other_archs::OtherArch;
use crate::support::{list, ns, run};

const RISCV64: OtherArch = OtherArch {
    name: "riscv64",
    variable: "BOOTSCOPE_TEST_KERNEL_RISCV64",
    fetched_as: "6.12-riscv64",
    counter_hz: 10e6,
    // With two CPUs, QEMU 7.2 itself hangs in one boot of six on a busy host, before the kernel prints.
    cpus: "1",
};

#[test]
fn a_riscv64_kernel_is_recorded_as_any_other() {
    RISCV64.is_recorded_as_any_other();
}

#[test]
fn two_deterministic_boots_of_a_riscv64_kernel_are_equal() {
    let Some(document) = RISCV64.is_equal_twice() else { return };
    // OpenSBI runs until it enters the kernel, which happens after it has printed its banner.
    let firmware = list(&document["phases"]).iter().find(|phase| phase["name"] == "firmware").unwrap();
    assert!(ns(&firmware["end_ns"]) - ns(&firmware["start_ns"]) > 1_000_000, "{firmware}");
}

#[test]
#[ignore = "15 s: in make test-all"]
fn calls_of_a_riscv64_kernel_are_followed() {
    RISCV64.is_followed();
}

#[test]
fn a_kernel_of_another_architecture_than_given_is_refused() {
    let Some(kernel) = RISCV64.kernel() else { return };
    let scratch = Scratch::new();
    let mut command = record(&kernel, &scratch.path("boot"));
    run(command.args(["--arch", "aarch64"])).refuses(&["leave out --arch"]);
}
