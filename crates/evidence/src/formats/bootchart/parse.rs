//! Recognises a boot chart's files by their first lines, and reads their lines.

use crate::input::text::{Lines, number, whole_number, word};
use timeline::Ns;

/// A hundredth of a second, the unit of `/proc/uptime`'s digits and of `/proc/PID/stat`.
pub(crate) const TICK: Ns = Ns::from_ms(10);

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Describes the machine.
    Header,
    /// Samples of `/proc/PID/stat`.
    Processes,
    /// Samples of taskstats.
    Taskstats,
    /// systemd-bootchart's picture.
    Picture,
    /// A known file that is not shown; its description.
    Unused(&'static str),
}

/// A process in a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row<'a> {
    pub pid: u64,
    pub parent: u64,
    pub name: &'a [u8],
    /// CPU time since the process began.
    pub cpu: Ns,
    /// Time spent waiting for a disk or for swap since the process began, if known.
    pub disk: Option<Ns>,
    /// True if the process waits for a disk at the time of the sample.
    pub is_blocked: bool,
    /// Time on the kernel's clock at which the process began, if known.
    pub began: Option<Ns>,
}

/// The kind of a file; `None` if it is not part of a boot chart.
pub(crate) fn part(bytes: &[u8]) -> Option<Part> {
    /// A header has six lines; the version can take more than one line.
    const LOOKED_AT: usize = 8;
    let lines = || Lines::new(bytes).map(|line| line.bytes);
    if is_picture(bytes) {
        return Some(Part::Picture);
    }
    if bytes.starts_with(b"version = ") {
        let title = lines().take(LOOKED_AT).any(|line| line.starts_with(b"title = Boot chart for "));
        return title.then_some(Part::Header);
    }
    let first = lines().next()?;
    whole_number(first)?;
    let second = lines().nth(1)?;
    if from_stat(second).is_some() {
        return Some(Part::Processes);
    }
    if from_taskstats(second).is_some() {
        return Some(Part::Taskstats);
    }
    if second.starts_with(b"cpu  ") {
        return Some(Part::Unused("boot chart (CPUs)"));
    }
    if second.starts_with(b"MemTotal:") {
        return Some(Part::Unused("boot chart (memory)"));
    }
    if second.starts_with(b":") && lines().nth(2).is_some_and(|third| third.starts_with(b":")) {
        return Some(Part::Unused("boot chart (command lines)"));
    }
    if is_disk(second) || second.is_empty() && only_times(bytes) {
        return Some(Part::Unused("boot chart (disks)"));
    }
    None
}

/// True if a file is a picture that systemd-bootchart drew.
pub(super) fn is_picture(bytes: &[u8]) -> bool {
    /// A text in the first lines of such a picture.
    const SAYS: &[u8] = b"<!-- This file is a bootchart SVG file.";
    const LOOKED_AT: usize = 1024;
    bytes.starts_with(b"<?xml") && memchr::memmem::find(&bytes[..bytes.len().min(LOOKED_AT)], SAYS).is_some()
}

/// `   8       0 sda 1234 …`: `/proc/diskstats` has at least eleven counters.
fn is_disk(line: &[u8]) -> bool {
    let mut words = words(line);
    let device = [words.next(), words.next()].into_iter().all(|word| word.is_some_and(|w| whole_number(w).is_some()));
    device && words.next().is_some() && words.filter(|word| whole_number(word).is_some()).count() >= 11
}

