//! Formats a record of a trace as the kernel does in `/sys/kernel/tracing/trace`.
//!
//! Each event has a template here; [`Fields`] supplies the places of its fields. An event's number and the places of
//! its fields differ between kernels, but its text hardly does.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::{Field, Fields, Names};

/// An event: its name, the structure of its record without `trace_event_raw_`, and its template. `{x}` is a number,
/// `{x:s}` a text. `{x:S}` is a function with its offset, `{x:f}` its name alone. `{x:3}` is a number of three digits,
/// `{x:x}` a hexadecimal one, `{x:u}` one without a sign. `{x:t}` is a thread's state, `{x:d}` a device, `{x:q}` the
/// action of a softirq, `{x:a}` an internet address. `{x:F}`, `{x:P}` and `{x:T}` are a socket's family, its protocol
/// and its connection's state.
const EVENTS: &[(&str, &str, &str)] = &[
    ("initcall_level", "initcall_level", "level={level:s}"),
    ("initcall_start", "initcall_start", "func={func:S}"),
    ("initcall_finish", "initcall_finish", "func={func:S} ret={ret}"),
    ("module_load", "module_load", "{name:s}"),
    (
        "sched_switch",
        "sched_switch",
        "prev_comm={prev_comm:s} prev_pid={prev_pid} prev_prio={prev_prio} prev_state={prev_state:t} ==> \
         next_comm={next_comm:s} next_pid={next_pid} next_prio={next_prio}",
    ),
    ("sched_waking", "sched_wakeup_template", WAKEUP),
    ("sched_wakeup", "sched_wakeup_template", WAKEUP),
    ("sched_wakeup_new", "sched_wakeup_template", WAKEUP),
    (
        "sched_process_fork",
        "sched_process_fork",
        "comm={parent_comm:s} pid={parent_pid} child_comm={child_comm:s} child_pid={child_pid}",
    ),
    (
        "task_newtask",
        "task_newtask",
        "pid={pid} comm={comm:s} clone_flags={clone_flags:x} oom_score_adj={oom_score_adj}",
    ),
    (
        "cgroup_attach_task",
        "cgroup_migrate",
        "dst_root={dst_root} dst_id={dst_id} dst_level={dst_level} dst_path={dst_path:s} pid={pid} comm={comm:s}",
    ),
    ("cgroup_notify_populated", "cgroup_event", "root={root} id={id} level={level} path={path:s} val={val}"),
    ("block_rq_complete", "block_rq_completion", "{dev:d} {rwbs:s} () {sector} + {nr_sector} [{error}]"),
    (
        "inet_sock_set_state",
        "inet_sock_set_state",
        "family={family:F} protocol={protocol:P} sport={sport:u} dport={dport:u} saddr={saddr:a} daddr={daddr:a} \
         saddrv6={saddr_v6:a} daddrv6={daddr_v6:a} oldstate={oldstate:T} newstate={newstate:T}",
    ),
    ("sched_process_exec", "sched_process_exec", "filename={filename:s} pid={pid} old_pid={old_pid}"),
    ("sched_process_exit", "sched_process_template", "comm={comm:s} pid={pid} prio={prio}"),
    ("workqueue_execute_start", "workqueue_execute_start", "work struct (____ptrval____): function {function:f}"),
    ("workqueue_execute_end", "workqueue_execute_end", "work struct (____ptrval____)"),
    ("irq_handler_entry", "irq_handler_entry", "irq={irq} name={name:s}"),
    ("irq_handler_exit", "irq_handler_exit", "irq={irq} ret={ret}"),
    ("softirq_entry", "softirq", "vec={vec} [action={vec:q}]"),
    ("softirq_exit", "softirq", "vec={vec} [action={vec:q}]"),
    ("local_timer_entry", "x86_irq_vector", "vector={vector}"),
    ("local_timer_exit", "x86_irq_vector", "vector={vector}"),
    ("hrtimer_expire_entry", "hrtimer_expire_entry", "hrtimer=(____ptrval____) function={function:f} now={now}"),
    ("hrtimer_expire_exit", "hrtimer_class", "hrtimer=(____ptrval____)"),
    ("timer_expire_entry", "timer_expire_entry", "timer=(____ptrval____) function={function:f} now={now}"),
    ("timer_expire_exit", "timer_class", "timer=(____ptrval____)"),
    ("console", "console", "{msg:s}"),
    (MARKER, "print", "{buf:s}"),
];
/// The event of writes to `trace_marker`. The kernel prints another name for it than the event's own.
const MARKER: &str = "print";
const MARKER_PRINTED: &str = "tracing_mark_write";
const WAKEUP: &str = "comm={comm:s} pid={pid} prio={prio} target_cpu={target_cpu:3}";

