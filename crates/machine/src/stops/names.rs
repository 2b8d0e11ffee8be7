//! Finds names for addresses on stacks, in lists of functions that are checked against the stacks first.
//!
//! A list of another build must not be used, because it gives wrong names to all addresses. The calls on the stacks reveal such a list:
//! a call leads to the first byte of a function. A kernel that randomises its own address is shifted against its list by a
//! multiple of a step. The shift is the same for all functions, and most calls agree on it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use super::stack::{MIN_CALLERS, Method, Return, Stack};
use crate::arch::orc::Orc;

/// Longest function. An address further behind the start of a function belongs to no function.
const MAX_FUNCTION_BYTES: u64 = 1 << 20;
/// Smallest number of different calls to the start of a function that shows that a list fits, or by how much it has to be shifted.
const MIN_CALLS: usize = 4;
/// The same, if no call leads elsewhere into the list.
const MIN_CALLS_WITHOUT_MISSES: usize = 3;

/// A list of functions, sorted by address.
#[derive(Clone, Debug)]
struct List {
    functions: Vec<(u64, String)>,
}

/// The lists that fit the stacks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    lists: Vec<List>,
    /// The unwind tables of the kernel that ran, and the distance by which it had moved itself.
    tables: Option<(Orc, u64)>,
    /// The source of each list, and how it fits or why it is not used.
    pub(crate) remarks: Vec<String>,
}

/// The number of calls that lead into a list, and the number of those that lead to a function's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fit {
    inside: usize,
    at_start: usize,
}

impl Fit {
    fn is_good(self) -> bool {
        let needed = if self.at_start == self.inside { MIN_CALLS_WITHOUT_MISSES } else { MIN_CALLS };
        self.at_start >= needed && self.at_start * 2 > self.inside
    }
}

/// Start of the names of the functions through which Linux calls through registers.
const THUNK: &str = "__x86_indirect_thunk";

/// The function that an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(crate) name: &'a str,
    pub(crate) start: u64,
}

impl Names {
    /// Adds a list, if it fits the calls on the stacks. The kernel's own list may have to be shifted by a multiple of `step`. Returns the
    /// shift, if the list fits.
    pub(crate) fn add(
        &mut self,
        list_name: &str,
        mut functions: Vec<(u64, String)>,
        called: &BTreeSet<u64>,
        step: u64,
    ) -> Option<u64> {
        functions.sort_by_key(|function| function.0);
        functions.dedup_by_key(|function| function.0);
        let mut list = List { functions };
        let mut fit = list.fit(called);
        let (mut shift_note, mut shift) = (String::new(), 0);
        if !fit.is_good() {
            if let Some(slide) = list.slide(called, step) {
                list.functions.iter_mut().for_each(|function| function.0 = function.0.wrapping_add(slide));
                list.functions.sort_by_key(|function| function.0);
                fit = list.fit(called);
                (shift_note, shift) = (format!(", moved by {slide:#x}"), slide);
            }
        }
        let Fit { inside, at_start } = fit;
        let calls =
            format!("{at_start} of {inside} calls seen on the stacks lead to the start of one of its functions");
        self.remarks.push(match () {
            () if fit.is_good() => format!("{list_name}{shift_note}: {calls}"),
            () if called.len() < MIN_CALLS => {
                format!("{list_name} is not used: too few calls were seen on the stacks to check whether it fits")
            }
            () if inside == 0 => {
                format!(
                    "{list_name} is not used: no call seen on the stacks leads into it, so it names other code than ran"
                )
            }
            () if at_start * 2 > inside => format!("{list_name} is not used: {calls}, too few to say that it fits"),
            () => format!("{list_name} is not used: only {calls}, so it is of another build"),
        });
        if !fit.is_good() {
            return None;
        }
        self.lists.push(list);
        Some(shift)
    }

