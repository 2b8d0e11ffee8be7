//! `bootscope lab`: boots the reference kernel's experiments, each slow and with its remedies.
//!
//! The boots are recorded and read as any other. The kernel's own table defines the experiments.

use crate::progress::Watcher;
use crate::{Done, output::Output};
use anyhow::Context;
use campaigns::files;
use campaigns::lab_experiments::{Request, boot_experiments};
use lab::experiments::{EXPERIMENTS, Experiment};
use lab::places::{KINDS, names};
use lab::switches::Kind;
use lab::switches::SWITCHES;
use std::fmt::Write;
use std::path::PathBuf;

/// Boot the reference kernel, whose slow spots are known, before and after each remedy
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the experiments, and every word of the kernel's command line
    List,
    Run(RunArgs),
}

/// Boot experiments, slow and with each remedy
///
/// The table has what was published, what was measured, what `what-if` foretold, and which rows fell most. All boots are
/// deterministic: the figures are the same on every host. A remedy is right if the rows that fell most are those that the
/// switch is in, and the boot became shorter by what `what-if` foretold, within 10 %. The new total must also be within
/// 10 % of what was foretold, or the table says why it is not. The exit status is 1 if a remedy is not right.
#[derive(clap::Args)]
struct RunArgs {
    /// The experiments (see `bootscope lab list`)
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    names: Vec<String>,
    /// Run all experiments
    #[arg(long)]
    all: bool,
    /// Also write the result as a page of Markdown
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Keep the recordings in this folder
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Replace the page and the recordings that are there
    #[arg(long)]
    force: bool,
    /// The QEMU to start [default: qemu-system-x86_64]
    #[arg(long, value_name = "PROGRAM")]
    qemu: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  bootscope lab list
  bootscope lab run clock-calibration ap-start
  bootscope lab run --all --page docs/lab.md
  bootscope record --lab --append 'ps2=probe delay.clocks=50' -o boots/lab";

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    match &args.command {
        Command::List => list(output).map(|()| Done::Well),
        Command::Run(args) => run_trials(args, output),
    }
}

/// The JSON document of the list (`--json`).
#[derive(serde::Serialize)]
struct List {
    schema: &'static str,
    experiments: Vec<Listed>,
    switches: Vec<ListedSwitch>,
    places: Vec<ListedPlaces>,
}

#[derive(serde::Serialize)]
struct Listed {
    name: &'static str,
    what: &'static str,
    source: &'static str,
    always: &'static str,
    slow: &'static str,
    remedies: &'static [&'static str],
    chosen: &'static str,
    note: &'static str,
}

#[derive(serde::Serialize)]
struct ListedSwitch {
    name: &'static str,
    values: &'static [&'static str],
    least: u32,
    most: u32,
    default: &'static str,
}

#[derive(serde::Serialize)]
struct ListedPlaces {
    kind: &'static str,
    /// True if each name exists once for each device of its driver.
    #[serde(skip)]
    is_of_devices: bool,
    names: &'static [&'static str],
}

fn list(output: &Output) -> anyhow::Result<()> {
    let of = |e: &Experiment| Listed {
        name: e.name,
        what: e.what,
        source: e.source,
        always: e.always,
        slow: e.slow,
        remedies: e.remedies,
        chosen: e.chosen,
        note: e.note,
    };
    let list = List {
        schema: "bootscope.lab-list/1",
        experiments: EXPERIMENTS.iter().map(of).collect(),
        switches: SWITCHES
            .iter()
            .map(|s| ListedSwitch {
                name: s.name,
                values: s.values,
                least: s.numbers.0,
                most: s.numbers.1,
                default: s.default,
            })
            .collect(),
        places: KINDS
            .iter()
            .map(|kind| ListedPlaces { kind: kind.as_str(), is_of_devices: *kind == Kind::Attach, names: names(*kind) })
            .collect(),
    };
    if output.json { output.document(&list) } else { output.text(&list.text()) }
}

impl List {
    fn text(&self) -> String {
        let mut out = String::new();
        for e in &self.experiments {
            let always = if e.always.is_empty() { String::new() } else { format!(", both with {}", e.always) };
            let _ = writeln!(out, "{}\n  {}\n  {} → {}{always}", e.name, e.what, e.slow, e.remedies.join(", "));
            if !e.chosen.is_empty() {
                let _ = writeln!(out, "  chosen: {}", e.chosen);
            }
            if !e.note.is_empty() {
                let _ = writeln!(out, "  note: {}", e.note);
            }
        }
        out.push_str("\nWords of --append, the default first\n");
        for s in &self.switches {
            let others = s.values.iter().filter(|value| **value != s.default);
            let values = std::iter::once(s.default).chain(others.copied()).collect::<Vec<_>>().join(", ");
            let range = if s.values.is_empty() { format!(" ({} to {})", s.least, s.most) } else { String::new() };
            let _ = writeln!(out, "  {:<14}{values}{range}", format!("{}=", s.name));
        }
        out.push_str("  delay.PLACE=  a time such as 12, 12ms or 250us\n  hang=, panic=, fault=  a place\n\nPlaces\n");
        for place in &self.places {
            let number = if place.is_of_devices { ", each with its unit, as in psm0" } else { "" };
            let _ = writeln!(out, "  {:<8} {}{number}", place.kind, place.names.join(", "));
        }
        out
    }
}

fn run_trials(args: &RunArgs, output: &Output) -> anyhow::Result<Done> {
    let experiments = args.experiments()?;
    let scratch = recording::private_folder().context("cannot make a folder for the boots")?;
    let into = args.output.as_deref().unwrap_or(scratch.path());
    let request = Request { into: into.to_owned(), force: args.force, qemu: args.qemu.clone() };
    let lab = boot_experiments(&experiments, &request, &mut Watcher::new(output)?)?;
    drop(scratch);
    if let Some(page) = &args.page {
        files::write_file(page, args.force, |out| out.write_all(lab.page().as_bytes()))?;
    }
    if output.json {
        output.document(&lab)?
    } else {
        output.text(&lab.text(output.layout(usize::MAX)))?
    }
    Ok(if lab.all_right() { Done::Well } else { Done::Badly })
}

impl RunArgs {
    fn experiments(&self) -> anyhow::Result<Vec<&'static Experiment>> {
        if self.all {
            return Ok(EXPERIMENTS.iter().collect());
        }
        let named = |name: &String| {
            let all = || EXPERIMENTS.iter().map(|e| e.name).collect::<Vec<_>>().join(", ");
            Experiment::named(name).with_context(|| format!("there is no experiment {name}: there are {}", all()))
        };
        self.names.iter().map(named).collect()
    }
}
