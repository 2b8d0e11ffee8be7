//! Parses an event from its name and its arguments as the kernel prints them.
//!
//! Only events that are used are parsed. A command's name stands unquoted among the arguments and may contain anything,
//! so it ends at the first place where the rest of the line fits the format.

use super::sockets::SocketChange;
use crate::input::text::{Symbol, number, signed, skip_spaces};

/// A thread as an event's arguments give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task<'a> {
    /// Its command at the time.
    pub comm: &'a [u8],
    /// Its thread id.
    pub pid: u32,
}

/// A socket that changes its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// The local port.
    pub port: u16,
    /// True if it is bound to a loopback address.
    pub(crate) is_loopback: bool,
    pub change: SocketChange,
}

/// An event, and those of its arguments that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A level of initcalls begins.
    Level(&'a [u8]),
    /// An initcall begins.
    InitcallStart(Symbol<'a>),
    /// An initcall has returned.
    InitcallFinish {
        function: Symbol<'a>,
        /// Its return value.
        returned: i64,
    },
    /// A CPU goes from one thread to another.
    Switch {
        /// The thread that stops running.
        prev: Task<'a>,
        /// Its state: `R` and `R+` can go on running, `X` and `Z` never will.
        state: &'a [u8],
        /// The thread that runs now.
        next: Task<'a>,
    },
    /// A thread is being woken.
    Waking(Task<'a>),
    /// A thread has been woken. If it was on another CPU, that CPU may log this in place of the waker.
    Wakeup(Task<'a>),
    /// A new thread may run for the first time.
    WakeupNew(Task<'a>),
    /// A thread was created.
    Fork { child: Task<'a> },
    /// A thread was created; comes before [`Event::Fork`].
    NewTask {
        /// Its thread id.
        child: u32,
        /// True for one more thread of its creator's process.
        is_thread: bool,
        /// True if it begins in a control group that its creator chose.
        has_group: bool,
    },
    /// A process runs another program.
    Exec {
        file: &'a [u8],
        pid: u32,
        /// The thread that called `execve`. From then on it has the process's number.
        by: u32,
    },
    /// A process joins a control group.
    GroupJoined {
        /// The group's path.
        group: &'a [u8],
        pid: u32,
    },
    /// A control group gets its first process.
    GroupPopulated(&'a [u8]),
    /// A block device finished a request.
    BlockDone(&'a [u8]),
    /// A thread ends.
    Exit(Task<'a>),
    /// A module was loaded; its initcall comes next.
    ModuleLoad(&'a [u8]),
    /// A work item begins: this is its function.
    WorkStart(&'a [u8]),
    /// The work item ends.
    WorkEnd,
    /// A device's interrupt handler begins: this is its registered name.
    IrqEntry(&'a [u8]),
    /// The handler ends.
    IrqExit,
    /// A softirq begins: this is its action.
    SoftirqEntry(&'a [u8]),
    /// The softirq ends.
    SoftirqExit,
    /// The CPU's own timer interrupts.
    LocalTimerEntry,
    /// The CPU's own timer interrupt has been handled.
    LocalTimerExit,
    /// A timer's function begins.
    TimerEntry(&'a [u8]),
    /// The timer's function has returned.
    TimerExit,
    /// A TCP socket changes its state.
    Socket(Socket),
    /// A message of printk.
    Console(&'a [u8]),
    /// Text that was written to `trace_marker`.
    Marker(&'a [u8]),
    /// An event that is not used: this is its name.
    Other(&'a [u8]),
    /// An event that would be used, but whose arguments do not fit the format.
    Damaged(&'a [u8]),
}

impl<'a> Event<'a> {
    /// Parses `name: arguments`. `None` without a name.
    #[inline]
    pub(super) fn parse(text: &'a [u8]) -> Option<Event<'a>> {
        // Every event has a colon after its name, except the heading of a stack trace (`<stack trace>`).
        let Some(colon) = memchr::memchr(b':', text) else {
            return (text == b"<stack trace>").then_some(Event::Other(text));
        };
        let name = &text[..colon];
        let arguments = skip_spaces(&text[colon + 1..]);
        Some(known(name, arguments).unwrap_or(Event::Damaged(name)))
    }
}

#[inline]
fn known<'a>(name: &'a [u8], args: &'a [u8]) -> Option<Event<'a>> {
    Some(match name {
        b"sched_switch" => switch(args)?,
        b"sched_waking" => Event::Waking(task(args)?),
        b"sched_wakeup" => Event::Wakeup(task(args)?),
        b"sched_wakeup_new" => Event::WakeupNew(task(args)?),
        b"initcall_start" => Event::InitcallStart(Symbol::parse(function(args)?)),
        b"initcall_finish" => finish(args)?,
        b"initcall_level" => Event::Level(args.strip_prefix(b"level=")?),
        b"console" => Event::Console(args),
        b"tracing_mark_write" => Event::Marker(args),
        b"local_timer_entry" => Event::LocalTimerEntry,
        b"local_timer_exit" => Event::LocalTimerExit,
        b"softirq_entry" => Event::SoftirqEntry(after(args, b"[action=")?.strip_suffix(b"]")?),
        b"softirq_exit" => Event::SoftirqExit,
        b"irq_handler_entry" => Event::IrqEntry(after(args, b"name=")?),
        b"irq_handler_exit" => Event::IrqExit,
        b"hrtimer_expire_entry" | b"timer_expire_entry" => Event::TimerEntry(until_space(after(args, b"function=")?)),
        b"hrtimer_expire_exit" | b"timer_expire_exit" => Event::TimerExit,
        b"workqueue_execute_start" => Event::WorkStart(symbol(after(args, b"function ")?)),
        b"workqueue_execute_end" => Event::WorkEnd,
        b"module_load" => Event::ModuleLoad(until_space(args)),
        b"sched_process_fork" => fork(args)?,
        b"sched_process_exec" => exec(args)?,
        b"task_newtask" => new_task(args)?,
        b"cgroup_attach_task" => group_joined(args)?,
        b"cgroup_notify_populated" => group_populated(args)?,
        b"block_rq_complete" => Event::BlockDone(until_space(args)),
        b"sched_process_exit" => Event::Exit(task(args)?),
        b"inet_sock_set_state" => socket(args)?,
        _ => Event::Other(name),
    })
}

/// Returns the text behind the first `key` at the start of the arguments or after a space.
fn after<'a>(args: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    args.strip_prefix(key).or_else(|| split(args, key, |rest| Some(((), rest))).map(|(_, (), rest)| rest))
}

/// Splits at the first space before `key` behind which `fits` succeeds. Returns the text before, the result, and the
/// rest.
#[inline]
fn split<'a, T>(
    text: &'a [u8],
    key: &[u8],
    fits: impl Fn(&'a [u8]) -> Option<(T, &'a [u8])>,
) -> Option<(&'a [u8], T, &'a [u8])> {
    let mut from = 0;
    while let Some(space) = memchr::memchr(b' ', &text[from..]) {
        let at = from + space;
        if let Some((value, rest)) = text[at + 1..].strip_prefix(key).and_then(&fits) {
            return Some((&text[..at], value, rest));
        }
        from = at + 1;
    }
    None
}

fn until_space(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(b' ', text).unwrap_or(text.len())]
}

/// Returns a function's name without offset; kernels print plain names or `name+0x0/0x10`.
fn symbol(text: &[u8]) -> &[u8] {
    Symbol::parse(text).name
}

fn pid(text: &[u8]) -> Option<(u32, &[u8])> {
    let (pid, rest) = number(text)?;
    Some((u32::try_from(pid).ok()?, rest))
}

/// Parses `func=acpi_init+0x0/0x4c2`; kernels before 5.x put a space before the value.
fn function(args: &[u8]) -> Option<&[u8]> {
    args.strip_prefix(b"func=").map(skip_spaces)
}

/// Parses `func=acpi_init+0x0/0x4c2 ret=0`.
fn finish(args: &[u8]) -> Option<Event<'_>> {
    let (symbol, returned, _) = split(function(args)?, b"ret=", |rest| signed(rest).filter(|r| r.1.is_empty()))?;
    Some(Event::InitcallFinish { function: Symbol::parse(symbol), returned })
}

/// Parses `prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120`.
#[inline]
fn switch(args: &[u8]) -> Option<Event<'_>> {
    let Some(text) = args.strip_prefix(b"prev_comm=") else {
        return switch_by_trace_cmd(args);
    };
    let (prev_comm, (prev_pid, state), rest) = split(text, b"prev_pid=", |rest| {
        let (pid, rest) = pid(rest)?;
        let (_, rest) = number(rest.strip_prefix(b" prev_prio=")?)?;
        let rest = rest.strip_prefix(b" prev_state=")?;
        let end = memchr::memchr(b' ', rest)?;
        Some(((pid, &rest[..end]), rest[end..].strip_prefix(b" ==> next_comm=")?))
    })?;
    let (next_comm, next_pid, _) = split(rest, b"next_pid=", |rest| {
        let (pid, rest) = pid(rest)?;
        Some((pid, rest.strip_prefix(b" next_prio=")?))
    })?;
    let prev = Task { comm: prev_comm, pid: prev_pid };
    Some(Event::Switch { prev, state, next: Task { comm: next_comm, pid: next_pid } })
}

/// Parses `a:1 [120] S ==> b:2 [120]`, as trace-cmd prints it.
fn switch_by_trace_cmd(args: &[u8]) -> Option<Event<'_>> {
    let at = memchr::memmem::find(args, b" ==> ")?;
    let (left, right) = (&args[..at], &args[at + 5..]);
    let (prev, state) = task_by_trace_cmd(left)?;
    let (next, _) = task_by_trace_cmd(right)?;
    Some(Event::Switch { prev, state: state.trim_ascii(), next })
}

/// Parses `comm=a pid=1 prio=120 …`, or `a:1 [120] …` as trace-cmd prints it.
#[inline]
fn task(args: &[u8]) -> Option<Task<'_>> {
    let Some(text) = args.strip_prefix(b"comm=") else {
        return task_by_trace_cmd(args).map(|(task, _)| task);
    };
    let (comm, pid, _) = split(text, b"pid=", |rest| {
        let (pid, rest) = pid(rest)?;
        Some((pid, rest.strip_prefix(b" prio=")?))
    })?;
    Some(Task { comm, pid })
}

fn task_by_trace_cmd(text: &[u8]) -> Option<(Task<'_>, &[u8])> {
    let open = memchr::memmem::rfind(text, b" [")?;
    let (_, rest) = number(&text[open + 2..])?;
    let colon = memchr::memrchr(b':', &text[..open])?;
    let (pid, _) = pid(&text[colon + 1..open]).filter(|(_, rest)| rest.is_empty())?;
    Some((Task { comm: &text[..colon], pid }, rest.strip_prefix(b"]")?))
}

/// Parses `comm=a pid=1 child_comm=b child_pid=2`.
fn fork(args: &[u8]) -> Option<Event<'_>> {
    let text = after(args, b"child_comm=")?;
    let (comm, pid, _) = split(text, b"child_pid=", |rest| pid(rest).filter(|(_, rest)| rest.is_empty()))?;
    Some(Event::Fork { child: Task { comm, pid } })
}

/// Parses `filename=/sbin/init pid=1 old_pid=1`.
fn exec(args: &[u8]) -> Option<Event<'_>> {
    let (file, (pid, by), _) = split(args.strip_prefix(b"filename=")?, b"pid=", |rest| {
        let (own, rest) = pid(rest)?;
        let (by, rest) = pid(rest.strip_prefix(b" old_pid=")?)?;
        Some(((own, by), rest))
    })?;
    Some(Event::Exec { file, pid, by })
}

/// Parses `pid=102 comm=systemd-udevd clone_flags=1200000 oom_score_adj=0`.
fn new_task(args: &[u8]) -> Option<Event<'_>> {
    // From Linux's include/uapi/linux/sched.h.
    const CLONE_THREAD: u64 = 0x1_0000;
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    let (child, rest) = pid(args.strip_prefix(b"pid=")?)?;
    let (_, flags, _) = split(rest.strip_prefix(b" comm=")?, b"clone_flags=", |rest| {
        let digits = until_space(rest);
        let flags = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        Some((flags, rest[digits.len()..].strip_prefix(b" oom_score_adj=")?))
    })?;
    Some(Event::NewTask { child, is_thread: flags & CLONE_THREAD != 0, has_group: flags & CLONE_INTO_CGROUP != 0 })
}

/// Parses `dst_root=0 dst_id=23 dst_level=1 dst_path=/init.scope pid=1 comm=systemd`.
fn group_joined(args: &[u8]) -> Option<Event<'_>> {
    let path = after(args, b"dst_path=")?;
    let (group, pid, _) = split(path, b"pid=", |rest| {
        let (pid, rest) = pid(rest)?;
        Some((pid, rest.strip_prefix(b" comm=")?))
    })?;
    Some(Event::GroupJoined { group, pid })
}

/// Parses `root=0 id=23 level=1 path=/init.scope val=1`. With `val=0`, the group's last process left.
fn group_populated(args: &[u8]) -> Option<Event<'_>> {
    const NAME: &[u8] = b"cgroup_notify_populated";
    let path = after(args, b"path=")?;
    let (group, is_populated, _) = split(path, b"val=", |rest| {
        let (value, rest) = number(rest)?;
        rest.is_empty().then_some((value != 0, rest))
    })?;
    Some(if is_populated { Event::GroupPopulated(group) } else { Event::Other(NAME) })
}

/// Parses `… sport=80 … saddr=0.0.0.0 … saddrv6=::ffff:0.0.0.0 … oldstate=TCP_CLOSE newstate=TCP_LISTEN`.
fn socket(args: &[u8]) -> Option<Event<'_>> {
    const NAME: &[u8] = b"inet_sock_set_state";
    let field = |key| after(args, key).map(until_space);
    let change = match (field(b"oldstate=")?, field(b"newstate=")?) {
        (_, b"TCP_LISTEN") => SocketChange::Listens,
        (b"TCP_LISTEN", b"TCP_CLOSE") => SocketChange::ListensNoMore,
        // The change to TCP_ESTABLISHED may come after the host has its answer, when tracing has stopped.
        (b"TCP_LISTEN", b"TCP_SYN_RECV") | (b"TCP_SYN_RECV", b"TCP_ESTABLISHED") => SocketChange::Connected,
        (b"TCP_ESTABLISHED", b"TCP_FIN_WAIT1") | (b"TCP_CLOSE_WAIT", b"TCP_LAST_ACK") => SocketChange::Closed,
        _ => return Some(Event::Other(NAME)),
    };
    if field(b"protocol=")? != b"IPPROTO_TCP" {
        return Some(Event::Other(NAME));
    }
    let (port, _) = number(field(b"sport=")?)?;
    let is_loopback = field(b"saddr=")?.starts_with(b"127.") || field(b"saddrv6=")? == b"::1";
    Some(Event::Socket(Socket { port: u16::try_from(port).ok()?, is_loopback, change }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Event<'_>) {
        assert_eq!(Event::parse(text.as_bytes()), Some(expected), "{text}");
    }

    fn a_task(comm: &str, pid: u32) -> Task<'_> {
        Task { comm: comm.as_bytes(), pid }
    }

    #[test]
    fn each_events_arguments_are_parsed() {
        let switch = |comm, state| Event::Switch { prev: a_task(comm, 1), state, next: a_task("b c", 2) };
        check(
            "sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=R+ ==> next_comm=b c next_pid=2 next_prio=120",
            switch("a", b"R+"),
        );
        check(
            "sched_switch: prev_comm=x prev_pid=7 prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b c next_pid=2 next_prio=120",
            switch("x prev_pid=7", b"S"),
        );
        check("sched_switch:         a:1 [120] D ==> b c:2 [120]", switch("a", b"D"));
        let socket = |states: &str| {
            format!(
                "inet_sock_set_state: family=AF_INET protocol=IPPROTO_TCP sport=80 dport=0 saddr=0.0.0.0 daddr=0.0.0.0 \
                 saddrv6=::ffff:0.0.0.0 daddrv6=::ffff:0.0.0.0 {states}"
            )
        };
        let port = |change| Event::Socket(Socket { port: 80, is_loopback: false, change });
        let listens = socket("oldstate=TCP_CLOSE newstate=TCP_LISTEN");
        check(&listens, port(SocketChange::Listens));
        check(&socket("oldstate=TCP_LISTEN newstate=TCP_CLOSE"), port(SocketChange::ListensNoMore));
        check(&socket("oldstate=TCP_LISTEN newstate=TCP_SYN_RECV"), port(SocketChange::Connected));
        check(&socket("oldstate=TCP_SYN_RECV newstate=TCP_ESTABLISHED"), port(SocketChange::Connected));
        check(&socket("oldstate=TCP_ESTABLISHED newstate=TCP_FIN_WAIT1"), port(SocketChange::Closed));
        let local = Event::Socket(Socket { port: 80, is_loopback: true, change: SocketChange::Listens });
        check(&listens.replace(" saddr=0.0.0.0", " saddr=127.0.0.1"), local);
        check(&socket("oldstate=TCP_CLOSE newstate=TCP_SYN_SENT"), Event::Other(b"inet_sock_set_state"));
        check(&listens.replace("IPPROTO_TCP", "IPPROTO_SCTP"), Event::Other(b"inet_sock_set_state"));
        check(&listens.replace("sport=80", "sport=x"), Event::Damaged(b"inet_sock_set_state"));
        check("sched_waking: comm=a pid=1 b pid=9 prio=120 target_cpu=001", Event::Waking(a_task("a pid=1 b", 9)));
        check("sched_wakeup: kworker/0:1:9 [120] success=1 CPU:000", Event::Wakeup(a_task("kworker/0:1", 9)));
        check("sched_process_fork: comm=a pid=1 child_comm=b child_pid=3", Event::Fork { child: a_task("b", 3) });
        let exec = Event::Exec { file: b"/sbin/a pid=2", pid: 1, by: 7 };
        check("sched_process_exec: filename=/sbin/a pid=2 pid=1 old_pid=7", exec);
        let new = |is_thread, has_group| Event::NewTask { child: 3, is_thread, has_group };
        check("task_newtask: pid=3 comm=a clone_flags=1200000 oom_score_adj=0", new(false, false));
        check("task_newtask: pid=3 comm=a clone_flags=1 b clone_flags=3d0f00 oom_score_adj=-900", new(true, false));
        check("task_newtask: pid=3 comm=systemd clone_flags=300005100 oom_score_adj=0", new(false, true));
        check(
            "cgroup_attach_task: dst_root=0 dst_id=9 dst_level=2 dst_path=/system.slice/a.service pid=3 comm=(a)",
            Event::GroupJoined { group: b"/system.slice/a.service", pid: 3 },
        );
        let populated = "cgroup_notify_populated: root=0 id=9 level=2 path=/system.slice/a.service val=";
        check(&format!("{populated}1"), Event::GroupPopulated(b"/system.slice/a.service"));
        check(&format!("{populated}0"), Event::Other(b"cgroup_notify_populated"));
        check("block_rq_complete: 254,0 R () 0 + 8 [0]", Event::BlockDone(b"254,0"));
        check("sched_process_exit: comm=a pid=3 prio=120", Event::Exit(a_task("a", 3)));
        let symbol = Symbol { name: b"init_module", module: Some(b"virtio") };
        check("initcall_start: func=init_module+0x0/0x10 [virtio]", Event::InitcallStart(symbol));
        check(
            "initcall_finish: func=init_module+0x0/0x10 [virtio] ret=-19",
            Event::InitcallFinish { function: symbol, returned: -19 },
        );
        check("softirq_entry: vec=9 [action=RCU]", Event::SoftirqEntry(b"RCU"));
        check("irq_handler_entry: irq=4 name=ttyS0 x", Event::IrqEntry(b"ttyS0 x"));
        check(
            "workqueue_execute_start: work struct (____ptrval____): function process_srcu",
            Event::WorkStart(b"process_srcu"),
        );
        check(
            "hrtimer_expire_entry: hrtimer=(____ptrval____) function=tick_sched_timer now=1717240526",
            Event::TimerEntry(b"tick_sched_timer"),
        );
        check("module_load: virtio_net E", Event::ModuleLoad(b"virtio_net"));
        check("console: [    1.5] a: b", Event::Console(b"[    1.5] a: b"));
        check("sched_stat_runtime: comm=a", Event::Other(b"sched_stat_runtime"));
    }

    #[test]
    fn malformed_arguments_are_damage() {
        for text in [
            "sched_switch: prev_comm=a prev_pid=1",
            "initcall_finish: func=x",
            "sched_waking: comm=x pid=99999999999 prio=1",
            "initcall_level:",
        ] {
            assert!(matches!(Event::parse(text.as_bytes()), Some(Event::Damaged(_))), "{text}");
        }
        assert_eq!(Event::parse(b"no name"), None);
    }
}
