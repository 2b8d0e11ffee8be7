//! What a boot would take if some of its work took less: one saving after the other, each on what the last one left.
//!
//! Nothing is subtracted. The boot is [run again](crate::replay) with the work of a row or a function made shorter on
//! every thread, and its path is walked anew: so a saving counts only as far as nobody else is waited for then, and two
//! that overlap count once.

mod allowed;
mod meant;
mod price;

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
use meant::{Meant, Shrunk, chain};
use std::fmt;
use timeline::{NameId, Ns, Timeline, TrackId};

/// What to make shorter.
#[derive(Clone, Debug, PartialEq)]
pub struct Saving {
    /// A row of `where`, or any function, as the tables print them, or its detail alone if only one has that; `*` and `?`
    /// stand for any text and any character, and a suffix (` · DELAY`) may also follow after a space or a `;`.
    pub name: String,
    /// What becomes of it.
    pub becomes: Becomes,
}

/// What becomes of the time of something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Becomes {
    /// It takes no time.
    Nothing,
    /// It takes so long, in place of what it takes on the boot path.
    Takes(Ns),
    /// It takes less by this share (0 to 1).
    Less(f64),
}

/// What a saving is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// Rows of `where`: what is charged to them.
    Rows(Vec<String>),
    /// Functions, with all under them.
    Functions(Vec<String>),
}

/// What a saving brought.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    /// What its name stands for.
    pub target: Target,
    /// The boot's length before it.
    pub before: Ns,
    /// And with it.
    pub after: Ns,
    /// Where the boots that the log allows differ in what it saves or leaves.
    pub range: Option<Range>,
    /// What its target took on the boot path before it.
    pub was: Ns,
    /// And with it.
    pub now: Ns,
    /// Rows of the boot path that are the target's too, by other ways for time to pass (`SYSINIT cpu · DELAY`), and were
    /// not meant.
    pub also: Vec<String>,
    /// Where it shall take longer than it did, or where all or a share of it is saved and less of the time in which it was
    /// under way is its own than others': who had the rest of that time, most first.
    pub besides: Vec<(String, Ns)>,
}

/// What the boots that a log allows save, and how long they then take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least that any of them saves.
    pub saved_at_worst: Ns,
    /// The most.
    pub saved_at_best: Ns,
    /// The longest that any of them takes.
    pub after_at_worst: Ns,
    /// The shortest.
    pub after_at_best: Ns,
}

/// Why a saving cannot be worked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cannot {
    /// No evidence says which thread reached the end mark.
    NoPath,
    /// The boot is followed on its CPU: nothing says who waited for whom, and so what would come sooner.
    NoWaits,
    /// The caller wanted no more.
    Stopped,
    /// Nothing has that name.
    Unknown {
        /// The name.
        name: String,
        /// What is called nearly so.
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
                let quoted: Vec<String> = nearest.iter().map(|n| format!("{n:?}")).collect();
                write!(
                    out,
                    "no row of the boot path and no function is called {name:?}; nearest: {}",
                    quoted.join(", ")
                )
            }
        }
    }
}

impl std::error::Error for Cannot {}

/// A boot, and what became of it with the savings so far.
pub struct WhatIf {
    timeline: Timeline,
    /// The same, begun with other boots that the log allows.
    allowed: Vec<Timeline>,
    groups: Groups,
    end: TrackId,
    known: Known,
}

/// What savings can name, as it was before any.
struct Known {
    /// Rows of the boot path.
    rows: Vec<String>,
    functions: Vec<(NameId, NameId)>,
    /// Rows that threads would have if they were blamed.
    elsewhere: Vec<String>,
}

impl WhatIf {
    /// Begins with a boot as it was.
    ///
    /// # Errors
    /// [`Cannot::NoPath`], [`Cannot::NoWaits`].
    pub fn new(timeline: Timeline, groups: Groups) -> Result<WhatIf, Cannot> {
        let end = timeline.end.and_then(|end| end.track).ok_or(Cannot::NoPath)?;
        if timeline.cpus_followed_until == Some(Ns::MAX) {
            return Err(Cannot::NoWaits);
        }
        let known = Known::new(&timeline, &groups, end);
        let allowed = allowed::boots(&timeline);
        Ok(WhatIf { timeline, allowed, groups, end, known })
    }

    /// How much shorter a boot would be if these rows took so long on its path: one saving after the other.
    ///
    /// # Errors
    /// [`Cannot`], of the first saving that cannot be worked out.
    pub fn foretell(timeline: &Timeline, groups: &Groups, rows: &[(String, Ns)]) -> Result<Ns, Cannot> {
        let mut boot = WhatIf::new(timeline.clone(), groups.clone())?;
        for (name, takes) in rows {
            let becomes = if *takes > Ns::ZERO { Becomes::Takes(*takes) } else { Becomes::Nothing };
            boot.save(&Saving { name: name.clone(), becomes })?;
        }
        Ok(total(timeline) - boot.total())
    }

