//! `bootscope show`: the summary in the terminal.

use crate::{Done, amount, boot, output::Output};
use report::{Cutoff, Layout, Summary};
use std::path::PathBuf;

/// Show where the time went: phases, boot path, memory, what did not add up
///
/// With --quiet only how it ended, after how long, and the tables that are asked for by name; with --verbose also the
/// whole evidence of each phase, and how the boot was run.
#[derive(clap::Args)]
#[command(after_help = RULES)]
pub struct Args {
    /// A recording: its folder, or the packed file
    recording: PathBuf,
    /// How many rows of each table [default: 20, or all that are not cut off]
    #[arg(long, value_name = "ROWS")]
    top: Option<usize>,
    /// List only rows of at least so much: a time (10ms), or a share (1%)
    #[arg(long, value_name = "LEAST", value_parser = amount::cutoff)]
    cutoff: Option<Cutoff>,
    /// Make the rows by rules of one's own, in place of the operating system's (see below)
    #[arg(long, value_name = "FILE")]
    group: Option<PathBuf>,
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

/// How many rows of a table are listed if nobody says.
const TOP: usize = 20;

const RULES: &str = "\
Rules for rows (--group FILE): one a line, the first that matches wins, # begins a comment.
  whole WHAT [| WHAT]... [-> ROW]   the outermost WHAT is a row, with all under it
  outer WHAT                        the outermost WHAT is a row; delays and waits under it are rows apart: \"WHAT · DELAY\"
  inner WHAT                        the same with the innermost WHAT
  delay WHAT                        WHAT only lets time pass: who called it has the row, and WHAT is the suffix
  skip WHAT                         WHAT only calls the steps of the boot: no rule makes a row of it
  recording WHAT                    WHAT takes its time because the boot is recorded
  threads WORD                      a thread that another waited for is called \"WORD NAME\"
  use linux|freebsd                 the rules of that system come here
WHAT is a name and its detail as the tables print them, with * for any text and ? for any character; a kind may stand
before it, as in probe:hpt*, call:f, thread:usbus* (a thread that another waited for), initcall:*, attach:*, mount:*.
With -> all that a rule matches is one row.

Example:
  whole DEVICE_PROBE hpt* -> DEVICE_PROBE hpt*
  use freebsd";

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let opened = boot::open(&args.recording)?;
    let summary = Summary::of(&opened.boot(args.group.as_deref())?);
    if output.json {
        output.document(&summary)?;
        return Ok(Done::Well);
    }
    let top = args.top.unwrap_or(if args.cutoff.is_some() { usize::MAX } else { TOP });
    let (all_processes, cutoff) = (args.processes, args.cutoff.unwrap_or_default());
    let layout = Layout { all_processes, cutoff, ..output.layout(top) }.of(&summary);
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
