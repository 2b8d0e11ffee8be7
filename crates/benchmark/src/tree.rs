//! Builds a Linux kernel from its sources, with a given configuration and with options of it switched on or off.
//!
//! The build folder of the unchanged configuration (`make O=`) is kept, so that later builds are incremental. The folder of a
//! changed configuration starts as a copy of it, and is removed after its image is stored. One process builds at a time. The
//! sources are only read. Every build uses the same user, host and date, so that equal sources and options give the same
//! kernel.

mod kconfig;

use crate::hex;
use crate::process_group::{self, CommandEnd};
use kconfig::{Config, KconfigFacts};
use recording::{Locked, SMALL_BYTES_MAX, read_regular, read_regular_text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Sources of a kernel, and the configuration of its build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sources {
    /// The top folder of the sources.
    pub tree: PathBuf,
    /// The configuration: a file in the format of `.config`.
    pub config: PathBuf,
    /// SHA-256 of the configuration's content. Empty if it was not recorded.
    #[serde(default)]
    pub config_sha256: String,
    /// Folder of the builds. Empty if it was not recorded.
    #[serde(default)]
    pub cache: PathBuf,
}

impl Sources {
    /// Sources with the hash of the configuration's present content.
    ///
    /// # Errors
    /// If the configuration cannot be read.
    pub fn of(tree: PathBuf, config: PathBuf, cache: PathBuf) -> Result<Sources, TreeError> {
        let given = read_regular(&config, SMALL_BYTES_MAX).map_err(failed("read", &config))?;
        Ok(Sources { tree, config, config_sha256: hex(&Sha256::digest(given)), cache })
    }
}

/// Sources that are ready to build.
#[derive(Debug)]
pub struct Tree {
    sources: Sources,
    /// Content of the given configuration when the tree was opened.
    given: String,
    /// Folder of all builds of these sources with this configuration.
    builds: PathBuf,
}

/// A kernel that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltKernel {
    /// Path of the image, which no later build changes.
    pub image: PathBuf,
    /// Options that differ from the unchanged configuration although no change of them was requested.
    pub along: Vec<String>,
}

/// An error in building a kernel.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The folder does not contain Linux's sources.
    #[error("{0} has no Makefile and scripts/config: give the top folder of Linux's sources")]
    NotATree(PathBuf),
    /// A kernel was built in the sources' folder.
    #[error(
        "{0} was built in, and Linux builds elsewhere only from clean sources: copy its .config, run `make mrproper` there, \
         and give the copy with --base-config"
    )]
    NotClean(PathBuf),
    /// The configuration has changed since the try began.
    #[error("{0} has another content than when the try began: put back what it had, or begin a new try")]
    OtherConfig(PathBuf),
    /// The text is not a change of an option.
    #[error("`{0}` is no change of an option: write -NAME to switch CONFIG_NAME off, +NAME to switch it on")]
    Form(String),
    /// No Kconfig file has the option.
    #[error("CONFIG_{0} is no option of these sources")]
    Unknown(String),
    /// The configuration has all of the changes already.
    #[error("the configuration has {0} already")]
    IsSo(String),
    /// Another option, or the option's own conditions, prevent the change.
    #[error("{option} did not take: {why}")]
    DidNotTake {
        /// The requested change.
        option: String,
        /// The reason why the option stays.
        why: String,
    },
    /// A step of the build failed.
    #[error("`{step}` failed ({status}); its log {log} ends with:\n{last_lines}")]
    Failed {
        /// The command.
        step: String,
        /// The command's exit status.
        status: String,
        /// Path of its log.
        log: PathBuf,
        /// The last lines of the log.
        last_lines: String,
    },
    /// The user stopped the build.
    #[error("the build was stopped; what is built is kept in {0}")]
    Stopped(PathBuf),
    /// The system refused.
    #[error("cannot {doing} {path}: {why}{advice}", advice = recording::advice(why))]
    Io {
        /// The operation: `write`, …
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
}

/// Path of the image in a build folder.
const IMAGE: &str = "arch/x86/boot/bzImage";
/// Name of the build folder of the unchanged configuration.
const BASE: &str = "base";
/// Name of the file with the unchanged configuration as completed by `make olddefconfig`.
const BASE_CONFIG: &str = "base.config";
/// Name of the lock file, which contains the process that builds.
const LOCK: &str = "lock";
/// Interval between attempts to take the lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Variables of the user's environment that make `make` build something else, or in another place.
const NOT_INHERITED: [&str; 10] = [
    "MAKEFLAGS",
    "MFLAGS",
    "MAKELEVEL",
    "MAKEFILES",
    "GNUMAKEFLAGS",
    "KBUILD_OUTPUT",
    "KBUILD_EXTMOD",
    "M",
    "KCONFIG_CONFIG",
    "KCONFIG_ALLCONFIG",
];
/// Number of hexadecimal digits in the names of folders and kernels.
const NAME_DIGITS: usize = 16;
/// Number of lines shown of a log.
const LAST_LINES: usize = 15;
/// The time of a build is unknown, so there is no limit; the user can stop it.
const NO_TIMEOUT: Duration = Duration::MAX;

