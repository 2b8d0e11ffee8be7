//! `bootscope lake forget` and `lake compact`: rewrite a lake's files.

use crate::Done;
use crate::output::Output;
use lake::Lake;
use report::harmless;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Remove a machine, or one boot, from a lake
///
/// Every row of its boots goes, from each table, at once. Files that have such rows are written anew, so the disk needs room for these.
/// If bootscope is killed meanwhile, the next command that changes the lake ends or undoes it. Copies of the lake keep their rows. A
/// recording that is added again is in the lake again.
#[derive(clap::Args)]
#[command(after_help = FORGET_EXAMPLES)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["machine", "token", "boot"])))]
pub struct ForgetArgs {
    /// The lake's folder
    lake: PathBuf,
    /// The machine's name, as `lake add --machine` had it
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// The key that its token was made with [default: $XDG_CONFIG_HOME/bootscope/lake.key]
    #[arg(long, value_name = "FILE", requires = "machine")]
    key: Option<PathBuf>,
    /// The machine's token, as the lake has it
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// One boot, by its `boot_id`
    #[arg(long, value_name = "ID")]
    boot: Option<String>,
}

const FORGET_EXAMPLES: &str = "\
Examples:
  bootscope lake forget lake --machine db7
  bootscope lake forget lake --boot 5f3c0d0e8f3b1c9d2a7e6b4f8c1d0e9a

Exit status: 1 if the lake has no such boot.";

/// Merge a lake's small files
///
/// A folder that is watched gets many small files a day, and engines read few large ones faster. Readers find the same rows all the time.
/// One that began before may miss a file, with an error: it asks again. `lake watch` does this by itself with days that are over.
#[derive(clap::Args)]
pub struct CompactArgs {
    /// The lake's folder
    lake: PathBuf,
}

/// The JSON document of `lake forget --json`.
#[derive(Serialize)]
struct Forgotten {
    schema: &'static str,
    lake: String,
    /// The number of removed boots.
    boots: usize,
}

/// The JSON document of `lake compact --json`.
#[derive(Serialize)]
struct Compacted {
    schema: &'static str,
    lake: String,
    /// The number of days whose files were merged.
    days: usize,
    /// The number of files of a table on these days, before.
    files_before: usize,
    /// The number of files of a table on these days, after.
    files_after: usize,
}

/// Removes boots.
pub fn forget(args: &ForgetArgs, output: &Output) -> anyhow::Result<Done> {
    let mut lake = Lake::existing(&args.lake)?;
    let mut machines: Vec<String> = args.token.iter().chain(&args.machine).cloned().collect();
    if let Some(name) = &args.machine {
        machines.extend(token(name, args.key.as_deref(), output)?);
    }
    let is_one = |machine: &str| machines.iter().any(|one| one == machine);
    let boots = lake.forget(|id, machine| args.boot.as_deref() == Some(id) || machine.is_some_and(is_one))?;
    let name = args.lake.display().to_string();
    if output.json {
        output.document(&Forgotten { schema: "bootscope.lake-forget/1", lake: name, boots })?;
    } else if boots == 0 {
        output.note(&format!(
            "{} has no such boot: is it the name, and the key, that they were added with?",
            harmless(&name)
        ));
    } else if !output.quiet {
        output.text(&format!("removed {} from {}\n", super::boots(boots), harmless(&name)))?;
    }
    Ok(if boots > 0 { Done::Well } else { Done::Badly })
}

/// The token of a machine's name. A missing key is not created, since no token in the lake could come from it. The lake
/// may have the name itself.
fn token(name: &str, key: Option<&Path>, output: &Output) -> anyhow::Result<Option<String>> {
    let path = campaigns::lake::key_path(key)?;
    if path.exists() {
        return Ok(Some(lake::token(&campaigns::lake::key(key)?, name)));
    }
    output.note(&format!(
        "there is no key {}: only a machine that was added with --identify can be found",
        path.display()
    ));
    Ok(None)
}

/// Merges small files.
pub fn compact(args: &CompactArgs, output: &Output) -> anyhow::Result<Done> {
    let done = Lake::existing(&args.lake)?.compact(None)?;
    let name = args.lake.display().to_string();
    if output.json {
        let (days, files_before, files_after) = (done.days, done.before, done.after);
        let schema = "bootscope.lake-compact/1";
        output.document(&Compacted { schema, lake: name, days, files_before, files_after })?;
    } else if !output.quiet {
        output.text(&summary(&done, &name))?;
    }
    Ok(Done::Well)
}

fn summary(done: &lake::Compacted, lake: &str) -> String {
    if done.days == 0 {
        return format!("{} has no small files to merge\n", harmless(lake));
    }
    let days = if done.days == 1 { "1 day".to_owned() } else { format!("{} days", done.days) };
    format!("merged files of {days} in {}: each table had {}, and has {}\n", harmless(lake), done.before, done.after)
}
