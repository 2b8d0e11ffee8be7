//! The evidence for a clock's rate and for the end of a boot, in words. Programs must not parse these: they compare
//! [`RateSource`] and the codes of [`EndEvidence`].

use std::borrow::Cow;
use timeline::{EndEvidence, Names, ProcessOf, RateLine, RateSource};

/// The source of a clock's rate.
pub(crate) fn rate_source(source: &RateSource) -> Cow<'static, str> {
    Cow::Borrowed(match source {
        RateSource::Host => "measured on the host",
        RateSource::HostFromStart => "measured on the host, 0 at the start of the vCPUs",
        RateSource::CounterRegister => "said by the counter's own register",
        RateSource::Instructions => "one tick is one instruction",
        RateSource::User => "given by the user",
        RateSource::Unknown => "unknown: a tick is shown as a tick",
        RateSource::Kernel => "the kernel's own",
        RateSource::Printk => "printk's clock is time",
        RateSource::SyncPoints => "fitted to sync points",
        RateSource::CommonEvents => "through events seen on both clocks",
        RateSource::NearProcess1 => "set by sync lines of process 1; ticks that the kernel lost earlier are not seen",
        RateSource::FirstInstruction => {
            "from the kernel's first instruction on; ticks that the kernel lost are not seen"
        }
        RateSource::Arrival => "set by the arrival of its lines",
        RateSource::RefinedCalibration => "kernel log: refined calibration",
        RateSource::DetectedProcessor => "kernel log: the processor detected",
        RateSource::FirstExecutions { messages, process_1 } => {
            let and = if *process_1 { ", and process 1's" } else { "" };
            return format!("through messages whose functions were seen to run ({messages} messages{and})").into();
        }
        RateSource::Line { line, place } => return format!("{}, {place}", rate_line(*line)).into(),
        RateSource::ConsoleLines { steps } => {
            return format!("matched with the stamped console lines of {}", steps.join(", ")).into();
        }
    })
}

fn rate_line(line: RateLine) -> Cow<'static, str> {
    Cow::Borrowed(match line {
        RateLine::LogItself => "the log itself",
        RateLine::Sysctl => "machdep.tsc_freq",
        RateLine::Timecounter => "the timecounter's frequency",
        RateLine::ShiftedTimecounter { shift, by_cpu } => {
            let why = if by_cpu { "by the CPU's line" } else { "as is usual" };
            return format!("TSC-low shifted back by {shift} {why}").into();
        }
        RateLine::Cpu => "the CPU's line, rounded as it is",
    })
}

