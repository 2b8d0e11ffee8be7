//! Decodes the ending of a block of RISC-V code from its last instruction.
//!
//! Encodings are as in the RISC-V ISA manuals: Unprivileged ("RV32I", and "C" for those of two bytes) and Privileged
//! (returns from traps, `wfi`). The hints for return-address stacks separate calls and returns from other jumps (table
//! "Return-address stack prediction hints"). A jump that puts its return address into `ra` or `t0` is a call; a jump to
//! such a register is a return. A far call has two instructions: `auipc` adds to its own address, and `jalr` adds to
//! that and jumps there. This module does not depend on QEMU.

use super::super::Exit;
use crate::ending::Ending;
use plugin_formats::exits::Kind;

const ZERO: u32 = 0;
/// `ra` and `t0`.
const LINKS: [u32; 2] = [1, 5];

/// The ending, and its target relative to the last instruction's end, if that is fixed.
pub fn decode(last: &[u8], before: &[u8]) -> (Ending, Option<i64>) {
    match (last, before) {
        (&[a, b], _) => short(u16::from_le_bytes([a, b]).into()),
        (&[a, b, c, d], before) => {
            let word = u32::from_le_bytes([a, b, c, d]);
            let before = before.try_into().map(u32::from_le_bytes);
            before.ok().and_then(|before| far(before, word)).unwrap_or_else(|| long(word))
        }
        _ => (Ending::Other, None),
    }
}

/// Decodes `auipc` and a `jalr` from the register that it wrote.
fn far(auipc: u32, jalr: u32) -> Option<(Ending, Option<i64>)> {
    let is_pair = auipc & 0x7f == 0x17 && jalr & 0x707f == 0x67 && auipc >> 7 & 31 == jalr >> 15 & 31;
    let ending = if LINKS.contains(&(jalr >> 7 & 31)) { Ending::Call } else { Ending::Jump };
    let distance = signed(auipc & !0xfff, 32) + signed(jalr >> 20, 12);
    is_pair.then_some((ending, Some(distance - 8)))
}

fn long(word: u32) -> (Ending, Option<i64>) {
    let (to, from) = (word >> 7 & 31, word >> 15 & 31);
    match word & 0x7f {
        0x6f => {
            let ending = if LINKS.contains(&to) { Ending::Call } else { Ending::Jump };
            let distance = gathered(word, &[(31, 1, 20), (12, 8, 12), (20, 1, 11), (21, 10, 1)]);
            (ending, Some(signed(distance, 21) - 4))
        }
        0x67 if word >> 12 & 7 == 0 => (by_register(to, from), None),
        0x63 => {
            let distance = gathered(word, &[(31, 1, 12), (7, 1, 11), (25, 6, 5), (8, 4, 1)]);
            (Ending::Branch, Some(signed(distance, 13) - 4))
        }
        _ => match word {
            // ECALL and EBREAK; SRET and MRET; WFI.
            0x0000_0073 | 0x0010_0073 => (Ending::Trap, None),
            0x1020_0073 | 0x3020_0073 => (Ending::InterruptReturn, None),
            0x1050_0073 => (Ending::Halt, None),
            _ => (Ending::Other, None),
        },
    }
}

/// Decodes instructions of two bytes. The lowest bits give one of three groups, the highest three the operation.
fn short(half: u32) -> (Ending, Option<i64>) {
    match (half & 3, half >> 13) {
        // Permanently undefined.
        _ if half == 0 => (Ending::Trap, None),
        (1, 0b101) => {
            let fields = [(12, 1, 11), (11, 1, 4), (9, 2, 8), (8, 1, 10), (7, 1, 6), (6, 1, 7), (3, 3, 1), (2, 1, 5)];
            (Ending::Jump, Some(signed(gathered(half, &fields), 12) - 2))
        }
        (1, 0b110 | 0b111) => {
            let fields = [(12, 1, 8), (10, 2, 3), (5, 2, 6), (3, 2, 1), (2, 1, 5)];
            (Ending::Branch, Some(signed(gathered(half, &fields), 9) - 2))
        }
        // C.JR, C.JALR and C.EBREAK have no second register.
        (2, 0b100) if half >> 2 & 31 == 0 => match (half >> 12 & 1, half >> 7 & 31) {
            (0, ZERO) => (Ending::Other, None),
            (0, from) => (by_register(ZERO, from), None),
            (_, ZERO) => (Ending::Trap, None),
            (_, from) => (by_register(LINKS[0], from), None),
        },
        _ => (Ending::Other, None),
    }
}

