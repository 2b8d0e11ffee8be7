//! Turns calls into a profile: addresses become names, and paths that differ only in nameless code become one.
//!
//! `/proc/kallsyms` names the code in the kernel's image, also where it runs before its virtual address is mapped. Code
//! without a name is shown by its address, and before the kernel by its stage as well. A call to an address inside a
//! function counts as a call of that function. If that function itself goes there, it is not a call. Examples are a
//! call that only puts an address on the stack, and a jump to an address that looks like the beginning of a function.
//! The same holds at the bottom of a stack that the function has just changed to. The bottom of each path has the name
//! of the [context](super::contexts) that it ran in.

use crate::boot::followed::Followed;
use crate::boot::regions::{self, Stage};
use crate::formats::calls::{Calls, Kind, MarkKind, Node, PluginClock, Totals};
use crate::readers::calls::contexts::{Contexts, USER_SPACE};
use hashbrown::{HashMap, HashSet};
use timeline::{NameId, Names, NodeId, Profile, SpanKind, Weight};

/// The name of a function that could not be determined because of an interrupt.
const UNKNOWN: &str = "(unknown)";
/// The functions from which Linux calls initcalls, each with its other callees.
const CALLS_INITCALLS: [(&str, &[&str]); 2] = [("do_one_initcall", &[]), ("console_init", &["n_tty_init"])];
/// Prefix of the tracepoints around an initcall.
const TRACEPOINT: &str = "__traceiter_";

/// A profile, and the mapping from the file's nodes to its nodes.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// The call tree.
    pub profile: Profile,
    /// For each node of the file, its node in the profile; `None` for nodes that ran only later.
    pub node: Vec<Option<NodeId>>,
    /// For each node of the file, true if it is a part of its parent instead of a call.
    pub(crate) is_part: Vec<bool>,
}

impl Named {
    /// Adds a node that is a part of another one.
    fn add_part(&mut self, parent: NodeId, node: u32, spent: u64) {
        self.profile.add(parent, 0, spent);
        self.node[node as usize] = Some(parent);
        self.is_part[node as usize] = true;
    }
}

/// The call tree up to the tick `until`, with names, in instructions.
pub fn profile(followed: &Followed, until: u64, contexts: &Contexts, names: &mut Names) -> Named {
    build(followed, until, contexts, names, Weight::Instructions, |totals| totals.insns)
}

/// The call tree in nanoseconds. On the host's clock, ticks count with their average length. On the guest's virtual
/// clock, each instruction is one nanosecond.
pub(crate) fn timed_profile(followed: &Followed, until: u64, contexts: &Contexts, names: &mut Names) -> Named {
    let rate = Rate::until(&followed.calls, until);
    let spent = |totals: &Totals| match followed.calls.clock {
        PluginClock::Virtual => totals.insns,
        PluginClock::Host => rate.ns(totals.ticks),
    };
    build(followed, until, contexts, names, Weight::Ns, spent)
}

/// The length of a tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    ns: u64,
    ticks: u64,
}

impl Rate {
    /// The average length up to the tick `until`.
    pub(crate) fn until(calls: &Calls, until: u64) -> Rate {
        let ticks = until.min(calls.last_tick()).max(1);
        let ns = (calls.at(ticks) - calls.at(0)).0.max(0).unsigned_abs();
        Rate { ns, ticks }
    }

    /// Converts ticks to nanoseconds.
    pub(crate) fn ns(self, ticks: u64) -> u64 {
        u64::try_from(u128::from(ticks) * u128::from(self.ns) / u128::from(self.ticks)).unwrap_or(u64::MAX)
    }
}

