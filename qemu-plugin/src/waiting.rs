//! The callbacks that show when the guest waits for its clock: before each `hlt`, and before each read of a clock.
//!
//! Inside a block QEMU refuses to read its clock ("Bad icount read"), because the count of instructions is not up to
//! date there. A `hlt` and a read of a clock end their blocks, so there QEMU's own `icount_update` gives the exact
//! count. Afterwards the clock is read as a thread without a vCPU reads it.
//!
//! Clocks behind addresses of memory (HPET) are seen only if accesses are counted: that needs a callback at each access
//! to memory. A port whose number is in a register is unknown, and taken for another device.

#![allow(unsafe_code, reason = "what QEMU hands over")]

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard};

use crate::api::{self, Insn, Tb};
use crate::arch::{Code, Exit};
use crate::timed_waits::{Reading, TimedWaits};
use plugin_formats::exits::Kind;
use plugin_formats::first_executions::TimedWait;

/// `QEMU_CLOCK_VIRTUAL`
const VIRTUAL: c_int = 1;

/// QEMU's functions for its clocks.
#[derive(Clone, Copy)]
pub struct Clocks {
    get_ns: extern "C" fn(c_int) -> i64,
    executed: extern "C" fn() -> i64,
    update: extern "C" fn(*mut c_void),
}

impl Clocks {
    /// QEMU's functions, if it exports them all.
    pub fn find(get_ns: extern "C" fn(c_int) -> i64) -> Option<Clocks> {
        let (executed, update) = (api::find(c"icount_get_raw")?, api::find(c"icount_update")?);
        api::find(c"current_cpu")?;
        // SAFETY: int64_t icount_get_raw(void) and void icount_update(CPUState *), the same from QEMU 5.2 to 11.1. Before
        // 5.2 they have other names.
        unsafe {
            Some(Clocks {
                get_ns,
                executed: std::mem::transmute::<*mut c_void, extern "C" fn() -> i64>(executed),
                update: std::mem::transmute::<*mut c_void, extern "C" fn(*mut c_void)>(update),
            })
        }
    }

    /// Both counts now. The caller is no callback of an instruction.
    pub fn read(&self) -> Reading {
        let now_ns = (self.get_ns)(VIRTUAL).max(0) as u64;
        Reading { now_ns, insns: (self.executed)().max(0) as u64 }
    }

    /// Both counts at the end of the running block. The caller is the callback of the block's last instruction.
    fn read_at_block_end(&self) -> Reading {
        // The address differs between threads.
        let Some(current) = api::find(c"current_cpu").map(|at| at.cast::<*mut c_void>()) else { return self.read() };
        // SAFETY: this is QEMU's variable of this thread, a pointer to the running vCPU. QEMU reads it only in this
        // thread, and gets it back below. `icount_update` counts what this vCPU has executed, as each read of a clock
        // does.
        unsafe {
            let running = *current;
            if !running.is_null() {
                (self.update)(running);
            }
            *current = null_mut();
            let reading = self.read();
            *current = running;
            reading
        }
    }
}

struct Waiting {
    waits: TimedWaits,
    clocks: Clocks,
    code: &'static dyn Code,
    keep: fn(TimedWait),
}

/// `None` without `-icount`, and if QEMU does not export its count of instructions.
static WAITING: Mutex<Option<Waiting>> = Mutex::new(None);

fn waiting() -> MutexGuard<'static, Option<Waiting>> {
    WAITING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Starts to look for waits. Each is passed to `keep`, which must not call this module.
pub fn start(clocks: Clocks, code: &'static dyn Code, keep: fn(TimedWait)) {
    *waiting() = Some(Waiting { waits: TimedWaits::default(), clocks, code, keep });
}

impl Waiting {
    /// Looks if the clock has skipped. The caller is no callback of an instruction.
    fn keep_skip(&mut self) {
        self.waits.reading(self.clocks.read()).into_iter().for_each(self.keep);
    }
}

/// Handles QEMU's end.
pub fn finish() {
    if let Some(waiting) = waiting().as_mut() {
        waiting.keep_skip();
        waiting.waits.end_poll().into_iter().for_each(waiting.keep);
    }
}

/// Handles the translation of a block: requests its callbacks.
///
/// # Safety
/// `tb` must be the block of the running translation callback.
pub unsafe fn translated(tb: *mut Tb) {
    let mut waiting = waiting();
    let Some(waiting) = waiting.as_mut() else { return };
    waiting.keep_skip();
    let code = waiting.code;
    // SAFETY: the block is valid by this function's contract, and has these instructions.
    unsafe {
        for i in 0..api::qemu_plugin_tb_n_insns(tb) {
            let insn = api::qemu_plugin_tb_get_insn(tb, i);
            if let Some(exit) = code.exit(api::insn_bytes(insn, &mut [0; 16])) {
                instrument(insn, exit);
            }
        }
    }
}

/// # Safety
/// `insn` must be an instruction of the block of the running translation callback.
unsafe fn instrument(insn: *mut Insn, exit: Exit) {
    let callback = match exit.kind {
        Kind::Halt => halts,
        _ if exit.is_clock => reads_clock,
        _ => leaves_guest,
    };
    // SAFETY: the instruction is valid by this function's contract. The data is a number that nothing dereferences.
    unsafe {
        let address = api::qemu_plugin_insn_vaddr(insn) as usize as *mut c_void;
        api::qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, api::CB_NO_REGS, address);
    }
}

extern "C" fn halts(_: c_uint, _: *mut c_void) {
    if let Some(Waiting { waits, clocks, keep, .. }) = waiting().as_mut() {
        let at = clocks.read_at_block_end();
        waits.reading(at).into_iter().chain(waits.halt(at.now_ns)).for_each(*keep);
    }
}

extern "C" fn reads_clock(_: c_uint, insn: *mut c_void) {
    if let Some(Waiting { waits, clocks, keep, .. }) = waiting().as_mut() {
        let at = clocks.read_at_block_end();
        waits.clock_read(insn as usize as u64, at.now_ns).into_iter().for_each(*keep);
    }
}

/// Handles an access to a device's registers by the instruction at `insn`. QEMU ends a block behind such an access.
pub fn device_accessed(insn: u64, is_clock: bool) {
    if is_clock { reads_clock(0, insn as usize as *mut c_void) } else { leaves_guest(0, null_mut()) }
}

extern "C" fn leaves_guest(_: c_uint, _: *mut c_void) {
    if let Some(Waiting { waits, keep, .. }) = waiting().as_mut() {
        waits.end_poll().into_iter().for_each(*keep);
    }
}
