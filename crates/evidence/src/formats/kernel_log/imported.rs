//! A log taken elsewhere: it can hold several boots, lack its beginning, and have stamps that are not of one clock.

use super::{BEGINNING_MAX, Line, Reader};
use crate::formats::linux_words::user_space;
use crate::formats::several_boots::boot_number;
use crate::formats::{linux_words, other_kernels};
use std::ops::Range;
use timeline::{DiagnosticKind, Ns};

/// A stamp is stray if it is ahead of the next one by more than this.
const STRAY_MIN: Ns = Ns::from_ms(100);
/// This number of stray lines may follow each other.
const STRAYS_MAX: usize = 8;
/// Words of the message with which Linux starts another kernel by kexec.
const STARTS_ANOTHER: &str = "Starting new kernel";

/// Beginnings of the message with which Linux starts to suspend or to hibernate.
const SUSPENDS: [&str; 5] = [
    "PM: suspend entry",
    "PM: hibernation: hibernation entry",
    "PM: hibernation entry",
    "PM: Syncing filesystems",
    "PM: Preparing system for ",
];

/// True if a stamp is a whole number of ticks of a clock that counts timer interrupts, as printk cuts it to
/// microseconds.
fn is_whole_ticks(stamp: Ns) -> bool {
    const HZ: [i128; 4] = [100, 250, 300, 1000];
    let us = i128::from(stamp.0 / 1000);
    HZ.iter().any(|hz| (us * hz + 999_999) / 1_000_000 * 1_000_000 / hz == us)
}