    /// The boot with all savings so far.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// How long it takes with all savings so far.
    pub fn total(&self) -> Ns {
        total(&self.timeline)
    }

    /// Makes something shorter. `O(n log n)` in the number of spans.
    ///
    /// # Errors
    /// [`Cannot::Unknown`], and nothing is changed.
    pub fn save(&mut self, saving: &Saving) -> Result<Rung, Cannot> {
        self.save_unless(saving, &|| false)
    }

    /// The same, given up once `stop` says so: it is called before each time that the boot is run again.
    ///
    /// # Errors
    /// As [`WhatIf::save`], and [`Cannot::Stopped`]: no more can be saved then.
    pub fn save_unless(&mut self, saving: &Saving, stop: &dyn Fn() -> bool) -> Result<Rung, Cannot> {
        if stop() {
            return Err(Cannot::Stopped);
        }
        let mut target = self.known.target(&self.timeline, &saving.name)?;
        let mut meant = Meant::new(&self.timeline, &self.groups, self.end, &target);
        // A row that has no span: all of it was spent in short calls, which are found by their function.
        let no_span = matches!(target, Target::Rows(_)) && meant.anywhere() == Ns::ZERO;
        if let Some(functions) = no_span.then(|| self.known.functions(&self.timeline, &plain(&saving.name))).flatten() {
            target = functions;
            meant = Meant::new(&self.timeline, &self.groups, self.end, &target);
        }
        let path = boot_path(&self.timeline);
        let was = meant.on_path(&path);
        let grows = matches!(saving.becomes, Becomes::Takes(time) if time > was);
        let besides = match saving.becomes {
            Becomes::Takes(_) if !grows => Vec::new(),
            _ => meant.besides(&path),
        };
        let rest: Ns = besides.iter().map(|(_, time)| *time).sum();
        let besides = if grows || rest > was { besides } else { Vec::new() };
        let (factor, new, now) = match saving.becomes {
            Becomes::Nothing => self.again(&meant, &target, 0.0),
            Becomes::Less(share) => self.again(&meant, &target, 1.0 - share),
            Becomes::Takes(time) if Ns::ZERO < was => self.until_it_takes(time, was, (&meant, &target), stop),
            Becomes::Takes(time) => {
                let takes = meant.anywhere();
                self.again(&meant, &target, if takes > Ns::ZERO { time.0 as f64 / takes.0 as f64 } else { 1.0 })
            }
        };
        if stop() {
            return Err(Cannot::Stopped);
        }
        let (before, after) = (self.total(), total(&new));
        let range = self.save_in_allowed(&target, factor, (before - after, after), stop)?;
        let also = self.known.also(&target);
        self.timeline = new;
        Ok(Rung { target, before, after, range, was, now, also, besides })
    }

    /// The boot with what is meant taking `factor` of its time, and what that then takes on the path.
    fn again(&self, meant: &Meant, target: &Target, factor: f64) -> (f64, Timeline, Ns) {
        let shrunk = Shrunk { meant, factor };
        let shared = Shared::default();
        let mut new = Replay::new(&self.timeline, self.end, &meant.segments, &shared, &shrunk).timeline(self.end);
        meant.scale(&mut new.profile, factor);
        let now = Meant::new(&new, &self.groups, self.end, target).on_path(&boot_path(&new));
        (factor, new, now)
    }

