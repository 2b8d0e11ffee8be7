//! The length of a boot if some of its work took less time. Each saving applies to the result of the one before.
//!
//! Nothing is subtracted. The boot is [replayed](crate::replay) with the work of a row or a function made shorter on
//! every thread, and its path is walked again. Therefore a saving counts only until the boot waits for something else,
//! and savings that overlap count once.

mod allowed;
mod beside;
mod price;
mod target_time;

pub use beside::{probed, share_beside, synchronous_probes};
pub use price::{Cut, Prices};

use crate::chain::Frame;
use crate::charge::{BaseId, Charge, joined};
use crate::groups::matches;
use crate::path::boot_path;
use crate::phases::phases;
use crate::replay::{Replay, Shared};
use crate::stretch::StretchKind;
use crate::tables::tables;
use crate::{Groups, total};
use hashbrown::HashSet;
use std::fmt;
use target_time::{Shrunk, TargetTime, chain};
use timeline::{Cost, NameId, Ns, Timeline, TrackId};

/// A row or function to make shorter.
#[derive(Clone, Debug, PartialEq)]
pub struct Saving {
    /// A row of `where`, or any function, as the tables print them. Its detail alone is enough if only one has that.
    /// `*` and `?` stand for any text and any character. A suffix (` · DELAY`) may also follow after a space or a `;`.
    pub name: String,
    /// Its new time.
    pub becomes: Becomes,
}

/// The new time of a row or function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Becomes {
    /// It takes no time.
    Nothing,
    /// It takes this time instead of its time on the boot path.
    Takes(Ns),
    /// Its time is reduced by this share (0 to 1).
    Less(f64),
}

/// The rows or functions that a saving names.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// Rows of `where`, with the time charged to them.
    Rows(Vec<String>),
    /// Functions, with everything under them.
    Functions(Vec<String>),
}

/// The result of a saving.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    /// The rows or functions that its name stands for.
    pub target: Target,
    /// The boot's length before the saving.
    pub before: Ns,
    /// The boot's length with the saving.
    pub after: Ns,
    /// The timed waits in `before`, `after`, `was` and `now`.
    pub waits: RungWaits,
    /// The range over the boots that the log allows, if their savings or lengths differ.
    pub range: Option<Range>,
    /// The target's time on the boot path before the saving.
    pub was: Ns,
    /// The target's time on the boot path with the saving.
    pub now: Ns,
    /// Rows of the boot path that the saving's name does not include. They belong to the target through another way for
    /// time to pass (`SYSINIT cpu · DELAY`).
    pub also: Vec<String>,
    /// The rows that have the rest of the target's total time, longest first. Filled in two cases. The target is to
    /// take longer than it did. Or all or a share of it is saved, and most of its total time is charged to other rows.
    pub besides: Vec<(String, Ns)>,
}

/// The timed waits in the lengths of a [`Rung`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RungWaits {
    pub before: Ns,
    pub after: Ns,
    pub was: Ns,
    pub now: Ns,
}

/// The savings and the lengths of the boots that a log allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The smallest saving.
    pub saved_at_worst: Ns,
    /// The largest saving.
    pub saved_at_best: Ns,
    /// The longest boot with the saving.
    pub after_at_worst: Ns,
    /// The shortest boot with the saving.
    pub after_at_best: Ns,
}

impl Range {
    /// The range of one boot.
    fn of(saved: Ns, after: Ns) -> Range {
        Range { saved_at_worst: saved, saved_at_best: saved, after_at_worst: after, after_at_best: after }
    }

    /// The range with another boot.
    fn with(self, saved: Ns, after: Ns) -> Range {
        Range {
            saved_at_worst: self.saved_at_worst.min(saved),
            saved_at_best: self.saved_at_best.max(saved),
            after_at_worst: self.after_at_worst.max(after),
            after_at_best: self.after_at_best.min(after),
        }
    }
}

