//! Decides from the facts when a boot is over and how it ended. Does no I/O.
//!
//! The end mark comes first: a power-off or a panic while the guest gathers evidence does not undo it. Then what the guest did counts
//! (panicked, reset, powered off), and last what it did not do (timeout, hang).

use recording::{End, EndMark, OutcomeKind, Until};

use crate::options::RecordOptions;
use crate::profile::GuestProfile;
use crate::refusal::{Text, text};
use crate::vmm::GuestEnd;
use crate::watch::{Facts, Seen, Shutdown, panicked};
use recording::Field;

/// Time that a panic has to print its text.
const PANIC_PATIENCE_NS: i64 = 3_000_000_000;
/// A panic that prints nothing for this long has printed all of its text.
const PANIC_SILENCE_NS: i64 = 500_000_000;
/// Longest silence during the evidence transfer.
const GATHER_SILENCE_NS: i64 = 30_000_000_000;

/// If nothing is added to the awaited line for this long, it is a prompt.
const PROMPT_SILENCE_NS: i64 = 100_000_000;
/// Time that the rest of the awaited line has to be printed.
const LINE_PATIENCE_NS: i64 = 1_000_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) kind: OutcomeKind,
    pub(crate) detail: String,
    pub(crate) at_ns: i64,
    /// Remarks for a reader of the recording.
    pub(crate) note: Option<Text>,
}

impl Ending {
    /// Appends a remark to the note.
    pub(crate) fn add_note(&mut self, note: impl Into<Text>) {
        self.note = Some(match self.note.take() {
            Some(before) => text![before, "; ", note],
            None => note.into(),
        });
    }

    fn panic(seen: &Seen) -> Ending {
        Ending {
            kind: OutcomeKind::Panic,
            detail: seen.what.clone(),
            at_ns: seen.at_ns,
            note: panic_advice(&seen.what),
        }
    }
}

/// Advice about a panic that is not the kernel's fault.
fn panic_advice(line: &str) -> Option<Text> {
    // Linux's init/do_mounts.c: device 0:0 means that no driver found the disk. With any other device, no file system took its content.
    if line.contains("VFS: Unable to mount root fs") && line.contains("unknown-block(0,0)") {
        return Some(text![
            "no driver in the kernel found the root disk (a distribution's are modules). Give the file system's image with ",
            Field::Root.is("IMAGE"),
            ", which brings the modules; or an ",
            Field::Initrd,
            " that has them; or a kernel with the disk's driver built in, and root=/dev/vda or the like in ",
            Field::Append
        ]);
    }
    if line.contains("VFS: Unable to mount root fs") {
        return Some(text![
            "the kernel found the root disk, and no file system that it can mount there. Check root= in ",
            Field::Append,
            " (the partition, not the disk?); or give an ",
            Field::Initrd,
            " with the file system's module, or ",
            Field::Root.is("IMAGE"),
            " for ext4 and erofs"
        ]);
    }
    line.contains("IO-APIC + timer doesn't work").then(|| {
        let why =
            "the kernel tests its timer against its own loops, and a busy host can be too late for it: boot again, or ";
        text![why, "add no_timer_check to ", Field::Append]
    })
}

/// The end mark, if it was reached.
pub(crate) fn end_mark(options: &RecordOptions, profile: &GuestProfile, facts: &Facts) -> Option<End> {
    let end = |mark, at_ns, what: &str| {
        let (mark, what) = (Some(mark), what.to_owned());
        End { mark, what, at_ns, error_ns: Some(facts.arrival_error_ns), printk_ns: None }
    };
    match options.guest.until {
        Until::Init if options.guest.has_guest_init() => facts.init_ns.map(|at_ns| end(EndMark::Init, at_ns, "init")),
        Until::Init | Until::Regex(_) | Until::Unit(_) | Until::Tcp(_) | Until::Http(_) | Until::Process(_) => {
            facts.matched.clone()
        }
        Until::PowerOff => match facts.shutdown.as_ref()? {
            off if off.why == GuestEnd::PowerOff => Some(end(EndMark::PowerOff, off.at_ns, "power-off")),
            off if off.why == GuestEnd::Reset && profile.says_before_reset == Some(facts.last_line.as_str()) => {
                Some(end(EndMark::Reset, off.at_ns, "a reset, where power-off is not to be had"))
            }
            _ => None,
        },
    }
}

