//! Counts accesses that leave the guest, and first touches of pages: `exits.bin`.
//!
//! A row is an instruction, its call path where calls are followed, the kind of access and the place. The tables have
//! limits that no guest can exceed; accesses beyond them are counted by their kind alone. The file's format is
//! `plugin_formats::exits`. [`wait`] has the rule for loops that wait for a clock, [`pages`] the touched pages. This
//! module does not depend on QEMU.

pub mod pages;
pub mod wait;

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;

use plugin_formats::Start;
use plugin_formats::exits::{Counts, HEADER_BYTES, Kind, Record, Row, Stream, header_bytes};
use wait::{WaitLoop, Waits};

/// The largest number of rows: a Linux boot has some ten thousand.
const MAX_ROWS: usize = 1 << 18;
/// The largest length of the part of the file that has runs with their times.
const MAX_RUN_BYTES: u64 = 16 << 20;
const LAST_ROWS: usize = 64;
/// The buffer is written when it is longer than this.
const BUFFER_BYTES: usize = 64 << 10;

/// The limits of the tables.
#[derive(Clone, Copy)]
pub struct Limits {
    pub rows: usize,
    /// Bytes of runs with their times.
    pub run_bytes: u64,
}

pub const LIMITS: Limits = Limits { rows: MAX_ROWS, run_bytes: MAX_RUN_BYTES };

/// The part of a row that changes.
#[derive(Clone, Copy, Default)]
struct Counted {
    /// Accesses at `at_ns` that are not in the file yet.
    pending: Counts,
    at_ns: u64,
    /// Accesses whose time is not kept, because the file is full.
    late: Counts,
}

/// The counts of a boot.
pub struct Exits {
    limits: Limits,
    numbers: HashMap<Row, u32>,
    /// The last rows, by their instructions: loops repeat a few rows many times.
    last: [Option<(Row, u32)>; LAST_ROWS],
    rows: Vec<Counted>,
    rest: [u64; Kind::ALL.len()],
    wait_loop: WaitLoop,
    stream: Stream,
    buffer: Vec<u8>,
    run_bytes: u64,
    /// `None` after a failed write, and after the end.
    out: Option<File>,
}

impl Exits {
    /// Starts a file with its header.
    pub fn new(out: File, start: &Start, limits: Limits) -> Exits {
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + HEADER_BYTES);
        buffer.extend_from_slice(&header_bytes(start));
        Exits {
            limits,
            numbers: HashMap::new(),
            last: [None; LAST_ROWS],
            rows: Vec::new(),
            rest: [0; Kind::ALL.len()],
            wait_loop: WaitLoop::default(),
            stream: Stream::default(),
            buffer,
            run_bytes: 0,
            out: Some(out),
        }
    }

    /// Counts an access at `at_ns`. `memory` is the number of accesses to RAM until now; `is_clock` is true if the
    /// access reads a clock.
    pub fn count(&mut self, row: Row, at_ns: u64, memory: u64, is_clock: bool) {
        if self.out.is_none() {
            return;
        }
        let Some(number) = self.number(row) else {
            self.rest[row.kind as usize] += 1;
            return;
        };
        if self.rows[number as usize].at_ns != at_ns {
            self.run(number);
        }
        let counted = &mut self.rows[number as usize];
        counted.at_ns = at_ns;
        counted.pending.all += 1;
        if row.kind == Kind::FirstTouch {
            return;
        }
        match self.wait_loop.access(number, row.insn, memory, is_clock) {
            Waits::No => {}
            Waits::Now => self.rows[number as usize].pending.in_waits += 1,
            Waits::Since(reads) => {
                for &(row, count) in reads {
                    let pending = &mut self.rows[row as usize].pending;
                    // Those that are in the file already stay as they are.
                    pending.in_waits = (pending.in_waits + count).min(pending.all);
                }
            }
        }
    }

    fn number(&mut self, row: Row) -> Option<u32> {
        let last = row.insn as usize / 2 % LAST_ROWS;
        if let Some((_, number)) = self.last[last].filter(|(known, _)| *known == row) {
            return Some(number);
        }
        let number = self.number_in_table(row)?;
        self.last[last] = Some((row, number));
        Some(number)
    }

    fn number_in_table(&mut self, row: Row) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&row) {
            return Some(number);
        }
        if self.rows.len() >= self.limits.rows {
            return None;
        }
        let number = self.rows.len() as u32;
        self.numbers.insert(row, number);
        self.rows.push(Counted::default());
        self.record(&Record::Row(row));
        Some(number)
    }

    /// Writes a row's pending accesses.
    fn run(&mut self, number: u32) {
        let counted = &mut self.rows[number as usize];
        let (at_ns, counts) = (counted.at_ns, std::mem::take(&mut counted.pending));
        if counts.all == 0 {
            return;
        }
        if self.run_bytes >= self.limits.run_bytes {
            counted.late.all += counts.all;
            counted.late.in_waits += counts.in_waits;
            return;
        }
        let before = self.buffer.len();
        self.stream.write(&Record::Run { row: number, at_ns, counts }, &mut self.buffer);
        self.run_bytes += (self.buffer.len() - before) as u64;
        self.write_full_buffer();
    }

    /// Ends the file.
    pub fn finish(&mut self, at_ns: u64) {
        for number in 0..self.rows.len() as u32 {
            self.run(number);
            let counts = self.rows[number as usize].late;
            if counts.all > 0 {
                self.record(&Record::Late { row: number, counts });
            }
        }
        for kind in Kind::ALL {
            let count = self.rest[kind as usize];
            if count > 0 {
                self.record(&Record::Rest { kind, count });
            }
        }
        self.record(&Record::Exit { at_ns });
        self.write_buffer();
        self.out = None;
    }

    fn record(&mut self, record: &Record) {
        self.stream.write(record, &mut self.buffer);
        self.write_full_buffer();
    }

    fn write_full_buffer(&mut self) {
        if self.buffer.len() >= BUFFER_BYTES {
            self.write_buffer();
        }
    }

    fn write_buffer(&mut self) {
        if let Some(Err(error)) = self.out.as_mut().map(|out| out.write_all(&self.buffer)) {
            eprintln!("bootscope plugin: cannot write accesses, counting no more of them: {error}");
            self.out = None;
        }
        self.buffer.clear();
    }
}

#[cfg(test)]
mod tests;
