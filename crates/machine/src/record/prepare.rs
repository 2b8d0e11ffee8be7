//! The preparation of a boot: checks what needs no machine, and makes the inputs: the kernel line, the initrd, and the list of
//! files for the manifest. It starts nothing.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use guest_init::config::{self, Config};
use guest_init::cpio::Module;
use recording::{
    Accel, GuestSpec, Init, Input, InputRole, Manifest, Sealer, Subject, Target, Then, TimeBase, Until, Vmm, VmmKind,
};

use super::channel;
use crate::arch::GuestInit;
use crate::functions::Plan;
use crate::guest_channel::Wire;
use crate::host::memory_file;
use crate::kernel_file::{self, Opened};
use crate::kernel_line::{Added, KernelLine, kernel_line};
use crate::memory::TraceImage;
use crate::options::RecordOptions;
use crate::profile::GuestProfile;
use crate::refusal::{Text, Words, text};
use crate::vmm::Program;
use crate::{
    Error, Field, Observer, accel, arch, file_head, host, image, library, modules, plain_machine, root, symbols,
    tracers, vmm,
};

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
    pub(super) symbols: Vec<Vec<u8>>,
    /// Stops at functions, if the options request any.
    pub(super) plan: Option<Plan>,
    /// The way to read the kernel's trace in the memory of a guest with its own init, if it has one.
    pub(super) trace: Option<TraceImage>,
    pub(super) manifest: Manifest,
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
    let own_notes = choice.note.into_iter().chain(oddity.map(Text::from)).chain(opened.note.clone().map(Text::from));
    let notes = own_notes
        .chain(line.note.clone())
        .chain(untraced.map(Text::from))
        .chain((!has_events).then(|| tracers::NO_EVENTS.into()))
        .chain(unseen(&*program))
        .chain(plain_machine::notes(&options.guest, &*program))
        .chain(profile.notes.iter().cloned().map(Text::from))
        .map(|note| note.in_words(observer.words()).to_string())
        .collect();
    let subject = subject(&options.guest, &profile, choice.kvm);
    let mut manifest = Manifest { subject, host, inputs, notes, ..begun_manifest(options, given, &*program) };
    // If the user has no key, the recording is not sealed, and another boot takes fewer options from it.
    if let Ok(sealer) = Sealer::of_user() {
        manifest.seal_with(&sealer);
    }
    let measured = manifest.measured();
    manifest.overhead = options.overheads.iter().find(|overhead| overhead.of == measured).cloned();
    Ok(Prepared { opened, program, profile, kvm: choice.kvm, line, initrd, symbols, plan, trace, manifest })
}

/// The manifest of a boot that begins now: the options as given, the program, and the time base.
fn begun_manifest(options: &RecordOptions, given: &RecordOptions, program: &dyn Program) -> Manifest {
    Manifest {
        time_base: if options.guest.deterministic { TimeBase::GuestVirtual } else { TimeBase::Host },
        vmm: Vmm {
            path: program.path().display().to_string(),
            version: program.version().to_owned(),
            ..Vmm::default()
        },
        how: serde_json::to_value(given).expect("options are plain data"),
        ..Manifest::begun_now()
    }
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
