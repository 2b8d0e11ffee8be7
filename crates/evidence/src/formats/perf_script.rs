//! Reads samples in the format of `perf script`: perf's own, those of Redox's `profiled`, and those of
//! `kernel/sampler`.
//!
//! ```text
//! # clock: tsc 1000000000                                   only kernel/sampler writes these four lines
//! # sampled from:     0.015848386
//! # period: 999846 ns                                       for each sampled CPU
//! # lost: 0
//! my name  1/1 [000]     0.016849231:     999846 nmi:k:     thread, pid or pid/tid, CPU, seconds, period, event
//!               21d0e0 lab::pit::read+0x10 ([kernel])         a tab, address, function, module; innermost first
//!               212071 [unknown] ([kernel])
//!                                                           an empty line ends the sample
//! init       1     2.5:  cycles:  21d0e0 main (/sbin/init)  without a stack, all in one line
//! ```
//! A name may contain spaces; CPU and period may be missing. A heading is recognised by its time (digits, a point,
//! digits and a colon) with a pid before it and an event behind it. A line without a time is a heading if it ends in a
//! thread and an event and a line of a stack follows. Other lines are counted.

use crate::NotThisFormat;
use crate::formats::symbols::{Symbols, plain_name};
use crate::input::records_max;
use crate::input::text::{Line, Lines, number};
use timeline::{DiagnosticKind, Diagnostics, Names, Ns, Sampled, SampledFrame, SampledThread};

/// Stacks are read to this depth.
const FRAMES_MAX: usize = 1024;
/// A text that has no sample in this number of lines from its start has another format.
const LINES_BEFORE: usize = 1000;
const UNKNOWN: &[u8] = b"[unknown]";
/// The format's name in diagnostics.
const NAME: &str = "samples";
/// The bytes of memory that a sample takes, here and on the timeline; and those of a stack's entry.
const SAMPLE_COST: usize = 400;
const FRAME_COST: usize = 80;

/// An entry of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub address: u64,
    /// The function, if the text names one.
    pub function: Option<&'a str>,
}

/// The state of a CPU at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The thread's name.
    pub comm: &'a str,
    /// The thread's number; the process's if the text has no other.
    pub tid: u64,
    pub cpu: Option<u64>,
    /// The time, on the sampler's clock.
    pub at: Option<Ns>,
    /// The number of events that the sample stands for.
    pub period: Option<u64>,
    /// The event that caused the sample, without the colons at its end.
    pub event: &'a str,
    /// The stack, innermost first.
    pub frames: Vec<Frame<'a>>,
}

/// All samples of a text. The optional fields are `Some` if the text has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples<'a> {
    /// In the order of the text.
    pub samples: Vec<Sample<'a>>,
    /// The number of lost samples.
    pub lost: Option<u64>,
    /// The time at which sampling began.
    pub began: Option<Ns>,
    /// The number of CPUs that were not sampled.
    pub unsampled_cpus: u64,
    /// The length of a sampling interval.
    pub period: Option<Ns>,
    /// The last line and its number, if it may be a heading without a time.
    timeless: Option<(Sample<'a>, u32)>,
    /// The bytes of memory that all of it takes.
    cost: usize,
}

/// True if the text begins with samples.
pub fn recognise(bytes: &[u8]) -> bool {
    let mut follows_timeless = false;
    Lines::new(bytes).take(LINES_BEFORE).any(|line| {
        let text = line.bytes.trim_ascii_end();
        let is_comment = text.starts_with(b"#");
        let is_sample = !is_comment && (heading(text).is_some() || follows_timeless && stack_line(text).is_some());
        follows_timeless = !is_comment && timeless_heading(text).is_some();
        is_sample
    })
}

