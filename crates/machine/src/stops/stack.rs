//! The stack of a stopped vCPU: who called whom, as far as the guest's memory shows it.
//!
//! A chain of frame pointers is believed where a call instruction lies before each return address. Where there is no such
//! chain (a kernel that was built without frame pointers), all words of the stack that lie behind a call are collected:
//! what was called once and has returned is among them. The stack's bytes are kept too: if the kernel's image has unwind tables,
//! they say which of the words are the callers. Else [`super::names`] keeps those of which each calls the next.
//!
//! The guest is not trusted: every length and every number of steps is bounded.

use std::collections::HashMap;

use crate::arch::orc::Top;
use crate::arch::{Arch, Call, Mode, Registers};
use crate::gdb::GdbError;

/// No stack is deeper. illumos' in the seed of this has 40 entries.
const FRAMES_MAX: usize = 64;
/// So much of a stack is looked at for return addresses.
const SCANNED_BYTES: usize = 8 << 10;
/// So many bytes of stacks are kept at a time, for unwind tables: those of the first 4096 stops of a CPU.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// So many words that lie behind a call are kept of a stack without frame pointers.
const WORDS_MAX: usize = 128;
/// A caller's frame is not further from its callee's than this, unless it is on another stack.
const FRAME_BYTES_MAX: u64 = 64 << 10;
/// Chains of fewer callers are also found by chance.
pub(crate) const CALLERS_MIN: usize = 2;
/// The longest call instruction.
const CALL_BYTES: usize = 7;
/// So much of a function's beginning says whether it has its frame.
const ENTRY_BYTES: usize = 16;
/// So many places of code are remembered.
const PLACES_MAX: usize = 1 << 16;

/// How the callers were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// By frame pointers.
    FramePointers,
    /// By the unwind tables of the kernel's image.
    Tables,
    /// By what looks like return addresses.
    Words,
    /// They were not: no kernel runs, or its stack cannot be read.
    Not,
}

/// An address on the stack behind a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Return {
    pub(crate) address: u64,
    /// What that call leads to, where the instruction says it.
    pub(crate) called: Option<u64>,
}

/// A vCPU's stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    pub(crate) pc: u64,
    pub(crate) mode: Mode,
    pub(crate) how: How,
    /// The innermost caller first.
    pub(crate) returns: Vec<Return>,
    /// What unwind tables are about, where there are no frame pointers.
    pub(crate) top: Option<Top>,
}

/// The guest's memory as a stopped vCPU sees it: as much as is mapped there, and so much at most.
pub(crate) trait Memory {
    fn read(&mut self, address: u64, length: usize) -> Result<Vec<u8>, GdbError>;
}

/// Walks stacks. It remembers what it saw of the code, because code does not change.
#[derive(Debug)]
pub(crate) struct Walker {
    arch: &'static Arch,
    calls: HashMap<u64, Option<Return>>,
    /// Of the stacks' bytes.
    kept_bytes: usize,
}

impl Walker {
    pub(crate) fn new(arch: &'static Arch) -> Walker {
        Walker { arch, calls: HashMap::new(), kept_bytes: 0 }
    }

