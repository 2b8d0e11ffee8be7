# A guest whose boot takes a time set at assembly (WAITS rounds of a loop), and then prints a line on its console.
#
# It boots by PVH, without an operating system, in 32-bit code. The line begins with a letter, so that no prefix of it
# matches.

.section .note.pvh, "a", @note
    .balign 4
    .long 4, 4, 18              # XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long entry32

.text
.code32
.globl _start
_start:
entry32:
    mov $0x300000, %esp
    call pass_time
    mov $said, %esi
    mov $0x3f8, %edx
2:  lodsb
    test %al, %al
    jz 3f
    out %al, %dx
    jmp 2b
3:  hlt
    jmp 3b

.type pass_time, @function
pass_time:
    mov $WAITS, %ecx
1:  dec %ecx
    jnz 1b
    ret
.section .rodata
said: .asciz "init: done\n"
