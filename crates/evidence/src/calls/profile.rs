//! Calls as a profile: addresses become names, and paths that only differ in what has no name become one.
//!
//! Code in the kernel's image is named by `/proc/kallsyms`, also where it runs before its virtual address is mapped.
//! What has no name is shown by its address, and before the kernel by its stage as well. Functions that are called at an
//! address inside of another one are, by name, that one; where that one itself goes there (a call that only serves to put an
//! address on the stack, a jump to what looks like a beginning) it is no call of it. The bottom of each path is called as the [context](super::contexts)
//! that it ran in.

use super::contexts::{Contexts, USER_SPACE};
use super::{CallClock, Calls, Kind, Node, Totals};
use crate::first_run::symbols::Symbols;
use hashbrown::HashMap;
use timeline::{NameId, Names, NodeId, Profile, SpanKind, Weight};

/// A function that an interrupt kept from being known.
const UNKNOWN: &str = "(unknown)";
/// What Linux calls each initcall from.
const CALLS_INITCALLS: &str = "do_one_initcall";

/// A profile, and which of its nodes each path of the file became.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// The call tree.
    pub profile: Profile,
    /// Of each node of the file, its node in the profile; none for what only ran later.
    pub node: Vec<Option<NodeId>>,
    /// Of each node of the file, whether it is a part of its parent, and no call.
    pub is_part: Vec<bool>,
}

/// The call tree up to a moment (ticks), named, in instructions.
pub fn profile(calls: &Calls, until: u64, symbols: &Symbols, contexts: &Contexts, names: &mut Names) -> Named {
    build(calls, until, symbols, contexts, names, Weight::Instructions, |totals| totals.insns)
}

/// The same in nanoseconds: by the host's clock what the ticks took on average, by the guest's an instruction each.
pub fn timed_profile(calls: &Calls, until: u64, symbols: &Symbols, contexts: &Contexts, names: &mut Names) -> Named {
    let ticks = until.min(calls.last_tick()).max(1);
    let ns = (calls.at(ticks) - calls.at(0)).0.max(0) as u128;
    let spent = |totals: &Totals| match calls.clock {
        CallClock::Virtual => totals.insns,
        CallClock::Host => (u128::from(totals.ticks) * ns / u128::from(ticks)).min(u64::MAX.into()) as u64,
    };
    build(calls, until, symbols, contexts, names, Weight::Ns, spent)
}

fn build(
    calls: &Calls,
    until: u64,
    symbols: &Symbols,
    contexts: &Contexts,
    names: &mut Names,
    weight: Weight,
    spent: impl Fn(&Totals) -> u64,
) -> Named {
    let (node, is_part) = (vec![None; calls.nodes.len()], vec![false; calls.nodes.len()]);
    let mut named = Named { profile: Profile::new(weight), node, is_part };
    let mut namer = Namer { symbols, known: HashMap::new(), places: HashMap::new() };
    let [user, calls_initcalls] = [USER_SPACE, CALLS_INITCALLS].map(|name| names.intern(name));
    let totals = calls.totals_until(until);
    let known = entered(calls, &totals);
    for totals in totals.iter().skip(1).filter(|totals| known[totals.node as usize]) {
        let node = calls.nodes[totals.node as usize];
        let context = contexts.of(totals.node);
        let mut parent = named.node[node.parent as usize].filter(|_| node.parent != 0);
        if let Some(parent) = parent.filter(|_| namer.is_part(&node, &calls.nodes[node.parent as usize])) {
            named.profile.add(parent, 0, spent(totals));
            named.node[totals.node as usize] = Some(parent);
            named.is_part[totals.node as usize] = true;
            continue;
        }
        let name = match node.kind {
            // What no thread is known of: its bottom, and the programs on it.
            Kind::User => user,
            _ if parent.is_none() => names.intern(&context.name),
            _ => namer.name(node.function, context.stage.map(|stage| stage.name()), names),
        };
        if node.kind == Kind::User {
            parent = Some(named.profile.node(None, user));
        }
        let id = named.profile.node(parent, name);
        match node.kind {
            Kind::Interrupt => named.profile.set_kind(id, SpanKind::Interrupt),
            // What else it calls, it calls for each of them.
            _ if totals.calls <= 1 && parent.is_some_and(|p| named.profile.get(p).name == calls_initcalls) => {
                named.profile.set_kind(id, SpanKind::Initcall);
            }
            _ => {}
        }
        named.profile.add(id, totals.calls, spent(totals));
        named.node[totals.node as usize] = Some(id);
    }
    named
}

/// Of each node, whether anything of it or under it had been counted.
fn entered(calls: &Calls, totals: &[Totals]) -> Vec<bool> {
    let mut entered: Vec<bool> = totals.iter().map(|t| t.calls > 0 || t.insns > 0 || t.ticks > 0).collect();
    for (i, node) in calls.nodes.iter().enumerate().rev() {
        if entered[i] {
            entered[node.parent as usize] = true;
        }
    }
    entered
}

/// Names of addresses, each looked up once.
struct Namer<'a> {
    symbols: &'a Symbols,
    known: HashMap<(u64, Option<&'static str>), NameId>,
    /// The function that an address is in, and whether it is that function's first.
    places: HashMap<u64, Option<(u64, bool)>>,
}

impl Namer<'_> {
    /// Whether a node is its parent's function, entered elsewhere than at its beginning.
    fn is_part(&mut self, node: &Node, parent: &Node) -> bool {
        if ![node, parent].iter().all(|node| matches!(node.kind, Kind::Call | Kind::Tail)) {
            return false;
        }
        let symbols = self.symbols;
        let mut place = |address: u64| {
            let found = || symbols.function(address).zip(symbols.find(address).map(|place| place.offset == 0));
            *self.places.entry(address).or_insert_with(found)
        };
        match (place(node.function), place(parent.function)) {
            (Some((function, false)), Some((of_parent, _))) => function == of_parent,
            _ => false,
        }
    }

    fn name(&mut self, function: u64, stage: Option<&'static str>, names: &mut Names) -> NameId {
        let symbols = self.symbols;
        *self.known.entry((function, stage)).or_insert_with(|| match (function, symbols.find(function), stage) {
            (0, ..) => names.intern(UNKNOWN),
            (_, Some(place), _) => names.intern(place.name),
            (_, None, Some(stage)) => names.intern(&format!("{stage} {function:#x}")),
            (_, None, None) => names.intern(&format!("{function:#x}")),
        })
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
        let contexts = Contexts::new(&calls, &symbols, &[]);
        let p = profile(&calls, u64::MAX, &symbols, &contexts, &mut names).profile;
        let rows: Vec<_> =
            p.functions().iter().map(|r| (names.get(r.name), r.bottom, r.calls, r.own, r.total)).collect();
        assert_eq!(rows, [("start_kernel", false, 1, 70, 70), ("start_kernel", true, 0, 9, 79)]);
        let share = Share::until(&calls, u64::MAX);
        assert_eq!(share, Share { insns: 79, user: 0, unowned: 9 });
        assert_eq!(end(&calls), 510);
    }
}
