//! The kernel command line: the user's parameters, and those that recording adds.
//!
//! Added parameters go in front, because the kernel takes the last value of a parameter: the user's value wins. The exception is `rdinit=`,
//! without which no evidence would be transferred; guest-init then executes the user's `rdinit`.
//!
//! A guest that is recorded with its own init runs no process of bootscope. It gets a console if the user gave no console, and its kernel's
//! log and trace are read out of its memory at the end. If the kernel's image does not say how to read the trace there, the log is the only
//! evidence. Then the guest gets `initcall_debug` and a larger log instead of events. Without `trace_events` it gets only the
//! console.

use recording::{GuestSpec, Init, Then, Until};

use crate::arch::Arch;
use crate::profile::GuestProfile;
use crate::refusal::{Text, text};
use crate::{Error, plain_machine};
use recording::Field;

/// Events of the kernel that are traced.
///
/// Initcalls and modules are the parts of a boot. The scheduler's events show which thread waited for which, interrupts what woke a thread,
/// and work items what a kworker did. Messages are in the log too; in the trace they join printk's clock to the trace's.
const EVENTS: &str = "initcall:*,module:*,sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new,\
    sched:sched_process_fork,sched:sched_process_exec,sched:sched_process_exit,workqueue:workqueue_execute_start,\
    workqueue:workqueue_execute_end,irq:irq_handler_entry,irq:irq_handler_exit,printk:console";

/// Additional events for the processes of a guest's own init. They tell threads from processes, and give each process its unit (systemd has
/// a control group for each) and the waits that end with a disk's answer.
const USER_EVENTS: &str =
    "task:task_newtask,cgroup:cgroup_attach_task,cgroup:cgroup_notify_populated,block:block_rq_complete";

/// The event that shows which process opened the awaited port. It is rare.
const PORT_EVENT: &str = "sock:inet_sock_set_state";

/// With these parameters systemd logs the start and the activation of each unit by name in the kernel's log, otherwise only in its own log.
/// Without the last one it drops messages beyond 200 in 5 s; versions before 254 drop them regardless.
const SYSTEMD: [&str; 4] = [
    "systemd.log_target=kmsg",
    "systemd.log_level=info",
    "systemd.status_unit_format=combined",
    "systemd.log_ratelimit_kmsg=0",
];

/// A command line, and the parts that were taken out of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KernelLine {
    pub(crate) text: String,
    /// The user's `rdinit=`: guest-init hands over to it.
    pub(crate) rdinit: Option<String>,
    /// A remark that an init which the user named is not run.
    pub(crate) note: Option<Text>,
}

/// Parameters that are added to the user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// Only those that the requested boot needs.
    Plain,
    /// Those that recording needs too; `trace_in_memory` is true if the trace can be read in the guest's memory, and `has_events` if the
    /// kernel can trace events.
    Recorded { trace_in_memory: bool, has_events: bool },
}

/// Makes the command line for these options.
pub(crate) fn kernel_line(
    options: &GuestSpec,
    arch: &Arch,
    profile: &GuestProfile,
    adds: Added,
) -> Result<KernelLine, Error> {
    let (parameters, for_init) = split(&options.append);
    let mut rdinit = None;
    let mut line = if profile.takes_linux_words { added(options, arch, adds, &parameters) } else { Vec::new() };
    // The init of a root is given as `init=`, as for the kernel itself.
    let init_key = if options.root.is_some() { "init=" } else { "rdinit=" };
    let note = not_run(options, init_key, &parameters);
    for parameter in parameters {
        match parameter.strip_prefix(init_key) {
            Some(path) if options.has_guest_init() => rdinit = Some(path.to_owned()),
            _ => line.push(parameter),
        }
    }
    if options.has_guest_init() || options.init == Init::Mute {
        let path = if options.root.is_some() { guest_init::cpio::ROOT_PATH } else { guest_init::cpio::INIT_PATH };
        line.push(format!("rdinit={path}"));
    }
    if !for_init.is_empty() {
        line.push("--".to_owned());
        line.extend(for_init);
    }
    let text = line.join(" ");
    let bytes_max = arch.facts.linux.command_line_bytes_max;
    if text.len() > bytes_max {
        let why = format!(
            "the kernel command line is {} bytes with what recording adds ({} without), the kernel takes {bytes_max}",
            text.len(),
            options.append.len()
        );
        let instead = text!["shorten ", Field::Append, ", or record with ", Field::TraceEvents.is(false)];
        return Err(Error::refused(Field::Append, why, instead));
    }
    Ok(KernelLine { text, rdinit, note })
}

