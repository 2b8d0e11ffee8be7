//! QEMU's callbacks. They only unpack arguments, take the lock, and call the recorder.
//!
//! Options, after the plugin's path (which takes the name `file=`):
//! - `fd=N` (an inherited descriptor) or `out=PATH`: the output for first executions;
//! - `zero=NS`: the host's `CLOCK_MONOTONIC` at the recording's time zero, kept in the header;
//! - `calls-fd=N` or `calls-out=PATH`: follow every call, with this output;
//! - `exits-fd=N` or `exits-out=PATH`: count the accesses that leave the guest, with this output;
//! - `min-call=NS`: the shortest call in the timeline of calls;
//! - `user-blocks=N`: once user space has run this number of blocks, the plugin detaches, unless it follows calls or counts accesses: it
//!   records no further block, and blocks then cost no more than without a plugin;
//! - `clock=virtual`: the guest's virtual clock, for `-icount`, where an instruction is a fixed number of nanoseconds
//!   and the host's time means nothing;
//! - `one-thread=on`: one thread of QEMU runs all vCPUs (`thread=single`), so blocks are assigned to no vCPU.
//!   `clock=virtual` implies it.
//!
//! The translation callback may read the virtual clock under icount: QEMU translates between blocks, when it allows
//! I/O. Callbacks of instructions run inside a block, where reading the clock ends QEMU ("Bad icount read").
//!
//! Several vCPU threads translate at once. One lock protects all state, and times are taken while it is held, so
//! records are in the order of their times. A panic must not unwind into QEMU; `extern "C"` turns it into an abort. So
//! nothing here panics, and a poisoned lock is used anyway.

#![allow(unsafe_code, reason = "what QEMU hands over")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::os::fd::FromRawFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::api::{self, Info, PluginId, Tb};
use crate::arch;
use crate::exit_counter;
use crate::follower;
use crate::recorder::{Now, Recorder, host_ns};
use crate::waiting::{self, Clocks};
use plugin_formats::Start;
use plugin_formats::first_executions::{Block, TimedWait};

struct State {
    /// `None` if only calls are followed or accesses counted.
    recorder: Option<Recorder>,
    now: Now,
    one_thread: bool,
    code: &'static dyn arch::Code,
    /// True if QEMU was requested to drop all callbacks.
    is_detached: bool,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
static THREADS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// This thread's number, from 1; 0 before its first translation.
    static THREAD: Cell<u32> = const { Cell::new(0) };
    /// The vCPU that this thread runs, once known.
    static VCPU: Cell<Option<c_uint>> = const { Cell::new(None) };
}

fn state() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The entry point that QEMU calls after it has loaded this object. Returns 0; any other value makes QEMU unload it.
///
/// # Safety
/// `info` and the `argc` strings of `argv` must be valid, as QEMU's interface promises.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let install_host_ns = host_ns();
    // SAFETY: valid during this call by the contract above, and not written to.
    let info = unsafe { &*info };
    // SAFETY: a C string by the contract above.
    let target = unsafe { CStr::from_ptr(info.target_name) };
    let args = (0..argc as usize).map(|i| {
        // SAFETY: argc strings by the contract above.
        unsafe { CStr::from_ptr(*argv.add(i)) }.to_string_lossy()
    });
    let options = match Options::parse(args, info.system_emulation) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("bootscope plugin: {message}");
            return 1;
        }
    };
    let code = arch::for_target(target.to_bytes());
    let one_thread = options.one_thread || info.max_vcpus == 1;
    // Following calls already costs a callback for each block, so it never detaches. Accesses are counted to the end.
    let detaches = options.calls.is_none() && options.exits.is_none();
    let user_blocks = if detaches { options.user_blocks } else { usize::MAX };
    if let Some((out, mut calls)) = options.calls {
        let Some(stack) = code.stack() else {
            eprintln!("bootscope plugin: calls cannot be followed on {} yet", target.to_string_lossy());
            return 1;
        };
        (calls.clock, calls.one_thread) = (options.now.guest, one_thread);
        calls.zero_host_ns = options.zero_host_ns;
        follower::start(calls, out, info, target.to_bytes(), code, stack);
    }
    let start = Start {
        clock: options.now.clock(),
        api: info.version_cur.clamp(0, 255) as u8,
        vcpus: info.smp_vcpus.max(0) as u32,
        zero_host_ns: options.zero_host_ns,
        install_host_ns,
        target: plugin_formats::target(target.to_bytes()),
    };
    if let Some(out) = options.exits {
        exit_counter::start(out, &start, code);
    }
    let mut recorder = options.out.map(|out| Recorder::new(out, &start, user_blocks));
    if let (Some(recorder), Some(clocks)) = (&mut recorder, options.now.guest.and_then(Clocks::find)) {
        recorder.waits_are_kept();
        waiting::start(clocks, code, keep_wait);
    }
    *state() = Some(State { recorder, one_thread, now: options.now, code, is_detached: false });
    let callbacks = api::Callbacks { vcpu_init, translated, at_exit };
    // SAFETY: within this function, with QEMU's own arguments.
    unsafe { api::register(id, info.version_cur, callbacks) };
    0
}

