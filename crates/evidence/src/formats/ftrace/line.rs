//! Parses one line of a trace: thread, CPU, context, time, and the event.
//!
//! ```text
//!  virtio dev-12     (    345) [001] d.h2.   12.345678: irq_handler_entry: irq=1 name=i8042
//!  ^comm     ^pid     ^tgid     ^cpu  ^flags  ^stamp     ^event
//! ```
//!
//! The flags, one character each (the kernel's `trace_print_lat_fmt`, 4.x to 7.x):
//! ```text
//! irqs-off               d D b X .            D and b (softirqs off) since 5.18
//! need-resched           n N p . B b L l      B b L l (with a lazy request) since 6.13
//! need-resched-lazy      L l N n .            only kernels with the PREEMPT_RT patches up to 6.12
//! hardirq/softirq        z Z h H s .
//! preempt-depth          . or hexadecimal     up to two digits before 5.17
//! preempt-lazy-depth     . or hexadecimal     only with need-resched-lazy
//! migrate-disable        . or hexadecimal     since 5.17, with the PREEMPT_RT patches earlier
//! ```
//! So flags of at least seven characters have need-resched-lazy, and shorter ones do not. A command's name can look
//! like any other field. So each `[` that could open the CPU is tried until all that follows fits too.

use super::Stamps;
use super::event::Event;
use crate::input::text::{HOLE_BYTES_MIN, Line, number, seconds, skip_spaces, whole_number};
use timeline::Ticks;

/// The kernel's context when an event happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// In the thread itself.
    Thread,
    /// In a softirq: the running thread was interrupted.
    Softirq,
    /// In a hard interrupt or NMI.
    Hardirq,
    /// The trace has no flags.
    Unknown,
}

/// One event of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record<'a> {
    /// The stamp, on the trace's clock.
    pub ticks: Ticks,
    /// The unit of the stamp.
    pub stamps: Stamps,
    /// The command of the running thread, as last known when the text was printed.
    pub comm: &'a [u8],
    /// That thread's id.
    pub pid: u32,
    pub cpu: u32,
    /// Tells if the thread caused the event, or an interrupt.
    pub context: Context,
    pub event: Event<'a>,
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Entry<'a> {
    Event(Record<'a>),
    /// A heading or an empty line.
    Heading,
    /// `CPU:2 [LOST 45 EVENTS]`
    Lost {
        cpu: u32,
        events: Option<u64>,
    },
    /// A line of a stack trace.
    Stack,
    Unreadable,
}

/// A greater CPU number is damage. It must not make bootscope keep state for that many CPUs.
const CPU_MAX: u64 = 65_535;

/// A `[` further right than this cannot open the CPU: a name has at most 15 bytes.
const CPU_COLUMN_MAX: usize = 64;

#[inline]
pub(super) fn entry(line: Line<'_>) -> Entry<'_> {
    let bytes = line.bytes.strip_suffix(b"\r").unwrap_or(line.bytes);
    if bytes.len() >= HOLE_BYTES_MIN && memchr::memchr(0, bytes).is_some() {
        // The beginning of one line, a hole of zero bytes, and the end of another line.
        return Entry::Unreadable;
    }
    if bytes.first() != Some(&b'#') {
        if let Some(record) = record(bytes) {
            // The last line may be cut anywhere, and the rest can look complete.
            return if line.whole { Entry::Event(record) } else { Entry::Unreadable };
        }
    }
    other(bytes)
}

#[cold]
fn other(bytes: &[u8]) -> Entry<'_> {
    let text = bytes.trim_ascii();
    if text.is_empty() || text.starts_with(b"#") || text.starts_with(b"cpus=") || text.starts_with(b"version = ") {
        return Entry::Heading;
    }
    if text.starts_with(b"=> ") {
        return Entry::Stack;
    }
    lost(text).unwrap_or(Entry::Unreadable)
}

/// Parses `CPU:2 [LOST 45 EVENTS]`, `CPU:2 [LOST EVENTS]`, or trace-cmd's `CPU:2 [45 EVENTS DROPPED]`.
fn lost(text: &[u8]) -> Option<Entry<'_>> {
    let (cpu, rest) = number(text.strip_prefix(b"CPU:")?)?;
    let note = rest.strip_prefix(b" [")?.strip_suffix(b"]")?;
    let note = note.strip_prefix(b"LOST ").or_else(|| note.strip_suffix(b" DROPPED"))?;
    let events = match note.strip_suffix(b"EVENTS")?.trim_ascii() {
        b"" => None,
        count => Some(whole_number(count)?),
    };
    let cpu = u32::try_from(cpu.min(CPU_MAX)).ok()?;
    Some(Entry::Lost { cpu, events })
}

