//! Findings: what is slow in a boot, what it costs on the boot path, and what to do about it.
//!
//! A [`Detector`] is one file in `detectors/` and one line in its table. It looks at the evidence ([`Seen`]) and drafts
//! what it found: which stretches of which threads would become shorter, and by which [`Remedy`]. It computes no price.
//! [`find`] does that for all detectors, by running the boot again ([`analysis::Prices`]): what the boot did not wait for
//! costs nothing, and what two findings share counts once.
//!
//! This crate opens no file and decides by no text that a person reads. What a rule says of itself is data of the rule;
//! all other text is made by whoever prints findings.
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
