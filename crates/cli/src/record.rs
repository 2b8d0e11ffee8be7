//! `bootscope record`: boots a machine and keeps the evidence.

use crate::boot_options::BootArgs;
use crate::progress::Watcher;
use crate::{Done, output::Output};
use campaigns::Watcher as _;
use campaigns::overhead;
use machine::{RecordOptions, Recorded};
use recording::{OutcomeKind, Overhead, Recording};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Boot a machine and keep the evidence
///
/// bootscope boots the kernel unmodified and keeps what it says, byte for byte, in a folder. bootscope's process 1 marks
/// the end of the kernel's boot, and then transfers the kernel's records through guest memory. Your disks and images are
/// never written.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    boot: BootArgs,

    /// The folder to make
    #[arg(short, long, required_unless_present = "overhead")]
    output: Option<PathBuf>,
    /// Replace the recording that is there
    #[arg(long)]
    force: bool,
    /// Measure the cost of recording: boot this often plain and recorded, in turn; keep nothing
    #[arg(long, value_name = "BOOTS", conflicts_with = "output", value_parser = clap::value_parser!(u32).range(2..=1000))]
    overhead: Option<u32>,
}

const EXAMPLES: &str = "\
Examples:
  bootscope record --kernel vmlinuz --append quiet --memory 1G -o boots/a
  bootscope record --like boots/a --append 'quiet tsc=reliable' -o boots/b
  bootscope record --disk vm.qcow2 --init keep --until 'login:' -o boots/vm
  bootscope record --kernel vmlinuz -o boots/c -- -device virtio-rng-pci
  bootscope record --kernel vmlinuz --trace calls --deterministic -o boots/d
  bootscope record --trace calls --symbols xen-syms -o boots/xen -- -kernel xen
  bootscope record --lab --deterministic --append 'ps2=probe' -o boots/lab
  bootscope record --serial /dev/ttyUSB0 --power-cycle ./cycle -o boots/board
  bootscope record --kernel vmlinuz --overhead 5";

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let mut options = args.boot.options(output)?;
    options.force = args.force;
    options.out = args.output.clone().unwrap_or_default();
    let mut watcher = Watcher::new(output)?;
    if let Some(boots) = args.overhead {
        let overhead = overhead::measure(&options, boots, &mut watcher, output)?;
        return print_overhead(&overhead, output);
    }
    options.overheads = overhead::saved();
    let recorded = machine::record(&options, &mut watcher);
    watcher.clear();
    let recorded = recorded?;
    if let Some(earlier) = &args.boot.like {
        note_other_inputs(earlier, &recorded, output)?;
    }
    report(&recorded, &options, output)
}

/// The JSON document of `--overhead --json`.
#[derive(Serialize)]
struct OverheadDocument<'a> {
    schema: &'static str,
    #[serde(flatten)]
    overhead: &'a Overhead,
}

fn print_overhead(overhead: &Overhead, output: &Output) -> anyhow::Result<Done> {
    if output.json {
        output.document(&OverheadDocument { schema: "bootscope.overhead/1", overhead })?;
    } else {
        output.text(&format!(
            "recorded ÷ plain: {:.3} ({:.3} to {:.3}; {})\n",
            overhead.ratio, overhead.low, overhead.high, overhead.how
        ))?;
    }
    Ok(Done::Well)
}

/// Notes inputs whose content changed since the recording that `--like` repeats.
fn note_other_inputs(earlier: &Path, recorded: &Recorded, output: &Output) -> anyhow::Result<()> {
    let earlier = Recording::open(earlier)?;
    for input in &recorded.manifest.inputs {
        let same_path = earlier.manifest().inputs.iter().find(|e| e.role == input.role && e.path == input.path);
        if same_path.is_some_and(|e| e.sha256 != input.sha256) {
            output.note(&format!(
                "{} is not the {} that {} was made with: its content changed",
                input.path,
                input.role,
                earlier.path().display()
            ));
        }
    }
    Ok(())
}

/// Prints the outcome of the boot and the next step.
fn report(recorded: &Recorded, options: &RecordOptions, output: &Output) -> anyhow::Result<Done> {
    let outcome = &recorded.manifest.outcome;
    let kind = outcome.as_ref().map(|o| o.kind);
    if output.json {
        // Read the manifest from the folder, since only that has the list of evidence.
        output.document(Recording::open(&options.out)?.manifest())?;
    } else {
        if output.verbose {
            output.note(&report::shell_words(&recorded.manifest.vmm.command));
        }
        for note in &recorded.manifest.notes {
            output.note(note);
        }
        let word = recorded.manifest.outcome_word();
        let detail = outcome.as_ref().map_or("", |o| o.detail.as_str());
        let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
        let folder = options.out.display();
        output.note(&format!("{word}{detail}; see it with: bootscope show {folder}"));
    }
    Ok(if kind == Some(OutcomeKind::Reached) { Done::Well } else { Done::Badly })
}
