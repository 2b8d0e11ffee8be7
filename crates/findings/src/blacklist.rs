//! Initcalls that Linux can be told not to make: what leaving them out brings, and the word that does it.
//!
//! Whether an initcall may be left out is for the rule that asks: its table gives the reason.

use crate::detector::{Left, Part};
use crate::facts::Stretch;
use crate::remedy::Change;
use crate::{Remedy, Seen};
use timeline::{Ns, SpanKind};

/// The kernel's parameter.
const PARAMETER: &str = "initcall_blacklist=";
/// With a list of initcalls to leave out the kernel looks up the name of each initcall that it is about to make, in
/// instructions: 1.3 ms for 575 initcalls of Debian's 6.1 cloud kernel. How long one instruction takes is taken as 1 ns.
const LOOKUP: Ns = Ns(2_300);

/// What of these stretches goes when the initcalls that caused them are left out. The kernel's search in the list is taken off
/// their price, unless the boot had a list already.
pub fn left_out(seen: &Seen, stretches: Vec<Stretch>) -> Vec<Part> {
    let whole: Ns = stretches.iter().map(Stretch::length).sum();
    let searched = seen.timeline.spans.iter().filter(|(_, row)| row.kind == SpanKind::Initcall).count();
    let lookups =
        if has_list(seen) { Ns::ZERO } else { Ns(LOOKUP.0 * i64::try_from(searched).unwrap_or(i64::MAX >> 20)) };
    let Left { least, likely, most } = Left::time(whole, Ns::ZERO, lookups, lookups + lookups);
    // At the worst a twentieth of the work comes back elsewhere.
    let left = Left { least, likely, most: most.max(likely + 0.05).min(1.0) };
    stretches.into_iter().map(|stretch| Part { stretch, left }).collect()
}

/// The change that leaves these initcalls out.
pub fn remedy(what: &'static str, initcalls: &[&str]) -> Remedy {
    let word = format!("{PARAMETER}{}", initcalls.join(","));
    Remedy { what, changes: vec![Change::AppendWords(vec![word])] }
}

fn has_list(seen: &Seen) -> bool {
    let words = seen.machine.command_line.iter().flatten();
    words.into_iter().any(|word| word.starts_with(PARAMETER))
}
