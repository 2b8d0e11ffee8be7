//! The purpose of each stack: firmware, a thread, interrupts.
//!
//! Calls are separated by their stack, and a stack is known only by its address. Two things show its purpose: the time
//! when it was first used (before the kernel: `first_executions::regions`), and the functions called at its bottom.
//! Linux's `kernel_init` is process 1, and a thread's purpose is the function that `kthread` calls. Stacks with the
//! same purpose have the same name.

use crate::boot::arch::{self, is_thunk};
use crate::boot::followed::Followed;
use crate::boot::regions::{Region, Stage};
use crate::formats::calls::{Calls, Kind};
use crate::formats::symbols::Symbols;
use timeline::{INTERRUPTS, Ns, TrackKind};

/// The name of the context of user space.
pub(crate) const USER_SPACE: &str = "user space";

/// The purpose of one stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// The node at its bottom.
    pub bottom: u32,
    pub name: String,
    /// The kind of its track.
    pub kind: TrackKind,
    /// The thread's number if its name determines it; else a number that no thread has.
    pub id: u64,
    /// For a stack that was first used before the kernel: the stage at that time.
    pub stage: Option<Stage>,
    /// True if it is used by the thread that has the CPU at that time: a stack for interrupts, or user space.
    pub(crate) is_any_thread_s: bool,
}

/// The contexts of all stacks, in the order in which the stacks were first used.
#[derive(Clone, Debug, Default)]
pub struct Contexts {
    all: Vec<Context>,
    /// For each node, the index in `all` of its stack's context.
    of_node: Vec<u32>,
}

/// Numbers from here on are not numbers of threads.
pub(crate) const NO_THREAD: u64 = 1 << 32;

/// A placeholder for an idle thread whose CPU is not known yet.
const A_CPU: u64 = u64::MAX;

/// Functions of Linux that identify the thread when they are called at the bottom of a stack: function, thread, number.
const LINUX: [(&str, &str, u64); 2] = [("kernel_init", "init", 1), ("kthreadd", "kthreadd", 2)];

/// Functions that call a thread's main function.
const CALLS_THE_THREAD: [&str; 3] = ["ret_from_fork", "ret_from_fork_asm", "kthread"];

impl Contexts {
    /// Derives the context of every stack. Takes time linear in the nodes and the switches.
    pub fn new(followed: &Followed) -> Contexts {
        let Followed { calls, symbols, regions, .. } = followed;
        let bottom = bottoms(calls);
        let mut first_used = vec![u64::MAX; calls.nodes.len()];
        for switch in &calls.switches {
            let first = &mut first_used[bottom[switch.node as usize] as usize];
            *first = (*first).min(switch.at);
        }
        let mut order: Vec<u32> = calls.numbers().skip(1).filter(|&node| bottom[node as usize] == node).collect();
        order.sort_by_key(|&node| (first_used[node as usize], node));
        let under = called_near_the_bottom(calls);
        let mut place = vec![0; calls.nodes.len()];
        let mut cpus = 0;
        let mut all: Vec<Context> = Vec::with_capacity(order.len());
        for node in order {
            place[node as usize] = timeline::number(all.len());
            let stage = stage_at(calls, first_used[node as usize], regions);
            let mut context = context(calls, node, stage, &under, symbols);
            if context.id == A_CPU {
                context.name = format!("swapper/{cpus}");
                context.id = if cpus == 0 { 0 } else { NO_THREAD };
                cpus += 1;
            }
            if context.id >= NO_THREAD {
                context.id = NO_THREAD + all.len() as u64;
            }
            all.push(context);
        }
        let of_node = bottom.iter().map(|&node| place[node as usize]).collect();
        Contexts { all, of_node }
    }

    /// The context of a node. Node 0 has no context and must not be passed.
    pub(crate) fn of(&self, node: u32) -> &Context {
        &self.all[self.of_node[node as usize] as usize]
    }

