//! Watches one boot: writes the machine's output into the recording, and follows the boot's progress in it.
//!
//! One thread runs one loop: receive output for a moment, act on it, and decide whether the boot is over. Receiving only notes
//! [`Facts`]. Actions and questions happen in between. This module must not decide what an end *means*: see [`crate::ending`].

mod facts;
mod firmware_images;
mod kernel_log;
mod limit;
mod messages;
mod process;
mod questions;
mod received;
mod service;
mod streams;
mod vcpu_stops;

use std::cell::RefCell;
use std::fs::File;
use std::time::{Duration, Instant};

use recording::{GuestSpec, Until, Writer};

pub(crate) use facts::{Facts, Seen, Shutdown, panicked};
pub(crate) use firmware_images::FILE as FIRMWARE_IMAGES;
use firmware_images::FirmwareImages;
use kernel_log::LogWatch;
use limit::Limit;
use messages::Messages;
use process::ProcessWatch;
use questions::{Layout, MAX_HURRIED_NS, MAX_LAST_EVIDENCE_NS};
use service::ServiceWatch;
pub(crate) use service::free_port;
use streams::Streams;
use vcpu_stops::stub;

use crate::awaited::{Awaited, Meaning};
use crate::functions::FunctionStops;
use crate::guest_channel::GuestChannel;
use crate::hang::{HangDetector, Now};
use crate::lines::Lines;
use crate::memory::{Limited, TaskList};
use crate::options::RecordOptions;
use crate::profile::GuestProfile;
use crate::refusal::{Text, Words};
use crate::stops::SilenceWatch;
use crate::transfer::EvidenceTransfer;
use crate::vmm::{Heard, Vmm};
use crate::{Error, Observer, Progress, Stage, arch};

/// Longest wait for output before other work is done.
const TICK: Duration = Duration::from_millis(50);
/// Longest wait for the end of a VMM that is requested to end. If the user waits, the limit is [`MAX_HURRIED_NS`].
const MAX_QUIT_NS: i64 = 3_000_000_000;
/// Longest wait for the last output of a VMM that was killed.
const MAX_LAST_OUTPUT_NS: i64 = 2_000_000_000;
/// The same, if the user waits.
const MAX_HURRIED_OUTPUT_NS: i64 = 300_000_000;
/// After this time without output from a guest that is off, its output is complete.
const COMPLETE_AFTER_NS: i64 = 20_000_000;
/// vCPUs that stop after their stub failed are resumed at most this number of times. If the VMM itself stops them, they stop again for
/// ever.
const MAX_RESUMES: u32 = 16;
/// While the recorder waits for a stop, at most this number of pieces is received between two checks for it.
const MAX_PIECES_PER_STEP: u32 = 256;
/// Time between two checks for a hang.
const LOOK_NS: i64 = 1_000_000_000;

/// A boot that is being watched.
pub(crate) struct Watch<'a> {
    pub(crate) vm: Box<dyn Vmm>,
    pub(crate) facts: Facts,
    pub(crate) transfer: EvidenceTransfer,
    pub(crate) writer: &'a mut Writer,
    streams: Streams,
    console: Lines,
    vmm: Lines,
    messages: Option<Messages>,
    /// The pattern of the end mark, if the end mark is a line.
    until: Option<Awaited>,
    /// The same for the kernel's log in memory.
    until_in_log: Option<Awaited>,
    hang: HangDetector,
    next_look_ns: i64,
    has_disks: bool,
    layout: Layout,
    /// Follows the boot for the user, and may stop it.
    observer: RefCell<&'a mut dyn Observer>,
    /// The deadline of all work: the boot's timeout, and once the boot is over, a while after its end.
    ends_ns: i64,
    /// True if the boot is over, and its last evidence is being read.
    is_over: bool,
    /// True if the user waits for the end of the last evidence.
    is_hurried: bool,
    /// True if the VMM has left a question unanswered.
    is_mute: bool,
    /// True if the time for the last evidence was up before all was read.
    is_cut: bool,
    log: LogWatch,
    /// The watch for the guest's service, if the end mark is a service.
    service: Option<ServiceWatch>,
    /// The watch for the guest's process, if the end mark is a process.
    process: Option<ProcessWatch>,
    /// The watch for UEFI programs in memory, if the guest has such firmware and its code is watched.
    firmware_images: Option<FirmwareImages>,
    /// Stops the vCPUs when the console is silent, if that was requested.
    silence: Option<SilenceWatch>,
    /// Stops the vCPUs at functions, for patches and watched variables.
    functions: Option<FunctionStops>,
    /// The number of times that the vCPUs were resumed since their stub failed. `None` while it has not failed.
    resume_count: Option<u32>,
    /// True if all output has been received.
    heard_out: bool,
}

