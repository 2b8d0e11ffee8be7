//! First calls: the length of each call site's first call.
//!
//! A call ends a block, and its return address begins another one. If both blocks run first in one thread of QEMU, the
//! callee ran in between. This gives a flame chart of all code that runs for the first time, which is nearly all code
//! early in a boot, without a probe in the kernel. A call site's later calls are not seen.
//!
//! Wrong pairs are left out and counted: calls that returned in another thread, and calls that cross. Until the kernel
//! first switches threads there is one stack, interrupts nest, and every pair is right. Later, the time of a callee
//! that slept includes other threads' work, and another thread may return first to the same call site. Such a span is
//! placed only if the scheduler's evidence ([`timeline::Running`]) shows that the same thread ran at both ends.

use crate::boot::arch::{self, is_thunk};
use crate::formats::first_executions::{Block, Ending, FirstExecutions};
use crate::formats::symbols::Symbols;
use hashbrown::HashMap;
use timeline::{DiagnosticKind, Diagnostics, INDIRECT, Ns, Running, SpanKind, SpanRow, Timeline, TrackId, Unit};

/// The first call of a call site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirstCall {
    /// The time at which the block that ends in the call began.
    pub start: Ns,
    /// The time at which the block at the return address began.
    pub end: Ns,
    /// False if no return was seen before the first switch of threads or the end of the evidence. Then `end` is that
    /// time: so for `start_kernel`, and for all calls on the stack of a kernel that stopped.
    pub returned: bool,
    /// The return address, which identifies the call site. It is 0 for a function that was jumped to.
    pub(crate) returns_to: u64,
    /// The callee's first address, if it is known.
    pub callee: Option<u64>,
    /// True if the callee was inferred: it is the function that ran for the first time right after an indirect call. A
    /// callee that had run before may have called it instead.
    pub(crate) inferred: bool,
    /// The vCPU that called; `None` if one thread of QEMU runs several.
    pub vcpu: Option<u32>,
    /// The vCPU on which the call returned: threads move.
    pub(crate) end_vcpu: Option<u32>,
}

/// The first calls of at least a given length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FirstCalls {
    /// In order of their starts, outer ones first.
    pub calls: Vec<FirstCall>,
    /// The time at which the kernel first switched threads, if that was seen.
    pub(crate) first_switch: Option<Ns>,
}

/// Finds the first calls that took at least `min`.
pub fn calls(run: &FirstExecutions, symbols: &Symbols, min: Ns, diagnostics: &mut Diagnostics) -> FirstCalls {
    let arch = arch::of(&run.target);
    let switch = arch.and_then(|arch| symbols.address(arch.facts.linux.thread_switch));
    let mut first_calls = FirstCalls::default();
    // For each open call: the return address, and its block's position.
    let mut open: HashMap<u64, u32> = HashMap::new();
    let mut stack = BootStack::default();
    // For an unknown architecture, no address is known to be the kernel's.
    let kernel_from = arch.map_or(u64::MAX, |arch| arch.facts.linux.image.lowest_address);
    for (i, (&address, ending)) in run.blocks.addresses().iter().zip(run.blocks.endings()).enumerate() {
        if Some(address) == switch && first_calls.first_switch.is_none() {
            first_calls.first_switch = Some(run.blocks.get(i).at);
            let stood = stack.still_open(run, symbols, i);
            // A return to one of these after the switch may come from another thread than the call.
            stood.iter().for_each(|call| _ = open.remove(&call.returns_to));
            first_calls.calls.extend(stood);
        }
        if let Some(site) = open.remove(&address) {
            let site = site as usize;
            let (call, block) = (run.blocks.get(site), run.blocks.get(i));
            stack.pop(site);
            // Once there are several threads, they move between vCPUs: `add` finds the caller's thread.
            if call.thread != block.thread && first_calls.first_switch.is_none() {
                diagnostics.note_time(DiagnosticKind::FirstCallReturnedElsewhere, block.at - call.at, || {
                    format!("return to {:#x}", block.address)
                });
            } else if block.at - call.at >= min {
                let end_vcpu = run.vcpu(block.thread);
                first_calls.calls.push(FirstCall { end_vcpu, ..first_call(run, symbols, site, block.at, true) });
            }
        }
        if matches!(ending, Ending::Call | Ending::CallIndirect) {
            open.insert(run.blocks.end(i), timeline::number(i));
            if address >= kernel_from && first_calls.first_switch.is_none() {
                stack.push(i, run.blocks.get(i).thread);
            }
        }
    }
    if first_calls.first_switch.is_none() && !run.blocks.is_empty() {
        first_calls.calls.extend(stack.still_open(run, symbols, run.blocks.len() - 1));
    }
    first_calls.calls.sort_by_key(|c| (c.start, std::cmp::Reverse(c.end)));
    first_calls
}

