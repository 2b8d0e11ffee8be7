//! `bootscope-lake`, which `bootscope lake` starts. It queries a lake by SQL, answers the questions that need statistics, and
//! prints the answers to standard output. It writes nothing else, except with `send`, by which `bootscope lake add` adds to a
//! lake in an object store.

mod answer;
mod engine;
mod filter;
mod questions;
mod send;
mod sql;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use engine::{Engine, EngineArgs};
use std::process::ExitCode;

/// Asks a lake of boots
#[derive(Parser)]
#[command(name = "bootscope-lake", bin_name = "bootscope lake", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Sql(sql::Args),
    Ask(questions::Args),
    #[command(hide = true)]
    PageData(questions::page_data::Args),
    #[command(hide = true)]
    BootIds(send::BootIdsArgs),
    #[command(hide = true)]
    Send(send::Args),
}

/// Options for the format of the answer.
#[derive(clap::Args, Clone, Copy)]
struct FormatArgs {
    /// Print one JSON document
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print a line of names, then a line a row, with commas
    #[arg(long)]
    csv: bool,
    /// Print only the rows
    #[arg(short, long)]
    quiet: bool,
}

/// Options for the lake and the engine.
#[derive(clap::Args)]
struct LakeArgs {
    /// The lake: a folder, or s3://BUCKET/FOLDER
    lake: String,
    #[command(flatten)]
    engine: EngineArgs,
}

impl LakeArgs {
    async fn open(&self) -> anyhow::Result<Engine> {
        Engine::open(&self.lake, &self.engine).await
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // The Parquet library may panic on a malformed file. Report that like any other error.
    std::panic::set_hook(Box::new(|_| {}));
    let ended = std::panic::catch_unwind(|| run(cli.command)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(anyhow::anyhow!(
            "the engine failed, on a file that is no Parquet or on this query: {}",
            said.unwrap_or("?")
        ))
    });
    match ended {
        Ok(code) => code,
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("bootscope: {}", harmless::harmless(&said(&e)));
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    runtime.block_on(async {
        match command {
            Command::Sql(args) => sql::run(&args).await,
            Command::Ask(args) => questions::run(&args).await,
            Command::PageData(args) => questions::page_data::run(&args).await,
            Command::BootIds(args) => send::boot_ids(&args).await,
            Command::Send(args) => send::run(&args).await,
        }
    })
}

/// The message of an error with its causes. Skips causes that the message contains already, because libraries repeat them.
fn said(error: &anyhow::Error) -> String {
    error.chain().map(|cause| cause.to_string().replace('\n', " ")).fold(String::new(), |said, cause| {
        let is_said = said.contains(&cause);
        if said.is_empty() {
            cause
        } else if is_said {
            said
        } else {
            format!("{said}: {cause}")
        }
    })
}

/// True if the reader of the output closed the pipe. That is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.into_iter().any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
