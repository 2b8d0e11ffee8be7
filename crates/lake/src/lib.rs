//! A lake: the boots of many machines as Parquet tables in a folder, for whoever reads Parquet.
//!
//! `tables` is the contract: every table with its columns; `key` is what they begin with. `boot` is a boot, and `rows` what is kept of it.
//! `columns` writes rows as a Parquet file and reads them back. `folder` is which boots a lake has, and how more come in, so that a
//! kill at any moment leaves a lake that reads. `stored` reads files as they are, and `rewrite` replaces them by others, all at once.
//!
//! This crate never opens evidence, and asks no questions: engines do that.

mod batch;
mod boot;
mod column;
mod columns;
mod error;
mod files;
mod folder;
mod identity;
mod key;
mod machines;
mod rewrite;
mod rows;
mod stored;
mod tables;

pub use boot::{Boot, Labels, today};
pub use column::{Column, Type};
pub use error::Error;
pub use folder::{Added, Compacted, Lake};
pub use identity::{identity, token};
pub use tables::{SCHEMA, Table, tables};
