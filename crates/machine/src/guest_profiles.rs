//! The kinds of guests that bootscope distinguishes: chooses the [profile](GuestProfile) of a guest. A new kind of guest is a module that
//! makes its profile, as `lab` does, and a line here. No other code checks which guest it is.

use std::path::Path;

use recording::GuestSpec;

use crate::profile::{GuestProfile, Log};
use crate::{Error, arch, image, lab};

/// The profile of a guest whose kernel, if it has one, was checked already.
///
/// # Errors
/// If the kernel cannot be read, or does not understand the requested options.
pub(crate) fn profile_of(guest: &GuestSpec) -> Result<GuestProfile, Error> {
    if guest.target.is_board() {
        // The evidence tells what a board boots.
        return Ok(GuestProfile::default());
    }
    let Some(kernel) = &guest.kernel else {
        return Ok(GuestProfile::other(String::new()));
    };
    if lab::is_booted(guest) {
        return lab::profile(guest);
    }
    Ok(match image::linux_release(arch::of(guest), kernel)? {
        Some(release) => GuestProfile { os: "Linux", log: Log::Printk, ..GuestProfile::other(release) },
        None => GuestProfile::other(file_name(kernel)),
    })
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