/// The evidence for the end of a boot.
pub(crate) fn end_evidence(evidence: EndEvidence, names: &Names) -> Cow<'_, str> {
    use EndEvidence as E;
    let process = |ProcessOf { pid, name }: ProcessOf| match names.get(name) {
        "" => format!("process {pid}"),
        name => format!("process {pid} ({name})"),
    };
    let text = match evidence {
        E::Asked(what) => return names.get(what).into(),
        E::Answered(what) => return format!("the guest answered: {}", names.get(what)).into(),
        E::ProcessRan(name) => return format!("process {} ran", names.get(name)).into(),
        E::PowerOff => "power-off",
        E::Reset => "a reset, where power-off is not to be had",
        E::Process1Sent => "process 1 sent its first byte",
        E::Process1Arrived => "process 1's first byte arrived",
        E::UserSpaceRan => "user space first wrote to a port, or first ran",
        E::Process1Started => "the kernel started process 1",
        E::Process1Printed => "process 1 printed its first line",
        E::LibguestfsLaunched => "libguestfs: the launch is done",
        E::SystemdFinished => "systemd: startup finished",
        E::SystemdReached(unit) => return format!("systemd: {} reached", names.get(unit)).into(),
        E::SystemdActive(unit) => return format!("systemd: {} active", names.get(unit)).into(),
        E::MultiUserStarted => "init started multi-user operation",
        E::LoginPrompt => "the console asked for a login",
        E::LoginPromptLater => "no end mark: the console's last time stamp before its login prompt",
        E::WaitEnded(line) => return format!("no end mark: its last wait ended with “{}”", names.get(line)).into(),
        E::BootchartStopped => "bootchart's collector stopped",
        E::AndroidShown => "Android showed its first screen",
        E::BootTimer => "the guest wrote to the boot timer",
        E::StartInitReturned => "EXIT start_init, process 1 runs",
        E::Forked(child) => return format!("process 1 forked {}", process(child)).into(),
        E::Exited(who) => return format!("{} exited", process(who)).into(),
        E::Milestone(kind) => return format!("the milestone {}", kind.name(names)).into(),
        E::OfAllEvidence => "the end mark by all of the evidence",
        E::LastSample => "the last sample",
        E::Panicked => "no end mark: the kernel panicked",
        E::LastSign => "no end mark: the last sign of the kernel",
        E::GivenUp => "no end mark: given up",
        E::LogEnds(record) => return format!("no end mark: the log ends with {}", names.get(record)).into(),
        E::TableEndsBeforeExit(who) => {
            return format!("no end mark: {} had not exited, and the table ends here", process(who)).into();
        }
        E::TableEnds => "no end mark: the process table ends here",
        E::PhasesEnd => "the last phase that the trace names ends",
        E::TracksEnd => "no end mark: the last event of the tracks",
    };
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_named_with_what_the_evidence_names() {
        let mut names = Names::default();
        let (rc, unit) = (names.intern("/etc/rc"), names.intern("multi-user.target"));
        let (named, unnamed) = (ProcessOf { pid: 15, name: rc }, ProcessOf { pid: 15, name: timeline::NameId::EMPTY });
        for (evidence, text) in [
            (EndEvidence::Asked(rc), "/etc/rc"),
            (EndEvidence::Forked(named), "process 1 forked process 15 (/etc/rc)"),
            (EndEvidence::Exited(unnamed), "process 15 exited"),
            (EndEvidence::SystemdReached(unit), "systemd: multi-user.target reached"),
            (EndEvidence::LogEnds(unit), "no end mark: the log ends with multi-user.target"),
        ] {
            assert_eq!(end_evidence(evidence, &names), text);
        }
    }

    #[test]
    fn a_line_is_named_with_its_place() {
        let text = |line| rate_source(&RateSource::Line { line, place: "0.log:4".to_owned() });
        assert_eq!(text(RateLine::LogItself), "the log itself, 0.log:4");
        let shifted = |by_cpu| text(RateLine::ShiftedTimecounter { shift: 1, by_cpu });
        assert_eq!(shifted(true), "TSC-low shifted back by 1 by the CPU's line, 0.log:4");
        assert_eq!(shifted(false), "TSC-low shifted back by 1 as is usual, 0.log:4");
        let steps = ["SYSINIT announce", "SYSINIT version"].map(str::to_owned).to_vec();
        let matched = rate_source(&RateSource::ConsoleLines { steps });
        assert_eq!(matched, "matched with the stamped console lines of SYSINIT announce, SYSINIT version");
    }

    /// Programs read the codes, so docs/json.md must list them.
    #[test]
    fn every_code_of_an_end_is_in_the_documents() {
        let quoted = |line: &'static str, quote| line.split(quote).nth(1);
        let source = include_str!("../../timeline/src/end.rs").lines();
        let arms = source.filter(|line| line.trim_start().starts_with("EndEvidence::") && line.contains("=> \""));
        let codes: Vec<&str> = arms.filter_map(|line| quoted(line, '"')).collect();
        let page = include_str!("../../../docs/json.md").split("\n## ").find(|part| part.starts_with("`end.code`"));
        let rows = page.unwrap().lines().filter(|line| line.starts_with("| `"));
        assert_eq!(rows.filter_map(|line| quoted(line, '`')).collect::<Vec<_>>(), codes);
        assert!(codes.len() > 20 && codes.contains(&EndEvidence::LastSign.code()));
    }
}
