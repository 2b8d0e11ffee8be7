//! The layout of one round of evidence in the guest's memory.
//!
//! The guest fills its own pages, which may be anywhere in physical memory. One page, the header, has their addresses:
//!
//! ```text
//! header page
//!   0    8  magic "BTSCOPE\n"
//!   8    4  version, 1
//!  12    4  answer: 0 until the host writes an `Answer`
//!  16    4  round, from 0 up
//!  20    4  flags: 1 = the last round
//!  24    4  frames: data pages of this round
//!  28    4  chunks
//!  32    4  sum of this page, with answer and sum as zero
//!  36    4  sum of the used part of the list pages
//!  40   24  zero
//!  64  512  physical addresses of up to 64 list pages, u64
//! 576 3520  up to 55 chunks: name[32] (NUL-padded), offset u64, bytes u32, sum u32, flags u32 (1 = the file's end),
//!           12 zero
//! list page    512 physical addresses of data pages, u64
//! data pages   the chunks' bytes, one after the other, without gaps
//! ```
//!
//! A sum is that of [`sum`]. All numbers are little-endian, all addresses those of whole 4 KiB pages. A chunk is a
//! piece of a file, `offset` bytes from its start; a file larger than a round continues in the next one. Decoding
//! checks everything except the chunks' contents, and reads nothing outside the given page.

use crate::files;
use twox_hash::XxHash64;

/// Size of a page, of a frame, of the header.
pub const PAGE_BYTES: usize = 4096;
/// Offset in the header to which the host writes its answer.
pub const ANSWER_OFFSET: u64 = 12;
/// The longest name of a file.
pub const NAME_BYTES_MAX: usize = 31;
/// The largest data of one round.
pub const ROUND_BYTES_MAX: usize = 64 << 20;
/// The largest data of one chunk.
pub const CHUNK_BYTES_MAX: u32 = ROUND_BYTES_MAX as u32;
/// The largest number of chunks in one round.
pub const CHUNKS_MAX: usize = (PAGE_BYTES - CHUNKS_AT) / CHUNK_ENTRY_BYTES;
/// The number of addresses in one list page.
pub const LIST_ENTRIES: usize = PAGE_BYTES / 8;

const MAGIC: &[u8; 8] = b"BTSCOPE\n";
const VERSION: u32 = 1;
const LISTS_AT: usize = 64;
const MAX_LISTS: usize = 64;
const CHUNKS_AT: usize = LISTS_AT + MAX_LISTS * 8;
const CHUNK_ENTRY_BYTES: usize = 64;
const _: () = assert!(CHUNKS_AT + CHUNKS_MAX * CHUNK_ENTRY_BYTES == PAGE_BYTES);
const _: () = assert!(ROUND_BYTES_MAX <= MAX_LISTS * LIST_ENTRIES * PAGE_BYTES);

/// The host's answer in the header, after it has examined a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Answer {
    /// The round is complete and stored; the guest may reuse the pages.
    Taken = u32::from_le_bytes(*b"TAKE"),
    /// The round is damaged; look up the pages' addresses and offer it again.
    Retry = u32::from_le_bytes(*b"MORE"),
    /// The memory cannot be used; send the round by the port.
    GiveUp = u32::from_le_bytes(*b"PORT"),
}

impl Answer {
    /// The answer of a header's word; `None` if there is no answer yet.
    pub fn from_word(word: u32) -> Option<Answer> {
        [Answer::Taken, Answer::Retry, Answer::GiveUp].into_iter().find(|&answer| answer as u32 == word)
    }
}

/// A piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The file, by its name in [`files`].
    pub name: &'static str,
    /// Its offset in the file, in bytes.
    pub offset: u64,
    /// Its length.
    pub bytes: u32,
    /// [`sum`] of its bytes.
    pub sum: u32,
    /// True if the file ends with it.
    pub last: bool,
}

/// The header of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the round, counted from 0.
    pub round: u32,
    /// True if no round follows.
    pub last: bool,
    /// The number of data pages.
    pub frames: u32,
    /// Physical addresses of the list pages.
    pub lists: Vec<u64>,
    /// [`sum`] of the used part of the list pages.
    pub lists_sum: u32,
    /// The pieces of files, in the order of their bytes.
    pub chunks: Vec<Chunk>,
}

/// The reason why a page is not a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The page was overwritten, or the header is somewhere else.
    #[error("header or list of pages are damaged (no magic, or a checksum is wrong)")]
    Damaged,
    /// Process 1 and the host have different versions.
    #[error("version {0} of the round, this host knows {VERSION}: use the guest-init that came with this bootscope")]
    Version(u32),
    /// A number in the header is out of bounds.
    #[error("{0} is out of bounds")]
    Bounds(&'static str),
    /// The file is not in the host's list.
    #[error("a file of unknown name")]
    Name,
}

impl Header {
    /// The number of list pages for `frames` data pages.
    pub fn lists_for(frames: usize) -> usize {
        frames.div_ceil(LIST_ENTRIES)
    }

