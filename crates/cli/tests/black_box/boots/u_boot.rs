//! Boots with Debian's U-Boot: its lines are the steps of the phase `loader`, and its countdown is a finding. A boot
//! without a countdown is shorter by the time that the finding claims.

use crate::support::boots::{Scratch, found, manifest, record, recorded};
use crate::support::{assert_adds_up, bootscope, list, ns, run, shown, skip, text};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Debian's U-Boot for a machine type of QEMU. Without it the tests skip, and print why.
fn u_boot(machine: &str) -> Option<PathBuf> {
    let image = Path::new("/usr/lib/u-boot").join(machine).join("u-boot.bin");
    if !image.is_file() {
        skip(&format!("there is no {}: scripts/setup test installs Debian's package u-boot-qemu", image.display()));
        return None;
    }
    Some(image)
}

/// The arm64 kernel to boot; without one the tests skip, and print why.
pub(super) fn kernel() -> Option<PathBuf> {
    match std::env::var("BOOTSCOPE_TEST_KERNEL_ARM64").ok().filter(|name| !name.is_empty()) {
        Some(kernel) => Some(found(&kernel)),
        None => {
            skip("BOOTSCOPE_TEST_KERNEL_ARM64 names no Image: scripts/fetch-kernel 6.1-cloud-arm64 fetches one");
            None
        }
    }
}

/// U-Boot's default environment with another `bootdelay`, in the format of a flash (include/env_internal.h): a CRC, the
/// variables.
fn flash(u_boot: &Path, bootdelay: u32, into: &Path) {
    const ENV_BYTES: usize = 0x4_0000;
    const FLASH_BYTES: usize = 64 << 20;
    let image = std::fs::read(u_boot).unwrap();
    let at = memchr::memmem::find(&image, b"\0bootdelay=").expect("its default environment has a countdown") + 1;
    let is_variable = |text: &[u8]| text.contains(&b'=') && text.iter().all(|b| (b' '..=b'~').contains(b));
    let before = image[..at - 1].rsplit(|&b| b == 0).take_while(|text| is_variable(text));
    let after = image[at..].split(|&b| b == 0).skip(1).take_while(|text| is_variable(text));
    let mut variables = Vec::new();
    let own = format!("bootdelay={bootdelay}");
    for variable in before.chain([own.as_bytes()]).chain(after) {
        variables.extend_from_slice(variable);
        variables.push(0);
    }
    variables.resize(ENV_BYTES - 4, 0);
    let mut crc = flate2::Crc::new();
    crc.update(&variables);
    let mut bytes = crc.sum().to_le_bytes().to_vec();
    bytes.extend(variables);
    bytes.resize(FLASH_BYTES, 0xff);
    std::fs::write(into, bytes).unwrap();
}

fn phase<'a>(document: &'a Value, name: &str) -> &'a Value {
    let found = list(&document["phases"]).iter().find(|phase| phase["name"] == name);
    found.unwrap_or_else(|| panic!("no phase {name}: {}", document["phases"]))
}

/// The claim of the finding about the countdown; `None` without such a finding.
fn claimed(document: &Value) -> Option<i64> {
    let found = list(&document["findings"]).iter().find(|finding| finding["id"] == "boot-countdown")?;
    Some(ns(&found["cost_ns"]))
}

#[test]
#[ignore = "measures by the host's clock: in make test-all"]
fn the_countdown_costs_what_its_finding_claims() {
    let (Some(kernel), Some(u_boot)) = (kernel(), u_boot("qemu_arm64")) else { return };
    let scratch = Scratch::new();
    let boot = scratch.path("counts");
    recorded(record(&kernel, &boot).arg("--bios").arg(&u_boot), &boot, "reached");
    let inputs = manifest(&boot)["inputs"].clone();
    let bios = list(&inputs).iter().find(|input| input["role"] == "bios").expect("the firmware is an input");
    assert_eq!(text(&bios["sha256"]).len(), 64);
    let counts = shown(&boot);
    assert_adds_up(&counts);
    assert!(text(&phase(&counts, "loader")["evidence"]).contains("U-Boot 20"), "{}", counts["phases"]);
    let start = |name: &str| ns(&phase(&counts, name)["start_ns"]);
    assert!(start("firmware") < start("loader") && start("loader") < start("early kernel"));
    let claimed_ns = claimed(&counts).expect("a countdown is found");
    assert_eq!(claimed_ns, 2_000_000_000, "its default is 2 s");

    let env = scratch.path("env.img");
    flash(&u_boot, 0, &env);
    let drive = format!("if=pflash,unit=1,format=raw,snapshot=on,file={}", env.display());
    let boot = scratch.path("does not");
    recorded(record(&kernel, &boot).arg("--bios").arg(&u_boot).args(["--", "-drive", &drive]), &boot, "reached");
    let does_not = shown(&boot);
    assert_eq!(claimed(&does_not), None);
    // The rest of a boot varies from one to the next, the loader's part little.
    let loader =
        |document: &Value| ns(&phase(document, "loader")["end_ns"]) - ns(&phase(document, "loader")["start_ns"]);
    let saved = loader(&counts) - loader(&does_not);
    println!("claimed {claimed_ns} ns, saved {saved} ns of the loader's time");
    assert!((saved - claimed_ns).abs() < 400_000_000, "claimed {claimed_ns} ns, saved {saved} ns");
}

#[test]
#[ignore = "measures by the host's clock: in make test-all"]
fn a_u_boot_without_a_kernel_is_recorded() {
    let Some(u_boot) = u_boot("qemu_arm64") else { return };
    let scratch = Scratch::new();
    let boot = scratch.path("boot");
    let mut command = bootscope("record");
    command.args(["--arch", "aarch64", "--until", "^=> ", "--bios"]).arg(&u_boot).arg("-o").arg(&boot);
    recorded(&mut command, &boot, "reached");
    let document = shown(&boot);
    assert_adds_up(&document);
    phase(&document, "loader");
    assert_eq!(claimed(&document), Some(2_000_000_000));
}

#[test]
fn unfit_firmware_is_refused() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let refused = |args: &[&str], words: &[&str]| {
        run(record(&kernel, &scratch.path("boot")).args(args)).refuses(words);
    };
    refused(&["--bios", "/nonexistent/u-boot.bin"], &["/nonexistent/u-boot.bin"]);
    run(bootscope("record").args(["--serial", "/dev/null", "--bios", "/dev/null", "-o", "x"])).refuses(&["--bios"]);
}
