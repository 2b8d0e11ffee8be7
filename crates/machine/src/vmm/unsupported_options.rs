//! Refuses options that a VMM does not support, each with the alternative. It starts no program.

use recording::{Accel, GuestSpec, Until};

use crate::{Error, RecordOptions};

/// An unsupported option: true if the user set it, its spelling, and why it is refused with what to do instead.
pub(super) type Unsupported<'a> = (bool, &'a str, &'a str);

/// Fails with the first of these options that the user set. `option` is the VMM's value for `--vmm`.
pub(super) fn refuse(option: &str, all: &[Unsupported<'_>]) -> Result<(), Error> {
    match all.iter().find(|(is_set, ..)| *is_set) {
        Some((_, what, why)) => Err(Error::option(format!("{what} with --vmm {option}: {why}"))),
        None => Ok(()),
    }
}

/// Refuses the options that only QEMU supports. `arch` and `machine` default as for QEMU.
pub(super) fn refuse_qemu_options(options: &RecordOptions, name: &str, option: &str) -> Result<(), Error> {
    let (guest, observe) = (&options.guest, &options.observe);
    let default_arch = crate::arch::of(guest);
    let stops = observe.silence_ms.is_some() || observe.watch.is_some() || !guest.patches.is_empty();
    let asks_network = matches!(guest.until, Until::Tcp(_) | Until::Http(_));
    refuse(
        option,
        &[
            (
                !default_arch.is_hosts,
                &format!("--arch {}", guest.arch),
                &format!("{name} runs only what this host's CPUs can; use --vmm qemu"),
            ),
            (
                guest.accel == Accel::Tcg,
                "--accel tcg",
                &format!("{name} runs guests by KVM alone; leave it out, or use --vmm qemu"),
            ),
            (guest.deterministic, "--deterministic", "only QEMU counts instructions; use --vmm qemu"),
            (
                guest.machine != default_arch.machine,
                &format!("--machine {}", guest.machine),
                &format!("{name} has one machine; leave it out"),
            ),
            (
                !guest.extra.is_empty(),
                "arguments behind --",
                "they are QEMU's; leave them out (--lab has some too: use --vmm qemu)",
            ),
            (observe.calls, "--trace calls", "only QEMU's plugin follows calls; use --vmm qemu"),
            (stops, "--silence, --watch or --patch", "they stop vCPUs by QEMU's gdbstub; use --vmm qemu"),
            (guest.dax, "--dax", "only QEMU's machine gets such memory; use --vmm qemu"),
            (asks_network, "--until a port or page", "bootscope gives it no network; use a line of the console"),
        ],
    )
}

/// The disks in the guest's order, the root first. The flag is true for the root.
pub(super) fn disks(guest: &GuestSpec) -> impl Iterator<Item = (&std::path::Path, bool)> {
    let disks = guest.disks.iter().map(|disk| (disk.as_path(), false));
    guest.root.iter().map(|root| (root.as_path(), true)).chain(disks)
}