    /// Whose stacks they are.
    pub(crate) fn arch(&self) -> &'static Arch {
        self.arch
    }

    /// The stack of the vCPU with these registers.
    pub(crate) fn walk(&mut self, at: Registers, memory: &mut dyn Memory) -> Result<Stack, GdbError> {
        let mut stack = Stack { pc: at.pc, mode: at.mode, how: How::Not, returns: Vec::new(), top: None };
        if at.mode != Mode::Kernel {
            return Ok(stack);
        }
        let bytes = memory.read(at.sp, SCANNED_BYTES)?;
        let (returns, is_whole) = self.by_frame_pointers(at, &bytes, memory)?;
        if returns.len() >= CALLERS_MIN || is_whole {
            let direct = self.without_frame(at, &bytes, memory)?;
            (stack.how, stack.returns) = (How::FramePointers, direct.into_iter().chain(returns).collect());
            return Ok(stack);
        }
        for word in bytes.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().expect("it has 8 bytes"));
            // Code is near code: what is further than 2 GiB cannot be called.
            let is_near = word.abs_diff(at.pc) < 1 << 31;
            if let Some(found) = if is_near { self.behind_call(word, memory)? } else { None } {
                stack.returns.push(found);
            }
            if stack.returns.len() == WORDS_MAX {
                break;
            }
        }
        if !stack.returns.is_empty() {
            stack.how = How::Words;
            if self.kept_bytes + bytes.len() <= KEPT_BYTES_MAX {
                self.kept_bytes += bytes.len();
                stack.top = Some(Top { sp: at.sp, fp: at.fp, bytes });
            }
        }
        Ok(stack)
    }

    /// Follows frame pointers: what they lead to, and whether the chain ends as a whole one does, in a zero.
    fn by_frame_pointers(
        &mut self,
        at: Registers,
        stack: &[u8],
        memory: &mut dyn Memory,
    ) -> Result<(Vec<Return>, bool), GdbError> {
        let (mut returns, mut pointer, mut below) = (Vec::new(), at.fp, at.sp);
        while returns.len() < FRAMES_MAX {
            let fp = pointer.wrapping_sub(self.arch.frame_below);
            // A frame lies further out than its callee's: so no chain is a circle.
            if fp % 8 != 0 || fp < below || fp - below > FRAME_BYTES_MAX {
                return Ok((returns, false));
            }
            let within = usize::try_from(fp - at.sp).ok().and_then(|from| stack.get(from..from.checked_add(16)?));
            let frame = match within {
                Some(frame) => frame.to_vec(),
                None => memory.read(fp, 16)?,
            };
            let Some((next, address)) = frame.split_at_checked(8) else { return Ok((returns, false)) };
            let (Ok(next), Ok(address)) = (next.try_into(), address.try_into()) else { return Ok((returns, false)) };
            let (next, address) = (u64::from_le_bytes(next), u64::from_le_bytes(address));
            match self.behind_call(address, memory)? {
                Some(found) => returns.push(found),
                None => return Ok((returns.clone(), next == 0 && !returns.is_empty())),
            }
            if next == 0 {
                return Ok((returns, true));
            }
            (below, pointer) = (fp + 16, next);
        }
        Ok((returns, true))
    }

    /// The caller of a function that has no frame of its own: the frame pointer is still its caller's, so the chain leaves that
    /// caller out. QEMU stops vCPUs between blocks of code, and many blocks begin or end with a function.
    fn without_frame(
        &mut self,
        at: Registers,
        stack: &[u8],
        memory: &mut dyn Memory,
    ) -> Result<Option<Return>, GdbError> {
        let code = memory.read(at.pc.wrapping_sub(1), 1 + ENTRY_BYTES)?;
        let Some((&before, code)) = code.split_first() else { return Ok(None) };
        let above = (self.arch.return_without_frame)(before, code).and_then(|above| usize::try_from(above).ok());
        let word = above.and_then(|above| stack.get(above..)?.first_chunk::<8>());
        word.map_or(Ok(None), |word| self.behind_call(u64::from_le_bytes(*word), memory))
    }

    /// This address, if it lies behind a call.
    fn behind_call(&mut self, address: u64, memory: &mut dyn Memory) -> Result<Option<Return>, GdbError> {
        if let Some(&known) = self.calls.get(&address) {
            return Ok(known);
        }
        let from = address.wrapping_sub(CALL_BYTES as u64);
        let code = memory.read(from, CALL_BYTES)?;
        let call = if code.len() == CALL_BYTES { (self.arch.call_before)(&code) } else { None };
        let found = call.map(|call| match call {
            Call::By(distance) => Return { address, called: Some(address.wrapping_add_signed(distance.into())) },
            Call::Indirect => Return { address, called: None },
        });
        // What was not mapped may be later.
        if code.len() == CALL_BYTES && self.calls.len() < PLACES_MAX {
            self.calls.insert(address, found);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::ARCH;
    use proptest::prelude::*;

    /// One piece of memory.
    struct Piece {
        at: u64,
        bytes: Vec<u8>,
    }

    impl Memory for Piece {
        fn read(&mut self, address: u64, length: usize) -> Result<Vec<u8>, GdbError> {
            let from = usize::try_from(address.wrapping_sub(self.at)).unwrap_or(usize::MAX).min(self.bytes.len());
            Ok(self.bytes[from..from.saturating_add(length).min(self.bytes.len())].to_vec())
        }
    }

    impl Piece {
        fn new() -> Piece {
            Piece { at: 0x10000, bytes: vec![0; 0x4000] }
        }

        fn put(&mut self, address: u64, word: u64) {
            let at = (address - self.at) as usize;
            self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }

        /// A call that returns to this address.
        fn call(&mut self, returns_to: u64, callee: u64) {
            let at = (returns_to - self.at) as usize;
            self.bytes[at - 5] = 0xe8;
            let distance = callee.wrapping_sub(returns_to) as u32;
            self.bytes[at - 4..at].copy_from_slice(&distance.to_le_bytes());
        }
    }

    fn kernel(pc: u64, sp: u64, fp: u64) -> Registers {
        Registers { pc, sp, fp, mode: Mode::Kernel }
    }

    fn walk(at: Registers, memory: &mut Piece) -> Stack {
        Walker::new(&ARCH).walk(at, memory).unwrap()
    }

    #[test]
    fn frame_pointers_lead_to_the_callers() {
        let mut memory = Piece::new();
        for (fp, next, address, callee) in
            [(0x13000, 0x13020, 0x10105, 0x10200), (0x13020, 0x13080, 0x10305, 0x10100), (0x13080, 0, 0x10405, 0x10300)]
        {
            memory.put(fp, next);
            memory.put(fp + 8, address);
            memory.call(address, callee);
        }
        let stack = walk(kernel(0x10210, 0x12ff0, 0x13000), &mut memory);
        let found: Vec<(u64, Option<u64>)> = stack.returns.iter().map(|r| (r.address, r.called)).collect();
        assert_eq!(stack.how, How::FramePointers);
        assert_eq!(found, [(0x10105, Some(0x10200)), (0x10305, Some(0x10100)), (0x10405, Some(0x10300))]);
    }

    #[test]
    fn a_function_that_has_no_frame_yet_has_a_caller() {
        let mut memory = Piece::new();
        for (fp, next, address, callee) in [(0x13000, 0x13020, 0x10305, 0x10100), (0x13020, 0, 0x10405, 0x10300)] {
            memory.put(fp, next);
            memory.put(fp + 8, address);
            memory.call(address, callee);
        }
        // 0x10100 has called 0x10200, which begins with push %rbp, mov %rsp,%rbp.
        memory.call(0x10105, 0x10200);
        memory.put(0x10200, 0xe589_4855);
        memory.put(0x12ff0, 0x10105);
        memory.put(0x12fe8, 0x13000);
        let callers = |pc, sp, memory: &mut Piece| {
            let stack = walk(kernel(pc, sp, 0x13000), memory);
            assert_eq!(stack.how, How::FramePointers);
            stack.returns.iter().map(|r| r.address).collect::<Vec<u64>>()
        };
        assert_eq!(callers(0x10200, 0x12ff0, &mut memory), [0x10105, 0x10305, 0x10405], "before the push");
        assert_eq!(callers(0x10201, 0x12fe8, &mut memory), [0x10105, 0x10305, 0x10405], "after it");
        memory.put(0x12ff0, 0x10333);
        assert_eq!(callers(0x10200, 0x12ff0, &mut memory), [0x10305, 0x10405], "no call lies before that word");
    }

    #[test]
    fn without_frame_pointers_what_lies_behind_a_call_is_kept() {
        let mut memory = Piece::new();
        memory.put(0x13010, 0x10105);
        memory.call(0x10105, 0x10200);
        memory.put(0x13020, 0x10333); // no call before it
        memory.put(0x13028, 0xdead_beef_0000);
        for fp in [0, 7, 0x13018, 0x12000, u64::MAX] {
            let stack = walk(kernel(0x10210, 0x13000, fp), &mut memory);
            assert_eq!((stack.how, stack.returns.len()), (How::Words, 1), "fp {fp:#x}");
            assert_eq!(stack.top.map(|top| (top.sp, top.fp, top.bytes.len())), Some((0x13000, fp, 0x1000)));
        }
        assert_eq!(walk(kernel(0x10210, 0xffff_0000, 0), &mut memory).how, How::Not, "its stack is not mapped");
        let user = Registers { mode: Mode::User, ..kernel(0x10210, 0x13000, 0x13000) };
        assert_eq!(walk(user, &mut memory).returns, [], "of a process only that it is one");
    }

    #[test]
    fn code_that_was_not_mapped_is_looked_at_again() {
        let mut memory = Piece::new();
        memory.put(0x13010, 0x10105);
        memory.call(0x10105, 0x10200);
        let mut walker = Walker::new(&ARCH);
        assert_eq!(walker.behind_call(0x10105, &mut Piece { at: 0x13000, bytes: vec![0; 64] }), Ok(None));
        assert_eq!(walker.walk(kernel(0x10210, 0x13000, 0), &mut memory).unwrap().returns.len(), 1);
    }

    proptest! {
        #[test]
        fn any_memory_and_registers_end(words in proptest::collection::vec((0u64..0x800, 0x10000u64..0x14000), 0..200),
                                        sp in 0x10000u64..0x14000, fp in 0x10000u64..0x14000, code in 0u8..255) {
            let mut memory = Piece::new();
            memory.bytes.fill(code);
            words.iter().for_each(|&(at, word)| memory.put(0x10000 + at * 8, word));
            let stack = walk(kernel(0x10000, sp, fp), &mut memory);
            prop_assert!(stack.returns.len() <= WORDS_MAX.max(FRAMES_MAX));
        }
    }
}
