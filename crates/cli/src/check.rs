//! `bootscope check`: do boots keep to their budgets?

mod observed;

use crate::files::write_file;
use crate::up_to::UpTo;
use crate::{Done, benches, output::Output};
use anyhow::{Context, bail};
use benchmark::budgets::judge::Baseline;
use benchmark::budgets::{Budgets, Observed, Status};
use benchmark::history::{self, Filter};
use benchmark::{Document, History};
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
    /// What limits such as +5% are relative to: a bench, a recording, `history` (the newest earlier benches of the same
    /// setup), or history:NUMBER [default: as the file says, else the bench's first variant]
    #[arg(long, value_name = "WHAT")]
    baseline: Option<String>,
    #[command(flatten)]
    up_to: UpTo,
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
  initcalls = \"300ms\"
  [function]                 # rows of the boot path, as show names them
  \"initcall acpi_init\" = \"+2ms\"
  [milestone]                # when it is passed: show --milestones lists them
  \"unit:ssh.service\" = \"8s\"
  [memory]
  vmm_max_rss = \"180M\"       # also guest_used, and other metrics in bytes
  [metric]                   # any other metric of which less is better
  vmm_cpu = \"2s\"
  [instructions]             # of --deterministic boots
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

/// So many benches of a baseline at other times are looked at.
const BASELINE_MOST: usize = 5;

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let text = recording::read_regular_text(&args.budgets, recording::SMALL_BYTES_MAX);
    let text = text.with_context(|| format!("cannot read {}", args.budgets.display()))?;
    let budgets = Budgets::parse(&text).with_context(|| args.budgets.display().to_string())?;
    let all = groups(args, &budgets, output)?;
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

/// A job's summary is appended to by every step.
fn append(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}

type Group = (Observed, Option<Baseline>);

/// The boots that are checked, each bench by itself and all recordings together, with what they are held against.
fn groups(args: &Args, budgets: &Budgets, output: &Output) -> anyhow::Result<Vec<Group>> {
    let named = args.baseline.as_deref().or(budgets.baseline.as_deref()).filter(|_| budgets.needs_baseline());
    let (benches, recordings): (Vec<&PathBuf>, Vec<&PathBuf>) =
        args.boots.iter().partition(|path| benches::is_bench(path));
    let mut all = Vec::new();
    for path in benches {
        let (document, damaged) = benches::read(path)?;
        if damaged > 0 {
            output.note(&format!("{}: {damaged} damaged lines were left out", path.display()));
        }
        let whole = document.clone();
        let document = args.up_to.of_bench(document).with_context(|| path.display().to_string())?;
        let variant = variant(&document, args.variant.as_deref(), path)?;
        let observed = Observed::of_variant(&document, variant, &name(path, &document, variant));
        let baseline = match named {
            Some(named) => Some(baseline(named, args, Some((&whole, variant)), output)?),
            None if variant > 0 => {
                Some(Baseline::Rounds(Observed::of_variant(&document, 0, &name(path, &document, 0))))
            }
            None => None,
        };
        all.push((observed, baseline));
    }
    if !recordings.is_empty() {
        let observed = observed::recordings(&recordings, &args.up_to, output)?;
        all.push((observed, named.map(|named| baseline(named, args, None, output)).transpose()?));
    }
    Ok(all)
}

fn name(path: &Path, document: &Document, variant: usize) -> String {
    let variants = &document.head.variants;
    if variants.len() > 1 {
        format!("{}: {}", path.display(), variants[variant].name)
    } else {
        path.display().to_string()
    }
}

/// Which variant is checked.
fn variant(document: &Document, named: Option<&str>, path: &Path) -> anyhow::Result<usize> {
    let names: Vec<&str> = document.head.variants.iter().map(|v| v.name.as_str()).collect();
    match (named, names.len()) {
        (Some(named), _) => names
            .iter()
            .position(|name| *name == named)
            .with_context(|| format!("{} has no variant {named:?}; it has: {}", path.display(), names.join(", "))),
        (None, 0) => bail!("{} has no variants", path.display()),
        (None, n @ 1..=2) => Ok(n - 1),
        (None, n) => bail!("{} has {n} variants: name one with --variant: {}", path.display(), names.join(", ")),
    }
}

/// What relative limits are over.
fn baseline(
    named: &str,
    args: &Args,
    checked: Option<(&Document, usize)>,
    output: &Output,
) -> anyhow::Result<Baseline> {
    let number =
        named.strip_prefix("history").and_then(|rest| if rest.is_empty() { Some("") } else { rest.strip_prefix(':') });
    let Some(number) = number else {
        let path = Path::new(named);
        if !benches::is_bench(path) {
            return Ok(Baseline::Apart(vec![observed::recordings(&[&path.to_owned()], &args.up_to, output)?]));
        }
        let document = args.up_to.of_bench(benches::read(path)?.0)?;
        return Ok(Baseline::Apart(vec![Observed::of_variant(&document, 0, &name(path, &document, 0))]));
    };
    let path = match &args.db {
        Some(path) => path.clone(),
        None => history::default_path()?,
    };
    let history = History::open_existing(&path)?;
    if number.is_empty() {
        let (document, variant) =
            checked.context("recordings are in no history: give --baseline a bench or a recording")?;
        return earlier(&history, document, variant, &args.up_to);
    }
    let bench: i64 =
        number.parse().with_context(|| format!("--baseline {named}: write history:NUMBER, as `history` lists it"))?;
    let document = history.document(bench)?.with_context(|| format!("{} has no bench {bench}", path.display()))?;
    let document = args.up_to.of_bench(document).with_context(|| format!("bench {bench}"))?;
    Ok(Baseline::Apart(vec![Observed::of_variant(&document, 0, &format!("bench {bench}"))]))
}

/// The newest benches before this one, of the same setup and all of one kernel: another, where there is one.
fn earlier(history: &History, document: &Document, variant: usize, up_to: &UpTo) -> anyhow::Result<Baseline> {
    let none =
        || format!("{} has no earlier bench of this setup: bench the baseline there first", history.path().display());
    let setup = history.setup_of(document, variant)?.with_context(none)?;
    let entries = history.entries(&Filter { setup: Some(setup), ..Filter::default() })?;
    let before = || entries.iter().rev().filter(|e| e.created < document.head.created && e.median_ns.is_some());
    let own = history::kernel_sha256(document, variant);
    let kernel = before()
        .map(|e| &e.kernel_sha256)
        .find(|kernel| **kernel != own)
        .or_else(|| before().map(|e| &e.kernel_sha256).next());
    let kernel = kernel.with_context(none)?;
    let mut found = Vec::new();
    for entry in before().filter(|e| e.kernel_sha256 == *kernel).take(BASELINE_MOST) {
        let document = history.document(entry.bench)?.with_context(none)?;
        let document = up_to.of_bench(document).with_context(|| format!("bench {}", entry.bench))?;
        found.push(Observed::of_variant(&document, entry.variant, &format!("bench {}", entry.bench)));
    }
    Ok(Baseline::Apart(found))
}
