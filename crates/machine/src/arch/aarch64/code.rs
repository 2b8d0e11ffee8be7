//! Decodes and assembles the instructions that a patch of calls needs (Arm Architecture Reference Manual, C6.2).

use crate::arch::{CallTo, Instruction};

const INSTRUCTION_BYTES: usize = 4;
const NOP: u32 = 0xd503_201f;
/// Branch with link. The distance in instructions is a signed number of 26 bits.
const BL: u32 = 0x9400_0000;
const BL_MASK: u32 = 0xfc00_0000;

/// The distance of a BL, in bytes from its own start, or `None` for another instruction.
pub(super) fn bl_distance(word: u32) -> Option<i32> {
    (word & BL_MASK == BL).then(|| i32::from_ne_bytes((word << 6).to_ne_bytes()) >> 4)
}

/// True for a branch with link to a register, with or without a signed address (BLR, BLRAA and so on).
pub(super) fn is_blr(word: u32) -> bool {
    word & 0xffff_fc1f == 0xd63f_0000 || word & 0xfeff_f800 == 0xd63f_0800
}

/// Decodes the first instruction of these bytes, which lie at this address. Returns `None` if there is no valid instruction.
pub(super) fn instruction(bytes: &[u8], address: u64) -> Option<Instruction> {
    let word = u32::from_le_bytes(*bytes.first_chunk()?);
    // UDF is permanently undefined.
    if word >> 16 == 0 || address % INSTRUCTION_BYTES as u64 != 0 {
        return None;
    }
    let to = bl_distance(word).map(|distance| CallTo::Address(address.wrapping_add_signed(distance.into())));
    Some(Instruction { bytes: INSTRUCTION_BYTES, call: to.or(is_blr(word).then_some(CallTo::Unknown)) })
}

/// Assembles code of `bytes` bytes for this address that calls a function, or does nothing. Returns `None` if there is no such code.
pub(super) fn call_or_nothing(address: u64, to: Option<u64>, bytes: usize) -> Option<Vec<u8>> {
    if bytes % INSTRUCTION_BYTES != 0 || address % INSTRUCTION_BYTES as u64 != 0 {
        return None;
    }
    let mut code = NOP.to_le_bytes().repeat(bytes / INSTRUCTION_BYTES);
    if let Some(to) = to {
        let distance = i32::try_from(i64::from_ne_bytes(to.wrapping_sub(address).to_ne_bytes())).ok()?;
        let call = BL | u32::from_ne_bytes(distance.to_ne_bytes()) >> 2 & !BL_MASK;
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
        let at = |word: u32| instruction(&word.to_le_bytes(), 0xffff_8000_0800_0000).map(|decoded| decoded.call);
        assert_eq!(at(0x9400_0002), Some(Some(CallTo::Address(0xffff_8000_0800_0008))), "bl .+8");
        assert_eq!(at(0x97ff_ffff), Some(Some(CallTo::Address(0xffff_8000_07ff_fffc))), "bl .-4");
        for call in [0xd63f_0020, 0xd73f_0843, 0xd63f_083f] {
            assert_eq!(at(call), Some(Some(CallTo::Unknown)), "blr x1; blraa x2, x3; blraaz x1");
        }
        for other in [0xd61f_0020, 0xd65f_03c0, 0x1400_0001, NOP, 0xd4210000] {
            assert_eq!(at(other), Some(None), "br x1; ret; b .+4; nop; brk: {other:x}");
        }
        assert_eq!(at(0), None, "udf");
        assert_eq!(instruction(&[0x1f, 0x20, 0x03], 0), None, "cut");
        assert_eq!(instruction(&NOP.to_le_bytes(), 2), None, "no place for one");
    }

    #[test]
    fn a_call_is_written_where_there_is_room_and_it_reaches() {
        assert_eq!(call_or_nothing(0x1000, None, 8), Some([NOP.to_le_bytes(); 2].concat()));
        for to in [0x1008, 0xffc, 0x1000 + (128 << 20) - 4, 0x1000u64.wrapping_sub(128 << 20)] {
            let code = call_or_nothing(0x1000, Some(to), 4).unwrap();
            assert_eq!(instruction(&code, 0x1000).unwrap().call, Some(CallTo::Address(to)), "{to:x}");
        }
        for (to, bytes) in [(0x1000 + (128 << 20), 4), (0x1002, 4), (0x2000, 2), (0x2000, 0), (1 << 40, 4)] {
            assert_eq!(call_or_nothing(0x1000, Some(to), bytes), None, "{to:x}");
        }
    }
}
