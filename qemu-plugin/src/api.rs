//! The part of QEMU's plugin interface that is used here, declared by hand.
//!
//! Layout and meaning as in `qemu-plugin.h` of QEMU 7.2 (version 1 of the interface) and 10.0 (version 4). All of
//! these functions exist unchanged in versions 1 to 4 but one: `qemu_plugin_insn_data` returned a pointer up to
//! version 2 and copies into a buffer from version 3 on; [`insn_bytes`] hides that. The symbols are found when QEMU
//! loads the object; nothing is linked. No types of the guest or of the output here.

#![allow(unsafe_code, reason = "functions of QEMU's")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// What QEMU calls this plugin; handed back with every registration.
pub type PluginId = u64;

/// A block being translated; valid during the translation callback only.
#[repr(C)]
pub struct Tb {
    _opaque: [u8; 0],
}

/// An instruction of a block being translated; valid during the translation callback only.
#[repr(C)]
pub struct Insn {
    _opaque: [u8; 0],
}

/// `qemu_info_t`. The last two fields stand in a union whose only member is this one.
#[repr(C)]
pub struct Info {
    /// The guest's architecture, e.g. `x86_64`.
    pub target_name: *const c_char,
    /// Lowest version of the interface that QEMU accepts.
    pub version_min: c_int,
    /// Version of the interface that QEMU implements.
    pub version_cur: c_int,
    /// False for user-mode emulation, which boots nothing.
    pub system_emulation: bool,
    /// vCPUs that the machine starts with.
    pub smp_vcpus: c_int,
    /// vCPUs that the machine can have.
    pub max_vcpus: c_int,
}

/// `QEMU_PLUGIN_CB_NO_REGS`: the callback looks at no register.
pub const CB_NO_REGS: c_int = 0;
/// `QEMU_PLUGIN_MEM_RW`: reads and writes. Of reads alone, QEMU 7.2 misses most: it compares with the wrong bit.
pub const MEM_RW: c_int = 3;

/// Called with the vCPU, QEMU's own description of the access, its address, and the data given.
pub type MemCallback = extern "C" fn(c_uint, u32, u64, *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_init_cb(id: PluginId, cb: extern "C" fn(PluginId, c_uint));
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, cb: extern "C" fn(PluginId, *mut Tb));
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        tb: *mut Tb,
        cb: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        userdata: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        cb: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        userdata: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        cb: MemCallback,
        flags: c_int,
        rw: c_int,
        userdata: *mut c_void,
    );
    pub fn qemu_plugin_mem_is_store(info: u32) -> bool;
    pub fn qemu_plugin_register_atexit_cb(
        id: PluginId,
        cb: extern "C" fn(PluginId, *mut c_void),
        userdata: *mut c_void,
    );
    /// Forgets all callbacks, also those in code that is already translated, and calls `cb` when that is done.
    pub fn qemu_plugin_reset(id: PluginId, cb: extern "C" fn(PluginId));
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_vaddr(tb: *const Tb) -> u64;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub fn qemu_plugin_insn_haddr(insn: *const Insn) -> *mut c_void;
    // Versions 1 and 2 have one parameter and return the bytes; 3 and later copy and return the count. Declared in the
    // wider form: in the C calling convention of every host QEMU runs on, further arguments do no harm.
    fn qemu_plugin_insn_data(insn: *const Insn, dest: *mut c_void, len: usize) -> usize;
}

/// The version that this object declares to QEMU, a C `int`. It is set by [`choose_version`] while the object is
/// loaded, before QEMU looks: QEMU refuses an object whose version lies outside its own range, and 7.2 (only 1) and
/// 10.0 (2 to 4) have none in common.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "QEMU looks for this name")]
pub static qemu_plugin_version: AtomicI32 = AtomicI32::new(1);

#[used]
#[unsafe(link_section = ".init_array")]
static CHOOSE_VERSION: extern "C" fn() = choose_version;

/// Tells QEMU's versions apart by what they export: version 2 took `qemu_plugin_n_vcpus` away, version 4 brought
/// `qemu_plugin_read_memory_vaddr`.
extern "C" fn choose_version() {
    let version = if find(c"qemu_plugin_read_memory_vaddr").is_some() {
        4
    } else if find(c"qemu_plugin_n_vcpus").is_none() {
        2
    } else {
        1
    };
    qemu_plugin_version.store(version, Ordering::Relaxed);
}

/// Address of a function that QEMU exports, if it does.
pub fn find(name: &std::ffi::CStr) -> Option<*mut c_void> {
    // SAFETY: dlsym takes any handle of its own and a terminated string, which a CStr is.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!at.is_null()).then_some(at)
}

static DATA_IS_COPIED: AtomicBool = AtomicBool::new(false);

/// Notes which form of `qemu_plugin_insn_data` this QEMU has.
pub fn set_current_version(version_cur: c_int) {
    DATA_IS_COPIED.store(version_cur >= 3, Ordering::Relaxed);
}

/// Copies an instruction's bytes to `into` (16 bytes hold any of x86's) and returns those that are there.
///
/// # Safety
/// `insn` belongs to the block of the running translation callback.
pub unsafe fn insn_bytes(insn: *const Insn, into: &mut [u8; 16]) -> &[u8] {
    // SAFETY: insn is valid by this function's contract; the buffer is as long as said, and the old form ignores it.
    let answer = unsafe { qemu_plugin_insn_data(insn, into.as_mut_ptr().cast(), into.len()) };
    if DATA_IS_COPIED.load(Ordering::Relaxed) {
        return &into[..answer.min(16)];
    }
    // SAFETY: insn is valid by this function's contract.
    let size = unsafe { qemu_plugin_insn_size(insn) }.min(16);
    if answer == 0 {
        return &[];
    }
    // SAFETY: in the old form the answer points at `size` bytes that live as long as the callback.
    unsafe { std::ptr::copy_nonoverlapping(answer as *const u8, into.as_mut_ptr(), size) };
    &into[..size]
}
