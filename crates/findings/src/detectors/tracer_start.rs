//! Tracers that are set up in a kernel that is not traced.

use crate::blacklist;
use crate::detector::{Detector, Draft};
use crate::{Need, Remedy, Seen};
use timeline::{Os, SpanKind};

pub const DETECTOR: Detector = Detector {
    id: "tracer-start",
    title: "tracers are made ready that nobody uses",
    rule: "Linux with ftrace makes each function's tracing call a no-op, lists the functions that can be traced, and makes the \
           files of tracefs. Part of it is work that three initcalls start: they can be left out by name. For the rest the \
           kernel has to be built without tracers.",
    source: "libguestfs (Jones 2016): ftrace initialization is slow and unavoidable (20 ms)",
    threshold: "any of this work",
    price: "the work goes; at the worst a twentieth stays. A kernel searches the list of initcalls to leave out for each \
            initcall, which is taken off",
    needs: &[Need::BootPath, Need::System, Need::Initcalls],
    look,
};

/// Work items, and the initcalls that start them. Without these initcalls, the files of tracefs are missing, and so are checks of lists
/// that only tracers read (kernel/trace/trace.c, ftrace.c).
const STARTED: &[(&str, &str)] = &[
    ("ftrace_check_work_func", "ftrace_check_for_weak_functions"),
    ("eval_map_work_func", "trace_eval_init"),
    ("tracer_init_tracefs_work_func", "tracer_init_tracefs"),
];

/// The name of the count in the figures.
const COUNTED: &str = "pieces of work";

/// Functions that the kernel always calls if it is built with `CONFIG_FTRACE`.
const BUILT_IN: &[&str] = &["ftrace_init", "early_trace_init", "trace_init", "ftrace_free_init_mem"];

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os != Os::Linux {
        return Vec::new();
    }
    started(seen).into_iter().chain(built_in(seen)).collect()
}

fn started(seen: &Seen) -> Option<Draft> {
    let items: Vec<&str> = STARTED.iter().map(|&(item, _)| item).collect();
    let stretches = seen.stretches(SpanKind::Work, &items);
    let is_seen = |item: &str| stretches.iter().any(|work| seen.texts((work.name, work.detail)).1 == item);
    let initcalls: Vec<&str> =
        STARTED.iter().filter(|(item, _)| is_seen(item)).map(|&(_, initcall)| initcall).collect();
    let remedy = blacklist::remedy(
        "where nobody traces this kernel, leave out what makes the files of tracefs; bootscope itself then sees less",
        &initcalls,
    );
    Some(Draft::of(&stretches, remedy)?.leaving(blacklist::COMES_BACK).counting(COUNTED))
}

fn built_in(seen: &Seen) -> Option<Draft> {
    let remedy = Remedy::without(
        "build the kernel without tracers, if nobody needs live patches, probes or BPF tracing; no option of the command line does this",
        &["FTRACE"],
    );
    Some(Draft::of(&seen.stretches(SpanKind::Call, BUILT_IN), remedy)?.leaving(0.05).counting(COUNTED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::Change;
    use crate::seen::testing::{Log, ms};
    use timeline::Ns;

    #[test]
    fn work_of_tracers_is_left_out_and_functions_take_another_kernel() {
        let mut log = Log::linux();
        log.within("ftrace_init", |log| log.call("ftrace_process_locs", ms(10)));
        log.initcall("ftrace_check_for_weak_functions", |log| log.work("ftrace_check_work_func", ms(70)));
        log.initcall("works", |log| log.work("vmstat_update", ms(400)));
        let found = log.found();
        let [work, functions] = &found.findings[..] else { panic!("{found:?}") };
        let word = "initcall_blacklist=ftrace_check_for_weak_functions".to_owned();
        assert_eq!(work.remedy.changes, [Change::AppendWords(vec![word])], "only what started what was seen");
        assert_eq!((work.rule.id, work.price.likely), (DETECTOR.id, ms(70) - Ns(2 * 2_300)));
        assert_eq!((functions.about.as_str(), functions.price.likely), ("ftrace_init", ms(10)));
        let mut log = Log::linux();
        log.initcall("works", |log| log.work("vmstat_update", ms(400)));
        assert!(log.found().findings.is_empty());
    }
}
