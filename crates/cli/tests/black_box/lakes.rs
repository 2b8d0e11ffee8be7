//! Recordings of a fleet.

mod lake;
mod lake_page;
