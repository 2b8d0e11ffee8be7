//! Reads `debug.tslog_user`: the processes that ran, as a tree.
//!
//! ```text
//! 15 1 1152222083 0 "/etc/rc" "/dev/console"      <pid> <parent> <forked> <exited> "<exec>" "<first path>"
//! 7 0 0 0 "" ""                                   an unused process number
//! ```
//! There is one line for each possible process number (NetBSD leaves unused ones out, and puts two spaces between
//! fields). Ticks are the kernel's. Exited 0 means still alive. `exec` is the program executed last; `first path` is
//! the first path that the process looked up. If a number is used again, its line keeps the data of its first process.
//!
//! A process's name is guessed, by how `sys/kern/kern_tslog.c` and rc(8) work: the executed program; else, for a child
//! of rc, the first path, which is the script that a subshell of rc runs; else the parent's name. rc itself is the
//! first child of process 1, a shell.

use super::labels::Labels;
use crate::input::text::{number, skip_spaces};
use hashbrown::HashMap;

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub pid: u64,
    pub parent: u64,
    pub forked: u64,
    pub exited: u64,
    /// Index in [`Labels`]; `None` if the process never executed anything.
    pub exec: Option<u32>,
    pub first_path: Option<u32>,
    /// True if there are two spaces between fields.
    pub wide: bool,
    pub file: u32,
    pub line: u32,
}

/// A line of the table; its names still point into the file.
pub(super) struct Fields<'a> {
    /// Process, parent, fork, exit.
    numbers: [u64; 4],
    wide: bool,
    exec: &'a [u8],
    first_path: &'a [u8],
}

/// Splits a line into fields, if it belongs to the table.
pub(super) fn fields(line: &[u8]) -> Option<Fields<'_>> {
    if !line.first()?.is_ascii_digit() || line.last() != Some(&b'"') {
        return None;
    }
    let mut numbers = [0; 4];
    let (mut rest, mut wide) = (line, true);
    for value in &mut numbers {
        let (read, after) = number(rest)?;
        *value = read;
        wide &= after.starts_with(b"  ");
        rest = skip_spaces(after);
    }
    let (exec, first_path) = names(rest)?;
    Some(Fields { numbers, wide, exec, first_path })
}

/// Converts the fields; `None` if no process had the number. The caller fills in file and line.
pub(super) fn entry(fields: &Fields<'_>, labels: &mut Labels) -> Option<Entry> {
    let &Fields { numbers: [pid, parent, forked, exited], wide, exec, first_path } = fields;
    if parent == 0 && forked == 0 && exited == 0 && exec.is_empty() && first_path.is_empty() {
        return None;
    }
    let mut label = |text: &[u8]| (!text.is_empty()).then(|| labels.number(text));
    let (exec, first_path) = (label(exec), label(first_path));
    Some(Entry { pid, parent, forked, exited, exec, first_path, wide, file: 0, line: 0 })
}

/// Splits `"<exec>" "<first path>"`; either may contain quotes.
fn names(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let middle = memchr::memmem::find_iter(inner, b"\"").find_map(|at| {
        let gap = skip_spaces(&inner[at + 1..]);
        let spaces = inner.len() - at - 1 - gap.len();
        (spaces > 0 && gap.starts_with(b"\"")).then_some((at, at + 1 + spaces + 1))
    })?;
    Some((&inner[..middle.0], &inner[middle.1..]))
}

/// A process of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// Its index in the table.
    pub entry: usize,
    /// The number of its known ancestors.
    pub depth: u32,
    /// Its name; empty for one of the kernel's own processes, whose names the table lacks.
    pub name: Vec<u8>,
}

/// Returns the processes with names, each after its parent, siblings by number. `O(n log n)`.
pub(super) fn tree(entries: &[Entry], labels: &Labels) -> Vec<Node> {
    let mut by_pid: HashMap<u64, usize> = HashMap::with_capacity(entries.len());
    for (i, entry) in entries.iter().enumerate() {
        by_pid.entry(entry.pid).or_insert(i);
    }
    let first = |i: usize| by_pid[&entries[i].pid] == i;
    let mut order: Vec<usize> = (0..entries.len()).filter(|&i| first(i)).collect();
    order.sort_by_key(|&i| entries[i].pid);
    let mut children: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut roots = Vec::new();
    for &i in &order {
        let parent = entries[i].parent;
        if parent != entries[i].pid && by_pid.contains_key(&parent) {
            children.entry(parent).or_default().push(i);
        } else {
            roots.push(i);
        }
    }
    let rc = order.iter().find(|&&i| entries[i].parent == 1).map(|&i| entries[i].pid);
    let mut walk = Walk {
        entries,
        labels,
        rc,
        children,
        nodes: Vec::with_capacity(order.len()),
        done: vec![false; entries.len()],
    };
    for root in roots {
        walk.down(root);
    }
    // Only a broken table has processes left: they are among their own ancestors.
    for i in order {
        if !walk.done[i] {
            walk.down(i);
        }
    }
    walk.nodes
}

