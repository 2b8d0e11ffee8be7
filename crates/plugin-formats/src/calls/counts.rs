//! How well the plugin followed the calls: what it counted. One list gives the order to the writer and the reader.

/// What one vCPU has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions.
    pub insns: u64,
    /// Calls.
    pub calls: u64,
    /// Returns to the instruction after their call.
    pub matched: u64,
    /// Returns that lead elsewhere on purpose: retpolines.
    pub redirected: u64,
    /// Returns without a known call.
    pub unmatched: u64,
    /// Calls whose frames were gone before they returned (`longjmp`, a stack that is used anew).
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
    /// Memory accesses that QEMU reported and that belong to no call or return.
    pub strays: u64,
    /// Calls whose stack pointer QEMU did not report.
    pub calls_without_stack: u64,
    /// Returns whose stack pointer QEMU did not report.
    pub returns_without_stack: u64,
    /// Nodes for which there was no room: their time is counted in the caller's node.
    pub folded: u64,
    /// Calls under way for which there was no room.
    pub deep: u64,
    /// Blocks for which there was no room when QEMU translated them: calls in them are not followed.
    pub blocks_not_followed: u64,
    /// Times that a vCPU changed to a stack for which there was no room. All such stacks count as one.
    pub stacks_without_room: u64,
    /// Records for which there was no room in the file: calls one by one, changes of stacks, sleeps.
    pub records_left_out: u64,
}

impl Counts {
    /// Each, in the order of the file. Add a new one at the end: older files lack it.
    pub fn fields(&mut self) -> [&mut u64; 20] {
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
            &mut self.records_left_out,
        ]
    }

    /// Their values in that order.
    pub fn list(mut self) -> [u64; 20] {
        self.fields().map(|field| *field)
    }
}
