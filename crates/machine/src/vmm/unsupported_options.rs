//! Refuses options that no VMM but QEMU supports, each with the alternative. It starts no program.

use recording::{Field, GuestSpec};

use crate::option_table::{Booter, refuse_unsupported};
use crate::refusal::text;
use crate::{Error, RecordOptions};

/// Refuses the options that a VMM other than QEMU does not support, and guests that this host's CPUs cannot run.
pub(super) fn refuse_qemu_options(options: &RecordOptions, booter: Booter) -> Result<(), Error> {
    let arch = crate::arch::of(&options.guest);
    if !arch.is_hosts {
        let why = "it runs only what this host's CPUs can";
        return Err(booter.refusal(Field::Arch.is(arch.facts.name), why, text!["use ", Field::Vmm.is("qemu")]));
    }
    refuse_unsupported(options, booter)
}

/// The disks in the guest's order, the root first. The flag is true for the root.
pub(super) fn disks(guest: &GuestSpec) -> impl Iterator<Item = (&std::path::Path, bool)> {
    let disks = guest.disks.iter().map(|disk| (disk.as_path(), false));
    guest.root.iter().map(|root| (root.as_path(), true)).chain(disks)
}
