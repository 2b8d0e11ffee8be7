//! Initcalls that few virtual machines need: each is short, all of them are not.

use crate::blacklist;
use crate::detector::{Detector, Draft};
use crate::facts::Stretch;
use crate::{Need, Remedy, Seen};
use timeline::{Ns, Os, SpanKind};

/// The detector.
pub const DETECTOR: Detector = Detector {
    id: "long-tail",
    title: "the longest of several initcalls that few virtual machines need",
    rule: "A table names initcalls of Linux whose work few virtual machines need, with the option that owns each. Thirty of 1 ms \
           are worth more than one of 10 ms, so they are one finding with their sum. Those that other code does not build \
           on can be left out by name; for the others the kernel has to be built without their option.",
    source: "libguestfs (Jones 2016): removing what takes over 1 ms and was probably not used took the initcalls from 697 to \
             567 ms, a minimal kernel to 288 ms; the total moved less",
    threshold: "any initcall of the table that takes 20 us or more; the sum has to be above the boot's noise",
    price: "the initcalls go, and what others ran meanwhile stays; at the worst a twentieth of them comes back elsewhere. A \
            kernel searches the list of initcalls to leave out for each initcall, which is taken off",
    needs: &[Need::BootPath, Need::System, Need::Initcalls],
    look,
};

/// The table; its head says what a line holds.
const TABLE: &str = include_str!("initcalls.tsv");
/// The column of initcalls that can be left out by name.
const DROP: &str = "drop";
/// Shorter ones make the list long and nothing else.
const SHORTEST: Ns = Ns(20_000);

/// A line of the table.
struct Known {
    initcall: &'static str,
    option: &'static str,
    can_drop: bool,
    purpose: &'static str,
}

fn table() -> impl Iterator<Item = Known> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut fields = line.split('\t');
        let (initcall, option, how, purpose) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        Some(Known { initcall, option, can_drop: how == DROP, purpose })
    })
}

fn look(seen: &Seen) -> Vec<Draft> {
    // What a real machine needs is another question.
    if seen.machine.os != Os::Linux || seen.machine.vmm.is_none() {
        return Vec::new();
    }
    let names: Vec<&str> = table().map(|known| known.initcall).collect();
    let of = |row: Stretch| {
        let name = seen.texts((row.name, row.detail)).1;
        let known = table().find(|known| known.initcall == name)?;
        let purpose = known.purpose;
        Some((known, Stretch { purpose, ..row }))
    };
    let rows = seen.stretches(SpanKind::Initcall, &names).into_iter().filter_map(of);
    let rows = rows.filter(|(_, stretch)| stretch.length() >= SHORTEST);
    let (drop, build): (Vec<_>, Vec<_>) = rows.partition(|(known, _)| known.can_drop);
    left_out(&drop).into_iter().chain(built_without(&build)).collect()
}

fn left_out(rows: &[(Known, Stretch)]) -> Option<Draft> {
    let names: Vec<&str> = rows.iter().map(|(known, _)| known.initcall).collect();
    let remedy = blacklist::remedy("leave these initcalls out by name, if nothing of this machine uses them", &names);
    Some(draft(rows, remedy)?.leaving(blacklist::COMES_BACK))
}

fn built_without(rows: &[(Known, Stretch)]) -> Option<Draft> {
    let mut options: Vec<&str> = rows.iter().map(|(known, _)| known.option).collect();
    options.sort_unstable();
    options.dedup();
    let remedy = Remedy::without("build the kernel without the options that this machine has no use for", &options);
    Some(draft(rows, remedy)?.leaving(0.05).less_sure())
}

fn draft(rows: &[(Known, Stretch)], remedy: Remedy) -> Option<Draft> {
    let stretches: Vec<Stretch> = rows.iter().map(|&(_, stretch)| stretch).collect();
    Some(Draft::of(&stretches, remedy)?.counting("initcalls"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::Change;
    use crate::seen::testing::{Log, ms};
    use std::collections::BTreeSet;

    #[test]
    fn the_table_is_in_form() {
        let mut names = BTreeSet::new();
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let [initcall, option, how, why] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            assert!(names.insert(initcall), "twice: {initcall}");
            assert!(option.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'), "{line}");
            assert!([DROP, "build"].contains(&how) && !why.is_empty(), "{line}");
        }
        assert_eq!(table().count(), names.len());
    }

    #[test]
    fn short_ones_count_by_their_sum() {
        let boot = |names: &[&str]| {
            let mut log = Log::linux();
            names.iter().for_each(|name| log.initcall(name, |log| log.call("works", ms(1))));
            log.initcall("acpi_init", |log| log.call("works", ms(400)));
            log.found()
        };
        let found = boot(&["slab_sysfs_init", "i8042_init", "dmi_sysfs_init", "usb_init", "init_ima"]);
        let [drop, build] = &found.findings[..] else { panic!("{found:?}") };
        let word = "initcall_blacklist=slab_sysfs_init,i8042_init,dmi_sysfs_init".to_owned();
        assert_eq!(drop.remedy.changes, [Change::AppendWords(vec![word])]);
        assert_eq!((drop.rule.id, drop.price.likely), (DETECTOR.id, ms(3) - Ns(6 * 2_300)));
        assert_eq!(drop.evidence[0].purpose, "makes /sys/kernel/slab, and nothing in the kernel looks there");
        let options = ["-IMA", "-USB"].map(str::to_owned).to_vec();
        assert_eq!((&build.remedy.changes[0], build.price.likely), (&Change::KernelConfig(options), ms(2)));
        assert!(boot(&["param_sysfs_init", "serial8250_init"]).findings.is_empty(), "are needed");
    }

    #[test]
    fn a_list_that_the_boot_had_is_not_paid_twice() {
        let mut log = Log::linux();
        log.machine.command_line = Some(vec!["initcall_blacklist=i8042_init".to_owned()]);
        log.initcall("slab_sysfs_init", |log| log.call("works", ms(3)));
        log.initcall("acpi_init", |log| log.call("works", ms(400)));
        assert_eq!(log.found().findings[0].price.likely, ms(3));
    }
}
