# The PVH entry point, which calls kmain, and the entry and exit of a non-maskable interrupt.

.section .note.pvh, "a", @note
.long 4, 4, 18                      # Xen's note 18: the entry point of 32-bit code
.asciz "Xen"
.long entry
.section .bss.boot, "aw", @nobits
.balign 4096
pml4: .skip 4096
pdpt: .skip 4096
pd:   .skip 4096 * 4                # 2048 pages of 2 MiB: 4 GiB, identity mapped
stack: .skip {stack_bytes}
stack_end: .skip 4096
nmi_stack_end:
.section .data.gdt, "aw"
.balign 16
gdt: .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff
gdt_tss: .quad 0, 0                 # 0x18: the second kernel fills it in
gdt_pointer: .word gdt_pointer - gdt - 1
    .quad gdt
.section .text.entry, "ax"
.code32
entry: cli
    mov edi, ebx                    # the boot information: kmain's argument
    lea eax, [pdpt + 3]
    mov [pml4], eax
    xor ecx, ecx
    lea eax, [pd + 3]
1:  mov [pdpt + ecx * 8], eax
    add eax, 4096
    inc ecx
    cmp ecx, 4
    jne 1b
    mov eax, 0x83
    xor ecx, ecx
2:  mov [pd + ecx * 8], eax
    add eax, 0x200000
    inc ecx
    cmp ecx, 2048
    jne 2b
    lea eax, [pml4]
    mov cr3, eax
    mov eax, 0x620                  # CR4: PAE, SSE
    mov cr4, eax
    mov ecx, 0xc0000080             # EFER: long mode
    rdmsr
    or eax, 0x100
    wrmsr
    mov eax, 0x80010033             # CR0: paging
    mov cr0, eax
    lgdt [gdt_pointer]
    .byte 0xea
    .long entry64
    .word 0x08
.code64
entry64: mov ax, 0x10
    mov ds, ax
    mov es, ax
    mov ss, ax
    lea rsp, [rip + stack_end]
    xor ebp, ebp                    # the walk up this stack ends here
    call kmain
# Runs on a separate stack, because of the red zone. It saves the registers that a function may change, and SSE's.
nmi_entry: push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    push rbp
    mov rdi, rsp
    sub rsp, 520
    fxsave64 [rsp]
    call nmi
    fxrstor64 [rsp]
    add rsp, 520
    pop rbp
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    iretq
# Functions that the compiler calls for arrays: addresses in rdi and rsi, a length in rdx.
.global memcpy, memmove, memset
memset: mov r8, rdi
    mov eax, esi
    mov rcx, rdx
    rep stosb
    mov rax, r8
    ret
memmove: mov rax, rdi
    sub rax, rsi
    cmp rax, rdx
    jae memcpy                          # the target does not begin inside the source
    lea rdi, [rdi + rdx - 1]
    lea rsi, [rsi + rdx - 1]
    mov rcx, rdx
    std
    rep movsb
    cld
    lea rax, [rdi + 1]
    ret
memcpy: mov rax, rdi
    mov rcx, rdx
    rep movsb
    ret
