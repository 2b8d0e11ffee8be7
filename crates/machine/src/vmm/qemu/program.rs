//! Finds QEMU, reads its version, and checks whether it loads bootscope's plugin.
//!
//! To run the binary for that costs tens of milliseconds, so the answers are cached while the file is the same (path, size and time of
//! change).

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use recording::GuestSpec;
use serde::{Deserialize, Serialize};

use super::arguments::Cpu;
use super::escape::escaped;
use super::host_devices::host_timed_device;
use super::machine_facts::machine_facts;
use super::{NAME, launch};
use crate::child::ends_with_us;
use crate::library::PLUGIN;
use crate::refusal::text;
use crate::vmm::process::{ask_version, check_program, which};
use crate::vmm::{Launch, MachineFacts, Program, Vmm, WHY_NOT_REPEATED};
use crate::{Error, arch, file_head, kernel_image, library, memo};
use recording::Field;

/// The first version with the option syntax of `-action`, `memory-backend` for every machine, and `-S` with a socket by descriptor.
const OLDEST_VERSION: (u32, u32) = (6, 0);
const OLDEST_VERSION_TEXT: &str = "6.0";

/// The first version known to run Linux on several vCPUs under icount: Linux hangs in 7.2 and works in 10.0. Both work if waiting CPUs
/// use `pause`, which lets the next CPU run.
const OLDEST_VERSION_WITH_ICOUNT_SMP: (u32, u32) = (10, 0);

/// A QEMU binary and its known properties.
#[derive(Clone, Debug)]
pub(crate) struct Qemu {
    path: PathBuf,
    /// Such as `7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)`.
    version: String,
    identity: String,
}

#[derive(Serialize, Deserialize)]
struct Version {
    version: String,
}

/// The environment variable that makes the plugin declare this version of QEMU's interface (`qemu-plugin/src/api.rs`).
const PLUGIN_VERSION: &str = "BOOTSCOPE_QEMU_PLUGIN_VERSION";

#[derive(Serialize, Deserialize)]
struct PluginTaken {
    taken: bool,
    why_not: String,
    /// The version that the plugin has to declare, if it differs from the plugin's default.
    version: Option<u32>,
}

impl Qemu {
    /// Finds the binary, by path or in `$PATH`, and checks its version.
    pub(crate) fn find(binary: &Path) -> Result<Qemu, Error> {
        let missing = || {
            let get = "install QEMU (Debian: apt install qemu-system-x86, for ARM guests qemu-system-arm, for riscv64 \
                       qemu-system-misc or -riscv), or name it with ";
            Error::VmmMissing { binary: binary.to_path_buf(), instead: text![get, Field::Qemu] }
        };
        let path = which(binary).ok_or_else(missing)?;
        let identity = identity(&path).ok_or_else(missing)?;
        let version = match memo::recall::<Version>("qemu", &identity) {
            Some(cached) => cached.version,
            None => {
                let version = ask_version(&path, "QEMU emulator version ")?;
                memo::remember("qemu", &identity, &Version { version: version.clone() });
                version
            }
        };
        match parse_version(&version) {
            Some(number) if number >= OLDEST_VERSION => {
                let option = text![Field::Qemu, ", and give further arguments for it after ", Field::Extra];
                check_program(&path, NAME, option)?;
                Ok(Qemu { path, version, identity })
            }
            _ => Err(Error::VmmTooOld {
                binary: path,
                found: version,
                needed: OLDEST_VERSION_TEXT,
                instead: Field::Qemu.into(),
            }),
        }
    }

    /// Major and minor version.
    fn number(&self) -> (u32, u32) {
        parse_version(&self.version).unwrap_or(OLDEST_VERSION)
    }

    /// The CPU model to request from this QEMU.
    fn cpu(&self, guest: &GuestSpec, kvm: bool) -> Cpu {
        if kvm { Cpu::Host } else { Cpu::Translated(arch::of(guest).cpu(guest, self.number().0)) }
    }

    fn takes(&self, object: &Path) -> PluginTaken {
        let key = format!("{}\n{}", self.identity, identity(object).unwrap_or_default());
        memo::recall("plugin", &key).unwrap_or_else(|| {
            let answer = try_plugin(&self.path, object);
            memo::remember("plugin", &key, &answer);
            answer
        })
    }
}

