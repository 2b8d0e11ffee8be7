//! What evidence offers to find the clocks of a boot from, in terms of clocks: readings of the guest's counter, and texts
//! whose lines carry stamps. No format is known here: a reader offers what its own has, and [`crate::boot::clocks`] joins it.

use crate::formats::ftrace::Stamps;
use hashbrown::HashMap;
use recording::{Manifest, TimeBase};
use timeline::{Ns, RateSource, SyncPoint, Ticks};

/// A message of the kernel's in a text with stamps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamped<'a> {
    pub text: &'a [u8],
    /// Its stamp, if it has one.
    pub ticks: Option<Ticks>,
    /// When it arrived at who wrote it down, if that is known.
    pub arrival: Option<Ns>,
}

/// A text whose lines carry stamps of one clock.
pub(crate) trait StampedText {
    /// What its stamps count.
    fn stamps(&self) -> Stamps {
        Stamps::Nanoseconds
    }

    /// The kernel's messages in it, in the order of the text.
    fn messages(&self) -> Box<dyn Iterator<Item = Stamped<'_>> + '_>;

    /// The numbered lines in it that process 1 wrote, and their stamps. Of one number, the last.
    fn markers(&self) -> HashMap<u64, Option<Ticks>>;

    /// Its earliest stamp.
    fn earliest(&self) -> Option<Ticks> {
        self.messages().filter_map(|message| message.ticks).min()
    }

    /// Functions that were about to run, by name.
    fn functions(&self) -> Box<dyn Iterator<Item = (&[u8], Ticks)> + '_> {
        Box::new(std::iter::empty())
    }

    /// How fast the kernel found its counter to be, the better figure first; and from what.
    fn counter_hz(&self) -> Option<(f64, RateSource)> {
        None
    }
}

/// A clock that process 1 compares with the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    Trace,
    Printk,
}

/// A numbered line that process 1 wrote into a text, between two readings of the counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marked {
    pub clock: Compared,
    pub number: u64,
    pub before: Ticks,
    pub after: Ticks,
}

/// What evidence offers.
pub(crate) struct Offers<'a> {
    pub manifest: &'a Manifest,
    /// How fast the guest's counter runs, where its own register says so. Elsewhere it is the host's counter, seen by the guest.
    pub counter_hz: Option<f64>,
    /// Whether that counter is a clock of the kernel's, which does not begin with the machine.
    pub(crate) counter_is_kernels: bool,
    /// What the counter was when process 1 began.
    pub(crate) process_1_read: Option<Ticks>,
    /// When the first instruction of a process ran, by the clock of a deterministic boot.
    pub(crate) process_1_ran: Option<Ns>,
    /// Readings of the guest's counter, and when the host heard of each: never early, sometimes late.
    pub(crate) counter_heard: Vec<SyncPoint>,
    /// Sync points: a trace's stamp of a function that was about to run, and the host's time of its first block, a little
    /// later.
    pub(crate) counter_seen: Vec<SyncPoint>,
    /// When the machine's first instruction ran, by the host's clock, or the host heard that the virtual CPUs were started.
    pub started: Option<Ns>,
    /// What compares the counter with other clocks.
    pub marked: Vec<Marked>,
    /// A text stamped with the trace's clock, and its file.
    pub trace: Option<(&'a str, &'a dyn StampedText)>,
    /// A text stamped with printk's clock.
    pub printk: Option<&'a dyn StampedText>,
    /// The kernel's messages as they arrived on the console, with the host's times.
    pub heard: Option<&'a dyn StampedText>,
    /// When the kernel's clock was 0, if evidence taken elsewhere says how long firmware and loader took before it.
    pub(crate) kernel_clock_from: Option<Ns>,
}

impl<'a> Offers<'a> {
    /// What the recording itself says of its clocks.
    pub(crate) fn new(manifest: &'a Manifest) -> Offers<'a> {
        Offers {
            manifest,
            counter_hz: None,
            counter_is_kernels: false,
            process_1_read: None,
            process_1_ran: None,
            counter_heard: Vec::new(),
            counter_seen: Vec::new(),
            started: None,
            marked: Vec::new(),
            trace: None,
            printk: None,
            heard: None,
            kernel_clock_from: None,
        }
    }

    /// Says that a text is stamped with the kernel's clock, or that something took this long before that clock was 0. What
    /// took longest began at power-on.
    pub(crate) fn kernel_after(&mut self, before: Ns) {
        self.kernel_clock_from = self.kernel_clock_from.max(Some(before));
    }

    /// Whether times are on the host's clock.
    pub(crate) fn is_hosted(&self) -> bool {
        self.manifest.time_base == TimeBase::Host
    }
}
