//! Linux's ORC tables, which say where a function's caller is on a stack without frame pointers
//! (Documentation/arch/x86/orc-unwinder.rst; the entries are those of arch/x86/include/asm/orc_types.h).
//!
//! They are read from the unpacked kernel image, sections `.orc_unwind_ip` and `.orc_unwind`: for each stretch of code, how far
//! the caller's frame is from a register. The image and the stack are not trusted: nothing is indexed without a check.
//!
//! One stack is followed. Linux gives an interrupt a stack of its own: its callers end where the CPU changed to it, and what
//! was interrupted is not among them.

use object::read::{Object, ObjectSection};

/// No stack is deeper.
const FRAMES_MAX: usize = 64;
/// Bytes of an entry: two offsets of 16 bits, and 16 bits of fields.
const ENTRY_BYTES: usize = 6;
/// Where kernels before 6.4 mark a stack's end: `end` until 6.2, and in 6.3.
const OLD_ENDS: u16 = 1 << 10 | 1 << 11;
/// Where an interrupted instruction's registers lie in `struct pt_regs`.
const REGS_FP: u64 = 32;
const REGS_PC: u64 = 128;
/// From the instruction's address to the stack pointer, in what the CPU pushes at an interrupt.
const PUSHED_SP: u64 = 24;

/// The tables of one kernel image.
#[derive(Clone, Debug)]
pub(crate) struct Orc {
    /// By where the stretch of code begins, as the image was linked.
    entries: Vec<(u64, Entry)>,
}

/// Where the caller's frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    sp_offset: i16,
    fp_offset: i16,
    sp_by: By,
    fp_by: By,
    kind: Kind,
}

/// What an offset is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Nothing,
    CallerSp,
    Fp,
    Sp,
    /// What lies at an offset from it.
    FpMemory,
    /// An offset from what lies there.
    SpMemory,
    /// A register that is not known.
    Other,
}

/// What lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A return address.
    Call,
    /// All registers of interrupted code.
    Registers,
    /// Those that the CPU pushed.
    Pushed,
    /// Nothing more: the stack begins here.
    End,
    /// Nobody knows.
    Unknown,
}

/// A stopped CPU's stack: the registers, and the bytes from the stack pointer on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Top {
    pub(crate) sp: u64,
    pub(crate) fp: u64,
    pub(crate) bytes: Vec<u8>,
}

/// A caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Where it goes on.
    pub(crate) address: u64,
    /// Whether it was interrupted there, and called nobody.
    pub(crate) was_interrupted: bool,
}

impl Orc {
    /// The tables in an unpacked image; none if it has none.
    pub(crate) fn of(elf: &[u8]) -> Option<Orc> {
        let elf = object::File::parse(elf).ok()?;
        let section = |name| elf.section_by_name(name);
        let (places, entries) = (section(".orc_unwind_ip")?, section(".orc_unwind")?);
        // Kernels before 6.4 have no header, and tell a stack's end by another bit.
        let is_old = section(".orc_header").is_none();
        let at = places.address();
        let place = |(n, bytes): (usize, &[u8])| {
            let here = at.wrapping_add(4 * n as u64);
            here.wrapping_add_signed(i32::from_le_bytes(bytes.try_into().expect("it has 4 bytes")).into())
        };
        let places = places.data().ok()?.chunks_exact(4).enumerate().map(place);
        let entries = entries.data().ok()?.chunks_exact(ENTRY_BYTES).map(|bytes| Entry::of(bytes, is_old));
        let mut entries: Vec<(u64, Entry)> = places.zip(entries).collect();
        entries.sort_by_key(|entry| entry.0);
        (!entries.is_empty()).then_some(Orc { entries })
    }

    fn entry(&self, address: u64) -> Option<&Entry> {
        let after = self.entries.partition_point(|entry| entry.0 <= address);
        Some(&self.entries.get(after.checked_sub(1)?)?.1)
    }

