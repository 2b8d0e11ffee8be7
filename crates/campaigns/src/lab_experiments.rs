//! Boots experiments of the reference kernel, whose slow spots are known, slow and with each remedy.

use crate::{Watcher, files, opened_boot};
use anyhow::{Context, bail};
use lab::cpio::root_image;
use lab::experiments::Experiment;
use machine::Target;
use recording::OutcomeKind;
use report::{Lab, LabBoot, LabTrial};
use std::path::PathBuf;

/// The time without progress after which a lab boot counts as hung. A DELAY of seconds stays at one place of code, and on a
/// busy host it takes minutes.
const HANG_AFTER_MS: u64 = 300_000;

/// The stream with the kernel's output.
const CONSOLE: &str = "console.log";

/// The user's request for boots of experiments.
pub struct Request {
    /// The folder of the recordings.
    pub into: PathBuf,
    /// True to replace recordings that are there.
    pub force: bool,
    /// The QEMU to start, if not the usual one.
    pub qemu: Option<PathBuf>,
}

/// Boots the experiments one after the other, slow and with each remedy.
///
/// # Errors
/// If a boot cannot be recorded, or does not reach its end mark.
pub fn boot_experiments(
    experiments: &[&'static Experiment],
    request: &Request,
    watcher: &mut dyn Watcher,
) -> anyhow::Result<Lab> {
    Bench { request, vmm: String::new(), watcher }.run(experiments)
}

struct Bench<'a> {
    request: &'a Request,
    vmm: String,
    watcher: &'a mut dyn Watcher,
}

impl Bench<'_> {
    fn run(&mut self, experiments: &[&'static Experiment]) -> anyhow::Result<Lab> {
        let mut trials = Vec::new();
        for experiment in experiments {
            let (slow, slow_console) = self.boot(experiment, experiment.slow)?;
            let slow = slow.boot(None)?;
            let slow = LabBoot { boot: &slow, console: &slow_console };
            for remedy in experiment.remedies {
                let (fast, console) = self.boot(experiment, remedy)?;
                let fast = LabBoot { boot: &fast.boot(None)?, console: &console };
                trials.push(LabTrial::of(experiment, remedy, slow, fast));
            }
        }
        self.watcher.clear();
        Ok(Lab::new(&self.vmm, trials))
    }

    /// Makes a root image among the recordings.
    fn root(&self, bytes: u32) -> anyhow::Result<PathBuf> {
        let path = self.request.into.join(format!("root-{}M.cpio", bytes >> 20));
        let mut image = Vec::new();
        root_image(bytes, |part| image.extend(part));
        std::fs::create_dir_all(&self.request.into)
            .with_context(|| format!("cannot make {}", self.request.into.display()))?;
        // Overwrite an existing image: its content is always the same.
        files::write_file(&path, true, |out| out.write_all(&image))?;
        Ok(path)
    }

    /// Records a boot. Returns the opened recording and the kernel's output.
    fn boot(&mut self, experiment: &Experiment, words: &str) -> anyhow::Result<(opened_boot::OpenedBoot, String)> {
        let name = format!("{}-{}", experiment.name, words.replace(' ', "-"));
        self.watcher.announce_boot(&name);
        let mut options = machine::lab().map_err(|error| error.in_words(self.watcher.observer().words()))?;
        options.guest.append = format!("{} {words}", experiment.always).trim_start().to_owned();
        options.guest.cpus = experiment.machine.cpus;
        options.guest.memory_bytes = experiment.machine.memory_bytes;
        options.guest.deterministic = true;
        options.observe.hang_after_ms = HANG_AFTER_MS;
        options.out = self.request.into.join(name);
        options.force = self.request.force;
        if experiment.machine.root_bytes > 0 {
            options.guest.initrd = Some(self.root(experiment.machine.root_bytes)?);
        }
        options.guest.extra.extend(experiment.machine.arguments.iter().map(|&argument| argument.to_owned()));
        if let Some(qemu) = &self.request.qemu {
            options.guest.target = Target::qemu(qemu);
        }
        let recorded = machine::record(&options, self.watcher.observer())?;
        if recorded.outcome.kind != OutcomeKind::Reached {
            bail!("{}: {}", options.guest.append, recorded.manifest.outcome_word());
        }
        self.vmm = recorded.manifest.vmm.version;
        let opened = opened_boot::open(&options.out)?;
        let console = opened.recording.read(CONSOLE)?.unwrap_or_default();
        Ok((opened, String::from_utf8_lossy(&console).into_owned()))
    }
}
