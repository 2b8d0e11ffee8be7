//! Names for addresses on stacks, from lists of functions that are checked against the stacks first.
//!
//! A list of another build names everything, and all of it wrongly. Calls that were seen on the stacks give it away: they
//! lead to the first byte of functions. A kernel that randomises its own address is a multiple of a step from where its list
//! has it, the same for all of it: the one that most calls agree on.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use super::stack::{CALLERS_MIN, How, Return, Stack};
use crate::arch::orc::Orc;

/// A function is no longer: an address further behind the last one's start is in none.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;
/// So many different calls to the start of a function show that a list fits, or has to be moved.
const CALLED_MIN: usize = 4;
/// So many do where no call leads elsewhere into it.
const CALLED_MIN_OF_ALL: usize = 3;

/// Functions by address, of one list.
#[derive(Clone, Debug)]
struct List {
    functions: Vec<(u64, String)>,
}

/// The names that fit what was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    lists: Vec<List>,
    /// The unwind tables of the kernel that ran, and how far it had moved itself.
    tables: Option<(Orc, u64)>,
    /// Where they are from, and how they fit; or why they are not used.
    pub(crate) remarks: Vec<String>,
}

/// How many calls lead into a list, and how many of them to a function's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fit {
    inside: usize,
    at_start: usize,
}

impl Fit {
    fn is_good(self) -> bool {
        let needed = if self.at_start == self.inside { CALLED_MIN_OF_ALL } else { CALLED_MIN };
        self.at_start >= needed && self.at_start * 2 > self.inside
    }
}

/// Linux calls through registers by functions that are called so.
const THUNK: &str = "__x86_indirect_thunk";

/// A function, and how far into it an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(crate) name: &'a str,
    pub(crate) start: u64,
}

impl Names {
    /// Takes a list, if it fits the calls that were seen; a kernel's own may have been moved by a multiple of `step`. By how much,
    /// if the list fits.
    pub(crate) fn add(
        &mut self,
        what: &str,
        mut functions: Vec<(u64, String)>,
        called: &BTreeSet<u64>,
        step: u64,
    ) -> Option<u64> {
        functions.sort_by_key(|function| function.0);
        functions.dedup_by_key(|function| function.0);
        let mut list = List { functions };
        let mut fit = list.fit(called);
        let (mut moved, mut moved_by) = (String::new(), 0);
        if !fit.is_good() {
            if let Some(slide) = list.slide(called, step) {
                list.functions.iter_mut().for_each(|function| function.0 = function.0.wrapping_add(slide));
                list.functions.sort_by_key(|function| function.0);
                fit = list.fit(called);
                (moved, moved_by) = (format!(", moved by {slide:#x}"), slide);
            }
        }
        let Fit { inside, at_start } = fit;
        let calls =
            format!("{at_start} of {inside} calls seen on the stacks lead to the start of one of its functions");
        self.remarks.push(match () {
            () if fit.is_good() => format!("{what}{moved}: {calls}"),
            () if called.len() < CALLED_MIN => {
                format!("{what} is not used: too few calls were seen on the stacks to check whether it fits")
            }
            () if inside == 0 => {
                format!("{what} is not used: no call seen on the stacks leads into it, so it names other code than ran")
            }
            () if at_start * 2 > inside => format!("{what} is not used: {calls}, too few to say that it fits"),
            () => format!("{what} is not used: only {calls}, so it is of another build"),
        });
        if !fit.is_good() {
            return None;
        }
        self.lists.push(list);
        Some(moved_by)
    }

    /// Takes the unwind tables of a kernel that has moved itself so far.
    pub(crate) fn add_tables(&mut self, orc: Orc, moved_by: u64) {
        self.tables = Some((orc, moved_by));
    }

    /// Finds the callers of stacks without frame pointers by the unwind tables, where there are any.
    pub(crate) fn unwind<'s>(&mut self, stacks: impl Iterator<Item = &'s mut Stack>) {
        let (mut unwound, mut all) = (0, 0);
        for stack in stacks {
            // The bytes are not needed any more.
            let Some(top) = stack.top.take() else { continue };
            let Some((orc, moved_by)) = &self.tables else { continue };
            all += 1;
            let (callers, mut is_whole) = orc.callers(stack.pc, &top, *moved_by);
            // A caller lies behind a call, as the guest's memory had it.
            let seen = |address: u64| stack.returns.iter().find(|found| found.address == address).copied();
            let interrupted = |address: u64| self.place(address).map(|_| Return { address, called: None });
            let mut returns = Vec::new();
            for caller in callers {
                let known = if caller.was_interrupted { interrupted(caller.address) } else { seen(caller.address) };
                let Some(known) = known else {
                    is_whole = false;
                    break;
                };
                returns.push(known);
            }
            if is_whole || returns.len() >= CALLERS_MIN {
                (stack.how, stack.returns) = (How::Tables, returns);
                unwound += 1;
            }
        }
        if all > 0 {
            self.remarks.push(format!(
                "the kernel's own unwind tables (ORC) say who called whom on {unwound} of {all} stacks without frame pointers"
            ));
        }
    }

    /// The function that an address is in.
    pub(crate) fn place(&self, address: u64) -> Option<Place<'_>> {
        self.lists.iter().filter_map(|list| list.place(address)).max_by_key(|place| place.start)
    }

    /// The callers of a stack, innermost first: as found, or of words on it those of which each called the next.
    pub(crate) fn callers<'s>(&self, stack: &'s Stack) -> Vec<&'s Return> {
        if stack.how != How::Words {
            return stack.returns.iter().collect();
        }
        let (mut callers, mut rest, mut inner) = (Vec::new(), &stack.returns[..], stack.pc);
        while let Some(start) = self.place(inner).map(|place| place.start) {
            // The nearest call of just this function; else the nearest that goes through a register, and may be one; else
            // one of a function that may have jumped here: one that something further out calls.
            let calls_it = |found: &Return| found.called == Some(start);
            let by_register = |found: &Return| self.is_by_register(found) && self.place(found.address).is_some();
            let is_called = |at: &usize| {
                let start = self.place(rest[*at].address).map(|place| place.start);
                start.is_some() && rest[at + 1..].iter().any(|outer| outer.called == start)
            };
            let jumped_here = || (0..rest.len()).find(is_called);
            let found = rest.iter().position(calls_it).or_else(|| rest.iter().position(by_register));
            let Some(at) = found.or_else(jumped_here) else { break };
            callers.push(&rest[at]);
            (inner, rest) = (rest[at].address, &rest[at + 1..]);
        }
        callers
    }

    /// Whether a call says nothing of whom it calls: through a register, or through a thunk that jumps through one.
    fn is_by_register(&self, found: &Return) -> bool {
        let thunk = |called| self.place(called).is_some_and(|place| place.name.starts_with(THUNK));
        found.called.is_none_or(thunk)
    }
}

