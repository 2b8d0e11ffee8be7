//! The time between one message of the kernel and the next, where no other evidence covers it.
//!
//! A kernel prints before it waits, or right after. So the gap behind a message is a row of the boot path, named by the message.
//! It must not take time from evidence that says more: spans, a trace of the scheduler, or calls. The time behind several messages
//! from before the kernel's clock ran is no row: any of them may have taken it. The last of them has it if it says that the kernel
//! measures a clock, or, with words that say so, if the clock jumps by seconds. Where stamps are coarse, a gap of one step of the clock is no row.

use crate::boot::Placing;
use crate::formats::other_kernels;
use hashbrown::{HashMap, HashSet};
use timeline::{Mark, NameId, Ns, Phase, SpanKind, SpanRow, Timeline, TrackId, TrackKind};

/// A gap shorter than this part of the boot is added to the other gaps of its origin.
const SHORT_SHARE: i64 = 200;
/// An origin is the first word of a message, up to this many bytes.
const MAX_ORIGIN_BYTES: usize = 24;
/// The end of the name of the row of several messages from before the kernel's clock ran.
const CLOCK_STOOD: &str = "(or an earlier line at 0)";
/// The shortest such row.
const JUMP_MIN: Ns = Ns::from_ms(1000);

/// Places the gaps as spans on the thread that the boot path goes through.
pub(crate) fn place(boot: &mut Placing<'_>) {
    let init = boot.init();
    let first = boot.first_thread();
    let stood_at = boot.clock_stood_at;
    // A recorder of a whole boot goes on to its end.
    let (resolution, is_whole) = (boot.stamp_resolution, !boot.is_imported() || *boot.is_heard);
    let timeline = &mut boot.timeline;
    if !timeline.running.is_empty() || timeline.cpus_followed_until.is_some() {
        return;
    }
    let Some(end) = timeline.end.map(|end| end.at) else { return };
    let created = timeline.tracks.get(init).created.map_or(Ns::MIN, |(at, _)| at);
    let mut covered = covered(timeline, &[first, init]);
    let elided = elided(timeline);
    let messages = messages(timeline, end);
    let begin = messages.first().map_or(end, |message| message.0);
    let short = Ns((end - begin).0 / SHORT_SHARE);
    // A log that was taken elsewhere may end before the boot does: the time behind its last line is not known to be silence.
    let goes_on = |mark: &Mark| mark.at >= end && timeline.tracks.get(mark.track).kind == TrackKind::Console;
    let last = (is_whole || timeline.marks.iter().any(goes_on)).then_some(end);
    let ends = messages.iter().skip(1).map(|next| next.0).chain(last);
    let handed_over = timeline.boundaries.iter().filter(|boundary| is_of_user_space(boundary.phase)).map(|b| b.at);
    let handed_over: Vec<Ns> = handed_over.collect();
    // A message of the kernel says nothing of the time after the kernel handed over.
    let before_user_space = |from: Ns, until: Ns| {
        let inside = handed_over.iter().filter(|at| (from..until).contains(at) && **at > from);
        inside.min().copied().unwrap_or(until)
    };
    let gaps: Vec<(Ns, Ns, NameId)> = messages
        .iter()
        .zip(ends)
        .map(|(&(at, name), until)| (at, before_user_space(at, until), name))
        .filter(|gap| gap.0 < gap.1 && !elided.contains(&gap.1))
        // The clock may have stepped on between two lines that follow at once. Short ones count as samples of their origins.
        .filter(|gap| gap.1 - gap.0 > resolution || gap.1 - gap.0 < short)
        .collect();
    let mut times: HashMap<NameId, u32> = HashMap::new();
    for (from, to, message) in gaps {
        let stood = Some(from) == stood_at && !other_kernels::measures_a_clock(timeline.names.get(message));
        let is_short = to - from < short;
        if stood && (is_short || to - from < JUMP_MIN) {
            continue;
        }
        let name = if is_short { origin(timeline, message) } else { message };
        // A row names one place: the second long gap behind a line with the same text is another row.
        let number = times.entry(name).or_default();
        *number += u32::from(!is_short);
        let ending = match (stood, *number) {
            (true, _) => Some(CLOCK_STOOD.to_owned()),
            (false, 0 | 1) => None,
            (false, number) => Some(format!("(time {number})")),
        };
        let named = ending.map(|ending| format!("{} {ending}", timeline.names.get(name)));
        let name = named.map_or(name, |named| timeline.names.intern(&named));
        for (start, end) in covered.free(from, to) {
            // The first thread becomes process 1's, or the idle one.
            for (start, end, track) in [(start, end.min(created), first), (start.max(created), end, init)] {
                if start < end {
                    let (detail, kind) = (NameId::EMPTY, SpanKind::Message);
                    timeline.spans.push(SpanRow { name, detail, start, end, track, kind }, None);
                }
            }
        }
    }
}

/// True for the phases that begin as the kernel hands over to a program.
fn is_of_user_space(phase: Phase) -> bool {
    matches!(phase, Phase::Process1 | Phase::Initrd | Phase::UserSpace)
}

