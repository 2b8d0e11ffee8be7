//! Warnings about a recording that a reader must see before trusting its figures: it was interrupted, its manifest is
//! missing or damaged, or files are lost. Every view prints them first.

use crate::assemble::files::content;
use crate::assemble::{detect, meminfo};
use crate::input::index::Index;
use crate::input::is_imported;
use crate::readers::reader::{Own, Reader};
use recording::{Condition, Lost, MANIFEST_NAME, Manifest, NotKnown, Recording};
use timeline::{Clock, DiagnosticKind, Diagnostics, FileLoss, LastSign, ManifestFault, Ns, Timeline, Warning};

/// Warns of problems of the recording itself, independent of the contents of its files.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn warn(recording: &Recording, timeline: &mut Timeline) -> Result<(), recording::Error> {
    match recording.condition() {
        Condition::Finished => {}
        Condition::AtWork => timeline.warnings.push(Warning::RecordingAtWork { last: last_sign(recording)? }),
        Condition::Killed => timeline.warnings.push(Warning::RecordingInterrupted { last: last_sign(recording)? }),
        Condition::Unknown(why) => timeline.warnings.push(Warning::RecordingUnknown { why: fault(why) }),
    }
    for Lost { file, recorded_bytes, found_bytes } in recording.lost() {
        let kind = if found_bytes.is_some() { DiagnosticKind::FileCut } else { DiagnosticKind::FileMissing };
        let place = || found_bytes.map_or(String::new(), |found| format!("byte {found} of {recorded_bytes}"));
        timeline.diagnostics.note_about(kind, &file, place);
        let loss = loss(&file);
        timeline.warnings.push(match found_bytes {
            None => Warning::FileMissing { file, recorded_bytes, loss },
            Some(found_bytes) => Warning::FileCut { file, recorded_bytes, found_bytes, loss },
        });
    }
    for (file, bytes) in recording.too_large() {
        timeline.diagnostics.note_about(DiagnosticKind::FileTooLarge, file, || format!("{bytes} bytes"));
        let (loss, limit_bytes) = (loss(file), recording::BYTES_MAX);
        timeline.warnings.push(Warning::FileTooLarge { file: file.to_owned(), bytes, limit_bytes, loss });
    }
    Ok(())
}

fn fault(why: &NotKnown) -> ManifestFault {
    match why {
        NotKnown::Missing => ManifestFault::Missing,
        NotKnown::Damaged(found) => ManifestFault::Damaged { found: found.clone() },
        NotKnown::NoState => ManifestFault::NoState,
    }
}

/// The manifest, without counter rates that no counter can have.
pub(crate) fn manifest(recording: &Recording, diagnostics: &mut Diagnostics) -> Manifest {
    let mut manifest = recording.manifest().clone();
    for (rate, field) in [(&mut manifest.ticks_hz, "ticks_hz"), (&mut manifest.host.tsc_hz, "host.tsc_hz")] {
        if let Some(hz) = rate.take_if(|hz| !Clock::can_run_at(*hz)) {
            diagnostics.note(DiagnosticKind::CounterRateImplausible, || format!("{MANIFEST_NAME}: {field}: {hz} Hz"));
        }
    }
    manifest
}

/// The last time, on the host's clock, at which a stream received data.
fn last_sign(recording: &Recording) -> Result<Option<LastSign>, recording::Error> {
    let mut last: Option<(Ns, &str)> = None;
    let readers = detect::readers();
    let own = readers.iter().flat_map(|(_, reader)| reader.own());
    let streams = own.filter_map(|own| if let Own::Stream(name) = own { Some(*name) } else { None });
    for stream in streams {
        let name = format!("{stream}.idx");
        let Some(bytes) = content(recording, &name, &mut Diagnostics::default())? else { continue };
        // Malformed lines are counted where the stream is read.
        let index = Index::read(&name, &bytes, &mut Diagnostics::default());
        let at = index.iter().last().map(|(_, at)| (at, stream));
        last = last.max(at);
    }
    Ok(last.map(|(at, stream)| LastSign { at, file: format!("{stream}.log") }))
}

/// The figures that are lost with a file. The module that reads or writes the file states them.
fn loss(file: &str) -> FileLoss {
    let file = &*recording::whole_name(file);
    let readers = detect::readers();
    let own = |reader: &dyn Reader| {
        let own = reader.own().iter().enumerate();
        own.filter_map(|(place, own)| Some(reader.loss(place, own.is(file)?))).next()
    };
    readers
        .iter()
        .find_map(|(_, reader)| own(&**reader))
        .or_else(|| meminfo::is_read(file).then_some(FileLoss::GuestMemory))
        .or_else(|| recording::is_for_people(file).then_some(FileLoss::NoFigure))
        .or_else(|| readers.iter().find_map(|(_, reader)| reader.loss_by_name(file)))
        .or_else(|| is_imported(file).then_some(FileLoss::ImportedEvidence))
        .unwrap_or(FileLoss::WhatItSaid)
}