/// The reason why a saving cannot be calculated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cannot {
    /// The evidence does not show which thread reached the end mark.
    NoPath,
    /// The evidence shows only what the CPU ran, not which thread waited for which. So it does not show what would
    /// happen sooner.
    NoWaits,
    /// The caller stopped the calculation.
    Stopped,
    /// No row or function has that name.
    Unknown {
        name: String,
        /// The most similar names.
        nearest: Vec<String>,
    },
    /// No probe of the boot's own thread has that name.
    NoProbe {
        name: String,
        /// The most similar ones.
        nearest: Vec<String>,
    },
}

impl fmt::Display for Cannot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cannot::NoPath => write!(out, "there is no boot path: no evidence says which thread reached the end mark"),
            Cannot::NoWaits => write!(
                out,
                "its calls say what the CPU did, not who waited for whom, so nobody knows what would come sooner: \
                 record with --trace events,calls"
            ),
            Cannot::Stopped => write!(out, "it takes too long to work out: save less at once"),
            Cannot::Unknown { name, nearest } => {
                write!(out, "no row of the boot path and no function is called {name:?}{}", Similar(nearest))
            }
            Cannot::NoProbe { name, nearest } => {
                write!(
                    out,
                    "process 1 probes no device and no driver {name:?} before it hands over{}",
                    Similar(nearest)
                )
            }
        }
    }
}

/// The names that an error offers.
struct Similar<'a>(&'a [String]);

impl fmt::Display for Similar<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted: Vec<String> = self.0.iter().map(|name| format!("{name:?}")).collect();
        if quoted.is_empty() { Ok(()) } else { write!(out, "; nearest: {}", quoted.join(", ")) }
    }
}

impl std::error::Error for Cannot {}

/// A boot, and the same boot with the savings so far.
pub struct WhatIf {
    timeline: Timeline,
    /// Other boots that the log allows, with the same savings.
    allowed: Vec<Timeline>,
    groups: Groups,
    end: TrackId,
    names: KnownNames,
}

/// The names that savings can use, taken from the boot before any saving.
struct KnownNames {
    /// Rows of the boot path.
    rows: Vec<String>,
    functions: Vec<(NameId, NameId)>,
    /// Rows that threads would have if they were blamed.
    elsewhere: Vec<String>,
}

impl WhatIf {
    /// Starts from a boot without savings.
    ///
    /// # Errors
    /// [`Cannot::NoPath`], [`Cannot::NoWaits`].
    pub fn new(timeline: Timeline, groups: Groups) -> Result<WhatIf, Cannot> {
        let end = timeline.end.and_then(|end| end.track).ok_or(Cannot::NoPath)?;
        if timeline.cpus_followed_until == Some(Ns::MAX) {
            return Err(Cannot::NoWaits);
        }
        let names = KnownNames::new(&timeline, &groups, end);
        let allowed = allowed::boots(&timeline);
        Ok(WhatIf { timeline, allowed, groups, end, names })
    }

    /// Returns the reduction of the boot's length if these rows took these times on its path. The savings apply one
    /// after the other.
    ///
    /// # Errors
    /// [`Cannot`] for the first saving that cannot be calculated.
    pub fn foretell(timeline: &Timeline, groups: &Groups, rows: &[(String, Ns)]) -> Result<Ns, Cannot> {
        let mut boot = WhatIf::new(timeline.clone(), groups.clone())?;
        for (name, takes) in rows {
            let becomes = if *takes > Ns::ZERO { Becomes::Takes(*takes) } else { Becomes::Nothing };
            boot.save(&Saving { name: name.clone(), becomes })?;
        }
        Ok(total(timeline) - boot.total())
    }

    /// Returns the boot with all savings so far.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Returns its length with all savings so far.
    pub fn total(&self) -> Ns {
        total(&self.timeline)
    }

