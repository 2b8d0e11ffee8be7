//! `bootscope bench`: boots many times and prints times, their intervals, and whether a change helped.

use crate::boot_options::BootArgs;
use crate::boot_view::BootViewArgs;
use crate::progress::Watcher;
use crate::variants::{Shared, swept, varied};
use crate::{Done, amount, output::Output};
use anyhow::bail;
use benchmark::{Document, Ended};
use campaigns::bench::{Request, begin, remember, resume};
use campaigns::boot_view::BootView;
use campaigns::files::write_file;
use clap::Args as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Boot many times: how long, how sure, and did the change help
///
/// Each round boots every variant once, in random order; a boot that fails is kept and counted, never run again. Every
/// boot is in the bench's folder the moment it is over, whatever ends the bench.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    boot: BootArgs,

    /// A variant to compare: an option of `record` (append='quiet acpi=off', cpus=2, kernel=other), or several as it takes
    /// them ('--cpus 2 --append quiet -- -cpu max'). The first is what the others are compared with; one alone is compared
    /// with the options as given
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true, help_heading = "What to compare")]
    vary: Vec<String>,
    /// Values of an option, such as cpus=1,2,4,8; several make a grid, and each row's growth is fitted
    #[arg(long, value_name = "KEY=V1,V2,…", conflicts_with = "vary", help_heading = "What to compare")]
    sweep: Vec<String>,
    /// With --sweep: what each scaling model predicts at this size (128 CPUs, 64G of memory); may be given again
    #[arg(long, value_name = "SIZE", requires = "sweep", help_heading = "What to compare")]
    at: Vec<String>,
    /// The smallest difference that matters [default: 5%, of deterministic boots 1%]
    #[arg(long, value_name = "SHARE", value_parser = amount::percent, help_heading = "What to compare")]
    margin: Option<f64>,

    #[command(flatten)]
    view: BootViewArgs,

    /// Rounds; with --until-sure, --until-width or --budget the largest number of rounds [default: 10, of deterministic boots 5, more
    /// if that number could show nothing; 1000 with those]. A number that is too small to show anything is refused
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "How often")]
    runs: Option<u32>,
    /// Rounds before those, which do not count [default: 1, of deterministic boots 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1000), help_heading = "How often")]
    warm_ups: Option<u32>,
    /// Enough when every interval (of the median, or of the ratios) reaches no further than this from its middle
    #[arg(long, value_name = "SHARE", value_parser = amount::percent, help_heading = "How often")]
    until_width: Option<f64>,
    /// Enough when every comparison with the first variant is decided: faster, slower, or no difference of --margin. The
    /// error of 5 % holds for all looks together, so a bench may end early and its verdict counts
    #[arg(long, conflicts_with_all = ["until_width", "sweep", "deterministic"], help_heading = "How often")]
    until_sure: bool,
    /// Enough after this time, such as 10m; a round that has begun is finished
    #[arg(long, value_name = "TIME", value_parser = crate::amount::duration, help_heading = "How often")]
    budget: Option<Duration>,
    /// For deterministic boots: add no dummy argument to any of them, so that they repeat each other exactly
    #[arg(long, requires = "deterministic", help_heading = "How often")]
    no_dither: bool,
    /// Decides the order within rounds; by default another one each time
    #[arg(long, value_name = "NUMBER", help_heading = "How often")]
    seed: Option<u64>,
    /// Run on these CPUs of the host only, such as 0-1
    #[arg(long, value_name = "CPUS", help_heading = "How often")]
    pin: Option<String>,

    /// Go on with a bench that was killed or interrupted, as it was begun: its boots are kept, and the rest is booted in the
    /// order that was drawn. Refused where the kernel, the initrd, QEMU or the host changed. Takes no other option of boots
    #[arg(long = "continue", value_name = "DIR", conflicts_with_all = defining_options())]
    continued: Option<PathBuf>,
    /// The folder to make [default: boots/bench-DATE-TIME]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace the bench that is there
    #[arg(long)]
    force: bool,
    /// The database that keeps past benches [default: $XDG_DATA_HOME/bootscope/history.db]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// Do not keep it there
    #[arg(long, conflicts_with = "db")]
    no_history: bool,
    /// Keep the recording of every boot, not only of those that failed
    #[arg(long)]
    keep_recordings: bool,
    /// The number of rows of each table
    #[arg(long, value_name = "ROWS", default_value_t = 20)]
    top: usize,
    /// Write every boot into this file, comma-separated
    #[arg(long, value_name = "FILE")]
    export_csv: Option<PathBuf>,
    /// Write a page with the results and their plots into this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the table of variants into this file
    #[arg(long, value_name = "FILE")]
    export_markdown: Option<PathBuf>,
}

/// The options that define a bench: those of its boots, and its plan. A resumed bench has them in its journal.
fn defining_options() -> Vec<clap::Id> {
    let boot = BootArgs::augment_args(clap::Command::new("boot"));
    let of_boots = boot.get_arguments().map(|arg| arg.get_id().clone()).filter(|id| id.as_str() != "trust_recording");
    of_boots.chain(PLAN_OPTIONS.map(clap::Id::from)).collect()
}