/// A jump to the address in `from`, with its return address in `to`.
fn by_register(to: u32, from: u32) -> Ending {
    match (LINKS.contains(&to), LINKS.contains(&from)) {
        (true, _) => Ending::CallIndirect,
        (false, true) => Ending::Return,
        (false, false) => Ending::JumpIndirect,
    }
}

/// A number whose bits are in several fields of an instruction: each field's first bit, its number of bits, and its
/// lowest bit in the number.
fn gathered(word: u32, fields: &[(u32, u32, u32)]) -> u32 {
    fields.iter().map(|&(from, bits, place)| (word >> from & ((1 << bits) - 1)) << place).sum()
}

/// A signed number of `bits` bits.
fn signed(number: u32, bits: u32) -> i64 {
    let unused = 32 - bits;
    i64::from(i32::from_ne_bytes((number << unused).to_ne_bytes()) >> unused)
}

/// The access of an instruction that leaves the guest, or reads a clock.
pub fn exit(bytes: &[u8]) -> Option<Exit> {
    let word = bytes.try_into().map(u32::from_le_bytes).ok()?;
    match word {
        0x1050_0073 => Some(Exit::new(Kind::Halt)), // wfi
        0x0000_0073 => Some(Exit { is_also_system_call: true, ..Exit::new(Kind::Hypercall) }), // ecall
        _ if word & 0xffff_f07f == 0xc010_2073 => Some(Exit::new(Kind::ClockRead)), // rdtime
        _ => None,
    }
}

