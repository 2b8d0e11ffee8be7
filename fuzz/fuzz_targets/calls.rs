//! The reader of call traces (`calls.bin`) with a list of symbols. The input is the symbols, a NUL, the trace.
#![no_main]

use evidence::contexts::Contexts;
use evidence::symbols::Symbols;
use evidence::{Followed, calls, profile};
use libfuzzer_sys::fuzz_target;
use timeline::{Diagnostics, Names};

fuzz_target!(|bytes: &[u8]| {
    let split = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let (text, file) = (&bytes[..split], &bytes[(split + 1).min(bytes.len())..]);
    let mut diagnostics = Diagnostics::default();
    let symbols = Symbols::read("kallsyms", text, &mut diagnostics);
    let found = calls::read("calls.bin", file, &mut diagnostics);
    assert!(found.nodes.iter().enumerate().skip(1).all(|(i, node)| (node.parent as usize) < i));
    assert!(found.spans.iter().chain(&found.open).chain(&found.idle).all(|s| s.from <= s.to));
    let followed = Followed { calls: found, symbols, ..Followed::default() };
    let (found, contexts) = (&followed.calls, Contexts::new(&followed));
    for until in [0, profile::end(found), u64::MAX] {
        let tree = profile::profile(&followed, until, &contexts, &mut Names::default()).profile;
        assert!(tree.functions().iter().all(|row| row.own <= tree.weight()));
        profile::Share::until(found, until).owned();
    }
    assert!(found.at(0) <= found.at(u64::MAX / 2));
});
