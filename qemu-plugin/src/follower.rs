//! The callbacks that follow calls, and nothing else: find the vCPU and the block, hand them to `calls::follow`.
//!
//! Three callbacks, chosen by what each costs. One at the start of every block, which mostly compares two addresses;
//! one for the access to the stack of each call and return, because nothing else tells the stack pointer in version 1
//! of the interface, or where these make none, for an access in any block; one before each `hlt`. The state of a vCPU is its own: its callbacks come one after the other.

#![allow(unsafe_code, reason = "what QEMU hands over")]

use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::api::{self, Info, Insn, Tb};
use crate::arch::{Code, Effect, Stack};
use crate::calls::block::{Block, Blocks, ENTRY, MARK};
use crate::calls::clock::{Asker, GetNs, HostClock, VIRTUAL};
use crate::calls::encode::{CallsFile, LIMITS, Out};
use crate::calls::follow::{Clock, Shared, Vcpu};
use crate::calls::on_stack::OnStack;
use crate::calls::stacks::VCPUS;
use crate::ending::Ending;
use crate::exclusion::{self, Cell, Used};
use crate::recorder::host_ns;
use plugin_formats::Start;
use plugin_formats::calls::Header;

/// Nodes of the call tree: 128 MiB of addresses, of which a Linux boot uses a quarter.
const NODES: usize = 1 << 21;
/// Calls under way at once.
const FRAMES: usize = 1 << 20;
/// Blocks of code: twenty times a Linux boot's.
const BLOCKS: usize = 1 << 20;
const PAGE_BITS: u32 = 12;
/// Totals are written this often.
const INTERVAL_NS: u64 = 10_000_000;
/// Calls at least this long are in the timeline unless told otherwise: a Linux boot's are a million.
const MIN_CALL_NS: u64 = 1000;

/// What the user may choose.
#[derive(Default)]
pub struct Options {
    /// The guest's clock, for `-icount`; without it times are the host's.
    pub clock: Option<GetNs>,
    /// One thread of QEMU's runs all vCPUs.
    pub one_thread: bool,
    /// The host's `CLOCK_MONOTONIC` at the recording's time zero; 0: not known.
    pub zero_host_ns: u64,
    /// Shortest call in the timeline, ns; under the virtual clock that is instructions.
    pub min_call_ns: Option<u64>,
}

struct Follower {
    code: &'static dyn Code,
    stack: Stack,
    shared: Shared,
    vcpus: Box<[Cell<Vcpu>]>,
    /// QEMU's end, after which no callback finds a vCPU.
    end: exclusion::Ending,
    blocks: Mutex<Blocks>,
    clock: Option<GetNs>,
    /// Whether one thread runs several vCPUs, and then the one whose turn it is.
    in_turn: bool,
    turn: AtomicU32,
    /// The same as QEMU has it: where its `current_cpu` is for that thread, and its last value.
    current: AtomicPtr<AtomicPtr<c_void>>,
    last_current: AtomicPtr<c_void>,
    upper_half_seen: AtomicBool,
    user_out_seen: AtomicBool,
    not_followed: AtomicBool,
}

static FOLLOWER: AtomicPtr<Follower> = AtomicPtr::new(null_mut());

fn follower() -> Option<&'static Follower> {
    // SAFETY: null, or a Follower that was leaked for good.
    unsafe { FOLLOWER.load(Ordering::Acquire).as_ref() }
}

impl Follower {
    /// A vCPU's state; none once QEMU ends, and for a vCPU beyond those that the machine said it could have.
    ///
    /// # Safety
    /// The caller is a callback of this vCPU and uses it nowhere else. QEMU makes the callbacks of a vCPU one after the other, whatever the
    /// guest does: in the one thread that runs it, or for an instruction of which it lets no other vCPU run, in the thread of
    /// another vCPU while all others wait.
    #[inline(always)]
    unsafe fn vcpu(&self, vcpu: c_uint) -> Option<Used<'_, Vcpu>> {
        // SAFETY: the callbacks of a vCPU come one after the other, by this function's contract.
        unsafe { self.vcpus.get(vcpu as usize)?.use_by_owner(&self.end) }
    }
}

