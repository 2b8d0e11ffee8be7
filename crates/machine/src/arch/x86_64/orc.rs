//! Finds callers on a stack without frame pointers by Linux's ORC tables (Documentation/arch/x86/orc-unwinder.rst; the format of the
//! entries is in arch/x86/include/asm/orc_types.h).
//!
//! The tables are read from the sections `.orc_unwind_ip` and `.orc_unwind` of the unpacked kernel image. For each stretch of code they
//! contain the distance of the caller's frame from a register. The image and the stack are not trusted: no index may be used without
//! a check.
//!
//! Only one stack is followed. Linux runs interrupts on a separate stack. The callers on it end where the CPU switched to it, and the
//! interrupted code is not among them.

use object::read::{Object, ObjectSection};

/// Deepest stack.
const MAX_FRAMES: usize = 64;
/// Size of an entry: two offsets of 16 bits, and 16 bits of fields.
const ENTRY_BYTES: usize = 6;
/// Bits that mark a stack's end in kernels before 6.4: the bit of `end` until 6.2, and the bit in 6.3.
const OLD_ENDS: u16 = 1 << 10 | 1 << 11;
/// Offset of the frame pointer of interrupted code in `struct pt_regs`.
const REGS_FP: u64 = 32;
/// Offset of the instruction's address there.
const REGS_PC: u64 = 128;
/// Distance from the instruction's address to the stack pointer in the words that the CPU pushes at an interrupt.
const PUSHED_SP: u64 = 24;

/// The tables of one kernel image.
#[derive(Clone, Debug)]
pub(crate) struct Orc {
    /// Entries by the start of their stretch of code, at its linked address.
    entries: Vec<(u64, Entry)>,
}

/// The location of the caller's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    sp_offset: i16,
    fp_offset: i16,
    sp_base: Base,
    fp_base: Base,
    content: FrameContent,
}

/// The base of an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Nothing,
    CallerSp,
    Fp,
    Sp,
    /// The result is the word in memory at the offset from the frame pointer.
    FpMemory,
    /// The base is the word in memory at the stack pointer.
    SpMemory,
    /// A register that is not supported.
    Other,
}

/// The content of the caller's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameContent {
    /// A return address.
    Call,
    /// All registers of interrupted code.
    Registers,
    /// The registers that the CPU pushed at an interrupt.
    Pushed,
    /// The stack begins here: there is no caller.
    End,
    Unknown,
}

/// A stopped CPU's stack: the registers, and the bytes from the stack pointer on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StackTop {
    pub(crate) sp: u64,
    pub(crate) fp: u64,
    pub(crate) bytes: Vec<u8>,
}

/// An entry of a call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The address at which it continues.
    pub(crate) address: u64,
    /// True if it was interrupted there, and made no call.
    pub(crate) was_interrupted: bool,
}

impl Orc {
    /// Reads the tables from an unpacked image. Returns `None` if it contains no tables.
    pub(crate) fn of(elf: &[u8]) -> Option<Orc> {
        let elf = object::File::parse(elf).ok()?;
        let section = |name| elf.section_by_name(name);
        let (addresses, entries) = (section(".orc_unwind_ip")?, section(".orc_unwind")?);
        // Kernels before 6.4 have no header, and mark a stack's end with another bit.
        let is_old = section(".orc_header").is_none();
        let at = addresses.address();
        let address_of = |(n, bytes): (usize, &[u8])| {
            let here = at.wrapping_add(4 * n as u64);
            here.wrapping_add_signed(i32::from_le_bytes(bytes.try_into().expect("it has 4 bytes")).into())
        };
        let addresses = addresses.data().ok()?.chunks_exact(4).enumerate().map(address_of);
        let entries = entries.data().ok()?.chunks_exact(ENTRY_BYTES).map(|bytes| Entry::of(bytes, is_old));
        let mut entries: Vec<(u64, Entry)> = addresses.zip(entries).collect();
        entries.sort_by_key(|entry| entry.0);
        (!entries.is_empty()).then_some(Orc { entries })
    }

    fn entry(&self, address: u64) -> Option<&Entry> {
        let after = self.entries.partition_point(|entry| entry.0 <= address);
        Some(&self.entries.get(after.checked_sub(1)?)?.1)
    }

