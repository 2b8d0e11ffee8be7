//! The first instructions, from the PVH entry point to Rust.
//!
//! PVH enters in 32-bit protected mode, without paging, with the address of the boot information in EBX (Xen's
//! `docs/misc/pvh.pandoc`). The entry identity maps the first 4 GiB by 2 MiB pages and switches to long mode with SSE on. It
//! points GS at the boot CPU's data, so that the recorder can read the current thread, and calls `kmain`. It does not read the
//! boot information. An application processor enters by `smp.rs` instead.

use core::arch::global_asm;
use core::ops::Range;

/// Size of the boot CPU's first stack, which becomes thread0's.
pub const BOOT_STACK_BYTES: usize = 64 * 1024;

/// The stack that `pvh_entry` begins on. Its end is a multiple of 16 KiB, because `record --trace calls` tells stacks apart in
/// units of 16 KiB. So a call seems to go to another stack only if it is that deep.
#[repr(C, align(16384))]
pub struct BootStack(pub [u8; BOOT_STACK_BYTES]);

#[unsafe(no_mangle)]
static mut boot_stack: BootStack = BootStack([0; BOOT_STACK_BYTES]);

/// Addresses of the boot stack.
pub fn boot_stack_range() -> Range<u64> {
    let from = (&raw const boot_stack).addr() as u64;
    from..from + BOOT_STACK_BYTES as u64
}

global_asm!(
    r#"
    .section .note.pvh, "a", @note
    .balign 4
    .long 4, 4, 18                      # lengths of owner and value; XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long pvh_entry

    .section .bss.boot_tables, "aw", @nobits
    .balign 4096
    boot_pml4: .skip 4096
    boot_pdpt: .skip 4096
    boot_pd:   .skip 4096 * 4           # 2048 pages of 2 MiB: 4 GiB

    .section .rodata.boot_gdt, "a"
    .balign 8
    boot_gdt:
        .quad 0
        .quad 0x00af9b000000ffff        # 0x08: 64-bit code
        .quad 0x00cf93000000ffff        # 0x10: data
    boot_gdt_pointer:
        .word boot_gdt_pointer - boot_gdt - 1
        .quad boot_gdt

    .section .text.entry, "ax"
    .code32
    .global pvh_entry
    pvh_entry:
        cli
        cld
        mov edi, ebx                    # address of the boot information, kmain's argument

        lea eax, [boot_pdpt + 3]        # present, writable
        mov [boot_pml4], eax
        lea eax, [boot_pd + 3]
        xor ecx, ecx
    1:  mov [boot_pdpt + ecx * 8], eax
        add eax, 4096
        inc ecx
        cmp ecx, 4
        jne 1b
        mov eax, 0x83                   # present, writable, 2 MiB
        xor ecx, ecx
    2:  mov [boot_pd + ecx * 8], eax
        add eax, 0x200000
        inc ecx
        cmp ecx, 2048
        jne 2b

        lea eax, [boot_pml4]
        mov cr3, eax
        mov eax, 0x620                  # CR4: PAE, OSFXSR, OSXMMEXCPT
        mov cr4, eax
        mov ecx, 0xc0000080             # EFER: SCE, LME, NXE
        rdmsr
        or eax, 0x901
        wrmsr
        mov eax, 0x80010033             # CR0: PG, WP, NE, ET, MP, PE
        mov cr0, eax
        lgdt [boot_gdt_pointer]
        .byte 0xea                      # far jump to 0x08:entry64
        .long entry64
        .word 0x08

    .code64
    entry64:
        mov ax, 0x10
        mov ds, ax
        mov es, ax
        mov ss, ax
        xor eax, eax
        mov fs, ax
        mov gs, ax
        lea rax, [rip + boot_cpu]
        mov [rax], rax                  # a CPU's data begins with its own address
        mov rdx, rax
        shr rdx, 32
        mov ecx, 0xc0000101             # GS base
        wrmsr
        lea rsp, [rip + boot_stack + {stack_bytes}]
        xor ebp, ebp
        mov edi, edi
        call kmain
    3:  cli
        hlt
        jmp 3b
    "#,
    stack_bytes = const BOOT_STACK_BYTES,
);
