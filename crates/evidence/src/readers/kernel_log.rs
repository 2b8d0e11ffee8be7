//! The kernel's messages as evidence of a boot: marks, initcalls where the kernel printed them, and the phases they tell.

mod arrivals;
mod boundaries;
mod ends;
mod lines;
mod loader;
mod loader_steps;
mod places;
mod speakers;

use crate::boot::arch;
use crate::boot::clocks;
use crate::boot::clocks::log_ticks;
use crate::boot::offers::{Offers, Stamped, StampedText};
use crate::boot::regions::Stage;
use crate::boot::subject::Subject;
use crate::boot::{Found, Placing};
use crate::formats::firmware::TRACK;
use crate::formats::kernel_log::{GRABSERIAL, KernelLog, Line, LoaderStamps, Loggers, Prefix, dmesg_json, kmsg_record};
use crate::formats::systemd_words as systemd;
use crate::formats::{initcalls, journal, linux_words, other_kernels};
use crate::input::index::Index;
use crate::input::{File, Input, is_imported, text};
use crate::readers::android_words;
use crate::readers::before_kernel::BeforeKernel;
use crate::readers::kernel_log::arrivals::Arrivals;
use crate::readers::kernel_log::places::Places;
use crate::readers::reader::{EndCandidate, Evidence, Own, Reader};
use hashbrown::HashMap;
use std::rc::Rc;
use timeline::{
    Clock, DiagnosticKind, Diagnostics, FileLoss, Mark, Ns, Os, RateSource, SpanKind, Ticks, Timeline, TrackKind,
    Unplaced, Warning,
};

/// The console is used if there is no other log. It also has the times at which messages arrived. The first of the
/// other logs counts: the kernel's own records, the records out of its memory, an imported log.
#[derive(Default)]
pub(crate) struct Files {
    console: Option<Input>,
    logs: Vec<Rc<File>>,
}

/// The files of a recording of our own that have the kernel's messages, the best first.
pub(crate) const FILES: [&str; 3] = ["kmsg.log", "kmsg-memory.log", "console.log"];

/// The advice for a plain log.
const NEXT_TIME: &str = "for functions in place of gaps, boot with `initcall_debug printk.time=1 log_buf_len=16M`, or run \
     `bootscope capture` on the machine after its boot";

