//! Slots for PCI devices that QEMU could plug in while the guest runs. Linux sets them up at each boot.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::remedy::Change;
use crate::{Need, Remedy, Seen};
use timeline::{Ns, Os, SpanKind};

pub const DETECTOR: Detector = Detector {
    id: "acpi-slots",
    title: "the kernel sets up slots into which nobody plugs a device",
    rule: "QEMU's machine type pc describes each free slot of its root bus as an ACPI device with methods, so that a PCI device can \
           be plugged in while the guest runs. Linux reads these descriptions, makes a device of each and registers it: one line \
           `acpiphp: Slot [3] registered` for each slot. That is about half of the initcall acpi_init.",
    source: "QEMU, docs/specs/acpi_pci_hotplug.rst; Linux, drivers/pci/hotplug/acpiphp_glue.c",
    threshold: "any such line of a guest with the machine type pc, whose arguments do not say how slots are made",
    price: "of acpi_init the slots' part goes: the slots by the slots and about 25 other devices that QEMU describes. At the \
            best these count as 18, at the worst as 40",
    needs: &[Need::BootPath, Need::System, Need::Printing, Need::Initcalls],
    look,
};

const SLOT: (&str, &str) = ("acpiphp: Slot [", "] registered");
/// The kernel's line about a guest's machine, if no recording has QEMU's arguments.
const MACHINE: (&str, &str) = ("DMI: QEMU ", "(i440FX");
/// The initcall in which Linux makes devices from ACPI's tables.
const MAKES_DEVICES: &str = "acpi_init";
/// Remaining work without slots, in units of one slot. It was 29, 25 and 27 for Debian's 5.10, 6.1 and 6.12 cloud kernels on QEMU 7.2.
const OTHERS: [f64; 3] = [18.0, 25.0, 40.0];
const OFF: [&str; 2] = ["-global", "PIIX4_PM.acpi-root-pci-hotplug=off"];

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os != Os::Linux || !has_slots(seen) {
        return Vec::new();
    }
    let is_slot = |text: &&str| text.strip_prefix(SLOT.0).and_then(|rest| rest.strip_suffix(SLOT.1)).is_some();
    let slots = texts(seen).filter(is_slot).count();
    let made = seen.stretches(SpanKind::Initcall, &[MAKES_DEVICES]);
    if slots == 0 {
        return Vec::new();
    }
    let [least, likely, most] = OTHERS.map(|others| others / (others + slots as f64));
    let left = Left::of(least, likely, most);
    let remedy = Remedy {
        what: "unless devices are plugged into the running guest's root bus, let QEMU describe no slots for them: -global \
               PIIX4_PM.acpi-root-pci-hotplug=off, or the machine type microvm",
        changes: vec![Change::QemuArguments { from: Vec::new(), to: OFF.map(str::to_owned).to_vec() }],
    };
    let draft = Draft::of(&made, remedy).map(|draft| Draft {
        figures: vec![
            Figure { of: "slots", value: Value::Count(slots as u64) },
            Figure { of: "takes", value: Value::Time(made.iter().map(Stretch::length).sum::<Ns>()) },
        ],
        parts: made.iter().map(|&stretch| Part { stretch, left }).collect(),
        confidence: Confidence::High,
        ..draft
    });
    draft.into_iter().collect()
}

/// True if an argument can remove this machine's slots, and the user did not choose them.
fn has_slots(seen: &Seen) -> bool {
    let Some(vmm) = &seen.machine.vmm else {
        return texts(seen).any(|text| text.starts_with(MACHINE.0) && text.contains(MACHINE.1));
    };
    let machine = vmm.machine_type.split(',').next().unwrap_or_default();
    let is_chosen = vmm.arguments.iter().any(|argument| argument.contains("pci-hotplug"));
    (machine == "pc" || machine.starts_with("pc-i440fx-")) && !is_chosen
}

fn texts<'a>(seen: &'a Seen<'_>) -> impl Iterator<Item = &'a str> {
    seen.lines().map(|line| seen.timeline.names.get(line.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Found;
    use crate::seen::testing::{Log, ms};

    fn boot(machine: Option<(&str, &[&str])>, slots: u32, lines: &[&str]) -> Found {
        let mut log = Log::linux();
        log.machine.vmm = machine.map(|(machine_type, arguments)| crate::Vmm {
            machine_type: machine_type.to_owned(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            has_kernel: true,
            ..crate::Vmm::default()
        });
        lines.iter().for_each(|line| log.line(line));
        log.initcall("acpi_init", |log| {
            log.call("acpi_load_tables", ms(4));
            (0..slots).for_each(|slot| log.line(&format!("acpiphp: Slot [{slot}] registered")));
            log.call("acpi_scan_init", ms(18));
        });
        log.call("works", ms(400));
        log.found_by(&[DETECTOR])
    }

    #[test]
    fn slots_are_found_by_their_lines() {
        let found = boot(Some(("pc", &[])), 30, &[]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.about.as_str(), only.price.likely), ("SYSINIT acpi_init", ms(12)), "30 of 55");
        assert!(only.price.low < ms(10) && only.price.high > ms(13), "{:?}", only.price);
        assert_eq!(only.figures[0].value, Value::Count(30));
        let to = OFF.map(str::to_owned).to_vec();
        assert_eq!(only.remedy.changes, [Change::QemuArguments { from: Vec::new(), to }]);
        assert!(boot(Some(("pc-i440fx-7.2,usb=off", &[])), 5, &[]).findings[0].price.likely < ms(4), "5 of 30");
    }

    #[test]
    fn machines_without_such_slots_are_not_accused() {
        let none = |machine: &str, arguments: &[&str], slots: u32| {
            assert!(boot(Some((machine, arguments)), slots, &[]).findings.is_empty(), "{machine} {arguments:?}");
        };
        none("pc", &[], 0);
        none("q35", &[], 30);
        none("microvm", &[], 30);
        none("pc", &["-global", "PIIX4_PM.acpi-root-pci-hotplug=on"], 30);
        none("pc", &["-global", "PIIX4_PM.acpi-pci-hotplug-with-bridge-support=off"], 30);
    }

    #[test]
    fn a_log_alone_says_on_what_machine_it_ran() {
        let boot = |line: &str| boot(None, 30, &[line]).findings.len();
        assert_eq!(boot("DMI: QEMU Standard PC (i440FX + PIIX, 1996), BIOS 1.16.2-debian-1.16.2-1 04/01/2014"), 1);
        assert_eq!(boot("DMI: QEMU Standard PC (Q35 + ICH9, 2009), BIOS 1.16.2-debian-1.16.2-1 04/01/2014"), 0);
        assert_eq!(boot("Linux version 6.1.0"), 0);
    }
}