impl<'a> Samples<'a> {
    /// Reads a text.
    ///
    /// # Errors
    /// If the text has no sample.
    pub fn read(file: &str, bytes: &'a [u8], diagnostics: &mut Diagnostics) -> Result<Samples<'a>, NotThisFormat> {
        let mut read = Samples::default();
        let most = records_max(bytes.len(), 1);
        for line in Lines::new(bytes) {
            if read.cost >= most {
                let place = || format!("{file}:{}", line.number);
                diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, place);
                continue;
            }
            read.line(file, line, diagnostics);
        }
        read.no_heading(file, diagnostics);
        if read.samples.is_empty() {
            return Err(NotThisFormat {
                file: file.to_owned(),
                expected: "samples as perf script prints them",
                found: "no line names a thread, a time and an event".to_owned(),
            });
        }
        Ok(read)
    }

    fn line(&mut self, file: &str, line: Line<'a>, diagnostics: &mut Diagnostics) {
        let text = line.bytes.trim_ascii_end();
        if let Some(frame) = self.timeless.as_ref().and_then(|_| stack_line(text)) {
            self.cost += SAMPLE_COST + FRAME_COST;
            self.samples.extend(self.timeless.take().map(|(sample, _)| Sample { frames: vec![frame], ..sample }));
            return;
        }
        self.no_heading(file, diagnostics);
        if text.is_empty() {
            return;
        }
        if let Some(comment) = text.strip_prefix(b"#") {
            self.comment(comment);
            return;
        }
        if let Some(sample) = heading(text) {
            self.cost += SAMPLE_COST + FRAME_COST;
            self.samples.push(sample);
        } else if let Some(sample) = timeless_heading(text) {
            self.timeless = Some((sample, line.number));
        } else if let Some(lost) = lost_record(text) {
            self.lost = Some(self.lost.unwrap_or(0).saturating_add(lost));
        } else {
            match (frame(text), self.samples.last_mut()) {
                (Some(frame), Some(sample)) if sample.frames.len() < FRAMES_MAX => {
                    self.cost += FRAME_COST;
                    sample.frames.push(frame);
                }
                _ => unreadable(file, line.number, diagnostics),
            }
        }
    }

    /// Counts the last line as unreadable if it looked like a heading and no stack followed.
    fn no_heading(&mut self, file: &str, diagnostics: &mut Diagnostics) {
        if let Some((_, number)) = self.timeless.take() {
            unreadable(file, number, diagnostics);
        }
    }

    fn comment(&mut self, text: &[u8]) {
        let after = |what: &[u8]| text.trim_ascii().strip_prefix(what).map(<[u8]>::trim_ascii);
        if let Some((lost, _)) = after(b"lost:").and_then(number) {
            self.lost = Some(lost);
        }
        if let Some((cpus, b"")) = after(b"CPUs not sampled:").and_then(number) {
            self.unsampled_cpus = cpus;
        }
        if let Some((at, b"")) = after(b"sampled from:").and_then(seconds) {
            self.began = Some(at);
        }
        if let Some((period, b" ns")) = after(b"period:").and_then(number) {
            self.period = i64::try_from(period).ok().map(Ns);
        }
    }

    /// Converts the samples for the timeline. The recording's own `symbols` may name functions that the text does not
    /// name.
    pub(crate) fn named(&self, symbols: &Symbols, names: &mut Names) -> Sampled {
        let mut sampled = Sampled::default();
        (sampled.lost, sampled.began) = (self.lost, self.began);
        (sampled.unsampled_cpus, sampled.period) = (self.unsampled_cpus, self.period);
        for sample in &self.samples {
            let mut stack = Vec::with_capacity(sample.frames.len());
            for (depth, frame) in sample.frames.iter().enumerate().rev() {
                // The return address of a call at a function's end is the next function's first byte.
                let address = frame.address - u64::from(depth > 0 && frame.address > 0);
                let by_symbols = || symbols.find(address).map(|place| place.name.to_owned());
                let name = frame.function.map(|name| plain_name(name).into_owned()).or_else(by_symbols);
                let is_named = name.is_some();
                let name = sampled.intern(&name.unwrap_or_else(|| format!("{:#x}", frame.address)), names);
                stack.push(SampledFrame { address: frame.address, name, is_named });
            }
            let (event, is_user) = mode(sample.event);
            let thread = SampledThread { name: names.intern(sample.comm), tid: sample.tid };
            let Sample { at, cpu, period, .. } = *sample;
            let (event, stack) = (names.intern(event), stack.into());
            sampled.add(timeline::Sample { at, cpu, thread, event, is_user, period, stack });
        }
        sampled
    }
}

