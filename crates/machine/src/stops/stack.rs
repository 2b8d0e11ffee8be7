//! Finds the callers on the stack of a stopped vCPU, as far as the guest's memory contains them.
//!
//! A chain of frame pointers is accepted if a call instruction lies before each return address. If there is no such chain (the kernel was
//! built without frame pointers), all words on the stack are collected that point behind a call. Functions that have already returned
//! are among them. The stack's bytes are kept too: unwind tables in the kernel's image, if any, select the callers among the words.
//! Without them, [`super::names`] keeps the words that each call the next.
//!
//! The guest is not trusted: every length and every number of steps must be bounded.

use std::collections::HashMap;

use crate::arch::orc::StackTop;
use crate::arch::{Arch, Call, Mode, Registers};
use crate::gdb::GdbError;

/// Deepest stack. The deepest one seen, of illumos, has 40 entries.
const MAX_FRAMES: usize = 64;
/// Size of the part of a stack that is searched for return addresses.
const SCANNED_BYTES: usize = 8 << 10;
/// Largest total of the stacks' bytes that are kept for unwind tables: those of the first 4096 stops of one CPU.
const MAX_KEPT_BYTES: usize = 32 << 20;
/// Largest number of words that are kept from a stack without frame pointers.
const MAX_WORDS: usize = 128;
/// Largest distance between the frames of a caller and its callee on one stack.
const MAX_FRAME_BYTES: u64 = 64 << 10;
/// Shortest accepted chain. Shorter ones are also found by chance.
pub(crate) const MIN_CALLERS: usize = 2;
/// The longest call instruction.
const CALL_BYTES: usize = 7;
/// Size of the code from which [`Walker::without_frame`] recognizes that a function has no frame.
const ENTRY_BYTES: usize = 16;
/// Largest number of return addresses whose calls are cached.
const MAX_CACHED_CALLS: usize = 1 << 16;

/// The method by which the callers were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    FramePointers,
    /// The unwind tables of the kernel's image.
    Tables,
    /// Words that look like return addresses.
    Words,
    /// No callers are known: no kernel runs, or its stack cannot be read.
    Unknown,
}

/// An address on the stack behind a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Return {
    pub(crate) address: u64,
    /// The target of that call, if the instruction contains it.
    pub(crate) called: Option<u64>,
}

/// A vCPU's stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    pub(crate) pc: u64,
    pub(crate) mode: Mode,
    pub(crate) method: Method,
    /// The innermost caller first.
    pub(crate) returns: Vec<Return>,
    /// The input for unwind tables, if there are no frame pointers.
    pub(crate) top: Option<StackTop>,
}

/// The guest's memory at the addresses of a stopped vCPU. A read returns at most `length` bytes, and fewer if the rest is not mapped.
pub(crate) trait Memory {
    fn read(&mut self, address: u64, length: usize) -> Result<Vec<u8>, GdbError>;
}

/// Walks stacks. It caches the calls in the code, because code does not change.
#[derive(Debug)]
pub(crate) struct Walker {
    arch: &'static Arch,
    calls: HashMap<u64, Option<Return>>,
    /// The size of the stacks' bytes kept so far.
    kept_bytes: usize,
}

impl Walker {
    pub(crate) fn new(arch: &'static Arch) -> Walker {
        Walker { arch, calls: HashMap::new(), kept_bytes: 0 }
    }

