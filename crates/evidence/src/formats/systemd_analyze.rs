//! systemd's account of a boot: the output of `systemd-analyze` (`time`, `blame`, `critical-chain`, `plot --json`,
//! `dump`), its picture ([`plot`]), and the properties of its units ([`state`]), alone or one after the other.
//!
//! ```text
//! Startup finished in 6.3s (firmware) + 529ms (loader) + 1.043s (kernel) + 3.566s (initrd) + 1min 2.4s (userspace) = 1min 13.9s
//! graphical.target reached after 32.429s in userspace.       also: X was never reached.
//!
//! 30.021s lazy.service                                       blame: how long units took to start, never when
//!
//! multi-user.target @47.820s                                 critical-chain: @ when it was active or started, in user space
//! └─pmie.service @35.968s +548ms                             + how long it took; what it waited for is below it
//!   └─pmcd.service @33.715s +2.247s                          … or |-, `- and spaces where the locale is not UTF-8
//!
//! [{"name":"pmcd.service","activated":35962000,"activating":33715000,"time":2247000,"deactivated":0,"deactivating":0}]
//! ```
//! (systemd's sources, `src/analyze/analyze-time-data.c`, `analyze-blame.c`, `analyze-critical-chain.c`, `analyze-plot.c`;
//! the JSON is there since version 253.) Terms of the first line that did not happen are left out; in a container or of a
//! user's manager only the last is there. Times are cut to whole milliseconds, those of the JSON are microseconds of
//! `CLOCK_MONOTONIC`, which is the kernel's own clock. A unit that was not active when the boot was done has the time of
//! that in the JSON. `time` is 0 where a unit took none, as targets do.
//!
//! Firmware and loader come before the kernel's clock begins: it is 0 when they are done. The numbers of `blame` have no
//! place on the timeline; a unit is placed by the JSON, else by the chain, and only then.
//!
//! It must not move the kernel's boundaries that other formats give: its own are milliseconds wide, and the more exact
//! one is used.

mod boots;
mod line;
pub(crate) mod plot;
mod settle;
pub(crate) mod state;
pub(crate) mod units;
mod wall;

use crate::formats::kernel_log::Cleaner;
use crate::input::text::Lines;
use hashbrown::HashMap;
use line::{Line, Unit};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// The format's name in diagnostics.
pub(crate) const NAME: &str = "systemd-analyze";
/// A machine has some hundred units.
const UNITS_MAX: usize = 1 << 16;

/// A stretch of the boot that systemd has a name for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Before the loader, by UEFI's own word.
    Firmware,
    /// The boot loader.
    Loader,
    /// From the kernel's first instruction to systemd, or to the initrd's systemd.
    Kernel,
    /// From the initrd's systemd to that of the root.
    Initrd,
    /// From a soft reboot to systemd.
    SoftReboot,
    /// From systemd until its first transaction was done.
    Userspace,
}

/// `Startup finished in …`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// The stages that there were, in order.
    pub stages: Vec<(Stage, Ns)>,
    /// Their sum, as printed.
    pub total: Option<Ns>,
}

impl Finished {
    /// Reads systemd's message that the boot is done.
    pub(crate) fn read(message: &[u8]) -> Option<Finished> {
        match line::read(message) {
            Some(line::Line::Finished(finished)) => Some(finished),
            _ => None,
        }
    }

    /// The length of a stage.
    pub(crate) fn took(&self, stage: Stage) -> Option<Ns> {
        self.stages.iter().find(|(of, _)| *of == stage).map(|(_, took)| *took)
    }
}

/// A unit of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub unit: String,
    /// The depth in the tree. A unit waited for the units below it that are one deeper.
    pub depth: usize,
    /// The time when it was started, since user space began. For a unit that took no time, the time when it was active.
    pub at: Option<Ns>,
    /// The time that it took to start.
    pub took: Option<Ns>,
}

/// A unit of the JSON, on the kernel's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    pub unit: String,
    /// The time when it was started.
    pub activating: Ns,
    /// The time when it was active, or had failed.
    pub activated: Ns,
    /// The time in which it stopped, if it did before the boot was done.
    pub stopping: Option<(Ns, Ns)>,
}

/// The numbers of lines of each kind. They sum to the number of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub lines: u64,
    pub time: u64,
    pub blame: u64,
    pub chain: u64,
    pub json: u64,
    /// The properties of systemd itself and of its units.
    pub state: u64,
    /// Bars and texts of a picture.
    pub plot: u64,
    /// Lines that begin as one of these but cannot be read.
    pub unreadable: u64,
    /// Blank lines, headings, and what else is in the file.
    pub others: u64,
}

