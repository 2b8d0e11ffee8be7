//! `bootscope findings`: what is slow, what it costs, what to do about it.

use crate::boot::Opened;
use crate::up_to::UpTo;
use crate::{Done, output::Output};
use anyhow::{Context, bail};
use benchmark::History;
use benchmark::history::PastTrial;
use findings::{DETECTORS, Found, Machine, Seen, Vmm, find, named};
use recording::{GuestSpec, InputRole, Manifest, Recording, TimeBase};
use report::Boot;
use std::path::{Path, PathBuf};
use std::time::Duration;
use timeline::Os;

/// Look for known causes of a slow boot, and say what each costs on the boot path and what to do about it
///
/// Each finding has its evidence, its price with an interval, and its remedy. The price is worked out as `what-if` does:
/// bootscope runs the boot again without that time. What the boot did not wait for costs nothing. A finding that
/// costs less than the boot's clocks can tell, or than 0.075 % of the boot, is counted and not listed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A recording: folder or packed file
    #[arg(required_unless_present = "explain")]
    recording: Option<PathBuf>,
    #[command(flatten)]
    up_to: UpTo,
    /// Explain a rule: what it looks for, from which threshold on, and who described it first. Needs no recording
    #[arg(long, value_name = "RULE", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["recording", "top"])]
    explain: Option<String>,
    /// List at most this many findings [default: all]
    #[arg(long, value_name = "COUNT")]
    top: Option<usize>,
    /// The history that says what came out when remedies were tried [default: $XDG_DATA_HOME/bootscope/history.db]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  bootscope findings boots/a
  bootscope findings boots/a --top 3 --json
  bootscope findings --explain fixed-delays";

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    if let Some(rule) = &args.explain {
        return explain(rule, output);
    }
    let path = args.recording.as_ref().context("give a recording, or --explain RULE")?;
    let opened = args.up_to.open_warned(path, output)?;
    let found = look(&opened, args.top.unwrap_or(usize::MAX));
    let past = past_trials(&opened, args.db.as_deref(), output);
    let document = report::Findings::new(&opened.timeline, &found).with_tried(&found, &past);
    if output.json {
        output.document(&document)?
    } else {
        output.text(&document.text(output.layout(usize::MAX)))?
    }
    Ok(Done::Well)
}

fn explain(id: &str, output: &Output) -> anyhow::Result<Done> {
    let Some(rule) = named(id) else {
        let all: Vec<&str> = DETECTORS.iter().map(|detector| detector.id).collect();
        let all = all.join(", ");
        if id.is_empty() {
            bail!("--explain needs a rule: one of {all}");
        }
        bail!("there is no rule {id}; --explain takes one of {all}");
    };
    if output.json {
        output.document(&report::Rule::of(rule))?
    } else {
        output.text(&report::explain(rule, output.layout(usize::MAX)))?
    }
    Ok(Done::Well)
}

/// How many findings a view lists that has more to say of a boot; `bootscope findings` lists all.
const MOST: usize = 5;

/// The most valuable findings of a boot, for a view that has more to say of it.
pub fn most_valuable(opened: &Opened, output: &Output) -> report::Findings {
    let found = look(opened, MOST);
    report::Findings::new(&opened.timeline, &found).with_tried(&found, &past_trials(opened, None, output))
}

/// The most findings on a page: a boot has some hundred, and evidence that was made for it has one for each of its names.
const ON_PAGE_MAX: usize = 1_000;

/// All findings of a boot that have a price, for a page: there only the first are in sight.
pub fn of_page(opened: &Opened, output: &Output) -> report::Findings {
    let found = look(opened, ON_PAGE_MAX);
    report::Findings::of_page(&opened.timeline, &found).with_tried(&found, &past_trials(opened, None, output))
}

/// The most valuable findings of a boot. What is a delay the rules of its system say, whatever rows the user makes.
pub fn look(opened: &Opened, most: usize) -> Found {
    seen(opened, |seen| find(seen, most))
}

