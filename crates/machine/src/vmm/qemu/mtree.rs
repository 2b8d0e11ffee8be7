//! Parses the layout of guest RAM from QEMU's `info mtree -f` (over QMP: `human-monitor-command`).
//!
//! The text is a list of flat views. The view of the address space "memory" is the memory that CPUs access. One of its lines:
//! ```text
//!   0000000100000000-000000013fffffff (prio 0, ram): ram @00000000c0000000
//! ```
//! It contains the first and last address, priority and type, the region's name (for a memory backend, its id), and the offset
//! within the region (left out if it is 0). `-f` has resolved overlaps: a stretch of RAM that firmware hides is not listed. The
//! stretches of RAM below 1 MB change while firmware runs; the others do not. The text may come through a terminal, so lines may
//! end with `\r`.

use crate::memory::Extent;

/// The reason why a text contains no extents.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MtreeError {
    /// The text contains no view of the CPUs' memory.
    #[error("`info mtree -f` shows no flat view of the address space \"memory\": is this QEMU older than 2.10?")]
    NoView,
    /// The view contains no memory of the backend.
    #[error("`info mtree -f` shows no RAM of the memory backend \"{0}\": is it the machine's memory-backend?")]
    NoRam(String),
}

/// The extents of the memory backend with the id `backend`, ascending.
///
/// # Errors
/// If the text contains no memory of this backend.
pub fn ram_extents(mtree: &str, backend: &str) -> Result<Vec<Extent>, MtreeError> {
    let view = mtree
        .split("FlatView #")
        .skip(1)
        .find(|view| view.lines().any(|line| line.trim().starts_with("AS \"memory\"")))
        .ok_or(MtreeError::NoView)?;
    let mut extents: Vec<Extent> = view.lines().filter_map(|line| extent(line, backend)).collect();
    extents.sort_by_key(|extent| extent.phys);
    if extents.is_empty() {
        return Err(MtreeError::NoRam(backend.to_owned()));
    }
    Ok(extents)
}

/// The extent in a line, if the line describes RAM of this backend.
fn extent(line: &str, backend: &str) -> Option<Extent> {
    let (addresses, rest) = line.trim().split_once(" (prio ")?;
    let (first, last) = addresses.split_once('-')?;
    let (kind, region) = rest.split_once("): ")?;
    // A write-protected part of RAM (a shadowed option ROM) has the type rom. It lies in the same file.
    if !["ram", "rom"].contains(&kind.split_once(", ")?.1) {
        return None;
    }
    let mut words = region.split_whitespace();
    if words.next()? != backend {
        return None;
    }
    let offset = words.find_map(|word| word.strip_prefix('@')).unwrap_or("0");
    let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let (first, last) = (hex(first)?, hex(last)?);
    Some(Extent { phys: first, file_offset: hex(offset)?, bytes: last.checked_sub(first)?.checked_add(1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn check(mtree: &str, expected: &[(u64, u64, u64)]) {
        let extents = ram_extents(mtree, "ram").unwrap();
        let got: Vec<_> = extents.iter().map(|e| (e.phys, e.file_offset, e.bytes)).collect();
        assert_eq!(got, expected);
    }

    // Output of QEMU 7.2. The views of other address spaces and most devices are left out.

    #[test]
    fn pc_with_256_mb() {
        check(
            r#"
FlatView #0
 AS "I/O", root: io
 Root memory region: io
  0000000000000000-0000000000000007 (prio 0, i/o): dma-chan

FlatView #1
 AS "memory", root: system
 AS "cpu-memory-0", root: system
 Root memory region: system
  0000000000000000-00000000000bffff (prio 0, ram): ram
  00000000000c0000-00000000000dffff (prio 1, rom): pc.rom
  00000000000e0000-00000000000fffff (prio 0, rom): pc.bios @0000000000020000
  0000000000100000-000000000fffffff (prio 0, ram): ram @0000000000100000
  00000000fec00000-00000000fec00fff (prio 0, i/o): ioapic
"#,
            &[(0, 0, 0xc0000), (MB, MB, 255 * MB)],
        );
    }

    #[test]
    fn four_gb_are_split_around_the_devices() {
        let pc = r#"FlatView #0
 AS "memory", root: system
 Root memory region: system
  0000000000000000-00000000000bffff (prio 0, ram): ram
  0000000000100000-00000000bfffffff (prio 0, ram): ram @0000000000100000
  00000000fffc0000-00000000ffffffff (prio 0, rom): pc.bios
  0000000100000000-000000013fffffff (prio 0, ram): ram @00000000c0000000
"#;
        check(pc, &[(0, 0, 0xc0000), (MB, MB, 3071 * MB), (4096 * MB, 3072 * MB, 1024 * MB)]);
        let q35 = pc.replace("00000000bfffffff", "000000007fffffff");
        let q35 = q35.replace("000000013fffffff", "000000017fffffff").replace("@00000000c0000000", "@0000000080000000");
        check(&q35, &[(0, 0, 0xc0000), (MB, MB, 2047 * MB), (4096 * MB, 2048 * MB, 2048 * MB)]);
    }

    #[test]
    fn microvm_and_shadowed_firmware() {
        check(
            "FlatView #1\r\n AS \"memory\", root: system\r\n Root memory region: system\r\n\
             \x20 0000000000000000-00000000000effff (prio 0, ram): ram\r\n\
             \x20 00000000000f0000-00000000000fffff (prio 1, rom): ram @00000000000f0000\r\n\
             \x20 0000000000100000-000000000fffffff (prio 0, ram): ram @0000000000100000 KVM\r\n",
            &[(0, 0, 0xf0000), (0xf0000, 0xf0000, 0x10000), (MB, MB, 255 * MB)],
        );
    }

    #[test]
    fn a_text_without_the_backend_is_an_error() {
        let other = "FlatView #0\n AS \"memory\", root: system\n  00-ff (prio 0, ram): pc.ram\n";
        assert_eq!(ram_extents(other, "ram"), Err(MtreeError::NoRam("ram".into())));
        assert_eq!(ram_extents("unknown command: 'info mtree'", "ram"), Err(MtreeError::NoView));
        assert_eq!(ram_extents("FlatView #0\n AS \"I/O\", root: io\n", "ram"), Err(MtreeError::NoView));
    }
}
