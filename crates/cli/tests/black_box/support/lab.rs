//! Boots of the reference kernel, which `make build` makes.

use super::{bootscope, skip};
use std::path::Path;
use std::process::Command;

/// True if the kernel exists; otherwise prints the reason for skipping.
pub fn built() -> bool {
    let lab = std::env::var_os("BOOTSCOPE_LIB").map(|lib| Path::new(&lib).join("lab"));
    let built = lab.is_some_and(|lab| lab.is_file());
    if !built {
        skip("BOOTSCOPE_LIB has no lab");
    }
    built
}

/// `bootscope record` of it into a folder.
pub fn record_lab(into: &Path) -> Command {
    let mut command = bootscope("record");
    command.args(["--lab", "--accel", "tcg", "-o"]).arg(into);
    command
}
