//! `bootscope export`: writes a boot in the formats of other tools.

use crate::boot_view::BootViewArgs;
use crate::output::{Output, Written, print};
use crate::{Done, amount, findings};
use anyhow::{Context, bail};
use campaigns::files::write_file;
use campaigns::otlp::{self, Endpoint};
use campaigns::{benches, opened_boot};
use report::{Boot, Export, SampleFormat, harmless};
use std::io::{self, IsTerminal, Write, stdout};
use std::path::PathBuf;
use timeline::Ns;

/// Write a boot, or a bench, in another tool's format
#[derive(clap::Args)]
#[command(after_help = formats())]
pub struct Args {
    /// A recording (folder or packed file), or a bench's folder
    recording: PathBuf,
    #[command(flatten)]
    view: BootViewArgs,
    /// The format
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    to: Format,
    /// For samples: only those of this event [default: folded and svg have the event with most samples]
    #[arg(long, value_name = "NAME", conflicts_with = "boot_path")]
    event: Option<String>,
    /// With `--to otlp`: send it to this collector (http://localhost:4318) instead of writing it
    #[arg(long, value_name = "URL", value_parser = otlp::endpoint, conflicts_with_all = ["output", "force"])]
    endpoint: Option<Endpoint>,
    /// Write the boot path, also where there are samples
    #[arg(long)]
    boot_path: bool,
    /// For folded and flame-graph: only this phase, by the beginning of its name in `show`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["after", "before"])]
    phase: Option<String>,
    /// For folded and flame-graph: only what came after this time (1.2s)
    #[arg(long, value_name = "TIME", value_parser = amount::time)]
    after: Option<Ns>,
    /// For folded and flame-graph: only what came before this time
    #[arg(long, value_name = "TIME", value_parser = amount::time)]
    before: Option<Ns>,
    /// The file to write [default: standard output]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

fn formats() -> String {
    let lines = report::FORMATS.iter().map(|f| format!("  {:<18} {}", f.name(), f.about()));
    let of_benches = BENCH_FORMATS.map(|(name, about)| format!("  {name:<18} {about}"));
    let of_samples = SampleFormat::ALL.map(|f| format!("  {:<18} {}", f.name(), f.about()));
    format!(
        "Formats:\n{}\n\nOf samples:\n{}\n\nOf a bench:\n{}",
        lines.collect::<Vec<_>>().join("\n"),
        of_samples.join("\n"),
        of_benches.join("\n")
    )
}

const BENCH_FORMATS: [(&str, &str); 4] = [
    ("csv", "every boot in a line, with its phases"),
    ("json", "the whole document, as --json of bench"),
    ("markdown", "the table of variants"),
    ("html", "a page with the results and their plots"),
];

/// A format by its name. It may apply to a boot, to samples, to a bench, or to several of them.
#[derive(Clone)]
struct Format {
    name: String,
    of_boot: Option<&'static dyn Export>,
    of_samples: Option<SampleFormat>,
}

fn format(name: &str) -> Result<Format, String> {
    let (of_boot, of_samples) = (report::format(name), SampleFormat::named(name));
    if of_boot.is_none() && of_samples.is_none() && !BENCH_FORMATS.iter().any(|(known, _)| *known == name) {
        let (boots, benches) = (report::FORMATS.map(|f| f.name()).join(", "), BENCH_FORMATS.map(|f| f.0).join(", "));
        let samples = SampleFormat::ALL.map(SampleFormat::name).join(", ");
        return Err(format!("there is no such format; there are {boots}; of samples {samples}; of a bench {benches}"));
    }
    Ok(Format { name: name.to_owned(), of_boot, of_samples })
}

impl Args {
    /// Applies `--phase`, `--after` and `--before`.
    fn set_window(&self, boot: &mut Boot) -> anyhow::Result<()> {
        if self.phase.is_none() && self.after.is_none() && self.before.is_none() {
            return Ok(());
        }
        if !self.to.of_boot.is_some_and(|to| to.has_window()) {
            bail!(
                "--phase, --after and --before are for folded and flame-graph, and {} has the whole boot",
                self.to.name
            );
        }
        if boot.timeline.sampled.is_some() && self.to.of_samples.is_some() && !self.boot_path {
            bail!("--phase, --after and --before are for the boot path: add --boot-path");
        }
        boot.window = match &self.phase {
            Some(name) => {
                let phase = boot.phases.iter().find(|phase| phase.name.starts_with(name.as_str()));
                let Some(phase) = phase else {
                    let names: Vec<&str> = boot.phases.iter().map(|phase| phase.name.as_str()).collect();
                    bail!("no phase is called {name}; there are: {}", harmless(&names.join(", ")))
                };
                (phase.start, phase.end)
            }
            None => (self.after.unwrap_or(Ns::ZERO), self.before.unwrap_or(boot.total).min(boot.total)),
        };
        if boot.window.0 >= boot.window.1 {
            bail!("nothing lies between these times: the boot took {}", boot.timeline.unit.show_at(boot.total));
        }
        Ok(())
    }

