//! The flame chart of the boot path as an SVG that any browser opens, zooms and searches.

use super::Export;
use crate::Boot;
use crate::chart::{self, Layout};
use std::io::{self, Write};

/// The `svg` format.
pub struct Svg;

impl Export for Svg {
    fn name(&self) -> &'static str {
        "svg"
    }

    fn extension(&self) -> &'static str {
        "svg"
    }

    fn about(&self) -> &'static str {
        "a flame chart of the boot path, for any browser"
    }

    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
        let layout = Layout::of(boot).ok_or_else(no_path)?;
        chart::alone(boot, &layout, &chart::Heading::of_boot_path(boot), out)
    }
}

/// The refusal to draw a boot without a path.
pub(super) fn no_path() -> io::Error {
    let why = "there is no boot path to draw, because no evidence says which thread reached the end mark: record or \
               import a trace with scheduler events, or a log with initcall_debug";
    io::Error::new(io::ErrorKind::InvalidData, why)
}
