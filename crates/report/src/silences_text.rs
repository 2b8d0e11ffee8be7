//! The places of the CPUs while the console was silent: the time and functions of each silence, and the cost of the
//! stops. This is the text for a terminal; `silences_document` has the document.

use crate::paragraph::paragraph;
use crate::text::counted;
use crate::{Layout, SilenceLine, SilencesLine, SilentIn, SilentWhere, harmless};
use recording::Accel;
use std::fmt::Write;

/// The most silences that are printed, the longest first; the others are counted.
const SHOWN: usize = 5;
/// The most places that are printed per silence; the others are counted.
const MAX_PLACES: usize = 4;
/// The last stops that are printed for a CPU without a common place.
const MAX_MOMENTS: usize = 8;
/// The innermost functions that are printed for such a stop.
const MAX_CALLERS: usize = 5;
/// The innermost functions that are printed for a stack.
const MAX_FUNCTIONS: usize = 16;

/// The text for a terminal. `accelerator` is the accelerator that ran the guest.
pub(crate) fn silences(found: &SilencesLine, accelerator: &str, layout: Layout) -> String {
    let mut out = String::new();
    let after = layout.at(found.after_ns);
    if found.silences.is_empty() {
        paragraph(&format!("silence: the console was never silent for {after}"), "", layout, &mut out);
    } else {
        let title = format!("where the CPUs were while the console was silent for {after} or more");
        let _ = writeln!(out, "{}", layout.style.heading(&title));
    }
    let mut longest: Vec<&SilenceLine> = found.silences.iter().collect();
    longest.sort_by_key(|silence| std::cmp::Reverse(silence.end_ns - silence.start_ns));
    let (listed, others) = longest.split_at(longest.len().min(SHOWN));
    let mut listed = listed.to_vec();
    listed.sort_by_key(|silence| silence.start_ns);
    for silence in listed {
        one(silence, layout, &mut out);
    }
    if !others.is_empty() {
        let text = format!("{} not printed: see show --json", counted(others.len() as u64, "shorter silence"));
        paragraph(&text, "  ", layout, &mut out);
    }
    if found.stood_ns > 0 {
        let stops = found.silences.iter().map(|silence| silence.stops).sum();
        let cost = stood_still(found.stood_ns, stops, found.stood_in_total, accelerator, layout);
        paragraph(&cost, "cost: ", layout, &mut out);
    }
    for names in &found.names {
        paragraph(&harmless(names), "names: ", layout, &mut out);
    }
    for note in &found.notes {
        paragraph(&harmless(note), "note: ", layout, &mut out);
    }
    out
}

/// The cost of stopping the CPUs, in a sentence.
pub(crate) fn stood_still(stood_ns: i64, stops: u64, in_total: bool, accelerator: &str, layout: Layout) -> String {
    let (stood, stops) = (layout.at(stood_ns), counted(stops, "stop"));
    if in_total && accelerator == Accel::Tcg.as_str() {
        // The counter is fitted to the host's clock at process 1, or at the machine's start if that fits.
        format!(
            "the CPUs stood still for {stood} in {stops}; that is part of the total. The guest's counter stood too: where \
             phases rest on it, they have that time before the guest's first stamp or after its last one, not where the \
             stops were"
        )
    } else if in_total {
        format!("the CPUs stood still for {stood} in {stops}; that is part of the times above")
    } else {
        format!("the CPUs stood still for {stood} of the host's time in {stops}; the guest's clock stood too")
    }
}

fn one(silence: &SilenceLine, layout: Layout, out: &mut String) {
    let time = |ns| layout.at(ns);
    let (from, until, length) = (time(silence.start_ns), time(silence.end_ns), time(silence.end_ns - silence.start_ns));
    let stops = if silence.stops == 0 { "no stop was made".to_owned() } else { counted(silence.stops, "stop") };
    let text = format!("silent for {length}, from {from} to {until} of the host's time; {stops}");
    paragraph(&text, "  ", layout, out);
    for place in silence.wheres.iter().take(MAX_PLACES) {
        self::place(place, layout, out);
    }
    if silence.wheres.len() > MAX_PLACES {
        let left = (silence.wheres.len() - MAX_PLACES) as u64;
        paragraph(&format!("{} not printed: see show --json", counted(left, "more CPU")), "    ", layout, out);
    }
}

