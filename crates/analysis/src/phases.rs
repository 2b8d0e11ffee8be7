//! The phases of the boot: from time zero to the end mark without gap or overlap.
//!
//! A phase starts at the time with the smallest error in the evidence, and lasts until the next one starts. Therefore
//! the lengths sum to the total to the nanosecond, whatever the evidence is. Time that no evidence covers is a phase
//! itself, [`timeline::Phase::Unexplained`].

use timeline::{Boundary, Ns, Timeline};

/// A phase of the boot.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// The kind of phase.
    pub what: timeline::Phase,
    pub name: String,
    /// Start: the end of the phase before.
    pub start: Ns,
    pub end: Ns,
    /// Maximum error of the start.
    pub error: Ns,
    /// The evidence for the start.
    pub evidence: String,
}

impl Phase {
    pub fn length(&self) -> Ns {
        self.end - self.start
    }
}

/// Returns all phases in order of time. Empty only if the total is zero.
pub fn phases(timeline: &Timeline) -> Vec<Phase> {
    let total = crate::total(timeline);
    let mut starts = best_boundaries(timeline);
    starts.retain(|b| b.at < total);
    for b in &mut starts {
        b.at = b.at.max(Ns::ZERO);
    }
    // If several start at one instant, the last one has the time.
    starts.sort_by_key(|b| b.at);
    let unexplained = timeline::Phase::Unexplained;
    let name = |what: timeline::Phase| what.name(&timeline.names).into_owned();
    let mut phases: Vec<Phase> = Vec::with_capacity(starts.len() + 1);
    if starts.first().is_none_or(|b| b.at > Ns::ZERO) && total > Ns::ZERO {
        let no_evidence = "no evidence reaches here".to_owned();
        phases.push(Phase {
            what: unexplained,
            name: name(unexplained),
            start: Ns::ZERO,
            end: total,
            error: Ns::ZERO,
            evidence: no_evidence,
        });
    }
    for b in starts {
        if let Some(before) = phases.last_mut() {
            before.end = b.at;
        }
        let (what, name, evidence) = (b.phase, name(b.phase), timeline.names.get(b.evidence).to_owned());
        phases.push(Phase { what, name, start: b.at, end: total, error: b.error, evidence });
    }
    phases.retain(|p| p.length() > Ns::ZERO);
    phases
}

/// Returns the boundary with the smallest error of each phase, the first of equals. Returns all boundaries of
/// unexplained time.
fn best_boundaries(timeline: &Timeline) -> Vec<Boundary> {
    let mut best: Vec<Boundary> = Vec::new();
    for &b in &timeline.boundaries {
        match best
            .iter_mut()
            .find(|best_so_far| best_so_far.phase == b.phase && b.phase != timeline::Phase::Unexplained)
        {
            Some(best_so_far) if b.error < best_so_far.error => *best_so_far = b,
            Some(_) => {}
            None => best.push(b),
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{End, TimeBase};

    fn boot(boundaries: &[(&str, i64, i64)], end: i64) -> Timeline {
        let mut t = Timeline::new(TimeBase::Host);
        for &(phase, at, error) in boundaries {
            let other = timeline::Phase::Other(t.names.intern(phase));
            let phase = if phase == "unexplained" { timeline::Phase::Unexplained } else { other };
            t.boundary(phase, Ns(at), Ns(error), "test");
        }
        let evidence = timeline::EndEvidence::LastSign;
        t.end = Some(End { at: Ns(end), error: Ns::ZERO, track: None, evidence });
        t
    }

    fn check(boundaries: &[(&str, i64, i64)], end: i64, expected: &[(&str, i64, i64)]) {
        let actual = phases(&boot(boundaries, end));
        let actual: Vec<_> = actual.iter().map(|p| (p.name.as_str(), p.start.0, p.end.0)).collect();
        assert_eq!(actual, expected);
        assert_eq!(actual.iter().map(|p| p.2 - p.1).sum::<i64>(), end);
    }

    #[test]
    fn phases_follow_each_other_and_sum_to_the_total() {
        check(
            &[("kernel", 500, 9), ("vmm", 0, 0), ("firmware", 100, 0)],
            900,
            &[("vmm", 0, 100), ("firmware", 100, 500), ("kernel", 500, 900)],
        );
    }

    #[test]
    fn the_sharper_evidence_wins() {
        check(&[("vmm", 0, 0), ("kernel", 500, 90), ("kernel", 520, 3)], 900, &[("vmm", 0, 520), ("kernel", 520, 900)]);
    }

    #[test]
    fn time_without_evidence_is_unexplained() {
        check(&[("kernel", 500, 0)], 900, &[("unexplained", 0, 500), ("kernel", 500, 900)]);
        check(&[], 900, &[("unexplained", 0, 900)]);
        check(
            &[("vmm", 0, 0), ("unexplained", 10, 0), ("kernel", 20, 0), ("unexplained", 30, 0)],
            40,
            &[("vmm", 0, 10), ("unexplained", 10, 20), ("kernel", 20, 30), ("unexplained", 30, 40)],
        );
    }

    #[test]
    fn evidence_outside_the_boot_is_cut() {
        check(&[("vmm", -50, 0), ("kernel", 500, 0), ("later", 950, 0)], 900, &[("vmm", 0, 500), ("kernel", 500, 900)]);
        check(&[("vmm", 0, 0)], 0, &[]);
    }
}
