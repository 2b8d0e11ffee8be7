//! A boot with Debian's EDK2: it has the phases of UEFI, and its time is that of its modules, by name.

use crate::boots::u_boot::kernel;
use crate::support::boots::{Scratch, record, recorded};
use crate::support::{assert_adds_up, list, ns, shown, skip, text};
use std::path::Path;

#[test]
fn edk2_is_charged_by_module() {
    let edk2 = Path::new("/usr/share/qemu-efi-aarch64/QEMU_EFI.fd");
    if !edk2.is_file() {
        skip(&format!("there is no {}: scripts/setup test installs Debian's qemu-efi-aarch64", edk2.display()));
        return;
    }
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let boot = scratch.path("boot");
    let mut command = record(&kernel, &boot);
    // Its longest module fills 64 MiB, which is one place in the code for long on a busy host.
    command.args(["--deterministic", "--trace", "calls", "--hang-after", "60s", "--bios"]).arg(edk2);
    recorded(&mut command, &boot, "reached");
    let document = shown(&boot);
    assert_adds_up(&document);
    let phases: Vec<&str> = list(&document["phases"]).iter().map(|phase| text(&phase["name"])).collect();
    let uefi = ["firmware: SEC", "firmware: PEI", "firmware: DXE", "firmware: BDS", "EFI stub", "early kernel"];
    assert_eq!(&phases[..6], uefi);
    // The stub calls modules, too.
    let kernel_ns = ns(&list(&document["phases"])[5]["start_ns"]);
    let named = |row: &&serde_json::Value| text(&row["name"]).ends_with("Dxe") || text(&row["name"]).ends_with("Pei");
    let cores = ["PeiCore", "DxeCore", "DxeIpl"];
    let rows = list(&document["where"]).iter().filter(|row| named(row) || cores.contains(&text(&row["name"])));
    let named_ns: i64 = rows.map(|row| ns(&row["self_ns"])).sum();
    println!("{named_ns} of {kernel_ns} ns before the kernel are in named modules");
    assert!(
        named_ns <= kernel_ns && named_ns * 10 >= kernel_ns * 9,
        "{named_ns} of {kernel_ns}: {}",
        document["where"]
    );
}
