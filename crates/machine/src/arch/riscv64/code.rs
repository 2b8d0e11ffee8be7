//! Decodes and assembles the instructions that a patch of calls needs (RISC-V Unprivileged ISA, "RV32I" and "C").

use crate::arch::{CallTo, Instruction};

const NOP: u32 = 0x0000_0013;
const SHORT_NOP: u16 = 0x0001;
const JAL: u32 = 0x6f;
const JALR: u32 = 0x67;
/// The registers for return addresses: `ra`, and `t0` for helper functions that are called in a function's first instructions.
const LINKS: [u32; 2] = [1, 5];

/// The distance of a direct call (`jal ra`), in bytes from its own start, or `None` for another instruction.
pub(super) fn jal_distance(word: u32) -> Option<i32> {
    (word & 0x7f == JAL && LINKS.contains(&(word >> 7 & 31))).then(|| {
        let sign = i32::from_ne_bytes((word & 0x8000_0000).to_ne_bytes()) >> 11;
        let rest = word & 0x000f_f000 | word >> 9 & 0x800 | word >> 20 & 0x7fe;
        sign | i32::from_ne_bytes(rest.to_ne_bytes())
    })
}

/// True for a call through a register (`jalr ra`).
pub(super) fn is_jalr(word: u32) -> bool {
    word & 0x707f == JALR && LINKS.contains(&(word >> 7 & 31))
}

/// True for a call through a register in two bytes (`c.jalr`). With register 0 it is `c.ebreak`.
pub(super) fn is_short_jalr(half: u16) -> bool {
    half & 0xf07f == 0x9002 && half >> 7 & 31 != 0
}

/// Decodes the first instruction of these bytes, which lie at this address. Returns `None` if there is no valid instruction.
pub(super) fn instruction(bytes: &[u8], address: u64) -> Option<Instruction> {
    let half = u16::from_le_bytes(*bytes.first_chunk()?);
    // All zeros is defined as illegal.
    if half == 0 || address % 2 != 0 {
        return None;
    }
    if half & 3 != 3 {
        return Some(Instruction { bytes: 2, call: is_short_jalr(half).then_some(CallTo::Unknown) });
    }
    // Instructions longer than 4 bytes are not used. All ones is one of these.
    if half & 0x1f == 0x1f {
        return None;
    }
    let word = u32::from_le_bytes(*bytes.first_chunk()?);
    let to = jal_distance(word).map(|distance| CallTo::Address(address.wrapping_add_signed(distance.into())));
    Some(Instruction { bytes: 4, call: to.or(is_jalr(word).then_some(CallTo::Unknown)) })
}

/// Assembles code of `bytes` bytes for this address that calls a function, or does nothing. Returns `None` if there is no such code.
pub(super) fn call_or_nothing(address: u64, to: Option<u64>, bytes: usize) -> Option<Vec<u8>> {
    if bytes % 2 != 0 || address % 2 != 0 {
        return None;
    }
    let mut code = NOP.to_le_bytes().repeat(bytes / 4);
    if bytes % 4 != 0 {
        code.extend(SHORT_NOP.to_le_bytes());
    }
    if let Some(to) = to {
        let distance = i32::try_from(i64::from_ne_bytes(to.wrapping_sub(address).to_ne_bytes())).ok()?;
        let far = u32::from_ne_bytes(distance.to_ne_bytes());
        let spread = (far & 0x0010_0000) << 11 | (far & 0x7fe) << 20 | (far & 0x800) << 9 | far & 0x000f_f000;
        let call = spread | LINKS[0] << 7 | JAL;
        if jal_distance(call) != Some(distance) {
            return None;
        }
        code.get_mut(..4)?.copy_from_slice(&call.to_le_bytes());
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0xffff_ffff_8000_2000;

    #[test]
    fn calls_are_recognized() {
        // Encoded by GNU as.
        let at = |word: u32| instruction(&word.to_le_bytes(), AT).map(|decoded| (decoded.bytes, decoded.call));
        assert_eq!(at(0x0080_00ef), Some((4, Some(CallTo::Address(AT + 8)))), "jal ra, .+8");
        assert_eq!(at(0xffdf_f0ef), Some((4, Some(CallTo::Address(AT - 4)))), "jal ra, .-4");
        assert_eq!(at(0x7fff_f0ef), Some((4, Some(CallTo::Address(AT + 0xf_fffe)))), "as far as it reaches");
        assert_eq!(at(0x0010_00ef), Some((4, Some(CallTo::Address(AT + 0x800)))), "jal ra, .+2048");
        for call in [0x0000_80e7, 0x0105_82e7] {
            assert_eq!(at(call), Some((4, Some(CallTo::Unknown))), "jalr ra, ra; jalr t0, 16(a1)");
        }
        assert_eq!(at(0x9582), Some((2, Some(CallTo::Unknown))), "c.jalr a1");
        for (other, bytes) in [(0x0080_006f, 4), (0x0000_8067, 4), (NOP, 4), (0x8082, 2), (0x9002, 2), (0xa001, 2)] {
            assert_eq!(at(other), Some((bytes, None)), "j; ret; nop; c.jr ra; c.ebreak; c.j: {other:x}");
        }
        assert_eq!(at(0), None, "c.unimp");
        assert_eq!(at(0xffff_ffff), None, "longer than any that is used");
        assert_eq!(instruction(&[0x13, 0, 0], AT), None, "cut");
        assert_eq!(instruction(&NOP.to_le_bytes(), AT + 1), None, "no place for one");
    }

    #[test]
    fn a_call_is_written_where_there_is_room_and_it_reaches() {
        assert_eq!(call_or_nothing(AT, None, 6), Some(vec![0x13, 0, 0, 0, 1, 0]));
        for to in [AT + 8, AT - 4, AT + 0x800, AT + (1 << 20) - 2, AT - (1 << 20)] {
            let code = call_or_nothing(AT, Some(to), 4).unwrap();
            assert_eq!(instruction(&code, AT).unwrap().call, Some(CallTo::Address(to)), "{to:x}");
        }
        for (to, bytes) in [(AT + (1 << 20), 4), (AT + 3, 4), (AT + 8, 2), (AT + 8, 0), (1 << 40, 4)] {
            assert_eq!(call_or_nothing(AT, Some(to), bytes), None, "{to:x}");
        }
    }
}
