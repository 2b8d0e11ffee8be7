//! Events of a libguestfs handle while it launched its appliance, as libguestfs' `boot-analysis --verbose` prints them.
//!
//! ```text
//!     #277: +416560057 [appliance] "[    0.000000] e820: …"    number, ns since the handle was set up (until spring 2016)
//!     416.6ms (+1.1) [appliance] "[    0.000000] e820: …"      ms since then, ms since the event before (from then on)
//! ```
//! (libguestfs-analysis-tools, `boot-analysis/boot-analysis.c`; the first form: libguestfs,
//! `tests/qemu/boot-analysis.c`.) The source is one of libguestfs' events, or `libvirt`. In the text, unprintable bytes
//! are written `\x1b`, and bytes from 0x80 on `\xffffffe2` where `char` is signed; quotes and backslashes are not
//! escaped. A line copied from a web page may have the page's line number before it, and non-breaking spaces. The stamp
//! is the time when libguestfs received the line, and QEMU hands lines over in bursts. A file has several launches
//! (`pass 2`); only the first is read.
//!
//! All output of the machine has one source, `appliance`. Its text shows whether it comes from the firmware, the kernel
//! or the appliance's programs: [`Level`].

mod parse;
mod place;

use crate::NotThisFormat;
use crate::formats::kernel_log::{KernelLog, Prefix, StampedLine};
use crate::input::records_max;
use crate::input::text::{Lines, number};
use memchr::memmem;
use timeline::{DiagnosticKind, Diagnostics, Ns};

pub(crate) use parse::is_event;

/// The name of this evidence in diagnostics.
const NAME: &str = "libguestfs";
/// Memory of an event besides its text, in bytes, here and on the timeline.
const EVENT_COST: usize = 500;

/// The source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The machine's console, and QEMU's own messages.
    Appliance,
    /// libguestfs (its messages, calls of its functions, callbacks) and libvirt.
    Library,
    /// The daemon in the appliance answered: the launch is over.
    LaunchDone,
}

/// The program that produced an event's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// libguestfs or libvirt, on the host.
    Library,
    /// Firmware, or an option ROM.
    Firmware,
    /// The kernel, including its setup code.
    Kernel,
    /// Programs in the appliance; before the firmware begins, QEMU.
    Appliance,
}

/// An event of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number, in the form that numbers events.
    pub number: Option<u64>,
    /// Time since the handle was set up.
    pub at: Ns,
    pub source: Source,
    pub level: Level,
    /// Its text without escapes; any bytes.
    pub text: Vec<u8>,
    /// The number of its line, from 1.
    pub line: u32,
    /// The offset of that line in the file, in bytes.
    pub offset: u64,
}

/// Numbers of lines by kind: `lines = events + later + unreadable + others`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub lines: u64,
    /// Events of the first launch.
    pub events: u64,
    /// Events of later launches.
    pub later: u64,
    /// Lines that begin like an event but cannot be read.
    pub unreadable: u64,
    /// Headings and all other lines.
    pub others: u64,
}

/// The events of one launch, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    pub events: Vec<Event>,
    /// Numbers of lines by kind.
    pub counts: Counts,
    /// The number of missing events, according to the numbers of the others.
    pub missing: u64,
    file: String,
}

