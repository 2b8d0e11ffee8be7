//! `bootscope lab`: boots the reference kernel's experiments, each slow and with its remedies.
//!
//! The boots are recorded and read as any other. The kernel's own table defines the experiments.

use crate::boot_options::FLAGS;
use crate::progress::Watcher;
use crate::{Done, output::Output};
use anyhow::{Context, bail};
use campaigns::Watcher as _;
use campaigns::{files, opened_boot};
use lab::cpio::root_image;
use lab::experiments::{EXPERIMENTS, Experiment};
use lab::places::{KINDS, names};
use lab::switches::Kind;
use lab::switches::SWITCHES;
use machine::Target;
use recording::OutcomeKind;
use report::{Lab, LabBoot, LabTrial};
use std::fmt::Write;
use std::path::{Path, PathBuf};

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

/// The time without progress after which a lab boot counts as hung. A DELAY of seconds stays at one place of code, and on a
/// busy host it takes minutes.
const HANG_AFTER_MS: u64 = 300_000;

/// The stream with the kernel's output.
const CONSOLE: &str = "console.log";

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
    let lab = Bench { args, into, vmm: String::new(), watcher: Watcher::new(output)? }.run(&experiments)?;
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

/// Boots the experiments one after the other.
struct Bench<'a> {
    args: &'a RunArgs,
    into: &'a Path,
    vmm: String,
    watcher: Watcher,
}

impl Bench<'_> {
    fn run(&mut self, experiments: &[&'static Experiment]) -> anyhow::Result<Lab> {
        let mut trials = Vec::new();
        for experiment in experiments {
            let (slow, slow_console) = self.boot(experiment, experiment.slow)?;
            let slow = slow.boot(None)?;
            let slow = LabBoot { boot: &slow, console: &slow_console };
            for remedy in experiment.remedies {
                let (fast, console) = self.boot(experiment, remedy)?;
                let fast = LabBoot { boot: &fast.boot(None)?, console: &console };
                trials.push(LabTrial::of(experiment, remedy, slow, fast));
            }
        }
        self.watcher.clear();
        Ok(Lab::new(&self.vmm, trials))
    }

    /// Makes a root image among the recordings.
    fn root(&self, bytes: u32) -> anyhow::Result<PathBuf> {
        let path = self.into.join(format!("root-{}M.cpio", bytes >> 20));
        let mut image = Vec::new();
        root_image(bytes, |part| image.extend(part));
        std::fs::create_dir_all(self.into).with_context(|| format!("cannot make {}", self.into.display()))?;
        // Overwrite an existing image: its content is always the same.
        files::write_file(&path, true, |out| out.write_all(&image))?;
        Ok(path)
    }

    /// Records a boot. Returns the opened recording and the kernel's output.
    fn boot(&mut self, experiment: &Experiment, words: &str) -> anyhow::Result<(opened_boot::OpenedBoot, String)> {
        let name = format!("{}-{}", experiment.name, words.replace(' ', "-"));
        self.watcher.announce_boot(&name);
        let mut options = machine::lab().map_err(|error| error.in_words(FLAGS))?;
        options.guest.append = format!("{} {words}", experiment.always).trim_start().to_owned();
        options.guest.cpus = experiment.machine.cpus;
        options.guest.memory_bytes = experiment.machine.memory_bytes;
        options.guest.deterministic = true;
        options.observe.hang_after_ms = HANG_AFTER_MS;
        options.out = self.into.join(name);
        options.force = self.args.force;
        if experiment.machine.root_bytes > 0 {
            options.guest.initrd = Some(self.root(experiment.machine.root_bytes)?);
        }
        options.guest.extra.extend(experiment.machine.arguments.iter().map(|&argument| argument.to_owned()));
        if let Some(qemu) = &self.args.qemu {
            options.guest.target = Target::qemu(qemu);
        }
        let recorded = machine::record(&options, &mut self.watcher)?;
        if recorded.outcome.kind != OutcomeKind::Reached {
            bail!("{}: {}", options.guest.append, recorded.manifest.outcome_word());
        }
        self.vmm = recorded.manifest.vmm.version;
        let opened = opened_boot::open(&options.out)?;
        let console = opened.recording.read(CONSOLE)?.unwrap_or_default();
        Ok((opened, String::from_utf8_lossy(&console).into_owned()))
    }
}
