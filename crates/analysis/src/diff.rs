//! Two boots side by side: how each function and each call path changed.
//!
//! If the calls of both boots were followed, paths are compared by their names, from the bottom of the stack on. The
//! comparison covers the number of calls, the time spent in the path on all CPUs, and its time on the boot path.
//! Otherwise the functions of the two boot paths are compared. The result has only what changed. The result for two
//! equal boots is empty.
//!
//! Between two kernels, names that differ only in what a build adds to them count as one function's
//! ([`function_names`]). A function that only one kernel has may have another name in the other, or be inlined in its
//! caller there. Call trees show where that is likely ([`moved`]).

mod function_names;
mod moved;

use crate::spread::{Follow, Spread};
use crate::stretch::{BootPath, StretchKind};
use crate::tables::Row;
use hashbrown::{HashMap, HashSet};
use moved::{Calls, Moved, moved};
use std::borrow::Cow;
use std::cmp::Reverse;
use timeline::{Cost, DECOMPRESS, NodeId, Ns, SpanKind, Timeline};

/// One of the two boots, analyzed.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// Must be finalized.
    pub timeline: &'a Timeline,
    pub path: &'a BootPath,
    /// The boot path by function.
    pub functions: &'a [Row],
    /// The boot path by what a developer can fix.
    pub wheres: &'a [Row],
}

/// The cost of a function or a path in one boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// The number of calls until the end mark.
    pub calls: u64,
    /// Time spent in it itself, on the path or not.
    pub own: Ns,
    /// Time spent in it and in what it called.
    pub total: Ns,
    /// Time of the boot path in which it was innermost, waits included.
    pub on_path: Ns,
}

/// A function or path that differs between the boots.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The number of the function or path: see [`Diff::function`] and [`Diff::path`].
    id: u32,
    /// `None`: it appeared.
    pub before: Option<Amount>,
    /// `None`: it vanished.
    pub after: Option<Amount>,
}

impl Change {
    /// Returns the growth of its time on the boot path.
    pub fn on_path(&self) -> Ns {
        self.after.unwrap_or_default().on_path - self.before.unwrap_or_default().on_path
    }

    /// Returns the growth of the time spent in it itself.
    pub fn own(&self) -> Ns {
        self.after.unwrap_or_default().own - self.before.unwrap_or_default().own
    }

    /// Returns the growth of the number of calls.
    pub fn calls(&self) -> i64 {
        let [before, after] =
            [self.before, self.after].map(|side| i64::try_from(side.unwrap_or_default().calls).unwrap_or(i64::MAX));
        after.saturating_sub(before)
    }
}

/// A row of `where` with different charges in the two boots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    pub name: String,
    /// The charge in the first boot. `None`: the row appeared.
    pub before: Option<Cost>,
    /// The charge in the second boot. `None`: the row vanished.
    pub after: Option<Cost>,
}

impl RowChange {
    /// Returns the growth of its time on the boot path.
    pub fn on_path(&self) -> Ns {
        (self.after.unwrap_or_default() - self.before.unwrap_or_default()).length
    }
}

/// The changes, with the greatest effect on the boot path first.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// True if the calls of both boots were followed, so that each call is compared.
    pub followed: bool,
    /// The numbers of compared functions and of compared paths.
    pub compared: (usize, usize),
    /// Rows of the boot path.
    pub rows: Vec<RowChange>,
    /// Functions, from all callers.
    pub functions: Vec<Change>,
    /// Paths that changed themselves, not only in what they call.
    pub paths: Vec<Change>,
    function_names: Paths,
    path_names: Paths,
    /// The likely name in the first boot, by the function's name in the second.
    renamed: HashMap<String, String>,
    /// For a function that only one boot has, the function of the other that its code is likely in.
    inlined: HashMap<String, String>,
}

impl Diff {
    /// Returns the name of a function that changed.
    pub fn function(&self, change: &Change) -> &str {
        &self.function_names.all[change.id as usize].1
    }

    /// Returns the likely name in the first boot of the function that changed, if it had another name.
    pub fn renamed_from(&self, change: &Change) -> Option<&str> {
        self.renamed.get(self.function(change)).map(String::as_str)
    }

