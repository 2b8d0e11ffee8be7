# A guest that makes a few calls and then runs away into memory that holds no code.

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
    mov $0x80000, %esp
    mov $100, %ebx
1:  call works
    dec %ebx
    jnz 1b
    mov $0x90000, %esp          # frames of a stack that never return
    push $0x3e00000            # the end of 64 MiB, except for the firmware's part
    jmp away
.type works, @function
works:
    ret
.type away, @function
away:
    ret $0x2345
