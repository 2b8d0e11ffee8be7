//! Work that a kernel does at each boot because of its build options.

use crate::detector::{Detector, Draft};
use crate::{Need, Remedy, Seen};
use timeline::{Os, SpanKind};

pub const DETECTOR: Detector = Detector {
    id: "build-options",
    title: "the kernel was built with an option that takes time at each boot",
    rule: "Reading the kernel's own type information (BTF) for BPF programs, and searching all page tables for pages that are \
           both writable and executable, take long, and few boots need either. Whoever asks first reads the type information: to \
           leave out that initcall only moves the work.",
    source: "Linux, lib/Kconfig.debug and mm/Kconfig.debug: DEBUG_INFO_BTF, DEBUG_WX",
    threshold: "any time in these functions",
    price: "the function's time goes; at the worst a tenth stays",
    needs: &[Need::BootPath, Need::System, Need::Functions],
    look,
};

/// Functions, outermost first, and the option that makes the kernel call them.
const OPTIONS: &[(&[&str], &str, &str)] = &[
    (
        &["btf_parse_vmlinux"],
        "DEBUG_INFO_BTF",
        "build the kernel without its type information, unless BPF programs need it (some of systemd's and Cilium's do)",
    ),
    (
        &["ptdump_walk_pgd_level_checkwx", "ptdump_walk_pgd"],
        "DEBUG_WX",
        "build the kernel without this check of its page tables; it then no longer warns of pages that are writable and executable",
    ),
];

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os != Os::Linux {
        return Vec::new();
    }
    let draft = |&(functions, option, what): &(&[&str], &str, &'static str)| {
        let draft = Draft::of(&seen.stretches(SpanKind::Call, functions), Remedy::without(what, &[option]))?;
        Some(draft.leaving(0.1).less_sure())
    };
    OPTIONS.iter().filter_map(draft).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::Change;
    use crate::seen::testing::{Log, ms};

    #[test]
    fn type_information_is_read_once_for_all_callers() {
        let mut log = Log::linux();
        log.initcall("cubictcp_register", |log| {
            log.within("register_btf_kfunc_id_set", |log| log.call("btf_parse_vmlinux", ms(43)));
        });
        log.initcall("bpf_rstat_kfunc_init", |log| log.call("register_btf_kfunc_id_set", ms(1)));
        log.call("works", ms(400));
        let found = log.found();
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.rule.id, only.about.as_str(), only.price.likely), (DETECTOR.id, "btf_parse_vmlinux", ms(43)));
        assert_eq!(only.remedy.changes, [Change::KernelConfig(vec!["-DEBUG_INFO_BTF".to_owned()])]);
    }
}
