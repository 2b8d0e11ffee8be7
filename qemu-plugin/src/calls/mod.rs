//! Follows every call of a boot, from the reset vector.
//!
//! `follow` has the rules, `block` the facts about code, and `stack_effect` a block's effect on the stack pointer.
//! `stack` and `stacks` hold the open calls, `tree` is the call tree, `encode` the output, `clock` the time. Only `clock`'s
//! [`VirtualTimeThread`](clock::VirtualTimeThread) depends on QEMU.

#[cfg(any(test, not(feature = "qemu")))]
pub mod any_guest;
pub mod block;
pub mod clock;
pub mod cost;
pub mod encode;
pub mod follow;
pub mod memory;
pub mod stack;
pub mod stack_effect;
pub mod stacks;
pub mod tree;

#[cfg(test)]
mod several_vcpus;
#[cfg(test)]
mod tests;
