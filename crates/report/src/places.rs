//! The place in time of a row of the boot path.

use crate::Boot;
use timeline::Ns;

impl Boot<'_> {
    /// The longest place of a row of [`Boot::wheres`]: a span, else a step of the path that waited for the row's thread, else
    /// the phase that the row is named for. `None` if no evidence shows a place.
    pub fn place_of(&self, row: usize) -> Option<(Ns, Ns)> {
        let tables = self.tables();
        let row = tables.wheres.get(row)?;
        let longest =
            |places: &mut dyn Iterator<Item = (Ns, Ns)>| places.max_by_key(|&(from, to)| (to - from, -from.0));
        let is_it = |thing: &u32| *thing == row.thing && row.thing > 0;
        let spans = self.timeline.spans.iter().zip(&tables.things.of_span).filter(|(_, thing)| is_it(thing));
        let steps = self.stays.iter().filter(|stay| {
            let (waiters, owner) = stay.waiters_and_owner();
            !waiters.is_empty() && tables.things.of_track.get(owner.track.0 as usize).is_some_and(is_it)
        });
        let inside = row.name.strip_prefix('(').and_then(|name| name.split_once(')')).map(|(name, _)| name);
        let phases = self.phases.iter().filter(|phase| phase.name == inside.unwrap_or(&row.name));
        longest(&mut spans.map(|((_, span), _)| (span.start, span.end)))
            .or_else(|| longest(&mut steps.map(|stay| (stay.from, stay.to))))
            .or_else(|| longest(&mut phases.map(|phase| (phase.start, phase.end))))
    }
}
