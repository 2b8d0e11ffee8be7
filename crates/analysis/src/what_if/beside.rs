//! Drivers that probe asynchronously: the boot goes on while another thread probes.

use super::price::Cuts;
use super::{Cannot, Cut, Range, Rung, RungWaits, Target, TargetTime, WhatIf, detail, matches, most_similar};
use crate::charge::joined;
use crate::overlap::{Aside, busy, cpus_at_once, probes_awaited_at, still_takes};
use crate::path::{boot_path, lineage};
use crate::replay::{Replay, Shared};
use crate::segments::Segments;
use crate::total;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use timeline::{Ns, SpanKind, SpanRow, Timeline, TrackId};

/// A device and its driver, as the detail of a probe's span has them: `fe220000.ethernet (rk_gmac-dwmac)`. The driver is
/// `None` if the kernel does not name it.
#[must_use]
pub fn probed(detail: &str) -> (&str, Option<&str>) {
    let with_driver = detail.strip_suffix(')').and_then(|detail| detail.split_once(" ("));
    with_driver.map_or((detail, None), |(device, driver)| (device, Some(driver)))
}

/// The probes of the boot's own thread that are over before the kernel waits for asynchronous ones: the outermost, in
/// order of time.
#[must_use]
pub fn synchronous_probes(timeline: &Timeline) -> Vec<SpanRow> {
    let (Some(end), Some(until)) = (timeline.end.and_then(|end| end.track), probes_awaited_at(timeline)) else {
        return Vec::new();
    };
    let tracks: Vec<TrackId> = lineage(timeline, end).into_iter().map(|(track, _)| track).collect();
    let is_probe = |row: &SpanRow| row.kind == SpanKind::Probe && row.end <= until && tracks.contains(&row.track);
    let mut rows: Vec<SpanRow> = timeline.spans.iter().map(|(_, row)| row).filter(is_probe).collect();
    rows.sort_by_key(|row| (row.start, Reverse(row.end)));
    let mut over = Ns::MIN;
    rows.retain(|row| {
        let is_outermost = over <= row.start;
        over = over.max(row.end);
        is_outermost && row.start < row.end
    });
    rows
}

/// The share of these probes' time that the boot still takes if other threads run them beside it. `busy_if_unknown` is
/// the part of a probe in which it has a CPU, where no evidence shows it.
#[must_use]
pub fn share_beside(timeline: &Timeline, probes: &[SpanRow], cpus: u32, busy_if_unknown: f64) -> f64 {
    let aside = |row: &SpanRow| {
        let busy = busy(timeline, row.track, row.start, row.end).unwrap_or(busy_if_unknown);
        Aside { from: row.start, to: row.end, busy }
    };
    let asides: Vec<Aside> = probes.iter().map(aside).collect();
    let whole: Ns = asides.iter().map(|aside| aside.to - aside.from).sum();
    let Some(until) = probes_awaited_at(timeline).filter(|_| whole > Ns::ZERO) else { return 1.0 };
    let left = still_takes(&asides, until, cpus_at_once(timeline, cpus));
    (left.0 as f64 / whole.0 as f64).clamp(0.0, 1.0)
}

impl WhatIf {
    /// Lets drivers probe asynchronously. `names` are patterns of drivers, devices or rows, with commas between them. The
    /// boot has `cpus` CPUs; 0 if that is unknown.
    ///
    /// # Errors
    /// [`Cannot::NoProbe`]; nothing is changed then.
    pub fn probe_beside(&mut self, names: &str, cpus: u32) -> Result<Rung, Cannot> {
        let probes = self.probes_named(names)?;
        let labels: BTreeSet<String> = probes.iter().map(|row| self.label(row)).collect();
        let target = Target::Functions(labels.into_iter().collect());
        let on_path =
            |boot: &Timeline| TargetTime::new(boot, &self.groups, self.end, &target).on_path(&boot_path(boot));
        let left = share_beside(&self.timeline, &probes, cpus, 1.0);
        let replayed = |boot: &Timeline| {
            let cut = |row: &SpanRow| Cut { track: row.track, from: row.start, to: row.end, left, beside: true };
            let cuts = Cuts::new(&probes.iter().map(cut).collect::<Vec<_>>());
            let (segments, shared) = (Segments::new(boot), Shared::default());
            Replay::new(boot, self.end, &segments, &shared, &cuts).timeline(self.end)
        };
        let new = replayed(&self.timeline);
        let (was, now) = (on_path(&self.timeline), on_path(&new));
        let (before, after) = (self.total(), total(&new));
        let waited = |boot: &Timeline| boot_path(boot).cost(boot).waited;
        let waits = RungWaits { before: waited(&self.timeline), after: waited(&new), was: was.waited, now: now.waited };
        let recorded_only = Range::of(before - after, after);
        let allowed: Vec<Timeline> = self.allowed.iter().map(replayed).collect();
        let others = self.allowed.iter().zip(&allowed);
        let range = others.fold(recorded_only, |range, (old, new)| range.with(total(old) - total(new), total(new)));
        (self.timeline, self.allowed) = (new, allowed);
        let range = Some(range).filter(|range| *range != recorded_only);
        let (was, now) = (was.length, now.length);
        Ok(Rung { target, before, after, waits, range, was, now, also: Vec::new(), besides: Vec::new() })
    }

