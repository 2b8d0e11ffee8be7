//! Whether code begins as a function does, read from the bytes of its first two instructions.
//!
//! A function that is only ever jumped to (a tail call) can be separated from the rest of its caller by this alone. So it is
//! strict: what compilers put at the start of functions and nowhere else. Opcodes as in the Intel SDM, volume 2;
//! `-mfentry` as in GCC's manual. Knows nothing of QEMU.

/// The compiler's place for tracers: a nop of five bytes, while nobody traces.
const FENTRY_NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];

/// Whether the instructions at `start` are a function's first.
pub fn is_of_function(start: u64, first: &[u8], second: &[u8]) -> bool {
    match first {
        // endbr64, endbr32
        [0xf3, 0x0f, 0x1e, 0xfa | 0xfb] => true,
        // push %rbp; mov %rsp, %rbp, in 64-bit and in 32-bit code
        [0x55] => matches!(second, [0x48, 0x89, 0xe5] | [0x48, 0x8b, 0xec] | [0x89, 0xe5] | [0x8b, 0xec]),
        // The same nop stands for jumps that are switched off, but seldom so that it is aligned.
        _ => first == FENTRY_NOP && start % 16 == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::is_of_function;

    #[test]
    fn functions_begin_as_compilers_have_them() {
        let nop = [0x0f, 0x1f, 0x44, 0, 0];
        assert!(is_of_function(0x1000, &nop, &[0x55]) && !is_of_function(0x1008, &nop, &[0x55]));
        assert!(is_of_function(0x1004, &[0xf3, 0x0f, 0x1e, 0xfa], &[]));
        assert!(is_of_function(0x1001, &[0x55], &[0x48, 0x89, 0xe5]) && is_of_function(0x1001, &[0x55], &[0x89, 0xe5]));
        assert!(!is_of_function(0x1000, &[0x55], &[0x53]) && !is_of_function(0x1000, &[0xe8, 0, 0, 0, 0], &[]));
    }
}
