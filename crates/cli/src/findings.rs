//! `bootscope findings`: prints slow parts of a boot, their costs, and remedies.

use crate::boot_view::BootViewArgs;
use crate::{Done, output::Output};
use anyhow::bail;
use campaigns::boot_findings::{find, past_trials};
use campaigns::opened_boot::OpenedBoot;
use findings::{DETECTORS, named};
use std::path::PathBuf;

/// Look for known causes of a slow boot, and say what each costs on the boot path and what to do about it
///
/// Each finding has its evidence, its price with an interval, and its remedy. The price is worked out as `what-if` does:
/// bootscope runs the boot again without that time. What the boot did not wait for costs nothing. A finding that
/// costs less than the boot's clocks can tell, or than 0.075 % of the boot, is counted and not listed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A recording (folder or packed file), or logs of one boot (- is standard input)
    #[arg(required_unless_present = "explain")]
    recording: Vec<PathBuf>,
    #[command(flatten)]
    view: BootViewArgs,
    /// Look at this boot of a log that holds several: 0 is the last, -1 the one before [default: the last that reached process 1]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(..=0))]
    boot: Option<i32>,
    /// Explain a rule: what it looks for, from which threshold on, and its first source. Needs no recording
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
  dmesg | bootscope findings -
  bootscope findings --explain fixed-delays";

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    if let Some(rule) = &args.explain {
        return explain(rule, output);
    }
    let view = args.view.boot_view().of_boot(args.boot);
    let opened = match args.recording.as_slice() {
        [only] if only.as_os_str() != "-" && args.boot.is_none() => view.open_noting_warnings(only, output)?,
        several => view.open_files(several, output)?,
    };
    let found = find(&opened, args.top.unwrap_or(usize::MAX));
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

/// The most findings in a view that shows more than findings. `bootscope findings` lists all.
const MAX_IN_VIEW: usize = 5;

/// The most valuable findings of a boot, for a view that shows more than findings.
pub fn most_valuable(opened: &OpenedBoot, output: &Output) -> report::Findings {
    let found = find(opened, MAX_IN_VIEW);
    report::Findings::new(&opened.timeline, &found).with_tried(&found, &past_trials(opened, None, output))
}

/// The most findings on a page. A boot has about a hundred, but hostile evidence can have one for each of its names.
const MAX_ON_PAGE: usize = 1_000;

/// All findings of a boot with a price, for a page, which first shows only some of them.
pub fn of_page(opened: &OpenedBoot, output: &Output) -> report::Findings {
    let found = find(opened, MAX_ON_PAGE);
    report::Findings::of_page(&opened.timeline, &found).with_tried(&found, &past_trials(opened, None, output))
}
