//! Runs a bench: many boots in random order, each written to the journal as soon as it ends.

mod forecast;
mod resumed;

use crate::benches::{JOURNAL, recording_of};
use crate::boot_view::BootView;
use crate::files::write_file;
use crate::measure::Booter;
use crate::{Notes, PlannedVariant, Watcher};
use anyhow::{Context, bail};
use benchmark::{Ask, Axis, Boot, Booted, Document, Head, Host, InputFile, Journal, Plan, Stop, Variant};
use machine::{Init, VmmKind};
use recording::{Manifest, Sealer};
use resumed::InterruptedBench;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The user's request for a bench.
pub struct Request {
    /// The variants; the first is compared with each of the others.
    pub variants: Vec<PlannedVariant>,
    /// The axes of a sweep; empty without one.
    pub axes: Vec<Axis>,
    /// Sizes at which each scaling model is evaluated.
    pub sizes: Vec<String>,
    /// The smallest difference that matters, as a share.
    pub margin: Option<f64>,
    /// The milestone that ends each boot.
    pub view: BootView,
    /// The number of rounds; `None`: enough for a verdict.
    pub runs: Option<u32>,
    /// The warm-up rounds, which do not count; `None`: one, or 0 for deterministic boots.
    pub warm_ups: Option<u32>,
    /// The relative half width of all intervals at which the bench ends.
    pub until_width: Option<f64>,
    /// True to end when every verdict is sure.
    pub until_sure: bool,
    /// The time after which the bench ends.
    pub budget: Option<Duration>,
    /// True if deterministic boots get a dummy argument of another length in each round.
    pub dithers: bool,
    /// The seed of the random order within rounds.
    pub seed: Option<u64>,
    /// The host CPUs to run on.
    pub pin: Option<String>,
    /// The folder; `None`: one with the date in its name.
    pub folder: Option<PathBuf>,
    /// True to replace the bench in the folder.
    pub force: bool,
}

/// A bench before its next boot.
pub struct ReadyBench {
    pub folder: PathBuf,
    head: Head,
    variants: Vec<PlannedVariant>,
    journal: Journal,
    /// The finished boots.
    boots: Vec<Boot>,
    continued: Vec<u32>,
}

/// A bench after its last boot.
pub struct FinishedBench {
    pub folder: PathBuf,
    pub document: Document,
    /// The error that ended it, if any.
    error: Option<anyhow::Error>,
    journaled: anyhow::Result<()>,
}

impl ReadyBench {
    /// A bench without boots. Creates its journal.
    pub fn new(
        folder: PathBuf,
        mut head: Head,
        variants: Vec<PlannedVariant>,
        notes: &dyn Notes,
    ) -> anyhow::Result<ReadyBench> {
        // Without a key of the user, it cannot be resumed after a kill.
        if let Ok(sealer) = Sealer::of_user() {
            head.seal_with(&sealer);
        }
        let journal = Journal::create(&folder.join(JOURNAL), &head)?;
        notes.note(&format!("every boot is kept in {} as soon as it is over", folder.display()));
        Ok(ReadyBench { folder, head, variants, journal, boots: Vec::new(), continued: Vec::new() })
    }

    /// One sentence with the number of rounds that the bench will need, if the history has the noise of an earlier one.
    pub fn rounds_needed(&self, db: Option<&Path>) -> Option<String> {
        forecast::rounds_needed(db, &self.head)
    }

    /// Boots until the plan is done or something ends the bench.
    pub fn boot_all(mut self, keep_recordings: bool, watcher: &mut dyn Watcher) -> FinishedBench {
        let recordings = self.folder.join("boots");
        let mut booter = Booter::new(&self.variants, &recordings, &mut self.journal, watcher);
        booter.keep_recordings = keep_recordings;
        booter.dithered = self.head.dithered;
        booter.view = BootView::named(self.head.up_to.as_deref());
        booter.before = resumed::elapsed(&self.boots);
        let finished = benchmark::resume(&self.head.plan, &self.head.ask, self.boots, &mut booter);
        watcher.clear();
        let journaled = self.journal.end(finished.ended).map_err(anyhow::Error::from);
        let document = Document::new(self.head, finished.boots, Some(finished.ended));
        // Without kept recordings their folder is empty and not needed.
        let _ = std::fs::remove_dir(&recordings);
        let document = Document { continued: self.continued, ..document };
        FinishedBench { folder: self.folder, document, error: finished.error, journaled }
    }
}