const PLAN_OPTIONS: [&str; 14] = [
    "vary",
    "up_to",
    "model",
    "sweep",
    "at",
    "margin",
    "runs",
    "warm_ups",
    "until_sure",
    "until_width",
    "budget",
    "no_dither",
    "seed",
    "output",
];

const EXAMPLES: &str = "\
Examples:
  bootscope bench --kernel vmlinuz --runs 20
  bootscope bench --kernel vmlinuz --append quiet --vary append='quiet acpi=off'
  bootscope bench --vary kernel=old.bzImage --vary kernel=new.bzImage
  bootscope bench --vary kernel=old --vary kernel=new --until-sure
  bootscope bench --kernel vmlinuz --deterministic --vary 'append=acpi=off'
  bootscope bench --kernel vmlinuz --sweep cpus=1,2,4 --sweep memory=256M,1G
  bootscope bench --continue boots/bench-20260131-083000

The folder has bench.jsonl, a line for each boot as soon as it is over, and
bench.json, the whole with its results; --json prints that. A boot that failed
keeps its recording in boots/NNNN; --keep-recordings keeps all.
`bootscope show` prints a bench again, even if it was killed.
`bootscope export --to csv` (json, markdown, html) writes it for other tools.

Exit status:
  0  done
  1  a boot did not reach its end mark, or the bench was interrupted; it prints
     what is known
  2  usage or input error";

/// The bench requested by these options.
fn request(args: &Args, output: &Output) -> anyhow::Result<Request> {
    if let Some(model) = args.view.boot_view().model() {
        bail!(
            "bench measures, and --as {model} prices recordings: keep them with --keep-recordings, and give show --as"
        );
    }
    let base = args.boot.options(output)?;
    let shared = Shared { options: &base, leaves_init: args.boot.leaves_init(), notes: output };
    let (variants, axes) =
        if args.sweep.is_empty() { (varied(shared, &args.vary)?, Vec::new()) } else { swept(shared, &args.sweep)? };
    Ok(Request {
        variants,
        axes,
        sizes: args.at.clone(),
        margin: args.margin,
        view: args.view.boot_view(),
        runs: args.runs,
        warm_ups: args.warm_ups,
        until_width: args.until_width,
        until_sure: args.until_sure,
        budget: args.budget,
        dithers: !args.no_dither,
        seed: args.seed,
        pin: args.pin.clone(),
        folder: args.output.clone(),
        force: args.force,
    })
}

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    exports_can_be_written(args)?;
    let mut watcher = Watcher::new(output)?;
    let begun = match &args.continued {
        Some(folder) => resume(folder, args.pin.as_deref(), args.boot.trust_recording, &mut watcher, output)?,
        None => begin(request(args, output)?, &mut watcher, output)?,
    };
    if let Some(needed) = begun.rounds_needed(args.db.as_deref()) {
        output.note(&needed);
    }
    let over = begun.boot_all(args.keep_recordings, &mut watcher);
    let concluded = conclude(args, &over.document, output);
    if !args.no_history {
        remember(args.db.as_deref(), &over.folder, &over.document, output);
    }
    let done = done(&over.document);
    over.write_document()?;
    concluded?;
    Ok(done)
}

/// Prints the results and writes them into files.
fn conclude(args: &Args, document: &Document, output: &Output) -> anyhow::Result<()> {
    show(document, args.top, output)?;
    if let Some(path) = &args.export_csv {
        write_file(path, args.force, |out| report::bench_csv(document, out))?;
    }
    if let Some(path) = &args.html {
        write_file(path, args.force, |out| report::bench_page(document, &[], out))?;
    }
    if let Some(path) = &args.export_markdown {
        write_file(path, args.force, |out| out.write_all(report::bench_markdown(document).as_bytes()))?;
    }
    Ok(())
}

/// Checks the paths of exports before hours of boots: no existing file without `--force`, and no missing folder.
fn exports_can_be_written(args: &Args) -> anyhow::Result<()> {
    for path in [&args.export_csv, &args.html, &args.export_markdown].into_iter().flatten() {
        if path.is_file() && !args.force {
            return Err(recording::Error::Exists { path: path.clone() }.into());
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            bail!("{}: there is no folder {}", path.display(), folder.display());
        }
    }
    Ok(())
}

fn show(document: &Document, top: usize, output: &Output) -> anyhow::Result<()> {
    if output.json {
        return output.document(document);
    }
    output.text(&report::bench(document, output.verbose, output.layout(top)))
}

/// Prints a finished or interrupted bench.
pub fn show_again(journal: &Path, view: &BootView, top: usize, output: &Output) -> anyhow::Result<Done> {
    let journaled = benchmark::read(journal)?;
    for line in &journaled.damaged {
        output.note(&format!("{}:{line} is no boot, and is left out", journal.display()));
    }
    show(&view.of_bench(journaled.document)?, top, output)?;
    Ok(Done::Well)
}

/// `Done::Well` if every boot reached its end mark and the user did not stop the bench.
fn done(document: &Document) -> Done {
    let failed = document.boots.iter().any(|boot| boot.measured.total_ns.is_none());
    let stopped = !matches!(document.ended, Some(Ended::Rounds | Ended::Sure | Ended::Width | Ended::Budget));
    if failed || stopped { Done::Badly } else { Done::Well }
}
