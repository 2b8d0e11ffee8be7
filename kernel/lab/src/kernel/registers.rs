//! Assembly that saves the general registers on the stack, for interrupts, system calls and preemption.
//!
//! The order must not change: `trap::Frame` and `syscall::Registers` describe the registers on the stack.

/// Pushes all general registers except RSP.
macro_rules! push_registers {
    () => {
        "
        push rax
        push rbx
        push rcx
        push rdx
        push rsi
        push rdi
        push rbp
        push r8
        push r9
        push r10
        push r11
        push r12
        push r13
        push r14
        push r15
        "
    };
}

/// Pops the registers that [`push_registers`] pushed.
macro_rules! pop_registers {
    () => {
        "
        pop r15
        pop r14
        pop r13
        pop r12
        pop r11
        pop r10
        pop r9
        pop r8
        pop rbp
        pop rdi
        pop rsi
        pop rdx
        pop rcx
        pop rbx
        pop rax
        "
    };
}

pub(crate) use {pop_registers, push_registers};
