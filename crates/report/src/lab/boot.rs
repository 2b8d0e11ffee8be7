//! A boot of an experiment.

use crate::Boot;

/// A boot with its console, as an experiment needs it.
#[derive(Clone, Copy)]
pub struct LabBoot<'a> {
    /// The recorded boot.
    pub boot: &'a Boot<'a>,
    /// Everything that the kernel printed.
    pub console: &'a str,
}
