//! Hand-made files of call traces, in the format that `crates/evidence/src/formats/calls.rs` describes, from a list of events.
//! The clock is the guest's: an instruction is a tick is a nanosecond.

use plugin_formats::Sink;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The kinds of nodes.
pub const STACK: u8 = 0;
pub const CALL: u8 = 1;
pub const TAIL: u8 = 2;
pub const INTERRUPT: u8 = 3;
pub const USER: u8 = 4;

/// A file under construction.
#[derive(Default)]
pub struct Followed {
    nodes: Vec<u8>,
    last_node: (i64, i64),
    /// The time of each event, and the parts of its record before and after the time.
    events: Vec<(u64, Vec<u8>, Vec<u8>)>,
    totals: Vec<u8>,
    insns: u64,
    symbols: String,
}

/// A node's number in a record, relative to the previous one, which here is always the first of its chunk.
fn node(n: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.signed(n.into());
    bytes
}

impl Followed {
    /// Names the code at an address.
    pub fn symbol(&mut self, address: u64, name: &str) -> &mut Self {
        self.symbols += &format!("{address:016x} T {name}\n");
        self
    }

    /// Defines a path: its number, its parent's (0: no parent), its kind, the function's address, its number of calls
    /// and its own instructions. The bottom of a stack is at an address that depends on its number.
    pub fn path(&mut self, number: u32, parent: u32, kind: u8, function: u64, calls: u64, own: u64) -> &mut Self {
        self.nodes.push(1 | kind << 4);
        self.nodes.signed(i64::from(number) - self.last_node.0);
        self.nodes.number(parent.into());
        self.nodes.signed((function as i64).wrapping_sub(self.last_node.1));
        if kind == STACK {
            // The kernel's stacks are in the same half of the address space as its code.
            self.nodes.number(function >> 63 << 63 | u64::from(number) << 14);
        }
        self.last_node = (number.into(), function as i64);
        let mut totals = vec![2];
        totals.extend(node(number));
        totals.number(calls);
        totals.number(own);
        self.totals.extend(chunk(&totals));
        self.insns += own;
        self
    }

    /// A long call that returned.
    pub fn span(&mut self, number: u32, from: u64, to: u64) -> &mut Self {
        self.event(to, 3, number, Some(to - from))
    }

    /// A long call that was last seen in progress.
    pub fn open(&mut self, number: u32, from: u64, seen: u64) -> &mut Self {
        self.event(seen, 4, number, Some(seen - from))
    }

    /// The CPU continues on this path's stack.
    pub fn switch(&mut self, at: u64, number: u32) -> &mut Self {
        self.event(at, 5, number, None)
    }

    /// The CPU sleeps.
    pub fn idle(&mut self, number: u32, from: u64, to: u64) -> &mut Self {
        self.event(to, 6, number, Some(to - from))
    }

    fn event(&mut self, at: u64, tag: u8, number: u32, length: Option<u64>) -> &mut Self {
        let mut after = Vec::new();
        if let Some(length) = length {
            after.number(length);
        }
        self.events.push((at, [vec![tag], node(number)].concat(), after));
        self
    }

    /// The file of a boot that reached its end mark at `end`.
    pub fn bytes(&self, end: u64) -> Vec<u8> {
        let mut header = b"BSCALLS\n".to_vec();
        header.extend([1, 0, 1, 1, 1, 0, 0, 0]);
        for n in [0u64, 0, 1_000_000_000, 50, 0, 1 << 24] {
            header.extend(n.to_le_bytes());
        }
        header.extend(b"x86_64\0\0");
        header.extend([0; 8]);
        let mut events = self.events.clone();
        events.sort_by_key(|event| event.0);
        let mut chunks = chunk(&self.nodes);
        for (at, before, after) in events {
            let mut record = before;
            record.number(at);
            record.extend(after);
            chunks.extend(chunk(&record));
        }
        chunks.extend(&self.totals);
        let (mut mark, mut interval, mut exit) = (vec![8], vec![9], vec![11]);
        mark.number(end);
        mark.number(2);
        mark.number(self.insns);
        interval.number(end);
        interval.number(self.insns);
        exit.number(end);
        [header, chunks, chunk(&mark), chunk(&interval), chunk(&exit)].concat()
    }

