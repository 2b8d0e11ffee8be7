//! Functions of one kernel that another has under another name, or inlined in their callers. Both are inferred from the
//! callers and callees in the call trees. Therefore both are only *likely*, and the output says so.

use hashbrown::{HashMap, HashSet};

/// A call tree in numbers. Each node has its parent, its function's number, its calls and the time spent in it itself.
/// Parents come before their children.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// The parent's index, the function's number, the number of calls, the time spent in it itself.
    pub nodes: Vec<(Option<u32>, u32, u64, u64)>,
}

/// Likely counterparts of functions that only one of two trees has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Functions of the first tree that the second has under another name: the old number and the new one.
    pub renamed: HashMap<u32, u32>,
    /// Functions that one tree lacks, and the function of that tree that their code is likely in.
    pub inlined: HashMap<u32, u32>,
}

/// A function, summed over all its paths.
#[derive(Clone, Debug, Default)]
struct Function {
    calls: u64,
    own: u64,
    callers: HashMap<u32, u64>,
    callees: HashSet<u32>,
}

impl Function {
    /// Returns the most frequent caller.
    fn caller(&self) -> Option<u32> {
        self.callers.iter().max_by_key(|&(caller, calls)| (*calls, *caller)).map(|(caller, _)| *caller)
    }
}

/// Compares two call trees. Linear in their nodes, and in the pairs of functions that one caller lost and gained.
pub fn moved(before: &Calls, after: &Calls) -> Moved {
    let [old, new] = [before, after].map(functions);
    let mut moved = Moved::default();
    let gone: Vec<u32> = sorted(old.keys().filter(|f| !new.contains_key(*f)));
    let came: Vec<u32> = sorted(new.keys().filter(|f| !old.contains_key(*f)));
    let mut new_by_caller: HashMap<u32, Vec<u32>> = HashMap::new();
    for &g in &came {
        if let Some(caller) = new[&g].caller() {
            new_by_caller.entry(caller).or_default().push(g);
        }
    }
    // Each pair is the only similar one, seen from both sides.
    let mut candidates_by_old: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut times_chosen: HashMap<u32, u32> = HashMap::new();
    for &f in &gone {
        let candidates = old[&f].caller().and_then(|caller| new_by_caller.get(&caller)).into_iter().flatten();
        for &g in candidates.filter(|g| are_similar(&old[&f], &new[*g])) {
            candidates_by_old.entry(f).or_default().push(g);
            *times_chosen.entry(g).or_default() += 1;
        }
    }
    for (f, matches) in candidates_by_old {
        if let [g] = matches[..] {
            if times_chosen[&g] == 1 {
                moved.renamed.insert(f, g);
            }
        }
    }
    let renamed: HashSet<u32> = moved.renamed.iter().flat_map(|(f, g)| [*f, *g]).collect();
    for (only, tree, other_tree) in [(&gone, &old, &new), (&came, &new, &old)] {
        for &f in only.iter().filter(|f| !renamed.contains(*f)) {
            moved.inlined.extend(inlined_into(&tree[&f], tree, other_tree).map(|into| (f, into)));
        }
    }
    moved
}

fn sorted<'a>(ids: impl Iterator<Item = &'a u32>) -> Vec<u32> {
    let mut ids: Vec<u32> = ids.copied().collect();
    ids.sort_unstable();
    ids
}

fn functions(calls: &Calls) -> HashMap<u32, Function> {
    let mut functions: HashMap<u32, Function> = HashMap::new();
    for &(parent, function, count, own) in &calls.nodes {
        let Some(parent) = parent else { continue };
        let caller = calls.nodes[parent as usize].1;
        let entry = functions.entry(function).or_default();
        entry.calls = entry.calls.saturating_add(count);
        entry.own = entry.own.saturating_add(own);
        *entry.callers.entry(caller).or_default() += count.max(1);
        functions.entry(caller).or_default().callees.insert(function);
    }
    functions
}

/// True if two functions of one caller do the same. Functions with callees must share at least half of them. Leaf
/// functions must have equal numbers of calls, and times that differ by at most a quarter.
fn are_similar(f: &Function, g: &Function) -> bool {
    if f.callees.is_empty() && g.callees.is_empty() {
        return f.calls == g.calls && f.own.abs_diff(g.own) <= f.own.max(g.own) / 4;
    }
    let shared = f.callees.intersection(&g.callees).count();
    let all = f.callees.len() + g.callees.len() - shared;
    shared * 2 >= all
}

