//! The used part of QEMU's plugin interface, declared by hand.
//!
//! Layout and meaning are as in `qemu-plugin.h` of QEMU 7.2 (version 1 of the interface), 10.0 (4) and 11.1 (7). This
//! module hides their differences. From version 3 on, `qemu_plugin_insn_data` copies the bytes ([`insn_bytes`]). From
//! version 7 on, callbacks get the data of their registration instead of the plugin's number ([`Callbacks`]). QEMU's
//! symbols are resolved when it loads the object; nothing is linked. This module has no types of the guest or of the
//! output.

#![allow(unsafe_code, reason = "functions of QEMU's")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// QEMU's number for this plugin; every registration passes it back.
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

/// The place of an access; valid during the callback of that access only.
#[repr(C)]
pub struct Hwaddr {
    _opaque: [u8; 0],
}

/// `qemu_info_t`. In C, the last two fields are in a union with this struct as its only member.
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

/// `QEMU_PLUGIN_CB_NO_REGS`: the callback reads no register.
pub const CB_NO_REGS: c_int = 0;
/// `QEMU_PLUGIN_MEM_RW`: reads and writes. With reads alone, QEMU 7.2 misses most of them: it compares with the wrong
/// bit.
pub const MEM_RW: c_int = 3;

/// A callback with the vCPU, QEMU's own description of the access, its address, and the registered data.
pub type MemCallback = extern "C" fn(c_uint, u32, u64, *mut c_void);

/// From this version on, callbacks get the data of their registration instead of the plugin's number.
const WITH_USERDATA: c_int = 7;

/// QEMU's callbacks for the plugin as a whole. They are safe functions: of QEMU's arguments only the block could be
/// invalid, and QEMU guarantees its validity.
pub struct Callbacks {
    /// QEMU created a vCPU.
    pub vcpu_init: fn(c_uint),
    /// QEMU is translating a block; the block is valid within this call.
    pub translated: fn(*mut Tb),
    /// QEMU ends.
    pub at_exit: fn(),
}

static PLUGIN: OnceLock<(PluginId, Callbacks)> = OnceLock::new();

/// Registers these callbacks, in the form of QEMU's version of the interface.
///
/// # Safety
/// Call it within `qemu_plugin_install`, with the number and the current version that QEMU passed there.
pub unsafe fn register(id: PluginId, version_cur: c_int, callbacks: Callbacks) {
    DATA_IS_COPIED.store(version_cur >= 3, Ordering::Relaxed);
    let _ = PLUGIN.set((id, callbacks));
    let (init, translated) = match version_cur >= WITH_USERDATA {
        true => (vcpu_init_7 as *const c_void, translated_7 as *const c_void),
        false => (vcpu_init_1 as *const c_void, translated_1 as *const c_void),
    };
    // SAFETY: the number is QEMU's, and the functions have the form that this version calls. They are in this object,
    // which QEMU unloads only when it ends or on the object's own request. The object never requests it.
    unsafe {
        qemu_plugin_register_vcpu_init_cb(id, init, null_mut());
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated, null_mut());
        qemu_plugin_register_atexit_cb(id, at_exit, null_mut());
    }
}

/// Requests that QEMU drop all callbacks, including those in code that is already translated. QEMU does it when no vCPU
/// runs, not within this call. Afterwards QEMU reports only its end.
pub fn reset_callbacks() {
    if let Some((id, _)) = PLUGIN.get() {
        // SAFETY: the number is QEMU's, and the function takes no argument in any version.
        unsafe { qemu_plugin_reset(*id, after_reset, null_mut()) };
    }
}

extern "C" fn vcpu_init_1(_: PluginId, vcpu: c_uint) {
    PLUGIN.get().inspect(|(_, to)| (to.vcpu_init)(vcpu));
}

extern "C" fn vcpu_init_7(vcpu: c_uint, _: *mut c_void) {
    PLUGIN.get().inspect(|(_, to)| (to.vcpu_init)(vcpu));
}

extern "C" fn translated_1(_: PluginId, tb: *mut Tb) {
    PLUGIN.get().inspect(|(_, to)| (to.translated)(tb));
}

extern "C" fn translated_7(tb: *mut Tb, _: *mut c_void) {
    PLUGIN.get().inspect(|(_, to)| (to.translated)(tb));
}

extern "C" fn after_reset() {
    if let Some((id, _)) = PLUGIN.get() {
        // SAFETY: the number is QEMU's, and the function is in this object, which stays loaded.
        unsafe { qemu_plugin_register_atexit_cb(*id, at_exit, null_mut()) };
    }
}

extern "C" fn at_exit() {
    PLUGIN.get().inspect(|(_, to)| (to.at_exit)());
}