fn place(place: &SilentWhere, layout: Layout, out: &mut String) {
    let cpus: Vec<String> = place.cpus.iter().map(u64::to_string).collect();
    let cpus = format!("CPU {}", cpus.join(", "));
    let what = match place.ran {
        SilentIn::Boot => ": firmware, a loader, or other code at addresses that are no kernel's",
        SilentIn::User => ": in a process",
        SilentIn::Kernel if place.guessed => {
            ": callers are a guess, from the words on its stack that fit (no frame pointers)"
        }
        SilentIn::Kernel => "",
    };
    paragraph(&format!("{cpus}{what}"), "    ", layout, out);
    if place.ran != SilentIn::Kernel {
        return;
    }
    if place.stack.is_empty() {
        return moments(place, layout, out);
    }
    for entry in place.stack.iter().take(MAX_FUNCTIONS) {
        let count = format!("{} of {}", entry.stops, place.stops);
        paragraph(&harmless(&entry.name), &format!("      {count:>8}  "), layout, out);
    }
    if place.stack.len() > MAX_FUNCTIONS {
        let left = counted((place.stack.len() - MAX_FUNCTIONS) as u64, "more caller");
        paragraph(&left, "                ", layout, out);
    }
}

/// Writes a line for each of the last stops, because most stops have no function in common.
fn moments(place: &SilentWhere, layout: Layout, out: &mut String) {
    for moment in place.moments.iter().rev().take(MAX_MOMENTS).rev() {
        let callers: Vec<&str> = moment.stack.iter().take(MAX_CALLERS).map(String::as_str).collect();
        let more = if moment.stack.len() > MAX_CALLERS { " < …" } else { "" };
        let text = format!("{}{more}", callers.join(" < "));
        paragraph(&harmless(&text), &format!("      {:>8}  ", layout.at(moment.at_ns)), layout, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SilentEntry, SilentMoment};

    fn example() -> SilencesLine {
        let entry = |name: &str, stops| SilentEntry { name: name.to_owned(), stops };
        let at = SilentWhere {
            cpus: vec![0],
            stops: 6,
            ran: SilentIn::Kernel,
            guessed: false,
            moments: Vec::new(),
            stack: vec![entry("vmem_hash_delete", 5), entry("em_stop\u{1b}[2J", 6)],
        };
        let silence = SilenceLine {
            start_ns: 1_000_000_000,
            end_ns: 3_000_000_000,
            stops: 6,
            stood_ns: 12_000_000,
            wheres: vec![at],
        };
        SilencesLine {
            after_ns: 100_000_000,
            stood_ns: 12_000_000,
            stood_in_total: true,
            silences: vec![silence],
            names: vec!["lab: 9 of 9 calls".to_owned()],
            notes: vec!["there is no stop after 3 ms: gone".to_owned()],
        }
    }

    #[test]
    fn a_silence_says_where_and_at_what_cost() {
        let text = silences(&example(), "kvm", Layout { width: 80, ..Layout::default() });
        for line in [
            "where the CPUs were while the console was silent for 100 ms or more",
            "  silent for 2.00 s, from 1.00 s to 3.00 s of the host's time; 6 stops",
            "    CPU 0",
            "        5 of 6  vmem_hash_delete",
            "cost: the CPUs stood still for 12.0 ms in 6 stops; that is part of the times",
            "names: lab: 9 of 9 calls",
            "note: there is no stop after 3 ms: gone",
        ] {
            assert!(text.lines().any(|printed| printed.trim_end() == line), "{line:?} in\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text:?}");
        let unwrapped = |found: &SilencesLine| {
            let text = silences(found, "tcg", Layout::default());
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let text = unwrapped(&example());
        assert!(text.contains("part of the total. The guest's counter stood too"), "{text}");
        let guests = SilencesLine { stood_in_total: false, ..example() };
        assert!(unwrapped(&guests).contains("the guest's clock stood too"));
        let mut elsewhere = example();
        elsewhere.silences[0].wheres[0].stack.clear();
        let moment =
            |at_ns, innermost: &str| SilentMoment { at_ns, stack: vec![innermost.to_owned(), "main".to_owned()] };
        elsewhere.silences[0].wheres[0].moments = vec![moment(1_100_000_000, "a"), moment(1_200_000_000, "b")];
        let text = silences(&elsewhere, "kvm", Layout::default());
        assert!(text.contains("1.10 s  a < main\n") && text.contains("1.20 s  b < main\n"), "{text}");
        let mut unstopped = example();
        unstopped.silences[0] =
            SilenceLine { stops: 0, stood_ns: 0, wheres: Vec::new(), ..unstopped.silences[0].clone() };
        unstopped.stood_ns = 0;
        let text = silences(&unstopped, "kvm", Layout::default());
        assert!(text.contains("silent for 2.00 s") && text.contains("no stop was made\n"), "{text}");
        assert!(!text.contains("cost:") && !text.contains("never silent"), "{text}");
        let none = SilencesLine { after_ns: 100_000_000, ..SilencesLine::default() };
        assert!(silences(&none, "kvm", Layout::default()).contains("never silent for 100 ms"));
    }
}