impl Tree {
    /// Checks that the sources can be built.
    ///
    /// # Errors
    /// If the folder does not contain Linux's sources or is not clean, or if the configuration cannot be read or has changed.
    pub fn open(sources: Sources) -> Result<Tree, TreeError> {
        let tree = &sources.tree;
        if !tree.join("Makefile").is_file() || !tree.join("scripts/config").is_file() {
            return Err(TreeError::NotATree(tree.clone()));
        }
        // Linux's Makefile checks the same before it builds in another folder.
        if tree.join(".config").exists() || tree.join("include/config").exists() {
            return Err(TreeError::NotClean(tree.clone()));
        }
        let given = read_regular_text(&sources.config, SMALL_BYTES_MAX).map_err(failed("read", &sources.config))?;
        if !sources.config_sha256.is_empty() && sources.config_sha256 != hex(&Sha256::digest(&given)) {
            return Err(TreeError::OtherConfig(sources.config.clone()));
        }
        let name = tree.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let key = digest(format!("{}\0{given}", tree.display()).as_bytes());
        let builds = sources.cache.join("trees").join(format!("{name}-{key}"));
        Ok(Tree { sources, given, builds })
    }

    /// Folder of the builds.
    #[must_use]
    pub fn builds(&self) -> &Path {
        &self.builds
    }

    /// Returns the changes that the configuration does not have yet. Uses the configuration completed by `make olddefconfig` if it
    /// exists. Without it, an option that the configuration does not name may get any value, so its change counts as open.
    ///
    /// # Errors
    /// If a text is not a change of an option, or if the configuration has all changes already.
    pub fn open_changes(&self, changes: &[String]) -> Result<Vec<String>, TreeError> {
        let completed = fs::read_to_string(self.builds.join(BASE_CONFIG)).ok();
        let config = Config::parse(completed.as_deref().unwrap_or(&self.given));
        let mut open = BTreeSet::new();
        for change in changes {
            let (option, on) = parse(change)?;
            let has_change = match config.value(option) {
                Some("n") => !on,
                // A module is not in the image, so only a built-in option counts as on.
                Some("y") => on,
                Some(_) => false,
                None => !on && completed.is_some(),
            };
            if !has_change {
                open.insert(change.clone());
            }
        }
        if open.is_empty() {
            return Err(TreeError::IsSo(changes.join(",")));
        }
        Ok(open.into_iter().collect())
    }

    /// Refuses options that these sources do not have.
    ///
    /// # Errors
    /// If there is such an option, or a text is not a change of an option.
    pub fn refuse_unknown(&self, changes: &[String]) -> Result<(), TreeError> {
        let options = changes.iter().map(|change| Ok(parse(change)?.0)).collect::<Result<Vec<&str>, TreeError>>()?;
        let facts = KconfigFacts::read(&self.sources.tree, &options);
        match options.iter().find(|option| !facts.has(option)) {
            Some(unknown) => Err(TreeError::Unknown((*unknown).to_owned())),
            None => Ok(()),
        }
    }

    /// Builds the kernel with these changes to the configuration: `-NAME` and `+NAME`. Calls `stop` regularly and ends the build if
    /// it returns true. Calls `note` with a message while another process builds.
    ///
    /// # Errors
    /// If a change cannot be parsed or does not take effect, or if the kernel does not build.
    pub fn build(
        &self,
        changes: &[String],
        stop: &mut dyn FnMut() -> bool,
        note: &dyn Fn(&str),
    ) -> Result<BuiltKernel, TreeError> {
        changes.iter().try_for_each(|change| parse(change).map(drop))?;
        recording::own_folder(&self.builds).map_err(failed("make the folder", &self.builds))?;
        let _lock = self.lock(stop, note)?;
        let mut build = self.begin(changes, stop)?;
        let folder = build.folder.clone();
        let built = self.build_in(&mut build, changes);
        // The copied folder has gigabytes. It is kept only if the build was interrupted or failed, so that it can continue.
        let is_finished = matches!(built, Ok(_) | Err(TreeError::DidNotTake { .. }));
        if is_finished && !changes.is_empty() {
            fs::remove_dir_all(&folder).map_err(failed("remove", &folder))?;
        }
        built
    }

