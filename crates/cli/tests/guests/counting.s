# A guest that counts its own calls and prints the counts: the truth for call traces from outside.
#
# It boots by PVH without an operating system: 32-bit code first, then 64-bit. Each `counted` function counts its
# entries of any kind: by a call, a jump, a retpoline, a far call, another stack, an interrupt. At the end it prints a
# line "name count" for each on the console, and powers the machine off. Memory: the image at 1 MiB, page tables at
# 0x8000, stacks below 8 MiB (main) and 9 MiB (the coroutine).

.set MAIN_STACK, 0x800000
.set COROUTINE_STACK, 0x900000
.set UNMAPPED, 0x7f000000

.section .note.pvh, "a", @note
    .balign 4
    .long 4, 4, 18              # XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long entry32

# A function that counts its entries. Each has a line of data and a line of text in a table that `report` walks. The
# linker defines symbols for the start and end of a section whose name is a word.
.macro counted name, increment=incq, at=(%rip)
    .pushsection counted_functions, "aw"
    .quad count_\name, text_\name
    .popsection
    .pushsection .data
count_\name: .quad 0
    .popsection
    .pushsection .rodata
text_\name: .asciz "\name"
    .popsection
    .type \name, @function
\name:
    \increment count_\name\at
.endm

# Calls a function this many times.
.macro times n, function
    mov $\n, %ebx
7:  call \function
    dec %ebx
    jnz 7b
.endm

.text
.code32
.globl entry32
.globl _start
_start:
entry32:
    mov $MAIN_STACK, %esp
    cld
    times 7, in_32_bits
    # Page tables: the first GiB mapped to itself, in pages of 2 MiB.
    mov $0x8000, %edi
    xor %eax, %eax
    mov $0xc00, %ecx
    rep stosl
    movl $0x9003, 0x8000
    movl $0xa003, 0x9000
    mov $0x83, %eax
    mov $0xa000, %edi
8:  mov %eax, (%edi)
    add $8, %edi
    add $0x200000, %eax
    cmp $0x40000083, %eax
    jne 8b
    mov $0x8000, %eax
    mov %eax, %cr3
    mov %cr4, %eax
    or $0x20, %eax              # PAE
    mov %eax, %cr4
    mov $0xc0000080, %ecx       # EFER.LME
    rdmsr
    or $0x100, %eax
    wrmsr
    mov %cr0, %eax
    or $0x80000001, %eax
    mov %eax, %cr0
    lgdt gdt_at
    ljmp $8, $entry64

counted in_32_bits, incl, at=+0
    ret

.code64
entry64:
    mov $16, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    call vectors
    call boot
    call report
    mov $0x604, %edx            # the PIIX4's power button, where SeaBIOS has put it
    mov $0x2000, %eax
    outw %ax, %dx
9:  hlt
    jmp 9b

counted boot
    times 1000, leaf
    times 100, outer
    mov $99999, %edi
    call recurse                # 100 000 deep
    mov $40, %edi
    call even
    call tail_target            # so that it counts as a function
    times 50, tail_caller
    times 20, jumps_back
    times 30, by_register
    times 25, by_retpoline
    times 5, far
    times 12, takes_argument
    movq $coroutine, COROUTINE_STACK - 8
    times 15, coroutine_turn
    times 40, system_call
    times 10, undefined
    times 11, touches_nothing
    call timer
    ret

counted leaf
    ret

counted outer
    call middle
    call middle
    call middle
    ret
counted middle
    call inner
    call inner
    ret
counted inner
    ret

counted recurse                 # rdi: further levels
    test %rdi, %rdi
    jz 1f
    dec %rdi
    call recurse
1:  ret

counted even
    test %rdi, %rdi
    jz 1f
    dec %rdi
    call odd
1:  ret
counted odd
    test %rdi, %rdi
    jz 1f
    dec %rdi
    call even
1:  ret

counted tail_caller
    jmp tail_target
counted tail_target
    ret

counted jumps_back              # setjmp, five calls deep, longjmp
    lea 1f(%rip), %rax
    mov %rax, jump_to(%rip)
    mov %rsp, jump_sp(%rip)
    mov $5, %edi
    call deeper
    hlt
1:  call leaf
    ret
counted deeper
    dec %edi
    jz 1f
    call deeper
    ret
1:  mov jump_sp(%rip), %rsp
    jmp *jump_to(%rip)

counted by_register
    lea leaf(%rip), %rax
    call *%rax
    call *leaf_at(%rip)
    ret

counted by_retpoline
    lea leaf(%rip), %rax
    call retpoline
    ret
retpoline:
    call 1f
2:  pause
    jmp 2b
