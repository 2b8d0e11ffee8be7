//! The kernel's messages as evidence of a boot: marks, initcalls where the kernel printed them, and the phases they tell.

mod arrivals;
mod loader;

use crate::boot::Boot;
use crate::boot::arch;
use crate::boot::clocks;
use crate::boot::clocks::log_ticks;
use crate::boot::linux;
use crate::boot::linux::user_space;
use crate::boot::offers::{Offers, Stamped, StampedText};
use crate::boot::regions::Stage;
use crate::boot::subject::Subject;
use crate::formats::initcalls;
use crate::formats::kernel_log::DMESG_T;
use crate::formats::kernel_log::{KernelLog, Line, Prefix, kmsg_record};
use crate::formats::systemd_words as systemd;
use crate::input::index::Index;
use crate::input::is_imported;
use crate::input::text;
use crate::input::{File, Input};
use crate::readers::android_words;
use crate::readers::kernel_log::arrivals::Arrivals;
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Own, Reader};
use guest_init::cpio::ROOT_PATH;
use hashbrown::HashMap;
use std::rc::Rc;
use timeline::{
    Clock, DiagnosticKind, Diagnostics, EndEvidence, FileLoss, Mark, Milestone, MilestoneKind, Ns, Os, Phase,
    RateSource, SpanKind, Ticks, Timeline, TrackKind, Unplaced,
};

/// The console is used where there is no other log, and says when messages arrived. Of other logs the first one counts:
/// the kernel's own records, those out of its memory, one that somebody imported.
#[derive(Default)]
pub(crate) struct Files {
    console: Option<Input>,
    logs: Vec<Rc<File>>,
}

/// The files of a recording of our own that have the kernel's messages, the best first.
pub(crate) const FILES: [&str; 3] = ["kmsg.log", "kmsg-memory.log", "console.log"];

/// Its place in [`Files::own`].
const CONSOLE: usize = 0;

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["kernel log", "kernel log records"]
    }

    fn own(&self) -> &'static [Own] {
        &[Own::Stream("console"), Own::Plain(FILES[0]), Own::Plain(FILES[1])]
    }

    fn loss(&self, _own: usize, is_index: bool) -> FileLoss {
        if is_index { FileLoss::ArrivalTimes } else { FileLoss::KernelMessages }
    }

    fn is_line(&self, line: text::Line<'_>) -> Option<usize> {
        let text = line.bytes;
        match text.first()? {
            b'[' | b'<' if Prefix::strip(text).0.stamped => Some(0),
            b'[' if has_date(text) => Some(0),
            b'0'..=b'9' if kmsg_record(text).is_some() => Some(1),
            _ => None,
        }
    }

    /// Loggers put their stamps before each line, and then only they know what is behind them.
    fn may_be_line(&self, line: text::Line<'_>) -> Option<usize> {
        (has_kernel_stamp(line.bytes) || is_kernel_message(line.bytes)).then_some(0)
    }

    fn add(&mut self, own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        match own {
            Some(CONSOLE) => self.console = Some(input),
            _ => self.logs.push(input.file),
        }
    }

    fn has_boot(&self) -> bool {
        !self.logs.is_empty()
    }

    fn read<'f>(&'f mut self, boot: &mut Boot<'f>) -> Option<Box<dyn Evidence + 'f>> {
        let diagnostics = &mut boot.timeline.diagnostics;
        let heard = boot.heard_messages.take();
        let (first, unused, why) = match (&heard, self.logs.split_first()) {
            (None, Some((first, further))) => (Some(first), further, DiagnosticKind::SecondKernelLog),
            _ => (None, &self.logs[..], DiagnosticKind::KernelLogBesideLibguestfs),
        };
        for unused in unused {
            diagnostics.note(why, || unused.name.clone());
        }
        let journal = boot.journal_messages.take();
        let is_board = boot.board_error().is_some();
        let diagnostics = &mut boot.timeline.diagnostics;
        let log = heard.or_else(|| read(first?, diagnostics)).or(journal);
        let read_console = |console: &'f Input| {
            let log = match is_board {
                true => KernelLog::read_line(&console.file.name, &console.file.bytes, diagnostics).ok()?,
                false => read(&console.file, diagnostics)?.1,
            };
            Some(Heard { kernel: loader::kernel_line(&log), log, file: &console.file, index: &console.index })
        };
        let console = self.console.as_ref().and_then(read_console);
        if let Some(heard) = console.as_ref().filter(|_| boot.is_hosted()) {
            boot.firmware_spoke |= heard.log.lines.first().map(|line| line.number) < heard.kernel;
        }
        let logs = log.iter().map(|(_, log)| log).chain(console.as_ref().map(|heard| &heard.log));
        logs.for_each(|log| whose(log, &mut boot.subject));
        let index = self.console.as_ref().map(|console| &console.index);
        let found = log.is_some() || index.is_some();
        found.then(|| -> Box<dyn Evidence + 'f> { Box::new(Messages { log, console, index }) })
    }
}

