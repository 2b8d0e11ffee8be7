//! Views of a boot: documents, pages, exports, and their agreement.

mod book;
mod commands;
mod json_schemas;
mod ledger;
mod otlp;
mod page_what_if;
mod picture;
mod priced;
mod sums;
mod terminal_view;
mod view;
