//! Compressed data, in the formats that kernels know: which it is, and what is in it.
//!
//! Nothing of it is trusted: what it unpacks to, and what unpacking takes, is bounded.

use std::fmt;
use std::io::{self, Read};

use flate2::bufread::GzDecoder;
use lzma_rust2::{LzmaReader, XzReader};

/// The most that unpacking may take beside what comes out: kernels ask for a window of 32 MiB.
const UNPACKER_KIB_MAX: u32 = 192 << 10;
/// A block of lz4's old format unpacks to at most so much (lz4's `doc/lz4_Frame_format.md`, legacy frame).
const LZ4_BLOCK_BYTES: usize = 8 << 20;
/// The four bytes that the format begins with.
const LZ4_MAGIC_BYTES: usize = 4;

/// What data is compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    /// Not at all: a kernel's ELF image.
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
    /// By its first bytes, as the kernel's lib/decompress.c tells them apart.
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

    /// What people call it.
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

/// Why the content cannot be had; a sentence without its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoContent {
    /// It is compressed with this, which bootscope does not read.
    Compression(&'static str),
    /// What is wrong with it.
    Damaged(String),
    /// It unpacks to more than so many bytes.
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

/// So many bytes of what gzip has compressed, or as many as there are.
pub(crate) fn gzip_begin(data: &[u8], bytes: usize) -> Vec<u8> {
    let mut begin = Vec::new();
    // Data that is cut or wrong begins with what could be read of it.
    let _ = GzDecoder::new(data).take(bytes as u64).read_to_end(&mut begin);
    begin
}

/// What is in the data, of at most so many bytes, and what follows it. LZMA, LZ4 and ELF do not tell where they end: nothing
/// follows them.
///
/// # Errors
/// If it is cut or wrong, too large, or of a format that is not read.
pub(crate) fn content(data: &[u8], bytes_max: u64) -> Result<(Vec<u8>, &[u8]), NoContent> {
    let damaged = |e: io::Error| NoContent::Damaged(e.to_string());
    match Compression::of(data) {
        Compression::No => Ok((data.to_vec(), &[])),
        Compression::Gzip => {
            let mut reader = GzDecoder::new(data);
            Ok((all_of(&mut reader, bytes_max)?, reader.into_inner()))
        }
        Compression::Xz => {
            let mut reader = XzReader::new_mem_limit(data, false, UNPACKER_KIB_MAX);
            Ok((all_of(&mut reader, bytes_max)?, reader.into_inner()))
        }
        Compression::Lzma => {
            let reader = LzmaReader::new_mem_limit(data, UNPACKER_KIB_MAX, None).map_err(damaged)?;
            Ok((all_of(reader, bytes_max)?, &[]))
        }
        Compression::Zstd => {
            let mut reader = zstd::Decoder::with_buffer(data).map_err(damaged)?.single_frame();
            reader.window_log_max(27).map_err(damaged)?; // 128 MiB, which is what the kernel's build asks for
            Ok((all_of(&mut reader, bytes_max)?, reader.finish()))
        }
        Compression::Lz4 => Ok((lz4(&data[LZ4_MAGIC_BYTES..], bytes_max)?, &[])),
        other => Err(NoContent::Compression(other.name())),
    }
}

fn all_of(reader: impl Read, bytes_max: u64) -> Result<Vec<u8>, NoContent> {
    let mut bytes = Vec::new();
    reader.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|e| NoContent::Damaged(e.to_string()))?;
    if bytes.len() as u64 > bytes_max { Err(NoContent::TooLarge(bytes_max)) } else { Ok(bytes) }
}

/// lz4's old format: blocks, each with its packed length before it. A kernel's payload ends with the unpacked length of all.
fn lz4(mut packed: &[u8], bytes_max: u64) -> Result<Vec<u8>, NoContent> {
    let mut bytes = Vec::new();
    let mut block = vec![0; LZ4_BLOCK_BYTES];
    while let Some((length, rest)) = packed.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((of_block, rest)) = rest.split_at_checked(length).filter(|_| length > 0) else {
            if rest.is_empty() {
                break;
            }
            let left = rest.len();
            return Err(NoContent::Damaged(format!("lz4: a block of {length} bytes where {left} are left")));
        };
        let n = lz4_flex::block::decompress_into(of_block, &mut block)
            .map_err(|e| NoContent::Damaged(format!("lz4: {e}")))?;
        bytes.extend_from_slice(&block[..n]);
        if bytes.len() as u64 > bytes_max {
            return Err(NoContent::TooLarge(bytes_max));
        }
        packed = rest;
    }
    Ok(bytes)
}

/// Data as other programs pack it.
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

    /// Literals only: a token of 15, the rest of their number in bytes, then they themselves.
    fn lz4_block(literals: &[u8]) -> Vec<u8> {
        let mut block = vec![0xf0];
        let rest = literals.len() - 15;
        block.extend(std::iter::repeat_n(255, rest / 255).chain([(rest % 255) as u8]));
        block.extend(literals);
        block
    }

    #[test]
    fn what_follows_is_told_where_the_format_says_where_it_ends() {
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