const WITHOUT_TIMES: &str = "messages of a kernel, firmware or a boot loader without times: stamp each line of the console \
     (`grabserial -t`, `ts`), or let the kernel do it (Linux: printk.time=1)";

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

    fn is_whole(&self, bytes: &[u8]) -> Option<String> {
        dmesg_json::begins(bytes).then(|| "kernel log (dmesg --json)".to_owned())
    }

    fn is_line(&self, line: text::Line<'_>) -> Option<usize> {
        let text = line.bytes;
        match text.first()? {
            b'[' | b'<' if Prefix::strip(text).0.stamped => Some(0),
            b'[' if lines::has_date(text) => Some(0),
            b'0'..=b'9' if kmsg_record(text).is_some() => Some(1),
            _ => None,
        }
    }

    /// Loggers put their stamps before each line, and then only they know what is behind them.
    fn may_be_line(&self, line: text::Line<'_>) -> Option<usize> {
        let text = lines::behind_origin(line.bytes).unwrap_or(line.bytes);
        (lines::has_kernel_stamp(line.bytes) || lines::is_kernel_message(text) || Loggers::is_own_line(line.bytes))
            .then_some(0)
    }

    /// A capture without a line of the kernel's: a console that is quiet, or a board that runs something else.
    fn may_be_whole(&self, bytes: &[u8]) -> Option<String> {
        let loggers = Loggers::detect(bytes);
        let lines = || text::Lines::new(bytes).map(|line| loggers.without_stamp(line.bytes));
        let is_of_a_boot = || {
            let mut lines = lines().map(text::lossy_start);
            lines.any(|line| speakers::of(&line).is_some() || lines::speaks(&line))
        };
        let what = match loggers.name() {
            Some(logger) if logger == GRABSERIAL || is_of_a_boot() => format!("capture of a serial line by {logger}"),
            _ if LoaderStamps::detect(bytes, &loggers).is_any() => "log of firmware or a boot loader".to_owned(),
            _ => return None,
        };
        Some(format!("{what} ({} lines)", lines().filter(|line| !line.trim_ascii().is_empty()).count()))
    }

    fn without_times(&self, bytes: &[u8]) -> Option<&'static str> {
        let lines = || text::Lines::new(bytes).map(|line| text::lossy_start(line.bytes));
        let other = lines().find_map(|line| other_kernels::without_times(&line));
        other.or_else(|| lines().any(|line| lines::speaks(&line)).then_some(WITHOUT_TIMES))
    }

    fn has_times(&self, bytes: &[u8]) -> bool {
        lines::have_times(bytes)
    }

    fn next_time(&self, bytes: &[u8]) -> Option<&'static str> {
        let has_initcalls = memchr::memmem::find(bytes, b"initcall ").is_some();
        let is_linux =
            text::Lines::new(bytes).any(|line| linux_words::says(&text::lossy_start(Prefix::strip(line.bytes).1)));
        (is_linux && !has_initcalls).then_some(NEXT_TIME)
    }

    fn add(&mut self, own: Option<usize>, mut input: Input, diagnostics: &mut Diagnostics) {
        if own.is_none() && dmesg_json::begins(&input.file.bytes) {
            let name = input.file.name.clone();
            let bytes = dmesg_json::records(&name, &input.file.bytes, diagnostics);
            input.file = Rc::new(File { name, bytes: bytes.into() });
        }
        match own {
            Some(CONSOLE) => self.console = Some(input),
            _ => self.logs.push(input.file),
        }
    }

    fn has_boot(&self) -> bool {
        !self.logs.is_empty()
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let diagnostics = &mut timeline.diagnostics;
        let heard = found.heard_messages.take();
        if heard.is_some() {
            self.logs
                .iter()
                .for_each(|unused| diagnostics.note(DiagnosticKind::KernelLogBesideLibguestfs, || unused.name.clone()));
        }
        let journal = found.journal_messages.take();
        let is_board = found.board_error().is_some();
        let diagnostics = &mut timeline.diagnostics;
        let (fullest, mut before) = match heard {
            Some(_) => (None, Vec::new()),
            None => fullest(&self.logs, found.manifest.boot, diagnostics),
        };
        let log = heard.or(fullest).or(journal);
        let read_console = |console: &'f Input| {
            let log = match is_board {
                true => KernelLog::read_line(&console.file.name, &console.file.bytes, diagnostics).ok()?,
                false => read(&console.file, None, diagnostics)?.1,
            };
            Some(Heard { kernel: loader::kernel_line(&log), log, file: &console.file, index: &console.index })
        };
        let console = self.console.as_ref().and_then(read_console);
        if let Some(heard) = console.as_ref().filter(|_| found.is_hosted()) {
            *found.firmware_spoke |= heard.log.lines.first().map(|line| line.number) < heard.kernel;
        }
        let diagnostics = &mut timeline.diagnostics;
        before.extend(log.iter().filter_map(|(file, log)| loaders(file, log, diagnostics)));
        let logs = log.iter().map(|(_, log)| log).chain(console.as_ref().map(|heard| &heard.log));
        logs.for_each(|log| whose(log, &mut found.subject));
        let index = self.console.as_ref().map(|console| &console.index);
        let is_any = log.is_some() || index.is_some();
        is_any.then(|| -> Box<dyn Evidence + 'f> { Box::new(Messages { log, console, index, before }) })
    }
}

/// A log with its file's name.
type NamedLog = (String, KernelLog);

