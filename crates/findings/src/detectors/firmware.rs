//! Firmware that does more than start a kernel.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Stretch};
use crate::remedy::Change;
use crate::{Need, Remedy, Seen, Vmm};
use timeline::{Ns, Os, Phase, SpanKind};

pub const DETECTOR: Detector = Detector {
    id: "firmware",
    title: "the firmware searches devices that this boot does not use",
    rule: "QEMU was given the kernel, yet a whole firmware runs first: it probes disks, runs option ROMs, offers a boot menu and \
           serves a terminal. A firmware made for this (qboot) only sets up the machine and starts the kernel. Linux then \
           finds no option ROM to check, and the table of CPUs (MP) at once, which counts too.",
    source: "libguestfs (Jones 2016): SeaBIOS with features disabled takes 19 instead of 63 ms; serial-terminal BIOS 260 ms",
    threshold: "any time of a firmware that no argument of QEMU's chose, on pc or q35, where QEMU was given the kernel",
    price: "the firmware's time goes, with the kernel's search for option ROMs and tables; qboot takes 0.3 ms, at the worst a tenth stays",
    needs: &[Need::BootPath, Need::System, Need::BeforeTheKernel],
    look,
};

const FLAG: &str = "-bios";
const QBOOT: [&str; 2] = [FLAG, "qboot.rom"];
const QBOOT_TAKES: Ns = Ns(300_000);
/// Functions with which Linux searches the firmware's memory, before 6.9 and since: for option ROMs, and for a table that qboot has at its
/// start.
const SEARCHES: [&str; 3] = ["probe_roms", "default_find_smp_config", "mpparse_find_mptable"];
/// Machine types that qboot supports; those with a version begin alike (`pc-q35-7.2`).
const MACHINES: [&str; 3] = ["pc", "q35", "i440fx"];

fn look(seen: &Seen) -> Vec<Draft> {
    let can_change = seen.machine.os == Os::Linux && seen.machine.vmm.as_ref().is_some_and(can_change);
    let stretches = if can_change { seen.phase(Phase::Firmware) } else { Vec::new() };
    let Some(longest) = stretches.first().copied() else { return Vec::new() };
    let whole: Ns = stretches.iter().map(Stretch::length).sum();
    let Left { least, likely, .. } = Left::time(whole, Ns::ZERO, QBOOT_TAKES, QBOOT_TAKES);
    let left = Left::of(least, likely, likely.max(0.1));
    let parts = stretches.into_iter().map(|stretch| Part { stretch, left });
    let roms = seen.outermost(SpanKind::Call, &SEARCHES);
    let searched =
        roms.iter().map(|row| Part { stretch: seen.stretch(row), left: Left { most: 1.0, ..Left::NOTHING } });
    vec![Draft {
        about: (longest.name, longest.detail),
        figures: Vec::new(),
        parts: parts.chain(searched).collect(),
        confidence: Confidence::High,
        remedy: Remedy {
            what: "start the kernel by a firmware made for it: -bios qboot.rom, or the machine type microvm; neither boots \
                   from a disk or the network",
            changes: vec![Change::QemuArguments { from: Vec::new(), to: QBOOT.map(str::to_owned).to_vec() }],
        },
    }]
}

fn can_change(vmm: &Vmm) -> bool {
    let machine = vmm.machine_type.split(',').next().unwrap_or_default();
    let is_known = MACHINES.iter().any(|known| machine == *known || machine.starts_with(&format!("pc-{known}-")));
    let is_firmware = |text: &str| text.contains("bios") || text.contains("pflash") || text.contains("firmware=");
    let is_chosen = is_firmware(&vmm.machine_type) || vmm.arguments.iter().any(|argument| is_firmware(argument));
    vmm.has_kernel && is_known && !is_chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::testing::{Log, ms};

    #[test]
    fn a_firmware_is_found_unless_it_is_needed_or_was_chosen() {
        let boot = |machine_type: &str, arguments: &[&str], has_kernel: bool| {
            let mut log = Log::linux();
            let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
            log.machine.vmm =
                Some(Vmm { machine_type: machine_type.to_owned(), arguments, has_kernel, ..Vmm::default() });
            log.before_the_kernel(&[(Phase::Firmware, ms(60))]);
            log.within("probe_roms", |log| log.call("romchecksum", ms(2)));
            log.within("default_find_smp_config", |log| log.call("smp_scan_config", ms(1)));
            log.initcall("works", |log| log.call("works", ms(400)));
            log.found()
        };
        let found = boot("q35,sata=off", &[], true);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        let saved = ms(63) - QBOOT_TAKES;
        assert_eq!((only.rule.id, only.price.low, only.price.likely), (DETECTOR.id, ms(54), saved));
        let to = QBOOT.map(str::to_owned).to_vec();
        assert_eq!(only.remedy.changes, [Change::QemuArguments { from: Vec::new(), to }]);
        assert_eq!(boot("pc", &[], true).findings.len(), 1);
        let mut log = Log::linux();
        log.machine.vmm = Some(Vmm { machine_type: "pc".to_owned(), has_kernel: true, ..Vmm::default() });
        log.followed_before_the_kernel(Phase::Firmware, ms(60));
        log.initcall("works", |log| log.call("works", ms(400)));
        let found = log.found_by(&[DETECTOR]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.about.as_str(), only.price.likely), ("firmware", ms(60) - QBOOT_TAKES), "on two stacks");
        assert!(boot("pc", &[], false).findings.is_empty(), "it boots from a disk");
        assert!(boot("pc", &["-bios", "OVMF.fd"], true).findings.is_empty(), "somebody chose it");
        assert_eq!(boot("pc-i440fx-7.2", &[], true).findings.len(), 1);
        assert!(
            boot("pc", &["-drive", "if=pflash,file=OVMF.fd"], true).findings.is_empty(),
            "UEFI, which -bios does not undo"
        );
        assert!(boot("microvm", &[], true).findings.is_empty(), "has qboot");
    }
}