/// All findings of a boot that have a price, on one CPU: others look at other boots meanwhile.
#[cfg(feature = "lakes")]
pub fn look_alone(opened: &Opened) -> Found {
    seen(opened, |seen| findings::find_alone(seen, usize::MAX))
}

/// How long to wait for who writes the history: what it says stands beside the findings, and is not what was asked for.
const PATIENCE: Duration = Duration::from_millis(300);

/// What the history says of tries on the recording's kernel and machine type. One that cannot be read is said to be so; there
/// need not be any.
fn past_trials(opened: &Opened, db: Option<&Path>, output: &Output) -> Vec<PastTrial> {
    let manifest = opened.recording.manifest();
    let kernel = manifest.inputs.iter().find(|input| InputRole::Kernel.is(&input.role));
    let Some((kernel, guest)) = kernel.zip(GuestSpec::of(&manifest.how)) else { return Vec::new() };
    let Ok(path) = db.map(Path::to_owned).map_or_else(benchmark::history::default_path, Ok) else { return Vec::new() };
    if !path.exists() && db.is_none() {
        return Vec::new();
    }
    let trials = || {
        let history = History::open_existing(&path)?;
        history.wait_at_most(PATIENCE)?;
        history.trials(Some((&kernel.sha256, &guest.machine)))
    };
    let mut trials = trials().unwrap_or_else(|why| {
        output.note(&format!("what was tried before is not known: {why}"));
        Vec::new()
    });
    // Instructions say nothing of a boot that was measured by the clock, nor the other way round.
    let is_counted = manifest.time_base == TimeBase::GuestVirtual;
    trials.retain(|past| past.deterministic == is_counted);
    trials
}

/// How much of its memory a guest had left: after its workload, if that took more. What is lost with a file that cannot be read,
/// the recording says.
fn memory_available(recording: &Recording) -> Option<u64> {
    let said = [evidence::meminfo(recording), evidence::meminfo_after_workload(recording)];
    said.iter().filter_map(|said| said.as_ref().ok()?.bytes("MemAvailable")).min()
}

/// What the user's initrd is compressed with, where the recording says it.
fn initrd_compression(manifest: &Manifest) -> Option<String> {
    let initrd = manifest.inputs.iter().find(|input| InputRole::Initrd.is(&input.role))?;
    Some(initrd.compression.clone()).filter(|compression| !compression.is_empty())
}

/// A boot as detectors see it.
pub fn seen<T>(opened: &Opened, look: impl FnOnce(&Seen) -> T) -> T {
    let subject = &opened.facts.subject;
    let said = Os::of(&subject.os);
    let os = if said.is_known() { said } else { opened.timeline.os.clone() };
    let how = &opened.recording.manifest().how;
    // A board has its own command line, and no VMM.
    let guest = GuestSpec::of(how).filter(|guest| guest.board.is_none());
    let words = |line: &String| line.split_whitespace().map(str::to_owned).collect();
    let starts_unpacked = guest.as_ref().is_some_and(machine::kernel_image::starts_unpacked);
    let machine = Machine {
        kernel_version: findings::kernel_version(&subject.kernel),
        os,
        cpus: subject.cpus,
        memory_bytes: subject.memory_bytes,
        memory_available: memory_available(&opened.recording),
        command_line: guest.as_ref().map(|guest| &guest.append).or(opened.command_line.as_ref()).map(words),
        vmm: guest.map(|guest| Vmm {
            machine_type: guest.machine,
            arguments: chosen_firmware(guest.bios.as_deref()).chain(guest.extra).collect(),
            has_kernel: guest.kernel.is_some(),
            starts_unpacked,
            initrd_compression: initrd_compression(opened.recording.manifest()),
        }),
    };
    let groups = Boot::groups_of(&opened.timeline, &opened.facts);
    look(&Seen::new(&opened.timeline, &groups, &machine))
}

/// Firmware that the user chose, as QEMU is told.
fn chosen_firmware(bios: Option<&Path>) -> impl Iterator<Item = String> {
    bios.into_iter().flat_map(|bios| ["-bios".to_owned(), bios.display().to_string()])
}