impl<'a> Watch<'a> {
    /// Begins to watch. `until` is the pattern of the end mark, if the end mark is a line.
    pub(crate) fn new(
        options: &RecordOptions,
        profile: &GuestProfile,
        until: Option<Awaited>,
        channel: Option<Box<dyn GuestChannel>>,
        mut vm: Box<dyn Vmm>,
        writer: &'a mut Writer,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, Error> {
        let guest = &options.guest;
        let silence = options.observe.silence_ms.map(|after_ms| {
            let client = if guest.patches.is_empty() { stub(&mut *vm) } else { None };
            SilenceWatch::new(after_ms, client, arch::of(guest))
        });
        let hang_after_ms = options.observe.hang_after_ms.saturating_add(profile.quiet_ms);
        Ok(Watch {
            facts: Facts { vmm: vm.name(), arrival_error_ns: vm.arrival_error_ns(), ..Facts::default() },
            transfer: EvidenceTransfer::new(),
            streams: Streams::begin(
                options,
                observer.words(),
                vm.name(),
                options.firmware_port(),
                channel.as_deref(),
                writer,
            )?,
            vm,
            writer,
            console: Lines::default(),
            vmm: Lines::default(),
            messages: channel.map(Messages::new),
            until_in_log: until.clone(),
            until,
            hang: HangDetector::new(hang_after_ms, guest.deterministic, guest.target.is_board()),
            next_look_ns: 0,
            has_disks: guest.kernel.is_none()
                || !guest.disks.is_empty()
                || guest.root.is_some()
                || !guest.extra.is_empty(),
            layout: Layout::Unknown,
            observer: RefCell::new(observer),
            ends_ns: options.timeout_ns(),
            is_over: false,
            is_hurried: false,
            is_mute: false,
            is_cut: false,
            log: LogWatch::new(),
            service: None,
            process: None,
            firmware_images: None,
            silence,
            functions: None,
            resume_count: None,
            heard_out: false,
        })
    }

    /// Sets up the watch for an end mark that has to be polled. This is a service, reached through the host port `port`, or a process in
    /// the kernel's list, whose layout `tasks` describes.
    pub(crate) fn look_for(&mut self, until: &Until, port: Option<u16>, tasks: Option<&TaskList>) {
        self.service = ServiceWatch::new(until, port);
        if let (Until::Process(name), Some(tasks)) = (until, tasks) {
            self.process = Some(ProcessWatch::new(name, tasks.clone()));
        }
    }

    /// Sets up the watch for UEFI programs in memory, by the plugin's file of first `executions`.
    pub(crate) fn look_for_firmware(&mut self, guest: &GuestSpec, executions: File) {
        self.firmware_images = FirmwareImages::of(guest, arch::of(guest).facts.qemu.firmware_place, executions);
    }

    /// The UEFI programs that were seen in memory, as the content of a file.
    pub(crate) fn firmware_images(&self) -> Option<String> {
        self.firmware_images.as_ref().and_then(FirmwareImages::list)
    }

    /// The words of the user.
    pub(crate) fn words(&self) -> Words {
        self.observer.borrow().words()
    }

