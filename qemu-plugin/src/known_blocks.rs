//! The set of recorded blocks: fixed size, open addressing, no deletion.
//!
//! A block's identity is its virtual address and the address of its code in host memory. So two programs at one virtual
//! address are two blocks, and code patched in place stays the same block. Only a 64-bit hash of the two is kept. Two
//! different blocks share one with a probability of 2^-45 per boot (half a million blocks).

/// The number of slots: 4 MiB of memory, which the kernel allocates when it is touched. A stock boot to process 1 fills
/// about a third.
const SLOTS: usize = 1 << 19;
/// The number of entries at which the set is full: longer runs of taken slots would cost more than the blocks are
/// worth.
const MAX_BLOCKS: usize = SLOTS / 4 * 3;
/// The number of entries at which it is full for the lower half of the address space. Many programs in user space, each
/// at its own random address, then leave room for a kernel that loads modules at the same time.
const MAX_LOWER_HALF_BLOCKS: usize = SLOTS / 2;

/// The result of adding a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The block was added.
    New,
    /// The block was already in the set.
    Known,
    /// The block is not in the set, and there is no room.
    Full,
}

pub struct KnownBlocks {
    slots: Box<[u64]>,
    len: usize,
    upper_half_ran: bool,
    user_blocks: usize,
}

impl Default for KnownBlocks {
    /// An empty set. This is its only allocation.
    fn default() -> KnownBlocks {
        KnownBlocks { slots: vec![0; SLOTS].into_boxed_slice(), len: 0, upper_half_ran: false, user_blocks: 0 }
    }
}

impl KnownBlocks {
    /// Adds the block at virtual address `vaddr` whose code is at `host` in QEMU's memory (0: unknown).
    pub fn add(&mut self, vaddr: u64, host: u64) -> Answer {
        let key = mix(vaddr ^ mix(host).rotate_left(1)) | 1; // 0 marks a free slot
        let mut slot = (key >> 45) as usize;
        while self.slots[slot] != 0 {
            if self.slots[slot] == key {
                return Answer::Known;
            }
            slot = (slot + 1) % SLOTS;
        }
        // Kernels of x86-64, arm64 and riscv64 run in the upper half of all addresses, firmware and user space in the
        // lower half.
        let lower_half = vaddr >> 63 == 0;
        if self.len >= if lower_half { MAX_LOWER_HALF_BLOCKS } else { MAX_BLOCKS } {
            return Answer::Full;
        }
        self.slots[slot] = key;
        self.len += 1;
        self.upper_half_ran |= !lower_half;
        self.user_blocks += usize::from(lower_half && self.upper_half_ran);
        Answer::New
    }

    /// The number of blocks of the lower half that ran after the first one of the upper half.
    pub fn user_blocks(&self) -> usize {
        self.user_blocks
    }
}

/// The finishing step of splitmix64: every bit of the address reaches every bit of the key.
fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_new_once() {
        let mut blocks = KnownBlocks::default();
        assert_eq!(blocks.add(0x1000, 7), Answer::New);
        assert_eq!(blocks.add(0x1000, 7), Answer::Known);
        assert_eq!(blocks.add(0x1000, 8), Answer::New, "another page at the same address");
        assert_eq!(blocks.add(0x1001, 7), Answer::New);
        assert_eq!(blocks.add(0, 0), Answer::New, "the free slot's mark is no block");
        assert_eq!(blocks.add(0, 0), Answer::Known);
    }

    #[test]
    fn user_space_is_what_runs_low_after_the_kernel_ran_high() {
        let mut blocks = KnownBlocks::default();
        blocks.add(0x10_0000, 1);
        assert_eq!(blocks.user_blocks(), 0, "firmware");
        blocks.add(0xffff_ffff_8100_0000, 2);
        assert_eq!(blocks.user_blocks(), 0, "the kernel");
        blocks.add(0x40_1000, 3);
        blocks.add(0x40_1000, 3);
        assert_eq!(blocks.user_blocks(), 1, "each block once");
    }

    #[test]
    fn full_for_user_space_before_the_kernel() {
        let mut blocks = KnownBlocks::default();
        let news = (0..SLOTS as u64).filter(|i| blocks.add(i * 16, 0) == Answer::New).count();
        assert_eq!(news, MAX_LOWER_HALF_BLOCKS);
        assert_eq!(blocks.add(0, 0), Answer::Known, "what is in stays known");
        let kernel = 0xffff_ffff_8000_0000u64;
        let news = (0..SLOTS as u64).filter(|i| blocks.add(kernel + i * 16, 0) == Answer::New).count();
        assert_eq!(news, MAX_BLOCKS - MAX_LOWER_HALF_BLOCKS);
        assert_eq!(blocks.add(kernel + 1, 0), Answer::Full);
    }
}