struct Options {
    out: Option<File>,
    calls: Option<(File, follower::Options)>,
    exits: Option<File>,
    now: Now,
    one_thread: bool,
    zero_host_ns: u64,
    user_blocks: usize,
}

impl Options {
    fn parse<S: AsRef<str>>(args: impl Iterator<Item = S>, system: bool) -> Result<Options, String> {
        if !system {
            return Err("this is user-mode emulation, which boots nothing: use qemu-system-*".into());
        }
        let (mut out, mut now, mut one_thread, mut zero_host_ns) = (None, Now { guest: None }, false, 0);
        let (mut calls_out, mut calls) = (None, follower::Options::default());
        let (mut exits, mut user_blocks) = (None, usize::MAX);
        for arg in args {
            match arg.as_ref().split_once('=').unwrap_or((arg.as_ref(), "on")) {
                ("fd", fd) => out = Some(inherited_file(fd)?),
                ("out", path) => out = Some(create_file(path)?),
                ("calls-fd", fd) => calls_out = Some(inherited_file(fd)?),
                ("calls-out", path) => calls_out = Some(create_file(path)?),
                ("exits-fd", fd) => exits = Some(inherited_file(fd)?),
                ("exits-out", path) => exits = Some(create_file(path)?),
                ("min-call", ns) => {
                    calls.min_call_ns = Some(ns.parse().map_err(|_| format!("min-call={ns} is not a number of ns"))?);
                }
                ("user-blocks", n) => {
                    user_blocks = n.parse().map_err(|_| format!("user-blocks={n} is not a number of blocks"))?;
                }
                ("clock", "virtual") => (now, one_thread) = (Now { guest: Some(virtual_clock()?) }, true),
                ("clock", "host") => {}
                ("zero", ns) => zero_host_ns = ns.parse().map_err(|_| format!("zero={ns} is not a number of ns"))?,
                ("one-thread", "on") => one_thread = true,
                ("one-thread", "off") => {}
                _ => {
                    return Err(format!(
                        "unknown option '{}': fd=N, out=PATH, calls-fd=N, calls-out=PATH, exits-fd=N, exits-out=PATH, min-call=NS, \
                         zero=NS, user-blocks=N, clock=host|virtual, one-thread=on|off are known",
                        arg.as_ref()
                    ));
                }
            }
        }
        if out.is_none() && calls_out.is_none() && exits.is_none() {
            return Err(
                "say where the output goes: fd=N (inherited) or out=PATH, or for calls calls-fd=N or calls-out=PATH, or \
                 for accesses exits-fd=N or exits-out=PATH"
                    .into(),
            );
        }
        let calls = calls_out.map(|out| (out, calls));
        Ok(Options { out, calls, exits, now, one_thread, zero_host_ns, user_blocks })
    }
}

fn create_file(path: &str) -> Result<File, String> {
    File::create(path).map_err(|e| format!("cannot create {path}: {e}"))
}

fn inherited_file(fd: &str) -> Result<File, String> {
    let fd: c_int = fd.parse().map_err(|_| format!("fd={fd} is not a number"))?;
    // SAFETY: F_GETFD takes any number and changes nothing.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(format!("fd={fd} is not open in QEMU: pass it on without close-on-exec"));
    }
    // SAFETY: the descriptor is open, and the program that started QEMU passed it to this plugin by naming it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// `qemu_clock_get_ns` is not part of the plugin interface. QEMU exports it to its own modules, if it is built with
/// modules.
fn virtual_clock() -> Result<extern "C" fn(c_int) -> i64, String> {
    let at = api::find(c"qemu_clock_get_ns")
        .ok_or("clock=virtual: this QEMU does not export qemu_clock_get_ns; leave it out to have host time")?;
    // SAFETY: int64_t qemu_clock_get_ns(QEMUClockType), the same since QEMU 2.0; the enumeration is an int.
    Ok(unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(c_int) -> i64>(at) })
}

fn vcpu_init(vcpu: c_uint) {
    if let Some(s) = state().as_mut() {
        let now_ns = s.now.ns();
        s.recorder.iter_mut().for_each(|r| r.vcpu(now_ns, vcpu));
    }
}

