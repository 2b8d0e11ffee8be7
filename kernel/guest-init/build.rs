//! Makes `guest_init_entry` (src/bin/guest-init/arch/*/entry.rs) the first instruction of the binary, before libc's
//! `_start`. On architectures with such an entry, the code is built with `cfg(guest)`; elsewhere the binary only prints
//! its purpose.

/// The architectures of guests; each has a folder in src/bin/guest-init/arch.
const GUESTS: [&str; 4] = ["x86_64", "aarch64", "arm", "riscv64"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(guest)");
    let target = |what| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("OS") == "linux" && GUESTS.contains(&&*target("ARCH")) {
        println!("cargo::rustc-cfg=guest");
        println!("cargo::rustc-link-arg-bin=guest-init=-eguest_init_entry");
    }
}
