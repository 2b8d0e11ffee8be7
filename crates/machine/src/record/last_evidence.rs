//! The evidence that only a machine whose boot is over can give: logs and traces in its memory, names, the places of its CPUs.
//! Each is taken once; what cannot be taken is a note, not an error.

use recording::{OutcomeKind, SymbolFile};

use super::Prepared;
use crate::ending::Ending;
use crate::memory::TraceImage;
use crate::options::RecordOptions;
use crate::profile::{GuestProfile, Log};
use crate::refusal::{Text, text};
use crate::stops::{Names, OnStacks};
use crate::watch::{FIRMWARE_IMAGES, Watch};
use crate::{Error, Field, arch, kernel_image, stops, symbols};

/// Takes all of it. `followed`: the plugin saw functions, which need names.
///
/// # Errors
/// If something cannot be written; what would come after it is then not taken.
pub(super) fn take(
    options: &RecordOptions,
    prepared: &Prepared,
    followed: bool,
    watch: &mut Watch<'_>,
    ending: &mut Ending,
) -> Result<(), Error> {
    let stopped = watch.is_hurried();
    // First, because the guest goes on writing into its trace until it is read.
    let traced = trace(prepared.trace.as_ref().filter(|_| options.guest.trace_events), watch, ending);
    let named = match followed && !stopped {
        true => traced.and_then(|()| kernels_names(options, watch, ending)),
        false => traced,
    };
    if let Some(missed) = watch.facts.missed.as_ref().filter(|_| ending.kind != OutcomeKind::Unpatched) {
        ending.add_note(missed.clone());
    }
    if let Some(instead) = watch.instead_of_unit().filter(|_| is_without_mark(ending.kind)) {
        ending.add_note(instead);
    }
    let taken = named
        .and_then(|()| silences(options, watch, stopped))
        .and_then(|()| variable(watch))
        .and_then(|()| firmware_images(watch))
        .and_then(|()| last_evidence(options, &prepared.profile, watch, ending));
    if stopped && followed && options.guest.kernel.is_some() && !watch.transfer.has("kallsyms") {
        let unnamed = "stopped by the user, so the kernel's image was not searched for the names of functions";
        ending.add_note(text![unnamed, ": end it with ", Field::Timeout, " to have them"]);
    }
    taken
}

/// True if the end mark of a boot that ended this way may be one that never comes.
fn is_without_mark(kind: OutcomeKind) -> bool {
    use OutcomeKind::{Hang, Interrupted, PowerOff, Reset, Timeout};
    matches!(kind, Timeout | PowerOff | Reset | Hang | Interrupted)
}

/// Takes the names in the kernel's image for what the plugin saw, if the guest did not send its own. Not otherwise, because unpacking the
/// image takes a second.
fn kernels_names(options: &RecordOptions, watch: &mut Watch<'_>, ending: &mut Ending) -> Result<(), Error> {
    let Some(kernel) = options.guest.kernel.as_ref().filter(|_| !watch.transfer.has("kallsyms")) else { return Ok(()) };
    match symbols::list(&SymbolFile { path: kernel.clone(), base: None }) {
        Ok(list) => watch.writer.put("image-symbols.gz", &list, "the functions in the kernel's image")?,
        Err(why) if options.observe.symbols.is_empty() => {
            ending.note.get_or_insert(
                format!("functions have no names: the guest told none, nor does its image: {why}").into(),
            );
        }
        Err(_) => {}
    }
    Ok(())
}

/// Keeps where the vCPUs were in each silence, with names from the user's files and the kernel's image.
fn silences(options: &RecordOptions, watch: &mut Watch<'_>, hurried: bool) -> Result<(), Error> {
    let words = watch.words();
    let names = |seen: &OnStacks| {
        let mut names = Names::default();
        let step = arch::of(&options.guest).facts.linux.image.step_bytes;
        let image = options.guest.kernel.iter().map(|path| SymbolFile { path: path.clone(), base: None });
        let users = options.observe.symbols.iter().cloned().map(|file| (Field::Symbols.is(&file).into(), file));
        let image = image.map(|file| (Text::from(file.to_string()), file));
        for (is_image, (what, file)) in users.map(|file| (false, file)).chain(image.map(|file| (true, file))) {
            let moved_by = match symbols::functions(&file, hurried, &what) {
                Ok(functions) => names.add(&file.to_string(), functions, &seen.called, step),
                Err(why) => {
                    names.remarks.push(why.in_words(words).to_string());
                    None
                }
            };
            // A table of another build would be wrong everywhere, so it is taken only if the image's names fit.
            if let Some(moved_by) = moved_by.filter(|_| is_image && seen.needs_tables) {
                kernel_image::tables(&file.path).into_iter().for_each(|tables| names.add_tables(tables, moved_by));
            }
        }
        names
    };
    let Some(text) = watch.silences(names) else { return Ok(()) };
    let origin = format!("the vCPUs, stopped by {}'s gdbstub", watch.vm.name());
    watch.writer.put(stops::FILE, text.as_bytes(), &origin)?;
    Ok(())
}