/// All that was printed of one boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Analysis {
    /// The durations of the stages.
    pub finished: Option<Finished>,
    /// The default target, and when it was reached, since user space began.
    pub reached: Option<(String, Ns)>,
    /// The times that units took to start, each with the number of its line.
    pub blame: Vec<(String, Ns, u32)>,
    /// The units that waited for each other, in the order of the tree.
    pub chain: Vec<Link>,
    /// The times when units were started and active.
    pub times: Vec<Times>,
    /// The properties of systemd itself and of its units.
    pub(crate) state: state::Reader,
    /// The picture of the boot.
    pub(crate) plot: plot::Plot,
    /// The boots that stand before this one in the same file.
    earlier: boots::Earlier,
    /// The numbers of lines of each kind.
    pub counts: Counts,
    /// The unit to which its figures are cut.
    pub resolution: Resolution,
}

/// The unit to which figures are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    /// As `systemd-analyze` cuts them.
    #[default]
    Milliseconds,
    /// As systemd keeps them.
    Microseconds,
    /// As its picture has them.
    TensOfMicroseconds,
    /// As a dump has them.
    Seconds,
}

impl Analysis {
    /// Adds what a file says; anything else in it is counted.
    pub fn read(&mut self, file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) {
        let mut cleaner = Cleaner::default();
        let mut json_until = 0;
        self.earlier.begin_file();
        for line in Lines::new(bytes) {
            self.counts.lines += 1;
            if line.offset < json_until {
                self.counts.json += 1;
                continue;
            }
            let place = || format!("{file}:{}", line.number);
            if self.state.line(line.bytes.strip_suffix(b"\r").unwrap_or(line.bytes), place, diagnostics) {
                self.counts.state += 1;
                continue;
            }
            if let Some(found) = self.plot.line(line.bytes) {
                self.counts.plot += 1;
                self.add_plotted(found, place, diagnostics);
                continue;
            }
            if line::begins_json(line.bytes) {
                match self.json(&bytes[line.offset..], place, diagnostics) {
                    Some(length) => {
                        json_until = line.offset + length;
                        self.counts.json += 1;
                    }
                    // Other texts have a bracket alone in a line, too.
                    None if line.bytes.trim_ascii() == b"[" => self.counts.others += 1,
                    None => self.unreadable(place, diagnostics),
                }
                continue;
            }
            // A terminal's colours mark the links of the chain.
            let text = plot::without_tags(cleaner.clean(line.bytes).0);
            let said = line::of_journal(text);
            // A syslog of several boots has a summary of each: the last one counts.
            if said.len() < text.len() && self.finished.take().is_some() {
                diagnostics.note_about(DiagnosticKind::SecondStatement, NAME, place);
            }
            match line::read(said) {
                Some(Line::Finished(finished)) if self.is_another_boot(&finished) => {
                    self.begin_boot(finished, line.number);
                    self.counts.time += 1;
                }
                Some(found) => self.add(found, line.number, place, diagnostics),
                None if line::claims(line.bytes) || line::is_damaged_link(line.bytes) => {
                    self.unreadable(place, diagnostics)
                }
                None => self.counts.others += 1,
            }
        }
        self.state.end(|| file.to_owned(), diagnostics);
    }

