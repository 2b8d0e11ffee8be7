//! Decodes and assembles the instructions that a patch of calls needs.

use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};

use crate::arch::{CallTo, Instruction};

/// The opcode of a near call with a 32-bit distance.
const CALL: u8 = 0xe8;
const CALL_BYTES: usize = 5;
const NOP: u8 = 0x90;

/// Decodes the first instruction of these bytes, which lie at this address. Returns `None` if there is no valid instruction.
pub(super) fn instruction(bytes: &[u8], address: u64) -> Option<Instruction> {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let decoded = decoder.decode();
    if decoded.is_invalid() {
        return None;
    }
    let call = (decoded.mnemonic() == Mnemonic::Call).then(|| match decoded.op0_kind() {
        OpKind::NearBranch64 => CallTo::Address(decoded.near_branch64()),
        _ => CallTo::Unknown,
    });
    Some(Instruction { bytes: decoded.len(), call })
}

/// Assembles code of `bytes` bytes for this address that calls a function, or does nothing. Returns `None` if there is no such code.
pub(super) fn call_or_nothing(address: u64, to: Option<u64>, bytes: usize) -> Option<Vec<u8>> {
    let mut code = vec![NOP; bytes];
    if let Some(to) = to {
        let from = address.wrapping_add(CALL_BYTES as u64);
        let distance = i32::try_from(i64::from_ne_bytes(to.wrapping_sub(from).to_ne_bytes())).ok()?;
        let call = code.get_mut(..CALL_BYTES)?;
        call[0] = CALL;
        call[1..].copy_from_slice(&distance.to_le_bytes());
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_recognized() {
        let at = |bytes: &[u8]| instruction(bytes, 0xffff_ffff_8100_0000).map(|decoded| (decoded.bytes, decoded.call));
        assert_eq!(at(&[0xe8, 0xfb, 0xff, 0xff, 0xff]), Some((5, Some(CallTo::Address(0xffff_ffff_8100_0000)))));
        assert_eq!(at(&[0xff, 0x15, 1, 0, 0, 0]), Some((6, Some(CallTo::Unknown))));
        assert_eq!(at(&[0x41, 0xff, 0xd7]), Some((3, Some(CallTo::Unknown))));
        assert_eq!(at(&[0x74, 0x5a]), Some((2, None)));
        assert_eq!(at(&[0x0f, 0x0b]), Some((2, None)), "ud2 is one, and bugs are told by it");
        assert_eq!(at(&[0xe8, 0, 0]), None, "cut");
        assert_eq!(at(&[0x06]), None, "there is none in 64-bit mode");
        assert_eq!(at(&[]), None);
    }

    #[test]
    fn a_call_is_written_where_there_is_room_and_it_reaches() {
        assert_eq!(call_or_nothing(0x1000, None, 3), Some(vec![0x90; 3]));
        assert_eq!(call_or_nothing(0x1000, Some(0x1000), 6), Some(vec![0xe8, 0xfb, 0xff, 0xff, 0xff, 0x90]));
        let written = call_or_nothing(u64::MAX - 9, Some(0x10), 5).unwrap();
        assert_eq!(instruction(&written, u64::MAX - 9).unwrap().call, Some(CallTo::Address(0x10)));
        assert_eq!(call_or_nothing(0x1000, Some(0x2000), 3), None);
        assert_eq!(call_or_nothing(0x1000, Some(0x1_0000_0000), 5), None);
    }
}
