//! Views of a boot or a bench that end at a milestone in place of the end mark.

use crate::Notes;
use crate::milestone_end;
use crate::opened_boot::{self, OpenedBoot};
use anyhow::Context;
use benchmark::Document;
use std::path::{Path, PathBuf};

/// The milestone that ends a boot; empty for the end mark. Also the boot in logs of several, if the user chose one.
#[derive(Clone, Debug, Default)]
pub struct UpTo {
    milestone: Option<String>,
    boot: Option<i32>,
}

impl UpTo {
    /// Ends at the milestone of this name.
    pub fn named(name: Option<&str>) -> UpTo {
        UpTo { milestone: name.map(str::to_owned), boot: None }
    }

    /// The same for this boot in logs of several: 0 is the last, -1 the one before.
    pub fn of_boot(self, boot: Option<i32>) -> UpTo {
        UpTo { boot, ..self }
    }

    /// The name of the requested milestone.
    pub fn name(&self) -> Option<&str> {
        self.milestone.as_deref()
    }

    /// Reads a recording up to the milestone.
    pub fn open(&self, path: &Path) -> anyhow::Result<OpenedBoot> {
        let mut opened = opened_boot::open(path)?;
        self.apply(&mut opened).with_context(|| path.display().to_string())?;
        Ok(opened)
    }

    /// Reads a recording, or files of one boot, up to the milestone.
    pub fn open_files(&self, paths: &[PathBuf], notes: &dyn Notes) -> anyhow::Result<OpenedBoot> {
        let mut opened = opened_boot::open_files(paths, self.boot, notes)?;
        self.apply(&mut opened)
            .with_context(|| paths.iter().map(|path| path.display().to_string()).collect::<String>())?;
        Ok(opened)
    }

    /// As [`UpTo::open`], for a view that does not print its warnings. They go to standard error.
    pub fn open_noting_warnings(&self, path: &Path, notes: &dyn Notes) -> anyhow::Result<OpenedBoot> {
        let mut opened = opened_boot::open_noting_warnings(path, notes)?;
        self.apply(&mut opened).with_context(|| path.display().to_string())?;
        Ok(opened)
    }

    /// Ends an open boot at the milestone.
    ///
    /// # Errors
    /// If the boot did not pass the milestone, or cannot be cut there.
    pub fn apply(&self, opened: &mut OpenedBoot) -> anyhow::Result<()> {
        match self.name() {
            Some(wanted) => milestone_end::end_at(wanted, &mut opened.timeline, opened.calls.is_some()),
            None => Ok(()),
        }
    }

    /// A bench measured up to the milestone.
    ///
    /// # Errors
    /// If no boot of the bench passed it.
    pub fn of_bench(&self, document: Document) -> anyhow::Result<Document> {
        match self.name() {
            Some(wanted) => Ok(document.up_to(wanted)?),
            None => Ok(document),
        }
    }
}
