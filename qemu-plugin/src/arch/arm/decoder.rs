//! Decodes the ending of a block of A32 code from its last instruction.
//!
//! Encodings are as in the Arm Architecture Reference Manual for ARMv7-A, A5 (the instruction set) and B9 (system
//! instructions). Kernels run in A32, whose instructions are four bytes long. Processes may run in T32. Its
//! instructions of two bytes are not decoded, and those of four are decoded as A32: the targets of a process' code are
//! not used. This module does not depend on QEMU.

use crate::ending::Ending;

const SP: u32 = 13;
const LR: u32 = 14;
const PC: u32 = 15;
/// The frame pointer of kernels that keep one.
const FP: u32 = 11;
/// Conditions: always, and the one of instructions that have no condition.
const ALWAYS: u32 = 0xe;
const NONE: u32 = 0xf;
/// An instruction reads its own address with this offset.
const AHEAD_BYTES: i64 = 8;

/// The ending, and its target relative to the instruction's end, if that is fixed.
pub fn decode(bytes: &[u8]) -> (Ending, Option<i64>) {
    let Ok(word) = bytes.try_into().map(u32::from_le_bytes) else { return (Ending::Other, None) };
    let is_branch = word >> 25 & 7 == 0b101;
    let leads = i64::from(i32::from_ne_bytes((word << 8).to_ne_bytes()) >> 6) + AHEAD_BYTES - 4;
    match (word >> 28, word >> 24 & 1) {
        // BLX, to T32: where others have the call bit, it has a bit of the address.
        (NONE, half) if is_branch => (Ending::Call, Some(leads + 2 * i64::from(half))),
        // RFE
        (NONE, _) if word & 0x0e50_ffff == 0x0810_0a00 => (Ending::InterruptReturn, None),
        (NONE, _) => (Ending::Other, None),
        (_, 1) if is_branch => (Ending::Call, Some(leads)),
        (ALWAYS, _) if is_branch => (Ending::Jump, Some(leads)),
        _ if is_branch => (Ending::Branch, Some(leads)),
        (condition, _) => match elsewhere(word) {
            // Execution may also continue after them.
            Ending::JumpIndirect | Ending::Return | Ending::InterruptReturn if condition != ALWAYS => {
                (Ending::Other, None)
            }
            ending => (ending, None),
        },
    }
}

/// The ending of an instruction without a fixed target.
fn elsewhere(word: u32) -> Ending {
    let (first, to, last) = (word >> 16 & 0xf, word >> 12 & 0xf, word & 0xf);
    let back = |is_back| if is_back { Ending::Return } else { Ending::JumpIndirect };
    match word & 0x0fff_ffff {
        // BX; BLX.
        w if w & 0xfff_fff0 == 0x12f_ff10 => back(last == LR),
        w if w & 0xfff_fff0 == 0x12f_ff30 => Ending::CallIndirect,
        0x160_006e => Ending::InterruptReturn, // ERET
        // SVC; BKPT, HVC and SMC; UDF.
        w if w >> 24 == 0xf => Ending::Trap,
        w if matches!(w & 0xff0_00f0, 0x120_0070 | 0x140_0070 | 0x160_0070 | 0x7f0_00f0) => Ending::Trap,
        // WFE and WFI.
        0x320_f002 | 0x320_f003 => Ending::Halt,
        // Loads of several registers, with one bit for each register. If the bit for user registers is set, it restores
        // the state.
        w if w & 0xe10_8000 == 0x810_8000 && w & 1 << 22 != 0 => Ending::InterruptReturn,
        w if w & 0xe10_8000 == 0x810_8000 => back(first == SP || first == FP),
        // A load of one register.
        w if w & 0xc50_f000 == 0x410_f000 => back(first == SP),
        // Arithmetic with the program counter as its result, except comparisons, which have no result. If it sets the
        // flags, it restores the state.
        w if w >> 26 & 3 == 0 && to == PC && !is_comparison(w) && !is_other(w) => match w {
            _ if w & 1 << 20 != 0 => Ending::InterruptReturn,
            _ if w & 0xfff_fff0 == 0x1a0_f000 => back(last == LR),
            _ => Ending::JumpIndirect,
        },
        _ => Ending::Other,
    }
}

/// TST, TEQ, CMP and CMN. Without setting flags, their encodings are other instructions (moves to and from the state,
/// hints, MOVW and MOVT).
fn is_comparison(word: u32) -> bool {
    word >> 23 & 3 == 0b10
}

