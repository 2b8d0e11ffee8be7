//! Printing: the cost of each character on the console.

use super::serial_line::{BAUDS, BITS, at_rate, characters};
use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::statistics::quantile;
use crate::{Need, Remedy, Seen};
use analysis::{StretchKind, boot_path};
use hashbrown::HashSet;
use timeline::{Mark, NameId, Ns, Os, SpanRow};

pub const DETECTOR: Detector = Detector {
    id: "console-characters",
    title: "the boot waits for the console",
    rule: "A kernel prints a line and goes on when the console has taken its last character. Where functions that print are \
           known, their time is the cost. Else the log says it, by the time from one line to the next where nothing but \
           printing happens. That is so between `calling` and `returned` of an initcall, without the time that the kernel \
           measured for it: the median counts. It is so in a loop that prints a memory map: there lines arrive in bursts, \
           and the sum over all lines counts. A serial line has one of the usual rates: if a quarter of all lines takes just \
           the time that their characters need at such a rate, and hardly a line takes less, then the rate is known. A line has its time stamp and two characters more, CR and LF; the last line of \
           a loop has no length of time. Each line then costs so much for each of its characters, and never more than the \
           time to the next line.",
    source: "libguestfs (Jones 2016): about 4 us a character on an emulated UART, 3500 ms become 2500 ms with quiet; Percival \
             2018: _vprintf 3240 ms, most of it drawing the screen anew at each line",
    threshold: "by a log: 20 initcalls, 300 characters of one loop, or 40 lines at a serial line's rate, and 1 us or more a \
                character; by functions: 2 % of the boot",
    price: "all printing goes; at the worst, by functions three tenths of it stay, by initcalls what the slower three \
            quarters of the lines do not prove, by a loop half",
    needs: &[Need::BootPath, Need::Printing],
    look,
};

/// Functions that return when a line is printed.
const FUNCTIONS: &[&str] =
    &["_vprintf", "vprintk_emit", "vprintk", "vprintk_default", "_printk", "printk", "console_unlock"];
/// Linux's functions that write a message to a console. If they are known, they are the cost, and the rest of printing is not: a kernel
/// that prints less still keeps all messages.
const WRITES: &[&str] =
    &["univ8250_console_write", "serial8250_console_write", "hvc_console_print", "vt_console_print"];
const MIN_SHARE: f64 = 0.02;
/// Linux prints messages whose number is below its level: a message of information has 6 (include/linux/kern_levels.h).
const INFORMATION: u32 = 6;
/// The levels that the words `quiet` and `debug` set (include/linux/printk.h).
const QUIET: u32 = 4;
const DEBUG: u32 = 10;
/// Words with which all messages are printed, whatever the level is.
const IGNORE_LEVEL: [&str; 2] = ["ignore_loglevel", "printk.ignore_loglevel=1"];
/// Share of drawing time that is left if only changes are drawn, according to the talk.
const DRAWN_ANEW: f64 = 0.3;

const MIN_INITCALLS: usize = 20;
const MIN_LOOP_CHARACTERS: usize = 300;
/// Share of the lines that show a serial line's rate.
const MIN_AT_RATE: f64 = 0.25;
const MIN_EACH_NS: f64 = 1_000.0;
/// A character at 9600 baud takes about a thousandth of a second. A longer time is not a console's.
const MAX_EACH_NS: f64 = 1_200_000.0;
/// Largest part of the lines that may take less than half of the claimed time.
const MAX_FASTER: f64 = 0.2;
/// Lines arrive in bursts: this number is measured together.
const BURST: usize = 6;
/// Lines that a kernel prints in a loop that does nothing else.
const LOOPS: &[&str] =
    &["BIOS-e820: ", "efi: mem", "PM: hibernation: Registered nosave memory", "PM: Registered nosave memory"];

fn look(seen: &Seen) -> Vec<Draft> {
    let writes = called_functions(seen, WRITES);
    if !writes.is_empty() {
        return by_functions(seen, &writes);
    }
    let by_functions = by_functions(seen, &seen.names(FUNCTIONS));
    // If all calls are known, lines give no sharper evidence.
    if !by_functions.is_empty() || !called_functions(seen, FUNCTIONS).is_empty() {
        return by_functions;
    }
    by_lines(seen).into_iter().collect()
}

