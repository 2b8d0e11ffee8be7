//! The journal as evidence of a boot: units, the end, what services said, and the kernel's messages where there is no other log.

use crate::boot::offers::Offers;
use crate::boot::{Found, Placing};
use crate::formats::journal::{Entry, Journal, Kind, NAME, begins, is_line};
use crate::formats::kernel_log::{KernelLog, escape};
use crate::formats::linux_words;
use crate::formats::systemd_words::{Becomes, DEFAULT_TARGETS, MILESTONES, Units};
use crate::input::text::Line;
use crate::input::{File, Input};
use crate::readers::last_news::last_news;
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Reader};
use hashbrown::HashSet;
use std::fmt::Write as _;
use std::rc::Rc;
use timeline::{DiagnosticKind, Diagnostics, EndEvidence, Mark, NameId, Ns, Os, Phase, Timeline, TrackKind};

/// The longest part of a message that is shown, in characters.
const SHOWN_MAX: usize = 300;
/// journald stamps a message when it gets it.
const LATE: Ns = Ns::from_ms(5);

/// Each file may have a part.
#[derive(Default)]
pub(crate) struct Files(Vec<Rc<File>>);

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["journal"]
    }

    fn is_whole(&self, bytes: &[u8]) -> Option<String> {
        begins(bytes).then(|| "journal".to_owned())
    }

    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        is_line(line.bytes).then_some(0)
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.0.push(input.file);
    }

    fn has_boot(&self) -> bool {
        !self.0.is_empty()
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let first = self.0.first()?;
        let mut journal = Journal::of_boot(found.manifest.boot);
        let diagnostics = &mut timeline.diagnostics;
        for file in &self.0 {
            journal.read(&file.name, &file.bytes, diagnostics);
        }
        journal.choose(diagnostics);
        // The kernel's own log says it better, if that has times.
        let is_kernel = |entry: &&Entry| entry.names_the_kernel() && (entry.at.is_none() || !entry.is_kernels);
        if let Some(release) = journal.entries.iter().filter(is_kernel).find_map(release) {
            (found.subject.os, found.subject.kernel) = (Os::Linux, release.to_owned());
        }
        *found.journal_messages = kernel_log(&journal, &first.name, &mut Diagnostics::default());
        let said = Said { journal };
        *found.container_began = found.container_began.or(said.container_began());
        (!said.journal.entries.is_empty()).then(|| Box::new(said) as Box<dyn Evidence>)
    }
}

fn release(entry: &Entry) -> Option<&str> {
    linux_words::release(&entry.message)
}

/// The kernel's messages in it, as the kernel's own records have them.
fn kernel_log(journal: &Journal, file: &str, diagnostics: &mut Diagnostics) -> Option<(String, KernelLog)> {
    let mut records = String::new();
    let entries = journal.entries.iter().filter(|entry| entry.is_kernels);
    for (number, (entry, at)) in entries.filter_map(|entry| Some((entry, entry.at?))).enumerate() {
        let _ = write!(records, "{},{number},{},-;", entry.priority, at.0 / 1000);
        // Before journald runs, programs log to the kernel's log too, with their name before the message.
        if let Some(pid) = entry.pid {
            escape(&entry.identifier, &mut records);
            let _ = write!(records, "[{pid}]: ");
        }
        escape(&entry.message, &mut records);
        records.push('\n');
    }
    let log = KernelLog::read_imported(file, records.as_bytes(), diagnostics).ok();
    log.filter(|_| !records.is_empty()).map(|log| (file.to_owned(), log))
}

struct Said {
    journal: Journal,
}

impl Said {
    /// The largest error of a length that systemd states.
    fn rounded(&self) -> Ns {
        if self.journal.is_rounded { Ns::from_ms(1) } else { Ns::from_us(2) }
    }

    /// The largest error of a message's time.
    fn late(&self) -> Ns {
        LATE + self.journal.resolution
    }

    fn finished(&self) -> Option<&Entry> {
        self.journal.entries.iter().find(|entry| entry.kind == Some(Kind::StartupFinished))
    }

