//! Makes `guest_init_entry` (src/bin/guest-init/arch/x86_64/entry.rs) the first instruction of the binary, before libc's `_start`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |what| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("OS") == "linux" && target("ARCH") == "x86_64" {
        println!("cargo::rustc-link-arg-bin=guest-init=-Wl,-e,guest_init_entry");
    }
}
