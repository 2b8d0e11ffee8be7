//! Initcalls that few virtual machines need: each is short, but together they are long.

use crate::blacklist;
use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Figure, Stretch, Value};
use crate::statistics::quantile;
use crate::{Need, Remedy, Seen};
use hashbrown::HashSet;
use timeline::{NameId, Ns, Os, SpanKind, Track, TrackId, TrackKind};

pub const DETECTOR: Detector = Detector {
    id: "long-tail",
    title: "the longest of several initcalls that few virtual machines need",
    rule: "A table names initcalls of Linux whose work few virtual machines need, with the option that owns each. Thirty of 1 ms \
           are worth more than one of 10 ms, so they are one finding with their sum. Those that other code does not build \
           on can be left out by name; for the others the kernel has to be built without their option.",
    source: "libguestfs (Jones 2016): removing what takes over 1 ms and was probably not used took the initcalls from 697 to \
             567 ms, a minimal kernel to 288 ms; the total moved less",
    threshold: "any initcall of the table that takes 20 us or more; the sum has to be above the boot's noise",
    price: "the initcalls go, with the threads that they started and waited for; what others ran meanwhile stays. Where an \
            initcall has later calls of a function do more, these get as short as earlier ones. At the worst a twentieth of them comes back elsewhere. A \
            kernel searches the list of initcalls to leave out for each initcall, which is taken off",
    needs: &[Need::BootPath, Need::System, Need::Initcalls],
    look,
};

/// The table; its header describes its columns.
const TABLE: &str = include_str!("initcalls.tsv");
/// The value for initcalls that can be left out by name.
const DROP: &str = "drop";
/// The oldest Linux on which leaving out initcalls was tested.
const DROP_SINCE: (u32, u32) = (5, 10);
/// Shorter initcalls would only make the list long.
const SHORTEST: Ns = Ns(20_000);

/// A line of the table.
struct TableRow {
    initcall: &'static str,
    option: &'static str,
    can_drop: bool,
    purpose: &'static str,
}

fn table() -> impl Iterator<Item = TableRow> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut fields = line.split('\t');
        let (initcall, option, how, purpose) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        Some(TableRow { initcall, option, can_drop: how == DROP, purpose })
    })
}

fn look(seen: &Seen) -> Vec<Draft> {
    // The initcalls that a real machine needs are another question.
    if seen.machine.os != Os::Linux || seen.machine.vmm.is_none() {
        return Vec::new();
    }
    let names: Vec<&str> = table().map(|known| known.initcall).collect();
    let table_row = |row: Stretch| {
        let name = seen.texts((row.name, row.detail)).1;
        let known = table().find(|known| known.initcall == name)?;
        let purpose = known.purpose;
        Some((known, Stretch { purpose, ..row }))
    };
    let rows = seen.stretches(SpanKind::Initcall, &names).into_iter().filter_map(table_row);
    let rows = rows.filter(|(_, stretch)| stretch.length() >= SHORTEST);
    let can_drop = seen.is_since(DROP_SINCE, true);
    let (drop, build): (Vec<_>, Vec<_>) = rows.partition(|(known, _)| known.can_drop && can_drop);
    left_out(seen, &drop).into_iter().chain(built_without(seen, &build)).collect()
}

fn left_out(seen: &Seen, rows: &[(TableRow, Stretch)]) -> Option<Draft> {
    let names: Vec<&str> = rows.iter().map(|(known, _)| known.initcall).collect();
    let remedy = blacklist::remedy("leave these initcalls out by name, if nothing of this machine uses them", &names);
    Some(draft(seen, rows, remedy)?.leaving(blacklist::COMES_BACK)).map(|draft| with_consequences(seen, rows, draft))
}

fn built_without(seen: &Seen, rows: &[(TableRow, Stretch)]) -> Option<Draft> {
    let mut options: Vec<&str> = rows.iter().map(|(known, _)| known.option).collect();
    options.sort_unstable();
    options.dedup();
    let remedy = Remedy::without("build the kernel without the options that this machine has no use for", &options);
    Some(draft(seen, rows, remedy)?.leaving(0.05).less_sure()).map(|draft| with_consequences(seen, rows, draft))
}

