//! `bootscope export`: the boot in other tools' formats.

use crate::files::write_file;
use crate::output::{Output, Written};
use crate::{Done, boot};
use anyhow::{Context, bail};
use report::{Boot, Export};
use std::io::{self, BufWriter, IsTerminal, Write, stdout};
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
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

fn formats() -> String {
    let lines = report::FORMATS.iter().map(|f| format!("  {:<12} {}", f.name(), f.about()));
    format!("Formats:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

fn format(name: &str) -> Result<&'static dyn Export, String> {
    let known = || report::FORMATS.map(|f| f.name()).join(", ");
    report::format(name).ok_or_else(|| format!("there is no such format; there are {}", known()))
}

impl Args {
    /// Where to write, if not to standard output.
    fn file(&self) -> Option<&PathBuf> {
        self.output.as_ref().filter(|path| path.as_os_str() != "-")
    }
}

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    if args.file().is_none() {
        check_standard_output(args.to, output)?;
    }
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
fn write(args: &Args, output: &Output, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    match args.file() {
        Some(path) => {
            let bytes = write_file(path, args.force, write)?;
            output.note(&format!("wrote {}", path.display()));
            output.written(&Written::new("bootscope.export/1", path, bytes))?;
        }
        None => {
            let mut out = BufWriter::new(stdout().lock());
            write(&mut out).and_then(|()| out.flush()).map_err(to_standard_output)?;
        }
    }
    Ok(())
}

/// What a format says of the boot itself is not standard output's fault.
fn to_standard_output(error: io::Error) -> anyhow::Error {
    let of_the_boot = error.kind() == io::ErrorKind::InvalidData;
    let error = anyhow::Error::new(error);
    if of_the_boot { error } else { error.context("cannot write to standard output") }
}

/// Refuses what standard output would not take well.
fn check_standard_output(to: &dyn Export, output: &Output) -> anyhow::Result<()> {
    if to.is_binary() && stdout().is_terminal() {
        bail!("{} is no text, and would go to your terminal: name a file (-o boot.{})", to.name(), to.extension());
    }
    if output.json {
        bail!("--json tells of the file that was written, and there is none: name it with -o, or leave out --json");
    }
    Ok(())
}