    /// The callers of code at `pc`, innermost first, as far as the bytes contain them. The flag is true if they end where a stack begins.
    /// The kernel runs `slide` bytes above its linked address.
    pub(crate) fn callers(&self, pc: u64, top: &StackTop, slide: u64) -> (Vec<Caller>, bool) {
        let word = |address: u64| {
            let from = usize::try_from(address.checked_sub(top.sp)?).ok()?;
            let word = top.bytes.get(from..from.checked_add(8)?)?;
            Some(u64::from_le_bytes(word.try_into().expect("it has 8 bytes")))
        };
        let mut callers = Vec::new();
        let (mut at, mut sp, mut fp) = (Caller { address: pc, was_interrupted: true }, top.sp, Some(top.fp));
        while callers.len() < MAX_FRAMES {
            // A call can be a function's last instruction. Its return address then belongs to the next function.
            let instruction = if at.was_interrupted { at.address } else { at.address.wrapping_sub(1) };
            let Some(entry) = self.entry(instruction.wrapping_sub(slide)) else { return (callers, false) };
            if entry.content == FrameContent::End {
                return (callers, true);
            }
            let Some((caller, caller_sp, caller_fp)) = entry.step(sp, fp, &word) else { return (callers, false) };
            // Within one stack, callers are always further up, so this cannot be a circle.
            if caller_sp <= sp {
                return (callers, false);
            }
            callers.push(caller);
            (at, sp, fp) = (caller, caller_sp, caller_fp);
        }
        (callers, false)
    }
}

impl Entry {
    fn of(bytes: &[u8], is_old: bool) -> Entry {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let fields = u16_at(4);
        let base = |field: u16| match field & 15 {
            0 => Base::Nothing,
            1 => Base::CallerSp,
            4 => Base::Fp,
            5 => Base::Sp,
            8 => Base::FpMemory,
            9 => Base::SpMemory,
            _ => Base::Other,
        };
        let content = match (is_old, fields >> 8 & 7) {
            // These kernels mark the end with a bit behind the two bits of the kind, in entries without a register.
            (true, kind) if kind & 3 == 0 && base(fields) == Base::Nothing => match fields & OLD_ENDS {
                0 => FrameContent::Unknown,
                _ => FrameContent::End,
            },
            (true, 0 | 4) | (false, 2) => FrameContent::Call,
            (true, 1 | 5) | (false, 3) => FrameContent::Registers,
            (true, 2 | 6) | (false, 4) => FrameContent::Pushed,
            (false, 1) => FrameContent::End,
            _ => FrameContent::Unknown,
        };
        let signed = |at: usize| i16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Entry { sp_offset: signed(0), fp_offset: signed(2), sp_base: base(fields), fp_base: base(fields >> 4), content }
    }

