//! `bootscope show`: the summary in the terminal.

use crate::{Done, boot, output::Output};
use report::{Boot, Layout, Summary};
use std::path::PathBuf;

/// Show where the time went: phases, boot path, memory, what did not add up
///
/// With --quiet only how it ended, after how long, and the tables that are asked for by name; with --verbose also the
/// whole evidence of each phase, and how the boot was run.
#[derive(clap::Args)]
pub struct Args {
    /// A recording: its folder, or the packed file
    recording: PathBuf,
    /// How many rows of each table
    #[arg(long, default_value_t = 20, value_name = "ROWS")]
    top: usize,
    /// Also list all initcalls, the longest first: from call to return, waits included
    #[arg(long)]
    initcalls: bool,
    /// Also list functions on the boot path, with self and total time (--top says how many)
    #[arg(long)]
    functions: bool,
    /// List all user processes, not only those that last
    #[arg(long)]
    processes: bool,
    /// Also sum over all threads: not the boot path, but all that was done until the end mark
    #[arg(long)]
    all_threads: bool,
}

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let opened = boot::open(&args.recording)?;
    let boot = Boot::new(&opened.timeline, &opened.facts);
    let summary = Summary::of(&boot);
    if output.json {
        output.document(&summary)?;
        return Ok(Done::Well);
    }
    let layout = Layout { all_processes: args.processes, ..output.layout(args.top) }.of(&summary);
    let mut text = if output.quiet { report::headline(&summary, layout) } else { report::show(&summary, layout) };
    if args.initcalls {
        text.push('\n');
        text.push_str(&report::initcalls(&summary.initcalls, Layout { top: usize::MAX, ..layout }));
    }
    if args.functions {
        text.push('\n');
        text.push_str(&report::functions(&summary.functions, layout));
    }
    if args.all_threads {
        text.push('\n');
        text.push_str(&report::rows("All threads (not the boot path)", &summary.where_all_threads, layout));
    }
    if output.verbose {
        text.push('\n');
        text.push_str(&report::details(&summary, &opened.facts.how, layout));
    }
    output.text(&text)?;
    Ok(Done::Well)
}
