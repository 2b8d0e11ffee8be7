//! `bootscope-capture`: only `bootscope capture`, as a small static program for machines without bootscope.

use capture::{Options, capture, standard_output};
use recording::{Error, InMemory};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: bootscope-capture -o FILE [--force] [--identify] [--no-journal]

Takes from this machine what it still knows of how it booted. FILE is a packed
recording, which `bootscope show` reads; `-` is standard output. Run it as root.";

struct Args {
    output: PathBuf,
    force: bool,
    options: Options,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Args, String> {
    let (mut output, mut force, mut options) = (None, false, Options::default());
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-o" | "--output" => output = args.next().map(PathBuf::from),
            "--force" => force = true,
            "--identify" => options.identify = true,
            "--no-journal" => options.journal = false,
            _ => return Err(format!("unknown argument {arg:?}")),
        }
    }
    let output = output.ok_or("no -o FILE")?;
    Ok(Args { output, force, options })
}

fn print(recording: InMemory) -> Result<(), Error> {
    let path = Path::new("standard output");
    let failed = |why| Error::Io { doing: "write to", path: path.to_owned(), why };
    let mut out = standard_output().map_err(failed)?;
    recording.write(&mut out, path)?;
    out.flush().map_err(failed)
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(why) => {
            eprintln!("bootscope-capture: {why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let is_stdout = args.output == Path::new("-");
    // Refused before any source runs: a refusal should cost nothing.
    if !is_stdout {
        if let Err(e) = recording::may_be_written(&args.output, args.force) {
            eprintln!("bootscope-capture: {e}");
            return ExitCode::from(2);
        }
    }
    let captured = capture(&args.options);
    for missing in &captured.missing {
        eprintln!("bootscope-capture: not read: {}: {}", missing.what, missing.why);
    }
    for sentence in captured.what_it_keeps(&args.options) {
        eprintln!("bootscope-capture: {sentence}");
    }
    let written = if is_stdout { print(captured.recording) } else { captured.recording.pack(&args.output, args.force) };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("bootscope-capture: {e}");
            ExitCode::from(2)
        }
    }
}