/// The log with the most stamped messages, the first of equals; and what the others say of the time before the kernel.
fn fullest<'e>(
    files: &[Rc<File>],
    boot: Option<i32>,
    diagnostics: &mut Diagnostics,
) -> (Option<NamedLog>, Vec<Box<dyn Evidence + 'e>>) {
    let [first, further @ ..] = files else { return (None, Vec::new()) };
    if further.is_empty() {
        return (read(first, boot, diagnostics), Vec::new());
    }
    let read_each = |file: &Rc<File>| {
        let mut own = Diagnostics::default();
        Some((read(file, boot, &mut own)?, own))
    };
    let mut logs: Vec<(NamedLog, Diagnostics)> = files.iter().filter_map(read_each).collect();
    let stamped = |log: &KernelLog| log.lines.iter().filter(|line| line.stamp.is_some()).count();
    // The last of the largest is the first one in the reversed order.
    let place = (0..logs.len()).rev().max_by_key(|&place| stamped(&logs[place].0.1));
    let chosen = place.map(|place| logs.remove(place));
    let mut before = Vec::new();
    for ((name, log), _) in &logs {
        match loaders(name, log, diagnostics) {
            Some(loaders) => before.push(loaders),
            None => diagnostics.note(DiagnosticKind::SecondKernelLog, || name.clone()),
        }
    }
    let log = chosen.map(|(log, own)| {
        diagnostics.extend(own);
        log
    });
    (log, before)
}

/// Notes in `subject` the system that wrote a log, its release (except Linux's), its CPUs and its command line, if they are
/// not known yet.
fn whose(log: &KernelLog, subject: &mut Subject) {
    let mut lines = log.lines.iter();
    if !subject.os.is_known() && lines.any(|line| line.seq.is_some() || linux_words::says(log.text(line))) {
        subject.os = Os::Linux;
    }
    if !subject.os.is_known() {
        subject.os = log.lines.iter().find_map(|line| other_kernels::system(log.text(line))).unwrap_or_default();
    }
    if subject.kernel.is_empty() && subject.os.is_known() {
        let release = |text| match subject.os {
            Os::Linux => linux_words::release(text).map(str::to_owned),
            _ => other_kernels::release(&subject.os, text),
        };
        subject.kernel = log.lines.iter().find_map(|line| release(log.text(line))).unwrap_or_default();
    }
    if subject.command_line.is_none() {
        subject.command_line =
            log.lines.iter().find_map(|line| linux_words::command_line(log.text(line))).map(str::to_owned);
    }
    if subject.cpus == 0 && subject.os == Os::Linux {
        subject.cpus = log.lines.iter().find_map(|line| linux_words::cpus(log.text(line))).unwrap_or_default();
    }
}

fn read(file: &File, boot: Option<i32>, diagnostics: &mut Diagnostics) -> Option<(String, KernelLog)> {
    if file.bytes.trim_ascii().is_empty() {
        return None;
    }
    let log = match is_imported(&file.name) {
        true => KernelLog::read_boot(&file.name, &file.bytes, boot, diagnostics),
        false => KernelLog::read(&file.name, &file.bytes, diagnostics),
    };
    let mut log = log.ok()?;
    // Whole seconds of the wall clock say less than the lengths in such a text.
    if journal::is_dated(&file.bytes) {
        log.forget_host_stamps();
    }
    Some((file.name.clone(), log))
}

struct Messages<'f> {
    /// The log that counts, and the name of its file.
    log: Option<(String, KernelLog)>,
    /// The console, if there are messages on it.
    console: Option<Heard<'f>>,
    index: Option<&'f Index>,
    /// The accounts of what ran before the kernel, by its own stamps.
    before: Vec<Box<dyn Evidence + 'f>>,
}

