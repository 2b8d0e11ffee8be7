//! How well calls were followed: figures that go with them, in one order for who writes and who reads.

/// What was met so far, by one vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions.
    pub insns: u64,
    /// Calls.
    pub calls: u64,
    /// Returns to where the call came from.
    pub matched: u64,
    /// Returns that lead elsewhere on purpose: retpolines.
    pub redirected: u64,
    /// Returns that no call is known of.
    pub unmatched: u64,
    /// Calls that were gone before they returned.
    pub dropped: u64,
    /// Jumps to functions.
    pub tail_calls: u64,
    /// Interrupts, exceptions and system calls.
    pub interrupts: u64,
    /// Of these, followed by another before they had called anything.
    pub lost_interrupts: u64,
    /// Blocks that were left before their end.
    pub left_early: u64,
    /// Stacks that appeared.
    pub stacks: u64,
    /// Changes from one stack to another.
    pub switches: u64,
    /// Accesses to memory that were told of and are none of a call's or a return's.
    pub strays: u64,
    /// Calls of which QEMU did not tell the stack pointer.
    pub calls_without_stack: u64,
    /// Returns of that kind.
    pub returns_without_stack: u64,
    /// Nodes for which there was no room: counted in the one that called.
    pub folded: u64,
    /// Calls under way for which there was no room.
    pub deep: u64,
    /// Blocks for which there was no room when they were translated: they are not followed.
    pub blocks_not_followed: u64,
    /// Times that a stack was come to for which there was no room: not told apart from others of that kind.
    pub stacks_without_room: u64,
}

impl Counts {
    /// Each, in the order of the file. A new one is added at the end: files that were written before lack it.
    pub fn fields(&mut self) -> [&mut u64; 19] {
        [
            &mut self.insns,
            &mut self.calls,
            &mut self.matched,
            &mut self.redirected,
            &mut self.unmatched,
            &mut self.dropped,
            &mut self.tail_calls,
            &mut self.interrupts,
            &mut self.lost_interrupts,
            &mut self.left_early,
            &mut self.stacks,
            &mut self.switches,
            &mut self.strays,
            &mut self.calls_without_stack,
            &mut self.returns_without_stack,
            &mut self.folded,
            &mut self.deep,
            &mut self.blocks_not_followed,
            &mut self.stacks_without_room,
        ]
    }

    /// Their values in that order.
    pub fn list(mut self) -> [u64; 19] {
        self.fields().map(|field| *field)
    }
}
