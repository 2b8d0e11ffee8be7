//! Packets from a gdbstub, which arrive in two pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::gdb::{Packets, Received};

fuzz_target!(|input: (usize, &[u8])| {
    let (cut, bytes) = input;
    let (first, second) = bytes.split_at(cut.min(bytes.len()));
    let mut packets = Packets::default();
    let found = [packets.feed(first), packets.feed(second)].concat();
    // The split of the bytes makes no difference, and no packet is larger than the largest request.
    assert_eq!(found, Packets::default().feed(bytes));
    let is_small = |received: &Received| !matches!(received, Received::Packet(data) if data.len() > 64 << 10);
    assert!(found.iter().all(is_small));
});