    fn build_in(&self, build: &mut Build<'_>, changes: &[String]) -> Result<BuiltKernel, TreeError> {
        let before = if changes.is_empty() { self.given.clone() } else { build.read_base()? };
        build.configure(&self.given, changes)?;
        let completed = build.read_config()?;
        let after = Config::parse(&completed);
        self.check_took(changes, &after)?;
        if changes.is_empty() {
            self.write_atomically(&self.builds.join(BASE_CONFIG), completed.as_bytes())?;
        }
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        build
            .step(&format!("make -C \"$BOOTSCOPE_SOURCE\" O=\"$BOOTSCOPE_BUILD\" -j{jobs} bzImage"), "make bzImage")?;
        let made = build.folder.join(IMAGE);
        let image = self.keep(&made)?;
        let requested: BTreeSet<&str> = changes.iter().filter_map(|change| Some(parse(change).ok()?.0)).collect();
        let mut along = if changes.is_empty() { Vec::new() } else { Config::parse(&before).differences(&after) };
        along.retain(|change| !requested.contains(name_of(change)));
        Ok(BuiltKernel { image, along })
    }

    /// Takes the lock that lets one process build at a time. Waits for it.
    fn lock(&self, stop: &mut dyn FnMut() -> bool, note: &dyn Fn(&str)) -> Result<Locked, TreeError> {
        let path = self.builds.join(LOCK);
        let mut is_reported = false;
        loop {
            let file = OpenOptions::new().read(true).append(true).create(true).open(&path);
            if let Ok(locked) = Locked::take(file.map_err(failed("open", &path))?) {
                let me = format!("process {}\n", std::process::id());
                let written = locked.set_len(0).and_then(|()| (&*locked).write_all(me.as_bytes()));
                written.map_err(failed("write", &path))?;
                return Ok(locked);
            }
            if !is_reported {
                is_reported = true;
                let other = fs::read_to_string(&path).unwrap_or_default();
                let other = if other.is_empty() { "another process" } else { other.trim_end() };
                note(&format!("{other} builds in {}: waiting for it", self.builds.display()));
            }
            if stop() {
                return Err(TreeError::Stopped(self.builds.clone()));
            }
            std::thread::sleep(LOCK_POLL_INTERVAL);
        }
    }

    fn begin<'a>(&'a self, changes: &[String], stop: &'a mut dyn FnMut() -> bool) -> Result<Build<'a>, TreeError> {
        let name = match changes {
            [] => BASE.to_owned(),
            changes => digest(changes.join(",").as_bytes()),
        };
        let log = self.builds.join(format!("{name}.log"));
        // Create a new file: a symbolic link in its place is removed, not followed.
        let _ = fs::remove_file(&log);
        let out = File::create_new(&log).map_err(failed("write", &log))?;
        let folder = self.builds.join(&name);
        let mut build = Build { tree: self, folder, log, out, stop };
        build.make_folder()?;
        Ok(build)
    }

    fn check_took(&self, changes: &[String], config: &Config) -> Result<(), TreeError> {
        for change in changes {
            let (option, on) = parse(change)?;
            let took = if on { config.value(option) == Some("y") } else { !config.is_on(option) };
            if !took {
                let facts = KconfigFacts::read(&self.sources.tree, &[option]);
                let why = if on { facts.why_not_on(option, config) } else { facts.why_on(option, config) };
                return Err(TreeError::DidNotTake { option: change.clone(), why });
            }
        }
        Ok(())
    }

    /// Copies the image to a name made from its hash, because a later build overwrites the original.
    fn keep(&self, made: &Path) -> Result<PathBuf, TreeError> {
        let bytes = fs::read(made).map_err(failed("read", made))?;
        let kept = self.builds.join(format!("{}.bzImage", digest(&bytes)));
        if !kept.is_file() {
            self.write_atomically(&kept, &bytes)?;
        }
        Ok(kept)
    }

    /// Writes a file completely or not at all.
    fn write_atomically(&self, path: &Path, bytes: &[u8]) -> Result<(), TreeError> {
        let partial = recording::beside(path).map_err(failed("write", path))?;
        fs::write(partial.path(), bytes).map_err(failed("write", path))?;
        partial.persist(path).map_err(|why| failed("write", path)(why.error)).map(drop)
    }
}

/// A running build.
struct Build<'a> {
    tree: &'a Tree,
    folder: PathBuf,
    log: PathBuf,
    out: File,
    stop: &'a mut dyn FnMut() -> bool,
}