    /// Makes the same shorter in the other boots that the log allows. The range of them and of what the recorded one saved
    /// and then takes; none where all are the same.
    fn save_in_allowed(
        &mut self,
        target: &Target,
        factor: f64,
        (saved, after): (Ns, Ns),
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Range>, Cannot> {
        let (groups, end) = (&self.groups, self.end);
        let known = Range { saved_at_worst: saved, saved_at_best: saved, after_at_worst: after, after_at_best: after };
        let mut range = known;
        for boot in &mut self.allowed {
            if stop() {
                return Err(Cannot::Stopped);
            }
            let meant = Meant::new(boot, groups, end, target);
            let (shrunk, shared) = (Shrunk { meant: &meant, factor }, Shared::default());
            let new = Replay::new(boot, end, &meant.segments, &shared, &shrunk).timeline(end);
            let (saved, after) = (total(boot) - total(&new), total(&new));
            range.saved_at_worst = range.saved_at_worst.min(saved);
            range.saved_at_best = range.saved_at_best.max(saved);
            range.after_at_worst = range.after_at_worst.max(after);
            range.after_at_best = range.after_at_best.min(after);
            *boot = new;
        }
        Ok((range != known).then_some(range))
    }

    /// Looks for the factor with which it takes `time` on the path, of `was`. Where all of it is on the path that is the
    /// first one tried; else it also changes where nobody waits for it, and of what is left less is waited for, or of what
    /// is added more. Where no factor does, because another is waited for at once, the nearest there is.
    fn until_it_takes(
        &self,
        time: Ns,
        was: Ns,
        (meant, target): (&Meant, &Target),
        stop: &dyn Fn() -> bool,
    ) -> (f64, Timeline, Ns) {
        const TRIES: usize = 24;
        /// Nothing becomes longer by more.
        const MOST: f64 = 1e6;
        let close = Ns(1 + was.max(time).0 / 1_000_000);
        let mut best: Option<(f64, Timeline, Ns)> = None;
        let mut take = |factor: f64| {
            let tried = self.again(meant, target, factor);
            let now = tried.2;
            if best.as_ref().is_none_or(|best| (now - time).abs() < (best.2 - time).abs()) {
                best = Some(tried);
            }
            (factor, now)
        };
        let (mut low, mut high) = ((0.0, Ns::ZERO), (1.0, was));
        let mut tries = 0;
        while high.1 < time && high.0 < MOST && tries < TRIES && !stop() {
            low = high;
            high = take((high.0 * (time.0 as f64 / high.1.0.max(1) as f64).max(1.001)).min(MOST));
            tries += 1;
        }
        for i in tries..TRIES {
            if stop() || [low, high].iter().any(|end| (end.1 - time).abs() <= close) && i > 0 {
                break;
            }
            let part = if i % 3 < 2 { (time - low.1).0 as f64 / ((high.1 - low.1).0 as f64).max(1.0) } else { 0.5 };
            let tried = take(low.0 + part * (high.0 - low.0));
            if tried.1 < time { low = tried } else { high = tried }
        }
        best.unwrap_or_else(|| (1.0, self.timeline.clone(), was))
    }
}

impl Known {
    fn new(timeline: &Timeline, groups: &Groups, end: TrackId) -> Known {
        let path = boot_path(timeline);
        let rows = tables(timeline, &path, &phases(timeline), groups).wheres.into_iter().map(|row| row.name).collect();
        let nothing = Target::Rows(Vec::new());
        let all = Meant::new(timeline, groups, end, &nothing);
        let mut charges: HashSet<Charge> = HashSet::new();
        all.every_piece(|piece, track, blamed| {
            let frame = Frame { track, span: piece.span };
            charges.insert(all.charger.charge(StretchKind::Running, chain(&[frame; 2], blamed)).0);
        });
        charges.retain(|charge| charge.base != BaseId::NOTHING);
        let mut elsewhere: Vec<String> = charges.into_iter().map(|charge| all.charger.label(charge, "")).collect();
        elsewhere.sort_unstable();
        Known { rows, functions: all.charger.functions.clone(), elsewhere }
    }

    /// What a name stands for: rows of the path before functions, and functions before what is not on the path.
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

    /// The one thing that has this name but for its first word (`acpi_init` for `initcall acpi_init`); if several have,
    /// those.
    fn by_detail(&self, timeline: &Timeline, glob: &str) -> Result<Target, Vec<String>> {
        let is_it = |name: &&String| matches(glob, &plain(detail(name)));
        let functions: Vec<String> = self.functions.iter().map(|&(n, d)| joined(timeline, n, d)).collect();
        for (all, are_rows) in [(&self.rows, true), (&functions, false), (&self.elsewhere, true)] {
            let found: Vec<String> = all.iter().filter(is_it).cloned().collect();
            match found.len() {
                0 => {}
                1 if are_rows => return Ok(Target::Rows(found)),
                1 => return Ok(Target::Functions(found)),
                _ => return Err(found),
            }
        }
        Err(Vec::new())
    }

    /// A row's other rows.
    fn also(&self, target: &Target) -> Vec<String> {
        let Target::Rows(meant) = target else { return Vec::new() };
        let is_other = |row: &&String| {
            let base = row.split_once(" · ").map(|(base, _)| base);
            !meant.contains(row) && base.is_some_and(|base| meant.iter().any(|m| m == base))
        };
        self.rows.iter().filter(is_other).cloned().collect()
    }

    fn nearest(&self, timeline: &Timeline, name: &str) -> Vec<String> {
        const SHOWN: usize = 3;
        let functions = self.functions.iter().map(|&(n, d)| joined(timeline, n, d));
        let name = name.to_lowercase();
        let alike = |text: &str| strsim::jaro_winkler(&plain(text).to_lowercase(), &name);
        let rows = self.rows.iter().cloned().chain(functions);
        let mut all: Vec<(f64, String)> = rows.map(|row| (alike(&row).max(alike(detail(&row))), row)).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        all.dedup_by(|a, b| a.1 == b.1);
        all.into_iter().take(SHOWN).map(|(_, row)| row).collect()
    }
}

/// A name without its first word; a single word is its own.
fn detail(name: &str) -> &str {
    name.split_once(' ').map_or(name, |(_, detail)| detail)
}

/// A name with its suffix after a space, however it was set apart.
fn plain(name: &str) -> String {
    let words = name.split(|c: char| c.is_whitespace() || c == '·' || c == ';').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}
