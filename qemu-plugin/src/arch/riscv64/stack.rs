//! Decodes the effect of a riscv64 instruction on the stack pointer, `x2`, and its memory access relative to it.
//!
//! Encodings are as in the RISC-V Instruction Set Manual, volume I: RV64I's formats I and S, and the compressed
//! instructions, some of which use the stack pointer implicitly. Loads and stores by another register are ignored.

use crate::arch::Effect;

const SP: u32 = 2;

/// The effect of one instruction.
pub fn effect(bytes: &[u8]) -> Effect {
    match *bytes {
        [a, b] => compressed(u32::from(u16::from_le_bytes([a, b]))),
        [a, b, c, d] => full(u32::from_le_bytes([a, b, c, d])),
        _ => Effect::None,
    }
}

/// Decodes an instruction of four bytes.
fn full(word: u32) -> Effect {
    let (to_sp, from_sp) = (bits(word, 7, 5) == SP, bits(word, 15, 5) == SP);
    let load_offset = i64::from(word as i32 >> 20);
    let store_offset = i64::from((word & 0xfe00_0000) as i32 >> 20) | i64::from(bits(word, 7, 5));
    // Vectors are loaded and stored with the same opcode as floats, but other widths.
    let is_float = matches!(bits(word, 12, 3), 1..=4);
    match bits(word, 0, 7) {
        0x13 if to_sp && from_sp && bits(word, 12, 3) == 0 => Effect::Moves(load_offset),
        0x03 if from_sp && !to_sp => Effect::Accesses { above: load_offset, moves: 0 },
        0x07 if from_sp && is_float => Effect::Accesses { above: load_offset, moves: 0 },
        0x23 if from_sp => Effect::Accesses { above: store_offset, moves: 0 },
        0x27 if from_sp && is_float => Effect::Accesses { above: store_offset, moves: 0 },
        // Loads, arithmetic, upper immediates, atomics, and instructions for the CPU's state.
        0x03 | 0x13 | 0x1b | 0x33 | 0x3b | 0x17 | 0x37 | 0x2f | 0x73 if to_sp => Effect::Sets,
        _ => Effect::None,
    }
}

/// Decodes an instruction of two bytes.
fn compressed(half: u32) -> Effect {
    let (to_sp, low) = (bits(half, 7, 5) == SP, bits(half, 2, 5));
    let at = |above: u32| Effect::Accesses { above: i64::from(above), moves: 0 };
    let load_offset_8 = bits(half, 12, 1) << 5 | bits(half, 5, 2) << 3 | bits(half, 2, 3) << 6;
    let load_offset_4 = bits(half, 12, 1) << 5 | bits(half, 4, 3) << 2 | bits(half, 2, 2) << 6;
    let store_offset_8 = bits(half, 10, 3) << 3 | bits(half, 7, 3) << 6;
    let store_offset_4 = bits(half, 9, 4) << 2 | bits(half, 7, 2) << 6;
    match (bits(half, 0, 2), bits(half, 13, 3)) {
        (1, 0) if to_sp => Effect::Moves(i64::from(low) - 32 * i64::from(bits(half, 12, 1))),
        (1, 3) if to_sp => {
            let bytes = bits(half, 6, 1) << 4 | bits(half, 2, 1) << 5 | bits(half, 5, 1) << 6 | bits(half, 3, 2) << 7;
            Effect::Moves(i64::from(bytes) - 512 * i64::from(bits(half, 12, 1)))
        }
        (1, 1 | 2) | (2, 0 | 2 | 3) if to_sp => Effect::Sets,
        (2, 4) if to_sp && low != 0 => Effect::Sets,
        (2, 1 | 3) => at(load_offset_8),
        (2, 2) => at(load_offset_4),
        (2, 5 | 7) => at(store_offset_8),
        (2, 6) => at(store_offset_4),
        _ => Effect::None,
    }
}

fn bits(word: u32, from: u32, count: u32) -> u32 {
    word >> from & ((1 << count) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Effect::{Accesses, Moves, Sets};

    /// Words as GNU as 2.40 writes them.
    #[test]
    fn each_kind_of_instruction_has_its_effect() {
        let at = |above| Accesses { above, moves: 0 };
        for (word, expected) in [
            (0xfe01_0113, Moves(-32)),   // addi sp, sp, -32
            (0x0301_0113, Moves(48)),    // addi sp, sp, 48
            (0x0004_0113, Sets),         // mv sp, s0
            (0x0181_3083, at(24)),       // ld ra, 24(sp)
            (0x0011_3c23, at(24)),       // sd ra, 24(sp)
            (0xfe81_3c23, at(-8)),       // sd s0, -8(sp)
            (0x0041_2503, at(4)),        // lw a0, 4(sp)
            (0x00a1_3427, at(8)),        // fsd fa0, 8(sp)
            (0x0101_3507, at(16)),       // fld fa0, 16(sp)
            (0x7ea1_0fa3, at(2047)),     // sb a0, 2047(sp)
            (0x0082_3103, Sets),         // ld sp, 8(tp)
            (0x1401_1173, Sets),         // csrrw sp, sscratch, sp
            (0x00a1_0133, Sets),         // add sp, sp, a0
            (0x0005_b503, Effect::None), // ld a0, 0(a1)
            (0x0101_0513, Effect::None), // addi a0, sp, 16
            (0x0000_8067, Effect::None), // ret
        ] {
            assert_eq!(effect(&u32::to_le_bytes(word)), expected, "{word:08x}");
        }
        for (half, expected) in [
            (0x1141, Moves(-16)),   // c.addi sp, -16
            (0x7159, Moves(-112)),  // c.addi16sp sp, -112
            (0x617d, Moves(496)),   // c.addi16sp sp, 496
            (0xec86, at(88)),       // c.sdsp ra, 88(sp)
            (0x70fe, at(504)),      // c.ldsp ra, 504(sp)
            (0xdfaa, at(252)),      // c.swsp a0, 252(sp)
            (0x4512, at(4)),        // c.lwsp a0, 4(sp)
            (0xbfaa, at(504)),      // c.fsdsp fa0, 504(sp)
            (0x2522, at(8)),        // c.fldsp fa0, 8(sp)
            (0x8122, Sets),         // c.mv sp, s0
            (0x912a, Sets),         // c.add sp, a0
            (0x0808, Effect::None), // c.addi4spn a0, sp, 16
            (0x4505, Effect::None), // c.li a0, 1
            (0x8082, Effect::None), // c.jr ra
            (0x0001, Effect::None), // c.nop
            (0x850a, Effect::None), // c.mv a0, sp
            (0xe408, Effect::None), // c.sd a0, 8(s0)
        ] {
            assert_eq!(effect(&u16::to_le_bytes(half)), expected, "{half:04x}");
        }
        assert_eq!((effect(&[]), effect(&[0; 3])), (Effect::None, Effect::None));
    }
}
