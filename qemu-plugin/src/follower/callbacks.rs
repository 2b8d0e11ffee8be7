//! The functions that QEMU calls: each finds the vCPU and the block, and passes them on. They take no lock.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::Ordering;

use super::{Follower, follower};
use crate::api;
use crate::calls::block::Block;
use crate::calls::follow::Vcpu;
use crate::exclusion::Used;

/// # Safety
/// The caller must be a callback that `instrument` registered, with the data that QEMU passed and the number of the
/// vCPU that this thread runs. It must hold no reference to a vCPU.
#[inline(always)]
unsafe fn find(vcpu: c_uint, data: *mut c_void) -> Option<(&'static Follower, Used<'static, Vcpu>, &'static Block)> {
    let f = follower()?;
    // SAFETY: the caller is a callback of this vCPU and uses its state nowhere else, and QEMU never nests callbacks.
    // The data is the address of a block that `Blocks` leaked, as `instrument` registered it. QEMU keeps the address in
    // translated code, which no guest writes to.
    unsafe { Some((f, f.vcpu(vcpu)?, &*data.cast::<Block>())) }
}

/// The vCPU of a callback within a block. The callback at the block's start, the most frequent one, does not need this
/// lookup.
#[inline(always)]
pub(super) fn running(reported: c_uint) -> c_uint {
    follower().filter(|f| f.in_turn).map_or(reported, |f| f.turn.load(Ordering::Relaxed))
}

/// The vCPU whose block starts, if one thread runs several vCPUs.
#[inline(always)]
fn take_turn(reported: c_uint) -> c_uint {
    if let Some(f) = follower() {
        f.take_turn(reported); // which gives back what it borrows
    }
    running(reported)
}

pub(super) extern "C" fn runs(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: `instrument` registers this callback if each vCPU has its own thread. Otherwise it registers
    // `runs_in_turn`, which passes the vCPU of the current turn. This function has borrowed nothing before.
    if let Some((f, mut vcpu, block)) = unsafe { find(vcpu, data) } {
        vcpu.runs(&f.shared, block);
    }
}

pub(super) extern "C" fn runs_in_turn(vcpu: c_uint, data: *mut c_void) {
    runs(take_turn(vcpu), data);
}

pub(super) extern "C" fn runs_by_effect(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: as in `runs`, with `runs_by_effect_in_turn`.
    if let Some((f, mut vcpu, block)) = unsafe { find(vcpu, data) } {
        vcpu.runs_by_effect(&f.shared, block);
    }
}

pub(super) extern "C" fn runs_by_effect_in_turn(vcpu: c_uint, data: *mut c_void) {
    runs_by_effect(take_turn(vcpu), data);
}

pub(super) extern "C" fn shows_stack(vcpu: c_uint, _: u32, address: u64, data: *mut c_void) {
    // SAFETY: `instrument` registered this callback, and it has borrowed nothing before.
    if let Some((f, mut vcpu, block)) = unsafe { find(running(vcpu), data) } {
        vcpu.stack_access(&f.shared, block, address);
    }
}

pub(super) extern "C" fn touches_stack(vcpu: c_uint, _: u32, address: u64, data: *mut c_void) {
    // SAFETY: `instrument` registered this callback, and it has borrowed nothing before.
    if let Some((_, mut vcpu, block)) = unsafe { find(running(vcpu), data) } {
        vcpu.stack_pointer(block, address);
    }
}

pub(super) extern "C" fn writes_stack(vcpu: c_uint, info: u32, address: u64, data: *mut c_void) {
    // SAFETY: QEMU passed `info` to this callback; the function only reads its bits.
    if unsafe { api::qemu_plugin_mem_is_store(info) } {
        touches_stack(vcpu, info, address, data);
    }
}

pub(super) extern "C" fn reads_stack(vcpu: c_uint, info: u32, address: u64, data: *mut c_void) {
    // SAFETY: QEMU passed `info` to this callback; the function only reads its bits.
    if !unsafe { api::qemu_plugin_mem_is_store(info) } {
        touches_stack(vcpu, info, address, data);
    }
}

pub(super) extern "C" fn halts(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: `instrument` registered this callback, and it has borrowed nothing before.
    if let Some((f, mut vcpu, _)) = unsafe { find(running(vcpu), data) } {
        vcpu.halts(&f.shared);
    }
}