impl Reader<'_> {
    /// Keeps one of several boots: that with this number, where 0 is the last and -1 the one before; by default the last one that reached
    /// process 1. Boots that started the last one by kexec stay with it. A log with its newest line first is one boot.
    pub(super) fn keep_boot(&mut self, chosen: Option<i32>) {
        if self.is_newest_first() {
            return;
        }
        let starts = self.starts();
        let [.., last] = starts[..] else { return };
        if starts.len() == 1 && chosen.is_none_or(|boot| boot == 0) {
            return;
        }
        if chosen.is_none() && self.joins_kexec(last) {
            return;
        }
        let number = chosen.map_or_else(|| self.last_whole(&starts), |boot| boot.unsigned_abs() as usize);
        if number >= starts.len() {
            let about = boot_number(number);
            return self.diagnostics.note_about(DiagnosticKind::LogBootMissing, &about, || self.file.to_owned());
        }
        let end = |place: usize| starts.get(place + 1).copied().unwrap_or(self.log.lines.len());
        for place in (0..starts.len()).filter(|place| starts.len() - 1 - place != number) {
            let lines = &self.log.lines[starts[place]..end(place)];
            let [first, .., last] = [lines.first(), lines.last()].map(|line| line.map_or(0, |line| line.number));
            let about = format!("boot {}, lines {first} to {last}", boot_number(starts.len() - 1 - place));
            let (about, count) = (about.as_str(), lines.len() as u64);
            let place = || format!("{}:{first}", self.file);
            self.diagnostics.add(DiagnosticKind::LogOtherBoot, about, count, None, place);
        }
        let place = starts.len() - 1 - number;
        self.keep_lines(starts[place]..end(place));
    }

    /// The places of the first lines of all boots. A boot begins behind the last stamp that is later than its banner's: a kernel may
    /// say a little before its banner, and firmware lines have no stamp.
    fn starts(&self) -> Vec<usize> {
        let (mut starts, mut earlier) = (vec![0], 0);
        for &banner in &self.banners {
            let lines = &self.log.lines[earlier..banner];
            let began = self.log.lines[banner].stamp.unwrap_or_default();
            let later = lines.iter().rposition(|line| line.stamp.is_some_and(|stamp| stamp > began));
            let is_first = Some(&banner) == self.banners.first();
            let begin = match later {
                Some(at) => earlier + at + 1,
                None if is_first => 0,
                _ => banner,
            };
            starts.extend((begin > 0).then_some(begin));
            earlier = banner;
        }
        starts
    }

    /// True if the boot that begins at that line was started by kexec, and a logger stamped both: they are one sequence on its clock.
    fn joins_kexec(&mut self, begin: usize) -> bool {
        let lines = &mut self.log.lines;
        let is_kexec = lines[..begin].iter().any(|line| self.log.text[line.text_range()].contains(STARTS_ANOTHER));
        if !is_kexec || !lines[begin..].iter().any(|line| line.host_stamp.is_some()) {
            return false;
        }
        self.log.earlier = lines[..begin].last().map(|line| line.number);
        lines[..begin].iter_mut().for_each(|line| (line.stamp, line.before_clock) = (None, false));
        true
    }

    /// The number of boots behind the last one that has its beginning and reached process 1; 0 if no boot did.
    fn last_whole(&self, starts: &[usize]) -> usize {
        let reaches = |line: &Line| {
            let text = self.log.text(line);
            user_space::frees_init(text)
                || user_space::is_of_a_program(text)
                || user_space::greets(text)
                || other_kernels::starts_process_1(text)
        };
        let mut end = self.log.lines.len();
        for (number, &start) in starts.iter().rev().enumerate() {
            let banner = self.banners.get(self.banners.partition_point(|banner| *banner < start));
            let has_banner = banner.is_some_and(|banner| *banner < end);
            if has_banner && self.log.lines[start..end].iter().any(reaches) {
                return number;
            }
            end = start;
        }
        0
    }

    fn keep_lines(&mut self, kept: Range<usize>) {
        let lines = &mut self.log.lines;
        lines.truncate(kept.end);
        lines.drain(..kept.start);
        // A logger's clock begins with the boot, too.
        let began = lines.iter().find_map(|line| line.host_stamp).filter(|_| kept.start > 0).unwrap_or_default();
        lines.iter_mut().for_each(|line| line.host_stamp = line.host_stamp.map(|stamp| stamp - began));
        let text = lines.first().map_or(0, |line| line.text.start);
        let end = lines.last().map_or(0, |line| line.text.end);
        self.log.text.truncate(end as usize);
        self.log.text.drain(..text as usize);
        for line in lines {
            line.text = line.text.start.saturating_sub(text)..line.text.end.saturating_sub(text);
        }
        self.banners.retain(|banner| kept.contains(banner));
        let stamp = |line: &Line| line.stamp.or(line.before_clock.then_some(Ns::ZERO));
        self.first_stamp = self.first_stamp.and(self.log.lines.iter().find_map(stamp));
    }

    /// Drops the stamps of a daemon that read the messages from the kernel's buffer, where the kernel has stamped them: the daemon may
    /// have read those of many seconds at once.
    pub(super) fn drop_times_of_reading(&mut self) {
        if self.is_from_daemon && self.log.lines.iter().any(|line| line.stamp.is_some()) {
            self.log.lines.iter_mut().for_each(|line| line.host_stamp = None);
        }
    }

    /// True if stamps go down more often than up, and the banner comes last.
    pub(super) fn is_newest_first(&self) -> bool {
        if self.banners.last() != self.log.lines.len().checked_sub(1).as_ref() {
            return false;
        }
        let stamps = || self.log.lines.iter().filter_map(|line| line.stamp);
        let steps = stamps().zip(stamps().skip(1));
        let (up, down) =
            steps.fold((0, 0), |(up, down): (u64, u64), (a, b)| (up + u64::from(b > a), down + u64::from(b < a)));
        down > up
    }

    /// Leaves out what follows a suspend: no part of the boot.
    pub(super) fn cut_at_suspend(&mut self) {
        let log = &self.log;
        let place = log.lines.iter().position(|line| SUSPENDS.iter().any(|words| log.text(line).starts_with(words)));
        let Some(place) = place.filter(|_| !self.banners.is_empty()) else { return };
        let lines = &log.lines[place..];
        let number = |line: Option<&Line>| line.map_or(0, |line| line.number);
        let about = format!("lines {} to {}", number(lines.first()), number(lines.last()));
        let (about, count, first) = (about.as_str(), lines.len() as u64, number(lines.first()));
        let place_in_file = || format!("{}:{first}", self.file);
        self.diagnostics.add(DiagnosticKind::LogSuspended, about, count, None, place_in_file);
        self.keep_lines(0..place);
    }

    pub(super) fn note_missing_beginning(&mut self) {
        if self.banners.is_empty() && self.first_stamp.is_some_and(|first| first >= BEGINNING_MAX) {
            self.diagnostics.note(DiagnosticKind::LogBeginningMissing, || self.file.to_owned());
        }
    }

    /// A stamp earlier than the one before it: two CPUs' clocks, two boots in one file, or lines out of order.
    ///
    /// The first step back in a boot is not counted if all stamps before it are whole ticks: until the kernel has found its
    /// counter, its clock counts timer interrupts, and then it begins anew.
    pub(super) fn note_steps_back(&mut self) {
        let mut before = Ns(i64::MIN);
        let mut counted_ticks = true;
        for (stamp, number) in self.log.lines.iter().filter_map(|line| Some((line.stamp?, line.number))) {
            let clock_found = counted_ticks && stamp < before && !is_whole_ticks(stamp);
            counted_ticks &= is_whole_ticks(stamp);
            if stamp < before && !clock_found {
                self.diagnostics.note(DiagnosticKind::LogClockBack, || format!("{}:{number}", self.file));
            }
            before = stamp;
        }
    }

    /// Takes the stamps off lines that lie far ahead of all that follows, though what stands before them does not: a digit too
    /// many, or a line of another log. Such a stamp is that line's fault, not the boot's length.
    pub(super) fn unstamp_strays(&mut self) {
        let stamped: Vec<(usize, Ns)> =
            self.log.lines.iter().enumerate().filter_map(|(at, line)| Some((at, line.stamp?))).collect();
        let mut place = 1;
        while place < stamped.len() {
            let before = stamped[place - 1].1;
            let far = |stamp: Ns, next: Ns| stamp - next > STRAY_MIN;
            // The lines from here on that are ahead of the one after them.
            let strays = (1..=STRAYS_MAX).find(|count| {
                let Some(&(_, next)) = stamped.get(place + count) else { return false };
                before <= next && stamped[place..place + count].iter().all(|&(_, stamp)| far(stamp, next))
            });
            // A boot that follows in the same log begins anew and goes on: there nothing stands before it.
            let Some(count) = strays else {
                place += 1;
                continue;
            };
            for &(at, _) in &stamped[place..place + count] {
                let line = &mut self.log.lines[at];
                line.stamp = None;
                let number = line.number;
                self.diagnostics.note(DiagnosticKind::LogClockBack, || format!("{}:{number}", self.file));
            }
            place += count + 1;
        }
    }

    /// Moves the stamps of a kernel whose clock does not begin with 0, so that it does.
    pub(super) fn count_from_zero(&mut self) {
        let log = &mut self.log;
        let zero = log.lines.iter().find_map(|line| other_kernels::clock_zero(log.text(line))).unwrap_or_default();
        let first = log.lines.iter().find_map(|line| line.stamp);
        if zero == Ns::ZERO || first != Some(zero) {
            return;
        }
        for line in &mut log.lines {
            let stamp = line.stamp.map(|stamp| stamp - zero);
            line.before_clock |= stamp == Some(Ns::ZERO);
            line.stamp = stamp.filter(|stamp| *stamp > Ns::ZERO);
        }
    }

    /// Joins the two counts of a kernel that stamps its first messages from a counter which began at power-on, and the others from
    /// a clock that begins with 0 later: the second count goes on where the first ended.
    pub(super) fn join_counters(&mut self) {
        let log = &mut self.log;
        let stamped = || log.lines.iter().enumerate().filter_map(|(at, line)| Some((at, line.stamp?)));
        let Some((first, began)) = stamped().next() else { return };
        if began < BEGINNING_MAX || !linux_words::is_first_message(log.text(&log.lines[first])) {
            return;
        }
        let mut steps = stamped().zip(stamped().skip(1)).filter(|((_, a), (_, b))| *b < began && *a >= began);
        let (Some(((_, last), (at, anew))), None) = (steps.next(), steps.next()) else { return };
        let more = last - anew;
        log.lines[at..].iter_mut().for_each(|line| line.stamp = line.stamp.map(|stamp| stamp + more));
    }
}
