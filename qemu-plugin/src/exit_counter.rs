//! The callbacks that count accesses leaving the guest. They only find the place and the call path of an access, and
//! pass them to `exits`.
//!
//! Instructions that always leave the guest, such as IN and CPUID, get a callback of their own. Each access to memory
//! gets one, too: QEMU then knows if it went to a device, and to which page of RAM. Most accesses are to known pages,
//! and end there without a lock. A callback's data is the address of the guest's instruction, as a number that nothing
//! dereferences, or a [`Site`] that lives as long as the plugin.
//!
//! Callbacks of instructions cannot read the virtual clock under icount, so accesses have the time of the last
//! translation.

#![allow(unsafe_code, reason = "what QEMU hands over")]

use std::collections::HashMap;
use std::ffi::{c_uint, c_void};
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock};

use crate::api::{self, Insn, Tb};
use crate::arch::{Code, Exit};
use crate::exits::pages::Pages;
use crate::exits::{Exits, LIMITS};
use crate::follower;
use crate::waiting;
use plugin_formats::Start;
use plugin_formats::exits::{Kind, PAGE_BITS, Row};

/// The largest number of instructions that get a [`Site`]. A Linux boot has a few hundred.
const MAX_SITES: usize = 1 << 16;

struct Counter {
    code: &'static dyn Code,
    exits: Mutex<Exits>,
    sites: Mutex<Sites>,
    pages: Pages,
    now_ns: AtomicU64,
    /// Accesses to RAM, for the rule of waits. Threads may lose some of each other's.
    memory: AtomicU64,
    upper_half_seen: AtomicBool,
}

/// An instruction that leaves the guest by itself.
struct Site {
    insn: u64,
    exit: Exit,
    /// QEMU writes each element of a string from a port twice: once to have page faults before it reads the port. True
    /// after the first of these writes.
    is_probed: AtomicBool,
}

/// By address, kind and port: code at an address can change.
type Sites = HashMap<(u64, Kind, Option<u8>), &'static Site>;

static COUNTER: OnceLock<Counter> = OnceLock::new();

/// Starts to count.
pub fn start(out: File, start: &Start, code: &'static dyn Code) {
    let _ = COUNTER.set(Counter {
        code,
        exits: Mutex::new(Exits::new(out, start, LIMITS)),
        sites: Mutex::default(),
        pages: Pages::default(),
        now_ns: AtomicU64::new(0),
        memory: AtomicU64::new(0),
        upper_half_seen: AtomicBool::new(false),
    });
}

/// True if accesses are counted.
pub fn is_started() -> bool {
    COUNTER.get().is_some()
}

/// Ends the file.
pub fn finish(now_ns: u64) {
    if let Some(counter) = COUNTER.get() {
        counter.exits().finish(now_ns);
    }
}

/// Handles the translation of a block at `now_ns`.
///
/// # Safety
/// `tb` must be the block of the running translation callback.
pub unsafe fn translated(tb: *mut Tb, now_ns: u64) {
    let Some(counter) = COUNTER.get() else { return };
    counter.now_ns.store(now_ns, Relaxed);
    // SAFETY: the block is valid by this function's contract, and has these instructions.
    unsafe {
        for i in 0..api::qemu_plugin_tb_n_insns(tb) {
            counter.instrument(api::qemu_plugin_tb_get_insn(tb, i));
        }
    }
}

impl Counter {
    fn exits(&self) -> MutexGuard<'_, Exits> {
        self.exits.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// # Safety
    /// `insn` must be an instruction of the block of the running translation callback.
    unsafe fn instrument(&self, insn: *mut Insn) {
        // SAFETY: the instruction is valid by this function's contract. The callbacks' data is a number, or a site that
        // is never freed.
        unsafe {
            let (address, mut bytes) = (api::qemu_plugin_insn_vaddr(insn), [0; 16]);
            let exit = self.code.exit(api::insn_bytes(insn, &mut bytes));
            if let Some(exit) = exit.filter(|exit| self.leaves_guest(address, exit)) {
                let data = std::ptr::from_ref(self.site(address, exit)).cast_mut().cast::<c_void>();
                if exit.is_string {
                    api::qemu_plugin_register_vcpu_mem_cb(insn, moves_string, api::CB_NO_REGS, api::MEM_RW, data);
                } else {
                    api::qemu_plugin_register_vcpu_insn_exec_cb(insn, leaves_guest, api::CB_NO_REGS, data);
                }
            }
            let data = address as usize as *mut c_void;
            api::qemu_plugin_register_vcpu_mem_cb(insn, accesses, api::CB_NO_REGS, api::MEM_RW, data);
        }
    }

