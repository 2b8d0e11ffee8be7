//! Boots whose every call is recorded.

mod calls_exact;
mod early_names;
mod every_call;
mod followed;
mod followed_boots;
mod followed_truth;