fn draft(seen: &Seen, rows: &[(TableRow, Stretch)], remedy: Remedy) -> Option<Draft> {
    let stretches: Vec<Stretch> = rows.iter().map(|&(_, stretch)| stretch).collect();
    let mut draft = Draft::of(&stretches, remedy)?.counting("initcalls");
    let started = started_within(seen, &stretches).into_iter();
    let ran = started.flat_map(|stretch| seen.ran(&stretch));
    draft.parts.extend(ran.map(|stretch| Part { stretch, left: Left::NOTHING }));
    Some(draft)
}

/// The time of threads that an initcall started, during the initcall, which waits for them. A worker that does work items is left out,
/// because it may do those of others.
fn started_within(seen: &Seen, initcalls: &[Stretch]) -> Vec<Stretch> {
    let spans = &seen.timeline.spans;
    let workers: HashSet<TrackId> =
        spans.iter().filter(|(_, row)| row.kind == SpanKind::Work).map(|(_, row)| row.track).collect();
    // For each initcall, ordered by time, the one that ends last of all that have begun by then.
    let mut last: Vec<Stretch> = initcalls.to_vec();
    last.sort_by_key(|by| by.from);
    let begun: Vec<Ns> = last.iter().map(|by| by.from).collect();
    (1..last.len()).for_each(|i| last[i] = if last[i].to > last[i - 1].to { last[i] } else { last[i - 1] });
    let tracks = seen.timeline.tracks.iter();
    let born = tracks.filter(|(id, track)| track.kind == TrackKind::Thread && !workers.contains(id));
    let within = |(id, track): (TrackId, &Track)| {
        let (from, _) = track.created?;
        let by = last[..begun.partition_point(|&at| at <= from)].last();
        let by = by.filter(|by| from < by.to && by.track != id)?;
        Some(Stretch { track: id, from, to: by.to, name: track.name, detail: NameId::EMPTY, purpose: "" })
    };
    born.filter_map(within).collect()
}

/// An initcall after which functions take longer, and these functions with their names in other versions.
const SLOWER_AFTER: (&str, &[&str]) = (
    "slab_sysfs_init",
    // Each new cache then gets its files too (mm/slub.c: sysfs_slab_add).
    &["kmem_cache_create", "kmem_cache_create_usercopy", "kmem_cache_create_args", "__kmem_cache_create_args"],
);
/// The number of earlier calls that show how long one takes.
const MIN_CALLS_BEFORE: usize = 5;

