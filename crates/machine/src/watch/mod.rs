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
mod service;
mod streams;

use std::cell::RefCell;
use std::fs::File;
use std::time::{Duration, Instant};

use guest_init::messages::{Lacked, Message};
use recording::{End, EndMark, GuestSpec, Until, Writer};

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

use crate::arch::Arch;
use crate::awaited::{Awaited, Meaning};
use crate::functions::{FunctionStops, Plan, Undone};
use crate::gdb::Client;
use crate::guest_channel::GuestChannel;
use crate::hang::{HangDetector, Now};
use crate::lines::{Lines, shown};
use crate::memory::{Limited, TaskList};
use crate::options::RecordOptions;
use crate::profile::GuestProfile;
use crate::refusal::{Text, Words, text};
use crate::stops::{Names, OnStacks, SilenceWatch};
use crate::transfer::EvidenceTransfer;
use crate::vmm::{Heard, News, Source, Vmm};
use crate::{Error, Observer, Progress, Stage, arch};
use recording::Field;

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

    /// Starts the held vCPUs, and executes the plan for stops at functions. The wait for the VMM ends at the boot's timeout, or when
    /// the user stops the recording.
    pub(crate) fn stop_at_functions(&mut self, plan: Plan, arch: &'static Arch) {
        self.facts.missed = plan.missed().map(|missed| self.spelled(missed));
        let (limit, words) = (self.limit(i64::MAX), self.words());
        let begun = match stub(&mut *self.vm) {
            Some(client) => {
                let functions = self.functions.insert(FunctionStops::new(plan, client, arch));
                let begun = functions.begin(&mut || limit.is_over(&*self.vm, &self.observer));
                if begun.is_ok() {
                    let missed = functions.missed();
                    self.facts.missed = missed.map(|missed| missed.in_words(words).to_string());
                }
                begun
            }
            None => Err(Undone::Failed("there is no gdbstub".to_owned())),
        };
        if matches!(begun, Err(Undone::Refused(_))) {
            // The vCPUs have not run yet. The outcome is a boot that ran without the patch, so they are started.
            self.vm.resume_vcpus();
        }
        self.take_undone(begun);
    }

    /// The values of the watched variable, as the content of a file, if a variable was watched.
    pub(crate) fn watched(&self) -> Option<String> {
        self.functions.as_ref().and_then(FunctionStops::watched)
    }

    /// The words of the user.
    pub(crate) fn words(&self) -> Words {
        self.observer.borrow().words()
    }

    /// A text in the words of the user.
    fn spelled(&self, text: Text) -> String {
        text.in_words(self.words()).to_string()
    }

    fn take_undone(&mut self, result: Result<(), Undone>) {
        let what = match result {
            Ok(()) => return,
            Err(Undone::Refused(why)) => text![Field::Patches, " ", why],
            Err(Undone::Failed(why)) => {
                self.resume_count = Some(0);
                self.vm.resume_vcpus();
                if self.facts.missed.is_none() {
                    // All patches were written, so only evidence is missing.
                    let why = format!(" ended early: {why}. The boot went on, and what was read before is kept: ");
                    let note = self.spelled(text![Field::Watch, why, "record once more for the rest"]);
                    self.facts.watch_failure.get_or_insert(note);
                    return;
                }
                text![Field::Patches, format!(" was not written: {why}")]
            }
        };
        let (at_ns, what) = (self.vm.elapsed_ns(), self.spelled(what));
        self.facts.unpatched.get_or_insert(Seen { at_ns, what });
    }

    /// Handles vCPUs that have stopped at a function.
    fn look_at_functions(&mut self, is_over: &dyn Fn(&Facts) -> bool) {
        let words = self.words();
        let Some(functions) = &mut self.functions else { return };
        let facts = &mut self.facts;
        if facts.gone || facts.unpatched.is_some() {
            return;
        }
        let is_over = is_over(facts);
        let looked = functions.look(&|| self.vm.elapsed_ns(), is_over);
        facts.missed = functions.missed().map(|missed| missed.in_words(words).to_string());
        let client = functions.give_away();
        if let (Some(client), Some(silence)) = (client, &mut self.silence) {
            silence.set_client(client);
        }
        self.take_undone(looked);
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

    /// True if a function is still to be entered. Then each step waits for that, and not for output.
    fn waits_for_function(&self) -> bool {
        let facts = &self.facts;
        let is_running = !facts.gone && facts.shutdown.is_none() && facts.unpatched.is_none();
        is_running && self.functions.as_ref().is_some_and(FunctionStops::is_waiting)
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

    /// Stops the vCPUs and reads their stacks, if the console has been silent for the requested time.
    fn look_into_silence(&mut self, now_ns: i64) {
        let limit = self.limit(i64::MAX);
        let Some(silence) = &mut self.silence else { return };
        // Output that is not received yet would end the silence.
        let is_due = self.heard_out && silence.next_ns().is_some_and(|due_ns| now_ns >= due_ns);
        let is_over = &mut || limit.is_over(&*self.vm, &self.observer);
        if is_due && !silence.stop(&|| self.vm.elapsed_ns(), is_over) {
            self.resume_count = Some(0);
            self.vm.resume_vcpus();
        }
    }

    /// Resumes vCPUs that have stopped after their stub failed. The stub acts on an earlier stop command then, and no other code resumes
    /// them.
    fn take_stop(&mut self) {
        let facts = &self.facts;
        let is_at_end = facts.gone || facts.shutdown.is_some() || facts.panic.is_some();
        if let (Some(count), false) = (&mut self.resume_count, is_at_end) {
            if *count < MAX_RESUMES {
                *count += 1;
                self.vm.resume_vcpus();
            }
        }
    }

    /// Ends the last silence: at the first sign of the boot's end, or now if the boot `is_over`.
    pub(crate) fn end_silence(&mut self, is_over: bool) {
        let Some(silence) = &mut self.silence else { return };
        let facts = &self.facts;
        let matched_ns = facts.matched.as_ref().map(|end| end.at_ns);
        let off_ns = facts.shutdown.as_ref().map(|shutdown| shutdown.at_ns);
        let now_ns = (is_over || facts.gone).then(|| self.vm.elapsed_ns());
        let ends = [facts.init_ns, matched_ns, off_ns, now_ns];
        if let Some(end_ns) = ends.into_iter().flatten().min() {
            silence.end(end_ns);
        }
    }

    /// The stacks of the vCPUs in each silence, as the content of a file, if that was requested. `names` finds names for the addresses
    /// on the stacks.
    pub(crate) fn silences(&mut self, names: impl FnOnce(&OnStacks) -> Names) -> Option<String> {
        self.end_silence(true);
        self.silence.take().map(|silence| silence.finish(names))
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

    fn take(&mut self, source: Source, bytes: &[u8], at_ns: i64) -> Result<(), Error> {
        if source == Source::Guest {
            return self.take_messages(bytes, at_ns);
        }
        self.streams.append(source, bytes, at_ns)?;
        let (facts, mut until) = (&mut self.facts, self.until.as_mut());
        match source {
            Source::Console => {
                self.silence.iter_mut().for_each(|silence| silence.heard(at_ns));
                facts.console_bytes += bytes.len() as u64;
                let has_guest_init = self.messages.is_some();
                self.console.feed(bytes, &mut |line| {
                    facts.take_console_line(&line, until.as_deref_mut(), at_ns);
                    if has_guest_init {
                        facts.note_no_channel(&line, at_ns);
                    }
                });
            }
            Source::Vmm => self.vmm.feed(bytes, &mut |line| facts.take_vmm_line(&line)),
            Source::Firmware | Source::Guest => {}
        }
        Ok(())
    }

    fn take_messages(&mut self, bytes: &[u8], at_ns: i64) -> Result<(), Error> {
        let Some(messages) = &mut self.messages else {
            return Ok(());
        };
        for (message, at_ns) in messages.take(bytes, at_ns, &mut self.streams)? {
            self.take_message(message, at_ns);
        }
        Ok(())
    }

    fn take_message(&mut self, message: Message, at_ns: i64) {
        match message {
            Message::Init { .. } => {
                self.facts.init_ns.get_or_insert(at_ns);
            }
            Message::Round { header_phys } => {
                let is_kept = self.messages.as_mut().is_none_or(|messages| messages.keep_round(header_phys));
                if !is_kept {
                    self.transfer.pass_over();
                }
            }
            Message::Lack { what: Lacked::Root, why } => drop(self.facts.no_root.get_or_insert(why)),
            Message::Lack { what: Lacked::Workload, why } => drop(self.facts.no_workload.get_or_insert(why)),
            Message::End { outcome } => {
                self.facts.guest_done.get_or_insert(Seen { at_ns, what: shown(outcome.as_bytes(), 200) });
            }
            _ => {}
        }
    }

    fn take_news(&mut self, news: News, at_ns: i64) {
        let facts = &mut self.facts;
        match news {
            News::Running => {
                if facts.running_ns.is_none() {
                    facts.running_ns = Some(at_ns);
                    self.silence.iter_mut().for_each(|silence| silence.heard(at_ns));
                }
                // The transfer of evidence needs the answer, and a VMM that dies later cannot give it.
                self.ask_layout();
            }
            News::Stopped => self.take_stop(),
            News::Off(why) => drop(facts.shutdown.get_or_insert(Shutdown { at_ns, why })),
            News::Logged(line) => self.take_logged(&line, at_ns),
            News::Panicked => {
                let what = panicked(facts.vmm);
                facts.panic.get_or_insert(Seen { at_ns, what });
            }
        }
    }

    /// Takes a line that the guest caused the VMM to log. It may be the end mark.
    fn take_logged(&mut self, line: &str, at_ns: i64) {
        let is_awaited = |until: &mut Awaited| until.hear(line.as_bytes()) == Meaning::Reached;
        if self.facts.matched.is_none() && self.until.as_mut().is_some_and(is_awaited) {
            let (mark, what, error_ns) = (Some(EndMark::Line), line.to_owned(), Some(self.facts.arrival_error_ns));
            self.facts.matched = Some(End { mark, what, at_ns, error_ns, printk_ns: None });
        }
    }

    fn take_round(&mut self, phys: u64) -> Result<(), Error> {
        if self.ram()?.is_none() {
            // The guest gets no answer, and after a while sends its evidence through the port.
            return Ok(());
        }
        if let Layout::Known(ram) = &self.layout {
            self.transfer.take_round(phys, ram, self.writer)?;
        }
        Ok(())
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

/// A client of the VMM's gdbstub, if it has one that is not taken yet.
fn stub(vm: &mut dyn Vmm) -> Option<Client> {
    vm.gdbstub().and_then(|socket| Client::new(socket).ok())
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
