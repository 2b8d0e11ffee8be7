//! The kind of guest that is booted, decided once: which command line it takes, what marks its end, where its log is, and when it is quiet
//! on purpose.
//!
//! A [`GuestProfile`] is data. Code that treats guests differently reads the profile and never checks for a certain guest.
//! [`guest_profiles`](crate::guest_profiles) chooses the profile.

/// Properties in which guests differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GuestProfile {
    /// The system's name in the recording; empty if only its evidence shows it.
    pub(crate) os: &'static str,
    /// The release of its kernel, or the file's name if the release is unknown.
    pub(crate) kernel: String,
    pub(crate) log: Log,
    /// True if recording may add Linux's parameters to its command line.
    pub(crate) takes_linux_words: bool,
    /// True if it can mount a root.
    pub(crate) mounts: bool,
    /// True if its waiting CPUs let the others run.
    pub(crate) yields: bool,
    /// Devices whose registers the guest touches without sending them a request.
    pub(crate) spared_devices: &'static [&'static str],
    /// The line after which a reset counts as the requested end, because the machine cannot be switched off.
    pub(crate) says_before_reset: Option<&'static str>,
    /// Additional quiet time before the guest counts as hung, because its command line requests a delay.
    pub(crate) quiet_ms: u64,
    /// Remarks about the requested options for a reader of the recording, in sentences.
    pub(crate) notes: Vec<String>,
}

/// Places of a guest's log in its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Log {
    /// In printk's buffer alone.
    Printk,
    /// In printk's buffer, or with a recorder inside the kernel.
    #[default]
    Anywhere,
}

impl GuestProfile {
    /// The profile of an unknown guest. It is treated as Linux, because Linux as an ELF image is unknown too.
    pub(crate) fn other(kernel: String) -> GuestProfile {
        GuestProfile { kernel, takes_linux_words: true, mounts: true, ..GuestProfile::default() }
    }
}
