//! Replaces the identities of a recording by words that are the same for every machine, for the names in a lake.

use std::borrow::Cow;

use recording::{Error, Recording};

use crate::anonymous::learn;
use crate::forms::{self, Kind};
use crate::learned_identities::IdentityMatcher;
use crate::scrub::all_spans;

/// The identities of one recording, for a lake. The same word replaces an identity on every machine.
#[derive(Debug, Default)]
pub struct Identities {
    matcher: IdentityMatcher,
}

impl Identities {
    /// Reads the texts of a recording. `machine` is the name of the machine, if the user specified it.
    ///
    /// # Errors
    /// If one of its files cannot be read.
    pub fn of(recording: &Recording, machine: Option<&str>) -> Result<Identities, Error> {
        let mut learned = learn(recording)?;
        machine.iter().for_each(|name| learned.add(Kind::Host, name.as_bytes()));
        Ok(Identities { matcher: learned.matcher() })
    }

    /// A text in which a word replaces each identity: `[address]`, `[host]`, `[network]`, `[secret]`, `[serial]`,
    /// `[user]`, `[uuid]`.
    #[must_use]
    pub fn without<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let spans = all_spans(text.as_bytes(), &self.matcher);
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let without = forms::replace_spans(text.as_bytes(), &spans, |kind, _| kind.lake_word().into_bytes());
        Cow::Owned(String::from_utf8_lossy(&without).into_owned())
    }
}
