//! Makes the kernels and initrds that remedies boot. Kernels are unpacked or built from sources, initrds are unpacked.
//! Each is a file in the cache that never changes later.

use super::change_error::ChangeError;
use benchmark::tree::{BuiltKernel, Sources, Tree, TreeError};
use findings::Change;
use machine::kernel_image::{NotUnpacked, unpack};
use machine::{RecordOptions, initrd};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The maker of kernels and initrds.
pub struct Kernels<'a> {
    cache: PathBuf,
    sources: Option<Sources>,
    /// The opened sources, once they are needed. A resumed trial needs none if all its kernels are built.
    tree: OnceCell<Tree>,
    /// The built kernels, by their changes to the configuration.
    built: BTreeMap<Vec<String>, BuiltKernel>,
    stop: Box<dyn FnMut() -> bool>,
    /// Prints a remark for the user.
    note: Box<dyn Fn(&str) + 'a>,
}

#[cfg(test)]
impl Kernels<'_> {
    /// Kernels without sources, in a cache that does not exist.
    pub fn without_sources() -> Kernels<'static> {
        Kernels::new("no-cache".into(), None, Box::new(|| false), Box::new(|_| {}))
    }
}

/// The folder of unpacked files in the cache.
const UNPACKED: &str = "unpacked";
/// The most options that are named as side changes.
const MAX_NAMED_OPTIONS: usize = 8;

impl<'a> Kernels<'a> {
    /// A maker that has not opened anything yet.
    pub fn new(
        cache: PathBuf,
        sources: Option<Sources>,
        stop: Box<dyn FnMut() -> bool>,
        note: Box<dyn Fn(&str) + 'a>,
    ) -> Kernels<'a> {
        Kernels { cache, sources, tree: OnceCell::new(), built: BTreeMap::new(), stop, note }
    }

    /// Opens the sources on the first call, if there are any.
    pub fn open(&self) -> Result<Option<&Tree>, TreeError> {
        let Some(sources) = &self.sources else { return Ok(None) };
        if let Some(tree) = self.tree.get() {
            return Ok(Some(tree));
        }
        let opened = Tree::open(sources.clone())?;
        Ok(Some(self.tree.get_or_init(|| opened)))
    }

    /// The kernel of the sources with their configuration unchanged; `None` without sources.
    pub fn base(&mut self) -> Result<Option<PathBuf>, TreeError> {
        if self.sources.is_none() {
            return Ok(None);
        }
        self.build(&[]).map(Some)
    }

    /// Boots the unpacked content of the guest's kernel image.
    pub fn unpack(&self, options: &mut RecordOptions) -> Result<(), ChangeError> {
        if options.guest.root.is_some() {
            return Err(ChangeError::NoModules);
        }
        match unpack(&options.guest, &self.cache.join(UNPACKED)) {
            Ok(kernel) => options.guest.kernel = Some(kernel),
            Err(NotUnpacked::IsSo) => return Err(ChangeError::AlreadyMade),
            Err(why) => return Err(ChangeError::NoKernel(why.to_string())),
        }
        Ok(())
    }

    /// Boots with the guest's own initrd, not compressed.
    pub fn unpack_initrd(&self, options: &mut RecordOptions) -> Result<(), ChangeError> {
        match initrd::unpack(&options.guest, &self.cache.join(UNPACKED)) {
            Ok(initrd) => options.guest.initrd = Some(initrd),
            Err(initrd::NotUnpacked::IsSo) => return Err(ChangeError::AlreadyMade),
            Err(why) => return Err(ChangeError::NoInitrd(why.to_string())),
        }
        Ok(())
    }

    /// Checks that the sources can be built with a change to the configuration. Builds nothing.
    pub fn check_config(&self, changes: &[String]) -> Result<(), ChangeError> {
        self.open_changes(changes).map(drop)
    }

    fn open_changes(&self, changes: &[String]) -> Result<Vec<String>, ChangeError> {
        let Some(tree) = self.open().map_err(cannot)? else { return Err(ChangeError::NoSources(changes.join(","))) };
        tree.open_changes(changes).map_err(cannot)
    }

    /// Refuses options from the user that the sources do not have.
    pub fn refuse_unknown(&self, changes: &[String]) -> Result<(), TreeError> {
        self.open()?.map_or(Ok(()), |tree| tree.refuse_unknown(changes))
    }

    /// Boots the kernel of the sources with these changes to their configuration.
    pub fn configure(&mut self, changes: &[String], options: &mut RecordOptions) -> Result<(), ChangeError> {
        let open = self.open_changes(changes)?;
        options.guest.kernel = Some(self.build(&open).map_err(cannot)?);
        Ok(())
    }

    fn build(&mut self, changes: &[String]) -> Result<PathBuf, TreeError> {
        if let Some(built) = self.built.get(changes) {
            return Ok(built.image.clone());
        }
        self.open()?;
        let Some(tree) = self.tree.get() else { unreachable!("only sources are built") };
        let what = if changes.is_empty() { "its configuration unchanged".to_owned() } else { changes.join(",") };
        (self.note)(&format!("building the kernel with {what}; logs and builds are in {}", tree.builds().display()));
        let built = tree.build(changes, &mut self.stop, &self.note)?;
        if !built.along.is_empty() {
            let named: Vec<&str> = built.along.iter().take(MAX_NAMED_OPTIONS).map(String::as_str).collect();
            let more = if built.along.len() > MAX_NAMED_OPTIONS { ", …" } else { "" };
            let (count, named) = (built.along.len(), named.join(", "));
            (self.note)(&format!("with {what}, the configuration changes {count} more: {named}{more}"));
        }
        let image = built.image.clone();
        self.built.insert(changes.to_vec(), built);
        Ok(image)
    }
}

