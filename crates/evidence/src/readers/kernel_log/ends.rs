//! The end of an imported boot, by the words of its log.
//!
//! A log has the best mark that it shows: systemd is done, a login prompt, the last usual target. Many logs have none of these and go
//! on for days. Such a boot ends when process 1 starts, or with process 1's first line or a wait behind that, if it took longer than the
//! kernel.

use crate::boot::Placing;
use crate::formats::kernel_log::{KernelLog, Line};
use crate::formats::linux_words::user_space;
use crate::formats::other_kernels;
use crate::formats::systemd_words as systemd;
use crate::readers::kernel_log::places::Places;
use crate::readers::last_news::{TIME_OUT_OF_A_UNIT, last_news};
use crate::readers::reader::{EndCandidate, EndRank};
use timeline::{DiagnosticKind, EndEvidence, Ns, Phase};

/// A shorter silence is no wait worth a later end mark.
const WAIT_MIN: Ns = Ns::from_ms(1000);

/// The end, and notes in `boot` when the machine had booted.
pub(super) fn find(places: &Places<'_>, boot: &mut Placing<'_>) -> Option<EndCandidate> {
    let done = finished(places).or_else(|| login(places)).or_else(|| default_target(places, boot));
    if let Some((at, error, evidence)) = done {
        let error = error.max(boot.line_error());
        return Some(EndCandidate { rank: EndRank::BootDone, at, error, evidence, track: boot.init });
    }
    let (lines, rest) = of_boot(places, boot);
    if boot.start_of(Phase::Process1).is_some() && !boot.is_start_of_process_1_unknown {
        let (at, error, evidence) = printed_or_waited(&lines, places, boot)?;
        let error = error.max(boot.line_error());
        return Some(EndCandidate { rank: EndRank::ProcessOneSaid, at, error, evidence, track: boot.init });
    }
    // Nothing tells of an end: the last sign is the last line of the boot.
    if let (Some((at, _)), Some(first)) = (lines.last(), rest.first()) {
        boot.booted_at = Some(*at);
        let (place, count) = (format!("line {}", first.number), rest.len() as u64);
        boot.timeline.diagnostics.add(DiagnosticKind::LogLater, "", count, None, || place);
    }
    None
}

/// A time, its error and the evidence.
type Mark = (Ns, Ns, EndEvidence);

const ERROR: Ns = Ns::from_ms(1);

/// systemd says that startup is finished.
fn finished(places: &Places<'_>) -> Option<Mark> {
    let finished = later(places.log).filter(|line| places.log.text(line).starts_with(systemd::FINISHED)).last();
    Some((finished.and_then(|line| places.at(line)).filter(|at| *at > Ns::ZERO)?, ERROR, EndEvidence::SystemdFinished))
}

/// The console asks for a login. A prompt without a stamp came between the stamps before and after it.
pub(super) fn login(places: &Places<'_>) -> Option<Mark> {
    let log = places.log;
    let prompt = later(log).find(|line| user_space::asks_for_login(log.text(line)))?;
    if let Some(at) = places.at(prompt) {
        return Some((at, ERROR, EndEvidence::LoginPrompt)).filter(|_| at > Ns::ZERO);
    }
    let (before, after) = places.around(prompt);
    let before = before.filter(|at| *at > Ns::ZERO)?;
    Some(match after.filter(|after| *after >= before) {
        Some(after) => (before, after - before, EndEvidence::LoginPrompt),
        None => (before, Ns::ZERO, EndEvidence::LoginPromptLater),
    })
}

/// The lines behind those of a kernel that started this one by kexec.
fn later(log: &KernelLog) -> impl Iterator<Item = &Line> {
    log.lines.iter().filter(|line| log.earlier.is_none_or(|earlier| line.number > earlier))
}

