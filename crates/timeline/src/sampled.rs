//! Samples: the places of the CPUs, taken many times a second. They give shares with an error, where spans give
//! lengths.
//!
//! A sample stands for its period: the amount of its event since the sample before it. Events count different things,
//! so nothing here adds up samples of two events.

use crate::{NameId, Names, Ns, SPAN_NAMES_MAX};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// An entry of a sampled stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SampledFrame {
    pub address: u64,
    /// The function's name, or the address as text where no symbol names it.
    pub name: NameId,
    /// True if a symbol names it.
    pub is_named: bool,
}

/// A thread that was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampledThread {
    pub name: NameId,
    pub tid: u64,
}

/// The state of a CPU at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The time on the samples' own clock; `None` if the evidence has no times.
    pub at: Option<Ns>,
    /// The CPU, if it is known.
    pub cpu: Option<u64>,
    /// The thread that ran.
    pub thread: SampledThread,
    /// The event that triggered the sample.
    pub event: NameId,
    /// True if user code ran; `None` if that is unknown.
    pub is_user: Option<bool>,
    /// The amount of the event that it stands for, if it is known.
    pub period: Option<u64>,
    /// Its functions, outermost first.
    pub stack: Arc<[SampledFrame]>,
}

/// Samples of a boot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampled {
    /// The number of samples that were not taken; `None` if it is unknown.
    pub lost: Option<u64>,
    /// The start of sampling, on the samples' own clock. There are no samples of the time before it.
    pub began: Option<Ns>,
    /// The number of CPUs without samples, as far as the evidence shows.
    pub unsampled_cpus: u64,
    /// The length of a sampling interval, in each of which a sampled CPU gets one sample. `None` if it is unknown.
    pub period: Option<Ns>,
    samples: Vec<Sample>,
    /// Each distinct stack once. Samples with equal stacks share it.
    stacks: HashSet<Arc<[SampledFrame]>>,
    /// The names in the stacks, at most [`SPAN_NAMES_MAX`]: each is a row of several tables.
    names: HashSet<NameId>,
    /// The number of stack entries with a name beyond that bound.
    pub renamed: u64,
}

/// Sampling intervals, summed over all CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingIntervals {
    /// The length of each.
    pub period: Ns,
    /// The number of intervals that passed while their CPU was sampled.
    pub passed: u64,
    /// The number of intervals without a sample: nothing interrupted the CPU.
    pub empty: u64,
}

/// A part of the samples of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampledPart {
    /// The number of samples.
    pub samples: u64,
    /// The sum of their weights: periods, or one each.
    pub weight: u128,
}

/// A function, summed over all samples of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledFunction {
    pub name: NameId,
    /// Samples in which it was running.
    pub own: SampledPart,
    /// Samples with it on the stack, each counted once.
    pub total: SampledPart,
}

/// The place where samples were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SampledOn {
    Thread(SampledThread),
    /// All threads of one name: a boot is many short processes.
    Program {
        name: NameId,
        threads: u64,
    },
    Cpu(u64),
}

/// The samples of an event that were taken in one place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledTrack {
    pub on: SampledOn,
    pub part: SampledPart,
    /// The times of the first and the last sample, if there are times.
    pub within: Option<(Ns, Ns)>,
}

/// The samples of one event.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledEvent<'a> {
    pub name: NameId,
    pub all: SampledPart,
    /// True if weights are periods. They are if each sample has a period.
    pub has_periods: bool,
    /// The number of samples in user code; `None` if it is unknown for any sample.
    pub user: Option<u64>,
    squares: f64,
    samples: Vec<&'a Sample>,
}

impl Sampled {
    /// Replaces names in a stack by a common one if there are too many names.
    fn bound_names(&mut self, stack: &mut Arc<[SampledFrame]>) {
        for i in 0..stack.len() {
            let name = stack[i].name;
            if name == NameId::OTHERS || self.names.contains(&name) {
                continue;
            }
            if self.names.len() < SPAN_NAMES_MAX {
                self.names.insert(name);
                continue;
            }
            self.renamed += 1;
            if let Some(stack) = Arc::get_mut(stack) {
                stack[i].name = NameId::OTHERS;
            }
        }
    }

