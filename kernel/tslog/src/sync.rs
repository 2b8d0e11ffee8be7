//! The atomics that the writer uses. `tests/loom.rs` compiles the same `slots.rs` with loom's atomics instead.

pub use core::sync::atomic::{AtomicU64, Ordering};