/// The ending of the boot if it is over at `now_ns`, else `None`.
pub(crate) fn ending(
    options: &RecordOptions,
    profile: &GuestProfile,
    facts: &Facts,
    now_ns: i64,
    stop: bool,
) -> Option<Ending> {
    let late = facts.listened_ns.max(now_ns) >= options.timeout_ns();
    if let Some(end) = end_mark(options, profile, facts) {
        if line_goes_on(facts, &end, now_ns) && !stop && !late {
            return None;
        }
        let mut ending = reached(facts, &end);
        ending.note = why_no_more_evidence(options, facts, now_ns, stop || late)?.map(Text::from);
        return Some(ending);
    }
    if let Some(failed) = &facts.unit_failed {
        return Some(at(OutcomeKind::UnitFailed, &failed.what, failed.at_ns));
    }
    if stop {
        return Some(at(OutcomeKind::Interrupted, "stopped by the user", now_ns));
    }
    if let Some(seen) = &facts.unpatched {
        // The VMM's end can be reported later than the end of its gdbstub.
        if facts.running_ns.is_some() && !facts.gone && now_ns - seen.at_ns > LAST_WORDS_NS {
            return Some(at(OutcomeKind::Unpatched, &seen.what, seen.at_ns));
        }
    }
    if let Some(shutdown) = &facts.shutdown {
        // Three messages can still be on their way, because they come by another channel than the news that the guest is off. They are the
        // line by which a reset is no failure, guest-init's reason for giving up, and any guest's end mark.
        let is_off = matches!(shutdown.why, GuestEnd::PowerOff);
        let may_say_why = is_off && options.guest.has_guest_init() && facts.no_root.is_none() && facts.panic.is_none();
        let waits = profile.says_before_reset.is_some() || may_say_why || !facts.heard_out && !facts.gone;
        if waits && now_ns - shutdown.at_ns < LAST_WORDS_NS && !late {
            return None;
        }
        return Some(after_shutdown(facts, shutdown));
    }
    if facts.gone {
        // The caller that waits for the VMM adds its output and its exit status.
        let kind = if options.guest.target.is_board() { OutcomeKind::LineLost } else { OutcomeKind::VmmFailed };
        return Some(at(kind, "", now_ns));
    }
    if let Some(panic) = &facts.panic {
        return panic_printed(facts, panic, now_ns).then(|| Ending::panic(panic));
    }
    if let Some(hang) = &facts.hang {
        return Some(at(OutcomeKind::Hang, &hang.text(facts.vmm), now_ns));
    }
    late.then(|| {
        let seconds = options.observe.timeout_ms.unwrap_or_default() as f64 / 1e3;
        let detail = match options.guest.target.is_board() && facts.running_ns.is_none() {
            true => format!("{} was not switched on within {seconds} s: nothing came from its console", facts.vmm),
            false => format!("the end mark was not reached within {seconds} s"),
        };
        at(OutcomeKind::Timeout, &detail, now_ns)
    })
}

/// The ending at the end mark. If a requested change to the guest's code is missing, this boot is not the requested one.
fn reached(facts: &Facts, end: &End) -> Ending {
    match facts.unpatched.as_ref().map(|seen| &seen.what).or(facts.missed.as_ref()) {
        Some(missed) => at(OutcomeKind::Unpatched, missed, end.at_ns),
        None => at(OutcomeKind::Reached, &end.what, end.at_ns),
    }
}

/// True if the rest of the awaited line is still to come: a pattern can match before the line is complete.
fn line_goes_on(facts: &Facts, end: &End, now_ns: i64) -> bool {
    let is_recent = now_ns - facts.heard_ns < PROMPT_SILENCE_NS && now_ns - end.at_ns < LINE_PATIENCE_NS;
    facts.matched_line_open && is_recent && !facts.gone && facts.shutdown.is_none()
}

