//! Requests for a segment, and the places in a free segment that satisfy them.

use crate::Error;
use crate::tag::Tag;

/// The rule by which an allocation chooses a free segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// The first segment of a list in which every segment is large enough, in constant time. If all such lists are empty,
    /// the first segment that fits on the list below.
    #[default]
    Instant,
    /// The smallest segment that is large enough. Searches one list.
    Best,
    /// The first segment that is large enough behind the last allocation of this kind. The search wraps around, so an
    /// address is reused only after all others were used. Searches in the order of addresses.
    Next,
}

/// An allocation request: a size and further constraints.
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
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) fit: Fit,
    pub(crate) may_wait: bool,
}

impl Request {
    /// Requests `size` addresses anywhere, by instant fit, without waiting.
    pub const fn new(size: u64) -> Request {
        Request { size, align: 1, phase: 0, nocross: 0, min: 0, max: u64::MAX, fit: Fit::Instant, may_wait: false }
    }

    /// Requires a multiple of this power of two. Addresses are always multiples of the arena's quantum too.
    pub const fn aligned(self, align: u64) -> Request {
        Request { align, ..self }
    }

    /// Requires this distance behind a multiple of the alignment.
    pub const fn phase(self, phase: u64) -> Request {
        Request { phase, ..self }
    }

    /// Forbids crossing a multiple of this power of two.
    pub const fn not_across(self, boundary: u64) -> Request {
        Request { nocross: boundary, ..self }
    }

    /// Requires this address or a higher one.
    pub const fn from(self, min: u64) -> Request {
        Request { min, ..self }
    }

    /// Requires all of the segment below this address.
    pub const fn below(self, end: u64) -> Request {
        match end {
            0 => Request { size: 0, ..self },
            _ => Request { max: end - 1, ..self },
        }
    }

    /// Chooses the fit.
    pub const fn fit(self, fit: Fit) -> Request {
        Request { fit, ..self }
    }

    /// Marks the caller as able to wait: without space, the arena returns [`Error::WouldBlock`], not [`Error::NoSpace`].
    pub const fn may_wait(self) -> Request {
        Request { may_wait: true, ..self }
    }

    /// Refuses a request that no arena with this quantum can satisfy.
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
        // Between two boundaries, the first aligned place is the best one, and it lies at the same offset everywhere.
        let across = nocross != 0 && (self.phase % nocross).checked_add(self.size).is_none_or(|end| end > nocross);
        if self.phase >= align.max(quantum) || across || self.min > self.max { Err(Error::CannotHold) } else { Ok(()) }
    }

    /// True if the request has limits or boundaries, which a source does not get.
    pub(crate) fn is_limited(&self) -> bool {
        self.nocross != 0 || self.min != 0 || self.max != u64::MAX
    }

    /// The lowest address at `from` or above in a free segment that satisfies the request.
    pub(crate) fn place(&self, segment: &Tag, quantum: u64, rounded: u64, from: u64) -> Option<u64> {
        let align = self.align.max(quantum);
        let last = segment.last().min(self.max);
        let mut address = up_to_phase(segment.start.max(self.min).max(from), align, self.phase)?;
        if self.nocross != 0 && address / self.nocross != address.checked_add(self.size - 1)? / self.nocross {
            let boundary = (address / self.nocross + 1).checked_mul(self.nocross)?;
            address = up_to_phase(boundary, align, self.phase)?;
        }
        // The limits apply to the requested size. The size rounded up to the quantum has to fit into the segment.
        let fits = address.checked_add(self.size - 1)? <= last && address.checked_add(rounded - 1)? <= segment.last();
        fits.then_some(address)
    }

    /// Size of a span from the source that surely has a place for this request. The source's addresses are multiples of its
    /// quantum.
    pub(crate) fn import_size(&self, quantum: u64, rounded: u64, source_quantum: u64) -> Option<u64> {
        let align = self.align.max(quantum);
        let in_front = match align > source_quantum {
            true => align - source_quantum + self.phase % source_quantum,
            false => self.phase,
        };
        rounded.checked_add(in_front)?.checked_next_multiple_of(source_quantum)
    }
}

/// The first address at `min` or above that is `phase` behind a multiple of `align`.
fn up_to_phase(min: u64, align: u64, phase: u64) -> Option<u64> {
    min.checked_add(phase.wrapping_sub(min) & (align - 1))
}
