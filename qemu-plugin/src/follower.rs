//! The callbacks that follow calls. They only find the vCPU and the block, and pass them to `calls::follow`.
//!
//! There are three callbacks, chosen by their cost. The first comes at the start of every block and mostly compares two
//! addresses. The second comes for an access to the stack: at each call and return, because version 1 of the interface
//! has no other source of the stack pointer. On architectures whose calls do not access the stack, it comes for an
//! access in any block. The third comes before each `hlt`. Each vCPU has its own state, because its callbacks come one
//! after the other.

#![allow(unsafe_code, reason = "what QEMU hands over")]

mod callbacks;

use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::api::{self, Info, Insn, Tb};
use crate::arch::{Code, Effect, Stack};
use crate::calls::block::{Block, Blocks, ENTRY, MARK};
use crate::calls::clock::{GetNs, HostClock, VIRTUAL, VirtualTimeThread};
use crate::calls::encode::{CallsFile, LIMITS, Out};
use crate::calls::follow::{Clock, Shared, Vcpu};
use crate::calls::stack_effect::StackEffect;
use crate::calls::stacks::MAX_VCPUS;
use crate::ending::Ending;
use crate::exclusion::{self, Cell, Used};
use crate::recorder::host_ns;
use plugin_formats::Start;
use plugin_formats::calls::Header;

use callbacks::{
    halts, reads_stack, running, runs, runs_by_effect, runs_by_effect_in_turn, runs_in_turn, shows_stack,
    touches_stack, writes_stack,
};

/// The capacity of the call tree in nodes: 128 MiB of addresses, of which a Linux boot uses a quarter.
const MAX_NODES: usize = 1 << 21;
/// The largest number of open calls.
const MAX_FRAMES: usize = 1 << 20;
/// The largest number of blocks of code: twenty times as many as a Linux boot has.
const MAX_BLOCKS: usize = 1 << 20;
const PAGE_BITS: u32 = 12;
/// The interval between tables of totals.
const INTERVAL_NS: u64 = 10_000_000;
/// The default of the shortest call in the timeline; a Linux boot has a million such calls.
const MIN_CALL_NS: u64 = 1000;

/// The user's options.
#[derive(Default)]
pub struct Options {
    /// The guest's clock, for `-icount`; without it, times are the host's.
    pub clock: Option<GetNs>,
    /// True if one thread of QEMU runs all vCPUs.
    pub one_thread: bool,
    /// The host's `CLOCK_MONOTONIC` at the recording's time zero; 0: unknown.
    pub zero_host_ns: u64,
    /// The shortest call in the timeline, ns; with the virtual clock, in instructions.
    pub min_call_ns: Option<u64>,
}

struct Follower {
    code: &'static dyn Code,
    stack: Stack,
    shared: Shared,
    vcpus: Box<[Cell<Vcpu>]>,
    /// QEMU's end; afterwards no callback finds a vCPU.
    end: exclusion::Shutdown,
    blocks: Mutex<Blocks>,
    clock: Option<GetNs>,
    /// True if one thread runs several vCPUs; `turn` is then the vCPU that it runs now.
    in_turn: bool,
    turn: AtomicU32,
    /// QEMU's `current_cpu` for that thread: its address, and its last value.
    current: AtomicPtr<AtomicPtr<c_void>>,
    last_current: AtomicPtr<c_void>,
    upper_half_seen: AtomicBool,
    user_out_seen: AtomicBool,
    not_followed: AtomicBool,
}

static FOLLOWER: AtomicPtr<Follower> = AtomicPtr::new(null_mut());

fn follower() -> Option<&'static Follower> {
    // SAFETY: null, or a Follower that was leaked permanently.
    unsafe { FOLLOWER.load(Ordering::Acquire).as_ref() }
}