/// What a log says of the system that wrote it.
fn whose(log: &KernelLog, subject: &mut Subject) {
    let mut lines = log.lines.iter();
    if !subject.os.is_known() && lines.any(|line| line.seq.is_some() || linux::says(log.text(line))) {
        subject.os = Os::Linux;
    }
    if subject.command_line.is_none() {
        subject.command_line = log.lines.iter().find_map(|line| linux::command_line(log.text(line))).map(str::to_owned);
    }
}

fn read(file: &File, diagnostics: &mut Diagnostics) -> Option<(String, KernelLog)> {
    if file.bytes.trim_ascii().is_empty() {
        return None;
    }
    let read = if is_imported(&file.name) { KernelLog::read_imported } else { KernelLog::read };
    let log = read(&file.name, &file.bytes, diagnostics).ok()?;
    Some((file.name.clone(), log))
}

struct Messages<'f> {
    /// The kernel's own log, or one that somebody heard, and its file.
    log: Option<(String, KernelLog)>,
    /// The console, if there are messages on it.
    console: Option<Heard<'f>>,
    index: Option<&'f Index>,
}

/// The messages on the console, and when each line of it arrived.
struct Heard<'f> {
    log: KernelLog,
    file: &'f File,
    index: &'f Index,
    /// The number of its first line that is the kernel's, if there is one.
    kernel: Option<u32>,
}

impl Heard<'_> {
    /// That number, where what is before it is placed as what ran before the kernel: firmware that has a port of its own says there
    /// what it does, and the host's clock knows nothing of a deterministic boot.
    fn follows_others(&self, boot: &Boot<'_>) -> Option<u32> {
        self.kernel.filter(|_| boot.is_hosted() && !boot.firmware_has_port)
    }
}

impl StampedText for KernelLog {
    fn messages(&self) -> Box<dyn Iterator<Item = Stamped<'_>> + '_> {
        Box::new(self.lines.iter().map(|line| stamped(self, line, line.host_stamp)))
    }

    fn markers(&self) -> HashMap<u64, Option<Ticks>> {
        let number = |line: &Line| marker(self.text(line).trim());
        self.lines.iter().filter_map(|line| Some((number(line)?, line.stamp.map(log_ticks)))).collect()
    }

    fn counter_hz(&self) -> Option<(f64, RateSource)> {
        let said = |begins: &str| {
            let mhz = |line| Some(self.text(line).strip_prefix(begins)?.trim_start().split(' ').next()?.parse::<f64>());
            let found = self.lines.iter().find_map(mhz)?.ok();
            found.map(|mhz| mhz * 1e6).filter(|hz| Clock::can_run_at(*hz))
        };
        arch::counter_messages().find_map(|(begins, from)| Some((said(begins)?, from.clone())))
    }
}

impl StampedText for Heard<'_> {
    fn messages(&self) -> Box<dyn Iterator<Item = Stamped<'_>> + '_> {
        Box::new(self.log.lines.iter().map(|line| stamped(&self.log, line, self.index.arrival(line.offset))))
    }

    fn markers(&self) -> HashMap<u64, Option<Ticks>> {
        self.log.markers()
    }
}

fn stamped<'a>(log: &'a KernelLog, line: &'a Line, arrival: Option<Ns>) -> Stamped<'a> {
    Stamped { text: log.text(line).as_bytes(), ticks: line.stamp.map(log_ticks), arrival }
}

