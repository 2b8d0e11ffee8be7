# A guest that makes a known number of accesses of each kind: the truth for counts of accesses that leave the guest.
#
# It boots by PVH without an operating system and stays in 32-bit code without pages. Each function makes accesses of
# one kind. At the end it powers the machine off. Memory: the image at 1 MiB, the stack below 8 MiB, and 500 pages from
# 16 MiB on.

.set STACK, 0x800000
.set PAGES, 0x1000000
.set APIC, 0xfee00000

.section .note.pvh, "a", @note
    .balign 4
    .long 4, 4, 18              # XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long entry32

.bss
buffer: .skip 4096

.macro function name
    .type \name, @function
\name:
.endm

.text
.code32
.globl entry32
.globl _start
_start:
entry32:
    mov $STACK, %esp
    cld
    call boot
    mov $0x604, %edx            # the PIIX4's power button, where SeaBIOS has put it
    mov $0x2000, %eax
    outw %ax, %dx
9:  hlt
    jmp 9b

function boot
    call outer
    call polls_uart
    call sends_string
    call receives_string
    call reads_apic
    call writes_apic
    call identifies
    call reads_msr
    call writes_msr
    call touches_pages
    call probes
    call waits_for_counter
    call waits_for_timer
    ret

function outer
    call writes_port
    call writes_port
    call touches_pages
    ret

function writes_port            # 300 writes
    mov $300, %ecx
1:  outb %al, $0x80
    dec %ecx
    jnz 1b
    ret

function polls_uart             # 200 reads, which do not wait for a clock
    mov $200, %ecx
    mov $0x3fd, %edx
1:  inb %dx, %al
    dec %ecx
    jnz 1b
    ret

function sends_string           # 100 writes
    mov $100, %ecx
    mov $buffer, %esi
    mov $0x80, %edx
    rep outsb
    ret

function receives_string        # 50 reads
    mov $50, %ecx
    mov $buffer, %edi
    mov $0x3fd, %edx
    rep insb
    ret

function reads_apic             # 70 reads
    mov $70, %ecx
1:  mov APIC + 0x30, %eax
    dec %ecx
    jnz 1b
    ret

function writes_apic            # 40 writes
    mov $40, %ecx
1:  movl $0, APIC + 0x80
    dec %ecx
    jnz 1b
    ret

function identifies             # 9 times
    mov $9, %esi
1:  xor %eax, %eax
    cpuid
    dec %esi
    jnz 1b
    ret

function reads_msr              # 11 times
    mov $11, %esi
    mov $0x1b, %ecx
1:  rdmsr
    dec %esi
    jnz 1b
    ret

function writes_msr             # one read, and 6 writes of the same value
    mov $6, %esi
    mov $0x1b, %ecx
    rdmsr
1:  wrmsr
    dec %esi
    jnz 1b
    ret

function touches_pages          # 500 pages, twice
    mov $2, %edx
2:  mov $500, %ecx
    mov $PAGES, %edi
1:  movb $1, 7(%edi)
    add $4096, %edi
    dec %ecx
    jnz 1b
    dec %edx
    jnz 2b
    ret

function probes                 # 1000 reads where nothing is, each in another page
    mov $1000, %ecx
    mov $0x80000000, %esi
1:  mov (%esi), %eax
    add $4096, %esi
    dec %ecx
    jnz 1b
    ret

function waits_for_counter      # reads of the TSC alone
    rdtsc
    mov %eax, %ebx
1:  rdtsc
    sub %ebx, %eax
    cmp $100000, %eax
    jb 1b
    ret

function waits_for_timer        # 1000 reads of the port that shows the interval timer's output
    mov $1000, %ecx
1:  inb $0x61, %al
    test $0x20, %al
    dec %ecx
    jnz 1b
    ret
