//! Logs of machines that never ran, with delays at known places: the top three rows are those delays, with their lengths.
//!
//! Each log is made from a number. Some lose their head or tail, get another clock, a logger's stamps, or another boot before or behind.
//! A delay that a cut took away is not expected. A delay that has no row is unexplained: no other row is as long.

use super::imports::imported_texts;
use analysis::{Groups, boot_path, phases, tables, total};
use timeline::{Ns, Timeline};

/// The form of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Dmesg,
    Callers,
    Syslog,
    Grabserial,
    Initcalls,
    /// Records of /dev/kmsg.
    Records,
    /// `dmesg -T`: whole seconds.
    WholeSeconds,
    /// `journalctl` unasked: whole seconds, and the kernel's own messages have no times.
    Journal,
}

impl Form {
    /// The resolution of its stamps in µs.
    fn resolution_us(self) -> u64 {
        match self {
            Form::WholeSeconds | Form::Journal => 1_000_000,
            _ => 1,
        }
    }
}

/// A change that leaves the delays as they are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Nothing,
    CutHead,
    CutTail,
    /// The clock counts from power-on.
    PowerOn,
    /// Another boot, which reached process 1, stands before.
    WholeBootBefore,
    /// The beginning of another boot stands behind.
    CutBootBehind,
}

const FORMS: [Form; 8] = [
    Form::Dmesg,
    Form::Callers,
    Form::Syslog,
    Form::Grabserial,
    Form::Initcalls,
    Form::Records,
    Form::WholeSeconds,
    Form::Journal,
];
const CHANGES: [Change; 6] = [
    Change::Nothing,
    Change::CutHead,
    Change::CutTail,
    Change::PowerOn,
    Change::WholeBootBefore,
    Change::CutBootBehind,
];

/// Numbers that look random (xorshift).
struct Numbers(u64);

impl Numbers {
    fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }
}

/// A message and its time in µs.
struct Message {
    at_us: u64,
    text: String,
}

/// A delay after the message with this place, and the row that it should be.
struct Delay {
    place: usize,
    row: String,
    us: u64,
}

struct Log {
    messages: Vec<Message>,
    delays: Vec<Delay>,
}

const ORIGINS: [&str; 8] =
    ["pci 0000:00:0", "usb ", "scsi host", "e1000e: port ", "mmc", "drm: output ", "thermal zone ", "gpio-"];

/// A boot with three delays, at least one of them in the kernel and at most one in user space.
fn boot(numbers: &mut Numbers, form: Form, has_program: bool) -> Log {
    let (kernel, user) = (30 + numbers.below(60), 10 + numbers.below(30));
    let mut texts =
        vec!["Linux version 6.1.0 (builder) #1 SMP".to_owned(), "Command line: quiet root=/dev/sda1".to_owned()];
    for number in 0..kernel {
        let origin = ORIGINS[usize::try_from(numbers.below(8)).unwrap()];
        texts.push(format!("{origin}{number}: state {number}"));
    }
    let first_of_user = texts.len();
    texts.push("Freeing unused kernel image (initmem) memory: 2048K".to_owned());
    texts.push("Run /sbin/init as init process".to_owned());
    if has_program {
        texts.extend((0..user).map(|number| format!("systemd[1]: Mounted disk number {number}")));
        texts.push(FINISHED.to_owned());
    }
    // Three places in thirds of the kernel, or the last one in user space.
    let third = (first_of_user - 4) / 3;
    let mut places: Vec<usize> =
        (0..3).map(|part| 3 + part * third + usize::try_from(numbers.below(third as u64 - 1)).unwrap()).collect();
    if has_program && numbers.below(2) == 0 {
        places[2] = first_of_user + 2 + usize::try_from(numbers.below(user - 2)).unwrap();
    }
    // Delays are long as compared with the resolution.
    let scale = if form.resolution_us() > 1 { 10 } else { 1 };
    let mut lengths: Vec<u64> = (1..=3).map(|rank| scale * (rank * 400_000 + numbers.below(300_000))).collect();
    let turn = usize::try_from(numbers.below(3)).unwrap();
    lengths.rotate_left(turn);
    let (mut at_us, mut messages, mut delays) = (0, Vec::new(), Vec::new());
    for (place, text) in texts.into_iter().enumerate() {
        let delay = places.iter().position(|other| *other == place).map(|rank| lengths[rank]);
        if let (Form::Initcalls, Some(us), true) = (form, delay, place < first_of_user) {
            let name = format!("driver_{place}_init");
            messages.push(Message { at_us, text: format!("calling  {name}+0x0/0x40 @ 1") });
            at_us += us;
            messages.push(Message { at_us, text: format!("initcall {name}+0x0/0x40 returned 0 after {us} usecs") });
            delays.push(Delay { place: messages.len() - 1, row: format!("initcall {name}"), us });
            at_us += 900;
            continue;
        }
        let row = match (form, text.strip_prefix("systemd[1]: ")) {
            (Form::Journal, Some(text)) => format!("after “systemd: {text}”"),
            (Form::Journal, None) => format!("after “kernel: {text}”"),
            _ => format!("after “{text}”"),
        };
        let text = if text == FINISHED { finished(&messages, at_us) } else { text };
        messages.push(Message { at_us, text });
        // The first messages are stamped 0.
        let step = if place < 2 { 0 } else { 100 + numbers.below(2000) };
        at_us += step + delay.unwrap_or_default();
        delays.extend(delay.map(|us| Delay { place: messages.len() - 1, row, us: us + step }));
    }
    Log { messages, delays }
}

