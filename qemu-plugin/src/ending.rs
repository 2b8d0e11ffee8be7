//! The last instruction of a block of code, decoded by the architecture's decoder (`arch`).

pub use plugin_formats::first_executions::Ending;