    /// Makes something shorter. `O(n log n)` in the number of spans.
    ///
    /// # Errors
    /// [`Cannot::Unknown`]; nothing is changed then.
    pub fn save(&mut self, saving: &Saving) -> Result<Rung, Cannot> {
        self.save_unless(saving, &|| false)
    }

    /// Does the same, but gives up once `stop` returns true. It is called before each replay.
    ///
    /// # Errors
    /// As [`WhatIf::save`], and [`Cannot::Stopped`]; after that, no more can be saved.
    pub fn save_unless(&mut self, saving: &Saving, stop: &dyn Fn() -> bool) -> Result<Rung, Cannot> {
        if stop() {
            return Err(Cannot::Stopped);
        }
        let mut target = self.names.target(&self.timeline, &saving.name)?;
        let mut target_time = TargetTime::new(&self.timeline, &self.groups, self.end, &target);
        // A row without spans: all its time was spent in short calls, which are matched by their function.
        let no_span = matches!(target, Target::Rows(_)) && target_time.on_all_threads() == Ns::ZERO;
        if let Some(functions) = no_span.then(|| self.names.functions(&self.timeline, &plain(&saving.name))).flatten() {
            target = functions;
            target_time = TargetTime::new(&self.timeline, &self.groups, self.end, &target);
        }
        let path = boot_path(&self.timeline);
        let was_cost = target_time.on_path(&path);
        let was = was_cost.length;
        let grows = matches!(saving.becomes, Becomes::Takes(time) if time > was);
        let besides = match saving.becomes {
            Becomes::Takes(_) if !grows => Vec::new(),
            _ => target_time.besides(&path),
        };
        let rest: Ns = besides.iter().map(|(_, time)| *time).sum();
        let besides = if grows || rest > was { besides } else { Vec::new() };
        let (factor, new, now) = match saving.becomes {
            Becomes::Nothing => self.replay(&target_time, &target, 0.0),
            Becomes::Less(share) => self.replay(&target_time, &target, 1.0 - share),
            Becomes::Takes(time) if Ns::ZERO < was => self.find_factor(time, was_cost, (&target_time, &target), stop),
            Becomes::Takes(time) => {
                let takes = target_time.on_all_threads();
                self.replay(&target_time, &target, if takes > Ns::ZERO { time.0 as f64 / takes.0 as f64 } else { 1.0 })
            }
        };
        if stop() {
            return Err(Cannot::Stopped);
        }
        let (before, after) = (self.total(), total(&new));
        let new_waits = if new.timed_waits.is_some() { boot_path(&new).cost(&new).waited } else { Ns::ZERO };
        let (before_waits, now_waits) = (path.cost(&self.timeline).waited, now.waited);
        let waits = RungWaits { before: before_waits, after: new_waits, was: was_cost.waited, now: now_waits };
        let range = self.save_in_allowed(&target, factor, (before - after, after), stop)?;
        let also = self.names.other_rows(&target);
        self.timeline = new;
        Ok(Rung { target, before, after, waits, range, was, now: now.length, also, besides })
    }

    /// Replays the boot with the target taking `factor` of its time. Also returns the target's time on the new path.
    fn replay(&self, target_time: &TargetTime, target: &Target, factor: f64) -> (f64, Timeline, Cost) {
        let shrunk = Shrunk { target: target_time, factor };
        let shared = Shared::default();
        let mut new = Replay::new(&self.timeline, self.end, &target_time.segments, &shared, &shrunk).timeline(self.end);
        target_time.scale(&mut new.profile, factor);
        let now = TargetTime::new(&new, &self.groups, self.end, target).on_path(&boot_path(&new));
        (factor, new, now)
    }

