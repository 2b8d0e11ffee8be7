//! `bootscope show`: prints the summary of a boot.

use crate::amount::bytes;
use crate::boot_view::BootViewArgs;
use crate::{Done, amount, output::Output};
use crate::{bench, findings, trial};
use anyhow::{Context, bail};
use benchmark::fit::Size;
use campaigns::benches;
use campaigns::opened_boot::OpenedBoot;
use evidence::calls::share_matched;
use evidence::{BootCalls, Followed};
use report::{Boot, CallLine, Cutoff, Facts, Fit, Layout, Summary};
use std::path::{Path, PathBuf};
use timeline::Unit;

/// Show where the time went: phases, boot path, memory, what did not add up
///
/// The first screen has the total, the phases as a bar, and the five rows that most of the boot went to. The tables
/// follow. --quiet prints only the outcome and the tables that you ask for by name. --verbose also prints the evidence of
/// each phase, and how the boot was run. Given a bench, show prints its results again, even if it was killed.
#[derive(clap::Args)]
#[command(after_help = RULES)]
pub struct Args {
    /// A recording (folder or packed file), a bench's folder, or logs of one boot (- is standard input); with --fit, several
    /// recordings
    #[arg(required = true)]
    recordings: Vec<PathBuf>,
    /// List at most this many rows of each table [default: 20, or all with --cutoff]
    #[arg(long, value_name = "ROWS")]
    top: Option<usize>,
    /// List only rows of at least this time (10ms) or share (1%)
    #[arg(long, value_name = "LEAST", value_parser = amount::cutoff)]
    cutoff: Option<Cutoff>,
    /// Make the rows by the rules in this file instead of the operating system's (see below)
    #[arg(long, value_name = "FILE")]
    group: Option<PathBuf>,
    /// Fit how each row grows with CPUs or memory, over recordings of one system in several sizes
    #[arg(long, value_name = "SIZE")]
    fit: Option<Sizes>,
    /// With --fit: print what each row would take at this size (128, 4T); may be repeated
    #[arg(long, value_name = "SIZE", requires = "fit")]
    at: Vec<String>,
    /// Also list all initcalls, longest first, from call to return with all waits
    #[arg(long)]
    initcalls: bool,
    /// Also list the functions on the boot path, with self and total time
    #[arg(long)]
    functions: bool,
    /// List all user processes, not only the long ones
    #[arg(long)]
    processes: bool,
    /// List all units of systemd's in order of time, not only the longest
    #[arg(long)]
    units: bool,
    /// Also list the milestones that the boot passed, and when
    #[arg(long)]
    milestones: bool,
    #[command(flatten)]
    view: BootViewArgs,
    /// Look at this boot of a log that holds several: 0 is the last, -1 the one before [default: the last that reached process 1]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(..=0))]
    boot: Option<i32>,
    /// Also sum over all threads until the end mark; this is not the boot path
    #[arg(long)]
    all_threads: bool,
    /// Do not look for what to do about it, which takes a part of the time for a large recording
    #[arg(long)]
    no_findings: bool,
}

/// The default number of listed rows.
const DEFAULT_TOP: usize = 20;

const RULES: &str = "\
Rules for rows (--group FILE): one rule per line; the first that matches wins;
# begins a comment.
  whole WHAT [| WHAT]... [-> ROW]
                   the outermost WHAT is a row, with everything it calls
  outer WHAT       the outermost WHAT is a row; delays and waits below it are
                   rows of their own: \"WHAT · DELAY\"
  inner WHAT       the same, for the innermost WHAT
  delay WHAT       WHAT only lets time pass: its caller is the row, and WHAT the
                   suffix
  skip WHAT        WHAT only calls the steps of the boot and is never a row
  recording WHAT   WHAT takes time only because the boot is recorded
  threads WORD     a thread that others waited for is called \"WORD NAME\"
  use linux|freebsd|generic
                   continue with the rules of that system (generic: of an
                   unknown kernel)
WHAT is a name and its detail, as the tables print them; * is any text, ? any
character. A kind may stand before it: probe:hpt*, call:f, initcall:*, attach:*,
mount:*, thread:usbus* (a thread that others waited for).
-> makes one row of everything that the rule matches.

Example:
  whole DEVICE_PROBE hpt* -> DEVICE_PROBE hpt*
  use freebsd";

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    if let Some(size) = args.fit {
        return fit(args, size, output);
    }
    let recording = &args.recordings[0];
    let is_one = args.recordings.len() == 1;
    if !is_one && args.recordings.iter().any(|path| path.is_dir()) {
        bail!("show is for one recording at a time, except with --fit cpus or --fit memory");
    }
    if let Some(journal) = benches::journal_path(recording) {
        if trial::show_again(recording, output)? {
            return Ok(Done::Well);
        }
        return bench::show_again(&journal, &args.view.boot_view(), args.top.unwrap_or(DEFAULT_TOP), output);
    }
    let opened = args.view.boot_view().of_boot(args.boot).open_files(&args.recordings, output)?;
    let mut boot = opened.boot(args.group.as_deref())?;
    let shows_findings = output.json || !output.quiet;
    if shows_findings && !args.no_findings {
        boot.findings = Some(findings::most_valuable(&opened, output));
    }
    let mut summary = Summary::of_last(boot);
    if let Some(call_tree) = opened.calls.as_ref().map(Followed::tree) {
        summary.calls = Some(calls(&call_tree));
    }
    if output.json {
        output.document(&summary)?;
        return Ok(Done::Well);
    }
    let top = args.top.unwrap_or(if args.cutoff.is_some() { usize::MAX } else { DEFAULT_TOP });
    let (all_processes, all_units) = (args.processes, args.units);
    let cutoff = args.cutoff.unwrap_or_default();
    let layout = Layout { all_processes, all_units, cutoff, ..output.layout(top) }.of(&summary);
    output.text(&text(args, &summary, &opened.facts, layout, output))?;
    Ok(Done::Well)
}

