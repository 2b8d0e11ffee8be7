//! `bootscope check`: compares boots with their budgets.

use crate::boot_view::BootViewArgs;
use crate::{Done, output::Output};
use anyhow::Context;
use benchmark::budgets::reference::{Reference, file, references};
use benchmark::budgets::{Budgets, OnUndecided, Status};
use campaigns::check::{Group, Request, groups};
use campaigns::files::write_file;
use report::Check;
use std::path::{Path, PathBuf};

/// Compare boots with budgets, for CI
///
/// The exit status is 1 if a budget is exceeded. bootscope calls a budget exceeded, or kept, only if the boots show it with
/// confidence. If their noise hides it, the check succeeds with a warning. If they measured nothing of a budget, it fails:
/// there are no boots, or too few; their trace is lost; they are of another kernel or other hardware. A boot that did not
/// reach its end mark fails it, too.
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
    view: BootViewArgs,
    /// The variant to check [default: the second, against the first]
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// The database of past benches [default: $XDG_DATA_HOME/bootscope/history.db]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// If no budget is exceeded, but some are undecided: ok, fail, or an exit status [default: fail only if a budget was not
    /// measured]
    #[arg(long, value_name = "WHAT", value_parser = OnUndecided::parse)]
    undecided: Option<OnUndecided>,
    /// Write what these boots took into this file of reference values, for the quantities of the budgets. A limit such as +5%
    /// gives the margin. Nothing is checked
    #[arg(long, value_name = "FILE", conflicts_with_all = ["junit", "ktap", "sarif", "kcidb", "markdown", "github", "json"])]
    write_reference: Option<PathBuf>,
    /// Also write JUnit XML into this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Also write KTAP into this file
    #[arg(long, value_name = "FILE")]
    ktap: Option<PathBuf>,
    /// Also write SARIF into this file
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Also write a report for KCIDB into this file
    #[arg(long, value_name = "FILE", requires = "kcidb_build")]
    kcidb: Option<PathBuf>,
    /// The build that the report for KCIDB is of
    #[arg(long, value_name = "ORIGIN:ID", requires = "kcidb", value_parser = kcidb_build)]
    kcidb_build: Option<String>,
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
  kernel = \"6.1\"             # boots of another kernel measure nothing
  total = [\"1.2s\", \"+5%\"]    # one limit, or several
  [phase]
  initcalls = \"300ms\"        # also the sum of \"initcalls: …\"
                             # of --deterministic boots \"300M instr\"
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
  [machine.q35]              # in place of the above on this machine type
  total = \"1.1s\"

Reference values:
  --write-reference makes a file of budgets from boots: a value, a margin and
  the hardware of each quantity. It has entries for each hardware that you add.

Examples:
  bootscope bench --vary kernel=main.bzImage --vary kernel=new.bzImage -o ab
  bootscope check budgets.toml ab --github --junit check.xml
  bootscope check budgets.toml boots/a boots/b --baseline boots/bench-main
  bootscope check budgets.toml boots/bench-main --write-reference ref.toml
  bootscope check ref.toml boots/bench-new --ktap check.ktap

A baseline in the same bench is best: its boots ran in turn with the others, so
the host's noise is in both.

Exit status:
  0  no budget is exceeded
  1  a budget is exceeded or was not measured, or a boot failed
  2  usage or input error
  --undecided chooses the status if the boots cannot tell";

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let text = recording::read_regular_text(&args.budgets, recording::SMALL_BYTES_MAX);
    let text = text.with_context(|| format!("cannot read {}", args.budgets.display()))?;
    let mut budgets = Budgets::parse(&text).with_context(|| args.budgets.display().to_string())?;
    let writes_reference = args.write_reference.is_some();
    // Boots that become the reference are compared with no other.
    budgets.baseline = budgets.baseline.filter(|_| !writes_reference);
    let request = Request {
        boots: args.boots.clone(),
        baseline: args.baseline.clone().filter(|_| !writes_reference),
        view: args.view.boot_view(),
        variant: args.variant.clone(),
        history: args.db.clone(),
    };
    let all = groups(&request, &budgets, output)?;
    if let Some(path) = &args.write_reference {
        return write_reference(path, &budgets, &all, output);
    }
    let checked = benchmark::budgets::check(&budgets, &all).with_context(|| args.budgets.display().to_string())?;
    let check = Check::new(&args.budgets.display().to_string(), all.iter().map(|(observed, _)| observed), checked);
    let on_undecided = args.undecided.unwrap_or_default();
    let write = |path: &Option<PathBuf>, text: &dyn Fn() -> anyhow::Result<String>| match path {
        Some(path) => {
            let text = text()?;
            write_file(path, true, |out| out.write_all(text.as_bytes())).map(drop)
        }
        None => Ok(()),
    };
    write(&args.junit, &|| Ok(check.junit(on_undecided)))?;
    write(&args.ktap, &|| Ok(check.ktap(on_undecided)))?;
    write(&args.sarif, &|| Ok(report::json(&check.sarif(on_undecided), true)?))?;
    let build = args.kcidb_build.clone().unwrap_or_default();
    let now = recording::Manifest::begun_now().created;
    write(&args.kcidb, &|| Ok(report::json(&check.kcidb(&build, &now), true)?))?;
    if let Some(path) = &args.markdown {
        append(path, &check.markdown())?;
    }
    match () {
        () if output.json => output.document(&check)?,
        () if args.github => output.text(&check.github(on_undecided))?,
        () => output.text(&check.text(output.layout(usize::MAX)))?,
    }
    Ok(match (check.status, on_undecided) {
        (Status::CannotTell, OnUndecided::Status(status)) => Done::Status(status),
        _ if check.fails(on_undecided) => Done::Badly,
        _ => Done::Well,
    })
}

/// Writes what the boots took into a file of references, which may have those of other hardware.
fn write_reference(path: &Path, budgets: &Budgets, all: &[Group], output: &Output) -> anyhow::Result<Done> {
    let mut new = Vec::new();
    for (observed, _) in all {
        new.extend(references(budgets, observed)?);
    }
    let old = match recording::read_regular_text(path, recording::SMALL_BYTES_MAX) {
        Ok(text) => Some(text),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => None,
        Err(why) => return Err(why).with_context(|| format!("cannot read {}", path.display())),
    };
    let text = file(old.as_deref(), &new).with_context(|| path.display().to_string())?;
    write_file(path, true, |out| out.write_all(text.as_bytes()))?;
    for Reference { name, value, margin, hardware, boots, .. } in &new {
        let line = format!("{name} {value} + {margin} ({hardware}; {boots} boots)");
        output.text(&format!("{}\n", report::harmless(&line)))?;
    }
    Ok(Done::Well)
}

/// A build as KCIDB names it.
fn kcidb_build(text: &str) -> Result<String, String> {
    let is_origin = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match text.split_once(':') {
        Some((origin, id)) if !origin.is_empty() && origin.chars().all(is_origin) && !id.is_empty() => {
            Ok(text.to_owned())
        }
        _ => Err("write ORIGIN:ID, with an origin of a-z, 0-9 and _".to_owned()),
    }
}

/// Appends to a file, because every step of a job appends to the same summary.
fn append(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}
