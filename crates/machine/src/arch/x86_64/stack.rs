//! Reads the registers of a gdbstub, and recognizes calls before return addresses.

use crate::arch::{Call, Mode, Registers};

// Offsets of registers in a gdbstub's answer (QEMU's `i386-64bit.xml`): 16 general registers and the instruction pointer with 8 bytes
// each, flags and six segments with 4, three bases with 8, then CR0, 2, 3, 4, 8 and EFER with 8.
const RBP: usize = 6 * 8;
const RSP: usize = 7 * 8;
const RIP: usize = 16 * 8;
const CS: usize = RIP + 8 + 4;
const EFER: usize = CS + 6 * 4 + 3 * 8 + 5 * 8;

/// The bit of EFER that long mode is active.
const LONG_MODE: u64 = 1 << 10;

/// The registers for a walk of the stack, or `None` if the stub returned fewer registers than such a CPU has.
pub(super) fn registers(bytes: &[u8]) -> Option<Registers> {
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let cs = u32::from_le_bytes(bytes.get(CS..CS + 4)?.try_into().ok()?);
    let mode = match u64_at(EFER)? & LONG_MODE {
        0 => Mode::Boot,
        _ if cs & 3 == 3 => Mode::User,
        _ => Mode::Kernel,
    };
    Some(Registers { pc: u64_at(RIP)?, sp: u64_at(RSP)?, fp: u64_at(RBP)?, mode })
}

/// The distance of the return address above the stack pointer, where a function that keeps a frame pointer has no frame: at its first
/// instructions, and at its return. `before` is the byte before the instruction pointer, and `code` are the bytes from there on.
pub(super) fn return_without_frame(before: u8, code: &[u8]) -> Option<u64> {
    const PUSH_FP: u8 = 0x55;
    const SP_TO_FP: [&[u8]; 2] = [&[0x48, 0x89, 0xe5], &[0x48, 0x8b, 0xec]];
    const RETURNS: [u8; 2] = [0xc3, 0xc2];
    // endbr64, and the NOP that a tracer replaces with a call.
    const LEADS: [&[u8]; 2] = [&[0xf3, 0x0f, 0x1e, 0xfa], &[0x0f, 0x1f, 0x44, 0x00, 0x00]];
    if before == PUSH_FP && SP_TO_FP.iter().any(|moves| code.starts_with(moves)) {
        return Some(8);
    }
    let first = LEADS.iter().fold(code, |code, lead| code.strip_prefix(*lead).unwrap_or(code)).first()?;
    (*first == PUSH_FP || RETURNS.contains(first)).then_some(0)
}

/// The call at the end of these bytes, if they may end with one. A return address lies directly behind its call.
pub(super) fn call_before(bytes: &[u8]) -> Option<Call> {
    if let [.., 0xe8, a, b, c, d] = *bytes {
        return Some(Call::By(i32::from_le_bytes([a, b, c, d])));
    }
    // FF /2 calls through a register or memory. The mode determines the number of bytes for the address.
    let is_indirect = (2..=7).any(|length| {
        let Some(code) = bytes.len().checked_sub(length).map(|from| &bytes[from..]) else { return false };
        let [0xff, mode, ..] = *code else { return false };
        if mode >> 3 & 7 != 2 {
            return false;
        }
        let has_index = mode & 7 == 4 && mode >> 6 != 3;
        let displacement = match (mode >> 6, mode & 7) {
            (0, 5) | (2, _) => 4,
            (1, _) => 1,
            _ => 0,
        };
        length == 2 + usize::from(has_index) + displacement
    });
    is_indirect.then_some(Call::Indirect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_no_frame_at_its_ends() {
        assert_eq!(return_without_frame(0x90, &[0x55, 0x48, 0x89, 0xe5]), Some(0), "push %rbp");
        assert_eq!(return_without_frame(0x55, &[0x48, 0x89, 0xe5, 0x53]), Some(8), "mov %rsp,%rbp");
        assert_eq!(return_without_frame(0x55, &[0x48, 0x8b, 0xec]), Some(8), "the same, as others write it");
        assert_eq!(return_without_frame(0x5d, &[0xc3]), Some(0), "ret");
        let traced = [0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0x55];
        assert_eq!(return_without_frame(0x90, &traced), Some(0), "endbr64, five bytes for a tracer, push %rbp");
        for code in [&[][..], &[0x90], &[0x53, 0x55], &[0x48, 0x89, 0xe5], &[0xf3, 0x0f, 0x1e, 0xfa]] {
            assert_eq!(return_without_frame(0x90, code), None, "{code:x?}");
        }
    }

    #[test]
    fn registers_are_where_qemu_puts_them() {
        let mut bytes = vec![0; 600];
        bytes[48..56].copy_from_slice(&0x30u64.to_le_bytes());
        bytes[56..64].copy_from_slice(&0x20u64.to_le_bytes());
        bytes[128..136].copy_from_slice(&0x10u64.to_le_bytes());
        let mode = |bytes: &[u8]| registers(bytes).unwrap().mode;
        assert_eq!(registers(&bytes).unwrap(), Registers { pc: 0x10, sp: 0x20, fp: 0x30, mode: Mode::Boot });
        bytes[229] = 0x0d; // EFER: LME, LMA, NXE
        assert_eq!(mode(&bytes), Mode::Kernel);
        bytes[140] = 0x33;
        assert_eq!(mode(&bytes), Mode::User);
        assert_eq!(registers(&bytes[..200]), None);
    }

    #[test]
    fn calls_before_an_address_are_recognized() {
        assert_eq!(call_before(&[0x90, 0xe8, 0xfe, 0xff, 0xff, 0xff]), Some(Call::By(-2)));
        // call *%rax; call *8(%rbx); call *(%rsp,%rcx,8); call *x(%rip); call *%r8
        for code in
            [&[0xff, 0xd0][..], &[0xff, 0x53, 8], &[0xff, 0x14, 0xcc], &[0xff, 0x15, 0, 1, 2, 3], &[0x41, 0xff, 0xd0]]
        {
            assert_eq!(call_before(&[&[0x90; 8], code].concat()), Some(Call::Indirect), "{code:x?}");
        }
        // push; jmp *%rax; nops; nothing
        for code in [&[0xff, 0x30][..], &[0xff, 0xe0], &[0x90; 8], &[]] {
            assert_eq!(call_before(code), None, "{code:x?}");
        }
    }
}
