//! A guest that dies before process 1 reports no names of its functions. They come out of its kernel's image, and must
//! equal those that the guest would have reported.

use crate::support::boots::{QUIET, Scratch, kernels, record, recorded};
use crate::support::{list, ns, run, shown, text};
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

/// Functions of the kernel itself, as `address name`.
fn functions(recording: &Path, file: &str) -> BTreeSet<String> {
    let packed = std::fs::read(recording.join(file)).unwrap();
    let mut list = String::new();
    flate2::read::MultiGzDecoder::new(&*packed).read_to_string(&mut list).unwrap();
    let of_kernel = list.lines().filter(|line| !line.contains('\t'));
    let rows = of_kernel.map(|line| line.splitn(3, ' ').collect::<Vec<&str>>());
    rows.filter(|row| ["t", "T", "w", "W"].contains(&row[1])).map(|row| format!("{} {}", row[0], row[2])).collect()
}

#[test]
#[ignore = "51 s: in make test-all"]
fn a_guest_that_panics_has_the_names_that_it_would_report() {
    for kernel in kernels() {
        let scratch = Scratch::new();
        let [panicked, whole] = ["panicked", "whole"].map(|name| scratch.path(name));
        // If the kernel randomises its address, bootscope must find the address.
        let mut command = record(&kernel, &panicked);
        recorded(command.args(["--init", "keep", "--trace", "calls", "--append", QUIET]), &panicked, "panic");
        let mut command = record(&kernel, &whole);
        recorded(command.args(["--trace", "none", "--deterministic", "--append", QUIET]), &whole, "reached");
        let [image, reported] =
            [(&panicked, "image-symbols.gz"), (&whole, "kallsyms.gz")].map(|(r, f)| functions(r, f));
        println!("{}: {} functions in the image, {} told", kernel.display(), image.len(), reported.len());
        assert!(image.len() > 20_000);
        let differing: Vec<&String> = image.symmetric_difference(&reported).take(10).collect();
        assert!(differing.is_empty(), "{differing:?}");
        assert_named(&shown(&panicked));
        assert!(!whole.join("image-symbols.gz").exists(), "the guest's own are better");
    }
}

/// Checks that nearly all called functions have names, the boot has its phases, and it ends where the kernel panicked.
fn assert_named(document: &serde_json::Value) {
    let rows = list(&document["calls"]["functions"]);
    let of = |name: &str| rows.iter().any(|row| text(&row["name"]) == name && row["calls"] == 1);
    for function in ["setup_arch", "rest_init", "kernel_init", "prepare_namespace"] {
        assert!(of(function), "{function} was not called once");
    }
    let instructions = |row: &&serde_json::Value| row["self_instructions"].as_u64().unwrap();
    let in_kernel = |row: &&serde_json::Value| text(&row["name"]).starts_with("0xffffffff");
    let (all, unnamed): (u64, u64) =
        (rows.iter().map(|r| instructions(&r)).sum(), rows.iter().filter(in_kernel).map(|r| instructions(&r)).sum());
    assert!(all > 1_000_000_000 && unnamed * 1000 < all, "{unnamed} of {all} instructions have no name");
    let phases: Vec<&str> = list(&document["phases"]).iter().map(|p| text(&p["name"])).collect();
    assert!(phases.contains(&"initcalls: early") && phases.contains(&"hand-over"), "{phases:?}");
    assert_eq!(text(&document["end"]["evidence"]), "no end mark: the kernel panicked");
    let wrong = |d: &serde_json::Value| text(&d["code"]).starts_with("symbol");
    assert!(!list(&document["diagnostics"]).iter().any(wrong), "{}", document["diagnostics"]);
    assert!(ns(&document["total_ns"]) > 0);
}

#[test]
fn symbols_may_be_a_kernel_s_image() {
    let kernels = kernels();
    let Some(kernel) = kernels.first() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let mut command = record(kernel, &into);
    command.args(["--symbols", kernel.to_str().unwrap(), "--init", "keep", "--append", QUIET]);
    recorded(&mut command, &into, "panic");
    assert_eq!(functions(&into, "symbols-1.gz"), functions(&into, "image-symbols.gz"));
    let empty = scratch.path("empty");
    std::fs::write(&empty, "").unwrap();
    let refused = |symbols: &str| run(record(kernel, &scratch.path("not")).args(["--symbols", symbols]));
    refused(empty.to_str().unwrap()).refuses(&["--symbols", "empty: it is neither an ELF or PE image"]);
    refused("/dev/null").refuses(&["/dev/null", "it is a device: name a regular file"]);
}
