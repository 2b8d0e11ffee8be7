# Two CPUs that make calls at once, each on a stack of 8 KiB. AP_STACK, the distance of the second CPU's stack from the
# first's window, decides whether both stacks are in one aligned window of 16 KiB.
#
# It boots by PVH, in 32-bit code. Each CPU makes ROUNDS rounds of the same nested calls, while a timer interrupts it.
# When both are done, it prints a line on the console. The image is at 1 MiB, and the second CPU's start code at 0x8000.

.set LAPIC, 0xfee00000
.set ROUNDS, 2000000

.section .note.pvh, "a", @note
    .balign 4
    .long 4, 4, 18              # XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long entry32

.macro function name
    .type \name, @function
\name:
.endm

.text
.code32
.globl _start
_start:
entry32:
    cli
    mov $stack_window + 0x4000 - 16, %esp
    lgdt gdt_at
    ljmp $8, $1f
1:  mov $16, %ax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    mov $0xff, %al              # no interrupt but the CPUs' own timers
    outb %al, $0x21
    outb %al, $0xa1
    mov $idt, %edi
    mov $256, %ecx
2:  mov $interrupted, %eax
    movw %ax, (%edi)
    movw $8, 2(%edi)
    movw $0x8e00, 4(%edi)
    shr $16, %eax
    movw %ax, 6(%edi)
    add $8, %edi
    loop 2b
    mov $starts, %esi
    mov $0x8000, %edi
    mov $starts_end - starts, %ecx
    rep movsb
    movl $0x1ff, LAPIC + 0xf0
    movl $0xc4500, LAPIC + 0x300        # INIT to all others
    mov $2000000, %ecx
3:  loop 3b
    movl $0xc4608, LAPIC + 0x300        # they start at 0x8000
4:  cmpl $0, started
    je 4b
    call works
5:  cmpl $2, done
    jne 5b
    mov $message, %esi
6:  lodsb
    test %al, %al
    jz 7f
    mov $0x3f8, %dx
    outb %al, %dx
    jmp 6b
7:  hlt
    jmp 7b

second_cpu:
    mov $stack_window + AP_STACK, %esp
    movl $1, started
    call works
8:  cli
    hlt
    jmp 8b

function works
    lidt idt_at
    movl $0x1ff, LAPIC + 0xf0
    movl $0xb, LAPIC + 0x3e0
    movl $0x20040, LAPIC + 0x320        # each 20 000 ticks
    movl $20000, LAPIC + 0x380
    sti
    mov $ROUNDS, %ebp
9:  call f1
    call g1
    dec %ebp
    jnz 9b
    lock incl done
    ret
function f1
    push %eax
    call f2
    call f3
    pop %eax
    ret
function f2
    push %eax
    call f3
    pop %eax
    ret
function f3
    inc %eax
    ret
function g1
    call g2
    call g2
    ret
function g2
    call g3
    ret
function g3
    nop
    ret

function interrupted
    push %eax
    call handles
    movl $0, LAPIC + 0xb0
    pop %eax
    iret
function handles
    nop
    ret

.code16
starts:
    cli
    xor %ax, %ax
    mov %ax, %ds
    lgdtl 0x8000 + (starts_gdt_at - starts)
    mov %cr0, %eax
    or $1, %eax
    mov %eax, %cr0
    ljmpl $8, $0x8000 + (starts_32 - starts)
.code32
starts_32:
    mov $16, %ax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    mov $second_cpu, %eax
    jmp *%eax
    .balign 4
starts_gdt_at:
    .word 23
    .long gdt
starts_end:

.data
    .balign 8
gdt:
    .quad 0
    .quad 0x00cf9a000000ffff
    .quad 0x00cf92000000ffff
gdt_at:
    .word 23
    .long gdt
idt_at:
    .word 2047
    .long idt
message:
    .asciz "DONE\n"
    .balign 4
started: .long 0
done: .long 0

.bss
    .balign 16384
stack_window: .skip 0x14000
    .balign 16
idt: .skip 2048
