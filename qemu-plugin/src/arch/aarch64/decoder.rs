//! Decodes the ending of a block of A64 code from its last instruction.
//!
//! Encodings are as in the Arm Architecture Reference Manual, C4.1 (branches, exception generating and system
//! instructions). All are four bytes long and little-endian, whatever the endianness of data. This module does not
//! depend on QEMU.

use super::super::Exit;
use crate::ending::Ending;
use plugin_formats::exits::Kind;

/// The ending, and its target relative to the instruction's end, if that is fixed.
pub fn decode(bytes: &[u8]) -> (Ending, Option<i64>) {
    let Ok(word) = bytes.try_into().map(u32::from_le_bytes) else { return (Ending::Other, None) };
    // `bits` bits from bit `from` up, as a signed number of instructions, counted from the instruction's start.
    let leads = |from: u32, bits: u32| Some(((word << (32 - bits - from)) as i32 >> (32 - bits)) as i64 * 4 - 4);
    match word {
        _ if word >> 26 == 0b100101 => (Ending::Call, leads(0, 26)),
        _ if word >> 26 == 0b000101 => (Ending::Jump, leads(0, 26)),
        // B.cond and BC.cond; CBZ and CBNZ; TBZ and TBNZ.
        _ if word >> 24 == 0x54 || word & 0x7e00_0000 == 0x3400_0000 => (Ending::Branch, leads(5, 19)),
        _ if word & 0x7e00_0000 == 0x3600_0000 => (Ending::Branch, leads(5, 14)),
        _ if word >> 25 == 0b1101011 => (by_register(word), None),
        // SVC, HVC, SMC; BRK; HLT; and permanently undefined instructions.
        _ if word & 0xffe0_001c == 0xd400_0000 && word & 3 != 0 => (Ending::Trap, None),
        _ if matches!(word & 0xffe0_001f, 0xd420_0000 | 0xd440_0000) || word >> 16 == 0 => (Ending::Trap, None),
        // WFE and WFI; the same with a time limit.
        0xd503_205f | 0xd503_207f => (Ending::Halt, None),
        _ if word & 0xffff_ffc0 == 0xd503_1000 => (Ending::Halt, None),
        _ => (Ending::Other, None),
    }
}

/// Branches to a register, with and without a signed address, and returns.
fn by_register(word: u32) -> Ending {
    match word >> 21 & 0xf {
        0b0000 | 0b1000 => Ending::JumpIndirect,
        0b0001 | 0b1001 => Ending::CallIndirect,
        0b0010 => Ending::Return,
        0b0100 => Ending::InterruptReturn,
        _ => Ending::Other,
    }
}

/// The access of an instruction that leaves the guest, or reads a clock. WFE is left out: it seldom does.
pub fn exit(bytes: &[u8]) -> Option<Exit> {
    let word = bytes.try_into().map(u32::from_le_bytes).ok()?;
    match word {
        0xd503_207f => Some(Exit::new(Kind::Halt)),
        _ if word & 0xffff_ffe0 == 0xd503_1020 => Some(Exit::new(Kind::Halt)), // WFIT
        // HVC, SMC
        _ if matches!(word & 0xffe0_001f, 0xd400_0002 | 0xd400_0003) => Some(Exit::new(Kind::Hypercall)),
        // CNTPCT_EL0, CNTVCT_EL0, CNTPCTSS_EL0, CNTVCTSS_EL0
        _ if matches!(word & 0xffff_ffe0, 0xd53b_e020 | 0xd53b_e040 | 0xd53b_e0a0 | 0xd53b_e0c0) => {
            Some(Exit::new(Kind::ClockRead))
        }
        _ => None,
    }
}