// In the C calling convention of every host that QEMU runs on, arguments beyond a function's parameters are harmless.
// This covers our functions, which QEMU calls with more arguments than they take. It also covers QEMU's older
// functions, which lack the last parameters.
unsafe extern "C" {
    // `cb` up to version 6: (PluginId, c_uint); from 7 on: (c_uint, userdata), and only there a third parameter.
    fn qemu_plugin_register_vcpu_init_cb(id: PluginId, cb: *const c_void, userdata: *mut c_void);
    // `cb` up to version 6: (PluginId, *mut Tb); from 7 on: (*mut Tb, userdata), and only there a third parameter.
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, cb: *const c_void, userdata: *mut c_void);
    // `cb` up to version 6: (PluginId, userdata); from 7 on: (userdata).
    fn qemu_plugin_register_atexit_cb(id: PluginId, cb: extern "C" fn(), userdata: *mut c_void);
    // `cb` up to version 6: (PluginId); from 7 on: (userdata), and only there a third parameter.
    fn qemu_plugin_reset(id: PluginId, cb: extern "C" fn(), userdata: *mut c_void);
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
    // Null if QEMU does not know the place.
    pub fn qemu_plugin_get_hwaddr(info: u32, vaddr: u64) -> *const Hwaddr;
    pub fn qemu_plugin_hwaddr_is_io(place: *const Hwaddr) -> bool;
    pub fn qemu_plugin_hwaddr_phys_addr(place: *const Hwaddr) -> u64;
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_vaddr(tb: *const Tb) -> u64;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub fn qemu_plugin_insn_haddr(insn: *const Insn) -> *mut c_void;
    // Versions 1 and 2 have one parameter and return the bytes; 3 and later copy and return the count.
    fn qemu_plugin_insn_data(insn: *const Insn, dest: *mut c_void, len: usize) -> usize;
}

/// The version that this object declares to QEMU, a C `int`. [`choose_version`] sets it while the object is loaded,
/// before QEMU reads it. QEMU refuses an object with a version outside its own range. The ranges of 7.2 (only 1),
/// 10.0 (2 to 4) and 11.1 (only 7) do not overlap.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "QEMU looks for this name")]
pub static qemu_plugin_version: AtomicI32 = AtomicI32::new(1);

/// The version to declare after this QEMU has refused another one: 1 to 7.
const VERSION_VARIABLE: &std::ffi::CStr = c"BOOTSCOPE_QEMU_PLUGIN_VERSION";

#[used]
#[unsafe(link_section = ".init_array")]
static CHOOSE_VERSION: extern "C" fn() = choose_version;

/// Detects QEMU's version from its exports: version 2 removed `qemu_plugin_n_vcpus`, version 4 added
/// `qemu_plugin_read_memory_vaddr`. Version 7 added no function, and each release of QEMU decides which older versions
/// it accepts. So if a QEMU refuses the chosen version, the recorder starts it again with the version that it named.
extern "C" fn choose_version() {
    let version = if let Some(version) = requested_version() {
        version
    } else if find(c"qemu_plugin_read_memory_vaddr").is_some() {
        4
    } else if find(c"qemu_plugin_n_vcpus").is_none() {
        2
    } else {
        1
    };
    qemu_plugin_version.store(version, Ordering::Relaxed);
}

fn requested_version() -> Option<c_int> {
    // SAFETY: a terminated string; QEMU loads plugins before it has threads that could change its environment.
    let value = unsafe { libc::getenv(VERSION_VARIABLE.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv returns terminated strings.
    let value = unsafe { std::ffi::CStr::from_ptr(value) };
    value.to_str().ok()?.parse().ok().filter(|version| (1..=WITH_USERDATA).contains(version))
}

/// The address of a function that QEMU exports; `None` if it does not export it.
pub fn find(name: &std::ffi::CStr) -> Option<*mut c_void> {
    // SAFETY: RTLD_DEFAULT is a handle of dlsym's own, and a CStr is a terminated string.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!at.is_null()).then_some(at)
}

static DATA_IS_COPIED: AtomicBool = AtomicBool::new(false);

/// Copies an instruction's bytes to `into` (16 bytes hold any instruction of x86), and returns the copied bytes.
///
/// # Safety
/// `insn` must belong to the block of the running translation callback.
pub unsafe fn insn_bytes(insn: *const Insn, into: &mut [u8; 16]) -> &[u8] {
    // SAFETY: insn is valid by this function's contract. The buffer has the given length, and the old form ignores it.
    let answer = unsafe { qemu_plugin_insn_data(insn, into.as_mut_ptr().cast(), into.len()) };
    if DATA_IS_COPIED.load(Ordering::Relaxed) {
        return &into[..answer.min(16)];
    }
    // SAFETY: insn is valid by this function's contract.
    let size = unsafe { qemu_plugin_insn_size(insn) }.min(16);
    if answer == 0 {
        return &[];
    }
    // SAFETY: in the old form, the result points at `size` bytes that live as long as the callback.
    unsafe { std::ptr::copy_nonoverlapping(answer as *const u8, into.as_mut_ptr(), size) };
    &into[..size]
}