/// The number of a line that process 1 wrote to compare clocks: `bootscope-sync 3`.
fn marker(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("bootscope-sync ")?;
    let number: u64 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

impl Evidence for Messages<'_> {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        offers.printk = self.log.as_ref().map(|(_, log)| log as &dyn StampedText);
        offers.heard = self.console.as_ref().map(|console| console as &dyn StampedText);
    }

    fn place(&mut self, boot: &mut Boot<'_>) {
        let arrivals = match (&self.log, &self.console) {
            _ if boot.is_virtual() => Arrivals::Unknown,
            (Some(_), Some(Heard { log, index, .. })) => Arrivals::by_text(log, index),
            (None, Some(Heard { index, .. })) => Arrivals::ByOffset(index),
            (_, None) => Arrivals::Unknown,
        };
        let (file, log, from) = match (&self.log, &self.console) {
            (Some((file, log)), _) => (file.as_str(), log, None),
            (None, Some(heard)) => ("console.log", &heard.log, heard.follows_others(boot)),
            (None, None) => return,
        };
        if boot.clocks.printk.is_none() && boot.is_virtual() {
            boot.clocks.printk = Some(printk_alone(boot));
        }
        if let (Some((_, own)), Some(set)) = (&self.log, &boot.clocks.printk) {
            if let Some(sharper) = boot.printed.clock(own, set) {
                boot.clocks.printk = Some(sharper);
            }
        }
        let clock = boot.clocks.printk.clone();
        messages(file, (log, from.unwrap_or_default()), &arrivals, clock.as_ref(), boot);
        if let Some(clock) = &clock {
            boundaries(log, clock, boot);
        }
        if let Some(heard) = self.console.as_ref().filter(|_| boot.board_error().is_some()) {
            heard.kernel.into_iter().for_each(|kernel| loader::kernel_heard(&heard.log, heard.index, kernel, boot));
        }
        if let Some(heard) = self.console.as_ref().filter(|_| boot.is_hosted()) {
            let error = boot.arrival_error();
            login_prompt(heard, error, &mut boot.timeline);
        }
    }

    fn around(&mut self, boot: &mut Boot<'_>) {
        if let Some((heard, kernel)) =
            self.console.as_ref().and_then(|heard| Some((heard, heard.follows_others(boot)?)))
        {
            loader::place(&heard.log, (heard.file, heard.index), kernel, boot);
        }
    }

    /// systemd prints when the boot is done, where it prints into the kernel's log.
    fn end(&self, boot: &mut Boot<'_>) -> Option<EndCandidate> {
        let (_, log) = self.log.as_ref().filter(|_| boot.is_imported())?;
        let line = log.lines.iter().rfind(|line| log.text(line).starts_with(systemd::FINISHED))?;
        let at = match (line.stamp, &boot.clocks.printk) {
            (Some(stamp), Some(clock)) => clock.to_ns(log_ticks(stamp)),
            _ => line.host_stamp?,
        };
        let (rank, evidence) = (EndRank::BootDone, EndEvidence::SystemdFinished);
        Some(EndCandidate { rank, at, error: Ns::from_ms(1), evidence, track: boot.init })
    }

    fn last_sign(&self, boot: &Boot<'_>) -> Option<Ns> {
        let index = self.index.filter(|_| boot.is_hosted())?;
        index.iter().last().map(|(_, at)| at)
    }
}

/// printk's clock where only its own stamps are known, and that a deterministic boot's.
fn printk_alone(boot: &mut Boot<'_>) -> Clock {
    let kernel = boot.stages.iter().find(|region| region.stage == Stage::EarlyKernel).map(|region| region.at);
    if kernel.is_none() {
        boot.timeline.diagnostics.note(DiagnosticKind::LogStartUnknown, String::new);
    }
    clocks::printk_alone(kernel.unwrap_or(Ns::ZERO))
}

