//! `bootscope import`: evidence that was taken elsewhere becomes a recording.

use crate::amount::bytes;
use crate::{Done, output::Output};
use anyhow::{Context, bail};
use recording::{Known, Source};
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Make a recording of logs taken elsewhere
///
/// It reads serial captures, dmesg, traces (text or trace.dat), perf.data, TSLOG dumps, libguestfs launches, systemd-analyze,
/// `systemctl show`, journals and bootchart, and recognises them by content. Of what runs before the kernel it reads the
/// times of coreboot, U-Boot and UEFI. Give all
/// files of one boot together: they come onto one clock. Where a kernel log holds several boots, the last one is shown. A file may have 1 GiB. Of a pipe, and of what a compressed file unpacks to, bootscope reads
/// the first 256 MiB, and says so.
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
}

const EXAMPLES: &str = "\
Examples:
  bootscope import serial.log dmesg.txt -o boots/a
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

/// What `--json` says.
#[derive(Serialize)]
struct Imported {
    schema: &'static str,
    recording: String,
    files: Vec<Recognised>,
}

#[derive(Serialize)]
struct Recognised {
    file: String,
    /// What is in it, in words; nothing if nothing is known.
    formats: Vec<String>,
}

/// Runs it, and says what was recognised.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let (mut files, mut sources, mut of_a_boot, mut instead) = (Vec::new(), Vec::new(), false, None);
    for path in &args.files {
        let (source, found) = read(path)?;
        let kinds = found.kinds;
        of_a_boot |= found.of_a_boot;
        instead = instead.or(found.instead);
        if source.cut {
            output.note(&format!(
                "{} goes on after {} MiB, the most that is read of a pipe: what follows is left out; a file may have {} MiB",
                source.path.display(),
                recording::PIPE_BYTES_MAX >> 20,
                recording::BYTES_MAX >> 20
            ));
        }
        if found.cut {
            output.note(&format!(
                "{} unpacks to more than {} MiB, or 200 times its size: what follows is not read; cut out the part that is of interest",
                source.path.display(),
                evidence::UNPACKED_BYTES_MAX >> 20
            ));
        }
        output.note(&format!(
            "{}: {}",
            source.path.display(),
            if kinds.is_empty() {
                found.instead.unwrap_or("nothing that is known").to_owned()
            } else {
                kinds.join(", ")
            }
        ));
        files.push(Recognised { file: source.path.display().to_string(), formats: kinds });
        sources.push(source);
    }
    let is_nothing = files.iter().all(|file| file.formats.is_empty());
    if let Some(instead) = instead.filter(|_| is_nothing) {
        bail!("nothing to import: {instead}");
    }
    if is_nothing {
        bail!(
            "nothing to import: give kernel messages (dmesg, /dev/kmsg, a capture of a serial line, with or without a \
             logger's time stamps), the text of /sys/kernel/tracing/trace, trace-cmd's trace.dat, a perf.data, a TSLOG dump (sysctl -b debug.tslog), a \
             libguestfs launch (boot-analysis --verbose), what systemd-analyze prints (time, blame, critical-chain, plot \
             --json=short, dump), `systemctl show '*'`, a journal (journalctl -b -o export), a boot chart (bootchart.tgz), \
             uftrace's directory in an archive, the times of coreboot (cbmem -t), U-Boot (bootstage report) or UEFI \
             (grep . /sys/firmware/acpi/fpdt/boot/*), the LoaderTime variables of efivars in an archive, or several of one boot"
        );
    }
    if !of_a_boot {
        bail!(
            "nothing of a boot to import: how fast a counter runs, and what machine it is, says nothing without a log; give \
             them together with one (a TSLOG dump: sysctl -b debug.tslog)"
        );
    }
    let known = Known { ticks_hz: args.tsc_frequency, cpus: args.cpus, memory_bytes: args.memory };
    recording::import_known(sources, &args.output, args.force, known)?;
    output.note(&format!("see it with: bootscope show {}", args.output.display()));
    if output.json {
        let recording = args.output.display().to_string();
        output.document(&Imported { schema: "bootscope.import/1", recording, files })?;
    }
    Ok(Done::Well)
}

/// A file's content, looked through. What is no file can be read only once: its content is kept.
fn read(path: &Path) -> anyhow::Result<(Source, evidence::Recognised)> {
    if path.as_os_str() == "-" {
        let (bytes, cut) = beginning(std::io::stdin().lock()).context("cannot read standard input")?;
        let found = evidence::recognise(&bytes);
        return Ok((Source { path: "stdin".into(), bytes: Some(bytes), cut }, found));
    }
    let failed = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(failed)?;
    let meta = file.metadata().with_context(failed)?;
    if meta.is_file() {
        // Checked before it is read: what is refused should cost nothing.
        let bytes = recording::read_file(path)?;
        return Ok((Source { path: path.to_owned(), bytes: None, cut: false }, evidence::recognise(&bytes)));
    }
    let (bytes, cut) = beginning(file).with_context(failed)?;
    let found = evidence::recognise(&bytes);
    Ok((Source { path: path.to_owned(), bytes: Some(bytes), cut }, found))
}

/// What comes, up to the most that is read of a pipe; whether there is more.
fn beginning(from: impl Read) -> std::io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    from.take(recording::PIPE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let cut = bytes.len() as u64 > recording::PIPE_BYTES_MAX;
    bytes.truncate(usize::try_from(recording::PIPE_BYTES_MAX).unwrap_or(usize::MAX));
    Ok((bytes, cut))
}
