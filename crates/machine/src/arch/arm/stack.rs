//! What a debugger has to know of a CPU's registers and of calls.

use super::code::{bl_distance, is_blx};
use crate::arch::{Call, Mode, Registers};

/// Where registers lie in what a gdbstub gives: r0 to r15 of 4 bytes. The CPU's state follows, or, for a debugger that asks for no
/// description of them, eight registers of a floating-point unit of 12 bytes and one of 4 come between.
const SP: usize = 13 * 4;
const PC: usize = 15 * 4;
const CPSR: usize = 16 * 4;
const CPSR_BEHIND_FPA: usize = CPSR + 8 * 12 + 4;

/// Addresses of a kernel begin there, with modules (`PAGE_OFFSET` less 16 MiB, with three quarters for processes).
const KERNEL_HALF: u64 = 0xbf00_0000;
/// The mode of processes, in the lowest bits of the CPU's state.
const USER_MODE: u32 = 0x10;

/// The registers that a stack is walked by; none if there are fewer than such a CPU has. Kernels keep no frame pointers: their
/// callers are found by tables of a form that is not read here.
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

/// The call that these bytes end with, if they may be one: what the return address of a call lies behind.
pub(super) fn call_before(bytes: &[u8]) -> Option<Call> {
    let word = u32::from_le_bytes(*bytes.last_chunk()?);
    match bl_distance(word) {
        // A BL counts from its own start.
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
            let found = Registers { pc: 0xc010_0000, sp: 0xc150_1f00, fp: 0, mode: Mode::Kernel };
            assert_eq!(registers(&bytes), Some(found));
            bytes[63] = 0x40;
            assert_eq!(registers(&bytes).unwrap().mode, Mode::Boot);
            bytes[state] = 0x10;
            assert_eq!(registers(&bytes).unwrap().mode, Mode::User);
        }
        assert_eq!(registers(&[0; 67]), None);
    }

    #[test]
    fn what_ends_with_a_call_is_told_from_what_does_not() {
        assert_eq!(call_before(&0xeb00_0000_u32.to_le_bytes()), Some(Call::By(4)), "bl .+8");
        assert_eq!(call_before(&[0, 0x33, 0xff, 0x2f, 0xe1]), Some(Call::Indirect), "blx r3");
        for code in [&[0x1e, 0xff, 0x2f, 0xe1][..], &[0x2f, 0xe1], &[]] {
            assert_eq!(call_before(code), None, "{code:x?}");
        }
    }
}