/// Keeps the values that a watched variable had where functions were entered.
fn variable(watch: &mut Watch<'_>) -> Result<(), Error> {
    let Some(text) = watch.watched() else { return Ok(()) };
    let origin = format!("read through {}'s gdbstub where functions were entered", watch.vm.name());
    watch.writer.put(recording::WATCH, text.as_bytes(), &origin)?;
    Ok(())
}

/// Keeps the UEFI programs that were seen in memory.
fn firmware_images(watch: &mut Watch<'_>) -> Result<(), Error> {
    let Some(list) = watch.firmware_images() else { return Ok(()) };
    watch.writer.put(FIRMWARE_IMAGES, list.as_bytes(), "headers in guest memory and in the firmware's file")?;
    Ok(())
}

/// Keeps the trace of a guest with its own init. The guest stands still from then on.
fn trace(image: Option<&TraceImage>, watch: &mut Watch<'_>, ending: &mut Ending) -> Result<(), Error> {
    let Some(image) = image else { return Ok(()) };
    match watch.kernel_trace(image)? {
        Ok(trace) => {
            const ORIGIN: &str = "the kernel's ring buffers, read out of guest memory by the host";
            watch.writer.put("trace.txt", &trace.text, ORIGIN)?;
            if !trace.clock.is_empty() {
                watch.writer.put("trace-clock.txt", trace.clock.as_bytes(), ORIGIN)?;
            }
        }
        Err(why) => {
            ending.add_note(text!["the kernel's trace was not read: ", why]);
        }
    }
    Ok(())
}

/// Takes what only the stopped or stuck machine itself can give: its logs, and where its CPUs stand.
fn last_evidence(
    options: &RecordOptions,
    profile: &GuestProfile,
    watch: &mut Watch<'_>,
    ending: &mut Ending,
) -> Result<(), Error> {
    if matches!(ending.kind, OutcomeKind::Hang | OutcomeKind::Timeout | OutcomeKind::Interrupted) {
        if let Some(cpus) = watch.cpus()? {
            watch.writer.put(recording::REGISTERS, cpus.text.as_bytes(), cpus.origin)?;
        }
    }
    if watch.transfer.has("kmsg.log") {
        return Ok(());
    }
    if watch.vm.ram().is_none() {
        let newest = Some(watch.facts.last_line.clone()).filter(|line| !line.is_empty());
        quote_newest(ending, newest);
        return Ok(());
    }
    // If the user waits, no event log is searched for in a guest of a kind without one.
    let hurried = watch.is_hurried();
    let events = if hurried && profile.log == Log::Printk { None } else { watch.event_log()? };
    if let Some(log) = &events {
        watch.writer.put("tslog.txt", log.text.as_bytes(), &log.detail)?;
    }
    let mut newest = Some(watch.facts.last_line.clone()).filter(|line| !line.is_empty());
    match watch.kernel_log()? {
        Ok(log) => {
            watch.writer.put("kmsg-memory.log", &log.to_kmsg(), "read out of guest memory by the host")?;
            newest = log.last_words().newest.map(|record| crate::lines::shown(&record.text, 200)).or(newest);
            let unexplained = matches!(ending.kind, OutcomeKind::Hang | OutcomeKind::Timeout | OutcomeKind::Reset);
            if let (true, Some(panic)) = (unexplained, log.last_words().panic) {
                // Its console was elsewhere, or had no time to print it.
                ending.kind = OutcomeKind::Panic;
                ending.detail = crate::lines::shown(&panic.text, 300);
            }
        }
        Err(_) if hurried && options.guest.kernel.is_some() && events.is_none() => {
            let missing =
                "the kernel's log was not found in guest memory in the moment that a stopped recording has for it";
            ending.note.get_or_insert(text![missing, ": end it with ", Field::Timeout, " to have it"]);
        }
        Err(why) if options.guest.kernel.is_some() && events.is_none() => {
            ending.note.get_or_insert(format!("no kernel log could be read out of guest memory: {why}").into());
        }
        // A guest that boots from a disk need not be Linux, and one that keeps an event log is not Linux.
        Err(_) => {}
    }
    quote_newest(ending, newest);
    Ok(())
}

/// Adds the guest's last line to the outcome of a boot that hung or timed out, because nothing else says where it stopped.
fn quote_newest(ending: &mut Ending, newest: Option<String>) {
    if let (OutcomeKind::Hang | OutcomeKind::Timeout, Some(line)) = (ending.kind, newest) {
        let before = if ending.detail.is_empty() { String::new() } else { format!("{}; ", ending.detail) };
        ending.detail = format!("{before}the last line was: {line}");
    }
}
