//! Recording one boot, from the options to the finished folder.

mod last_evidence;
mod prepare;

pub(crate) use prepare::{Prepared, prepare};
pub use prepare::{check_patches, foresee};

use std::fs::File;
use std::path::{Path, PathBuf};

use recording::{End, GuestSpec, Init, Manifest, Outcome, OutcomeKind, Partial, Until, Writer};

use crate::awaited::Awaited;
use crate::clock::Moment;
use crate::ending::{Ending, cut_short, end_mark, ending};
use crate::guest_channel::GuestChannel;
use crate::memory::TraceImage;
use crate::options::RecordOptions;
use crate::profile::GuestProfile;
use crate::refusal::{Text, Words, text};
use crate::vmm::{Exit, Instruments, Launch};
use crate::watch::{Facts, Finished, Watch, free_port};
use crate::{Error, Field, Observer, arch, plain_machine, vmm};
use prepare::Find;

/// Blocks of user space after which the plugin stops. About this number run in a Debian's initrd, or in the first seconds of an init
/// without one.
const USER_BLOCKS: u32 = 1 << 16;
/// The kernel's message when it starts a guest's own process 1.
const OWN_INIT: &str = r"Run /\S+ as init process";
/// The first line of bootscope's process 1 if it has no channel. A kernel before 4.19 does not print that it starts process 1.
const MUTE_INIT: &str = r"Run /\S+ as init process|bootscope: process 1 runs";

/// A recorded boot.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub outcome: Outcome,
    /// The end mark, if it was reached.
    pub end: Option<End>,
    /// The reason why the workload failed, if it did.
    pub no_workload: Option<String>,
    /// Changes that were written into the guest's code, in sentences.
    pub patched: Vec<String>,
    /// The content of `recording.json`.
    pub manifest: Manifest,
}

/// Boots a machine and records it into `options.out`.
///
/// The calling thread must stay until this returns: the VMM is bound to it, and ends with it.
///
/// # Errors
/// If the boot cannot be begun, or if the recording cannot be written (a full disk). Then this finishes the recording with the evidence it
/// has, where possible. A failure of the boot itself is an outcome, not an error.
pub fn record(options: &RecordOptions, observer: &mut dyn Observer) -> Result<Recorded, Error> {
    let words = observer.words();
    record_with(&vmm::find, options, observer).map_err(|error| error.in_words(words))
}

/// Does the work of [`record`] with this way to find the VMM.
fn record_with(find: Find<'_>, options: &RecordOptions, observer: &mut dyn Observer) -> Result<Recorded, Error> {
    let words = observer.words();
    let mut prepared = prepare(find, options, false, observer)?;
    let options = prepared.opened.options.clone();
    let options = &*options;
    let plugin = plugin(options, &mut prepared)?;
    let mut writer = Writer::create(&options.out, options.force, &prepared.manifest)?;
    let (mut watch, partials) = match begin(options, &mut prepared, plugin.as_deref(), &mut writer, observer) {
        Ok(begun) => begun,
        Err(error) => return Err(nothing_recorded(writer, error)),
    };
    let (ending, failed) = watched(options, &prepared, plugin.is_some(), &mut watch);
    let mut finished = watch.finish(failed);
    if is_failure(ending.kind) && finished.facts.running_ns.is_none() {
        let exit = finished.vm.wait()?;
        let (name, why) = (finished.vm.name(), vmm_failure(&ending, &finished.facts, &exit));
        drop(finished);
        return Err(nothing_recorded(writer, Error::VmmRefused { name, why }));
    }
    let no_workload = finished.facts.no_workload.clone();
    let patched = finished.patched.clone();
    let (manifest, failed) =
        conclude(options, &prepared.profile, prepared.manifest, ending, finished, partials, words)?;
    writer.finish(manifest.clone())?;
    if let Some(why) = failed {
        return Err(Error::CutShort { folder: options.out.clone(), why: Box::new(why) });
    }
    let outcome = manifest.outcome.clone().expect("conclude gives every boot an outcome");
    Ok(Recorded { outcome, end: manifest.end.clone(), no_workload, patched, manifest })
}

