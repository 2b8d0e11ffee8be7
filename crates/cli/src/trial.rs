//! `bootscope try`: boots the remedies of findings, and holds what they save against what was claimed.
//!
//! A try is a bench: the recording's own guest, and a variant of it for each remedy. Its boots, its journal and its history
//! are `bench`'s. What is tried is chosen in `choice`, how a remedy is made in `making`; the verdicts are
//! `benchmark::trial`'s.

mod cannot;
mod choice;
mod kernels;
mod making;
mod page;

use crate::bench::{self, Begun, Over, foresee, head_of, refuse_too_few};
use crate::benches::{self, JOURNAL};
use crate::boot;
use crate::plan::Patches;
use crate::progress::Watcher;
use crate::repeat::{Repeated, check_begun_here, is_own};
use crate::variants::Varied;
use crate::{Done, Interrupted, amount, output::Output, plan};
use anyhow::{Context, bail};
use benchmark::tree::Sources;
use benchmark::trial::{Remedy, Saved, Trial, Untried};
use benchmark::{Document, Ended, Head, Plan, Setting, Stop};
use cannot::Cannot;
use choice::Choice;
use kernels::Kernels;
use machine::RecordOptions;
use recording::{Accel, GuestSpec, Manifest, OutcomeKind};
use report::Proofs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use timeline::Ns;

/// Boot the remedies of findings, and compare what each saves with what was claimed
///
/// bootscope boots the recording's own guest, and the same guest with each remedy, in turn and in random order as `bench`
/// does. It prints what each finding claimed beside what was measured, and a verdict. Then it boots all confirmed remedies
/// together. A remedy is another command line, another machine, a change in the memory of the recording's own guest, the
/// kernel or the initrd unpacked, or a kernel that is built from --tree with other options. Your kernel, your initrd, your
/// disks and the sources are not changed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A recording: folder or packed file
    #[arg(required_unless_present_any = ["continued", "page"])]
    recording: Option<PathBuf>,
    /// Findings to try: the name of a rule, or of what a finding is about (see `bootscope findings`) [default: the first five
    /// remedies that can be made]
    #[arg(value_name = "FINDING")]
    findings: Vec<String>,
    /// Boot a recording that another user or machine made as it says: its programs, arguments for QEMU and disks are printed,
    /// and taken. Also for --continue
    #[arg(long)]
    trust_recording: bool,
    /// Try a remedy of your own: words to add to the kernel's command line. May be given again; without FINDING, only these
    /// are tried
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// Try a change to the guest's code, written before FUNC runs for the first time: call@FUNC+0x41=nop removes the call
    /// there, call@FUNC+0x41=OTHER has it call OTHER, bytes@FUNC+0x41=OLD:NEW writes bytes. Those of one remedy are
    /// separated by ';'. May be given again. One more boot checks that it fits; a Linux kernel is booted with nokaslr
    #[arg(long, value_name = "CHANGE", value_parser = plan::patches)]
    patch: Vec<Patches>,
    /// What your own remedy is said to save, such as 20ms [default: anything]
    #[arg(long, value_name = "TIME", value_parser = amount::time)]
    claim: Option<Ns>,

    /// Linux's sources: build the kernel from them, as configured and with other options. All boots are of kernels built here,
    /// and the boot is recorded once more for its claims. Builds are out of tree, and kept
    #[arg(long, value_name = "DIR", help_heading = "Other kernels")]
    tree: Option<PathBuf>,
    /// Try a remedy of your own: options of the kernel's configuration, with commas between. -NAME switches CONFIG_NAME off,
    /// +NAME on. May be given again
    #[arg(long, value_name = "OPTIONS", requires = "tree", allow_hyphen_values = true, help_heading = "Other kernels")]
    config: Vec<String>,
    /// The configuration to build from [default: config-RELEASE beside the recorded kernel, or in /boot]
    #[arg(long, value_name = "FILE", requires = "tree", help_heading = "Other kernels")]
    base_config: Option<PathBuf>,
    /// Where kernels are kept that are built or unpacked [default: $XDG_CACHE_HOME/bootscope]
    #[arg(long, value_name = "FOLDER", help_heading = "Other kernels")]
    cache: Option<PathBuf>,

    /// Rounds: each boots the guest once as recorded and once with each remedy [default: 10, of deterministic boots 5; more
    /// where so few could show nothing]. With deterministic boots 1 is a first look, good to 3 % of the boot
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "How often")]
    runs: Option<u32>,
    /// Count instructions instead of time, whatever the host does meanwhile. Where the recording has times, it is recorded
    /// once more with instructions counted, and the claims are of that
    #[arg(long, help_heading = "How often")]
    deterministic: bool,

    /// The folder to make [default: boots/try-DATE-TIME]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace the try that is there
    #[arg(long)]
    force: bool,
    /// Go on with a try that was interrupted or killed: its boots are kept
    #[arg(long = "continue", value_name = "DIR", conflicts_with_all = ["recording", "append", "patch", "tree", "runs", "deterministic", "output", "page"])]
    continued: Option<PathBuf>,
    /// Keep the recording of every boot, not only of those that failed
    #[arg(long)]
    keep_recordings: bool,
    /// Boot nothing; write a page of all tries in the history into this file. With --force a page that is there is replaced,
    /// except what stands below its heading "Notes"
    #[arg(long, value_name = "FILE", conflicts_with_all = ["recording", "append", "patch", "tree", "runs", "deterministic", "output", "no_history"])]
    page: Option<PathBuf>,
    /// The database that keeps past tries [default: $XDG_DATA_HOME/bootscope/history.db]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// Do not keep it there
    #[arg(long, conflicts_with = "db")]
    no_history: bool,
}

