//! Generates completions and man pages from the definitions that parse the command line.

use crate::{Cli, Done, output::Output};
use anyhow::Context;
use clap::CommandFactory;
use std::path::PathBuf;

/// Print a shell's completion script
#[derive(clap::Args)]
pub struct CompletionArgs {
    shell: clap_complete::Shell,
}

/// Write man pages into a folder
#[derive(clap::Args)]
pub struct ManArgs {
    folder: PathBuf,
}

/// Prints the completion script.
pub fn completions(args: &CompletionArgs, output: &Output) -> anyhow::Result<Done> {
    // Write into memory first: the generator panics on a write error, and a closed pipe is no error.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "bootscope", &mut script);
    output.text(&String::from_utf8(script).context("the completion script is not UTF-8")?)?;
    Ok(Done::Well)
}

/// Writes `bootscope.1` and one page per subcommand.
pub fn man(args: &ManArgs) -> anyhow::Result<Done> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("cannot write man pages into {}", folder.display()))?;
    Ok(Done::Well)
}