    /// Sum of the chunks' lengths.
    pub fn data_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum()
    }

    /// The page, without an answer.
    ///
    /// # Panics
    /// If there are more lists or chunks than the page can hold: the guest must end its round before that.
    pub fn encode(&self) -> [u8; PAGE_BYTES] {
        assert!(self.lists.len() <= MAX_LISTS && self.chunks.len() <= CHUNKS_MAX, "more than a header page holds");
        let mut page = [0; PAGE_BYTES];
        page[..8].copy_from_slice(MAGIC);
        put_u32(&mut page, 8, VERSION);
        put_u32(&mut page, 16, self.round);
        put_u32(&mut page, 20, u32::from(self.last));
        put_u32(&mut page, 24, self.frames);
        put_u32(&mut page, 28, self.chunks.len() as u32);
        put_u32(&mut page, 36, self.lists_sum);
        for (i, list) in self.lists.iter().enumerate() {
            page[LISTS_AT + 8 * i..][..8].copy_from_slice(&list.to_le_bytes());
        }
        for (i, chunk) in self.chunks.iter().enumerate() {
            let entry = &mut page[CHUNKS_AT + CHUNK_ENTRY_BYTES * i..][..CHUNK_ENTRY_BYTES];
            entry[..chunk.name.len()].copy_from_slice(chunk.name.as_bytes());
            entry[32..40].copy_from_slice(&chunk.offset.to_le_bytes());
            put_u32(entry, 40, chunk.bytes);
            put_u32(entry, 44, chunk.sum);
            put_u32(entry, 48, u32::from(chunk.last));
        }
        let sum = page_sum(&page);
        put_u32(&mut page, 32, sum);
        page
    }

    /// Reads a header page with any content.
    pub fn decode(page: &[u8; PAGE_BYTES]) -> Result<Header, HeaderError> {
        if page[..8] != *MAGIC {
            return Err(HeaderError::Damaged);
        }
        if get_u32(page, 8) != VERSION {
            return Err(HeaderError::Version(get_u32(page, 8)));
        }
        if get_u32(page, 32) != page_sum(page) {
            return Err(HeaderError::Damaged);
        }
        let frames = get_u32(page, 24);
        let lists = Header::lists_for(frames as usize);
        let chunks = get_u32(page, 28) as usize;
        within("the number of frames", lists <= MAX_LISTS && frames as usize * PAGE_BYTES <= ROUND_BYTES_MAX)?;
        within("the number of chunks", chunks <= CHUNKS_MAX)?;
        let lists: Vec<u64> = page[LISTS_AT..][..8 * lists].chunks_exact(8).map(get_u64).collect();
        within("the address of a list", lists.iter().all(|list| list % PAGE_BYTES as u64 == 0))?;
        let entries = page[CHUNKS_AT..][..CHUNK_ENTRY_BYTES * chunks].chunks_exact(CHUNK_ENTRY_BYTES);
        let header = Header {
            round: get_u32(page, 16),
            last: get_u32(page, 20) & 1 != 0,
            frames,
            lists,
            lists_sum: get_u32(page, 36),
            chunks: entries.map(decode_chunk).collect::<Result<_, _>>()?,
        };
        within("the length of the data", header.data_bytes() <= u64::from(frames) * PAGE_BYTES as u64)?;
        Ok(header)
    }
}

fn decode_chunk(entry: &[u8]) -> Result<Chunk, HeaderError> {
    let name = entry[..32].split(|&byte| byte == 0).next().unwrap_or_default();
    let evidence = std::str::from_utf8(name).ok().and_then(files::find).ok_or(HeaderError::Name)?;
    Ok(Chunk {
        name: evidence.name,
        offset: get_u64(&entry[32..40]),
        bytes: get_u32(entry, 40),
        sum: get_u32(entry, 44),
        last: get_u32(entry, 48) & 1 != 0,
    })
}

/// The content of the list pages, one after the other, for these data pages' addresses.
pub fn encode_lists(frames: &[u64]) -> impl Iterator<Item = u8> + '_ {
    frames.iter().flat_map(|frame| frame.to_le_bytes())
}

/// The addresses of the data pages: `lists` are the list pages' bytes, one after the other.
pub fn decode_lists(header: &Header, lists: &[u8]) -> Result<Vec<u64>, HeaderError> {
    let used = lists.get(..header.frames as usize * 8).ok_or(HeaderError::Bounds("the number of frames"))?;
    if sum(used) != header.lists_sum {
        return Err(HeaderError::Damaged);
    }
    let frames: Vec<u64> = used.chunks_exact(8).map(get_u64).collect();
    within("the address of a frame", frames.iter().all(|frame| frame % PAGE_BYTES as u64 == 0))?;
    Ok(frames)
}

fn within(what: &'static str, holds: bool) -> Result<(), HeaderError> {
    holds.then_some(()).ok_or(HeaderError::Bounds(what))
}

/// The checksum of the protocol: the lower half of XXH64. It guards against moved pages and lost bytes, not against
/// malice. An emulated guest computes it ten times as fast as a crc32, which would take most of the transfer's time.
pub fn sum(bytes: &[u8]) -> u32 {
    XxHash64::oneshot(0, bytes) as u32
}