/// Returns the caller that has a function's code in the other tree. There it calls at least half of the function's
/// callees and did not before. For a leaf function, the caller's own time grew by at least half of the function's time.
fn inlined_into(f: &Function, tree: &HashMap<u32, Function>, other_tree: &HashMap<u32, Function>) -> Option<u32> {
    let caller = f.caller()?;
    let (here, there) = (tree.get(&caller)?, other_tree.get(&caller)?);
    let took_over = f.callees.iter().filter(|c| there.callees.contains(*c) && !here.callees.contains(*c)).count();
    let is_inlined = match f.callees.len() {
        0 => f.own > 0 && there.own.saturating_sub(here.own) >= f.own / 2,
        all => took_over * 2 >= all,
    };
    is_inlined.then_some(caller)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths such as `a/b/c`, with their calls and own time.
    fn trees(sides: [&[(&str, u64, u64)]; 2]) -> ([Calls; 2], Vec<String>) {
        let mut names: Vec<String> = Vec::new();
        let trees = sides.map(|paths| {
            let mut tree = Calls::default();
            let mut at: HashMap<&str, u32> = HashMap::new();
            for &(path, calls, own) in paths {
                let (parent, name) = path.rsplit_once('/').map_or((None, path), |(p, name)| (Some(at[p]), name));
                let function = names.iter().position(|n| n == name).unwrap_or_else(|| {
                    names.push(name.to_owned());
                    names.len() - 1
                });
                at.insert(path, timeline::number(tree.nodes.len()));
                tree.nodes.push((parent, timeline::number(function), calls, own));
            }
            tree
        });
        (trees, names)
    }

    fn check(sides: [&[(&str, u64, u64)]; 2], renamed: &[(&str, &str)], inlined: &[(&str, &str)]) {
        let ([before, after], names) = trees(sides);
        let result = moved(&before, &after);
        let name_pairs = |pairs: &HashMap<u32, u32>| {
            let mut pairs_by_name: Vec<(String, String)> =
                pairs.iter().map(|(f, g)| (names[*f as usize].clone(), names[*g as usize].clone())).collect();
            pairs_by_name.sort();
            pairs_by_name
        };
        let expected = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(f, g)| ((*f).to_owned(), (*g).to_owned())).collect()
        };
        assert_eq!(name_pairs(&result.renamed), expected(renamed));
        assert_eq!(name_pairs(&result.inlined), expected(inlined));
    }

    #[test]
    fn a_renamed_function_has_the_same_caller_and_callees() {
        check(
            [
                &[
                    ("s", 0, 0),
                    ("s/start", 1, 5),
                    ("s/start/mm_init", 1, 9),
                    ("s/start/mm_init/a", 1, 1),
                    ("s/start/mm_init/b", 1, 1),
                ],
                &[
                    ("s", 0, 0),
                    ("s/start", 1, 5),
                    ("s/start/mm_core", 1, 80),
                    ("s/start/mm_core/a", 1, 1),
                    ("s/start/mm_core/b", 1, 1),
                ],
            ],
            &[("mm_init", "mm_core")],
            &[],
        );
        // Leaves, with equal calls and about equal time.
        check(
            [&[("s", 0, 0), ("s/f", 1, 5), ("s/f/old", 7, 100)], &[("s", 0, 0), ("s/f", 1, 5), ("s/f/new", 7, 110)]],
            &[("old", "new")],
            &[],
        );
        check(
            [&[("s", 0, 0), ("s/f", 1, 5), ("s/f/old", 7, 100)], &[("s", 0, 0), ("s/f", 1, 5), ("s/f/new", 7, 200)]],
            &[],
            &[],
        );
    }

    #[test]
    fn with_two_similar_functions_neither_is_chosen() {
        check(
            [
                &[("s", 0, 0), ("s/f", 1, 5), ("s/f/old", 7, 100)],
                &[("s", 0, 0), ("s/f", 1, 5), ("s/f/one", 7, 100), ("s/f/two", 7, 100)],
            ],
            &[],
            &[],
        );
    }

    #[test]
    fn an_inlined_function_is_in_the_caller_that_took_its_callees_or_grew() {
        check(
            [
                &[("s", 0, 0), ("s/f", 1, 5), ("s/f/step", 1, 9), ("s/f/step/a", 1, 1), ("s/f/leaf", 3, 50)],
                &[("s", 0, 0), ("s/f", 1, 60), ("s/f/a", 1, 1)],
            ],
            &[],
            &[("leaf", "f"), ("step", "f")],
        );
        // The reverse: the function that appeared was inlined in its caller before.
        check(
            [&[("s", 0, 0), ("s/f", 1, 60)], &[("s", 0, 0), ("s/f", 1, 5), ("s/f/leaf", 3, 50)]],
            &[],
            &[("leaf", "f")],
        );
        check(
            [
                &[("s", 0, 0), ("s/f", 1, 60), ("s/f/a", 1, 1)],
                &[("s", 0, 0), ("s/f", 1, 5), ("s/f/step", 1, 50), ("s/f/step/a", 1, 1)],
            ],
            &[],
            &[("step", "f")],
        );
    }
}