const EXAMPLES: &str = "\
Examples:
  bootscope try boots/a
  bootscope try boots/a tsc-check --runs 20
  bootscope try boots/a 'SYSINIT cpu' --deterministic
  bootscope try boots/a --append 'tsc=reliable' --claim 20ms
  bootscope try boots/a --patch 'call@start_aps+0x41=nop'
  bootscope try boots/a --tree linux-6.1 --config -FTRACE,-AUDIT
  bootscope try --continue boots/try-20260131-083000
  bootscope try --page findings.md

Verdicts:
  confirmed        the boot is faster, and what was measured lies within 10 % of
                   the claim, or in the claimed interval if that is wider
  refuted          what is saved and what was claimed have no value in common,
                   or the boot is not faster, and noise hides less than that
  breaks the boot  every boot with the remedy fails and none without it, or so
                   many more that chance does not explain it
  too noisy        none of these; it says about how many rounds would tell.
                   One round of deterministic boots has one memory layout.
                   Another can change a boot by 3 %, so the round says nothing
                   of savings that are smaller
A remedy without a claim is confirmed if the boot is faster. It is refuted if
the boot is slower, or if the whole interval lies within 5 % of no change.

The folder is that of a bench: bench.jsonl, bench.json, and in boots/NNNN the
recording of every boot that failed. The boots of all remedies together are in
together/. `bootscope show` prints a try again.

Exit status:
  0  done, whatever the verdicts are
  1  it was interrupted, or the boot as recorded does not reach its end mark
  2  usage or input error";

/// Rounds, if nobody says.
const ROUNDS: u32 = 10;
const ROUNDS_DETERMINISTIC: u32 = 5;
/// What is booted as it was recorded.
const BASE: &str = "as recorded";
/// The folder of the boots of all remedies together, in that of the try.
pub const TOGETHER: &str = "together";
/// The recording that claims are of where the user's is of another kernel, or has times and instructions are counted.
const COUNTED: &str = "base";

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    if let Some(page) = &args.page {
        return page::write(page, args.db.as_deref(), args.force, output);
    }
    let mut watcher = Watcher::new(output)?;
    let mut tryer = Tryer::new(args, output, &mut watcher)?;
    let single = match &args.continued {
        Some(folder) => tryer.go_on(folder)?,
        None => match tryer.begin()? {
            Some(begun) => tryer.boot(begun)?,
            None => return Ok(Done::Well),
        },
    };
    let Stage { folder, document } = single;
    let joint = if is_done(&document) { tryer.together(&folder, &document) } else { Ok(None) };
    // What each remedy does by itself is known, whatever becomes of all together.
    show(&folder, &document, joint.as_ref().ok().and_then(Option::as_ref), output)?;
    let joint = joint.context("the remedies could not be booted together")?;
    let all = [Some(&document), joint.as_ref()];
    Ok(if all.into_iter().flatten().all(says_something) { Done::Well } else { Done::Badly })
}

/// How many rounds, and whether each boot gets another layout.
struct Rounds {
    given: Option<u32>,
    dither: bool,
}

