//! Reads Linux's Image, a format of several architectures: the kernel in its layout in memory, with a header.

use std::borrow::Cow;

use memchr::memmem;

use crate::packed;

/// Longest unpacked kernel.
pub(super) const MAX_IMAGE_BYTES: u64 = 256 << 20;
/// The start of Linux's first message. The release follows.
const BANNER: &[u8] = b"Linux version ";

/// The format of an architecture's Image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Image {
    /// The magic number in its header.
    pub(super) magic: &'static [u8],
    /// The offset of the magic number.
    pub(super) magic_offset: usize,
    /// The error for a file without such a header.
    pub(super) header_error: &'static str,
    /// The error for a file compressed by gzip whose content has no such header.
    pub(super) gzip_error: &'static str,
    /// The error for an ELF image, with the file to give instead.
    pub(super) elf_error: &'static str,
    /// The relocation type that adds the kernel's shift to an address.
    pub(super) relative: u64,
    /// An Image is linked to a multiple of this.
    pub(super) align: u64,
    /// The lowest address of kernels.
    pub(super) kernel_half: u64,
}

impl Image {
    /// Checks that a VMM can start the file: it must be an Image, uncompressed or compressed by gzip. The error describes the file's
    /// actual format.
    pub(super) fn check(&self, head: &[u8]) -> Result<(), &'static str> {
        match head {
            _ if self.has_magic(head) => Ok(()),
            [] => Err("it is empty"),
            [0x1f, 0x8b, ..] if self.has_magic(&packed::gzip_begin(head, self.magic_offset + self.magic.len())) => {
                Ok(())
            }
            [0x1f, 0x8b, ..] => Err(self.gzip_error),
            [b'M', b'Z', _, _, b'z', b'i', b'm', b'g', ..] => {
                Err("it is an EFI zboot image, which unpacks itself under UEFI only: give the Image that is in it")
            }
            [0x7f, b'E', b'L', b'F', ..] => Err(self.elf_error),
            _ => Err(self.header_error),
        }
    }

    fn has_magic(&self, head: &[u8]) -> bool {
        head.get(self.magic_offset..self.magic_offset + self.magic.len()) == Some(self.magic)
    }

    /// An uncompressed Image, which is the kernel in its layout in memory.
    pub(super) fn plain<'a>(&self, image: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let image = match image {
            [0x1f, 0x8b, ..] if self.check(image).is_ok() => {
                Cow::Owned(packed::content(image, MAX_IMAGE_BYTES).ok()?.0)
            }
            _ => Cow::Borrowed(image),
        };
        self.has_magic(&image).then_some(image)
    }

    /// The address, as linked, that a kernel writes to this offset of its Image when it relocates itself. The address must be in the
    /// kernel's first [`Image::align`] bytes.
    ///
    /// A relocatable kernel has zeros in such places (`--no-apply-dynamic-relocs`), and a relocation for each (`Elf64_Rela`): the place's
    /// address, the type [`Image::relative`], and the value to write. An Image does not contain the address it is linked to. But that
    /// address is a multiple of [`Image::align`], and the requested one is less than that above it.
    pub(super) fn relocated(&self, image: &[u8], at: usize) -> Option<u64> {
        if !self.has_magic(image) {
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

    /// The release of an Image, such as `6.1.0-50-cloud-arm64`, from the text that it would print.
    pub(super) fn release(&self, image: &[u8]) -> Option<String> {
        release_of(&self.plain(image)?)
    }
}

/// The release of an uncompressed kernel, from the text that it would print.
pub(super) fn release_of(kernel: &[u8]) -> Option<String> {
    let release = |at: usize| {
        let text = kernel[at + BANNER.len()..].split(|&b| b == b' ').next()?;
        let plain = text.first()?.is_ascii_digit() && text.len() < 100 && text.iter().all(u8::is_ascii_graphic);
        plain.then(|| String::from_utf8_lossy(text).into_owned())
    };
    memmem::find_iter(kernel, BANNER).find_map(release)
}