/// True if these instructions mark a function that may be called, or reserve room for a tracer. Linux reserves two
/// instructions, and the first becomes `mov x9, x30` where the function may be traced
/// (arch/arm64/include/asm/ftrace.h). Instructions that sign a return address or make a frame may not be a function's
/// first: compilers delay them until they are needed.
pub fn begins_function(first: &[u8], second: &[u8]) -> bool {
    const NOP: u32 = 0xd503_201f;
    let [first, second] = [first, second].map(|bytes| bytes.try_into().map_or(0, u32::from_le_bytes));
    // bti c; mov x9, x30
    matches!(first, 0xd503_245f | 0xaa1e_03e9) || (first == NOP && second == NOP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_starts_are_recognised() {
        let begins = |first: u32, second: u32| begins_function(&first.to_le_bytes(), &second.to_le_bytes());
        assert!(begins(0xd503_201f, 0xd503_201f) && !begins(0xd503_201f, 0xd65f_03c0));
        assert!(begins(0xaa1e_03e9, 0xd503_201f) && begins(0xd503_245f, 0));
        // paciasp; stp x29, x30, [sp, #-16]!
        assert!(!begins(0xd503_233f, 0xa9bf_7bfd) && !begins(0xa9bf_7bfd, 0) && !begins_function(&[], &[]));
    }

    #[test]
    fn accesses_that_leave_the_guest() {
        for (word, kind) in [
            (0xd503_207f_u32, Some(Kind::Halt)),  // wfi
            (0xd503_1021, Some(Kind::Halt)),      // wfit x1
            (0xd503_1001, None),                  // wfet x1
            (0xd503_205f, None),                  // wfe
            (0xd400_0002, Some(Kind::Hypercall)), // hvc #0
            (0xd400_0023, Some(Kind::Hypercall)), // smc #1
            (0xd400_0001, None),                  // svc #0
            (0xd53b_e049, Some(Kind::ClockRead)), // mrs x9, cntvct_el0
            (0xd53b_e020, Some(Kind::ClockRead)), // mrs x0, cntpct_el0
            (0xd53b_e0c3, Some(Kind::ClockRead)), // mrs x3, cntvctss_el0
            (0xd53b_e000, None),                  // mrs x0, cntfrq_el0
            (0xb940_0000, None),                  // ldr w0, [x0]
        ] {
            assert_eq!(exit(&word.to_le_bytes()).map(|exit| exit.kind), kind, "{word:08x}");
        }
        assert_eq!(exit(&[0x7f]), None);
    }

    fn check(word: u32, ending: Ending, displacement: Option<i64>) {
        assert_eq!(decode(&word.to_le_bytes()), (ending, displacement), "{word:08x}");
    }

    /// Words as GNU as 2.40 writes them.
    #[test]
    fn fixed_targets_are_decoded() {
        check(0x9400_0004, Ending::Call, Some(12)); // bl .+16
        check(0x97ff_fffc, Ending::Call, Some(-20)); // bl .-16
        check(0x1400_0000, Ending::Jump, Some(-4)); // b .
        check(0x15ff_ffff, Ending::Jump, Some((1 << 27) - 8)); // b as far as it reaches
        check(0x5400_0080, Ending::Branch, Some(12)); // b.eq .+16
        check(0x54ff_ff81, Ending::Branch, Some(-20)); // b.ne .-16
        check(0xb400_0080, Ending::Branch, Some(12)); // cbz x0, .+16
        check(0x35ff_ff81, Ending::Branch, Some(-20)); // cbnz w1, .-16
        check(0x3700_0080, Ending::Branch, Some(12)); // tbnz w0, #0, .+16
        check(0xb6ff_ff81, Ending::Branch, Some(-20)); // tbz x1, #63, .-16
    }

    #[test]
    fn other_endings_have_no_target() {
        for (word, ending) in [
            (0xd63f_0020, Ending::CallIndirect),    // blr x1
            (0xd73f_0843, Ending::CallIndirect),    // blraa x2, x3
            (0xd63f_083f, Ending::CallIndirect),    // blraaz x1
            (0xd61f_0020, Ending::JumpIndirect),    // br x1
            (0xd71f_0843, Ending::JumpIndirect),    // braa x2, x3
            (0xd65f_03c0, Ending::Return),          // ret
            (0xd65f_0bff, Ending::Return),          // retaa
            (0xd69f_03e0, Ending::InterruptReturn), // eret
            (0xd400_0001, Ending::Trap),            // svc #0
            (0xd400_0002, Ending::Trap),            // hvc #0
            (0xd400_0003, Ending::Trap),            // smc #0
            (0xd421_0000, Ending::Trap),            // brk #0x800
            (0xd45e_0000, Ending::Trap),            // hlt #0xf000
            (0x0000_0000, Ending::Trap),            // udf #0
            (0xd503_207f, Ending::Halt),            // wfi
            (0xd503_205f, Ending::Halt),            // wfe
            (0xd503_1021, Ending::Halt),            // wfit x1
            (0xd503_201f, Ending::Other),           // nop
            (0xd503_233f, Ending::Other),           // paciasp
            (0xd503_3fdf, Ending::Other),           // isb
            (0xd53b_e049, Ending::Other),           // mrs x9, cntvct_el0
            (0xa9bf_7bfd, Ending::Other),           // stp x29, x30, [sp, #-16]!
        ] {
            check(word, ending, None);
        }
        for bytes in [&[][..], &[0xc0, 0x03, 0x5f], &[0; 5]] {
            assert_eq!(decode(bytes), (Ending::Other, None));
        }
    }
}
