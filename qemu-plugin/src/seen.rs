//! The set of blocks that have been noted: fixed size, open addressing, no deletion.
//!
//! A block is known by its virtual address and the place in host memory that its code lies at: two programs at the
//! same virtual address are two blocks, and code that was patched in place is still the same one. Only a 64-bit hash
//! of the two is kept; two different blocks share one with a probability of 2^-45 per boot (half a million blocks).

/// Slots: 4 MiB of memory, of which the kernel gives what is touched. A stock boot to process 1 fills about a third.
const SLOTS: usize = 1 << 19;
/// Entries at which the set is full: longer runs of taken slots would cost more than the blocks are worth.
const FULL: usize = SLOTS / 4 * 3;
/// Entries at which it is full for the lower half of the address space, so that many programs in user space (each at
/// its own random address) cannot use up the room of a kernel that loads modules at the same time.
const FULL_FOR_LOWER_HALF: usize = SLOTS / 2;

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was not there and is now.
    New,
    /// It was there.
    Known,
    /// It was not there, and there is no room.
    Full,
}

/// The set.
pub struct Seen {
    slots: Box<[u64]>,
    len: usize,
    upper_half_ran: bool,
    user_blocks: usize,
}

impl Default for Seen {
    /// An empty set; the only allocation.
    fn default() -> Seen {
        Seen { slots: vec![0; SLOTS].into_boxed_slice(), len: 0, upper_half_ran: false, user_blocks: 0 }
    }
}

impl Seen {
    /// Adds the block at virtual address `vaddr` whose code lies at `host` in QEMU's memory (0: not known).
    pub fn add(&mut self, vaddr: u64, host: u64) -> Answer {
        let key = mix(vaddr ^ mix(host).rotate_left(1)) | 1; // 0 marks a free slot
        let mut slot = (key >> 45) as usize;
        while self.slots[slot] != 0 {
            if self.slots[slot] == key {
                return Answer::Known;
            }
            slot = (slot + 1) % SLOTS;
        }
        // Kernels of x86-64, arm64 and riscv64 run in the upper half of all addresses, firmware and user space in the lower.
        let lower_half = vaddr >> 63 == 0;
        if self.len >= if lower_half { FULL_FOR_LOWER_HALF } else { FULL } {
            return Answer::Full;
        }
        self.slots[slot] = key;
        self.len += 1;
        self.upper_half_ran |= !lower_half;
        self.user_blocks += usize::from(lower_half && self.upper_half_ran);
        Answer::New
    }

    /// How many blocks of the lower half ran after the first one of the upper half.
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
        let mut seen = Seen::default();
        assert_eq!(seen.add(0x1000, 7), Answer::New);
        assert_eq!(seen.add(0x1000, 7), Answer::Known);
        assert_eq!(seen.add(0x1000, 8), Answer::New, "another page at the same address");
        assert_eq!(seen.add(0x1001, 7), Answer::New);
        assert_eq!(seen.add(0, 0), Answer::New, "the free slot's mark is no block");
        assert_eq!(seen.add(0, 0), Answer::Known);
    }

    #[test]
    fn user_space_is_what_runs_low_after_the_kernel_ran_high() {
        let mut seen = Seen::default();
        seen.add(0x10_0000, 1);
        assert_eq!(seen.user_blocks(), 0, "firmware");
        seen.add(0xffff_ffff_8100_0000, 2);
        assert_eq!(seen.user_blocks(), 0, "the kernel");
        seen.add(0x40_1000, 3);
        seen.add(0x40_1000, 3);
        assert_eq!(seen.user_blocks(), 1, "each block once");
    }

    #[test]
    fn full_for_user_space_before_the_kernel() {
        let mut seen = Seen::default();
        let news = (0..SLOTS as u64).filter(|i| seen.add(i * 16, 0) == Answer::New).count();
        assert_eq!(news, FULL_FOR_LOWER_HALF);
        assert_eq!(seen.add(0, 0), Answer::Known, "what is in stays known");
        let kernel = 0xffff_ffff_8000_0000u64;
        let news = (0..SLOTS as u64).filter(|i| seen.add(kernel + i * 16, 0) == Answer::New).count();
        assert_eq!(news, FULL - FULL_FOR_LOWER_HALF);
        assert_eq!(seen.add(kernel + 1, 0), Answer::Full);
    }
}