    /// The start of a container's systemd, from its message at the end of the boot, which has no duration of a kernel.
    fn container_began(&self) -> Option<Ns> {
        let finished = self.finished().filter(|finished| finished.took[0].is_none())?;
        Some(finished.at? - finished.took[2]?)
    }

    /// The start of user space on the kernel's clock, where only dates are known: its messages are no kernel log.
    fn user_space_began(&self) -> Option<Ns> {
        if self.journal.resolution == Ns::ZERO {
            return None;
        }
        let kernel = self.stages().map(|[_, (_, from, _), _]| from);
        kernel.or_else(|| (self.journal.is_zero_unknown && self.has_programs()).then_some(Ns::ZERO))
    }

    /// True if an entry that has a time is a program's.
    fn has_programs(&self) -> bool {
        self.journal.entries.iter().any(|entry| entry.at.is_some() && !entry.names_the_kernel())
    }

    /// Places the units in systemd's messages. Units that systemd's state has are left out.
    fn units(&self, zero: Ns, is_told: bool, timeline: &mut Timeline) {
        let told: HashSet<NameId> = timeline.units.iter().map(|unit| unit.name).filter(|_| is_told).collect();
        let mut units = Units::of(timeline);
        for entry in self.journal.entries.iter().filter(|entry| !entry.is_kernels && entry.pid == Some(1)) {
            let becomes = match entry.kind {
                Some(Kind::UnitStarting) => Becomes::Starting,
                Some(Kind::UnitStarted) => Becomes::Active,
                Some(Kind::UnitFailed) => Becomes::Failed,
                _ => continue,
            };
            let is_told = timeline.names.find(&entry.unit).is_some_and(|name| told.contains(&name));
            // A text for people may have only the unit's description.
            let has_name = recording::is_unit_name(&entry.unit) || (self.journal.is_rounded && !entry.unit.is_empty());
            if let Some(at) = entry.at.filter(|_| !is_told && has_name) {
                units.add(&entry.unit, becomes, zero + at, timeline);
            }
        }
        if is_told {
            timeline.units.sort_by_key(|unit| unit.start.or(unit.settled).unwrap_or(Ns::MIN));
        }
    }

    /// Places the messages of other senders than the kernel.
    fn messages(&self, zero: Ns, timeline: &mut Timeline) {
        let name = timeline.names.intern(NAME);
        let track = timeline.tracks.named(name, TrackKind::Console);
        let is_shown = |entry: &&Entry| !entry.message.is_empty() && (!entry.is_kernels || entry.at.is_none());
        for entry in self.journal.entries.iter().filter(is_shown) {
            let Some(at) = entry.at else {
                timeline.diagnostics.note(DiagnosticKind::MessagesWithoutStamp, || NAME.to_owned());
                continue;
            };
            let shown: String = entry.message.lines().next().unwrap_or_default().chars().take(SHOWN_MAX).collect();
            let name = timeline.names.intern(&format!("{}: {shown}", entry.identifier));
            timeline.marks.push(Mark { at: zero + at, name, track });
        }
    }

    /// The last of the targets that a boot usually ends with. A boot of which only dates are known ends with its last news otherwise.
    fn default_target(&self, boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let zero = boot.monotonic_zero();
        let is_reached = |entry: &&Entry| {
            entry.kind == Some(Kind::UnitStarted)
                && DEFAULT_TARGETS.contains(&entry.unit.as_str())
                && entry.at.is_some()
        };
        if let Some((entry, at)) =
            self.journal.entries.iter().rfind(is_reached).and_then(|entry| Some((entry, entry.at?)))
        {
            let evidence = EndEvidence::SystemdReached(boot.timeline.names.intern(&entry.unit));
            return Some(EndCandidate {
                rank: EndRank::BootDone,
                at: zero + at,
                error: self.late(),
                evidence,
                track: None,
            });
        }
        if self.journal.is_zero_unknown {
            let placed: Vec<(Ns, &Entry)> =
                self.journal.entries.iter().filter_map(|entry| Some((zero + entry.at?, entry))).collect();
            let started = settled_after_their_start(&placed);
            let texts = placed.iter().map(|&(at, entry)| (at, &*entry.message));
            let last = last_news(texts, |_, _| true, |number| started.contains(&number))?;
            let rest = (placed.len() - last - 1) as u64;
            boot.booted_at = Some(placed[last].0);
            boot.timeline.diagnostics.add(DiagnosticKind::LogLater, "", rest, None, || NAME.to_owned());
        }
        None
    }

