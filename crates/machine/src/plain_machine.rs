//! Machines that bootscope does not know: a guest gets what its machine demands, and nothing is added to the machine.
//!
//! The machine keeps its own CPU model, console and devices. Process 1 has no channel there, unless the machine has I/O ports.

use std::path::Path;

use recording::{GuestSpec, Init};

use crate::Error;
use crate::arch::{self, Arch};
use crate::guest_channel::Wire;
use crate::refusal::{Text, text};
use crate::vmm::{self, MachineFacts, Program};
use recording::Field;

/// Parameters that name an init, or where it is.
const NAMES_INIT: [&str; 3] = ["root=", "init=", "rdinit="];
/// The property of a device tree that names the console.
const NAMES_CONSOLE: &[u8] = b"stdout-path\0";
/// Upper bound for the size of a device tree.
const MAX_TREE_BYTES: u64 = 16 << 20;

/// The properties of a guest that the user set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given {
    pub cpus: bool,
    pub memory: bool,
    pub init: bool,
}

/// Gives the guest the CPUs and the memory that its machine demands, and a process 1 that the machine has a channel for. A machine that
/// bootscope knows, or that cannot be asked about, changes nothing.
pub fn fit_machine(guest: &mut GuestSpec, given: Given) {
    if !arch::of(guest).is_plain(guest) {
        return;
    }
    // The boot itself reports a missing QEMU.
    if let Some(facts) = vmm::find(guest).ok().and_then(|program| program.machine_facts(guest)) {
        fit(guest, given, &facts);
    }
}

fn fit(guest: &mut GuestSpec, given: Given, facts: &MachineFacts) {
    if !given.cpus {
        guest.cpus = facts.cpus;
    }
    if !given.memory {
        guest.memory_bytes = facts.memory_bytes;
    }
    if given.init || !guest.has_guest_init() || has_channel(arch::of(guest), facts) {
        return;
    }
    let has_init = guest.initrd.is_some() || !guest.disks.is_empty() || guest.root.is_some();
    let names_init = guest.append.split_whitespace().any(|word| NAMES_INIT.iter().any(|name| word.starts_with(name)));
    guest.init = if has_init || names_init { Init::Keep } else { Init::Mute };
}

/// Refuses bootscope's process 1 on a machine without a channel for it.
pub(crate) fn check(guest: &GuestSpec, program: &dyn Program) -> Result<(), Error> {
    let Some(facts) = plain_facts(guest, program).filter(|_| guest.has_guest_init()) else { return Ok(()) };
    if has_channel(arch::of(guest), &facts) {
        return Ok(());
    }
    let why = text![Field::Machine.is(&guest.machine), " has no channel for the messages of bootscope's process 1"];
    Err(Error::refused(Field::Init, why, text!["leave out ", Field::Init, ", or give ", Field::Init.is("keep")]))
}

/// Remarks on a machine that bootscope does not know.
pub(crate) fn notes(guest: &GuestSpec, program: &dyn Program) -> Vec<Text> {
    let Some(facts) = plain_facts(guest, program) else { return Vec::new() };
    let arch = arch::of(guest);
    let (machine, cpus, mib) = (&guest.machine, guest.cpus, guest.memory_bytes >> 20);
    let plural = if cpus == 1 { "" } else { "s" };
    let mut plainly =
        format!("{machine} is started plainly, with {cpus} CPU{plural} and {mib} MiB: no device is added");
    if guest.init == Init::Mute {
        plainly += if arch.shows_log {
            "; process 1 has no channel there, so its start is the end mark, and the log is read in memory"
        } else {
            "; process 1 has no channel there, so its start is the end mark, and the console has the whole log"
        };
    }
    let mut notes = vec![plainly.into()];
    let lacks_tree = guest.kernel.is_some() && guest.dtb.is_none() && facts.makes_device_tree == Some(false);
    if arch.facts.qemu.takes_device_tree && lacks_tree {
        let why = format!("{machine} brings no device tree, and a kernel that needs one prints nothing: ");
        notes.push(text![why, "give the kernel's own for this machine with ", Field::Dtb]);
    }
    if !facts.takes_memory_file {
        notes.push(format!("QEMU gives {machine} no memory file, so no log or trace is read in memory").into());
    }
    notes
}