    /// Makes the target shorter in the other boots that the log allows. Returns the range over them and the recorded
    /// boot. `None` if they are all equal.
    fn save_in_allowed(
        &mut self,
        target: &Target,
        factor: f64,
        (saved, after): (Ns, Ns),
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Range>, Cannot> {
        let (groups, end) = (&self.groups, self.end);
        let recorded_only = Range::of(saved, after);
        let mut range = recorded_only;
        for boot in &mut self.allowed {
            if stop() {
                return Err(Cannot::Stopped);
            }
            let target_time = TargetTime::new(boot, groups, end, target);
            let (shrunk, shared) = (Shrunk { target: &target_time, factor }, Shared::default());
            let new = Replay::new(boot, end, &target_time.segments, &shared, &shrunk).timeline(end);
            let (saved, after) = (total(boot) - total(&new), total(&new));
            range = range.with(saved, after);
            *boot = new;
        }
        Ok((range != recorded_only).then_some(range))
    }

    /// Searches for the factor with which the target takes `time` on the path, instead of `was`. If all of the target
    /// is on the path, the first factor that is tried is right. Otherwise the target also changes where no thread waits
    /// for it, so its time on the path changes by another factor. If no factor gives `time`, because the boot then
    /// waits for something else, the result is the nearest.
    fn find_factor(
        &self,
        time: Ns,
        was_cost: Cost,
        (target_time, target): (&TargetTime, &Target),
        stop: &dyn Fn() -> bool,
    ) -> (f64, Timeline, Cost) {
        const MAX_TRIES: usize = 24;
        /// The largest factor that is tried.
        const MAX_FACTOR: f64 = 1e6;
        let was = was_cost.length;
        let close = Ns(1 + was.max(time).0 / 1_000_000);
        let mut best: Option<(f64, Timeline, Cost)> = None;
        let mut try_factor = |factor: f64| {
            let attempt = self.replay(target_time, target, factor);
            let now = attempt.2.length;
            if best.as_ref().is_none_or(|best| (now - time).abs() < (best.2.length - time).abs()) {
                best = Some(attempt);
            }
            (factor, now)
        };
        let (mut low, mut high) = ((0.0, Ns::ZERO), (1.0, was));
        let mut tries = 0;
        while high.1 < time && high.0 < MAX_FACTOR && tries < MAX_TRIES && !stop() {
            low = high;
            high = try_factor((high.0 * (time.0 as f64 / high.1.0.max(1) as f64).max(1.001)).min(MAX_FACTOR));
            tries += 1;
        }
        for i in tries..MAX_TRIES {
            if stop() || [low, high].iter().any(|end| (end.1 - time).abs() <= close) && i > 0 {
                break;
            }
            let part = if i % 3 < 2 { (time - low.1).0 as f64 / ((high.1 - low.1).0 as f64).max(1.0) } else { 0.5 };
            let tried = try_factor(low.0 + part * (high.0 - low.0));
            if tried.1 < time { low = tried } else { high = tried }
        }
        best.unwrap_or_else(|| (1.0, self.timeline.clone(), was_cost))
    }
}

impl KnownNames {
    fn new(timeline: &Timeline, groups: &Groups, end: TrackId) -> KnownNames {
        let path = boot_path(timeline);
        let rows = tables(timeline, &path, &phases(timeline), groups).wheres.into_iter().map(|row| row.name).collect();
        let no_rows = Target::Rows(Vec::new());
        let all = TargetTime::new(timeline, groups, end, &no_rows);
        let mut charges: HashSet<Charge> = HashSet::new();
        all.every_piece(|piece, track, blamed| {
            let frame = Frame { track, span: piece.span };
            charges.insert(all.charger.charge(StretchKind::Running, chain(&[frame; 2], blamed)).0);
        });
        charges.retain(|charge| charge.base != BaseId::NOTHING);
        let mut elsewhere: Vec<String> = charges.into_iter().map(|charge| all.charger.label(charge, "")).collect();
        elsewhere.sort_unstable();
        KnownNames { rows, functions: all.charger.functions.clone(), elsewhere }
    }

