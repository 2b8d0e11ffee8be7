//! Finds a missing part in the middle of a file: lines that a console lost, or two captures joined.
//!
//! Nothing marks such a place. It is assumed if two things come together. First, the thread of the boot path logs
//! nothing more although it is deep in entries. Second, later but before the end mark, there is a thread whose first
//! record is an exit, so its entry is in the missing part. The place is the longest time between two records from the
//! one to the other.

use super::Log;
use super::labels::Role;
use super::line::What;
use hashbrown::HashMap;
use std::ops::Range;

/// Returns the index of the record in `run` before which a part is missing. `main` is the life that the path is on;
/// `strangers` are records that begin a life with an exit, in order. Each record's `thread` is already its life.
pub(super) fn hole(log: &Log, run: Range<usize>, main: u32, strangers: &[usize]) -> Option<usize> {
    let records = &log.records[run.clone()];
    let latest = strangers.iter().rfind(|i| run.contains(i))?;
    let last = run.start + records.iter().rposition(|r| r.thread == main)?;
    let &stranger = strangers.iter().find(|&&i| i > last).filter(|i| *i <= latest)?;
    let ended =
        |i: &usize| log.records[*i].what == What::Exit && log.labels.role(log.records[*i].label) == Role::StartInit;
    if depth(log, run.start..last + 1, main) < DEEP || (run.start..stranger).rev().any(|i| ended(&i)) {
        return None;
    }
    let silence = |i: &usize| log.records[*i].ticks.saturating_sub(log.records[*i - 1].ticks);
    // The first of equal silences.
    (last + 1..=stranger).rev().max_by_key(silence)
}

/// The least number of open entries for a loss: the outermost function may never return, but those inside it do.
pub(super) const DEEP: usize = 2;

/// The number of entries of a life that are open at the end of `run`.
fn depth(log: &Log, run: Range<usize>, life: u32) -> usize {
    let mut stack: Vec<u32> = Vec::new();
    let mut open: HashMap<u32, u32> = HashMap::new();
    for record in log.records[run].iter().filter(|r| r.thread == life) {
        match record.what {
            What::Enter => {
                stack.push(record.label);
                *open.entry(record.label).or_default() += 1;
            }
            What::Exit if open.get(&record.label).is_some_and(|&count| count > 0) => {
                while let Some(inner) = stack.pop() {
                    open.entry(inner).and_modify(|count| *count -= 1);
                    if inner == record.label {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    stack.len()
}