impl FinishedBench {
    /// Writes the document, also after an error, and then returns that error.
    ///
    /// # Errors
    /// The error that ended the bench, or that of writing the document.
    pub fn write_document(self) -> anyhow::Result<Document> {
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

/// Begins a bench: does all checks that can fail before the first boot, and creates its journal.
///
/// # Errors
/// If a kernel is missing, the options cannot be compared, or the folder holds something else.
pub fn begin(mut request: Request, watcher: &mut dyn Watcher, notes: &dyn Notes) -> anyhow::Result<ReadyBench> {
    if run_own_process_1(&mut request.variants) {
        notes.note(
            "every variant runs the guest's own process 1, because bootscope's runs in QEMU alone; --init keep says the same",
        );
    }
    let variants = &request.variants;
    if variants.iter().any(|v| v.options.guest.target.board().is_some_and(|board| board.power_cycle.is_none())) {
        bail!("bench boots a board again and again: give the command that switches it off and on with --power-cycle");
    }
    if let Some(cpus) = &request.pin {
        pin_to(cpus)?;
    }
    let foreseen = foresee(variants, watcher)?;
    let at = benchmark::variants::sizes(&request.sizes, &request.axes)?;
    let head = Head { sweep: request.axes.clone(), at, ..head(&request, &foreseen)? };
    enough_rounds(&request, &head, notes)?;
    let folder = folder(request.folder.as_deref(), request.force, &head, "bench")?;
    clear(&folder);
    ReadyBench::new(folder, head, request.variants, notes)
}

/// Restricts this process and its VMMs to the CPUs that the user chose.
fn pin_to(cpus: &str) -> anyhow::Result<()> {
    machine::pin::pin(cpus).with_context(|| format!("--pin {cpus}"))
}

/// Makes all variants run the guest's own process 1 if one of them boots in a VMM that supports no other. Otherwise
/// their end marks would differ in kind. Returns true if that changed a variant.
fn run_own_process_1(variants: &mut [PlannedVariant]) -> bool {
    let is_elsewhere =
        variants.iter().any(|variant| variant.options.guest.target.vmm().is_some_and(|vmm| vmm != VmmKind::Qemu));
    let mut changed = false;
    for guest in variants.iter_mut().map(|variant| &mut variant.options.guest).filter(|_| is_elsewhere) {
        changed |= guest.target.is_qemu() && guest.init == Init::Guest;
        if guest.target.is_qemu() {
            guest.init = Init::Keep;
        }
    }
    changed
}

/// Resumes an interrupted bench.
pub fn resume(
    folder: &Path,
    pin: Option<&str>,
    is_trusted: bool,
    watcher: &mut dyn Watcher,
    notes: &dyn Notes,
) -> anyhow::Result<ReadyBench> {
    if let Some(cpus) = pin {
        pin_to(cpus)?;
    }
    let InterruptedBench { head, variants, mut journal, boots, mut continued } =
        resumed::open(folder, pin.is_some(), is_trusted, watcher, notes)?;
    let over = u32::try_from(boots.len()).unwrap_or(u32::MAX);
    // The interrupted boot left an incomplete recording.
    let half = recording_of(&folder.join("boots"), over);
    if half.exists() {
        std::fs::remove_dir_all(&half).with_context(|| format!("cannot remove {}", half.display()))?;
    }
    journal.continued(over)?;
    continued.push(over);
    notes.note(&format!("{} goes on after {over} boots, which are kept", folder.display()));
    Ok(ReadyBench { folder: folder.to_owned(), head, variants, journal, boots, continued })
}

/// Checks the number of rounds. A sweep needs fewer boots for its growth than for its comparisons, so there it is only
/// a remark.
fn enough_rounds(request: &Request, head: &Head, notes: &dyn Notes) -> anyhow::Result<()> {
    let comparisons = head.variants.len() - 1;
    let enough = refuse_too_few(head.plan.stop.rounds, comparisons, benchmark::Test::of(head));
    match enough {
        Err(why) if !request.axes.is_empty() => notes.note(&format!("{why}, so only its growth is known")),
        enough => enough?,
    }
    Ok(())
}

/// Refuses a number of rounds that cannot show any difference, before hours of boots.
///
/// # Errors
/// If every verdict on that number of comparisons would be *too few*.
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

/// Adds the bench to the history of past benches. A failure is only a remark, because the bench's folder has
/// everything.
pub fn remember(db: Option<&Path>, folder: &Path, document: &Document, notes: &dyn Notes) {
    if document.boots.is_empty() {
        return;
    }
    let path = db.map(Path::to_owned).map_or_else(benchmark::history::default_path, Ok);
    let kept = path.and_then(|path| benchmark::History::open(&path)?.add(document));
    if let Err(why) = kept {
        let folder = folder.display();
        notes.note(&format!("not kept in the history: {why}; later: bootscope history --add {folder}"));
    }
}

/// The document of a bench, in its folder.
const DOCUMENT: &str = "bench.json";

/// The manifests that each variant's recordings will have, before any boot. A missing kernel is reported here.
pub fn foresee(variants: &[PlannedVariant], watcher: &mut dyn Watcher) -> anyhow::Result<Vec<Manifest>> {
    let one = |variant: &PlannedVariant| {
        let foreseen = machine::foresee(&variant.options, watcher.observer());
        foreseen.with_context(|| format!("variant {}", variant.name))
    };
    let foreseen = variants.iter().map(one).collect();
    watcher.clear();
    foreseen
}

/// The most boots of a bench. The figures of all boots are in memory, about ten KiB each.
const MAX_BOOTS: u32 = 50_000;

/// The head of a bench with this plan, before the first boot.
pub fn new_head(plan: Plan, variants: &[PlannedVariant], foreseen: &[Manifest], dither: bool) -> Head {
    let manifest = Manifest::begun_now();
    let mut head = Head::of(plan, variants.iter().zip(foreseen).map(|(v, m)| variant(v, m)).collect());
    head.tool_version = manifest.tool_version;
    head.created = manifest.created;
    head.deterministic = variants[0].options.guest.deterministic;
    head.ask = Ask::of_boots(head.deterministic);
    head.dithered = head.deterministic && dither && variants.iter().all(|v| v.options.guest.kernel.is_some());
    head.host_cpus_allowed = machine::pin::allowed();
    let host = &foreseen[0].host;
    head.host = Host { cpu: host.cpu.clone(), cores: host.cores, kernel: host.kernel.clone() };
    head
}

/// The head of the requested bench.
fn head(request: &Request, foreseen: &[Manifest]) -> anyhow::Result<Head> {
    let variants = &request.variants[..];
    let deterministic = variants[0].options.guest.deterministic;
    if variants.iter().any(|v| v.options.guest.deterministic != deterministic) {
        bail!("deterministic boots count instructions, others time: compare either, not one with the other");
    }
    let open_end = request.until_sure || request.until_width.is_some() || request.budget.is_some();
    let max_rounds = MAX_BOOTS / u32::try_from(variants.len()).unwrap_or(u32::MAX);
    let rounds = match request.runs {
        Some(runs) if runs > max_rounds => {
            let variants = variants.len();
            bail!("--runs {runs} of {variants} variants: give at most {max_rounds}, so that all boots fit memory")
        }
        Some(runs) => runs,
        None if open_end => max_rounds.min(1000),
        None if deterministic => 5,
        None => 10,
    };

    let budget_ns = request.budget.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let plan = Plan {
        variants: variants.len(),
        warm_ups: request.warm_ups.unwrap_or(u32::from(!deterministic)),
        stop: Stop { rounds, width: request.until_width, sure: request.until_sure, budget_ns },
        seed: request.seed.unwrap_or_else(|| machine::monotonic_ns().unsigned_abs()),
        ..Plan::default()
    };
    let mut head = new_head(plan, variants, foreseen, request.dithers);
    if request.runs.is_none() && request.axes.is_empty() {
        let least = benchmark::rounds_least(variants.len() - 1, benchmark::Test::of(&head));
        head.plan.stop.rounds = head.plan.stop.rounds.max(least).min(max_rounds);
    }
    head.ask.margin = request.margin.unwrap_or(head.ask.margin);
    if request.until_sure {
        head.ask.looks = looks(&head)?;
    }
    head.up_to = request.view.name().map(str::to_owned);
    Ok(head)
}

/// The number of looks of a bench that ends when its verdicts are sure.
fn looks(head: &Head) -> anyhow::Result<u32> {
    let (rounds, others) = (head.plan.stop.rounds, head.variants.len() - 1);
    if others == 0 {
        bail!("--until-sure compares variants: give another one with --vary");
    }
    match benchmark::looks(rounds, others).len() {
        0 => bail!("--runs {rounds} is too few to be sure of anything: leave it out, or give more"),
        looks => Ok(u32::try_from(looks).unwrap_or(u32::MAX)),
    }
}

/// A variant, with facts from the manifest that its recordings will have.
pub fn variant(varied: &PlannedVariant, foreseen: &Manifest) -> Variant {
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

/// The named folder, or one named for the kind and the date. Removes nothing: [`clear`] does that after the last check
/// that can fail.
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

/// Removes the bench in a folder, if there is one, and nothing else in it.
pub fn clear(folder: &Path) {
    if !folder.join(JOURNAL).exists() {
        return;
    }
    for part in [JOURNAL, DOCUMENT] {
        let _ = std::fs::remove_file(folder.join(part));
    }
    let _ = std::fs::remove_dir_all(folder.join("boots"));
}
