//! Watching one boot: what is heard goes into the recording, and is looked at for how the boot goes.
//!
//! One thread, one loop: hear (for a moment at most), act on what was heard, decide whether it is over. Hearing only
//! notes facts; acting and asking happen between. Nothing here decides what an end *means*: see [`crate::ending`].

use std::collections::VecDeque;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use guest_init::port::{Heard as Said, PortReader};
use guest_init::round::Chunk;
use guest_init::words::Word;
use recording::{End, Stream, Writer};
use regex::bytes::Regex;

use crate::Error;
use crate::cpu_time::CpuTimes;
use crate::hang::{Hang, HangDetector, Movement, Now, disk_requests, stands};
use crate::homecoming::Homecoming;
use crate::launch::Vm;
use crate::lines::{Line, Lines, shown};
use crate::linker::Linker;
use crate::listen::{Heard, Source};
use crate::memory::{EventLog, EventLogPlace, GuestRam, Hurried, KernelLog, LogProbe, ram_extents};
use crate::monitor::News;
use crate::options::RecordOptions;

/// How long nothing may be heard before other things are looked after.
const TICK: Duration = Duration::from_millis(50);
/// How long QEMU may take to answer.
const ANSWER_NS: i64 = 5_000_000_000;
/// After Ctrl-C each last step may take so long: a search of memory, an answer of QEMU's, its end. All are over in 0.3 s.
const HURRY: Duration = Duration::from_nanos(HURRY_NS as u64);
const HURRY_NS: i64 = 40_000_000;
/// How often the machine is looked at for a hang.
const LOOK_NS: i64 = 1_000_000_000;
/// How soon memory is searched for a kernel log again: by how long the last search took, within these.
const FIND_NS: std::ops::RangeInclusive<i64> = 100_000_000..=LOOK_NS;
/// A search may take one part in five of a host CPU.
const FIND_REST: i64 = 4;
/// How late what is heard is stamped, at most, on a host that is not overloaded.
pub(crate) const ARRIVAL_ERROR_NS: i64 = 1_000_000;
/// The line that names a panic, of every Linux there is.
const PANIC: &[u8] = b"Kernel panic - not syncing";
const PANIC_END: &[u8] = b"end Kernel panic";

/// Something that was seen, and when, in ns since time zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) at_ns: i64,
    pub(crate) what: String,
}

/// What is known of the boot so far. Times are ns since time zero.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) greeting_ns: Option<i64>,
    pub(crate) complete_ns: Option<i64>,
    pub(crate) running_ns: Option<i64>,
    /// Process 1 is guest-init, and runs.
    pub(crate) init_ns: Option<i64>,
    /// guest-init is done.
    pub(crate) guest_done: Option<Seen>,
    /// The line that was waited for.
    pub(crate) matched: Option<End>,
    /// Its end is not printed yet.
    pub(crate) matched_line_open: bool,
    pub(crate) panic: Option<Seen>,
    /// The panic's last line was printed.
    pub(crate) panic_over: bool,
    pub(crate) shutdown: Option<Seen>,
    pub(crate) hang: Option<Hang>,
    /// QEMU has ended by itself.
    pub(crate) gone: bool,
    /// Why the root could not be mounted.
    pub(crate) no_root: Option<String>,
    /// Why the workload was not done.
    pub(crate) no_workload: Option<String>,
    /// When anything was heard last.
    pub(crate) heard_ns: i64,
    pub(crate) console_bytes: u64,
    pub(crate) last_line: String,
    /// The end of what QEMU itself said.
    pub(crate) vmm_said: VecDeque<String>,
    /// Lines on guest-init's port that were none of its words.
    pub(crate) strange_words: u64,
}

/// One boot that is being watched.
pub(crate) struct Watch<'a> {
    pub(crate) vm: Vm,
    pub(crate) facts: Facts,
    pub(crate) home: Homecoming,
    pub(crate) writer: &'a mut Writer,
    streams: Streams,
    console: Lines,
    vmm: Lines,
    port: PortReader,
    /// When the first byte of guest-init's present line came.
    word_ns: Option<i64>,
    rounds: VecDeque<u64>,
    chunks: Vec<(Chunk, Vec<u8>)>,
    until: Option<Regex>,
    hang: HangDetector,
    next_look_ns: i64,
    has_disks: bool,
    layout: Layout,
    /// Whether somebody waits for the end.
    hurried: bool,
    log: LogWatch,
}