    fn unreadable(&mut self, place: impl FnOnce() -> String, diagnostics: &mut Diagnostics) {
        self.counts.unreadable += 1;
        diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, place);
    }

    fn add(&mut self, found: Line, number: u32, place: impl FnOnce() -> String, diagnostics: &mut Diagnostics) {
        let count = match found {
            Line::Finished(_) | Line::Reached(..) => &mut self.counts.time,
            Line::Blame(..) => &mut self.counts.blame,
            Line::Link(_) => &mut self.counts.chain,
        };
        *count += 1;
        match found {
            Line::Finished(finished) if self.finished.as_ref() == Some(&finished) => {}
            Line::Finished(_) if self.finished.is_some() => {
                diagnostics.note_about(DiagnosticKind::SecondStatement, NAME, place);
            }
            Line::Finished(finished) => {
                self.finished = Some(finished);
                self.earlier.begins_at(number);
            }
            Line::Reached(unit, after) => _ = self.reached.get_or_insert((unit, after)),
            Line::Blame(..) if self.blame.len() >= UNITS_MAX => beyond_bound(1, place, diagnostics),
            Line::Blame(unit, took) => self.blame.push((unit, took, number)),
            Line::Link(_) if self.chain.len() >= UNITS_MAX => beyond_bound(1, place, diagnostics),
            Line::Link(link) => self.chain.push(link),
        }
    }

    fn add_plotted(&mut self, found: plot::Found, place: impl FnOnce() -> String, diagnostics: &mut Diagnostics) {
        let plot::Found::Unit(times) = found else { return };
        match self.times.len() {
            UNITS_MAX.. => beyond_bound(1, place, diagnostics),
            _ => self.times.push(times),
        }
    }

    /// Reads the units that begin here; returns how long their JSON is. None if it is no JSON of units.
    fn json(&mut self, bytes: &[u8], place: impl FnOnce() -> String, diagnostics: &mut Diagnostics) -> Option<usize> {
        let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<Units>();
        let Units { units, beyond } = values.next()?.ok()?;
        let room = UNITS_MAX - self.times.len().min(UNITS_MAX);
        let further = units.len().saturating_sub(room) as u64;
        beyond_bound(beyond.saturating_add(further), place, diagnostics);
        self.times.extend(units.into_iter().take(room));
        Some(values.byte_offset())
    }

    /// True if no line of systemd's was read.
    pub fn is_empty(&self) -> bool {
        let nothing = self.blame.is_empty() && self.chain.is_empty() && self.times.is_empty();
        let is_plotted = !self.plot.stages.is_empty();
        self.finished.is_none() && self.reached.is_none() && nothing && self.state.is_empty() && !is_plotted
    }

    /// The time when user space began, on the kernel's clock: by the stages, or else by a unit that both the chain and
    /// the JSON have.
    pub(crate) fn userspace(&self) -> Option<Ns> {
        let kernel = |(stage, took): &(Stage, Ns)| match stage {
            Stage::Kernel | Stage::Initrd | Stage::SoftReboot => *took,
            _ => Ns::ZERO,
        };
        if let Some(finished) = self.finished.as_ref().filter(|finished| finished.has(Stage::Kernel)) {
            return Some(finished.stages.iter().map(kernel).sum());
        }
        let times: HashMap<&str, &Times> = self.times.iter().map(|times| (&*times.unit, times)).collect();
        self.chain.iter().find_map(|link| {
            let times = times.get(&*link.unit)?;
            Some(if link.took.is_some() { times.activating } else { times.activated } - link.at?)
        })
    }
}

impl Finished {
    pub(crate) fn has(&self, stage: Stage) -> bool {
        self.stages.iter().any(|(of, _)| *of == stage)
    }

    /// The time that firmware and loader took.
    pub(crate) fn before_the_kernel(&self) -> Ns {
        self.stages.iter().filter(|(stage, _)| *stage < Stage::Kernel).map(|(_, took)| *took).sum()
    }
}

fn beyond_bound(count: u64, place: impl FnOnce() -> String, diagnostics: &mut Diagnostics) {
    diagnostics.add(DiagnosticKind::EntriesBeyondBound, NAME, count, None, place);
}

/// A line of blame, of the chain, or of `time`, as detection asks.
pub(crate) fn is_line(bytes: &[u8]) -> bool {
    line::claims(plot::without_tags(bytes)) || line::is_json(bytes) || plot::is_line(bytes)
}

/// A line of systemd's state, as detection asks.
pub(crate) fn is_state_line(bytes: &[u8]) -> bool {
    state::is_line(bytes)
}

/// The array of the JSON. What is beyond the first units is counted, not kept: `[{},{},…` is short for its length.
#[derive(Default)]
struct Units {
    units: Vec<Times>,
    beyond: u64,
}

impl<'de> Deserialize<'de> for Units {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Units, D::Error> {
        from.deserialize_seq(Array)
    }
}

struct Array;

impl<'de> Visitor<'de> for Array {
    type Value = Units;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("units of systemd-analyze plot")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Units, A::Error> {
        #[derive(Deserialize)]
        struct Row {
            name: Unit,
            activating: Option<u64>,
            activated: Option<u64>,
            deactivating: Option<u64>,
            deactivated: Option<u64>,
        }
        let mut found = Units::default();
        while found.units.len() < UNITS_MAX {
            let Some(row) = rows.next_element::<Row>()? else { return Ok(found) };
            let us = |us: Option<u64>| Some(Ns(i64::try_from(us?).ok()?.checked_mul(1000)?));
            // A unit without the one or the other was never started.
            if let (Some(activating), Some(activated)) = (us(row.activating), us(row.activated)) {
                let activated = activated.max(activating);
                let stop = us(row.deactivating).zip(us(row.deactivated));
                let stopping = stop.filter(|(from, until)| activated <= *from && from < until);
                found.units.push(Times { unit: row.name.0, activating, activated, stopping });
            }
        }
        while rows.next_element::<IgnoredAny>()?.is_some() {
            found.beyond += 1;
        }
        Ok(found)
    }
}