fn cannot(why: TreeError) -> ChangeError {
    match why {
        TreeError::IsSo(_) => ChangeError::AlreadyMade,
        TreeError::Stopped(_) => ChangeError::Stopped(why.to_string()),
        why => ChangeError::NoKernel(why.to_string()),
    }
}

impl Kernels<'_> {
    /// The options that changed as a side effect when these changes were built.
    pub fn along(&self, changes: &[Change]) -> Vec<String> {
        let config = in_order(changes).into_iter().find_map(|change| match change {
            Change::KernelConfig(options) => Some(options),
            _ => None,
        });
        let Some(open) = config.and_then(|options| self.open_changes(&options).ok()) else { return Vec::new() };
        self.built.get(&open).map(|built| built.along.clone()).unwrap_or_default()
    }
}

/// All changes in a possible order: one configuration first, which builds the kernel, and unpacking last.
pub fn in_order(changes: &[Change]) -> Vec<Change> {
    let mut config: Vec<String> = Vec::new();
    let (mut others, mut unpacks) = (Vec::new(), false);
    for change in changes {
        match change {
            Change::KernelConfig(options) => config.extend(options.iter().cloned()),
            Change::UnpackedKernel => unpacks = true,
            other => others.push(other.clone()),
        }
    }
    config.sort();
    config.dedup();
    let config = (!config.is_empty()).then_some(Change::KernelConfig(config));
    config.into_iter().chain(others).chain(unpacks.then_some(Change::UnpackedKernel)).collect()
}

/// The configuration file that a package installed with a kernel: beside the kernel, if the user chose that kernel, or
/// in /boot. A file beside the kernel in another user's recording may come from that user, and make expands what a
/// configuration contains.
pub fn packaged_config(kernel: &Path, release: &str, is_own: bool) -> Option<PathBuf> {
    // The release comes from a recording, so it must not lead to another folder.
    let name = Some(format!("config-{release}")).filter(|name| !name.contains('/'))?;
    let beside_kernel =
        kernel.canonicalize().ok().filter(|_| is_own).and_then(|kernel| Some(kernel.parent()?.join(&name)));
    beside_kernel.into_iter().chain([Path::new("/boot").join(&name)]).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_one_build_and_unpacking_is_last() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let append = Change::AppendWords(words("quiet"));
        let all = [
            Change::UnpackedKernel,
            Change::KernelConfig(words("-USB -FTRACE")),
            append.clone(),
            Change::KernelConfig(words("-ATA -USB")),
        ];
        let config = Change::KernelConfig(words("-ATA -FTRACE -USB"));
        assert_eq!(in_order(&all), [config, append.clone(), Change::UnpackedKernel]);
        assert_eq!(in_order(std::slice::from_ref(&append)), [append]);
    }

    #[test]
    fn a_configuration_beside_a_strangers_kernel_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let (kernel, config) = (folder.path().join("vmlinuz"), folder.path().join("config-6.1-none-such"));
        std::fs::write(&kernel, "").unwrap();
        std::fs::write(&config, "CONFIG_LOCALVERSION=\"$(shell id)\"\n").unwrap();
        let of = |is_own| packaged_config(&kernel, "6.1-none-such", is_own);
        assert_eq!((of(true), of(false)), (Some(config.canonicalize().unwrap()), None));
    }

    #[test]
    fn a_build_that_the_user_stops_says_nothing_of_the_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        file("linux/Makefile", "olddefconfig:\n\t@sleep 60\n");
        // The user stops while it runs, not after it has failed.
        let script = file("linux/scripts/config", "#!/bin/sh\nsleep 60\n");
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let config = file("config", "CONFIG_FTRACE=y\n");
        let cache = folder.path().join("cache");
        let sources = Sources::of(folder.path().join("linux"), config, cache.clone()).unwrap();
        let mut kernels = Kernels::new(cache, Some(sources), Box::new(|| true), Box::new(|_| {}));
        let why = kernels.configure(&["-FTRACE".to_owned()], &mut RecordOptions::default()).unwrap_err();
        assert!(matches!(why, ChangeError::Stopped(_)), "{why:?}");
    }
}
