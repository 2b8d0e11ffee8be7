//! Follows every call of a boot, from the reset vector.
//!
//! `follow` has the rules, `block` what is known of code, `stack` and `stacks` the calls under way, `tree` where the time goes,
//! `encode` the output, `clock` the time, `on_stack` what a block does to the stack pointer. Nothing here knows QEMU but `clock`'s [`Asker`](clock::Asker).

#[cfg(any(test, not(feature = "qemu")))]
pub mod any_guest;
pub mod block;
pub mod clock;
pub mod cost;
pub mod encode;
pub mod follow;
pub mod memory;
pub mod on_stack;
pub mod stack;
pub mod stacks;
pub mod tree;

#[cfg(test)]
mod several;
#[cfg(test)]
mod tests;