/// Multiplications and further loads and stores, whose encodings are among those of arithmetic.
fn is_other(word: u32) -> bool {
    word & 0x0200_0090 == 0x0000_0090
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: u32, ending: Ending, displacement: Option<i64>) {
        assert_eq!(decode(&word.to_le_bytes()), (ending, displacement), "{word:08x}");
    }

    /// Words as GNU as 2.40 writes them.
    #[test]
    fn fixed_targets_are_decoded() {
        check(0xeb00_0002, Ending::Call, Some(12)); // bl .+16
        check(0xebff_fffa, Ending::Call, Some(-20)); // bl .-16
        check(0x0b00_0002, Ending::Call, Some(12)); // bleq .+16
        check(0xfa00_0002, Ending::Call, Some(12)); // blx .+16
        check(0xfb00_0002, Ending::Call, Some(14)); // blx .+18
        check(0xeaff_fffe, Ending::Jump, Some(-4)); // b .
        check(0xea7f_fffe, Ending::Jump, Some((32 << 20) - 4)); // b .+32M
        check(0x0a00_0002, Ending::Branch, Some(12)); // beq .+16
        check(0x1aff_fffa, Ending::Branch, Some(-20)); // bne .-16
    }

    #[test]
    fn other_endings_have_no_target() {
        for (word, ending) in [
            (0xe12f_ff33, Ending::CallIndirect),    // blx r3
            (0xe12f_ff1e, Ending::Return),          // bx lr
            (0xe12f_ff13, Ending::JumpIndirect),    // bx r3
            (0xe1a0_f00e, Ending::Return),          // mov pc, lr
            (0xe1a0_f004, Ending::JumpIndirect),    // mov pc, r4
            (0xe08f_f101, Ending::JumpIndirect),    // add pc, pc, r1, lsl #2
            (0xe8bd_8010, Ending::Return),          // pop {r4, pc}
            (0xe89d_a800, Ending::Return),          // ldm sp, {fp, sp, pc}
            (0xe91b_a800, Ending::Return),          // ldmdb fp, {fp, sp, pc}
            (0xe894_8001, Ending::JumpIndirect),    // ldm r4, {r0, pc}
            (0xe49d_f004, Ending::Return),          // pop {pc}
            (0xe59f_f000, Ending::JumpIndirect),    // ldr pc, [pc]
            (0xe798_f10a, Ending::JumpIndirect),    // ldr pc, [r8, sl, lsl #2]
            (0xe1b0_f00e, Ending::InterruptReturn), // movs pc, lr
            (0xe25e_f004, Ending::InterruptReturn), // subs pc, lr, #4
            (0xe8dd_9fff, Ending::InterruptReturn), // ldm sp, {r0-ip, pc}^
            (0xf8bd_0a00, Ending::InterruptReturn), // rfeia sp!
            (0xe160_006e, Ending::InterruptReturn), // eret
            (0xef00_0000, Ending::Trap),            // svc 0
            (0xe140_0070, Ending::Trap),            // hvc 0
            (0xe160_0070, Ending::Trap),            // smc 0
            (0xe120_0070, Ending::Trap),            // bkpt 0
            (0xe7f0_01f2, Ending::Trap),            // udf #18
            (0xe320_f003, Ending::Halt),            // wfi
            (0xe320_f002, Ending::Halt),            // wfe
            (0xe320_f000, Ending::Other),           // nop
            (0x012f_ff1e, Ending::Other),           // bxeq lr
            (0x08bd_8010, Ending::Other),           // popeq {r4, pc}
            (0xe8bd_4010, Ending::Other),           // pop {r4, lr}
            (0xe92d_4010, Ending::Other),           // push {r4, lr}
            (0xe350_0000, Ending::Other),           // cmp r0, #0
            (0xe121_f000, Ending::Other),           // msr CPSR_c, r0
            (0xe329_f0d3, Ending::Other),           // msr CPSR_fc, #211
            (0xe10f_0000, Ending::Other),           // mrs r0, CPSR
            (0xee01_0f10, Ending::Other),           // mcr 15, 0, r0, cr1, cr0, {0}
            (0xf57f_f06f, Ending::Other),           // isb sy
            (0xf10c_0080, Ending::Other),           // cpsid i
            (0xe1a0_0000, Ending::Other),           // mov r0, r0
            (0xe1c0_20d0, Ending::Other),           // ldrd r2, [r0]
        ] {
            check(word, ending, None);
        }
        for bytes in [&[][..], &[0x70, 0x47], &[0x1e, 0xff, 0x2f], &[0; 5]] {
            assert_eq!(decode(bytes), (Ending::Other, None));
        }
    }
}