    /// Returns, for a function that appeared or vanished, the function that its code is likely in, in the boot that
    /// lacks it.
    pub fn inlined_in(&self, change: &Change) -> Option<&str> {
        let in_one = change.before.is_none() || change.after.is_none();
        self.inlined.get(self.function(change)).filter(|_| in_one).map(String::as_str)
    }

    /// Iterates over a path that changed, from the function down to the thread at the bottom of its stack.
    pub fn path(&self, change: &Change) -> impl Iterator<Item = &str> {
        let node = |id: u32| &self.path_names.all[id as usize];
        std::iter::successors(Some(node(change.id)), move |at| at.0.map(node)).map(|at| at.1.as_str())
    }

    /// True if everything that was compared is equal in the boots.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.functions.is_empty() && self.paths.is_empty()
    }
}

/// Compares two boots, of one kernel or of two. Linear in their call paths and their spans.
pub fn diff(before: Side, after: Side, one_kernel: bool) -> Diff {
    let merged = |old: &[Row], new: &[Row]| {
        let all = [(before, old), (after, new)].map(|(side, rows)| (side, if one_kernel { &[] } else { rows }));
        let [old, new] = all.map(|(side, rows)| {
            let timeline = side.timeline;
            rows.iter().map(move |row| (row.name.as_str(), row.compared_by(timeline)))
        });
        function_names::merged(old, new)
    };
    let rows = merged(before.wheres, after.wheres);
    let [old_rows, new_rows] = [before.wheres, after.wheres].map(|all| merge_rows(all, &rows));
    let mut diff = Diff { rows: row_changes(&old_rows, &new_rows), ..Diff::default() };
    let names = &mut diff.function_names;
    match (Tree::new(before), Tree::new(after)) {
        (Some(mut old), Some(mut new)) => {
            diff.followed = true;
            if !one_kernel {
                (diff.renamed, diff.inlined) = match_functions(&mut old, &mut new);
            }
            let functions = [old.functions(names), new.functions(names)];
            (diff.functions, diff.compared.0) = changes(functions, &names.all, |amount| amount);
            let paths = [old.paths(&mut diff.path_names), new.paths(&mut diff.path_names)];
            // A path that changed only in what it calls is left out: the change shows in the callee.
            let without_total = |amount: Amount| Amount { total: Ns::ZERO, ..amount };
            (diff.paths, diff.compared.1) = changes(paths, &diff.path_names.all, without_total);
        }
        _ => {
            let merged_names = merged(before.functions, after.functions);
            let functions =
                [before.functions, after.functions].map(|all| by_name(&merge_rows(all, &merged_names), names));
            (diff.functions, diff.compared.0) = changes(functions, &names.all, |amount| amount);
        }
    }
    diff
}

/// Returns the rows with different charges, the greatest effect first.
pub fn row_changes(before: &[Row], after: &[Row]) -> Vec<RowChange> {
    let mut new: HashMap<&str, Cost> = after.iter().map(|row| (row.name.as_str(), row.self_cost())).collect();
    let change = |name: &str, before, after| RowChange { name: name.to_owned(), before, after };
    let mut rows: Vec<RowChange> = Vec::new();
    for row in before {
        rows.push(change(&row.name, Some(row.self_cost()), new.remove(row.name.as_str())));
    }
    rows.extend(new.into_iter().map(|(name, time)| change(name, None, Some(time))));
    rows.retain(|row| row.before != row.after);
    rows.sort_by(|a, b| (b.on_path().abs(), &a.name).cmp(&(a.on_path().abs(), &b.name)));
    rows
}

/// Renames the rows to their names for both boots, and merges rows of equal name.
fn merge_rows<'a>(rows: &'a [Row], merged: &HashMap<String, String>) -> Cow<'a, [Row]> {
    if merged.is_empty() {
        return Cow::Borrowed(rows);
    }
    let mut at: HashMap<&str, usize> = HashMap::new();
    let mut all: Vec<Row> = Vec::with_capacity(rows.len());
    for row in rows {
        let name = merged.get(&row.name).unwrap_or(&row.name);
        let place = *at.entry(name).or_insert(all.len());
        match all.get_mut(place) {
            None => all.push(Row { name: name.clone(), ..row.clone() }),
            Some(sum) => {
                sum.self_time += row.self_time;
                sum.self_waited += row.self_waited;
                sum.total_waited = sum.total_waited.max(row.total_waited).max(sum.self_waited);
                // The time of one part may include the other: only the longer of the two is certain.
                sum.total_time = sum.total_time.max(row.total_time).max(sum.self_time);
                sum.count += row.count;
                sum.share += row.share;
            }
        }
    }
    Cow::Owned(all)
}

