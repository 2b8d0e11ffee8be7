//! Samples the stack of each CPU many times per second while the kernel boots (`sample=`), interrupts on or off.
//!
//! The PIT's channel 0 beats. The I/O APIC turns each beat into a non-maskable interrupt of the first CPU, whose handler sends
//! one to each of the others. The local APIC's timer cannot do that, because it has no delivery mode. `pit.rs` then counts by
//! channel 2.
//!
//! Sampling begins once there is memory for the rings; the text for the host has the time of the beginning. The rings hold the
//! samples of the whole boot, and go to the host after the hand-over. Samples that find no room are counted. The NMI handler
//! must not fault, print, or take a lock.

use crate::console::kprintln;
use crate::cpu::{self, CPUS_MAX, Cpu};
use crate::trap::NmiFrame;
use crate::{apic, boot, clock, descriptors, entry, exit, memory, panic, pit, thread};
use core::cell::UnsafeCell;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use sampler::text::{Heading, write_heading, write_sample};
use sampler::{Interrupted, Moment, Stack, Stacks};

/// Largest size of a CPU's ring, for many seconds at 1000 Hz. A ring has at most a 32nd of memory, but at least
/// [`MIN_RING_BYTES`].
const MAX_RING_BYTES: u64 = 4 << 20;
const MIN_RING_BYTES: u64 = 64 << 10;

