//! The kernel's one log, which the macros write into. Without the feature `on`, all of it does nothing.
//!
//! Two pointers: the region, shared with C under the name `tslog_region`, and the function that records. The latter is
//! made for the kernel's own [`Kernel`] when the log is started, so that the counter and the thread are read in line.

use crate::layout::TicksSource;
use crate::log::{Log, Region};
use crate::name::Name;
use crate::text::Dump;
use core::fmt;
use core::ptr::NonNull;

/// What the recorder asks of a kernel.
pub trait Kernel {
    /// The running thread, for every event, in any context: interrupts, NMIs, and before there are threads (0 by
    /// FreeBSD's custom, or the address of the first one). Must neither block nor record.
    fn thread() -> u64;

    /// The cycle counter, in any context.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
    #[inline(always)]
    fn ticks() -> u64 {
        crate::counter::ticks()
    }

    /// The cycle counter, in any context.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    fn ticks() -> u64;

    /// What [`Kernel::ticks`] counts; a kernel that has its own says so.
    const TICKS_SOURCE: TicksSource = crate::counter::SOURCE;
}

/// The log, once it is started; none if the recorder is off.
pub fn log() -> Option<Log> {
    this::log()
}

/// Starts the log in a static; [`start!`](crate::start) does it with one of its own. Started again in the same static it
/// goes on where it was.
pub fn start<K: Kernel, const RECORDS: usize, const ARENA_BYTES: usize>(region: &'static Region<RECORDS, ARENA_BYTES>) {
    this::start::<K, RECORDS, ARENA_BYTES>(region);
}

/// Clears memory that was found at boot and starts the log in it. False if the memory is not 64-byte aligned, has no room
/// for a record, or is larger than [`REGION_BYTES_MAX`](crate::layout::REGION_BYTES_MAX).
///
/// # Safety
/// The memory is readable and writable, ordinary (cached) memory, the log's alone, and never freed.
pub unsafe fn start_in<K: Kernel>(memory: NonNull<u8>, bytes: usize, arena_bytes: usize) -> bool {
    // SAFETY: the caller's promise is the same.
    unsafe { this::start_in::<K>(memory, bytes, arena_bytes) }
}

/// Goes on after paging has moved the kernel: called by code that already runs at its new addresses, it says that the log
/// is now at its old address plus `offset`. Nobody else may record meanwhile.
///
/// # Safety
/// The log's memory is mapped there, all of it, and stays so.
pub unsafe fn rebase<K: Kernel>(offset: isize) {
    // SAFETY: the caller's promise is the same.
    unsafe { this::rebase::<K>(offset) }
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

/// Says where a range of virtual addresses is in physical memory (see [`Log::add_range`]).
pub fn add_range(virt: u64, phys: u64, bytes: u64) -> bool {
    log().is_none_or(|log| log.add_range(virt, phys, bytes))
}

/// Prints the log as FreeBSD does, a line per record, to a UART or whatever else can be written to.
///
/// # Errors
/// Those of `out`.
pub fn write_text<W: fmt::Write>(out: &mut W) -> Result<Dump, fmt::Error> {
    match log() {
        // SAFETY: names in the kernel's log are the kernel's own, which live for ever.
        Some(log) => unsafe { crate::text::write_live_text(log, out) },
        None => Ok(Dump::default()),
    }
}

#[cfg(feature = "on")]
pub use this::record;

#[cfg(feature = "on")]
mod this {
    use super::Kernel;
    use crate::layout::Header;
    use crate::log::{Log, Region};
    use crate::name::Name;
    use crate::record::{Entry, Kind};
    use core::ptr::NonNull;
    use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

    /// The log's header; null until the log is started. C knows it by this name.
    #[unsafe(export_name = "tslog_region")]
    static REGION: AtomicPtr<Header> = AtomicPtr::new(core::ptr::null_mut());

    /// A [`Recorder`]; null until the log is started.
    static RECORDER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

    /// Events for which there was no log yet. C counts them under the same name.
    #[unsafe(export_name = "tslog_before_start")]
    static BEFORE_START: AtomicU64 = AtomicU64::new(0);

    type Recorder = fn(Option<u64>, Kind, Name, Name);

    /// Records an event; of another thread than the running one if one is named. The macros call it.
    #[inline]
    pub fn record(thread: Option<u64>, kind: Kind, name: Name, detail: Name) {
        let recorder = RECORDER.load(Ordering::Acquire);
        if recorder.is_null() {
            BEFORE_START.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // SAFETY: only `store` stores there, and it stores a `Recorder`.
        let recorder: Recorder = unsafe { core::mem::transmute(recorder) };
        recorder(thread, kind, name, detail);
    }

    fn record_for<K: Kernel>(thread: Option<u64>, kind: Kind, name: Name, detail: Name) {
        // First: what follows may wait for other CPUs, and the event was before that.
        let ticks = K::ticks();
        let thread = thread.unwrap_or_else(K::thread);
        if let Some(log) = log() {
            log.write(&Entry { ticks, thread, kind, name, detail });
        }
    }

    #[inline(always)]
    pub fn log() -> Option<Log> {
        let base = NonNull::new(REGION.load(Ordering::Acquire))?;
        // SAFETY: only `store` stores there: the base of a started log, or where that was said to be mapped now.
        Some(unsafe { Log::at(base) })
    }

    pub fn start<K: Kernel, const R: usize, const A: usize>(region: &'static Region<R, A>) {
        publish::<K>(Log::start(region, K::TICKS_SOURCE));
    }

    pub unsafe fn start_in<K: Kernel>(memory: NonNull<u8>, bytes: usize, arena_bytes: usize) -> bool {
        // SAFETY: the caller's promise is the same.
        let log = unsafe { Log::start_in(memory, bytes, arena_bytes, K::TICKS_SOURCE) };
        log.map(publish::<K>).is_some()
    }

    fn publish<K: Kernel>(log: Log) {
        if K::TICKS_SOURCE == crate::counter::SOURCE {
            log.set_ticks_hz(crate::counter::hz());
        }
        log.add_before_start(BEFORE_START.swap(0, Ordering::Relaxed));
        store::<K>(log.base().as_ptr());
    }

    /// The recorder's address is that of the code that runs now.
    fn store<K: Kernel>(base: *mut Header) {
        REGION.store(base, Ordering::Release);
        let recorder: Recorder = record_for::<K>;
        RECORDER.store(recorder as *mut (), Ordering::Release);
    }

    pub unsafe fn rebase<K: Kernel>(offset: isize) {
        let Some(old) = log() else { return };
        store::<K>(old.base().as_ptr().wrapping_byte_offset(offset));
        if let Some(log) = log() {
            log.moved();
        }
    }
}

#[cfg(not(feature = "on"))]
#[allow(clippy::extra_unused_type_parameters, reason = "the same signatures as the recorder's")]
mod this {
    use super::Kernel;
    use crate::log::{Log, Region};
    use core::ptr::NonNull;

    pub fn log() -> Option<Log> {
        None
    }

    pub fn start<K: Kernel, const R: usize, const A: usize>(_: &'static Region<R, A>) {}

    pub unsafe fn start_in<K: Kernel>(_: NonNull<u8>, _: usize, _: usize) -> bool {
        true
    }

    pub unsafe fn rebase<K: Kernel>(_: isize) {}
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
    #[inline]
    pub fn enter(name: Name, detail: Name) -> Scope {
        record(None, crate::Kind::Enter, name, detail);
        Scope { name, detail }
    }
}

#[cfg(feature = "on")]
impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        record(None, crate::Kind::Exit, self.name, self.detail);
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
