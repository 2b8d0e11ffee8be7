//! A long delay, or a loop of short ones, while a driver looks for its device or sets it up.

use super::fixed_delays::{POLLS_ALREADY, WAITS_BLINDLY};
use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::{Need, Remedy, Seen};
use hashbrown::HashMap;
use timeline::{NameId, Ns, SpanId, SpanKind, SpanRow};

pub const DETECTOR: Detector = Detector {
    id: "long-delay",
    title: "a driver lets time pass while the boot waits for it",
    rule: "In a driver's probe or attach method, one function lets a long time pass: in one delay, or in many short ones between \
           which it looks at the device. The boot goes on with the next driver only then. Equal delays are another rule's.",
    source: "Percival 2018, Profiling the FreeBSD kernel boot: DEVICE_ATTACH ena 800 ms and nvme 250 ms, because attach is to fail \
             if the hardware cannot be initialized",
    threshold: "50 ms or more in the delays of one function",
    price: "the delays go; at the worst all stay, because the device takes as long",
    needs: &[Need::BootPath, Need::Functions],
    look,
};

const SHORTEST: Ns = Ns(50_000_000);
/// Delays with less than this part of their length between them are one stretch: a loop that looks whether something is over.
const MAX_WORK: f64 = 0.1;
const LEFT: Left = Left { most: 1.0, ..Left::NOTHING };

fn look(seen: &Seen) -> Vec<Draft> {
    let mut by_caller: HashMap<[NameId; 4], Loop> = HashMap::new();
    for (delay, caller) in seen.delays().filter(|(delay, _)| is_in_driver(seen, delay)) {
        let key = [caller.name, caller.detail, delay.name, delay.detail];
        by_caller.entry(key).or_default().add(seen.stretch(&delay));
    }
    let mut found: Vec<([NameId; 4], Loop)> = by_caller.into_iter().filter(|(_, all)| all.total >= SHORTEST).collect();
    found.sort_by_key(|(_, all)| all.stretches.first().map(|first| (first.track, first.from)));
    found.into_iter().map(|([name, detail, ..], all)| all.draft((name, detail))).collect()
}

/// True if the innermost step around a delay is a driver's probe or attach method.
fn is_in_driver(seen: &Seen, delay: &SpanRow) -> bool {
    let spans = &seen.timeline.spans;
    let open: Option<SpanId> = spans.open_at(delay.track, delay.start).0;
    let around = std::iter::successors(open, |&id| spans.parent(id)).map(|id| spans.get(id).kind);
    let step = around.into_iter().find(|kind| *kind != SpanKind::Call);
    matches!(step, Some(SpanKind::Probe | SpanKind::Attach))
}

/// The delays of one function.
#[derive(Default)]
struct Loop {
    stretches: Vec<Stretch>,
    delays: u64,
    total: Ns,
}

impl Loop {
    fn add(&mut self, delay: Stretch) {
        self.delays += 1;
        self.total += delay.length();
        let is_near = |last: &&mut Stretch| {
            last.track == delay.track && ((delay.from - last.to).0 as f64) < delay.length().0 as f64 * MAX_WORK
        };
        match self.stretches.last_mut().filter(is_near) {
            Some(last) => last.to = delay.to,
            None => self.stretches.push(delay),
        }
    }

    fn draft(self, about: (NameId, NameId)) -> Draft {
        let polls = self.delays > self.stretches.len() as u64;
        Draft {
            about,
            figures: vec![
                Figure { of: "delays", value: Value::Count(self.delays) },
                Figure { of: "in all", value: Value::Time(self.total) },
            ],
            parts: self.stretches.into_iter().map(|stretch| Part { stretch, left: LEFT }).collect(),
            confidence: Confidence::Medium,
            remedy: Remedy::code(if polls { POLLS_ALREADY } else { WAITS_BLINDLY }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Found;
    use crate::seen::testing::{Log, ms};

    fn boot(kind: SpanKind, inside: impl Fn(&mut Log)) -> Found {
        let mut log = Log::new();
        log.call("works", ms(500));
        log.step(kind, "DEVICE", "ahc0", |log| log.within("ahc_reset", &inside));
        log.call("works", ms(500));
        log.found_by(&[DETECTOR])
    }

    #[test]
    fn one_long_delay_of_a_driver_is_found_with_its_caller() {
        let found = boot(SpanKind::Probe, |log| log.call("DELAY", ms(1_570)));
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.rule.id, only.about.as_str()), ("long-delay", "ahc_reset"));
        assert_eq!((only.price.low, only.price.likely), (ms(0), ms(1_570)));
        assert_eq!(only.remedy.what, WAITS_BLINDLY);
        assert!(boot(SpanKind::Initcall, |log| log.call("DELAY", ms(1_570))).findings.is_empty(), "no driver's");
        assert!(boot(SpanKind::Probe, |log| log.call("DELAY", ms(40))).findings.is_empty());
    }

    #[test]
    fn a_loop_that_looks_is_not_told_to_look() {
        let polls = |log: &mut Log| {
            for _ in 0..2_000 {
                log.call("DELAY", Ns::from_us(50));
                log.call("reads_the_device", Ns(500));
            }
        };
        let found = boot(SpanKind::Attach, polls);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.figures[0].value, only.evidence_count), (Value::Count(2_000), 1));
        assert_eq!((only.remedy.what, only.price.low), (POLLS_ALREADY, ms(0)));
    }
}