fn unreadable(file: &str, number: u32, diagnostics: &mut Diagnostics) {
    diagnostics.note(DiagnosticKind::SampleUnreadable, || format!("{file}:{number}"));
}

/// Returns an event's name, and true if user code ran; `None` if the event does not tell. perf's modifiers behind the
/// last colon tell: `u` or `k`, but not both. `nmi:u` and `nmi:k` of `kernel/sampler` are one event.
fn mode(event: &str) -> (&str, Option<bool>) {
    let Some((name, modifiers)) = event.rsplit_once(':') else { return (event, None) };
    let are_modifiers = modifiers.bytes().all(|byte| b"ukhGHpPSDIWeb".contains(&byte));
    let is_user = match (modifiers.contains('u'), modifiers.contains('k')) {
        (true, false) if are_modifiers => Some(true),
        (false, true) if are_modifiers => Some(false),
        _ => None,
    };
    (if name == "nmi" && is_user.is_some() { name } else { event }, is_user)
}

/// Returns the number of samples that perf reports as lost: `swapper 0 [000] 1.5: PERF_RECORD_LOST lost 3`.
fn lost_record(text: &[u8]) -> Option<u64> {
    let record = memchr::memmem::find(text, b": PERF_RECORD_LOST")?;
    let lost = memchr::memmem::find(&text[record..], b" lost ")?;
    number(&text[record + lost + 6..]).map(|(lost, _)| lost)
}

/// Parses a heading that `perf script` prints without a time: `comm pid/tid [cpu] period event:`, and nothing else.
fn timeless_heading(text: &[u8]) -> Option<Sample<'_>> {
    let (rest, event) = last_word(text);
    let event = event.strip_suffix(b":").filter(|event| !event.is_empty())?;
    let event = std::str::from_utf8(event).ok()?.trim_end_matches(':');
    let (without_period, period) = last_word(rest);
    let with_period = whole(period).and_then(|period| Some(Sample { period: Some(period), ..before(without_period)? }));
    let sample = with_period.filter(|sample| !sample.comm.is_empty()).or_else(|| before(rest))?;
    (!event.is_empty() && !sample.comm.is_empty()).then_some(Sample { event, ..sample })
}

/// Parses a line that is certainly of a stack: indented, with an address, a function and a module in brackets.
fn stack_line(text: &[u8]) -> Option<Frame<'_>> {
    let is_whole = text.first().is_some_and(u8::is_ascii_whitespace) && text.ends_with(b")");
    is_whole.then(|| frame(text)).flatten()
}

/// Parses `comm pid/tid [cpu] seconds: period event: …`.
fn heading(text: &[u8]) -> Option<Sample<'_>> {
    // Finds the first word that is a time; the thread's name before it may contain anything else. A time contains no
    // colon, so only a word's first colon can end it.
    let mut start = 0;
    for word in text.split(u8::is_ascii_whitespace) {
        if let Some(colon) = memchr::memchr(b':', word).map(|at| start + at) {
            if let Some((at, b"")) = seconds(&text[start..colon]) {
                return before(&text[..start])
                    .and_then(|sample| behind(&text[colon + 1..], Sample { at: Some(at), ..sample }));
            }
        }
        start += word.len() + 1;
    }
    None
}

/// Parses the thread and the CPU. The thread's number must be there.
fn before(text: &[u8]) -> Option<Sample<'_>> {
    let (mut rest, word) = last_word(text);
    let mut cpu = None;
    let mut id = word;
    if let Some(inside) = word.strip_prefix(b"[").and_then(|word| word.strip_suffix(b"]")) {
        cpu = Some(whole(inside)?);
        (rest, id) = last_word(rest);
    }
    let tid = match memchr::memchr(b'/', id) {
        Some(slash) => whole(&id[..slash]).and(whole(&id[slash + 1..]))?,
        None => whole(id)?,
    };
    Some(Sample { comm: std::str::from_utf8(rest.trim_ascii()).unwrap_or("?"), tid, cpu, ..Sample::default() })
}

