//! Sends questions to the VMM and reads guest memory. Each must end within a limit, because a guest or a stopped VMM can make it
//! take arbitrarily long.

use super::limit::Limit;
use super::{TICK, Watch};
use crate::Error;
use crate::hang::{Movement, Now};
use crate::memory::NoTrace;
use crate::memory::{EventLog, GuestRam, KernelLog, KernelTrace, Limited, PhysicalMemory, TraceImage};
use crate::refusal::{Text, text};
use crate::vmm::{Answer, Cpus, Question, Ticket};
use recording::Field;

/// Longest wait for an answer of the VMM.
const MAX_ANSWER_NS: i64 = 5_000_000_000;
/// Longest last step after Ctrl-C: a search of memory, an answer of the VMM, its end. All together are over in 0.3 s. A VMM that has
/// left a question unanswered gets no more than this for the next one.
pub(super) const MAX_HURRIED_NS: i64 = 40_000_000;
/// Longest time in all for what is read and requested once the boot is over.
pub(super) const MAX_LAST_EVIDENCE_NS: i64 = 10_000_000_000;

/// The state of the question for the layout of guest RAM in its file.
pub(super) enum Layout {
    /// The question was not sent yet.
    Unknown,
    /// The question was sent.
    Asked(Ticket),
    Known(GuestRam),
    /// The VMM has no such file, or gave no usable answer.
    Impossible,
}

