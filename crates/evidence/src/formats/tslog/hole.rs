//! A part of the log that is missing in the middle of a file: lines that a console lost, two captures joined.
//!
//! Nothing marks such a place. It is taken to be there if two things come together: the thread that the boot path is on is
//! never heard of again though it is deep in entries, and after that, before the end mark, comes a thread whose first record
//! is an exit, so that its entry was in what is missing. The place is the longest silence of all threads between the two.

use super::Log;
use super::labels::Role;
use super::line::What;
use hashbrown::HashMap;
use std::ops::Range;

/// The record, of those in `run`, before which a part is missing. Records have their lives by now; `main` is the life that
/// the path is on, `strangers` are records that begin a life with an exit, in order.
pub fn hole(log: &Log, run: Range<usize>, main: u32, strangers: &[usize]) -> Option<usize> {
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
    // Of equal ones the first.
    (last + 1..=stranger).rev().max_by_key(silence)
}

/// A function that never returns is around all else; what is inside it ends.
pub const DEEP: usize = 2;

/// How many entries of a life are open at the end of `run`.
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