/// A remark if bootscope's process 1 does not hand over to an init that the command line names, and which option would do so.
fn not_run(options: &GuestSpec, init_key: &str, parameters: &[String]) -> Option<Text> {
    let is_named = |parameter: &&String| parameter.starts_with("init=") || parameter.starts_with("rdinit=");
    let hands_over = |parameter: &str| options.then == Then::Exec && parameter.starts_with(init_key);
    let unused: Vec<&str> = parameters.iter().filter(is_named).map(String::as_str).filter(|p| !hands_over(p)).collect();
    if unused.is_empty() || !options.has_guest_init() {
        return None;
    }
    let instead = match options.then {
        Then::Exec => format!("it hands over to what {init_key} names").into(),
        Then::PowerOff => text!["it powers the guest off at the end; ", Field::Then.is("exec"), " hands over"],
    };
    let unused = unused.join(" and ");
    Some(text![
        format!("{unused} is not run: process 1 is bootscope's, and "),
        instead,
        ". With ",
        Field::Init.is("keep"),
        " the guest has its own"
    ])
}

fn added(options: &GuestSpec, arch: &Arch, adds: Added, user: &[String]) -> Vec<String> {
    let given = |prefix: &str| user.iter().any(|parameter| parameter.starts_with(prefix));
    let mut line = Vec::new();
    if !given("console=") {
        let consoles =
            if arch.is_plain(options) { plain_machine::consoles(options) } else { vec![arch.console(options)] };
        line.extend(consoles.iter().map(|console| format!("console={console}")));
    }
    let is_fixed = options.fixed_address || !options.patches.is_empty();
    if options.deterministic && !given("kaslr") || is_fixed && !given("nokaslr") {
        line.push("nokaslr".to_owned());
    }
    line.extend(options.mask.iter().map(|unit| format!("systemd.mask={unit}")));
    let Added::Recorded { trace_in_memory, has_events } = adds else { return line };
    let traced = options.trace_events && has_events && (options.has_guest_init() || trace_in_memory);
    let logged = options.trace_events && !traced;
    // `initcall_debug` without a value and `initcall_debug=0` are both the user's choice.
    if logged && !given("initcall_debug") {
        line.push("initcall_debug".to_owned());
    }
    if logged && !arch.shows_log {
        line.push("ignore_loglevel".to_owned());
    }
    if (options.has_guest_init() && verbose(user)) || (logged && !given("log_buf_len=")) {
        line.push("log_buf_len=1048576".to_owned());
    }
    if traced {
        // The clock is set because a kernel that chooses it itself may do so late, which empties the buffer.
        let user = if options.has_guest_init() { String::new() } else { format!(",{USER_EVENTS}") };
        let port = options.until.port().map_or_else(String::new, |_| format!(",{PORT_EVENT}"));
        line.push(format!("trace_event={EVENTS}{user}{port}"));
        line.push(format!("trace_clock={}", arch.facts.linux.trace_clock));
        line.push(format!("trace_buf_size={}", trace_buffer_bytes(options)));
    }
    // The kernel's log is the only log of a guest's systemd that can be read. Other inits ignore these parameters.
    let is_asked_for = traced || matches!(options.until, Until::Unit(_));
    if is_asked_for && !options.has_guest_init() {
        let is_given = |word: &str| word.split_once('=').is_some_and(|(key, _)| given(&format!("{key}=")));
        line.extend(SYSTEMD.iter().filter(|word| !is_given(word)).map(|&word| word.to_owned()));
    }
    line
}