impl List {
    fn place(&self, address: u64) -> Option<Place<'_>> {
        let after = self.functions.partition_point(|function| function.0 <= address);
        let (start, name) = self.functions.get(after.checked_sub(1)?)?;
        (address - start < FUNCTION_BYTES_MAX).then_some(Place { name, start: *start })
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

    /// How far the list is from where its functions were called: each call votes for all that it can be.
    fn slide(&self, called: &BTreeSet<u64>, step: u64) -> Option<u64> {
        let mut starts: Vec<(u64, u64)> = self.functions.iter().map(|(start, _)| (start % step, *start)).collect();
        starts.sort_unstable();
        let mut votes: HashMap<u64, usize> = HashMap::new();
        // Firmware and loaders call each other elsewhere.
        let half = self.functions.first()?.0 >> 63;
        let called: Vec<u64> = called.iter().copied().filter(|address| address >> 63 == half).collect();
        for &address in &called {
            let from = starts.partition_point(|start| start.0 < address % step);
            let alike = starts[from..].iter().take_while(|start| start.0 == address % step);
            alike.for_each(|start| *votes.entry(address.wrapping_sub(start.1)).or_default() += 1);
        }
        let (slide, agree) = votes.into_iter().max_by_key(|&(slide, votes)| (votes, Reverse(slide)))?;
        (agree >= CALLED_MIN && agree * 2 > called.len()).then_some(slide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Mode;
    use crate::arch::orc::tests::{orc, top};

    const STEP: u64 = 2 << 20;
    const BASE: u64 = 0xffff_ffff_8100_0000;

    /// Functions at distances that no move by a step maps onto each other.
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
    fn a_list_of_another_build_is_refused_and_said() {
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
    fn unwind_tables_say_which_words_are_callers() {
        let functions = [0x1000, 0x1100, 0x1200, 0x1300].map(|at| (at, format!("at_{at:x}")));
        let called = functions.iter().map(|function| function.0).collect();
        let mut names = Names::default();
        assert_eq!(names.add("vmlinux", functions.to_vec(), &called, STEP), Some(0));
        names.add_tables(orc(), 0);
        let words = [(0x8010, 0x1200), (0x8018, 0x1350), (0x8030, 0x4444), (0x8038, 0x1250)];
        let found = |address: u64| Return { address, called: None };
        let stack = |returns: &[u64]| Stack {
            pc: 0x1010,
            mode: Mode::Kernel,
            how: How::Words,
            returns: returns.iter().copied().map(found).collect(),
            top: Some(top(0x8000, 0x8030, &words)),
        };
        let mut stacks = [stack(&[0x1200, 0x1350, 0x1250]), stack(&[0x1350]), Stack { top: None, ..stack(&[0x1350]) }];
        names.unwind(stacks.iter_mut());
        assert_eq!((stacks[0].how, &stacks[0].returns[..]), (How::Tables, &[found(0x1200), found(0x1250)][..]));
        assert_eq!(stacks[1].how, How::Words, "what the tables lead to lies behind no call");
        assert!(stacks.iter().all(|stack| stack.top.is_none()), "the bytes are spent");
        assert!(names.remarks[1].contains("on 1 of 2 stacks"), "{:?}", names.remarks);
        let mut none = Names::default();
        none.unwind([stack(&[0x1200, 0x1250])].iter_mut());
        assert!(none.remarks.is_empty());
    }

    #[test]
    fn a_function_that_jumped_here_is_passed_over() {
        let names = named(&called(0));
        let f = |n: u64| BASE + n * n * 48;
        let call = |within: u64, callee: u64| Return { address: f(within) + 20, called: Some(f(callee)) };
        // f30 called f29, which jumped to f10; f31 called f30. Nothing calls f70.
        let returns = vec![call(70, 71), call(30, 29), call(31, 30)];
        let stack = Stack { pc: f(10) + 4, mode: Mode::Kernel, how: How::Words, returns, top: None };
        let callers: Vec<&str> = names.callers(&stack).iter().map(|r| names.place(r.address).unwrap().name).collect();
        assert_eq!(callers, ["f30", "f31"]);
    }

    #[test]
    fn of_words_on_a_stack_those_remain_that_call_each_other() {
        let names = named(&called(0));
        let f = |n: u64| BASE + n * n * 48;
        let call = |within: u64, callee: Option<u64>| Return { address: f(within) + 20, called: callee };
        let stack = Stack {
            pc: f(10) + 4,
            mode: Mode::Kernel,
            how: How::Words,
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
        let by_pointers = Stack { how: How::FramePointers, ..stack };
        assert_eq!(names.callers(&by_pointers).len(), 5, "a chain is as it is");
    }
}
