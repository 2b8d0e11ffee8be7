//! Findings: the causes of slowness in a boot, their price on the boot path, and the remedies.
//!
//! A [`Detector`] is one file in `detectors/` and one line in its table. It reads the evidence ([`Seen`]) and drafts its result: the
//! stretches of threads that would become shorter, and the [`Remedy`]. It computes no price. [`find`] computes prices for all detectors by
//! replaying the boot ([`analysis::Prices`]). Time that the boot did not wait for costs nothing, and time that two findings share counts
//! once.
//!
//! This crate opens no file, and bases no decision on text that is written for users. A rule's description is part of the rule; the caller
//! that prints findings makes all other text.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod blacklist;
mod claimed;
mod detector;
mod detectors;
mod facts;
mod find;
mod finding;
mod grace_periods;
mod lab_switch;
mod need;
mod parallel;
mod pieces;
mod remedy;
mod seen;
mod statistics;

pub use detector::{Detector, Draft, Left, Part};
pub use detectors::{DETECTORS, named};
pub use facts::{Confidence, Figure, Price, Stretch, Value};
pub use find::{Found, Missing, find, find_alone, joint_price};
pub use finding::Finding;
pub use need::Need;
pub use pieces::Piece;
pub use remedy::{Change, Remedy};
pub use seen::{Machine, Seen, Vmm, kernel_version};
