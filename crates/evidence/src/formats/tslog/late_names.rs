//! Finds the names that running threads get: a `THREAD` record on an address with open entries whose exits come later.
//!
//! ```text
//! 0x0 0 ENTER start_kernel
//! 0x0 1 THREAD main             a late name: the thread goes on
//! 0x0 9 EXIT start_kernel       because this exit belongs to an entry before the name
//! ```
//! If a later thread reuses the address instead, the earlier thread's open entries never end.

use super::Record;
use super::line::What;
use hashbrown::{HashMap, HashSet};

/// The open entries of one address.
#[derive(Default)]
struct Open {
    /// Labels, each with the number of `THREAD` records before it.
    entries: Vec<(u32, usize)>,
    /// The number of open entries of each label.
    labels: HashMap<u32, u32>,
    /// The `THREAD` records so far.
    names: Vec<usize>,
}

/// Returns the records that are late names, as indexes into `records`. `used` lists the records that count, in order.
/// Only the threads in `renamed` are looked at: those with a `THREAD` record that is not their first. Linear.
pub(super) fn late_names(records: &[Record], used: impl Iterator<Item = usize>, renamed: &[u32]) -> HashSet<usize> {
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
    /// Closes the innermost entry of a label. Returns the number of names before it.
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

    /// `e1` enters function 1, `x1` leaves it, `t` is a `THREAD` record; all on one thread.
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
    fn an_exit_of_an_entry_before_the_name_shows_the_same_thread() {
        check("e1 t x1", &[1]);
        check("e1 e2 t x2 t x1 t", &[2, 4]);
        check("e1 t e2 t x2 x1", &[1, 3]);
        check("e1 t e2 t x2", &[3]);
        check("e1 e2 t x1", &[2]);
        check("e1 t x1 e1 t x1", &[1, 4]);
    }

    #[test]
    fn open_entries_of_an_earlier_thread_never_end() {
        check("t e1 t e1 x1", &[]);
        check("e1 t e2 x2 t x3", &[]);
        check("t t t", &[]);
    }
}