struct Streams {
    console: Stream,
    guest: Option<Stream>,
    vmm: Stream,
    firmware: Option<Stream>,
}

/// Where guest RAM lies in its file: not asked yet, asked under this number, or settled.
enum Layout {
    Unknown,
    Asked(u64),
    Known(GuestRam),
    Impossible,
}

/// The kernel log in memory, while the guest runs.
#[derive(Default)]
struct LogWatch {
    probe: Option<LogProbe>,
    /// Where a recorder inside the kernel keeps its events, once a hang was suspected.
    events: Option<EventLogPlace>,
    looks: Looks,
    /// Records below this were looked at.
    looked_below: u64,
    next_find_ns: i64,
}

/// Since when which records were there: what a look at the newest number tells about every record.
#[derive(Debug, Default)]
struct Looks {
    newest: Option<u64>,
    /// The last look.
    last_ns: i64,
    /// The last look at which the newest of now was not there yet.
    before_ns: i64,
}

impl Looks {
    /// Notes a look that was begun at `at_ns`.
    fn note(&mut self, at_ns: i64, newest: Option<u64>) {
        if newest != self.newest {
            self.newest = newest;
            self.before_ns = self.last_ns;
        }
        self.last_ns = at_ns;
    }

    /// The last look at which this record, which is new, was not there; the start, if there was none.
    fn absent_ns(&self, seq: u64) -> i64 {
        if self.newest.is_none_or(|newest| seq > newest) { self.last_ns } else { self.before_ns }
    }
}

impl<'a> Watch<'a> {
    /// Begins to watch. `until` is the pattern of the end mark where that is a line.
    pub(crate) fn new(
        options: &RecordOptions,
        until: Option<Regex>,
        vm: Vm,
        writer: &'a mut Writer,
    ) -> Result<Self, Error> {
        let max = options.observe.stream_bytes_max;
        let hang_after_ms = options.observe.hang_after_ms.saturating_add(crate::lab::quiet_ms(&options.guest));
        let streams = Streams {
            console: writer.stream("console", "the serial console", max)?,
            guest: options
                .guest
                .has_guest_init()
                .then(|| writer.stream("guest", "guest-init's words on port 0xe9", max))
                .transpose()?,
            vmm: writer.stream("vmm", "QEMU's standard output and error", max)?,
            firmware: options
                .observe
                .firmware_log
                .then(|| writer.stream("firmware", "the firmware's debug port 0x402", max))
                .transpose()?,
        };
        Ok(Watch {
            vm,
            facts: Facts::default(),
            home: Homecoming::new(),
            writer,
            streams,
            console: Lines::default(),
            vmm: Lines::default(),
            port: PortReader::new(),
            word_ns: None,
            rounds: VecDeque::new(),
            chunks: Vec::new(),
            until,
            hang: HangDetector::new(hang_after_ms, options.guest.deterministic),
            next_look_ns: 0,
            has_disks: options.guest.kernel.is_none()
                || !options.guest.disks.is_empty()
                || options.guest.root.is_some()
                || !options.guest.extra.is_empty(),
            layout: Layout::Unknown,
            hurried: false,
            log: LogWatch { next_find_ns: *FIND_NS.start(), ..LogWatch::default() },
        })
    }

    /// Hears for a moment, and acts on what was heard.
    pub(crate) fn step(&mut self) -> Result<(), Error> {
        self.hear(TICK)?;
        while let Some(phys) = self.rounds.pop_front() {
            self.take_round(phys)?;
        }
        for (chunk, bytes) in std::mem::take(&mut self.chunks) {
            self.home.take_chunk(&chunk, &bytes, self.writer)?;
        }
        Ok(())
    }