/// The name of a thread that no record names.
const NAMELESS: &[u8] = b"<...>";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Digits3,
    Hexadecimal,
    Device,
    Text,
    Function { offset: bool },
    State,
    Softirq,
    Unsigned,
    Address,
    Family,
    Protocol,
    Connection,
}

#[derive(Clone, Debug)]
enum Piece {
    Literal(&'static str),
    Value(Place, Kind),
}

/// The place of a value.
#[derive(Clone, Copy, Debug)]
enum Place {
    Here(Field),
    /// This field holds the place of the value.
    Elsewhere(Field),
}

/// The text form of an event.
struct Form {
    name: &'static str,
    pieces: Vec<Piece>,
    /// The fields that name a thread: its id and its name.
    threads: Vec<(Place, Place)>,
}

/// The text forms of a kernel's events, with the places of their fields.
pub struct Forms {
    flags: Field,
    preempt: Field,
    pid: Field,
    events: Vec<Form>,
}

impl Forms {
    /// Returns `None` if the types lack the fields that every record begins with.
    pub fn of(fields: &dyn Fields) -> Option<Forms> {
        let common = |name: &str| fields.common(name);
        let events =
            EVENTS.iter().filter_map(|&(name, structure, template)| Form::of(fields, name, structure, template));
        let events = events.collect();
        Some(Forms { flags: common("flags")?, preempt: common("preempt_count")?, pid: common("pid")?, events })
    }
}

/// The unit of the stamps, and their text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamps {
    /// Nanoseconds, as the kernel prints them: seconds with six decimals, rounded.
    Microseconds,
    /// Nanoseconds, as seconds with nine decimals.
    Nanoseconds,
    /// A counter's value.
    Counter,
}

/// Prints the records of a trace.
pub struct Printer<'a> {
    all: &'a Forms,
    /// By the event's number in the kernel.
    forms: HashMap<u16, &'a Form>,
    /// Names of events by number, including those without a template.
    events: HashMap<u16, &'a str>,
    names: &'a Names,
    stamps: Stamps,
    /// The latest name of each thread; `first` has its earliest.
    now: HashMap<u32, Vec<u8>>,
    first: HashMap<u32, Vec<u8>>,
}