impl Follower {
    /// A vCPU's state. Returns `None` once QEMU ends, and for a vCPU beyond the machine's declared maximum.
    ///
    /// # Safety
    /// The caller must be a callback of this vCPU, and must not use its state elsewhere. QEMU makes the callbacks of a
    /// vCPU one after the other, for any guest. They run in the vCPU's thread. For an exclusive instruction they may
    /// run in another vCPU's thread, while all other vCPUs wait.
    #[inline(always)]
    unsafe fn vcpu(&self, vcpu: c_uint) -> Option<Used<'_, Vcpu>> {
        // SAFETY: the callbacks of a vCPU come one after the other, by this function's contract.
        unsafe { self.vcpus.get(vcpu as usize)?.use_by_owner(&self.end) }
    }
}

/// Starts to follow code whose stack pointer comes from `stack`.
pub fn start(options: Options, out: File, info: &Info, target: &[u8], code: &'static dyn Code, stack: Stack) {
    let Options { clock, one_thread, zero_host_ns, .. } = options;
    let (file_clock, shared_clock, per_second, install) = match clock {
        Some(get) => {
            let time_thread: &'static VirtualTimeThread = Box::leak(Box::new(VirtualTimeThread::new(get)));
            (plugin_formats::Clock::Virtual, Clock::Virtual(Some(time_thread)), 1_000_000_000, host_ns())
        }
        None => {
            let host = HostClock::start();
            (plugin_formats::Clock::Host, Clock::Host(host), host.per_second, host_ns())
        }
    };
    let ticks = |ns: u64| (u128::from(ns) * u128::from(per_second) / 1_000_000_000) as u64;
    let (min_call, interval) = (ticks(options.min_call_ns.unwrap_or(MIN_CALL_NS)), ticks(INTERVAL_NS));
    let header = Header {
        start: Start {
            clock: file_clock,
            api: info.version_cur.clamp(0, 255) as u8,
            vcpus: info.smp_vcpus.max(0) as u32,
            zero_host_ns,
            install_host_ns: install,
            target: plugin_formats::target(target),
        },
        ticks_per_second: per_second,
        min_call_ticks: min_call,
        call_cost_ps: crate::calls::cost::call_cost_ps(),
        interval_ticks: interval,
    };
    if let Err(error) = std::io::Write::write_all(&mut &out, &header.bytes()) {
        eprintln!("bootscope plugin: cannot write calls: {error}");
        return;
    }
    let file = Arc::new(CallsFile::new(out, LIMITS));
    let vcpus = info.max_vcpus.clamp(1, MAX_VCPUS as i32) as u16;
    let shared = Shared::new(shared_clock, min_call, interval, [MAX_NODES, MAX_FRAMES, vcpus.into()]);
    let vcpus = (0..vcpus).map(|n| Cell::new(Vcpu::new(&shared, Out::new(Some(file.clone()), n)))).collect();
    let follower = Follower {
        code,
        stack,
        shared,
        vcpus,
        end: exclusion::Shutdown::new(),
        blocks: Mutex::new(Blocks::new(MAX_BLOCKS)),
        clock,
        in_turn: one_thread && info.max_vcpus > 1,
        turn: AtomicU32::new(0),
        current: AtomicPtr::default(),
        last_current: AtomicPtr::default(),
        upper_half_seen: AtomicBool::new(false),
        user_out_seen: AtomicBool::new(false),
        not_followed: AtomicBool::new(false),
    };
    FOLLOWER.store(Box::into_raw(Box::new(follower)), Ordering::Release);
}

/// The node that `vcpu` runs in, in one of its callbacks; 0 if calls are not followed, or if it is not known.
pub fn node(vcpu: c_uint) -> u32 {
    let Some(f) = follower() else { return 0 };
    // SAFETY: this is a callback of that vCPU, which has borrowed nothing.
    unsafe { f.vcpu(running(vcpu)) }.map_or(0, |vcpu| vcpu.node())
}