/// The known functions that were called, if all calls were followed.
fn called_functions(seen: &Seen, known: &[&str]) -> Vec<NameId> {
    let mut known = seen.names(known);
    let profile = &seen.timeline.profile;
    let called: HashSet<NameId> =
        profile.nodes().filter(|(_, node)| node.calls > 0).map(|(_, node)| node.name).collect();
    known.retain(|name| called.contains(name));
    known
}

fn by_functions(seen: &Seen, functions: &[NameId]) -> Vec<Draft> {
    let mut prints: Vec<SpanRow> = Vec::new();
    for (_, row) in seen.spans().filter(|(_, row)| functions.contains(&row.name)) {
        // One of these functions calls the other.
        if prints.last().is_none_or(|last| last.track != row.track || last.end <= row.start) {
            prints.push(row);
        }
    }
    let total: Ns = prints.iter().map(SpanRow::length).sum();
    let share = total.0 as f64 / seen.end.0.max(1) as f64;
    let Some(longest) = prints.iter().max_by_key(|row| row.length()).filter(|_| share >= MIN_SHARE) else {
        return Vec::new();
    };
    let left = Left { most: DRAWN_ANEW, ..Left::NOTHING };
    vec![Draft {
        about: (longest.name, longest.detail),
        figures: vec![
            Figure { of: "calls", value: Value::Count(prints.len() as u64) },
            Figure { of: "each", value: Value::Time(Ns::truncated(total.0 as f64 / prints.len() as f64)) },
        ],
        parts: prints.iter().map(|row| Part { stretch: seen.stretch(row), left }).collect(),
        confidence: Confidence::High,
        remedy: remedy(seen),
    }]
}

/// Cost of a character, at the worst and most likely.
#[derive(Clone, Copy)]
struct Each {
    low_ns: f64,
    ns: f64,
    /// The loop that shows it: all of its time is printing, whenever its lines arrived.
    within: Option<(Ns, Ns)>,
}

fn by_lines(seen: &Seen) -> Option<Draft> {
    if is_quiet(seen) {
        return None;
    }
    let lines: Vec<Mark> = seen.lines().collect();
    let text = |line: &Mark| seen.timeline.names.get(line.name);
    let enabled = lines.iter().rposition(|line| is_enabled(text(line)));
    let printed = &lines[enabled.unwrap_or(0)..];
    let each = by_initcalls(seen, printed).or_else(|| by_rate(seen, printed)).or_else(|| by_loops(seen, &lines))?;
    if !(MIN_EACH_NS..MAX_EACH_NS).contains(&each.ns) || is_faster(seen, printed, each.ns) {
        return None;
    }
    let parts = parts(seen, &lines, enabled, each);
    let count: usize = lines.iter().map(|line| characters(text(line))).sum();
    let track = seen.timeline.tracks.get(lines.first()?.track);
    Some(Draft {
        about: (track.name, NameId::EMPTY),
        figures: vec![
            Figure { of: device(seen, &lines), value: Value::Count(count as u64) },
            Figure { of: "each", value: Value::Time(Ns::rounded(each.ns)) },
        ],
        parts,
        confidence: if each.within.is_some() { Confidence::Medium } else { Confidence::High },
        remedy: remedy(seen),
    })
}

/// Uses initcalls: the kernel measures their own time without the line that it prints before them.
fn by_initcalls(seen: &Seen, lines: &[Mark]) -> Option<Each> {
    let text = |line: &Mark| seen.timeline.names.get(line.name);
    let each = |pair: &[Mark]| {
        let called = text(&pair[0]).strip_prefix("calling  ")?;
        let (symbol, _) = called.split_once(" @ ")?;
        let returned = text(&pair[1]).strip_prefix("initcall ")?.strip_prefix(symbol)?;
        let took: i64 = returned.split_once(" after ")?.1.strip_suffix(" usecs")?.parse().ok()?;
        let gap = pair[1].at - pair[0].at - Ns(took.checked_mul(1_000)?);
        Some(gap.0.max(0) / i64::try_from(characters(text(&pair[0]))).ok()?)
    };
    let each: Vec<i64> = lines.windows(2).filter_map(each).collect();
    let at = |share: f64| quantile(each.iter().copied(), share).map(|ns| ns as f64);
    let (low_ns, ns) = (at(0.25)?, at(0.5)?);
    (each.len() >= MIN_INITCALLS).then_some(Each { low_ns, ns, within: None })
}

