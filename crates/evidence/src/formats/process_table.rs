//! Processes that were running when a machine was captured, as `bootscope capture` lists them.
//!
//! ```text
//! # bootscope.processes/1 100              ticks of the clock in a second
//! 235    1    10515    /system.slice/ssh.service    /usr/sbin/sshd
//! ```
//! The fields: number, parent, start in ticks since the machine booted, control group, program (proc(5),
//! `/proc/PID/stat`). A start is rounded down to a tick. Processes that ended before the capture are missing. Processes
//! that began after the boot are not listed. If the first line ends with `container`, the processes are a container's:
//! its boot began with its process 1.
//!
//! It must not replace a trace's list of processes, which also has those that ended.

use crate::input::text::{Lines, lossy, whole_number};
use hashbrown::{HashMap, HashSet};
use timeline::{DiagnosticKind, Diagnostics, Ns, Process, Timeline};

/// The name of this evidence in diagnostics.
pub(crate) const NAME: &str = "process table";
pub(crate) const HEAD: &[u8] = b"# bootscope.processes/1 ";
const CONTAINED: &[u8] = b" container";
/// The same limit as for other tables of processes: a boot has some hundred.
const PROCESSES_MAX: usize = 1 << 17;
const DEPTH_MAX: u32 = 64;
const NAME_BYTES_MAX: usize = 4096;

/// A process of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct One {
    pub pid: u64,
    /// Its parent's number.
    pub parent: u64,
    /// Its start, since the kernel's start.
    pub start: Ns,
    /// The path of its control group.
    pub control_group: String,
    pub program: String,
}

/// The processes of a captured machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTable {
    /// The processes, in the order of the table.
    pub processes: Vec<One>,
    /// Number of lines that could not be read.
    pub unreadable: u64,
    /// True if the processes are a container's.
    pub is_contained: bool,
}

impl ProcessTable {
    /// Reads a table. The result is empty if the file does not begin with its heading.
    pub fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> ProcessTable {
        let mut table = ProcessTable::default();
        let mut lines = Lines::new(bytes);
        let Some((hz, is_contained)) = lines.next().and_then(|line| head(line.bytes)) else { return table };
        table.is_contained = is_contained;
        for line in lines {
            let place = || format!("{file}:{}", line.number);
            match one(line.bytes, hz) {
                Some(_) if table.processes.len() == PROCESSES_MAX => {
                    diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, place);
                }
                Some(one) => table.processes.push(one),
                None => {
                    table.unreadable += 1;
                    diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, place);
                }
            }
        }
        table
    }

    /// The start of process 1.
    pub(crate) fn began(&self) -> Option<Ns> {
        self.processes.iter().find(|one| one.pid == 1).map(|one| one.start)
    }

    /// Lists the processes that began before the end mark, each after its parent. `zero` is the time at which the
    /// kernel's clock is 0.
    pub(crate) fn list(&self, zero: Ns, timeline: &mut Timeline) {
        let until = timeline.end.map_or(Ns::MAX, |end| end.at + end.error);
        let mut known: Vec<&One> = self.processes.iter().filter(|one| zero + one.start <= until).collect();
        known.sort_by_key(|one| (one.pid, one.start));
        known.dedup_by_key(|one| one.pid);
        let there: HashSet<u64> = known.iter().map(|one| one.pid).collect();
        let mut children: HashMap<u64, Vec<&One>> = HashMap::new();
        let mut ahead: Vec<(&One, u32)> = Vec::new();
        for one in known.iter().rev() {
            match there.contains(&one.parent) && one.parent != one.pid {
                true => children.entry(one.parent).or_default().push(one),
                false => ahead.push((one, 0)),
            }
        }
        let mut listed: HashSet<u64> = HashSet::new();
        // Processes whose parents form a circle have no root. They are listed from the lowest number on.
        let mut left = known.iter();
        loop {
            while let Some((one, depth)) = ahead.pop() {
                if !listed.insert(one.pid) {
                    continue;
                }
                let (name, start) = (timeline.names.intern(&one.program), zero + one.start);
                timeline.processes.push(Process { pid: one.pid, parent: one.parent, depth, name, start, end: None });
                let below = children.remove(&one.pid).unwrap_or_default();
                ahead.extend(below.into_iter().map(|child| (child, (depth + 1).min(DEPTH_MAX))));
            }
            match left.find(|one| !listed.contains(&one.pid)) {
                Some(one) => ahead.push((*one, 0)),
                None => return,
            }
        }
    }
}

