//! The sources that a trial builds kernels from, and the folder of built kernels. Nothing is built here: `kernels` does that.

use super::base_recording::base;
use super::{Request, kernels};
use crate::repeat::is_own;
use crate::{Notes, opened_boot};
use anyhow::{Context, bail};
use benchmark::tree::Sources;
use recording::GuestSpec;
use std::path::{Path, PathBuf};

/// The sources of a resumed trial. Its kernels are in the cache that it began with.
pub(super) fn resumed_sources(kept: Sources, cache: &Path, is_given: bool) -> anyhow::Result<Sources> {
    if kept.cache.as_os_str().is_empty() {
        return Ok(Sources { cache: cache.to_owned(), ..kept });
    }
    if is_given && kept.cache != cache {
        bail!("the try keeps its kernels in {0}: give --cache {0} or none", kept.cache.display());
    }
    Ok(kept)
}

/// The sources for building kernels, if requested.
pub(super) fn sources(
    request: &Request,
    recording: &Path,
    cache: &Path,
    notes: &dyn Notes,
) -> anyhow::Result<Option<Sources>> {
    let Some(tree) = &request.tree else { return Ok(None) };
    let subject = opened_boot::open_recording(recording)?.manifest().subject.clone();
    let guest = base(recording, request.trust_recording, notes)?.guest;
    if let Some(note) = module_note(&guest, recording)? {
        notes.note(note);
    }
    let kernel = guest.kernel.with_context(|| {
        format!("{} was booted from its own disk: --tree replaces a kernel of --kernel", recording.display())
    })?;
    let is_own = is_own(recording)?;
    let config = request.base_config.clone().or_else(|| kernels::packaged_config(&kernel, &subject.kernel, is_own));
    let config = config.with_context(|| {
        let release = &subject.kernel;
        match is_own {
            true => format!("there is no config-{release} beside {} or in /boot: name one with --base-config", kernel.display()),
            false => format!(
                "there is no config-{release} in /boot, and {} was made by another user or on another machine, so what is beside \
                 its kernel is not taken: name one with --base-config",
                recording.display()
            ),
        }
    })?;
    let absolute = |path: &Path| path.canonicalize().with_context(|| format!("cannot use {}", path.display()));
    Ok(Some(Sources::of(absolute(tree)?, absolute(&config)?, cache.to_owned())?))
}

/// The effect of a kernel without modules on this guest, if any.
///
/// # Errors
/// If the guest cannot boot without modules.
fn module_note(guest: &GuestSpec, recording: &Path) -> anyhow::Result<Option<&'static str>> {
    if guest.root.is_some() {
        bail!(
            "{} was recorded with --root, which takes modules of the kernel's release, and --tree builds none: record with \
             an --initrd, or with the root as a disk (--disk) whose drivers are built in",
            recording.display()
        );
    }
    Ok(guest.initrd.as_ref().map(|_| {
        "--tree builds no modules, and those in the initrd are of another kernel: what the boot needs has to be built in"
    }))
}

pub(super) fn default_cache() -> Option<PathBuf> {
    xdg::BaseDirectories::with_prefix("bootscope").get_cache_home()
}

#[cfg(test)]
mod tests {
    use super::super::kernels::Kernels;
    use super::*;

    #[test]
    fn sources_are_refused_where_the_root_takes_modules() {
        let guest = GuestSpec { root: Some("root.img".into()), ..GuestSpec::default() };
        let why = module_note(&guest, Path::new("boots/a")).unwrap_err().to_string();
        assert!(why.contains("boots/a was recorded with --root") && why.contains("--initrd"), "{why}");
        let guest = GuestSpec { initrd: Some("initrd".into()), ..GuestSpec::default() };
        assert!(module_note(&guest, Path::new("boots/a")).unwrap().unwrap().contains("builds no modules"));
        assert_eq!(module_note(&GuestSpec::default(), Path::new("boots/a")).unwrap(), None);
    }

    #[test]
    fn a_try_goes_on_with_the_kernels_that_it_began_with() {
        let kept = Sources { cache: "/kept".into(), ..Sources::default() };
        assert_eq!(resumed_sources(kept.clone(), Path::new("/usual"), false).unwrap().cache, Path::new("/kept"));
        assert!(resumed_sources(kept.clone(), Path::new("/kept"), true).is_ok());
        let why = resumed_sources(kept, Path::new("/other"), true).unwrap_err().to_string();
        assert!(why.contains("--cache /kept"), "{why}");
        let old = resumed_sources(Sources::default(), Path::new("/usual"), false).unwrap();
        assert_eq!(old.cache, Path::new("/usual"));
        // Missing sources do not matter if no kernel is built.
        let kernels = Kernels::new("/usual".into(), Some(old), Box::new(|| false), Box::new(|_| {}));
        assert!(kernels.open().is_err());
    }
}
