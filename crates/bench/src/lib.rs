//! Many boots instead of one: how long, how sure, and whether a change helped.
//!
//! [`stats`] are pure functions from samples to answers. This crate boots nothing and prints nothing itself: a boot is a
//! closure of the caller's, and how a result looks is the report's business.

pub mod stats;
