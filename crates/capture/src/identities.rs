//! The identities of a recording, as words that are the same for every machine: what a lake keeps of its names.

use std::borrow::Cow;

use recording::{Error, Recording};

use crate::anonymous::learn;
use crate::forms::{self, Kind};
use crate::learned::Known;
use crate::scrub::all_spans;

/// The identities of one recording, for a lake: in place of each stands a word that is the same for every machine.
#[derive(Debug, Default)]
pub struct Identities {
    known: Known,
}

impl Identities {
    /// Reads the texts of a recording. `machine` is the name of the machine, if the user gave it.
    ///
    /// # Errors
    /// If a file of it cannot be read.
    pub fn of(recording: &Recording, machine: Option<&str>) -> Result<Identities, Error> {
        let mut learned = learn(recording)?;
        machine.iter().for_each(|name| learned.add(Kind::Host, name.as_bytes()));
        Ok(Identities { known: learned.known() })
    }

    /// A text with a word in place of each identity: `[address]`, `[host]`, `[network]`, `[secret]`, `[serial]`, `[user]`, `[uuid]`.
    #[must_use]
    pub fn without<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let spans = all_spans(text.as_bytes(), &self.known);
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let without = forms::replaced(text.as_bytes(), &spans, |kind, _| kind.lake_word().into_bytes());
        Cow::Owned(String::from_utf8_lossy(&without).into_owned())
    }
}
