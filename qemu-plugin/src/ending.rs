//! How a block of code ends. An architecture's decoder tells it (`arch`).

pub use plugin_formats::first_executions::Ending;
