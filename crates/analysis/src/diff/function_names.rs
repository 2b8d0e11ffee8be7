//! The names that are one function's in two builds of a kernel. A suffix from a compiler or a linker does not change
//! the function. This applies only to two kernels: in two boots of one kernel, a part that did not run is a difference.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

/// Suffixes that compilers append, with or without a number. They mark copies for constant arguments or fewer
/// arguments, parts that were split off, and copies that link-time optimisation made.
const SUFFIXES: [&str; 7] = ["constprop", "isra", "part", "cold", "llvm", "lto_priv", "localalias"];
/// The prefix of a function's name for code that runs before the kernel is at its address.
const ALIAS: &str = "__pi_";
/// Functions that only lead from the bottom of a thread's stack to its first function. Kernels have one or two of them.
const TRAMPOLINES: [&str; 2] = ["ret_from_fork", "ret_from_fork_asm"];

/// True if a function only leads to the first function of a thread, so that paths are compared without it.
pub fn is_trampoline(name: &str) -> bool {
    TRAMPOLINES.contains(&name)
}

/// Returns the name without what a build adds to it, for each of its words: `initcall foo.isra.0 · runqueue`.
pub fn plain(name: &str) -> Cow<'_, str> {
    if !name.contains('.') && !name.contains(ALIAS) {
        return Cow::Borrowed(name);
    }
    let words: Vec<&str> = name.split(' ').map(plain_word).collect();
    Cow::Owned(words.join(" "))
}

fn plain_word(word: &str) -> &str {
    let mut word = word.strip_prefix(ALIAS).unwrap_or(word);
    loop {
        let without_number = word.trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix('.').unwrap_or(word);
        let cut =
            without_number.rsplit_once('.').filter(|(name, suffix)| !name.is_empty() && SUFFIXES.contains(suffix));
        let Some((name, _)) = cut else { return word };
        word = name;
    }
}

/// Returns new names for functions that the two sides have under different names, so that the names of one function are
/// equal. With each name comes the name to compare it by.
pub fn merged<'a>(
    before: impl Iterator<Item = (&'a str, Cow<'a, str>)>,
    after: impl Iterator<Item = (&'a str, Cow<'a, str>)>,
) -> HashMap<String, String> {
    let mut families: BTreeMap<String, [BTreeSet<&'a str>; 2]> = BTreeMap::new();
    let sides = before.map(|name| (0, name)).chain(after.map(|name| (1, name)));
    for (side, (name, compared_name)) in sides {
        families.entry(plain(&compared_name).into_owned()).or_default()[side].insert(name);
    }
    let mut merged = HashMap::new();
    for (plain, [before, after]) in families {
        if before.is_empty() || after.is_empty() || before == after {
            continue;
        }
        merged.extend(before.union(&after).map(|name| ((*name).to_owned(), plain.clone())));
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowKey;
    use timeline::NameId;

    #[test]
    fn suffixes_from_a_build_are_left_out() {
        for (name, expected) in [
            ("vli_mmod_fast.isra.0", "vli_mmod_fast"),
            ("f.constprop.0.isra.12", "f"),
            ("f.part.0.cold", "f"),
            ("f.llvm.1234567890", "f"),
            ("__pi_memcpy", "memcpy"),
            ("initcall foo_init.cold · runqueue", "initcall foo_init · runqueue"),
            ("kworker/0:1", "kworker/0:1"),
            ("part.0", "part.0"),
            ("irq 8.5", "irq 8.5"),
            ("f.1", "f.1"),
            (".cold", ".cold"),
        ] {
            assert_eq!(plain(name), expected);
        }
    }

    #[test]
    fn only_functions_with_different_names_are_merged() {
        let before = ["same.isra.0", "split", "gone.cold", "isra.isra.0"];
        let after = ["same.isra.0", "split", "split.part.0", "isra.constprop.0"];
        let with_itself = |name| (name, Cow::Borrowed(name));
        let merged = merged(before.into_iter().map(with_itself), after.into_iter().map(with_itself));
        let mut merged: Vec<_> = merged.into_iter().collect();
        merged.sort();
        let expected =
            [("isra.constprop.0", "isra"), ("isra.isra.0", "isra"), ("split", "split"), ("split.part.0", "split")];
        assert_eq!(merged, expected.map(|(from, to)| (from.to_owned(), to.to_owned())));
    }
    /// One build calls it through a pointer, the other does not. A thread whose own name contains the mark is another
    /// row.
    #[test]
    fn an_indirect_call_is_the_same_function() {
        let row = |key, name: &str| crate::Row { key, name: name.to_owned(), ..crate::Row::default() };
        let (prepare, indirect) = (NameId::EMPTY, NameId::INDIRECT);
        let rows = [
            row(RowKey::Step(prepare, indirect), "prepare (indirect call) · runqueue"),
            row(RowKey::Step(prepare, NameId::EMPTY), "prepare · runqueue"),
            row(RowKey::Other, "thread x (indirect call)"),
        ];
        let timeline = timeline::Timeline::default();
        let names = rows.each_ref().map(|row| (row.name.as_str(), row.compared_by(&timeline)));
        let [called, direct, thread] = names;
        let other = row(RowKey::Other, "thread x");
        let after = [direct, (other.name.as_str(), other.compared_by(&timeline))];
        let merged = merged([called, thread].into_iter(), after.into_iter());
        let to = |name: &str| merged.get(name).map(String::as_str);
        assert_eq!(
            (to("prepare (indirect call) · runqueue"), merged.len()),
            (Some("prepare · runqueue"), 2),
            "{merged:?}"
        );
    }

    /// A thread that only has a decompressor's name is another row.
    #[test]
    fn a_decompressor_is_the_same_for_every_format() {
        let boot = |name: &str| {
            let mut timeline = timeline::Timeline::default();
            timeline.decompressor = Some(timeline.names.intern(name));
            timeline
        };
        let (xz, lz4) = (boot("decompress the kernel (XZ)"), boot("decompress the kernel (LZ4)"));
        let row = |key, name: &str| crate::Row { key, name: name.to_owned(), ..crate::Row::default() };
        let step = |timeline: &timeline::Timeline, mechanism: &str| {
            let name = timeline.decompressor.unwrap();
            row(RowKey::Step(name, NameId::EMPTY), &format!("{}{mechanism}", timeline.names.get(name)))
        };
        let old = [step(&xz, ""), step(&xz, " · runqueue")];
        let new =
            [step(&lz4, ""), step(&lz4, " · runqueue"), row(RowKey::Other, "decompress the kernel (XZ), a thread")];
        fn names<'a>(
            rows: &'a [crate::Row],
            of: &'a timeline::Timeline,
        ) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> {
            rows.iter().map(move |row| (row.name.as_str(), row.compared_by(of)))
        }
        let merged = merged(names(&old, &xz), names(&new, &lz4));
        let to = |name: &str| merged.get(name).map(String::as_str);
        assert_eq!(to("decompress the kernel (XZ)"), Some("decompress the kernel"));
        assert_eq!(to("decompress the kernel (LZ4) · runqueue"), Some("decompress the kernel · runqueue"));
        assert_eq!(merged.len(), 4, "{merged:?}");
    }
}
