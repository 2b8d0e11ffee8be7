//! What a reader must know of a recording before believing its figures: that it was interrupted, that its manifest says
//! nothing, that files of it are lost. Each is a warning, which every view prints first.

use crate::detect;
use crate::files::is_imported;
use crate::index::Index;
use crate::reader::{Own, Reader};
use crate::tslog;
use recording::{Condition, Lost, MANIFEST_NAME, Manifest, Recording};
use timeline::{DiagnosticKind, Diagnostics, Ns, Timeline};

/// Warns of what is wrong with the recording itself, whatever is in its files.
///
/// # Errors
/// If a file cannot be read.
pub fn warn(recording: &Recording, timeline: &mut Timeline) -> Result<(), recording::Error> {
    match recording.condition() {
        Condition::Finished => {}
        Condition::AtWork => timeline.warnings.push(format!(
            "this recording is still being made: the boot is shown as far as it has come; {}",
            last_sign(recording)?
        )),
        Condition::Killed => timeline.warnings.push(format!(
            "this recording was interrupted: its recorder was killed before the end; {}",
            last_sign(recording)?
        )),
        Condition::Unknown(why) => timeline.warnings.push(format!(
            "state unknown: {why}, so nothing tells how this boot was run, whether it was finished, and where its time \
             zero is; what the other files say is shown"
        )),
    }
    for lost in recording.lost() {
        let Lost { file, recorded_bytes, found_bytes } = &lost;
        let (kind, what) = match found_bytes {
            None => (DiagnosticKind::FileMissing, format!("{file} is missing ({recorded_bytes} bytes were recorded)")),
            Some(found) => {
                (DiagnosticKind::FileCut, format!("{file} is cut: {found} bytes of {recorded_bytes} are there"))
            }
        };
        let place = || found_bytes.map_or(String::new(), |found| format!("byte {found} of {recorded_bytes}"));
        timeline.diagnostics.note_about(kind, file, place);
        timeline.warnings.push(format!("{what}: {}; restore it from a copy, or record again", cost(file)));
    }
    Ok(())
}

/// The manifest without counter rates that no counter has.
pub fn manifest(recording: &Recording, diagnostics: &mut Diagnostics) -> Manifest {
    let mut manifest = recording.manifest().clone();
    for (rate, field) in [(&mut manifest.ticks_hz, "ticks_hz"), (&mut manifest.host.tsc_hz, "host.tsc_hz")] {
        if let Some(hz) = rate.take_if(|hz| !tslog::plausible(*hz)) {
            diagnostics.note(DiagnosticKind::CounterRateImplausible, || format!("{MANIFEST_NAME}: {field}: {hz} Hz"));
        }
    }
    manifest
}

/// Since when nothing more came, by the host's clock.
fn last_sign(recording: &Recording) -> Result<String, recording::Error> {
    let mut last: Option<(Ns, &str)> = None;
    let readers = detect::readers();
    let own = readers.iter().flat_map(|(_, reader)| reader.own());
    let streams = own.filter_map(|own| if let Own::Stream(name) = own { Some(*name) } else { None });
    for stream in streams {
        let name = format!("{stream}.idx");
        let Some(bytes) = recording.read(&name)? else { continue };
        // What is wrong with it is counted where the stream is read.
        let index = Index::read(&name, &bytes, &mut Diagnostics::default());
        let at = index.iter().last().map(|(_, at)| (at, stream));
        last = last.max(at);
    }
    Ok(match last {
        Some((at, stream)) => {
            format!("nothing came after {at} on the host's clock (the last line began then, on {stream}.log)")
        }
        None => "nothing had come yet".to_owned(),
    })
}

/// What figures lose with a file. Who reads it says so; the other files are looked at for themselves.
fn cost(file: &str) -> &'static str {
    let file = file.strip_suffix(".partial").unwrap_or(file);
    let of_reader = |reader: &dyn Reader| {
        let own = reader.own().iter().enumerate();
        own.filter_map(|(place, own)| Some(reader.cost(place, own.is(file)?))).next()
    };
    if let Some(cost) = detect::readers().iter().find_map(|(_, reader)| of_reader(&**reader)) {
        return cost;
    }
    match file {
        "console.tail.log" | "console.tail.idx" => cost(&file.replace(".tail", "")),
        "registers.txt" | "vmm.log" => "no figure rests on it",
        _ if file.starts_with("meminfo") => "the guest's memory is not known",
        // One that was imported, by the name that its owner gave it.
        _ if file.contains("symbols") || file.starts_with("kallsyms") => "functions may have no names",
        _ if is_imported(file) => "what it said is in no table, so the boot may begin and end elsewhere",
        _ => "what it said is not used",
    }
}
