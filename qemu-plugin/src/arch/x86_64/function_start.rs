//! Recognises the beginning of a function from the bytes of its first two instructions.
//!
//! Only this separates a function that is only ever jumped to (a tail call) from the rest of its caller. So the test is
//! strict: it accepts only instructions that compilers put at the start of functions and nowhere else. Opcodes are as
//! in the Intel SDM, volume 2; `-mfentry` is as in GCC's manual. This module does not depend on QEMU.

/// The compiler's place for tracers: a nop of five bytes while no tracer uses it.
const FENTRY_NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];

/// True if the instructions at `start` are a function's first.
pub fn begins_function(start: u64, first: &[u8], second: &[u8]) -> bool {
    match first {
        // endbr64, endbr32
        [0xf3, 0x0f, 0x1e, 0xfa | 0xfb] => true,
        // push %rbp; mov %rsp, %rbp, in 64-bit and in 32-bit code
        [0x55] => matches!(second, [0x48, 0x89, 0xe5] | [0x48, 0x8b, 0xec] | [0x89, 0xe5] | [0x8b, 0xec]),
        // The same nop also replaces disabled jumps, but there it is seldom aligned like this.
        _ => first == FENTRY_NOP && start % 16 == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::begins_function;

    #[test]
    fn function_starts_are_recognised() {
        let nop = [0x0f, 0x1f, 0x44, 0, 0];
        assert!(begins_function(0x1000, &nop, &[0x55]) && !begins_function(0x1008, &nop, &[0x55]));
        assert!(begins_function(0x1004, &[0xf3, 0x0f, 0x1e, 0xfa], &[]));
        assert!(
            begins_function(0x1001, &[0x55], &[0x48, 0x89, 0xe5]) && begins_function(0x1001, &[0x55], &[0x89, 0xe5])
        );
        assert!(!begins_function(0x1000, &[0x55], &[0x53]) && !begins_function(0x1000, &[0xe8, 0, 0, 0, 0], &[]));
    }
}