    pub(crate) fn arch(&self) -> &'static Arch {
        self.arch
    }

    /// The stack of the vCPU with these registers.
    pub(crate) fn walk(&mut self, registers: Registers, memory: &mut dyn Memory) -> Result<Stack, GdbError> {
        let mut stack =
            Stack { pc: registers.pc, mode: registers.mode, method: Method::Unknown, returns: Vec::new(), top: None };
        if registers.mode != Mode::Kernel {
            return Ok(stack);
        }
        let bytes = memory.read(registers.sp, SCANNED_BYTES)?;
        let (returns, is_whole) = self.by_frame_pointers(registers, &bytes, memory)?;
        if returns.len() >= MIN_CALLERS || is_whole {
            let direct = self.without_frame(registers, &bytes, memory)?;
            (stack.method, stack.returns) = (Method::FramePointers, direct.into_iter().chain(returns).collect());
            return Ok(stack);
        }
        for word in bytes.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().expect("it has 8 bytes"));
            // An address more than 2 GiB away cannot be reached by a call.
            let is_near = word.abs_diff(registers.pc) < 1 << 31;
            if let Some(return_address) = if is_near { self.behind_call(word, memory)? } else { None } {
                stack.returns.push(return_address);
            }
            if stack.returns.len() == MAX_WORDS {
                break;
            }
        }
        if !stack.returns.is_empty() {
            stack.method = Method::Words;
            if self.kept_bytes + bytes.len() <= MAX_KEPT_BYTES {
                self.kept_bytes += bytes.len();
                stack.top = Some(StackTop { sp: registers.sp, fp: registers.fp, bytes });
            }
        }
        Ok(stack)
    }

    /// Follows frame pointers. Returns the callers, and true if the chain is complete, which means that it ends in a zero.
    fn by_frame_pointers(
        &mut self,
        registers: Registers,
        stack: &[u8],
        memory: &mut dyn Memory,
    ) -> Result<(Vec<Return>, bool), GdbError> {
        let (mut returns, mut pointer, mut below) = (Vec::new(), registers.fp, registers.sp);
        while returns.len() < MAX_FRAMES {
            let fp = pointer.wrapping_sub(self.arch.frame_record_offset);
            // A caller's frame must lie further out than its callee's, so a chain cannot be a circle.
            if fp % 8 != 0 || fp < below || fp - below > MAX_FRAME_BYTES {
                return Ok((returns, false));
            }
            let within =
                usize::try_from(fp - registers.sp).ok().and_then(|from| stack.get(from..from.checked_add(16)?));
            let frame = match within {
                Some(frame) => frame.to_vec(),
                None => memory.read(fp, 16)?,
            };
            let Some((next, address)) = frame.split_at_checked(8) else { return Ok((returns, false)) };
            let (Ok(next), Ok(address)) = (next.try_into(), address.try_into()) else { return Ok((returns, false)) };
            let (next, address) = (u64::from_le_bytes(next), u64::from_le_bytes(address));
            match self.behind_call(address, memory)? {
                Some(return_address) => returns.push(return_address),
                None => return Ok((returns.clone(), next == 0 && !returns.is_empty())),
            }
            if next == 0 {
                return Ok((returns, true));
            }
            (below, pointer) = (fp + 16, next);
        }
        Ok((returns, true))
    }

    /// The caller of a function that has no frame. The frame pointer is then still the caller's, so the chain omits that caller. QEMU stops
    /// vCPUs between blocks of code, and many blocks begin or end with a function.
    fn without_frame(
        &mut self,
        registers: Registers,
        stack: &[u8],
        memory: &mut dyn Memory,
    ) -> Result<Option<Return>, GdbError> {
        let code = memory.read(registers.pc.wrapping_sub(1), 1 + ENTRY_BYTES)?;
        let Some((&before, code)) = code.split_first() else { return Ok(None) };
        let above = (self.arch.return_without_frame)(before, code).and_then(|above| usize::try_from(above).ok());
        let word = above.and_then(|above| stack.get(above..)?.first_chunk::<8>());
        word.map_or(Ok(None), |word| self.behind_call(u64::from_le_bytes(*word), memory))
    }

    /// The return address with the call's target, if the address lies behind a call.
    fn behind_call(&mut self, address: u64, memory: &mut dyn Memory) -> Result<Option<Return>, GdbError> {
        if let Some(&cached) = self.calls.get(&address) {
            return Ok(cached);
        }
        let from = address.wrapping_sub(CALL_BYTES as u64);
        let code = memory.read(from, CALL_BYTES)?;
        let call = if code.len() == CALL_BYTES { (self.arch.call_before)(&code) } else { None };
        let return_address = call.map(|call| match call {
            Call::By(distance) => Return { address, called: Some(address.wrapping_add_signed(distance.into())) },
            Call::Indirect => Return { address, called: None },
        });
        // Code that is not mapped now may be mapped later, so it is not cached.
        if code.len() == CALL_BYTES && self.calls.len() < MAX_CACHED_CALLS {
            self.calls.insert(address, return_address);
        }
        Ok(return_address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::ARCH;
    use proptest::prelude::*;

    /// A contiguous piece of memory.
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
        let callers: Vec<(u64, Option<u64>)> = stack.returns.iter().map(|r| (r.address, r.called)).collect();
        assert_eq!(stack.method, Method::FramePointers);
        assert_eq!(callers, [(0x10105, Some(0x10200)), (0x10305, Some(0x10100)), (0x10405, Some(0x10300))]);
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
            assert_eq!(stack.method, Method::FramePointers);
            stack.returns.iter().map(|r| r.address).collect::<Vec<u64>>()
        };
        assert_eq!(callers(0x10200, 0x12ff0, &mut memory), [0x10105, 0x10305, 0x10405], "before the push");
        assert_eq!(callers(0x10201, 0x12fe8, &mut memory), [0x10105, 0x10305, 0x10405], "after it");
        memory.put(0x12ff0, 0x10333);
        assert_eq!(callers(0x10200, 0x12ff0, &mut memory), [0x10305, 0x10405], "no call lies before that word");
    }

    #[test]
    fn without_frame_pointers_words_behind_calls_are_kept() {
        let mut memory = Piece::new();
        memory.put(0x13010, 0x10105);
        memory.call(0x10105, 0x10200);
        memory.put(0x13020, 0x10333); // no call before it
        memory.put(0x13028, 0xdead_beef_0000);
        for fp in [0, 7, 0x13018, 0x12000, u64::MAX] {
            let stack = walk(kernel(0x10210, 0x13000, fp), &mut memory);
            assert_eq!((stack.method, stack.returns.len()), (Method::Words, 1), "fp {fp:#x}");
            assert_eq!(stack.top.map(|top| (top.sp, top.fp, top.bytes.len())), Some((0x13000, fp, 0x1000)));
        }
        assert_eq!(
            walk(kernel(0x10210, 0xffff_0000, 0), &mut memory).method,
            Method::Unknown,
            "its stack is not mapped"
        );
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
            prop_assert!(stack.returns.len() <= MAX_WORDS.max(MAX_FRAMES));
        }
    }
}