    /// The number of a name in a stack. A new one beyond [`SPAN_NAMES_MAX`] is not kept, and gets the common one.
    pub fn intern(&mut self, name: &str, names: &mut Names) -> NameId {
        let has_room = self.names.len() < SPAN_NAMES_MAX;
        match names.find(name) {
            Some(id) if has_room || self.names.contains(&id) => id,
            None if has_room => names.intern(name),
            _ => {
                self.renamed += 1;
                NameId::OTHERS
            }
        }
    }

    pub fn add(&mut self, mut sample: Sample) {
        if !self.stacks.contains(&sample.stack) {
            self.bound_names(&mut sample.stack);
        }
        match self.stacks.get(&sample.stack) {
            Some(shared) => sample.stack = Arc::clone(shared),
            None => drop(self.stacks.insert(Arc::clone(&sample.stack))),
        }
        self.samples.push(sample);
    }

    /// All samples, in the order of [`Sampled::add`].
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The times of the first and the last sample, on the samples' own clock.
    pub fn within(&self) -> Option<(Ns, Ns)> {
        let times = || self.samples.iter().filter_map(|sample| sample.at);
        Some((times().min()?, times().max()?))
    }

    /// The number of intervals that passed, and the number of those without a sample. A CPU's intervals end with its
    /// last sample. Those of the first CPU begin with sampling. Those of another CPU begin with its first sample,
    /// because the evidence does not show when it was started.
    pub fn intervals(&self) -> Option<SamplingIntervals> {
        let (period, began) = (self.period.filter(|period| *period > Ns::ZERO)?, self.began?);
        let mut cpus: HashMap<u64, (Ns, Ns, u64)> = HashMap::new();
        for (cpu, at) in self.samples.iter().filter_map(|sample| Some((sample.cpu?, sample.at?))) {
            let (first, last, count) = cpus.entry(cpu).or_insert((at, at, 0));
            (*first, *last, *count) = ((*first).min(at), (*last).max(at), *count + 1);
        }
        let first_cpu = cpus.iter().map(|(cpu, (first, ..))| (*first, *cpu)).min()?.1;
        let mut intervals = SamplingIntervals { period, passed: 0, empty: 0 };
        for (cpu, (first, last, count)) in cpus {
            let (from, count) = if cpu == first_cpu { (began, count) } else { (first, count - 1) };
            let length = u64::try_from(last.0.saturating_sub(from.0)).unwrap_or(0);
            let period = period.0.unsigned_abs();
            // A sample comes a little after its interval's end, and this delay varies from sample to sample.
            let passed = (length / period).saturating_add(u64::from(length % period >= period.div_ceil(2)));
            intervals.passed = intervals.passed.saturating_add(passed.max(count));
            intervals.empty = intervals.empty.saturating_add(passed.saturating_sub(count));
        }
        Some(intervals)
    }

    /// All events, the one with the most samples first.
    pub fn events(&self) -> Vec<SampledEvent<'_>> {
        let mut by_event: HashMap<NameId, Vec<&Sample>> = HashMap::new();
        self.samples.iter().for_each(|sample| by_event.entry(sample.event).or_default().push(sample));
        let mut events: Vec<SampledEvent> =
            by_event.into_iter().map(|(name, samples)| SampledEvent::new(name, samples)).collect();
        events.sort_by_key(|event| (std::cmp::Reverse(event.all.samples), event.name));
        events
    }
}

impl SampledPart {
    fn add(&mut self, weight: u64) {
        self.samples += 1;
        self.weight += u128::from(weight);
    }
}

