//! Stamps of coreboot, U-Boot, UEFI firmware and EFI loaders: for any text or table, they never step back.
#![no_main]

use evidence::{bootstage, cbmem, efi_loader, fpdt};
use libfuzzer_sys::fuzz_target;
use timeline::{Diagnostics, Ns};

fuzz_target!(|bytes: &[u8]| {
    let mut diagnostics = Diagnostics::default();
    let times = fpdt::read("f", bytes, &mut diagnostics);
    let all = [
        cbmem::read("c", bytes, &mut diagnostics),
        bootstage::read("b", bytes, &mut diagnostics),
        fpdt::steps(times, "f", &mut diagnostics),
        efi_loader::steps(efi_loader::read(bytes), "e", &mut diagnostics),
    ];
    for steps in all {
        assert!(steps.steps.windows(2).all(|pair| Ns::ZERO <= pair[0].at && pair[0].at <= pair[1].at));
    }
});
