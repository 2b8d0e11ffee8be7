//! Reads the words of the command line into [`Switches`], and finds the delays of a place.

use core::fmt;

use super::{
    CALLS_MAX, CPUS_MAX, DELAY_NS_MAX, DETAILS_MAX, HZ_MAX, MESSAGES_MAX, SAMPLE_HZ_MAX, SERVICES_MAX, Switches,
    TLB_ROUNDS_MAX,
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Delay<'a> {
    pub(super) place: &'a str,
    pub(super) ns: u64,
}

/// A kind of place in the boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A step before the first SYSINIT.
    Stage,
    Sysinit,
    /// A driver's probe method.
    Probe,
    /// A driver's attach method.
    Attach,
    /// The mounting of a file system.
    Mount,
    /// A kernel thread.
    Thread,
    /// The answer of a scripted device.
    Answer,
}

impl Kind {
    /// The word in front of a place's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Stage => "stage",
            Kind::Sysinit => "sysinit",
            Kind::Probe => "probe",
            Kind::Attach => "attach",
            Kind::Mount => "mount",
            Kind::Thread => "thread",
            Kind::Answer => "answer",
        }
    }
}

/// True if the user's word means this place.
pub fn means(written: &str, kind: Kind, name: &str) -> bool {
    let kind = kind.as_str();
    // Called at every place of the boot for every delay, so it does not search.
    let both = || written.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.')) == Some(name);
    written == name || written == kind || both()
}

impl<'a> Switches<'a> {
    /// Parses a command line. It never fails: unknown words are in [`Switches::unknown`].
    pub fn parse(line: &'a str) -> Switches<'a> {
        let mut switches = Switches::new();
        for word in line.split_ascii_whitespace() {
            if !switches.take(word) {
                switches.unknown.push(word);
            }
        }
        switches
    }

    fn take(&mut self, word: &'a str) -> bool {
        let Some((name, value)) = word.split_once('=') else { return false };
        match name {
            _ if name.starts_with("bootscope.") => {}
            "hang" if !value.is_empty() => self.hang = Some(value),
            "panic" if !value.is_empty() => self.panic = Some(value),
            "fault" if !value.is_empty() => self.fault = Some(value),
            "hz" => match value.parse() {
                Ok(hz @ 1..=HZ_MAX) => self.hz = hz,
                _ => return false,
            },
            "messages" => match value.parse() {
                Ok(messages @ 0..=MESSAGES_MAX) => self.messages = messages,
                _ => return false,
            },
            "details" => match value.parse() {
                Ok(details @ 0..=DETAILS_MAX) => self.details = details,
                _ => return false,
            },
            "sample" => match value.parse() {
                Ok(0) => self.sample = 0,
                // The PIT cannot beat more slowly than 20 Hz.
                Ok(hz @ 20..=SAMPLE_HZ_MAX) => self.sample = hz,
                _ => return false,
            },
            "maxcpus" => match value.parse() {
                Ok(cpus @ 1..=CPUS_MAX) => self.maxcpus = cpus,
                _ => return false,
            },
            "tlb_rounds" => match value.parse() {
                Ok(rounds @ 1..=TLB_ROUNDS_MAX) => self.tlb_rounds = rounds,
                _ => return false,
            },
            "calls" => match value.parse() {
                Ok(calls @ 0..=CALLS_MAX) => self.calls = calls,
                _ => return false,
            },
            "services" => match value.parse() {
                Ok(services @ 0..=SERVICES_MAX) => self.services = services,
                _ => return false,
            },
            _ => {
                let (places, list) = match name.strip_prefix("busy.") {
                    Some(place) => (Some(place), &mut self.busy),
                    None => (name.strip_prefix("delay."), &mut self.delays),
                };
                return match (places, time_ns(value)) {
                    (Some(place), Some(ns)) if !place.is_empty() => list.push(Delay { place, ns }),
                    (Some(_), _) => false,
                    (None, _) => self.choose(name, value),
                };
            }
        }
        true
    }

    /// Delay of the boot at a place, in nanoseconds.
    pub fn delay_ns(&self, kind: Kind, name: &str) -> u64 {
        let here = self.delays.iter().filter(|delay| means(delay.place, kind, name));
        here.fold(0, |sum: u64, delay| sum.saturating_add(delay.ns))
    }

    /// Time for which a place keeps its CPU, in nanoseconds.
    pub fn busy_ns(&self, kind: Kind, name: &str) -> u64 {
        let here = self.busy.iter().filter(|busy| means(busy.place, kind, name));
        here.fold(0, |sum: u64, busy| sum.saturating_add(busy.ns))
    }

    /// Sum of all delays. No place is delayed by more.
    pub fn delays_ns(&self) -> u64 {
        self.delays.iter().chain(self.busy.iter()).fold(0, |sum: u64, delay| sum.saturating_add(delay.ns))
    }

    /// The unknown words, in order, at most [`UNKNOWN_MAX`].
    pub fn unknown(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.unknown.iter().copied()
    }

    /// Number of unknown words, including those that [`Switches::unknown`] leaves out.
    pub fn unknown_count(&self) -> usize {
        self.unknown.wanted
    }
}

/// Parses a time, such as `12`, `12ms` or `250us`. Returns `None` if the text is not a time, or is longer than
/// [`DELAY_NS_MAX`].
pub fn time_ns(text: &str) -> Option<u64> {
    let (digits, unit_ns) = match text.strip_suffix("us") {
        Some(digits) => (digits, 1_000),
        None => (text.strip_suffix("ms").unwrap_or(text), 1_000_000),
    };
    // `parse` would accept a sign.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let ns = digits.parse::<u64>().ok()?.checked_mul(unit_ns)?;
    (ns <= DELAY_NS_MAX).then_some(ns)
}

/// A list of at most `N` items, which counts further ones.
#[derive(Clone)]
pub(super) struct List<T, const N: usize> {
    items: [T; N],
    /// Number of pushes, including those without room.
    wanted: usize,
}

impl<T: Copy, const N: usize> List<T, N> {
    pub(super) const fn new(filler: T) -> Self {
        List { items: [filler; N], wanted: 0 }
    }

    fn push(&mut self, item: T) -> bool {
        let slot = self.items.get_mut(self.wanted);
        let room = slot.is_some();
        if let Some(slot) = slot {
            *slot = item;
        }
        self.wanted += 1;
        room
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().take(self.wanted)
    }
}

impl<T: Copy + PartialEq, const N: usize> PartialEq for List<T, N> {
    fn eq(&self, other: &Self) -> bool {
        self.wanted == other.wanted && self.iter().eq(other.iter())
    }
}

impl<T: Copy + fmt::Debug, const N: usize> fmt::Debug for List<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