impl Events {
    /// Reads the first launch of a file.
    ///
    /// # Errors
    /// If there is no event in it.
    pub fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Result<Events, NotThisFormat> {
        let mut found = Events { file: file.to_owned(), ..Events::default() };
        let (mut over, most) = (false, records_max(bytes.len(), EVENT_COST));
        for line in Lines::new(bytes) {
            found.counts.lines += 1;
            let place = || format!("{file}:{}", line.number);
            let text = parse::plain(line.bytes);
            let Some(head) = parse::head(&text) else {
                over |= !found.events.is_empty() && is_pass(&text);
                found.counts.others += 1;
                continue;
            };
            let Some(text) = parse::text(head.rest) else {
                found.counts.unreadable += 1;
                diagnostics.note(DiagnosticKind::LibguestfsEventUnreadable, place);
                continue;
            };
            let last = found.events.last();
            over |= last.and_then(|last| last.number).zip(head.number).is_some_and(|(last, number)| number <= last);
            if over {
                found.counts.later += 1;
                diagnostics.note(DiagnosticKind::LibguestfsLaterLaunch, place);
                continue;
            }
            if found.events.len() == most {
                found.counts.unreadable += 1;
                diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, place);
                continue;
            }
            let last = found.events.last().map_or((None, Ns::ZERO), |last| (last.number, last.at));
            found.count_missing(last.0, head.number, place, diagnostics);
            if head.at < last.1 {
                diagnostics.note(DiagnosticKind::LibguestfsClockBack, place);
            }
            let level = Level::Library;
            let (number, at, source) = (head.number, head.at.max(last.1), head.source);
            found.counts.events += 1;
            let offset = line.offset as u64;
            found.events.push(Event { number, at, source, level, text, line: line.number, offset });
        }
        if found.events.is_empty() {
            let found = "no line is one of its events".to_owned();
            return Err(NotThisFormat { file: file.to_owned(), expected: "libguestfs' events", found });
        }
        found.tell_levels();
        Ok(found)
    }

    /// Counts missing events. The first event has number 0, so a missing beginning is noticed.
    fn count_missing(
        &mut self,
        last: Option<u64>,
        number: Option<u64>,
        place: impl FnOnce() -> String,
        diagnostics: &mut Diagnostics,
    ) {
        let Some(number) = number else { return };
        let missing = number - last.map_or(0, |last| last + 1).min(number);
        self.missing = self.missing.saturating_add(missing);
        diagnostics.note_many(DiagnosticKind::LibguestfsEventsMissing, missing, place);
    }

    /// Sets the levels of the machine's lines, which come in one stream: the firmware's until the kernel's first line,
    /// then the kernel's until user space. From then on the kernel's messages stand between those of programs.
    fn tell_levels(&mut self) {
        let (mut stage, mut user_space) = (Level::Appliance, false);
        for event in &mut self.events {
            if event.source != Source::Appliance {
                event.level = Level::Library;
                continue;
            }
            user_space |= stage == Level::Kernel && event.text.starts_with(b"supermin: ");
            if user_space {
                let kernels = Prefix::strip(&event.text).0.stamped;
                event.level = if kernels { Level::Kernel } else { Level::Appliance };
                continue;
            }
            if is_kernel(&event.text) {
                stage = Level::Kernel;
            } else if stage == Level::Appliance && begins_firmware(&event.text) {
                stage = Level::Firmware;
            }
            event.level = stage;
            user_space = stage == Level::Kernel && contains_any(&event.text, &[b"Freeing unused kernel"]);
        }
    }

    /// The kernel's lines as a kernel log, each with its arrival time.
    pub fn kernel_log(&self, diagnostics: &mut Diagnostics) -> Option<(String, KernelLog)> {
        let lines = self.of(Level::Kernel).map(|event| StampedLine {
            at: event.at,
            text: &event.text,
            offset: event.offset,
            number: event.line,
        });
        let log = KernelLog::of_stamped(&self.file, "libguestfs", lines, diagnostics);
        (!log.lines.is_empty()).then(|| (self.file.clone(), log))
    }

    /// The events of one level.
    pub fn of(&self, level: Level) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.level == level)
    }
}

/// `pass 2`
fn is_pass(line: &[u8]) -> bool {
    line.trim_ascii().strip_prefix(b"pass ").and_then(number).is_some_and(|(_, rest)| rest.is_empty())
}

/// True for the first output of SGABIOS (a query for the terminal's size), SeaBIOS or UEFI.
fn begins_firmware(text: &[u8]) -> bool {
    contains_any(text, &[b"\x1b[1;256r\x1b[256;256H\x1b[6n", b"SeaBIOS (version ", b"UEFI firmware starting"])
}

/// True for text that only the kernel or its setup code prints.
fn is_kernel(text: &[u8]) -> bool {
    const WORDS: [&[u8]; 5] = [
        b"Probing EDD",
        b"early console in ",
        b"Decompressing Linux",
        b"Booting Linux on physical CPU",
        b"Linux version ",
    ];
    Prefix::strip(text).0.stamped || contains_any(text, &WORDS)
}