/// Gives both trees' functions the names by which they are compared. Returns the old names of functions that were
/// likely renamed, by the new name. Also returns where the code of others likely is.
fn match_functions<'a>(old: &mut Tree<'a>, new: &mut Tree<'a>) -> (HashMap<String, String>, HashMap<String, String>) {
    let merged = function_names::merged(old.names(), new.names());
    [&mut *old, &mut *new].into_iter().for_each(|tree| tree.rename(&merged));
    let mut numbers = Paths::default();
    let [before, after] = [&*old, &*new].map(|tree| tree.numbered(&mut numbers));
    let Moved { renamed, inlined } = moved(&before, &after);
    let name = |id: &u32| numbers.all[*id as usize].1.clone();
    let renamed: HashMap<String, String> = renamed.iter().map(|(from, to)| (name(from), name(to))).collect();
    old.rename(&renamed);
    let inlined: HashMap<String, String> =
        inlined.iter().map(|(function, into)| (name(function), name(into))).collect();
    for tree in [old, new] {
        let trampolines = tree.names.iter().filter(|name| function_names::is_trampoline(name));
        tree.inlined = inlined.keys().chain(trampolines).cloned().collect();
    }
    (renamed.into_iter().map(|(from, to)| (to, from)).collect(), inlined)
}

/// Numbers for paths by their names, the same for both boots. A path is a name and the path before it.
#[derive(Clone, Debug, Default)]
struct Paths {
    ids: HashMap<(Option<u32>, String), u32>,
    all: Vec<(Option<u32>, String)>,
}

impl Paths {
    fn id(&mut self, parent: Option<u32>, name: String) -> u32 {
        *self.ids.entry((parent, name)).or_insert_with_key(|key| {
            self.all.push(key.clone());
            // Two profiles that fit into memory have fewer than 2^32 paths too.
            timeline::number(self.all.len() - 1)
        })
    }
}

fn by_name(rows: &[Row], names: &mut Paths) -> HashMap<u32, Amount> {
    let amount =
        |row: &Row| Amount { calls: row.count, own: row.self_time, total: row.total_time, on_path: row.self_time };
    rows.iter().map(|row| (names.id(None, row.name.clone()), amount(row))).collect()
}

/// Returns the entries that differ in their `compared_part`, and the number of compared things.
fn changes(
    [before, mut after]: [HashMap<u32, Amount>; 2],
    names: &[(Option<u32>, String)],
    compared_part: impl Fn(Amount) -> Amount,
) -> (Vec<Change>, usize) {
    let mut changes: Vec<Change> = Vec::new();
    let mut compared = after.len();
    for (id, old) in before {
        let new = after.remove(&id);
        compared += usize::from(new.is_none());
        if new.map(&compared_part) != Some(compared_part(old)) {
            changes.push(Change { id, before: Some(old), after: new });
        }
    }
    changes.extend(after.into_iter().map(|(id, new)| Change { id, before: None, after: Some(new) }));
    let effect = |c: &Change| (Reverse(c.on_path().abs()), Reverse(c.own().abs()), Reverse(c.calls().abs()));
    changes.sort_by(|a, b| {
        let name = |c: &Change| &names[c.id as usize].1;
        effect(a).cmp(&effect(b)).then_with(|| name(a).cmp(name(b))).then(a.id.cmp(&b.id))
    });
    (changes, compared)
}

/// A boot's profile, with the part of each path that was on the boot path.
struct Tree<'a> {
    timeline: &'a Timeline,
    on_path: Vec<Ns>,
    /// The name of each path's function.
    names: Vec<String>,
    /// Functions that the other boot has inlined in their callers, and trampolines. Their paths are compared as part of
    /// the callers'.
    inlined: HashSet<String>,
}

