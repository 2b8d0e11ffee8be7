//! Tests taking rounds from a guest's memory: the result is what was sent, or the reason why not.

use guest_init::delivery::{Delivery, Error};
use guest_init::round::{Answer, Chunk, Header, PAGE_BYTES, encode_lists, sum};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io;

/// A guest's memory with an offer in it: the header in page 0, then lists, then data pages in a given disorder.
struct Guest {
    memory: Vec<u8>,
}

impl Guest {
    fn offer(round: u32, files: &[(&'static str, u64, &[u8], bool)], swap: bool) -> Guest {
        let data: Vec<u8> = files.iter().flat_map(|file| file.2.iter().copied()).collect();
        let frames = data.len().div_ceil(PAGE_BYTES);
        let lists = Header::lists_for(frames);
        let mut order: Vec<usize> = (0..frames).collect();
        if swap {
            order.reverse();
        }
        let address = |frame: usize| ((1 + lists + order[frame]) * PAGE_BYTES) as u64;
        let mut memory = vec![0; (1 + lists + frames) * PAGE_BYTES];
        let listed: Vec<u8> = encode_lists(&(0..frames).map(address).collect::<Vec<_>>()).collect();
        memory[PAGE_BYTES..][..listed.len()].copy_from_slice(&listed);
        for (frame, bytes) in data.chunks(PAGE_BYTES).enumerate() {
            memory[address(frame) as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        let header = Header {
            round,
            last: false,
            frames: frames as u32,
            lists_sum: sum(&listed),
            lists: (0..lists).map(|list| ((1 + list) * PAGE_BYTES) as u64).collect(),
            chunks: files
                .iter()
                .map(|&(name, offset, bytes, last)| Chunk {
                    name,
                    offset,
                    bytes: bytes.len() as u32,
                    sum: sum(bytes),
                    last,
                })
                .collect(),
        };
        memory[..PAGE_BYTES].copy_from_slice(&header.encode());
        Guest { memory }
    }

    fn read_at(&self, phys: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(phys).unwrap_or(usize::MAX);
        let bytes = from.checked_add(buffer.len()).and_then(|to| self.memory.get(from..to));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A host with everything it has received.
struct Host {
    delivery: Delivery,
    files: BTreeMap<&'static str, (Vec<u8>, bool)>,
}

impl Host {
    fn new(bytes_max: u64) -> Host {
        Host { delivery: Delivery::new(bytes_max), files: BTreeMap::new() }
    }

    fn take(&mut self, guest: &Guest) -> Result<(), Error> {
        let files = &mut self.files;
        self.delivery
            .take_round(0, &mut |phys, buffer| guest.read_at(phys, buffer), &mut |name, bytes: &[u8], last| {
                let file: &mut (Vec<u8>, bool) = files.entry(name).or_default();
                assert!(!file.1, "{name} goes on after its end");
                file.0.extend_from_slice(bytes);
                file.1 = last;
                Ok(())
            })
            .map(|_| ())
    }
}

#[test]
fn files_are_transferred_whole_over_several_rounds() {
    let big: Vec<u8> = (0..3 * PAGE_BYTES as u32 * 600).map(|i| (i >> 7) as u8 ^ i as u8).collect();
    let (head, tail) = big.split_at(PAGE_BYTES * 599 + 17);
    let mut host = Host::new(u64::MAX);
    host.take(&Guest::offer(0, &[("kmsg.log", 0, b"", true), ("kallsyms", 0, head, false)], true)).unwrap();
    assert_eq!(host.delivery.unfinished().collect::<Vec<_>>(), [("kallsyms", head.len() as u64)]);
    host.take(&Guest::offer(1, &[("kallsyms", head.len() as u64, tail, true), ("iomem.txt", 0, b"x", true)], false))
        .unwrap();
    assert_eq!(host.delivery.unfinished().count(), 0);
    assert_eq!(host.delivery.bytes(), big.len() as u64 + 1);
    assert_eq!(host.files["kallsyms"], (big, true));
    assert_eq!(host.files["iomem.txt"], (b"x".to_vec(), true));
    assert_eq!(host.files["kmsg.log"], (vec![], true));
}

#[test]
fn a_piece_that_comes_again_is_counted_and_kept_once() {
    let mut host = Host::new(u64::MAX);
    let guest = Guest::offer(0, &[("kmsg.log", 0, b"abc", false)], false);
    host.take(&guest).unwrap();
    host.take(&guest).unwrap();
    let rest = Chunk { name: "kmsg.log", offset: 3, bytes: 1, sum: sum(b"d"), last: true };
    let mut end = Vec::new();
    let mut sink = |_: &'static str, bytes: &[u8], last| {
        end.push((bytes.to_vec(), last));
        Ok(())
    };
    host.delivery.take_chunk(&rest, b"d", &mut sink).unwrap();
    host.delivery.take_chunk(&rest, b"d", &mut sink).unwrap();
    assert_eq!(end, [(b"d".to_vec(), true)]);
    assert_eq!(host.files["kmsg.log"].0, b"abc");
    assert_eq!(host.delivery.repeats(), 2);
}

#[test]
fn errors_are_reported_and_answered() {
    let offer = |name, offset, bytes| Guest::offer(0, &[(name, offset, bytes, true)], false);
    let check = |host: &mut Host, guest: &Guest, answer, text: &str| {
        let error = host.take(guest).unwrap_err();
        assert_eq!((error.answer(), error.to_string().as_str()), (answer, text));
        assert!(host.files.is_empty(), "nothing of a bad round is kept");
    };
    let host = &mut Host::new(10);

    check(host, &offer("trace.txt", 5, b"x"), Answer::GiveUp, "trace.txt: bytes 0 to 5 are missing");
    let text = "trace.txt: the guest sends more than 10 bytes in all";
    check(host, &offer("trace.txt", 0, b"12345678901"), Answer::GiveUp, text);

    let mut guest = Guest::offer(0, &[("kmsg.log", 0, b"good", true), ("trace.txt", 0, b"bad", true)], false);
    guest.memory[2 * PAGE_BYTES + 5] ^= 1;
    check(host, &guest, Answer::Retry, "trace.txt: the 3 bytes at 0 are damaged (checksum)");

    let mut guest = offer("kmsg.log", 0, b"x");
    guest.memory.truncate(2 * PAGE_BYTES);
    let text = "guest memory at 0x2000 cannot be read: unexpected end of file";
    check(host, &guest, Answer::GiveUp, text);

    let mut guest = offer("kmsg.log", 0, b"x");
    guest.memory[PAGE_BYTES] ^= 1;
    let text = "round: header or list of pages are damaged (no magic, or a checksum is wrong)";
    check(host, &guest, Answer::Retry, text);

    let mut guest = offer("kmsg.log", 0, b"x");
    guest.memory[100] ^= 1;
    check(host, &guest, Answer::Retry, text);

    let failed = host.delivery.take_chunk(
        &Chunk { name: "kmsg.log", offset: 0, bytes: 1, sum: sum(b"x"), last: true },
        b"x",
        &mut |_: &'static str, _: &[u8], _| Err(io::ErrorKind::StorageFull.into()),
    );
    assert_eq!(failed.unwrap_err().to_string(), "kmsg.log cannot be written: no storage space");
}

#[test]
fn a_guest_that_offers_the_same_damage_for_ever_is_read_a_bounded_number_of_times() {
    let data = vec![7; 4 << 20];
    let mut guest = Guest::offer(0, &[("kmsg.log", 0, &data, true)], false);
    let lists = Header::lists_for(data.len() / PAGE_BYTES);
    guest.memory[(1 + lists) * PAGE_BYTES] ^= 1;
    let (mut delivery, mut read) = (Delivery::new(1 << 20), 0);
    let mut last = None;
    for _ in 0..200 {
        let mut read_at = |phys, buffer: &mut [u8]| {
            read += buffer.len();
            guest.read_at(phys, buffer)
        };
        let taken = delivery.take_round(0, &mut read_at, &mut |_: &'static str, _: &[u8], _| Ok(()));
        last = Some(taken.unwrap_err());
    }
    let last = last.unwrap();
    assert!(matches!(last, Error::TooOften { .. }) && last.answer() == Answer::GiveUp, "{last}");
    assert!(delivery.is_spent());
    // One whole round, four times the largest transfer, and the last offer.
    assert!(read < (64 + 4 + 5) << 20, "{} MiB were read", read >> 20);
}

proptest! {
    // A found failure is to become its own test, so files of seeds are not kept.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_contents_are_transferred_unchanged(
        a in proptest::collection::vec(any::<u8>(), 0..20_000),
        b in proptest::collection::vec(any::<u8>(), 0..20_000),
        cut in 0usize..20_000,
        swap: bool,
    ) {
        let (head, tail) = b.split_at(cut.min(b.len()));
        let mut host = Host::new(u64::MAX);
        host.take(&Guest::offer(0, &[("iomem.txt", 0, &a, true), ("trace.txt", 0, head, false)], swap)).unwrap();
        host.take(&Guest::offer(1, &[("trace.txt", head.len() as u64, tail, true)], swap)).unwrap();
        prop_assert_eq!(&host.files["iomem.txt"], &(a, true));
        prop_assert_eq!(&host.files["trace.txt"], &(b, true));
    }

    #[test]
    fn damage_anywhere_is_refused_or_harmless(at in 0usize..4 * PAGE_BYTES, bit in 0u8..8, swap: bool) {
        let text: Vec<u8> = (0..PAGE_BYTES as u32 + 100).map(|i| (i % 251) as u8).collect();
        let mut guest = Guest::offer(0, &[("kmsg.log", 0, &text, true)], swap);
        guest.memory[at] ^= 1 << bit;
        let mut host = Host::new(1 << 20);
        match host.take(&guest) {
            Ok(()) => prop_assert_eq!(&host.files["kmsg.log"], &(text, true)),
            Err(_) => prop_assert!(host.files.is_empty()),
        }
    }
}
