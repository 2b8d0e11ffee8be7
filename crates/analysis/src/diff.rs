//! Two boots side by side: what each function, and each path of calls, was and became.
//!
//! Where both boots' calls were followed, paths are compared by their names from the bottom of the stack on: how often
//! each was called, what was spent in it on all CPUs, and how much of that was on the boot path. Otherwise functions of
//! the two boot paths are compared. Only what changed is in the result; that of two equal boots is empty.

use crate::path::{BootPath, StretchKind};
use crate::spread::{Follow, Spread};
use crate::tables::Row;
use hashbrown::HashMap;
use std::cmp::Reverse;
use timeline::{NodeId, Ns, SpanKind, Timeline};

/// One of the boots.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// Its settled timeline.
    pub timeline: &'a Timeline,
    /// Its boot path.
    pub path: &'a BootPath,
    /// The boot path by function.
    pub functions: &'a [Row],
    /// The boot path by what one can fix.
    pub wheres: &'a [Row],
}

/// What a function or a path was in one boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How often it was called until the end mark.
    pub calls: u64,
    /// Spent in it itself, on the path or not.
    pub own: Ns,
    /// Spent in it and what it called.
    pub total: Ns,
    /// Time of the boot path in which it was innermost, waits included.
    pub on_path: Ns,
}

/// Something that is not in both boots the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which: see [`Diff::function`] and [`Diff::path`].
    id: u32,
    /// None: it appeared.
    pub before: Option<Amount>,
    /// None: it vanished.
    pub after: Option<Amount>,
}

impl Change {
    /// By how much the boot path became longer in it.
    pub fn on_path(&self) -> Ns {
        self.after.unwrap_or_default().on_path - self.before.unwrap_or_default().on_path
    }

    /// How much more was spent in it itself.
    pub fn own(&self) -> Ns {
        self.after.unwrap_or_default().own - self.before.unwrap_or_default().own
    }

    /// How much more often it was called.
    pub fn calls(&self) -> i64 {
        let [before, after] = [self.before, self.after].map(|side| side.unwrap_or_default().calls as i64);
        after.saturating_sub(before)
    }
}

/// A row of `where` that is not charged the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    /// The row.
    pub name: String,
    /// What it was charged; none: it appeared.
    pub before: Option<Ns>,
    /// What it is; none: it vanished.
    pub after: Option<Ns>,
}

impl RowChange {
    /// By how much the boot path became longer in it.
    pub fn on_path(&self) -> Ns {
        self.after.unwrap_or_default() - self.before.unwrap_or_default()
    }
}

/// What changed, the greatest effect on the boot path first.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// Whether both boots' calls were followed, so that each call is compared.
    pub followed: bool,
    /// How many functions were compared, and how many paths.
    pub compared: (usize, usize),
    /// Rows of the boot path.
    pub rows: Vec<RowChange>,
    /// Functions, whoever called them.
    pub functions: Vec<Change>,
    /// Paths that changed themselves, not only in what they call.
    pub paths: Vec<Change>,
    function_names: Paths,
    path_names: Paths,
}

impl Diff {
    /// The name of a function that changed.
    pub fn function(&self, change: &Change) -> &str {
        &self.function_names.all[change.id as usize].1
    }

    /// A path that changed, from the function on down to the thread at the bottom of its stack.
    pub fn path(&self, change: &Change) -> impl Iterator<Item = &str> {
        let of = |id: u32| &self.path_names.all[id as usize];
        std::iter::successors(Some(of(change.id)), move |at| at.0.map(of)).map(|at| at.1.as_str())
    }

    /// Whether the boots are equal in all that was compared.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.functions.is_empty() && self.paths.is_empty()
    }
}

/// Compares two boots. Linear in their paths of calls and their spans.
pub fn diff(before: Side, after: Side) -> Diff {
    let mut diff = Diff { rows: row_changes(before.wheres, after.wheres), ..Diff::default() };
    let names = &mut diff.function_names;
    match (Tree::of(before), Tree::of(after)) {
        (Some(old), Some(new)) => {
            diff.followed = true;
            let functions = [old.functions(names), new.functions(names)];
            (diff.functions, diff.compared.0) = changes(functions, &names.all, |amount| amount);
            let paths = [old.paths(&mut diff.path_names), new.paths(&mut diff.path_names)];
            // What only changed in what it calls is seen there.
            let itself = |amount: Amount| Amount { total: Ns::ZERO, ..amount };
            (diff.paths, diff.compared.1) = changes(paths, &diff.path_names.all, itself);
        }
        _ => {
            let functions = [by_name(before.functions, names), by_name(after.functions, names)];
            (diff.functions, diff.compared.0) = changes(functions, &names.all, |amount| amount);
        }
    }
    diff
}