impl<'a> Tree<'a> {
    fn new(side: Side<'a>) -> Option<Tree<'a>> {
        let spread = Spread::new(side.timeline)?;
        let mut on_path = OnPath(vec![Ns::ZERO; side.timeline.profile.len()]);
        let mut to_share: HashMap<(NodeId, ()), Ns> = HashMap::new();
        for stretch in &side.path.stretches {
            let Some(path) = spread.path(stretch.owner()) else { continue };
            match stretch.kind {
                StretchKind::Running | StretchKind::Runqueue => {
                    *to_share.entry((path, ())).or_default() += stretch.length();
                }
                _ => on_path.0[path.index()] += stretch.length(),
            }
        }
        spread.share(to_share, &mut on_path);
        let names = side.timeline.profile.nodes().map(|(id, _)| Tree::name(side.timeline, id)).collect();
        Some(Tree { timeline: side.timeline, on_path: on_path.0, names, inlined: HashSet::new() })
    }

    /// Returns the names of functions, each with the name to compare it by. The name of a decompressor includes the
    /// format that it unpacks.
    fn names(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        let nodes = self.timeline.profile.nodes().zip(&self.names);
        nodes.filter(|((_, node), _)| node.parent.is_some()).map(|((_, node), name)| {
            let is_decompressor = self.timeline.decompressor == Some(node.name);
            (name.as_str(), Cow::Borrowed(if is_decompressor { DECOMPRESS } else { name.as_str() }))
        })
    }

    fn rename(&mut self, to: &HashMap<String, String>) {
        for name in &mut self.names {
            if let Some(new) = to.get(name) {
                name.clone_from(new);
            }
        }
    }

    /// Returns the tree with numbers for names.
    fn numbered(&self, numbers: &mut Paths) -> Calls {
        let node = |((_, node), name): ((NodeId, timeline::ProfileNode), &String)| {
            let parent = node.parent.map(|parent| timeline::number(parent.index()));
            (parent, numbers.id(None, name.clone()), node.calls, node.own)
        };
        Calls { nodes: self.timeline.profile.nodes().zip(&self.names).map(node).collect() }
    }

    fn name(timeline: &Timeline, node: NodeId) -> String {
        let node = timeline.profile.get(node);
        let name = timeline.names.get(node.name);
        match (node.parent, node.kind) {
            (None, _) => format!("({name}: no function known)"),
            (_, SpanKind::Initcall) => format!("initcall {name}"),
            _ => name.to_owned(),
        }
    }

    fn functions(&self, names: &mut Paths) -> HashMap<u32, Amount> {
        let profile = &self.timeline.profile;
        let (totals, outermost) = (profile.totals(), profile.outermost());
        let mut functions: HashMap<u32, Amount> = HashMap::new();
        for (id, node) in profile.nodes() {
            let i = id.index();
            let amount = functions.entry(names.id(None, self.names[i].clone())).or_default();
            amount.calls = amount.calls.saturating_add(node.calls);
            amount.own += ns(node.own);
            amount.on_path += self.on_path[i];
            if outermost[i] {
                amount.total += ns(totals[i]);
            }
        }
        functions
    }

    fn paths(&self, names: &mut Paths) -> HashMap<u32, Amount> {
        let profile = &self.timeline.profile;
        let totals = profile.totals();
        let mut ids: Vec<u32> = Vec::with_capacity(profile.len());
        let mut paths: HashMap<u32, Amount> = HashMap::with_capacity(profile.len());
        for (id, node) in profile.nodes() {
            let i = id.index();
            let parent = node.parent.map(|parent| ids[parent.index()]);
            let (own, total, on_path) = (ns(node.own), ns(totals[i]), self.on_path[i]);
            if let Some(parent) = parent.filter(|_| self.inlined.contains(&self.names[i])) {
                let caller: &mut Amount = paths.entry(parent).or_default();
                (caller.own, caller.on_path) = (caller.own + own, caller.on_path + on_path);
                ids.push(parent);
                continue;
            }
            let name = match node.parent {
                Some(_) => self.names[i].clone(),
                None => self.timeline.names.get(node.name).to_owned(),
            };
            let path = names.id(parent, name);
            // Parts of one function have one path.
            let amount = paths.entry(path).or_default();
            amount.calls = amount.calls.saturating_add(node.calls);
            (amount.own, amount.total, amount.on_path) =
                (amount.own + own, amount.total + total, amount.on_path + on_path);
            ids.push(path);
        }
        paths
    }
}

fn ns(spent: u64) -> Ns {
    Ns::saturated(spent)
}

struct OnPath(Vec<Ns>);

impl Follow for OnPath {
    type Key = ();

