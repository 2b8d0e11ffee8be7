//! The floor: how much the code's layout alone changes a boot's length. All measured values are here, and what each is for.
//!
//! One dummy character more on the command line puts code and data elsewhere, and hash chains with them. Seen on stock Debian
//! kernels under QEMU 7.2: the most that one character made. Where a boot waits for a clock to tick, it can be more: that is
//! why boots that are compared are dithered (`bench` adds a dummy argument), and a floor decides only where none were. No
//! floor is a bound for every kernel: [`LAYOUT_MOST`] is what one kernel did.

/// Of the total in instructions, in which waiting costs nothing. Budgets that are held against boots that only repeat.
pub const INSTRUCTIONS: f64 = 0.0017;
/// Of the total in virtual time, in which waiting counts and most of a boot's waits have a fixed length. Comparisons of
/// boots that only repeat, and of two recordings.
pub const VIRTUAL_TIME: f64 = 0.000_75;
/// Of the total in virtual time, the most that was seen on any kernel: Debian's 6.12 cloud kernel with its crypto tests, whose
/// threads the kernel schedules otherwise. Six layouts of one boot took 2121.3 to 2182.2 ms. What one round of boots measures is
/// known to so much, and no better.
pub const LAYOUT_MOST: f64 = 0.03;
/// Of a pair of boots of two commits, each with its own layout: a scatter that is smaller is not believed by a search. It is
/// below the most in virtual time because it stands for a standard deviation.
pub const PAIR: f64 = 0.0005;
