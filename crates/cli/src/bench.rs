//! `bootscope bench`: many boots, how long, how sure, and whether a change helped.

pub mod continued;

use crate::benches::JOURNAL;
use crate::files::write_file;
use crate::measure::{Booter, recording_of};
use crate::plan::BootArgs;
use crate::progress::Watcher;
use crate::up_to::UpTo;
use crate::variants::{Shared, Varied, swept, varied};
use crate::{Done, amount, output::Output};
use anyhow::{Context, bail};
use benchmark::{Boot, Booted, Document, Ended, Head, Host, InputFile, Journal, Plan, Stop, Variant};
use continued::Cut;
use machine::{Init, VmmKind};
use recording::{Manifest, Sealer};
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
    /// The smallest difference that matters
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = amount::percent, help_heading = "What to compare")]
    margin: f64,

    #[command(flatten)]
    up_to: UpTo,

    /// Rounds; with --until-width or --budget at most so many [default: 10, of deterministic boots 5, more where so few could
    /// show nothing; 1000 with those]. Fewer than can show anything are refused
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "How often")]
    runs: Option<u32>,
    /// Rounds before those, which do not count [default: 1, of deterministic boots 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1000), help_heading = "How often")]
    warm_ups: Option<u32>,
    /// Enough when every interval (of the median, or of the ratios) reaches no further than this from its middle
    #[arg(long, value_name = "SHARE", value_parser = amount::percent, help_heading = "How often")]
    until_width: Option<f64>,
    /// Enough after this time, such as 10m; a round that has begun is finished
    #[arg(long, value_name = "TIME", value_parser = crate::amount::duration, help_heading = "How often")]
    budget: Option<Duration>,
    /// Of deterministic boots: give none a dummy argument, so that they repeat each other exactly
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
    #[arg(long = "continue", value_name = "DIR", conflicts_with_all = AS_BEGUN)]
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
    /// How many rows of each table
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