/// Uses loops that only print: the one with most characters, with the heading before it.
fn by_loops(seen: &Seen, lines: &[Mark]) -> Option<Each> {
    let text = |line: &Mark| seen.timeline.names.get(line.name);
    let loop_of = |line: &Mark| LOOPS.iter().position(|begins| text(line).starts_with(begins));
    let mut best: Option<(usize, Ns, Ns)> = None;
    let mut first = 0;
    for same in lines.chunk_by(|a, b| loop_of(a) == loop_of(b)) {
        let begin = if first > 0 && text(&lines[first - 1]).ends_with(':') { first - 1 } else { first };
        let all = &lines[begin..first + same.len()];
        first += same.len();
        let Some((last, others)) = all.split_last().filter(|_| loop_of(&same[0]).is_some()) else { continue };
        let count: usize = others.iter().map(|line| characters(text(line))).sum();
        if count >= MIN_LOOP_CHARACTERS && best.is_none_or(|(most, ..)| count > most) {
            best = Some((count, all[0].at, last.at));
        }
    }
    let (count, from, to) = best?;
    let ns = (to - from).0 as f64 / count as f64;
    Some(Each { low_ns: ns / 2.0, ns, within: Some((from, to)) })
}

/// Uses the usual rates of serial lines: the slowest at which many lines were printed, none much faster.
fn by_rate(seen: &Seen, lines: &[Mark]) -> Option<Each> {
    let is_rate =
        |baud: &u32| at_rate(seen, lines, *baud).is_some_and(|(at, faster)| at >= MIN_AT_RATE && faster <= MAX_FASTER);
    let baud = BAUDS.into_iter().find(is_rate)?;
    let ns = 1e9 * BITS / f64::from(baud);
    Some(Each { low_ns: ns, ns, within: None })
}

/// True if many lines were printed faster than such a console can.
fn is_faster(seen: &Seen, lines: &[Mark], each_ns: f64) -> bool {
    let text = |line: &Mark| seen.timeline.names.get(line.name);
    let (mut bursts, mut faster) = (0_usize, 0_usize);
    for burst in lines.windows(BURST + 1).step_by(BURST) {
        let count: usize = burst[..BURST].iter().map(|line| characters(text(line))).sum();
        let took = burst[BURST].at - burst[0].at;
        bursts += 1;
        faster += usize::from((took.0 as f64) < each_ns * count as f64 / 2.0);
    }
    faster as f64 > bursts as f64 * MAX_FASTER
}

/// The time of each line, on the thread that the boot waited for then. Lines from before the first console are printed when it is enabled.
fn parts(seen: &Seen, lines: &[Mark], enabled: Option<usize>, each: Each) -> Vec<Part> {
    let cost = |line: &Mark| Ns::rounded(characters(seen.timeline.names.get(line.name)) as f64 * each.ns);
    let mut stretches: Vec<(Ns, Ns, NameId)> = Vec::new();
    if let Some((at, line)) = enabled.and_then(|at| Some((at, lines.get(at)?))) {
        let owed: Ns = lines[..at].iter().map(cost).sum();
        let before = lines[..at].last().map_or(line.at, |before| before.at);
        stretches.push((before.max(line.at - owed), line.at, line.name));
    }
    stretches.extend(each.within.map(|(from, to)| (from, to, name_at(lines, from))));
    let is_within = |at: Ns| each.within.is_some_and(|(from, to)| (from..to).contains(&at));
    for pair in lines[enabled.unwrap_or(0)..].windows(2).filter(|pair| !is_within(pair[0].at)) {
        stretches.push((pair[0].at, pair[1].at.min(pair[0].at + cost(&pair[0])), pair[0].name));
    }
    let path = boot_path(seen.timeline);
    let left = Left { most: (1.0 - each.low_ns / each.ns).clamp(0.0, 1.0), ..Left::NOTHING };
    let mut parts = Vec::new();
    for (from, to, name) in stretches.into_iter().filter(|(from, to, _)| from < to) {
        let first = path.stretches.partition_point(|stretch| stretch.to <= from);
        let during = path.stretches[first..].iter().take_while(|stretch| stretch.from < to);
        for stretch in during.filter(|stretch| stretch.kind == StretchKind::Running) {
            let (from, to) = (stretch.from.max(from), stretch.to.min(to));
            let stretch = Stretch { track: stretch.owner().track, from, to, name, detail: NameId::EMPTY, purpose: "" };
            parts.push(Part { stretch, left });
        }
    }
    parts
}

