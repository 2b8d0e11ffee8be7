//! The output options shared by all commands: JSON or text, amount, colour, width.

use campaigns::Notes;
use capture::standard_output;
use report::{Layout, Style, harmless};
use serde::Serialize;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::path::Path;

/// Flags that every command takes.
#[derive(clap::Args)]
pub struct OutputArgs {
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    json: bool,
    /// Print only what you asked for
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Also print how each number was found
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    verbose: bool,
    /// Colour the text; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

/// The JSON document about a file that a command wrote.
#[derive(Serialize)]
pub struct Written {
    schema: &'static str,
    file: String,
    bytes: u64,
}

impl Written {
    /// A file with this number of bytes.
    pub fn new(schema: &'static str, path: &Path, bytes: u64) -> Written {
        Written { schema, file: path.display().to_string(), bytes }
    }
}

/// The destination and style of all output.
pub struct Output {
    /// True to print one JSON document in place of text.
    pub json: bool,
    /// True to print only the requested output, without remarks.
    pub quiet: bool,
    /// True to print further details.
    pub verbose: bool,
    style: Style,
}

impl Output {
    /// Resolves the flags against terminal and environment.
    pub fn new(args: &OutputArgs) -> Output {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let colored = match args.color {
            Color::Auto => stdout().is_terminal() && !no_color,
            Color::Always => true,
            Color::Never => false,
        };
        let style = if colored { Style::Colour } else { Style::Plain };
        Output { json: args.json, quiet: args.quiet, verbose: args.verbose, style }
    }

    /// True if the output may have colours.
    pub fn has_colours(&self) -> bool {
        self.style == Style::Colour
    }

    /// The layout of tables, with `top` rows each.
    pub fn layout(&self, top: usize) -> Layout {
        let terminal = stdout().is_terminal();
        let width = if terminal { terminal_size::terminal_size().map(|(w, _)| usize::from(w.0)) } else { None };
        // Some terminals report 0 columns.
        let width = width.filter(|&columns| columns > 0).unwrap_or(80);
        Layout {
            width,
            wide_tables: !terminal,
            top,
            style: self.style,
            harmless_too: self.verbose,
            ..Layout::default()
        }
    }

    /// Prints text to standard output.
    pub fn text(&self, text: &str) -> anyhow::Result<()> {
        print(|out| out.write_all(text.as_bytes()))
    }

    /// Prints one JSON document to standard output.
    pub fn document(&self, document: &impl Serialize) -> anyhow::Result<()> {
        print(|out| {
            report::write_json(&mut *out, document, true)?;
            out.write_all(b"\n")
        })
    }

    /// With `--json`, prints the document about a written file.
    pub fn written(&self, written: &Written) -> anyhow::Result<()> {
        if self.json { self.document(written) } else { Ok(()) }
    }

    /// Prints a remark on standard error, unless the user asked for quiet.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            remark(&format!("bootscope: {}", harmless(text)));
        }
    }
}

impl Notes for Output {
    fn note(&self, text: &str) {
        Output::note(self, text);
    }

    fn warn(&self, text: &str) {
        remark(&format!("bootscope: warning: {}", harmless(text)));
    }
}

/// Prints an error with all its causes, on standard error.
pub fn print_error(error: &anyhow::Error) {
    let mut text = format!("{error:#}");
    let is_full = |e: &&io::Error| matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let full = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).find(is_full);
    if let Some(next_step) = full.map(recording::advice).filter(|_| !text.contains("free some space")) {
        text.push_str(next_step);
    }
    remark(&format!("bootscope: {}", harmless(&text)));
}

/// Prints a line on standard error. A closed or full standard error is no reason to end.
pub fn remark(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// The error for a failed write to standard output.
#[derive(Debug)]
pub struct CannotPrint;

impl std::fmt::Display for CannotPrint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cannot write to standard output")
    }
}

/// Prints all text to standard output. Only write errors become [`CannotPrint`], not errors about the boot.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let printed = standard_output().and_then(|out| {
        let mut out = BufWriter::new(out);
        write(&mut out).and_then(|()| out.flush())
    });
    printed.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => anyhow::Error::new(error),
        _ => anyhow::Error::new(error).context(CannotPrint),
    })
}

/// True if the reader of standard output has closed it, as `| head` does. That is no error.
pub fn is_enough(error: &anyhow::Error) -> bool {
    let is_broken_pipe = |cause: &io::Error| cause.kind() == ErrorKind::BrokenPipe;
    error.is::<CannotPrint>() && error.chain().filter_map(|cause| cause.downcast_ref()).any(is_broken_pipe)
}
