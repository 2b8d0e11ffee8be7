//! Initcalls that Linux can leave out: the word on the command line, and its cost.
//!
//! A rule decides whether an initcall may be left out; its table gives the reason.

use crate::facts::Price;
use crate::remedy::Change;
use crate::{Remedy, Seen};
use hashbrown::HashSet;
use timeline::{Ns, SpanKind};

const PARAMETER: &str = "initcall_blacklist=";
/// Cost of a lookup for each initcall. If a list of initcalls to leave out is given, the kernel looks up the name of each initcall before
/// it calls it. That took 1.3 ms for 575 initcalls of Debian's 6.1 cloud kernel, counted in instructions of 1 ns.
const LOOKUP: Ns = Ns(2_300);
/// The part of the initcalls' work that returns elsewhere in the worst case, if they are left out.
pub const COMES_BACK: f64 = 0.05;

/// The change that leaves these initcalls out, each named once: a name applies to all initcalls that have it.
pub fn remedy(what: &'static str, initcalls: &[&str]) -> Remedy {
    let mut named = HashSet::new();
    let names: Vec<&str> = initcalls.iter().copied().filter(|name| named.insert(*name)).collect();
    let word = format!("{PARAMETER}{}", names.join(","));
    Remedy { what, changes: vec![Change::AppendWords(vec![word])] }
}

/// Splits a word with a list of initcalls into one word for each; returns another word unchanged.
pub fn split(word: &str) -> Vec<String> {
    match word.strip_prefix(PARAMETER) {
        Some(names) => names.split(',').map(|name| format!("{PARAMETER}{name}")).collect(),
        None => vec![word.to_owned()],
    }
}

/// Cost of the kernel's search in a list of initcalls, if these changes add a list. Several lists cost as much as one; if the boot already
/// had a list, the cost is 0. `low` is the best case.
pub fn lookup_cost<'c>(seen: &Seen, mut changes: impl Iterator<Item = &'c Change>) -> Price {
    let gives_one =
        |change: &Change| matches!(change, Change::AppendWords(words) if words.iter().any(|word| is_list(word)));
    let had_one = || seen.machine.command_line.iter().flatten().any(|word| is_list(word));
    if !changes.any(gives_one) || had_one() {
        return Price::default();
    }
    let searched = seen.timeline.spans.iter().filter(|(_, row)| row.kind == SpanKind::Initcall).count();
    let lookups = Ns(LOOKUP.0 * i64::try_from(searched).unwrap_or(i64::MAX >> 20));
    Price { likely: lookups, high: lookups + lookups, ..Price::default() }
}

fn is_list(word: &str) -> bool {
    word.starts_with(PARAMETER)
}
