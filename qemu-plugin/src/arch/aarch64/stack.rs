//! Decodes the effect of an A64 instruction on the stack pointer, and its memory access relative to it.
//!
//! Encodings are as in the Arm Architecture Reference Manual, C4.1: add and subtract (immediate, extended register),
//! logical (immediate), loads and stores. In these, register 31 is the stack pointer. Loads and stores by another
//! register are ignored.

use crate::arch::Effect;

const SP: u32 = 31;

/// The effect of one instruction.
pub fn effect(bytes: &[u8]) -> Effect {
    let Ok(word) = bytes.try_into().map(u32::from_le_bytes) else { return Effect::None };
    let (to_sp, from_sp) = (bits(word, 0, 5) == SP, bits(word, 5, 5) == SP);
    match bits(word, 25, 4) {
        0b1000 | 0b1001 if to_sp => immediate(word, from_sp),
        0b0101 if to_sp && word & 0x1fe0_0000 == 0x0b20_0000 && bits(word, 29, 1) == 0 => Effect::Sets,
        // MSR SPSel: from here on, the stack pointer is another register.
        0b1010 if word & 0xffff_f0ff == 0xd500_40bf => Effect::Sets,
        0b0100 | 0b0110 | 0b1100 | 0b1110 if from_sp => access(word),
        _ => Effect::None,
    }
}

/// Add, subtract, and logical operations, with an immediate, whose result goes to register 31.
fn immediate(word: u32, from_sp: bool) -> Effect {
    match bits(word, 23, 6) {
        // With flags, register 31 is zero, not the stack pointer.
        0b100010 if bits(word, 29, 1) == 0 => {
            let bytes = i64::from(bits(word, 10, 12)) << (12 * bits(word, 22, 1));
            match (from_sp, bits(word, 30, 1)) {
                (false, _) => Effect::Sets,
                (true, 0) => Effect::Moves(bytes),
                (true, _) => Effect::Moves(-bytes),
            }
        }
        // ADDG and SUBG; logical operations except ANDS.
        0b100011 => Effect::Sets,
        0b100100 if bits(word, 29, 2) != 0b11 => Effect::Sets,
        _ => Effect::None,
    }
}

/// A load or store whose base is the stack pointer.
fn access(word: u32) -> Effect {
    match bits(word, 27, 3) {
        0b101 if bits(word, 25, 1) == 0 => pair(word),
        0b111 if bits(word, 25, 1) == 0 => single(word),
        // Loads and stores of structures that move their base by an amount in other fields.
        0b001 if bits(word, 31, 1) == 0 && bits(word, 26, 1) == 1 && bits(word, 23, 1) == 1 => Effect::Sets,
        // Tags of memory, with a base that moves.
        0b011 if bits(word, 24, 8) == 0xd9 && bits(word, 21, 1) == 1 && bits(word, 10, 1) == 1 => Effect::Sets,
        _ => Effect::None,
    }
}

/// LDP and STP of every kind.
fn pair(word: u32) -> Effect {
    let scale = match (bits(word, 26, 1), bits(word, 30, 2)) {
        (0, 0b01) if bits(word, 22, 1) == 0 => 4, // STGP
        (0, size) => 2 + (size >> 1),
        (_, size) => 2 + size,
    };
    let bytes = signed(word, 15, 7) << scale;
    with_index(bits(word, 23, 2), bytes)
}

/// LDR and STR of every kind, with an immediate.
fn single(word: u32) -> Effect {
    let (size, vector, kind) = (bits(word, 30, 2), bits(word, 26, 1) == 1, bits(word, 22, 2));
    if size == 0b11 && !vector && kind == 0b10 {
        return Effect::None; // a prefetch hint
    }
    if bits(word, 24, 1) == 1 {
        let scale = if vector && size == 0 && kind >= 0b10 { 4 } else { size };
        return Effect::Accesses { above: i64::from(bits(word, 10, 12)) << scale, moves: 0 };
    }
    let bytes = signed(word, 12, 9);
    match (bits(word, 21, 1), bits(word, 10, 2)) {
        (0, 0b00 | 0b10) => Effect::Accesses { above: bytes, moves: 0 },
        (0, 0b01) => with_index(0b01, bytes),
        (0, _) => with_index(0b11, bytes),
        // LDRAA and LDRAB that move their base.
        (_, low) if low & 1 == 1 && bits(word, 11, 1) == 1 => Effect::Sets,
        // An offset in a register, or one operation that loads and stores.
        _ => Effect::None,
    }
}