    /// Looks at the kernel log and the CPUs where the console alone does not tell.
    pub(crate) fn look(&mut self) -> Result<(), Error> {
        if self.facts.gone
            || self.facts.shutdown.is_some()
            || self.facts.init_ns.is_some() && self.facts.guest_done.is_none()
        {
            return Ok(());
        }
        let now = self.vm.elapsed_ns();
        if self.until.is_some() && self.facts.matched.is_none() {
            self.look_for_line(now)?;
        }
        if now >= self.next_look_ns {
            self.next_look_ns = now + LOOK_NS;
            let now = Now { ns: now, cpu: CpuTimes::of(self.vm.pid()) };
            if self.hang.doubtful(&now, self.bytes_heard()) {
                self.look_for_hang(&now)?;
            }
        }
        Ok(())
    }

    /// Reads the kernel log out of memory; or why it cannot be.
    pub(crate) fn kernel_log(&mut self) -> Result<Result<KernelLog, String>, Error> {
        let hurried_until = self.hurried_until();
        let Some(ram) = self.ram()? else {
            return Ok(Err("QEMU could not say where guest memory lies".to_owned()));
        };
        let log = match hurried_until {
            Some(until) => crate::memory::kernel_log(&Hurried { memory: ram, until }),
            None => crate::memory::kernel_log(ram),
        };
        Ok(log.map_err(|error| error.to_string()))
    }

    /// Reads the event log out of memory, if the guest keeps one.
    pub(crate) fn event_log(&mut self) -> Result<Option<EventLog>, Error> {
        let hurried_until = self.hurried_until();
        Ok(self.ram()?.and_then(|ram| match hurried_until {
            Some(until) => crate::memory::event_log(&Hurried { memory: ram, until }),
            None => crate::memory::event_log(ram),
        }))
    }

    /// The user waits for the end: what can still be had at once is taken, and no more.
    pub(crate) fn hurry(&mut self) {
        self.hurried = true;
    }

    /// Until when memory may be read, if there is an end to that.
    fn hurried_until(&self) -> Option<Instant> {
        self.hurried.then(|| Instant::now() + HURRY)
    }

    /// Asks QEMU's human monitor, and waits for the answer while hearing on.
    pub(crate) fn ask(&mut self, command: &str) -> Result<Option<String>, Error> {
        if self.facts.gone {
            return Ok(None);
        }
        let Ok(id) = self.vm.monitor.ask(command) else {
            return Ok(None);
        };
        self.wait_for_answer(id)
    }

