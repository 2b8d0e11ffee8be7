//! `sql`: runs a statement that only reads, and prints its result.

use crate::{FormatArgs, LakeArgs, answer};
use anyhow::Context as _;
use arrow::csv::WriterBuilder;
use arrow::json::WriterBuilder as JsonBuilder;
use arrow::json::writer::JsonArray;
use arrow::record_batch::RecordBatch;
use harmless::harmless_bytes;
use std::io::{IsTerminal as _, Write, stdout};
use std::process::ExitCode;

/// Ask a lake by SQL
///
/// The tables are those of docs/lake.md; `day` is a column of each. The language is DataFusion's: much is as in PostgreSQL. Statements that
/// would write anything, or read outside of the lake, are refused.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    lake: LakeArgs,
    /// The statement
    sql: String,
    #[command(flatten)]
    format: FormatArgs,
}

const EXAMPLES: &str = "\
Examples:
  bootscope lake sql lake \"select hardware, kernel, count(*) as boots,
      quantile_cont(total_ns, 0.95) / 1e6 as p95_ms
      from boots group by hardware, kernel order by p95_ms desc\"
  bootscope lake sql lake 'show columns from rows'
  bootscope lake sql s3://boots/lake 'select count(*) from boots' --json
  bootscope lake sql lake 'select count(*) from rows' --cluster df://here:50050";

/// Maximum number of rows of a printed table. Its layout needs all rows in memory.
const MAX_ROWS: usize = 10_000;

/// Standard output. If it is a terminal, control sequences are escaped, except for line ends.
struct Shown {
    is_terminal: bool,
}

impl Shown {
    fn new() -> Shown {
        Shown { is_terminal: stdout().is_terminal() }
    }
}

impl Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.is_terminal {
            let lines: Vec<String> = bytes.split(|byte| *byte == b'\n').map(harmless_bytes).collect();
            stdout().write_all(lines.join("\n").as_bytes())?;
        } else {
            stdout().write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        stdout().flush()
    }
}

/// Runs the statement and prints its result.
pub async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let engine = args.lake.open().await?;
    let found = engine.query(&args.sql).await?;
    let schema = found.schema().inner().clone();
    let mut batches = found.execute_stream().await?;
    if args.format.json {
        let mut writer = JsonBuilder::new().with_explicit_nulls(true).build::<_, JsonArray>(Shown::new());
        while let Some(batch) = engine.next(&mut batches).await? {
            writer.write(&batch)?;
        }
        writer.finish()?;
        writeln!(writer.into_inner()).context("cannot write to standard output")?;
    } else if args.format.csv {
        let mut writer = WriterBuilder::new().with_header(true).build(Shown::new());
        writer.write(&RecordBatch::new_empty(schema))?;
        while let Some(batch) = engine.next(&mut batches).await? {
            writer.write(&batch)?;
        }
    } else {
        let mut table = Vec::new();
        let mut is_whole = true;
        while let Some(batch) = engine.next(&mut batches).await? {
            is_whole = table.len() + batch.num_rows() <= MAX_ROWS;
            answer::texts_of(&batch.slice(0, batch.num_rows().min(MAX_ROWS - table.len())), &mut table)?;
            if !is_whole {
                break;
            }
        }
        let names = schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>();
        answer::print_table(&mut stdout().lock(), &names, &table)?;
        if !is_whole && !args.format.quiet {
            println!("and more: a table has {MAX_ROWS} rows at most, --csv and --json have all");
        }
    }
    Ok(ExitCode::SUCCESS)
}