#[inline]
fn record(line: &[u8]) -> Option<Record<'_>> {
    let mut from = 0;
    while let Some(found) = memchr::memchr(b'[', line.get(from..line.len().min(CPU_COLUMN_MAX))?) {
        let at = from + found;
        if let Some(record) = record_with_cpu_at(line, at) {
            return Some(record);
        }
        from = at + 1;
    }
    None
}

#[inline]
fn record_with_cpu_at(line: &[u8], at: usize) -> Option<Record<'_>> {
    let (cpu, rest) = number(&line[at + 1..])?;
    let rest = rest.strip_prefix(b"] ")?;
    let (context, rest) = flags(skip_spaces(rest))?;
    let (stamps, ticks, rest) = stamp(skip_spaces(rest))?;
    let (comm, pid) = task(&line[..at])?;
    let event = Event::parse(skip_spaces(rest))?;
    let cpu = cpu.min(CPU_MAX) as u32;
    Some(Record { ticks: Ticks(ticks), stamps, comm, pid, cpu, context, event })
}

/// At least this number of flags include need-resched-lazy.
const FLAGS_WITH_LAZY: usize = 7;
const FLAGS_MAX: usize = 10;

/// Parses the flags, if there are any: stamps start with a digit, flags never do.
#[inline]
fn flags(text: &[u8]) -> Option<(Context, &[u8])> {
    if text.first()?.is_ascii_digit() {
        return Some((Context::Unknown, text));
    }
    let length = text.iter().take(FLAGS_MAX + 1).position(|&b| b == b' ')?;
    let (flags, rest) = text.split_at(length);
    let before = 2 + usize::from(length >= FLAGS_WITH_LAZY);
    let (&context, depths) = flags.get(before..)?.split_first()?;
    let fits = b"dDbX.".contains(&flags[0])
        && b"nNp.BbLl".contains(&flags[1])
        && (before == 2 || b"LlNn.".contains(&flags[2]))
        && depths.iter().all(|depth| depth.is_ascii_hexdigit() || *depth == b'.');
    let context = match context {
        b'h' | b'H' | b'z' | b'Z' => Context::Hardirq,
        b's' => Context::Softirq,
        b'.' => Context::Thread,
        _ => return None,
    };
    fits.then_some((context, rest))
}

/// Parses a stamp and the colon after it.
#[inline]
fn stamp(text: &[u8]) -> Option<(Stamps, u64, &[u8])> {
    let (stamps, ticks, rest) = match seconds(text) {
        Some((ns, _, rest)) => (Stamps::Nanoseconds, ns, rest),
        None => {
            let (ticks, rest) = number(text)?;
            (Stamps::Counter, ticks, rest)
        }
    };
    Some((stamps, ticks, rest.strip_prefix(b":")?))
}

/// Parses `   comm-pid     ` or `   comm-pid   (  tgid) `.
#[inline]
fn task(text: &[u8]) -> Option<(&[u8], u32)> {
    let mut text = trim_end(text);
    if text.last() == Some(&b')') {
        let open = memchr::memrchr(b'(', text)?;
        text = trim_end(&text[..open]);
    }
    let digits = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (name, pid) = text.split_at(text.len() - digits);
    let comm = skip_spaces(name.strip_suffix(b"-")?);
    Some((comm, u32::try_from(whole_number(pid)?).ok()?))
}

