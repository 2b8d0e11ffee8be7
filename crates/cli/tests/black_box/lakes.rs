//! Lakes with the recordings of a fleet.

mod lake;
mod lake_page;