    /// The output file, if it is not standard output.
    fn file(&self) -> Option<&PathBuf> {
        self.output.as_ref().filter(|path| path.as_os_str() != "-")
    }
}

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    if benches::is_bench(&args.recording) {
        return of_a_bench(args, output);
    }
    if args.to.of_boot.is_none() && args.to.of_samples.is_none() {
        bail!("{} is a format of benches, and {} is none", args.to.name, args.recording.display());
    }
    if let Some(endpoint) = &args.endpoint {
        return send(args, endpoint, output);
    }
    if args.file().is_none() {
        check_standard_output(args.to.of_boot, output)?;
    }
    let view = args.view.boot_view();
    if args.to.name == "tslog" && view.name().is_none() && view.model().is_none() && own_log(args, output)? {
        return Ok(Done::Well);
    }
    let opened = view.open_noting_warnings(&args.recording, output)?;
    let mut boot = Boot::new(&opened.timeline, &opened.facts);
    if args.to.of_boot.is_some_and(|to| to.has_findings()) {
        boot.findings = Some(findings::most_valuable(&opened, output));
    }
    args.set_window(&mut boot)?;
    match of_samples(args, &boot)? {
        Some(to) => {
            if args.to.of_boot.is_some() && !boot.path().stretches.is_empty() {
                output.note("these are the samples; --boot-path writes the boot path");
            }
            write(args, output, |out| to.write(&boot, args.event.as_deref(), out))?;
        }
        None => {
            let Some(to) = args.to.of_boot else {
                bail!("{} is a format of samples: leave out --boot-path", args.to.name)
            };
            write(args, output, |out| to.write(&boot, out))?;
        }
    }
    Ok(Done::Well)
}

/// Sends each line of the document to the path of its signal.
fn send(args: &Args, endpoint: &Endpoint, output: &Output) -> anyhow::Result<Done> {
    let to = args.to.of_boot.filter(|to| to.has_signals());
    let Some(to) = to else { bail!("--endpoint is of --to otlp, and {} is not sent anywhere", args.to.name) };
    let opened = args.view.boot_view().open_noting_warnings(&args.recording, output)?;
    let mut document = Vec::new();
    to.write(&Boot::new(&opened.timeline, &opened.facts), &mut document)?;
    let document = String::from_utf8_lossy(&document);
    for (signal, line) in otlp::SIGNALS.iter().zip(document.lines()) {
        if let Some(answer) = endpoint.post(signal, line)? {
            output.note(&format!("the collector says of {signal}: {answer}"));
        }
        output.note(&format!("sent {} bytes to {signal}", line.len()));
    }
    Ok(Done::Well)
}

/// The format for samples, if samples are to be written.
fn of_samples(args: &Args, boot: &Boot) -> anyhow::Result<Option<SampleFormat>> {
    let are_there = boot.timeline.sampled.is_some() || args.to.of_boot.is_none();
    let to = args.to.of_samples.filter(|_| are_there && !args.boot_path);
    if to.is_none() && args.event.is_some() {
        bail!("--event is of samples, and {} of this recording has none", args.to.name);
    }
    Ok(to)
}

/// Writes a bench. A killed bench is written with its finished boots.
fn of_a_bench(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let name = args.to.name.as_str();
    if !BENCH_FORMATS.iter().any(|(bench_formats, _)| *bench_formats == name) {
        let (bench, bench_formats) = (args.recording.display(), BENCH_FORMATS.map(|f| f.0).join(", "));
        bail!("{bench} is a bench, and {name} is a format of single boots: give --to {bench_formats}");
    }
    if args.file().is_none() && output.json {
        bail!("{NO_FILE_TO_TELL}");
    }
    let document = args.view.boot_view().of_bench(benches::read_noting_damage(&args.recording, output)?)?;
    write(args, output, |out| match name {
        "csv" => report::bench_csv(&document, out),
        "html" => report::bench_page(&document, &[], out),
        "markdown" => out.write_all(report::bench_markdown(&document).as_bytes()),
        _ => writeln!(out, "{}", report::json(&document, true)?),
    })?;
    Ok(Done::Well)
}

/// Writes a kernel's own log as it was logged, tick for tick. Returns false if the recording has no such log.
fn own_log(args: &Args, output: &Output) -> anyhow::Result<bool> {
    let recording = opened_boot::open_recording(&args.recording)?;
    let log = evidence::tslog_log(&recording).with_context(|| format!("cannot read {}", args.recording.display()))?;
    if log.is_empty() {
        output.note("there is no TSLOG in it: spans are written as entries and exits, a tick is a nanosecond");
        return Ok(false);
    }
    write(args, output, |out| log.write(out))?;
    Ok(true)
}

/// Writes to the file, or to standard output.
fn write(args: &Args, output: &Output, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    match args.file() {
        Some(path) => {
            let bytes = write_file(path, args.force, write)?;
            output.note(&format!("wrote {}", path.display()));
            output.written(&Written::new("bootscope.export/1", path, bytes))?;
        }
        None if stdout().is_terminal() => {
            print(|out| {
                let mut out = Harmless { out, line: Vec::new() };
                write(&mut out).and_then(|()| out.flush())
            })?;
        }
        None => print(write)?,
    }
    Ok(())
}

/// A writer to a terminal that escapes control characters. The formats escape on their own, and a kernel's own log is
/// written unchanged.
struct Harmless<W> {
    out: W,
    /// The start of an incomplete line.
    line: Vec<u8>,
}

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|&b| b == b'\n') {
            self.line.extend_from_slice(part);
            if let Some(whole) = self.line.strip_suffix(b"\n") {
                writeln!(self.out, "{}", report::harmless_bytes(whole))?;
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        write!(self.out, "{}", report::harmless_bytes(&std::mem::take(&mut self.line)))?;
        self.out.flush()
    }
}

const NO_FILE_TO_TELL: &str =
    "--json tells of the file that was written, and there is none: name it with -o, or leave out --json";

/// Refuses output that is not suitable for standard output.
fn check_standard_output(to: Option<&dyn Export>, output: &Output) -> anyhow::Result<()> {
    if let Some(to) = to.filter(|to| to.is_binary() && stdout().is_terminal()) {
        bail!("{} is no text, and would go to your terminal: name a file (-o boot.{})", to.name(), to.extension());
    }
    if output.json {
        bail!("{NO_FILE_TO_TELL}");
    }
    Ok(())
}
