//! Measures the path of a system call to the kernel and back (`calls=`): a process makes a system call that does not exist,
//! again and again. It also runs the same loop with a bare `syscall` and `sysret`, and without either.
//!
//! The number of calls is chosen. The path is that of every call (`syscall.rs`); it must have no code for this process only.

use crate::console::kprintln;
use crate::{boot, cpu, services, syscall};
use core::arch::x86_64::__cpuid;
use lab::calls::{Loops, Tick};

const HYPERVISOR: u32 = 0x4000_0000;
/// CPUID 1, ECX: there is a hypervisor.
const HAS_HYPERVISOR: u32 = 1 << 31;

/// Runs the loops, if the command line has them. `syscall::load_user_program` has mapped the programs' text.
pub fn start() {
    let rounds = u64::from(boot::switches().calls);
    if rounds == 0 {
        return;
    }
    let call_ticks = {
        let _scope = tslog::scope!("system_calls");
        ticks(syscall::calls_entry(), rounds)
    };
    syscall::begin_bare();
    let bare_ticks = ticks(syscall::calls_entry(), rounds);
    let empty_ticks = ticks(syscall::rounds_entry(), rounds);
    kprintln!("{}", Loops { rounds, empty_ticks, bare_ticks, call_ticks, tick: tick() });
}

/// Ticks that a program runs.
#[inline(never)]
fn ticks(entry: u64, rounds: u64) -> u64 {
    let before = cpu::rdtsc();
    services::run(entry, rounds, 0, 0);
    cpu::rdtsc() - before
}

fn tick() -> Tick {
    #[allow(unused_unsafe, reason = "older compilers ask for it")]
    // SAFETY: every CPU of this architecture has CPUID.
    let (features, hypervisor) = unsafe { (__cpuid(1), __cpuid(HYPERVISOR)) };
    let mut name = [0; 12];
    for (word, register) in name.chunks_exact_mut(4).zip([hypervisor.ebx, hypervisor.ecx, hypervisor.edx]) {
        word.copy_from_slice(&register.to_le_bytes());
    }
    Tick::under((features.ecx & HAS_HYPERVISOR != 0).then_some(&name))
}
