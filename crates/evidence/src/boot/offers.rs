//! The offers of evidence from which the clocks of a boot are found, in terms of clocks: readings of the guest's counter, and texts
//! whose lines carry stamps. No format is known here: a reader offers what its own has, and [`crate::assemble::clocks`] joins it.

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
    /// Its arrival at the program that wrote it down, if that is known.
    pub arrival: Option<Ns>,
}

/// A text whose lines carry stamps of one clock.
pub(crate) trait StampedText {
    /// The unit of its stamps.
    fn stamps(&self) -> Stamps {
        Stamps::Nanoseconds
    }

    /// The kernel's messages in it, in the order of the text.
    fn messages(&self) -> Box<dyn Iterator<Item = Stamped<'_>> + '_>;

    /// The numbered lines in it that process 1 wrote, and their stamps. If a number occurs twice, its last line counts.
    fn markers(&self) -> HashMap<u64, Option<Ticks>>;

    /// Its earliest stamp.
    fn earliest(&self) -> Option<Ticks> {
        self.messages().filter_map(|message| message.ticks).min()
    }

    /// Functions that were about to run, by name.
    fn functions(&self) -> Box<dyn Iterator<Item = (&[u8], Ticks)> + '_> {
        Box::new(std::iter::empty())
    }

    /// The counter's rate as the kernel measured it, the better figure first, and the message that has it.
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

/// The offers of all evidence.
pub(crate) struct Offers<'a> {
    pub manifest: &'a Manifest,
    /// The rate of the guest's counter, if its own register has it. Elsewhere it is the host's counter, seen by the guest.
    pub counter_hz: Option<f64>,
    /// True if that counter is a clock of the kernel's, which does not begin with the machine.
    pub counter_is_kernels: bool,
    /// The counter at the start of process 1.
    pub process_1_read: Option<Ticks>,
    /// The first instruction of a process, by the clock of a deterministic boot.
    pub process_1_ran: Option<Ns>,
    /// Readings of the guest's counter, and the arrival of each at the host: never early, sometimes late.
    pub counter_heard: Vec<SyncPoint>,
    /// Sync points: a trace's stamp of a function that was about to run, and the host's time of its first block, a little
    /// later.
    pub counter_seen: Vec<SyncPoint>,
    /// The machine's first instruction by the host's clock, or the arrival of the news that the virtual CPUs were started.
    pub started: Option<Ns>,
    /// Lines that compare the counter with other clocks.
    pub marked: Vec<Marked>,
    /// A text stamped with the trace's clock, and its file.
    pub trace: Option<(&'a str, &'a dyn StampedText)>,
    /// A text stamped with printk's clock.
    pub printk: Option<&'a dyn StampedText>,
    /// The kernel's messages as they arrived on the console, with the host's times.
    pub heard: Option<&'a dyn StampedText>,
    /// The zero of the kernel's clock, if evidence taken elsewhere has the length of firmware and loader before it.
    pub kernel_clock_from: Option<Ns>,
}

impl<'a> Offers<'a> {
    /// The clocks that the recording itself has.
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

    /// True if times are on the host's clock.
    pub(crate) fn is_hosted(&self) -> bool {
        self.manifest.time_base == TimeBase::Host
    }
}