    fn label(&self, row: &SpanRow) -> String {
        joined(&self.timeline, row.name, row.detail)
    }

    /// The probes that the patterns name, in order of time.
    fn probes_named(&self, names: &str) -> Result<Vec<SpanRow>, Cannot> {
        let all = synchronous_probes(&self.timeline);
        let mut found = Vec::new();
        for name in names.split(',').map(str::trim) {
            let is_named = |row: &SpanRow| {
                let label = self.label(row);
                let (device, driver) = probed(detail(&label));
                [Some(device), driver, Some(detail(&label)), Some(&label)]
                    .iter()
                    .flatten()
                    .any(|text| matches(name, text))
            };
            let before = found.len();
            found.extend(all.iter().copied().filter(is_named));
            if found.len() == before {
                let known = all.iter().map(|row| detail(&self.label(row)).to_owned());
                return Err(Cannot::NoProbe { name: name.to_owned(), nearest: most_similar(known, name) });
            }
        }
        found.sort_by_key(|row| (row.start, row.end));
        found.dedup();
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Groups;
    use timeline::{End, EndEvidence, NameId, Phase, TimeBase, TrackKind, Wait, WaitedOn};

    /// A boot of 1000 that hands over at 900, with these probes: a detail, a start and an end.
    fn boot(probes: &[(&str, i64, i64)]) -> Timeline {
        let mut t = Timeline::new(TimeBase::Evidence);
        let name = t.names.intern("kernel_init");
        let track = t.tracks.add(name, TrackKind::Thread, 1);
        let row = SpanRow { name, detail: NameId::EMPTY, start: Ns(0), end: Ns(1000), track, kind: SpanKind::Call };
        t.spans.push(row, None);
        for &(detail, start, end) in probes {
            let (name, detail) = (t.names.intern("probe"), t.names.intern(detail));
            t.spans.push(SpanRow { name, detail, start: Ns(start), end: Ns(end), track, kind: SpanKind::Probe }, None);
        }
        t.boundary(Phase::HandOver, Ns(900), Ns(0), "test");
        t.end = Some(End { at: Ns(1000), error: Ns(0), track: Some(track), evidence: EndEvidence::LastSign });
        t.finalize(Ns::ZERO);
        t
    }

    fn after(boot: &Timeline, names: &str, cpus: u32) -> i64 {
        WhatIf::new(boot.clone(), Groups::linux()).unwrap().probe_beside(names, cpus).unwrap().after.0
    }

    const PROBES: [(&str, i64, i64); 4] =
        [("a.mac (mac)", 100, 200), ("b.mac (mac)", 200, 300), ("leds (leds-gpio)", 400, 700), ("c.mmc", 700, 800)];

    #[test]
    fn drivers_and_devices_are_named() {
        let t = boot(&PROBES);
        assert_eq!(after(&t, "mac", 4), 800);
        assert_eq!(after(&t, "a.mac", 4), 900);
        assert_eq!(after(&t, "probe a.mac*", 4), 900);
        assert_eq!(after(&t, "c.mmc", 4), 900);
        // The LEDs begin when 300 are left until the hand-over.
        assert_eq!(after(&t, "mac,leds-gpio", 4), 1000 - 200 - 200);
        let mut what_if = WhatIf::new(t, Groups::linux()).unwrap();
        let Err(Cannot::NoProbe { name, nearest }) = what_if.probe_beside("mac,ledsgpio", 4) else { panic!() };
        assert_eq!((name.as_str(), nearest[0].as_str()), ("ledsgpio", "leds (leds-gpio)"));
        assert_eq!(what_if.total(), Ns(1000), "nothing is changed");
    }

    #[test]
    fn one_cpu_saves_nothing_of_work_and_all_of_sleep() {
        let mut t = boot(&PROBES[..1]);
        assert_eq!(after(&t, "mac", 1), 1000);
        let track = t.end.unwrap().track.unwrap();
        for (from, to) in [(0, 100), (200, 1000)] {
            t.running.push(timeline::Running { track, cpu: 0, from: Ns(from), to: Ns(to) });
        }
        t.finalize(Ns::ZERO);
        assert_eq!(after(&t, "mac", 1), 900);
    }

    #[test]
    fn a_wait_of_the_probe_for_another_thread_goes_with_it() {
        let mut t = boot(&PROBES[..1]);
        let name = t.names.intern("kworker");
        let (track, other) = (t.end.unwrap().track.unwrap(), t.tracks.add(name, TrackKind::Thread, 9));
        let by = WaitedOn::Thread(other);
        t.waits.push(Wait { track, from: Ns(110), woken: Ns(190), until: Ns(190), by, uninterruptible: false });
        t.finalize(Ns::ZERO);
        assert_eq!(after(&t, "mac", 4), 900);
    }

    #[test]
    fn the_kernel_waits_before_it_mounts_the_root_itself() {
        use timeline::{Milestone, MilestoneKind};
        let mut t = boot(&PROBES);
        assert_eq!(after(&t, "c.mmc", 4), 900);
        t.passed.push(Milestone { kind: MilestoneKind::RootMounted, at: Ns(850), error: Ns(0), track: None });
        assert_eq!(after(&t, "c.mmc", 4), 950);
    }
}