    /// The callers of code at `pc`, innermost first, as far as the bytes go; and whether they end where a stack begins. The
    /// kernel runs `slide` bytes from where it was linked to.
    pub(crate) fn callers(&self, pc: u64, top: &Top, slide: u64) -> (Vec<Caller>, bool) {
        let word = |address: u64| {
            let from = usize::try_from(address.checked_sub(top.sp)?).ok()?;
            let word = top.bytes.get(from..from.checked_add(8)?)?;
            Some(u64::from_le_bytes(word.try_into().expect("it has 8 bytes")))
        };
        let mut callers = Vec::new();
        let (mut at, mut sp, mut fp) = (Caller { address: pc, was_interrupted: true }, top.sp, Some(top.fp));
        while callers.len() < FRAMES_MAX {
            // A call can be a function's last instruction: what it returns to is then another's.
            let instruction = if at.was_interrupted { at.address } else { at.address.wrapping_sub(1) };
            let Some(entry) = self.entry(instruction.wrapping_sub(slide)) else { return (callers, false) };
            if entry.kind == Kind::End {
                return (callers, true);
            }
            let Some((caller, caller_sp, caller_fp)) = entry.step(sp, fp, &word) else { return (callers, false) };
            // A stack that is not left goes one way: so this is no circle.
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
        let by = |field: u16| match field & 15 {
            0 => By::Nothing,
            1 => By::CallerSp,
            4 => By::Fp,
            5 => By::Sp,
            8 => By::FpMemory,
            9 => By::SpMemory,
            _ => By::Other,
        };
        let kind = match (is_old, fields >> 8 & 7) {
            // A bit behind the kind's two says it, where that is no register.
            (true, kind) if kind & 3 == 0 && by(fields) == By::Nothing => match fields & OLD_ENDS {
                0 => Kind::Unknown,
                _ => Kind::End,
            },
            (true, 0 | 4) | (false, 2) => Kind::Call,
            (true, 1 | 5) | (false, 3) => Kind::Registers,
            (true, 2 | 6) | (false, 4) => Kind::Pushed,
            (false, 1) => Kind::End,
            _ => Kind::Unknown,
        };
        let signed = |at: usize| i16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Entry { sp_offset: signed(0), fp_offset: signed(2), sp_by: by(fields), fp_by: by(fields >> 4), kind }
    }

    /// The caller, and its stack and frame pointers.
    fn step(&self, sp: u64, fp: Option<u64>, word: &dyn Fn(u64) -> Option<u64>) -> Option<(Caller, u64, Option<u64>)> {
        let offset = i64::from(self.sp_offset);
        let frame = match self.sp_by {
            By::Sp => sp.wrapping_add_signed(offset),
            By::Fp => fp?.wrapping_add_signed(offset),
            By::FpMemory => word(fp?.wrapping_add_signed(offset))?,
            By::SpMemory => word(sp)?.wrapping_add_signed(offset),
            By::Nothing | By::CallerSp | By::Other => return None,
        };
        let (address, caller_sp) = match self.kind {
            Kind::Call => (word(frame.wrapping_sub(8))?, frame),
            Kind::Registers => (word(frame.wrapping_add(REGS_PC))?, word(frame.wrapping_add(REGS_PC + PUSHED_SP))?),
            Kind::Pushed => (word(frame)?, word(frame.wrapping_add(PUSHED_SP))?),
            Kind::End | Kind::Unknown => return None,
        };
        let by_offset = |from: u64| word(from.wrapping_add_signed(self.fp_offset.into()));
        let caller_fp = match self.fp_by {
            By::Nothing if self.kind == Kind::Registers => word(frame.wrapping_add(REGS_FP)),
            By::Nothing => fp,
            By::CallerSp => by_offset(frame),
            By::Fp => fp.and_then(by_offset),
            _ => None,
        };
        Some((Caller { address, was_interrupted: self.kind != Kind::Call }, caller_sp, caller_fp))
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

    /// f keeps 16 bytes, g has a frame pointer 16 bytes below its caller's frame, h is where a stack begins, i is an interrupt's
    /// code. Each is 0x100 long.
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

    pub(crate) fn top(sp: u64, fp: u64, words: &[(u64, u64)]) -> Top {
        let mut bytes = vec![0; 0x400];
        for (at, word) in words {
            let at = usize::try_from(at - sp).unwrap();
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        Top { sp, fp, bytes }
    }

    fn called(address: u64) -> Caller {
        Caller { address, was_interrupted: false }
    }

    #[test]
    fn each_caller_is_where_the_tables_say() {
        // f, called at the end of g, which h called.
        let words = [(0x8010, 0x1200), (0x8018, 0x77), (0x8030, 0x4444), (0x8038, 0x1250)];
        let found = orc().callers(0x1010, &top(0x8000, 0x8030, &words), 0);
        assert_eq!(found, (vec![called(0x1200), called(0x1250)], true));
        // The same, where the kernel has moved itself.
        let words =
            words.map(|(at, word)| if (0x1000..0x2000).contains(&word) { (at, word + 0x5000) } else { (at, word) });
        let found = orc().callers(0x6010, &top(0x8000, 0x8030, &words), 0x5000);
        assert_eq!(found, (vec![called(0x6200), called(0x6250)], true));
    }

    #[test]
    fn interrupted_code_goes_on_where_its_registers_say() {
        // i keeps one word above the registers of g at its first instruction, whose frame pointer is the caller's yet.
        let words = [(0x8008 + 32, 0x8130), (0x8008 + 128, 0x1180), (0x8008 + 152, 0x8100), (0x8138, 0x1210)];
        let (callers, is_whole) = orc().callers(0x1310, &top(0x8000, 0, &words), 0);
        assert_eq!(callers, [Caller { address: 0x1180, was_interrupted: true }, called(0x1210)]);
        assert!(is_whole);
    }

    #[test]
    fn what_leaves_the_code_or_the_bytes_ends_the_callers() {
        assert_eq!(orc().callers(0x10, &top(0x8000, 0, &[]), 0), (vec![], false), "before all code");
        assert_eq!(orc().callers(0x1010, &top(0x8000, 0, &[(0x8010, 0x30)]), 0), (vec![called(0x30)], false));
        assert_eq!(orc().callers(0x1110, &top(0x8000, 0x9_0000, &[]), 0), (vec![], false), "a frame that was not read");
        assert_eq!(orc().callers(0x1110, &top(0x8000, 0x7000, &[]), 0), (vec![], false), "a frame further in");
        let circle: Vec<(u64, u64)> = (0..0x70).map(|n| (0x8010 + 8 * n, 0x1010)).collect();
        assert!(orc().callers(0x1010, &top(0x8000, 0, &circle), 0).0.len() <= FRAMES_MAX);
    }

    #[test]
    fn old_entries_have_another_kind() {
        let old = |fields: u16| Entry::of(&[8, 0, 0, 0, fields.to_le_bytes()[0], fields.to_le_bytes()[1]], true);
        assert_eq!((old(BY_SP).kind, old(BY_SP).sp_by), (Kind::Call, By::Sp));
        assert_eq!((old(1 << 8).kind, old(2 << 8).kind), (Kind::Registers, Kind::Pushed));
        assert_eq!((old(4 << 8 | BY_SP).kind, old(4 << 8).kind, old(0).kind), (Kind::Call, Kind::End, Kind::Unknown));
        assert!(Orc::of(b"\x7fELF").is_none());
    }

    proptest! {
        #[test]
        fn no_stack_and_no_table_is_too_strange(
            fields: Vec<(u64, [u8; 6])>, pc: u64, sp: u64, fp: u64, bytes: Vec<u8>, slide: u64, is_old: bool
        ) {
            let mut entries: Vec<_> = fields.iter().map(|(at, bytes)| (*at, Entry::of(bytes, is_old))).collect();
            entries.sort_by_key(|entry| entry.0);
            let (callers, _) = Orc { entries }.callers(pc, &Top { sp, fp, bytes }, slide);
            prop_assert!(callers.len() <= FRAMES_MAX);
        }
    }
}
