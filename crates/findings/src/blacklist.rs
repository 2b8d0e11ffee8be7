//! Initcalls that Linux can be told not to make: the word that does it, and what that costs.
//!
//! Whether an initcall may be left out is for the rule that asks: its table gives the reason.

use crate::facts::Price;
use crate::remedy::Change;
use crate::{Remedy, Seen};
use hashbrown::HashSet;
use timeline::{Ns, SpanKind};

/// The kernel's parameter.
const PARAMETER: &str = "initcall_blacklist=";
/// With a list of initcalls to leave out the kernel looks up the name of each initcall that it is about to make, in
/// instructions: 1.3 ms for 575 initcalls of Debian's 6.1 cloud kernel. How long one instruction takes is taken as 1 ns.
const LOOKUP: Ns = Ns(2_300);
/// At the worst, this part of what initcalls do comes back elsewhere when they are left out.
pub const COMES_BACK: f64 = 0.05;

/// The change that leaves these initcalls out, each named once: a name leaves out all that have it.
pub fn remedy(what: &'static str, initcalls: &[&str]) -> Remedy {
    let mut named = HashSet::new();
    let names: Vec<&str> = initcalls.iter().copied().filter(|name| named.insert(*name)).collect();
    let word = format!("{PARAMETER}{}", names.join(","));
    Remedy { what, changes: vec![Change::AppendWords(vec![word])] }
}

/// A word with a list of initcalls as one word for each; another word as it is.
pub fn each(word: &str) -> Vec<String> {
    match word.strip_prefix(PARAMETER) {
        Some(names) => names.split(',').map(|name| format!("{PARAMETER}{name}")).collect(),
        None => vec![word.to_owned()],
    }
}

/// What it costs that the kernel searches a list, if these changes give it one: as much for many lists as for one, and nothing
/// if the boot had one already. `low` is at the best.
pub fn searching<'c>(seen: &Seen, mut changes: impl Iterator<Item = &'c Change>) -> Price {
    let gives_one =
        |change: &Change| matches!(change, Change::AppendWords(words) if words.iter().any(|word| is_list(word)));
    let had_one = || seen.machine.command_line.iter().flatten().any(|word| is_list(word));
    if !changes.any(gives_one) || had_one() {
        return Price::default();
    }
    let searched = seen.timeline.spans.iter().filter(|(_, row)| row.kind == SpanKind::Initcall).count();
    let lookups = Ns(LOOKUP.0 * i64::try_from(searched).unwrap_or(i64::MAX >> 20));
    Price { low: Ns::ZERO, likely: lookups, high: lookups + lookups }
}

fn is_list(word: &str) -> bool {
    word.starts_with(PARAMETER)
}
