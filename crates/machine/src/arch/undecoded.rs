//! Architectures whose code, stacks and page tables are not read: their kernels are recognized, booted and watched, and no more.

pub(super) mod ppc64;
pub(super) mod s390x;
mod tiny_init;

use std::borrow::Cow;

use ::arch::Facts;

use super::virtio_console::Console;
use super::{Arch, GuestInit, image};

/// Offset of an ELF file's byte order.
const ORDER: usize = 5;
/// Offset of an ELF file's machine.
const MACHINE: usize = 18;

/// The parts of such an architecture that are alike. Its process 1 has no channel, so the one named here is never used.
const fn arch(
    facts: &'static Facts,
    is_hosts: bool,
    guest_init: fn(&[u8]) -> Vec<u8>,
    check_kernel: fn(&[u8]) -> Result<(), &'static str>,
    linux_release: fn(&[u8]) -> Option<String>,
) -> Arch {
    Arch {
        facts,
        boards: &[],
        is_hosts,
        guest_init: GuestInit::Made(guest_init),
        shows_log: false,
        channel: || Box::new(Console::at(0)),
        check_kernel,
        linux_release,
        release_bytes_max: image::MAX_IMAGE_BYTES,
        is_plain_image: |_| false,
        plain_image: |_| None::<Cow<'_, [u8]>>,
        relocated: |_, _| None,
        reads_kernels: false,
        registers: |_| None,
        frame_record_offset: 0,
        call_before: |_| None,
        return_without_frame: |_, _| None,
        instruction: |_, _| None,
        call_or_nothing: |_, _, _| None,
    }
}

/// True if an ELF file that begins like this is for this machine.
fn is_elf_for(head: &[u8], machine: u16) -> bool {
    let found = head.get(MACHINE..MACHINE + 2).and_then(|bytes| <[u8; 2]>::try_from(bytes).ok());
    let is_for = |bytes| if is_big(head) { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) } == machine;
    head.starts_with(b"\x7fELF") && found.is_some_and(is_for)
}

/// True if an ELF file that begins like this has big byte order.
fn is_big(head: &[u8]) -> bool {
    head.get(ORDER) == Some(&2)
}
