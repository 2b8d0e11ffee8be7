//! An initrd that takes long to unpack.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::remedy::Change;
use crate::{Need, Remedy, Seen};
use analysis::{StretchKind, boot_path};
use timeline::{Mark, NameId, Ns, Os, SpanKind};

pub const DETECTOR: Detector = Detector {
    id: "initrd",
    title: "the initrd takes long to unpack",
    rule: "Linux unpacks its initrd into files before it can run a program of it. How long that takes grows with its size, and \
           with how it is compressed. A function or a work item shows it, else two lines of the log: the one that says that it \
           is being unpacked, and the one that says how much memory it gives back. Newer kernels unpack it beside other work: \
           lines or initcalls between those two belong to that, and then the lines tell nothing. An initrd of 2 MiB or less is none: \
           bootscope brings one of its own.",
    source: "libguestfs (Jones 2016): fewer modules and a smaller C library make the initramfs smaller (2.6 MB become 1.8 MB, \
             and 126 KB), uncompressed modules in it boot faster",
    threshold: "more than 2 MiB, and 5 ms or more on the boot path",
    price: "one that is compressed: nine tenths go if it is not, as decompressing takes that (gzip 91 %, zstd 88 %, XZ 98 % on \
            6.1), with LZ4 or LZO two thirds (68 %); at the best all of it, at the worst half of that. Of one that is not, \
            or where nobody knows: half of it, as with half of the files; at the best all, at the worst nothing",
    needs: &[Need::BootPath, Need::System, Need::Printing],
    look,
};

const SHORTEST: Ns = Ns(5_000_000);
/// bootscope's own initrd has 1 MiB.
const SMALLEST_KIB: u64 = 2_048;
/// The share that an initrd with half of the files leaves.
const LEFT: Left = Left::of(0.0, 0.5, 1.0);
/// The share that an uncompressed initrd leaves of a compressed one: QEMU's instructions on Debian's 6.1, with 12 MB of programs.
const LEFT_UNPACKED: Left = Left::of(0.0, 0.1, 0.55);
/// The same share for a compressor that is made to unpack fast.
const LEFT_UNPACKED_FAST: Left = Left::of(0.0, 0.33, 0.67);
const FAST: [&str; 2] = ["LZ4", "LZO"];
/// The lines of older and newer kernels at the start of unpacking.
const BEGINS: [&str; 2] = ["Trying to unpack rootfs image as initramfs...", "Unpacking initramfs..."];
const FREED: (&str, &str) = ("Freeing initrd memory: ", "K");

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os != Os::Linux {
        return Vec::new();
    }
    unpacked(seen).into_iter().collect()
}

fn unpacked(seen: &Seen) -> Option<Draft> {
    let lines: Vec<Mark> = seen.lines().collect();
    let text = |line: &Mark| seen.timeline.names.get(line.name);
    let freed = lines.iter().rposition(|line| text(line).starts_with(FREED.0))?;
    // `Freeing initrd memory: 1048K`; older kernels: `1048K (ffff880037a4f000 - …)`.
    let kib: u64 = text(&lines[freed]).strip_prefix(FREED.0)?.split(FREED.1).next()?.parse().ok()?;
    let begins = lines[..freed].iter().rposition(|line| BEGINS.contains(&text(line)))?;
    let stretches = match seen.stretches(SpanKind::Call, &["unpack_to_rootfs"]) {
        none if none.is_empty() => match seen.stretches(SpanKind::Work, &["do_populate_rootfs"]) {
            none if none.is_empty() && freed == begins + 1 => on_the_path(seen, lines[begins], lines[freed].at),
            work => work,
        },
        calls => calls,
    };
    let whole: Ns = stretches.iter().map(Stretch::length).sum();
    let longest = stretches.iter().max_by_key(|stretch| stretch.length())?;
    let compression = seen.machine.vmm.as_ref().and_then(|vmm| vmm.initrd_compression.as_deref());
    let (left, changes) = match compression {
        None | Some("not compressed") => (LEFT, Vec::new()),
        Some(fast) if FAST.contains(&fast) => (LEFT_UNPACKED_FAST, vec![Change::UnpackedInitrd]),
        Some(_) => (LEFT_UNPACKED, vec![Change::UnpackedInitrd]),
    };
    (kib > SMALLEST_KIB && whole >= SHORTEST).then(|| Draft {
        about: (longest.name, longest.detail),
        figures: vec![
            Figure { of: "KiB", value: Value::Count(kib) },
            Figure { of: "takes", value: Value::Time(whole) },
        ],
        parts: stretches.iter().map(|&stretch| Part { stretch, left }).collect(),
        confidence: Confidence::Medium,
        remedy: Remedy {
            what: "do not compress the initrd where it is loaded fast, as by QEMU or from flash; make it smaller, without modules \
                   that this machine does not load; or boot without one, where the drivers of the root are built in",
            changes,
        },
    })
}

