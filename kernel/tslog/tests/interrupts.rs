//! Interrupts the recorder everywhere: a signal handler stands for the NMI, and records into the same log.
//!
//! On x86-64 the trap flag interrupts after every single instruction of one event. So every place between reserving the slot
//! and making the record whole is certainly hit. On every architecture, another thread sends a storm of signals.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tslog::layout::TicksSource;
use tslog::{Entry, Kind, Log, Name, Region, Slot};

fn on_signal(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: the handlers of this file only use atomics.
    let before = unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
    assert_ne!(before, libc::SIG_ERR);
}

#[cfg(target_arch = "x86_64")]
mod every_instruction {
    use super::*;
    use std::arch::asm;

    tslog::kernel!(thread = || 0x77);

    /// Number of runs of the handler.
    static TRAPS: AtomicU64 = AtomicU64::new(0);
    /// Number of half-written slots that the handler saw.
    static HALF_WRITTEN: AtomicU64 = AtomicU64::new(0);
    static WRONG: AtomicBool = AtomicBool::new(false);

    extern "C" fn trap(_: i32) {
        tslog::event!("nmi");
        TRAPS.fetch_add(1, Ordering::Relaxed);
        let Some(log) = tslog::log() else { return };
        let half_written = (0..log.counts().reserved).filter(|slot| log.slot(*slot) == Slot::HalfWritten).count();
        HALF_WRITTEN.fetch_add(half_written as u64, Ordering::Relaxed);
        WRONG.fetch_or(half_written > 1, Ordering::Relaxed);
    }

    #[test]
    fn an_nmi_after_every_instruction_of_an_event() {
        const TRAP_FLAG: i32 = 0x100;
        on_signal(libc::SIGTRAP, trap);
        tslog::start!(records = 20_000, arena_bytes = 0);
        // SAFETY: sets the trap flag; the handler runs without it and returns to here.
        unsafe { asm!("pushfq", "or dword ptr [rsp], {flag}", "popfq", flag = const TRAP_FLAG) };
        tslog::event!("interrupted", "everywhere");
        // SAFETY: clears the trap flag.
        unsafe { asm!("pushfq", "and dword ptr [rsp], {mask}", "popfq", mask = const !TRAP_FLAG) };

        let log = tslog::log().expect("it was started");
        let counts = log.counts();
        let (traps, half_written) = (TRAPS.load(Ordering::Relaxed), HALF_WRITTEN.load(Ordering::Relaxed));
        println!("{traps} interrupts, {half_written} of them between reserve and whole");
        assert_eq!((counts.reserved, counts.dropped), (traps + 1, 0));
        assert!(!WRONG.load(Ordering::Relaxed), "the interrupted record alone may be half-written");
        // Five stores, so at least four places between the first and the last of them.
        assert!(half_written >= 4, "the slot was reserved and filled without an interrupt in between");
        assert!(traps > half_written);

        let mut text = String::new();
        let dump = tslog::write_text(&mut text).expect("a string takes all");
        assert_eq!((dump.records, dump.half_written, dump.malformed), (traps + 1, 0, 0));
        assert_eq!(text.lines().filter(|line| line.ends_with(" EVENT nmi")).count() as u64, traps);
        assert_eq!(text.lines().filter(|line| line.ends_with(" EVENT interrupted everywhere")).count(), 1);
        assert!(text.lines().all(|line| line.starts_with("0x77 ")));
    }
}

static REGION: Region<400_000, 0> = Region::new();
static LOG: OnceLock<Log> = OnceLock::new();
static INTERRUPTS: AtomicU64 = AtomicU64::new(0);

fn write(thread: u64, ticks: u64) {
    let entry = Entry { ticks, thread, kind: Kind::Event, name: Name::from("event"), detail: Name::NONE };
    // SAFETY: the name is a literal.
    unsafe { LOG.get().expect("the test began with it").write(entry.to_words()) };
}

extern "C" fn interrupt(_: i32) {
    write(2, INTERRUPTS.fetch_add(1, Ordering::Relaxed));
}

#[test]
fn a_storm_of_interrupts_loses_nothing() {
    const WANTED: u64 = 1_000;
    // Enough that most interrupts hit the recorder, few enough that the log does not fill up before they come.
    const WRITTEN_PER_INTERRUPT: u64 = 300;
    LOG.set(Log::start(&REGION, TicksSource::Unknown)).expect("only here");
    on_signal(libc::SIGUSR1, interrupt);
    // Kept as a number: with musl it is a pointer, which cannot be sent to another thread.
    // SAFETY: a thread may read its own id.
    let victim = unsafe { libc::pthread_self() } as usize;
    let done = AtomicBool::new(false);
    let mut written = 0;
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: the victim outlives this thread.
                unsafe { libc::pthread_kill(victim as libc::pthread_t, libc::SIGUSR1) };
                std::hint::spin_loop();
            }
        });
        while INTERRUPTS.load(Ordering::Relaxed) < WANTED {
            if written < INTERRUPTS.load(Ordering::Relaxed) * WRITTEN_PER_INTERRUPT {
                write(1, written);
                written += 1;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let log = LOG.get().expect("set above");
    let (counts, interrupts) = (log.counts(), INTERRUPTS.load(Ordering::Relaxed));
    assert_eq!((counts.reserved, counts.dropped), (written + interrupts, 0));
    let mut expected = [0, 0];
    for slot in 0..counts.reserved {
        let Slot::Whole(entry) = log.slot(slot) else { panic!("slot {slot} is half-written after the end") };
        // Records of interrupts lie between the others, but the records of each kind are in order.
        let expected = &mut expected[entry.thread as usize - 1];
        assert_eq!(entry.ticks, *expected, "slot {slot}");
        *expected += 1;
    }
    println!("{written} records, and {interrupts} of interrupts");
    assert_eq!(expected, [written, interrupts]);
}