/// The last of the targets that a boot usually ends with, which the root's systemd reached.
fn default_target(places: &Places<'_>, boot: &mut Placing<'_>) -> Option<Mark> {
    let log = places.log;
    let root = later(log).filter(|line| log.text(line).starts_with(systemd::BEGINS)).last();
    let root = root.map_or(0, |line| line.number);
    let reached = later(log).filter(|line| line.number >= root);
    let reached = reached.filter_map(|line| Some((places.at(line)?, systemd::reached(log.text(line))?)));
    let (at, target) = reached.filter(|(_, target)| systemd::DEFAULT_TARGETS.contains(target)).last()?;
    Some((at, ERROR, EndEvidence::SystemdReached(boot.timeline.names.intern(target))))
}

/// The lines until the machine had booted, and the others: a user logged in, or a program ran and then the log said nothing new for a
/// long time, without waiting for anything.
fn of_boot<'l>(places: &Places<'l>, boot: &Placing<'_>) -> (Vec<(Ns, &'l Line)>, Vec<&'l Line>) {
    let log = places.log;
    let text = |line: &Line| log.text(line);
    let is_start_known = later(log).any(|line| starts_process_1(text(line)));
    let is_run = |line: &Line| match is_start_known {
        true => starts_process_1(text(line)),
        false => user_space::is_of_a_program(text(line)),
    };
    let from = boot.start_of(Phase::Process1);
    let mut lines: Vec<(Ns, &Line)> = later(log).filter_map(|line| Some((places.at(line)?, line))).collect();
    let runs = |at: Ns, number: usize| is_run(lines[number].1) || from.is_some_and(|from| at > from);
    let last = last_news(lines.iter().map(|&(at, line)| (at, text(line))), runs, |_| false).map(|last| last + 1);
    let session = lines.iter().position(|(_, line)| user_space::opens_a_session(text(line))).filter(|first| *first > 0);
    if let Some(first_later) = last.into_iter().chain(session).min() {
        let rest = lines.split_off(first_later).into_iter().map(|(_, line)| line).collect();
        return (lines, rest);
    }
    (lines, Vec::new())
}

/// True if a kernel says that it starts process 1.
fn starts_process_1(text: &str) -> bool {
    user_space::starts_process_1(text) || other_kernels::starts_process_1(text)
}

/// Process 1's first line, the root's where an initrd has its own, or the line that ends a wait of user space: if that took longer than
/// all before process 1, then the boot was not over when process 1 started.
fn printed_or_waited(lines: &[(Ns, &Line)], places: &Places<'_>, boot: &mut Placing<'_>) -> Option<Mark> {
    let text = |line: &Line| places.log.text(line);
    let started = boot.start_of(Phase::Process1)?;
    let long = (started - boot.start_of(Phase::EarlyKernel).unwrap_or_default()).max(WAIT_MIN);
    let run = lines.iter().position(|(_, line)| user_space::starts_process_1(text(line)))?;
    let lines = &lines[run..];
    let root = lines.iter().rfind(|(_, line)| text(line).starts_with(systemd::BEGINS));
    let printed = root.or_else(|| lines.iter().find(|(_, line)| user_space::is_of_process_1(text(line))));
    let printed = printed.filter(|(at, _)| *at - started > long);
    let is_wait = |silence: Ns, line: &Line| {
        silence > long && (user_space::ends_a_wait(text(line)) || TIME_OUT_OF_A_UNIT.contains(&silence))
    };
    let steps = lines.iter().zip(lines.iter().skip(1));
    let mut waited = steps.filter(|((before, _), (at, line))| is_wait(*at - *before, line));
    let waited =
        waited.next_back().map(|(_, end)| end).filter(|(at, _)| printed.is_none_or(|(printed, _)| at > printed));
    let (at, line) = waited.or(printed)?;
    let evidence = match waited {
        Some(_) => EndEvidence::WaitEnded(boot.timeline.names.intern(text(line))),
        None => EndEvidence::Process1Printed,
    };
    Some((*at, ERROR, evidence))
}