impl Program for Qemu {
    fn name(&self) -> &'static str {
        NAME
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn check(&self, guest: &GuestSpec, spared: &[&str], yields: bool) -> Result<(), Error> {
        check_entry(guest)?;
        if !guest.deterministic {
            return Ok(());
        }
        if let Some(device) = host_timed_device(&guest.extra, spared) {
            let why = format!(" takes no block or network device, but `{device}` makes one: {WHY_NOT_REPEATED}");
            return Err(Error::refused(Field::Extra, text![Field::Deterministic, why], ""));
        }
        if guest.cpus > 1 && !yields && self.number() < OLDEST_VERSION_WITH_ICOUNT_SMP {
            let hangs = format!(" hangs in QEMU {}", self.version);
            let why = text![Field::Deterministic, " with ", Field::Cpus.is(guest.cpus), hangs];
            return Err(Error::refused(Field::Cpus, why, text!["use ", Field::Cpus.is(1), ", or QEMU 10"]));
        }
        Ok(())
    }

    fn plugin(&self) -> Result<PathBuf, String> {
        let object = library::find(PLUGIN).ok_or_else(|| library::missing(PLUGIN))?;
        match self.takes(&object) {
            PluginTaken { taken: true, .. } => Ok(object),
            PluginTaken { why_not, .. } => Err(format!("this QEMU refuses bootscope's plugin: {why_not}")),
        }
    }

    fn machine_facts(&self, guest: &GuestSpec) -> Option<MachineFacts> {
        machine_facts(&self.path, &self.identity, &guest.machine)
    }

    fn start(&self, launch: &Launch<'_>) -> Result<Box<dyn Vmm>, Error> {
        let environment = launch.instruments.plugin.and_then(|object| plugin_environment(self.takes(object).version));
        Ok(Box::new(launch::start(&self.path, self.cpu(launch.guest, launch.kvm), environment, launch)?))
    }
}

/// Refuses an ELF kernel that QEMU cannot enter.
fn check_entry(guest: &GuestSpec) -> Result<(), Error> {
    let Some(kernel) = &guest.kernel else { return Ok(()) };
    if !kernel_image::lacks_entry(kernel, &file_head::head(kernel)?) {
        return Ok(());
    }
    let why =
        format!("{}: QEMU starts a vmlinux by its PVH note, and it was built without CONFIG_PVH", kernel.display());
    Err(Error::refused(Field::Kernel, why, "give the bzImage that was built with it (arch/x86/boot/bzImage)"))
}

/// A key that changes when the file changes.
fn identity(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let meta = fs::metadata(&path).ok()?;
    Some(format!("{} {} {}.{}", path.display(), meta.len(), meta.mtime(), meta.mtime_nsec()))
}

