//! Reads the registers of a gdbstub, and recognizes calls before return addresses.

use super::code::{bl_distance, is_blx};
use crate::arch::{Call, Mode, Registers};

// Offsets of registers in a gdbstub's answer: r0 to r15 with 4 bytes each, then the CPU's state. For a debugger that does not request a
// description of the registers, nine floating-point registers come between: eight with 12 bytes each, and one with 4.
const SP: usize = 13 * 4;
const PC: usize = 15 * 4;
const CPSR: usize = 16 * 4;
const CPSR_BEHIND_FPA: usize = CPSR + 8 * 12 + 4;

/// The lowest address of kernels and their modules: `PAGE_OFFSET` less 16 MiB, if processes have three quarters of the addresses.
const KERNEL_HALF: u64 = 0xbf00_0000;
/// The mode of processes, in the lowest bits of the CPU's state.
const USER_MODE: u32 = 0x10;

/// The registers for a walk of the stack, or `None` if the stub returned fewer registers than such a CPU has. Kernels keep no frame
/// pointers, and the format of their unwind tables is not supported.
pub(super) fn registers(bytes: &[u8]) -> Option<Registers> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let cpsr = u32_at(CPSR_BEHIND_FPA).or_else(|| u32_at(CPSR))?;
    let pc = u64::from(u32_at(PC)?);
    let mode = match cpsr & 0x1f {
        USER_MODE => Mode::User,
        _ if pc >= KERNEL_HALF => Mode::Kernel,
        _ => Mode::Boot,
    };
    Some(Registers { pc, sp: u32_at(SP)?.into(), fp: 0, mode })
}

/// The call at the end of these bytes, if they may end with one. A return address lies directly behind its call.
pub(super) fn call_before(bytes: &[u8]) -> Option<Call> {
    let word = u32::from_le_bytes(*bytes.last_chunk()?);
    match bl_distance(word) {
        // A BL counts the distance from its own start.
        Some(distance) => Some(Call::By(distance - 4)),
        None => is_blx(word).then_some(Call::Indirect),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_where_qemu_puts_them() {
        for state in [CPSR, CPSR_BEHIND_FPA] {
            let mut bytes = vec![0; state + 4];
            bytes[52..56].copy_from_slice(&0xc150_1f00_u32.to_le_bytes());
            bytes[60..64].copy_from_slice(&0xc010_0000_u32.to_le_bytes());
            bytes[state] = 0xd3; // supervisor
            let expected = Registers { pc: 0xc010_0000, sp: 0xc150_1f00, fp: 0, mode: Mode::Kernel };
            assert_eq!(registers(&bytes), Some(expected));
            bytes[63] = 0x40;
            assert_eq!(registers(&bytes).unwrap().mode, Mode::Boot);
            bytes[state] = 0x10;
            assert_eq!(registers(&bytes).unwrap().mode, Mode::User);
        }
        assert_eq!(registers(&[0; 67]), None);
    }

    #[test]
    fn calls_before_an_address_are_recognized() {
        assert_eq!(call_before(&0xeb00_0000_u32.to_le_bytes()), Some(Call::By(4)), "bl .+8");
        assert_eq!(call_before(&[0, 0x33, 0xff, 0x2f, 0xe1]), Some(Call::Indirect), "blx r3");
        for code in [&[0x1e, 0xff, 0x2f, 0xe1][..], &[0x2f, 0xe1], &[]] {
            assert_eq!(call_before(code), None, "{code:x?}");
        }
    }
}