fn first_call(run: &FirstExecutions, symbols: &Symbols, site: usize, end: Ns, returned: bool) -> FirstCall {
    let call = run.blocks.get(site);
    let (callee, inferred) = callee(run, symbols, site, &call);
    let vcpu = run.vcpu(call.thread);
    FirstCall { start: call.at, end, returned, returns_to: call.end(), callee, inferred, vcpu, end_vcpu: vcpu }
}

/// Calls that the kernel's first thread made and that have not returned, as positions of their blocks.
#[derive(Default)]
struct BootStack {
    thread: Option<u16>,
    sites: Vec<usize>,
}

impl BootStack {
    fn push(&mut self, site: usize, thread: u16) {
        if *self.thread.get_or_insert(thread) == thread {
            self.sites.push(site);
        }
    }

    /// Removes the call at `site`, which returned, and the calls inside it that were left in another way.
    fn pop(&mut self, site: usize) {
        self.sites.truncate(self.sites.partition_point(|s| *s < site));
    }

    /// Returns the calls that are open when block `last` runs, and the function that made the outermost of them: the
    /// first functions of a kernel are jumped to, not called.
    ///
    /// A call whose caller ran again later did return, through code that had run before. A thunk's call only puts an
    /// address on the stack; it does not go to a function's start and is left out.
    fn still_open(&mut self, run: &FirstExecutions, symbols: &Symbols, last: usize) -> Vec<FirstCall> {
        let caller = |site: usize| symbols.function(run.blocks.get(site).address);
        // For each function that made one of the calls: the positions of its first block and of its last one.
        let mut ran: HashMap<u64, Option<(usize, usize)>> =
            self.sites.iter().filter_map(|&site| Some((caller(site)?, None))).collect();
        for (i, &address) in run.blocks.addresses().iter().enumerate().take(last + 1) {
            let ran = symbols.function(address).and_then(|function| ran.get_mut(&function));
            if let Some(ran) = ran.filter(|_| Some(run.blocks.get(i).thread) == self.thread) {
                ran.get_or_insert((i, i)).1 = i;
            }
        }
        let end = run.blocks.get(last).at;
        let caller_ran = |site: usize| *ran.get(&caller(site)?)?;
        self.sites.retain(|&site| caller_ran(site).is_some_and(|(_, last)| last == site));
        let root = self.sites.first().and_then(|&site| Some(run.blocks.get(caller_ran(site)?.0)));
        let root = root.map(|b| FirstCall {
            start: b.at,
            end,
            returned: false,
            returns_to: 0,
            callee: Some(b.address),
            inferred: false,
            vcpu: run.vcpu(b.thread),
            end_vcpu: run.vcpu(b.thread),
        });
        let is_function = |c: &FirstCall| c.callee.and_then(|a| symbols.find(a)).is_some_and(|p| p.offset == 0);
        let calls = self.sites.drain(..).map(|site| first_call(run, symbols, site, end, false)).filter(is_function);
        root.into_iter().chain(calls).collect()
    }
}

/// Returns the callee of the call at the end of `blocks[site]`, and true if it is inferred. An indirect call goes to
/// the function that begins to run next, past the thunks through which kernels make such calls; interrupt entries do
/// not count.
fn callee(run: &FirstExecutions, symbols: &Symbols, site: usize, call: &Block) -> (Option<u64>, bool) {
    if let Some(target) = call.target {
        if symbols.find(target).is_none_or(|p| !is_thunk(p.name)) {
            return (Some(target), false);
        }
    }
    let after = (site + 1..run.blocks.len()).map(|i| run.blocks.get(i)).filter(|b| b.thread == call.thread);
    for block in after.take(8) {
        match symbols.find(block.address) {
            Some(place) if is_thunk(place.name) => {}
            Some(place) if place.offset == 0 && !place.name.starts_with("asm_") => return (Some(block.address), true),
            _ => break,
        }
    }
    (None, true)
}

