//! Compressed data in the formats that kernels accept: recognises the format, and unpacks.
//!
//! The data is not trusted: the unpacked size, and the memory for unpacking, are bounded.

use std::fmt;
use std::io::{self, Read};

use flate2::bufread::GzDecoder;
use lzma_rust2::{LzmaReader, XzReader};

/// Upper bound for the unpacker's memory besides its output: kernels use a window of 32 MiB.
const MAX_UNPACKER_KIB: u32 = 192 << 10;
/// Largest unpacked block of lz4's legacy format (lz4's `doc/lz4_Frame_format.md`, legacy frame).
const LZ4_BLOCK_BYTES: usize = 8 << 20;
/// Length of the magic number at the start.
const LZ4_MAGIC_BYTES: usize = 4;

/// A compression format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    /// Not compressed: a kernel's ELF image.
    No,
    Gzip,
    Xz,
    Lzma,
    Zstd,
    Lz4,
    Bzip2,
    Lzo,
    Unknown,
}

impl Compression {
    /// Recognises the format by the first bytes, as the kernel's lib/decompress.c does.
    pub(crate) fn of(data: &[u8]) -> Compression {
        match data {
            [0x7f, b'E', b'L', b'F', ..] => Compression::No,
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            [0x5d, 0, 0, ..] => Compression::Lzma,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            [0x02, 0x21, 0x4c, 0x18, ..] => Compression::Lz4,
            [b'B', b'Z', b'h', ..] => Compression::Bzip2,
            [0x89, b'L', b'Z', b'O', ..] => Compression::Lzo,
            _ => Compression::Unknown,
        }
    }

    /// The usual name of the format.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Compression::No => "not compressed",
            Compression::Gzip => "gzip",
            Compression::Xz => "XZ",
            Compression::Lzma => "LZMA",
            Compression::Zstd => "zstd",
            Compression::Lz4 => "LZ4",
            Compression::Bzip2 => "bzip2",
            Compression::Lzo => "LZO",
            Compression::Unknown => "something unknown",
        }
    }
}

/// The reason why the content cannot be unpacked; printed as a sentence without its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoContent {
    /// bootscope does not read this format.
    Compression(&'static str),
    /// The data is damaged, for this reason.
    Damaged(String),
    /// It unpacks to more than this number of bytes.
    TooLarge(u64),
}

impl fmt::Display for NoContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoContent::Compression(how) => write!(f, "is compressed with {how}, which bootscope does not read"),
            NoContent::Damaged(why) => write!(f, "cannot be unpacked: {why}"),
            NoContent::TooLarge(bytes) => write!(f, "unpacks to more than {} MiB", bytes >> 20),
        }
    }
}

/// The first `bytes` bytes of gzip-compressed data, or fewer if there are fewer.
pub(crate) fn gzip_begin(data: &[u8], bytes: usize) -> Vec<u8> {
    let mut begin = Vec::new();
    // Truncated or damaged data gives the bytes before the damage.
    let _ = GzDecoder::new(data).take(bytes as u64).read_to_end(&mut begin);
    begin
}

/// The content of the data, at most `max_bytes` bytes, and the data that follows it. LZMA, LZ4 and ELF do not mark their end, so nothing
/// follows them.
///
/// # Errors
/// If it is truncated or damaged, too large, or of a format that is not read.
pub(crate) fn content(data: &[u8], max_bytes: u64) -> Result<(Vec<u8>, &[u8]), NoContent> {
    let damaged = |e: io::Error| NoContent::Damaged(e.to_string());
    match Compression::of(data) {
        Compression::No => Ok((data.to_vec(), &[])),
        Compression::Gzip => {
            let mut reader = GzDecoder::new(data);
            Ok((all_of(&mut reader, max_bytes)?, reader.into_inner()))
        }
        Compression::Xz => {
            let mut reader = XzReader::new_mem_limit(data, false, MAX_UNPACKER_KIB);
            Ok((all_of(&mut reader, max_bytes)?, reader.into_inner()))
        }
        Compression::Lzma => {
            let reader = LzmaReader::new_mem_limit(data, MAX_UNPACKER_KIB, None).map_err(damaged)?;
            Ok((all_of(reader, max_bytes)?, &[]))
        }
        Compression::Zstd => {
            let mut reader = zstd::Decoder::with_buffer(data).map_err(damaged)?.single_frame();
            reader.window_log_max(27).map_err(damaged)?; // 128 MiB, as in the kernel's build
            Ok((all_of(&mut reader, max_bytes)?, reader.finish()))
        }
        Compression::Lz4 => Ok((lz4(&data[LZ4_MAGIC_BYTES..], max_bytes)?, &[])),
        other => Err(NoContent::Compression(other.name())),
    }
}

