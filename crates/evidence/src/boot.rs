//! The facts about a boot, in terms of the boot (its clocks, its first thread, the stages of its machine, the names of
//! its functions) and not of a format. A reader need not know from which format a fact comes.
//!
//! [`Found`] holds what readers find in their files. It is read-only from the first pass on. [`Placing`] holds what the passes change.

pub(crate) mod arch;
pub(crate) mod clocks;
mod fact;
pub(crate) mod followed;
mod found;
pub(crate) mod linux;
pub(crate) mod lists;
pub(crate) mod offers;
mod placing;
pub(crate) mod ports;
pub(crate) mod printed;
pub mod regions;
pub(crate) mod stage;
pub(crate) mod subject;

pub(crate) use fact::FactKind;
pub(crate) use found::{Found, Moment};
pub(crate) use placing::{Machine, Placing};
