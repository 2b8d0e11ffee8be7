//! Perfetto's messages, as far as they are needed, and the text of events as the kernel prints them.

use prost::Message;
use std::fmt::Write as _;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Packet {
    #[prost(message, optional, tag = "1")]
    pub ftrace_events: Option<Bundle>,
    #[prost(message, optional, tag = "2")]
    pub process_tree: Option<ProcessTree>,
    /// An event of a track, as it is.
    #[prost(bytes = "vec", optional, tag = "11")]
    pub track_event: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "50")]
    pub compressed_packets: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessTree {
    #[prost(message, repeated, tag = "2")]
    pub threads: Vec<Thread>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Thread {
    #[prost(int32, tag = "1")]
    pub tid: i32,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}

/// The events of one CPU.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Bundle {
    #[prost(uint32, tag = "1")]
    pub cpu: u32,
    #[prost(message, repeated, tag = "2")]
    pub event: Vec<Event>,
    #[prost(bool, tag = "3")]
    pub lost_events: bool,
    #[prost(message, optional, tag = "4")]
    pub compact_sched: Option<CompactSched>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CompactSched {
    #[prost(uint64, repeated, tag = "1")]
    pub switch_timestamp: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub switch_prev_state: Vec<i64>,
    #[prost(int32, repeated, tag = "3")]
    pub switch_next_pid: Vec<i32>,
    #[prost(int32, repeated, tag = "4")]
    pub switch_next_prio: Vec<i32>,
    #[prost(string, repeated, tag = "5")]
    pub intern_table: Vec<String>,
    #[prost(uint32, repeated, tag = "6")]
    pub switch_next_comm_index: Vec<u32>,
    #[prost(uint64, repeated, tag = "7")]
    pub waking_timestamp: Vec<u64>,
    #[prost(int32, repeated, tag = "8")]
    pub waking_pid: Vec<i32>,
    #[prost(int32, repeated, tag = "9")]
    pub waking_target_cpu: Vec<i32>,
    #[prost(int32, repeated, tag = "10")]
    pub waking_prio: Vec<i32>,
    #[prost(uint32, repeated, tag = "11")]
    pub waking_comm_index: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    #[prost(uint64, tag = "1")]
    pub timestamp: u64,
    #[prost(uint32, tag = "2")]
    pub pid: u32,
    #[prost(message, optional, boxed, tag = "3")]
    pub print: Option<Box<Print>>,
    #[prost(message, optional, boxed, tag = "4")]
    pub sched_switch: Option<Box<Switch>>,
    #[prost(message, optional, boxed, tag = "17")]
    pub sched_wakeup: Option<Box<Wake>>,
    #[prost(message, optional, boxed, tag = "20")]
    pub sched_waking: Option<Box<Wake>>,
    #[prost(message, optional, boxed, tag = "114")]
    pub sched_wakeup_new: Option<Box<Wake>>,
    #[prost(message, optional, boxed, tag = "235")]
    pub task_newtask: Option<Box<NewTask>>,
    #[prost(message, optional, boxed, tag = "236")]
    pub task_rename: Option<Box<Rename>>,
    #[prost(message, optional, boxed, tag = "237")]
    pub sched_process_exec: Option<Box<Exec>>,
    #[prost(message, optional, boxed, tag = "238")]
    pub sched_process_exit: Option<Box<Exit>>,
    #[prost(message, optional, boxed, tag = "239")]
    pub sched_process_fork: Option<Box<Fork>>,
    #[prost(message, optional, boxed, tag = "327")]
    pub generic: Option<Box<Generic>>,
    #[prost(message, optional, boxed, tag = "408")]
    pub console: Option<Box<Console>>,
}

impl Event {
    /// An event of a wake-up, and its name.
    pub(super) fn wakes(&self) -> Option<(&'static str, &Wake)> {
        let waking = self.sched_waking.as_ref().map(|wake| ("sched_waking", &**wake));
        let woken = || self.sched_wakeup.as_ref().map(|wake| ("sched_wakeup", &**wake));
        waking.or_else(woken).or_else(|| self.sched_wakeup_new.as_ref().map(|wake| ("sched_wakeup_new", &**wake)))
    }
}

/// Text that a program wrote to `trace_marker`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Print {
    #[prost(string, tag = "2")]
    pub text: String,
}

