//! The calls of a recording, with their names.

use super::contexts::Contexts;
use super::profile::{Share, end, profile};
use super::{Calls, read};
use crate::files::Files;
use crate::first_run::{self, regions};
use recording::Recording;
use timeline::{Diagnostics, Names, Profile};

/// The calls of a boot until its end mark.
#[derive(Clone, Debug, Default)]
pub struct BootCalls {
    /// What the file says.
    pub calls: Calls,
    /// The call tree until the end mark, in instructions.
    pub profile: Profile,
    /// The names of its nodes.
    pub names: Names,
    /// How much of the boot it accounts for.
    pub share: Share,
}

/// Reads the calls of a recording; none if they were not followed. What does not add up in them, the timeline has.
///
/// # Errors
/// If a file cannot be read.
pub fn load(recording: &Recording) -> Result<Option<BootCalls>, recording::Error> {
    // What files have to say of themselves, the timeline's readers say.
    let mut unsaid = Diagnostics::default();
    let files = Files::read(recording, &mut unsaid)?;
    let Some(file) = &files.calls else { return Ok(None) };
    let mut found = BootCalls { calls: read(&file.name, &file.bytes, &mut unsaid), ..BootCalls::default() };
    let mut symbols = files.symbols(&mut unsaid);
    let run = files.first_run.as_ref().map(|file| first_run::read(&file.name, &file.bytes, &mut unsaid));
    let regions = run.map(|run| regions::regions(&run)).unwrap_or_default();
    if let Some(physical) = regions::loaded_at(&regions) {
        symbols.loaded_at(physical);
    }
    let until = end(&found.calls);
    let contexts = Contexts::new(&found.calls, &symbols, &regions);
    found.profile = profile(&found.calls, until, &symbols, &contexts, &mut found.names).profile;
    found.share = Share::until(&found.calls, until);
    Ok(Some(found))
}
