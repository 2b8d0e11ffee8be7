//! Reads a log in an image of memory: `tslog.bin`, cut out of a guest, or all of a machine's memory.
//!
//! The recorder defines the layout (`kernel/tslog`, `layout`). Its reader prints the log as text, which is then read
//! like any other log, so that there is only one reader of records. The image can hold several headers (an older
//! boot's, a copy): the one with the most whole records counts. The header's place in the image gives the place of
//! physical addresses.

use super::Log;
use ::tslog::{Head, Heads, Image, Place, find, layout::HEADER_BYTES, write_image_text};
use timeline::{DiagnosticKind, Diagnostics};

impl Log {
    /// Reads the log in an image of memory. Returns the number of its records; 0 if there is no log.
    pub fn read_memory(&mut self, file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> u64 {
        let mut heads = Heads::default();
        for at in find(bytes) {
            if let Some(head) = bytes.get(at..at + HEADER_BYTES).and_then(|bytes| Head::parse(bytes).ok()) {
                heads.add(at as u64, head);
            }
        }
        let image = |at: u64| bytes.get(usize::try_from(at).ok()?..);
        let whole = |at: u64, _: &Head| {
            let image = image(at).and_then(|bytes| Image::new(bytes).ok());
            image.map_or(0, |image| image.counts().whole)
        };
        let Some((at, head)) = heads.fullest(whole) else { return 0 };
        let Ok(at) = usize::try_from(at) else { return 0 };
        let others = heads.found - 1;
        diagnostics.note_many(DiagnosticKind::TslogOtherHeaders, others, || file.to_owned());
        let Ok(image) = Image::new(&bytes[at..]) else { return 0 };
        let mut text = String::new();
        let mut read_phys = physical(bytes, at, &head);
        let Ok(dump) = write_image_text(&image, &mut text, &mut read_phys) else { return 0 };
        let place = || format!("{file}: log at {at:#x}");
        diagnostics.note_many(DiagnosticKind::TslogNameUnresolved, dump.unresolved, place);
        diagnostics.note_many(DiagnosticKind::TslogNameCut, dump.cut, place);
        diagnostics.note_many(DiagnosticKind::TslogNameBeyondImage, dump.left_out, place);
        self.read(file, text.as_bytes(), diagnostics).records
    }
}

/// Reads physical addresses out of an image whose log is at `at`. The log's own address gives the image's first
/// address.
fn physical<'a>(bytes: &'a [u8], at: usize, head: &Head) -> impl FnMut(u64, &mut [u8]) -> bool + use<'a> {
    let log_phys = [head.region_virt, head.region_virt_now].into_iter().find_map(|virt| outside(head, virt));
    let begin = log_phys.and_then(|phys| phys.checked_sub(at as u64)).unwrap_or(0);
    move |phys, buffer| {
        let offset = phys.checked_sub(begin).and_then(|offset| usize::try_from(offset).ok());
        let source = offset.and_then(|offset| bytes.get(offset..offset.checked_add(buffer.len())?));
        source.map(|source| buffer.copy_from_slice(source)).is_some()
    }
}

/// The physical address of `address` by the ranges outside the log's own region.
fn outside(head: &Head, address: u64) -> Option<u64> {
    let ranges = Head { region_virt: u64::MAX, region_virt_now: u64::MAX, ..*head };
    match ranges.place(address) {
        Place::Physical { phys, .. } => Some(phys),
        Place::Region { .. } | Place::Unknown => None,
    }
}
