//! Views of a boot or a bench that end at a milestone in place of the end mark, and views at the prices of a model.

use crate::Notes;
use crate::milestone_end;
use crate::models;
use crate::opened_boot::{self, OpenedBoot};
use anyhow::{Context, bail};
use benchmark::Document;
use std::path::{Path, PathBuf};

/// The milestone that ends a boot; empty for the end mark. Also the boot in logs of several, if the user chose one.
#[derive(Clone, Debug, Default)]
pub struct BootView {
    milestone: Option<String>,
    boot: Option<i32>,
    /// The machine model whose prices the boot has.
    model: Option<String>,
}

impl BootView {
    /// Ends at the milestone of this name.
    pub fn named(name: Option<&str>) -> BootView {
        BootView { milestone: name.map(str::to_owned), ..BootView::default() }
    }

    /// The same for this boot in logs of several: 0 is the last, -1 the one before.
    pub fn of_boot(self, boot: Option<i32>) -> BootView {
        BootView { boot, ..self }
    }

    /// The same at the prices of this machine model: a shipped one, or a file.
    pub fn priced_as(self, model: Option<&str>) -> BootView {
        BootView { model: model.map(str::to_owned), ..self }
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

    /// As [`BootView::open`], for a view that does not print its warnings. They go to standard error.
    pub fn open_noting_warnings(&self, path: &Path, notes: &dyn Notes) -> anyhow::Result<OpenedBoot> {
        let opened = self.open(path)?;
        opened_boot::note_warnings(&opened, path, notes);
        Ok(opened)
    }

    /// The machine model that the user named.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Ends an open boot at the milestone, and prices it.
    ///
    /// # Errors
    /// As [`BootView::cut`] and [`BootView::price`].
    pub fn apply(&self, opened: &mut OpenedBoot) -> anyhow::Result<()> {
        self.cut(opened)?;
        self.price(opened)
    }

    /// Ends an open boot at the milestone.
    ///
    /// # Errors
    /// If the boot did not pass the milestone, or cannot be cut there.
    pub fn cut(&self, opened: &mut OpenedBoot) -> anyhow::Result<()> {
        match self.name() {
            Some(wanted) => milestone_end::end_at(wanted, &mut opened.timeline, opened.calls.is_some()),
            None => Ok(()),
        }
    }

    /// Gives an open boot the prices of the model.
    ///
    /// # Errors
    /// If there is no such model, or the boot cannot be priced.
    pub fn price(&self, opened: &mut OpenedBoot) -> anyhow::Result<()> {
        match &self.model {
            Some(model) => opened.price(models::open(model)?),
            None => Ok(()),
        }
    }

    /// A bench measured up to the milestone.
    ///
    /// # Errors
    /// If no boot of the bench passed it, or if a price is wanted.
    pub fn of_bench(&self, document: Document) -> anyhow::Result<Document> {
        if let Some(model) = &self.model {
            bail!(
                "--as {model} prices recordings, and this is a bench: give a recording that it kept (bench --keep-recordings)"
            );
        }
        match self.name() {
            Some(wanted) => Ok(document.up_to(wanted)?),
            None => Ok(document),
        }
    }
}
