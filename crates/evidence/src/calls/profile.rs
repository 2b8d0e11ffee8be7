//! Calls as a profile: addresses become names, and paths that only differ in what has no name become one.
//!
//! Code in the kernel's image is named by `/proc/kallsyms`, also where it runs before its virtual address is mapped.
//! What has no name is shown by its address. Functions that are called at an address inside of another one are, by
//! name, that one.

use super::{CallClock, Calls, Kind};
use crate::first_run::symbols::Symbols;
use std::borrow::Cow;
use timeline::{Names, NodeId, Profile, Weight};

/// The node that stands for user space.
pub const USER_SPACE: &str = "user space";
/// A function that an interrupt kept from being known.
const UNKNOWN: &str = "(unknown)";

/// The call tree up to a moment (ticks), named. Its unit is instructions.
pub fn profile(calls: &Calls, until: u64, symbols: &Symbols, names: &mut Names) -> Profile {
    let mut profile = Profile::new(Weight::Instructions);
    let mut node_of: Vec<Option<NodeId>> = vec![None; calls.nodes.len()];
    for totals in calls.totals_until(until).iter().skip(1) {
        let node = calls.nodes[totals.node as usize];
        let name = name(node.function, node.kind, symbols);
        let parent = node_of[node.parent as usize];
        let id = profile.node(parent, names.intern(&name));
        profile.add(id, totals.calls, totals.insns);
        node_of[totals.node as usize] = Some(id);
    }
    profile
}

fn name(function: u64, kind: Kind, symbols: &Symbols) -> Cow<'_, str> {
    match (kind, function, symbols.find(function)) {
        (Kind::User, ..) => USER_SPACE.into(),
        (_, 0, _) => UNKNOWN.into(),
        (.., Some(place)) => place.name.into(),
        (.., None) => format!("{function:#x}").into(),
    }
}

/// How much of the boot calls account for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Instructions in all.
    pub insns: u64,
    /// In user space.
    pub user: u64,
    /// At the bottom of a stack, in no call that is known.
    pub unowned: u64,
}

impl Share {
    /// Up to a moment, in ticks.
    pub fn until(calls: &Calls, until: u64) -> Share {
        let mut share = Share::default();
        for totals in calls.totals_until(until).iter().skip(1) {
            share.insns = share.insns.saturating_add(totals.insns);
            match calls.nodes[totals.node as usize].kind {
                Kind::User => share.user = share.user.saturating_add(totals.insns),
                Kind::Stack => share.unowned = share.unowned.saturating_add(totals.insns),
                _ => {}
            }
        }
        share
    }

    /// Share of the instructions outside user space that lie in a known call; none without any.
    pub fn owned(&self) -> Option<f64> {
        let outside = self.insns.saturating_sub(self.user);
        (outside > 0).then(|| 1.0 - self.unowned as f64 / outside as f64)
    }
}

/// Up to where a boot is compared: the moment process 1 first wrote to a port, or first ran; otherwise all of it.
pub fn end(calls: &Calls) -> u64 {
    let mark =
        calls.marks.iter().max_by_key(|mark| (mark.kind == super::MarkKind::FirstUserOut, std::cmp::Reverse(mark.at)));
    mark.map_or(u64::MAX, |mark| mark.at)
}

/// What the clock of the calls is, in words.
pub fn clock_words(calls: &Calls) -> &'static str {
    match calls.clock {
        CallClock::Host => "host time",
        CallClock::Virtual => "guest instructions",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{read, tests::sample};
    use timeline::Diagnostics;

    #[test]
    fn addresses_become_names() {
        let mut diagnostics = Diagnostics::default();
        let calls = read("f", &sample(), &mut diagnostics);
        let symbols = Symbols::read("kallsyms", b"0000000000010000 T start_kernel\n", &mut diagnostics);
        let mut names = Names::default();
        let p = profile(&calls, u64::MAX, &symbols, &mut names);
        let rows: Vec<_> =
            p.functions().iter().map(|r| (names.get(r.name).to_owned(), r.calls, r.own, r.total)).collect();
        assert_eq!(rows, [("start_kernel".to_owned(), 1, 70, 70), ("0xfff0".to_owned(), 0, 9, 79)]);
        let share = Share::until(&calls, u64::MAX);
        assert_eq!(share, Share { insns: 79, user: 0, unowned: 9 });
        assert_eq!(end(&calls), 510);
    }
}
