//! Names that a running thread got: `THREAD` on an address that has entries open, whose exits are still to come.
//!
//! ```text
//! 0x0 0 ENTER start_kernel
//! 0x0 1 THREAD main             a name given late: the thread goes on
//! 0x0 9 EXIT start_kernel       because this exit is of an entry from before the name
//! ```
//! Where an address is used again for a later thread, what the earlier one left open never ends.

use super::Record;
use super::line::What;
use hashbrown::{HashMap, HashSet};

/// What is open on one address.
#[derive(Default)]
struct Open {
    /// Labels, and how many `THREAD` records came before each.
    entries: Vec<(u32, usize)>,
    /// How many of each label are among them.
    labels: HashMap<u32, u32>,
    /// The `THREAD` records so far.
    names: Vec<usize>,
}

/// Which records are names given late, by their number in `records`; `used` says which records count, in order. Only the
/// threads in `renamed` are looked at: those that have a `THREAD` record that is not their first. Linear.
pub fn late_names(records: &[Record], used: impl Iterator<Item = usize>, renamed: &[u32]) -> HashSet<usize> {
    let mut late = HashSet::new();
    if renamed.is_empty() {
        return late;
    }
    let mut threads: HashMap<u32, Open> = renamed.iter().map(|&thread| (thread, Open::default())).collect();
    for i in used {
        let Some(open) = threads.get_mut(&records[i].thread) else { continue };
        let label = records[i].label;
        match records[i].what {
            What::Enter => {
                open.entries.push((label, open.names.len()));
                *open.labels.entry(label).or_default() += 1;
            }
            What::Exit => {
                if let Some(since) = open.exit(label) {
                    late.extend(open.names.drain(since..));
                }
            }
            What::Thread => open.names.push(i),
            What::Event => {}
        }
    }
    late
}

impl Open {
    /// Closes the innermost entry of that label; how many names came before it.
    fn exit(&mut self, label: u32) -> Option<usize> {
        self.labels.get(&label).filter(|&&count| count > 0)?;
        while let Some((inner, names)) = self.entries.pop() {
            if let Some(count) = self.labels.get_mut(&inner) {
                *count -= 1;
            }
            if inner == label {
                return Some(names);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `e1` enters 1, `x1` leaves it, `t` is a name; all on one thread.
    #[track_caller]
    fn check(text: &str, expected: &[usize]) {
        let record = |word: &str| {
            let what = match &word[..1] {
                "e" => What::Enter,
                "x" => What::Exit,
                _ => What::Thread,
            };
            Record { ticks: 0, thread: 0, label: word[1..].parse().unwrap_or(0), line: 0, piece: 0, what }
        };
        let records: Vec<Record> = text.split(' ').map(record).collect();
        let mut late: Vec<usize> = late_names(&records, 0..records.len(), &[0]).into_iter().collect();
        late.sort_unstable();
        assert_eq!(late, expected, "{text}");
    }

    #[test]
    fn an_exit_from_before_the_name_says_that_the_thread_went_on() {
        check("e1 t x1", &[1]);
        check("e1 e2 t x2 t x1 t", &[2, 4]);
        check("e1 t e2 t x2 x1", &[1, 3]);
        check("e1 t e2 t x2", &[3]);
        check("e1 e2 t x1", &[2]);
        check("e1 t x1 e1 t x1", &[1, 4]);
    }

    #[test]
    fn what_the_earlier_thread_left_open_never_ends() {
        check("t e1 t e1 x1", &[]);
        check("e1 t e2 x2 t x3", &[]);
        check("t t t", &[]);
    }
}