impl<'a> Printer<'a> {
    /// Makes a printer for events with these numbers.
    pub fn new(all: &'a Forms, numbers: &'a HashMap<String, u16>, names: &'a Names, stamps: Stamps) -> Printer<'a> {
        let numbered = |form: &'a Form| Some((*numbers.get(form.name)?, form));
        Printer {
            all,
            forms: all.events.iter().filter_map(numbered).collect(),
            events: numbers.iter().map(|(name, &number)| (number, name.as_str())).collect(),
            names,
            stamps,
            now: HashMap::new(),
            first: HashMap::new(),
        }
    }

    /// Collects the names of threads from a record. Call it in order of time, before the first line is printed.
    pub fn learn(&mut self, record: &[u8]) {
        for (pid, comm) in self.threads(record) {
            self.first.entry(pid).or_insert(comm);
        }
    }

    /// Adds a thread's name that no record has had so far.
    pub fn know(&mut self, pid: u32, comm: &[u8]) {
        self.first.entry(pid).or_insert_with(|| one_line(comm).collect());
    }

    fn threads(&self, record: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let Some(form) = number(record).and_then(|number| self.forms.get(&number)) else { return Vec::new() };
        let named = form.threads.iter().filter_map(|&(pid, comm)| {
            let pid = u32::try_from(value(record, pid)?).ok()?;
            Some((pid, one_line(text(record, comm)?).collect()))
        });
        // Each CPU has its own idle thread, and all have the number 0.
        named.filter(|&(pid, _)| pid != 0).collect()
    }

    /// Prints a record. Returns false if there was nothing to print. Call it in order of time.
    pub fn line(&mut self, record: &[u8], cpu: u32, stamp: u64, out: &mut Vec<u8>) -> bool {
        let Some(event) = number(record) else { return false };
        let Some(pid) = value(record, Place::Here(self.all.pid)).and_then(|pid| u32::try_from(pid).ok()) else {
            return false;
        };
        let Some(&name) = self.events.get(&event) else { return false };
        let comm = match pid {
            0 => b"<idle>",
            pid => self.now.get(&pid).or_else(|| self.first.get(&pid)).map_or(NAMELESS, Vec::as_slice),
        };
        let comm = String::from_utf8_lossy(comm);
        let flags = self.flags(record);
        let stamp = match self.stamps {
            Stamps::Microseconds => {
                let us = stamp.saturating_add(500) / 1000;
                format!("{:>5}.{:06}", us / 1_000_000, us % 1_000_000)
            }
            Stamps::Nanoseconds => format!("{:>5}.{:09}", stamp / 1_000_000_000, stamp % 1_000_000_000),
            Stamps::Counter => format!("{stamp:>12}"),
        };
        let name = if name == MARKER { MARKER_PRINTED } else { name };
        let _ = write!(out, "{comm:>16}-{pid:<7} [{cpu:03}] {flags} {stamp}: {name}: ");
        if let Some(form) = self.forms.get(&event) {
            form.pieces.iter().for_each(|piece| self.piece(piece, record, out));
        }
        out.push(b'\n');
        for (pid, comm) in self.threads(record) {
            self.now.insert(pid, comm);
        }
        true
    }

    /// Like the kernel's `trace_print_lat_fmt`: interrupts off, need to reschedule, context, depths.
    fn flags(&self, record: &[u8]) -> String {
        let flags = value(record, Place::Here(self.all.flags)).unwrap_or(0);
        let depths = value(record, Place::Here(self.all.preempt)).unwrap_or(0);
        let is = |bit: i64| flags & bit != 0;
        let off = match (is(0x01), is(0x80)) {
            (true, true) => 'D',
            (true, false) => 'd',
            (false, true) => 'b',
            (false, false) => '.',
        };
        let switch = match (is(0x04), is(0x20)) {
            (true, true) => 'N',
            (true, false) => 'n',
            (false, true) => 'p',
            (false, false) => '.',
        };
        let context = match (is(0x40), is(0x08), is(0x10)) {
            (true, true, _) => 'Z',
            (true, false, _) => 'z',
            (false, true, true) => 'H',
            (false, true, false) => 'h',
            (false, false, true) => 's',
            (false, false, false) => '.',
        };
        let depth = |depth: i64| match depth & 0xf {
            0 => '.',
            depth => char::from_digit(u32::try_from(depth).unwrap_or(0), 16).unwrap_or('.'),
        };
        [off, switch, context, depth(depths), depth(depths >> 4)].into_iter().collect()
    }

    fn piece(&self, piece: &Piece, record: &[u8], out: &mut Vec<u8>) {
        let (place, kind) = match *piece {
            Piece::Literal(text) => return out.extend_from_slice(text.as_bytes()),
            Piece::Value(place, kind) => (place, kind),
        };
        if kind == Kind::Text {
            return out.extend(one_line(text(record, place).unwrap_or_default()));
        }
        if kind == Kind::Address {
            return out.extend(internet_address(record, place).into_bytes());
        }
        let value = value(record, place).unwrap_or(0);
        let _ = match kind {
            Kind::Digits3 => write!(out, "{value:03}"),
            Kind::Hexadecimal => write!(out, "{value:x}"),
            // As the kernel keeps them: 20 bits of minor number.
            Kind::Device => write!(out, "{},{}", (value >> 20) & 0xfff, value & 0xf_ffff),
            Kind::State => write!(out, "{}", state(value)),
            Kind::Softirq => write!(out, "{}", softirq(value)),
            Kind::Function { offset } => write!(out, "{}", self.names.function(address(value), offset)),
            // Numbers of this kind have at most 16 bits.
            Kind::Unsigned => write!(out, "{}", value & 0xffff),
            Kind::Family => write!(out, "{}", named(value, &FAMILIES)),
            Kind::Protocol => write!(out, "{}", named(value, &PROTOCOLS)),
            Kind::Connection => write!(out, "{}", named(value, &CONNECTIONS)),
            Kind::Number | Kind::Text | Kind::Address => write!(out, "{value}"),
        };
    }
}

impl Form {
    fn of(fields: &dyn Fields, name: &'static str, structure: &str, template: &'static str) -> Option<Form> {
        let own = |field: &str| fields.own(name, structure, field);
        let place = |field: &str, is_text: bool| {
            let elsewhere = || own(&format!("__data_loc_{field}")).map(Place::Elsewhere);
            let here = own(field).map(Place::Here);
            if is_text { elsewhere().or(here) } else { here }
        };
        let mut pieces = Vec::new();
        let mut rest = template;
        while let Some((before, behind)) = rest.split_once('{') {
            let (value, after) = behind.split_once('}')?;
            let (field, kind) = match value.split_once(':') {
                None => (value, Kind::Number),
                Some((field, "s")) => (field, Kind::Text),
                Some((field, "S")) => (field, Kind::Function { offset: true }),
                Some((field, "f")) => (field, Kind::Function { offset: false }),
                Some((field, "t")) => (field, Kind::State),
                Some((field, "x")) => (field, Kind::Hexadecimal),
                Some((field, "d")) => (field, Kind::Device),
                Some((field, "q")) => (field, Kind::Softirq),
                Some((field, "u")) => (field, Kind::Unsigned),
                Some((field, "a")) => (field, Kind::Address),
                Some((field, "F")) => (field, Kind::Family),
                Some((field, "P")) => (field, Kind::Protocol),
                Some((field, "T")) => (field, Kind::Connection),
                Some((field, _)) => (field, Kind::Digits3),
            };
            pieces.push(Piece::Literal(before));
            pieces.push(Piece::Value(place(field, kind == Kind::Text)?, kind));
            rest = after;
        }
        pieces.push(Piece::Literal(rest));
        let threads =
            [("pid", "comm"), ("prev_pid", "prev_comm"), ("next_pid", "next_comm"), ("child_pid", "child_comm")];
        let threads = threads.iter().filter_map(|&(pid, comm)| Some((place(pid, false)?, place(comm, true)?)));
        Some(Form { name, pieces, threads: threads.collect() })
    }
}

/// An address from the signed number in a record.
#[expect(clippy::cast_sign_loss, reason = "the bits are meant")]
fn address(value: i64) -> u64 {
    value as u64
}

/// The number of a record's event.
fn number(record: &[u8]) -> Option<u16> {
    record.first_chunk().copied().map(u16::from_le_bytes)
}

fn bytes(record: &[u8], field: Field) -> Option<&[u8]> {
    record.get(field.offset..field.offset.checked_add(field.bytes)?)
}

/// A number with its sign, little-endian.
fn value(record: &[u8], place: Place) -> Option<i64> {
    let (Place::Here(field) | Place::Elsewhere(field)) = place;
    let bytes = bytes(record, field)?;
    Some(match *bytes {
        [a] => i64::from(a),
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => i64::from_le_bytes(*bytes.first_chunk()?),
    })
}

fn text(record: &[u8], place: Place) -> Option<&[u8]> {
    let text = match place {
        Place::Here(Field { offset, bytes: 0 }) => record.get(offset..)?,
        Place::Here(field) => bytes(record, field)?,
        Place::Elsewhere(field) => {
            let word = bytes(record, field)?.first_chunk().copied().map(u32::from_le_bytes)?;
            let (at, length) = ((word & 0xffff) as usize, (word >> 16) as usize);
            record.get(at..at.checked_add(length)?)?
        }
    };
    Some(&text[..memchr::memchr(0, text).unwrap_or(text.len())])
}

/// A guest's text could contain whole lines of a trace. This keeps the text on one line.
fn one_line(text: &[u8]) -> impl Iterator<Item = u8> + '_ {
    text.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte })
}

