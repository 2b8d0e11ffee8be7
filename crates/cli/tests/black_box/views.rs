//! What is shown of a boot: documents, pages, exports, and what they say of the same.

mod book;
mod commands;
mod json_schemas;
mod ledger;
mod otlp;
mod page_what_if;
mod sums;
mod view;