/// True if the command line makes the kernel log more than its usual buffer holds. Not every boot gets a larger buffer: the kernel clears
/// all of it, which takes some 50 ms for each MiB under TCG.
fn verbose(parameters: &[String]) -> bool {
    const LOUD: [&str; 4] = ["initcall_debug", "debug", "dyndbg", "apic=debug"];
    parameters.iter().any(|p| LOUD.iter().any(|loud| p == loud || p.starts_with(&format!("{loud}="))))
}

/// Bytes of trace buffer for each CPU: at most 1/16 of memory in all, and at most what a boot fills, because the kernel clears every page
/// of it.
fn trace_buffer_bytes(options: &GuestSpec) -> u64 {
    let share = options.memory_bytes / 16 / u64::from(options.cpus);
    let wanted = if options.cpus == 1 { 2 << 20 } else { 1 << 20 };
    // A boot into user space writes at least twice as much.
    let wanted = if options.has_guest_init() { wanted } else { 4 * wanted };
    share.clamp(128 << 10, wanted)
}

/// Splits into the kernel's parameters and those after `--`, which are for init. A double quote keeps blanks in a parameter.
fn split(append: &str) -> (Vec<String>, Vec<String>) {
    let mut all: Vec<String> = Vec::new();
    let (mut quoted, mut inside) = (false, false);
    for c in append.chars() {
        if c.is_ascii_whitespace() && !quoted {
            inside = false;
            continue;
        }
        quoted ^= c == '"';
        if !inside {
            all.push(String::new());
            inside = true;
        }
        all.last_mut().expect("one was just pushed").push(c);
    }
    match all.iter().position(|parameter| parameter == "--") {
        Some(at) => {
            let for_init = all.split_off(at + 1);
            all.pop();
            (all, for_init)
        }
        None => (all, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::ARCH;

    const RECORDED: Added = Added::Recorded { trace_in_memory: false, has_events: true };

    fn linux() -> GuestProfile {
        GuestProfile { takes_linux_words: true, ..GuestProfile::default() }
    }

    fn line(append: &str, change: impl FnOnce(&mut GuestSpec)) -> KernelLine {
        let mut options = GuestSpec { append: append.to_owned(), trace_events: false, ..Default::default() };
        change(&mut options);
        kernel_line(&options, &ARCH, &linux(), RECORDED).unwrap()
    }

    #[test]
    fn what_is_added_stands_in_front_and_the_users_init_arguments_stay_last() {
        let line = line("quiet dyndbg=\"file a +p\" -- single", |_| {});
        let expected = "console=ttyS0 log_buf_len=1048576 quiet dyndbg=\"file a +p\" rdinit=/bootscope/init -- single";
        assert_eq!(line.text, expected);
        assert_eq!(line.rdinit, None);
    }

    #[test]
    fn the_users_console_and_rdinit_are_respected() {
        let line = line("console=tty0 rdinit=/linuxrc", |_| {});
        assert_eq!(line.text, "console=tty0 rdinit=/bootscope/init");
        assert_eq!(line.rdinit.as_deref(), Some("/linuxrc"));
    }

    #[test]
    fn a_root_is_mounted_first_and_its_init_handed_over_to() {
        let line = line("root=/dev/sda init=/bin/sh", |options| options.root = Some("root.img".into()));
        assert_eq!(line.text, "console=ttyS0 root=/dev/sda rdinit=/bootscope/root");
        assert_eq!(line.rdinit.as_deref(), Some("/bin/sh"));
    }

    #[test]
    fn a_note_names_an_init_that_is_not_run() {
        let note = |append: &str, then: Then, root: bool| {
            let root = root.then(|| "root.img".into());
            line(append, |options| (options.then, options.root) = (then, root)).note.unwrap_or_default()
        };
        let off = note("init=/bin/sh rdinit=/linuxrc", Then::PowerOff, false);
        assert!(off.contains("init=/bin/sh and rdinit=/linuxrc is not run") && off.contains("then=exec"), "{off}");
        assert!(note("init=/bin/sh", Then::Exec, false).contains("what rdinit= names"));
        assert!(note("init=/bin/sh", Then::PowerOff, true).contains("then=exec"));
        assert_eq!(note("rdinit=/linuxrc", Then::Exec, false), Text::default());
        assert_eq!(note("init=/bin/sh", Then::Exec, true), Text::default());
        assert_eq!(line("init=/bin/sh", |options| options.init = Init::Keep).note, None);
    }

    #[test]
    fn a_guest_with_its_own_init_logs_its_initcalls_if_events_are_asked_for() {
        let keep = |append: &str, events: bool| {
            let change = |options: &mut GuestSpec| (options.init, options.trace_events) = (Init::Keep, events);
            line(append, change).text
        };
        assert_eq!(keep("root=/dev/vda1 rdinit=/x", false), "console=ttyS0 root=/dev/vda1 rdinit=/x");
        let logged = "console=ttyS0 initcall_debug log_buf_len=1048576 root=/dev/vda1";
        assert_eq!(keep("root=/dev/vda1", true), logged);
        // The user's values stay.
        assert_eq!(keep("initcall_debug=0 log_buf_len=4M", true), "console=ttyS0 initcall_debug=0 log_buf_len=4M");
        let plain = GuestSpec { init: Init::Keep, append: "quiet".to_owned(), ..Default::default() };
        assert_eq!(
            kernel_line(&plain, &ARCH, &linux(), Added::Plain).unwrap().text,
            "console=ttyS0 quiet",
            "a plain boot is left alone"
        );
        let masked = GuestSpec { mask: vec!["a.timer".to_owned(), "b.service".to_owned()], ..plain };
        assert_eq!(
            kernel_line(&masked, &ARCH, &linux(), Added::Plain).unwrap().text,
            "console=ttyS0 systemd.mask=a.timer systemd.mask=b.service quiet",
            "what is masked is the guest's, also where nothing is recorded"
        );
    }

    #[test]
    fn a_kernel_without_events_logs_its_initcalls() {
        let options = GuestSpec { append: "quiet".to_owned(), ..GuestSpec::default() };
        let adds = Added::Recorded { trace_in_memory: true, has_events: false };
        let line = |options: &GuestSpec| kernel_line(options, &ARCH, &linux(), adds).unwrap().text;
        let expected = "console=ttyS0 initcall_debug log_buf_len=1048576 quiet";
        assert_eq!(line(&options), format!("{expected} rdinit=/bootscope/init"));
        assert_eq!(line(&GuestSpec { init: Init::Keep, ..options }), expected);
    }

    #[test]
    fn events_are_traced_with_a_clock_and_a_buffer_to_fit() {
        let one = line("", |options| options.trace_events = true).text;
        assert!(one.contains(" trace_event=initcall:*,module:*,sched:sched_switch,sched:"), "{one}");
        assert!(one.contains(" trace_clock=x86-tsc trace_buf_size=2097152 "), "{one}");
        let small = line("", |options| {
            options.trace_events = true;
            (options.cpus, options.memory_bytes) = (4, 128 << 20);
        });
        assert!(small.text.contains("trace_buf_size=1048576"), "{}", small.text);
        let port = line("", |options| (options.trace_events, options.until) = (true, Until::Tcp(80))).text;
        assert!(port.contains(",printk:console,sock:inet_sock_set_state trace_clock="), "{port}");
        assert!(!one.contains("inet_sock"), "nobody asks for a port: {one}");
    }

    #[test]
    fn a_deterministic_boot_stays_where_it_is() {
        assert!(line("", |options| options.deterministic = true).text.contains("nokaslr"));
    }

    #[test]
    fn a_line_that_the_kernel_would_cut_is_refused() {
        let options = GuestSpec { append: "x".repeat(1800), ..Default::default() };
        let error = kernel_line(&options, &ARCH, &linux(), RECORDED).unwrap_err().to_string();
        assert!(error.contains("2047") && error.contains("1800"), "{error}");
    }
}
