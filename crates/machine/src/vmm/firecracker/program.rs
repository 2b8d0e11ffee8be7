//! The Firecracker to boot with: where it is, and its version.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use recording::GuestSpec;

use super::{NAME, launch};
use crate::Error;
use crate::child::ends_with_us;
use crate::vmm::qemu::program::{check_program, which};
use crate::vmm::{Launch, Program, Vmm};

/// A Firecracker binary and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Firecracker {
    path: PathBuf,
    /// Such as `1.7.0`.
    version: String,
}

impl Firecracker {
    /// Finds the binary, by path or in `$PATH`, and asks its version.
    pub(crate) fn find(binary: &Path) -> Result<Firecracker, Error> {
        let path = which(binary, std::env::var_os("PATH").as_deref()).ok_or_else(|| {
            let binary = binary.display();
            Error::option(format!(
                "{binary} is not there: put Firecracker's program into $PATH, or name it with --vmm /path/to/firecracker"
            ))
        })?;
        check_program(&path, NAME, "--vmm")?;
        let version = ask_version(&path)?;
        Ok(Firecracker { path, version })
    }
}

fn ask_version(path: &Path) -> Result<String, Error> {
    let broken = |why: String| Error::VmmBroken { binary: path.to_path_buf(), why };
    let mut command = Command::new(path);
    ends_with_us(command.arg("--version").stdin(Stdio::null()));
    let output = command.output().map_err(|e| broken(e.to_string()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let version = said.lines().next().and_then(|line| line.strip_prefix("Firecracker v"));
    version.map(|version| version.trim().to_owned()).ok_or_else(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        broken(format!("`--version` says {:?}", said.lines().chain(stderr.lines()).next().unwrap_or("nothing")))
    })
}

impl Program for Firecracker {
    fn name(&self) -> &'static str {
        NAME
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn check(&self, _guest: &GuestSpec, _spared: &[&str], _yields: bool) -> Result<(), Error> {
        // What it cannot do, no version of it can: that is checked before it is looked for.
        Ok(())
    }

    fn plugin(&self) -> Result<PathBuf, String> {
        Err("Firecracker runs no plugins".to_owned())
    }

    fn needs_kvm(&self) -> bool {
        true
    }

    fn shows_memory(&self) -> bool {
        false
    }

    fn start(&self, launch: &Launch<'_>) -> Result<Box<dyn Vmm>, Error> {
        Ok(Box::new(launch::start(&self.path, launch)?))
    }
}
