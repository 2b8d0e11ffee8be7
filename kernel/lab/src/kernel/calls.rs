//! A process that asks for a system call that there is not, again and again (`calls=`): what the path to the kernel and back
//! takes, whatever the call. Beside it the same loop with a bare `syscall` and `sysret`, and without either.
//!
//! How often is chosen. The path is every call's (`syscall.rs`); nothing in it is for this process.

use crate::console::kprintln;
use crate::{boot, cpu, services, syscall};
use core::arch::x86_64::__cpuid;
use lab::calls::{Loops, Tick};

const HYPERVISOR: u32 = 0x4000_0000;
/// CPUID 1, ECX: there is one.
const HAS_HYPERVISOR: u32 = 1 << 31;

/// Runs it, if it is to be. The programs' text is mapped (`syscall::load_user_program`).
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

/// How long a program runs.
#[inline(never)]
fn ticks(entry: u64, rounds: u64) -> u64 {
    let before = cpu::rdtsc();
    services::run(entry, rounds, 0, 0);
    cpu::rdtsc() - before
}

fn tick() -> Tick {
    #[allow(unused_unsafe, reason = "older compilers ask for it")]
    // SAFETY: every CPU of this architecture has it.
    let (features, hypervisor) = unsafe { (__cpuid(1), __cpuid(HYPERVISOR)) };
    let mut name = [0; 12];
    for (word, register) in name.chunks_exact_mut(4).zip([hypervisor.ebx, hypervisor.ecx, hypervisor.edx]) {
        word.copy_from_slice(&register.to_le_bytes());
    }
    Tick::under((features.ecx & HAS_HYPERVISOR != 0).then_some(&name))
}
