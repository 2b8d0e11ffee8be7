//! Reads the registers of a gdbstub, and recognizes calls before return addresses.

use super::code::{bl_distance, is_blr};
use crate::arch::{Call, Mode, Registers};

// Offsets of registers in a gdbstub's answer (QEMU's `aarch64-core.xml`): x0 to x30, the stack pointer and the program counter with
// 8 bytes each, then the processor's state with 4.
const FP: usize = 29 * 8;
const SP: usize = 31 * 8;
const PC: usize = 32 * 8;
const PSTATE: usize = 33 * 8;

/// The lowest address of kernels, which is `PAGE_OFFSET` with 52 address bits.
const KERNEL_HALF: u64 = 0xfff0_0000_0000_0000;

/// The registers for a walk of the stack, or `None` if the stub returned fewer registers than such a CPU has.
pub(super) fn registers(bytes: &[u8]) -> Option<Registers> {
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let pstate = u32::from_le_bytes(bytes.get(PSTATE..PSTATE + 4)?.try_into().ok()?);
    let pc = u64_at(PC)?;
    // Bits 2 and 3 are the exception level.
    let mode = match pstate >> 2 & 3 {
        0 => Mode::User,
        _ if pc >= KERNEL_HALF => Mode::Kernel,
        _ => Mode::Boot,
    };
    Some(Registers { pc, sp: u64_at(SP)?, fp: u64_at(FP)?, mode })
}

/// The call at the end of these bytes, if they may end with one. A return address lies directly behind its call.
pub(super) fn call_before(bytes: &[u8]) -> Option<Call> {
    let word = u32::from_le_bytes(*bytes.last_chunk()?);
    match bl_distance(word) {
        // A BL counts the distance from its own start.
        Some(distance) => Some(Call::By(distance - 4)),
        None => is_blr(word).then_some(Call::Indirect),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_where_qemu_puts_them() {
        let mut bytes = vec![0; 268];
        bytes[232..240].copy_from_slice(&0x30u64.to_le_bytes());
        bytes[248..256].copy_from_slice(&0x20u64.to_le_bytes());
        bytes[256..264].copy_from_slice(&0xffff_8000_0801_0000u64.to_le_bytes());
        bytes[264] = 0xc5; // EL1h
        let expected = Registers { pc: 0xffff_8000_0801_0000, sp: 0x20, fp: 0x30, mode: Mode::Kernel };
        assert_eq!(registers(&bytes), Some(expected));
        bytes[262] = 0;
        bytes[263] = 0;
        assert_eq!(registers(&bytes).unwrap().mode, Mode::Boot, "EL1 below");
        bytes[264] = 0;
        assert_eq!(registers(&bytes).unwrap().mode, Mode::User);
        assert_eq!(registers(&bytes[..267]), None);
    }

    #[test]
    fn calls_before_an_address_are_recognized() {
        assert_eq!(call_before(&0x9400_0002u32.to_le_bytes()), Some(Call::By(4)), "bl .+8");
        assert_eq!(call_before(&[0, 0x20, 0, 0x3f, 0xd6]), Some(Call::Indirect), "blr x1");
        for code in [&[0xc0, 0x03, 0x5f, 0xd6][..], &[0x3f, 0xd6], &[]] {
            assert_eq!(call_before(code), None, "{code:x?}");
        }
    }
}
