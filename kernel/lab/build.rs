//! Links the kernel with its linker script, and generates the device interface from its description.

#[path = "build/interface.rs"]
mod interface;

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));

    // The language has no cfg for frame pointers. The kernel needs one, to report that its samples have no callers.
    println!("cargo::rustc-check-cfg=cfg(frame_pointers)");
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    if env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("force-frame-pointers=yes")) {
        println!("cargo::rustc-cfg=frame_pointers");
    }

    let description = folder.join("src/kernel/device_if.m");
    println!("cargo::rerun-if-changed={}", description.display());
    println!("cargo::rerun-if-changed=build");
    let text = fs::read_to_string(&description).expect("device_if.m");
    let code = interface::generate(&text).unwrap_or_else(|error| panic!("{}: {error}", description.display()));
    fs::write(out.join("device_if.rs"), code).expect("device_if.rs");

    let script = folder.join("src/kernel/lab.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    for argument in [&format!("-T{}", script.display()), "-nostartfiles", "-nostdlib", "-static", "-no-pie"] {
        println!("cargo::rustc-link-arg-bin=lab={argument}");
    }
}
