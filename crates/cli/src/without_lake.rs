//! Replaces `bootscope lake` in a build without lakes.

use crate::Done;
use crate::output::Output;
use std::ffi::OsString;

/// Not in this build: `make` builds the whole program
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _rest: Vec<OsString>,
}

/// Refuses the command.
pub fn run(_: &Args, _: &Output) -> anyhow::Result<Done> {
    anyhow::bail!("this program was built without lakes, as `make demo` does: run `make`, which builds the whole")
}
