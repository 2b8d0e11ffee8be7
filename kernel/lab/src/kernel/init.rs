//! The end of the boot: process 1, from a kernel thread to user space, and then power-off.

use crate::console::kprintln;
use crate::sysinit::{Subsystem, sysinit};
use crate::{calls, contexts, exit, memory, services, syscall, thread, vfs, vm_page};

sysinit!(create_init, Subsystem::Init, 0, create_init);

fn create_init() {
    thread::create("init", start_init, 0);
}

/// Mounts root, starts services if there are to be any, and the first process. Where this ends the boot has ended.
fn start_init(_: usize) {
    tslog::enter!("start_init");
    vfs::mountroot();
    syscall::load_user_program();
    contexts::create();
    services::start();
    calls::start();
    tslog::exit!("start_init");
    exit::handed_over();
    syscall::enter_user_program()
}

/// The process is done, and with it the machine, once it has all its memory: nothing that was put off is left out.
pub fn done() -> ! {
    vm_page::wait_for_rest();
    kprintln!("{}", memory::in_use());
    kprintln!("init: done");
    exit::power_off()
}