/// Adds the calls as spans: those before the first switch on `boot` (the thread in which the kernel starts), the others
/// on the track that ran on their vCPU. A call without a known callee gets its caller's name.
pub fn add(found: &FirstCalls, symbols: &Symbols, boot: TrackId, timeline: &mut Timeline) {
    let runners = Runners::new(&timeline.running);
    let alone_until = found.first_switch.unwrap_or(Ns::MAX);
    let mut stack: Vec<Ns> = Vec::new();
    let (mut crossing, mut unknown): (NotDrawn, NotDrawn) = Default::default();
    for call in &found.calls {
        let Some((name, detail)) = label(call, symbols) else { continue };
        let track = if call.end <= alone_until {
            while stack.last().is_some_and(|end| *end <= call.start) {
                stack.pop();
            }
            if stack.last().is_some_and(|end| *end < call.end) {
                crossing.add(call, &name, timeline.unit);
                continue;
            }
            stack.push(call.end);
            Some(boot)
        } else {
            let runner = |vcpu: Option<u32>, at| runners.at(vcpu?, at);
            runner(call.vcpu, call.start).filter(|track| runner(call.end_vcpu, call.end) == Some(*track))
        };
        let Some(track) = track else {
            unknown.add(call, &name, timeline.unit);
            continue;
        };
        let (name, detail) = (timeline.names.intern(&name), timeline.names.intern(&detail));
        let (start, end, kind) = (call.start, call.end, SpanKind::Call);
        let span = timeline.spans.push(SpanRow { name, detail, start, end, track, kind }, None);
        timeline.spans.set_first_call(span);
    }
    crossing.note(DiagnosticKind::FirstCallsCross, timeline);
    unknown.note(DiagnosticKind::FirstCallOfUnknownThread, timeline);
}

/// Calls that one defect affects, and the first of them.
#[derive(Default)]
struct NotDrawn {
    calls: Vec<(Ns, Ns)>,
    first: String,
}

impl NotDrawn {
    fn add(&mut self, call: &FirstCall, name: &str, unit: Unit) {
        if self.calls.is_empty() {
            self.first = format!("{name} at {}", unit.show_at(call.start));
        }
        self.calls.push((call.start, call.end));
    }

    fn note(self, kind: DiagnosticKind, timeline: &mut Timeline) {
        timeline.diagnostics.note_stretches(kind, self.calls, || self.first);
    }
}

/// Returns a span's name and detail. `None` for code without symbols, which is not the kernel's, and for calls by a
/// thunk: the call that went through the thunk has their time.
fn label(call: &FirstCall, symbols: &Symbols) -> Option<(String, String)> {
    let detail = match call {
        FirstCall { inferred: true, callee: Some(_), .. } => INDIRECT,
        _ => "",
    };
    let name = match call.callee.and_then(|a| symbols.find(a)) {
        Some(callee) => callee.name.to_owned(),
        None => {
            let caller = symbols.find(call.returns_to.wrapping_sub(1))?.name;
            format!("{caller} (a call of it)", caller = Some(caller).filter(|name| !is_thunk(name))?)
        }
    };
    Some((name, detail.to_owned()))
}

/// The threads that ran on each CPU.
pub(crate) struct Runners {
    by_cpu: HashMap<u32, Vec<Running>>,
}

impl Runners {
    pub(crate) fn new(running: &[Running]) -> Runners {
        let mut by_cpu: HashMap<u32, Vec<Running>> = HashMap::new();
        for r in running {
            by_cpu.entry(r.cpu).or_default().push(*r);
        }
        by_cpu.values_mut().for_each(|rs| rs.sort_by_key(|r| r.from));
        Runners { by_cpu }
    }