impl<'a> SampledEvent<'a> {
    fn new(name: NameId, samples: Vec<&'a Sample>) -> SampledEvent<'a> {
        let has_periods = samples.iter().all(|sample| sample.period.is_some_and(|period| period > 0));
        let is_user = samples.iter().map(|sample| sample.is_user.map(u64::from));
        let (all, user) = (SampledPart::default(), is_user.sum());
        let mut event = SampledEvent { name, all, has_periods, user, squares: 0.0, samples };
        for i in 0..event.samples.len() {
            let weight = event.weight(event.samples[i]);
            event.all.add(weight);
            event.squares += (weight as f64).powi(2);
        }
        event
    }

    /// Its samples with their weights, in their original order.
    pub fn weighed(&self) -> impl Iterator<Item = (&'a Sample, u64)> {
        self.samples.iter().map(|&sample| (sample, self.weight(sample)))
    }

    fn weight(&self, sample: &Sample) -> u64 {
        sample.period.filter(|_| self.has_periods).unwrap_or(1)
    }

    /// Its functions, by name.
    pub fn functions(&self) -> Vec<SampledFunction> {
        // Samples with equal stacks share the stack, so its address identifies it.
        let mut by_stack = self.samples.clone();
        by_stack.sort_by_key(|sample| sample.stack.as_ptr());
        let mut functions: Vec<SampledFunction> = Vec::new();
        let mut place_of: HashMap<NameId, u32> = HashMap::new();
        let sum = |to: &mut SampledPart, part: &SampledPart| {
            to.samples += part.samples;
            to.weight += part.weight;
        };
        for samples in by_stack.chunk_by(|a, b| a.stack.as_ptr() == b.stack.as_ptr()) {
            let stack = &samples[0].stack;
            let mut part = SampledPart::default();
            samples.iter().for_each(|sample| part.add(self.weight(sample)));
            let mut names: Vec<NameId> = stack.iter().map(|frame| frame.name).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let place = *place_of.entry(name).or_insert_with(|| {
                    functions.push(SampledFunction {
                        name,
                        own: SampledPart::default(),
                        total: SampledPart::default(),
                    });
                    crate::number(functions.len() - 1)
                });
                let function = &mut functions[place as usize];
                sum(&mut function.total, &part);
                if stack.last().is_some_and(|frame| frame.name == name) {
                    sum(&mut function.own, &part);
                }
            }
        }
        functions.sort_unstable_by_key(|function| function.name);
        functions
    }

    /// The number of its functions. It takes a fraction of the memory of [`Self::functions`].
    pub fn function_count(&self) -> usize {
        let mut stacks = HashSet::new();
        let new = self.samples.iter().filter(|sample| stacks.insert(sample.stack.as_ptr()));
        new.flat_map(|sample| sample.stack.iter().map(|frame| frame.name)).collect::<HashSet<NameId>>().len()
    }

