//! The milestones of a boot. Its phases and units show some of them, and readers put the others into
//! [`Timeline::passed`]. A view can show a boot as if it had ended at one of them.

use crate::{End, EndEvidence, Milestone, MilestoneKind, Ns, Phase, Process, Timeline, TrackKind};

impl Timeline {
    /// All milestones that the boot passed until its end mark, in order of time, and the end mark. A unit that started
    /// more than once counts at its first activation. `O(n log n)` in units.
    pub fn milestones(&self) -> Vec<Milestone> {
        let Some(end) = self.end else { return Vec::new() };
        let by_phase = [
            (MilestoneKind::Process1, [Phase::Process1, Phase::Initrd]),
            (MilestoneKind::InitrdLeft, [Phase::UserSpace; 2]),
        ];
        let begins = |kind, phases: [Phase; 2]| {
            let candidates = self.boundaries.iter().filter(|b| phases.contains(&b.phase));
            let sharpest = candidates.min_by_key(|b| b.error)?;
            Some(Milestone { kind, at: sharpest.at, error: sharpest.error, track: None })
        };
        let error = self.clocks.iter().map(|clock| clock.residual).max().unwrap_or_default();
        let active = self.units.iter().filter(|unit| !unit.failed).filter_map(|unit| {
            Some(Milestone { kind: MilestoneKind::Unit(unit.name), at: unit.settled?, error, track: None })
        });
        let mut all: Vec<Milestone> = by_phase.into_iter().filter_map(|(kind, phases)| begins(kind, phases)).collect();
        all.extend(self.passed.iter().copied().chain(active));
        all.retain(|milestone| milestone.at <= end.at);
        all.sort_by_key(|milestone| milestone.at);
        let mut seen = hashbrown::HashSet::new();
        all.retain(|milestone| seen.insert(milestone.kind));
        all.push(Milestone { kind: MilestoneKind::End, at: end.at, error: end.error, track: end.track });
        all
    }

    /// The first start of a process of this name. The name is the last part of its program's path.
    pub fn process_named(&self, name: &str) -> Option<Milestone> {
        let has_name = |process: &&Process| self.names.get(process.name).rsplit('/').next() == Some(name);
        let first = self.processes.iter().filter(has_name).min_by_key(|process| process.start)?;
        let track = self.tracks.find(TrackKind::Thread, first.pid);
        Some(Milestone { kind: MilestoneKind::Process(first.name), at: first.start, error: Ns::ZERO, track })
    }

    /// Lets the boot end at a milestone. All later analyses see the boot only until then.
    pub fn end_at(&mut self, milestone: Milestone) {
        let process_1 = || self.tracks.find(TrackKind::Thread, 1).or(self.end.and_then(|end| end.track));
        let track = milestone.track.or_else(process_1);
        let evidence = EndEvidence::Milestone(milestone.kind);
        self.end = Some(End { at: milestone.at, error: milestone.error, track, evidence });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ServiceUnit, TimeBase};

    fn boot() -> Timeline {
        let mut t = Timeline::new(TimeBase::Host);
        let process_1 = t.names.intern("init");
        let track = t.tracks.add(process_1, TrackKind::Thread, 1);
        t.boundary(Phase::Initrd, Ns(100), Ns(9), "late");
        t.boundary(Phase::Process1, Ns(90), Ns(1), "sharp");
        t.boundary(Phase::UserSpace, Ns(300), Ns(2), "exec");
        for (name, settled, failed) in
            [("b.service", Some(700), false), ("a.service", Some(500), false), ("c.service", Some(600), true)]
        {
            let name = t.names.intern(name);
            t.units.push(ServiceUnit { name, settled: settled.map(Ns), failed, ..ServiceUnit::default() });
        }
        let again = t.units[1].name;
        t.units.push(ServiceUnit { name: again, settled: Some(Ns(550)), ..ServiceUnit::default() });
        t.passed.push(Milestone { kind: MilestoneKind::RootMounted, at: Ns(200), error: Ns(3), track: None });
        t.end = Some(End { at: Ns(650), error: Ns(0), track: Some(track), evidence: EndEvidence::PowerOff });
        t
    }

    #[test]
    fn milestones_are_in_order_until_the_end_mark() {
        let t = boot();
        let found: Vec<_> = t.milestones().iter().map(|m| (m.kind.name(&t.names).into_owned(), m.at.0)).collect();
        let found: Vec<_> = found.iter().map(|(name, at)| (name.as_str(), *at)).collect();
        let expected =
            [("process-1", 90), ("root-mounted", 200), ("initrd-left", 300), ("unit:a.service", 500), ("end", 650)];
        assert_eq!(found, expected, "the later start, the failed unit and what is after the end are none");
    }

    #[test]
    fn a_boot_can_end_at_one() {
        let mut t = boot();
        let unit = t.milestones()[3];
        let process_1 = t.tracks.find(TrackKind::Thread, 1);
        t.end_at(unit);
        let end = t.end.unwrap();
        assert_eq!((end.at, end.track, end.evidence), (Ns(500), process_1, EndEvidence::Milestone(unit.kind)));
        assert_eq!(t.milestones().len(), 5, "the unit, and the end that it is now");
        t.end_at(t.milestones()[0]);
        let kinds: Vec<MilestoneKind> = t.milestones().iter().map(|milestone| milestone.kind).collect();
        assert_eq!(kinds, [MilestoneKind::Process1, MilestoneKind::End], "phases that begin later were not passed");
    }

    #[test]
    fn a_process_is_known_by_the_last_part_of_its_program() {
        let mut t = boot();
        let name = t.names.intern("/usr/sbin/nginx");
        for (pid, start) in [(9, 400), (8, 390)] {
            t.processes.push(Process { pid, parent: 1, depth: 0, name, start: Ns(start), end: None });
        }
        assert_eq!(t.process_named("nginx").map(|found| found.at), Some(Ns(390)));
        assert_eq!(t.process_named("nginx2"), None);
    }
}
