//! The reader of [`devices_deferred`](crate::formats::devices_deferred).

use crate::boot::linux::deferrals::supplier;
use crate::boot::{Found, Placing};
use crate::formats::devices_deferred::{DevicesDeferred, is_line};
use crate::input::text::Line;
use crate::input::{FirstOf, Input};
use crate::readers::reader::{Evidence, Reader};
use timeline::{Deferral, DiagnosticKind, Diagnostics, Timeline};

/// Only the first list is used.
#[derive(Default)]
pub(crate) struct Files(FirstOf);

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["devices that wait for a probe"]
    }

    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        is_line(line.bytes).then_some(0)
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.0.add(input);
    }

    fn read<'f>(&'f mut self, _found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let diagnostics = &mut timeline.diagnostics;
        let first = self.0.used_about(DiagnosticKind::SecondStatement, self.kinds()[0], diagnostics)?;
        Some(Box::new(DevicesDeferred::read(&first.name, &first.bytes, diagnostics)))
    }
}

impl Evidence for DevicesDeferred {
    /// The list was read after the boot. The kernel's messages come before it.
    fn finish(&mut self, boot: &mut Placing<'_>) {
        let timeline = &mut boot.timeline;
        let last = timeline.deferrals.last().map(|deferral| deferral.at);
        let at = last.max(timeline.end.map(|end| end.at)).unwrap_or_default();
        for (device, why) in &self.devices {
            let names = &mut timeline.names;
            let (device, supplier) = (names.intern(device), supplier(why).map(|supplier| names.intern(supplier)));
            let message = names.intern(why);
            timeline.deferrals.push(Deferral { at, device, supplier, took: None, is_pending: true, message });
        }
    }
}