fn build(
    followed: &Followed,
    until: u64,
    contexts: &Contexts,
    names: &mut Names,
    weight: Weight,
    spent: impl Fn(&Totals) -> u64,
) -> Named {
    let calls = &followed.calls;
    let (node, is_part) = (vec![None; calls.nodes.len()], vec![false; calls.nodes.len()]);
    let mut named = Named { profile: Profile::new(weight), node, is_part };
    let mut namer = Namer::new(followed, names);
    let user = names.intern(USER_SPACE);
    let totals = calls.totals_until(until);
    let known = entered(calls, &totals);
    for totals in totals.iter().skip(1).filter(|totals| known[totals.node as usize]) {
        let node = calls.nodes[totals.node as usize];
        let context = contexts.of(totals.node);
        let mut parent = named.node[node.parent as usize].filter(|_| node.parent != 0);
        if let Some(parent) = parent.filter(|_| namer.is_part(&node, &calls.nodes[node.parent as usize])) {
            named.add_part(parent, totals.node, spent(totals));
            continue;
        }
        let name = match node.kind {
            // User space whose thread is unknown: it has one node at the bottom, and the programs above it.
            Kind::User => user,
            _ if parent.is_none() => names.intern(&context.name),
            _ => namer.name(node.function, context.stage, names),
        };
        // Functions of the decompressor and of firmware's programs have no names: calls among them are not separated.
        let has_functions = name != namer.decompressing && !namer.programs.contains(&name);
        let within = |p: &NodeId| !has_functions && named.profile.get(*p).name == name;
        if let Some(parent) = parent.filter(within) {
            named.add_part(parent, totals.node, spent(totals));
            continue;
        }
        if node.kind == Kind::User {
            parent = Some(named.profile.node(None, user));
        }
        let id = named.profile.node(parent, name);
        let in_initcall_caller =
            || parent.is_some_and(|p| calls_initcall(names.get(named.profile.get(p).name), names.get(name)));
        let kind = match node.kind {
            Kind::Interrupt => Some(SpanKind::Interrupt),
            _ if namer.programs.contains(&name) => Some(SpanKind::Stage),
            // A callee that was called more than once is called for each initcall, and is not one itself.
            _ if totals.calls <= 1 && in_initcall_caller() => Some(SpanKind::Initcall),
            _ => None,
        };
        kind.into_iter().for_each(|kind| named.profile.set_kind(id, kind));
        let entered = if namer.changed_stacks(&node) { 0 } else { totals.calls };
        named.profile.add(id, entered, spent(totals));
        named.node[totals.node as usize] = Some(id);
    }
    named
}

fn calls_initcall(caller: &str, called: &str) -> bool {
    let others = CALLS_INITCALLS.iter().find(|(name, _)| *name == caller).map(|(_, others)| others);
    others.is_some_and(|others| !others.contains(&called) && !called.starts_with(TRACEPOINT))
}

/// For each node, true if it or any node below it has been counted.
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
    followed: &'a Followed,
    known: HashMap<(u64, Option<Stage>), NameId>,
    /// For each address, the address of the function that contains it, and true if it is that function's first address.
    places: HashMap<u64, Option<(u64, bool)>>,
    /// Functions that switched to a new stack.
    change_stacks: HashSet<u64>,
    /// The shared name of all functions of the decompressor.
    decompressing: NameId,
    /// The names of firmware's programs. All functions of a program share its name.
    programs: HashSet<NameId>,
}