/// As `sched_switch` prints it: the reason why a thread stopped running, and a plus if it was preempted.
fn state(value: i64) -> String {
    const STATES: [(i64, &str); 8] =
        [(1, "S"), (2, "D"), (4, "T"), (8, "t"), (0x10, "X"), (0x20, "Z"), (0x40, "P"), (0x80, "I")];
    let set: Vec<&str> = STATES.iter().filter(|&&(bit, _)| value & bit != 0).map(|&(_, letter)| letter).collect();
    let word = if set.is_empty() { "R".to_owned() } else { set.join("|") };
    if value & 0x100 == 0 { word } else { word + "+" }
}

/// The action of a softirq with this number, as Linux names it.
fn softirq(number: i64) -> &'static str {
    const ACTIONS: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    usize::try_from(number).ok().and_then(|number| ACTIONS.get(number)).copied().unwrap_or("?")
}

/// Linux's include/linux/socket.h and include/uapi/linux/in.h.
const FAMILIES: [(i64, &str); 2] = [(2, "AF_INET"), (10, "AF_INET6")];
const PROTOCOLS: [(i64, &str); 4] =
    [(6, "IPPROTO_TCP"), (33, "IPPROTO_DCCP"), (132, "IPPROTO_SCTP"), (262, "IPPROTO_MPTCP")];