/// True if QEMU's machine `virt` has a clock's counter at this physical address: `mtime` of its CLINT.
pub fn is_clock_at(address: u64) -> bool {
    matches!(address, 0x0200_bff8..0x0200_c000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks an instruction as GNU as 2.40 writes it.
    fn check(bytes: &[u8], ending: Ending, leads: Option<i64>) {
        let displacement = leads.map(|from_start| from_start - bytes.len() as i64);
        assert_eq!(decode(bytes, &[]), (ending, displacement), "{bytes:02x?}");
        let nop = 0x13_u32.to_le_bytes();
        assert_eq!(decode(bytes, &nop), (ending, displacement), "behind a nop: {bytes:02x?}");
    }

    #[test]
    fn fixed_targets_are_decoded() {
        for (word, ending, leads) in [
            (0x0080_00ef_u32, Ending::Call, 8),    // jal ra, .+8
            (0xffdf_f0ef, Ending::Call, -4),       // jal ra, .-4
            (0x7fff_f0ef, Ending::Call, 0xf_fffe), // jal ra, as far as it reaches
            (0x0010_00ef, Ending::Call, 2048),     // jal ra, .+2048
            (0x0100_02ef, Ending::Call, 16),       // jal t0, .+16
            (0x0100_006f, Ending::Jump, 16),       // j .+16
            (0xff1f_f06f, Ending::Jump, -16),      // j .-16
            (0x8000_006f, Ending::Jump, -0x10_0000),
            (0x00b5_0863, Ending::Branch, 16),    // beq a0, a1, .+16
            (0xfeb5_18e3, Ending::Branch, -16),   // bne a0, a1, .-16
            (0x7eb5_6fe3, Ending::Branch, 4094),  // bltu a0, a1, .+4094
            (0x80b5_7063, Ending::Branch, -4096), // bgeu a0, a1, .-4096
            (0x00b5_40e3, Ending::Branch, 2048),  // blt a0, a1, .+2048
        ] {
            check(&word.to_le_bytes(), ending, Some(leads));
        }
        for (half, ending, leads) in [
            (0xa801_u16, Ending::Jump, 16), // c.j .+16
            (0xbfc5, Ending::Jump, -16),    // c.j .-16
            (0xaffd, Ending::Jump, 2046),   // c.j .+2046
            (0xb001, Ending::Jump, -2048),  // c.j .-2048
            (0xa081, Ending::Jump, 64),     // c.j .+64
            (0xc901, Ending::Branch, 16),   // c.beqz a0, .+16
            (0xfbe5, Ending::Branch, -16),  // c.bnez a5, .-16
            (0xccfd, Ending::Branch, 254),  // c.beqz s1, .+254
            (0xf101, Ending::Branch, -256), // c.bnez a0, .-256
        ] {
            check(&half.to_le_bytes(), ending, Some(leads));
        }
    }

    #[test]
    fn other_endings_have_no_target() {
        for (word, ending) in [
            (0x0000_80e7_u32, Ending::CallIndirect), // jalr ra, ra
            (0x0105_82e7, Ending::CallIndirect),     // jalr t0, 16(a1)
            (0x0000_8067, Ending::Return),           // ret
            (0x0002_8067, Ending::Return),           // jr t0
            (0x0003_0067, Ending::JumpIndirect),     // jr t1
            (0x0000_0073, Ending::Trap),             // ecall
            (0x0010_0073, Ending::Trap),             // ebreak
            (0x1020_0073, Ending::InterruptReturn),  // sret
            (0x3020_0073, Ending::InterruptReturn),  // mret
            (0x1050_0073, Ending::Halt),             // wfi
            (0x1806_1073, Ending::Other),            // csrw satp, a2
            (0x0000_100f, Ending::Other),            // fence.i
            (0x1200_0073, Ending::Other),            // sfence.vma
            (0x0000_0013, Ending::Other),            // nop
        ] {
            check(&word.to_le_bytes(), ending, None);
        }
        for (half, ending) in [
            (0x8082_u16, Ending::Return),   // c.jr ra
            (0x8282, Ending::Return),       // c.jr t0
            (0x8782, Ending::JumpIndirect), // c.jr a5
            (0x9582, Ending::CallIndirect), // c.jalr a1
            (0x9002, Ending::Trap),         // c.ebreak
            (0x0000, Ending::Trap),         // c.unimp
            (0x0001, Ending::Other),        // c.nop
            (0x2505, Ending::Other),        // c.addiw a0, 1
            (0x852e, Ending::Other),        // c.mv a0, a1
            (0x952e, Ending::Other),        // c.add a0, a1
        ] {
            check(&half.to_le_bytes(), ending, None);
        }
        for bytes in [&[][..], &[0x82], &[0x67, 0x80, 0], &[0; 6]] {
            assert_eq!(decode(bytes, &[]), (Ending::Other, None));
        }
    }

    #[test]
    fn accesses_that_leave_the_guest() {
        for (word, kind) in [
            (0x1050_0073_u32, Some(Kind::Halt)),
            (0x0000_0073, Some(Kind::Hypercall)),
            (0xc010_2573, Some(Kind::ClockRead)), // rdtime a0
            (0xc000_2573, None),                  // rdcycle a0
            (0x0010_0073, None),                  // ebreak
            (0x0005_3503, None),                  // ld a0, 0(a0)
        ] {
            assert_eq!(exit(&word.to_le_bytes()).map(|exit| exit.kind), kind, "{word:08x}");
        }
        assert!(exit(&[0x73, 0]).is_none() && is_clock_at(0x0200_bff8) && !is_clock_at(0x0200_4000));
    }

    #[test]
    fn a_far_call_is_two_instructions() {
        let pair = |auipc: u32, jalr: u32| decode(&jalr.to_le_bytes(), &auipc.to_le_bytes());
        // From Debian's kernel, at 0xffffffff80001180: a call to 0xffffffff800010ec.
        assert_eq!(pair(0x0000_0097, 0xf6c0_80e7), (Ending::Call, Some(-148 - 8)));
        assert_eq!(pair(0x0170_0317, 0x0083_0067), (Ending::Jump, Some(0x170_0008 - 8)), "tail, by t1");
        assert_eq!(pair(0x8000_0097, 0x7ff0_80e7), (Ending::Call, Some(-0x8000_0000 + 0x7ff - 8)));
        assert_eq!(pair(0x0000_0097, 0x0003_00e7), (Ending::CallIndirect, None), "by another register");
    }
}