/// Messages become marks, from the line of that number on; initcalls that the kernel printed become spans where nothing else has
/// them.
fn messages(
    file: &str,
    (log, from): (&KernelLog, u32),
    arrivals: &Arrivals<'_>,
    clock: Option<&Clock>,
    boot: &mut Boot<'_>,
) {
    let timeline = &mut boot.timeline;
    let traced = timeline.spans.iter().any(|(_, s)| s.kind == SpanKind::Initcall);
    let name = timeline.names.intern("kernel log");
    let track = timeline.tracks.named(name, TrackKind::Console);
    let place = |line: &Line| match (line.stamp, clock) {
        (Some(stamp), Some(clock)) => Some(clock.to_ns(log_ticks(stamp))),
        _ => arrivals.of(log, line).or(line.host_stamp),
    };
    for line in log.lines.iter().filter(|line| line.number >= from) {
        let place_in_file = || format!("{file}:{}", line.number);
        let Some(at) = place(line) else {
            timeline.diagnostics.note(DiagnosticKind::MessagesWithoutStamp, place_in_file);
            let name = timeline.names.intern(log.text(line));
            timeline.unplaced.push(Unplaced { name, before: None });
            continue;
        };
        let before = timeline.unplaced.iter_mut().rev().take_while(|message| message.before.is_none());
        before.for_each(|message| message.before = Some(at));
        if line.stamp.is_none() {
            timeline.diagnostics.note(DiagnosticKind::MessagesPlacedByArrival, place_in_file);
        }
        let name = timeline.names.intern(log.text(line));
        timeline.marks.push(Mark { at, name, track });
    }
    systemd::units(log.lines.iter().filter_map(|line| Some((place(line)?, log.text(line)))), timeline);
    android_words::place(log.lines.iter().filter_map(|line| Some((place(line)?, log.text(line)))), boot);
    let timeline = &mut boot.timeline;
    let mut found = initcalls::read(file, log, place, &mut timeline.diagnostics);
    if traced {
        found.calls.retain(|call| call.kind != initcalls::Kind::Initcall);
        found.levels.clear();
    }
    let initcalls = found.calls.iter().filter(|call| call.kind == initcalls::Kind::Initcall);
    boot.initcall_error = initcalls.min_by_key(|call| call.start).map_or(Ns::ZERO, |call| call.start_error);
    if !found.is_empty() {
        found.build(timeline);
    }
}

/// When the console asked who logs in: a line of getty's, which is no message of the kernel's.
fn login_prompt(console: &Heard<'_>, error: Ns, timeline: &mut Timeline) {
    let mut lines = console.log.lines.iter().filter(|line| line.stamp.is_none());
    let asks = |text: &str| text.trim_end() == "login:" || text.trim_end().ends_with(" login:");
    let Some(at) = lines.find(|line| asks(console.log.text(line))).and_then(|line| console.index.arrival(line.offset))
    else {
        return;
    };
    timeline.passed.push(Milestone { kind: MilestoneKind::LoginPrompt, at, error, track: None });
}

/// What the kernel's messages say about phases; a trace says it sharper where there is one.
fn boundaries(log: &KernelLog, clock: &Clock, boot: &mut Boot<'_>) {
    // Until the kernel has a good clocksource its clock loses ticks: a tenth of the time was seen under TCG, more on a
    // busy host. Where the clock was only compared near process 1, that is the error of what is far from it; where it
    // goes through messages on the way, what it lost between the two around.
    let last = log.lines.iter().filter_map(|line| line.stamp).max().unwrap_or_default();
    let error = |stamp: Ns| {
        let lost = match clock.rate_from {
            RateSource::NearProcess1 => Ns((last - stamp).0 / 5),
            RateSource::FirstExecutions { .. } => clock.lost_around(log_ticks(stamp), 1e9),
            RateSource::FirstInstruction => Ns(stamp.0 / 5),
            _ => Ns::ZERO,
        };
        let resolution = if log.logger == Some(DMESG_T) { Ns::from_ms(1000) } else { Ns::from_us(500) };
        clock.residual.max(resolution) + lost
    };
    let (handed_over, is_heard) = (linux::knows_levels(&boot.timeline), boot.is_heard);
    let mut boundary = |phase: Phase, from: u32, find: &dyn Fn(&str) -> bool| {
        let mut lines = log.lines.iter().filter(|line| line.number >= from && line.stamp.is_some());
        if let Some(line) = lines.find(|line| find(log.text(line))) {
            let stamp = line.stamp.unwrap_or_default();
            let at = clock.to_ns(log_ticks(stamp));
            let text: String = log.text(line).chars().take(60).collect();
            boot.timeline.boundary(phase, at, error(stamp), &format!("kernel log: “{text}”"));
        }
    };
    // A kernel says so when it has freed its own beginning, which takes long: the end of the last level says it better,
    // however exactly the message is placed.
    if !handed_over {
        boundary(Phase::HandOver, 0, &user_space::frees_init);
    }
    let run = |text: &str| text.strip_prefix("Run ")?.strip_suffix(" as init process").map(|path| path == ROOT_PATH);
    boundary(Phase::ModulesAndRoot, 0, &|text| run(text) == Some(true));
    boundary(Phase::Process1, 0, &|text| run(text) == Some(false));
    // An initrd's systemd has its own targets of these names before it hands over.
    let in_root = log.lines.iter().rposition(|line| log.text(line).starts_with(systemd::BEGINS)).unwrap_or(0);
    let number = log.lines.get(in_root).map_or(0, |line| line.number);
    for (target, phase) in systemd::MILESTONES {
        boundary(phase, number, &|text| systemd::reached(text) == Some(target));
    }
    if !is_heard {
        boundary(Phase::EarlyKernel, 0, &|_| true);
    }
    program_ran(log, clock, &error, boot);
    let mounted = log.lines.iter().filter(|line| linux::mounts_a_device(log.text(line))).find_map(|line| line.stamp);
    if let Some(stamp) = mounted {
        let (kind, at) = (MilestoneKind::RootMounted, clock.to_ns(log_ticks(stamp)));
        boot.timeline.passed.push(Milestone { kind, at, error: error(stamp), track: None });
    }
}

