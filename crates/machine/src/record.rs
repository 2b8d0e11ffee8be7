//! Recording one boot, from the options to the finished folder.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use guest_init::config::{self, Config};
use guest_init::cpio::Module;
use recording::{
    Accel, End, GuestSpec, Init, Input, InputRole, Manifest, Outcome, OutcomeKind, Partial, Sealer, Subject,
    SymbolFile, Target, Then, TimeBase, Until, Vmm, VmmKind, Writer,
};

use crate::arch::GuestInit;
use crate::awaited::Awaited;
use crate::clock::Moment;
use crate::ending::{Ending, cut_short, end_mark, ending};
use crate::functions::Plan;
use crate::guest_channel::{GuestChannel, Wire};
use crate::host::memory_file;
use crate::kernel_file::Opened;
use crate::kernel_line::{Added, KernelLine, kernel_line};
use crate::memory::TraceImage;
use crate::options::RecordOptions;
use crate::profile::{GuestProfile, Log};
use crate::refusal::{Text, Words, text};
use crate::stops::{Names, OnStacks};
use crate::vmm::{Exit, Instruments, Launch, Program};
use crate::watch::{FIRMWARE_IMAGES, Facts, Finished, Watch, free_port};
use crate::{
    Error, Field, Observer, accel, arch, file_head, host, image, kernel_file, kernel_image, library, modules,
    plain_machine, root, stops, symbols, tracers, vmm,
};

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

