//! What systemd says of a boot: what `systemd-analyze` prints (`time`, `blame`, `critical-chain`, `plot --json`, `dump`), and the
//! properties of its units ([`state`]), alone or one after the other.
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
//! It must not move what others say of the kernel: its boundaries are milliseconds wide, and whoever is sharper is used.

mod line;
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

/// What diagnostics call it.
pub(crate) const NAME: &str = "systemd-analyze";
/// A machine has some hundred units.
const UNITS_MAX: usize = 1 << 16;

/// What systemd calls a stretch of the boot.
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

/// A unit of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub unit: String,
    /// How deep in the tree: what is one deeper below it is what it waited for.
    pub depth: usize,
    /// When it was started, or active if it took no time; since user space began.
    pub at: Option<Ns>,
    /// How long it took to start.
    pub took: Option<Ns>,
}

/// A unit of the JSON, on the kernel's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// Its name.
    pub unit: String,
    /// When it was started.
    pub activating: Ns,
    /// When it was active, or had failed.
    pub activated: Ns,
}

/// How many lines were what; they sum to the number of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines in all.
    pub lines: u64,
    /// Of `time`.
    pub time: u64,
    /// Of `blame`.
    pub blame: u64,
    /// Of the chain.
    pub chain: u64,
    /// Of JSON.
    pub json: u64,
    /// Of what systemd says of itself and its units.
    pub state: u64,
    /// That begin as one of these and are none.
    pub unreadable: u64,
    /// Blank lines, headings, and what else is in the file.
    pub others: u64,
}

/// All that was printed of one boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Analysis {
    /// How long the stages took.
    pub finished: Option<Finished>,
    /// The default target, and when it was reached, since user space began.
    pub reached: Option<(String, Ns)>,
    /// How long units took to start, and the line that says so.
    pub blame: Vec<(String, Ns, u32)>,
    /// Who waited for whom, in the order of the tree.
    pub chain: Vec<Link>,
    /// When units were started and active.
    pub times: Vec<Times>,
    /// What systemd says of itself and its units.
    pub(crate) state: state::Reader,
    /// How many lines were what.
    pub counts: Counts,
    /// How far off one of its figures may be.
    pub resolution: Resolution,
}

/// How exact figures are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    /// As `systemd-analyze` cuts them.
    #[default]
    Milliseconds,
    /// As systemd keeps them.
    Microseconds,
    /// As a dump has them.
    Seconds,
}

impl Analysis {
    /// Adds what a file says; anything else in it is counted.
    pub fn read(&mut self, file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) {
        let mut cleaner = Cleaner::default();
        let mut json_until = 0;
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
            if line::begins_json(line.bytes) {
                match self.json(&bytes[line.offset..], place, diagnostics) {
                    Some(length) => {
                        json_until = line.offset + length;
                        self.counts.json += 1;
                    }
                    // A bracket alone may be anybody's.
                    None if line.bytes.trim_ascii() == b"[" => self.counts.others += 1,
                    None => self.unreadable(place, diagnostics),
                }
                continue;
            }
            // A terminal's colours mark the links of the chain.
            let text = cleaner.clean(line.bytes).0;
            let said = line::of_journal(text);
            // A syslog of several boots has a summary of each: the last one counts.
            if said.len() < text.len() && self.finished.take().is_some() {
                diagnostics.note_about(DiagnosticKind::SecondStatement, NAME, place);
            }
            match line::read(said) {
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
            Line::Finished(_) if self.finished.is_some() => {
                diagnostics.note_about(DiagnosticKind::SecondStatement, NAME, place);
            }
            Line::Finished(finished) => self.finished = Some(finished),
            Line::Reached(unit, after) => _ = self.reached.get_or_insert((unit, after)),
            Line::Blame(..) if self.blame.len() >= UNITS_MAX => beyond_bound(1, place, diagnostics),
            Line::Blame(unit, took) => self.blame.push((unit, took, number)),
            Line::Link(_) if self.chain.len() >= UNITS_MAX => beyond_bound(1, place, diagnostics),
            Line::Link(link) => self.chain.push(link),
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

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        let nothing = self.blame.is_empty() && self.chain.is_empty() && self.times.is_empty();
        self.finished.is_none() && self.reached.is_none() && nothing && self.state.is_empty()
    }

    /// When user space began, on the kernel's clock: by the stages, else by a unit that both the chain and the JSON have.
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

    /// How long firmware and loader took.
    pub(crate) fn before_the_kernel(&self) -> Ns {
        self.stages.iter().filter(|(stage, _)| *stage < Stage::Kernel).map(|(_, took)| *took).sum()
    }
}

fn beyond_bound(count: u64, place: impl FnOnce() -> String, diagnostics: &mut Diagnostics) {
    diagnostics.add(DiagnosticKind::EntriesBeyondBound, NAME, count, None, place);
}

/// A line of blame, of the chain, or of `time`, as detection asks.
pub(crate) fn is_line(bytes: &[u8]) -> bool {
    line::claims(bytes) || line::is_json(bytes)
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
        }
        let mut found = Units::default();
        while found.units.len() < UNITS_MAX {
            let Some(Row { name, activating, activated }) = rows.next_element()? else { return Ok(found) };
            let us = |us: Option<u64>| Some(Ns(i64::try_from(us?).ok()?.checked_mul(1000)?));
            // A unit without the one or the other was never started.
            if let (Some(activating), Some(activated)) = (us(activating), us(activated)) {
                let activated = activated.max(activating);
                found.units.push(Times { unit: name.0, activating, activated });
            }
        }
        while rows.next_element::<IgnoredAny>()?.is_some() {
            found.beyond += 1;
        }
        Ok(found)
    }
}