fn translated(tb: *mut Tb) {
    // SAFETY: the block of this callback.
    unsafe { waiting::translated(tb) };
    let one_thread = note_first_execution(tb);
    if should_detach() {
        api::reset_callbacks();
    }
    let vcpu = VCPU.get();
    // SAFETY: the block of this callback.
    unsafe { follower::translated(tb, vcpu, one_thread) };
    if exit_counter::is_started() {
        // SAFETY: the block of this callback.
        unsafe { exit_counter::translated(tb, now_ns()) };
    }
    if !one_thread && vcpu.is_none() {
        // SAFETY: as above; the callback lives as long as the object.
        unsafe { api::qemu_plugin_register_vcpu_tb_exec_cb(tb, report_vcpu, api::CB_NO_REGS, null_mut()) };
    }
}

/// The time on the recorder's clock. The caller is no callback of an instruction.
fn now_ns() -> u64 {
    state().as_ref().map_or(0, |s| s.now.ns())
}

/// Returns true once: when the recorder needs no more blocks.
fn should_detach() -> bool {
    let mut state = state();
    let Some(s) = state.as_mut() else { return false };
    let is_time = !s.is_detached && s.recorder.as_ref().is_some_and(Recorder::has_stopped);
    s.is_detached |= is_time;
    is_time
}

/// Returns true if one thread runs all vCPUs.
fn note_first_execution(tb: *mut Tb) -> bool {
    let first = |insn: *mut api::Insn| {
        // SAFETY: an instruction of the block of this callback.
        unsafe { api::qemu_plugin_insn_haddr(insn) as u64 }
    };
    // SAFETY: the block of this callback, which has at least one instruction.
    let (vaddr, host) = unsafe { (api::qemu_plugin_tb_vaddr(tb), first(api::qemu_plugin_tb_get_insn(tb, 0))) };
    let thread = thread_number();
    let mut state = state();
    let Some(s) = state.as_mut() else { return true };
    let code = s.code;
    if let Some(recorder) = &mut s.recorder {
        // SAFETY: as above; `describe` runs within this callback.
        recorder.translated(s.now.ns(), thread, vaddr, host, || unsafe { describe(tb, vaddr, code) });
    }
    s.one_thread
}

/// The translation callback does not name its vCPU, so a thread's first block reports it when it runs. Other threads
/// may run that block too, and each then sets only its own vCPU.
extern "C" fn report_vcpu(vcpu: c_uint, _: *mut c_void) {
    if VCPU.replace(Some(vcpu)).is_none() {
        if let Some(recorder) = state().as_mut().and_then(|s| s.recorder.as_mut()) {
            recorder.runs(thread_number(), vcpu);
        }
    }
}

fn thread_number() -> u32 {
    THREAD.with(|n| {
        if n.get() == 0 {
            n.set(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
        }
        n.get()
    })
}

/// # Safety
/// `tb` must be the block of the running translation callback.
unsafe fn describe(tb: *const Tb, vaddr: u64, code: &dyn arch::Code) -> Block {
    // SAFETY: the block is valid by this function's contract. It has at least one instruction, and `last` is its last
    // one. If it has two, there is one before the last.
    unsafe {
        let insns = api::qemu_plugin_tb_n_insns(tb);
        let last = api::qemu_plugin_tb_get_insn(tb, insns.saturating_sub(1));
        let end = api::qemu_plugin_insn_vaddr(last).wrapping_add(api::qemu_plugin_insn_size(last) as u64);
        let (mut bytes, mut earlier) = ([0; 16], [0; 16]);
        let before: &[u8] = match insns.checked_sub(2) {
            Some(i) => api::insn_bytes(api::qemu_plugin_tb_get_insn(tb, i), &mut earlier),
            None => &[],
        };
        let (ending, displacement) = code.ending(api::insn_bytes(last, &mut bytes), before);
        Block { vaddr, size: end.wrapping_sub(vaddr), insns: insns as u64, ending, displacement }
    }
}

/// Records a timed wait.
fn keep_wait(wait: TimedWait) {
    if let Some(recorder) = state().as_mut().and_then(|s| s.recorder.as_mut()) {
        recorder.wait(wait);
    }
}

fn at_exit() {
    waiting::finish();
    follower::finish();
    if exit_counter::is_started() {
        exit_counter::finish(now_ns());
    }
    if let Some(s) = state().as_mut() {
        let now_ns = s.now.ns();
        s.recorder.iter_mut().for_each(|r| r.exit(now_ns));
    }
}