struct Samplers([UnsafeCell<Option<sampler::Cpu<'static>>>; CPUS_MAX]);

// SAFETY: an entry is written once, before its CPU's bit is set in `SAMPLED`. Afterwards it is only shared.
unsafe impl Sync for Samplers {}

static SAMPLERS: Samplers = Samplers([const { UnsafeCell::new(None) }; CPUS_MAX]);
/// A bit for each CPU that is sampled.
static SAMPLED: AtomicU32 = AtomicU32::new(0);
static RUNS: AtomicBool = AtomicBool::new(false);
static BEGAN_TSC: AtomicU64 = AtomicU64::new(0);

fn sampler(index: u32) -> Option<&'static sampler::Cpu<'static>> {
    let is_there = SAMPLED.load(Ordering::Acquire) >> index & 1 == 1;
    // SAFETY: if the bit is set, the entry is written and does not change any more.
    is_there.then(|| unsafe { (*SAMPLERS.0[index as usize].get()).as_ref() }).flatten()
}

/// Starts sampling on the first CPU.
pub fn start() {
    let hz = boot::switches().sample;
    if hz == 0 {
        return;
    }
    if !cfg!(frame_pointers) {
        kprintln!("sampling: this kernel is built without frame pointers: callers are missing");
    }
    prepare(0);
    add_this_cpu();
    BEGAN_TSC.store(cpu::rdtsc(), Ordering::Relaxed);
    RUNS.store(true, Ordering::Release);
    apic::route_pit_as_nmi();
    pit::beat(hz);
}

/// Gives a CPU its ring, before the CPU is started.
pub fn prepare(index: u32) {
    if boot::switches().sample == 0 {
        return;
    }
    let bytes = (memory::end() / 32).clamp(MIN_RING_BYTES, MAX_RING_BYTES);
    let Some(phys) = memory::allocate_frames(bytes / lab::memory_map::FRAME_BYTES) else { return };
    // SAFETY: the memory was just taken, for ever, and is identity mapped; any value is valid. No CPU reads the entry before the
    // CPU's bit is set.
    unsafe {
        let words = core::slice::from_raw_parts(phys as *const AtomicU64, bytes as usize / 8);
        *SAMPLERS.0[index as usize].get() = Some(sampler::Cpu::new(words));
    }
}

/// Lets this CPU take NMIs from now on.
pub fn add_this_cpu() {
    if boot::switches().sample > 0 {
        SAMPLED.fetch_or(1 << cpu::this().index.get(), Ordering::AcqRel);
    }
}

/// Stops sampling, because the boot is done or a CPU has panicked.
pub fn stop() {
    RUNS.store(false, Ordering::Release);
}

/// The NMI handler, which `nmi_entry` calls. A CPU that panicked stops the others by NMIs, and continues itself.
#[unsafe(no_mangle)]
extern "sysv64" fn nmi(frame: &NmiFrame) {
    let cpu = cpu::this();
    let index = cpu.index.get();
    if panic::stops_cpu(index) {
        cpu::stop();
    }
    if !RUNS.load(Ordering::Acquire) {
        // A late beat. Before the first beat, an NMI has no known source.
        assert!(BEGAN_TSC.load(Ordering::Relaxed) > 0, "trap: non-maskable interrupt at {:#x}", frame.rip);
        return;
    }
    if index == 0 {
        let others = SAMPLED.load(Ordering::Acquire) & !1;
        (1..CPUS_MAX as u32)
            .filter(|other| others >> other & 1 == 1)
            .for_each(|other| apic::send_nmi(cpu::apic_id_of(other)));
    }
    let Some(sampler) = sampler(index) else { return };
    let at =
        Interrupted { ip: frame.rip, stack_pointer: frame.rsp, frame_pointer: frame.rbp, is_user: frame.cs & 3 != 0 };
    sampler.sample(&Mine(cpu), &at, Moment { ticks: cpu::rdtsc(), thread: cpu::thread_id() });
}

/// The stacks that this CPU may be using: those of its interrupts, of its scheduler, and of the running thread.
struct Mine(&'static Cpu);

impl Stacks for Mine {
    fn stack_of(&self, address: u64) -> Option<Stack> {
        let find = |range: core::ops::Range<u64>, is_interrupts| {
            range.contains(&address).then_some(Stack { range, is_interrupts })
        };
        let slot = self.0.current.get();
        let threads = (slot != thread::NO_THREAD).then(|| thread::stack(slot)).and_then(|range| find(range, false));
        threads
            .or_else(|| find(entry::boot_stack_range(), false))
            .or_else(|| find(self.0.scheduler_stack(), false))
            .or_else(|| descriptors::interrupt_stacks(self.0).into_iter().find_map(|range| find(range, true)))
    }

    fn word(&self, address: u64) -> u64 {
        // SAFETY: the address is in a stack that `stack_of` returned, and all of these are mapped.
        unsafe { (address as *const u64).read_volatile() }
    }
}

/// Sends all samples to the host, as `perf script` text.
pub fn deliver() {
    stop();
    if SAMPLED.load(Ordering::Acquire) == 0 {
        return;
    }
    let samplers = || (0..CPUS_MAX as u32).filter_map(|index| Some((index, sampler(index)?)));
    let heading = Heading {
        ticks_hz: clock::tsc_hz(),
        period_ticks: u64::from(pit::beat_ticks(boot::switches().sample)) * clock::tsc_hz() / pit::HZ,
        began_ticks: BEGAN_TSC.load(Ordering::Relaxed),
        lost: samplers().map(|(_, sampler)| sampler.lost()).sum(),
    };
    // CPUs without a ring, because there was no memory for it.
    let unsampled = SAMPLED.load(Ordering::Acquire).count_ones() - samplers().count() as u32;
    let mut file = exit::HostFile::new("samples.txt");
    let _ = write_heading(&mut file, &heading);
    let _ = writeln!(file, "# CPUs not sampled: {unsampled}");
    let mut count = 0;
    for (index, sampler) in samplers() {
        count += sampler.drain(|sample| {
            // The host's file never fails.
            let _ = write_sample(&mut file, &heading, index, thread::name_of(sample.thread), sample, |_| None);
        });
    }
    file.end();
    kprintln!("sampling: {count} samples, {} lost", heading.lost);
    if unsampled > 0 {
        kprintln!("sampling: {unsampled} CPUs not sampled: no memory for their rings");
    }
}