/// The name of the line that was printed at an instant.
fn name_at(lines: &[Mark], at: Ns) -> NameId {
    lines.iter().find(|line| line.at == at).map_or(NameId::EMPTY, |line| line.name)
}

/// True for a line such as `printk: console [ttyS0] enabled`.
fn is_enabled(text: &str) -> bool {
    text.contains("console [") && text.ends_with("] enabled")
}

/// The console's kind, if the log or the command line shows it.
fn device(seen: &Seen, lines: &[Mark]) -> &'static str {
    let texts = || lines.iter().map(|line| seen.timeline.names.get(line.name));
    let named =
        texts().filter(|text| is_enabled(text)).filter_map(|text| Some(text.split_once('[')?.1.split_once(']')?.0));
    let words = seen.machine.command_line.iter().flatten().filter_map(|word| word.strip_prefix("console="));
    let names: Vec<&str> = named.chain(words).collect();
    let is = |begins: &str| names.iter().any(|name| name.starts_with(begins));
    let is_screen = names
        .iter()
        .any(|name| name.strip_prefix("tty").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())));
    match (is("ttyS"), is("hvc"), is("ttyAMA"), is_screen) {
        (true, false, false, false) => "characters to an 8250 serial port",
        (false, true, false, false) => "characters to a virtio console",
        (false, false, true, false) => "characters to a PL011 serial port",
        (false, false, false, true) if texts().any(|text| text.contains("frame buffer device")) => {
            "characters to a framebuffer"
        }
        (false, false, false, true) => "characters to a screen",
        (false, false, false, false) => "characters",
        _ => "characters to several consoles",
    }
}

/// True if the command line makes Linux print all messages, whatever its level is.
fn ignores_level(seen: &Seen) -> bool {
    words(seen).any(|word| IGNORE_LEVEL.contains(&word))
}

/// True if the command line makes Linux print only warnings and above. The last of such words counts.
fn is_quiet(seen: &Seen) -> bool {
    let level = |word: &str| match word {
        "quiet" => Some(QUIET),
        "debug" => Some(DEBUG),
        _ => word.strip_prefix("loglevel=")?.parse().ok(),
    };
    !ignores_level(seen) && words(seen).filter_map(level).last().is_some_and(|level| level <= INFORMATION)
}

fn words<'s>(seen: &Seen<'s>) -> impl Iterator<Item = &'s str> {
    seen.machine.command_line.iter().flatten().map(String::as_str)
}

fn remedy(seen: &Seen) -> Remedy {
    match seen.machine.os {
        Os::Linux if ignores_level(seen) => Remedy::append(
            "let the kernel heed its loglevel again, and print less",
            &["printk.ignore_loglevel=0", "quiet"],
        ),
        Os::Linux if !is_quiet(seen) => Remedy::append("print less, by quiet or loglevel=", &["quiet"]),
        Os::Linux => Remedy::code("change the kernel or its loglevel= to print less"),
        _ => Remedy::code(other_remedy(seen)),
    }
}

