//! Keys of encrypted disks that are derived from a passphrase.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::{Need, Remedy, Seen};
use timeline::{NameId, Ns, SpanKind};

pub const DETECTOR: Detector = Detector {
    id: "key-derivation",
    title: "keys of encrypted disks are derived from a passphrase",
    rule: "Deriving a key from a passphrase is slow by design, so that guessing is slow too. Two disks with one passphrase need one \
           derivation if they have the same salt; with two salts the boot does the work twice. The log shows the derivations, \
           and not whether their passphrase is the same. One derivation takes as long as its number of iterations says.",
    source: "Percival 2018, Profiling the FreeBSD kernel boot: THREAD g_event, 2600 ms for two disks; geli(8): without -i, geli \
             chooses as many iterations as take two seconds on the machine that sets the key up",
    threshold: "5 ms or more, and half a per cent of the boot",
    price: "of several derivations the longest stays, and of one most likely half; at the worst all stay",
    needs: &[Need::BootPath],
    look,
};

const SHORTEST: Ns = Ns(5_000_000);
const MIN_SHARE: f64 = 0.005;
/// FreeBSD's function, and the reference kernel's.
const FUNCTIONS: &[&str] = &["pkcs5v2_genkey", "geli_unlock"];

fn look(seen: &Seen) -> Vec<Draft> {
    let calls = seen.stretches(SpanKind::Call, FUNCTIONS);
    draft(seen, &calls).into_iter().collect()
}

fn draft(seen: &Seen, calls: &[Stretch]) -> Option<Draft> {
    let total: Ns = calls.iter().map(Stretch::length).sum();
    if total < SHORTEST || (total.0 as f64) < seen.end.0 as f64 * MIN_SHARE {
        return None;
    }
    let longest = calls.iter().max_by_key(|call| call.length())?;
    let is_one = calls.len() == 1;
    let left = |call: &Stretch| match (is_one, call == longest) {
        (true, _) => Left::of(0.0, 0.5, 1.0),
        (false, true) => Left::ALL,
        (false, false) => Left { most: 1.0, ..Left::NOTHING },
    };
    const ONE: &str = "set the key with fewer iterations (geli setkey -i): half of them take half the time, and a guess is then half as \
                       dear; or use a key file without a passphrase";
    const SEVERAL: &str = "if the disks have one passphrase, give them one salt, and change the code to keep the derived key for the next \
                           disk; or open the others with a key file that lies on the first (geli setkey -P -K)";
    Some(Draft {
        about: (seen.timeline.tracks.get(longest.track).name, NameId::EMPTY),
        figures: vec![
            Figure { of: "derivations", value: Value::Count(calls.len() as u64) },
            Figure { of: "in all", value: Value::Time(total) },
        ],
        parts: calls.iter().map(|call| Part { stretch: *call, left: left(call) }).collect(),
        confidence: Confidence::Medium,
        remedy: Remedy::code(if is_one { ONE } else { SEVERAL }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Found;
    use crate::seen::testing::{Log, ms};

    fn boot(lengths: &[i64]) -> Found {
        let mut log = Log::new();
        log.call("works", ms(500));
        lengths.iter().for_each(|&length| log.call("pkcs5v2_genkey", ms(length)));
        log.call("works", ms(500));
        log.found_by(&[DETECTOR])
    }

    #[test]
    fn the_second_derivation_is_one_too_many() {
        let found = boot(&[1_290, 1_310]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.rule.id, only.about.as_str()), ("key-derivation", "thread0"));
        assert_eq!((only.price.low, only.price.likely, only.price.high), (ms(0), ms(1_290), ms(1_290)));
        assert_eq!(only.figures[0].value, Value::Count(2));
    }

    #[test]
    fn one_derivation_has_a_number_of_iterations() {
        let found = boot(&[2_000]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.price.low, only.price.likely), (ms(0), ms(1_000)));
        assert!(only.remedy.what.contains("geli setkey -i"));
        assert!(boot(&[4]).findings.is_empty());
    }
}