    /// The start and the duration of each stage: kernel, initrd, user space.
    fn stages(&self) -> Option<[(Phase, Ns, Ns); 3]> {
        let [kernel, initrd, userspace] = self.finished()?.took;
        let (kernel, initrd) = (kernel?, initrd.unwrap_or(Ns::ZERO));
        let stages = [
            (Phase::EarlyKernel, Ns::ZERO, kernel),
            (Phase::Initrd, kernel, initrd),
            (Phase::UserSpace, kernel + initrd, userspace?),
        ];
        Some(stages)
    }
}

/// The numbers of the entries that report the end of a unit's start, and of which an earlier entry reports the beginning.
fn settled_after_their_start(entries: &[(Ns, &Entry)]) -> HashSet<usize> {
    let (mut starting, mut settled) = (HashSet::new(), HashSet::new());
    for (number, (_, entry)) in entries.iter().enumerate() {
        match entry.kind {
            Some(Kind::UnitStarting) => drop(starting.insert(&entry.unit)),
            Some(Kind::UnitStarted | Kind::UnitFailed) if starting.remove(&entry.unit) => drop(settled.insert(number)),
            _ => {}
        }
    }
    settled
}

impl Evidence for Said {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        if self.container_began().is_none() && self.journal.entries.iter().any(|entry| entry.at.is_some()) {
            offers.kernel_after(Ns::ZERO);
        }
    }

    fn place(&mut self, boot: &mut Placing<'_>) {
        if let Some(at) = self.user_space_began() {
            boot.process_1_from(boot.monotonic_zero() + at);
        }
    }

    fn phases(&mut self, boot: &mut Placing<'_>) {
        let zero = boot.monotonic_zero();
        boot.stamp_resolution = boot.stamp_resolution.max(self.journal.resolution);
        if self.journal.resolution > Ns::ZERO {
            boot.logger_error = boot.logger_error.max(self.late());
        }
        self.messages(zero, &mut boot.timeline);
        // After what the kernel's log says, and what systemd says of its state.
        self.units(zero, boot.units_told, &mut boot.timeline);
        let (rounded, late) = (self.rounded(), self.late());
        for (phase, from, took) in self.stages().into_iter().flatten() {
            if took > Ns::ZERO {
                let evidence = format!("journal: startup finished, {took} of it");
                let from = if from == Ns::ZERO { boot.kernel_clock_zero() } else { zero + from };
                boot.timeline.boundary(phase, from, rounded, &evidence);
            }
        }
        if let (Some(_), Some(took)) = (self.container_began(), self.finished().and_then(|finished| finished.took[2])) {
            let evidence = format!("journal: startup finished after {took}");
            boot.timeline.boundary(Phase::UserSpace, Ns::ZERO, late, &evidence);
        } else if self.journal.is_zero_unknown {
            let (phase, evidence) = match self.has_programs() {
                true => (Phase::UserSpace, "journal: the first message of a program"),
                false => (Phase::EarlyKernel, "journal: the first message of the kernel"),
            };
            boot.timeline.boundary(phase, zero, late, evidence);
        }
        for (target, phase) in MILESTONES {
            let reached = |entry: &&Entry| entry.kind == Some(Kind::UnitStarted) && entry.unit == target;
            let at = self.journal.entries.iter().filter(reached).find_map(|entry| entry.at);
            if let Some(at) = at {
                boot.timeline.boundary(phase, zero + at, late, &format!("journal: {target} is active"));
            }
        }
    }

    fn end(&self, boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let Some(finished) = self.finished() else { return self.default_target(boot) };
        let (at, error) = match self.stages() {
            Some(stages) => (stages.iter().map(|(_, _, took)| *took).sum(), self.rounded() + self.rounded()),
            None => (finished.at?, self.late()),
        };
        let at = boot.monotonic_zero() + at;
        Some(EndCandidate { rank: EndRank::BootDone, at, error, evidence: EndEvidence::SystemdFinished, track: None })
    }
}
