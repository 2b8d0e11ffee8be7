//! The kernel's one log, which the macros write into. Without the feature `on`, every function here does nothing.
//!
//! A pointer leads to the log. C shares it under the name `tslog_region`. Until it is set, events are counted and lost.
//! [`kernel!`](crate::kernel) defines the recording function in the kernel's own crate, under a name that the linker
//! resolves. So a macro in any crate is a direct call, and the counter and the thread are read inline.

use crate::log::{Log, Region};
use crate::name::Name;
use crate::text::Dump;
use core::fmt;
use core::ptr::NonNull;

/// The functions that the recorder needs from a kernel; see [`kernel!`](crate::kernel).
pub trait Kernel {
    /// Returns the id of the running thread. The recorder calls it for every event, in any context: interrupts, NMIs, and
    /// before there are threads. It must neither block nor record.
    ///
    /// The first thread has one id from the first event on, like FreeBSD's `&thread0`. With two ids, a reader sees two
    /// threads.
    fn thread() -> u64;

    /// A counter to use instead of the architecture's. The recorder reads it for every event, in any context. Required on
    /// an architecture for which tslog has no counter.
    const COUNTER: Option<fn() -> u64> = None;
}

/// The log; `None` before it is started, or if the recorder is off.
#[inline]
pub fn log() -> Option<Log> {
    this::log()
}

/// Starts the log in a static; [`start!`](crate::start!) declares the static too. A second start in the same static
/// continues the log.
#[inline]
pub fn start<const RECORDS: usize, const ARENA_BYTES: usize>(region: &'static Region<RECORDS, ARENA_BYTES>) {
    this::start(region);
}

/// Clears memory that was found at boot and starts the log in it. Returns false if the memory is not 64-byte aligned, has
/// no room for a record, or is larger than [`REGION_BYTES_MAX`](crate::layout::REGION_BYTES_MAX).
///
/// # Safety
/// The memory is ordinary (cached) memory, readable and writable. Only the log uses it, and it is never freed.
#[inline]
pub unsafe fn start_in(memory: NonNull<u8>, bytes: usize, arena_bytes: usize) -> bool {
    // SAFETY: the caller's promise is the same.
    unsafe { this::start_in(memory, bytes, arena_bytes) }
}

/// Continues the log after paging has moved the kernel: the log is now at its old address plus `offset`.
///
/// No other CPU or interrupt may record during this call. From now on, names recorded so far print as addresses, except
/// those copied into the log. A reader of a memory image still finds them (see [`add_range`]).
///
/// # Safety
/// All of the log's memory is mapped at the new address, and stays mapped. A [`Name`] made before the move is not recorded
/// after it, unless it can still be read at its old address. The same holds for a [`Scope`], which holds names.
#[inline]
pub unsafe fn rebase(offset: isize) {
    // SAFETY: the caller's promise is the same.
    unsafe { this::rebase(offset) }
}

/// Copies a name that does not live for ever into the log (see [`Log::copy`]). Returns [`Name::NONE`] before the log is
/// started.
pub fn copy(text: &str) -> Name {
    log().map_or(Name::NONE, |log| log.copy(text))
}

/// Sets the counter's rate, in ticks per second (see [`Log::set_ticks_hz`]).
pub fn set_ticks_hz(hz: u64) {
    if let Some(log) = log() {
        log.set_ticks_hz(hz);
    }
}

/// Records where a range of virtual addresses is in physical memory (see [`Log::add_range`]). Returns false if there is no
/// room for another range, or no log.
pub fn add_range(virt: u64, phys: u64, bytes: u64) -> bool {
    log().is_some_and(|log| log.add_range(virt, phys, bytes))
}

/// Prints the log as FreeBSD does, a line per record, to a UART or any other writer.
///
/// # Errors
/// Returns the errors of `out`.
pub fn write_text<W: fmt::Write>(out: &mut W) -> Result<Dump, fmt::Error> {
    match log() {
        Some(log) => {
            this::count_early(log);
            // SAFETY: the names in the kernel's log are the kernel's own. Each lives for ever at its recorded address, or
            // was recorded before `rebase`.
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

    /// The log's header; null until the log is started. C refers to it by this name.
    #[unsafe(export_name = "tslog_region")]
    static REGION: AtomicPtr<Header> = AtomicPtr::new(core::ptr::null_mut());

    /// Number of events that came before the log was started. C counts them under the same name.
    #[unsafe(export_name = "tslog_before_start")]
    static BEFORE_START: AtomicU64 = AtomicU64::new(0);

    /// Thread id that stands for the running thread. No thread is at that address.
    const RUNNING: u64 = u64::MAX;

    // `tslog::kernel!` defines these. If the linker misses them, no crate of the kernel has that macro.
    unsafe extern "Rust" {
        fn __tslog_write(thread: u64, name: u64, detail: u64, word: u64);
        safe fn __tslog_source() -> TicksSource;
    }

    // Functions that refer to these must be inline, so that a program that only reads logs links without them.

    /// Records an event of the running thread. The macros call it with four registers, most of them constants.
    #[inline(always)]
    pub fn record(kind: Kind, name: Name, detail: Name) {
        // SAFETY: the address of a `Name` can be read for ever.
        unsafe { __tslog_write(RUNNING, name.address, detail.address, word(kind, name, detail)) };
    }

    /// Records the name of a thread. [`thread!`](crate::thread) calls it.
    #[inline(always)]
    pub fn record_thread(thread: u64, name: Name) {
        // SAFETY: likewise.
        unsafe { __tslog_write(thread, name.address, 0, word(Kind::Thread, name, Name::NONE)) };
    }

    /// Records an event of a thread that may not be running. [`run!`](crate::run) and [`ready!`](crate::ready) call it.
    #[inline(always)]
    pub fn record_event_of(thread: u64, name: Name, detail: Name) {
        // SAFETY: likewise.
        unsafe { __tslog_write(thread, name.address, detail.address, word(Kind::Event, name, detail)) };
    }

    /// `__tslog_write` for a kernel.
    ///
    /// # Safety
    /// The strings at both addresses can be read for ever, up to the lengths in `word`.
    #[inline(always)]
    pub unsafe fn write_for<K: Kernel>(thread: u64, name: u64, detail: u64, word: u64) {
        // The order matters. The log's address is loaded by the time the counter, the slowest read, arrives. The counter is
        // read before the slot is reserved: reserving may wait for other CPUs, and the event happened before that.
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
        // After the store: an interrupt before it still finds no log.
        count_early(log);
    }

    /// Moves the count of events that came before the log into the log. An event on another CPU may have looked for the log
    /// before the start and be counted after it, so printing calls this again.
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

/// The guard that [`scope!`](crate::scope) returns. It records the end of the scope when it is dropped.
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
    /// Records the beginning of a scope.
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
    /// A scope that records nothing, because the recorder is off.
    #[inline(always)]
    pub const fn off() -> Scope {
        Scope {}
    }
}
