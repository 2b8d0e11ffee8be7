//! The cloud-hypervisor to boot with: where it is, and its version.

use std::path::{Path, PathBuf};

use recording::GuestSpec;

use super::{NAME, launch};
use crate::Error;
use crate::vmm::process::{ask_version, check_program, which};
use crate::vmm::{Launch, Program, Vmm};

/// A cloud-hypervisor binary and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct CloudHypervisor {
    path: PathBuf,
    /// Such as `53.0`.
    version: String,
}

impl CloudHypervisor {
    /// Finds the binary, by path or in `$PATH`, and asks its version.
    pub(crate) fn find(binary: &Path) -> Result<CloudHypervisor, Error> {
        let path = which(binary).ok_or_else(|| {
            let binary = binary.display();
            Error::option(format!(
                "{binary} is not there: put cloud-hypervisor into $PATH, or name it with --vmm /path/to/cloud-hypervisor"
            ))
        })?;
        check_program(&path, NAME, "--vmm")?;
        let version = ask_version(&path, "cloud-hypervisor v")?;
        Ok(CloudHypervisor { path, version })
    }
}

impl Program for CloudHypervisor {
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
        Err("cloud-hypervisor runs no plugins".to_owned())
    }

    fn needs_kvm(&self) -> bool {
        true
    }

    fn start(&self, launch: &Launch<'_>) -> Result<Box<dyn Vmm>, Error> {
        Ok(Box::new(launch::start(&self.path, launch)?))
    }
}
