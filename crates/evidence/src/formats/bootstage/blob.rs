//! Reads the records in the node `/bootstage` of a device tree as it lies in memory (`/sys/firmware/fdt`).
//!
//! Devicetree Specification 0.4, chapter 5: a header of big-endian words, then tokens of four bytes, each at a multiple
//! of four. Token 1 begins a node and is followed by its name. 2 ends a node. 3 is a property: its length, the offset
//! of its name among the texts, its value. 4 is nothing. 9 ends the tree.

use super::Record;
use crate::input::bytes::Bytes;

const MAGIC: u32 = 0xd00d_feed;
const NODE: u32 = 1;
const END_OF_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOTHING: u32 = 4;

/// True if the bytes are such a tree.
pub(crate) fn is_tree(bytes: &[u8]) -> bool {
    word(&mut Bytes(bytes)) == Some(MAGIC)
}

fn word(bytes: &mut Bytes<'_>) -> Option<u32> {
    bytes.take(4)?.first_chunk().copied().map(u32::from_be_bytes)
}

/// The records of the node, each with its offset, and true if the tree is complete.
pub(crate) fn records(file: &[u8]) -> (Vec<(Record<'_>, usize)>, bool) {
    let mut found = Vec::new();
    let whole = walk(file, &mut found).is_some();
    (found, whole)
}

fn walk<'a>(file: &'a [u8], found: &mut Vec<(Record<'a>, usize)>) -> Option<()> {
    const END: u32 = 9;
    let mut head = Bytes(file);
    let (_magic, _size, structure, texts) = (word(&mut head)?, word(&mut head)?, word(&mut head)?, word(&mut head)?);
    let texts = Bytes::from(file, texts.into())?;
    let mut bytes = Bytes::from(file, structure.into())?;
    let (mut depth, mut stages) = (0u32, None);
    loop {
        let at = file.len() - bytes.0.len();
        match word(&mut bytes)? {
            NODE => {
                let name = bytes.text()?;
                aligned(&mut bytes, name.len() + 1)?;
                depth += 1;
                match stages {
                    None if depth == 2 && name == b"bootstage" => stages = Some(depth),
                    Some(of) if depth == of + 1 => found.push((Record { us: 0, name: b"", is_sum: true }, at)),
                    _ => {}
                }
            }
            END_OF_NODE => {
                stages = stages.filter(|of| *of != depth);
                depth = depth.checked_sub(1)?;
            }
            PROPERTY => {
                let (length, name) = (word(&mut bytes)?, word(&mut bytes)?);
                let value = bytes.take(length.into())?;
                aligned(&mut bytes, value.len())?;
                let name = Bytes::from(texts.0, name.into())?.text()?;
                if let (Some(of), Some((record, _))) = (stages, found.last_mut()) {
                    if depth == of + 1 {
                        property(name, value, record);
                    }
                }
            }
            NOTHING => {}
            END => return Some(()),
            _ => return None,
        }
    }
}

/// Skips the bytes that fill up a multiple of four.
fn aligned(bytes: &mut Bytes<'_>, length: usize) -> Option<()> {
    bytes.take((length.next_multiple_of(4) - length) as u64).map(|_| ())
}

/// Reads `name`, `mark` or `accum`.
fn property<'a>(name: &[u8], value: &'a [u8], record: &mut Record<'a>) {
    let us = || word(&mut Bytes(value)).map(u64::from);
    match name {
        b"name" => record.name = value.strip_suffix(b"\0").unwrap_or(value),
        b"mark" => (record.us, record.is_sum) = (us().unwrap_or(0), us().is_none()),
        b"accum" => (record.us, record.is_sum) = (us().unwrap_or(0), true),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bootstage/device-tree.dtb"));

    #[test]
    fn the_records_of_a_tree() {
        let (found, whole) = records(TREE);
        let found: Vec<_> = found.iter().map(|(r, _)| (r.us, String::from_utf8_lossy(r.name), r.is_sum)).collect();
        let expected: [(u64, &str, bool); 4] = [
            (0x52_1e57, "start_kernel", false),
            (0x3b8, "dm_r", true),
            (0x19_04a6, "board_init_f", false),
            (0, "reset", false),
        ];
        assert!(whole && found.iter().zip(expected).all(|(a, b)| (a.0, &*a.1, a.2) == b), "{found:?}");
        assert_eq!(found.len(), expected.len());
        for cut in 0..TREE.len() {
            assert!(records(&TREE[..cut]).0.len() <= 4);
        }
    }

    proptest::proptest! {
        /// A damaged tree is read up to the damage.
        #[test]
        fn damaged_trees_are_read_or_refused(changes in proptest::collection::vec((4usize..200, proptest::prelude::any::<u8>()), 1..9)) {
            let mut bytes = TREE.to_vec();
            changes.into_iter().for_each(|(at, value)| bytes[at] = value);
            proptest::prop_assert!(records(&bytes).0.len() < bytes.len());
        }
    }
}