const FINISHED: &str = "systemd[1]: Startup finished";

/// Systemd's last message, at that time.
fn finished(messages: &[Message], at_us: u64) -> String {
    let run = messages.iter().find(|message| message.text.starts_with("Run ")).unwrap();
    let [kernel, all] = [run.at_us, at_us].map(|us| us / 1000);
    let seconds = |ms: u64| format!("{}.{:03}s", ms / 1000, ms % 1000);
    let [kernel, user, all] = [kernel, all - kernel, all].map(seconds);
    format!("{FINISHED} in {kernel} (kernel) + {user} (userspace) = {all}.")
}

/// Writes messages as this form has them; `more_us` is the time of the clock before the first.
fn written(messages: &[Message], form: Form, more_us: u64) -> String {
    let line = |(number, message): (usize, &Message)| {
        let us = message.at_us + more_us;
        let (stamp, text) = (format!("[{:5}.{:06}]", us / 1_000_000, us % 1_000_000), &message.text);
        let host_us = message.at_us + 2_000_000;
        let host = format!("{}.{:06}", host_us / 1_000_000, host_us % 1_000_000);
        match form {
            Form::Dmesg | Form::Initcalls => format!("{stamp} {text}\n"),
            Form::Callers => format!("{stamp}[    T1] {text}\n"),
            Form::Syslog => format!("Nov 21 10:11:12 box kernel: {stamp} {text}\n"),
            Form::Grabserial => format!("[{host} 0.000000] {stamp} {text}\n"),
            Form::Records => format!("6,{number},{us},-;{text}\n"),
            Form::WholeSeconds => format!("[Sat Nov 21 {} 2026] {text}\n", time_of_day(us)),
            Form::Journal if text.starts_with("systemd[1]: ") => format!("Nov 21 {} box {text}\n", time_of_day(us)),
            Form::Journal => format!("Nov 21 {} box kernel: {text}\n", time_of_day(us)),
        }
    };
    messages.iter().enumerate().map(line).collect()
}

/// The wall clock's time in whole seconds. The boot began within a second.
fn time_of_day(us: u64) -> String {
    let seconds = (us + 370_000) / 1_000_000;
    format!("10:{:02}:{:02}", 11 + seconds / 60, seconds % 60)
}

