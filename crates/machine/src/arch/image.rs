//! Linux' Image, a form that several architectures have: the kernel as it lies in memory, behind a header of its own.

use std::borrow::Cow;

use memchr::memmem;

use crate::packed;

/// No kernel is longer, unpacked.
pub(super) const IMAGE_BYTES_MAX: u64 = 256 << 20;
/// What Linux prints first; the release follows.
const BANNER: &[u8] = b"Linux version ";

/// How an architecture's Image looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Image {
    /// Its header's magic number, and where that is.
    pub(super) magic: &'static [u8],
    pub(super) magic_at: usize,
    /// What is wrong with what has no such header, and with what is packed by gzip and has none in it.
    pub(super) no_header: &'static str,
    pub(super) packed_without: &'static str,
    /// What to give in place of an ELF image.
    pub(super) is_elf: &'static str,
    /// The kind of a relocation whose address is that of the place, by as much moved as all are.
    pub(super) relative: u64,
    /// What an Image is linked to a multiple of.
    pub(super) align: u64,
    /// Addresses of a kernel begin there.
    pub(super) kernel_half: u64,
}

impl Image {
    /// What a VMM can start: an Image, as it is or compressed by gzip; else what it is.
    pub(super) fn kind(&self, head: &[u8]) -> Result<(), &'static str> {
        match head {
            _ if self.is_begun(head) => Ok(()),
            [] => Err("it is empty"),
            [0x1f, 0x8b, ..] if self.is_begun(&packed::gzip_begin(head, self.magic_at + self.magic.len())) => Ok(()),
            [0x1f, 0x8b, ..] => Err(self.packed_without),
            [b'M', b'Z', _, _, b'z', b'i', b'm', b'g', ..] => {
                Err("it is an EFI zboot image, which unpacks itself under UEFI only: give the Image that is in it")
            }
            [0x7f, b'E', b'L', b'F', ..] => Err(self.is_elf),
            _ => Err(self.no_header),
        }
    }

    fn is_begun(&self, head: &[u8]) -> bool {
        head.get(self.magic_at..self.magic_at + self.magic.len()) == Some(self.magic)
    }

    /// An Image without compression, which is the kernel as it lies in memory.
    pub(super) fn plain<'a>(&self, image: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let image = match image {
            [0x1f, 0x8b, ..] if self.kind(image).is_ok() => Cow::Owned(packed::content(image, IMAGE_BYTES_MAX).ok()?.0),
            _ => Cow::Borrowed(image),
        };
        self.is_begun(&image).then_some(image)
    }

    /// The address, in the kernel's first part, that it writes to this place of an Image when it moves itself, as linked.
    ///
    /// A relocatable kernel has nothing in such places (`--no-apply-dynamic-relocs`), but an entry for each: the place's address,
    /// the kind [`Image::relative`], and what to write (`Elf64_Rela`). Where an Image is linked to, it does not say; but that is a
    /// multiple of [`Image::align`], and what is asked for lies less than that from there.
    pub(super) fn relocated(&self, image: &[u8], at: usize) -> Option<u64> {
        if !self.is_begun(image) {
            return None;
        }
        let word = |at: usize| Some(u64::from_le_bytes(image.get(at..at + 8)?.try_into().ok()?));
        memmem::find_iter(image, &self.relative.to_le_bytes()).filter(|kind| kind % 8 == 0).find_map(|kind| {
            let (place, address) = (word(kind.checked_sub(8)?)?, word(kind + 8)?);
            let is_start = |linked: &u64| *linked >= self.kernel_half && linked % self.align == 0;
            let linked = place.checked_sub(at as u64).filter(is_start)?;
            address.checked_sub(linked).is_some_and(|from_start| from_start < self.align).then_some(address)
        })
    }

    /// The release of an Image, such as `6.1.0-50-cloud-arm64`: by what it would print.
    pub(super) fn release(&self, image: &[u8]) -> Option<String> {
        release_of(&self.plain(image)?)
    }
}

/// The release of a kernel as it lies in memory, by what it would print.
pub(super) fn release_of(kernel: &[u8]) -> Option<String> {
    let release = |at: usize| {
        let text = kernel[at + BANNER.len()..].split(|&b| b == b' ').next()?;
        let plain = text.first()?.is_ascii_digit() && text.len() < 100 && text.iter().all(u8::is_ascii_graphic);
        plain.then(|| String::from_utf8_lossy(text).into_owned())
    };
    memmem::find_iter(kernel, BANNER).find_map(release)
}
