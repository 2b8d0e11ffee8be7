//! A lake: the boots of many machines as Parquet tables in a folder, for any reader of Parquet.
//!
//! `tables` defines the tables and their columns, and `key` the columns that all tables of boots begin with. `boot` is a boot to
//! add, and `rows` turns it into rows. `columns` writes rows as a Parquet file and reads them back. `folder` lists the boots of
//! a lake and adds more, so that a kill at any moment leaves a readable lake. `stored` reads files of any version, and
//! `rewrite` replaces files atomically.
//!
//! This crate never opens evidence and answers no queries; query engines do.

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
