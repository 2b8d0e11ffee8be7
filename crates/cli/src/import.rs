//! `bootscope import`: makes a recording from evidence that was recorded without bootscope.

use crate::amount::bytes;
use crate::{Done, output::Output};
use campaigns::import::{Recognised, import};
use campaigns::opened_boot;
use recording::Known;
use serde::Serialize;
use std::path::PathBuf;

/// Make a recording of logs taken elsewhere
///
/// It reads serial captures, dmesg, traces (text or trace.dat), perf.data, TSLOG dumps, libguestfs launches,
/// systemd-analyze, `systemctl show`, journals and bootchart, and recognises them by content. For the time before the
/// kernel it reads the times of coreboot, U-Boot and UEFI. Give all files of one boot together: they come onto one
/// clock. If a log holds several boots, the last one that reached process 1 is shown, or the one that --boot chooses. A file may have 1 GiB. From a pipe, and from the
/// contents of a compressed file, bootscope reads the first 256 MiB, and says so if there is more.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The logs, plain, gzipped or in a tar archive; `-` is standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The folder to make
    #[arg(short, long)]
    output: PathBuf,
    /// Replace the recording that is there
    #[arg(long)]
    force: bool,
    /// Rate of the counter that stamps a TSLOG or trace (2445431964, 2.4GHz), if the evidence does not say
    #[arg(long, value_name = "HZ", value_parser = evidence::tslog::parse_frequency)]
    tsc_frequency: Option<f64>,
    /// Number of CPUs, if the evidence does not say
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    cpus: u32,
    /// Memory, if the evidence does not say
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "0", hide_default_value = true)]
    memory: u64,
    /// End the boot at this milestone in place of the best end mark in the logs: process-1, root-mounted, login, unit:NAME or
    /// line:REGEX
    #[arg(long, value_name = "MILESTONE")]
    until: Option<String>,
    /// Take this boot of a log that holds several: 0 is the last, -1 the one before [default: the last that reached process 1]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(..=0))]
    boot: Option<i32>,
}

const EXAMPLES: &str = "\
Examples:
  bootscope import serial.log dmesg.txt -o boots/a
  bootscope import capture.log --until login -o boots/board
  bootscope import trace.dat dmesg.txt -o boots/h
  bootscope import calls.bin kallsyms.gz -o boots/e
  bootscope import bootchart.tgz dmesg.txt -o boots/f
  bootscope import coreboot.txt dmesg.txt -o boots/g
  bootscope import tslog.txt user.txt --tsc-frequency 2445431964 -o boots/b
  ssh router sysctl -b debug.tslog | bootscope import - -o boots/c

On a FreeBSD machine whose kernel has `options TSLOG`:
  sysctl -b debug.tslog >tslog.txt; sysctl -b debug.tslog_user >user.txt
  sysctl machdep.tsc_freq hw.ncpu hw.physmem >machine.txt
  bootscope import tslog.txt user.txt machine.txt -o boots/d";

/// The JSON document of an import (`--json`).
#[derive(Serialize)]
struct Imported {
    schema: &'static str,
    recording: String,
    files: Vec<Recognised>,
}

/// Makes the recording, and prints the detected formats.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let until = args.until.clone().unwrap_or_default();
    let (cpus, memory_bytes, boot) = (args.cpus, args.memory, args.boot);
    let facts = Known { ticks_hz: args.tsc_frequency, cpus, memory_bytes, until, boot };
    let files = import(&args.files, &args.output, args.force, facts, output)?;
    // A boot that the logs do not hold, or a milestone that it did not pass, leaves no recording behind.
    let must_open = args.until.is_some() || args.boot.is_some();
    if let Some(error) = Some(()).filter(|()| must_open).and_then(|()| opened_boot::open(&args.output).err()) {
        let _ = std::fs::remove_dir_all(&args.output);
        return Err(error);
    }
    output.note(&format!("see it with: bootscope show {}", args.output.display()));
    if output.json {
        let recording = args.output.display().to_string();
        output.document(&Imported { schema: "bootscope.import/1", recording, files })?;
    }
    Ok(Done::Well)
}