/// Where the kernel does not say that it runs process 1, the first message of a program shows that it does: kernels before 4.19
/// do not say it, and a log may lack its beginning. Process 1 began between what the kernel said before and that message.
fn program_ran(log: &KernelLog, clock: &Clock, error: &dyn Fn(Ns) -> Ns, boot: &mut Boot<'_>) {
    let says_run = |line: &Line| log.text(line).starts_with("Run ") && log.text(line).ends_with(" as init process");
    if log.lines.iter().any(says_run) {
        return;
    }
    let freed = log.lines.iter().position(|line| line.stamp.is_some() && user_space::frees_init(log.text(line)));
    let after = &log.lines[freed.unwrap_or_default()..];
    let is_of_a_program = |line: &&Line| line.stamp.is_some() && user_space::is_of_a_program(log.text(line));
    let program = after.iter().find(is_of_a_program);
    // Without a word of a program, what follows the last words of the kernel's beginning is process 1's.
    let last_words =
        || log.lines.iter().rev().find(|line| line.stamp.is_some() && user_space::frees_init(log.text(line)));
    let follows = || {
        let last = last_words()?.number;
        log.lines.iter().find(|line| line.number > last && line.stamp.is_some())
    };
    let Some((line, stamp)) = program.or_else(follows).and_then(|line| Some((line, line.stamp?))) else { return };
    let since_freed = freed.and_then(|freed| log.lines[freed].stamp).map_or(Ns::ZERO, |freed| stamp - freed);
    let at = clock.to_ns(log_ticks(stamp));
    let text: String = log.text(line).chars().take(60).collect();
    let evidence = match program {
        Some(_) => format!("kernel log: “{text}”"),
        None => format!("kernel log: the first line after the kernel's own beginning is freed: “{text}”"),
    };
    boot.timeline.boundary(Phase::Process1, at, error(stamp).max(since_freed), &evidence);
    boot.is_start_of_process_1_unknown = true;
    // Initcalls are process 1's, too: where they are known, so is its track.
    let has_initcalls = boot.timeline.spans.iter().any(|(_, span)| span.kind == SpanKind::Initcall);
    if boot.init.is_none() && !has_initcalls {
        let first = boot.first_thread();
        let name = boot.timeline.names.intern("init");
        let init = boot.timeline.tracks.add(name, TrackKind::Thread, 1);
        boot.timeline.tracks.get_mut(init).created = Some((at, first));
        boot.init = Some(init);
    }
}

/// `[Sat Nov 21 07:17:05 2026] text`, as `dmesg -T` prints it.
fn has_date(text: &[u8]) -> bool {
    const DAYS: [&[u8]; 7] = [b"[Mon ", b"[Tue ", b"[Wed ", b"[Thu ", b"[Fri ", b"[Sat ", b"[Sun "];
    DAYS.iter().any(|day| text.starts_with(day)) && text.get(25) == Some(&b']')
}

/// A stamp of printk's behind those of a logger: within the first bytes of the line.
fn has_kernel_stamp(text: &[u8]) -> bool {
    const LOOKED_AT: usize = 80;
    let start = &text[..text.len().min(LOOKED_AT)];
    memchr::memchr_iter(b'[', start).skip_while(|&at| at == 0).any(|at| Prefix::strip(&text[at..]).0.stamped)
}

/// What only a kernel says, for logs without any stamps.
fn is_kernel_message(text: &[u8]) -> bool {
    if text.starts_with(b"calling  ") || text.starts_with(b"Linux version ") {
        return true;
    }
    text.starts_with(b"initcall ") && memchr::memmem::find(text, b" returned ").is_some()
}