impl Build<'_> {
    /// Makes sure that the build folder exists: reuses one, or copies that of the unchanged configuration, or creates one.
    fn make_folder(&mut self) -> Result<(), TreeError> {
        if self.folder.is_dir() {
            return Ok(());
        }
        if self.tree.builds.join(BASE).join(IMAGE).is_file() {
            // The copy has another name until it is complete, so that an interrupted copy is not taken for a build folder.
            let copy = "rm -rf \"$BOOTSCOPE_BUILD.partial\" && cp -a --reflink=auto base \"$BOOTSCOPE_BUILD.partial\" && \
                        mv \"$BOOTSCOPE_BUILD.partial\" \"$BOOTSCOPE_BUILD\"";
            return self.step(copy, "cp -a base");
        }
        fs::create_dir_all(&self.folder).map_err(failed("make the folder", &self.folder))
    }

    fn configure(&mut self, given: &str, changes: &[String]) -> Result<(), TreeError> {
        let config = self.folder.join(".config");
        fs::write(&config, given).map_err(failed("write", &config))?;
        if !changes.is_empty() {
            let mut words = "\"$BOOTSCOPE_SOURCE\"/scripts/config --file \"$BOOTSCOPE_BUILD\"/.config".to_owned();
            for change in changes {
                let (option, on) = parse(change)?;
                words.push_str(if on { " --enable " } else { " --disable " });
                words.push_str(option);
            }
            self.step(&words, "scripts/config")?;
        }
        self.step("make -C \"$BOOTSCOPE_SOURCE\" O=\"$BOOTSCOPE_BUILD\" olddefconfig", "make olddefconfig")
    }

    fn read_config(&self) -> Result<String, TreeError> {
        let config = self.folder.join(".config");
        fs::read_to_string(&config).map_err(failed("read", &config))
    }

    /// The unchanged configuration, as completed by `make olddefconfig` if that was done.
    fn read_base(&self) -> Result<String, TreeError> {
        let config = self.tree.builds.join(BASE_CONFIG);
        if config.is_file() {
            fs::read_to_string(&config).map_err(failed("read", &config))
        } else {
            Ok(self.tree.given.clone())
        }
    }

    fn step(&mut self, words: &str, name: &str) -> Result<(), TreeError> {
        let command = self.command(words);
        let out = self.out.try_clone().map_err(failed("write", &self.log))?;
        let ended = process_group::run(command, out, NO_TIMEOUT, self.stop)
            .map_err(failed("run a build in", &self.tree.builds))?;
        match ended {
            CommandEnd::Exit(status) if status.success() => Ok(()),
            CommandEnd::Exit(status) => Err(TreeError::Failed {
                step: name.to_owned(),
                status: status.to_string(),
                log: self.log.clone(),
                last_lines: last_lines(&self.log),
            }),
            CommandEnd::Timeout | CommandEnd::Stopped => Err(TreeError::Stopped(self.tree.builds.clone())),
        }
    }

    fn command(&self, words: &str) -> Command {
        let mut command = process_group::command(words, &self.tree.builds);
        command.env("BOOTSCOPE_SOURCE", &self.tree.sources.tree).env("BOOTSCOPE_BUILD", &self.folder);
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        command
            .env("KBUILD_BUILD_TIMESTAMP", "1970-01-01")
            .env("KBUILD_BUILD_USER", "bootscope")
            .env("KBUILD_BUILD_HOST", "bootscope")
            .env("KBUILD_BUILD_VERSION", "1");
        command
    }
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TreeError {
    let path = path.to_owned();
    move |why| TreeError::Io { doing, path, why }
}

/// The name in `-NAME`, `+NAME` or `NAME=VALUE`.
fn name_of(change: &str) -> &str {
    let name = change.trim_start_matches(['-', '+']);
    name.split_once('=').map_or(name, |(name, _)| name)
}

/// Parses `-NAME` or `+NAME`: the option, and true if it is switched on.
fn parse(change: &str) -> Result<(&str, bool), TreeError> {
    let (on, option) = match change.split_at_checked(1) {
        Some(("+", option)) => (true, option),
        Some(("-", option)) => (false, option),
        _ => return Err(TreeError::Form(change.to_owned())),
    };
    let option = option.strip_prefix("CONFIG_").unwrap_or(option);
    let is_name = !option.is_empty() && option.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name { Ok((option, on)) } else { Err(TreeError::Form(change.to_owned())) }
}

fn last_lines(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..NAME_DIGITS / 2])
}

#[cfg(test)]
mod tests;
