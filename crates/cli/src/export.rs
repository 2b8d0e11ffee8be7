//! `bootscope export`: the boot in other tools' formats.

use crate::files::write_file;
use crate::{Done, boot, output::Output};
use anyhow::Context;
use report::{Boot, Export};
use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;

/// Write the boot in another tool's format
#[derive(clap::Args)]
#[command(after_help = formats())]
pub struct Args {
    /// A recording: its folder, or the packed file
    recording: PathBuf,
    /// The format
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    to: &'static dyn Export,
    /// The file to write [default: standard output]
    #[arg(short, long)]
    output: Option<PathBuf>,
}

fn formats() -> String {
    let lines = report::FORMATS.iter().map(|f| format!("  {:<12} {}", f.name(), f.about()));
    format!("Formats:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

fn format(name: &str) -> Result<&'static dyn Export, String> {
    let known = || report::FORMATS.map(|f| f.name()).join(", ");
    report::format(name).ok_or_else(|| format!("there is no such format; there are {}", known()))
}

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    if args.to.name() == "tslog" && own_log(args, output)? {
        return Ok(Done::Well);
    }
    let opened = boot::open(&args.recording)?;
    let boot = Boot::new(&opened.timeline, &opened.facts);
    write(args, output, |out| args.to.write(&boot, out))?;
    Ok(Done::Well)
}

/// A kernel's own log is written as it was logged, tick for tick. Whether there is one.
fn own_log(args: &Args, output: &Output) -> anyhow::Result<bool> {
    let recording = boot::open_recording(&args.recording)?;
    let log = evidence::tslog_log(&recording).with_context(|| format!("cannot read {}", args.recording.display()))?;
    if log.is_empty() {
        output.note("there is no TSLOG in it: spans are written as entries and exits, a tick is a nanosecond");
        return Ok(false);
    }
    write(args, output, |out| log.write(out))?;
    Ok(true)
}

/// To the file, or to standard output.
fn write(
    args: &Args,
    output: &Output,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    match args.output.as_ref().filter(|path| path.as_os_str() != "-") {
        Some(path) => {
            write_file(path, write)?;
            output.note(&format!("wrote {}", path.display()));
        }
        None => {
            let mut out = BufWriter::new(stdout().lock());
            write(&mut out).and_then(|()| out.flush()).context("cannot write to standard output")?;
        }
    }
    Ok(())
}
