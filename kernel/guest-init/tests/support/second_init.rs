//! The user's own init of the test: prints what it finds, then uses a port, which must kill it.

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};

unsafe extern "C" {
    fn mount(from: *const c_char, at: *const c_char, kind: *const c_char, flags: c_ulong, data: *const c_void) -> c_int;
}

fn names(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn main() {
    println!("second init: pid {} args {:?}", std::process::id(), std::env::args().collect::<Vec<_>>());
    println!("second init: HOME {:?} mine {:?}", std::env::var("HOME"), std::env::var("mine"));
    println!("second init: proc {:?} ours {:?}", names("/proc"), names("/bootscope/proc"));
    std::fs::create_dir_all("/proc").unwrap();
    let text = |text: &'static CStr| text.as_ptr();
    // SAFETY: three C strings that live forever, and no data.
    let mounted = unsafe { mount(text(c"proc"), text(c"/proc"), text(c"proc"), 0, std::ptr::null()) };
    println!("second init: mounted {mounted}; mounts {:?}", std::fs::read_to_string("/proc/mounts").unwrap());
    println!("second init: files {:?}", names("/proc/self/fd"));
    // SAFETY: there is no safety argument; this instruction must fault.
    unsafe { std::arch::asm!("in al, dx", in("dx") 0xe9u16, out("al") _) };
    println!("second init: may use ports");
}