/// A message of printk.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Console {
    #[prost(string, tag = "1")]
    pub text: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Switch {
    #[prost(string, tag = "1")]
    pub prev_comm: String,
    #[prost(int32, tag = "2")]
    pub prev_pid: i32,
    #[prost(int32, tag = "3")]
    pub prev_prio: i32,
    #[prost(int64, tag = "4")]
    pub prev_state: i64,
    #[prost(string, tag = "5")]
    pub next_comm: String,
    #[prost(int32, tag = "6")]
    pub next_pid: i32,
    #[prost(int32, tag = "7")]
    pub next_prio: i32,
}

impl Switch {
    pub(super) fn write(&self, out: &mut String) {
        let state = state(self.prev_state);
        let _ = write!(
            out,
            "prev_comm={} prev_pid={} prev_prio={} prev_state={state} ==> next_comm={} next_pid={} next_prio={}",
            self.prev_comm, self.prev_pid, self.prev_prio, self.next_comm, self.next_pid, self.next_prio
        );
    }
}

/// The letter of a thread's state; `+` if it was stopped in the kernel (Linux, `include/trace/events/sched.h`).
fn state(bits: i64) -> String {
    const LETTERS: [(i64, char); 8] =
        [(1, 'S'), (2, 'D'), (4, 'T'), (8, 't'), (16, 'X'), (32, 'Z'), (64, 'P'), (128, 'I')];
    const PREEMPTED: i64 = !0xff;
    let letter = LETTERS.iter().find(|(bit, _)| bits & bit != 0).map_or('R', |(_, letter)| *letter);
    let plus = if bits & PREEMPTED != 0 { "+" } else { "" };
    format!("{letter}{plus}")
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Wake {
    #[prost(string, tag = "1")]
    pub comm: String,
    #[prost(int32, tag = "2")]
    pub pid: i32,
    #[prost(int32, tag = "3")]
    pub prio: i32,
    #[prost(int32, tag = "5")]
    pub target_cpu: i32,
}

impl Wake {
    pub(super) fn write(&self, out: &mut String) {
        let Wake { comm, pid, prio, target_cpu } = self;
        let _ = write!(out, "comm={comm} pid={pid} prio={prio} target_cpu={target_cpu:03}");
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NewTask {
    #[prost(int32, tag = "1")]
    pub pid: i32,
    #[prost(string, tag = "2")]
    pub comm: String,
    #[prost(uint64, tag = "3")]
    pub clone_flags: u64,
    #[prost(int32, tag = "4")]
    pub oom_score_adj: i32,
}

impl NewTask {
    pub(super) fn write(&self, out: &mut String) {
        let NewTask { pid, comm, clone_flags, oom_score_adj } = self;
        let _ = write!(out, "pid={pid} comm={comm} clone_flags={clone_flags:x} oom_score_adj={oom_score_adj}");
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Rename {
    #[prost(int32, tag = "1")]
    pub pid: i32,
    #[prost(string, tag = "3")]
    pub newcomm: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Exec {
    #[prost(string, tag = "1")]
    pub filename: String,
    #[prost(int32, tag = "2")]
    pub pid: i32,
    #[prost(int32, tag = "3")]
    pub old_pid: i32,
}

impl Exec {
    pub(super) fn write(&self, out: &mut String) {
        let _ = write!(out, "filename={} pid={} old_pid={}", self.filename, self.pid, self.old_pid);
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Exit {
    #[prost(string, tag = "1")]
    pub comm: String,
    #[prost(int32, tag = "2")]
    pub pid: i32,
    #[prost(int32, tag = "4")]
    pub prio: i32,
}

impl Exit {
    pub(super) fn write(&self, out: &mut String) {
        let _ = write!(out, "comm={} pid={} prio={}", self.comm, self.pid, self.prio);
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Fork {
    #[prost(string, tag = "1")]
    pub parent_comm: String,
    #[prost(int32, tag = "2")]
    pub parent_pid: i32,
    #[prost(string, tag = "3")]
    pub child_comm: String,
    #[prost(int32, tag = "4")]
    pub child_pid: i32,
}

impl Fork {
    pub(super) fn write(&self, out: &mut String) {
        let Fork { parent_comm, parent_pid, child_comm, child_pid } = self;
        let _ = write!(out, "comm={parent_comm} pid={parent_pid} child_comm={child_comm} child_pid={child_pid}");
    }
}

/// An event that Perfetto's schema does not have.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Generic {
    #[prost(string, tag = "1")]
    pub event_name: String,
    #[prost(message, repeated, tag = "2")]
    pub field: Vec<Field>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Field {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, optional, tag = "3")]
    pub str_value: Option<String>,
    #[prost(int64, optional, tag = "4")]
    pub int_value: Option<i64>,
    #[prost(uint64, optional, tag = "5")]
    pub uint_value: Option<u64>,
}