/// The ending of a boot that could not be watched any longer, because of `why`.
pub(crate) fn cut_short(
    options: &RecordOptions,
    profile: &GuestProfile,
    facts: &Facts,
    now_ns: i64,
    why: &str,
) -> Ending {
    match (end_mark(options, profile, facts), &facts.shutdown, &facts.panic) {
        (Some(end), ..) => reached(facts, &end),
        (None, Some(shutdown), _) => after_shutdown(facts, shutdown),
        (None, None, Some(panic)) => Ending::panic(panic),
        (None, None, None) => at(OutcomeKind::Interrupted, why, now_ns),
    }
}

/// The VMM's report that the guest is off can overtake the guest's last message, which comes by another channel.
const LAST_WORDS_NS: i64 = 500_000_000;

/// After the end mark: `None` while evidence is still coming, `Some(None)` if all has arrived, else a note that some never will.
fn why_no_more_evidence(options: &RecordOptions, facts: &Facts, now_ns: i64, stop: bool) -> Option<Option<String>> {
    if let Some(why) = &facts.no_channel {
        return Some(Some(format!("process 1 has no channel to the host ({why}): the host reads what lies in memory")));
    }
    if !options.guest.has_guest_init() || facts.guest_done.is_some() {
        return Some(None);
    }
    let vmm_ended = format!("{} ended", facts.vmm);
    let why = if facts.init_ns.is_none() && options.guest.until == Until::PowerOff {
        "guest-init never ran"
    } else if facts.gone {
        &vmm_ended
    } else if facts.shutdown.as_ref().is_some_and(|seen| now_ns - seen.at_ns > LAST_WORDS_NS) {
        "the guest reset or powered off"
    } else if facts.panic.as_ref().is_some_and(|panic| panic_printed(facts, panic, now_ns)) {
        "the guest panicked"
    } else if stop {
        "recording was stopped"
    } else if now_ns - facts.heard_ns > GATHER_SILENCE_NS {
        "guest-init said nothing for 30 s"
    } else {
        return None;
    };
    Some(Some(format!("after the end mark, before all evidence was transferred: {why}")))
}

fn after_shutdown(facts: &Facts, shutdown: &Shutdown) -> Ending {
    if let Some(panic) = &facts.panic {
        return Ending::panic(panic);
    }
    if let Some(why) = &facts.no_root {
        return at(OutcomeKind::PowerOff, &format!("the root could not be mounted: {why}"), shutdown.at_ns);
    }
    let vmm = facts.vmm;
    let (kind, detail) = match &shutdown.why {
        GuestEnd::Reset => (OutcomeKind::Reset, "the guest reset the machine, or all its CPUs faulted thrice"),
        GuestEnd::PowerOff => (OutcomeKind::PowerOff, "the guest powered the machine off before the end mark"),
        GuestEnd::Panic => return at(OutcomeKind::Panic, &panicked(vmm), shutdown.at_ns),
        GuestEnd::Asked => return at(OutcomeKind::Interrupted, &format!("{vmm} was told to end"), shutdown.at_ns),
        GuestEnd::Other(word) => (OutcomeKind::VmmFailed, word.as_str()),
    };
    at(kind, detail, shutdown.at_ns)
}

fn panic_printed(facts: &Facts, panic: &Seen, now_ns: i64) -> bool {
    let silent = now_ns - facts.heard_ns > PANIC_SILENCE_NS;
    facts.panic_over || silent || now_ns - panic.at_ns > PANIC_PATIENCE_NS
}