/// Facts about the machine; `None` if bootscope knows it already or cannot ask.
pub(crate) fn plain_facts(guest: &GuestSpec, program: &dyn Program) -> Option<MachineFacts> {
    if arch::of(guest).is_plain(guest) { program.machine_facts(guest) } else { None }
}

/// The parameters that make the kernel print on the machine's own console. None if the device tree names one.
pub(crate) fn consoles(guest: &GuestSpec) -> Vec<&'static str> {
    let names = |tree: &Path| {
        let tree = recording::read_regular(tree, MAX_TREE_BYTES).unwrap_or_default();
        memchr::memmem::find(&tree, NAMES_CONSOLE).is_some()
    };
    match guest.dtb.as_deref().is_some_and(names) {
        true => Vec::new(),
        false => arch::of(guest).facts.linux.board_consoles.to_vec(),
    }
}

fn has_channel(arch: &Arch, facts: &MachineFacts) -> bool {
    match (arch.channel)().wire() {
        Wire::IoPort(_) => facts.has_io_ports,
        // The places of their registers are known only for the usual machines.
        Wire::VirtioConsole(_) | Wire::SerialPort { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(machine: &str) -> GuestSpec {
        GuestSpec {
            arch: "aarch64".to_owned(),
            machine: machine.to_owned(),
            kernel: Some("/boot/Image".into()),
            ..GuestSpec::default()
        }
    }

    fn facts() -> MachineFacts {
        MachineFacts {
            cpus: 4,
            memory_bytes: 1 << 30,
            takes_memory_file: true,
            has_io_ports: false,
            makes_device_tree: Some(false),
        }
    }

    #[test]
    fn versions_of_known_machines_are_known() {
        let is_plain = |guest: &GuestSpec| arch::of(guest).is_plain(guest);
        for known in ["virt", "virt,gic-version=3", "virt-7.2,secure=on"] {
            assert!(!is_plain(&board(known)), "{known}");
        }
        for unknown in ["raspi3b", "virtual", "sbsa-ref"] {
            assert!(is_plain(&board(unknown)), "{unknown}");
        }
        let arm = GuestSpec { arch: "arm".to_owned(), ..board("sabrelite") };
        let pc = |machine: &str| GuestSpec { arch: "x86_64".to_owned(), ..board(machine) };
        assert!(!is_plain(&arm) && !is_plain(&pc("pc-q35-7.2")) && is_plain(&pc("isapc")));
    }

    #[test]
    fn a_guest_gets_what_its_machine_demands_and_keeps_what_was_given() {
        let fitted = |change: fn(&mut GuestSpec), given: Given| {
            let mut guest = board("raspi3b");
            change(&mut guest);
            fit(&mut guest, given, &facts());
            (guest.cpus, guest.memory_bytes >> 20, guest.init)
        };
        assert_eq!(fitted(|_| {}, Given::default()), (4, 1024, Init::Mute));
        let all = Given { cpus: true, memory: true, init: true };
        assert_eq!(fitted(|guest| guest.cpus = 2, all), (2, 512, Init::Guest));
        assert_eq!(fitted(|guest| guest.initrd = Some("a".into()), Given::default()).2, Init::Keep);
        assert_eq!(fitted(|guest| guest.append = "root=/dev/sda1".into(), Given::default()).2, Init::Keep);
        let with_ports = MachineFacts { has_io_ports: true, ..facts() };
        let mut pc = GuestSpec { arch: "x86_64".to_owned(), ..board("isapc") };
        fit(&mut pc, Given::default(), &with_ports);
        assert_eq!(pc.init, Init::Guest);
    }

    #[test]
    fn the_usual_consoles_are_named_only_if_the_device_tree_names_none() {
        let dir = tempfile::tempdir().unwrap();
        let with = |name: &str, tree: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, tree).unwrap();
            consoles(&GuestSpec { dtb: Some(path), ..board("raspi3b") }).len()
        };
        assert_eq!(with("names", b"\xd0\x0d\xfe\xed\0stdout-path\0"), 0);
        let usual = arch::of(&board("raspi3b")).facts.linux.board_consoles;
        assert_eq!(with("silent", b"\xd0\x0d\xfe\xed\0compatible\0"), usual.len());
        assert_eq!(consoles(&board("raspi3b")), usual);
    }
}
