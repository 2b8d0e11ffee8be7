//! The end of the boot: process 1 goes from a kernel thread to user space, and then the machine is switched off.

use crate::console::kprintln;
use crate::sysinit::{Subsystem, sysinit};
use crate::{calls, contexts, exit, memory, services, syscall, thread, vfs, vm_page};

sysinit!(create_init, Subsystem::Init, 0, create_init);

fn create_init() {
    thread::create("init", start_init, 0);
}

/// Mounts root, starts the services of the command line, and starts the first process. The boot ends with `EXIT start_init`.
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

/// Ends the machine after the process. It first waits until all memory is initialised, so that a lazy boot does all its work.
pub fn done() -> ! {
    vm_page::wait_for_rest();
    kprintln!("{}", memory::in_use());
    kprintln!("init: done");
    exit::power_off()
}