    pub(crate) fn at(&self, cpu: u32, at: Ns) -> Option<TrackId> {
        let rs = self.by_cpu.get(&cpu)?;
        let r = rs[..rs.partition_point(|r| r.from <= at)].last()?;
        (at <= r.to).then_some(r.track)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::first_executions::tests::blocks;
    use Ending::*;
    use timeline::{TimeBase, TrackKind};

    const BASE: u64 = 0xffff_ffff_8100_0000;

    fn symbols() -> Symbols {
        let names = ["start_kernel", "setup_arch", "mm_init", "__switch_to_asm", "probe", "__x86_indirect_thunk_rax"];
        let text: String = (0..).zip(names).map(|(i, name)| format!("{:x} T {name}\n", BASE + i * 0x100)).collect();
        Symbols::read("kallsyms", text.as_bytes(), &mut Diagnostics::default())
    }

    fn at(function: u64, offset: u64) -> u64 {
        BASE + function * 0x100 + offset
    }

    fn check(
        rows: &[(i64, u64, u32, Ending, u64, u16)],
        running: &[(u32, u32, i64, i64)],
        expected: &[(&str, u32, i64, i64)],
    ) -> Timeline {
        check_run(&blocks(rows), running, expected)
    }

    fn check_run(
        run: &FirstExecutions,
        running: &[(u32, u32, i64, i64)],
        expected: &[(&str, u32, i64, i64)],
    ) -> Timeline {
        let mut t = Timeline::new(TimeBase::Host);
        let name = t.names.intern("thread");
        for id in 0..3 {
            t.tracks.add(name, TrackKind::Thread, id);
        }
        t.running = running
            .iter()
            .map(|&(track, cpu, from, to)| Running {
                track: TrackId(track),
                cpu,
                from: Ns::from_us(from),
                to: Ns::from_us(to),
            })
            .collect();
        let symbols = symbols();
        let mut diagnostics = Diagnostics::default();
        let first_calls = calls(run, &symbols, Ns::from_us(5), &mut diagnostics);
        t.diagnostics.extend(diagnostics);
        add(&first_calls, &symbols, TrackId(0), &mut t);
        let got: Vec<_> = t
            .spans
            .iter()
            .map(|(_, s)| (t.names.get(s.name).to_owned(), s.track.0, s.start.0 / 1000, s.end.0 / 1000))
            .collect();
        let expected: Vec<_> = expected.iter().map(|&(n, t, s, e)| (n.to_owned(), t, s, e)).collect();
        assert_eq!(got, expected);
        assert!(t.spans.iter().all(|(id, _)| t.spans.is_first_call(id)));
        t
    }

    #[test]
    fn calls_nest_and_short_ones_are_left_out() {
        let t = check(
            &[
                (0, at(0, 0), 0x10, Call, at(1, 0), 1),
                (10, at(1, 0), 8, Call, at(2, 0), 1),
                (11, at(2, 0), 8, Return, 0, 1),
                (30, at(1, 8), 8, Call, at(2, 0), 1),
                (32, at(1, 0x10), 8, Return, 0, 1),
                (50, at(0, 0x10), 8, Halt, 0, 1),
            ],
            &[],
            &[("setup_arch", 0, 0, 50), ("mm_init", 0, 10, 30)],
        );
        assert!(t.diagnostics.is_empty());
    }

    #[test]
    fn an_indirect_call_goes_past_the_thunk() {
        check(
            &[
                (0, at(0, 0), 0x10, Call, at(5, 0), 1),
                (1, at(5, 0), 8, JumpIndirect, 0, 1),
                (2, at(4, 0), 8, Return, 0, 1),
                (50, at(0, 0x10), 8, CallIndirect, 0, 1),
                (52, at(4, 0x20), 8, Return, 0, 1),
                (60, at(0, 0x18), 8, Return, 0, 1),
            ],
            &[],
            &[("probe", 0, 0, 50), ("start_kernel (a call of it)", 0, 50, 60)],
        );
    }

    /// A call that a thunk makes through a register belongs to the thunk's caller.
    #[test]
    fn a_thunk_is_not_a_caller() {
        check(
            &[
                (0, at(0, 0), 0x10, Call, at(1, 0), 1),
                (5, at(1, 0), 8, Jump, at(5, 0), 1),
                (10, at(5, 0), 8, CallIndirect, 0, 1),
                (12, at(4, 0x20), 8, Return, 0, 1),
                (40, at(5, 8), 8, Return, 0, 1),
                (50, at(0, 0x10), 8, Halt, 0, 1),
            ],
            &[],
            &[("setup_arch", 0, 0, 50)],
        );
    }

    /// After the first switch, thread 1 calls, and thread 2 returns first to the same place.
    #[test]
    fn after_the_first_switch_a_span_needs_the_same_thread_at_both_ends() {
        let rows = [
            (0, at(0, 0), 0x10, Call, at(1, 0), 1),
            (5, at(3, 0), 8, Return, 0, 1),
            (10, at(1, 0), 8, Call, at(2, 0), 1),
            (20, at(1, 8), 8, Call, at(4, 0), 1),
            (40, at(1, 0x10), 8, Return, 0, 1),
            (60, at(0, 0x10), 8, Halt, 0, 1), // start_kernel goes on, or another thread does: unknown
        ];
        let running = [(0, 0, 0, 5), (1, 0, 5, 30), (2, 0, 30, 50), (0, 0, 50, 100)];
        let t = check(&rows, &running, &[("start_kernel", 0, 0, 5), ("setup_arch", 0, 0, 5), ("mm_init", 1, 10, 20)]);
        assert_eq!(t.diagnostics.count(DiagnosticKind::FirstCallOfUnknownThread), 1);
        check(&rows, &[], &[("start_kernel", 0, 0, 5), ("setup_arch", 0, 0, 5)]);
    }

    /// Process 1 goes to sleep in a call on one vCPU and returns on another: `kernel_init` on a machine with two vCPUs.
    #[test]
    fn a_thread_that_moved_returns_on_another_vcpu() {
        let rows = [
            (0, at(0, 0), 0x10, Call, at(1, 0), 1),
            (5, at(3, 0), 8, Return, 0, 1),
            (10, at(1, 0), 8, Call, at(2, 0), 1),
            (20, at(2, 0), 8, Call, at(4, 0), 1),
            (40, at(2, 8), 8, Return, 0, 2), // by thread 2, which did not call
            (60, at(1, 8), 8, Return, 0, 2),
        ];
        let running = [(0, 0, 0, 5), (1, 0, 5, 30), (2, 1, 30, 50), (1, 1, 50, 100)];
        let mut run = blocks(&rows);
        (run.vcpus, run.vcpu_of_thread) = (2, vec![(1, 0), (2, 1)]);
        let t =
            check_run(&run, &running, &[("start_kernel", 0, 0, 5), ("setup_arch", 0, 0, 5), ("mm_init", 1, 10, 60)]);
        assert_eq!(t.diagnostics.count(DiagnosticKind::FirstCallOfUnknownThread), 1);
    }

    /// Calls on the stack when the evidence ends, without one that was left in another way and a thunk's call.
    #[test]
    fn calls_that_did_not_return() {
        let t = check(
            &[
                (0, at(0, 0), 0x10, Call, at(1, 0), 1),
                (1, at(1, 0), 8, Call, at(2, 0), 1),
                (2, at(2, 0), 8, Call, at(2, 9), 1),
                (3, at(2, 9), 8, Return, 0, 1),
                (20, at(1, 8), 8, Call, at(4, 0), 1),
                (21, at(4, 0), 8, Call, at(4, 9), 1),
                (30, at(4, 9), 8, Jump, 0, 1),
            ],
            &[],
            &[("start_kernel", 0, 0, 30), ("setup_arch", 0, 0, 30), ("mm_init", 0, 1, 20), ("probe", 0, 20, 30)],
        );
        let details: Vec<_> = t.spans.iter().map(|(_, s)| t.names.get(s.detail)).collect();
        assert_eq!(details, ["", "", "", ""]);
    }

    #[test]
    fn a_return_on_another_vcpu_is_counted() {
        let rows = [(0, at(0, 0), 0x10, Call, at(1, 0), 1), (50, at(0, 0x10), 8, Halt, 0, 2)];
        let t = check(&rows, &[], &[]);
        assert_eq!(t.diagnostics.count(DiagnosticKind::FirstCallReturnedElsewhere), 1);
    }
}