/// Handles the translation of a block, by the thread that runs `vcpu` if that is known.
///
/// # Safety
/// `tb` must be the block of the running translation callback.
pub unsafe fn translated(tb: *mut Tb, vcpu: Option<c_uint>, one_thread: bool) {
    let Some(f) = follower() else { return };
    if f.in_turn && f.current.load(Ordering::Relaxed).is_null() {
        // Looked up in this thread and for this thread, because it is a thread-local variable.
        f.current.store(api::find(c"current_cpu").unwrap_or(null_mut()).cast(), Ordering::Relaxed);
    }
    let vcpu = if one_thread { Some(f.turn.load(Ordering::Relaxed)) } else { vcpu };
    // SAFETY: the callback is of the thread that runs this vCPU, so the vCPU is in no other callback.
    let running = vcpu.and_then(|n| unsafe { f.vcpu(n) });
    // SAFETY: the block is valid by this function's contract.
    let (start, user) = unsafe {
        let start = api::qemu_plugin_tb_vaddr(tb);
        (start, running.as_ref().is_some_and(|v| f.is_user(start, v)))
    };
    // SAFETY: as above.
    let followed = unsafe { f.instrument(tb, start, user) };
    let Some(mut running) = running else { return };
    running.counts.blocks_not_followed += u64::from(!followed);
    if let Some(get) = f.clock.filter(|_| running.wants_virtual_time(&f.shared)) {
        running.virtual_time(&f.shared, get(VIRTUAL).max(0) as u64);
    }
}

impl Follower {
    /// Records which vCPU runs. If one thread runs several vCPUs, QEMU 10.0 passes the number of the vCPU for which the
    /// code was translated. So QEMU's `current_cpu` is read instead, and the number is used only if there is no such
    /// variable.
    #[inline(always)]
    fn take_turn(&self, reported: c_uint) {
        // SAFETY: null, or the address of QEMU's variable in the one thread that runs all vCPUs, which is this thread.
        let turn = match unsafe { self.current.load(Ordering::Relaxed).as_ref() } {
            Some(current) => {
                let current = current.load(Ordering::Relaxed);
                if current == self.last_current.load(Ordering::Relaxed) {
                    return;
                }
                self.last_current.store(current, Ordering::Relaxed);
                self.number_of(current).unwrap_or(reported)
            }
            None => reported,
        };
        let last = self.turn.swap(turn, Ordering::Relaxed);
        if last != turn {
            // SAFETY: this thread runs all vCPUs, and is in a callback that has borrowed no vCPU. The two are different
            // vCPUs.
            if let (Some(mut running), Some(mut last)) = unsafe { (self.vcpu(turn), self.vcpu(last)) } {
                running.take_over(&self.shared, &mut last);
            }
        }
    }

