//! One piece of evidence alone on a timeline, for tests and fuzz targets: no recording and no other evidence beside it.

use crate::assemble::merge;
use crate::boot::{Found, Placing};
use crate::formats::bootchart::Samples;
use crate::formats::systemd_analyze::Analysis;
use crate::readers::bootchart::Chart;
use crate::readers::reader::Evidence;
use crate::readers::systemd_analyze::Startup;
use recording::Manifest;
use timeline::{Diagnostics, Ns, TimeBase, Timeline};

fn alone(evidence: Box<dyn Evidence>, diagnostics: Diagnostics) -> Timeline {
    let manifest = Manifest { time_base: recording::TimeBase::Evidence, ..Manifest::default() };
    let found = Found::new(&manifest);
    let mut boot = Placing::new(&found, Timeline::new(TimeBase::Evidence));
    boot.timeline.diagnostics = diagnostics;
    merge::place(&mut [evidence], &mut boot);
    boot.timeline
}

impl Samples {
    /// A timeline of the samples alone.
    pub fn on_a_timeline(&self) -> Timeline {
        let mut timeline = alone(Box::new(Chart { samples: self.clone(), init: None }), Diagnostics::default());
        timeline.finalize(Ns::ZERO);
        timeline
    }
}

impl Analysis {
    /// A timeline of the analysis alone.
    pub fn on_a_timeline(&self) -> Timeline {
        let (mut analysis, mut diagnostics) = (self.clone(), Diagnostics::default());
        analysis.settle(&mut diagnostics);
        alone(Box::new(Startup { analysis, origin: Ns::ZERO }), diagnostics)
    }
}
