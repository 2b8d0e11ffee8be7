//! A lake in an object store. Boots go into a folder of our own first; `bootscope-lake send` takes them from there, whole, or not at all.

use anyhow::{Context, bail};
use lake::Lake;
use serde::Deserialize;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Whether a lake's name is one of an object store, and which.
pub fn url(to: &Path) -> Option<&str> {
    to.to_str().filter(|to| to.contains("://"))
}

/// A lake in an object store.
pub struct Bucket {
    url: String,
    program: PathBuf,
    /// The folder from which boots are sent.
    stage: TempDir,
    /// Boots that it had when last looked, and that we sent.
    boots: HashSet<String>,
}

/// What `bootscope-lake send` says.
#[derive(Deserialize)]
struct Sent {
    /// Boots that were there before: nothing was sent because of them.
    there: HashSet<String>,
}

impl Bucket {
    /// Asks which boots are there.
    ///
    /// # Errors
    /// If `bootscope-lake` is missing, or cannot reach the store.
    pub fn open(url: &str) -> anyhow::Result<Bucket> {
        let program = machine::lake_program().map_err(anyhow::Error::msg)?;
        let stage = recording::private_folder().context("cannot make a temporary folder")?;
        let mut bucket = Bucket { url: url.to_owned(), program, stage, boots: HashSet::new() };
        let ids = bucket.ask(&["boot-ids".as_ref()])?;
        bucket.boots = ids.lines().map(str::to_owned).collect();
        Ok(bucket)
    }

    /// The folder that boots are added to.
    pub fn stage(&self) -> PathBuf {
        self.stage.path().join("lake")
    }

    /// Boots that need not be added.
    pub fn boots(&self) -> &HashSet<String> {
        &self.boots
    }

    /// Sends what the folder has, and empties it. Says how many of its boots another had sent meanwhile.
    ///
    /// # Errors
    /// If it cannot be sent: then it is still in the folder.
    pub fn send(&mut self, lake: &mut Lake) -> anyhow::Result<usize> {
        let mut there = 0;
        while !lake.boots().is_empty() {
            let stage = self.stage();
            let said = self.ask(&["send".as_ref(), stage.as_os_str()])?;
            let sent: Sent = serde_json::from_str(&said).context("bootscope-lake said something else than expected")?;
            if sent.there.is_empty() {
                self.boots.extend(lake.boots().iter().cloned());
                break;
            }
            there += sent.there.len();
            lake.forget(|boot, _| sent.there.contains(boot))?;
            self.boots.extend(sent.there);
        }
        self.stage = recording::private_folder().context("cannot make a temporary folder")?;
        *lake = Lake::open(&self.stage())?;
        Ok(there)
    }

    /// What `bootscope-lake` prints. Its errors go where ours go.
    fn ask(&self, command: &[&OsStr]) -> anyhow::Result<String> {
        let out = Command::new(&self.program).args(command).arg(&self.url).stderr(Stdio::inherit()).output();
        let out = out.with_context(|| format!("cannot run {}", self.program.display()))?;
        if !out.status.success() {
            bail!("bootscope-lake could not use {}", self.url);
        }
        String::from_utf8(out.stdout).context("bootscope-lake said something else than expected")
    }
}