impl Watch<'_> {
    /// Notes that the boot is over. Reads and questions from now on end by a new deadline.
    pub(crate) fn begin_last_evidence(&mut self) {
        self.is_over = true;
        self.ends_ns = self.vm.listened_ns().saturating_add(MAX_LAST_EVIDENCE_NS);
    }

    /// True if the user waits for the end. Then only evidence that is available at once is read.
    pub(crate) fn is_hurried(&mut self) -> bool {
        self.is_hurried |= self.is_over && self.observer.borrow_mut().stop();
        self.is_hurried
    }

    /// The limit for work that begins now and may take at most `ns_max`.
    pub(super) fn limit(&mut self, ns_max: i64) -> Limit {
        let now_ns = self.vm.listened_ns();
        if self.is_hurried() {
            return Limit { until_ns: now_ns + MAX_HURRIED_NS.min(ns_max), until_stop: false };
        }
        Limit { until_ns: now_ns.saturating_add(ns_max).min(self.ends_ns), until_stop: true }
    }

    /// Reads the kernel log from guest memory. The inner error is the reason why that is impossible.
    pub(crate) fn kernel_log(&mut self) -> Result<Result<KernelLog, String>, Error> {
        let log = self.read_memory(|memory| crate::memory::kernel_log(memory))?;
        Ok(log.and_then(|log| log.map_err(|error| error.to_string())))
    }

    /// Reads the kernel's trace from guest memory. The inner error is the reason why that is impossible. The guest is stopped first, and
    /// stays stopped.
    pub(crate) fn kernel_trace(&mut self, image: &TraceImage) -> Result<Result<KernelTrace, Text>, Error> {
        if self.ask(Question::Stop)? != Some(Answer::Stopped) {
            let why = "the machine did not stop, and writes on into its trace: end it with ";
            return Ok(Err(text![why, Field::Timeout]));
        }
        let trace = self.read_memory(|memory| image.read(memory))?;
        Ok(match trace {
            Ok(trace) => trace.map_err(|why| match why {
                NoTrace::NotLocated => {
                    let (events, append) = (Field::TraceEvents.is(false), Field::Append.is("initcall_debug"));
                    text![why.to_string(), "; record with ", events, " ", append, " to have its log instead"]
                }
                why => why.to_string().into(),
            }),
            Err(why) => Err(why.into()),
        })
    }

    /// Reads the event log from guest memory, if the guest keeps one.
    pub(crate) fn event_log(&mut self) -> Result<Option<EventLog>, Error> {
        Ok(self.read_memory(|memory| crate::memory::event_log(memory))?.ok().flatten())
    }

    /// Reads guest memory within the limit, and notes if the limit cut the read. The inner error is the reason why there is no memory.
    fn read_memory<T>(&mut self, read: impl FnOnce(&dyn PhysicalMemory) -> T) -> Result<Result<T, String>, Error> {
        self.ram()?;
        let limit = self.limit(i64::MAX);
        let Layout::Known(ram) = &self.layout else {
            return Ok(Err(format!("{} could not say where guest memory lies", self.vm.name())));
        };
        let is_over = || limit.is_over(&*self.vm, &self.observer);
        let value = read(&Limited { memory: ram, is_over: &is_over });
        // If the user stopped the recording, its outcome already explains missing evidence.
        self.is_cut |= !self.is_hurried && self.is_over && self.vm.listened_ns() >= limit.until_ns;
        Ok(Ok(value))
    }

    /// The positions of the CPUs, if the VMM can report them.
    pub(crate) fn cpus(&mut self) -> Result<Option<Cpus>, Error> {
        Ok(match self.ask(Question::Cpus)? {
            Some(Answer::Cpus(cpus)) => Some(cpus),
            _ => None,
        })
    }

    /// Sends a question to the VMM, and waits for the answer. Output is received meanwhile.
    fn ask(&mut self, question: Question) -> Result<Option<Answer>, Error> {
        if self.facts.gone {
            return Ok(None);
        }
        match self.vm.ask(question) {
            Some(ticket) => self.wait_for_answer(ticket),
            None => Ok(None),
        }
    }

    /// Guest RAM, if it is a file of bootscope's and the VMM reports its layout.
    pub(super) fn ram(&mut self) -> Result<Option<&GuestRam>, Error> {
        self.ask_layout();
        if let Layout::Asked(ticket) = self.layout {
            let file = self.vm.ram().and_then(|file| file.try_clone().ok());
            let answer = self.wait_for_answer(ticket)?;
            let ram = match (file, answer) {
                (Some(file), Some(Answer::Ram(extents))) => GuestRam::new(file, extents).ok(),
                _ => None,
            };
            self.layout = ram.map_or(Layout::Impossible, Layout::Known);
        }
        Ok(match &self.layout {
            Layout::Known(ram) => Some(ram),
            _ => None,
        })
    }

    pub(super) fn ask_layout(&mut self) {
        if matches!(self.layout, Layout::Unknown) && self.vm.ram().is_some() && !self.facts.gone {
            self.layout = self.vm.ask(Question::Ram).map_or(Layout::Impossible, Layout::Asked);
        }
    }

    fn wait_for_answer(&mut self, ticket: Ticket) -> Result<Option<Answer>, Error> {
        let limit = self.limit(if self.is_mute { MAX_HURRIED_NS } else { MAX_ANSWER_NS });
        let began_ns = self.vm.listened_ns();
        loop {
            if let Some(answer) = self.vm.answer(ticket) {
                self.is_mute = false;
                return Ok(answer);
            }
            if self.facts.gone {
                return Ok(None);
            }
            let is_suspended = self.vm.is_suspended();
            if is_suspended || limit.is_over(&*self.vm, &self.observer) {
                self.is_mute |= is_suspended || self.vm.listened_ns() - began_ns >= MAX_ANSWER_NS;
                return Ok(None);
            }
            self.hear(TICK)?;
        }
    }

    pub(super) fn look_for_hang(&mut self, now: &Now) -> Result<(), Error> {
        let mut movement = Movement { bytes: self.bytes_heard(), ..Movement::default() };
        self.ram()?;
        let limit = self.limit(i64::MAX);
        if let Layout::Known(ram) = &self.layout {
            let is_over = || limit.is_over(&*self.vm, &self.observer);
            movement.newest_record = self.log.newest_record(&Limited { memory: ram, is_over: &is_over });
        }
        if self.has_disks {
            if let Some(Answer::Disks(requests)) = self.ask(Question::Disks)? {
                movement.disk_requests = requests;
            }
        }
        let stands = self.cpus()?.unwrap_or_default().stands;
        self.facts.hang = self.hang.look(now, movement, stands);
        Ok(())
    }
}