/// The rows that are not charged the same, the greatest effect first.
pub fn row_changes(before: &[Row], after: &[Row]) -> Vec<RowChange> {
    let mut new: HashMap<&str, Ns> = after.iter().map(|row| (row.name.as_str(), row.self_time)).collect();
    let change = |name: &str, before, after| RowChange { name: name.to_owned(), before, after };
    let mut rows: Vec<RowChange> = Vec::new();
    for row in before {
        rows.push(change(&row.name, Some(row.self_time), new.remove(row.name.as_str())));
    }
    rows.extend(new.into_iter().map(|(name, time)| change(name, None, Some(time))));
    rows.retain(|row| row.before != row.after);
    rows.sort_by(|a, b| (b.on_path().abs(), &a.name).cmp(&(a.on_path().abs(), &b.name)));
    rows
}

/// Numbers for paths by their names, the same for both boots: a path is a name, and the path before it.
#[derive(Clone, Debug, Default)]
struct Paths {
    ids: HashMap<(Option<u32>, String), u32>,
    all: Vec<(Option<u32>, String)>,
}

impl Paths {
    fn id(&mut self, parent: Option<u32>, name: String) -> u32 {
        *self.ids.entry((parent, name)).or_insert_with_key(|key| {
            self.all.push(key.clone());
            // A profile has fewer paths than 2^32, and so have two of any size that fits into memory.
            (self.all.len() - 1) as u32
        })
    }
}

fn by_name(rows: &[Row], names: &mut Paths) -> HashMap<u32, Amount> {
    let amount =
        |row: &Row| Amount { calls: row.count, own: row.self_time, total: row.total_time, on_path: row.self_time };
    rows.iter().map(|row| (names.id(None, row.name.clone()), amount(row))).collect()
}

/// What is not the same by what `counts`, and how many things were compared.
fn changes(
    [before, mut after]: [HashMap<u32, Amount>; 2],
    names: &[(Option<u32>, String)],
    counts: impl Fn(Amount) -> Amount,
) -> (Vec<Change>, usize) {
    let mut changes: Vec<Change> = Vec::new();
    let mut compared = after.len();
    for (id, old) in before {
        let new = after.remove(&id);
        compared += usize::from(new.is_none());
        if new.map(&counts) != Some(counts(old)) {
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

/// A boot's profile, with what of each path was on the boot path.
struct Tree<'a> {
    timeline: &'a Timeline,
    on_path: Vec<Ns>,
}

impl<'a> Tree<'a> {
    fn of(side: Side<'a>) -> Option<Tree<'a>> {
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
        Some(Tree { timeline: side.timeline, on_path: on_path.0 })
    }

    fn name(&self, node: NodeId) -> String {
        let node = self.timeline.profile.get(node);
        let name = self.timeline.names.get(node.name);
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
            let amount = functions.entry(names.id(None, self.name(id))).or_default();
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
            let name = match node.parent {
                Some(_) => self.name(id),
                None => self.timeline.names.get(node.name).to_owned(),
            };
            let path = names.id(node.parent.map(|parent| ids[parent.index()]), name);
            let (own, total) = (ns(node.own), ns(totals[i]));
            paths.insert(path, Amount { calls: node.calls, own, total, on_path: self.on_path[i] });
            ids.push(path);
        }
        paths
    }
}

fn ns(spent: u64) -> Ns {
    Ns(i64::try_from(spent).unwrap_or(i64::MAX))
}

struct OnPath(Vec<Ns>);

impl Follow for OnPath {
    type Key = ();

    fn called(&mut self, (): (), _: NodeId, _: u64) {}

    fn interrupted(&mut self, (): ()) {}

    fn own(&mut self, (): (), path: NodeId, length: u64) {
        self.0[path.index()] += Ns(length as i64);
    }
}
