//! `bootscope try`: parses the request for a trial, and prints the verdicts.

mod page;

use crate::boot_options::Patches;
use crate::progress::Watcher;
use crate::{Done, amount, boot_options, output::Output};
use anyhow::Context;
use benchmark::Document;
use campaigns::benches::{self, JOURNAL};
use campaigns::trial::{Request, TOGETHER, has_result};
use report::Proofs;
use std::path::{Path, PathBuf};
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
    #[arg(long, value_name = "CHANGE", value_parser = boot_options::patches)]
    patch: Vec<Patches>,
    /// The saving that is claimed for your own remedy, such as 20ms [default: anything]
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
    /// The folder for kernels that are built or unpacked [default: $XDG_CACHE_HOME/bootscope]
    #[arg(long, value_name = "FOLDER", help_heading = "Other kernels")]
    cache: Option<PathBuf>,

    /// Rounds: each boots the guest once as recorded and once with each remedy [default: 10, of deterministic boots 5;
    /// more if that number could show nothing]. With deterministic boots 1 is a first look, good to 3 % of the boot
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
the boot is slower, or if the whole interval lies within 5 % of no change (1 %
of deterministic boots).

The folder is that of a bench: bench.jsonl, bench.json, and in boots/NNNN the
recording of every boot that failed. The boots of all remedies together are in
together/. `bootscope show` prints a try again.

Exit status:
  0  done, whatever the verdicts are
  1  it was interrupted, or the boot as recorded does not reach its end mark
  2  usage or input error";

/// Boots the remedies and prints the verdicts. With `--page` only writes a page of earlier trials.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    if let Some(page) = &args.page {
        return page::write(page, args.db.as_deref(), args.force, output);
    }
    let mut watcher = Watcher::new(output)?;
    let tried = campaigns::trial::run(&request(args), &mut watcher, output)?;
    // The verdicts on single remedies are valid even if the joint boots failed.
    let together = tried.joint.as_ref().ok().and_then(Option::as_ref);
    show(&tried.folder, &tried.single, together, output)?;
    let joint = tried.joint.context("the remedies could not be booted together")?;
    let nothing_to_boot = tried.single.boots.is_empty() && tried.single.ended.is_none();
    let is_known = has_result(&tried.single) && joint.as_ref().is_none_or(has_result);
    Ok(if nothing_to_boot || is_known { Done::Well } else { Done::Badly })
}

/// The trial requested by these options.
fn request(args: &Args) -> Request {
    Request {
        recording: args.recording.clone(),
        findings: args.findings.clone(),
        trust_recording: args.trust_recording,
        append: args.append.clone(),
        patches: args.patch.iter().map(|patches| patches.0.clone()).collect(),
        config: args.config.clone(),
        claim: args.claim,
        tree: args.tree.clone(),
        base_config: args.base_config.clone(),
        cache: args.cache.clone(),
        runs: args.runs,
        deterministic: args.deterministic,
        folder: args.output.clone(),
        force: args.force,
        continued: args.continued.clone(),
        keep_recordings: args.keep_recordings,
        history: args.db.clone(),
        no_history: args.no_history,
    }
}

/// Prints a trial.
fn show(folder: &Path, single: &Document, joint: Option<&Document>, output: &Output) -> anyhow::Result<()> {
    let proofs = Proofs::of(&folder.display().to_string(), single, joint);
    let proofs = proofs.with_context(|| format!("{} is a bench and no try", folder.display()))?;
    if output.json { output.document(&proofs) } else { output.text(&proofs.text(output.layout(usize::MAX))) }
}

/// Prints a finished or interrupted trial. Returns false if the folder is a bench without a trial.
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