fn contains_any(text: &[u8], words: &[&[u8]]) -> bool {
    words.iter().any(|word| memmem::find(text, word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> (Events, Diagnostics) {
        let mut diagnostics = Diagnostics::default();
        let found = Events::read("a.log", text, &mut diagnostics).unwrap();
        let c = found.counts;
        assert_eq!(c.lines, c.events + c.later + c.unreadable + c.others);
        (found, diagnostics)
    }

    #[test]
    fn levels_follow_from_the_text() {
        let text = br##"    #0: +9000 [trace] "launch"
    #1: +20000 [library] "begin building supermin appliance"
    #2: +30000 [appliance] "\x1b[1;256r\x1b[256;256H\x1b[6n"
    #3: +40000 [appliance] "Google, Inc."
    #4: +50000 [appliance] "SeaBIOS (version 1.9.1)"
    #5: +60000 [appliance] "Probing EDD (edd=off to disable)... ok"
    #6: +70000 [library] "say "hi""
    #7: +80000 [appliance] "[    0.000000] Linux version 4.5"
    #8: +85000 [appliance] "[    0.500000] Freeing unused kernel memory: 1K"
    #9: +90000 [appliance] "supermin: ext2 mini initrd starting up: 5.1"
    #10: +95000 [appliance] "[    0.600000] random: ready"
    #11: +96000 [appliance] "+ mount \xffffffe2\xffffff82\xffffffac"
    #12: +99000 [launch_done] "launch done callback"
"##;
        let (found, diagnostics) = read(text);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        let levels: Vec<_> = found.events.iter().map(|e| e.level).collect();
        use Level::{Appliance as A, Firmware as F, Kernel as K, Library as L};
        assert_eq!(levels, [L, L, F, F, F, K, L, K, K, A, K, A, L]);
        assert_eq!(found.events[6].text, b"say \"hi\"");
        assert_eq!(found.events[11].text, "+ mount €".as_bytes());
        assert_eq!(found.events[12].source, Source::LaunchDone);
        let (_, log) = found.kernel_log(&mut Diagnostics::default()).unwrap();
        let lines: Vec<_> = log.lines.iter().map(|l| (l.stamp, l.host_stamp.unwrap().0, log.text(l))).collect();
        assert_eq!(lines[0], (None, 60_000, "Probing EDD (edd=off to disable)... ok"));
        assert_eq!(lines[2], (Some(Ns(500_000_000)), 85_000, "Freeing unused kernel memory: 1K"));
    }

    #[test]
    fn the_later_form_has_milliseconds_and_the_first_launch_counts() {
        let text = b"pass 0\n    number of events collected 2\n    0.1ms [trace] \"launch\"\n    416.6ms (+416.5) [appliance] \"a\"\npass 1\n    0.2ms [trace] \"launch\"\n";
        let (found, diagnostics) = read(text);
        assert_eq!(
            found.events.iter().map(|e| (e.number, e.at.0)).collect::<Vec<_>>(),
            [(None, 100_000), (None, 416_600_000)]
        );
        assert_eq!((found.counts.later, found.counts.others), (1, 3));
        assert_eq!(diagnostics.count(DiagnosticKind::LibguestfsLaterLaunch), 1);
    }

    #[test]
    fn missing_cut_and_disordered_events_are_counted() {
        let text = b"#3: +500 [library] \"a\"\n#5: +400 [library] \"b\"\n#6: +600 [library] \"cut\n#7: +99999999999999999999 [library] \"c\"\n#5: +1 [library] \"d\"\n";
        let (found, diagnostics) = read(text);
        assert_eq!(found.events.iter().map(|e| e.at.0).collect::<Vec<_>>(), [500, 500]);
        assert_eq!((found.missing, found.counts.unreadable, found.counts.others, found.counts.later), (4, 1, 1, 1));
        assert_eq!(diagnostics.count(DiagnosticKind::LibguestfsClockBack), 1);
        assert_eq!(diagnostics.count(DiagnosticKind::LibguestfsEventsMissing), 4);
    }

    #[test]
    fn a_file_without_an_event_is_not_this_format() {
        let error = Events::read("a", b"[    0.000000] x\n", &mut Diagnostics::default()).unwrap_err();
        assert_eq!(error.to_string(), "a: this is not libguestfs' events: no line is one of its events");
    }
}