/// An access with an offset, or with one that moves the base before or after it.
fn with_index(index: u32, bytes: i64) -> Effect {
    match index {
        0b01 => Effect::Accesses { above: 0, moves: bytes },
        0b11 => Effect::Accesses { above: bytes, moves: bytes },
        _ => Effect::Accesses { above: bytes, moves: 0 },
    }
}

fn bits(word: u32, from: u32, count: u32) -> u32 {
    word >> from & ((1 << count) - 1)
}

fn signed(word: u32, from: u32, count: u32) -> i64 {
    i64::from((word << (32 - from - count)) as i32 >> (32 - count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Effect::{Accesses, Moves, Sets};

    /// Words as GNU as 2.40 writes them.
    #[test]
    fn each_kind_of_instruction_has_its_effect() {
        for (word, expected) in [
            (0xa9bf_7bfd, Accesses { above: -16, moves: -16 }), // stp x29, x30, [sp, #-16]!
            (0xa8c1_7bfd, Accesses { above: 0, moves: 16 }),    // ldp x29, x30, [sp], #16
            (0xa901_53f3, Accesses { above: 16, moves: 0 }),    // stp x19, x20, [sp, #16]
            (0x6d01_27e8, Accesses { above: 16, moves: 0 }),    // stp d8, d9, [sp, #16]
            (0xad01_07e0, Accesses { above: 32, moves: 0 }),    // stp q0, q1, [sp, #32]
            (0x2901_07e0, Accesses { above: 8, moves: 0 }),     // stp w0, w1, [sp, #8]
            (0x6941_07e0, Accesses { above: 8, moves: 0 }),     // ldpsw x0, x1, [sp, #8]
            (0xa801_07e0, Accesses { above: 16, moves: 0 }),    // stnp x0, x1, [sp, #16]
            (0xf900_0bf3, Accesses { above: 16, moves: 0 }),    // str x19, [sp, #16]
            (0xf81f_0ffe, Accesses { above: -16, moves: -16 }), // str x30, [sp, #-16]!
            (0xf841_07fe, Accesses { above: 0, moves: 16 }),    // ldr x30, [sp], #16
            (0xf85f_83fe, Accesses { above: -8, moves: 0 }),    // ldur x30, [sp, #-8]
            (0x3900_3fe0, Accesses { above: 15, moves: 0 }),    // strb w0, [sp, #15]
            (0x3d80_07e0, Accesses { above: 16, moves: 0 }),    // str q0, [sp, #16]
            (0xd101_43ff, Moves(-80)),                          // sub sp, sp, #80
            (0x9101_43ff, Moves(80)),                           // add sp, sp, #80
            (0xd140_07ff, Moves(-4096)),                        // sub sp, sp, #1, lsl #12
            (0x9100_013f, Sets),                                // mov sp, x9
            (0x8b20_63ff, Sets),                                // add sp, sp, x0
            (0x927c_ec1f, Sets),                                // and sp, x0, #~0xf
            (0x4c9f_73e0, Sets),                                // st1 {v0.16b}, [sp], #16
            (0xd500_40bf, Sets),                                // msr spsel, #0
            (0x9100_03fd, Effect::None),                        // mov x29, sp
            (0xf100_43ff, Effect::None),                        // subs xzr, sp, #16: cmp
            (0xcb20_63e0, Effect::None),                        // sub x0, sp, x0
            (0xf860_6be1, Effect::None),                        // ldr x1, [sp, x0]
            (0xa900_0be1, Accesses { above: 0, moves: 0 }),     // stp x1, x2, [sp]
            (0xa900_0a61, Effect::None),                        // stp x1, x2, [x19]
            (0xf980_03e0, Effect::None),                        // prfm pldl1keep, [sp]
            (0xd53b_e049, Effect::None),                        // mrs x9, cntvct_el0
            (0xd65f_03c0, Effect::None),                        // ret
        ] {
            assert_eq!(effect(&u32::to_le_bytes(word)), expected, "{word:08x}");
        }
        assert_eq!(effect(&[]), Effect::None);
    }
}
