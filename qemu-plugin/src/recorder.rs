//! Records first executions from QEMU's callbacks: drops repetitions and writes the file.
//!
//! Output goes to a file descriptor from a buffer. The buffer is written when it is full, and at a callback that comes
//! [`WRITE_EVERY_NS`] or more after the last write. If QEMU is killed, the file ends with a whole record and lacks at
//! most that much guest activity. A failed write ends the output, but never the guest.

#![allow(unsafe_code, reason = "a call of C")]

use std::fs::File;
use std::io::Write;

use crate::encode::Encoder;
use crate::known_blocks::{Answer, KnownBlocks};
use plugin_formats::first_executions::{Block, Counts, Record, TimedWait};
use plugin_formats::{Clock, Start};

const WRITE_EVERY_NS: u64 = 10_000_000;

/// The state behind all callbacks.
pub struct Recorder {
    known_blocks: KnownBlocks,
    encoder: Encoder,
    counts: Counts,
    /// `None` after a failed write.
    out: Option<File>,
    written_ns: u64,
    /// The thread of the last block.
    thread: u32,
    /// The largest number of user-space blocks; after this, nothing more is recorded.
    user_blocks: usize,
    stopped: bool,
}

impl Recorder {
    /// Starts a file with its header. Once user space has run `user_blocks` blocks, nothing more is recorded.
    pub fn new(out: File, start: &Start, user_blocks: usize) -> Recorder {
        let mut r = Recorder {
            known_blocks: KnownBlocks::default(),
            encoder: Encoder::new(start),
            counts: Counts::default(),
            out: Some(out),
            written_ns: 0,
            thread: 0,
            user_blocks,
            stopped: false,
        };
        r.write_out();
        r
    }

    /// Handles a block that a thread translated at `now_ns`; its code is at `host` in QEMU's memory. `describe` is
    /// called only if the block is new.
    pub fn translated(&mut self, now_ns: u64, thread: u32, vaddr: u64, host: u64, describe: impl FnOnce() -> Block) {
        if self.stopped {
            return;
        }
        self.counts.translated += 1;
        match self.known_blocks.add(vaddr, host) {
            Answer::Known => self.counts.again += 1,
            Answer::Full => self.counts.full += 1,
            Answer::New => {
                if thread != self.thread {
                    self.thread = thread;
                    self.record(&Record::Thread(thread.into()));
                }
                let block = describe();
                self.record(&Record::Block(now_ns, block));
                if self.known_blocks.user_blocks() >= self.user_blocks {
                    self.stopped = true;
                    self.record(&Record::Stop(now_ns));
                    self.write_out();
                }
            }
        }
        if now_ns.saturating_sub(self.written_ns) >= WRITE_EVERY_NS {
            self.written_ns = now_ns;
            self.write_out();
        }
    }

    /// True once user space has run the largest number of recorded blocks.
    pub fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// Records that a thread runs this vCPU.
    pub fn runs(&mut self, thread: u32, vcpu: u32) {
        self.record(&Record::Runs(thread.into(), vcpu.into()));
    }

    /// Records that QEMU created a vCPU.
    pub fn vcpu(&mut self, now_ns: u64, vcpu: u32) {
        self.record(&Record::Vcpu(now_ns, vcpu.into()));
        self.write_out();
    }

    /// Records that timed waits are recorded from here on.
    pub fn waits_are_kept(&mut self) {
        self.record(&Record::WaitsAreKept);
    }

    /// Records a timed wait.
    pub fn wait(&mut self, wait: TimedWait) {
        if !self.stopped {
            self.record(&Record::Wait(wait));
        }
    }

    /// Records QEMU's end.
    pub fn exit(&mut self, now_ns: u64) {
        self.record(&Record::Counts(self.counts));
        self.record(&Record::Exit(now_ns));
        self.write_out();
    }

    fn record(&mut self, record: &Record) {
        if self.encoder.is_full() {
            self.write_out();
        }
        self.encoder.record(record);
    }

