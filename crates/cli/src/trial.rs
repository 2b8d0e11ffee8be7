//! `bootscope try`: boots the remedies of findings, and holds what they save against what was claimed.
//!
//! A try is a bench: the recording's own guest, and a variant of it for each remedy. Its boots, its journal and its history
//! are `bench`'s. What is tried is chosen in `choice`, how a remedy is made in `making`; the verdicts are
//! `benchmark::trial`'s.

mod choice;
mod making;
mod page;

use crate::bench::{self, Begun, Over, foresee, head_of, refuse_too_few};
use crate::benches::{self, JOURNAL};
use crate::boot::{self, Opened};
use crate::progress::Watcher;
use crate::variants::Varied;
use crate::{Done, amount, output::Output, plan};
use anyhow::{Context, bail};
use benchmark::trial::{Remedy, Saved, Trial};
use benchmark::{Document, Ended, Head, Plan, Setting, Stop};
use choice::Choice;
use machine::RecordOptions;
use recording::{Accel, OutcomeKind};
use report::Proofs;
use std::path::{Path, PathBuf};
use timeline::Ns;

/// Boot the remedies of findings, and compare what each saves with what was claimed
///
/// bootscope boots the recording's own guest, and the same guest with each remedy, in turn and in random order as `bench`
/// does. It prints what each finding claimed beside what was measured, and a verdict. Then it boots all confirmed remedies
/// together. Whatever you record, the kernel and the disks are not changed: a remedy is another command line or another
/// machine.
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
    /// Try a remedy of your own: words to add to the kernel's command line. May be given again; without FINDING, only these
    /// are tried
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// What your own remedy is said to save, such as 20ms [default: anything]
    #[arg(long, value_name = "TIME", requires = "append", value_parser = amount::time)]
    claim: Option<Ns>,

    /// Rounds: each boots the guest once as recorded and once with each remedy [default: 10, of deterministic boots 5; more
    /// where so few could show nothing]. With deterministic boots 1 is enough for differences above 0.075 % of the boot
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
    #[arg(long = "continue", value_name = "DIR", conflicts_with_all = ["recording", "append", "runs", "deterministic", "output", "page"])]
    continued: Option<PathBuf>,
    /// Keep the recording of every boot, not only of those that failed
    #[arg(long)]
    keep_recordings: bool,
    /// Boot nothing; write a page of all tries in the history into this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["recording", "append", "runs", "deterministic", "output", "no_history"])]
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
  bootscope try --continue boots/try-20260131-083000
  bootscope try --page findings.md

Verdicts:
  confirmed        the boot is faster, and the estimate of what is saved lies in
                   the interval that was claimed, widened to 10 % of the price
  refuted          what is saved and what was claimed have no value in common
  breaks the boot  a boot with the remedy does not reach its end mark
  too noisy        none of these; it says about how many rounds would tell
A remedy without a claim is confirmed if it saves anything, and refuted if the
boot is slower or differs by less than 5 %.

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
/// The recording that claims are of where the user's has times and instructions are counted.
const COUNTED: &str = "base";

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    if let Some(page) = &args.page {
        return page::write(page, args.db.as_deref(), args.force, output);
    }
    let mut watcher = Watcher::new(output)?;
    let mut tryer = Tryer { args, output, watcher: &mut watcher };
    let single = match &args.continued {
        Some(folder) => tryer.go_on(folder)?,
        None => match tryer.begin()? {
            Some(begun) => tryer.boot(begun)?,
            None => return Ok(Done::Well),
        },
    };
    let Stage { folder, document } = single;
    let joint = if is_done(&document) { tryer.together(&folder, &document)? } else { None };
    show(&folder, &document, joint.as_ref(), output)?;
    let all = [Some(&document), joint.as_ref()];
    Ok(if all.into_iter().flatten().all(is_done) { Done::Well } else { Done::Badly })
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
}

