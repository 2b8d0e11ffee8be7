//! Work of many steps behind a command: benches, trials of remedies, searches among commits, boots added to a lake, ledgers of
//! savings, and the server of a page.
//!
//! The caller passes options and its side of the conversation ([`Notes`], [`Watcher`]), and gets documents back. This
//! crate must not parse a command line or print.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]
#![deny(unsafe_code)]

pub mod bench;
pub mod benches;
pub mod boot_findings;
pub mod boot_view;
pub mod check;
pub mod diff;
pub mod files;
pub mod import;
pub mod lab_experiments;
#[cfg(feature = "lakes")]
pub mod lake;
pub mod machine_history;
mod measure;
mod milestone_end;
pub mod models;
pub mod opened_boot;
pub mod otlp;
pub mod overhead;
pub mod page_server;
pub mod range;
pub mod repeat;
pub mod trial;
pub mod what_if;

use benchmark::Setting;
use benchmark::tree::TreeError;
use machine::{Observer, RecordOptions};
use std::fmt;

/// Remarks for the user.
pub trait Notes {
    /// A remark, unless the user asked for quiet.
    fn note(&self, text: &str);
    /// A warning, also if the user asked for quiet.
    fn warn(&self, text: &str);
}

/// Progress for the user, and the user's wish to stop.
pub trait Watcher: Observer {
    /// Names the next boot, if it is one of several.
    fn announce_boot(&mut self, what: &str);
    /// Names work without a boot that may take long.
    fn announce_work(&mut self, what: &str);
    /// Returns a function that is true once the user wants to stop, for work without another way to check.
    fn stop_check(&self) -> Box<dyn FnMut() -> bool>;
    /// Removes the progress line.
    fn clear(&self);
    /// The observer for a boot.
    fn observer(&mut self) -> &mut dyn Observer;
}

/// A variant of a bench before anything is booted.
#[derive(Debug)]
pub struct PlannedVariant {
    /// The name in lists of results.
    pub name: String,
    /// The differences from the options shared by all variants.
    pub settings: Vec<Setting>,
    /// Its complete options.
    pub options: RecordOptions,
}

/// The user stopped the work before there was anything to show.
#[derive(Debug)]
pub struct Interrupted(pub String);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Interrupted {}

/// True if an error says that the user stopped the work.
pub fn is_interruption(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<Interrupted>()
            || matches!(cause.downcast_ref(), Some(TreeError::Stopped(_)))
            || matches!(cause.downcast_ref(), Some(machine::Error::Stopped))
    })
}
