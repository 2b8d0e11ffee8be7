//! A read that may fault, for addresses that may be unmapped. A fault makes it return `None` instead of a panic.

use crate::trap::Frame;
use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.probe_read, "ax"
    .global probe_read
    .global probe_read_load
    .global probe_read_faulted
    probe_read:
        mov edx, 1
    probe_read_load:
        mov rax, [rdi]
        ret
    probe_read_faulted:
        xor eax, eax
        xor edx, edx
        ret
    "#
);

/// The result in RAX and RDX, where the ABI returns two words.
#[repr(C)]
struct Read {
    word: u64,
    is_mapped: u64,
}

unsafe extern "sysv64" {
    fn probe_read(address: u64) -> Read;
    static probe_read_load: u8;
    static probe_read_faulted: u8;
}

/// The word at a canonical address; `None` if the address is not mapped.
pub fn read(address: u64) -> Option<u64> {
    // SAFETY: it changes no memory, and `recover` handles a fault.
    let read = unsafe { probe_read(address) };
    (read.is_mapped != 0).then_some(read.word)
}

/// Handles a page fault in the kernel. Returns false if no such read caused it.
pub fn recover(frame: &mut Frame) -> bool {
    let is_probe = frame.rip == (&raw const probe_read_load).addr() as u64;
    if is_probe {
        frame.rip = (&raw const probe_read_faulted).addr() as u64;
    }
    is_probe
}