impl<'a> Namer<'a> {
    fn new(followed: &'a Followed, names: &mut Names) -> Namer<'a> {
        let bottoms = followed.calls.nodes.iter().filter(|node| node.kind == Kind::Stack);
        let change_stacks = bottoms.filter_map(|node| followed.symbols.function(node.function)).collect();
        let decompressing = names.intern(&regions::decompressing(&followed.compression));
        Namer {
            followed,
            known: HashMap::new(),
            places: HashMap::new(),
            change_stacks,
            decompressing,
            programs: HashSet::new(),
        }
    }

    /// True if a node belongs to its parent's function and was entered elsewhere than at its beginning.
    fn is_part(&mut self, node: &Node, parent: &Node) -> bool {
        let same = self.middle_of(node).zip(self.place(parent)).is_some_and(|(function, (other, _))| function == other);
        same && matches!(parent.kind, Kind::Call | Kind::Tail)
    }

    /// True if a node belongs to a function that switched to this stack and continues here, elsewhere than at its
    /// beginning.
    fn changed_stacks(&mut self, node: &Node) -> bool {
        self.middle_of(node).is_some_and(|function| self.change_stacks.contains(&function))
    }

    /// The function that was entered elsewhere than at its beginning, by a call or a jump.
    fn middle_of(&mut self, node: &Node) -> Option<u64> {
        let (function, at_start) = self.place(node)?;
        (!at_start && matches!(node.kind, Kind::Call | Kind::Tail)).then_some(function)
    }

    fn place(&mut self, node: &Node) -> Option<(u64, bool)> {
        let (symbols, address) = (&self.followed.symbols, node.function);
        let found = || symbols.function(address).zip(symbols.find(address).map(|place| place.offset == 0));
        *self.places.entry(address).or_insert_with(found)
    }

    /// `stage` is the stage before the kernel in which the stack was first used. The next stage may continue on that
    /// stack.
    fn name(&mut self, function: u64, stage: Option<Stage>, names: &mut Names) -> NameId {
        let (Followed { symbols, ran_in, .. }, decompressing) = (self.followed, self.decompressing);
        let programs = &mut self.programs;
        *self.known.entry((function, stage)).or_insert_with(|| match (function, symbols.find(function), stage) {
            (0, ..) => names.intern(UNKNOWN),
            (_, Some(place), _) => names.intern(place.name),
            (_, None, Some(stage)) => match (symbols.program(function), ran_in.stage(function, stage).unwrap_or(stage))
            {
                (Some(program), _) => {
                    let name = names.intern(program);
                    programs.insert(name);
                    name
                }
                (None, Stage::Decompressor) => decompressing,
                (None, stage) => names.intern(&format!("{} {function:#x}", stage.name())),
            },
            (_, None, None) => names.intern(&format!("{function:#x}")),
        })
    }
}

/// Counts of a boot's instructions, which give the share that lies in known calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// All instructions.
    pub insns: u64,
    /// Instructions in user space.
    pub user: u64,
    /// Instructions at the bottom of a stack, outside any known call.
    pub(crate) unowned: u64,
}

impl Share {
    /// Counts up to the tick `until`.
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

    /// The share of instructions outside user space that lie in a known call; `None` if there are no such instructions.
    pub fn owned(&self) -> Option<f64> {
        let outside = self.insns.saturating_sub(self.user);
        (outside > 0).then(|| 1.0 - self.unowned as f64 / outside as f64)
    }
}