    /// Writes the files to import: the calls, and their names compressed as in a recording.
    pub fn write(&self, folder: &Path, end: u64) -> [PathBuf; 2] {
        std::fs::create_dir_all(folder).unwrap();
        let (calls, symbols) = (folder.join("calls.bin"), folder.join("kallsyms.gz"));
        std::fs::write(&calls, self.bytes(end)).unwrap();
        let mut gzip = std::process::Command::new("gzip");
        let mut gzip = gzip
            .arg("-c")
            .stdin(std::process::Stdio::piped())
            .stdout(std::fs::File::create(&symbols).unwrap())
            .spawn()
            .expect("gzip is part of every Debian");
        gzip.stdin.take().unwrap().write_all(self.symbols.as_bytes()).unwrap();
        assert!(gzip.wait().unwrap().success());
        [calls, symbols]
    }
}

/// A chunk for each record, so that no record is relative to another.
fn chunk(records: &[u8]) -> Vec<u8> {
    [b"CHNK", &(records.len() as u32).to_le_bytes()[..], &[0; 4], records].concat()
}

/// The start address of the kernel's code in these files.
pub const BASE: u64 = 0xffff_ffff_8100_0000;

/// Linux in 4000 instructions, 1000 of them asleep: firmware, the boot thread, process 1 with an initcall that calls
/// `bar` ten times for 100 instructions, and user space.
///
/// ```text
///    0 firmware (node 2)                20 of its own, then a function with 80
///  100 the kernel's first stack (4)     10 of its own; setup_arch 100..600 (short: memset, 40 times for 10);
///                                       rest_init 600..1000
/// 1000 process 1 (8)                    5 of its own; kernel_init; do_one_initcall 1050..2550; foo in it 1100..2500
/// 2600 back: rest_init; default_idle 2620..3700, asleep 2650..3650
/// 3720 process 1
/// 3800 user space until 4000
/// ```
pub fn small_boot(foo_own: u64) -> Followed {
    let mut file = Followed::default();
    let names = [
        "secondary_startup_64",
        "setup_arch",
        "memset",
        "rest_init",
        "__switch_to_asm",
        "kernel_init",
        "do_one_initcall",
        "foo",
        "bar",
        "default_idle",
    ];
    let at = |i: u64| BASE + i * 0x100;
    for (i, name) in (0..).zip(names) {
        file.symbol(at(i), name);
    }
    let more = foo_own - 400;
    file.path(1, 0, USER, 0, 1, 200);
    file.path(2, 0, STACK, 0xffff_fff0, 0, 20).path(3, 2, CALL, 0xf_1000, 1, 80).span(3, 20, 100);
    file.path(4, 0, STACK, at(0), 0, 10);
    file.path(5, 4, CALL, at(1), 1, 90).path(6, 5, CALL, at(2), 40, 400).span(5, 110, 600);
    file.path(7, 4, CALL, at(3), 1, 440).open(7, 600, 1000);
    file.path(8, 0, STACK, at(4), 0, 5);
    file.path(9, 8, CALL, at(5), 1, 175).open(9, 1005, 1005);
    file.path(10, 9, CALL, at(6), 1, 100).span(10, 1050, 2550 + more);
    file.path(11, 10, CALL, at(7), 1, foo_own).path(12, 11, CALL, at(8), 10, 1000).span(11, 1100, 2500 + more);
    file.path(13, 7, CALL, at(9), 1, 80).span(13, 2620 + more, 3700 + more).idle(13, 2650 + more, 3650 + more);
    file.switch(0, 2)
        .switch(100, 4)
        .switch(1000, 8)
        .switch(2600 + more, 7)
        .switch(3720 + more, 9)
        .switch(3800 + more, 1);
    file
}
