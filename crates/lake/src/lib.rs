//! A lake: the boots of many machines as Parquet tables in a folder, for whoever reads Parquet.
//!
//! `tables` is the contract: every table with its columns. `boot` is what is kept of one boot, out of what `show --json` says
//! of it. `columns` writes rows as a Parquet file and reads them back. `lake` is the folder: which boots it has, and how more come
//! in, so that a kill at any moment leaves a lake that reads.
//!
//! This crate never opens evidence, and asks no questions: engines do that.

mod boot;
mod columns;
mod error;
mod identity;
#[allow(clippy::module_inception)]
mod lake;
mod tables;

pub use boot::{Boot, Labels};
pub use error::Error;
pub use identity::{Key, identity};
pub use lake::{Added, Lake};
pub use tables::{Column, SCHEMA, Table, Type, tables};