/// The options that decide what a bench is: those of one that goes on are in its journal.
const AS_BEGUN: [&str; 46] = [
    "serial",
    "baud",
    "power_cycle",
    "arch",
    "kernel",
    "lab",
    "initrd",
    "dtb",
    "bios",
    "append",
    "disks",
    "root",
    "dax",
    "workload",
    "like",
    "memory",
    "cpus",
    "machine",
    "qemu",
    "vmm",
    "accel",
    "deterministic",
    "extra",
    "trace",
    "min_call",
    "symbols",
    "init",
    "then",
    "no_firmware_log",
    "no_first_executions",
    "until",
    "mask",
    "timeout",
    "hang_after",
    "vary",
    "up_to",
    "sweep",
    "at",
    "margin",
    "runs",
    "warm_ups",
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

/// A bench before its next boot.
pub struct Begun {
    pub folder: PathBuf,
    head: Head,
    variants: Vec<Varied>,
    journal: Journal,
    /// The boots that are over.
    boots: Vec<Boot>,
    continued: Vec<u32>,
}

/// A bench after its last boot.
pub struct Over {
    pub folder: PathBuf,
    pub document: Document,
    /// What ended it, if that was an error.
    error: Option<anyhow::Error>,
    journaled: anyhow::Result<()>,
}

impl Begun {
    /// One that has no boot yet: from now on its journal is there.
    pub fn new(folder: PathBuf, mut head: Head, variants: Vec<Varied>, output: &Output) -> anyhow::Result<Begun> {
        // Without a key of the user's, it cannot go on after a kill.
        if let Ok(sealer) = Sealer::of_user() {
            head.seal_with(&sealer);
        }
        let journal = Journal::create(&folder.join(JOURNAL), &head)?;
        output.note(&format!("every boot is kept in {} as soon as it is over", folder.display()));
        Ok(Begun { folder, head, variants, journal, boots: Vec::new(), continued: Vec::new() })
    }

    /// Boots, until its plan is done or something ends it.
    pub fn boot_all(mut self, keep_recordings: bool, watcher: &mut Watcher) -> Over {
        let recordings = self.folder.join("boots");
        let mut booter = Booter::new(&self.variants, &recordings, &mut self.journal, watcher);
        booter.keep_recordings = keep_recordings;
        booter.dithered = self.head.dithered;
        booter.up_to = UpTo::named(self.head.up_to.as_deref());
        booter.before = continued::elapsed(&self.boots);
        let finished = benchmark::resume(&self.head.plan, self.boots, &mut booter);
        watcher.clear();
        let journaled = self.journal.end(finished.ended).map_err(anyhow::Error::from);
        let document = Document::new(self.head, finished.boots, Some(finished.ended));
        // The recordings' folder is empty where none is kept, and then is not needed.
        let _ = std::fs::remove_dir(&recordings);
        let document = Document { continued: self.continued, ..document };
        Over { folder: self.folder, document, error: finished.error, journaled }
    }
}

impl Over {
    /// Writes its document, whatever ended it; then fails if that was an error.
    ///
    /// # Errors
    /// What ended it, or what kept it from being written.
    pub fn written(self) -> anyhow::Result<Document> {
        let text = report::json(&self.document, true)?;
        let written = write_file(&self.folder.join(DOCUMENT), true, |out| out.write_all(text.as_bytes()));
        if let Some(error) = self.error {
            let (boots, folder) = (self.document.boots.len(), self.folder.display());
            return Err(error.context(format!("the bench could not go on; {boots} boots are kept in {folder}")));
        }
        self.journaled?;
        written?;
        Ok(self.document)
    }
}

/// Begins one.
fn begin(args: &Args, watcher: &mut Watcher, output: &Output) -> anyhow::Result<Begun> {
    let base = args.boot.options()?;
    let shared = Shared { options: &base, leaves_init: args.boot.leaves_init() };
    let (mut variants, sweep) =
        if args.sweep.is_empty() { (varied(shared, &args.vary)?, Vec::new()) } else { swept(shared, &args.sweep)? };
    if run_own_process_1(&mut variants) {
        output.note(
            "every variant runs the guest's own process 1, because bootscope's runs in QEMU alone; --init keep says the same",
        );
    }
    if variants.iter().any(|v| v.options.guest.board.as_ref().is_some_and(|board| board.power_cycle.is_none())) {
        bail!("bench boots a board again and again: give the command that switches it off and on with --power-cycle");
    }
    if let Some(cpus) = &args.pin {
        machine::pin::pin(cpus)?;
    }
    let foreseen = foresee(&variants, watcher)?;
    let at = benchmark::variants::sizes(&args.at, &sweep)?;
    let head = Head { sweep, at, ..head(args, &variants, &foreseen)? };
    enough_rounds(args, &head, output)?;
    let folder = folder(args.output.as_deref(), args.force, &head, "bench")?;
    clear(&folder);
    Begun::new(folder, head, variants, output)
}

/// Has all variants run the guest's own process 1 where one of them is in a VMM that runs no other: else their end marks would be of
/// two kinds. Whether that changed any.
fn run_own_process_1(variants: &mut [Varied]) -> bool {
    let is_elsewhere = variants.iter().any(|variant| variant.options.guest.vmm != VmmKind::Qemu);
    let mut changed = false;
    for guest in variants.iter_mut().map(|variant| &mut variant.options.guest).filter(|_| is_elsewhere) {
        changed |= guest.vmm == VmmKind::Qemu && guest.init == Init::Guest;
        if guest.vmm == VmmKind::Qemu {
            guest.init = Init::Keep;
        }
    }
    changed
}

/// Goes on with one that was cut off.
pub fn go_on(
    folder: &Path,
    pin: Option<&str>,
    is_trusted: bool,
    watcher: &mut Watcher,
    output: &Output,
) -> anyhow::Result<Begun> {
    if let Some(cpus) = pin {
        machine::pin::pin(cpus)?;
    }
    let Cut { head, variants, mut journal, boots, mut continued } =
        continued::open(folder, pin.is_some(), is_trusted, watcher)?;
    let over = u32::try_from(boots.len()).unwrap_or(u32::MAX);
    // What the boot left that was cut off is no recording of a whole one.
    let half = recording_of(&folder.join("boots"), over);
    if half.exists() {
        std::fs::remove_dir_all(&half).with_context(|| format!("cannot remove {}", half.display()))?;
    }
    journal.continued(over)?;
    continued.push(over);
    output.note(&format!("{} goes on after {over} boots, which are kept", folder.display()));
    Ok(Begun { folder: folder.to_owned(), head, variants, journal, boots, continued })
}

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    exports_can_be_written(args)?;
    let mut watcher = Watcher::new(output)?;
    let begun = match &args.continued {
        Some(folder) => go_on(folder, args.pin.as_deref(), args.boot.trust_recording, &mut watcher, output)?,
        None => begin(args, &mut watcher, output)?,
    };
    let over = begun.boot_all(args.keep_recordings, &mut watcher);
    let concluded = conclude(args, &over.document, output);
    if !args.no_history {
        remember(args.db.as_deref(), &over.folder, &over.document, output);
    }
    let done = done(&over.document);
    over.written()?;
    concluded?;
    Ok(done)
}

