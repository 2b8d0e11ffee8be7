//! What is asked for, and where in a free segment it can be.

use crate::Error;
use crate::tag::Tag;

/// Which free segment an allocation is taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// The first of a list in which every segment is large enough: constant time. Only if all such lists are empty, the
    /// first that fits of the list below.
    #[default]
    Instant,
    /// The smallest that is large enough. Searches one list.
    Best,
    /// The first that is large enough behind the last allocation of this kind, round all addresses: no address is given
    /// again before all others were. Searches in the order of addresses.
    Next,
}

/// An allocation: a size, and what else must hold.
///
/// ```
/// use vmem::{Fit, Request};
///
/// let request = Request::new(0x3000).aligned(0x1_0000).below(1 << 32).fit(Fit::Best).may_wait();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) phase: u64,
    pub(crate) nocross: u64,
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) fit: Fit,
    pub(crate) may_wait: bool,
}

impl Request {
    /// So many, anywhere, by instant fit, without waiting.
    pub const fn new(size: u64) -> Request {
        Request { size, align: 1, phase: 0, nocross: 0, least: 0, most: u64::MAX, fit: Fit::Instant, may_wait: false }
    }

    /// At a multiple of this power of two. The arena's quantum always holds.
    pub const fn aligned(self, align: u64) -> Request {
        Request { align, ..self }
    }

    /// So far behind a multiple of the alignment.
    pub const fn phase(self, phase: u64) -> Request {
        Request { phase, ..self }
    }

    /// Not across a multiple of this power of two.
    pub const fn not_across(self, boundary: u64) -> Request {
        Request { nocross: boundary, ..self }
    }

    /// At this address or above.
    pub const fn from(self, least: u64) -> Request {
        Request { least, ..self }
    }

    /// All of it below this address.
    pub const fn below(self, end: u64) -> Request {
        match end {
            0 => Request { size: 0, ..self },
            _ => Request { most: end - 1, ..self },
        }
    }

    /// By this fit.
    pub const fn fit(self, fit: Fit) -> Request {
        Request { fit, ..self }
    }

    /// Whoever asks waits where there is no space: [`Error::WouldBlock`] instead of [`Error::NoSpace`].
    pub const fn may_wait(self) -> Request {
        Request { may_wait: true, ..self }
    }

    /// What can hold in no arena of this quantum is refused.
    pub(crate) fn check(&self, quantum: u64) -> Result<(), Error> {
        let (align, nocross) = (self.align, self.nocross);
        if self.size == 0 {
            return Err(Error::Empty);
        }
        if !align.is_power_of_two() || nocross != 0 && !nocross.is_power_of_two() {
            return Err(Error::NotPowerOfTwo(if align.is_power_of_two() { nocross } else { align }));
        }
        for constraint in [self.phase, nocross] {
            if constraint % quantum != 0 {
                return Err(Error::NotAligned(constraint));
            }
        }
        // Between two boundaries all places have the same distance from the first that is aligned.
        let across = nocross != 0 && (self.phase % nocross).checked_add(self.size).is_none_or(|end| end > nocross);
        if self.phase >= align.max(quantum) || across || self.least > self.most {
            Err(Error::CannotHold)
        } else {
            Ok(())
        }
    }

    /// Whether only some places in a free segment will do.
    pub(crate) fn is_limited(&self) -> bool {
        self.nocross != 0 || self.least != 0 || self.most != u64::MAX
    }

    /// The lowest address in a free segment, and not below `from`, where all of the request holds.
    pub(crate) fn place(&self, segment: &Tag, quantum: u64, rounded: u64, from: u64) -> Option<u64> {
        let align = self.align.max(quantum);
        let last = segment.last().min(self.most);
        let mut address = up_to_phase(segment.start.max(self.least).max(from), align, self.phase)?;
        if self.nocross != 0 && address / self.nocross != address.checked_add(self.size - 1)? / self.nocross {
            let boundary = (address / self.nocross + 1).checked_mul(self.nocross)?;
            address = up_to_phase(boundary, align, self.phase)?;
        }
        // The limits are of what was asked for; what it is rounded up by has to be in the segment.
        let fits = address.checked_add(self.size - 1)? <= last && address.checked_add(rounded - 1)? <= segment.last();
        fits.then_some(address)
    }

    /// How much of a source's memory surely has a place for this in it. A source's addresses are multiples of its quantum.
    pub(crate) fn import_size(&self, quantum: u64, rounded: u64, source_quantum: u64) -> Option<u64> {
        let align = self.align.max(quantum);
        let in_front = match align > source_quantum {
            true => align - source_quantum + self.phase % source_quantum,
            false => self.phase,
        };
        rounded.checked_add(in_front)?.checked_next_multiple_of(source_quantum)
    }
}

/// The first address from `least` on that is `phase` behind a multiple of `align`.
fn up_to_phase(least: u64, align: u64, phase: u64) -> Option<u64> {
    least.checked_add(phase.wrapping_sub(least) & (align - 1))
}
