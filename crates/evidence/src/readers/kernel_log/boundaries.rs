//! Phases and milestones of a boot, by the words of its log.
//!
//! Wordings are data, in [`user_space`] and [`other_kernels`]. Each boundary has several: the earliest sure one
//! counts, and its error is the time since the line before which it cannot have been.

use crate::boot::Placing;
use crate::boot::clocks::log_ticks;
use crate::boot::linux;
use crate::formats::kernel_log::{KernelLog, Line};
use crate::formats::linux_words::user_space;
use crate::formats::systemd_words as systemd;
use crate::formats::{linux_words, other_kernels};
use crate::readers::kernel_log::ends;
use crate::readers::kernel_log::places::Places;
use crate::readers::kernel_log::speakers;
use guest_init::cpio::ROOT_PATH;
use timeline::{EndEvidence, Milestone, MilestoneKind, Ns, Phase, Timeline, Warning};

/// A kernel's clock is 0 at most this long after its first instruction, where it is not unpacked slowly.
const CLOCK_LATE: Ns = Ns::from_ms(100);
/// A log whose first line has a later stamp has lost its beginning.
const BEGINNING_MAX: Ns = Ns::from_ms(1000);
/// A log that begins this late, without a line of a boot, is a running system's.
const RUNNING_MIN: Ns = Ns::from_ms(60_000);
/// A kernel whose first line has a later stamp counts from power-on.
const FIRST_LINE_MAX: Ns = Ns::from_ms(100);

/// Adds the phases that a log shows. `from` is the number of the kernel's first line, 0 if nothing stands before it.
pub(super) fn place(places: &Places<'_>, from: u32, boot: &mut Placing<'_>) {
    let (log, is_heard) = (places.log, *boot.is_heard);
    let handed_over = linux::knows_levels(&boot.timeline);
    let mut boundary = |phase: Phase, from: u32, find: &dyn Fn(&str) -> bool| {
        let mut lines = log.lines.iter().filter(|line| line.number >= from && places.of_boundary(line).is_some());
        let found = lines.find(|line| find(log.text(line)));
        if let Some((line, at)) = found.and_then(|line| Some((line, places.of_boundary(line)?))) {
            let error = places.error(line, boot);
            boot.timeline.boundary(phase, at, error, &evidence(log, line));
        }
    };
    // A kernel says so when it has freed its own beginning, which takes long: the end of the last level says it better,
    // however exactly the message is placed.
    if !handed_over {
        boundary(Phase::HandOver, from, &user_space::frees_init);
    }
    let run = |text: &str| text.strip_prefix("Run ")?.strip_suffix(" as init process").map(|path| path == ROOT_PATH);
    boundary(Phase::ModulesAndRoot, from, &|text| run(text) == Some(true));
    let best = log.lines.iter().filter_map(|line| other_kernels::process_1_rank(log.text(line))).min();
    let other = |text: &str| best.is_some() && other_kernels::process_1_rank(text) == best;
    boundary(Phase::Process1, from, &|text| run(text) == Some(false) || other(text));
    // An initrd's systemd has its own targets of these names before it hands over.
    let in_root = log.lines.iter().rposition(|line| log.text(line).starts_with(systemd::BEGINS)).unwrap_or(0);
    let number = log.lines.get(in_root).map_or(0, |line| line.number);
    for (target, phase) in systemd::MILESTONES {
        boundary(phase, number, &|text| systemd::reached(text) == Some(target));
    }
    if !is_heard {
        kernel_begins(places, from, boot);
    }
    program_ran(places, from, boot);
    let lines = log.lines.iter().filter(|line| line.number >= from);
    let mounts = |text: &str| linux_words::mounts_a_device(text) || other_kernels::mounts_root(text);
    let mounted = lines.filter(|line| mounts(log.text(line)));
    let mounted = mounted.filter_map(|line| Some((line, places.of_boundary(line)?))).next();
    if let Some((line, at)) = mounted {
        let (kind, error) = (MilestoneKind::RootMounted, places.error(line, boot));
        boot.timeline.passed.push(Milestone { kind, at, error, track: None });
    }
    let prompt = ends::login(places).filter(|_| places.is_imported);
    if let Some((at, error, _)) = prompt.filter(|(_, _, evidence)| *evidence == EndEvidence::LoginPrompt) {
        let error = error.max(boot.arrival_error());
        boot.timeline.passed.push(Milestone { kind: MilestoneKind::LoginPrompt, at, error, track: None });
    }
}

