//! One of the boots of an experiment.

use crate::Boot;

/// A boot as an experiment looks at it.
#[derive(Clone, Copy)]
pub struct LabBoot<'a> {
    /// What was recorded.
    pub boot: &'a Boot<'a>,
    /// All that the kernel printed.
    pub console: &'a str,
}