/// Boots that nothing refuses, and of which nothing is written yet.
struct Staged {
    head: Head,
    variants: Vec<Varied>,
}

impl Staged {
    fn begin(self, folder: PathBuf, output: &Output) -> anyhow::Result<Begun> {
        Begun::new(folder, self.head, self.variants, output)
    }
}

/// A try's boots that are over.
struct Stage {
    folder: PathBuf,
    document: Document,
}

/// Whether all of its rounds are over.
fn is_done(document: &Document) -> bool {
    document.ended == Some(Ended::Rounds)
}

/// Whether its rounds are over, and the boot as recorded reached its end mark in any of them.
fn says_something(document: &Document) -> bool {
    is_done(document) && document.results.variants.first().is_some_and(|base| base.total.is_some())
}

/// Prints a try.
fn show(folder: &Path, single: &Document, joint: Option<&Document>, output: &Output) -> anyhow::Result<()> {
    let proofs = Proofs::of(&folder.display().to_string(), single, joint);
    let proofs = proofs.with_context(|| format!("{} is a bench and no try", folder.display()))?;
    if output.json { output.document(&proofs) } else { output.text(&proofs.text(output.layout(usize::MAX))) }
}

/// Prints a try that was run before, whole or not; whether it is one.
pub fn show_again(folder: &Path, output: &Output) -> anyhow::Result<bool> {
    let (document, _) = benches::read(folder)?;
    if document.head.trial.is_none() || !folder.is_dir() {
        return Ok(false);
    }
    let joint = folder.join(TOGETHER);
    let joint = if joint.join(JOURNAL).is_file() { Some(benches::read(&joint)?.0) } else { None };
    show(folder, &document, joint.as_ref(), output)?;
    Ok(true)
}

/// Who tries.
struct Tryer<'a> {
    args: &'a Args,
    output: &'a Output,
    watcher: &'a mut Watcher,
    kernels: Kernels<'a>,
    /// What kernels are built from.
    sources: Option<Sources>,
}