fn at(kind: OutcomeKind, detail: &str, at_ns: i64) -> Ending {
    Ending { kind, detail: detail.to_owned(), at_ns, note: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::{GuestSpec, Init};

    const SECOND: i64 = 1_000_000_000;

    fn seen(at_ns: i64, what: &str) -> Option<Seen> {
        Some(Seen { at_ns, what: what.to_owned() })
    }

    fn off(at_ns: i64, why: GuestEnd) -> Option<Shutdown> {
        Some(Shutdown { at_ns, why })
    }

    fn kind(options: &RecordOptions, facts: &Facts, now_ns: i64) -> Option<&'static str> {
        ending(options, &GuestProfile::default(), facts, now_ns, false).map(|ending| ending.kind.as_str())
    }

    #[test]
    fn process_one_is_the_end_and_evidence_is_waited_for() {
        let options = RecordOptions::default();
        let mut facts = Facts { init_ns: Some(2 * SECOND), heard_ns: 2 * SECOND, ..Facts::default() };
        assert_eq!(kind(&options, &facts, 3 * SECOND), None);
        facts.guest_done = seen(3 * SECOND, "poweroff");
        let reached = ending(&options, &GuestProfile::default(), &facts, 3 * SECOND, false).unwrap();
        assert_eq!((reached.kind, reached.at_ns, reached.note), (OutcomeKind::Reached, 2 * SECOND, None));
    }

    #[test]
    fn a_process_one_without_a_channel_is_the_end_and_says_why() {
        let options = RecordOptions::default();
        let why = Some("the kernel forbids ports".to_owned());
        let facts = Facts { init_ns: Some(SECOND), no_channel: why, heard_ns: SECOND, ..Facts::default() };
        let reached = ending(&options, &GuestProfile::default(), &facts, SECOND, false).unwrap();
        assert_eq!((reached.kind, reached.at_ns), (OutcomeKind::Reached, SECOND));
        assert!(reached.note.is_some_and(|note| note.contains("no channel to the host (the kernel forbids ports)")));
    }

    #[test]
    fn what_happens_after_the_end_mark_does_not_undo_it() {
        let options = RecordOptions::default();
        let base = || Facts { init_ns: Some(SECOND), heard_ns: SECOND, ..Facts::default() };
        let cases = [
            (Facts { gone: true, ..base() }, SECOND),
            (Facts { shutdown: off(SECOND, GuestEnd::Reset), ..base() }, 2 * SECOND),
            (Facts { panic: seen(SECOND, "Kernel panic"), panic_over: true, ..base() }, SECOND),
            (base(), 32 * SECOND),
            (base(), 700 * SECOND),
        ];
        for (facts, now) in cases {
            let ending = ending(&options, &GuestProfile::default(), &facts, now, false).unwrap();
            assert_eq!(ending.kind, OutcomeKind::Reached);
            assert!(ending.note.is_some());
        }
        // The guest's last message may still be on its way.
        let facts = Facts { shutdown: off(SECOND, GuestEnd::PowerOff), ..base() };
        assert!(ending(&options, &GuestProfile::default(), &facts, SECOND, false).is_none());
    }

    #[test]
    fn before_the_end_mark_each_end_has_its_name() {
        let options = RecordOptions::default();
        let facts = Facts::default;
        assert_eq!(kind(&options, &facts(), SECOND), None);
        assert_eq!(kind(&options, &Facts { gone: true, ..facts() }, SECOND), Some("vmm-failed"));
        assert_eq!(kind(&options, &facts(), 600 * SECOND), Some("timeout"));
        for (reason, expected) in [
            (GuestEnd::Reset, "reset"),
            (GuestEnd::PowerOff, "power-off"),
            (GuestEnd::Panic, "panic"),
            (GuestEnd::Asked, "interrupted"),
            (GuestEnd::Other("host-error".to_owned()), "vmm-failed"),
        ] {
            let mut facts = Facts { shutdown: off(SECOND, reason), ..facts() };
            assert_eq!(kind(&options, &facts, 2 * SECOND), Some(expected));
            assert_eq!(kind(&options, &facts, SECOND + 1), None, "its end mark can still be on its way");
            facts.heard_out = true;
            let at_once = (expected != "power-off").then_some(expected);
            assert_eq!(kind(&options, &facts, SECOND + 1), at_once);
        }
        // The reason why guest-init gave up can arrive after QEMU's report that the machine is off.
        let mut facts = Facts { shutdown: off(SECOND, GuestEnd::PowerOff), ..facts() };
        assert_eq!(kind(&options, &facts, SECOND), None);
        (facts.no_root, facts.heard_out) = (Some("vda cannot be mounted".to_owned()), true);
        let off = ending(&options, &GuestProfile::default(), &facts, SECOND, false).unwrap();
        assert!(off.kind == OutcomeKind::PowerOff && off.detail.contains("vda"), "{}", off.detail);
        let facts = Facts::default;
        let interrupted = ending(&options, &GuestProfile::default(), &facts(), SECOND, true).unwrap();
        assert_eq!(interrupted.kind, OutcomeKind::Interrupted);
    }

    #[test]
    fn a_root_that_no_driver_finds_is_explained() {
        let note = |line: &str| {
            let panic = seen(SECOND, line).unwrap();
            Ending::panic(&panic).note.unwrap_or_default()
        };
        let vfs = "Kernel panic - not syncing: VFS: Unable to mount root fs on";
        let no_driver = note(&format!("{vfs} unknown-block(0,0)"));
        assert!(no_driver.contains("no driver") && no_driver.contains("root=IMAGE"), "{no_driver}");
        let no_file_system = note(&format!("{vfs} unknown-block(254,1)"));
        assert!(no_file_system.contains("no file system") && no_file_system.contains("root="), "{no_file_system}");
        assert_eq!(note("Kernel panic - not syncing: Attempted to kill init!"), Text::default());
    }

    #[test]
    fn a_panic_is_let_finish_and_outranks_the_reset_that_follows() {
        let options = RecordOptions::default();
        let mut facts = Facts { panic: seen(SECOND, "Kernel panic - x"), heard_ns: SECOND, ..Facts::default() };
        assert_eq!(kind(&options, &facts, SECOND + 1), None);
        assert_eq!(kind(&options, &facts, 2 * SECOND), Some("panic"));
        facts.heard_ns = 5 * SECOND;
        assert_eq!(kind(&options, &facts, 5 * SECOND), Some("panic"));
        (facts.shutdown, facts.heard_out) = (off(SECOND, GuestEnd::Reset), true);
        let ended = |facts: &Facts| ending(&options, &GuestProfile::default(), facts, SECOND + 1, false).unwrap();
        let ending = ended(&facts);
        assert_eq!((ending.kind, ending.detail.as_str()), (OutcomeKind::Panic, "Kernel panic - x"));
        assert_eq!(ending.note, None);
        facts.panic = seen(SECOND, "Kernel panic - not syncing: IO-APIC + timer doesn't work!  Boot with apic=debug");
        assert!(ended(&facts).note.is_some_and(|note| note.contains("no_timer_check")), "it need not be the kernel");
    }

    #[test]
    fn a_boot_that_can_be_watched_no_longer_keeps_what_it_reached() {
        let options = RecordOptions::default();
        let facts = Facts { init_ns: Some(SECOND), ..Facts::default() };
        let reached = cut_short(&options, &GuestProfile::default(), &facts, 2 * SECOND, "no space");
        assert_eq!((reached.kind, reached.at_ns), (OutcomeKind::Reached, SECOND));
        let cut = cut_short(&options, &GuestProfile::default(), &Facts::default(), 2 * SECOND, "no space");
        assert_eq!((cut.kind, cut.detail.as_str(), cut.at_ns), (OutcomeKind::Interrupted, "no space", 2 * SECOND));
        let facts = Facts { panic: seen(SECOND, "Kernel panic"), ..Facts::default() };
        assert_eq!(
            cut_short(&options, &GuestProfile::default(), &facts, 2 * SECOND, "no space").kind,
            OutcomeKind::Panic
        );
    }

    #[test]
    fn a_board_that_is_never_switched_on_times_out() {
        let board = recording::Target::Board(recording::Board::default());
        let mut options = RecordOptions::of(GuestSpec { target: board, init: Init::Keep, ..GuestSpec::default() });
        options.observe.timeout_ms = Some(6000);
        // The board's own time stays at 0 until its first byte.
        let mut facts = Facts { vmm: "the board", listened_ns: 5 * SECOND, ..Facts::default() };
        assert_eq!(kind(&options, &facts, 0), None);
        facts.listened_ns = 6 * SECOND;
        let late = ending(&options, &GuestProfile::default(), &facts, 0, false).unwrap();
        assert_eq!(late.kind, OutcomeKind::Timeout);
        assert!(late.detail.contains("not switched on within 6 s"), "{}", late.detail);
    }

    #[test]
    fn power_off_and_lines_can_be_the_end() {
        let options = RecordOptions::of(GuestSpec { until: Until::PowerOff, init: Init::Keep, ..GuestSpec::default() });
        let facts = Facts { shutdown: off(SECOND, GuestEnd::PowerOff), ..Facts::default() };
        assert_eq!(kind(&options, &facts, SECOND), Some("reached"));
        let facts = Facts { shutdown: off(SECOND, GuestEnd::Reset), heard_out: true, ..Facts::default() };
        assert_eq!(kind(&options, &facts, SECOND), Some("reset"));

        let profile = GuestProfile { says_before_reset: Some("no ACPI, so a reset"), ..GuestProfile::default() };
        let off_after_line =
            Facts { last_line: "no ACPI, so a reset".to_owned(), shutdown: facts.shutdown.clone(), ..Facts::default() };
        assert_eq!(ending(&options, &profile, &off_after_line, SECOND, false).unwrap().kind, OutcomeKind::Reached);
        // That line may still be on its way.
        assert_eq!(ending(&options, &profile, &facts, SECOND, false), None);
        assert_eq!(ending(&options, &profile, &facts, 2 * SECOND, false).unwrap().kind, OutcomeKind::Reset);

        let options = RecordOptions::of(GuestSpec { until: Until::Regex("login:".into()), ..GuestSpec::default() });
        let matched = End { what: "a login:".into(), at_ns: SECOND, ..End::default() };
        let mut facts = Facts { matched: Some(matched), heard_ns: SECOND, ..Facts::default() };
        assert_eq!(kind(&options, &facts, SECOND), None);
        facts.guest_done = seen(2 * SECOND, "exec /init");
        assert_eq!(kind(&options, &facts, 2 * SECOND), Some("reached"));
    }

    #[test]
    fn an_end_mark_says_what_kind_of_event_it_is() {
        let init = RecordOptions::default();
        let line = RecordOptions::of(GuestSpec { until: Until::Regex("^init$".into()), ..GuestSpec::default() });
        let power_off =
            RecordOptions::of(GuestSpec { until: Until::PowerOff, init: Init::Keep, ..GuestSpec::default() });
        let matched = End { mark: Some(EndMark::Line), what: "init".into(), at_ns: SECOND, ..End::default() };
        let facts = Facts {
            init_ns: Some(2 * SECOND),
            matched: Some(matched),
            shutdown: off(3 * SECOND, GuestEnd::PowerOff),
            ..Facts::default()
        };
        let profile = GuestProfile::default();
        let mark = |options| end_mark(options, &profile, &facts).map(|end| (end.mark(), end.at_ns));
        let marks = [&init, &line, &power_off].map(mark);
        let expected = [(EndMark::Init, 2 * SECOND), (EndMark::Line, SECOND), (EndMark::PowerOff, 3 * SECOND)];
        assert_eq!(marks, expected.map(Some));
    }

    #[test]
    fn the_rest_of_the_line_is_awaited() {
        let options = RecordOptions::of(GuestSpec {
            until: Until::Regex("login:".into()),
            init: Init::Keep,
            ..GuestSpec::default()
        });
        let matched = End { what: "login:".into(), at_ns: SECOND, ..End::default() };
        let open =
            || Facts { matched: Some(matched.clone()), matched_line_open: true, heard_ns: SECOND, ..Facts::default() };
        assert_eq!(kind(&options, &open(), SECOND + 1_000_000), None);
        assert_eq!(kind(&options, &open(), SECOND + PROMPT_SILENCE_NS), Some("reached"), "a prompt has no end");
        let ended = Facts { matched_line_open: false, ..open() };
        assert_eq!(kind(&options, &ended, SECOND + 1_000_000), Some("reached"));
        let endless = Facts { heard_ns: SECOND + LINE_PATIENCE_NS, ..open() };
        assert_eq!(kind(&options, &endless, SECOND + LINE_PATIENCE_NS), Some("reached"));
        assert_eq!(kind(&options, &Facts { gone: true, ..open() }, SECOND + 1_000_000), Some("reached"));
        assert!(
            ending(&options, &GuestProfile::default(), &open(), SECOND + 1_000_000, true).is_some(),
            "the user does not want to wait"
        );
    }
}