impl Tryer<'_> {
    /// All that comes before the first boot; none if there is nothing to boot, which is printed.
    fn begin(&mut self) -> anyhow::Result<Option<Begun>> {
        let args = self.args;
        let path = args.recording.as_deref().context("give a recording, or --continue DIR")?;
        let mut options = base(path)?;
        let counts = args.deterministic && !options.guest.deterministic;
        if counts {
            options.guest.deterministic = true;
            options.guest.accel = Accel::Auto;
        }
        self.check_inputs(path, &options)?;
        // Its name is needed before the first boot, which may be one that only counts.
        let plan = Plan { leaves_out: true, variants: 1, warm_ups: 0, stop: stop(1), seed: 1 };
        let foreseen = foresee(&[as_recorded(&options)], self.watcher)?;
        let dated = head_of(plan, &[as_recorded(&options)], &foreseen, false);
        let claims_of = if counts { None } else { Some(boot::open_warned(path, self.output)?) };
        let folder = bench::folder(args.output.as_deref(), args.force, &dated, "try")?;
        if args.force {
            let _ = std::fs::remove_dir_all(folder.join(TOGETHER));
            let _ = std::fs::remove_dir_all(folder.join(COUNTED));
        }
        let opened = match claims_of {
            Some(opened) => opened,
            None => self.counted(&options, &folder.join(COUNTED))?,
        };
        let choice = Choice::of(&opened, &options, args)?;
        if options.guest.deterministic {
            // What is executed is the same, and is faster if nobody follows it.
            options.observe.calls = false;
            options.observe.min_call_ns = None;
        }
        let trial = Trial {
            recording: opened.recording.path().display().to_string(),
            remedies: choice.remedies,
            untried: choice.untried,
            together: false,
        };
        if trial.remedies.is_empty() {
            let nothing = Document::new(Head { trial: Some(trial), ..dated }, Vec::new(), None);
            show(&folder, &nothing, None, self.output)?;
            return Ok(None);
        }
        let begun = self.stage(folder, &options, trial)?;
        Ok(Some(begun))
    }

    /// Records the guest with its instructions counted: claims in time are none in instructions.
    fn counted(&mut self, options: &RecordOptions, into: &Path) -> anyhow::Result<Opened> {
        let into = into.to_owned();
        self.output.note("the recording has times: it is recorded once more with instructions counted, for its claims");
        self.watcher.doing("recording with instructions counted");
        let options = RecordOptions { out: into, force: self.args.force, ..options.clone() };
        let recorded = machine::record(&options, self.watcher)?;
        self.watcher.clear();
        if recorded.outcome.kind != OutcomeKind::Reached {
            let (outcome, detail) = (recorded.manifest.outcome_word(), &recorded.outcome.detail);
            bail!("with instructions counted the boot does not reach its end mark: {outcome} ({detail})");
        }
        boot::open_warned(&options.out, self.output)
    }

    /// Claims of one kernel are none of another.
    fn check_inputs(&mut self, path: &Path, options: &RecordOptions) -> anyhow::Result<()> {
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
        for input in &recorded.manifest().inputs {
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
        Ok(())
    }

    /// The boots of these remedies, each by itself, beside the guest as it is.
    fn stage(&mut self, folder: PathBuf, options: &RecordOptions, trial: Trial) -> anyhow::Result<Begun> {
        let mut variants = vec![as_recorded(options)];
        for remedy in &trial.remedies {
            variants.push(with(options, remedy)?);
        }
        let deterministic = options.guest.deterministic;
        // One boot of each only repeats; several get another layout each.
        let dither = self.args.runs != Some(1);
        let plan = Plan {
            leaves_out: true,
            variants: variants.len(),
            warm_ups: u32::from(!deterministic),
            stop: stop(self.args.runs.unwrap_or(if deterministic { ROUNDS_DETERMINISTIC } else { ROUNDS })),
            seed: machine::monotonic_ns() as u64,
        };
        let foreseen = foresee(&variants, self.watcher)?;
        let mut head = head_of(plan, &variants, &foreseen, dither);
        let (comparisons, test) = (variants.len() - 1, benchmark::Test::of(&head));
        match self.args.runs {
            Some(runs) => refuse_too_few(runs, comparisons, test)?,
            None => {
                let rounds = &mut head.plan.stop.rounds;
                *rounds = benchmark::rounds_least(comparisons, test).max(*rounds);
            }
        }
        head.trial = Some(trial);
        Begun::new(folder, head, variants, self.output)
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
        let begun = bench::go_on(folder, None, self.watcher, self.output)?;
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
            let begun = bench::go_on(&into, None, self.watcher, self.output)?;
            return Ok(Some(self.boot(begun)?.document));
        }
        let Some(trial) = &single.head.trial else { return Ok(None) };
        let confirmed = choice::confirmed(single);
        if confirmed.len() < 2 {
            return Ok(None);
        }
        let how = single.head.variants[0].how.clone();
        let options: RecordOptions = serde_json::from_value(how).context("the options of the boots")?;
        let joint = Trial {
            recording: trial.recording.clone(),
            remedies: vec![choice::joint(Path::new(&trial.recording), &confirmed)],
            together: true,
            ..Trial::default()
        };
        let begun = self.stage(into, &options, joint)?;
        Ok(Some(self.boot(begun)?.document))
    }
}

fn stop(rounds: u32) -> Stop {
    Stop { rounds, width: None, budget_ns: None }
}

/// How the recording was booted.
fn base(path: &Path) -> anyhow::Result<RecordOptions> {
    let recording = boot::open_recording(path)?;
    if recording.manifest().how.is_null() {
        bail!(
            "{} was imported, and does not say how it was booted: record that kernel with `bootscope record --kernel \
             FILE`, and try that recording",
            path.display()
        );
    }
    plan::like(path)
}

fn as_recorded(options: &RecordOptions) -> Varied {
    Varied { name: BASE.to_owned(), settings: Vec::new(), options: options.clone() }
}

/// The guest with a remedy.
fn with(options: &RecordOptions, remedy: &Remedy) -> anyhow::Result<Varied> {
    let mut options = options.clone();
    for change in &remedy.changes {
        // Of several remedies together, one may have made another's change.
        match making::make(change, &mut options) {
            Ok(()) | Err(making::Cannot::IsSo) => {}
            Err(why) => bail!("{why}"),
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
