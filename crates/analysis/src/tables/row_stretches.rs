//! The boot path in order of time, each stretch with the name of its row.

use super::{by_phase, phase_name};
use crate::charge::{BaseId, Charge, Charger, Suffix};
use crate::phases::Phase;
use crate::stays::Stays;
use crate::stretch::BootPath;
use crate::{Groups, Stretch};
use hashbrown::HashMap;
use timeline::Ns;

/// A part of the boot path that one row is charged with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowStretch {
    pub from: Ns,
    pub to: Ns,
    /// The place of the row's name in [`RowStretches::names`].
    pub row: u32,
}

/// The parts of the boot path in order of time. Time that only a phase has is left out, and neighbours of one row are one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowStretches {
    pub names: Vec<String>,
    pub stretches: Vec<RowStretch>,
}

impl Stays<'_> {
    /// The rows of the path of these stays in order of time, by an operating system's rules. With a call trace, calls too short to be
    /// spans are in the rows of their callers.
    pub fn row_stretches(&self, path: &BootPath, phases: &[Phase], groups: &Groups) -> RowStretches {
        let charger = Charger::new(self.timeline, groups);
        let mut rows = Rows { charger: &charger, phases, numbers: HashMap::new(), all: RowStretches::default() };
        path.stretches.iter().for_each(|stretch| rows.add(stretch));
        rows.all
    }
}

struct Rows<'a> {
    charger: &'a Charger<'a>,
    phases: &'a [Phase],
    /// The number of each charge's name, in the phase that names it if nothing narrower does.
    numbers: HashMap<(Charge, Option<usize>), u32>,
    all: RowStretches,
}

impl Rows<'_> {
    fn add(&mut self, stretch: &Stretch) {
        let (charge, _) = self.charger.charge(stretch.kind, &stretch.chain);
        match (charge.base, charge.suffix) {
            (BaseId::NOTHING, Suffix::None) => {}
            (BaseId::NOTHING, _) => by_phase(stretch.from, stretch.to, self.phases, |phase, from, to| {
                self.push(from, to, charge, Some(phase.unwrap_or(self.phases.len())));
            }),
            _ => self.push(stretch.from, stretch.to, charge, None),
        }
    }

    fn push(&mut self, from: Ns, to: Ns, charge: Charge, phase: Option<usize>) {
        let RowStretches { names, stretches } = &mut self.all;
        let row = *self.numbers.entry((charge, phase)).or_insert_with(|| {
            names.push(self.charger.label(charge, phase_name(self.phases, phase)));
            timeline::number(names.len() - 1)
        });
        match stretches.last_mut() {
            Some(last) if last.row == row && last.to == from => last.to = to,
            _ if from < to => stretches.push(RowStretch { from, to, row }),
            _ => {}
        }
    }
}
