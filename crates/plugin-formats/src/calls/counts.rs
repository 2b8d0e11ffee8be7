//! The plugin's counts of followed calls and of failures to follow. The writer and the reader use the same order.

/// The counts of one vCPU until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions.
    pub insns: u64,
    pub calls: u64,
    /// Returns to the instruction after their call.
    pub matched: u64,
    /// Returns that intentionally go elsewhere: retpolines.
    pub redirected: u64,
    /// Returns without a known call.
    pub unmatched: u64,
    /// Calls whose frames were gone before they returned (`longjmp`, a reused stack).
    pub dropped: u64,
    /// Jumps to functions.
    pub tail_calls: u64,
    /// Interrupts, exceptions and system calls.
    pub interrupts: u64,
    /// Interrupts, exceptions and system calls that another one followed before they had called anything.
    pub lost_interrupts: u64,
    /// Blocks left before their end.
    pub left_early: u64,
    pub stacks: u64,
    /// Changes from one stack to another.
    pub switches: u64,
    /// Memory accesses reported by QEMU that belong to no call and no return.
    pub strays: u64,
    /// Calls whose stack pointer QEMU did not report.
    pub calls_without_stack: u64,
    /// Returns whose stack pointer QEMU did not report.
    pub returns_without_stack: u64,
    /// Nodes beyond the node table's capacity: their time is counted in the caller's node.
    pub folded: u64,
    /// Calls beyond the largest call depth.
    pub deep: u64,
    /// Blocks beyond the block table's capacity at translation: calls in them are not followed.
    pub blocks_not_followed: u64,
    /// Changes of a vCPU to a stack beyond the stack table's capacity. All such stacks count as one.
    pub stacks_without_room: u64,
    /// Records beyond the file's size limit: single calls, changes of stacks, sleeps.
    pub records_left_out: u64,
}

impl Counts {
    /// All fields, in the order of the file. Add a new one at the end: older files lack it.
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

    /// The values in that order.
    pub fn list(mut self) -> [u64; 20] {
        self.fields().map(|field| *field)
    }
}