/// The boot to start, after all files were checked and all choices made.
pub(crate) struct Prepared {
    /// The options to boot with, in which the kernel's file is open.
    pub(crate) opened: Opened,
    pub(crate) program: Box<dyn Program>,
    pub(crate) profile: GuestProfile,
    pub(crate) kvm: bool,
    pub(crate) line: KernelLine,
    pub(crate) initrd: Option<File>,
    /// The function list of each of the user's symbol files, compressed.
    symbols: Vec<Vec<u8>>,
    /// Stops at functions, if the options request any.
    plan: Option<Plan>,
    /// The way to read the kernel's trace in the memory of a guest with its own init, if it has one.
    trace: Option<TraceImage>,
    manifest: Manifest,
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

/// The manifest that a recording with these options would begin with. Does not start the machine.
///
/// # Errors
/// Those of [`record`] that can be found without starting the machine.
pub fn foresee(options: &RecordOptions, observer: &mut dyn Observer) -> Result<Manifest, Error> {
    let prepared = prepare(&vmm::find, options, false, observer).map_err(|error| error.in_words(observer.words()))?;
    Ok(prepared.manifest)
}

/// Refuses changes to the guest's code that do not fit its image, or each other. Starts nothing.
///
/// # Errors
/// If a change does not fit.
pub fn check_patches(options: &RecordOptions, words: Words) -> Result<(), Error> {
    Plan::of(&options.guest, &options.observe, arch::of(&options.guest)).map(drop).map_err(|why| why.in_words(words))
}

/// Finds the VMM that a guest uses.
pub(crate) type Find<'a> = &'a dyn Fn(&GuestSpec) -> Result<Box<dyn Program>, Error>;

/// Checks everything that does not need the machine, and makes its inputs.
pub(crate) fn prepare(
    find: Find<'_>,
    options: &RecordOptions,
    plain: bool,
    observer: &mut dyn Observer,
) -> Result<Prepared, Error> {
    let (opened, given) = (kernel_file::open(options)?, options);
    let options = &*opened.options.clone();
    let profile = options.check()?;
    let program = find(&options.guest)?;
    program.check(&options.guest, profile.spared_devices, profile.yields)?;
    plain_machine::check(&options.guest, &*program)?;
    // A watched variable needs the kernel at the addresses of its image.
    let fixed_address = options.guest.fixed_address || options.observe.watch.is_some();
    // A VMM that does not show the guest's memory cannot give the kernel's log and trace: they are not requested.
    let trace_events = options.guest.trace_events && program.shows_memory();
    let fixed = GuestSpec { fixed_address, trace_events, ..options.guest.clone() };
    let is_readable = !plain && program.shows_memory();
    let trace = if is_readable { trace_image(&options.guest, &profile)? } else { None };
    let has_events = plain || tracers::has_events(&options.guest, &profile);
    let trace_in_memory = matches!(trace, Some(Ok(_)));
    let adds = if plain { Added::Plain } else { Added::Recorded { trace_in_memory, has_events } };
    let line = kernel_line(&fixed, arch::of(&options.guest), &profile, adds)?;
    let (trace, untraced) = match trace.transpose() {
        Ok(trace) => (trace, None),
        Err(why) if matches!(options.guest.until, Until::Process(_)) => {
            let why =
                text![Field::Until.is("process:"), format!(" a process is found by the kernel's image, and {why}")];
            return Err(Error::refused(Field::Until, why, ""));
        }
        Err(why) => (None, Some(format!("the kernel's trace is not recorded, and its log has to do: {why}"))),
    };
    let symbols = options.observe.symbols.iter().map(symbols::list).collect::<Result<Vec<Vec<u8>>, Error>>()?;
    let plan = if plain { None } else { Plan::of(&options.guest, &options.observe, arch::of(&options.guest))? };
    let modules = modules(options)?;
    let initrd = initrd(options, &line, &modules)?;
    let host = host::host();
    let inputs = inputs(given)?;
    let kernel_sha256 = inputs.iter().find(|input| InputRole::Kernel.is(&input.role)).map_or("", |input| &input.sha256);
    let choice = match options.guest.target.board() {
        Some(_) => accel::Choice { kvm: false, note: None },
        None => accel::choose(options, &*program, &host, kernel_sha256, observer)?,
    };
    let oddity = options.initrd_oddity()?.map(|oddity| format!("{oddity}; at most it is the image of a root disk"));
    let mut manifest = Manifest {
        time_base: if options.guest.deterministic { TimeBase::GuestVirtual } else { TimeBase::Host },
        subject: subject(&options.guest, &profile, choice.kvm),
        vmm: Vmm {
            path: program.path().display().to_string(),
            version: program.version().to_owned(),
            ..Vmm::default()
        },
        host,
        inputs,
        how: serde_json::to_value(given).expect("options are plain data"),
        notes: choice
            .note
            .into_iter()
            .chain(oddity.map(Text::from))
            .chain(opened.note.clone().map(Text::from))
            .chain(line.note.clone())
            .chain(untraced.map(Text::from))
            .chain((!has_events).then(|| tracers::NO_EVENTS.into()))
            .chain(unseen(&*program))
            .chain(plain_machine::notes(&options.guest, &*program))
            .chain(profile.notes.iter().cloned().map(Text::from))
            .map(|note| note.in_words(observer.words()).to_string())
            .collect(),
        ..Manifest::begun_now()
    };
    // If the user has no key, the recording is not sealed, and another boot takes fewer options from it.
    if let Ok(sealer) = Sealer::of_user() {
        manifest.seal_with(&sealer);
    }
    let measured = manifest.measured();
    manifest.overhead = options.overheads.iter().find(|overhead| overhead.of == measured).cloned();
    Ok(Prepared { opened, program, profile, kvm: choice.kvm, line, initrd, symbols, plan, trace, manifest })
}

/// A note on the evidence that this VMM cannot give and on how to get some of it; `None` if it shows the guest's memory.
fn unseen(program: &dyn Program) -> Option<Text> {
    (!program.shows_memory()).then(|| {
        text![
            format!("{} shows no guest memory, so only what the console prints is recorded: ", program.name()),
            Field::Append.is("'initcall_debug ignore_loglevel'"),
            " has the kernel print its initcalls"
        ]
    })
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
            let stopped = watch.is_hurried();
            // First, because the guest goes on writing into its trace until it is read.
            let traced = trace(prepared.trace.as_ref().filter(|_| options.guest.trace_events), watch, &mut ending);
            let take_names = |ending: &mut Ending, watch: &mut Watch<'_>| match followed && !stopped {
                true => kernels_names(options, watch, ending),
                false => Ok(()),
            };
            let named = traced.and_then(|()| take_names(&mut ending, watch));
            if let Some(missed) = watch.facts.missed.as_ref().filter(|_| ending.kind != OutcomeKind::Unpatched) {
                ending.add_note(missed.clone());
            }
            if let Some(instead) = watch.instead_of_unit().filter(|_| is_without_mark(ending.kind)) {
                ending.add_note(instead);
            }
            let failed = named
                .and_then(|()| silences(options, watch, stopped))
                .and_then(|()| variable(watch))
                .and_then(|()| firmware_images(watch))
                .and_then(|()| last_evidence(options, profile, watch, &mut ending))
                .err();
            if stopped && followed && options.guest.kernel.is_some() && !watch.transfer.has("kallsyms") {
                let unnamed = "stopped by the user, so the kernel's image was not searched for the names of functions";
                ending.add_note(text![unnamed, ": end it with ", Field::Timeout, " to have them"]);
            }
            (ending, failed)
        }
        Err(error) => {
            let why = format!("recording could not go on: {error}");
            (cut_short(options, profile, &watch.facts, watch.vm.elapsed_ns(), &why), Some(error))
        }
    }
}