fn evidence(log: &KernelLog, line: &Line) -> String {
    format!("kernel log: “{}”", shortened(log.text(line)))
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

/// The kernel begins with its first line, or earlier where its clock and a logger's stamps show that.
fn kernel_begins(places: &Places<'_>, from: u32, boot: &mut Placing<'_>) {
    let log = places.log;
    let first = log.lines.iter().find(|line| line.number >= from && places.by_kernel(line).is_some());
    let Some((line, at)) = first.and_then(|line| Some((line, places.by_kernel(line)?))) else {
        return kernel_speaks(places, from, boot);
    };
    if places.is_imported && is_of_a_running_system(places, line) {
        if at >= RUNNING_MIN {
            boot.timeline.warnings.push(Warning::LogWithoutBoot { from: at });
        }
        return;
    }
    boot.timeline.boundary(Phase::EarlyKernel, at, places.error(line, boot), &evidence(log, line));
    if !places.is_imported {
        return;
    }
    // The account of firmware and loaders has the start of the kernel's clock, which may be long before an excerpt's first line.
    if let (Some(clock), true) = (places.clock, boot.kernel_clock_after > Ns::ZERO) {
        let zero = clock.to_ns(log_ticks(Ns::ZERO));
        boot.timeline.boundaries.retain(|boundary| boundary.phase != Phase::EarlyKernel);
        return boot.timeline.boundary(Phase::EarlyKernel, zero, CLOCK_LATE, "the kernel's clock is 0");
    }
    // A logger's stamps go on before the kernel's clock began: so that moment is known, though no line shows it.
    if let (Some(clock), Some(_)) = (places.clock, line.host_stamp) {
        let before = log.lines.iter().take_while(|other| other.number < line.number).filter_map(|line| line.host_stamp);
        let zero = clock.to_ns(log_ticks(Ns::ZERO));
        let began = before.last().map_or(zero, |before| before.max(zero));
        if began < at {
            boot.timeline.boundaries.retain(|boundary| boundary.phase != Phase::EarlyKernel);
            let text = shortened(log.text(line));
            let shown = format!("kernel log: its clock is 0, by the stamps of “{text}”");
            boot.timeline.boundary(Phase::EarlyKernel, began, clock.residual.max(CLOCK_LATE), &shown);
        }
    }
    counts_from_power_on(places, line, at, boot);
}

/// True if a log lost its beginning, and nothing in it shows that the kernel still boots: no message of its start, no initcall, and no
/// hand-over.
fn is_of_a_running_system(places: &Places<'_>, first: &Line) -> bool {
    let boots = |text: &str| {
        linux_words::says(text) || user_space::starts_process_1(text) || other_kernels::system(text).is_some()
    };
    let is_late = first.stamp.is_some_and(|stamp| stamp >= BEGINNING_MAX) && first.host_stamp.is_none();
    is_late && !places.log.lines.iter().any(|line| boots(places.log.text(line)))
}

/// The kernel begins with its first line where only a logger stamped it.
fn kernel_speaks(places: &Places<'_>, from: u32, boot: &mut Placing<'_>) {
    let log = places.log;
    let is_kernels = |line: &&Line| line.number >= from && speakers::of(log.text(line)).is_none_or(speakers::is_kernel);
    let first = log.lines.iter().find(is_kernels).filter(|_| boot.subject.os.is_known());
    if let Some((line, at)) = first.and_then(|line| Some((line, places.of_boundary(line)?))) {
        boot.timeline.boundary(Phase::EarlyKernel, at, places.error(line, boot), &evidence(log, line));
    }
}

/// A kernel may stamp its lines from a counter that began at power-on: then its first words are stamped late, and what ran before
/// them has that time.
fn counts_from_power_on(places: &Places<'_>, first: &Line, at: Ns, boot: &mut Placing<'_>) {
    let is_first = places.log.lines.first().is_some_and(|line| line.number == first.number);
    let is_late = first.stamp.is_some_and(|stamp| stamp > FIRST_LINE_MAX);
    if !is_first || !is_late || !linux_words::is_first_message(places.log.text(first)) || first.host_stamp.is_some() {
        return;
    }
    let text = shortened(places.log.text(first));
    let shown = format!("kernel log: its clock counts from power-on, “{text}” is its first line");
    let error = places.error(first, boot);
    boot.timeline.boundary(Phase::BeforeTheKernel, Ns::ZERO.min(at), error, &shown);
}

/// Finds the start of process 1. Kernels before 4.19 print no message for it, and a log may lack its beginning: then
/// the first message of a program shows that process 1 runs. It began between the kernel's last message before that and
/// this message.
fn program_ran(places: &Places<'_>, from: u32, boot: &mut Placing<'_>) {
    let log = places.log;
    let best = log.lines.iter().filter_map(|line| other_kernels::process_1_rank(log.text(line))).min();
    let other = |text: &str| best.is_some() && other_kernels::process_1_rank(text) == best;
    let starts = |line: &&Line| user_space::starts_process_1(log.text(line)) || other(log.text(line));
    if let Some(line) = log.lines.iter().filter(|line| line.number >= from).find(starts) {
        if let Some(at) = places.of_boundary(line).filter(|_| places.is_imported) {
            boot.process_1_from(at);
        }
        return;
    }
    let placed = || log.lines.iter().filter(|line| line.number >= from && places.of_boundary(line).is_some());
    let freed = placed().find(|line| user_space::frees_init(log.text(line)));
    let since = freed.map_or(0, |line| line.number);
    // The kernel stamps each of its lines, so what greets without a stamp is a program.
    let greets = |line: &Line| line.stamp.is_none() && !line.before_clock && user_space::greets(log.text(line));
    let is_of_a_program = |line: &&Line| user_space::is_of_a_program(log.text(line)) || greets(line);
    let program = placed().filter(|line| line.number >= since).find(is_of_a_program);
    // A kernel goes on to process 1 at once. So what follows the last words of its beginning comes while process 1 runs, be it of
    // a program or not.
    let last_words = || placed().rfind(|line| user_space::frees_init(log.text(line)));
    let follows = || {
        let last = last_words()?.number;
        placed().find(|line| line.number > last)
    };
    let first = [program, follows()].into_iter().flatten().min_by_key(|line| line.number);
    let Some((line, at)) = first.and_then(|line| Some((line, places.of_boundary(line)?))) else { return };
    let until = program.and_then(|line| places.of_boundary(line)).map_or(Ns::ZERO, |sure| sure - at);
    // Without the kernel's last words, the line before is what it cannot have begun before.
    let before = freed.or_else(|| placed().take_while(|other| other.number < line.number).last());
    let since = before.filter(|before| freed.is_some() || before.host_stamp.is_some());
    let since = since.and_then(|line| places.of_boundary(line)).map_or(Ns::ZERO, |before| at - before);
    // Where the log lacks its beginning, process 1 may have begun before that.
    let is_cut = freed.is_none() && places.is_imported && lacks_its_beginning(log);
    let since = if is_cut { since.max(at) } else { since };
    let text = shortened(log.text(line));
    let shown = match program.filter(|program| program.number == line.number) {
        Some(_) => format!("kernel log: “{text}”"),
        None => format!("kernel log: the first line after the kernel's own beginning is freed: “{text}”"),
    };
    let error = places.error(line, boot).max(since).max(until);
    boot.timeline.boundary(Phase::Process1, at, error, &shown);
    boot.is_start_of_process_1_unknown = true;
    boot.process_1_from(at);
}

/// True if the first stamp is so late that the lines before it are missing.
fn lacks_its_beginning(log: &KernelLog) -> bool {
    let first = log.lines.iter().find(|line| line.stamp.is_some() || line.before_clock);
    first.is_some_and(|line| line.stamp >= Some(BEGINNING_MAX) && !linux_words::is_first_message(log.text(line)))
}

/// The console asks for a login: a line of getty's, which is no message of the kernel's.
pub(super) fn login_prompt(log: &KernelLog, place: &dyn Fn(&Line) -> Option<Ns>, error: Ns, timeline: &mut Timeline) {
    let mut prompts = log.lines.iter().filter(|line| user_space::asks_for_login(log.text(line)));
    let Some(at) = prompts.find_map(place) else { return };
    timeline.passed.push(Milestone { kind: MilestoneKind::LoginPrompt, at, error, track: None });
}
