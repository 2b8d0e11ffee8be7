//! The reader of [`process_table`](crate::formats::process_table).

use crate::boot::offers::Offers;
use crate::boot::{Found, Placing};
use crate::formats::process_table::{HEAD, NAME, ProcessTable};
use crate::input::{FirstOf, Input};
use crate::readers::reader::{Evidence, Reader};
use timeline::{DiagnosticKind, Diagnostics, Ns, Timeline};

/// Only the first table is used.
#[derive(Default)]
pub(crate) struct Files(FirstOf);

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["processes of a captured machine"]
    }

    fn is_whole(&self, bytes: &[u8]) -> Option<String> {
        bytes.starts_with(HEAD).then(|| self.kinds()[0].to_owned())
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.0.add(input);
    }

    fn has_boot(&self) -> bool {
        !self.0.is_empty()
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let diagnostics = &mut timeline.diagnostics;
        let first = self.0.used_about(DiagnosticKind::SecondStatement, NAME, diagnostics)?;
        let table = ProcessTable::read(&first.name, &first.bytes, diagnostics);
        if table.is_contained {
            *found.container_began = found.container_began.or(table.began());
        }
        (!table.processes.is_empty()).then(|| Box::new(table) as Box<dyn Evidence>)
    }
}

impl Evidence for ProcessTable {
    /// Starts count from the kernel's start. A container has no evidence from that time, so it makes no offer.
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        if !self.is_contained {
            offers.kernel_after(Ns::ZERO);
        }
    }

    /// Lists the processes, now that the end mark is known.
    fn finish(&mut self, boot: &mut Placing<'_>) {
        if boot.timeline.processes.is_empty() {
            let zero = boot.monotonic_zero();
            self.list(zero, &mut boot.timeline);
        }
    }
}
