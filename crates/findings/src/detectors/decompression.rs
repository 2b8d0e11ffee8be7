//! A kernel image that unpacks itself.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::Confidence;
use crate::remedy::Change;
use crate::{Need, Remedy, Seen};
use timeline::{Os, Phase};

pub const DETECTOR: Detector = Detector {
    id: "decompression",
    title: "the kernel unpacks itself",
    rule: "A compressed image begins with code that unpacks the kernel, chooses where it goes and moves it there. A virtual \
           machine monitor can load the unpacked ELF image itself and enter it by PVH.",
    source: "libguestfs (Jones 2016): entering the kernel takes 80 ms, very unclear exactly what it is doing",
    threshold: "any time between the decompressor's entry and the kernel's",
    price: "all of it goes; at the worst a tenth stays, as the machine monitor then loads more bytes",
    needs: &[Need::BootPath, Need::System, Need::BeforeTheKernel],
    look,
};

fn look(seen: &Seen) -> Vec<Draft> {
    let unpacks = if seen.machine.os == Os::Linux { seen.phase(Phase::Decompressor) } else { Vec::new() };
    let vmm = seen.machine.vmm.as_ref();
    let remedy = match vmm.filter(|vmm| !vmm.starts_unpacked) {
        Some(_) => Remedy::code(
            "build the kernel with CONFIG_KERNEL_LZ4, which unpacks fastest, or give the loader an image that is not compressed",
        ),
        None => Remedy {
            what: "boot the unpacked image (vmlinux) by PVH, which leaves the kernel at its address as linked (no KASLR); where a \
                   loader needs a bzImage, LZ4 unpacks fastest, then ZSTD",
            changes: vmm.filter(|vmm| vmm.has_kernel).map(|_| Change::UnpackedKernel).into_iter().collect(),
        },
    };
    let Some(longest) = unpacks.first().copied() else { return Vec::new() };
    let left = Left { most: 0.1, ..Left::NOTHING };
    vec![Draft {
        about: (longest.name, longest.detail),
        figures: Vec::new(),
        parts: unpacks.into_iter().map(|stretch| Part { stretch, left }).collect(),
        confidence: Confidence::High,
        remedy,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Vmm;
    use crate::seen::testing::{Log, ms};

    #[test]
    fn a_decompressor_is_found_and_a_kernel_without_one_is_not() {
        let boot_on = |phase: Phase, starts_unpacked: bool| {
            let mut log = Log::linux();
            log.machine.vmm = Some(Vmm { has_kernel: true, starts_unpacked, ..Vmm::default() });
            log.before_the_kernel(&[(phase, ms(100))]);
            log.initcall("works", |log| log.call("works", ms(400)));
            log.found()
        };
        let boot = |phase: Phase| boot_on(phase, true);
        let found = boot(Phase::Decompressor);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.rule.id, only.price.low, only.price.likely), (DETECTOR.id, ms(90), ms(100)));
        assert_eq!(only.remedy.changes, [Change::UnpackedKernel]);
        assert!(boot(Phase::Loader).findings.is_empty());
        let found = boot_on(Phase::Decompressor, false);
        assert!(found.findings[0].remedy.changes.is_empty(), "no such image can be started there: {found:?}");
        let mut log = Log::linux();
        log.followed_before_the_kernel(Phase::Decompressor, ms(100));
        log.initcall("works", |log| log.call("works", ms(400)));
        let found = log.found_by(&[DETECTOR]);
        assert_eq!(found.findings[0].price.likely, ms(100), "on two stacks: {found:?}");
    }
}