    /// Adds the unwind tables of a kernel that has moved itself by `shift`.
    pub(crate) fn add_tables(&mut self, orc: Orc, shift: u64) {
        self.tables = Some((orc, shift));
    }

    /// Finds the callers on stacks without frame pointers by the unwind tables, if there are any.
    pub(crate) fn unwind<'s>(&mut self, stacks: impl Iterator<Item = &'s mut Stack>) {
        let (mut unwound, mut all) = (0, 0);
        for stack in stacks {
            // `take` frees the stack's bytes, which are not needed again.
            let Some(top) = stack.top.take() else { continue };
            let Some((orc, shift)) = &self.tables else { continue };
            all += 1;
            let (callers, mut is_whole) = orc.callers(stack.pc, &top, *shift);
            // A caller's address must lie behind a call in the guest's memory.
            let return_at = |address: u64| stack.returns.iter().find(|word| word.address == address).copied();
            let interrupted = |address: u64| self.place(address).map(|_| Return { address, called: None });
            let mut returns = Vec::new();
            for caller in callers {
                let caller_return =
                    if caller.was_interrupted { interrupted(caller.address) } else { return_at(caller.address) };
                let Some(caller_return) = caller_return else {
                    is_whole = false;
                    break;
                };
                returns.push(caller_return);
            }
            if is_whole || returns.len() >= MIN_CALLERS {
                (stack.method, stack.returns) = (Method::Tables, returns);
                unwound += 1;
            }
        }
        if all > 0 {
            self.remarks.push(format!(
                "the kernel's own unwind tables (ORC) say who called whom on {unwound} of {all} stacks without frame pointers"
            ));
        }
    }

    pub(crate) fn place(&self, address: u64) -> Option<Place<'_>> {
        self.lists.iter().filter_map(|list| list.place(address)).max_by_key(|place| place.start)
    }

    /// The callers on a stack, innermost first. If the stack consists of collected words, these are the words that each called the
    /// one before it.
    pub(crate) fn callers<'s>(&self, stack: &'s Stack) -> Vec<&'s Return> {
        if stack.method != Method::Words {
            return stack.returns.iter().collect();
        }
        let (mut callers, mut rest, mut inner) = (Vec::new(), &stack.returns[..], stack.pc);
        while let Some(start) = self.place(inner).map(|place| place.start) {
            // First choice: the nearest call of exactly this function. Second: the nearest call through a register, which may be one.
            // Third: the nearest call in a function that a word further out calls; its callee may have jumped here.
            let calls_it = |word: &Return| word.called == Some(start);
            let by_register = |word: &Return| self.is_indirect(word) && self.place(word.address).is_some();
            let is_called = |at: &usize| {
                let start = self.place(rest[*at].address).map(|place| place.start);
                start.is_some() && rest[at + 1..].iter().any(|outer| outer.called == start)
            };
            let jumped_here = || (0..rest.len()).find(is_called);
            let index = rest.iter().position(calls_it).or_else(|| rest.iter().position(by_register));
            let Some(at) = index.or_else(jumped_here) else { break };
            callers.push(&rest[at]);
            (inner, rest) = (rest[at].address, &rest[at + 1..]);
        }
        callers
    }

    /// True if the target of a call is not known: it goes through a register, or through a thunk that jumps through one.
    fn is_indirect(&self, word: &Return) -> bool {
        let thunk = |called| self.place(called).is_some_and(|place| place.name.starts_with(THUNK));
        word.called.is_none_or(thunk)
    }
}

