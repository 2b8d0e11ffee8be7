//! What compiled code calls to copy, fill and compare memory. The standard library would bring them.
//!
//! Copies and fills are one instruction, which is quick on every CPU of the last decade, and one instruction to count.

use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.mem, "ax"
    .global memcpy
    memcpy:                             # rdi to, rsi from, rdx bytes
        mov rax, rdi
        mov rcx, rdx
        rep movsb
        ret

    .global memset
    memset:                             # rdi to, esi value, rdx bytes
        mov r8, rdi
        mov eax, esi
        mov rcx, rdx
        rep stosb
        mov rax, r8
        ret

    .global memmove
    memmove:
        mov rax, rdi
        mov rcx, rdx
        mov r8, rdi
        sub r8, rsi
        cmp r8, rdx
        jb 1f                           # the end of what is copied would be overwritten first
        rep movsb
        ret
    1:  lea rdi, [rdi + rdx - 1]
        lea rsi, [rsi + rdx - 1]
        std
        rep movsb
        cld
        ret

    .global memcmp
    .global bcmp
    memcmp:
    bcmp:
        mov rcx, rdx
        xor eax, eax                    # equal, if there is nothing to compare
        repe cmpsb
        je 2f
        movzx eax, byte ptr [rdi - 1]
        movzx ecx, byte ptr [rsi - 1]
        sub eax, ecx
    2:  ret

    .global strlen
    strlen:
        xor eax, eax
        mov rcx, -1
        repne scasb
        not rcx
        lea rax, [rcx - 1]
        ret
    "#
);
