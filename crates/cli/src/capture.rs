//! `bootscope capture`: packs what a running machine still has about its boot into a recording.

use crate::Done;
use crate::output::{Output, print};
use anyhow::{Context, bail};
use capture::{Missing, Options, ssh};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Take from a running machine what it still knows of how it booted
///
/// It reads the kernel's log, systemd's own times and units, this boot's journal, processes, the trace buffer, what firmware and
/// loaders left behind, and what the machine is. It only reads, takes a minute at most, and says what it could not read. Run it as root.
/// Names of hosts and users, serial numbers, identifiers of disks, addresses, passwords and keys become tokens, unless you say
/// --identify. Messages are kept otherwise as they are. Before it writes, it says which identities it found and what it keeps. In a
/// container it takes the container's boot: kernel log and firmware are its host's.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The packed recording to write; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Capture on another machine, to which a small program is copied and from which it is removed again
    #[arg(long, value_name = "USER@HOST")]
    ssh: Option<String>,
    /// The ssh to use, with its options
    #[arg(long, value_name = "COMMAND", default_value = "ssh", requires = "ssh")]
    ssh_command: String,
    /// Keep names, serial numbers, addresses, passwords and keys as they are
    #[arg(long)]
    identify: bool,
    /// Leave the journal out
    #[arg(long)]
    no_journal: bool,
}

const EXAMPLES: &str = "\
Examples:
  bootscope capture -o here.tar.zst
  bootscope show here.tar.zst --units --processes
  bootscope capture --ssh root@board -o board.tar.zst
  bootscope capture --ssh root@b --ssh-command 'ssh -p 2222' -o b.tar.zst

Without bootscope on a machine, copy lib/bootscope/bootscope-capture there:
  ./bootscope-capture -o here.tar.zst";

/// The JSON document of a capture (`--json`).
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    recording: String,
    bytes: u64,
    /// The sources that could not be read. For another machine, standard error has them.
    missing: Vec<MissingLine>,
}

#[derive(Serialize)]
struct MissingLine {
    what: String,
    why: String,
}

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let is_stdout = args.output == Path::new("-");
    if !is_stdout {
        // Check the output before anything else: a refusal must cost nothing.
        recording::may_be_written(&args.output, args.force)?;
    }
    let missing = match &args.ssh {
        Some(host) => capture_over_ssh(args, host, is_stdout)?,
        None => capture_locally(args, output, is_stdout)?,
    };
    if is_stdout {
        return Ok(Done::Well);
    }
    output.note(&format!("see it with: bootscope show {}", args.output.display()));
    if output.json {
        let bytes = args.output.metadata().with_context(|| format!("cannot look at {}", args.output.display()))?.len();
        let missing = missing.into_iter().map(|Missing { what, why }| MissingLine { what, why }).collect();
        let recording = args.output.display().to_string();
        output.document(&Document { schema: "bootscope.capture/1", recording, bytes, missing })?;
    }
    Ok(Done::Well)
}

fn capture_locally(args: &Args, output: &Output, is_stdout: bool) -> anyhow::Result<Vec<Missing>> {
    let options = Options { identify: args.identify, journal: !args.no_journal, ..Options::default() };
    let captured = capture::capture(&options);
    for missing in &captured.missing {
        output.note(&format!("not read: {}: {}", missing.what, missing.why));
    }
    captured.what_it_keeps(&options).iter().for_each(|sentence| output.note(sentence));
    if is_stdout {
        let mut packed = Vec::new();
        captured.recording.write(&mut packed, Path::new("standard output"))?;
        print(|out| out.write_all(&packed))?;
    } else {
        captured.recording.pack(&args.output, args.force)?;
    }
    Ok(captured.missing)
}

fn capture_over_ssh(args: &Args, host: &str, is_stdout: bool) -> anyhow::Result<Vec<Missing>> {
    let program = machine::capture_program().map_err(anyhow::Error::msg)?;
    let Some(command) = shlex::split(&args.ssh_command).filter(|words| !words.is_empty()) else {
        bail!("--ssh-command {:?} cannot be split into words: close its quotes", args.ssh_command);
    };
    let flags = [(args.identify, "--identify"), (args.no_journal, "--no-journal")];
    let options = flags.into_iter().filter_map(|(is_set, flag)| is_set.then_some(flag)).collect();
    let packed = ssh::There { host: host.to_owned(), ssh: command, program, options }.capture()?;
    if is_stdout {
        print(|out| out.write_all(&packed))?;
    } else {
        ssh::write(&packed, &args.output, args.force)?;
    }
    Ok(Vec::new())
}
