//! Runs the program that queries a lake. It is a separate program because its engine takes many times as long to build
//! as all else.

use crate::Done;
use crate::output::Output;
use anyhow::Context;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The arguments for it: all that follow, including its --help.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct EngineArgs {
    /// The arguments of bootscope-lake; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub all: Vec<OsString>,
}

/// The path of the program.
pub fn program() -> anyhow::Result<PathBuf> {
    machine::lake_program().map_err(anyhow::Error::msg)
}

/// Replaces this process by the program. Returns only if that fails.
pub fn run(command: &str, args: &[OsString], output: &Output) -> anyhow::Result<Done> {
    let program = program()?;
    let error = Command::new(&program).arg(command).args(global_flags(output)).args(args).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

/// The global flags that the user gave, to pass on before the program's own arguments.
fn global_flags(output: &Output) -> impl Iterator<Item = &'static str> {
    let flags = [(output.json, "--json"), (output.quiet, "--quiet")];
    flags.into_iter().filter_map(|(is_given, flag)| is_given.then_some(flag))
}
