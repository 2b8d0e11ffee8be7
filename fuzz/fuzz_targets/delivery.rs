//! The evidence transfer from a hostile guest. The input is both the output on the port and the guest's memory, with a round's
//! header at address 0. Magic, version and checksums are corrected first, because a hostile guest would get them right.
#![no_main]

use guest_init::delivery::Delivery;
use guest_init::port::{PortEvent, PortReader};
use guest_init::round::{Header, PAGE_BYTES, sum};
use libfuzzer_sys::fuzz_target;
use std::io;

const MAX_BYTES: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    by_port(bytes);
    by_memory(bytes);
});

fn by_port(bytes: &[u8]) {
    let mut delivery = Delivery::new(MAX_BYTES);
    let (mut output, mut kept) = (0, 0);
    PortReader::new().feed(bytes, &mut |event| match event {
        PortEvent::Output(bytes) => output += bytes.len(),
        PortEvent::Chunk(chunk, bytes) => {
            let _ = delivery.take_chunk(&chunk, bytes, &mut |_: &str, bytes: &[u8], _: bool| {
                kept += bytes.len() as u64;
                Ok(())
            });
        }
        PortEvent::Message(_) | PortEvent::Malformed(_) => {}
    });
    assert!(output <= bytes.len());
    assert_eq!(kept, delivery.bytes());
    assert!(kept <= MAX_BYTES);
}

fn by_memory(bytes: &[u8]) {
    let mut memory = bytes.to_vec();
    if memory.len() >= PAGE_BYTES {
        make_right(&mut memory);
    }
    let mut read_at = |phys: u64, buffer: &mut [u8]| {
        buffer.copy_from_slice(part(&memory, phys, buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    };
    let mut kept = 0;
    let mut delivery = Delivery::new(MAX_BYTES);
    let _ = delivery.take_round(0, &mut read_at, &mut |_: &str, bytes: &[u8], _: bool| {
        kept += bytes.len() as u64;
        Ok(())
    });
    assert_eq!(kept, delivery.bytes());
    assert!(kept <= MAX_BYTES);
}

/// Corrects the header and the checksums. `guest_init::round` describes the layout.
fn make_right(memory: &mut [u8]) {
    memory[..12].copy_from_slice(b"BTSCOPE\n\x01\0\0\0");
    let frames = u32::from_le_bytes(memory[24..28].try_into().unwrap()) as usize % 2048;
    let lists: Option<Vec<u8>> = (0..Header::lists_for(frames))
        .map(|i| part(memory, u64_at(memory, 64 + 8 * i), PAGE_BYTES))
        .collect::<Option<Vec<_>>>()
        .map(|lists| lists.concat());
    if let Some(lists) = lists {
        put_u32(memory, 36, sum(&lists[..8 * frames]));
        let pages = lists[..8 * frames].chunks_exact(8).map(|at| u64::from_le_bytes(at.try_into().unwrap()));
        let data: Vec<u8> = pages.map_while(|at| part(memory, at, PAGE_BYTES)).collect::<Vec<_>>().concat();
        let mut data = data.as_slice();
        for chunk in (576..PAGE_BYTES).step_by(64) {
            let length = u32::from_le_bytes(memory[chunk + 40..chunk + 44].try_into().unwrap()) as usize;
            let Some((bytes, rest)) = data.split_at_checked(length) else { break };
            put_u32(memory, chunk + 44, sum(bytes));
            data = rest;
        }
    }
    put_u32(memory, 12, 0);
    put_u32(memory, 32, 0);
    let header_sum = sum(&memory[..PAGE_BYTES]);
    put_u32(memory, 32, header_sum);
}

fn part(memory: &[u8], phys: u64, length: usize) -> Option<&[u8]> {
    let from = usize::try_from(phys).ok()?;
    memory.get(from..from.checked_add(length)?)
}

fn u64_at(memory: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(memory[at..at + 8].try_into().unwrap())
}

fn put_u32(memory: &mut [u8], at: usize, value: u32) {
    memory[at..at + 4].copy_from_slice(&value.to_le_bytes());
}