/// The steps that a log has before the kernel, where the programs there stamped them and no logger did.
fn loaders<'e>(file: &str, log: &KernelLog, diagnostics: &mut Diagnostics) -> Option<Box<dyn Evidence + 'e>> {
    let stamped_by_host = log.lines.iter().any(|line| line.loader_stamp.is_some() && line.host_stamp.is_some());
    if stamped_by_host {
        return None;
    }
    let kernel = loader::kernel_line(log).unwrap_or(u32::MAX);
    BeforeKernel::of(loader_steps::steps(file, log, kernel, diagnostics)?)
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
    /// That number, if the lines before it are those of firmware and loaders. It is `None` where firmware prints to a port of its
    /// own, and in a deterministic boot, in which the arrival of a line is no time.
    fn follows_others(&self, boot: &Placing<'_>) -> Option<u32> {
        self.kernel.filter(|_| boot.is_hosted() && !*boot.firmware_has_port)
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
        self.before.iter().for_each(|before| before.offer(offers));
    }

    fn place(&mut self, boot: &mut Placing<'_>) {
        let arrivals = match (&self.log, &self.console) {
            _ if boot.is_virtual() => Arrivals::Unknown,
            (Some(_), Some(Heard { log, index, .. })) => Arrivals::by_text(log, index),
            (None, Some(Heard { index, .. })) => Arrivals::ByOffset(index),
            (_, None) => Arrivals::Unknown,
        };
        let (file, log, from) = match (&self.log, &self.console) {
            (Some((file, log)), _) => (file.as_str(), log, self.kernel_after_others(boot)),
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
        boot.stamp_resolution = log.resolution();
        boot.logger_error = if is_pasted(boot) { log.logger_resolution() } else { Ns::ZERO };
        let clock = boot.clocks.printk.clone();
        let places = Places { log, arrivals: &arrivals, clock: clock.as_ref(), is_imported: is_pasted(boot) };
        messages(file, &places, from.unwrap_or_default(), boot);
        boundaries::place(&places, from.unwrap_or_default(), boot);
        if let Some(heard) = self.console.as_ref().filter(|_| boot.board_error().is_some()) {
            heard.kernel.into_iter().for_each(|kernel| loader::kernel_heard(&heard.log, heard.index, kernel, boot));
        }
        if let Some(heard) = self.console.as_ref().filter(|_| boot.is_hosted()) {
            let error = boot.arrival_error();
            let arrival = |line: &Line| heard.index.arrival(line.offset).filter(|_| line.stamp.is_none());
            boundaries::login_prompt(&heard.log, &arrival, error, &mut boot.timeline);
        }
    }

    fn phases(&mut self, boot: &mut Placing<'_>) {
        self.before.iter_mut().for_each(|before| before.phases(boot));
    }

    fn around(&mut self, boot: &mut Placing<'_>) {
        self.before.iter_mut().for_each(|before| before.around(boot));
        if let Some((heard, kernel)) =
            self.console.as_ref().and_then(|heard| Some((heard, heard.follows_others(boot)?)))
        {
            let stages = loader::stages_of(&heard.log, (heard.file, heard.index), kernel, boot);
            let arrival = |line: &Line| heard.index.arrival(line.offset);
            loader::place(&heard.log, (TRACK, &arrival), stages, kernel, boot);
        }
        if let (Some((_, log)), Some(kernel)) = (&self.log, self.kernel_after_others(boot)) {
            loader::place_imported(log, kernel, boot);
        }
    }

    fn end(&self, boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let imported = self.log.as_ref().filter(|_| is_pasted(boot));
        let done = imported.and_then(|(_, log)| {
            let clock = boot.clocks.printk.clone();
            let places = Places { log, arrivals: &Arrivals::Unknown, clock: clock.as_ref(), is_imported: true };
            ends::find(&places, boot)
        });
        done.or_else(|| self.before.iter().find_map(|before| before.end(boot)))
    }

    fn last_sign(&self, boot: &Placing<'_>) -> Option<Ns> {
        let index = self.index.filter(|_| boot.is_hosted())?;
        index.iter().last().map(|(_, at)| at)
    }
}

impl Messages<'_> {
    /// The number of the kernel's first line in an imported log, where programs before the kernel have lines with stamps.
    fn kernel_after_others(&self, boot: &Placing<'_>) -> Option<u32> {
        let (_, log) = self.log.as_ref().filter(|_| is_pasted(boot))?;
        let kernel = loader::kernel_line(log).or_else(|| loader::is_all_there_is(log).then_some(u32::MAX))?;
        let before = || log.lines.iter().take_while(|line| line.number < kernel);
        // A line that is not known to be of firmware or a loader may be of the monitor of a virtual machine.
        let is_known =
            || log.earlier.is_some() || before().any(|line| speakers::runs_before_the_kernel(log.text(line)));
        let is_stamped =
            before().any(|line| line.loader_stamp.is_some()) || before().any(|l| l.host_stamp.is_some()) && is_known();
        is_stamped.then_some(kernel)
    }
}