/// Linux's include/net/tcp_states.h.
const CONNECTIONS: [(i64, &str); 12] = [
    (1, "TCP_ESTABLISHED"),
    (2, "TCP_SYN_SENT"),
    (3, "TCP_SYN_RECV"),
    (4, "TCP_FIN_WAIT1"),
    (5, "TCP_FIN_WAIT2"),
    (6, "TCP_TIME_WAIT"),
    (7, "TCP_CLOSE"),
    (8, "TCP_CLOSE_WAIT"),
    (9, "TCP_LAST_ACK"),
    (10, "TCP_LISTEN"),
    (11, "TCP_CLOSING"),
    (12, "TCP_NEW_SYN_RECV"),
];

/// The name of a number; the kernel's form for numbers without a name.
fn named(value: i64, names: &[(i64, &str)]) -> String {
    let name = names.iter().find(|row| row.0 == value);
    name.map_or_else(|| format!("{value:#x}"), |row| row.1.to_owned())
}

/// An IPv4 or IPv6 address, by the field's 4 or 16 bytes; empty for other lengths.
fn internet_address(record: &[u8], place: Place) -> String {
    let (Place::Here(field) | Place::Elsewhere(field)) = place;
    let bytes = bytes(record, field).unwrap_or_default();
    let ipv4 = <[u8; 4]>::try_from(bytes).map(|bytes| Ipv4Addr::from(bytes).to_string());
    ipv4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|bytes| Ipv6Addr::from(bytes).to_string())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with two known events.
    struct Kernel;

    impl Fields for Kernel {
        fn common(&self, field: &str) -> Option<Field> {
            let at = [("type", 0, 2), ("flags", 2, 1), ("preempt_count", 3, 1), ("pid", 4, 4)];
            at.into_iter().find(|row| row.0 == field).map(|(_, offset, bytes)| Field { offset, bytes })
        }

        fn own(&self, event: &str, structure: &str, field: &str) -> Option<Field> {
            let fork_fields =
                [("parent_comm", 8, 16), ("parent_pid", 24, 4), ("__data_loc_child_comm", 28, 4), ("child_pid", 32, 4)];
            // As in Linux 6.1: `protocol` has 16 bits, and had 8 before 5.6.
            let socket_fields = [
                ("oldstate", 16, 4),
                ("newstate", 20, 4),
                ("sport", 24, 2),
                ("dport", 26, 2),
                ("family", 28, 2),
                ("protocol", 30, 2),
                ("saddr", 32, 4),
                ("daddr", 36, 4),
                ("saddr_v6", 40, 16),
                ("daddr_v6", 56, 16),
            ];
            let event_fields: &[(&str, usize, usize)] = match event {
                "sched_process_fork" => &fork_fields,
                "inet_sock_set_state" => &socket_fields,
                _ => &[],
            };
            let row = event_fields.iter().find(|row| structure == event && row.0 == field);
            row.map(|&(_, offset, bytes)| Field { offset, bytes })
        }
    }

    fn fork(number: u16, parent: &[u8], child: &[u8]) -> Vec<u8> {
        let mut record = vec![0; 36];
        record[..2].copy_from_slice(&number.to_le_bytes());
        record[2..4].copy_from_slice(&[0x25, 0x12]);
        record[4..8].copy_from_slice(&7i32.to_le_bytes());
        record[8..8 + parent.len()].copy_from_slice(parent);
        record[24..28].copy_from_slice(&7i32.to_le_bytes());
        let place = u32::try_from(child.len()).unwrap() << 16 | 36;
        record[28..32].copy_from_slice(&place.to_le_bytes());
        record[32..36].copy_from_slice(&8i32.to_le_bytes());
        [record, child.to_vec()].concat()
    }

    fn printed(record: &[u8]) -> String {
        let forms = Forms::of(&Kernel).unwrap();
        let numbers = [("sched_process_fork", 300), ("other", 301), ("inet_sock_set_state", 303)];
        let numbers = numbers.map(|(name, number)| (name.to_owned(), number)).into();
        let names = Names::new(Vec::new(), 0);
        let mut printer = Printer::new(&forms, &numbers, &names, Stamps::Counter);
        printer.learn(record);
        let mut out = Vec::new();
        printer.line(record, 2, 345, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn a_record_is_the_line_that_the_kernel_prints() {
        let line = "           <...>-7       [002] dN.21          345: sched_process_fork: comm=sh pid=7 child_comm=ls child_pid=8\n";
        assert_eq!(printed(&fork(300, b"sh\0", b"ls\0")), line);
        assert!(printed(&fork(301, b"sh\0", b"ls\0")).ends_with(": other: \n"));
        assert_eq!(printed(&fork(302, b"sh\0", b"ls\0")), "", "nobody knows this event");
    }

    #[test]
    fn a_sockets_state_is_printed_as_the_kernel_does() {
        let mut record = vec![0; 72];
        record[..2].copy_from_slice(&303u16.to_le_bytes());
        record[4..8].copy_from_slice(&7i32.to_le_bytes());
        record[16] = 7;
        record[20] = 10;
        record[24..26].copy_from_slice(&50_080u16.to_le_bytes());
        (record[28], record[30]) = (2, 6);
        record[50..52].copy_from_slice(&[0xff, 0xff]);
        record[71] = 1;
        let line = printed(&record);
        let expected = "inet_sock_set_state: family=AF_INET protocol=IPPROTO_TCP sport=50080 dport=0 saddr=0.0.0.0 daddr=0.0.0.0 \
                    saddrv6=::ffff:0.0.0.0 daddrv6=::1 oldstate=TCP_CLOSE newstate=TCP_LISTEN\n";
        assert!(line.ends_with(expected), "{line}");
        record[20] = 99;
        assert!(printed(&record).ends_with("newstate=0x63\n"));
        (0..record.len()).for_each(|cut| assert!(printed(&record[..cut]).lines().count() <= 1));
    }

    #[test]
    fn no_text_starts_another_line() {
        let text = printed(&fork(300, b"a\n", b"b\n <idle>-0 [000] d... 1: x: y\0"));
        assert_eq!(text.lines().count(), 1, "{text}");
        let whole = fork(300, b"sh\0", b"ls\0");
        for cut in 0..whole.len() {
            assert!(printed(&whole[..cut]).lines().count() <= 1);
        }
        // A text whose place is outside the record is empty.
        let mut far = whole;
        far[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(printed(&far).contains("child_comm= child_pid=8"), "{}", printed(&far));
    }
}
