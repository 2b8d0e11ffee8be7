//! Sampling while the kernel boots (`sample=`): where each CPU is, so many times a second, interrupts on or off.
//!
//! The PIT's channel 0 beats. The I/O APIC passes each beat to the first CPU as a non-maskable interrupt, and that CPU's
//! handler sends one to each of the others. The local APIC's timer could not: it has no delivery mode. `pit.rs` counts by channel
//! 2 then.
//!
//! It begins once there is memory for the rings: what comes before is unseen, and said to be. The rings hold the whole
//! boot, and go to the host when the kernel has handed over; what finds no room is counted. What happens in here must not
//! fault, print, or take a lock.

use crate::console::kprintln;
use crate::cpu::{self, CPUS_MAX, Cpu};
use crate::trap::NmiFrame;
use crate::{apic, boot, clock, descriptors, entry, exit, memory, panic, pit, thread};
use core::cell::UnsafeCell;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use sampler::text::{Heading, write_heading, write_sample};
use sampler::{Interrupted, Moment, Stack, Stacks};

/// A CPU's ring: seconds at 1000 Hz, but no more than a 32nd of memory.
const RING_BYTES_MAX: u64 = 4 << 20;
const RING_BYTES_MIN: u64 = 64 << 10;

struct Samplers([UnsafeCell<Option<sampler::Cpu<'static>>>; CPUS_MAX]);

// SAFETY: an entry is written once, before its CPU's bit is set in `SAMPLED`, and only shared afterwards.
unsafe impl Sync for Samplers {}

static SAMPLERS: Samplers = Samplers([const { UnsafeCell::new(None) }; CPUS_MAX]);
/// A bit for each CPU that is sampled.
static SAMPLED: AtomicU32 = AtomicU32::new(0);
static RUNS: AtomicBool = AtomicBool::new(false);
static BEGAN_TSC: AtomicU64 = AtomicU64::new(0);

fn sampler(index: u32) -> Option<&'static sampler::Cpu<'static>> {
    let is_there = SAMPLED.load(Ordering::Acquire) >> index & 1 == 1;
    // SAFETY: the bit says that the entry is written for good.
    is_there.then(|| unsafe { (*SAMPLERS.0[index as usize].get()).as_ref() }).flatten()
}

/// Begins, on the first CPU.
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

/// Gives a CPU that is to be started its ring.
pub fn prepare(index: u32) {
    if boot::switches().sample == 0 {
        return;
    }
    let bytes = (memory::end() / 32).clamp(RING_BYTES_MIN, RING_BYTES_MAX);
    let Some(phys) = memory::allocate_frames(bytes / lab::memory_map::FRAME_BYTES) else { return };
    // SAFETY: the memory was just taken, for ever, and is mapped onto itself; any value will do. Nobody looks at the entry before
    // the CPU's bit is set.
    unsafe {
        let words = core::slice::from_raw_parts(phys as *const AtomicU64, bytes as usize / 8);
        *SAMPLERS.0[index as usize].get() = Some(sampler::Cpu::new(words));
    }
}

/// This CPU can take NMIs from now on.
pub fn add_this_cpu() {
    if boot::switches().sample > 0 {
        SAMPLED.fetch_or(1 << cpu::this().index.get(), Ordering::AcqRel);
    }
}

/// No more samples: the boot is done, or a CPU has panicked.
pub fn stop() {
    RUNS.store(false, Ordering::Release);
}

/// From `nmi_entry`. The CPU that panicked stops the others so, and goes on itself.
#[unsafe(no_mangle)]
extern "sysv64" fn nmi(frame: &NmiFrame) {
    let cpu = cpu::this();
    let index = cpu.index.get();
    if panic::stops_cpu(index) {
        cpu::stop();
    }
    if !RUNS.load(Ordering::Acquire) {
        // A beat that was under way; before the first of them, an NMI is nobody's.
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

/// The stacks that this CPU may be on: its interrupts', its scheduler's, and the running thread's.
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
        // SAFETY: the address is in a stack of `stack_of`'s, and all of these are mapped.
        unsafe { (address as *const u64).read_volatile() }
    }
}

/// Hands all samples to the host, as `perf script` text.
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
    // A CPU for whose ring there was no memory.
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