impl<'a> Tryer<'a> {
    fn new(args: &'a Args, output: &'a Output, watcher: &'a mut Watcher) -> anyhow::Result<Tryer<'a>> {
        let cache = match &args.cache {
            Some(cache) => cache.clone(),
            None => default_cache().context("neither XDG_CACHE_HOME nor HOME is set: name a folder with --cache")?,
        };
        let cache = std::path::absolute(&cache).with_context(|| format!("cannot use {}", cache.display()))?;
        let sources = match (&args.continued, &args.recording) {
            (Some(folder), _) => {
                let head = benches::read(folder)?.0.head;
                check_begun_here(folder, &head, args.trust_recording)?;
                head.trial
                    .and_then(|trial| trial.sources)
                    .map(|kept| as_begun(kept, &cache, args.cache.is_some()))
                    .transpose()?
            }
            (None, Some(recording)) => sources(args, recording, &cache, output)?,
            (None, None) => None,
        };
        let note = Box::new(|text: &str| output.note(text));
        let kernels = Kernels::new(cache, sources.clone(), Box::new(watcher.asks_to_stop()), note);
        if args.continued.is_none() {
            kernels.open()?;
        }
        Ok(Tryer { args, output, watcher, kernels, sources })
    }

    /// All that comes before the first boot; none if there is nothing to boot, which is printed. What was tried before is
    /// removed last, when nothing can be refused any more.
    fn begin(&mut self) -> anyhow::Result<Option<Begun>> {
        let args = self.args;
        let path = args.recording.as_deref().context("give a recording, or --continue DIR")?;
        let mut options = base(path, args.trust_recording)?;
        // Stopped vCPUs would be charged to the remedy.
        options.observe.silence_ms = None;
        options.observe.watch = None;
        let counts = args.deterministic && !options.guest.deterministic;
        if counts {
            options.guest.deterministic = true;
            options.guest.accel = Accel::Auto;
        }
        // What a kernel saves that does not move itself is no patch's.
        options.guest.fixed_address |= !args.patch.is_empty();
        let anew = counts || self.sources.is_some();
        self.check_booted(path, &options, anew)?;
        choice::refuse_own(args, &options, &self.kernels)?;
        let plan = Plan { leaves_out: true, variants: 1, warm_ups: 0, stop: stop(1), seed: 1 };
        let foreseen = foresee(&[as_recorded(&options)], self.watcher)?;
        let dated = head_of(plan, &[as_recorded(&options)], &foreseen, false);
        let folder = bench::folder(args.output.as_deref(), args.force, &dated, "try")?;
        refuse_others_files(&folder, path, anew)?;
        if let Some(kernel) = self.kernels.base()? {
            options.guest.kernel = Some(kernel);
            // Now that the configuration is completed, more is known to be made already.
            choice::refuse_own(args, &options, &self.kernels)?;
            // A kernel that does not build is said before anything is booted.
            for remedy in choice::own(args) {
                with(&options, &remedy, &mut self.kernels)?;
            }
        }
        let counted = if anew { Some(self.counted(&options, &folder)?) } else { None };
        let opened = match &counted {
            Some(counted) => boot::open_warned(&counted.path().join(COUNTED), self.output)?,
            None => boot::open_warned(path, self.output)?,
        };
        let choice = Choice::of(&opened, &options, args, &mut self.kernels)?;
        let followed = Some(options.observe.calls);
        if options.guest.deterministic {
            // What is executed is the same, and is faster if nobody follows it.
            options.observe.calls = false;
            options.observe.min_call_ns = None;
        }
        let recording = if anew { folder.join(COUNTED) } else { path.to_owned() };
        let trial = Trial {
            // The try may go on in another folder.
            recording: std::path::absolute(&recording).unwrap_or(recording).display().to_string(),
            remedies: choice.remedies,
            untried: choice.untried,
            together: false,
            followed,
            sources: self.sources.clone(),
        };
        if trial.remedies.is_empty() {
            let nothing = Document::new(Head { trial: Some(trial), ..dated }, Vec::new(), None);
            show(&folder, &nothing, None, self.output)?;
            return Ok(None);
        }
        self.check_patches(&options, &folder)?;
        let staged = self.stage(&options, trial, self.rounds())?;
        if folder.join(JOURNAL).is_file() {
            let _ = std::fs::remove_dir_all(folder.join(TOGETHER));
            if made_counted(&folder)? {
                let _ = std::fs::remove_dir_all(folder.join(COUNTED));
            }
        }
        bench::clear(&folder);
        if let Some(counted) = counted {
            std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
            std::fs::rename(counted.path().join(COUNTED), folder.join(COUNTED))
                .with_context(|| format!("cannot make {}", folder.join(COUNTED).display()))?;
        }
        Ok(Some(staged.begin(folder, self.output)?))
    }

    /// Records the guest once more, beside the folder: claims in time are none in instructions, and those of one kernel none of
    /// another.
    fn counted(&mut self, options: &RecordOptions, folder: &Path) -> anyhow::Result<TempDir> {
        let made = beside(folder)?;
        let why =
            if self.sources.is_some() { "is of another kernel" } else { "has times, and instructions are counted" };
        self.output.note(&format!("the recording {why}: the boot is recorded once more, for its claims"));
        self.watcher.doing("recording once more");
        let options = RecordOptions { out: made.path().join(COUNTED), force: false, ..options.clone() };
        let recorded = machine::record(&options, self.watcher)?;
        self.watcher.clear();
        if recorded.outcome.kind == OutcomeKind::Interrupted {
            return Err(
                Interrupted("stopped while the boot was recorded once more; nothing was tried".to_owned()).into()
            );
        }
        if recorded.outcome.kind != OutcomeKind::Reached {
            let (outcome, detail) = (recorded.manifest.outcome_word(), &recorded.outcome.detail);
            bail!("recorded once more, the boot does not reach its end mark: {outcome} ({detail})");
        }
        Ok(made)
    }

    /// Boots the guest once with each change to its code: whether it fits is known only there.
    fn check_patches(&mut self, options: &RecordOptions, folder: &Path) -> anyhow::Result<()> {
        for Patches(patches) in &self.args.patch {
            let made = beside(folder)?;
            let mut options = RecordOptions { out: made.path().join(COUNTED), force: false, ..options.clone() };
            options.guest.patches.extend(patches.iter().cloned());
            self.watcher.doing("booting once to see whether the patch fits");
            let recorded = machine::record(&options, self.watcher)?;
            self.watcher.clear();
            if recorded.outcome.kind == OutcomeKind::Interrupted {
                return Err(Interrupted("stopped while the patch was checked; nothing was tried".to_owned()).into());
            }
            if recorded.outcome.kind == OutcomeKind::Unpatched {
                bail!("nothing was tried: {}", recorded.outcome.detail);
            }
            recorded.patched.iter().for_each(|patched| self.output.note(patched));
        }
        Ok(())
    }

    /// Claims of one kernel are none of another, and those of one accelerator are none of another.
    fn check_booted(&mut self, path: &Path, options: &RecordOptions, anew: bool) -> anyhow::Result<()> {
        let foreseen = machine::foresee(options, self.watcher);
        self.watcher.clear();
        let next = || {
            format!(
                "{} cannot be booted again as it was recorded; put back what is missing, or record anew and try that",
                path.display()
            )
        };
        let foreseen = foreseen.with_context(next)?;
        let recorded = boot::open_recording(path)?;
        let recorded = recorded.manifest();
        if recorded.outcome.as_ref().is_some_and(|outcome| outcome.kind != OutcomeKind::Reached) {
            bail!(
                "{} did not reach its end mark ({}), so there is no length to compare with: record a boot that does",
                path.display(),
                recorded.outcome_word()
            );
        }
        for input in &recorded.inputs {
            let same = foreseen.inputs.iter().find(|now| now.role == input.role && now.path == input.path);
            if same.is_some_and(|now| now.sha256 != input.sha256) {
                bail!(
                    "the {} {} has another content than when {} was recorded: record it again, and try that",
                    input.role,
                    input.path,
                    path.display()
                );
            }
        }
        // Where it is recorded once more, its claims are of this machine.
        if anew {
            return Ok(());
        }
        for note in differences(recorded, &foreseen).with_context(|| format!("{} cannot be tried", path.display()))? {
            self.output.note(&note);
        }
        Ok(())
    }

    fn rounds(&self) -> Rounds {
        // One boot of each only repeats; several get another layout each.
        Rounds { given: self.args.runs, dither: self.args.runs != Some(1) }
    }

    /// The boots of these remedies, each by itself, beside the guest as it is.
    fn stage(&mut self, options: &RecordOptions, mut trial: Trial, rounds: Rounds) -> anyhow::Result<Staged> {
        let mut variants = vec![as_recorded(options)];
        for remedy in &mut trial.remedies {
            variants.push(with(options, remedy, &mut self.kernels)?);
            remedy.along = self.kernels.along(&remedy.changes);
        }
        let deterministic = options.guest.deterministic;
        let plan = Plan {
            leaves_out: true,
            variants: variants.len(),
            warm_ups: u32::from(!deterministic),
            stop: stop(rounds.given.unwrap_or(if deterministic { ROUNDS_DETERMINISTIC } else { ROUNDS })),
            seed: machine::monotonic_ns().unsigned_abs(),
        };
        let foreseen = foresee(&variants, self.watcher)?;
        let mut head = head_of(plan, &variants, &foreseen, rounds.dither);
        let (comparisons, test) = (variants.len() - 1, benchmark::Test::of(&head));
        match rounds.given {
            Some(runs) => refuse_too_few(runs, comparisons, test)?,
            None => {
                let rounds = &mut head.plan.stop.rounds;
                *rounds = benchmark::rounds_least(comparisons, test).max(*rounds);
            }
        }
        head.trial = Some(trial);
        Ok(Staged { head, variants })
    }

    fn boot(&mut self, begun: Begun) -> anyhow::Result<Stage> {
        let over = begun.boot_all(self.args.keep_recordings, self.watcher);
        if !self.args.no_history {
            bench::remember(self.args.db.as_deref(), &over.folder, &over.document, self.output);
        }
        let Over { folder, .. } = &over;
        Ok(Stage { folder: folder.clone(), document: over.written()? })
    }

    /// A try that was cut off, until the remedies by themselves are over.
    fn go_on(&mut self, folder: &Path) -> anyhow::Result<Stage> {
        let (document, _) = benches::read(folder)?;
        if document.head.trial.is_none() {
            bail!("{0} is a bench and no try: `bootscope bench --continue {0}` goes on with it", folder.display());
        }
        if is_done(&document) {
            return Ok(Stage { folder: folder.to_owned(), document });
        }
        let begun = bench::go_on(folder, None, self.args.trust_recording, self.watcher, self.output)?;
        self.boot(begun)
    }

    /// Boots all remedies that were confirmed at once. None if fewer than two were.
    fn together(&mut self, folder: &Path, single: &Document) -> anyhow::Result<Option<Document>> {
        let into = folder.join(TOGETHER);
        if into.join(JOURNAL).is_file() {
            let (document, _) = benches::read(&into)?;
            if is_done(&document) {
                return Ok(Some(document));
            }
            let begun = bench::go_on(&into, None, self.args.trust_recording, self.watcher, self.output)?;
            return Ok(Some(self.boot(begun)?.document));
        }
        let Some(trial) = &single.head.trial else { return Ok(None) };
        let confirmed = choice::confirmed(single);
        if confirmed.len() < 2 {
            return Ok(None);
        }
        let how = single.head.variants[0].how.clone();
        let options: RecordOptions = serde_json::from_value(how).context("the options of the boots")?;
        let (fitting, untried) = choice::fitting(&options, confirmed, &self.kernels);
        for Untried { finding, why } in &untried {
            self.output.note(&format!("{} ({}) is not booted with the others: {why}", finding.rule, finding.about));
        }
        if fitting.len() < 2 {
            return Ok(None);
        }
        let joint = Trial {
            recording: trial.recording.clone(),
            remedies: vec![choice::joint(Path::new(&trial.recording), &fitting)],
            untried,
            together: true,
            followed: trial.followed,
            sources: trial.sources.clone(),
        };
        // As the remedies by themselves were booted, whatever this call says.
        let rounds = Rounds { given: Some(single.head.plan.stop.rounds), dither: single.head.dithered };
        let begun = self.stage(&options, joint, rounds)?.begin(into, self.output)?;
        Ok(Some(self.boot(begun)?.document))
    }
}

/// A folder for a while, on the disk of this one.
fn beside(folder: &Path) -> anyhow::Result<TempDir> {
    let beside = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(beside).with_context(|| format!("cannot make {}", beside.display()))?;
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    let made = tempfile::Builder::new().prefix(".try-").permissions(owner_only).tempdir_in(beside);
    made.with_context(|| format!("cannot make a folder in {}", beside.display()))
}

fn stop(rounds: u32) -> Stop {
    Stop { rounds, width: None, budget_ns: None }
}

/// How the recording was booted.
fn base(path: &Path, is_trusted: bool) -> anyhow::Result<RecordOptions> {
    let recording = boot::open_recording(path)?;
    if recording.manifest().how.is_null() {
        bail!(
            "{} was imported, and does not say how it was booted: record that kernel with `bootscope record --kernel \
             FILE`, and try that recording",
            path.display()
        );
    }
    let next = "record it here with `bootscope record --like` and options of your own, and try that";
    Repeated::of(path, is_trusted)?.with_given(|_| false, next)
}

/// The sources of a try that goes on: its kernels are where they were kept when it began.
fn as_begun(kept: Sources, cache: &Path, is_given: bool) -> anyhow::Result<Sources> {
    if kept.cache.as_os_str().is_empty() {
        return Ok(Sources { cache: cache.to_owned(), ..kept });
    }
    if is_given && kept.cache != cache {
        bail!("the try keeps its kernels in {0}: give --cache {0} or none", kept.cache.display());
    }
    Ok(kept)
}

/// What kernels are built from, if that is asked for.
fn sources(args: &Args, recording: &Path, cache: &Path, output: &Output) -> anyhow::Result<Option<Sources>> {
    let Some(tree) = &args.tree else { return Ok(None) };
    let subject = boot::open_recording(recording)?.manifest().subject.clone();
    let guest = base(recording, args.trust_recording)?.guest;
    if let Some(note) = of_modules(&guest, recording)? {
        output.note(note);
    }
    let kernel = guest.kernel.with_context(|| {
        format!("{} was booted from its own disk: --tree replaces a kernel of --kernel", recording.display())
    })?;
    let is_own = is_own(recording)?;
    let config = args.base_config.clone().or_else(|| kernels::packaged_config(&kernel, &subject.kernel, is_own));
    let config = config.with_context(|| {
        let release = &subject.kernel;
        match is_own {
            true => format!("there is no config-{release} beside {} or in /boot: name one with --base-config", kernel.display()),
            false => format!(
                "there is no config-{release} in /boot, and {} was made by another user or on another machine, so what is beside \
                 its kernel is not taken: name one with --base-config",
                recording.display()
            ),
        }
    })?;
    let absolute = |path: &Path| path.canonicalize().with_context(|| format!("cannot use {}", path.display()));
    Ok(Some(Sources::of(absolute(tree)?, absolute(&config)?, cache.to_owned())?))
}

/// What a kernel without its modules means for this guest, if anything.
///
/// # Errors
/// If it cannot boot without them.
fn of_modules(guest: &GuestSpec, recording: &Path) -> anyhow::Result<Option<&'static str>> {
    if guest.root.is_some() {
        bail!(
            "{} was recorded with --root, which takes modules of the kernel's release, and --tree builds none: record with \
             an --initrd, or with the root as a disk (--disk) whose drivers are built in",
            recording.display()
        );
    }
    Ok(guest.initrd.as_ref().map(|_| {
        "--tree builds no modules, and those in the initrd are of another kernel: what the boot needs has to be built in"
    }))
}

