//! What kind of guest is booted, decided once: what its command line may hold, what marks its end, how its log is found,
//! and when it is quiet on purpose.
//!
//! A [`GuestProfile`] is data. Code that treats guests differently asks the profile, and never which guest it is. Which profile a
//! guest has, [`guests`](crate::guests) says.

/// What sets a guest apart from others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GuestProfile {
    /// What the recording calls its system; empty where only its evidence can say.
    pub(crate) os: &'static str,
    /// The release of its kernel, else the file's name.
    pub(crate) kernel: String,
    /// Where its log may be.
    pub(crate) log: Log,
    /// Whether what recording adds to its command line is added: Linux's words.
    pub(crate) takes_linux_words: bool,
    /// Whether it can mount a `--root`.
    pub(crate) mounts: bool,
    /// Whether its waiting CPUs let the others run.
    pub(crate) yields: bool,
    /// Devices whose registers it touches and which it sends no request.
    pub(crate) spared_devices: &'static [&'static str],
    /// The line after which its reset is the end that was asked for, because its machine cannot be switched off.
    pub(crate) says_before_reset: Option<&'static str>,
    /// For how much longer than another guest nothing may move, because its command line asks for that.
    pub(crate) quiet_ms: u64,
    /// What a reader should know of what was asked for, in sentences.
    pub(crate) notes: Vec<String>,
}

/// Where a guest's log may be in its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Log {
    /// In printk's buffer alone.
    Printk,
    /// There, or with a recorder inside the kernel.
    #[default]
    Anywhere,
}

impl GuestProfile {
    /// One of which nothing is known: Linux as an ELF image is such a one, and is treated as Linux.
    pub(crate) fn other(kernel: String) -> GuestProfile {
        GuestProfile { kernel, takes_linux_words: true, mounts: true, ..GuestProfile::default() }
    }
}
