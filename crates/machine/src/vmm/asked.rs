//! What a boot asks for that a VMM cannot do, each with what to do instead. Starts nothing.

use recording::{Accel, GuestSpec, Until};

use crate::{Error, RecordOptions};

/// Something that may be asked for: whether it is, how one asks for it, and why it cannot be had and what to do instead.
pub(super) type Asked<'a> = (bool, &'a str, &'a str);

/// The first of these that is asked for, as an error. `option` is what `--vmm` takes.
pub(super) fn refuse(option: &str, all: &[Asked<'_>]) -> Result<(), Error> {
    match all.iter().find(|(is_asked, ..)| *is_asked) {
        Some((_, what, why)) => Err(Error::option(format!("{what} with --vmm {option}: {why}"))),
        None => Ok(()),
    }
}

/// What only QEMU can do. What `arch` and `machine` are where nobody says one, is as for QEMU.
pub(super) fn check_only_qemus(options: &RecordOptions, name: &str, option: &str) -> Result<(), Error> {
    let (guest, observe) = (&options.guest, &options.observe);
    let usual = crate::arch::of(guest);
    let stops = observe.silence_ms.is_some() || observe.watch.is_some() || !guest.patches.is_empty();
    let asks_network = matches!(guest.until, Until::Tcp(_) | Until::Http(_));
    refuse(
        option,
        &[
            (
                !usual.is_hosts,
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
                guest.machine != usual.machine,
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

/// The disks in the order in which the guest finds them, the root first.
pub(super) fn disks(guest: &GuestSpec) -> impl Iterator<Item = (&std::path::Path, bool)> {
    let disks = guest.disks.iter().map(|disk| (disk.as_path(), false));
    guest.root.iter().map(|root| (root.as_path(), true)).chain(disks)
}
