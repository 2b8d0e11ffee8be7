//! Links the kernel with its linker script.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo::rerun-if-changed=second_kernel.ld");
    for argument in [&format!("-T{folder}/second_kernel.ld"), "-nostartfiles", "-nostdlib", "-static", "-no-pie"] {
        println!("cargo::rustc-link-arg-bin=second-kernel={argument}");
    }
}
