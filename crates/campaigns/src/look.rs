//! The findings of a boot that is open: what detectors are told of its machine, and what earlier tries say of its remedies.

use crate::Notes;
use crate::opened::Opened;
use benchmark::History;
use benchmark::history::PastTrial;
use findings::{Found, Machine, Seen, Vmm, find};
use recording::{GuestSpec, InputRole, Manifest, Recording, TimeBase};
use report::Boot;
use std::path::Path;
use std::time::Duration;
use timeline::Os;

/// The most valuable findings of a boot. What is a delay the rules of its system say, whatever rows the user makes.
pub fn look(opened: &Opened, most: usize) -> Found {
    seen(opened, |seen| find(seen, most))
}

/// All findings of a boot that have a price, on one CPU: others look at other boots meanwhile.
#[cfg(feature = "lakes")]
pub fn look_alone(opened: &Opened) -> Found {
    seen(opened, |seen| findings::find_alone(seen, usize::MAX))
}

/// How long to wait for who writes the history: what it says stands beside the findings, and is not what was asked for.
const PATIENCE: Duration = Duration::from_millis(300);

/// What the history says of tries on the recording's kernel and machine type. One that cannot be read is said to be so; there
/// need not be any.
pub fn past_trials(opened: &Opened, db: Option<&Path>, notes: &dyn Notes) -> Vec<PastTrial> {
    let manifest = opened.recording.manifest();
    let kernel = manifest.inputs.iter().find(|input| InputRole::Kernel.is(&input.role));
    let Some((kernel, guest)) = kernel.zip(GuestSpec::of(&manifest.how)) else { return Vec::new() };
    let Ok(path) = db.map(Path::to_owned).map_or_else(benchmark::history::default_path, Ok) else { return Vec::new() };
    if !path.exists() && db.is_none() {
        return Vec::new();
    }
    let trials = || {
        let history = History::open_existing(&path)?;
        history.wait_at_most(PATIENCE)?;
        history.trials(Some((&kernel.sha256, &guest.machine)))
    };
    let mut trials = trials().unwrap_or_else(|why| {
        notes.note(&format!("what was tried before is not known: {why}"));
        Vec::new()
    });
    // Instructions say nothing of a boot that was measured by the clock, nor the other way round.
    let is_counted = manifest.time_base == TimeBase::GuestVirtual;
    trials.retain(|past| past.deterministic == is_counted);
    trials
}

/// How much of its memory a guest had left: after its workload, if that took more. What is lost with a file that cannot be read,
/// the recording says.
fn memory_available(recording: &Recording) -> Option<u64> {
    let said = [evidence::meminfo(recording), evidence::meminfo_after_workload(recording)];
    said.iter().filter_map(|said| said.as_ref().ok()?.bytes("MemAvailable")).min()
}

/// What the user's initrd is compressed with, where the recording says it.
fn initrd_compression(manifest: &Manifest) -> Option<String> {
    let initrd = manifest.inputs.iter().find(|input| InputRole::Initrd.is(&input.role))?;
    Some(initrd.compression.clone()).filter(|compression| !compression.is_empty())
}

/// A boot as detectors see it.
pub fn seen<T>(opened: &Opened, look: impl FnOnce(&Seen) -> T) -> T {
    let subject = &opened.facts.subject;
    let said = Os::of(&subject.os);
    let os = if said.is_known() { said } else { opened.timeline.os.clone() };
    let how = &opened.recording.manifest().how;
    // A board has its own command line, and no VMM.
    let guest = GuestSpec::of(how).filter(|guest| guest.board.is_none());
    let words = |line: &String| line.split_whitespace().map(str::to_owned).collect();
    let starts_unpacked = guest.as_ref().is_some_and(machine::kernel_image::starts_unpacked);
    let machine = Machine {
        kernel_version: findings::kernel_version(&subject.kernel),
        os,
        cpus: subject.cpus,
        memory_bytes: subject.memory_bytes,
        memory_available: memory_available(&opened.recording),
        command_line: guest.as_ref().map(|guest| &guest.append).or(opened.command_line.as_ref()).map(words),
        vmm: guest.map(|guest| Vmm {
            machine_type: guest.machine,
            arguments: chosen_firmware(guest.bios.as_deref()).chain(guest.extra).collect(),
            has_kernel: guest.kernel.is_some(),
            starts_unpacked,
            initrd_compression: initrd_compression(opened.recording.manifest()),
        }),
    };
    let groups = Boot::groups_of(&opened.timeline, &opened.facts);
    look(&Seen::new(&opened.timeline, &groups, &machine))
}

/// Firmware that the user chose, as QEMU is told.
fn chosen_firmware(bios: Option<&Path>) -> impl Iterator<Item = String> {
    bios.into_iter().flat_map(|bios| ["-bios".to_owned(), bios.display().to_string()])
}