    /// A text in the words of the user.
    fn spelled(&self, text: Text) -> String {
        text.in_words(self.words()).to_string()
    }

    /// Receives output for a moment, and acts on it. `is_over` returns true if the boot has reached its end mark: no code is changed
    /// after it.
    pub(crate) fn step(&mut self, is_over: &dyn Fn(&Facts) -> bool) -> Result<(), Error> {
        if self.waits_for_function() {
            self.hear_all()?;
        } else {
            self.hear(if self.has_rounds() { Duration::ZERO } else { self.patience() })?;
        }
        self.look_at_functions(is_over);
        // Only one per step: a round can be 64 MiB, and the clock must be checked before the next.
        if let Some(phys) = self.messages.as_mut().and_then(|messages| messages.rounds.pop_front()) {
            self.take_round(phys)?;
        }
        let chunks = self.messages.as_mut().map(|messages| std::mem::take(&mut messages.chunks));
        for (chunk, bytes) in chunks.unwrap_or_default() {
            self.transfer.take_chunk(&chunk, &bytes, self.writer)?;
        }
        Ok(())
    }

    /// True if evidence lies ready in guest memory that was not read yet and will be.
    pub(crate) fn has_rounds(&self) -> bool {
        let waits = self.messages.as_ref().is_some_and(|messages| !messages.rounds.is_empty());
        waits && !self.transfer.is_spent()
    }

    /// Receives all output so far. One piece per step would delay a console with much output.
    fn hear_all(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        for _ in 0..MAX_PIECES_PER_STEP {
            self.hear(Duration::ZERO)?;
            if self.heard_out || self.facts.gone || began.elapsed() > TICK {
                break;
            }
        }
        Ok(())
    }

    /// The longest wait for output before something else is due.
    fn patience(&self) -> Duration {
        if self.facts.shutdown.is_some() {
            return TICK;
        }
        let silence = self.silence.as_ref().and_then(SilenceWatch::next_ns);
        let is_open = self.facts.matched.is_none();
        let service = self.service.as_ref().filter(|_| is_open).map(ServiceWatch::next_ns);
        let process = self.process.as_ref().filter(|_| is_open).map(ProcessWatch::next_ns);
        let runs_firmware = self.facts.running_ns.is_some() && self.facts.init_ns.is_none();
        let firmware = self.firmware_images.as_ref().filter(|_| runs_firmware).and_then(FirmwareImages::next_ns);
        let due_ns = silence.into_iter().chain(service).chain(process).chain(firmware).min();
        let left_ns = due_ns.map(|due_ns| due_ns.saturating_sub(self.vm.elapsed_ns()).max(0).unsigned_abs());
        left_ns.map_or(TICK, |left_ns| Duration::from_nanos(left_ns).min(TICK))
    }

    /// True if the user has stopped the recording.
    pub(crate) fn is_stopped(&self) -> bool {
        self.observer.borrow_mut().stop()
    }

    /// Reports the progress of the boot to the observer.
    pub(crate) fn show_progress(&self, elapsed_ns: i64) {
        let facts = &self.facts;
        self.observer.borrow_mut().progress(&Progress {
            elapsed_ns,
            stage: if facts.init_ns.is_some() { Stage::Gathering } else { Stage::Booting },
            last_line: &facts.last_line,
            console_bytes: facts.console_bytes,
            evidence_bytes: self.transfer.bytes(),
        });
    }

    /// Polls the evidence beyond the console: the kernel log, the service or process of the end mark, and signs of a hang.
    pub(crate) fn look(&mut self) -> Result<(), Error> {
        if self.facts.gone
            || self.facts.shutdown.is_some()
            || self.facts.init_ns.is_some() && self.facts.guest_done.is_none()
        {
            return Ok(());
        }
        let now = self.vm.elapsed_ns();
        self.look_into_silence(now);
        self.look_for_line(now)?;
        self.look_for_service();
        self.look_for_process()?;
        self.look_for_firmware_images(now)?;
        self.end_silence(false);
        if now >= self.next_look_ns {
            self.next_look_ns = now + LOOK_NS;
            let now = Now { ns: now, cpu: self.vm.cpu_times() };
            if self.hang.doubtful(&now, self.bytes_heard()) {
                self.look_for_hang(&now)?;
            }
        }
        Ok(())
    }