/// Parses the period (if there is one), the event, and the only frame (if it stands here).
fn behind<'a>(text: &'a [u8], sample: Sample<'a>) -> Option<Sample<'a>> {
    let text = text.trim_ascii();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let has_period = digits > 0 && text.get(digits).is_some_and(u8::is_ascii_whitespace);
    let (period, text) =
        if has_period { (whole(&text[..digits]), text[digits..].trim_ascii_start()) } else { (None, text) };
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let event = std::str::from_utf8(text[..end].strip_suffix(b":")?).ok()?.trim_end_matches(':');
    let frames = frame(&text[end..]).into_iter().collect();
    (!event.is_empty()).then_some(Sample { event, period, frames, ..sample })
}

/// Parses `address function+0x12 (module)`.
fn frame(text: &[u8]) -> Option<Frame<'_>> {
    let text = text.trim_ascii();
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let digits = std::str::from_utf8(&text[..end]).ok().filter(|digits| !digits.starts_with('+'))?;
    let address = u64::from_str_radix(digits, 16).ok()?;
    let rest = text[end..].trim_ascii();
    // The module is in the last brackets; brackets around a function's arguments come earlier.
    let function = match rest.strip_suffix(b")").and_then(|_| memchr::memmem::rfind(rest, b" (")) {
        Some(module) => rest[..module].trim_ascii(),
        None if rest.starts_with(b"(") => b"",
        None => rest,
    };
    let function = match memchr::memmem::rfind(function, b"+0x") {
        Some(plus) if plus > 0 && function[plus + 3..].iter().all(u8::is_ascii_hexdigit) => &function[..plus],
        _ => function,
    };
    let named = !function.is_empty() && function != UNKNOWN;
    Some(Frame { address, function: std::str::from_utf8(function).ok().filter(|_| named) })
}

fn last_word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_end();
    let start = text.iter().rposition(u8::is_ascii_whitespace).map_or(0, |space| space + 1);
    (&text[..start], &text[start..])
}