    /// Resolves a name. Rows of the path come before functions, and functions before rows that are not on the path.
    fn target(&self, timeline: &Timeline, name: &str) -> Result<Target, Cannot> {
        let glob = plain(name);
        let among = |rows: &[String]| -> Vec<String> {
            rows.iter().filter(|row| matches(&glob, &plain(row))).cloned().collect()
        };
        let rows = among(&self.rows);
        if !rows.is_empty() {
            return Ok(Target::Rows(rows));
        }
        if let Some(functions) = self.functions(timeline, &glob) {
            return Ok(functions);
        }
        let elsewhere = among(&self.elsewhere);
        if !elsewhere.is_empty() {
            return Ok(Target::Rows(elsewhere));
        }
        let nearest = match self.by_detail(timeline, &glob) {
            Ok(target) => return Ok(target),
            Err(several) if !several.is_empty() => several,
            Err(_) => self.nearest(timeline, &glob),
        };
        Err(Cannot::Unknown { name: name.to_owned(), nearest })
    }

    fn functions(&self, timeline: &Timeline, glob: &str) -> Option<Target> {
        let called = |&&(n, d): &&(NameId, NameId)| {
            matches(glob, &plain(&joined(timeline, n, d))) || matches(glob, &plain(timeline.names.get(n)))
        };
        let functions: Vec<String> =
            self.functions.iter().filter(called).map(|&(n, d)| joined(timeline, n, d)).collect();
        (!functions.is_empty()).then_some(Target::Functions(functions))
    }

    /// Returns the one target whose name without the first word matches (`acpi_init` for `initcall acpi_init`). If
    /// several match, returns them as the error.
    fn by_detail(&self, timeline: &Timeline, glob: &str) -> Result<Target, Vec<String>> {
        let has_detail = |name: &&String| matches(glob, &plain(detail(name)));
        let functions: Vec<String> = self.functions.iter().map(|&(n, d)| joined(timeline, n, d)).collect();
        for (all, are_rows) in [(&self.rows, true), (&functions, false), (&self.elsewhere, true)] {
            let candidates: Vec<String> = all.iter().filter(has_detail).cloned().collect();
            match candidates.len() {
                0 => {}
                1 if are_rows => return Ok(Target::Rows(candidates)),
                1 => return Ok(Target::Functions(candidates)),
                _ => return Err(candidates),
            }
        }
        Err(Vec::new())
    }

    /// Returns the other rows of the target's rows.
    fn other_rows(&self, target: &Target) -> Vec<String> {
        let Target::Rows(target_rows) = target else { return Vec::new() };
        let is_other = |row: &&String| {
            let base = row.split_once(" · ").map(|(base, _)| base);
            !target_rows.contains(row) && base.is_some_and(|base| target_rows.iter().any(|m| m == base))
        };
        self.rows.iter().filter(is_other).cloned().collect()
    }

    fn nearest(&self, timeline: &Timeline, name: &str) -> Vec<String> {
        let functions = self.functions.iter().map(|&(n, d)| joined(timeline, n, d));
        most_similar(self.rows.iter().cloned().chain(functions), name)
    }
}

/// The most similar of these names, by their whole text or without their first word.
fn most_similar(known: impl Iterator<Item = String>, name: &str) -> Vec<String> {
    const SHOWN: usize = 3;
    let name = name.to_lowercase();
    let similarity = |text: &str| strsim::jaro_winkler(&plain(text).to_lowercase(), &name);
    let mut all: Vec<(f64, String)> = known.map(|row| (similarity(&row).max(similarity(detail(&row))), row)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    all.dedup_by(|a, b| a.1 == b.1);
    all.into_iter().take(SHOWN).map(|(_, row)| row).collect()
}

/// Returns a name without its first word. A single word stays.
fn detail(name: &str) -> &str {
    name.split_once(' ').map_or(name, |(_, detail)| detail)
}

/// Returns a name with its suffix after a space, for any separator.
fn plain(name: &str) -> String {
    let words = name.split(|c: char| c.is_whitespace() || c == '·' || c == ';').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}
