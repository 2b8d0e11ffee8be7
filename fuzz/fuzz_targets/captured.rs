//! What `bootscope capture` brings of user space: a journal in either format, and a table of processes.
#![no_main]

use evidence::journal::Journal;
use evidence::process_table::ProcessTable;
use libfuzzer_sys::fuzz_target;
use timeline::Diagnostics;

fuzz_target!(|bytes: &[u8]| {
    let (mut journal, mut diagnostics) = (Journal::default(), Diagnostics::default());
    journal.read("j", bytes, &mut diagnostics);
    // An entry has a line at least, and what is kept of it is no longer than what was read.
    assert!(journal.entries.len() <= bytes.split_inclusive(|&b| b == b'\n').count());
    let table = ProcessTable::read("p", bytes, &mut diagnostics);
    assert!(table.processes.len() as u64 + table.unreadable <= bytes.split_inclusive(|&b| b == b'\n').count() as u64);
});
