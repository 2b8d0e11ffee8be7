//! A lake in an object store. Boots go into a local folder first. Then `bootscope-lake send` uploads all of them, or
//! none.

use anyhow::{Context, bail};
use lake::Lake;
use serde::Deserialize;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The URL of an object store in a lake's name, if it is one.
pub fn url(to: &Path) -> Option<&str> {
    to.to_str().filter(|to| to.contains("://"))
}

/// A lake in an object store.
pub struct Bucket {
    url: String,
    program: PathBuf,
    /// The local folder from which boots are sent.
    stage: TempDir,
    /// The boots known to be in the store: those listed at the start, and those sent since.
    boots: HashSet<String>,
}

/// The result that `bootscope-lake send` prints.
#[derive(Deserialize)]
struct Sent {
    /// Boots that were already in the store. If there are any, nothing was sent.
    there: HashSet<String>,
}

impl Bucket {
    /// Lists the boots in the store.
    ///
    /// # Errors
    /// If `bootscope-lake` is missing, or cannot reach the store.
    pub fn open(url: &str) -> anyhow::Result<Bucket> {
        let program = machine::lake_program().map_err(anyhow::Error::msg)?;
        let stage = recording::private_folder().context("cannot make a temporary folder")?;
        let mut bucket = Bucket { url: url.to_owned(), program, stage, boots: HashSet::new() };
        let ids = bucket.run(&["boot-ids".as_ref()])?;
        bucket.boots = ids.lines().map(str::to_owned).collect();
        Ok(bucket)
    }

    /// The folder to which boots are added.
    pub fn stage(&self) -> PathBuf {
        self.stage.path().join("lake")
    }

    /// Boots that are already in the store.
    pub fn boots(&self) -> &HashSet<String> {
        &self.boots
    }

    /// Sends the boots in the folder, and empties it. Returns how many of them another sender had sent meanwhile.
    ///
    /// # Errors
    /// If they cannot be sent. They are then still in the folder.
    pub fn send(&mut self, lake: &mut Lake) -> anyhow::Result<usize> {
        let mut already_sent = 0;
        while !lake.boots().is_empty() {
            let stage = self.stage();
            let output = self.run(&["send".as_ref(), stage.as_os_str()])?;
            let sent: Sent =
                serde_json::from_str(&output).context("bootscope-lake said something else than expected")?;
            if sent.there.is_empty() {
                self.boots.extend(lake.boots().iter().cloned());
                break;
            }
            already_sent += sent.there.len();
            lake.forget(|boot, _| sent.there.contains(boot))?;
            self.boots.extend(sent.there);
        }
        self.stage = recording::private_folder().context("cannot make a temporary folder")?;
        *lake = Lake::open(&self.stage())?;
        Ok(already_sent)
    }

    /// The output of a `bootscope-lake` command. Its errors go to the standard error of this process.
    fn run(&self, command: &[&OsStr]) -> anyhow::Result<String> {
        let out = Command::new(&self.program).args(command).arg(&self.url).stderr(Stdio::inherit()).output();
        let out = out.with_context(|| format!("cannot run {}", self.program.display()))?;
        if !out.status.success() {
            bail!("bootscope-lake could not use {}", self.url);
        }
        String::from_utf8(out.stdout).context("bootscope-lake said something else than expected")
    }
}
