//! The `bootscope` program: parse, call, print. One file per subcommand; no number is computed here.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]
// Only `heap` and `names` contain unsafe code.
#![deny(unsafe_code)]

mod amount;
mod bench;
mod boot_options;
mod boot_values;
mod boot_view;
mod capture;
mod check;
mod diff;
#[cfg(test)]
mod document_tests;
mod export;
mod findings;
mod heap;
mod history;
mod import;
mod lab;
#[cfg(feature = "lakes")]
mod lake;
#[cfg(not(feature = "lakes"))]
#[path = "without_lake.rs"]
mod lake;
mod manual;
mod names;
mod output;
mod pack;
mod progress;
mod range;
mod record;
mod report;
mod show;
mod trial;
mod variants;
mod view;
mod what_if;

use campaigns::is_interruption;
use clap::{Parser, Subcommand};
use output::{Output, OutputArgs, is_enough, print_error};
use std::process::ExitCode;

/// Shows where every millisecond of a kernel boot goes
#[derive(Parser)]
#[command(name = "bootscope", version = VERSION, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    command: Command,
}

/// The version, with the commit in a release build of a git clone (build.rs).
const VERSION: &str = env!("BOOTSCOPE_VERSION");

const EXAMPLES: &str = "\
Examples:
  bootscope record --kernel vmlinuz --append quiet -o boots/a
      boot a kernel and keep the evidence
  bootscope show boots/a
      print where the time went
  bootscope view boots/a
      open the boot in a browser: who did what when, and who was waited for
  bootscope findings boots/a
      list what is slow, what it costs, and what to do about it
  bootscope try boots/a
      boot the remedies, and say what each really saves
  bootscope what-if boots/a --save 'initcall acpi_init=-50%'
      work out what the boot would take then
  bootscope diff boots/a boots/b
      compare two boots, function by function
  bootscope bench --kernel vmlinuz --vary append='quiet tsc=reliable'
      boot both variants in turn, and say whether the change helped
  bootscope import serial.log dmesg.txt -o boots/b
      make a recording of logs that were taken elsewhere
  bootscope capture -o here.tar.zst
      as root on a running machine: take what it still knows of its boot

Exit status:
  0  done
  1  the boot did not reach its end mark, or a check failed
  2  usage or input error, or the output cannot be written";

#[derive(Subcommand)]
enum Command {
    Record(Box<record::Args>),
    Show(show::Args),
    Findings(findings::Args),
    Try(Box<trial::Args>),
    Report(report::Args),
    View(view::Args),
    Export(export::Args),
    Import(import::Args),
    Capture(capture::Args),
    WhatIf(what_if::Args),
    Diff(diff::Args),
    Pack(pack::Args),
    Bench(Box<bench::Args>),
    Lab(lab::Args),
    History(history::Args),
    Lake(lake::Args),
    Check(check::Args),
    Range(Box<range::Args>),
    #[command(hide = true)]
    Completions(manual::CompletionArgs),
    #[command(hide = true)]
    Man(manual::ManArgs),
}

/// The result of a command that did its work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// Everything succeeded.
    Well,
    /// The boot did not reach its end mark, or a requested check failed.
    Badly,
    /// The exit status that the user chose for *cannot be decided*.
    Status(u8),
}

/// The stack of the thread that runs the whole program. With a small `ulimit -s` the first thread's stack may be too
/// small to parse the command line.
const STACK_BYTES: usize = 16 << 20;

fn main() -> ExitCode {
    heap::prepare();
    names::prepare();
    // A panic prints this name.
    let program = std::thread::Builder::new().name("main".to_owned()).stack_size(STACK_BYTES).spawn(parse_and_run);
    match program {
        // The panic's message is printed already.
        Ok(program) => program.join().unwrap_or(ExitCode::from(101)),
        // There is no memory for another stack, but this one may be enough.
        Err(_) => parse_and_run(),
    }
}

fn parse_and_run() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    let output = Output::new(&cli.output);
    match run(cli.command, &output) {
        Ok(Done::Well) => ExitCode::SUCCESS,
        Ok(Done::Badly) => ExitCode::from(1),
        Ok(Done::Status(status)) => ExitCode::from(status),
        Err(e) if is_enough(&e) => ExitCode::SUCCESS,
        Err(e) => {
            print_error(&e);
            ExitCode::from(if is_interruption(&e) { 1 } else { 2 })
        }
    }
}

fn run(command: Command, output: &Output) -> anyhow::Result<Done> {
    match command {
        Command::Record(args) => record::run(&args, output),
        Command::Show(args) => show::run(&args, output),
        Command::Findings(args) => findings::run(&args, output),
        Command::Try(args) => trial::run(&args, output),
        Command::Report(args) => report::run(&args, output),
        Command::View(args) => view::run(&args, output),
        Command::Export(args) => export::run(&args, output),
        Command::Import(args) => import::run(&args, output),
        Command::Capture(args) => capture::run(&args, output),
        Command::WhatIf(args) => what_if::run(&args, output),
        Command::Diff(args) => diff::run(&args, output),
        Command::Pack(args) => pack::run(&args, output),
        Command::Bench(args) => bench::run(&args, output),
        Command::Lab(args) => lab::run(&args, output),
        Command::History(args) => history::run(&args, output),
        Command::Lake(args) => lake::run(&args, output),
        Command::Check(args) => check::run(&args, output),
        Command::Range(args) => range::run(&args, output),
        Command::Completions(args) => manual::completions(&args, output),
        Command::Man(args) => manual::man(&args),
    }
}

/// Prints the requested help, and exits.
fn help(error: &clap::Error) -> ! {
    let printed = output::print(|_| error.print().and_then(|()| std::io::Write::flush(&mut std::io::stdout())));
    match printed {
        Err(e) if !is_enough(&e) => {
            print_error(&e);
            std::process::exit(2);
        }
        _ => std::process::exit(0),
    }
}

/// Prints the error in the command line, and exits. The message repeats arguments, and an argument may be a file name
/// with any characters.
fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        help(error);
    }
    let text = error.render().to_string();
    let shown: Vec<_> = text.lines().map(::report::harmless).collect();
    if shown.iter().all(|line| matches!(line, std::borrow::Cow::Borrowed(_))) {
        error.exit();
    }
    output::remark(&shown.join("\n"));
    std::process::exit(error.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Examples and tables of a help text are broken into lines by hand. A terminal of 80 columns must not break them
    /// again.
    #[test]
    fn help_fits_eighty_columns() {
        fn check(command: &clap::Command) {
            let name = command.get_name();
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{name}: {line}");
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn the_version_is_the_packages_and_may_name_a_commit() {
        let version = Cli::command().get_version().map(str::to_owned).unwrap_or_default();
        let commit = version.strip_prefix(env!("CARGO_PKG_VERSION")).expect("it begins with the package's number");
        let digits = commit.strip_prefix(" (commit ").and_then(|rest| rest.strip_suffix(')'));
        let is_commit =
            digits.is_some_and(|digits| digits.len() == 12 && digits.chars().all(|c| c.is_ascii_hexdigit()));
        assert!(commit.is_empty() || is_commit, "{version}");
    }
}