/// The tick at which the compared part of a boot ends: when process 1 first wrote to a port, else when it first ran.
/// `u64::MAX`, the whole boot, if neither was seen.
pub fn end(calls: &Calls) -> u64 {
    let mark = calls.marks.iter().max_by_key(|mark| (mark.kind == MarkKind::FirstUserOut, std::cmp::Reverse(mark.at)));
    mark.map_or(u64::MAX, |mark| mark.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::regions::Region;
    use crate::formats::calls::read;
    use crate::formats::calls::tests::sample;
    use crate::formats::firmware_images::FirmwareImages;
    use crate::formats::symbols::Symbols;
    use timeline::{Diagnostics, Ns};

    #[test]
    fn a_jump_within_a_function_is_not_a_call() {
        let list = b"1000 T change_stacks\n2000 T work\n3000 T end\n";
        let symbols = Symbols::read("kallsyms", list, &mut Diagnostics::default());
        let node = |parent, kind, function| Node { parent, kind, function, stack: 0 };
        let nodes = [
            Node::default(),
            node(0, Kind::Stack, 0x1000),
            node(1, Kind::Call, 0x1030), // on the new stack
            node(1, Kind::Call, 0x2000),
            node(3, Kind::Call, 0x2040),
            node(3, Kind::Call, 0x1000),
            node(0, Kind::Stack, 0x2000), // a stack that another thread had before
            node(6, Kind::Call, 0x1030),
            node(6, Kind::Call, 0x3010), // inside a function, whose beginning has no node
        ];
        let totals = |node| Totals { node, calls: 16, insns: 10, ticks: 0 };
        let calls = Calls { nodes: nodes.to_vec(), totals: (1..9).map(totals).collect(), ..Calls::default() };
        let followed = Followed { calls, symbols, ..Followed::default() };
        let (contexts, mut names) = (Contexts::new(&followed), Names::default());
        let named = profile(&followed, u64::MAX, &contexts, &mut names);
        let rows = named.profile.functions();
        let rows: Vec<_> = rows.iter().filter(|r| !r.bottom).map(|r| (names.get(r.name), r.calls, r.own)).collect();
        assert_eq!(rows, [("change_stacks", 16, 30), ("work", 16, 20), ("end", 16, 10)]);
        assert_eq!(named.is_part, [false, false, false, false, true, false, false, false, false]);
    }

    #[test]
    fn calls_inside_a_program_of_firmware_are_its_own() {
        let list = b"0000000000820000 1000 PeiCore\n0000000000830000 1000 PlatformPei\n";
        let programs = FirmwareImages::read("f", list, &mut Diagnostics::default());
        let symbols = Symbols::default().with_programs(programs.into());
        let node = |parent, kind, function| Node { parent, kind, function, stack: 0 };
        let nodes = [
            Node::default(),
            node(0, Kind::Stack, 0xffff_fff0),
            node(1, Kind::Call, 0x82_0010),
            node(2, Kind::Call, 0x82_0400),
            node(3, Kind::Call, 0x83_0000),
            node(4, Kind::Call, 0x82_0400), // back, for a service
            node(1, Kind::Call, 0x84_0000),
        ];
        let totals = |node| Totals { node, calls: 2, insns: 10, ticks: 0 };
        let calls = Calls { nodes: nodes.to_vec(), totals: (1..7).map(totals).collect(), ..Calls::default() };
        let firmware = Region { stage: Stage::Firmware, at: Ns(0), address: 0, evidence: String::new(), startup: None };
        let followed = Followed { calls, symbols, regions: vec![firmware], ..Followed::default() };
        let (contexts, mut names) = (Contexts::new(&followed), Names::default());
        let named = profile(&followed, u64::MAX, &contexts, &mut names);
        let rows = named.profile.functions();
        let mut rows: Vec<_> = rows.iter().map(|r| (names.get(r.name), r.calls, r.own, r.total)).collect();
        rows.sort_unstable();
        let expected = [
            ("PeiCore", 4, 30, 40),
            ("PlatformPei", 2, 10, 20),
            ("firmware", 2, 10, 60),
            ("firmware 0x840000", 2, 10, 10),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn addresses_become_names() {
        let mut diagnostics = Diagnostics::default();
        let calls = read("f", &sample(), &mut diagnostics);
        let symbols = Symbols::read("kallsyms", b"0000000000010000 T start_kernel\n", &mut diagnostics);
        let mut names = Names::default();
        let followed = Followed { calls, symbols, ..Followed::default() };
        let contexts = Contexts::new(&followed);
        let p = profile(&followed, u64::MAX, &contexts, &mut names).profile;
        let calls = &followed.calls;
        let rows: Vec<_> =
            p.functions().iter().map(|r| (names.get(r.name), r.bottom, r.calls, r.own, r.total)).collect();
        assert_eq!(rows, [("start_kernel", false, 1, 70, 70), ("start_kernel", true, 0, 9, 79)]);
        let share = Share::until(calls, u64::MAX);
        assert_eq!(share, Share { insns: 79, user: 0, unowned: 9 });
        assert_eq!(end(calls), 510);
    }
}