/// Samples of a machine without a disk: only times, each followed by an empty line.
fn only_times(bytes: &[u8]) -> bool {
    let mut times = 0u32;
    for (place, line) in Lines::new(bytes).enumerate() {
        match place % 2 {
            0 if whole_number(line.bytes).is_some() => times = times.saturating_add(1),
            1 if line.bytes.is_empty() => {}
            _ => return false,
        }
    }
    times > 1
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// A sample's time.
pub(super) fn time(line: &[u8]) -> Option<Ns> {
    ticks(whole_number(line.trim_ascii_end())?)
}

fn ticks(count: u64) -> Option<Ns> {
    i64::try_from(count).ok()?.checked_mul(TICK.0).map(Ns)
}

fn ns(count: u64) -> Option<Ns> {
    i64::try_from(count).ok().map(Ns)
}

/// A line of `/proc/PID/stat`. A name may have brackets and spaces: it ends at the last bracket.
pub(super) fn from_stat(line: &[u8]) -> Option<Row<'_>> {
    let (pid, rest) = number(line)?;
    let rest = rest.strip_prefix(b" (")?;
    let end = memchr::memrchr(b')', rest)?;
    let (name, rest) = (&rest[..end], rest[end + 1..].strip_prefix(b" ")?);
    let (state, rest) = word(rest);
    // Fields are numbered as in proc(5); `rest` begins with the fourth.
    let field = |place: usize| words(rest).nth(place - 4).and_then(whole_number);
    let (user, system) = (field(14)?, field(15)?);
    Some(Row {
        pid,
        parent: field(4)?,
        name,
        cpu: ticks(user.checked_add(system)?)?,
        disk: None,
        is_blocked: state == b"D",
        began: Some(ticks(field(22)?)?),
    })
}

/// A line of `taskstats.log`. A name may have spaces: the three numbers are the last words.
pub(super) fn from_taskstats(line: &[u8]) -> Option<Row<'_>> {
    let (pid, rest) = number(line)?;
    let (parent, rest) = number(rest.strip_prefix(b" ")?)?;
    let rest = rest.strip_prefix(b" ")?;
    let mut fields = rest.rsplitn(4, |byte| *byte == b' ');
    let mut last = || fields.next().and_then(whole_number).and_then(ns);
    let (swap, disk, cpu) = (last()?, last()?, last()?);
    let name = fields.next()?;
    let disk = Some(Ns(disk.0.saturating_add(swap.0)));
    Some(Row { pid, parent, name, cpu, disk, is_blocked: false, began: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &[u8] = b"104 (a) b (c) R 99 0 0 0 -1 4194304 138 0 0 0 37 3 0 0 20 0 1 0 809 2519040 373";

    #[test]
    fn names_may_have_brackets_and_spaces() {
        let row = from_stat(STAT).unwrap();
        assert_eq!((row.pid, row.parent, row.name), (104, 99, &b"a) b (c"[..]));
        assert_eq!((row.cpu, row.began, row.is_blocked), (Ns::from_ms(400), Some(Ns::from_ms(8_090)), false));
        let row = from_taskstats(b"95 1 my sh 56000000 7 1").unwrap();
        assert_eq!((row.name, row.cpu, row.disk), (&b"my sh"[..], Ns::from_ms(56), Some(Ns(8))));
    }

    #[test]
    fn lines_of_other_formats_are_refused() {
        for line in
            [&b""[..], b"1", b"1 (a", b"1 (a) R 1", b"1 2 3 4 5", b"x 1 sh 1 2 3", b"1 1 sh 1 2 99999999999999999999"]
        {
            assert_eq!((from_stat(line), from_taskstats(line)), (None, None), "{}", String::from_utf8_lossy(line));
        }
        assert_eq!(time(b"18446744073709551615"), None);
    }

    #[test]
    fn files_are_recognised_by_their_first_lines() {
        let stat = [b"207\n", STAT, b"\n\n"].concat();
        let cases: [(&[u8], Option<Part>); 11] = [
            (b"version = Android init 0.8 \ntitle = Boot chart for Android ( now )\n", Some(Part::Header)),
            (b"version = 2\nname = x\n", None),
            (&stat, Some(Part::Processes)),
            (b"189\n2 0 kthreadd 20000000 0 0\n", Some(Part::Taskstats)),
            (b"189\ncpu  5 0 169 88\n", Some(Part::Unused("boot chart (CPUs)"))),
            (b"189\nMemTotal:  476448 kB\n", Some(Part::Unused("boot chart (memory)"))),
            (b"95\n:/bin/busybox\n:sh -c\0\n\n", Some(Part::Unused("boot chart (command lines)"))),
            (b"189\n   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n", Some(Part::Unused("boot chart (disks)"))),
            (b"189\n\n191\n\n", Some(Part::Unused("boot chart (disks)"))),
            (b"189\n", None),
            (b"189\n190\n", None),
        ];
        for (bytes, expected) in cases {
            assert_eq!(part(bytes), expected, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
