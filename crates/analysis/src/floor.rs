//! The noise of the code's layout: how much layout alone changes a boot's length. This file holds every measured value
//! and its use.
//!
//! One more dummy character on the command line moves code and data, and changes hash chains. The values are the
//! largest effect of one character, seen on stock Debian kernels under QEMU 7.2. The effect can be larger where a boot
//! waits for a clock to tick. Therefore compared boots are dithered (`bench` adds a dummy argument), and a floor
//! decides only about boots that were not. No floor is a bound for every kernel: [`LAYOUT_MOST`] is what one kernel
//! did.

/// A share of the total in instructions, where waiting costs nothing. Used for budgets that are checked against
/// repeated boots without dithering.
pub const INSTRUCTIONS: f64 = 0.0017;
/// A share of the total in virtual time, where waiting counts and most of a boot's waits have a fixed length. Used to
/// compare repeated boots without dithering, and to compare two recordings.
pub const VIRTUAL_TIME: f64 = 0.000_75;
/// A share of the total in virtual time: the most that was seen on any kernel. Debian's 6.12 cloud kernel with its
/// crypto tests schedules its threads differently with each layout. Six layouts of one boot took 2121.3 to 2182.2 ms.
/// One round of boots measures no more precisely than this.
pub const LAYOUT_MOST: f64 = 0.03;
/// A share of the total of two boots of two commits, each with its own layout. A search does not trust a scatter that
/// is smaller. The value is below the largest in virtual time because it stands for a standard deviation.
pub const PAIR: f64 = 0.0005;
