//! The readers of evidence, one for each format: the files that it takes, and the place of its records on the timeline.

pub(crate) mod android_words;
pub(crate) mod before_kernel;
pub(crate) mod reader;