/// A sweep is told its growth by fewer boots than its comparisons need: there it is a remark.
fn enough_rounds(args: &Args, head: &Head, output: &Output) -> anyhow::Result<()> {
    let enough = refuse_too_few(head.plan.stop.rounds, head.variants.len() - 1, benchmark::Test::of(head));
    match enough {
        Err(why) if !args.sweep.is_empty() => output.note(&format!("{why}, so only its growth is known")),
        enough => enough?,
    }
    Ok(())
}

/// Nobody wants to hear after an hour of boots that so few could not have shown anything.
///
/// # Errors
/// If every verdict on so many comparisons would be *too few*.
pub fn refuse_too_few(rounds: u32, comparisons: usize, test: benchmark::Test) -> anyhow::Result<()> {
    let least = benchmark::rounds_least(comparisons, test);
    if rounds >= least {
        return Ok(());
    }
    let comparisons = match comparisons {
        1 => "one comparison".to_owned(),
        n => format!("{n} comparisons together"),
    };
    bail!(
        "--runs {rounds} is too few for {comparisons}: whatever the boots show, every verdict would be \"too few\"; \
         give --runs {least} or more"
    )
}

/// Keeps it with past benches. Where that cannot be done it is said, and changes nothing: all of it is in its folder.
pub fn remember(db: Option<&Path>, folder: &Path, document: &Document, output: &Output) {
    if document.boots.is_empty() {
        return;
    }
    let path = db.map(Path::to_owned).map_or_else(benchmark::history::default_path, Ok);
    let kept = path.and_then(|path| benchmark::History::open(&path)?.add(document));
    if let Err(why) = kept {
        let folder = folder.display();
        output.note(&format!("not kept in the history: {why}; later: bootscope history --add {folder}"));
    }
}

/// The document of a bench, in its folder.
const DOCUMENT: &str = "bench.json";

/// Prints the results and writes them into files.
fn conclude(args: &Args, document: &Document, output: &Output) -> anyhow::Result<()> {
    show(document, args.top, output)?;
    if let Some(path) = &args.export_csv {
        write_file(path, args.force, |out| report::bench_csv(document, out))?;
    }
    if let Some(path) = &args.html {
        write_file(path, args.force, |out| report::bench_page(document, out))?;
    }
    if let Some(path) = &args.export_markdown {
        write_file(path, args.force, |out| out.write_all(report::bench_markdown(document).as_bytes()))?;
    }
    Ok(())
}

/// Nobody wants to hear after an hour of boots that a file is there already, or its folder is not.
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

/// Prints a bench.
fn show(document: &Document, top: usize, output: &Output) -> anyhow::Result<()> {
    if output.json {
        return output.document(document);
    }
    output.text(&report::bench(document, output.verbose, output.layout(top)))
}

/// Prints a bench that was run before, whole or not.
pub fn show_again(journal: &Path, up_to: &UpTo, top: usize, output: &Output) -> anyhow::Result<Done> {
    let found = benchmark::read(journal)?;
    for line in &found.damaged {
        output.note(&format!("{}:{line} is no boot, and is left out", journal.display()));
    }
    show(&up_to.of_bench(found.document)?, top, output)?;
    Ok(Done::Well)
}

/// Whether every boot reached its end mark and nobody stopped it.
fn done(document: &Document) -> Done {
    let failed = document.boots.iter().any(|boot| boot.measured.total_ns.is_none());
    let stopped = !matches!(document.ended, Some(Ended::Rounds | Ended::Width | Ended::Budget));
    if failed || stopped { Done::Badly } else { Done::Well }
}

/// What each variant's recordings will say, before any of them is booted: a kernel that is missing is said now.
pub fn foresee(variants: &[Varied], watcher: &mut Watcher) -> anyhow::Result<Vec<Manifest>> {
    let one = |variant: &Varied| {
        let foreseen = machine::foresee(&variant.options, watcher);
        foreseen.with_context(|| format!("variant {}", variant.name))
    };
    let foreseen = variants.iter().map(one).collect();
    watcher.clear();
    foreseen
}

/// Every boot's figures are in memory, some ten KiB each.
const BOOTS_MOST: u32 = 50_000;

