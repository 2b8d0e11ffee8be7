//! Decodes and assembles the A32 instructions that a patch of calls needs (Arm Architecture Reference Manual for ARMv7-A, A5).

use crate::arch::{CallTo, Instruction};

const INSTRUCTION_BYTES: usize = 4;
const NOP: u32 = 0xe320_f000;
/// Unconditional branch with link. The distance in instructions is a signed number of 24 bits, counted from the second instruction after
/// it.
const BL: u32 = 0xeb00_0000;
const BL_MASK: u32 = 0x0f00_0000;
const AHEAD_BYTES: i32 = 8;
/// The condition field of unconditional instructions.
const NEVER: u32 = 0xf;

/// The distance of a BL, in bytes from its own start, or `None` for another instruction.
pub(super) fn bl_distance(word: u32) -> Option<i32> {
    let is_bl = word & BL_MASK == BL & BL_MASK && word >> 28 != NEVER;
    is_bl.then(|| (i32::from_ne_bytes((word << 8).to_ne_bytes()) >> 6) + AHEAD_BYTES)
}

/// True for a branch with link to a register.
pub(super) fn is_blx(word: u32) -> bool {
    word & 0x0fff_fff0 == 0x012f_ff30 && word >> 28 != NEVER
}

/// Decodes the first instruction of these bytes, which lie at this address. Returns `None` if there is no valid instruction.
pub(super) fn instruction(bytes: &[u8], address: u64) -> Option<Instruction> {
    let word = u32::from_le_bytes(*bytes.first_chunk()?);
    // UDF is permanently undefined.
    if word & 0xfff0_00f0 == 0xe7f0_00f0 || address % INSTRUCTION_BYTES as u64 != 0 {
        return None;
    }
    let to = bl_distance(word).map(|distance| CallTo::Address(address.wrapping_add_signed(distance.into())));
    Some(Instruction { bytes: INSTRUCTION_BYTES, call: to.or(is_blx(word).then_some(CallTo::Unknown)) })
}

/// Assembles code of `bytes` bytes for this address that calls a function, or does nothing. Returns `None` if there is no such code.
pub(super) fn call_or_nothing(address: u64, to: Option<u64>, bytes: usize) -> Option<Vec<u8>> {
    if bytes % INSTRUCTION_BYTES != 0 || address % INSTRUCTION_BYTES as u64 != 0 {
        return None;
    }
    let mut code = NOP.to_le_bytes().repeat(bytes / INSTRUCTION_BYTES);
    if let Some(to) = to {
        let distance = i32::try_from(i64::from_ne_bytes(to.wrapping_sub(address).to_ne_bytes())).ok()?;
        let ahead = u32::from_ne_bytes(distance.checked_sub(AHEAD_BYTES)?.to_ne_bytes());
        let call = BL | ahead >> 2 & 0x00ff_ffff;
        if bl_distance(call) != Some(distance) {
            return None;
        }
        code.get_mut(..INSTRUCTION_BYTES)?.copy_from_slice(&call.to_le_bytes());
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_recognized() {
        // Encoded by GNU as.
        let at = |word: u32| instruction(&word.to_le_bytes(), 0xc000_8000).map(|decoded| decoded.call);
        assert_eq!(at(0xeb00_0000), Some(Some(CallTo::Address(0xc000_8008))), "bl .+8");
        assert_eq!(at(0xebff_fffd), Some(Some(CallTo::Address(0xc000_7ffc))), "bl .-4");
        assert_eq!(at(0x0b00_0001), Some(Some(CallTo::Address(0xc000_800c))), "bleq .+12");
        assert_eq!(at(0xe12f_ff33), Some(Some(CallTo::Unknown)), "blx r3");
        for other in [0xe12f_ff1e, 0xea00_0000, 0xe320_f000, 0xe8bd_8000, 0xe1a0_f00e] {
            assert_eq!(at(other), Some(None), "bx lr; b .+8; nop; pop {{pc}}; mov pc, lr: {other:x}");
        }
        assert_eq!(at(0xe7f0_00f0), None, "udf");
        assert_eq!(instruction(&[0, 0, 0], 0), None, "cut");
        assert_eq!(instruction(&NOP.to_le_bytes(), 2), None, "no place for one");
    }

    #[test]
    fn a_call_is_written_where_there_is_room_and_it_reaches() {
        assert_eq!(call_or_nothing(0x1000, None, 8), Some([NOP.to_le_bytes(); 2].concat()));
        for to in [0x1008, 0xffc, 0x1000 + (32 << 20) + 4, 0x1008u64.wrapping_sub(32 << 20)] {
            let code = call_or_nothing(0x1000, Some(to), 4).unwrap();
            assert_eq!(instruction(&code, 0x1000).unwrap().call, Some(CallTo::Address(to)), "{to:x}");
        }
        for (to, bytes) in [(0x1000 + (32 << 20) + 8, 4), (0x1002, 4), (0x2000, 2), (0x2000, 0), (1 << 40, 4)] {
            assert_eq!(call_or_nothing(0x1000, Some(to), bytes), None, "{to:x}");
        }
    }
}