/// Whether the folder's try made its recording for claims itself: another one of that name is the user's.
fn made_counted(folder: &Path) -> anyhow::Result<bool> {
    let trial = benches::read(folder)?.0.head.trial;
    let counted = folder.join(COUNTED).canonicalize();
    Ok(trial.is_some_and(|trial| Path::new(&trial.recording).canonicalize().ok() == counted.ok()))
}

fn default_cache() -> Option<PathBuf> {
    xdg::BaseDirectories::with_prefix("bootscope").get_cache_home()
}

/// Refuses to try a recording into a folder that has it, or files that no try made.
fn refuse_others_files(folder: &Path, recording: &Path, anew: bool) -> anyhow::Result<()> {
    let Ok(whole) = folder.canonicalize() else { return Ok(()) };
    if recording.canonicalize().is_ok_and(|recording| recording.starts_with(&whole)) {
        bail!(
            "{} lies inside {}, where the try would be: name another folder with -o",
            recording.display(),
            folder.display()
        );
    }
    if folder.join(JOURNAL).exists() {
        let (document, _) = benches::read(folder)?;
        if document.head.trial.is_none() {
            bail!("{} is a bench and no try, and is not replaced: name another folder with -o", folder.display());
        }
        if anew && folder.join(COUNTED).exists() && !made_counted(folder)? {
            bail!("{} has {COUNTED}, which its try did not make: name another folder with -o", folder.display());
        }
        return Ok(());
    }
    let parts: &[&str] = if anew { &[TOGETHER, COUNTED, "boots"] } else { &[TOGETHER, "boots"] };
    match parts.iter().find(|part| folder.join(part).exists()) {
        Some(part) => bail!("{} has {part}, which no try made: name another folder with -o", folder.display()),
        None => Ok(()),
    }
}

