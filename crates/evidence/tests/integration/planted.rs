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

const FORMS: [Form; 5] = [Form::Dmesg, Form::Callers, Form::Syslog, Form::Grabserial, Form::Initcalls];
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
    let mut lengths: Vec<u64> = (1..=3).map(|rank| rank * 400_000 + numbers.below(300_000)).collect();
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
        let row = format!("after “{text}”");
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
    let line = |message: &Message| {
        let us = message.at_us + more_us;
        let (stamp, text) = (format!("[{:5}.{:06}]", us / 1_000_000, us % 1_000_000), &message.text);
        let host_us = message.at_us + 2_000_000;
        let host = format!("{}.{:06}", host_us / 1_000_000, host_us % 1_000_000);
        match form {
            Form::Dmesg | Form::Initcalls => format!("{stamp} {text}\n"),
            Form::Callers => format!("{stamp}[    T1] {text}\n"),
            Form::Syslog => format!("Nov 21 10:11:12 box kernel: {stamp} {text}\n"),
            Form::Grabserial => format!("[{host} 0.000000] {stamp} {text}\n"),
        }
    };
    messages.iter().map(line).collect()
}

/// A log by its number: its text, and the delays that it shows.
fn made(number: u64) -> (String, Vec<Delay>, (Form, Change)) {
    let mut numbers = Numbers::new(number + 1);
    let form = FORMS[usize::try_from(number % 5).unwrap()];
    let change = CHANGES[usize::try_from(number / 5 % 6).unwrap()];
    // A syslog's summary by systemd says how long the kernel took, from power-on or not.
    let form = if (form, change) == (Form::Syslog, Change::PowerOn) { Form::Dmesg } else { form };
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

/// The rows of the boot path in µs, the longest first, and the time that no row has.
fn rows(timeline: &Timeline) -> (Vec<(String, u64)>, u64) {
    let all = tables(timeline, &boot_path(timeline), &phases(timeline), &Groups::linux());
    let us = |time: Ns| u64::try_from(time.0 / 1000).unwrap();
    let mut rows: Vec<(String, u64)> = all.wheres.iter().map(|row| (row.name.clone(), us(row.self_time))).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.1));
    let unexplained = rows.iter().filter(|row| row.0 == "(unexplained)").map(|row| row.1).sum();
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
        let mut missing = 0;
        for delay in &delays {
            match rows.iter().take(delays.len()).find(|row| row.0 == delay.row) {
                Some(row) => {
                    assert!(row.1.abs_diff(delay.us) <= 2, "{} of {} µs: {}", delay.row, delay.us, told());
                    with_rows += 1;
                }
                None => missing += delay.us,
            }
        }
        assert!(missing <= unexplained, "{missing} µs are some other row's: {}", told());
        let longest_other = rows.iter().find(|row| delays.iter().all(|delay| delay.row != row.0));
        assert!(longest_other.is_none_or(|row| row.1 < 350_000), "{}", told());
    }
    assert!(with_rows >= 540, "{with_rows} of the delays are rows");
}

/// A length as systemd prints it.
fn systemd_time(ms: u64) -> String {
    match (ms / 60_000, ms % 60_000) {
        (0, ms) if ms < 1000 => format!("{ms}ms"),
        (0, ms) => format!("{}.{:03}s", ms / 1000, ms % 1000),
        (minutes, ms) => format!("{minutes}min {}.{:03}s", ms / 1000, ms % 1000),
    }
}

#[test]
fn a_chain_s_units_have_their_lengths_and_its_gaps_none() {
    for number in 0..60 {
        let mut numbers = Numbers::new(number + 1000);
        // From the first unit to the last: when each starts, its length, and a gap behind it in which no unit of the chain works.
        let (mut at, mut links, mut gaps) = (200 + numbers.below(800), Vec::new(), 0);
        gaps += at;
        for place in 0..4_u64 {
            let length = 300 * (place + 1) + numbers.below(250);
            links.push((format!("unit-{place}.service"), at, length));
            let gap = if numbers.below(2) == 0 { 0 } else { numbers.below(90_000) };
            at += length + gap;
            gaps += gap;
        }
        let mut text = format!("graphical.target @{}\n", systemd_time(at));
        for (depth, (unit, at, length)) in links.iter().rev().enumerate() {
            let indent = "  ".repeat(depth);
            text += &format!("{indent}└─{unit} @{} +{}\n", systemd_time(*at), systemd_time(*length));
        }
        let (rows, unexplained) = rows(&imported_texts(&[("chain.txt", &text)]));
        for (unit, _, length) in &links {
            let row = rows.iter().find(|row| row.0 == format!("thread {unit}"));
            let us = row.unwrap_or_else(|| panic!("{unit}: {rows:?}\n{text}")).1;
            assert!(us.abs_diff(length * 1000) <= 1000, "{unit} of {length} ms: {us}\n{text}");
        }
        assert!(unexplained.abs_diff(gaps * 1000) <= 2000, "{gaps} ms: {unexplained}\n{text}");
    }
}
