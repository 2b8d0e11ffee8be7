//! Finds cloud-hypervisor, and reads its version.

use std::path::{Path, PathBuf};

use recording::{GuestSpec, VmmKind};

use super::{NAME, launch};
use crate::Error;
use crate::vmm::process::Binary;
use crate::vmm::{Launch, Program, Vmm};

/// A cloud-hypervisor binary and its known properties.
#[derive(Clone, Debug)]
pub(crate) struct CloudHypervisor(Binary);

impl CloudHypervisor {
    /// Finds the binary, by path or in `$PATH`, and reads its version.
    pub(crate) fn find(binary: &Path) -> Result<CloudHypervisor, Error> {
        Binary::find(binary, VmmKind::CloudHypervisor, "cloud-hypervisor v").map(CloudHypervisor)
    }
}

impl Program for CloudHypervisor {
    fn name(&self) -> &'static str {
        NAME
    }

    fn path(&self) -> &Path {
        &self.0.path
    }

    fn version(&self) -> &str {
        &self.0.version
    }

    fn check(&self, _guest: &GuestSpec, _spared: &[&str], _yields: bool) -> Result<(), Error> {
        // The supported options are the same in all versions, and are checked before the binary is searched.
        Ok(())
    }

    fn plugin(&self) -> Result<PathBuf, String> {
        Err("cloud-hypervisor runs no plugins".to_owned())
    }

    fn needs_kvm(&self) -> bool {
        true
    }

    fn start(&self, launch: &Launch<'_>) -> Result<Box<dyn Vmm>, Error> {
        Ok(Box::new(launch::start(&self.0.path, launch)?))
    }
}