    /// Ends the VMM, receives its last output, and closes the streams. If writing has `failed` already, it kills the VMM at once.
    pub(crate) fn finish(mut self, failed: Option<Error>) -> Finished<'a> {
        let mut notes = Vec::new();
        let failed = failed.or_else(|| self.end_vmm().err());
        self.vm.kill();
        notes.extend(self.transfer.notes());
        if self.is_cut {
            notes.push(format!(
                "guest memory was read for {} s once the boot was over, and not to its end: a log or a trace may be missing or cut",
                MAX_LAST_EVIDENCE_NS / 1_000_000_000
            ));
        }
        notes.extend(self.facts.watch_failure.take());
        if let Some(malformed) =
            self.messages.as_ref().map(|messages| messages.malformed).filter(|&malformed| malformed > 0)
        {
            notes.push(format!("{malformed} lines on guest-init's port are malformed; they were skipped"));
        }
        let patched = self.functions.iter().flat_map(FunctionStops::done).cloned().collect();
        let mut finished = Finished { vm: self.vm, facts: self.facts, writer: self.writer, patched, notes, failed };
        let why = if finished.failed.is_none() { "were too many to keep" } else { "could not be written" };
        for (name, ended) in self.streams.finish() {
            let dropped = finished.keep(ended).unwrap_or_default();
            if dropped > 0 {
                let note = format!("{name}.log: {dropped} bytes between its start and its end {why}");
                finished.notes.push(note);
            }
        }
        finished
    }

    /// Requests the end of the VMM, kills it if it does not end, and receives its last output.
    fn end_vmm(&mut self) -> Result<(), Error> {
        // A VMM that answers no question does not end on request either.
        let is_mute = self.is_mute || self.vm.is_suspended();
        let patience_ns = if is_mute { MAX_HURRIED_NS } else { MAX_QUIT_NS };
        if self.vm.quit() {
            self.hear_out(patience_ns, MAX_HURRIED_NS)?;
        }
        self.vm.kill();
        self.hear_out(MAX_LAST_OUTPUT_NS, MAX_HURRIED_OUTPUT_NS)
    }

    /// Receives output until the VMM has ended, at most for `patience_ns` and within the time for the last evidence. If the user waits or
    /// that time is over, it receives output for `hurried_ns`.
    fn hear_out(&mut self, patience_ns: i64, hurried_ns: i64) -> Result<(), Error> {
        let (until_stop, now_ns) = (!self.is_hurried(), self.vm.listened_ns());
        let hurried_ns = now_ns + hurried_ns;
        let until_ns = if until_stop { self.ends_ns.clamp(hurried_ns, now_ns + patience_ns) } else { hurried_ns };
        let limit = Limit { until_ns, until_stop };
        while !self.facts.gone && !limit.is_over(&*self.vm, &self.observer) {
            self.hear(TICK)?;
        }
        Ok(())
    }

    /// The bytes of output on all ports, and of the plugin's records.
    fn bytes_heard(&self) -> u64 {
        self.streams.total_bytes() + self.vm.instrument_bytes()
    }

    fn hear(&mut self, patience: Duration) -> Result<(), Error> {
        let event = self.vm.hear(patience);
        self.heard_out = matches!(event, Heard::Silence);
        match event {
            Heard::Said { source, at_ns, bytes } => {
                self.facts.heard_ns = at_ns;
                self.take(source, &bytes, at_ns)?;
            }
            Heard::News { news, at_ns } => news.into_iter().for_each(|news| self.take_news(news, at_ns)),
            Heard::Silence => self.note_silence(),
            Heard::Gone => self.facts.gone = true,
        }
        self.end_silence(false);
        Ok(())
    }

    fn note_silence(&mut self) {
        let (now_ns, facts) = (self.vm.elapsed_ns(), &mut self.facts);
        let last_ns = facts.shutdown.as_ref().map(|shutdown| shutdown.at_ns.max(facts.heard_ns));
        facts.heard_out |= last_ns.is_some_and(|last_ns| now_ns - last_ns >= COMPLETE_AFTER_NS);
    }

    /// Looks for the awaited line in the kernel log in memory, if it has not appeared on the console.
    fn look_for_line(&mut self, now_ns: i64) -> Result<(), Error> {
        if self.until.is_none() || self.facts.matched.is_some() || !self.log.is_due(now_ns) || self.ram()?.is_none() {
            return Ok(());
        }
        let limit = self.limit(i64::MAX);
        if let (Some(until), Layout::Known(ram)) = (&mut self.until_in_log, &self.layout) {
            let is_over = || limit.is_over(&*self.vm, &self.observer);
            let memory = Limited { memory: ram, is_over: &is_over };
            match self.log.look(until, &memory, self.facts.running_ns, now_ns, &*self.vm) {
                Some((Meaning::Failed, line)) => self.facts.note_failed(line.what, line.at_ns),
                Some((_, end)) => self.facts.matched = self.facts.matched.take().or(Some(end)),
                None => {}
            }
        }
        Ok(())
    }

    /// The unit lines that systemd logged instead of the awaited unit. They are taken from the console or the kernel log, whichever
    /// has more of them.
    pub(crate) fn instead_of_unit(&self) -> Option<String> {
        self.until.iter().chain(&self.until_in_log).max_by_key(|until| until.units()).and_then(Awaited::instead)
    }

    /// Tries to connect to the awaited service of the guest.
    fn look_for_service(&mut self) {
        if let (Some(service), None, Some(_)) = (&mut self.service, &self.facts.matched, self.facts.running_ns) {
            self.facts.matched = service.look(&mut *self.vm);
        }
    }

    fn look_for_firmware_images(&mut self, now_ns: i64) -> Result<(), Error> {
        let due_ns = self.firmware_images.as_ref().and_then(FirmwareImages::next_ns);
        if self.facts.running_ns.is_none() || due_ns.is_none_or(|due_ns| now_ns < due_ns) {
            return Ok(());
        }
        self.ram()?;
        let limit = self.limit(i64::MAX);
        match (&mut self.firmware_images, &self.layout) {
            (Some(images), Layout::Known(ram)) => {
                let is_over = || limit.is_over(&*self.vm, &self.observer);
                images.look(&Limited { memory: ram, is_over: &is_over }, now_ns);
            }
            (Some(images), _) => images.give_up(),
            (None, _) => {}
        }
        Ok(())
    }

    /// Looks for the awaited process of the guest.
    fn look_for_process(&mut self) -> Result<(), Error> {
        if self.process.is_none() || self.facts.matched.is_some() || self.ram()?.is_none() {
            return Ok(());
        }
        let limit = self.limit(i64::MAX);
        if let (Some(process), Layout::Known(ram)) = (&mut self.process, &self.layout) {
            let is_over = || limit.is_over(&*self.vm, &self.observer);
            self.facts.matched = process.look(&Limited { memory: ram, is_over: &is_over }, &|| self.vm.elapsed_ns());
        }
        Ok(())
    }
}

/// The results of watching a boot.
pub(crate) struct Finished<'a> {
    pub(crate) vm: Box<dyn Vmm>,
    pub(crate) facts: Facts,
    pub(crate) writer: &'a mut Writer,
    /// The patches written into the guest's code, in sentences.
    pub(crate) patched: Vec<String>,
    /// Notes for the recording, in sentences.
    pub(crate) notes: Vec<String>,
    /// The first error of writing the recording.
    pub(crate) failed: Option<Error>,
}

impl Finished<'_> {
    /// Returns the value, or keeps the error if it is the first. The rest of the recording is then still finished.
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