/// True if the end mark of a boot that ended this way may be one that never comes.
fn is_without_mark(kind: OutcomeKind) -> bool {
    use OutcomeKind::{Hang, Interrupted, PowerOff, Reset, Timeout};
    matches!(kind, Timeout | PowerOff | Reset | Hang | Interrupted)
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

/// The way to read the trace of a guest with its own init in its memory, by its kernel's image; or the reason why it cannot be read. `None`
/// if there is no such trace.
///
/// # Errors
/// If the image cannot be read.
fn trace_image(guest: &GuestSpec, profile: &GuestProfile) -> Result<Option<Result<TraceImage, String>>, Error> {
    let is_used = guest.trace_events || matches!(guest.until, Until::Process(_));
    let Some(kernel) = guest.kernel.as_ref().filter(|_| !guest.has_guest_init() && is_used) else {
        return Ok(None);
    };
    if !profile.takes_linux_words {
        return Ok(None);
    }
    let arch = arch::of(guest);
    if !arch.reads_kernels {
        return Ok(Some(Err(format!("kernels of {} cannot be read in memory yet", arch.facts.name))));
    }
    let image = recording::read_regular(kernel, recording::BYTES_MAX).map_err(Error::unreadable(kernel))?;
    Ok(Some(TraceImage::of(&image).map_err(|why| why.to_string())))
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

/// The kernel modules that mounting the root needs.
fn modules(options: &RecordOptions) -> Result<Vec<Module>, Error> {
    match (&options.guest.kernel, root::modules(&options.guest)?) {
        (Some(kernel), names) if !names.is_empty() => modules::needed(arch::of(&options.guest), kernel, &names),
        _ => Ok(Vec::new()),
    }
}

/// The initrd that the machine gets: guest-init's archive in front of the user's own.
fn initrd(options: &RecordOptions, line: &KernelLine, modules: &[Module]) -> Result<Option<File>, Error> {
    let users = options.guest.initrd.as_deref().map(open).transpose()?;
    if !options.guest.has_guest_init() && options.guest.init != Init::Mute {
        return Ok(users);
    }
    let elf = process_1(&options.guest)?;
    let mut both = memory_file("bootscope-initrd")?;
    both.write_all(&guest_init::cpio::archive(&elf, &config(options, line, modules)?, modules))
        .map_err(Error::host("write the initrd to memory"))?;
    if let Some(mut users) = users {
        io::copy(&mut users, &mut both).map_err(Error::host("copy the initrd to memory"))?;
    }
    Ok(Some(both))
}

/// The ELF file of bootscope's process 1 for a guest.
fn process_1(guest: &GuestSpec) -> Result<Vec<u8>, Error> {
    let name = match &arch::of(guest).guest_init {
        GuestInit::File(name) => name,
        GuestInit::Made(make) => {
            let head = guest.kernel.as_deref().map(file_head::head).transpose()?;
            return Ok(make(&head.unwrap_or_default()));
        }
    };
    let missing = || Error::LibraryMissing {
        missing: library::missing(name),
        instead: text![", or record the guest's own process 1 with ", Field::Init.is("keep")],
    };
    let elf = library::find(name).ok_or_else(missing)?;
    std::fs::read(&elf).map_err(Error::unreadable(&elf))
}

fn config(options: &RecordOptions, line: &KernelLine, modules: &[Module]) -> Result<Config, Error> {
    let mut config = Config {
        then: match options.guest.then {
            Then::PowerOff => config::Then::PowerOff,
            Then::Exec => config::Then::Exec,
        },
        init: line.rdinit.clone(),
        modules: modules.iter().map(|module| module.file.clone()).collect(),
        root: root::for_guest(&options.guest)?,
        workload: options.guest.workload.clone(),
        serial: serial_registers(&options.guest),
        ..Config::default()
    };
    if options.guest.deterministic {
        // If it slept, such a guest would skip its waiting time instead of waiting.
        config.spin_ms = config.wait_ms;
    }
    Ok(config)
}

/// Physical address of the serial port's registers, if the guest's messages go through one.
fn serial_registers(guest: &GuestSpec) -> Option<u64> {
    match channel(guest)?.wire() {
        Wire::SerialPort { registers, .. } => Some(registers),
        Wire::IoPort(_) | Wire::VirtioConsole(_) => None,
    }
}

fn open(path: &Path) -> Result<File, Error> {
    recording::open_regular(path).map_err(Error::unreadable(path))
}

fn inputs(options: &RecordOptions) -> Result<Vec<Input>, Error> {
    let kernel = options.guest.kernel.iter().map(|path| (InputRole::Kernel, path, true));
    let initrd = options.guest.initrd.iter().map(|path| (InputRole::Initrd, path, true));
    let dtb = options.guest.dtb.iter().map(|path| (InputRole::Dtb, path, true));
    let bios = options.guest.bios.iter().map(|path| (InputRole::Bios, path, true));
    let disks = options.guest.disks.iter().map(|path| (InputRole::Disk, path, false));
    let root = options.guest.root.iter().map(|path| (InputRole::Root, path, false));
    let symbols = options.observe.symbols.iter().map(|file| (InputRole::Symbols, &file.path, true));
    let all = kernel.chain(initrd).chain(dtb).chain(bios).chain(root).chain(disks).chain(symbols);
    all.map(|(role, path, hashed)| image::input(role, path, hashed)).collect()
}

fn subject(guest: &GuestSpec, profile: &GuestProfile, kvm: bool) -> Subject {
    let machine = match &guest.target {
        Target::Vmm { kind: VmmKind::Qemu, .. } => guest.machine.clone(),
        Target::Vmm { kind, .. } => kind.as_str().to_owned(),
        // The evidence tells which system it is.
        Target::Board(_) => return Subject { machine: "board".to_owned(), ..Subject::default() },
    };
    Subject {
        os: profile.os.to_owned(),
        kernel: profile.kernel.clone(),
        machine,
        accelerator: if kvm { Accel::Kvm } else { Accel::Tcg }.as_str().to_owned(),
        cpus: guest.cpus,
        memory_bytes: guest.memory_bytes,
    }
}

#[cfg(test)]
mod tests;
