//! The ring, with one writer and one reader: no sample is torn, and samples that do not fit are counted.

use sampler::text::{Heading, write_heading, write_sample};
use sampler::{Cpu, End, FRAMES_MAX, Interrupted, Moment, Outcome, Ring, Sample, Stack, Stacks};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn memory(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(u64::MAX)).collect()
}

#[test]
fn samples_come_out_as_they_went_in_and_what_finds_no_room_is_counted() {
    let words = memory(20);
    let ring = Ring::new(&words);
    for round in 0..50u64 {
        let frames = [round, 2, 3];
        let sample = |ticks| Sample { ticks, thread: 5, frames: &frames, end: End::Bottom };
        assert!((0..3).all(|n| ring.push(&sample(round * 3 + n))));
        assert!(!ring.push(&sample(0)));
        let mut ticks = Vec::new();
        let count = ring.drain(|sample| {
            assert_eq!((sample.frames, sample.thread, sample.end), (&frames[..], 5, End::Bottom));
            ticks.push(sample.ticks);
        });
        assert_eq!((count, ticks), (3, vec![round * 3, round * 3 + 1, round * 3 + 2]));
    }
    assert_eq!(ring.lost(), 50);
    let empty = Ring::new(&[]);
    assert!(!empty.push(&Sample { ticks: 1, thread: 1, frames: &[1], end: End::User }));
    assert_eq!(empty.drain(|_| ()), 0);
}

#[test]
fn a_reader_on_another_cpu_sees_whole_samples_only() {
    const SAMPLES: u64 = 200_000;
    let words = memory(997);
    let ring = Ring::new(&words);
    let (mut read, mut last) = (0, 0);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for ticks in 1..=SAMPLES {
                let frames = [ticks; FRAMES_MAX];
                let length = 1 + ticks as usize % FRAMES_MAX;
                ring.push(&Sample { ticks, thread: ticks, frames: &frames[..length], end: End::Full });
            }
            is_done.store(true, Ordering::Release);
        });
        loop {
            let done = is_done.load(Ordering::Acquire);
            read += ring.drain(|sample| {
                assert!(sample.ticks > last && sample.thread == sample.ticks, "{sample:?} after {last}");
                assert_eq!(sample.frames.len(), 1 + sample.ticks as usize % FRAMES_MAX);
                assert!(sample.frames.iter().all(|&frame| frame == sample.ticks), "{sample:?}");
                last = sample.ticks;
            });
            if done {
                break;
            }
        }
    });
    assert_eq!(read + ring.lost(), SAMPLES);
}

/// A kernel in which a second NMI comes whenever the walk reads the stack.
struct Nests<'a> {
    cpu: &'a Cpu<'a>,
    inner: AtomicU64,
}

const AT: Interrupted = Interrupted { ip: 1, stack_pointer: 0x1000, frame_pointer: 0x1000, is_user: false };

impl Stacks for Nests<'_> {
    fn stack_of(&self, _: u64) -> Option<Stack> {
        Some(Stack { range: 0x1000..0x2000, is_interrupts: false })
    }

    fn word(&self, _: u64) -> u64 {
        let outcome = self.cpu.sample(self, &AT, Moment { ticks: 99, thread: 0 });
        assert_eq!(outcome, Outcome::Nested);
        self.inner.fetch_add(1, Ordering::Relaxed);
        0
    }
}

#[test]
fn an_nmi_in_an_nmi_is_counted_and_leaves_the_first_alone() {
    let words = memory(100);
    let cpu = Cpu::new(&words);
    let kernel = Nests { cpu: &cpu, inner: AtomicU64::new(0) };
    assert_eq!(cpu.sample(&kernel, &AT, Moment { ticks: 1, thread: 2 }), Outcome::Taken);
    assert_eq!((cpu.nested(), cpu.lost(), kernel.inner.load(Ordering::Relaxed)), (1, 1, 1));
    let mut samples = Vec::new();
    cpu.drain(|sample| samples.push((sample.ticks, sample.frames.to_vec())));
    assert_eq!(samples, [(1, vec![1])]);
}

#[test]
fn as_perf_script_writes_it() {
    let heading = Heading { ticks_hz: 2_000_000_000, period_ticks: 2_000_000, began_ticks: 1_000_000, lost: 3 };
    let mut text = String::new();
    write_heading(&mut text, &heading).unwrap();
    let sample = Sample { ticks: 3_000_000_001, thread: 7, frames: &[0x20_12ab, 0x20_aa10], end: End::Bottom };
    let symbol = |address| (address == 0x20_12ab).then_some(("scan", 0xab));
    write_sample(&mut text, &heading, 1, "init", &sample, symbol).unwrap();
    let user = Sample { end: End::User, frames: &[0x80_0000_0000], ..sample };
    write_sample(&mut text, &heading, 0, "init", &user, |_| None).unwrap();
    let expected = "\
# clock: tsc 2000000000
# sampled from:     0.000500000
# period: 1000000 ns
# lost: 3

init     7/7 [001]     1.500000000:    1000000 nmi:k:
\t          2012ab scan+0xab ([kernel])
\t          20aa10 [unknown] ([kernel])

init     7/7 [000]     1.500000000:    1000000 nmi:u:
\t      8000000000 [unknown] ([user])

";
    assert_eq!(text, expected);
}