fn all_of(reader: impl Read, max_bytes: u64) -> Result<Vec<u8>, NoContent> {
    let mut bytes = Vec::new();
    reader.take(max_bytes + 1).read_to_end(&mut bytes).map_err(|e| NoContent::Damaged(e.to_string()))?;
    if bytes.len() as u64 > max_bytes { Err(NoContent::TooLarge(max_bytes)) } else { Ok(bytes) }
}

/// Unpacks lz4's legacy format: blocks, each after its packed length. A kernel's payload ends with the unpacked length of all blocks.
fn lz4(mut packed: &[u8], max_bytes: u64) -> Result<Vec<u8>, NoContent> {
    let mut bytes = Vec::new();
    let mut block = vec![0; LZ4_BLOCK_BYTES];
    while let Some((length, rest)) = packed.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((packed_block, rest)) = rest.split_at_checked(length).filter(|_| length > 0) else {
            if rest.is_empty() {
                break;
            }
            let left = rest.len();
            return Err(NoContent::Damaged(format!("lz4: a block of {length} bytes where {left} are left")));
        };
        let n = lz4_flex::block::decompress_into(packed_block, &mut block)
            .map_err(|e| NoContent::Damaged(format!("lz4: {e}")))?;
        bytes.extend_from_slice(&block[..n]);
        if bytes.len() as u64 > max_bytes {
            return Err(NoContent::TooLarge(max_bytes));
        }
        packed = rest;
    }
    Ok(bytes)
}

/// Packs data with other programs.
#[cfg(test)]
pub(crate) mod testing {
    use std::io::Write;
    use std::process::{Command, Stdio};

    pub(crate) fn packed(bytes: &[u8], program: &str, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{program}: {e}"));
        let mut stdin = child.stdin.take().unwrap();
        let bytes = bytes.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&bytes));
        let out = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(out.status.success());
        out.stdout
    }
}

#[cfg(test)]
mod tests {
    use super::testing::packed;
    use super::*;

    #[test]
    fn payloads_are_unpacked_as_kernels_pack_them() {
        let kernel: Vec<u8> = b"\x7fELF".iter().copied().chain((0..3_000_000u32).map(|i| (i / 7) as u8)).collect();
        let check = |payload: Vec<u8>| {
            let with_length = [payload, (kernel.len() as u32).to_le_bytes().to_vec()].concat();
            assert!(content(&with_length, 256 << 20).unwrap().0 == kernel);
        };
        check(packed(&kernel, "gzip", &["-c"]));
        // scripts/xz_wrap.sh
        check(packed(&kernel, "xz", &["--check=crc32", "--x86", "--lzma2=,dict=32MiB", "-c"]));
        check(packed(&kernel, "xz", &["--format=lzma", "-c"]));
        check(zstd::bulk::compress(&kernel, 19).unwrap());
        let blocks = kernel.chunks(LZ4_BLOCK_BYTES).flat_map(|block| {
            let block = lz4_block(block);
            (block.len() as u32).to_le_bytes().into_iter().chain(block)
        });
        check(b"\x02\x21\x4c\x18".iter().copied().chain(blocks).collect());
        assert!(content(&kernel, 256 << 20).unwrap().0 == kernel);
    }

    /// A block of literals only: a token of 15, the rest of their number in bytes, then the literals.
    fn lz4_block(literals: &[u8]) -> Vec<u8> {
        let mut block = vec![0xf0];
        let rest = literals.len() - 15;
        block.extend(std::iter::repeat_n(255, rest / 255).chain([(rest % 255) as u8]));
        block.extend(literals);
        block
    }

    #[test]
    fn the_rest_is_returned_if_the_format_marks_its_end() {
        let follows = |data: Vec<u8>| {
            let data = [data, b"and more".to_vec()].concat();
            let (content, rest) = content(&data, 100).unwrap();
            assert_eq!((&content[..], rest), (&b"content"[..], &b"and more"[..]));
        };
        follows(packed(b"content", "gzip", &["-c"]));
        follows(packed(b"content", "xz", &["--check=crc32", "-c"]));
        follows(zstd::bulk::compress(b"content", 1).unwrap());
        let large = packed(&[0; 101], "gzip", &["-c"]);
        assert_eq!(content(&large, 100), Err(NoContent::TooLarge(100)));
        assert_eq!(content(&large, 101).unwrap().0.len(), 101);
    }
}