/// How these boots differ from the recorded one in what claims depend on, in words.
///
/// # Errors
/// If the accelerator is another: a saving under one is none under the other.
fn differences(recorded: &Manifest, foreseen: &Manifest) -> anyhow::Result<Vec<String>> {
    let (was, is) = (&recorded.subject.accelerator, &foreseen.subject.accelerator);
    if !was.is_empty() && !is.is_empty() && was != is {
        bail!(
            "it was recorded with {was} and would be booted with {is}, where its claims say nothing: record it again \
             here and try that, or give --deterministic"
        );
    }
    let of = |what: &str, was: &str, is: &str| {
        (!was.is_empty() && !is.is_empty() && was != is)
            .then(|| format!("the recording's claims are of another {what}: {was}, and here {is}"))
    };
    let vmm = of("QEMU", &recorded.vmm.version, &foreseen.vmm.version);
    let host = of("host CPU", &recorded.host.cpu, &foreseen.host.cpu);
    Ok(vmm.into_iter().chain(host).collect())
}

fn as_recorded(options: &RecordOptions) -> Varied {
    Varied { name: BASE.to_owned(), settings: Vec::new(), options: options.clone() }
}

/// The guest with a remedy.
fn with(options: &RecordOptions, remedy: &Remedy, kernels: &mut Kernels) -> Result<Varied, Cannot> {
    let mut options = options.clone();
    for change in &kernels::in_order(&remedy.changes) {
        // Of several remedies together, one may have made another's change.
        match making::make(change, &mut options, kernels) {
            Ok(()) | Err(Cannot::IsSo) => {}
            Err(why) => return Err(why),
        }
    }
    let settings: Vec<Setting> = remedy.changes.iter().map(making::setting).collect();
    let name = settings.iter().map(|setting| setting.value.as_str()).collect::<Vec<&str>>().join(", ");
    Ok(Varied { name, settings, options })
}

