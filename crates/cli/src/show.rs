//! `bootscope show`: the summary in the terminal.

use crate::{Done, boot, output::Output};
use evidence::calls::BootCalls;
use report::{Boot, CallLine, Summary};
use std::path::PathBuf;

/// Show where the time went: phases, boot path, memory, what did not add up
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
    /// Also sum over all threads: not the boot path, but all that was done until the end mark
    #[arg(long)]
    all_threads: bool,
}

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let opened = boot::open(&args.recording)?;
    let boot = Boot::new(&opened.timeline, &opened.facts);
    let mut summary = Summary::of(&boot);
    if let Some(found) = evidence::calls::load(&opened.recording)? {
        summary.calls = Some(calls(&found));
        summary.diagnostics.extend(found.diagnostics.iter().map(report::DiagnosticLine::from));
    }
    if output.json {
        output.document(&summary)?;
        return Ok(Done::Well);
    }
    let layout = output.layout(args.top);
    let mut text = report::show(&summary, layout);
    if let Some(calls) = &summary.calls {
        text.push('\n');
        text.push_str(&report::calls(calls, layout));
    }
    if args.initcalls {
        text.push('\n');
        text.push_str(&report::initcalls(&summary.initcalls, output.layout(usize::MAX)));
    }
    if args.functions {
        text.push('\n');
        text.push_str(&report::functions(&summary.functions, layout));
    }
    if args.all_threads {
        text.push('\n');
        text.push_str(&report::rows("All threads (not the boot path)", &summary.where_all_threads, layout));
    }
    output.text(&text)?;
    Ok(Done::Well)
}

/// The figures and functions of calls, for the document.
fn calls(found: &BootCalls) -> report::Calls {
    let line = |row: &timeline::FunctionRow| CallLine {
        name: found.names.get(row.name).to_owned(),
        calls: row.calls,
        self_instructions: row.own,
        total_instructions: row.total,
    };
    report::Calls {
        count: found.calls.counts.calls,
        matched: found.calls.counts.share_matched().unwrap_or(0.0),
        owned: found.share.owned().unwrap_or(0.0),
        instructions: found.share.insns,
        functions: found.profile.functions().iter().map(line).collect(),
    }
}