/// The sum of a header page, without the two words that are written later.
fn page_sum(page: &[u8; PAGE_BYTES]) -> u32 {
    let mut page = *page;
    put_u32(&mut page, ANSWER_OFFSET as usize, 0);
    put_u32(&mut page, 32, 0);
    sum(&page)
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn get_u64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Header {
        let chunk = |name, offset, bytes, last| Chunk { name, offset, bytes, sum: 0xdead_beef, last };
        Header {
            round: 3,
            last: true,
            frames: 513,
            lists: vec![0x1000, 0xffff_ffff_f000],
            lists_sum: 17,
            chunks: vec![chunk("kallsyms", u64::MAX, 513 * 4096 - 5, true), chunk("trace.txt", 0, 5, false)],
        }
    }

    #[test]
    fn encoded_headers_are_decoded() {
        assert_eq!(Header::decode(&sample().encode()), Ok(sample()));
        let full = Header { chunks: vec![sample().chunks[1]; CHUNKS_MAX], ..sample() };
        assert_eq!(Header::decode(&full.encode()), Ok(full));
    }

    #[test]
    fn the_sum_is_half_of_xxh64() {
        // From the algorithm's own description: XXH64 of no bytes is ef46db3751d8e999.
        assert_eq!(sum(b""), 0x51d8_e999);
        assert_eq!(sum(b"abc"), 0x44bc_2cf5_ad77_0999_u64 as u32);
    }

    #[test]
    fn the_answer_does_not_change_the_checksum() {
        let mut page = sample().encode();
        put_u32(&mut page, ANSWER_OFFSET as usize, Answer::Retry as u32);
        assert_eq!(Header::decode(&page), Ok(sample()));
        assert_eq!(Answer::from_word(get_u32(&page, ANSWER_OFFSET as usize)), Some(Answer::Retry));
        assert_eq!(Answer::from_word(0), None);
    }

    /// A header whose field at `at` is `value`, with a right checksum.
    fn with(at: usize, value: u32) -> Result<Header, HeaderError> {
        let mut page = sample().encode();
        put_u32(&mut page, at, value);
        let sum = page_sum(&page);
        put_u32(&mut page, 32, sum);
        Header::decode(&page)
    }

    #[test]
    fn values_out_of_bounds_are_named() {
        assert_eq!(with(0, 0), Err(HeaderError::Damaged));
        assert_eq!(with(8, 2), Err(HeaderError::Version(2)));
        assert_eq!(with(24, u32::MAX), Err(HeaderError::Bounds("the number of frames")));
        assert_eq!(with(24, 16385), Err(HeaderError::Bounds("the number of frames")));
        assert_eq!(with(24, 512), Err(HeaderError::Bounds("the length of the data")));
        assert_eq!(with(28, 56), Err(HeaderError::Bounds("the number of chunks")));
        assert_eq!(with(64, 0x1001), Err(HeaderError::Bounds("the address of a list")));
        assert_eq!(with(CHUNKS_AT, u32::from_le_bytes(*b"../x")), Err(HeaderError::Name));
    }

    #[test]
    fn lists_come_back_as_they_were_or_are_refused() {
        let check = |frames: &[u64], change: fn(&mut Vec<u8>)| {
            let mut lists: Vec<u8> = encode_lists(frames).collect();
            let header = Header { frames: frames.len() as u32, lists_sum: sum(&lists), ..sample() };
            lists.resize(lists.len().next_multiple_of(PAGE_BYTES), 0);
            change(&mut lists);
            decode_lists(&header, &lists)
        };
        assert_eq!(check(&[0x3000, 0x1000], |_| ()), Ok(vec![0x3000, 0x1000]));
        assert_eq!(check(&[], |_| ()), Ok(vec![]));
        assert_eq!(check(&[0x1000], |lists| lists[1] ^= 1), Err(HeaderError::Damaged));
        assert_eq!(check(&[0x1000, 0], |lists| lists.truncate(8)), Err(HeaderError::Bounds("the number of frames")));
        assert_eq!(check(&[0x1001], |_| ()), Err(HeaderError::Bounds("the address of a frame")));
    }

    proptest! {
        #[test]
        fn any_bit_that_flips_is_noticed(bit in 0usize..PAGE_BYTES * 8) {
            prop_assume!(!(12..16).contains(&(bit / 8)));
            let mut page = sample().encode();
            page[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Header::decode(&page).is_err());
        }

        #[test]
        fn any_page_with_a_right_checksum_is_decoded_without_panic(
            tail in proptest::collection::vec(any::<u8>(), PAGE_BYTES - 16),
            frames in 0u32..40_000,
            chunks in 0u32..60,
        ) {
            let mut page = sample().encode();
            page[16..].copy_from_slice(&tail);
            put_u32(&mut page, 24, frames);
            put_u32(&mut page, 28, chunks);
            let sum = page_sum(&page);
            put_u32(&mut page, 32, sum);
            if let Ok(header) = Header::decode(&page) {
                prop_assert!(header.data_bytes() <= ROUND_BYTES_MAX as u64);
                prop_assert!(header.chunks.len() <= CHUNKS_MAX);
            }
        }
    }
}