    /// The caller, and its stack and frame pointers.
    fn step(&self, sp: u64, fp: Option<u64>, word: &dyn Fn(u64) -> Option<u64>) -> Option<(Caller, u64, Option<u64>)> {
        let offset = i64::from(self.sp_offset);
        let frame = match self.sp_base {
            Base::Sp => sp.wrapping_add_signed(offset),
            Base::Fp => fp?.wrapping_add_signed(offset),
            Base::FpMemory => word(fp?.wrapping_add_signed(offset))?,
            Base::SpMemory => word(sp)?.wrapping_add_signed(offset),
            Base::Nothing | Base::CallerSp | Base::Other => return None,
        };
        let (address, caller_sp) = match self.content {
            FrameContent::Call => (word(frame.wrapping_sub(8))?, frame),
            FrameContent::Registers => {
                (word(frame.wrapping_add(REGS_PC))?, word(frame.wrapping_add(REGS_PC + PUSHED_SP))?)
            }
            FrameContent::Pushed => (word(frame)?, word(frame.wrapping_add(PUSHED_SP))?),
            FrameContent::End | FrameContent::Unknown => return None,
        };
        let word_at = |from: u64| word(from.wrapping_add_signed(self.fp_offset.into()));
        let caller_fp = match self.fp_base {
            Base::Nothing if self.content == FrameContent::Registers => word(frame.wrapping_add(REGS_FP)),
            Base::Nothing => fp,
            Base::CallerSp => word_at(frame),
            Base::Fp => fp.and_then(word_at),
            _ => None,
        };
        Some((Caller { address, was_interrupted: self.content != FrameContent::Call }, caller_sp, caller_fp))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    const CALL: u16 = 2 << 8;
    const BY_SP: u16 = 5;
    const BY_FP: u16 = 4;

    fn entry(sp_offset: i16, fp_offset: i16, fields: u16) -> Entry {
        let bytes = [sp_offset.to_le_bytes(), fp_offset.to_le_bytes(), fields.to_le_bytes()].concat();
        Entry::of(&bytes, false)
    }

    /// Four functions of 0x100 bytes: f keeps 16 bytes, g has a frame pointer 16 bytes below its caller's frame, a stack begins in h, and
    /// i is an interrupt handler.
    pub(crate) fn orc() -> Orc {
        let entries = vec![
            (0x1000, entry(24, 0, CALL | BY_SP)),
            (0x1100, entry(16, -16, CALL | BY_FP | 1 << 4)),
            (0x1200, entry(0, 0, 1 << 8)),
            (0x1300, entry(8, 0, 3 << 8 | BY_SP)),
            (0x1400, entry(0, 0, 0)),
        ];
        Orc { entries }
    }

    pub(crate) fn top(sp: u64, fp: u64, words: &[(u64, u64)]) -> StackTop {
        let mut bytes = vec![0; 0x400];
        for (at, word) in words {
            let at = usize::try_from(at - sp).unwrap();
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        StackTop { sp, fp, bytes }
    }

    fn called(address: u64) -> Caller {
        Caller { address, was_interrupted: false }
    }

    #[test]
    fn each_caller_is_where_the_tables_say() {
        // f was called at the end of g, and g by h.
        let words = [(0x8010, 0x1200), (0x8018, 0x77), (0x8030, 0x4444), (0x8038, 0x1250)];
        let callers = orc().callers(0x1010, &top(0x8000, 0x8030, &words), 0);
        assert_eq!(callers, (vec![called(0x1200), called(0x1250)], true));
        // The same in a kernel that has moved itself.
        let words =
            words.map(|(at, word)| if (0x1000..0x2000).contains(&word) { (at, word + 0x5000) } else { (at, word) });
        let callers = orc().callers(0x6010, &top(0x8000, 0x8030, &words), 0x5000);
        assert_eq!(callers, (vec![called(0x6200), called(0x6250)], true));
    }

    #[test]
    fn interrupted_code_goes_on_where_its_registers_say() {
        // i keeps one word above the registers of g. g is at its first instruction, where the frame pointer is still the caller's.
        let words = [(0x8008 + 32, 0x8130), (0x8008 + 128, 0x1180), (0x8008 + 152, 0x8100), (0x8138, 0x1210)];
        let (callers, is_whole) = orc().callers(0x1310, &top(0x8000, 0, &words), 0);
        assert_eq!(callers, [Caller { address: 0x1180, was_interrupted: true }, called(0x1210)]);
        assert!(is_whole);
    }

    #[test]
    fn addresses_outside_the_code_or_the_bytes_end_the_callers() {
        assert_eq!(orc().callers(0x10, &top(0x8000, 0, &[]), 0), (vec![], false), "before all code");
        assert_eq!(orc().callers(0x1010, &top(0x8000, 0, &[(0x8010, 0x30)]), 0), (vec![called(0x30)], false));
        assert_eq!(orc().callers(0x1110, &top(0x8000, 0x9_0000, &[]), 0), (vec![], false), "a frame that was not read");
        assert_eq!(orc().callers(0x1110, &top(0x8000, 0x7000, &[]), 0), (vec![], false), "a frame further in");
        let circle: Vec<(u64, u64)> = (0..0x70).map(|n| (0x8010 + 8 * n, 0x1010)).collect();
        assert!(orc().callers(0x1010, &top(0x8000, 0, &circle), 0).0.len() <= MAX_FRAMES);
    }

    #[test]
    fn old_entries_have_other_kinds() {
        let old = |fields: u16| Entry::of(&[8, 0, 0, 0, fields.to_le_bytes()[0], fields.to_le_bytes()[1]], true);
        assert_eq!((old(BY_SP).content, old(BY_SP).sp_base), (FrameContent::Call, Base::Sp));
        assert_eq!((old(1 << 8).content, old(2 << 8).content), (FrameContent::Registers, FrameContent::Pushed));
        assert_eq!(
            (old(4 << 8 | BY_SP).content, old(4 << 8).content, old(0).content),
            (FrameContent::Call, FrameContent::End, FrameContent::Unknown)
        );
        assert!(Orc::of(b"\x7fELF").is_none());
    }

    proptest! {
        #[test]
        fn any_stack_and_table_end(
            fields: Vec<(u64, [u8; 6])>, pc: u64, sp: u64, fp: u64, bytes: Vec<u8>, slide: u64, is_old: bool
        ) {
            let mut entries: Vec<_> = fields.iter().map(|(at, bytes)| (*at, Entry::of(bytes, is_old))).collect();
            entries.sort_by_key(|entry| entry.0);
            let (callers, _) = Orc { entries }.callers(pc, &StackTop { sp, fp, bytes }, slide);
            prop_assert!(callers.len() <= MAX_FRAMES);
        }
    }
}
