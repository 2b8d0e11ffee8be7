//! `bootscope check`: compares boots with their budgets.

use crate::up_to::UpToArgs;
use crate::{Done, output::Output};
use anyhow::Context;
use benchmark::budgets::{Budgets, Status};
use campaigns::check::{Request, groups};
use campaigns::files::write_file;
use report::Check;
use std::path::{Path, PathBuf};

/// Compare boots with budgets, for CI
///
/// The exit status is 1 if a budget is exceeded. bootscope calls a budget exceeded, or kept, only if the boots show it with
/// confidence. If they do not, the budget is undecided, and --undecided chooses the exit status. A boot that did not reach
/// its end mark fails the check.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The budgets, in TOML (see below)
    budgets: PathBuf,
    /// Benches, recordings, or folders of recordings: all boots of one kernel
    #[arg(required = true)]
    boots: Vec<PathBuf>,
    /// The reference of limits such as +5%: a bench, a recording, `history` (the newest earlier benches of the same
    /// setup), or history:NUMBER [default: as the file says, else the bench's first variant]
    #[arg(long, value_name = "WHAT")]
    baseline: Option<String>,
    #[command(flatten)]
    up_to: UpToArgs,
    /// The variant to check [default: the second, against the first]
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// The database of past benches [default: $XDG_DATA_HOME/bootscope/history.db]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// The exit status if no budget is exceeded, but some are undecided
    #[arg(long, value_name = "STATUS", default_value_t = 0)]
    undecided: u8,
    /// Also write JUnit XML into this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Also write a Markdown summary into this file, such as "$GITHUB_STEP_SUMMARY"
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Print GitHub annotations instead of the table
    #[arg(long, conflicts_with = "json")]
    github: bool,
}

const HELP: &str = "\
Budgets:
  baseline = \"history\"       # what limits with + are relative to
  total = [\"1.2s\", \"+5%\"]    # one limit, or several
  [phase]
  initcalls = \"300ms\"        # of --deterministic boots \"300M instr\"
  [function]                 # rows of the boot path, as show names them
  \"initcall acpi_init\" = \"+2ms\"
  [milestone]                # when it is passed: show --milestones lists them
  \"unit:ssh.service\" = \"8s\"
  [memory]
  vmm_max_rss = \"180M\"       # also guest_used, and other metrics in bytes
  [metric]                   # any other metric of which less is better
  vmm_cpu = \"2s\"
  [instructions]             # of --deterministic boots, which have no time
  total = \"1.9G\"

Examples:
  bootscope bench --vary kernel=main.bzImage --vary kernel=new.bzImage -o ab
  bootscope check budgets.toml ab --github --junit check.xml
  bootscope check budgets.toml boots/a boots/b --baseline boots/bench-main

A baseline in the same bench is best: its boots ran in turn with the others, so
the host's noise is in both.

Exit status:
  0  no budget is exceeded
  1  a budget is exceeded, or a boot failed
  2  usage or input error
  --undecided chooses the status if the boots cannot tell";

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let text = recording::read_regular_text(&args.budgets, recording::SMALL_BYTES_MAX);
    let text = text.with_context(|| format!("cannot read {}", args.budgets.display()))?;
    let budgets = Budgets::parse(&text).with_context(|| args.budgets.display().to_string())?;
    let request = Request {
        boots: args.boots.clone(),
        baseline: args.baseline.clone(),
        up_to: args.up_to.milestone(),
        variant: args.variant.clone(),
        history: args.db.clone(),
    };
    let all = groups(&request, &budgets, output)?;
    let checked = benchmark::budgets::check(&budgets, &all).with_context(|| args.budgets.display().to_string())?;
    let check = Check::new(&args.budgets.display().to_string(), all.iter().map(|(observed, _)| observed), checked);
    if let Some(path) = &args.junit {
        write_file(path, true, |out| out.write_all(check.junit().as_bytes()))?;
    }
    if let Some(path) = &args.markdown {
        append(path, &check.markdown())?;
    }
    match () {
        () if output.json => output.document(&check)?,
        () if args.github => output.text(&check.github())?,
        () => output.text(&check.text(output.layout(usize::MAX)))?,
    }
    Ok(match check.status {
        Status::Within => Done::Well,
        Status::Over => Done::Badly,
        Status::CannotTell => Done::Status(args.undecided),
    })
}

/// Appends to a file, because every step of a job appends to the same summary.
fn append(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}