fn whole(text: &[u8]) -> Option<u64> {
    number(text).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

/// Parses `12.345678` to the nanosecond. Returns the rest too.
fn seconds(text: &[u8]) -> Option<(Ns, &[u8])> {
    let (whole, rest) = number(text)?;
    let rest = rest.strip_prefix(b".")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let mut ns = 0;
    for place in 0..9 {
        ns = ns * 10 + rest[..digits].get(place).map_or(0, |digit| i64::from(digit - b'0'));
    }
    let ns = i64::try_from(whole).ok()?.checked_mul(1_000_000_000)?.checked_add(ns)?;
    Some((Ns(ns), &rest[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# ========
# clock: tsc 1000000000
# sampled from:     0.015848386
# period: 999846 ns
# lost: 3
#
thread0  1/1 [000]     0.016849231:     999846 nmi:k:
\t          21d0e0 lab::pit::read+0x10 ([kernel])
\t          212071 [unknown] ([kernel])

kworker/u4:1 my name    12/34    [003]  7.5: 250000 cpu-clock:pppH:
\tffffffff81000000 a::<(u8, u64)>::b+0x1 ([kernel.kallsyms])
\tffffffff81000010 inlined (inlined)

init 1 0.016849232: nmi:u:  8000000000 main (/sbin/init)
swapper     0 [001] 1.000001: cycles:
";

    fn read(text: &str) -> (Samples<'_>, u64) {
        let mut diagnostics = Diagnostics::default();
        let read = Samples::read("x", text.as_bytes(), &mut diagnostics).unwrap();
        (read, diagnostics.iter().map(|diagnostic| diagnostic.count).sum())
    }

    /// Found by fuzzing: a text that is recognised must be readable.
    #[test]
    fn a_sample_in_a_comment_does_not_count() {
        let text = b"# period: 999846 nd0  1/1 [000]     0.006773336:     999846 nmi:k:\n";
        assert!(!recognise(text));
        assert!(Samples::read("x", text, &mut Diagnostics::default()).is_err());
    }

    /// Every imported file is tested for this format, even if it is one long line.
    #[test]
    fn a_line_of_megabytes_is_read_once() {
        assert!(!recognise("a:".repeat(2_000_000).as_bytes()));
        assert!(!recognise("1.5:".repeat(1_000_000).as_bytes()));
    }

    #[test]
    fn samples_with_all_variants_of_columns() {
        let (read, unreadable) = read(TEXT);
        assert_eq!((unreadable, read.lost, read.began), (0, Some(3), Some(Ns(15_848_386))));
        assert_eq!(read.period, Some(Ns(999_846)));
        let frame = |address, function| Frame { address, function };
        let [first, second, third, fourth] = &read.samples[..] else { panic!("{read:?}") };
        assert_eq!((first.comm, first.tid, first.cpu, first.at), ("thread0", 1, Some(0), Some(Ns(16_849_231))));
        assert_eq!(
            (first.event, &first.frames[..]),
            ("nmi:k", &[frame(0x21_d0e0, Some("lab::pit::read")), frame(0x21_2071, None)][..])
        );
        assert_eq!((second.comm, second.tid, second.at), ("kworker/u4:1 my name", 34, Some(Ns(7_500_000_000))));
        assert_eq!((second.event, second.frames[0].function), ("cpu-clock:pppH", Some("a::<(u8, u64)>::b")));
        assert_eq!(second.frames[1].function, Some("inlined"));
        assert_eq!(
            (third.cpu, third.event, &third.frames[..]),
            (None, "nmi:u", &[frame(0x80_0000_0000, Some("main"))][..])
        );
        assert_eq!((fourth.event, fourth.frames.len()), ("cycles", 0));
        let periods: Vec<Option<u64>> = read.samples.iter().map(|sample| sample.period).collect();
        assert_eq!(periods, [Some(999_846), Some(250_000), None, None]);
        assert!(recognise(TEXT.as_bytes()));
    }

    #[test]
    fn stacks_are_outermost_first_and_addresses_stand_in_for_missing_names() {
        let mut names = Names::default();
        let sampled = read(TEXT).0.named(&Symbols::default(), &mut names);
        assert_eq!((sampled.samples().len(), sampled.lost), (4, Some(3)));
        let stack = |sample: &timeline::Sample| {
            sample.stack.iter().map(|frame| names.get(frame.name)).collect::<Vec<_>>().join(";")
        };
        let stacks: Vec<String> = sampled.samples().iter().map(stack).collect();
        assert_eq!(stacks, ["0x212071;lab::pit::read", "inlined;a::<(u8, u64)>::b", "main", ""]);
    }

    #[test]
    fn mangled_names_are_demangled() {
        let text = "init 1 0.1: cycles:\n\t 12 _RNvNtCs4fqI2P2rA04_4main3sub3run+0x1 (/init)\n\t 14 _ZN6Kernel4bootEv+0x3 (k)\n";
        let mut names = Names::default();
        let sampled = read(text).0.named(&Symbols::default(), &mut names);
        let stack: Vec<&str> = sampled.samples()[0].stack.iter().map(|frame| names.get(frame.name)).collect();
        assert_eq!(stack, ["Kernel::boot", "main::sub::run"]);
    }

    #[test]
    fn an_events_modifiers_tell_user_from_kernel_code() {
        for (event, expected) in [
            ("nmi:u", ("nmi", Some(true))),
            ("nmi:k", ("nmi", Some(false))),
            ("cycles:u", ("cycles:u", Some(true))),
            ("cycles:kppp", ("cycles:kppp", Some(false))),
            ("cycles:ppp", ("cycles:ppp", None)),
            ("cycles:uk", ("cycles:uk", None)),
            ("sched:wakeup", ("sched:wakeup", None)),
            ("cycles", ("cycles", None)),
        ] {
            assert_eq!(mode(event), expected, "{event}");
        }
        let (read, _) = read("init 1 0.1: cycles:\ninit 1 0.2: cycles:\n");
        let sampled = read.named(&Symbols::default(), &mut Names::default());
        assert_eq!((sampled.lost, sampled.events()[0].user), (None, None));
    }

    #[test]
    fn perfs_reports_of_losses_are_counted() {
        let (read, unreadable) = read(
            "init 1 0.1: cycles:\nswapper 0 [000] 0.2: PERF_RECORD_LOST lost 3\n\
             init 1 [001] 0.3: PERF_RECORD_LOST_SAMPLES lost 4\n",
        );
        assert_eq!((read.samples.len(), read.lost, unreadable), (1, Some(7), 0));
    }

    #[test]
    fn cpus_that_were_not_sampled_are_counted() {
        assert_eq!(read("# CPUs not sampled: 2\ninit 1 0.1: e:\n").0.unsampled_cpus, 2);
        assert_eq!(read("init 1 0.1: e:\n").0.unsampled_cpus, 0);
    }

    #[test]
    fn times_may_be_missing_where_stacks_follow() {
        let text = "        my init 12/34 [003] 250 cycles:u:\n\t  12 main+0x1 (/init)\n\ninit 1 cycles:\n\t13 f (x)\n\t14 g (x)\n\
                    init 1 7 e:\nhello 12 there:\n";
        let (read, unreadable) = read(text);
        let summary = |sample: &Sample| (sample.tid, sample.cpu, sample.at, sample.period, sample.frames.len());
        let samples: Vec<_> = read.samples.iter().map(summary).collect();
        assert_eq!(samples, [(34, Some(3), None, Some(250), 1), (1, None, None, None, 2)]);
        assert_eq!((read.samples[0].comm, read.samples[0].event, unreadable), ("my init", "cycles:u", 2));
        assert!(recognise(text.as_bytes()) && !recognise(b"call 12 there:\nhello\n\t12 f (x)\n"));
    }

    #[test]
    fn other_texts_are_not_recognised() {
        for other in [
            "",
            "[    0.000000] Linux version 6.1: x",
            "          <idle>-0       [000] d..2.     0.123456: sched_switch: prev_comm=x",
            "0x1 123 ENTER start_init",
            "a 1 [000] 1.5: ",
            "a 1 [000] 99999999999999999999.5: e:",
            "name 1.5: e:",
            "1.5: e:",
        ] {
            assert!(!recognise(other.as_bytes()), "{other}");
            assert!(Samples::read("x", other.as_bytes(), &mut Diagnostics::default()).is_err(), "{other}");
        }
    }

    #[test]
    fn unreadable_lines_are_counted() {
        let (read, unreadable) = read("\tfff nobody's (x)\ninit 1 0.1: e:\n\tzz f (x)\n\t12 f (x)\nhello\n");
        assert_eq!((read.samples.len(), read.samples[0].frames.len(), unreadable), (1, 1, 3));
        let deep = format!("init 1 0.1: e:\n{}", "\t12 f (x)\n".repeat(FRAMES_MAX + 5));
        let (read, unreadable) = self::read(&deep);
        assert_eq!((read.samples[0].frames.len(), unreadable), (FRAMES_MAX, 5));
    }

    #[test]
    fn a_text_cut_anywhere_is_read_up_to_the_cut() {
        for end in 0..TEXT.len() {
            let mut diagnostics = Diagnostics::default();
            if let Ok(read) = Samples::read("x", &TEXT.as_bytes()[..end], &mut diagnostics) {
                assert!(read.samples.len() <= 4);
                let _ = read.named(&Symbols::default(), &mut Names::default());
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_does_harm(text in "([a-f0-9:\\[\\].#/+ \t\n()x]|init 1 0\\.1: e:){0,200}") {
            let mut diagnostics = Diagnostics::default();
            if let Ok(read) = Samples::read("x", text.as_bytes(), &mut diagnostics) {
                let _ = read.named(&Symbols::default(), &mut Names::default()).events();
            }
        }
    }
}