/// A log by its number: its text, and the delays that it shows.
fn made(number: u64) -> (String, Vec<Delay>, (Form, Change)) {
    let mut numbers = Numbers::new(number + 1);
    let form = FORMS[usize::try_from(number % FORMS.len() as u64).unwrap()];
    let change = CHANGES[usize::try_from(number / FORMS.len() as u64 % CHANGES.len() as u64).unwrap()];
    // A syslog's summary by systemd says how long the kernel took, from power-on or not. A wall clock does not begin at power-on.
    let is_dated = form == Form::Syslog || form.resolution_us() > 1;
    let change = if is_dated && change == Change::PowerOn { Change::Nothing } else { change };
    let has_program = change != Change::CutTail;
    let Log { mut messages, mut delays } = boot(&mut numbers, form, has_program);
    match change {
        Change::CutHead => {
            let mut cut = 3 + usize::try_from(numbers.below(12)).unwrap();
            // An initcall keeps both its lines or none.
            cut -= usize::from(form == Form::Initcalls && delays.iter().any(|delay| delay.place == cut));
            messages.drain(..cut);
            delays.retain(|delay| delay.place >= cut);
        }
        Change::CutTail => {
            let cut = 1 + usize::try_from(numbers.below(8)).unwrap();
            messages.truncate(messages.len() - cut);
            let ends = usize::from(form != Form::Initcalls);
            delays.retain(|delay| delay.place + ends < messages.len());
        }
        _ => {}
    }
    let more_us = if change == Change::PowerOn { 3_500_000 } else { 0 };
    let text = written(&messages, form, more_us);
    let text = match change {
        Change::WholeBootBefore => written(&boot(&mut numbers, form, true).messages, form, 0) + &text,
        Change::CutBootBehind => text + &written(&boot(&mut numbers, form, true).messages[..10], form, 0),
        _ => text,
    };
    (text, delays, (form, change))
}

/// The rows of the boot path in µs, the longest first, and the time that has only the name of its phase.
fn rows(timeline: &Timeline) -> (Vec<(String, u64)>, u64) {
    let all = tables(timeline, &boot_path(timeline), &phases(timeline), &Groups::linux());
    let us = |time: Ns| u64::try_from(time.0 / 1000).unwrap();
    let mut rows: Vec<(String, u64)> = all.wheres.iter().map(|row| (row.name.clone(), us(row.self_time))).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.1));
    let unexplained = rows.iter().filter(|row| row.0.starts_with('(')).map(|row| row.1).sum();
    // Other phases are no rows of their own.
    rows.retain(|row| !row.0.starts_with('('));
    (rows, unexplained)
}

#[test]
fn planted_delays_are_the_first_rows() {
    let mut with_rows = 0;
    for number in 0..200 {
        let (text, delays, kind) = made(number);
        let timeline = imported_texts(&[("planted.log", &text)]);
        let (rows, unexplained) = rows(&timeline);
        let told = || {
            format!(
                "log {number}, {kind:?}: {:?}, of {}, {unexplained} µs unexplained",
                &rows[..rows.len().min(5)],
                total(&timeline)
            )
        };
        let (mut missing, resolution_us) = (0, kind.0.resolution_us());
        for delay in &delays {
            match rows.iter().take(delays.len()).find(|row| row.0 == delay.row) {
                Some(row) => {
                    let error_us = resolution_us + 1;
                    assert!(row.1.abs_diff(delay.us) <= error_us, "{} of {} µs: {}", delay.row, delay.us, told());
                    with_rows += 1;
                }
                None => missing += delay.us.saturating_sub(resolution_us),
            }
        }
        assert!(missing <= unexplained, "{missing} µs are some other row's: {}", told());
        let longest_other = rows.iter().find(|row| delays.iter().all(|delay| delay.row != row.0));
        assert!(longest_other.is_none_or(|row| row.1 < 350_000.max(resolution_us + 1)), "{}", told());
    }
    assert!(with_rows >= 525, "{with_rows} of the delays are rows");
}

/// A length as systemd prints it.
fn systemd_time(ms: u64) -> String {
    match (ms / 60_000, ms % 60_000) {
        (0, ms) if ms < 1000 => format!("{ms}ms"),
        (0, ms) => format!("{}.{:03}s", ms / 1000, ms % 1000),
        (minutes, ms) => format!("{minutes}min {}.{:03}s", ms / 1000, ms % 1000),
    }
}

