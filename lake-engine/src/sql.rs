//! `sql`: a statement that reads, and what it gives.

use crate::{FormatArgs, LakeArgs, answer};
use anyhow::Context as _;
use arrow::csv::WriterBuilder;
use arrow::json::ArrayWriter;
use arrow::record_batch::RecordBatch;
use futures::StreamExt as _;
use std::io::{Write as _, stdout};
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
      approx_percentile_cont(total_ns, 0.95) / 1e6 as p95_ms
      from boots group by hardware, kernel order by p95_ms desc\"
  bootscope lake sql lake 'show columns from rows'
  bootscope lake sql s3://boots/lake 'select count(*) from boots' --json
  bootscope lake sql lake 'select count(*) from rows' --cluster df://here:50050";

/// Runs it.
pub async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let engine = args.lake.open().await?;
    let found = engine.query(&args.sql).await?;
    let schema = found.schema().inner().clone();
    let mut batches = found.execute_stream().await?;
    if args.format.json {
        let mut writer = ArrayWriter::new(stdout().lock());
        while let Some(batch) = batches.next().await {
            writer.write(&batch?)?;
        }
        writer.finish()?;
        writeln!(writer.into_inner()).context("cannot write to standard output")?;
    } else if args.format.csv {
        let mut writer = WriterBuilder::new().with_header(true).build(stdout().lock());
        writer.write(&RecordBatch::new_empty(schema))?;
        while let Some(batch) = batches.next().await {
            writer.write(&batch?)?;
        }
    } else {
        let mut table = Vec::new();
        while let Some(batch) = batches.next().await {
            answer::texts_of(&batch?, &mut table)?;
        }
        let names = schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>();
        answer::print_table(&mut stdout().lock(), &names, &table)?;
    }
    Ok(ExitCode::SUCCESS)
}
