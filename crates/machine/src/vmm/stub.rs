//! A VMM that replays a scripted boot, for tests of the code that watches a boot. It executes no program and touches no file.
//!
//! Its clock is the script's: `hear` advances it to the next step, or by the time that it waited. So a boot of ten minutes takes no
//! time, and ends at the same nanosecond each time.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use recording::GuestSpec;

use super::{
    ARRIVAL_ERROR_NS, Answer, Cpus, Exit, Heard, Launch, News, Program, Question, SetUpMark, Source, Stand, Ticket,
    Used, Vmm, Zero,
};
use crate::Error;
use crate::cpu_time::CpuTimes;
use crate::memory::Extent;

/// The course of a boot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) steps: VecDeque<(i64, Step)>,
    /// True if the CPU stays at one address.
    pub(crate) stands_still: bool,
    /// True if the VMM ignores the request to end.
    pub(crate) stubborn: bool,
    /// True if the VMM answers no question.
    pub(crate) mute: bool,
    /// True if the VMM's process is stopped.
    pub(crate) suspended: bool,
    /// Guest RAM, from address 0 on.
    pub(crate) ram: Option<Arc<File>>,
    /// The time at which it was killed.
    pub(crate) killed_ns: Arc<Mutex<Option<i64>>>,
    /// The recorder's end of the connection to its gdbstub, if it has one.
    pub(crate) gdbstub: Arc<Mutex<Option<UnixStream>>>,
    /// The actions that the recorder took on it.
    pub(crate) done: Arc<Mutex<Vec<&'static str>>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Say(Source, Vec<u8>),
    News(News),
    Gone,
}

impl Script {
    /// Adds output at `at_ms` after time zero. Steps are added in order of time.
    pub(crate) fn says(mut self, at_ms: i64, source: Source, text: &str) -> Script {
        self.steps.push_back((at_ms * 1_000_000, Step::Say(source, text.as_bytes().to_vec())));
        self
    }

    /// Adds news of the machine.
    pub(crate) fn has_news(mut self, at_ms: i64, news: News) -> Script {
        self.steps.push_back((at_ms * 1_000_000, Step::News(news)));
        self
    }

    /// Adds the end of the VMM, by itself.
    pub(crate) fn ends(mut self, at_ms: i64) -> Script {
        self.steps.push_back((at_ms * 1_000_000, Step::Gone));
        self
    }
}

/// The program that plays a script.
#[derive(Debug)]
pub(crate) struct Stub(pub(crate) Script);

impl Program for Stub {
    fn name(&self) -> &'static str {
        "Stub"
    }

    fn path(&self) -> &Path {
        Path::new("/stub")
    }

    fn version(&self) -> &str {
        "1"
    }

    fn check(&self, _guest: &GuestSpec, _spared: &[&str], _yields: bool) -> Result<(), Error> {
        Ok(())
    }

    fn plugin(&self) -> Result<PathBuf, String> {
        Err("it takes none".to_owned())
    }

    fn start(&self, launch: &Launch<'_>) -> Result<Box<dyn Vmm>, Error> {
        Ok(Box::new(ScriptedVmm {
            script: self.0.clone(),
            command: vec!["stub".to_owned(), format!("{:?}", launch.channel)],
            now_ns: 0,
            over: false,
            zero_waits: 0,
            questions: BTreeMap::new(),
        }))
    }
}

#[derive(Debug)]
struct ScriptedVmm {
    script: Script,
    command: Vec<String>,
    now_ns: i64,
    over: bool,
    /// The number of calls of `hear` in a row that did not wait.
    zero_waits: u32,
    questions: BTreeMap<Ticket, Question>,
}

impl ScriptedVmm {
    fn note(&self, what: &'static str) {
        self.script.done.lock().unwrap().push(what);
    }
}

impl Vmm for ScriptedVmm {
    fn name(&self) -> &'static str {
        "Stub"
    }

    fn zero(&self) -> Zero {
        Zero { ns: 0, moment: None }
    }

    fn elapsed_ns(&self) -> i64 {
        self.now_ns
    }

    fn command(&self) -> &[String] {
        &self.command
    }

    fn hear(&mut self, patience: Duration) -> Heard {
        if self.over {
            return Heard::Gone;
        }
        self.zero_waits = if patience.is_zero() { self.zero_waits + 1 } else { 0 };
        assert!(self.zero_waits < 1000, "somebody waits without waiting");
        let until_ns = self.now_ns + patience.as_nanos() as i64;
        if self.script.steps.front().is_none_or(|(at_ns, _)| *at_ns > until_ns) {
            self.now_ns = until_ns;
            return Heard::Silence;
        }
        let (at_ns, step) = self.script.steps.pop_front().expect("one is in front");
        self.now_ns = at_ns.max(self.now_ns);
        match step {
            Step::Say(source, bytes) => Heard::Said { source, at_ns, bytes },
            Step::News(news) => Heard::News { news: vec![news], at_ns },
            Step::Gone => {
                self.over = true;
                Heard::Gone
            }
        }
    }

    fn ask(&mut self, question: Question) -> Option<Ticket> {
        let ticket = Ticket(self.questions.len() as u64);
        self.questions.insert(ticket, question);
        Some(ticket)
    }

    fn answer(&mut self, ticket: Ticket) -> Option<Option<Answer>> {
        if self.script.mute {
            return None;
        }
        let address = if self.script.stands_still { 0x1000 } else { self.now_ns as u64 };
        let stands = vec![Stand { halted: false, address }];
        Some(match self.questions.get(&ticket)? {
            Question::Cpus => Some(Answer::Cpus(Cpus { stands, text: "IP=1".to_owned(), origin: "a script" })),
            Question::Disks => Some(Answer::Disks(0)),
            Question::Connections => None,
            Question::Stop => Some(Answer::Stopped),
            Question::Ram => self.ram().and_then(|file| {
                let bytes = file.metadata().ok()?.len();
                Some(Answer::Ram(vec![Extent { phys: 0, file_offset: 0, bytes }]))
            }),
        })
    }

    fn ram(&self) -> Option<&File> {
        self.script.ram.as_deref()
    }

    fn is_suspended(&self) -> bool {
        self.script.suspended
    }

    fn gdbstub(&mut self) -> Option<UnixStream> {
        self.script.gdbstub.lock().unwrap().take()
    }

    fn resume_vcpus(&mut self) {
        self.note("let run");
    }

    fn cpu_times(&self) -> CpuTimes {
        CpuTimes::of_one_thread(self.now_ns)
    }

    fn quit(&mut self) -> bool {
        self.note("quit");
        self.over |= !self.script.stubborn;
        true
    }

    fn kill(&mut self) {
        if !self.over {
            self.note("kill");
        }
        self.script.killed_ns.lock().unwrap().get_or_insert(self.now_ns);
        self.over = true;
    }

    fn wait(&mut self) -> Result<Exit, Error> {
        assert!(self.over, "it would be waited for for ever");
        let used = Used { max_rss_bytes: 1 << 20, user_ns: 1, system_ns: 1 };
        Ok(Exit { how: "ended with exit status: 0".to_owned(), used: Some(used) })
    }

    fn arrival_error_ns(&self) -> i64 {
        ARRIVAL_ERROR_NS
    }

    fn set_up(&mut self, _counter_hz: Option<f64>) -> Vec<SetUpMark> {
        vec![SetUpMark { name: "executed", at_ns: 0, error_ns: 0, evidence: "a script".to_owned() }]
    }
}