/// Adds the calls that become shorter without these initcalls: calls after the initcall get as short as those before it.
fn with_consequences(seen: &Seen, rows: &[(TableRow, Stretch)], mut draft: Draft) -> Draft {
    let Some((_, made)) = rows.iter().find(|(known, _)| known.initcall == SLOWER_AFTER.0) else { return draft };
    let calls = seen.stretches(SpanKind::Call, SLOWER_AFTER.1);
    let before: Vec<i64> = calls.iter().filter(|call| call.to <= made.from).map(|call| call.length().0).collect();
    let Some(usual) = quantile(before.iter().copied(), 0.5).filter(|_| before.len() >= MIN_CALLS_BEFORE).map(Ns) else {
        return draft;
    };
    let slower = calls.into_iter().filter(|call| call.from >= made.to && call.length() > usual);
    let left = |call: &Stretch| Left::time(call.length(), usual, usual, call.length());
    let before = draft.parts.len();
    draft.parts.extend(slower.map(|stretch| Part { stretch, left: left(&stretch) }));
    let shorter = (draft.parts.len() - before) as u64;
    draft
        .figures
        .extend((shorter > 0).then_some(Figure { of: "later calls that get shorter", value: Value::Count(shorter) }));
    draft
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
        let found = boot(&["slab_sysfs_init", "i8042_init", "dmi_sysfs_init", "usb_init", "ksm_init", "init_ima"]);
        let [drop, build] = &found.findings[..] else { panic!("{found:?}") };
        let word = "initcall_blacklist=slab_sysfs_init,i8042_init,dmi_sysfs_init".to_owned();
        assert_eq!(drop.remedy.changes, [Change::AppendWords(vec![word])]);
        assert_eq!((drop.rule.id, drop.price.likely), (DETECTOR.id, ms(3) - Ns(7 * 2_300)));
        assert_eq!(drop.evidence[0].purpose, "makes /sys/kernel/slab, and nothing in the kernel looks there");
        let options = ["-KSM", "-USB"].map(str::to_owned).to_vec();
        assert_eq!((&build.remedy.changes[0], build.price.likely), (&Change::KernelConfig(options), ms(2)));
        assert!(boot(&["param_sysfs_init", "serial8250_init"]).findings.is_empty(), "are needed");
        assert!(boot(&["init_ima", "fsverity_init"]).findings.is_empty(), "protect the machine");
        // Before 5.10, another kernel may need an initcall that this one does not.
        let mut log = Log::linux();
        log.machine.kernel_version = Some((5, 4));
        log.initcall("crc_t10dif_mod_init", |log| log.call("works", ms(5)));
        log.call("works", ms(400));
        let options = vec!["-CRC_T10DIF".to_owned()];
        assert_eq!(log.found_by(&[DETECTOR]).findings[0].remedy.changes, [Change::KernelConfig(options)]);
    }

    #[test]
    fn only_the_work_of_a_thread_that_an_initcall_started_goes() {
        let mut log = Log::linux();
        log.initcall("ksm_init", |log| {
            log.awaited("ksmd", ms(2));
            log.call("works", ms(30));
        });
        log.call("works", ms(400));
        let lengths: Vec<Ns> = log.found_by(&[DETECTOR]).findings[0].evidence.iter().map(Stretch::length).collect();
        assert_eq!(lengths, [ms(32), ms(2)], "the thread sleeps from then on");
    }

    #[test]
    fn a_log_that_repeats_an_initcall_makes_no_long_word() {
        const TIMES: i64 = 50_000;
        let mut log = Log::linux();
        log.machine.command_line = Some(vec!["initcall_blacklist=x".to_owned()]);
        (0..TIMES).for_each(|_| log.initcall("i8042_init", |log| log.awaited("kworker", Ns::from_us(20))));
        log.initcall("acpi_init", |log| log.call("works", ms(400)));
        let found = log.found_by(&[DETECTOR]);
        let [only] = &found.findings[..] else { panic!("{} findings", found.findings.len()) };
        assert_eq!(only.remedy.changes, [Change::AppendWords(vec!["initcall_blacklist=i8042_init".to_owned()])]);
        assert_eq!((only.evidence_count, only.price.likely), (2 * TIMES as usize, Ns::from_us(20 * TIMES)));
    }

    #[test]
    fn threads_that_an_initcall_waits_for_go_with_it() {
        let boot = |name: &str| {
            let mut log = Log::linux();
            log.machine.command_line = Some(vec!["initcall_blacklist=x".to_owned()]);
            log.initcall(name, |log| {
                log.call("works", ms(1));
                log.awaited("cryptomgr_probe", ms(4));
            });
            log.initcall("acpi_init", |log| log.awaited("acpi", ms(400)));
            log.found_by(&[DETECTOR]).findings.into_iter().map(|f| f.price.likely).collect::<Vec<Ns>>()
        };
        assert_eq!(boot("init_encrypted"), [ms(5)]);
        assert!(boot("param_sysfs_init").is_empty());
    }

    #[test]
    fn later_calls_get_as_short_as_earlier_ones() {
        let boot = |before: usize, after: i64| {
            let mut log = Log::linux();
            log.machine.command_line = Some(vec!["initcall_blacklist=x".to_owned()]);
            (0..before).for_each(|_| log.call("kmem_cache_create", Ns(26_000)));
            log.initcall("slab_sysfs_init", |log| log.call("sysfs_slab_add", ms(6)));
            (0..20).for_each(|_| log.within("kmem_cache_create", |log| log.call("sysfs_slab_add", Ns(after))));
            log.call("works", ms(400));
            let found = log.found_by(&[DETECTOR]);
            (found.findings[0].price.low, found.findings[0].price.likely)
        };
        assert_eq!(boot(40, 82_000), (Ns(5_700_000), ms(6) + Ns(20 * 56_000)));
        assert_eq!(boot(40, 26_000).1, ms(6), "they are as short");
        assert_eq!(boot(4, 82_000).1, ms(6), "of few earlier ones nobody knows");
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
