//! Finds Firecracker, and reads its version.

use std::path::{Path, PathBuf};

use recording::{GuestSpec, VmmKind};

use super::{NAME, launch};
use crate::Error;
use crate::vmm::process::Binary;
use crate::vmm::{Launch, Program, Vmm};

/// A Firecracker binary and its known properties.
#[derive(Clone, Debug)]
pub(crate) struct Firecracker(Binary);

impl Firecracker {
    /// Finds the binary, by path or in `$PATH`, and reads its version.
    pub(crate) fn find(binary: &Path) -> Result<Firecracker, Error> {
        Binary::find(binary, VmmKind::Firecracker, "Firecracker v").map(Firecracker)
    }
}

impl Program for Firecracker {
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
        Err("Firecracker runs no plugins".to_owned())
    }

    fn needs_kvm(&self) -> bool {
        true
    }

    fn shows_memory(&self) -> bool {
        false
    }

    fn start(&self, launch: &Launch<'_>) -> Result<Box<dyn Vmm>, Error> {
        Ok(Box::new(launch::start(&self.0.path, launch)?))
    }
}
