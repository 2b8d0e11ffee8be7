//! Reads the registers of a gdbstub, and recognizes calls before return addresses.

use std::ops::Range;

use super::code::{is_jalr, is_short_jalr, jal_distance};
use crate::arch::{Call, Mode, Registers};

// Offsets of registers in a gdbstub's answer (QEMU's `riscv-64bit-cpu.xml`): x0 to x31, and the program counter.
const SP: usize = 2 * 8;
const FP: usize = 8 * 8;
const PC: usize = 32 * 8;

/// The lowest address of kernels, with the most address bits (`PAGE_OFFSET_L5`).
const KERNEL_HALF: u64 = 0xff00_0000_0000_0000;
/// The addresses of memory, where OpenSBI and a kernel run before there are page tables. Linux puts no process there by default. A program
/// lies below them, or, if it is position-independent, at two thirds of a process's addresses, of which there are at least 256 GiB.
const MEMORY: Range<u64> = 0x8000_0000..128 << 30;
/// The lowest address of processes (`mmap_min_addr`). The machine's first instructions are below it.
const LOWEST_OF_PROCESSES: u64 = 64 << 10;

/// The registers for a walk of the stack, or `None` if the stub returned fewer registers than such a CPU has. They do not contain the
/// privilege level, so it is derived from the address of the next instruction.
pub(super) fn registers(bytes: &[u8]) -> Option<Registers> {
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let pc = u64_at(PC)?;
    let mode = match pc {
        KERNEL_HALF.. => Mode::Kernel,
        _ if pc < LOWEST_OF_PROCESSES || MEMORY.contains(&pc) => Mode::Boot,
        _ => Mode::User,
    };
    Some(Registers { pc, sp: u64_at(SP)?, fp: u64_at(FP)?, mode })
}

/// The call at the end of these bytes, if they may end with one. A return address lies directly behind its call.
pub(super) fn call_before(bytes: &[u8]) -> Option<Call> {
    let word = bytes.last_chunk().map(|word| u32::from_le_bytes(*word));
    match word.and_then(jal_distance) {
        // A call counts the distance from its own start.
        Some(distance) => Some(Call::By(distance - 4)),
        None => {
            let half = u16::from_le_bytes(*bytes.last_chunk()?);
            (word.is_some_and(is_jalr) || is_short_jalr(half)).then_some(Call::Indirect)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_where_qemu_puts_them() {
        let mut bytes = vec![0; 264];
        bytes[16..24].copy_from_slice(&0x20u64.to_le_bytes());
        bytes[64..72].copy_from_slice(&0x30u64.to_le_bytes());
        let mut at = |pc: u64| {
            bytes[256..264].copy_from_slice(&pc.to_le_bytes());
            registers(&bytes).unwrap()
        };
        assert_eq!(at(0x1000), Registers { pc: 0x1000, sp: 0x20, fp: 0x30, mode: Mode::Boot });
        for (pc, mode) in [
            (0x8000_0400, Mode::Boot),
            (0x8020_0000, Mode::Boot),
            (0xffff_ffff_8000_0000, Mode::Kernel),
            (0xff60_0000_0000_0000, Mode::Kernel),
            (0x1_0430, Mode::User),
            (0x3f_f000_0000, Mode::User),
            (0x5555_5555_5000, Mode::User),
        ] {
            assert_eq!(at(pc).mode, mode, "{pc:x}");
        }
        assert_eq!(registers(&bytes[..263]), None);
    }

    #[test]
    fn calls_before_an_address_are_recognized() {
        let before = |word: u32| call_before(&[&[0; 3][..], &word.to_le_bytes()].concat());
        assert_eq!(before(0x0080_00ef), Some(Call::By(4)), "jal ra, .+8");
        assert_eq!(before(0x0000_80e7), Some(Call::Indirect), "jalr ra, ra");
        assert_eq!(before(0x9582_0001), Some(Call::Indirect), "c.nop; c.jalr a1");
        assert_eq!(before(0x0000_8067), None, "ret");
        assert_eq!(before(0x9002_0001), None, "c.nop; c.ebreak");
        assert_eq!(call_before(&[0x82, 0x95]), Some(Call::Indirect));
        assert_eq!(call_before(&[0x82]), None);
    }
}