/// The summary and the further tables that the user requested.
fn text(args: &Args, summary: &Summary, facts: &Facts, layout: Layout, output: &Output) -> String {
    let mut text = if output.quiet { report::headline(summary, layout) } else { report::show(summary, layout) };
    // Without --quiet they are among the other tables.
    if output.quiet && args.processes {
        text.push('\n');
        text.push_str(&report::processes(&summary.processes, layout));
    }
    if output.quiet && args.units {
        text.push('\n');
        text.push_str(&report::units(&summary.units, args.units, layout));
    }
    if let Some(calls) = &summary.calls {
        text.push('\n');
        text.push_str(&report::calls(calls, layout));
    }
    if args.initcalls {
        text.push('\n');
        text.push_str(&report::initcalls(summary, Layout { top: args.top.unwrap_or(usize::MAX), ..layout }));
    }
    if args.functions {
        text.push('\n');
        text.push_str(&report::functions(&summary.functions, layout));
    }
    if args.milestones {
        text.push('\n');
        text.push_str(&report::milestones(&summary.milestones, layout));
    }
    if args.all_threads {
        text.push('\n');
        text.push_str(&report::all_threads(&summary.where_all_threads, layout));
    }
    if output.verbose {
        text.push('\n');
        text.push_str(&report::details(summary, &facts.how, layout));
    }
    text
}

/// The size by which recordings differ.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sizes {
    /// The number of CPUs
    Cpus,
    /// The amount of memory
    Memory,
}

impl Sizes {
    fn parse(self, text: &str) -> anyhow::Result<f64> {
        match self {
            Sizes::Cpus => {
                let count: Option<u32> = text.parse().ok().filter(|&count| count > 0);
                Ok(count.with_context(|| format!("--at {text}: give a number of CPUs, such as 128"))?.into())
            }
            Sizes::Memory => {
                let bytes = bytes(text).map_err(|what| anyhow::anyhow!("--at: {what}"))?;
                Ok(gigabytes(bytes))
            }
        }
    }

    /// The size of a recording's machine.
    fn of(self, opened: &OpenedBoot, path: &Path) -> anyhow::Result<f64> {
        let subject = &opened.facts.subject;
        match self {
            Sizes::Cpus if subject.cpus > 0 => Ok(subject.cpus.into()),
            Sizes::Memory if subject.memory_bytes > 0 => Ok(gigabytes(subject.memory_bytes)),
            Sizes::Cpus => bail!("{} does not say how many CPUs it had: import it with --cpus N", path.display()),
            Sizes::Memory => {
                bail!("{} does not say how much memory it had: import it with --memory SIZE", path.display())
            }
        }
    }
}

/// Converts to units of 2^30 bytes, as kernels count.
fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// Fits a scaling model to each row.
fn fit(args: &Args, by: Sizes, output: &Output) -> anyhow::Result<Done> {
    let at = args.at.iter().map(|text| by.parse(text)).collect::<anyhow::Result<Vec<f64>>>()?;
    let opened = args
        .recordings
        .iter()
        .map(|path| args.view.boot_view().open_noting_warnings(path, output))
        .collect::<anyhow::Result<Vec<OpenedBoot>>>()?;
    let mut boots: Vec<(String, f64, Boot)> = Vec::new();
    for (path, opened) in args.recordings.iter().zip(&opened) {
        if opened.timeline.unit == Unit::Ticks {
            bail!(
                "{}: its times are in ticks, and nobody knows how long one is: import it with --tsc-frequency",
                path.display()
            );
        }
        boots.push((path.display().to_string(), by.of(opened, path)?, opened.boot(args.group.as_deref())?));
    }
    let size = if by == Sizes::Cpus { Size::Cpus } else { Size::Memory };
    let boots: Vec<(String, f64, &Boot)> = boots.iter().map(|(name, size, boot)| (name.clone(), *size, boot)).collect();
    let fit = Fit::new(&boots, size, &at);
    if fit.rows.is_empty() {
        bail!("a line needs two sizes, and there is only one: give recordings of machines of different sizes");
    }
    if output.json {
        output.document(&fit)?
    } else {
        output.text(&fit.text(output.layout(args.top.unwrap_or(DEFAULT_TOP))))?
    }
    Ok(Done::Well)
}
/// The figures and functions of a call trace, for the document.
fn calls(call_tree: &BootCalls) -> report::Calls {
    let line = |row: &timeline::FunctionRow| CallLine {
        name: match call_tree.names.get(row.name) {
            line if row.bottom => format!("({line}: no function known)"),
            function => function.to_owned(),
        },
        calls: row.calls,
        self_instructions: row.own,
        total_instructions: row.total,
    };
    report::Calls {
        count: call_tree.counts.calls,
        matched: share_matched(&call_tree.counts).unwrap_or(0.0),
        owned: call_tree.share.owned().unwrap_or(0.0),
        instructions: call_tree.share.insns,
        functions: call_tree.profile.functions().iter().map(line).collect(),
    }
}
