//! The findings of an open boot: the machine data for the detectors, and the past trials of its remedies.

use crate::Notes;
use crate::opened_boot::OpenedBoot;
use benchmark::History;
use benchmark::history::PastTrial;
use findings::{Found, Machine, Seen, Vmm};
use recording::{GuestSpec, InputRole, Manifest, Recording, TimeBase};
use report::Boot;
use std::path::Path;
use std::time::Duration;
use timeline::Os;

/// The `max` most valuable findings of a boot. The rules of its operating system define delays, whatever rows the user
/// makes.
pub fn find(opened: &OpenedBoot, max: usize) -> Found {
    with_seen(opened, |seen| findings::find(seen, max))
}

/// All findings of a boot with a price, computed on one CPU, because the other CPUs analyse other boots.
#[cfg(feature = "lakes")]
pub fn find_on_one_cpu(opened: &OpenedBoot) -> Found {
    with_seen(opened, |seen| findings::find_alone(seen, usize::MAX))
}

/// The longest wait for another writer of the history. Past trials only accompany the findings, so a view waits no
/// longer.
const MAX_HISTORY_WAIT: Duration = Duration::from_millis(300);

/// The past trials on the recording's kernel and machine type. If the history cannot be read, adds a remark. A missing
/// history is allowed.
pub fn past_trials(opened: &OpenedBoot, db: Option<&Path>, notes: &dyn Notes) -> Vec<PastTrial> {
    let manifest = opened.recording.manifest();
    let kernel = manifest.inputs.iter().find(|input| InputRole::Kernel.is(&input.role));
    let Some((kernel, guest)) = kernel.zip(GuestSpec::of(&manifest.how)) else { return Vec::new() };
    let Ok(path) = db.map(Path::to_owned).map_or_else(benchmark::history::default_path, Ok) else { return Vec::new() };
    if !path.exists() && db.is_none() {
        return Vec::new();
    }
    let trials = || {
        let history = History::open_existing(&path)?;
        history.wait_at_most(MAX_HISTORY_WAIT)?;
        history.trials(Some((&kernel.sha256, &guest.machine)))
    };
    let mut trials = trials().unwrap_or_else(|why| {
        notes.note(&format!("what was tried before is not known: {why}"));
        Vec::new()
    });
    // A trial counted in instructions says nothing about a boot measured in time, nor the other way round.
    let is_counted = manifest.time_base == TimeBase::GuestVirtual;
    trials.retain(|past| past.deterministic == is_counted);
    trials
}

/// The memory that a guest had left: the minimum before and after its workload. An unreadable file counts as missing,
/// and the recording's diagnostics report it.
fn memory_available(recording: &Recording) -> Option<u64> {
    let files = [evidence::meminfo(recording), evidence::meminfo_after_workload(recording)];
    files.iter().filter_map(|file| file.as_ref().ok()?.bytes("MemAvailable")).min()
}

/// The compression of the user's initrd, if recorded.
fn initrd_compression(manifest: &Manifest) -> Option<String> {
    let initrd = manifest.inputs.iter().find(|input| InputRole::Initrd.is(&input.role))?;
    Some(initrd.compression.clone()).filter(|compression| !compression.is_empty())
}

/// Calls `look` with the boot in the form that detectors read.
pub fn with_seen<T>(opened: &OpenedBoot, look: impl FnOnce(&Seen) -> T) -> T {
    let subject = &opened.facts.subject;
    let recorded_os = Os::of(&subject.os);
    let os = if recorded_os.is_known() { recorded_os } else { opened.timeline.os.clone() };
    let how = &opened.recording.manifest().how;
    // A board has its own command line, and no VMM.
    let guest = GuestSpec::of(how).filter(|guest| !guest.target.is_board());
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
            arguments: firmware_arguments(guest.bios.as_deref()).chain(guest.extra).collect(),
            has_kernel: guest.kernel.is_some(),
            starts_unpacked,
            initrd_compression: initrd_compression(opened.recording.manifest()),
        }),
    };
    let groups = Boot::groups_of(&opened.timeline, &opened.facts);
    look(&Seen::new(&opened.timeline, &groups, &machine))
}

/// The user's firmware as QEMU arguments.
fn firmware_arguments(bios: Option<&Path>) -> impl Iterator<Item = String> {
    bios.into_iter().flat_map(|bios| ["-bios".to_owned(), bios.display().to_string()])
}
