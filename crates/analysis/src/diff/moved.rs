//! Functions of one kernel that another has under another name, or inside of their callers. A call tree shows who called
//! them and whom they called; from that both are inferred, so both are *likely*, and said to be.

use hashbrown::{HashMap, HashSet};

/// A call tree in numbers: of each node its parent, its function's number, its calls and what was spent in it itself.
/// Parents come before their children.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// Parent's place, function, calls, own.
    pub nodes: Vec<(Option<u32>, u32, u64, u64)>,
}

/// What became of functions that only one of two trees has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Functions of the first tree that the second has under another name: the old number and the new one.
    pub renamed: HashMap<u32, u32>,
    /// Functions that one tree lacks, and in which function of it their code likely is.
    pub inlined: HashMap<u32, u32>,
}

/// A function, over all its paths.
#[derive(Clone, Debug, Default)]
struct Function {
    calls: u64,
    own: u64,
    callers: HashMap<u32, u64>,
    callees: HashSet<u32>,
}

impl Function {
    /// Who calls it most.
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
    let mut of_caller: HashMap<u32, Vec<u32>> = HashMap::new();
    for &g in &came {
        if let Some(caller) = new[&g].caller() {
            of_caller.entry(caller).or_default().push(g);
        }
    }
    // Each with the only one that is like it, where that is so on both sides.
    let mut likes: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut liked: HashMap<u32, u32> = HashMap::new();
    for &f in &gone {
        let candidates = old[&f].caller().and_then(|caller| of_caller.get(&caller)).into_iter().flatten();
        for &g in candidates.filter(|g| alike(&old[&f], &new[*g])) {
            likes.entry(f).or_default().push(g);
            *liked.entry(g).or_default() += 1;
        }
    }
    for (f, of) in likes {
        if let [g] = of[..] {
            if liked[&g] == 1 {
                moved.renamed.insert(f, g);
            }
        }
    }
    let renamed: HashSet<u32> = moved.renamed.iter().flat_map(|(f, g)| [*f, *g]).collect();
    for (only, of, other) in [(&gone, &old, &new), (&came, &new, &old)] {
        for &f in only.iter().filter(|f| !renamed.contains(*f)) {
            moved.inlined.extend(inlined_into(&of[&f], of, other).map(|into| (f, into)));
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
        let known = functions.entry(function).or_default();
        known.calls = known.calls.saturating_add(count);
        known.own = known.own.saturating_add(own);
        *known.callers.entry(caller).or_default() += count.max(1);
        functions.entry(caller).or_default().callees.insert(function);
    }
    functions
}

/// Whether two functions of one caller do the same: they call mostly the same, or call nothing, and are called as often and
/// take as long to a quarter.
fn alike(f: &Function, g: &Function) -> bool {
    if f.callees.is_empty() && g.callees.is_empty() {
        return f.calls == g.calls && f.own.abs_diff(g.own) <= f.own.max(g.own) / 4;
    }
    let shared = f.callees.intersection(&g.callees).count();
    let all = f.callees.len() + g.callees.len() - shared;
    shared * 2 >= all
}

/// The caller in which a function's code is in the other tree: it now calls most of what the function called and did not
/// before, or where the function called nothing, its own time grew by at least half of the function's.
fn inlined_into(f: &Function, of: &HashMap<u32, Function>, other: &HashMap<u32, Function>) -> Option<u32> {
    let caller = f.caller()?;
    let (here, there) = (of.get(&caller)?, other.get(&caller)?);
    let took_over = f.callees.iter().filter(|c| there.callees.contains(*c) && !here.callees.contains(*c)).count();
    let is = match f.callees.len() {
        0 => f.own > 0 && there.own.saturating_sub(here.own) >= f.own / 2,
        all => took_over * 2 >= all,
    };
    is.then_some(caller)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths as `a/b/c`, with calls and own.
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
        let found = moved(&before, &after);
        let told = |pairs: &HashMap<u32, u32>| {
            let mut told: Vec<(String, String)> =
                pairs.iter().map(|(f, g)| (names[*f as usize].clone(), names[*g as usize].clone())).collect();
            told.sort();
            told
        };
        let expected = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(f, g)| ((*f).to_owned(), (*g).to_owned())).collect()
        };
        assert_eq!(told(&found.renamed), expected(renamed));
        assert_eq!(told(&found.inlined), expected(inlined));
    }

    #[test]
    fn a_function_of_another_name_calls_the_same_from_the_same_place() {
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
        // Leaves: called as often, and as long.
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
    fn of_two_that_are_alike_neither_is_chosen() {
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
    fn a_function_s_code_is_in_who_calls_what_it_called_or_grew_by_it() {
        check(
            [
                &[("s", 0, 0), ("s/f", 1, 5), ("s/f/step", 1, 9), ("s/f/step/a", 1, 1), ("s/f/leaf", 3, 50)],
                &[("s", 0, 0), ("s/f", 1, 60), ("s/f/a", 1, 1)],
            ],
            &[],
            &[("leaf", "f"), ("step", "f")],
        );
        // The other way round: what appeared was in its caller before.
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