/// True if a log was taken elsewhere, and no recorder of a whole boot has its lines.
fn is_pasted(boot: &Placing<'_>) -> bool {
    boot.is_imported() && !*boot.is_heard
}

/// printk's clock where only its own stamps are known, and that a deterministic boot's.
fn printk_alone(boot: &mut Placing<'_>) -> Clock {
    let kernel = boot.stages.iter().find(|region| region.stage == Stage::EarlyKernel).map(|region| region.at);
    if kernel.is_none() {
        boot.timeline.diagnostics.note(DiagnosticKind::LogStartUnknown, String::new);
    }
    clocks::printk_alone(kernel.unwrap_or(Ns::ZERO))
}

/// Messages become marks, from the line of that number on; initcalls that the kernel printed become spans where nothing else has
/// them.
fn messages(file: &str, places: &Places<'_>, from: u32, boot: &mut Placing<'_>) {
    let log = places.log;
    let place = |line: &Line| places.at(line);
    let timeline = &mut boot.timeline;
    let traced = timeline.spans.iter().any(|(_, s)| s.kind == SpanKind::Initcall);
    let name = timeline.names.intern("kernel log");
    let track = timeline.tracks.named(name, TrackKind::Console);
    let before_kernel = log.lines.iter().take_while(|line| line.stamp.is_none() && !line.before_clock);
    let mut unstamped = speakers::Unstamped::new(before_kernel.map(|line| log.text(line)));
    let mut before_clock = 0;
    // The job that ran longest by lines without times.
    let mut job: Option<(Ns, &str)> = None;
    // A hypervisor goes on printing beside the kernel.
    for line in log.lines.iter().filter(|line| line.number >= from && line.loader_stamp.is_none()) {
        let place_in_file = || format!("{file}:{}", line.number);
        let Some(at) = place(line) else {
            match unstamped.of(log.text(line)).filter(|_| !line.before_clock) {
                Some(speaker) => timeline.diagnostics.note_about(DiagnosticKind::LinesOfOthers, speaker, place_in_file),
                None => timeline.diagnostics.note(DiagnosticKind::MessagesWithoutStamp, place_in_file),
            }
            job = job.max(linux_words::user_space::running_job(log.text(line)).map(|(job, ran)| (ran, job)));
            let name = timeline.names.intern(log.text(line));
            timeline.unplaced.push(Unplaced { name, before: None });
            continue;
        };
        if line.stamp.is_some() || line.before_clock {
            unstamped.kernel_spoke();
        }
        let before = timeline.unplaced.iter_mut().rev().take_while(|message| message.before.is_none());
        before.for_each(|message| message.before = Some(at));
        // A logger's stamp is as good as an arrival that was recorded.
        if line.stamp.is_none() && !(places.is_imported && (line.before_clock || line.host_stamp.is_some())) {
            timeline.diagnostics.note(DiagnosticKind::MessagesPlacedByArrival, place_in_file);
        }
        before_clock += u32::from(line.before_clock && line.host_stamp.is_none());
        if before_clock == 2 {
            boot.clock_stood_at = Some(at);
        }
        let name = timeline.names.intern(log.text(line));
        timeline.marks.push(Mark { at, name, track });
    }
    if let Some((at_least, job)) = job {
        timeline.warnings.push(Warning::JobWithoutTime { job: job.to_owned(), at_least });
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
    boot.are_levels_logged = !found.levels.is_empty();
    if !found.is_empty() {
        found.build(timeline);
    }
}
