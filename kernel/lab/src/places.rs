//! Every place of the boot that a command line can name, so that a misspelled place is reported before the boot.
//!
//! The kernel itself does not need the list: a place is wherever it calls `script::at`. A test checks that both agree, with
//! the log of a boot that passes all places (`tests/integration/boots.rs`).

use crate::switches::{Bind, Chain, Kind, Nic, Pci, Ps2, RootOn, SchedCost, Switches, Usb, VmPage};

/// The names of each kind of place. A device has its driver's name, which is that of its probe, with a number behind it.
const NAMES: &[(Kind, &[&str])] = &[
    (Kind::Stage, &["pit", "descriptors", "trap", "memory", "paging", "vmem", "heap", "syscall", "thread", "keyboard"]),
    (
        Kind::Sysinit,
        &[
            "announce",
            "vm_mem",
            "cpu",
            "cpu_mp",
            "clocks",
            "kthreadd",
            "spawn_ksoftirqd",
            "init_workqueues",
            "cpu_stop_init",
            "rcu_spawn_kthreads",
            "hrtimers",
            "late_kthread",
            "vmem_init",
            "vm_rest",
            "start_aps_early",
            "g_init",
            "configure",
            "intr_config_hooks",
            "g_waitidle",
            "chain",
            "sched_cost",
            "start_aps",
            "vmem_update",
            "check",
            "create_init",
        ],
    ),
    (
        Kind::Probe,
        &[
            "nexus", "isa", "uart", "atkbdc", "atkbd", "psm", "pcib", "pci_pci", "vgapci", "hpt27xx", "hptnr", "hptrr",
            "nvme", "em", "cam", "chatty", "usbus", "ata", "ena",
        ],
    ),
    (Kind::Mount, &["devfs", "initrd", "ramfs", "ufs", "zfs"]),
    (
        Kind::Thread,
        &[
            "kthreadd",
            "ksoftirqd/0",
            "kworker/0:0",
            "migration/0",
            "rcu_kthread",
            "late/0",
            "latency",
            "vmem_update",
            "vm_rest",
            "g_event",
            "xpt_thrd",
            "pci_probe",
            "usbus0",
            "nvme0",
            "ena0",
            "atach0",
            "atach1",
            "chain1",
            "chain2",
            "chain3",
            "init",
        ],
    ),
    (Kind::Answer, &["port1", "port2", "port3", "port4", "ada0", "ada1", "ena0"]),
];

/// The kinds, in the order in which a boot reaches them.
pub const KINDS: [Kind; 7] =
    [Kind::Stage, Kind::Sysinit, Kind::Probe, Kind::Attach, Kind::Answer, Kind::Mount, Kind::Thread];

/// The names of a kind of place. For devices, the names of their drivers.
pub fn names(kind: Kind) -> &'static [&'static str] {
    let listed = if kind == Kind::Attach { Kind::Probe } else { kind };
    NAMES.iter().find(|(kind, _)| *kind == listed).map_or(&[], |(_, names)| names)
}

/// True if a boot can reach the place, which is a kind, a name, or `kind.name`.
pub fn is_place(written: &str) -> bool {
    KINDS.iter().any(|kind| written == kind.as_str()) || named(written).next().is_some()
}

/// The places that a name, or `kind.name`, stands for.
fn named(written: &str) -> impl Iterator<Item = (Kind, &str)> {
    KINDS.into_iter().filter_map(move |kind| {
        let with_kind = written.strip_prefix(kind.as_str()).and_then(|rest| rest.strip_prefix('.'));
        let name = with_kind.unwrap_or(written);
        is_name(kind, name).then_some((kind, name))
    })
}

/// The word that the command line also needs, because without it the boot does not reach this place. A delay at such a place
/// would silently have no effect.
pub fn left_out(written: &str, switches: &Switches) -> Option<&'static str> {
    let mut words = named(written).map(|(kind, name)| wanted(kind, name, switches));
    let first = words.next()??;
    words.all(|word| word.is_some()).then_some(first)
}

/// The word that makes a boot reach the place, if the switches lack it.
fn wanted(kind: Kind, name: &str, switches: &Switches) -> Option<&'static str> {
    let (is_there, word) = match (kind, name) {
        (Kind::Attach | Kind::Thread, "usbus0") => (switches.usb == Usb::Yes, "usb=yes"),
        (Kind::Attach, "atkbd0" | "psm0") => (switches.ps2 == Ps2::Probe, "ps2=probe"),
        (Kind::Answer, "port1" | "port2" | "port3" | "port4") => (switches.usb == Usb::Yes, "usb=yes"),
        (Kind::Attach, "ata0") | (Kind::Thread, "atach0" | "atach1") | (Kind::Answer, "ada0" | "ada1") => {
            (switches.root_on != RootOn::Memory, "root_on=ufs")
        }
        (Kind::Attach | Kind::Thread | Kind::Answer, "ena0") => (switches.nic == Nic::Yes, "nic=yes"),
        (Kind::Mount, "ufs") => (switches.root_on == RootOn::Ufs, "root_on=ufs"),
        (Kind::Mount, "zfs") => (switches.root_on == RootOn::Zfs, "root_on=zfs"),
        (Kind::Attach, "chatty0") => (switches.messages > 0, "messages="),
        (Kind::Thread, "chain1" | "chain2" | "chain3") => (switches.chain == Chain::Yes, "chain=yes"),
        (Kind::Thread, "pci_probe") => (switches.pci == Pci::Parallel, "pci=parallel"),
        (Kind::Thread, "late/0") => (switches.bind == Bind::Hrtimer, "bind=hrtimer"),
        (Kind::Thread, "latency") => (switches.sched_cost == SchedCost::Yes, "sched_cost=yes"),
        (Kind::Thread, "vm_rest") => (matches!(switches.vm_page, VmPage::Lazy | VmPage::EagerThread), "vm_page=lazy"),
        _ => return None,
    };
    (!is_there).then_some(word)
}

fn is_name(kind: Kind, name: &str) -> bool {
    let driver = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match kind {
        Kind::Attach => driver != name && names(kind).contains(&driver),
        _ => names(kind).contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_kind_a_name_or_both() {
        for place in ["stage", "stage.pit", "pit", "probe.psm", "psm", "attach.psm0", "psm0", "hpt27xx0", "ksoftirqd/0"]
        {
            assert!(is_place(place), "{place}");
        }
        for slip in ["", "stages", "stage.", "psn", "attach.psm", "probe.psm0", "sysinit.pit", "7", "thread.usbus1"] {
            assert!(!is_place(slip), "{slip}");
        }
    }

    #[test]
    fn a_place_that_needs_another_word_is_reported_with_it() {
        let check = |place, line, word| assert_eq!(left_out(place, &Switches::parse(line)), word, "{place}: {line}");
        check("usbus0", "", Some("usb=yes"));
        check("thread.usbus0", "usb=yes", None);
        check("port2", "", Some("usb=yes"));
        check("ada1", "root_on=zfs", None);
        check("answer.ena0", "", Some("nic=yes"));
        check("chain2", "chain=no", Some("chain=yes"));
        check("attach.psm0", "", Some("ps2=probe"));
        // The driver is probed in any case.
        check("psm", "", None);
        check("chatty0", "messages=3", None);
        check("pci_probe", "", Some("pci=parallel"));
        check("thread", "", None);
        check("clocks", "", None);
    }

    #[test]
    fn every_kind_has_names() {
        assert!(KINDS.iter().all(|kind| !names(*kind).is_empty()));
    }
}
