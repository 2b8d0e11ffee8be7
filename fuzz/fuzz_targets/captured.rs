//! Evidence of user space from `bootscope capture`: a journal in any format, and a table of processes.
#![no_main]

use evidence::journal::Journal;
use evidence::process_table::ProcessTable;
use libfuzzer_sys::fuzz_target;
use timeline::Diagnostics;

fuzz_target!(|bytes: &[u8]| {
    let (mut journal, mut diagnostics) = (Journal::default(), Diagnostics::default());
    journal.read("j", bytes, &mut diagnostics);
    // Each entry has at least one line.
    assert!(journal.entries.len() <= bytes.split_inclusive(|&b| b == b'\n').count());
    journal.choose(&mut diagnostics);
    assert!(journal.entries.iter().all(|entry| entry.at.is_none_or(|at| at >= timeline::Ns::ZERO)));
    let table = ProcessTable::read("p", bytes, &mut diagnostics);
    assert!(table.processes.len() as u64 + table.unreadable <= bytes.split_inclusive(|&b| b == b'\n').count() as u64);
});