/// A price as a claim.
fn claim(price: findings::Price) -> Saved {
    let [low_ns, likely_ns, high_ns] = [price.low, price.likely, price.high].map(|time| time.0 as f64);
    Saved { low_ns, likely_ns, high_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(accelerator: &str, vmm: &str) -> Manifest {
        let mut manifest = Manifest::begun_now();
        manifest.subject.accelerator = accelerator.to_owned();
        manifest.vmm.version = vmm.to_owned();
        manifest
    }

    #[test]
    fn claims_of_another_accelerator_are_refused() {
        let why = differences(&manifest("kvm", "7.2"), &manifest("tcg", "7.2")).unwrap_err().to_string();
        assert!(why.contains("recorded with kvm") && why.contains("--deterministic"), "{why}");
        assert_eq!(differences(&manifest("tcg", "7.2"), &manifest("tcg", "7.2")).unwrap(), [""; 0]);
        let notes = differences(&manifest("tcg", "7.2"), &manifest("tcg", "8.0")).unwrap();
        assert!(matches!(&notes[..], [note] if note.contains("another QEMU: 7.2, and here 8.0")), "{notes:?}");
        assert!(differences(&manifest("", ""), &manifest("tcg", "8.0")).unwrap().is_empty(), "nobody knows");
    }

    #[test]
    fn sources_are_refused_where_the_root_takes_modules() {
        let guest = GuestSpec { root: Some("root.img".into()), ..GuestSpec::default() };
        let why = of_modules(&guest, Path::new("boots/a")).unwrap_err().to_string();
        assert!(why.contains("boots/a was recorded with --root") && why.contains("--initrd"), "{why}");
        let guest = GuestSpec { initrd: Some("initrd".into()), ..GuestSpec::default() };
        assert!(of_modules(&guest, Path::new("boots/a")).unwrap().unwrap().contains("builds no modules"));
        assert_eq!(of_modules(&GuestSpec::default(), Path::new("boots/a")).unwrap(), None);
    }

    #[test]
    fn a_try_goes_on_with_the_kernels_that_it_began_with() {
        let kept = Sources { cache: "/kept".into(), ..Sources::default() };
        assert_eq!(as_begun(kept.clone(), Path::new("/usual"), false).unwrap().cache, Path::new("/kept"));
        assert!(as_begun(kept.clone(), Path::new("/kept"), true).is_ok());
        let why = as_begun(kept, Path::new("/other"), true).unwrap_err().to_string();
        assert!(why.contains("--cache /kept"), "{why}");
        let old = as_begun(Sources::default(), Path::new("/usual"), false).unwrap();
        assert_eq!(old.cache, Path::new("/usual"));
        // Sources that are gone are no matter where nothing is built.
        let kernels = Kernels::new("/usual".into(), Some(old), Box::new(|| false), Box::new(|_| {}));
        assert!(kernels.open().is_err());
    }

    #[test]
    fn a_build_that_was_stopped_is_an_interruption_and_no_verdict_on_the_remedy() {
        let stopped = anyhow::Error::from(Cannot::Stopped("the build was stopped".to_owned()));
        assert!(crate::is_interruption(&stopped.context("the remedies could not be booted together")));
        let stopped = anyhow::Error::from(benchmark::tree::TreeError::Stopped("builds".into()));
        assert!(crate::is_interruption(&stopped));
        assert!(crate::is_interruption(&machine::Error::Stopped.into()));
        assert!(!crate::is_interruption(&Cannot::NoKernel("no".to_owned()).into()));
    }

    #[test]
    fn force_removes_the_recording_that_the_try_made_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(COUNTED)).unwrap();
        let made = |recording: PathBuf| {
            let trial = Some(Trial { recording: recording.display().to_string(), ..Trial::default() });
            let plan = Plan { leaves_out: true, variants: 1, warm_ups: 0, stop: stop(1), seed: 1 };
            let head = Head { trial, ..Head::of(plan, vec![benchmark::Variant::named(BASE)]) };
            let journal = folder.path().join(JOURNAL);
            let _ = std::fs::remove_file(&journal);
            drop(benchmark::Journal::create(&journal, &head).unwrap());
            made_counted(folder.path()).unwrap()
        };
        assert!(made(folder.path().join(COUNTED)));
        assert!(!made("/elsewhere".into()), "that is the user's own");
        let why = refuse_others_files(folder.path(), Path::new("/elsewhere"), true).unwrap_err().to_string();
        assert!(why.contains("its try did not make"), "{why}");
        assert!(refuse_others_files(folder.path(), Path::new("/elsewhere"), false).is_ok());
    }
}