#[inline]
fn trim_end(text: &[u8]) -> &[u8] {
    let spaces = text.iter().rev().take_while(|&&b| b == b' ').count();
    &text[..text.len() - spaces]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::text::Lines;

    fn read(text: &str) -> Entry<'_> {
        entry(Lines::new(text.as_bytes()).next().unwrap())
    }

    #[track_caller]
    fn check(text: &str, comm: &str, pid: u32, cpu: u32, context: Context, stamps: Stamps, ticks: u64) {
        let Entry::Event(r) = read(text) else { panic!("not an event: {text}") };
        let comm_found = String::from_utf8_lossy(r.comm);
        assert_eq!((&*comm_found, r.pid, r.cpu, r.context), (comm, pid, cpu, context));
        assert_eq!((r.stamps, r.ticks.0), (stamps, ticks));
        assert_eq!(r.event, Event::Level(b"early"));
    }

    #[test]
    fn lines_with_all_variants_of_columns() {
        use Context::{Hardirq, Softirq, Thread, Unknown};
        use Stamps::{Counter, Nanoseconds};
        let e = "initcall_level: level=early\n";
        let ns = 12_345_678_000;
        check(&format!("   <idle>-0       [000] d..1.    12.345678: {e}"), "<idle>", 0, 0, Thread, Nanoseconds, ns);
        check(
            &format!("   <idle>-0       [003] d.h2.   2525104296: {e}"),
            "<idle>",
            0,
            3,
            Hardirq,
            Counter,
            2_525_104_296,
        );
        check(
            &format!("   a-1 [000] x-55  [001] ..s1    12.345678: {e}"),
            "a-1 [000] x",
            55,
            1,
            Softirq,
            Nanoseconds,
            ns,
        );
        check(
            &format!("kworker/0:1-H-12  (    345) [001] ....  12.345678: {e}"),
            "kworker/0:1-H",
            12,
            1,
            Thread,
            Nanoseconds,
            ns,
        );
        check(&format!("   x y-7  (-------) [001] dNZ3   12.345678: {e}"), "x y", 7, 1, Hardirq, Nanoseconds, ns);
        check(
            "   init-1   [000]   12.345678901: initcall_level:       level=early\n",
            "init",
            1,
            0,
            Unknown,
            Nanoseconds,
            12_345_678_901,
        );
        check(&format!(" -5  [000]   12.345678: {e}"), "", 5, 0, Unknown, Nanoseconds, ns);
    }

    /// Flags of each kernel, and the context that they mean.
    #[test]
    fn flags_of_every_kernel() {
        use Context::{Hardirq, Softirq, Thread};
        for (flags, context) in [
            ("....", Thread),   // 4.9
            ("d.h1", Hardirq),  // 4.19
            ("dNh2", Hardirq),  // 5.10
            ("..s1.", Softirq), // 5.17
            ("d..2.", Thread),
            ("D.s3.", Softirq), // 6.1
            ("bp..1", Thread),
            ("dnZ31", Hardirq),
            ("dLz2.", Hardirq), // 7.2
            (".l...", Thread),
            ("dBh2.", Hardirq),
            (".b...", Thread),
            ("d.H1a", Hardirq),
            ("..L....", Thread), // 6.1-rt
            (".NLs3..", Softirq),
            ("dn.h2..", Hardirq),
            ("d..h.11", Hardirq),
            ("D...312", Thread),
            ("D..s313", Softirq),
            ("d..h211", Hardirq),
            ("X......", Thread), // 4.19-rt
        ] {
            let line = format!("  init-1  [000] {flags}  4761774745: initcall_level: level=early\n");
            check(&line, "init", 1, 0, context, Stamps::Counter, 4_761_774_745);
        }
        for flags in ["d", "d.", "d.q1.", "q..1.", "..s1x", "....q..", "..q....", "..........."] {
            assert_eq!(read(&format!("  init-1  [000] {flags}  12: x: y\n")), Entry::Unreadable, "{flags}");
        }
    }

    #[test]
    fn lines_that_are_not_events() {
        assert_eq!(read("# tracer: nop\n"), Entry::Heading);
        assert_eq!(read("\n"), Entry::Heading);
        assert_eq!(read("cpus=4\n"), Entry::Heading);
        assert_eq!(read(" => do_one_initcall\n"), Entry::Stack);
        assert_eq!(read("CPU:2 [LOST 45 EVENTS]\n"), Entry::Lost { cpu: 2, events: Some(45) });
        assert_eq!(read("CPU:1 [LOST EVENTS]\n"), Entry::Lost { cpu: 1, events: None });
        assert_eq!(read("CPU:1 [7 EVENTS DROPPED]\n"), Entry::Lost { cpu: 1, events: Some(7) });
        for no in [
            "x\n",
            "a-1 [000] d..1. 1.5 foo: x\n",
            "a-1 [0x0] d..1. 1.5: foo: x\n",
            "a-1 [000] 1.5: foo: x",
            "[[[[[[[\n",
        ] {
            assert_eq!(read(no), Entry::Unreadable, "{no}");
        }
    }
}