    /// The index of a node's context.
    pub(crate) fn place(&self, node: u32) -> usize {
        self.of_node[node as usize] as usize
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Context> {
        self.all.iter()
    }

    /// All contexts, so that the caller can give them better names.
    pub(crate) fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut Context> {
        self.all.iter_mut()
    }
}

/// For each node, the node at the bottom of its stack. Parents have lower numbers than their children.
fn bottoms(calls: &Calls) -> Vec<u32> {
    let mut bottom: Vec<u32> = Vec::with_capacity(calls.nodes.len());
    for (i, node) in (0..).zip(&calls.nodes) {
        bottom.push(if node.parent == 0 { i } else { bottom[node.parent as usize] });
    }
    bottom
}

/// The calls near the bottom of each stack.
struct Under {
    /// Pairs of parent and child, sorted by parent.
    children: Vec<(u32, u32)>,
    insns: Vec<u64>,
}

/// A thread's main function is at most this number of calls above the bottom: `ret_from_fork`, `kthread`, main
/// function.
const NEAR: u32 = 3;

fn called_near_the_bottom(calls: &Calls) -> Under {
    let mut depth: Vec<u32> = Vec::with_capacity(calls.nodes.len());
    for node in &calls.nodes {
        depth.push(if node.parent == 0 { 0 } else { depth[node.parent as usize].saturating_add(1) });
    }
    let mut insns: Vec<u64> = calls.totals_until(u64::MAX).iter().map(|totals| totals.insns).collect();
    let mut children = Vec::new();
    for (i, node) in calls.numbers().zip(&calls.nodes).skip(1).rev() {
        let parent = node.parent as usize;
        if parent != 0 {
            insns[parent] = insns[parent].saturating_add(insns[i as usize]);
            if depth[i as usize] <= NEAR && matches!(node.kind, Kind::Call | Kind::Tail) {
                children.push((node.parent, i));
            }
        }
    }
    children.sort_unstable();
    Under { children, insns }
}

impl Under {
    /// The callee of `node` with the most instructions, except those for which `is_on_the_way` holds.
    fn main(&self, node: u32, is_on_the_way: impl Fn(u32) -> bool) -> Option<u32> {
        let from = self.children.partition_point(|(parent, _)| *parent < node);
        let called = self.children[from..].iter().take_while(|(parent, _)| *parent == node).map(|(_, child)| *child);
        called.filter(|&child| !is_on_the_way(child)).max_by_key(|&child| (self.insns[child as usize], child))
    }
}

fn stage_at(calls: &Calls, tick: u64, regions: &[Region]) -> Option<Stage> {
    let at = if tick == u64::MAX { Ns::MAX } else { calls.at(tick) };
    let stage = regions.iter().filter(|r| r.lasts()).take_while(|r| r.at <= at).last()?.stage;
    (stage < Stage::EarlyKernel).then_some(stage)
}

fn context(calls: &Calls, bottom: u32, stage: Option<Stage>, under: &Under, symbols: &Symbols) -> Context {
    let node = calls.nodes[bottom as usize];
    let name_of = |node: u32| symbols.find(calls.nodes[node as usize].function).map(|place| place.name);
    let line = |name: &str, kind, id, is_any_thread_s| Context {
        bottom,
        name: name.to_owned(),
        kind,
        id,
        stage,
        is_any_thread_s,
    };
    if node.kind == Kind::User {
        return line(USER_SPACE, TrackKind::Thread, NO_THREAD, true);
    }
    if let Some(stage) = stage {
        return line(stage.name(), TrackKind::Firmware, NO_THREAD, false);
    }
    let base = name_of(bottom).unwrap_or("");
    if ["interrupt", "irq_entries", "sysvec", "asm_exc_"].iter().any(|part| base.contains(part)) {
        return line(INTERRUPTS, TrackKind::Interrupts, NO_THREAD, true);
    }
    // The first kernel code of each CPU. Its stack becomes that of the CPU's idle thread; on the first CPU, that of the
    // thread that boots.
    if arch::starts_cpu(base) {
        // It briefly uses another stack before its addresses are mapped.
        return match node.stack >> 63 {
            0 => line(Stage::EarlyKernel.name(), TrackKind::Firmware, NO_THREAD, false),
            _ => line(base, TrackKind::Thread, A_CPU, false),
        };
    }
    let on_the_way = |node: u32| name_of(node).is_some_and(|name| arch::starts_thread(name) || is_thunk(name));
    let mut main = under.main(bottom, on_the_way);
    for _ in 1..NEAR {
        let calls_it = main.filter(|&node| name_of(node).is_some_and(|name| CALLS_THE_THREAD.contains(&name)));
        main = calls_it.and_then(|node| under.main(node, on_the_way)).or(main);
    }
    match main.and_then(name_of) {
        Some(name) => match LINUX.iter().find(|(function, ..)| *function == name) {
            Some(&(_, thread, id)) => line(thread, TrackKind::Thread, id, false),
            None => line(name, TrackKind::Thread, NO_THREAD, false),
        },
        None if base.is_empty() => line("code without names", TrackKind::Cpu, NO_THREAD, false),
        None => line(base, TrackKind::Thread, NO_THREAD, false),
    }
}
