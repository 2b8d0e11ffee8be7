//! The functions that compiled code calls to copy, fill and compare memory. The standard library would provide them.
//!
//! Each has a frame, so that a sample in one of them shows its caller. Copies and fills are one instruction. It is quick on
//! every CPU of the last decade, and counts as one instruction.

use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.mem, "ax"
    .global memcpy
    memcpy:                             # rdi destination, rsi source, rdx bytes
        push rbp
        mov rbp, rsp
        mov rax, rdi
        mov rcx, rdx
        rep movsb
        pop rbp
        ret

    .global memset
    memset:                             # rdi destination, esi value, rdx bytes
        push rbp
        mov rbp, rsp
        mov r8, rdi
        mov eax, esi
        mov rcx, rdx
        rep stosb
        mov rax, r8
        pop rbp
        ret

    .global memmove
    memmove:
        push rbp
        mov rbp, rsp
        mov rax, rdi
        mov rcx, rdx
        mov r8, rdi
        sub r8, rsi
        cmp r8, rdx
        jb 1f                           # a forward copy would overwrite the end of the source first
        rep movsb
        pop rbp
        ret
    1:  lea rdi, [rdi + rdx - 1]
        lea rsi, [rsi + rdx - 1]
        std
        rep movsb
        cld
        pop rbp
        ret

    .global memcmp
    .global bcmp
    memcmp:
    bcmp:
        push rbp
        mov rbp, rsp
        mov rcx, rdx
        xor eax, eax                    # equal if the length is 0
        repe cmpsb
        je 2f
        movzx eax, byte ptr [rdi - 1]
        movzx ecx, byte ptr [rsi - 1]
        sub eax, ecx
    2:  pop rbp
        ret

    .global strlen
    strlen:
        push rbp
        mov rbp, rsp
        xor eax, eax
        mov rcx, -1
        repne scasb
        not rcx
        lea rax, [rcx - 1]
        pop rbp
        ret
    "#
);