/// Starts the machine, and prepares watching it and keeping its output.
fn begin<'a>(
    options: &RecordOptions,
    prepared: &mut Prepared,
    plugin: Option<&Path>,
    writer: &'a mut Writer,
    observer: &'a mut dyn Observer,
) -> Result<(Watch<'a>, Vec<Partial>), Error> {
    keep_symbols(options, prepared, writer)?;
    let origin = format!("bootscope's {} plugin", prepared.program.name());
    let mut new_partial =
        |name, wanted| (plugin.is_some() && wanted).then(|| writer.partial(name, &origin)).transpose();
    let first_executions = new_partial("first-run.bin", options.observe.first_executions)?;
    let calls = new_partial("calls.bin", options.observe.calls)?;
    let exits = new_partial("exits.bin", options.observe.exits)?;
    let channel = channel(&options.guest);
    let port = options.guest.until.port().map(|_| free_port()).transpose()?;
    let vm = prepared.program.start(&Launch {
        guest: &options.guest,
        kvm: prepared.kvm,
        kernel_line: &prepared.line.text,
        initrd: prepared.initrd.as_ref(),
        channel: channel.as_ref().map(|channel| channel.wire()),
        instruments: Instruments {
            ram: plain_machine::plain_facts(&options.guest, &*prepared.program)
                .is_none_or(|facts| facts.takes_memory_file),
            firmware: options.firmware_port(),
            plugin,
            first_executions: first_executions.as_ref().map(Partial::file),
            calls: calls.as_ref().map(Partial::file),
            exits: exits.as_ref().map(Partial::file),
            min_call_ns: options.observe.min_call_ns,
            user_blocks: user_blocks(options, prepared),
            linker: true,
            gdbstub: options.observe.silence_ms.is_some() || prepared.plan.is_some(),
            port,
            held: prepared.plan.is_some(),
        },
    })?;
    prepared.manifest.vmm.command = vm.command().to_vec();
    prepared.manifest.arrival_error_ns = options.guest.target.is_board().then(|| vm.arrival_error_ns());
    writer.update(&prepared.manifest)?;
    if let Some(request) = vm.wants() {
        observer.want(&request);
    }
    let mut watch = Watch::new(options, &prepared.profile, awaited_line(options), channel, vm, writer, observer)?;
    if let Some(executions) = first_executions.as_ref().and_then(|partial| File::open(partial.path()).ok()) {
        watch.look_for_firmware(&options.guest, executions);
    }
    watch.look_for(&options.guest.until, port, prepared.trace.as_ref().and_then(TraceImage::tasks));
    if let Some(plan) = prepared.plan.take() {
        watch.stop_at_functions(plan, arch::of(&options.guest));
    }
    Ok((watch, [first_executions, calls, exits].into_iter().flatten().collect()))
}

/// The number of user-space blocks after which the plugin stops; `None` is no limit. If the kernel's trace shows what user space does, the
/// plugin runs only until the kernel's own boot is certainly over. Later blocks would cost at least a sixth of the boot's time; in a counted
/// boot they cost nothing.
fn user_blocks(options: &RecordOptions, prepared: &Prepared) -> Option<u32> {
    let is_traced = !options.guest.has_guest_init() && prepared.trace.is_some();
    (is_traced && !options.guest.deterministic).then_some(USER_BLOCKS)
}

/// The channel of the guest's messages, if process 1 sends any or the lab's samples come that way.
pub(crate) fn channel(guest: &GuestSpec) -> Option<Box<dyn GuestChannel>> {
    (guest.has_guest_init() || crate::lab::is_sampled(guest)).then(|| arch::of(guest).channel(guest))
}

/// Puts the lists of the user's symbol files into the recording.
fn keep_symbols(options: &RecordOptions, prepared: &mut Prepared, writer: &mut Writer) -> Result<(), Error> {
    let lists = std::mem::take(&mut prepared.symbols);
    for (n, (list, file)) in (1..).zip(lists.iter().zip(&options.observe.symbols)) {
        writer.put(&format!("symbols-{n}.gz"), list, &format!("the functions of {file}"))?;
    }
    Ok(())
}

/// Discards a recording without content, and returns the reason.
fn nothing_recorded(writer: Writer, error: Error) -> Error {
    // The reason matters also if discarding fails.
    let _ = writer.discard();
    error
}

/// The plugin, if it is wanted and available. Without it a boot can be recorded, but not its calls.
fn plugin(options: &RecordOptions, prepared: &mut Prepared) -> Result<Option<PathBuf>, Error> {
    let is_board = options.guest.target.is_board();
    let observe = &options.observe;
    if prepared.kvm || is_board || !(observe.first_executions || observe.calls || observe.exits) {
        return Ok(None);
    }
    match prepared.program.plugin() {
        Ok(object) => Ok(Some(object)),
        Err(why) if observe.calls || observe.exits => {
            let (vmm, field) = (prepared.program.name(), if observe.calls { Field::Calls } else { Field::Exits });
            let why = text![field, format!(" needs bootscope's {vmm} plugin: {why}")];
            Err(Error::refused(field, why, ""))
        }
        Err(why) => {
            prepared.manifest.notes.push(format!("when code first ran is not recorded: {why}"));
            Ok(None)
        }
    }
}

/// Watches until the boot is over and takes the last evidence. If either cannot be written, stops there and returns the error too.
fn watched(
    options: &RecordOptions,
    prepared: &Prepared,
    followed: bool,
    watch: &mut Watch<'_>,
) -> (Ending, Option<Error>) {
    let profile = &prepared.profile;
    let booted = boot(options, profile, watch);
    watch.end_silence(true);
    watch.begin_last_evidence();
    match booted {
        Ok(mut ending) => {
            let failed = last_evidence::take(options, prepared, followed, watch, &mut ending).err();
            (ending, failed)
        }
        Err(error) => {
            let why = format!("recording could not go on: {error}");
            (cut_short(options, profile, &watch.facts, watch.vm.elapsed_ns(), &why), Some(error))
        }
    }
}