    /// Ends QEMU, hears what it still says, and closes the streams; at once if writing has `failed` already.
    pub(crate) fn finish(mut self, failed: Option<Error>) -> Finished<'a> {
        let mut notes = Vec::new();
        let failed = failed.or_else(|| self.let_end().err());
        self.vm.kill();
        notes.extend(self.home.notes());
        if self.facts.strange_words > 0 {
            notes.push(format!("{} lines on guest-init's port were not its words", self.facts.strange_words));
        }
        let mut finished = Finished { vm: self.vm, facts: self.facts, writer: self.writer, notes, failed };
        let Streams { console, guest, vmm, firmware } = self.streams;
        let always = [("console", console), ("vmm", vmm)].into_iter();
        let optional = [("guest", guest), ("firmware", firmware)].into_iter();
        let optional = optional.filter_map(|(name, stream)| Some((name, stream?)));
        let why = if finished.failed.is_none() { "were too many to keep" } else { "could not be written" };
        for (name, stream) in always.chain(optional) {
            let dropped = finished.keep(stream.finish()).unwrap_or_default().dropped_bytes;
            if dropped > 0 {
                let note = format!("{name}.log: {dropped} bytes between its start and its end {why}");
                finished.notes.push(note);
            }
        }
        finished
    }

    /// Asks QEMU to end, kills it if it does not, and hears it out.
    fn let_end(&mut self) -> Result<(), Error> {
        let asked = self.vm.monitor.quit().is_ok();
        let patience_ns = if self.hurried { HURRY_NS } else { 3_000_000_000 };
        self.hear_out(if asked { patience_ns } else { 0 })?;
        self.vm.kill();
        self.hear_out(2_000_000_000)
    }

    fn hear_out(&mut self, patience_ns: i64) -> Result<(), Error> {
        let deadline = self.vm.elapsed_ns() + patience_ns;
        while !self.facts.gone && self.vm.elapsed_ns() < deadline {
            self.hear(TICK)?;
        }
        Ok(())
    }

    /// What was said on all ports, and what the plugin has noted.
    fn bytes_heard(&self) -> u64 {
        let s = &self.streams;
        let optional = s.guest.iter().chain(&s.firmware).map(Stream::total_bytes).sum::<u64>();
        let first_run = self.vm.first_run.as_ref().and_then(|file| file.metadata().ok());
        s.console.total_bytes() + s.vmm.total_bytes() + optional + first_run.map_or(0, |meta| meta.len())
    }

    fn hear(&mut self, patience: Duration) -> Result<(), Error> {
        match self.vm.heard.recv_timeout(patience) {
            Ok(heard) => self.take(heard),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                self.facts.gone = true;
                Ok(())
            }
        }
    }

    fn take(&mut self, heard: Heard) -> Result<(), Error> {
        let at_ns = heard.at_ns - self.vm.zero.ns;
        let bytes = &heard.bytes;
        if heard.source != Source::Monitor {
            self.facts.heard_ns = at_ns;
        }
        match heard.source {
            Source::Console => {
                self.streams.console.append(bytes, at_ns)?;
                self.take_console(bytes, at_ns);
            }
            Source::Firmware => {
                if let Some(firmware) = &mut self.streams.firmware {
                    firmware.append(bytes, at_ns)?;
                }
            }
            Source::Vmm => {
                self.streams.vmm.append(bytes, at_ns)?;
                self.take_vmm(bytes);
            }
            Source::Guest => self.take_words(bytes, at_ns)?,
            Source::Monitor => {
                for news in self.vm.monitor.feed(bytes) {
                    self.take_news(news, at_ns);
                }
            }
        }
        Ok(())
    }

    fn take_console(&mut self, bytes: &[u8], at_ns: i64) {
        let facts = &mut self.facts;
        facts.console_bytes += bytes.len() as u64;
        let until = &self.until;
        self.console.feed(bytes, &mut |line| {
            note_panic(facts, &line, at_ns);
            match &mut facts.matched {
                None if until.as_ref().is_some_and(|pattern| pattern.is_match(line.text)) => {
                    let error_ns = Some(ARRIVAL_ERROR_NS);
                    facts.matched = Some(End { what: shown(line.text, 200), at_ns, error_ns, printk_ns: None });
                    facts.matched_line_open = !line.whole;
                }
                Some(end) if facts.matched_line_open => {
                    end.what = shown(line.text, 200);
                    facts.matched_line_open = !line.whole;
                }
                _ => {}
            }
            if line.text.iter().any(|b| !b.is_ascii_whitespace()) {
                facts.last_line = shown(line.text, 200);
            }
        });
    }

    fn take_vmm(&mut self, bytes: &[u8]) {
        let said = &mut self.facts.vmm_said;
        self.vmm.feed(bytes, &mut |line| {
            if line.whole && !line.text.is_empty() {
                said.push_back(shown(line.text, 300));
                if said.len() > 5 {
                    said.pop_front();
                }
            }
        });
    }

    fn take_words(&mut self, bytes: &[u8], at_ns: i64) -> Result<(), Error> {
        let (mut words, mut kept) = (Vec::new(), Ok(()));
        let (stream, chunks, word_ns) = (&mut self.streams.guest, &mut self.chunks, &mut self.word_ns);
        let mut strange = 0;
        self.port.feed(bytes, &mut |said| match said {
            Said::Said(bytes) => {
                word_ns.get_or_insert(at_ns);
                if let (Some(stream), Ok(())) = (stream.as_mut(), &kept) {
                    kept = stream.append(bytes, at_ns);
                }
            }
            Said::Word(word) => words.push((word, word_ns.take().unwrap_or(at_ns))),
            Said::Strange(_) => {
                word_ns.take();
                strange += 1;
            }
            Said::Chunk(chunk, bytes) => {
                word_ns.take();
                chunks.push((chunk, bytes.to_vec()));
            }
        });
        kept?;
        self.facts.strange_words += strange;
        for (word, at_ns) in words {
            self.take_word(word, at_ns);
        }
        Ok(())
    }

    fn take_word(&mut self, word: Word, at_ns: i64) {
        match word {
            Word::Init { .. } => {
                self.facts.init_ns.get_or_insert(at_ns);
            }
            Word::Round { header_phys } => self.rounds.push_back(header_phys),
            Word::Lack { what, why } if what == "root" => drop(self.facts.no_root.get_or_insert(why)),
            Word::Lack { what, why } if what == "workload" => drop(self.facts.no_workload.get_or_insert(why)),
            Word::End { outcome } => {
                self.facts.guest_done.get_or_insert(Seen { at_ns, what: shown(outcome.as_bytes(), 200) });
            }
            _ => {}
        }
    }

    fn take_news(&mut self, news: News, at_ns: i64) {
        let facts = &mut self.facts;
        match news {
            News::Greeting => {
                facts.greeting_ns.get_or_insert(at_ns);
                self.vm.linker.as_mut().map(Linker::read);
            }
            News::Complete => drop(facts.complete_ns.get_or_insert(at_ns)),
            News::Running => {
                facts.running_ns.get_or_insert(at_ns);
                // The answer is needed when evidence comes home, and may be all there is to go by should QEMU die.
                self.ask_layout();
            }
            News::Shutdown { reason } => drop(facts.shutdown.get_or_insert(Seen { at_ns, what: reason })),
            News::Panicked => {
                let what = "the guest told QEMU that it panicked".to_owned();
                facts.panic.get_or_insert(Seen { at_ns, what });
            }
        }
    }

    fn take_round(&mut self, phys: u64) -> Result<(), Error> {
        if self.ram()?.is_none() {
            // The guest gets no answer, and takes the port when it has waited long enough.
            return Ok(());
        }
        if let Layout::Known(ram) = &self.layout {
            self.home.take_round(phys, ram, self.writer)?;
        }
        Ok(())
    }

    /// Guest RAM, if it is a file of ours and QEMU says where in it what lies.
    fn ram(&mut self) -> Result<Option<&GuestRam>, Error> {
        self.ask_layout();
        if let Layout::Asked(id) = self.layout {
            let file = self.vm.ram.as_ref().and_then(|file| file.try_clone().ok());
            let extents = self.wait_for_answer(id)?.and_then(|text| ram_extents(&text, "ram").ok());
            let ram = file.zip(extents).and_then(|(file, extents)| GuestRam::new(file, extents).ok());
            self.layout = ram.map_or(Layout::Impossible, Layout::Known);
        }
        Ok(match &self.layout {
            Layout::Known(ram) => Some(ram),
            _ => None,
        })
    }

    fn ask_layout(&mut self) {
        if matches!(self.layout, Layout::Unknown) && self.vm.ram.is_some() && !self.facts.gone {
            let asked = self.vm.monitor.ask("info mtree -f");
            self.layout = asked.map_or(Layout::Impossible, Layout::Asked);
        }
    }

    fn wait_for_answer(&mut self, id: u64) -> Result<Option<String>, Error> {
        let deadline = self.vm.elapsed_ns() + if self.hurried { HURRY_NS } else { ANSWER_NS };
        loop {
            if let Some(answer) = self.vm.monitor.answer(id) {
                return Ok(answer.ok());
            }
            if self.facts.gone || self.vm.elapsed_ns() > deadline {
                return Ok(None);
            }
            self.hear(TICK)?;
        }
    }

    /// Looks for the awaited line in the kernel log in memory: on a quiet console it never appears.
    fn look_for_line(&mut self, now: i64) -> Result<(), Error> {
        let probe = self.log.probe.take();
        if probe.is_none() && now < self.log.next_find_ns {
            return Ok(());
        }
        let (newest, looked_below) = (self.log.looks.newest, self.log.looked_below);
        let until = self.until.clone();
        let Some(ram) = self.ram()? else {
            return Ok(());
        };
        let Some(probe) = probe.or_else(|| LogProbe::find(ram).ok()) else {
            let done = self.vm.elapsed_ns();
            self.log.next_find_ns = done + (FIND_REST * (done - now)).clamp(*FIND_NS.start(), *FIND_NS.end());
            return Ok(());
        };
        let Ok(found) = probe.newest_seq(ram) else {
            return Ok(());
        };
        if found != newest {
            let records = probe.read(ram).map(|log| log.records).unwrap_or_default();
            let fresh = records.iter().filter(|record| record.seq >= looked_below);
            let is_it = |text: &[u8]| until.as_ref().is_some_and(|pattern| pattern.is_match(text));
            let hit = fresh.clone().find(|record| is_it(&record.text));
            if let Some(last) = records.last() {
                // The newest may still be being written: it is looked at again.
                self.log.looked_below = last.seq;
            }
            if let Some(record) = hit {
                let at_ns = self.vm.elapsed_ns();
                // 0 is no time: the kernel's clock did not run yet.
                let printk_ns = i64::try_from(record.ts_ns).ok().filter(|&ns| ns > 0);
                // The kernel's clock began after the machine did.
                let not_before_ns =
                    printk_ns.zip(self.facts.running_ns).map_or(0, |(ns, from)| from.saturating_add(ns));
                let after_ns = self.log.looks.absent_ns(record.seq).max(not_before_ns).min(at_ns);
                self.facts.matched = Some(End {
                    what: format!("{} (in the kernel log)", shown(&record.text, 200)),
                    at_ns,
                    error_ns: Some(at_ns - after_ns),
                    printk_ns,
                });
            }
        }
        self.log.looks.note(now, found);
        self.log.probe = Some(probe);
        Ok(())
    }

    fn look_for_hang(&mut self, now: &Now) -> Result<(), Error> {
        let mut movement = Movement { bytes: self.bytes_heard(), ..Movement::default() };
        let (probe, events) = (self.log.probe.take(), self.log.events);
        if let Some(ram) = self.ram()? {
            let probe = probe.or_else(|| LogProbe::find(ram).ok());
            movement.newest_record = probe.as_ref().and_then(|probe| probe.newest_seq(ram).ok()).flatten();
            if movement.newest_record.is_none() {
                let events = events.or_else(|| EventLogPlace::find(ram));
                movement.newest_record = events.and_then(|place| place.records(ram));
                self.log.events = events;
            }
            self.log.probe = probe;
        }
        if self.has_disks {
            movement.disk_requests = disk_requests(&self.ask("info blockstats")?.unwrap_or_default());
        }
        let registers = self.ask("info registers -a")?.unwrap_or_default();
        self.facts.hang = self.hang.look(now, movement, stands(&registers));
        Ok(())
    }
}

