//! The atomics the writer uses. `tests/loom.rs` puts loom's in their place, and compiles the same `slots.rs`.

pub use core::sync::atomic::{AtomicU64, Ordering};