    fn write_out(&mut self) {
        if let Some(Err(error)) = self.out.as_mut().map(|out| out.write_all(self.encoder.pending())) {
            eprintln!("bootscope plugin: cannot write first runs, noting no more of them: {error}");
            self.out = None;
        }
        self.encoder.clear();
    }
}

/// The current time, on the clock of the records.
pub struct Now {
    /// QEMU's `qemu_clock_get_ns`, for the guest's virtual clock.
    pub guest: Option<extern "C" fn(std::ffi::c_int) -> i64>,
}

impl Now {
    /// `QEMU_CLOCK_VIRTUAL`
    const VIRTUAL: std::ffi::c_int = 1;

    pub fn clock(&self) -> Clock {
        if self.guest.is_some() { Clock::Virtual } else { Clock::Host }
    }

    /// The current time in nanoseconds.
    pub fn ns(&self) -> u64 {
        match self.guest {
            Some(get) => get(Self::VIRTUAL).max(0) as u64,
            None => host_ns(),
        }
    }
}

/// The host's `CLOCK_MONOTONIC`, ns.
pub fn host_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to our own timespec. The call cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin_formats::first_executions::{Ending, HEADER_BYTES, Stream};

    fn start() -> Start {
        Start { clock: Clock::Host, api: 1, vcpus: 1, zero_host_ns: 0, install_host_ns: 0, target: *b"x86_64\0\0" }
    }

    fn block(vaddr: u64) -> Block {
        Block { vaddr, size: 4, insns: 1, ending: Ending::Other, displacement: None }
    }

    fn file(name: &str) -> (std::path::PathBuf, File) {
        let path = std::env::temp_dir().join(format!("bootscope-recorder-{}-{name}", std::process::id()));
        let file = File::create(&path).expect("a file in the temporary folder");
        (path, file)
    }

    #[test]
    fn a_kill_loses_only_what_came_since_the_last_writing() {
        let (path, out) = file("kill");
        let mut r = Recorder::new(out, &start(), usize::MAX);
        r.translated(WRITE_EVERY_NS, 1, 0x1000, 0, || block(0x1000));
        let first = std::fs::read(&path).expect("the file").len();
        assert_eq!(first, HEADER_BYTES + 2 + 9, "thread and block");
        r.translated(WRITE_EVERY_NS + 1, 1, 0x1000, 0, || unreachable!("known"));
        r.translated(WRITE_EVERY_NS + 2, 1, 0x2000, 0, || block(0x2000));
        assert_eq!(std::fs::read(&path).expect("the file").len(), first);
        r.translated(2 * WRITE_EVERY_NS, 1, 0x1000, 0, || unreachable!("known"));
        assert!(std::fs::read(&path).expect("the file").len() > first);
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn nothing_is_noted_once_user_space_has_run_enough() {
        let (path, out) = file("stop");
        let mut r = Recorder::new(out, &start(), 2);
        for (at, vaddr) in [(1, 0x7c00), (2, 0xffff_8000_0000_0000), (3, 0x1000), (4, 0x2000), (5, 0x3000)] {
            assert_eq!(r.has_stopped(), at == 5);
            r.translated(at, 1, vaddr, 0, || block(vaddr));
        }
        r.exit(6);
        let bytes = std::fs::read(&path).expect("the file");
        let (mut from, mut stream) = (plugin_formats::Bytes::new(&bytes[HEADER_BYTES..]), Stream::new(&start()));
        let records: Vec<Record> = std::iter::from_fn(|| stream.read(&mut from).ok()).collect();
        let counts = Counts { translated: 4, again: 0, full: 0 };
        assert!(matches!(records[records.len() - 4], Record::Block(4, Block { vaddr: 0x2000, .. })), "{records:?}");
        assert_eq!(records[records.len() - 3..], [Record::Stop(4), Record::Counts(counts), Record::Exit(6)]);
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn a_full_disk_ends_the_output_only() {
        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        let mut r = Recorder::new(full, &start(), usize::MAX);
        for i in 0..100_000 {
            r.translated(i, 1, i * 16, 0, || block(i * 16));
        }
        r.exit(100_000);
        assert!(r.out.is_none());
    }
}