/// What is left of a boot that was watched.
pub(crate) struct Finished<'a> {
    pub(crate) vm: Vm,
    pub(crate) facts: Facts,
    pub(crate) writer: &'a mut Writer,
    /// What a reader should know, in sentences.
    pub(crate) notes: Vec<String>,
    /// What could not be written first.
    pub(crate) failed: Option<Error>,
}

impl Finished<'_> {
    /// Goes on where something cannot be written: what there is of the recording is finished all the same.
    pub(crate) fn keep<T, E: Into<Error>>(&mut self, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.failed.get_or_insert(error.into());
                None
            }
        }
    }
}

fn note_panic(facts: &mut Facts, line: &Line<'_>, at_ns: i64) {
    if !line.whole {
        return;
    }
    if facts.panic.is_none() && memchr::memmem::find(line.text, PANIC).is_some() {
        facts.panic = Some(Seen { at_ns, what: shown(line.text, 300) });
    }
    facts.panic_over |= memchr::memmem::find(line.text, PANIC_END).is_some();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_as_old_as_the_last_look_that_did_not_see_it() {
        let mut looks = Looks::default();
        assert_eq!(looks.absent_ns(7), 0, "it may have been there all the time");
        looks.note(100, Some(5));
        looks.note(200, Some(5));
        assert_eq!(looks.absent_ns(6), 200);
        looks.note(300, Some(6));
        looks.note(400, Some(6));
        // Seen as a number at 300, but its text only now.
        assert_eq!(looks.absent_ns(6), 200);
        assert_eq!(looks.absent_ns(9), 400);
    }
}