impl List {
    fn place(&self, address: u64) -> Option<Place<'_>> {
        let after = self.functions.partition_point(|function| function.0 <= address);
        let (start, name) = self.functions.get(after.checked_sub(1)?)?;
        (address - start < MAX_FUNCTION_BYTES).then_some(Place { name, start: *start })
    }

    fn fit(&self, called: &BTreeSet<u64>) -> Fit {
        let ends = self.functions.first().zip(self.functions.last());
        let Some((first, last)) = ends.map(|(first, last)| (first.0, last.0)) else {
            return Fit { inside: 0, at_start: 0 };
        };
        let inside = called.iter().filter(|address| (first..=last).contains(*address));
        let is_start = |address: &&u64| self.functions.binary_search_by_key(*address, |function| function.0).is_ok();
        Fit { inside: inside.clone().count(), at_start: inside.filter(is_start).count() }
    }

    /// The shift between the list and the called addresses. Each call votes for every shift that would lead it to a function's start.
    fn slide(&self, called: &BTreeSet<u64>, step: u64) -> Option<u64> {
        let mut starts: Vec<(u64, u64)> = self.functions.iter().map(|(start, _)| (start % step, *start)).collect();
        starts.sort_unstable();
        let mut votes: HashMap<u64, usize> = HashMap::new();
        // Calls within firmware and loaders are in the other half of the addresses.
        let half = self.functions.first()?.0 >> 63;
        let called: Vec<u64> = called.iter().copied().filter(|address| address >> 63 == half).collect();
        for &address in &called {
            let from = starts.partition_point(|start| start.0 < address % step);
            let candidates = starts[from..].iter().take_while(|start| start.0 == address % step);
            candidates.for_each(|start| *votes.entry(address.wrapping_sub(start.1)).or_default() += 1);
        }
        let (slide, agree) = votes.into_iter().max_by_key(|&(slide, votes)| (votes, Reverse(slide)))?;
        (agree >= MIN_CALLS && agree * 2 > called.len()).then_some(slide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Mode;
    use crate::arch::orc::tests::{orc, top};

    const STEP: u64 = 2 << 20;
    const BASE: u64 = 0xffff_ffff_8100_0000;

    /// Functions at distances that no shift by a step maps onto each other.
    fn functions() -> Vec<(u64, String)> {
        (0..100).map(|n| (BASE + n * n * 48, format!("f{n}"))).collect()
    }

    fn called(slide: u64) -> BTreeSet<u64> {
        (10..20).map(|n| BASE + slide + n * n * 48).collect()
    }

    fn named(called: &BTreeSet<u64>) -> Names {
        let mut names = Names::default();
        names.add("System.map", functions(), called, STEP);
        names
    }

    #[test]
    fn a_list_that_fits_names_and_one_that_was_moved_is_found() {
        let names = named(&called(0));
        assert_eq!(names.place(BASE + 49), Some(Place { name: "f1", start: BASE + 48 }));
        assert_eq!(names.place(BASE - 1), None);
        assert!(names.remarks[0].contains("10 of 10 calls"), "{:?}", names.remarks);
        let moved = named(&called(7 * STEP));
        assert_eq!(moved.place(BASE + 7 * STEP + 49).map(|place| place.name), Some("f1"));
        assert!(moved.remarks[0].contains("moved by 0xe00000"), "{:?}", moved.remarks);
    }

    #[test]
    fn a_list_of_another_build_is_refused_with_a_remark() {
        let other: BTreeSet<u64> = (10..20).map(|n| BASE + n * n * 48 + 16).collect();
        let names = named(&other);
        assert_eq!(names.place(BASE + 49), None);
        assert!(names.remarks[0].contains("of another build"), "{:?}", names.remarks);
        let elsewhere: BTreeSet<u64> = (10..20).map(|n| 0x1000 + n * 48 + 5).collect();
        assert!(named(&elsewhere).remarks[0].contains("other code than ran"));
        let few: BTreeSet<u64> = called(0).into_iter().take(2).collect();
        assert!(named(&few).remarks[0].contains("too few"));
        assert_eq!(named(&few).place(BASE + 49), None, "wherever it was, nothing is named without a check");
        let one: BTreeSet<u64> = (0..9).map(|n| 0x1000 + n * 48).chain([BASE + 48]).collect();
        let one = named(&one);
        assert_eq!(one.place(BASE + 49), None, "one call of ten proves nothing: {:?}", one.remarks);
        let three: BTreeSet<u64> = called(0).into_iter().take(3).collect();
        assert!(named(&three).place(BASE + 49).is_some());
        let firmware = called(3 * STEP).into_iter().chain((0..40).map(|n| 0x7e00_0000 + n * 48)).collect();
        assert!(named(&firmware).remarks[0].contains("moved by"), "{:?}", named(&firmware).remarks);
    }

    #[test]
    fn unwind_tables_select_the_callers_among_the_words() {
        let functions = [0x1000, 0x1100, 0x1200, 0x1300].map(|at| (at, format!("at_{at:x}")));
        let called = functions.iter().map(|function| function.0).collect();
        let mut names = Names::default();
        assert_eq!(names.add("vmlinux", functions.to_vec(), &called, STEP), Some(0));
        names.add_tables(orc(), 0);
        let words = [(0x8010, 0x1200), (0x8018, 0x1350), (0x8030, 0x4444), (0x8038, 0x1250)];
        let word = |address: u64| Return { address, called: None };
        let stack = |returns: &[u64]| Stack {
            pc: 0x1010,
            mode: Mode::Kernel,
            method: Method::Words,
            returns: returns.iter().copied().map(word).collect(),
            top: Some(top(0x8000, 0x8030, &words)),
        };
        let mut stacks = [stack(&[0x1200, 0x1350, 0x1250]), stack(&[0x1350]), Stack { top: None, ..stack(&[0x1350]) }];
        names.unwind(stacks.iter_mut());
        assert_eq!((stacks[0].method, &stacks[0].returns[..]), (Method::Tables, &[word(0x1200), word(0x1250)][..]));
        assert_eq!(stacks[1].method, Method::Words, "what the tables lead to lies behind no call");
        assert!(stacks.iter().all(|stack| stack.top.is_none()), "the bytes are spent");
        assert!(names.remarks[1].contains("on 1 of 2 stacks"), "{:?}", names.remarks);
        let mut none = Names::default();
        none.unwind([stack(&[0x1200, 0x1250])].iter_mut());
        assert!(none.remarks.is_empty());
    }

    #[test]
    fn a_function_that_jumped_here_is_skipped() {
        let names = named(&called(0));
        let f = |n: u64| BASE + n * n * 48;
        let call = |within: u64, callee: u64| Return { address: f(within) + 20, called: Some(f(callee)) };
        // f30 called f29, which jumped to f10; f31 called f30. Nothing calls f70.
        let returns = vec![call(70, 71), call(30, 29), call(31, 30)];
        let stack = Stack { pc: f(10) + 4, mode: Mode::Kernel, method: Method::Words, returns, top: None };
        let callers: Vec<&str> = names.callers(&stack).iter().map(|r| names.place(r.address).unwrap().name).collect();
        assert_eq!(callers, ["f30", "f31"]);
    }

    #[test]
    fn words_that_call_each_other_remain() {
        let names = named(&called(0));
        let f = |n: u64| BASE + n * n * 48;
        let call = |within: u64, callee: Option<u64>| Return { address: f(within) + 20, called: callee };
        let stack = Stack {
            pc: f(10) + 4,
            mode: Mode::Kernel,
            method: Method::Words,
            returns: vec![
                call(50, Some(f(51))),
                call(11, Some(f(10))),
                call(60, Some(f(61))),
                call(12, None),
                call(13, Some(f(12))),
            ],
            top: None,
        };
        let callers: Vec<&str> = names.callers(&stack).iter().map(|r| names.place(r.address).unwrap().name).collect();
        assert_eq!(callers, ["f11", "f12", "f13"]);
        let by_pointers = Stack { method: Method::FramePointers, ..stack };
        assert_eq!(names.callers(&by_pointers).len(), 5, "a chain is as it is");
    }
}