1:  mov %rax, (%rsp)
    ret

counted far
    lcalll *far_at(%rip)
    ret
counted far_target
    lretl

counted takes_argument
    push $5
    call cleans_up
    ret
counted cleans_up
    ret $8

counted coroutine_turn
    lea main_sp(%rip), %rdi
    lea coroutine_sp(%rip), %rsi
    call switch_stack
    ret
counted switch_stack            # rdi: address for the stack pointer, rsi: address of the other one
    push %rbx
    mov %rsp, (%rdi)
    mov (%rsi), %rsp
    pop %rbx
    ret
coroutine:                      # never called: its stack is made to return to it
1:  call leaf
    lea coroutine_sp(%rip), %rdi
    lea main_sp(%rip), %rsi
    call switch_stack
    jmp 1b

counted system_call
    int $0x80
    ret
counted on_system_call
    call leaf
    ret

counted undefined
    ud2
    ret
counted on_undefined
    ret

counted touches_nothing
    nop
    mov UNMAPPED, %eax          # 7 bytes, which the handler skips
    nop
    ret
counted on_page_fault
    ret

# Ten ticks asleep, then as many as arrive while a loop runs.
counted timer
    mov $0x11, %al              # the interrupt controllers: vectors from 0x20, only the timer
    out %al, $0x20
    out %al, $0xa0
    mov $0x20, %al
    out %al, $0x21
    mov $0x28, %al
    out %al, $0xa1
    mov $4, %al
    out %al, $0x21
    mov $2, %al
    out %al, $0xa1
    mov $1, %al
    out %al, $0x21
    out %al, $0xa1
    mov $0xfe, %al
    out %al, $0x21
    mov $0xff, %al
    out %al, $0xa1
    mov $0x34, %al              # the timer: every 119 of its ticks, 100 us
    out %al, $0x43
    mov $119, %al
    out %al, $0x40
    xor %eax, %eax
    out %al, $0x40
    sti
1:  hlt
    cmpq $10, count_on_timer(%rip)
    jb 1b
    times 300000, busy
    cli
    ret
counted busy
    ret
counted on_timer
    ret

# The CPU enters here: saves the registers, calls a counted function, and continues at a given address.
.macro handler name, calls, error=0, skips=0, end=0
\name:
    push %rax
    call \calls
.if \end
    mov $0x20, %al
    out %al, $0x20
.endif
    pop %rax
    add $\error, %rsp
    addq $\skips, (%rsp)
    iretq
.endm
handler enter_undefined, on_undefined, skips=2
handler enter_page_fault, on_page_fault, error=8, skips=7
handler enter_timer, on_timer, end=1
handler enter_system_call, on_system_call

vectors:
    mov $6, %edi
    lea enter_undefined(%rip), %rsi
    call vector
    mov $14, %edi
    lea enter_page_fault(%rip), %rsi
    call vector
    mov $0x20, %edi
    lea enter_timer(%rip), %rsi
    call vector
    mov $0x80, %edi
    lea enter_system_call(%rip), %rsi
    call vector
    lidt idt_at
    ret
vector:                         # edi: its number, rsi: the handler
    shl $4, %edi
    lea idt(%rip), %rax
    add %rax, %rdi
    mov %si, (%rdi)
    movl $0x8e000008, 2(%rdi)
    shr $16, %rsi
    mov %si, 6(%rdi)
    ret

report:
    lea __start_counted_functions(%rip), %r12
1:  mov 8(%r12), %rsi
    call print_text
    mov $' ', %al
    call print
    mov (%r12), %rax
    mov (%rax), %rax
    call print_number
    mov $'\n', %al
    call print
    add $16, %r12
    lea __stop_counted_functions(%rip), %rax
    cmp %rax, %r12
    jb 1b
    ret
print_text:                     # rsi
    lodsb
    test %al, %al
    jz 1f
    call print
    jmp print_text
1:  ret
print_number:                   # rax
    xor %edx, %edx
    mov $10, %ecx
    div %rcx
    push %rdx
    test %rax, %rax
    jz 1f
    call print_number
1:  pop %rax
    add $'0', %al
print:                          # al
    mov $0x3f8, %edx
    out %al, %dx
    ret

.data
.balign 16
gdt:
    .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff
gdt_at:
    .word 23
    .quad gdt
idt_at:
    .word 0xfff
    .quad idt
leaf_at: .quad leaf
far_at: .long far_target
    .word 8
.balign 8
jump_to: .quad 0
jump_sp: .quad 0
main_sp: .quad 0
coroutine_sp: .quad COROUTINE_STACK - 16
.bss
.balign 4096
idt: .skip 4096
