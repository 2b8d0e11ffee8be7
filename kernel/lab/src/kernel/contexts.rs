//! Threads with a user process, as a debugger sees them: what each is in a system call with, and who traces it.
//!
//! A tracer wants to be told before and after each system call (`trace=yes` prints both), with the registers of the process
//! and with the call. How they are found is what `syscall=` chooses, and what an untraced call pays for:
//!
//! * `traced` notes in the thread's context where on the kernel stack the registers are, as a kernel must that copies kernel
//!   stacks to deliver signals (this one never does). The other ways know the place: the end of the stack.
//! * `traced` and `flat` look for a session of the thread's before and after each call. The other two have its stops in the
//!   CPU's own data, set where threads are switched.
//! * All but `lean` copy number and arguments into the context. `lean` takes them from where the registers were saved.
//!
//! Contexts and sessions are each in a map, under a lock.

use crate::console::kprintln;
use crate::lock::SpinLock;
use crate::syscall::Registers;
use crate::{boot, cpu, thread};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use lab::switches::{Syscall, Trace};

/// A stop before each system call.
pub const BEFORE: u8 = 1;
/// A stop after each.
pub const AFTER: u8 = 2;

/// A thread with a user process.
#[derive(Default)]
struct Context {
    /// Where its registers are while it is in a system call.
    registers: Option<OnStack>,
    /// Which call that is.
    call: Option<Call>,
}

/// A place on a kernel stack that holds wherever the stack is copied to.
#[derive(Clone, Copy)]
struct OnStack {
    end: u64,
    below_end: u64,
}

/// A system call, as a debugger shows it.
#[derive(Clone, Copy, Default)]
pub struct Call {
    number: u64,
    arguments: [u64; 6],
}

/// Who traces a thread.
struct Session {
    stops: u8,
}

/// By the thread's id.
static CONTEXTS: SpinLock<BTreeMap<u64, Arc<SpinLock<Context>>>> = SpinLock::new(BTreeMap::new());
static SESSIONS: SpinLock<BTreeMap<u64, Session>> = SpinLock::new(BTreeMap::new());

/// The running thread gets a user process, which is traced if the command line says so.
pub fn create() {
    let id = cpu::thread_id();
    CONTEXTS.lock().insert(id, Arc::new(SpinLock::new(Context::default())));
    if boot::switches().trace == Trace::Yes {
        SESSIONS.lock().insert(id, Session { stops: BEFORE | AFTER });
        thread::set_stops(BEFORE | AFTER);
    }
}

/// The running thread's.
fn current() -> Option<Arc<SpinLock<Context>>> {
    CONTEXTS.lock().get(&cpu::thread_id()).cloned()
}

/// Notes where the running thread's registers are.
#[inline(never)]
pub fn track(registers: &Registers) {
    let Some(context) = current() else { return };
    let end = cpu::this().kernel_rsp.get();
    let below_end = end - core::ptr::from_ref(registers).addr() as u64;
    context.lock().registers = Some(OnStack { end, below_end });
}

/// They are gone.
#[inline(never)]
pub fn untrack() {
    let Some(context) = current() else { return };
    context.lock().registers = None;
}

/// Copies the call for whoever debugs.
#[inline(never)]
pub fn note(call: Call) {
    let Some(context) = current() else { return };
    context.lock().call = Some(call);
}

/// It is over.
#[inline(never)]
pub fn forget() {
    let Some(context) = current() else { return };
    context.lock().call = None;
}

/// The process is done, from within a call that does not return.
pub fn leave() {
    let Some(context) = current() else { return };
    *context.lock() = Context::default();
}

/// Stops if there is a session that wants it.
#[inline(never)]
pub fn stop_if_in_session(stop: u8, result: Option<u64>) {
    let Some(_context) = current() else { return };
    let wants = SESSIONS.lock().get(&cpu::thread_id()).is_some_and(|session| session.stops & stop != 0);
    if wants {
        stopped(result);
    }
}

/// Stops if this CPU's data say that the running thread's session wants it.
#[inline(always)]
pub fn stop_if_cached(stop: u8, result: Option<u64>) {
    if cpu::this().stops.get() & stop != 0 {
        stopped(result);
    }
}

/// The tracer looks at the thread.
#[cold]
#[inline(never)]
fn stopped(result: Option<u64>) {
    let way = boot::switches().syscall;
    let in_place = cpu::this().kernel_rsp.get() - size_of::<Registers>() as u64;
    let at = match way {
        Syscall::Traced => current().and_then(|context| context.lock().registers).map(|on| on.end - on.below_end),
        Syscall::Flat | Syscall::Cached | Syscall::Lean => Some(in_place),
    };
    // SAFETY: the thread is in a system call, which saved its registers there.
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
    /// By the registers that the process had.
    pub fn of(registers: &Registers) -> Call {
        let r = registers;
        Call { number: r.rax, arguments: [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] }
    }
}