    fn called(&mut self, (): (), _: NodeId, _: u64) {}

    fn interrupted(&mut self, (): ()) {}

    fn own(&mut self, (): (), path: NodeId, length: u64) {
        self.0[path.index()] += Ns::saturated(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot_path;
    use timeline::TimeBase;

    /// Returns a boot with call paths such as `s/f/g`, each with its calls and own time.
    fn boot(paths: &[(&str, u64, u64)]) -> Timeline {
        let mut boot = Timeline::new(TimeBase::Evidence);
        let mut nodes: HashMap<&str, NodeId> = HashMap::new();
        for &(path, calls, own) in paths {
            let (parent, name) = path.rsplit_once('/').map_or((None, path), |(p, name)| (Some(nodes[p]), name));
            let name = boot.names.intern(name);
            let node = boot.profile.node(parent, name);
            boot.profile.add(node, calls, own);
            nodes.insert(path, node);
        }
        boot.finalize(Ns::ZERO);
        boot
    }

    /// Compares boots of two kernels.
    fn compare(before: &Timeline, after: &Timeline) -> Diff {
        let paths = [before, after].map(boot_path);
        let side = |timeline, path| Side { timeline, path, functions: &[], wheres: &[] };
        diff(side(before, &paths[0]), side(after, &paths[1]), false)
    }

    #[test]
    fn a_renamed_function_is_compared_with_itself() {
        let before = boot(&[("s", 0, 0), ("s/f", 1, 5), ("s/f/old", 7, 100)]);
        let after = boot(&[("s", 0, 0), ("s/f", 1, 5), ("s/f/new", 7, 110)]);
        let diff = compare(&before, &after);
        // The totals of its callers changed too, and no function appeared or vanished.
        let names: Vec<_> =
            diff.functions.iter().map(|change| (diff.function(change), diff.renamed_from(change))).collect();
        assert_eq!(names, [("new", Some("old")), ("(s: no function known)", None), ("f", None)]);
        assert!(diff.functions.iter().all(|change| change.before.is_some() && change.after.is_some()));
        assert_eq!((diff.functions[0].calls(), diff.functions[0].own()), (0, Ns(10)));
        let paths: Vec<Vec<&str>> = diff.paths.iter().map(|change| diff.path(change).collect()).collect();
        assert_eq!(paths, [["new", "f", "s"]]);
    }

    #[test]
    fn an_inlined_function_names_the_caller_that_has_its_code() {
        let before = boot(&[("s", 0, 0), ("s/f", 1, 5), ("s/f/leaf", 3, 50)]);
        let after = boot(&[("s", 0, 0), ("s/f", 1, 60)]);
        let diff = compare(&before, &after);
        let leaf = diff.functions.iter().find(|change| diff.function(change) == "leaf").unwrap();
        assert_eq!((leaf.after, diff.inlined_in(leaf)), (None, Some("f")));
        // Its path is part of the caller's: together they took 55.
        let [path] = &diff.paths[..] else { panic!("{:?}", diff.paths) };
        assert_eq!((diff.path(path).next(), path.own()), (Some("f"), Ns(5)));
    }
    #[test]
    fn paths_are_the_same_through_other_trampolines() {
        let before = boot(&[("s", 0, 0), ("s/ret_from_fork", 1, 5), ("s/ret_from_fork/f", 1, 50)]);
        let after = boot(&[
            ("s", 0, 0),
            ("s/ret_from_fork_asm", 1, 3),
            ("s/ret_from_fork_asm/ret_from_fork", 1, 4),
            ("s/ret_from_fork_asm/ret_from_fork/f", 1, 90),
        ]);
        let diff = compare(&before, &after);
        let paths: Vec<(Vec<&str>, Ns)> =
            diff.paths.iter().map(|change| (diff.path(change).collect(), change.own())).collect();
        assert_eq!(paths, [(vec!["f", "s"], Ns(40)), (vec!["s"], Ns(2))]);
    }
}