/// The index of rc: the first child of process 1, by number.
pub(super) fn rc(entries: &[Entry]) -> Option<usize> {
    (0..entries.len()).filter(|&i| entries[i].parent == 1 && entries[i].forked > 0).min_by_key(|&i| entries[i].pid)
}

struct Walk<'a> {
    entries: &'a [Entry],
    labels: &'a Labels,
    rc: Option<u64>,
    children: HashMap<u64, Vec<usize>>,
    nodes: Vec<Node>,
    done: Vec<bool>,
}

impl Walk<'_> {
    /// Adds a process and its descendants, without recursion: a chain can be as long as the table.
    fn down(&mut self, root: usize) {
        let mut todo: Vec<(usize, u32, usize)> = vec![(root, 0, usize::MAX)];
        while let Some((i, depth, parent)) = todo.pop() {
            if std::mem::replace(&mut self.done[i], true) {
                continue;
            }
            let name = self.name(i, parent);
            let node = self.nodes.len();
            self.nodes.push(Node { entry: i, depth, name });
            let children = self.children.get(&self.entries[i].pid);
            todo.extend(children.into_iter().flatten().rev().map(|&child| (child, depth + 1, node)));
        }
    }

    fn name(&self, i: usize, parent: usize) -> Vec<u8> {
        let entry = &self.entries[i];
        let exec = entry.exec.map(|label| self.labels.text(label));
        let is_shell = exec.is_some_and(|exec| matches!(exec, b"sh" | b"/bin/sh" | b"/rescue/sh"));
        if Some(entry.pid) == self.rc && is_shell {
            return b"/etc/rc".to_vec();
        }
        let of_rc = || (Some(entry.parent) == self.rc).then_some(entry.first_path).flatten();
        let name = exec.or_else(|| of_rc().map(|label| self.labels.text(label)));
        let inherited = || self.nodes.get(parent).map(|node| node.name.clone());
        name.map(<[u8]>::to_vec).or_else(inherited).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Vec<(u64, u32, String)> {
        let mut labels = Labels::default();
        let read = |line: &str| entry(&fields(line.as_bytes()).unwrap_or_else(|| panic!("{line}")), &mut labels);
        let entries: Vec<Entry> = text.lines().filter_map(read).collect();
        let nodes = tree(&entries, &labels);
        nodes.iter().map(|n| (entries[n.entry].pid, n.depth, String::from_utf8_lossy(&n.name).into_owned())).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[(u64, u32, &str)]) {
        let rows = table(text);
        let rows: Vec<_> = rows.iter().map(|(pid, depth, name)| (*pid, *depth, name.as_str())).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn names_as_rc_leaves_them() {
        check(
            "0 0 0 0 \"\" \"\"\n1 0 10 0 \"/sbin/init\" \"dev\"\n2 0 11 0 \"\" \"\"\n15 1 20 90 \"sh\" \"/dev/console\"\n\
             20 15 30 40 \"\" \"/etc/rc.d/hostid\"\n21 20 31 39 \"\" \"/x\"\n22 21 32 38 \"/bin/cat\" \"/y\"\n16 15 21 22 \"hostname\" \"/z\"",
            &[
                (1, 0, "/sbin/init"),
                (15, 1, "/etc/rc"),
                (16, 2, "hostname"),
                (20, 2, "/etc/rc.d/hostid"),
                (21, 3, "/etc/rc.d/hostid"),
                (22, 4, "/bin/cat"),
                (2, 0, ""),
            ],
        );
    }

    #[test]
    fn netbsd_has_two_spaces_and_no_unused_numbers() {
        check(
            "1  0  5  0  \"/sbin/init\"  \"/a\"\n7  1  9  0  \"/bin/login\"  \"\"",
            &[(1, 0, "/sbin/init"), (7, 1, "/bin/login")],
        );
    }

    #[test]
    fn a_table_with_cycles_and_repeated_numbers() {
        check(
            "5 6 1 0 \"a\" \"\"\n6 5 2 0 \"b\" \"\"\n7 7 3 0 \"c\" \"\"\n5 7 4 0 \"again\" \"\"",
            &[(7, 0, "c"), (5, 0, "a"), (6, 1, "b")],
        );
    }

    #[test]
    fn lines_of_the_table_and_others() {
        let is_line = |line: &str| fields(line.as_bytes()).is_some();
        assert!(is_line("98 0 0 0 \"\" \"\"") && is_line("1 2 3 4 \"a\" b\" \"c\" d\""));
        assert!(
            !is_line("1 2 3 \"a\" \"b\"")
                && !is_line("1 2 3 4 \"a\"")
                && !is_line("1 2 3 4 a b")
                && !is_line("1 2 3 99999999999999999999 \"\" \"\"")
        );
        assert_eq!(names(b"\"a\" \"b\""), Some((&b"a"[..], &b"b"[..])));
    }
}