/// Advice for a kernel that is not Linux, by the consoles that its log names: FreeBSD's terminal on a screen, and a serial port.
fn other_remedy(seen: &Seen) -> &'static str {
    const BOTH: &str = "print less until the boot is over (boot_mute=\"YES\" in FreeBSD's loader.conf); on a screen, draw only what changed";
    const SCREEN: &str = "change the code: on a screen, draw only what changed; a smaller screen has less to draw (efi_max_resolution= or \
                          vbe_max_resolution= in loader.conf, vt(4): hw.vga.textmode=1), and boot_mute=\"YES\" prints nothing until the boot is over";
    const SERIAL: &str =
        "print less until the boot is over (boot_mute=\"YES\" in loader.conf), or faster: comconsole_speed=\"115200\"";
    let text = |line: Mark| seen.timeline.names.get(line.name);
    let is_screen = |line: &str| line.starts_with("VT(");
    let is_serial = |line: &str| line.starts_with("uart") && line.contains(": console (");
    let (screen, serial) = seen
        .lines()
        .map(text)
        .fold((false, false), |(screen, serial), line| (screen || is_screen(line), serial || is_serial(line)));
    match (screen, serial) {
        (true, false) => SCREEN,
        (false, true) => SERIAL,
        _ => BOTH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;
    use crate::seen::testing::{Log, ms};

    fn us(us: i64) -> Ns {
        Ns::from_us(us)
    }

    fn findings_of(log: Log) -> Vec<Finding> {
        log.found().findings.into_iter().filter(|finding| finding.rule.id == DETECTOR.id).collect()
    }

    /// Boots with initcall_debug, on a console that takes `each` for a character.
    fn initcalls(each: Ns, words: &str, own: impl Fn(i64) -> i64) -> Vec<Finding> {
        let mut log = Log::new();
        log.machine.os = Os::Linux;
        log.machine.command_line = Some(words.split(' ').map(str::to_owned).collect());
        let print = |log: &mut Log, text: &str| {
            log.line(text);
            log.call("works", Ns(each.0 * characters(text) as i64 + 9_000));
        };
        for i in 0..200 {
            let name = format!("driver_{}_init+0x0/0x{i:x}", "x".repeat(i as usize % 30));
            print(&mut log, &format!("calling  {name} @ 1"));
            log.call("works", us(own(i)));
            print(&mut log, &format!("initcall {name} returned 0 after {} usecs", own(i)));
        }
        findings_of(log)
    }

    #[test]
    fn advice_fits_the_console_that_the_log_names() {
        let advice = |lines: &[&str]| {
            let mut log = Log::new();
            log.machine.os = Os::FreeBsd;
            lines.iter().for_each(|line| log.line(line));
            log.call("_vprintf", us(500));
            log.call("works", us(500));
            findings_of(log)[0].remedy.what
        };
        const SCREEN: &str = "VT(efifb): resolution 3200x1800";
        const SERIAL: &str = "uart0: console (9600,n,8,1)";
        assert!(advice(&[SCREEN]).contains("efi_max_resolution"));
        assert!(advice(&[SERIAL]).contains("comconsole_speed"));
        assert_eq!(advice(&[SCREEN, SERIAL]), advice(&[]), "both print");
    }

    #[test]
    fn what_a_character_costs_is_found_by_initcalls() {
        let found = initcalls(us(4), "console=ttyS0 initcall_debug", |i| i * i % 700);
        let [only] = &found[..] else { panic!("{found:?}") };
        let Value::Time(each) = only.figures[1].value else { panic!("{:?}", only.figures) };
        assert!((us(4)..us(4) + Ns(300)).contains(&each), "{each:?}");
        assert_eq!(only.figures[0].of, "characters to an 8250 serial port");
        let Value::Count(count) = only.figures[0].value else { panic!("{:?}", only.figures) };
        let printed = count as i64 * us(4).0;
        assert!((only.price.likely.0 - printed).abs() < printed / 10, "{:?} of {printed}", only.price);
        assert_eq!(only.remedy, Remedy::append("print less, by quiet or loglevel=", &["quiet"]));
    }

    #[test]
    fn a_log_that_only_goes_to_memory_costs_nothing() {
        assert!(initcalls(Ns(100), "initcall_debug", |i| i * i % 700).is_empty());
        assert!(initcalls(us(4), "console=ttyS0 quiet", |i| i * i % 700).is_empty(), "they are not printed");
        assert!(initcalls(us(4), "debug console=ttyS0 loglevel=5", |i| i * i % 700).is_empty(), "the last word counts");
    }

    #[test]
    fn a_console_can_be_loud_beside_quiet() {
        for (words, changes) in [
            ("quiet console=ttyS0 ignore_loglevel", &["printk.ignore_loglevel=0", "quiet"][..]),
            ("quiet console=ttyS0 debug", &["quiet"]),
            ("loglevel=3 console=ttyS0 loglevel=8", &["quiet"]),
        ] {
            let found = initcalls(us(4), words, |i| i * i % 700);
            let [only] = &found[..] else { panic!("{words}: {found:?}") };
            assert_eq!(only.remedy.changes, Remedy::append("", changes).changes, "{words}");
        }
    }

    /// The memory map in libguestfs' notes: time in ns, and text.
    const NOTES: [(i64, &str); 8] = [
        (416_560_057, "e820: BIOS-provided physical RAM map:"),
        (416_560_896, "BIOS-e820: [mem 0x0000000000000000-0x000000000009f7ff] usable"),
        (416_561_538, "BIOS-e820: [mem 0x000000000009f800-0x000000000009ffff] reserved"),
        (417_698_326, "BIOS-e820: [mem 0x00000000000f0000-0x00000000000fffff] reserved"),
        (417_699_181, "BIOS-e820: [mem 0x0000000000100000-0x000000001f3fbfff] usable"),
        (418_835_791, "BIOS-e820: [mem 0x000000001f3fc000-0x000000001f3fffff] reserved"),
        (418_836_781, "BIOS-e820: [mem 0x00000000feffc000-0x00000000feffffff] reserved"),
        (418_837_152, "BIOS-e820: [mem 0x00000000fffc0000-0x00000000ffffffff] reserved"),
    ];

    #[test]
    fn lines_that_arrive_in_bursts_are_averaged() {
        let boot = |faster: i64| {
            let mut log = Log::new();
            log.call("works", ms(200));
            let begin = log.now();
            for (at, text) in NOTES {
                let at = begin + Ns((at - NOTES[0].0) / faster);
                let wait = at - log.now();
                log.call("works", wait);
                log.line(text);
            }
            findings_of(log)
        };
        let found = boot(1);
        let [only] = &found[..] else { panic!("{found:?}") };
        let Value::Time(each) = only.figures[1].value else { panic!("{:?}", only.figures) };
        // 2277 us for 516 characters of seven lines, and 14 for CR and LF.
        assert_eq!(each, Ns(4_296));
        assert!((only.price.likely - us(2_277)).abs() < us(600), "{:?}", only.price);
        assert!(boot(10).is_empty(), "as fast as that is no UART");
    }

    #[test]
    fn functions_that_print_are_the_cost() {
        let boot = |length: i64| {
            let mut log = Log::new();
            for i in 0..50 {
                log.initcall(&format!("driver{i}"), |log| {
                    log.call("works", ms(2));
                    log.within("_vprintf", |log| log.call("vprintk_emit", us(length)));
                });
            }
            findings_of(log)
        };
        let found = boot(1_000);
        let [only] = &found[..] else { panic!("{found:?}") };
        assert_eq!((only.about.as_str(), only.figures[0].value), ("_vprintf", Value::Count(50)));
        assert_eq!((only.price.low, only.price.likely, only.price.high), (ms(35), ms(50), ms(50)));
        assert!(boot(20).is_empty(), "1 %");
    }

    #[test]
    fn where_calls_were_followed_what_writes_to_consoles_is_the_cost() {
        let boot = |followed: &[&str], write: i64| {
            let mut log = Log::linux();
            log.machine.command_line = Some(vec!["console=ttyS0".to_owned()]);
            followed.iter().for_each(|name| log.counted(name, 200));
            for i in 0..200 {
                let name = format!("driver_{i:03}_init+0x0/0x10");
                let line = format!("calling  {name} @ 1");
                log.line(&line);
                log.within("vprintk_emit", |log| {
                    log.call("vprintk_store", us(40));
                    log.call("serial8250_console_write", us(write));
                });
                log.call("works", us(50));
                log.line(&format!("initcall {name} returned 0 after 50 usecs"));
            }
            findings_of(log)
        };
        let writes = ["vprintk_emit", "serial8250_console_write"];
        let found = boot(&writes, 60);
        let [only] = &found[..] else { panic!("{found:?}") };
        assert_eq!((only.about.as_str(), only.price.likely), ("serial8250_console_write", ms(12)));
        assert!(boot(&writes, 1).is_empty(), "storing a line costs, writing it does not, whatever lines seem to say");
        assert_eq!(boot(&[], 60)[0].about, "vprintk_emit", "of a kernel that logs some of its functions");
    }

    #[test]
    fn a_serial_lines_rate_shows_in_lines_that_follow_at_once() {
        let log = |each_ns: i64, every: usize| {
            let mut log = Log::linux();
            log.line("printk: console [ttyAMA10] enabled");
            log.work("x", ms(5));
            for number in 0..60 {
                let text = format!("message {number:035}");
                log.line(&text);
                let prints = Ns(60 * each_ns);
                let works = if number % every == 0 { Ns(100_000) } else { ms(20) };
                log.step(timeline::SpanKind::Message, &text, "", |log| log.work("x", prints + works));
            }
            log.line("Run /sbin/init as init process");
            log.found_by(&[DETECTOR]).findings
        };
        let found = log(86_806, 2);
        let [only] = &found[..] else { panic!("{found:?}") };
        assert_eq!(only.figures[1].value, crate::facts::Value::Time(Ns(86_806)));
        assert!(log(140_000, 2).is_empty(), "no line has this rate");
        assert!(log(86_806, 10).is_empty(), "few lines follow at once");
        assert!(log(2_000, 2).is_empty(), "faster than any of these rates");
    }
}