    /// The number of the vCPU whose `CPUState` is at this address.
    fn number_of(&self, current: *mut c_void) -> Option<c_uint> {
        let get = api::find(c"qemu_get_cpu")?;
        // SAFETY: QEMU exports CPUState *qemu_get_cpu(int) under this name, unchanged since 1.4; it only reads its
        // list.
        let get = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(c_int) -> *mut c_void>(get) };
        (0..self.vcpus.len() as c_int).find(|&n| get(n) == current).map(|n| n as c_uint)
    }

    /// Version 1 of the interface does not report the privilege level. Code is user space if it is in the lower half
    /// once a kernel has run in the upper half. It must also be reached by a return from an interrupt or a system call,
    /// or from user space.
    fn is_user(&self, start: u64, running: &Vcpu) -> bool {
        if start >> 63 != 0 {
            self.upper_half_seen.store(true, Ordering::Relaxed);
            return false;
        }
        let before = running.block();
        // A secondary CPU of arm64 also reaches the lower half by such a return, before it was ever in the upper half.
        let in_kernel = match self.stack {
            Stack::Accesses => self.upper_half_seen.load(Ordering::Relaxed),
            Stack::Effects(_) => running.ran_in_upper_half(),
        };
        before.user || (before.ending == Ending::InterruptReturn && in_kernel)
    }

    /// Registers the block's callbacks. Returns false if there is no room to follow the block.
    ///
    /// # Safety
    /// `tb` must be the block of the running translation callback.
    unsafe fn instrument(&self, tb: *mut Tb, start: u64, user: bool) -> bool {
        // SAFETY: the block is valid by this function's contract; it has at least one instruction, and `last` is its
        // last one.
        let (last, block) = unsafe {
            let insns = self.length(tb);
            let last = api::qemu_plugin_tb_get_insn(tb, insns - 1);
            (last, self.block(tb, start, insns, user))
        };
        let Some(block) = block else {
            if !self.not_followed.swap(true, Ordering::Relaxed) {
                eprintln!(
                    "bootscope plugin: more than {MAX_BLOCKS} blocks of code: what is new from now on is not followed"
                );
            }
            return false;
        };
        let data = std::ptr::from_ref(block).cast_mut().cast::<c_void>();
        let runs = match (self.stack, self.in_turn) {
            (Stack::Accesses, false) => runs,
            (Stack::Accesses, true) => runs_in_turn,
            (Stack::Effects(_), false) => runs_by_effect,
            (Stack::Effects(_), true) => runs_by_effect_in_turn,
        };
        // SAFETY: block and instruction belong to the running callback; the data is never freed.
        unsafe {
            api::qemu_plugin_register_vcpu_tb_exec_cb(tb, runs, api::CB_NO_REGS, data);
            if let Some((insn, callback)) = self.stack_access_callback(tb, last, block, user) {
                api::qemu_plugin_register_vcpu_mem_cb(insn, callback, api::CB_NO_REGS, api::MEM_RW, data);
            }
            if block.ending == Ending::Halt {
                api::qemu_plugin_register_vcpu_insn_exec_cb(last, halts, api::CB_NO_REGS, data);
            }
        }
        true
    }

    /// The instruction whose access shows the stack pointer, and the callback for it.
    ///
    /// # Safety
    /// `tb` must be the block of the running translation callback, `last` its last instruction, and `block` its stored
    /// form.
    unsafe fn stack_access_callback(
        &self,
        tb: *mut Tb,
        last: *mut Insn,
        block: &Block,
        user: bool,
    ) -> Option<(*mut Insn, api::MemCallback)> {
        match (self.stack, block.ending) {
            _ if user => None,
            (Stack::Accesses, Ending::Call) => Some((last, touches_stack)),
            (Stack::Accesses, Ending::CallIndirect) => Some((last, writes_stack)),
            (Stack::Accesses, Ending::Return) => Some((last, reads_stack)),
            (Stack::Accesses, _) => None,
            (Stack::Effects(_), _) => {
                let access_insn = block.stack_effect?.access_insn?;
                // SAFETY: the block has that instruction: by this function's contract `block` was made from the same
                // code.
                Some((unsafe { api::qemu_plugin_tb_get_insn(tb, access_insn.into()) }, shows_stack))
            }
        }
    }

    /// # Safety
    /// `tb` must be the block of the running translation callback, and have `insns` instructions.
    unsafe fn block(&self, tb: *mut Tb, start: u64, insns: usize, user: bool) -> Option<&'static Block> {
        let mut blocks = self.blocks.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: by this function's contract.
        unsafe {
            if user {
                return Some(self.user_block(&mut blocks, tb, insns as u32));
            }
            let last = api::qemu_plugin_tb_get_insn(tb, insns - 1);
            let (last_start, size) = (api::qemu_plugin_insn_vaddr(last), api::qemu_plugin_insn_size(last) as u64);
            let (mut bytes, mut bytes_before) = ([0; 16], [0; 16]);
            let bytes = api::insn_bytes(last, &mut bytes);
            let before = if insns > 1 { api::qemu_plugin_tb_get_insn(tb, insns - 2) } else { null_mut() };
            let before = if before.is_null() { &[] } else { api::insn_bytes(before, &mut bytes_before) };
            let (ending, displacement) = self.code.ending(bytes, before);
            let mut block =
                Block::new(start, last_start.wrapping_add(size), last_start, insns as u32, ending, displacement);
            if self.code.repeats(bytes) {
                block = block.repeats();
            }
            block.far_call = self.code.is_far_call(bytes);
            if let Stack::Effects(effect) = self.stack {
                block.stack_effect = Some(stack_effect(tb, insns, effect));
            }
            if self.begins_function(tb, start, insns) {
                block.set(ENTRY);
            }
            blocks.keep(block)
        }
    }

    /// # Safety
    /// `tb` must be the block of the running translation callback.
    unsafe fn user_block(&self, blocks: &mut Blocks, tb: *mut Tb, insns: u32) -> &'static Block {
        if !self.user_out_seen.load(Ordering::Relaxed) {
            let writes_port = |i| {
                // SAFETY: `i` is less than the block's instructions, and the block is that of the running callback.
                unsafe { self.code.writes_port(api::insn_bytes(api::qemu_plugin_tb_get_insn(tb, i), &mut [0; 16])) }
            };
            if (0..insns as usize).any(writes_port) {
                self.user_out_seen.store(true, Ordering::Relaxed);
                let block = Block::user(insns);
                block.set(MARK);
                return Box::leak(Box::new(block));
            }
        }
        blocks.user(insns)
    }

    /// The number of instructions of a block, at least one. QEMU 7.2 also reports one that it has removed again: an
    /// instruction that crosses into the next page always begins its own block.
    ///
    /// # Safety
    /// `tb` must be the block of the running translation callback.
    unsafe fn length(&self, tb: *mut Tb) -> usize {
        // SAFETY: the block is valid by this function's contract, and so is its last instruction.
        unsafe {
            let reported = api::qemu_plugin_tb_n_insns(tb).max(1);
            let last: *mut Insn = api::qemu_plugin_tb_get_insn(tb, reported - 1);
            let (start, size) = (api::qemu_plugin_insn_vaddr(last), api::qemu_plugin_insn_size(last) as u64);
            let crosses = start >> PAGE_BITS != start.wrapping_add(size).wrapping_sub(1) >> PAGE_BITS;
            // QEMU may have kept only the bytes of such an instruction before the page's end.
            let cut = self.code.lacks_target(api::insn_bytes(last, &mut [0; 16]));
            if reported > 1 && (crosses || cut) { reported - 1 } else { reported }
        }
    }

    /// # Safety
    /// `tb` must be the block of the running translation callback, and have `insns` instructions.
    unsafe fn begins_function(&self, tb: *mut Tb, start: u64, insns: usize) -> bool {
        let (mut first, mut second) = ([0; 16], [0; 16]);
        // SAFETY: instructions of the block, which is valid by this function's contract.
        unsafe {
            let first = api::insn_bytes(api::qemu_plugin_tb_get_insn(tb, 0), &mut first);
            let second = match insns {
                1 => &[],
                _ => api::insn_bytes(api::qemu_plugin_tb_get_insn(tb, 1), &mut second),
            };
            self.code.begins_function(start, first, second)
        }
    }
}

/// # Safety
/// `tb` must be the block of the running translation callback, and have `insns` instructions.
unsafe fn stack_effect(tb: *mut Tb, insns: usize, effect: fn(&[u8]) -> Effect) -> StackEffect {
    // SAFETY: instructions of the block, which is valid by this function's contract.
    StackEffect::from_insns(
        (0..insns).map(|i| unsafe { effect(api::insn_bytes(api::qemu_plugin_tb_get_insn(tb, i), &mut [0; 16])) }),
    )
}

/// Handles QEMU's end. QEMU calls this once, from any thread, while other vCPUs may still run.
pub fn finish() {
    let Some(f) = follower() else { return };
    if !f.end.begin() {
        return; // the file keeps everything written until now
    }
    let mut is_first = true;
    for cell in &f.vcpus {
        // SAFETY: the end has begun, and QEMU calls this once.
        if let Some(vcpu) = unsafe { cell.take() }.filter(|vcpu| vcpu.has_run()) {
            vcpu.finish(&f.shared, is_first);
            is_first = false;
        }
    }
}

// The interface's enumeration of accesses is an int.
const _: () = assert!(size_of::<c_int>() == 4);
