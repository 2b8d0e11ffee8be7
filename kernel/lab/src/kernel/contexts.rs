//! Threads with a user process, from a debugger's view: the registers and the call of each system call, and the tracer.
//!
//! A tracer stops a thread before and after each system call (`trace=yes` prints both stops), and reads the process's
//! registers and the call. `syscall=` chooses how the kernel finds them, which is also the cost of an untraced call:
//!
//! * `traced` notes in the thread's context where the registers are on the kernel stack. A kernel that copies kernel stacks to
//!   deliver signals needs that; this kernel never copies them. The other ways use a fixed place: the end of the stack.
//! * `traced` and `flat` look for a session of the thread before and after each call. The other two have its stops in the
//!   CPU's data, which the scheduler sets when it switches threads.
//! * All but `lean` copy number and arguments into the context. `lean` reads them from the saved registers.
//!
//! Contexts are in a map and sessions in another, each under a lock.

use crate::console::kprintln;
use crate::lock::SpinLock;
use crate::syscall::Registers;
use crate::{boot, cpu, thread};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use lab::switches::{Syscall, Trace};

/// A stop before each system call.
pub const BEFORE: u8 = 1;
/// A stop after each system call.
pub const AFTER: u8 = 2;

/// The state of a thread with a user process.
#[derive(Default)]
struct Context {
    /// Place of the process's registers during a system call.
    registers: Option<OnStack>,
    /// The present system call.
    call: Option<Call>,
}

/// A place on a kernel stack, relative to its end, so that it stays valid when the stack is copied.
#[derive(Clone, Copy)]
struct OnStack {
    end: u64,
    below_end: u64,
}

/// A system call for a debugger.
#[derive(Clone, Copy, Default)]
pub struct Call {
    number: u64,
    arguments: [u64; 6],
}

/// A tracer's session with a thread.
struct Session {
    stops: u8,
}

/// Contexts by thread id.
static CONTEXTS: SpinLock<BTreeMap<u64, Arc<SpinLock<Context>>>> = SpinLock::new(BTreeMap::new());
static SESSIONS: SpinLock<BTreeMap<u64, Session>> = SpinLock::new(BTreeMap::new());

/// Gives the running thread a context for its user process. Traces the process if the command line asks for it.
pub fn create() {
    let id = cpu::thread_id();
    CONTEXTS.lock().insert(id, Arc::new(SpinLock::new(Context::default())));
    if boot::switches().trace == Trace::Yes {
        SESSIONS.lock().insert(id, Session { stops: BEFORE | AFTER });
        thread::set_stops(BEFORE | AFTER);
    }
}

/// The context of the running thread.
fn current() -> Option<Arc<SpinLock<Context>>> {
    CONTEXTS.lock().get(&cpu::thread_id()).cloned()
}

/// Notes the place of the running thread's registers.
#[inline(never)]
pub fn track(registers: &Registers) {
    let Some(context) = current() else { return };
    let end = cpu::this().kernel_rsp.get();
    let below_end = end - core::ptr::from_ref(registers).addr() as u64;
    context.lock().registers = Some(OnStack { end, below_end });
}

/// Removes the note of `track`.
#[inline(never)]
pub fn untrack() {
    let Some(context) = current() else { return };
    context.lock().registers = None;
}

/// Copies the call for a debugger.
#[inline(never)]
pub fn note(call: Call) {
    let Some(context) = current() else { return };
    context.lock().call = Some(call);
}

/// Removes the copy of `note`.
#[inline(never)]
pub fn forget() {
    let Some(context) = current() else { return };
    context.lock().call = None;
}

/// Clears the context when the process ends in a call that does not return.
pub fn leave() {
    let Some(context) = current() else { return };
    *context.lock() = Context::default();
}

/// Stops the thread if it has a session with this stop.
#[inline(never)]
pub fn stop_if_in_session(stop: u8, result: Option<u64>) {
    let Some(_context) = current() else { return };
    let wants = SESSIONS.lock().get(&cpu::thread_id()).is_some_and(|session| session.stops & stop != 0);
    if wants {
        stopped(result);
    }
}

/// Stops the thread if this CPU's data have this stop for the running thread.
#[inline(always)]
pub fn stop_if_cached(stop: u8, result: Option<u64>) {
    if cpu::this().stops.get() & stop != 0 {
        stopped(result);
    }
}

/// Prints the stop, as a tracer reads it from the thread.
#[cold]
#[inline(never)]
fn stopped(result: Option<u64>) {
    let way = boot::switches().syscall;
    let in_place = cpu::this().kernel_rsp.get() - size_of::<Registers>() as u64;
    let at = match way {
        Syscall::Traced => current().and_then(|context| context.lock().registers).map(|on| on.end - on.below_end),
        Syscall::Flat | Syscall::Cached | Syscall::Lean => Some(in_place),
    };
    // SAFETY: the thread is in a system call, which saved its registers at this address.
    let Some(registers) = at.map(|at| unsafe { &*(at as *const Registers) }) else { return };
    let call = match way {
        Syscall::Lean => Some(Call::of(registers)),
        Syscall::Traced | Syscall::Flat | Syscall::Cached => current().and_then(|context| context.lock().call),
    };
    let Some(Call { number, arguments: [first, second, ..] }) = call else { return };
    let (name, rip) = (thread::name_of(cpu::thread_id()), registers.rip());
    match result {
        None => kprintln!("trace: {name}: {number}({first:#x}, {second:#x}) from {rip:#x}"),
        Some(result) => kprintln!("trace: {name}: {number}({first:#x}, {second:#x}) = {result:#x}"),
    }
}

impl Call {
    /// The call in the registers of the process.
    pub fn of(registers: &Registers) -> Call {
        let r = registers;
        Call { number: r.rax, arguments: [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] }
    }
}