/// The ends of gaps in which the writer of a paste left lines out, and says so by a line such as `...` or `[snip]`.
fn elided(timeline: &Timeline) -> HashSet<Ns> {
    let unplaced = timeline.unplaced.iter().filter(|message| is_elision(timeline.names.get(message.name)));
    unplaced.filter_map(|message| message.before).collect()
}

/// True if a line stands for lines that were left out.
fn is_elision(line: &str) -> bool {
    const WORDS: [&str; 6] = ["snip", "snipped", "cut", "skipped", "omitted", "trimmed"];
    let inside = line.trim_matches(|c: char| c.is_whitespace() || "<>[](){}-=*#".contains(c));
    let is_dots = inside.chars().all(|c| c == '.' || c == '…') && (inside.contains('…') || inside.len() >= 2);
    is_dots || WORDS.iter().any(|word| inside.eq_ignore_ascii_case(word))
}

/// The messages of the kernel before the end mark, in order of time.
fn messages(timeline: &Timeline, end: Ns) -> Vec<(Ns, NameId)> {
    let is_console = |track: TrackId| timeline.tracks.get(track).kind == TrackKind::Console;
    let is_blank = |name: NameId| timeline.names.get(name).trim().is_empty();
    let marks = timeline.marks.iter().filter(|mark| mark.at < end && is_console(mark.track) && !is_blank(mark.name));
    let mut messages: Vec<(Ns, NameId)> = marks.map(|mark| (mark.at, mark.name)).collect();
    messages.sort_by_key(|message| message.0);
    messages
}

/// The name for short gaps behind messages of one origin: a driver or a subsystem, which begins its messages with its name.
fn origin(timeline: &mut Timeline, message: NameId) -> NameId {
    let text = timeline.names.get(message).trim_start_matches(['[', ' ', '<']);
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).unwrap_or(text.len());
    let Some(word) = text.get(..end.min(MAX_ORIGIN_BYTES)).filter(|word| !word.is_empty()) else { return message };
    let name = format!("{word} *");
    timeline.names.intern(&name)
}

/// Stretches that spans cover, in order and without overlaps.
struct Covered {
    stretches: Vec<(Ns, Ns)>,
    next: usize,
}

/// The stretches that spans of these threads cover. A level of initcalls says no more than its phase.
fn covered(timeline: &Timeline, threads: &[TrackId]) -> Covered {
    let spans = timeline.spans.iter().map(|(_, span)| span);
    let spans = spans.filter(|span| span.kind != SpanKind::Level && threads.contains(&span.track));
    let mut all: Vec<(Ns, Ns)> = spans.map(|span| (span.start, span.end)).collect();
    all.sort_unstable();
    let mut stretches: Vec<(Ns, Ns)> = Vec::new();
    for (start, end) in all {
        match stretches.last_mut().filter(|last| start <= last.1) {
            Some(last) => last.1 = last.1.max(end),
            None => stretches.push((start, end)),
        }
    }
    Covered { stretches, next: 0 }
}

impl Covered {
    /// The parts of a stretch that nothing covers. Stretches are given in order of time.
    fn free(&mut self, from: Ns, to: Ns) -> Vec<(Ns, Ns)> {
        let (mut free, mut at) = (Vec::new(), from);
        while let Some(&(start, end)) = self.stretches.get(self.next) {
            if end <= at {
                self.next += 1;
                continue;
            }
            if start >= to {
                break;
            }
            if start > at {
                free.push((at, start));
            }
            at = end;
            if end >= to {
                break;
            }
            self.next += 1;
        }
        if at < to {
            free.push((at, to));
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nothing_covers_is_free() {
        let mut covered = Covered { stretches: vec![(Ns(10), Ns(20)), (Ns(30), Ns(60))], next: 0 };
        assert_eq!(covered.free(Ns(0), Ns(5)), [(Ns(0), Ns(5))]);
        assert_eq!(covered.free(Ns(5), Ns(35)), [(Ns(5), Ns(10)), (Ns(20), Ns(30))]);
        assert_eq!(covered.free(Ns(35), Ns(40)), []);
        assert_eq!(covered.free(Ns(40), Ns(70)), [(Ns(60), Ns(70))]);
    }

    #[test]
    fn lines_that_were_left_out_are_said_to_be() {
        for line in ["...", "[...]", " … ", "<snip>", "--- cut ---", "(omitted)", "....."] {
            assert!(is_elision(line), "{line}");
        }
        for line in [".", "", "----", "done...", "cut the wire", "[ OK ]"] {
            assert!(!is_elision(line), "{line}");
        }
    }

    #[test]
    fn an_origin_is_the_first_word() {
        let mut timeline = Timeline::new(timeline::TimeBase::Evidence);
        for (message, expected) in [
            ("pci 0000:00:1f.2: [8086:2922] type 00", "pci *"),
            ("[drm] Initialized", "drm *"),
            ("ata1.00: ATA-7: QEMU", "ata1 *"),
            ("systemd[1]: Hostname set", "systemd *"),
            ("…", "…"),
        ] {
            let name = timeline.names.intern(message);
            let found = origin(&mut timeline, name);
            assert_eq!(timeline.names.get(found), expected, "{message}");
        }
    }
}
