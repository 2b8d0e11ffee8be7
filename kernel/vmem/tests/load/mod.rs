//! The load on illumos' `heap_arena` in bug 12262. Starting a network card allocates 917 504 DMA buffers, and stopping it
//! frees them in the same order.
//!
//! # Other segments in the hash
//! In 16 buckets of equal length the buffers alone take 26 306 215 936 chain steps. The published number is 27 606 301 196,
//! 4.9 % more. So about 45 000 other segments were allocated among the buffers and stayed. Their number is not chosen to
//! fit: it follows from the objects allocated with each buffer, and from the way kmem takes memory from `heap_arena`.
//!
//! * Each receive buffer has one DMA handle. Each transmit buffer has three: one for itself, and two for binding packets,
//!   one of them for segmentation offload. (i40e, `i40e_alloc_rx_dma`, `i40e_alloc_tx_dma`.)
//! * A DMA handle holds the state of a transfer: 65 cookies of 24 bytes, 4 windows of 112, 2 pages of 24. Further parts
//!   take 184 and 336 bytes, and 16 for alignment. Aligned to 64 bytes this is 2624. (rootnex.)
//! * Each buffer has an access handle (320 bytes), its error state (40), its trap data (112), and an entry in the tree of
//!   contiguous memory (40). (`impl_acc_hdl_alloc`, `ctgas`.)
//! * A kmem cache takes slabs by a rule ([`Cache::new`]). All slabs up to 32 KiB come from quantum caches of `kmem_va`,
//!   which take 128 KiB at a time from `heap_arena`. So 128 KiB of objects are one segment in the hash.
//! * Objects that are freed meanwhile stay in kmem's magazines: no slab becomes free, and no segment is freed.
//!
//! That makes 39 283 segments. Message blocks, the caches' own slab structures, boundary tags and the driver's tables are
//! left out: they are small, and we did not look up their sizes. They would be about 0.3 % of the buffers.

#![allow(dead_code, reason = "a test and a bench use a part each")]

use vmem::{Arena, Bucket, Request, Tag};

const RINGS: u32 = 0x100;
const RECEIVE_PER_RING: u32 = 0x400 + 0x400;
const TRANSMIT_PER_RING: u32 = 0x600;
/// Number of buffers of the reported card.
pub const BUFFERS: u32 = RINGS * (RECEIVE_PER_RING + TRANSMIT_PER_RING);
/// Published chain steps: with the initial hash, and with a hash that was resized in time.
pub const PUBLISHED: (u64, u64) = (27_606_301_196, 228_351);

const PAGE: u64 = 4096;
/// Size that kmem's quantum caches allocate at once.
const KMEM_SLAB: u64 = 128 << 10;
/// Approximate address of heap_arena on the reported machine.
const HEAP: u64 = 0xffff_c133_0000_0000;

/// A kmem cache: the number of objects per segment of the heap, and the number left in the last segment.
struct Cache {
    per_segment: u64,
    left: u64,
}

impl Cache {
    /// Small objects come in slabs of a page, which end with the slab's structure. Larger objects come in the slab with the
    /// least waste per object, among the slabs for up to eight objects.
    fn new(object: u64) -> Cache {
        const SLAB_STRUCTURE: u64 = 80;
        let (slab, objects) = if object < PAGE / 8 {
            (PAGE, (PAGE - SLAB_STRUCTURE) / object)
        } else {
            let (mut best, mut least_waste, mut objects) = ((0, 0), u64::MAX, 1);
            while objects <= 8 {
                let slab = (objects * object).next_multiple_of(PAGE);
                objects = slab / object;
                let waste = slab % object / objects;
                if waste < least_waste {
                    (best, least_waste) = ((slab, objects), waste);
                }
                objects += 1;
            }
            best
        };
        Cache { per_segment: KMEM_SLAB / slab * objects, left: 0 }
    }

    fn take(&mut self, objects: u64, heap: &mut Arena) {
        for _ in 0..objects {
            if self.left == 0 {
                heap.allocate(&Request::new(KMEM_SLAB)).expect("a heap as large as that");
                self.left = self.per_segment;
            }
            self.left -= 1;
        }
    }
}

/// The times at which `vmem_update` runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// After the drivers attached, which is after the buffers are freed.
    Late,
    /// Once before the drivers attach, and then as late as [`Late`](Update::Late).
    Once,
    /// Each time this number of buffers was allocated, and so before the buffers are freed.
    Every(u32),
}

/// The counts of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Chain steps while the buffers were freed.
    pub steps: u64,
    /// Number of segments that are not the driver's buffers.
    pub others: u64,
    /// Number of buckets when freeing began.
    pub buckets: usize,
}

/// Starts and stops a card with this number of rings.
pub fn start_and_stop(rings: u32, update: Update) -> Counted {
    let buffers = rings * (RECEIVE_PER_RING + TRANSMIT_PER_RING);
    let tags = vec![Tag::new(); buffers as usize * 11 / 10 + 64].leak();
    let mut heap = Arena::new(PAGE).expect("a power of two");
    heap.add_tags(tags).expect("the first piece");
    heap.add(HEAP, 1 << 40).expect("the first span");
    let vmem_update = |heap: &mut Arena| {
        if let Some(buckets) = heap.wanted_buckets() {
            heap.update(Some(vec![Bucket::new(); buckets].leak()));
        }
    };
    if update == Update::Once {
        vmem_update(&mut heap);
    }

    let (mut handles, mut small) =
        (Cache::new(2624), [(1, 320), (1, 112), (2, 40)].map(|(n, size)| (n, Cache::new(size))));
    let mut started = Vec::with_capacity(buffers as usize);
    for _ in 0..rings {
        for buffer in 0..RECEIVE_PER_RING + TRANSMIT_PER_RING {
            handles.take(if buffer < RECEIVE_PER_RING { 1 } else { 3 }, &mut heap);
            small.iter_mut().for_each(|(objects, cache)| cache.take(*objects, &mut heap));
            started.push(heap.allocate(&Request::new(PAGE)).expect("a heap as large as that"));
            if let Update::Every(many) = update {
                if started.len() as u32 % many == 0 {
                    vmem_update(&mut heap);
                }
            }
        }
    }
    let others = heap.counters().alloc - u64::from(buffers);
    let (before, at_stop) = (heap.counters().lookup, heap.buckets());
    started.into_iter().for_each(|buffer| heap.free(buffer, PAGE).expect("allocated"));
    Counted { steps: heap.counters().lookup - before, others, buckets: at_stop }
}