/// systemd's chain beside the kernel's log: each keeps its rows, and the boot is as long as both say.
#[test]
fn a_chain_beside_a_log_takes_no_row_from_it() {
    for number in 0..60 {
        let mut numbers = Numbers::new(number + 2000);
        let form = [Form::Dmesg, Form::Initcalls, Form::Records][usize::try_from(number % 3).unwrap()];
        let Log { messages, delays } = boot(&mut numbers, form, false);
        let kernel_ms = messages.last().unwrap().at_us / 1000;
        let chain = chain(&mut numbers);
        let seconds = |ms: u64| format!("{}.{:03}s", ms / 1000, ms % 1000);
        let [kernel, user, all] = [kernel_ms, chain.ms, kernel_ms + chain.ms].map(seconds);
        let summary = format!("Startup finished in {kernel} (kernel) + {user} (userspace) = {all}\n");
        let text = format!("{summary}graphical.target reached after {user} in userspace\n\n{}", chain.text);
        let log = written(&messages, form, 0);
        let timeline = imported_texts(&[("dmesg.txt", &log), ("analyze.txt", &text)]);
        let (rows, unexplained_us) = rows(&timeline);
        let told = || {
            format!(
                "log {number}, {form:?}: {rows:?}, {unexplained_us} µs unexplained, of {}\n{text}",
                total(&timeline)
            )
        };
        let us = |name: &str| rows.iter().find(|row| row.0 == name).unwrap_or_else(|| panic!("{name}: {}", told())).1;
        // Short delays are summed by the origins of their messages.
        let short_us = u64::try_from(total(&timeline).0 / 1000).unwrap() / 200;
        for delay in delays.iter().filter(|delay| delay.us > short_us) {
            assert!(us(&delay.row).abs_diff(delay.us) <= 1000, "{} of {} µs: {}", delay.row, delay.us, told());
        }
        for (unit, _, length) in &chain.links {
            assert!(us(&format!("thread {unit}")).abs_diff(length * 1000) <= 1000, "{unit}: {}", told());
        }
        assert!(unexplained_us + 1000 >= chain.gaps_ms * 1000, "{}", told());
        let ms = u64::try_from(total(&timeline).0 / 1_000_000).unwrap();
        assert!(ms.abs_diff(kernel_ms + chain.ms) <= 2, "{}", told());
    }
}

/// A critical chain.
struct Chain {
    text: String,
    /// Each unit with its start and length in ms.
    links: Vec<(String, u64, u64)>,
    /// The time in which no unit of the chain works.
    gaps_ms: u64,
    ms: u64,
}

/// Units from the first to the last: when each starts, its length, and a gap behind it in which no unit of the chain works.
fn chain(numbers: &mut Numbers) -> Chain {
    let (mut at, mut links, mut gaps_ms) = (200 + numbers.below(800), Vec::new(), 0);
    gaps_ms += at;
    for place in 0..4_u64 {
        let length = 300 * (place + 1) + numbers.below(250);
        links.push((format!("unit-{place}.service"), at, length));
        let gap = if numbers.below(2) == 0 { 0 } else { numbers.below(90_000) };
        at += length + gap;
        gaps_ms += gap;
    }
    let mut text = format!("graphical.target @{}\n", systemd_time(at));
    for (depth, (unit, at, length)) in links.iter().rev().enumerate() {
        let indent = "  ".repeat(depth);
        text += &format!("{indent}└─{unit} @{} +{}\n", systemd_time(*at), systemd_time(*length));
    }
    Chain { text, links, gaps_ms, ms: at }
}

#[test]
fn a_chain_s_units_have_their_lengths_and_its_gaps_none() {
    for number in 0..60 {
        let mut numbers = Numbers::new(number + 1000);
        let Chain { text, links, gaps_ms: gaps, .. } = chain(&mut numbers);
        let (rows, unexplained) = rows(&imported_texts(&[("chain.txt", &text)]));
        for (unit, _, length) in &links {
            let row = rows.iter().find(|row| row.0 == format!("thread {unit}"));
            let us = row.unwrap_or_else(|| panic!("{unit}: {rows:?}\n{text}")).1;
            assert!(us.abs_diff(length * 1000) <= 1000, "{unit} of {length} ms: {us}\n{text}");
        }
        assert!(unexplained.abs_diff(gaps * 1000) <= 2000, "{gaps} ms: {unexplained}\n{text}");
    }
}