    /// The places of its samples: each thread, each CPU, and each program that had several threads.
    pub fn tracks(&self) -> Vec<SampledTrack> {
        let mut tracks: HashMap<SampledOn, SampledTrack> = HashMap::new();
        for (sample, weight) in self.weighed() {
            for on in [Some(SampledOn::Thread(sample.thread)), sample.cpu.map(SampledOn::Cpu)].into_iter().flatten() {
                let empty = SampledTrack { on, part: SampledPart::default(), within: None };
                let track = tracks.entry(on).or_insert(empty);
                track.part.add(weight);
                if let Some(at) = sample.at {
                    track.within = Some(track.within.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
                }
            }
        }
        let programs = programs(tracks.values());
        tracks.into_values().chain(programs).collect()
    }

    /// A part's share of the event.
    pub fn share(&self, part: SampledPart) -> f64 {
        part.weight as f64 / (self.all.weight as f64).max(1.0)
    }

    /// The number of samples of equal weight that would carry as much information (Kish, *Survey Sampling*, 1965). It
    /// equals the number of samples if all weigh the same, and is smaller otherwise.
    pub fn effective_samples(&self) -> f64 {
        if self.squares > 0.0 { (self.all.weight as f64).powi(2) / self.squares } else { 0.0 }
    }

    /// One standard error of a part's share, by the binomial distribution for [`Self::effective_samples`].
    pub fn error(&self, part: SampledPart) -> f64 {
        let share = self.share(part).min(1.0);
        (share * (1.0 - share) / self.effective_samples().max(1.0)).sqrt()
    }
}

/// The programs with several threads.
fn programs<'t>(tracks: impl Iterator<Item = &'t SampledTrack>) -> Vec<SampledTrack> {
    let mut programs: HashMap<NameId, (u64, SampledTrack)> = HashMap::new();
    for track in tracks {
        let SampledOn::Thread(SampledThread { name, .. }) = track.on else { continue };
        let (threads, program) =
            programs.entry(name).or_insert((0, SampledTrack { part: SampledPart::default(), ..*track }));
        *threads += 1;
        program.part.samples += track.part.samples;
        program.part.weight += track.part.weight;
        let all = [program.within, track.within].into_iter().flatten();
        program.within = all.reduce(|(from, to), (first, last)| (from.min(first), to.max(last)));
    }
    let several = programs.into_iter().filter(|(_, (threads, _))| *threads > 1);
    several.map(|(name, (threads, track))| SampledTrack { on: SampledOn::Program { name, threads }, ..track }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(names: &mut Names, event: &str, at: i64, period: Option<u64>, stack: &str) -> Sample {
        let mut frame = |name| SampledFrame { address: 1, name: names.intern(name), is_named: true };
        let stack = stack.split_terminator(';').map(&mut frame).collect();
        let thread = SampledThread { name: names.intern("init"), tid: 1 };
        let is_user = (event == "nmi").then_some(at > 5);
        Sample { at: Some(Ns(at)), cpu: Some(0), thread, event: names.intern(event), is_user, period, stack }
    }

    fn find<'a>(events: &'a [SampledEvent<'a>], name: NameId) -> &'a SampledEvent<'a> {
        events.iter().find(|event| event.name == name).unwrap()
    }

    #[test]
    fn functions_count_once_for_each_sample_and_shares_have_an_error() {
        let mut names = Names::default();
        let mut sampled = Sampled::default();
        for (at, stack) in [(5, "a;b;a"), (3, "a;b"), (9, ""), (4, "a")] {
            sampled.add(taken(&mut names, "nmi", at, None, stack));
        }
        let [a, b] = ["a", "b"].map(|name| names.intern(name));
        let events = sampled.events();
        let event = &events[0];
        let part = |samples| SampledPart { samples, weight: u128::from(samples) };
        let found = |name, own, total| SampledFunction { name, own: part(own), total: part(total) };
        let mut functions = event.functions();
        functions.sort_by_key(|function| names.get(function.name).to_owned());
        assert_eq!(functions, [found(a, 2, 3), found(b, 1, 2)]);
        assert_eq!((event.all, event.user, sampled.within()), (part(4), Some(1), Some((Ns(3), Ns(9)))));
        // √(½ · ½ ÷ 4)
        assert!((event.error(part(2)) - 0.25).abs() < 1e-12 && event.error(part(4)) == 0.0);
        assert_eq!(Sampled::default().events(), []);
    }

    /// The first CPU's 10 intervals of 100 brought 7 samples, one of them late; the second CPU's 4 after its first brought 3.
    #[test]
    fn intervals_without_a_sample_are_counted_for_each_cpu() {
        let mut names = Names::default();
        let mut sampled = Sampled { began: Some(Ns(1_000)), period: Some(Ns(100)), ..Sampled::default() };
        let at = |cpu, at, names: &mut Names| Sample { cpu: Some(cpu), ..taken(names, "nmi", at, None, "a") };
        for time in [1_103, 1_201, 1_370, 1_402, 1_501, 1_802, 2_001] {
            sampled.add(at(7, time, &mut names));
        }
        for time in [1_302, 1_403, 1_602, 1_704] {
            sampled.add(at(8, time, &mut names));
        }
        let intervals = SamplingIntervals { period: Ns(100), passed: 14, empty: 4 };
        assert_eq!(sampled.intervals(), Some(intervals));
        for unknown in [Sampled { period: None, ..sampled.clone() }, Sampled { began: None, ..sampled.clone() }] {
            assert_eq!(unknown.intervals(), None);
        }
        assert_eq!(Sampled { period: Some(Ns::ZERO), ..sampled }.intervals(), None);
    }

    /// Each interval brings one sample. Then times that only a text can have: before sampling began, and as far apart
    /// as numbers allow.
    #[test]
    fn full_intervals_and_impossible_times_have_no_empty_interval() {
        let mut names = Names::default();
        let mut sampled = Sampled { began: Some(Ns(0)), period: Some(Ns(1_000)), ..Sampled::default() };
        (1..=500).for_each(|n| sampled.add(taken(&mut names, "nmi", n * 1_000 + n % 300, None, "a")));
        assert_eq!(sampled.intervals().map(|intervals| (intervals.passed, intervals.empty)), Some((500, 0)));
        let mut early = Sampled { began: Some(Ns(i64::MAX)), period: Some(Ns(1)), ..Sampled::default() };
        early.add(taken(&mut names, "nmi", i64::MIN, None, "a"));
        assert_eq!(early.intervals().map(|intervals| (intervals.passed, intervals.empty)), Some((1, 0)));
        early.began = Some(Ns(i64::MIN));
        early.add(taken(&mut names, "nmi", i64::MAX, None, "a"));
        assert!(early.intervals().is_some_and(|intervals| intervals.empty > 1 << 60));
    }

    #[test]
    fn events_are_not_added_up_and_periods_weigh() {
        let mut names = Names::default();
        let mut sampled = Sampled::default();
        for (period, stack) in [(300, "a"), (100, "b"), (100, "b")] {
            sampled.add(taken(&mut names, "cycles", 1, Some(period), stack));
        }
        sampled.add(taken(&mut names, "faults", 1, Some(1), "b"));
        sampled.add(taken(&mut names, "faults", 1, None, "a"));
        let [cycles, faults, a] = ["cycles", "faults", "a"].map(|name| names.intern(name));
        let events = sampled.events();
        let share = |event: &SampledEvent| {
            let functions = event.functions();
            event.share(functions.iter().find(|function| function.name == a).unwrap().own)
        };
        let event = find(&events, cycles);
        assert_eq!((event.all.samples, event.has_periods, event.user), (3, true, None));
        // 500² ÷ (300² + 100² + 100²)
        assert!((share(event) - 0.6).abs() < 1e-12 && (event.effective_samples() - 2.2727).abs() < 1e-3);
        let event = find(&events, faults);
        assert_eq!((event.all, event.has_periods), (SampledPart { samples: 2, weight: 2 }, false));
        assert!((share(event) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn threads_and_cpus_have_their_parts() {
        let mut names = Names::default();
        let mut sampled = Sampled::default();
        sampled.add(taken(&mut names, "nmi", 7, None, "a"));
        sampled.add(Sample { cpu: None, ..taken(&mut names, "nmi", 9, None, "a") });
        let tracks = sampled.events()[0].tracks();
        let of = |on: fn(&SampledOn) -> bool| tracks.iter().find(|track| on(&track.on)).unwrap();
        let thread = of(|on| matches!(on, SampledOn::Thread(_)));
        assert_eq!((thread.part.samples, thread.within), (2, Some((Ns(7), Ns(9)))));
        assert_eq!(of(|on| *on == SampledOn::Cpu(0)).part.samples, 1);
    }

    #[test]
    fn threads_of_one_name_are_a_program() {
        let mut names = Names::default();
        let mut sampled = Sampled::default();
        for (at, tid) in [(7, 1), (8, 2), (9, 2)] {
            let sample = taken(&mut names, "nmi", at, None, "a");
            sampled.add(Sample { thread: SampledThread { tid, ..sample.thread }, ..sample });
        }
        let tracks = sampled.events()[0].tracks();
        let programs: Vec<_> = tracks.iter().filter(|track| matches!(track.on, SampledOn::Program { .. })).collect();
        let [program] = programs[..] else { panic!("{programs:?}") };
        assert!(matches!(program.on, SampledOn::Program { threads: 2, .. }), "{program:?}");
        assert_eq!(program.part.samples, 3);
    }
}