/// The stretches that ran on the boot path between two lines. Empty if an initcall began there: then it is unknown which thread unpacked.
fn on_the_path(seen: &Seen, begins: Mark, to: Ns) -> Vec<Stretch> {
    let Mark { at: from, name, .. } = begins;
    if seen.spans().any(|(_, row)| row.kind == SpanKind::Initcall && from <= row.start && row.start < to) {
        return Vec::new();
    }
    let path = boot_path(seen.timeline);
    let during = path.stretches.iter().filter(|stretch| stretch.kind == StretchKind::Running);
    let cut = during.map(|stretch| Stretch {
        track: stretch.owner().track,
        from: stretch.from.max(from),
        to: stretch.to.min(to),
        name,
        detail: NameId::EMPTY,
        purpose: "",
    });
    cut.filter(|stretch| stretch.from < stretch.to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Vmm;
    use crate::seen::testing::{Log, ms};

    fn boot(freed: &str, unpack: impl FnOnce(&mut Log)) -> Vec<(String, Ns, Ns, Ns)> {
        let mut log = Log::linux();
        log.call("works", ms(500));
        log.line(BEGINS[0]);
        unpack(&mut log);
        log.line(freed);
        log.call("works", ms(500));
        let found = log.found_by(&[DETECTOR]);
        found.findings.into_iter().map(|f| (f.about, f.price.low, f.price.likely, f.price.high)).collect()
    }

    #[test]
    fn what_packs_it_says_what_goes_if_it_is_not_packed() {
        let price = |compression: Option<&str>| {
            let mut log = Log::linux();
            let initrd_compression = compression.map(str::to_owned);
            log.machine.vmm = Some(Vmm { has_kernel: true, initrd_compression, ..Vmm::default() });
            log.line(BEGINS[0]);
            log.call("works", ms(100));
            log.line("Freeing initrd memory: 20480K");
            log.call("works", ms(500));
            let found = log.found_by(&[DETECTOR]);
            let [only] = &found.findings[..] else { panic!("{found:?}") };
            (only.remedy.changes.clone(), only.price.low, only.price.likely, only.price.high)
        };
        assert_eq!(price(None), (vec![], ms(0), ms(50), ms(100)));
        assert_eq!(price(Some("not compressed")), price(None));
        assert_eq!(price(Some("gzip")), (vec![Change::UnpackedInitrd], ms(45), ms(90), ms(100)));
        assert_eq!(price(Some("LZ4")), (vec![Change::UnpackedInitrd], ms(33), ms(67), ms(100)));
    }

    #[test]
    fn a_large_initrd_is_found_and_bootscope_s_own_is_not() {
        let takes = |length: i64| move |log: &mut Log| log.call("works", ms(length));
        let by_lines = [(BEGINS[0].to_owned(), ms(0), ms(30), ms(60))];
        assert_eq!(boot("Freeing initrd memory: 20480K", takes(60)), by_lines);
        assert_eq!(boot("Freeing initrd memory: 20480K (ffff880037a4f000 - ffff880037ff0000)", takes(60)), by_lines);
        let by_function = boot("Freeing initrd memory: 20480K", |log| {
            log.call("works", ms(10));
            log.within("do_populate_rootfs", |log| log.call("unpack_to_rootfs", ms(50)));
        });
        assert_eq!(by_function, [("unpack_to_rootfs".to_owned(), ms(0), ms(25), ms(50))]);
        let beside = boot("Freeing initrd memory: 20480K", |log| {
            log.call("works", ms(30));
            log.line("pci 0000:00:00.0: [8086:1237] type 00 class 0x060000");
            log.call("works", ms(30));
        });
        assert!(beside.is_empty(), "process 1 does other work while a worker unpacks: {beside:?}");
        let initcall = |log: &mut Log| log.step(SpanKind::Initcall, "acpi_init", "", |log| log.call("works", ms(60)));
        assert!(boot("Freeing initrd memory: 20480K", initcall).is_empty(), "an initcall ran");
        assert!(boot("Freeing initrd memory: 1048K", takes(60)).is_empty(), "bootscope's own");
        assert!(boot("Freeing initrd memory: 20480K", takes(4)).is_empty(), "short");
        assert!(boot("Freeing unused kernel memory: 20480K", takes(60)).is_empty(), "the kernel's own beginning");
        assert!(boot("Freeing initrd memory: K", takes(60)).is_empty(), "of what size, nobody knows");
    }
}
