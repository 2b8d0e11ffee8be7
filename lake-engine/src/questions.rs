//! `ask`: questions that need statistics. The engine computes sums by SQL. This process computes the answers from them, with the
//! same functions as a bench's verdicts.

mod boot_times;
mod boots;
mod coverage;
mod outliers;
pub mod page_data;
mod regressions;
mod single_boots;
mod slowest_rows;
pub mod sums;
mod what_pays;

use crate::answer::{Answer, Fields, Shown};
use crate::engine::Engine;
use crate::filter::FilterArgs;
use crate::{FormatArgs, LakeArgs};
use anyhow::bail;
use serde::Serialize;
use std::process::ExitCode;

/// Ask a lake what no sum tells: what became slower and with which update, and how sure that is
///
/// Regressions and outliers compare boots of one kind of machine with each other only. Each answer says how many boots it rests on.
/// Where thousands of rows are looked at, probabilities are corrected for that: of what answers name, chance made 5 in 100 at most,
/// on average.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    lake: LakeArgs,
    /// The question to answer
    #[arg(value_enum)]
    question: Question,
    #[command(flatten)]
    filter: FilterArgs,
    /// Group boots by this, in boot-times and slowest-rows: a column of boots, or label:NAME; may be repeated. Counted boots are
    /// always apart from others [default: hardware, and in boot-times kernel]
    #[arg(long, value_name = "NAME")]
    by: Vec<String>,
    #[command(flatten)]
    format: FormatArgs,
    /// Rows of the table, at most; --json and --csv have all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

const EXAMPLES: &str = "\
Examples:
  bootscope lake ask lake regressions
  bootscope lake ask lake slowest-rows --by kernel --since 30d
  bootscope lake ask lake boot-times --by label:team --json
  bootscope lake ask lake boots --where 'machine=machine-9f0c*'

Exit status: 1 where regressions, outliers or missing machines were found.";

#[derive(Clone, Copy, clap::ValueEnum)]
enum Question {
    /// Median, 95th and 99th percentile, each with its interval
    BootTimes,
    /// What the time goes to: the mean of each row over all boots
    SlowestRows,
    /// Which update made which row slower, on which kinds of machine
    Regressions,
    /// Machines that are slower than their kind, and in which row; of the last 14 days, without --since
    Outliers,
    /// What each remedy would save a day, over all machines
    WhatPays,
    /// Which machines have not reported as they used to
    Coverage,
    /// The boots themselves, the slowest first
    Boots,
}

/// The result of a question: its rows, and remarks about them.
struct Found {
    boots: u64,
    remarks: Vec<String>,
    rows: Vec<Fields>,
    shown: &'static [Shown],
    is_bad: bool,
    /// First day of the selected boots, if the question itself chose it. Else empty.
    since: String,
}

impl Found {
    fn new(boots: u64, rows: Vec<impl Serialize>, shown: &'static [Shown]) -> anyhow::Result<Found> {
        let rows = rows.iter().map(Fields::of).collect::<Result<Vec<Fields>, _>>()?;
        Ok(Found { boots, remarks: Vec::new(), rows, shown, is_bad: false, since: String::new() })
    }
}

/// Answers a question and prints the answer. The exit status is 1 if the user should act on it.
pub async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let engine = args.lake.open().await?;
    let (name, found) = ask(&engine, args).await?;
    if found.boots == 0 {
        let hint = "see --since and --where; outliers and coverage need boots with --machine";
        bail!("{} has no boots that were asked for: {hint}", engine.lake);
    }
    let answer = Answer {
        schema: format!("bootscope.lake-{name}/1"),
        lake: engine.lake.clone(),
        since: if found.since.is_empty() { args.filter.since().to_owned() } else { found.since },
        boots: found.boots,
        remarks: found.remarks,
        rows: found.rows,
        is_bad: found.is_bad,
        shown: found.shown,
    };
    answer.print(args.format, args.top)?;
    Ok(if answer.is_bad { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

async fn ask(engine: &Engine, args: &Args) -> anyhow::Result<(&'static str, Found)> {
    let Args { filter, by, .. } = args;
    Ok(match args.question {
        Question::BootTimes => ("boot-times", boot_times::ask(engine, filter, by).await?),
        Question::SlowestRows => ("slowest-rows", slowest_rows::ask(engine, filter, by).await?),
        Question::Regressions => ("regressions", regressions::ask(engine, filter).await?),
        Question::Outliers => ("outliers", outliers::ask(engine, filter).await?),
        Question::WhatPays => ("what-pays", what_pays::ask(engine, filter).await?),
        Question::Coverage => ("coverage", coverage::ask(engine, filter).await?),
        Question::Boots => ("boots", boots::ask(engine, filter).await?),
    })
}