fn parse_version(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Tries to load the plugin: first with the version that the plugin declares by default, then with the oldest that QEMU accepts.
fn try_plugin(qemu: &Path, object: &Path) -> PluginTaken {
    let by_default = try_plugin_as(qemu, object, None);
    match oldest_accepted(&by_default.why_not) {
        Some(version) if !by_default.taken => match try_plugin_as(qemu, object, Some(version)) {
            with_version if with_version.taken => with_version,
            _ => by_default,
        },
        _ => by_default,
    }
}

/// The version in QEMU's refusal, such as `plugin requires API version 4, but this QEMU supports only a minimum version of 7`.
fn oldest_accepted(why_not: &str) -> Option<u32> {
    let (_, number) = why_not.rsplit_once("supports only a minimum version of ")?;
    number.trim_end().parse().ok()
}

fn plugin_environment(version: Option<u32>) -> Option<(&'static str, String)> {
    version.map(|version| (PLUGIN_VERSION, version.to_string()))
}

/// Loads the plugin into an empty machine, and quits at once.
fn try_plugin_as(qemu: &Path, object: &Path, version: Option<u32>) -> PluginTaken {
    let refused = |why_not: String| PluginTaken { taken: false, why_not, version };
    let object = match escaped(object) {
        Ok(object) => object,
        Err(error) => return refused(error.to_string()),
    };
    let mut command = Command::new(qemu);
    command
        .args(["-machine", "none", "-nodefaults", "-display", "none", "-accel", "tcg", "-S", "-qmp", "stdio"])
        .args(["-plugin", &format!("{object},out=/dev/null")])
        .env_remove(PLUGIN_VERSION)
        .envs(plugin_environment(version))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // If bootscope were killed before it sent `quit`, QEMU would wait for it for ever.
    ends_with_us(&mut command);
    let output = command.spawn().and_then(|mut child| {
        if let Some(mut stdin) = child.stdin.take() {
            // The result is ignored: if QEMU has refused the plugin, it does not read this, and the exit status reports it.
            let _ = stdin.write_all(b"{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"quit\"}\n");
        }
        child.wait_with_output()
    });
    match output {
        Ok(output) if output.status.success() => PluginTaken { taken: true, why_not: String::new(), version },
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            refused(stderr.lines().next().unwrap_or("QEMU refused it").to_owned())
        }
        Err(error) => refused(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A program that prints `text` and exits.
    fn program(dir: &Path, text: &str) -> PathBuf {
        let path = dir.join("qemu");
        fs::write(&path, format!("#!/bin/sh\necho '{text}'\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse_version("7.2.22 (Debian 1:7.2+dfsg)"), Some((7, 2)));
        assert_eq!(parse_version("10.0.2"), Some((10, 0)));
        assert!(parse_version("10.0.2") > parse_version("9.1.0"));
        assert_eq!(parse_version("x"), None);
    }

    #[test]
    fn a_missing_qemu_names_the_package() {
        let error = Qemu::find(Path::new("qemu-system-nonexistent")).unwrap_err().to_string();
        assert!(error.contains("apt install qemu-system-x86"), "{error}");
        assert!(matches!(Qemu::find(Path::new("/nonexistent/qemu")), Err(Error::VmmMissing { .. })));
    }

    /// A QEMU that requires this version of the plugin interface, with QEMU's own message.
    fn wants(dir: &Path, version: u32) -> PathBuf {
        let path = dir.join("qemu");
        let script = format!(
            "#!/bin/sh\n\
             [ \"${PLUGIN_VERSION}\" != {version} ] || exit 0\n\
             echo \"qemu: Could not load plugin x.so: plugin requires API version ${{{PLUGIN_VERSION}:-4}}, \
             but this QEMU supports only a minimum version of {version}\" >&2\n\
             exit 1\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_plugin_is_tried_again_with_the_version_that_qemu_requires() {
        let dir = tempfile::tempdir().unwrap();
        let object = Path::new("/nonexistent/x.so");
        let taken = try_plugin(&wants(dir.path(), 7), object);
        assert!(taken.taken && taken.version == Some(7), "{}", taken.why_not);
        assert_eq!(plugin_environment(taken.version), Some((PLUGIN_VERSION, "7".to_owned())));

        let mute = program(dir.path(), "nothing of versions");
        assert!(try_plugin(&mute, object).version.is_none());
        assert_eq!(oldest_accepted("undefined symbol: qemu_plugin_version"), None);
        assert_eq!(oldest_accepted("this QEMU supports only up to version 3"), None);
    }

    #[test]
    fn a_script_around_qemu_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let script = program(dir.path(), "QEMU emulator version 7.2.22 (Debian 1:7.2)");
        let error = Qemu::find(&script).unwrap_err().to_string();
        assert!(error.contains("is a script") && error.contains("after extra"), "{error}");
        assert!(check_program(&std::env::current_exe().unwrap(), NAME, Field::Qemu).is_ok());
    }

    #[test]
    fn an_old_qemu_and_another_program_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let old = program(dir.path(), "QEMU emulator version 5.2.0 (Debian 1:5.2)");
        let error = Qemu::find(&old).unwrap_err().to_string();
        assert!(error.contains("5.2.0") && error.contains("6.0"), "{error}");
        let other = program(dir.path(), "hello, this is no QEMU");
        let error = Qemu::find(&other).unwrap_err().to_string();
        assert!(error.contains("hello"), "{error}");
    }
}
