//! Timers that Linux measures or tests at each boot.

use crate::detector::{Detector, Draft};
use crate::facts::Stretch;
use crate::{Need, Remedy, Seen};
use timeline::{Ns, Os, SpanKind};

pub const DETECTOR: Detector = Detector {
    id: "timer-setup",
    title: "a timer is measured or tried out at each boot",
    rule: "Without a TSC deadline timer Linux calibrates the local APIC's timer for 100 ms against another clock. It waits ten \
           ticks to see whether the timer's interrupt arrives by the IO-APIC. A loop of delays is measured where no TSC is \
           trusted. A virtual machine monitor knows all of that.",
    source: "Linux, Documentation/admin-guide/kernel-parameters.txt: no_timer_check, nolapic_timer, lpj",
    threshold: "2 ms in one of these functions",
    price: "the function's time goes; at the worst a twentieth stays",
    needs: &[Need::BootPath, Need::System, Need::Functions],
    look,
};

const SHORTEST: Ns = Ns(2_000_000);

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os != Os::Linux {
        return Vec::new();
    }
    let local_apic = match seen.machine.cpus {
        1 if has_other_timers(seen) => Remedy::append(
            "give the CPU a TSC deadline timer (KVM: -cpu host), which needs no calibration; or let the HPET or PIT tick, with \
             nolapic_timer, which under KVM makes each later tick dearer",
            &["nolapic_timer"],
        ),
        _ => Remedy::code("give the CPUs a TSC deadline timer (KVM: -cpu host), which needs no calibration"),
    };
    let io_apic = Remedy::append(
        "a virtual machine's timer is wired as its tables say: do not wait for its ticks, with no_timer_check; a VMM that wires \
         it otherwise is then not found out",
        &["no_timer_check"],
    );
    // On a real machine this check is how Linux finds a timer that is wired differently.
    let is_check_needless = seen.is_virtual();
    let loops = match measured_lpj(seen) {
        Some(lpj) => Remedy::append(
            "tell the kernel what it measured in this boot (lpj=), while CPU and clock stay the same",
            &[&format!("lpj={lpj}")],
        ),
        None => Remedy::code("give lpj= the number that the kernel prints as lpj, or a CPU whose TSC is trusted"),
    };
    let found = [
        draft(seen, &["setup_boot_APIC_clock", "calibrate_APIC_clock"], local_apic),
        draft(seen, &["timer_irq_works"], io_apic).filter(|_| is_check_needless),
        draft(seen, &["calibrate_delay"], loops),
    ];
    found.into_iter().flatten().collect()
}

/// The number of loops per tick that the kernel measured and printed: `… 4980.73 BogoMIPS (lpj=2490368)`. If it did not measure, the line
/// has `skipped`.
fn measured_lpj(seen: &Seen) -> Option<u64> {
    let texts = seen.lines().map(|line| seen.timeline.names.get(line.name));
    let measured = texts.filter(|text| text.contains("BogoMIPS (lpj=") && !text.contains("skipped"));
    measured.filter_map(|text| text.split_once("(lpj=")?.1.strip_suffix(')')?.parse().ok()).next()
}

/// True if another timer can tick: the machine has a PIT and an HPET that the user did not remove.
fn has_other_timers(seen: &Seen) -> bool {
    let Some(vmm) = &seen.machine.vmm else { return false };
    let machine = vmm.machine_type.split(',').next().unwrap_or_default();
    let is_known = ["pc", "q35"].contains(&machine) || ["pc-i440fx-", "pc-q35-"].iter().any(|m| machine.starts_with(m));
    let given = [&vmm.machine_type].into_iter().chain(&vmm.arguments).chain(seen.machine.command_line.iter().flatten());
    is_known && !given.into_iter().any(|text| text.contains("pit=") || text.contains("hpet"))
}

fn draft(seen: &Seen, functions: &[&str], remedy: Remedy) -> Option<Draft> {
    let stretches = seen.stretches(SpanKind::Call, functions);
    let whole: Ns = stretches.iter().map(Stretch::length).sum();
    Some(Draft::of(&stretches, remedy).filter(|_| whole >= SHORTEST)?.leaving(0.05))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::Change;
    use crate::seen::testing::{Log, ms};

    #[test]
    fn a_real_machine_s_timer_is_tried_out() {
        let boot = |is_virtual: bool| {
            let mut log = Log::linux();
            log.machine.vmm = log.machine.vmm.filter(|_| is_virtual);
            log.call("timer_irq_works", ms(12));
            log.call("works", ms(400));
            log.found_by(&[DETECTOR]).findings.len()
        };
        assert_eq!([boot(true), boot(false)], [1, 0]);
    }

    #[test]
    fn the_kernels_measurement_becomes_its_parameter() {
        let boot = |line: &str| {
            let mut log = Log::linux();
            log.call("calibrate_delay", ms(30));
            log.line(line);
            log.call("works", ms(400));
            let found = log.found_by(&[DETECTOR]);
            let [only] = &found.findings[..] else { panic!("{found:?}") };
            only.remedy.changes.clone()
        };
        let appended = |word: &str| vec![Change::AppendWords(vec![word.to_owned()])];
        assert_eq!(boot("Calibrating delay loop... 4980.73 BogoMIPS (lpj=2490368)"), appended("lpj=2490368"));
        assert_eq!(boot("4980.73 BogoMIPS (lpj=2490368)"), appended("lpj=2490368"), "a line that was printed in two");
        assert_eq!(boot("Calibrating delay loop (skipped) preset value.. 10.00 BogoMIPS (lpj=5000)"), []);
        assert_eq!(boot("Calibrating delay loop... 4980.73 BogoMIPS (lpj="), [], "cut");
    }

    #[test]
    fn a_long_calibration_is_found_and_a_short_one_is_not() {
        let boot = |machine: &str, cpus: u32, length: Ns| {
            let mut log = Log::linux();
            log.machine.cpus = cpus;
            log.machine.vmm = Some(crate::Vmm { machine_type: machine.to_owned(), ..crate::Vmm::default() });
            log.within("native_smp_prepare_cpus", |log| {
                log.within("setup_boot_APIC_clock", |log| log.call("calibrate_APIC_clock", length));
            });
            log.call("timer_irq_works", Ns(length.0 / 10));
            log.call("works", ms(400));
            log.found()
        };
        let found = boot("pc", 1, ms(108));
        let about: Vec<(&str, Ns)> = found.findings.iter().map(|f| (f.about.as_str(), f.price.likely)).collect();
        assert_eq!(about, [("setup_boot_APIC_clock", ms(108)), ("timer_irq_works", Ns::from_us(10_800))]);
        assert_eq!(found.findings[0].remedy.changes, [Change::AppendWords(vec!["nolapic_timer".to_owned()])]);
        assert!(boot("q35", 4, ms(108)).findings[0].remedy.changes.is_empty(), "several CPUs need theirs");
        let alone = boot("q35,hpet=off", 1, ms(108));
        assert!(alone.findings[0].remedy.changes.is_empty(), "nothing else ticks");
        assert!(boot("pc", 1, ms(1)).findings.is_empty());
    }
}
