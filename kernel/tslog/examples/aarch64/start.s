// Entry points of the first CPU, from the loader, and of the second CPU, from PSCI. Both enter C at EL1 with translation and
// caches on.
//
// Before translation and caches are on, all memory is Device memory. The architecture promises no atomic operations there,
// and the recorder uses them. So the first event comes after. (QEMU allows them earlier; a board may hang.)

.section .text.entry, "ax"
.global image, second_cpu_entry
image:                                  // the header of Linux's arm64 Image, which boot loaders recognise
    b       entry
    .long   0
    .quad   0                           // anywhere at a multiple of 2 MiB, here at 0x40200000
    .quad   kernel_bytes
    .quad   0x2                         // flags: little-endian, pages of 4 KiB
    .quad   0, 0, 0
    .ascii  "ARM\x64"
    .long   0
entry:
    adrp    x1, first_stack_end
    add     x1, x1, :lo12:first_stack_end
    mov     x2, #0                      // the first thread's id
    adr     x3, kernel_main
    b       to_el1
second_cpu_entry:
    adrp    x1, second_stack_end
    add     x1, x1, :lo12:second_stack_end
    mov     x2, x0                      // its thread's id, the argument of CPU_ON
    adr     x3, probe_main

to_el1:
    mrs     x0, CurrentEL
    lsr     x0, x0, #2                  // kernel_main's argument, which decides how it calls PSCI
    cmp     x0, #2
    b.ne    at_el1
    mov     x4, #1 << 31                // HCR_EL2.RW: EL1 is 64-bit
    msr     hcr_el2, x4
    msr     cntvoff_el2, xzr            // before the first event and on each CPU: CNTVCT_EL0 is the physical count minus
                                        // CNTVOFF_EL2, which has an unknown value after reset
    mov     x4, #0x3c5                  // EL1 with its own stack pointer, no interrupts
    msr     spsr_el2, x4
    adr     x4, at_el1
    msr     elr_el2, x4
    eret

at_el1:
    mov     x4, #0xff00                 // attribute 0: Device; attribute 1: Normal, write-back
    msr     mair_el1, x4
    ldr     x4, =0x100803519            // 39-bit addresses of TTBR0 alone, 4 KiB granule, cached and shared walks
    msr     tcr_el1, x4
    adrp    x4, gibibytes
    msr     ttbr0_el1, x4
    tlbi    vmalle1
    dsb     nsh
    isb
    ldr     x4, =0x30d01805             // SCTLR_EL1: translation, both caches, and the bits that are always 1
    msr     sctlr_el1, x4
    isb
    cbnz    x2, 2f                      // only the first CPU clears .bss
    ldr     x4, =bss_begin
    ldr     x5, =kernel_end
1:  stp     xzr, xzr, [x4], #16
    cmp     x4, x5
    b.lo    1b
2:  mov     sp, x1
    msr     tpidr_el1, x2
    mov     x29, #0
    blr     x3
3:  wfi
    b       3b

// memcpy and memset, which every C compiler expects in a kernel, here a byte at a time. x0 is the destination, x1 the source or
// the byte, x2 the number of bytes.
.global memcpy, memset
memcpy:
    mov     x3, x0
1:  cbz     x2, 2f
    ldrb    w4, [x1], #1
    strb    w4, [x3], #1
    sub     x2, x2, #1
    b       1b
2:  ret
memset:
    mov     x3, x0
1:  cbz     x2, 2f
    strb    w1, [x3], #1
    sub     x2, x2, #1
    b       1b
2:  ret

.section .data.gibibytes, "aw"
.balign 4096
gibibytes:
    .quad   0x0060000000000401          // 0 to 1 GiB: the devices, execute never
    .quad   0x0000000040000705          // 1 to 2 GiB: memory
    .skip   4096 - 2 * 8

.section .bss.stacks, "aw", %nobits
.balign 16
    .skip   16384
first_stack_end:
    .skip   16384
second_stack_end:
