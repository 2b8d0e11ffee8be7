//! The kernel's one log, which the macros write into. Without the feature `on`, all of it does nothing.
//!
//! The log is found by a pointer that C shares under the name `tslog_region`; until it is set, events are counted and
//! lost. What records is a function that [`kernel!`](crate::kernel) defines in the kernel's own crate, under a name that
//! the linker resolves: a macro in any crate is a direct call, and the counter and the thread are read in line.

use crate::log::{Log, Region};
use crate::name::Name;
use crate::text::Dump;
use core::fmt;
use core::ptr::NonNull;

/// What the recorder asks of a kernel; see [`kernel!`](crate::kernel).
pub trait Kernel {
    /// The running thread, for every event, in any context: interrupts, NMIs, and before there are threads. The first
    /// thread has one id from the first event on, as FreeBSD's is `&thread0`: with two, a reader sees two threads. Must
    /// neither block nor record.
    fn thread() -> u64;

    /// A counter of the kernel's own in place of the architecture's, read for every event, in any context. Needed where
    /// the architecture has none that is known here.
    const COUNTER: Option<fn() -> u64> = None;
}

/// The log, once it is started; none if the recorder is off.
#[inline]
pub fn log() -> Option<Log> {
    this::log()
}

/// Starts the log in a static; [`start!`](crate::start!) does it with one of its own. Started again in the same static it
/// goes on where it was.
#[inline]
pub fn start<const RECORDS: usize, const ARENA_BYTES: usize>(region: &'static Region<RECORDS, ARENA_BYTES>) {
    this::start(region);
}

/// Clears memory that was found at boot and starts the log in it. False if the memory is not 64-byte aligned, has no room
/// for a record, or is larger than [`REGION_BYTES_MAX`](crate::layout::REGION_BYTES_MAX).
///
/// # Safety
/// The memory is readable and writable, ordinary (cached) memory, the log's alone, and never freed.
#[inline]
pub unsafe fn start_in(memory: NonNull<u8>, bytes: usize, arena_bytes: usize) -> bool {
    // SAFETY: the caller's promise is the same.
    unsafe { this::start_in(memory, bytes, arena_bytes) }
}

/// Goes on after paging has moved the kernel: the log is now at its old address plus `offset`. Nobody else may record
/// meanwhile. Names recorded so far print as addresses from now on, but for those copied into the log; in an image of
/// memory they are still found (see [`add_range`]).
///
/// # Safety
/// The log's memory is mapped there, all of it, and stays so. No [`Name`] of before, nor a [`Scope`], which holds one, is
/// recorded after, unless it can still be read where it was.
#[inline]
pub unsafe fn rebase(offset: isize) {
    // SAFETY: the caller's promise is the same.
    unsafe { this::rebase(offset) }
}

/// Copies a name that does not live for ever into the log (see [`Log::copy`]); [`Name::NONE`] before it is started.
pub fn copy(text: &str) -> Name {
    log().map_or(Name::NONE, |log| log.copy(text))
}

/// Says how many ticks a second has (see [`Log::set_ticks_hz`]).
pub fn set_ticks_hz(hz: u64) {
    if let Some(log) = log() {
        log.set_ticks_hz(hz);
    }
}

/// Says where a range of virtual addresses is in physical memory (see [`Log::add_range`]). False if there is no room for
/// another, or no log.
pub fn add_range(virt: u64, phys: u64, bytes: u64) -> bool {
    log().is_some_and(|log| log.add_range(virt, phys, bytes))
}

/// Prints the log as FreeBSD does, a line per record, to a UART or whatever else can be written to.
///
/// # Errors
/// Those of `out`.
pub fn write_text<W: fmt::Write>(out: &mut W) -> Result<Dump, fmt::Error> {
    match log() {
        Some(log) => {
            this::count_early(log);
            // SAFETY: names in the kernel's log are the kernel's own, which live for ever where they were recorded, or
            // were recorded before `rebase`.
            unsafe { crate::text::write_live_text(log, out) }
        }
        None => Ok(Dump::default()),
    }
}

#[cfg(feature = "on")]
pub use this::{record, record_event_of, record_thread, source_of, write_for};

#[cfg(feature = "on")]
mod this {
    use super::Kernel;
    use crate::counter;
    use crate::layout::{Header, TicksSource};
    use crate::log::{Log, Region};
    use crate::name::Name;
    use crate::record::{Kind, word};
    use core::ptr::NonNull;
    use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

    /// The log's header; null until the log is started. C knows it by this name.
    #[unsafe(export_name = "tslog_region")]
    static REGION: AtomicPtr<Header> = AtomicPtr::new(core::ptr::null_mut());

    /// Events for which there was no log yet. C counts them under the same name.
    #[unsafe(export_name = "tslog_before_start")]
    static BEFORE_START: AtomicU64 = AtomicU64::new(0);

    /// Instead of a thread: the one that is running. No thread is at that address.
    const RUNNING: u64 = u64::MAX;

    // Defined where `tslog::kernel!` stands. If the linker misses these, no crate of the kernel has that macro.
    unsafe extern "Rust" {
        fn __tslog_write(thread: u64, name: u64, detail: u64, word: u64);
        safe fn __tslog_source() -> TicksSource;
    }

    // What refers to them must be in line, so that a program that only reads logs links without them.

    /// Records an event of the running thread. The macros call it: four registers, of which most are constants there.
    #[inline(always)]
    pub fn record(kind: Kind, name: Name, detail: Name) {
        // SAFETY: a `Name` is at an address that can be read for ever.
        unsafe { __tslog_write(RUNNING, name.address, detail.address, word(kind, name, detail)) };
    }

    /// Records what a thread is called. [`thread!`](crate::thread) calls it.
    #[inline(always)]
    pub fn record_thread(thread: u64, name: Name) {
        // SAFETY: likewise.
        unsafe { __tslog_write(thread, name.address, 0, word(Kind::Thread, name, Name::NONE)) };
    }

    /// Records an event of a thread that need not run. [`run!`](crate::run) and [`ready!`](crate::ready) call it.
    #[inline(always)]
    pub fn record_event_of(thread: u64, name: Name, detail: Name) {
        // SAFETY: likewise.
        unsafe { __tslog_write(thread, name.address, detail.address, word(Kind::Event, name, detail)) };
    }

    /// `__tslog_write` for a kernel.
    ///
    /// # Safety
    /// The strings at both addresses can be read for ever, as far as the word says.
    #[inline(always)]
    pub unsafe fn write_for<K: Kernel>(thread: u64, name: u64, detail: u64, word: u64) {
        // In this order: the address is there when the counter, the slowest of all, is. And the counter before the slot,
        // for which one may have to wait for other CPUs: the event was before that.
        let Some(log) = log() else { return too_early() };
        let ticks = K::COUNTER.map_or_else(counter::ticks, |counter| counter());
        let thread = if thread == RUNNING { K::thread() } else { thread };
        // SAFETY: the caller's promise is the same.
        unsafe { log.write([ticks, thread, name, detail, word]) };
    }

    #[cold]
    #[inline(never)]
    fn too_early() {
        BEFORE_START.fetch_add(1, Ordering::Relaxed);
    }

    /// `__tslog_source` for a kernel.
    pub fn source_of<K: Kernel>() -> TicksSource {
        const {
            let known = !matches!(counter::SOURCE, TicksSource::Unknown);
            assert!(known || K::COUNTER.is_some(), "no counter is known for this architecture: give the kernel one");
        }
        if K::COUNTER.is_some() { TicksSource::Own } else { counter::SOURCE }
    }

    #[inline(always)]
    pub fn log() -> Option<Log> {
        let base = NonNull::new(REGION.load(Ordering::Acquire))?;
        // SAFETY: `publish` stores the base of a started log, and `rebase` where that is mapped now.
        Some(unsafe { Log::at(base) })
    }

    #[inline]
    pub fn start<const R: usize, const A: usize>(region: &'static Region<R, A>) {
        publish(Log::start(region, __tslog_source()));
    }

    #[inline]
    pub unsafe fn start_in(memory: NonNull<u8>, bytes: usize, arena_bytes: usize) -> bool {
        // SAFETY: the caller's promise is the same.
        let log = unsafe { Log::start_in(memory, bytes, arena_bytes, __tslog_source()) };
        log.map(publish).is_some()
    }

    fn publish(log: Log) {
        log.set_ticks_hz_if_unknown(counter::hz());
        REGION.store(log.base().as_ptr(), Ordering::Release);
        // After that: an interrupt until then still finds no log.
        count_early(log);
    }

    /// Moves the count of events that found no log into it. One on another CPU may have looked for it before it was
    /// started and be counted after, so whoever prints does this again.
    pub fn count_early(log: Log) {
        log.add_before_start(BEFORE_START.swap(0, Ordering::Relaxed));
    }

    pub unsafe fn rebase(offset: isize) {
        let Some(old) = log().filter(|_| offset != 0) else { return };
        REGION.store(old.base().as_ptr().wrapping_byte_offset(offset), Ordering::Release);
        if let Some(log) = log() {
            log.moved();
        }
    }
}

#[cfg(not(feature = "on"))]
#[allow(clippy::extra_unused_type_parameters, reason = "the same signatures as the recorder's")]
mod this {
    use crate::log::{Log, Region};
    use core::ptr::NonNull;

    pub fn log() -> Option<Log> {
        None
    }

    pub fn count_early(_: Log) {}

    pub fn start<const R: usize, const A: usize>(_: &'static Region<R, A>) {}

    pub unsafe fn start_in(_: NonNull<u8>, _: usize, _: usize) -> bool {
        true
    }

    pub unsafe fn rebase(_: isize) {}
}

/// What [`scope!`](crate::scope) returns: it records the end when it is dropped.
#[must_use = "a scope ends where it is dropped: let _scope = tslog::scope!()"]
#[derive(Debug)]
pub struct Scope {
    #[cfg(feature = "on")]
    name: Name,
    #[cfg(feature = "on")]
    detail: Name,
}

#[cfg(feature = "on")]
impl Scope {
    /// Records that it begins.
    #[inline(always)]
    pub fn enter(name: Name, detail: Name) -> Scope {
        record(crate::Kind::Enter, name, detail);
        Scope { name, detail }
    }
}

#[cfg(feature = "on")]
impl Drop for Scope {
    #[inline(always)]
    fn drop(&mut self) {
        record(crate::Kind::Exit, self.name, self.detail);
    }
}

#[cfg(not(feature = "on"))]
impl Scope {
    /// The recorder is off.
    #[inline(always)]
    pub const fn off() -> Scope {
        Scope {}
    }
}
