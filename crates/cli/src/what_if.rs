//! `bootscope what-if`: prints the ledger of savings.

use crate::boot_view::BootViewArgs;
use crate::{Done, output::Output};
use anyhow::bail;
use campaigns::what_if::{Step, beside, check_number, ledger, rung, save};
use clap::{Arg, ArgAction, ArgMatches};
use std::path::{Path, PathBuf};

/// Work out what a boot would take if some of its work took less
///
/// bootscope does not subtract: it runs the boot again with the work made shorter on every thread, and walks the new
/// boot path. A saving counts only until the boot waits for something else, and two that overlap count once.
#[derive(clap::Args)]
#[command(after_help = SYNTAX)]
pub struct Args {
    /// A recording: folder or packed file
    recording: PathBuf,
    #[command(flatten)]
    steps: Steps,
    #[command(flatten)]
    view: BootViewArgs,
    /// Make the rows by the rules in this file (see `bootscope show --help`)
    #[arg(long, value_name = "FILE")]
    group: Option<PathBuf>,
    /// List at most this many rows of what is left
    #[arg(long, default_value_t = 5, value_name = "ROWS")]
    top: usize,
}

const SYNTAX: &str = "\
NAME is a row as `show` prints it, or any function, with everything it calls.
Its first word may be left out if no other row ends the same: acpi_init for
'initcall acpi_init'. * is any text, ? any character. A suffix may follow a
space or a semicolon: 'SYSINIT cpu DELAY', 'SYSINIT cpu;DELAY'.
  NAME          it takes no time
  NAME=20ms     it takes 20 ms of the boot path
  NAME=-73%     it takes 73 % less
A step may end in a state and a note: [done], [in progress], [wanted],
[done r323290], [PR 17].
A rung is a step that is done: --rung NAME=RECORDING adds the recording of the
boot after it. Its total is measured, and the steps after it go on from there.
--async takes drivers or devices that Linux probes on process 1's thread, with
commas between those that probe at the same time. `initcall_debug` has them.

Examples:
  bootscope what-if boots/a --save 'SYSINIT cpu DELAY=20ms' \\
      --save 'DEVICE_PROBE psm' --save '_vprintf=-73% [in progress]'
  bootscope what-if boots/a --rung 'signals=boots/b [done 4f2a]' \\
      --rung 'ptrace=boots/c [done 91c0]' --save 'DELAY [wanted]'
  bootscope what-if boots/board --async leds-gpio,rk_gmac-dwmac";

/// The steps in the order of the command line, whichever flag each has.
#[derive(Clone)]
struct Steps(Vec<Step>);

impl clap::Args for Steps {
    fn augment_args(command: clap::Command) -> clap::Command {
        let save = Arg::new("save").long("save").value_name("NAME[=TIME|=-PERCENT]").value_parser(save);
        let rung = Arg::new("rung").long("rung").value_name("NAME=RECORDING").value_parser(rung);
        let beside = Arg::new("async").long("async").value_name("NAME[,NAME]").value_parser(beside);
        command
            .arg(save.action(ArgAction::Append).help("Make a row or a function shorter; may be repeated"))
            .arg(beside.action(ArgAction::Append).help("Let Linux's drivers probe beside the boot; may be repeated"))
            .arg(
                rung.action(ArgAction::Append)
                    .help("Put the recording of a finished step into the table; may be repeated"),
            )
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Steps::augment_args(command)
    }
}

impl clap::FromArgMatches for Steps {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Steps, clap::Error> {
        let mut steps: Vec<(usize, Step)> = Vec::new();
        for flag in ["save", "async", "rung"] {
            let places = matches.indices_of(flag).into_iter().flatten();
            steps.extend(places.zip(matches.get_many::<Step>(flag).into_iter().flatten().cloned()));
        }
        steps.sort_by_key(|(place, _)| *place);
        Ok(Steps(steps.into_iter().map(|(_, step)| step).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Steps::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    if args.steps.0.is_empty() {
        bail!(
            "nothing to save: give --save 'NAME[=TIME|=-PERCENT]', --async NAME, or --rung NAME=RECORDING; `bootscope show {}` lists what there is",
            args.recording.display()
        );
    }
    check_number(args.steps.0.len())?;
    let open = |path: &Path| args.view.boot_view().open_noting_warnings(path, output);
    let ledger = ledger(&args.recording, &args.steps.0, args.group.as_deref(), &open)?;
    if output.json {
        output.document(&ledger)?
    } else {
        output.text(&ledger.text(output.layout(args.top)))?
    }
    Ok(Done::Well)
}
