//! The booted system, from the manifest and the evidence together.

use crate::assemble::kernel_release::kernel_release;
use crate::assemble::merge::Loaded;
use recording::Recording;

/// The booted system as the recorder or the user stated it; else according to the evidence. For the kernel's release,
/// the evidence comes first, because a manifest may have only the name of the kernel's file.
///
/// # Errors
/// If a file of the recording cannot be read.
pub fn booted(recording: &Recording, loaded: &Loaded) -> Result<recording::Subject, recording::Error> {
    let (manifest, evidence) = (&recording.manifest().subject, &loaded.subject);
    let names = [manifest.os.as_str(), evidence.os.name(), loaded.timeline.os.name()];
    let kernel = match evidence.kernel.is_empty() {
        true => kernel_release(recording)?.unwrap_or_else(|| manifest.kernel.clone()),
        false => evidence.kernel.clone(),
    };
    Ok(recording::Subject {
        os: names.into_iter().find(|name| !name.is_empty()).unwrap_or_default().to_owned(),
        kernel,
        machine: manifest.machine.clone(),
        accelerator: manifest.accelerator.clone(),
        cpus: if manifest.cpus > 0 { manifest.cpus } else { evidence.cpus },
        memory_bytes: if manifest.memory_bytes > 0 { manifest.memory_bytes } else { evidence.memory_bytes },
    })
}
