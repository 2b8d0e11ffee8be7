//! The calls of a recording, with their names.

use super::profile::{Share, end, profile};
use super::{Calls, Kind, read};
use crate::files::Files;
use crate::first_run::{self, regions};
use hashbrown::HashSet;
use recording::Recording;
use timeline::{Diagnostics, Names, Profile};

/// The calls of a boot until its end mark.
#[derive(Clone, Debug, Default)]
pub struct BootCalls {
    /// What the file says.
    pub calls: Calls,
    /// The call tree until the end mark.
    pub profile: Profile,
    /// The names of its nodes.
    pub names: Names,
    /// How much of the boot it accounts for.
    pub share: Share,
    /// What did not add up.
    pub diagnostics: Diagnostics,
}

/// Reads the calls of a recording; none if they were not followed.
///
/// # Errors
/// If a file cannot be read.
pub fn load(recording: &Recording) -> Result<Option<BootCalls>, recording::Error> {
    const NAME: &str = "calls.bin";
    let Some(bytes) = recording.read(NAME)? else { return Ok(None) };
    let mut found = BootCalls::default();
    found.calls = read(NAME, &bytes, &mut found.diagnostics);
    // What these files have to say of themselves, the timeline's readers say.
    let mut unsaid = Diagnostics::default();
    let files = Files::read(recording, &mut unsaid)?;
    let mut symbols = files.symbols(&mut unsaid);
    let run = files.first_run.as_ref().map(|file| first_run::read(&file.name, &file.bytes, &mut unsaid));
    if let Some(physical) = run.and_then(|run| regions::loaded_at(&regions::regions(&run))) {
        symbols.loaded_at(physical);
    }
    symbols.note_misfits(called(&found.calls), &mut found.diagnostics);
    let until = end(&found.calls);
    found.profile = profile(&found.calls, until, &symbols, &mut found.names);
    found.share = Share::until(&found.calls, until);
    Ok(Some(found))
}

/// The addresses that were called, each once.
fn called(calls: &Calls) -> impl Iterator<Item = u64> {
    let called = calls.nodes.iter().filter(|node| node.kind == Kind::Call && node.function != 0);
    called.map(|node| node.function).collect::<HashSet<u64>>().into_iter()
}