    /// False for a system call of user space. Such code is in the lower half once a kernel has run in the upper half.
    fn leaves_guest(&self, address: u64, exit: &Exit) -> bool {
        if address >> 63 != 0 {
            self.upper_half_seen.store(true, Relaxed);
            return true;
        }
        !(exit.is_also_system_call && self.upper_half_seen.load(Relaxed))
    }

    /// The permanent form of an instruction. Instructions beyond the limit share the one with address 0.
    fn site(&self, insn: u64, exit: Exit) -> &'static Site {
        let mut sites = self.sites.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let insn = if sites.len() < MAX_SITES { insn } else { 0 };
        sites
            .entry((insn, exit.kind, exit.port))
            .or_insert_with(|| Box::leak(Box::new(Site { insn, exit, is_probed: AtomicBool::new(false) })))
    }

    fn count(&self, vcpu: c_uint, row: Row, is_clock: bool) {
        let row = Row { node: follower::node(vcpu), ..row };
        self.exits().count(row, self.now_ns.load(Relaxed), self.memory.load(Relaxed), is_clock);
    }

    fn count_site(&self, vcpu: c_uint, site: &Site) {
        let Site { insn, exit, .. } = *site;
        self.count(vcpu, Row { kind: exit.kind, insn, node: 0, place: exit.port.map(u64::from) }, exit.is_clock);
    }
}

/// # Safety
/// `data` must be that of a callback which `instrument` registered with a site.
unsafe fn site(data: *mut c_void) -> Option<(&'static Counter, &'static Site)> {
    // SAFETY: the data is a leaked site by this function's contract. QEMU keeps its address in translated code, which
    // no guest writes to.
    COUNTER.get().map(|counter| (counter, unsafe { &*data.cast::<Site>() }))
}

extern "C" fn leaves_guest(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: `instrument` registered this callback with a site.
    if let Some((counter, site)) = unsafe { site(data) } {
        counter.count_site(vcpu, site);
    }
}

extern "C" fn moves_string(vcpu: c_uint, _: u32, _: u64, data: *mut c_void) {
    // SAFETY: `instrument` registered this callback with a site.
    if let Some((counter, site)) = unsafe { site(data) } {
        if site.exit.kind == Kind::PortWrite || site.is_probed.fetch_xor(true, Relaxed) {
            counter.count_site(vcpu, site);
        }
    }
}

extern "C" fn accesses(vcpu: c_uint, info: u32, address: u64, data: *mut c_void) {
    let Some(counter) = COUNTER.get() else { return };
    // SAFETY: QEMU passed both arguments to the running callback of this access. The result is valid within it.
    let (at, is_io) = unsafe {
        let place = api::qemu_plugin_get_hwaddr(info, address);
        if place.is_null() {
            return;
        }
        (api::qemu_plugin_hwaddr_phys_addr(place), api::qemu_plugin_hwaddr_is_io(place))
    };
    let insn = data as usize as u64;
    if is_io {
        // SAFETY: as above; the function only reads the bits of `info`.
        let kind = if unsafe { api::qemu_plugin_mem_is_store(info) } { Kind::MmioWrite } else { Kind::MmioRead };
        let is_clock = counter.code.is_clock_at(at);
        waiting::device_accessed(insn, is_clock);
        counter.count(vcpu, Row { kind, insn, node: 0, place: Some(at >> PAGE_BITS) }, is_clock);
        return;
    }
    counter.memory.store(counter.memory.load(Relaxed).wrapping_add(1), Relaxed);
    if counter.pages.touch(at >> PAGE_BITS) {
        counter.count(vcpu, Row { kind: Kind::FirstTouch, insn, node: 0, place: None }, false);
    }
}