/// Ticks per second, and true if the processes are a container's.
fn head(line: &[u8]) -> Option<(u64, bool)> {
    let rest = line.strip_prefix(HEAD)?.trim_ascii();
    let number = rest.strip_suffix(CONTAINED);
    let hz = whole_number(number.unwrap_or(rest))?;
    (1..=1_000_000_000).contains(&hz).then_some((hz, number.is_some()))
}

pub(crate) fn one(line: &[u8], hz: u64) -> Option<One> {
    let mut fields = line.splitn(5, |byte| *byte == b'\t');
    let mut number = || fields.next().and_then(whole_number);
    let (pid, parent, ticks) = (number()?, number()?, number()?);
    let ns = u128::from(ticks) * 1_000_000_000 / u128::from(hz);
    let mut text = || fields.next().map(|text| lossy(&text[..text.len().min(NAME_BYTES_MAX)]).into_owned());
    let (control_group, program) = (text()?, text()?);
    let start = Ns(i64::try_from(ns).ok().filter(|ns| *ns < i64::MAX / 4)?);
    Some(One { pid, parent, start, control_group, program })
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{End, EndEvidence};

    fn listed(text: &str, end: Option<i64>) -> (Vec<(u64, u32, i64)>, u64) {
        let (mut timeline, mut diagnostics) = (Timeline::default(), Diagnostics::default());
        let table = ProcessTable::read("a", text.as_bytes(), &mut diagnostics);
        let end =
            end.map(|ms| End { at: Ns::from_ms(ms), error: Ns::ZERO, track: None, evidence: EndEvidence::LastSign });
        timeline.end = end;
        table.list(Ns::ZERO, &mut timeline);
        let rows = timeline.processes.iter().map(|p| (p.pid, p.depth, p.start.0 / 1_000_000));
        (rows.collect(), diagnostics.count(DiagnosticKind::LinesUnreadable))
    }

    #[test]
    fn a_table_is_a_tree() {
        let text = "# bootscope.processes/1 100\n1\t0\t0\t/init.scope\t/sbin/init\n9\t1\t300\t/a\tx y\n5\t1\t200\t/b\tb\n\
                    7\t5\t250\t\tc\n8\t77\t260\t/\torphan\nnonsense\n";
        let all = [(1, 0, 0), (5, 1, 2000), (7, 2, 2500), (9, 1, 3000), (8, 0, 2600)];
        assert_eq!(listed(text, None), (all.to_vec(), 1));
        // Processes that began later are not part of the boot.
        assert_eq!(listed(text, Some(2500)).0, all[..3]);
    }

    #[test]
    fn a_container_begins_with_its_process_1() {
        let text = b"# bootscope.processes/1 100 container\n1\t0\t3933899\t/\t/sbin/init\n18\t1\t3933909\t/\tx\n";
        let table = ProcessTable::read("a", text, &mut Diagnostics::default());
        assert_eq!((table.is_contained, table.began()), (true, Some(Ns(39_338_990_000_000))));
        assert_eq!(head(b"# bootscope.processes/1 100 machine"), None);
    }

    #[test]
    fn circles_of_parents_and_malformed_lines_end() {
        let text = "# bootscope.processes/1 100\n3\t4\t1\t\ta\n4\t3\t1\t\tb\n5\t5\t1\t\tc\n3\t1\t1\t\tagain\n6\t1\t99999999999999999999\t\td\n";
        let (rows, unreadable) = listed(text, None);
        let mut pids: Vec<u64> = rows.iter().map(|row| row.0).collect();
        pids.sort_unstable();
        assert_eq!((pids, unreadable), (vec![3, 4, 5], 1));
        assert_eq!(listed("# bootscope.processes/1 0\n1\t0\t0\t\ta\n", None).0, []);
    }
}