/// Watches until the boot is over.
fn boot(options: &RecordOptions, profile: &GuestProfile, watch: &mut Watch<'_>) -> Result<Ending, Error> {
    loop {
        watch.step(&|facts| end_mark(options, profile, facts).is_some())?;
        let now_ns = watch.vm.elapsed_ns();
        watch.facts.listened_ns = watch.vm.listened_ns();
        let is_stopped = watch.is_stopped();
        if let Some(ending) = ending(options, profile, &watch.facts, now_ns, is_stopped) {
            // Rounds that lie ready are evidence too, if there is time to read them.
            let has_time = !is_stopped && watch.facts.listened_ns < options.timeout_ns();
            if !(has_time && watch.has_rounds()) {
                return Ok(ending);
            }
        }
        watch.look()?;
        watch.show_progress(now_ns);
    }
}

/// Fills in the facts that are known only at the end. Returns the first write error too, if there was one.
fn conclude(
    options: &RecordOptions,
    profile: &GuestProfile,
    mut manifest: Manifest,
    ending: Ending,
    mut finished: Finished<'_>,
    partials: Vec<Partial>,
    words: Words,
) -> Result<(Manifest, Option<Error>), Error> {
    let exit = finished.vm.wait()?;
    let zero = finished.vm.zero().moment;
    manifest.host.tsc_hz = zero.zip(Moment::now()).and_then(|(zero, now)| zero.rate_to(now));
    let marks = finished.vm.set_up(manifest.host.tsc_hz);
    let json = serde_json::to_vec_pretty(&marks).expect("marks are plain data");
    // No other thread writes to it any more.
    finished.writer.release();
    let put = finished.writer.put("vmm.json", &json, &format!("what the host saw of {}'s set-up", finished.facts.vmm));
    finished.keep(put);
    for partial in partials {
        let written = partial.file().metadata().is_ok_and(|meta| meta.len() > 0);
        finished.keep(if written { partial.commit() } else { partial.discard() });
    }
    let spelled = |text: Text| text.in_words(words).to_string();
    let vmm_notes = finished.vm.notes();
    let Finished { facts, patched, notes, failed, .. } = finished;
    manifest.vmm.max_rss_bytes = exit.used.map(|used| used.max_rss_bytes);
    manifest.vmm.user_ns = exit.used.map(|used| used.user_ns);
    manifest.vmm.system_ns = exit.used.map(|used| used.system_ns);
    manifest.end = end_mark(options, profile, &facts);
    manifest.notes.extend(ending.note.clone().map(spelled));
    manifest.notes.extend(facts.no_workload.as_ref().map(|why| format!("the workload failed: {why}")));
    manifest.notes.extend(patched);
    manifest.notes.extend(notes);
    manifest.notes.extend(vmm_notes.into_iter().map(spelled));
    manifest.notes.extend(failed.as_ref().map(|error| format!("this recording is not complete: {error}")));
    manifest.outcome = Some(Outcome {
        kind: ending.kind,
        detail: if is_failure(ending.kind) { vmm_failure(&ending, &facts, &exit) } else { ending.detail },
        at_ns: Some(ending.at_ns),
    });
    Ok((manifest, failed))
}

/// True if the VMM or the board's line ended the boot, not the guest.
fn is_failure(kind: OutcomeKind) -> bool {
    matches!(kind, OutcomeKind::VmmFailed | OutcomeKind::LineLost)
}

/// Describes how the VMM ended, and its last output.
fn vmm_failure(ending: &Ending, facts: &Facts, exit: &Exit) -> String {
    let mut parts = vec![format!("{} {}", facts.vmm, exit.how)];
    parts.extend((!ending.detail.is_empty()).then(|| ending.detail.clone()));
    // The output of the command that switched a board on does not explain how its line ended.
    let says_why = ending.kind == OutcomeKind::VmmFailed || facts.running_ns.is_none();
    parts.extend(facts.vmm_said.iter().filter(|_| says_why).cloned());
    parts.join(": ")
}

/// The pattern of the end mark, if it is a line.
fn awaited_line(options: &RecordOptions) -> Option<Awaited> {
    let awaited = match &options.guest.until {
        Until::Regex(pattern) => Awaited::line(pattern),
        Until::Unit(unit) => Awaited::unit(unit),
        Until::Init if options.guest.init == Init::Mute => Awaited::line(MUTE_INIT),
        Until::Init if !options.guest.has_guest_init() => Awaited::line(OWN_INIT),
        _ => return None,
    };
    Some(awaited.expect("options are checked before anything is started"))
}

#[cfg(test)]
mod tests;