/// Starts to follow code that the stack pointer of is told in this way.
pub fn start(options: Options, out: File, info: &Info, target: &[u8], code: &'static dyn Code, stack: Stack) {
    let Options { clock, one_thread, zero_host_ns, .. } = options;
    let (file_clock, shared_clock, per_second, install) = match clock {
        Some(get) => {
            let asker: &'static Asker = Box::leak(Box::new(Asker::new(get)));
            (plugin_formats::Clock::Virtual, Clock::Virtual(Some(asker)), 1_000_000_000, host_ns())
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
        call_cost_ps: crate::calls::cost::of_a_call_ps(),
        interval_ticks: interval,
    };
    if let Err(error) = std::io::Write::write_all(&mut &out, &header.bytes()) {
        eprintln!("bootscope plugin: cannot write calls: {error}");
        return;
    }
    let file = Arc::new(CallsFile::new(out, LIMITS));
    let vcpus = info.max_vcpus.clamp(1, VCPUS as i32) as u16;
    let shared = Shared::new(shared_clock, min_call, interval, [NODES, FRAMES, vcpus.into()]);
    let vcpus = (0..vcpus).map(|n| Cell::new(Vcpu::new(&shared, Out::new(Some(file.clone()), n)))).collect();
    let follower = Follower {
        code,
        stack,
        shared,
        vcpus,
        end: exclusion::Ending::new(),
        blocks: Mutex::new(Blocks::new(BLOCKS)),
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

/// A block is being translated, by the thread that runs `vcpu` if that is known.
///
/// # Safety
/// `tb` is the block of the running translation callback.
pub unsafe fn translated(tb: *mut Tb, vcpu: Option<c_uint>, one_thread: bool) {
    let Some(f) = follower() else { return };
    if f.in_turn && f.current.load(Ordering::Relaxed).is_null() {
        // In this thread, for this thread: it is one of its own variables.
        f.current.store(api::find(c"current_cpu").unwrap_or(null_mut()).cast(), Ordering::Relaxed);
    }
    let vcpu = if one_thread { Some(f.turn.load(Ordering::Relaxed)) } else { vcpu };
    // SAFETY: the callback is of the thread that runs this vCPU, which is therefore in no other.
    let running = vcpu.and_then(|n| unsafe { f.vcpu(n) });
    // SAFETY: the block by this function's contract.
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
    /// Notes which vCPU runs. The number that QEMU 10.0 gives is that of the one for which the code was translated,
    /// where one thread runs several; so it is asked for its own notion, and the number is used only where it has none.
    #[inline(always)]
    fn takes_turn(&self, told: c_uint) {
        // SAFETY: null, or the address of QEMU's variable in the one thread that runs all vCPUs, which is this one.
        let turn = match unsafe { self.current.load(Ordering::Relaxed).as_ref() } {
            Some(current) => {
                let current = current.load(Ordering::Relaxed);
                if current == self.last_current.load(Ordering::Relaxed) {
                    return;
                }
                self.last_current.store(current, Ordering::Relaxed);
                self.number_of(current).unwrap_or(told)
            }
            None => told,
        };
        let last = self.turn.swap(turn, Ordering::Relaxed);
        if last != turn {
            // SAFETY: this thread runs all vCPUs, and is in a callback that has borrowed none; the two are different ones.
            if let (Some(mut running), Some(mut last)) = unsafe { (self.vcpu(turn), self.vcpu(last)) } {
                running.takes_over(&self.shared, &mut last);
            }
        }
    }

    /// The number of a vCPU by the address of what QEMU keeps of it.
    fn number_of(&self, current: *mut c_void) -> Option<c_uint> {
        let get = api::find(c"qemu_get_cpu")?;
        // SAFETY: QEMU exports CPUState *qemu_get_cpu(int) under this name, the same since 1.4; it only reads its list.
        let get = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(c_int) -> *mut c_void>(get) };
        (0..self.vcpus.len() as c_int).find(|&n| get(n) == current).map(|n| n as c_uint)
    }

    /// Version 1 of the interface does not tell the privilege level: user space is what lies in the lower half once a
    /// kernel runs in the upper, and is reached by a return from an interrupt or a system call, or from user space.
    fn is_user(&self, start: u64, running: &Vcpu) -> bool {
        if start >> 63 != 0 {
            self.upper_half_seen.store(true, Ordering::Relaxed);
            return false;
        }
        let before = running.block();
        // A further CPU of arm64 comes to the lower half by such a return too, before it ever was in the upper one.
        let in_kernel = match self.stack {
            Stack::Accesses => self.upper_half_seen.load(Ordering::Relaxed),
            Stack::Effects(_) => running.was_up(),
        };
        before.user || (before.ending == Ending::InterruptReturn && in_kernel)
    }

    /// Whether there was room to follow the block.
    ///
    /// # Safety
    /// `tb` is the block of the running translation callback.
    unsafe fn instrument(&self, tb: *mut Tb, start: u64, user: bool) -> bool {
        // SAFETY: the block by this function's contract; it has at least one instruction, and `last` is its last.
        let (last, block) = unsafe {
            let insns = self.length(tb);
            let last = api::qemu_plugin_tb_get_insn(tb, insns - 1);
            (last, self.block(tb, start, insns, user))
        };
        let Some(block) = block else {
            if !self.not_followed.swap(true, Ordering::Relaxed) {
                eprintln!(
                    "bootscope plugin: more than {BLOCKS} blocks of code: what is new from now on is not followed"
                );
            }
            return false;
        };
        let data = std::ptr::from_ref(block).cast_mut().cast::<c_void>();
        let runs = match (self.stack, self.in_turn) {
            (Stack::Accesses, false) => runs,
            (Stack::Accesses, true) => runs_in_turn,
            (Stack::Effects(_), false) => runs_on_stack,
            (Stack::Effects(_), true) => runs_on_stack_in_turn,
        };
        // SAFETY: block and instruction of the running callback; the data lives for good.
        unsafe {
            api::qemu_plugin_register_vcpu_tb_exec_cb(tb, runs, api::CB_NO_REGS, data);
            if let Some((insn, callback)) = self.tells_stack(tb, last, block, user) {
                api::qemu_plugin_register_vcpu_mem_cb(insn, callback, api::CB_NO_REGS, api::MEM_RW, data);
            }
            if block.ending == Ending::Halt {
                api::qemu_plugin_register_vcpu_insn_exec_cb(last, halts, api::CB_NO_REGS, data);
            }
        }
        true
    }

    /// The instruction whose access tells the stack pointer, and who is to be called for it.
    ///
    /// # Safety
    /// `tb` is the block of the running translation callback, `last` its last instruction, and `block` what is kept of it.
    unsafe fn tells_stack(
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
                let told_by = block.on_stack?.told_by?;
                // SAFETY: the block has that instruction: by this function's contract the same code gave what is kept of it.
                Some((unsafe { api::qemu_plugin_tb_get_insn(tb, told_by.into()) }, tells))
            }
        }
    }

    /// # Safety
    /// `tb` is the block of the running translation callback, with so many instructions.
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
            let (ending, displacement) = self.code.ends(bytes, before);
            let mut block =
                Block::new(start, last_start.wrapping_add(size), last_start, insns as u32, ending, displacement);
            if self.code.repeats(bytes) {
                block = block.repeats();
            }
            block.far_call = self.code.is_far_call(bytes);
            if let Stack::Effects(effect) = self.stack {
                block.on_stack = Some(on_stack(tb, insns, effect));
            }
            if self.begins_function(tb, start, insns) {
                block.set(ENTRY);
            }
            blocks.keep(block)
        }
    }

    /// # Safety
    /// `tb` is the block of the running translation callback.
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

    /// Instructions of a block, at least one. QEMU 7.2 also tells of one that it has taken away again: an instruction that
    /// reaches into the next page always begins a block of its own.
    ///
    /// # Safety
    /// `tb` is the block of the running translation callback.
    unsafe fn length(&self, tb: *mut Tb) -> usize {
        // SAFETY: the block by this function's contract, and its last instruction.
        unsafe {
            let told = api::qemu_plugin_tb_n_insns(tb).max(1);
            let last: *mut Insn = api::qemu_plugin_tb_get_insn(tb, told - 1);
            let (start, size) = (api::qemu_plugin_insn_vaddr(last), api::qemu_plugin_insn_size(last) as u64);
            let crosses = start >> PAGE_BITS != start.wrapping_add(size).wrapping_sub(1) >> PAGE_BITS;
            // Of such a one it may have kept only the bytes before the page's end.
            let cut = self.code.lacks_target(api::insn_bytes(last, &mut [0; 16]));
            if told > 1 && (crosses || cut) { told - 1 } else { told }
        }
    }

    /// # Safety
    /// `tb` is the block of the running translation callback, with so many instructions.
    unsafe fn begins_function(&self, tb: *mut Tb, start: u64, insns: usize) -> bool {
        let (mut first, mut second) = ([0; 16], [0; 16]);
        // SAFETY: instructions of the block, by this function's contract.
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
/// `tb` is the block of the running translation callback, with so many instructions.
unsafe fn on_stack(tb: *mut Tb, insns: usize, effect: fn(&[u8]) -> Effect) -> OnStack {
    // SAFETY: instructions of the block, by this function's contract.
    OnStack::of(
        (0..insns).map(|i| unsafe { effect(api::insn_bytes(api::qemu_plugin_tb_get_insn(tb, i), &mut [0; 16])) }),
    )
}

/// QEMU ends. It calls this once, from any thread, and other vCPUs may still run.
pub fn ends() {
    let Some(f) = follower() else { return };
    if !f.end.comes() {
        return; // what was written so far is there
    }
    let mut is_first = true;
    for cell in &f.vcpus {
        // SAFETY: the end has come, and QEMU calls this once.
        if let Some(vcpu) = unsafe { cell.take() }.filter(|vcpu| vcpu.has_run()) {
            vcpu.ends(&f.shared, is_first);
            is_first = false;
        }
    }
}

/// # Safety
/// The caller is a callback that `instrument` registered, with the data that QEMU gave it and the number of the vCPU that runs in this
/// thread, and has no reference to a vCPU.
#[inline(always)]
unsafe fn find(vcpu: c_uint, data: *mut c_void) -> Option<(&'static Follower, Used<'static, Vcpu>, &'static Block)> {
    let f = follower()?;
    // SAFETY: it is a callback of this vCPU, which uses it nowhere else, and QEMU calls none within another. The data is the address of a
    // block that `Blocks` leaked, as `instrument` registered it: QEMU keeps it in translated code, which no guest writes to.
    unsafe { Some((f, f.vcpu(vcpu)?, &*data.cast::<Block>())) }
}

/// Which vCPU a callback within a block is of. The callback at the block's start, which is made most often, need not look.
#[inline(always)]
fn running(told: c_uint) -> c_uint {
    follower().filter(|f| f.in_turn).map_or(told, |f| f.turn.load(Ordering::Relaxed))
}

/// The vCPU whose block starts, where one thread runs several.
#[inline(always)]
fn takes_turn(told: c_uint) -> c_uint {
    if let Some(f) = follower() {
        f.takes_turn(told); // which gives back what it borrows
    }
    running(told)
}

extern "C" fn runs(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: `instrument` registered this callback where each vCPU has a thread, or else `runs_in_turn`, which says whose turn it is.
    // Nothing here was borrowed before.
    if let Some((f, mut vcpu, block)) = unsafe { find(vcpu, data) } {
        vcpu.runs(&f.shared, block);
    }
}

extern "C" fn runs_in_turn(vcpu: c_uint, data: *mut c_void) {
    runs(takes_turn(vcpu), data);
}

extern "C" fn runs_on_stack(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: as in `runs`, with `runs_on_stack_in_turn`.
    if let Some((f, mut vcpu, block)) = unsafe { find(vcpu, data) } {
        vcpu.runs_on_stack(&f.shared, block);
    }
}

extern "C" fn runs_on_stack_in_turn(vcpu: c_uint, data: *mut c_void) {
    runs_on_stack(takes_turn(vcpu), data);
}

extern "C" fn tells(vcpu: c_uint, _: u32, address: u64, data: *mut c_void) {
    // SAFETY: `instrument` registered this callback, and nothing here was borrowed before.
    if let Some((f, mut vcpu, block)) = unsafe { find(running(vcpu), data) } {
        vcpu.told(&f.shared, block, address);
    }
}

extern "C" fn touches_stack(vcpu: c_uint, _: u32, address: u64, data: *mut c_void) {
    // SAFETY: `instrument` registered this callback, and nothing here was borrowed before.
    if let Some((_, mut vcpu, block)) = unsafe { find(running(vcpu), data) } {
        vcpu.stack_pointer(block, address);
    }
}

extern "C" fn writes_stack(vcpu: c_uint, info: u32, address: u64, data: *mut c_void) {
    // SAFETY: `info` is what QEMU gave to this very callback; the function only looks at its bits.
    if unsafe { api::qemu_plugin_mem_is_store(info) } {
        touches_stack(vcpu, info, address, data);
    }
}

extern "C" fn reads_stack(vcpu: c_uint, info: u32, address: u64, data: *mut c_void) {
    // SAFETY: `info` is what QEMU gave to this very callback; the function only looks at its bits.
    if !unsafe { api::qemu_plugin_mem_is_store(info) } {
        touches_stack(vcpu, info, address, data);
    }
}

extern "C" fn halts(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: `instrument` registered this callback, and nothing here was borrowed before.
    if let Some((f, mut vcpu, _)) = unsafe { find(running(vcpu), data) } {
        vcpu.halts(&f.shared);
    }
}

// The interface's enumeration of accesses is an int.
const _: () = assert!(size_of::<c_int>() == 4);
