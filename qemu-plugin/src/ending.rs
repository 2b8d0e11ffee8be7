//! How a block of code ends. An architecture's decoder tells it (`arch`).

/// What the last instruction of a block does. The numbers are those of the file format; the reader's counterpart is in
/// `crates/evidence/src/first_run.rs`, which this object shares no code with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ending {
    /// Anything that is none of the others: the block was cut at a page's end or its greatest length, or of another architecture.
    Other = 0,
    /// Call of a fixed address.
    Call = 1,
    /// Call through a register or memory, or to another segment.
    CallIndirect = 2,
    /// Near or far return.
    Return = 3,
    /// Jump to a fixed address.
    Jump = 4,
    /// Conditional jump.
    Branch = 5,
    /// Jump through a register or memory, or to another segment.
    JumpIndirect = 6,
    /// Return from an interrupt or a system call.
    InterruptReturn = 7,
    /// Stops until an interrupt.
    Halt = 8,
    /// System call, software interrupt, breakpoint, invalid on purpose.
    Trap = 9,
}