/// What is known of boots by this plan before the first of them.
pub fn head_of(plan: Plan, variants: &[Varied], foreseen: &[Manifest], dither: bool) -> Head {
    let manifest = Manifest::begun_now();
    let mut head = Head::of(plan, variants.iter().zip(foreseen).map(|(v, m)| variant(v, m)).collect());
    head.tool_version = manifest.tool_version;
    head.created = manifest.created;
    head.deterministic = variants[0].options.guest.deterministic;
    head.dithered = head.deterministic && dither && variants.iter().all(|v| v.options.guest.kernel.is_some());
    head.host_cpus_allowed = machine::pin::allowed();
    let host = &foreseen[0].host;
    head.host = Host { cpu: host.cpu.clone(), cores: host.cores, kernel: host.kernel.clone() };
    head
}

/// How it is run: all that is known before the first boot.
fn head(args: &Args, variants: &[Varied], foreseen: &[Manifest]) -> anyhow::Result<Head> {
    let deterministic = variants[0].options.guest.deterministic;
    if variants.iter().any(|v| v.options.guest.deterministic != deterministic) {
        bail!("deterministic boots count instructions, others time: compare either, not one with the other");
    }
    let open_end = args.until_width.is_some() || args.budget.is_some();
    let rounds_most = BOOTS_MOST / u32::try_from(variants.len()).unwrap_or(u32::MAX);
    let rounds = match args.runs {
        Some(runs) if runs > rounds_most => {
            let variants = variants.len();
            bail!("--runs {runs} of {variants} variants: give at most {rounds_most}, so that all boots fit memory")
        }
        Some(runs) => runs,
        None if open_end => rounds_most.min(1000),
        None if deterministic => 5,
        None => 10,
    };

    let budget_ns = args.budget.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let plan = Plan {
        leaves_out: false,
        variants: variants.len(),
        warm_ups: args.warm_ups.unwrap_or(u32::from(!deterministic)),
        stop: Stop { rounds, width: args.until_width, budget_ns },
        seed: args.seed.unwrap_or_else(|| machine::monotonic_ns().unsigned_abs()),
    };
    let mut head = head_of(plan, variants, foreseen, !args.no_dither);
    if args.runs.is_none() && args.sweep.is_empty() {
        let least = benchmark::rounds_least(variants.len() - 1, benchmark::Test::of(&head));
        head.plan.stop.rounds = head.plan.stop.rounds.max(least).min(rounds_most);
    }
    head.ask.margin = args.margin;
    head.up_to = args.up_to.name().map(str::to_owned);
    Ok(head)
}

/// A variant, with what its recordings will say.
pub fn variant(varied: &Varied, foreseen: &Manifest) -> Variant {
    let input = |input: &recording::Input| InputFile {
        role: input.role.clone(),
        path: input.path.clone(),
        sha256: input.sha256.clone(),
    };
    Variant {
        name: varied.name.clone(),
        settings: varied.settings.clone(),
        how: foreseen.how.clone(),
        booted: Booted {
            kernel: foreseen.subject.kernel.clone(),
            accelerator: foreseen.subject.accelerator.clone(),
            vmm: foreseen.vmm.version.clone(),
            inputs: foreseen.inputs.iter().map(input).collect(),
        },
    }
}

/// The folder: the one that was named, or one of that kind and of today. Removes nothing: [`clear`] does, when nothing can be
/// refused any more.
pub fn folder(named: Option<&Path>, force: bool, head: &Head, kind: &str) -> anyhow::Result<PathBuf> {
    let stamp: String = head.created.chars().filter(char::is_ascii_digit).collect();
    let (day, time) = stamp.split_at(8.min(stamp.len()));
    let folder = named.map_or_else(|| PathBuf::from(format!("boots/{kind}-{day}-{time}")), Path::to_owned);
    if folder.join(recording::MANIFEST_NAME).exists() {
        bail!("{} is a recording: a {kind} needs a folder of its own", folder.display());
    }
    if folder.join(JOURNAL).exists() && !force {
        bail!(
            "{}: a {kind} is there already: replace it with --force, or name another folder with -o",
            folder.display()
        );
    }
    Ok(folder)
}

/// Removes the bench that is in a folder, if there is one, and nothing else of it.
pub fn clear(folder: &Path) {
    if !folder.join(JOURNAL).exists() {
        return;
    }
    for part in [JOURNAL, DOCUMENT] {
        let _ = std::fs::remove_file(folder.join(part));
    }
    let _ = std::fs::remove_dir_all(folder.join("boots"));
}
