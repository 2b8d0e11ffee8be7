//! Hand-made logs with one event in each line: time (ns), thread, event.

use std::collections::HashMap;
use timeline::{
    End, EndEvidence, Hold, NameId, Ns, SpanBuilder, SpanKind, TimeBase, Timeline, TrackId, TrackKind, Wait, WaitedOn,
};

/// Returns the log as a timeline. Events: `enter F`, `exit F`, `wait T`, `unwait T`, `hold T`, `release T`, `created`,
/// `end`. A function may have a detail (`SYSINIT/cpu`), a thread a creator (`created main`).
pub fn log(text: &str) -> Timeline {
    let mut t = Timeline::new(TimeBase::Evidence);
    let mut spans = SpanBuilder::default();
    let mut held: HashMap<(TrackId, NameId), Vec<Ns>> = HashMap::new();
    let mut waits: HashMap<(TrackId, NameId), Ns> = HashMap::new();
    let mut last = Ns::ZERO;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = Ns(words[0].parse().unwrap());
        last = at;
        let name = t.names.intern(words[1]);
        let track = t.tracks.named(name, TrackKind::Thread);
        let (name, detail) = words.get(3).map_or(("", ""), |what| what.split_once('/').unwrap_or((what, "")));
        let (what, detail) = (t.names.intern(name), t.names.intern(detail));
        let kind = match name {
            "SYSINIT" => SpanKind::Initcall,
            "DEVICE_PROBE" => SpanKind::Probe,
            "DEVICE_ATTACH" => SpanKind::Attach,
            "VFS_MOUNT" => SpanKind::Mount,
            _ => SpanKind::Call,
        };
        let key = (track, what);
        let wait = |from, until| Wait {
            track,
            from,
            woken: until,
            until,
            by: WaitedOn::Holders(what),
            uninterruptible: false,
        };
        match words[2] {
            "enter" => {
                let row = SpanBuilder::row(track, kind, what, detail, at);
                spans.begin(&mut t.spans, row, &mut t.diagnostics, String::new);
            }
            "exit" => {
                spans.end(&mut t.spans, track, (what, detail), at, &mut t.diagnostics, |_| String::new());
            }
            "wait" => drop(waits.insert(key, at)),
            "unwait" => t.waits.push(wait(waits.remove(&key).unwrap(), at)),
            "hold" => held.entry(key).or_default().push(at),
            "release" => {
                let from = held.get_mut(&key).and_then(Vec::pop).unwrap_or(Ns::MIN);
                t.holds.push(Hold { topic: what, track, from, to: at });
            }
            "created" => {
                // A log that does not name the creator is represented by the thread creating itself.
                let by = if words.len() > 3 { t.tracks.named(what, TrackKind::Thread) } else { track };
                t.tracks.get_mut(track).created = Some((at, by));
            }
            "end" => t.end = Some(End { at, error: Ns::ZERO, track: Some(track), evidence: EndEvidence::LastSign }),
            other => panic!("{other}?"),
        }
    }
    for ((track, topic), since) in held {
        t.holds.extend(since.iter().map(|&from| Hold { topic, track, from, to: Ns::MAX }));
    }
    for ((track, topic), from) in waits {
        t.waits.push(Wait {
            track,
            from,
            woken: Ns::MAX,
            until: Ns::MAX,
            by: WaitedOn::Holders(topic),
            uninterruptible: false,
        });
    }
    spans.finish(&mut t.spans, last, &mut t.diagnostics);
    t.finalize(Ns::ZERO);
    t
}
