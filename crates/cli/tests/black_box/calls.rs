//! Boots with a call trace.

mod calls_exact;
mod early_names;
mod every_call;
mod exits;
mod followed;
mod followed_boots;
mod followed_truth;
