//! Finds out from a Linux kernel's image whether the kernel can trace events.
//!
//! A small kernel is often built without tracers. It would ignore `trace_event=`, and its boot would show no initcalls.

use recording::{BYTES_MAX, GuestSpec, read_regular};

use crate::hash::hash;
use crate::kernel_image::unpacked_image;
use crate::memo;
use crate::profile::{GuestProfile, Log};

/// The parameter that starts events at boot. Only a kernel with CONFIG_EVENT_TRACING contains it.
const EVENTS: &[u8] = b"trace_event=\0";

/// A remark for a reader of a recording of a kernel without events.
pub(crate) const NO_EVENTS: &str = "the kernel's image has no event tracing (CONFIG_EVENT_TRACING): initcalls come from \
    its log, by initcall_debug, and no thread is seen to wait for another";

/// True if the guest's kernel can trace events, or if its image does not show that it cannot. Unpacking an image takes up to a second, so
/// the answer is kept for the next boot.
pub(crate) fn has_events(guest: &GuestSpec, profile: &GuestProfile) -> bool {
    let is_linux = profile.takes_linux_words && profile.log == Log::Printk;
    let Some(kernel) = guest.kernel.as_ref().filter(|_| is_linux && guest.trace_events) else { return true };
    let Ok(image) = read_regular(kernel, BYTES_MAX) else { return true };
    let Ok(key) = hash(&*image) else { return true };
    memo::recall("tracers", &key).unwrap_or_else(|| {
        let found = may_have_events(&image);
        memo::remember("tracers", &key, &found);
        found
    })
}

/// True unless the image is a kernel without the parameter.
fn may_have_events(image: &[u8]) -> bool {
    unpacked_image(image).map_or(true, |kernel| memchr::memmem::find(&kernel, EVENTS).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_the_parameter_has_no_events() {
        assert!(may_have_events(b"\x7fELF\0trace_event=\0trace_clock=\0"));
        assert!(!may_have_events(b"\x7fELF\0initcall_debug\0trace_event=sched\0"));
        assert!(may_have_events(b"not an image"));
    }

    #[test]
    fn an_unknown_system_is_not_searched() {
        let dir = tempfile::tempdir().unwrap();
        let kernel = dir.path().join("vmlinux");
        std::fs::write(&kernel, b"\x7fELF an unknown system").unwrap();
        let guest = GuestSpec { kernel: Some(kernel), ..GuestSpec::default() };
        assert!(has_events(&guest, &GuestProfile::other(String::new())));
    }
}
