//! Measures how fast this host's KVM runs the code of a guest's kernel, to detect a KVM that interprets it.
//!
//! Not every KVM uses virtualization hardware. If the host is itself a virtual machine without nested virtualisation, its KVM may run
//! only a guest's user space on the CPU, and interpret each instruction of its kernel. A KVM for paravirtualised guests (`kvm_pvm`)
//! does so with every kernel that was not built for it. Such a kernel is a thousand times slower, and stops at the first
//! instruction that KVM cannot interpret.
//!
//! For the measurement, a vCPU in 64-bit mode with a kernel's privilege counts down from [`TURNS`] and halts. KVM reports the halt. A
//! separate thread runs the vCPU, and a signal to that thread stops a vCPU that never halts.

use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kvm_bindings::{kvm_regs, kvm_segment, kvm_sregs, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd};
use rustix::time::{ClockId, clock_gettime};

/// Turns of the loop. A CPU runs them in 20 µs; a KVM that interprets them, at some million instructions a second, in 20 ms.
const TURNS: u64 = 32 << 10;
/// `top: dec rcx; jnz top; hlt`.
const CODE: [u8; 6] = [0x48, 0xff, 0xc9, 0x75, 0xfb, 0xf4];
const TURN_INSTRUCTIONS: u64 = 2;
/// Number of measurements, of which the fastest counts. The first one includes the mapping of the guest's pages.
const MEASUREMENTS: u32 = 3;

/// Longest wait. A vCPU that has not halted by then never halts.
const MAX_WAIT: Duration = Duration::from_secs(3);
/// The signal for the thread. No other code uses it, and a process without a handler ignores it.
const STOP: libc::c_int = libc::SIGURG;
/// Time between two signals. A signal has no effect if it arrives just before the vCPU is entered, so it is repeated.
const STOP_AGAIN: Duration = Duration::from_millis(5);

/// Guest memory: the page of the code, then a page table for each level. The last table maps 2 MiB.
const MEMORY_BYTES: usize = 4 * PAGE_BYTES;
const PAGE_BYTES: usize = 4096;
const TABLES: [usize; 3] = [PAGE_BYTES, 2 * PAGE_BYTES, 3 * PAGE_BYTES];
/// Flags of an entry: present, writable.
const ENTRY: u64 = 0b11;
/// Flag of an entry in the last table, which maps a page and no further table.
const LARGE: u64 = 1 << 7;

/// The number of instructions of a guest's kernel that KVM runs in a second of the thread's CPU time.
///
/// # Errors
/// The step that failed.
pub(crate) fn instructions_per_s() -> Result<u64, String> {
    measured(CODE, MAX_WAIT)
}

fn measured(code: [u8; CODE.len()], patience: Duration) -> Result<u64, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, result) = mpsc::channel();
    let stop_flag = stop.clone();
    let measuring =
        thread::Builder::new().name("kvm-speed".to_owned()).spawn(move || sender.send(measure(code, &stop_flag)));
    let measuring = measuring.map_err(|e| format!("no thread can be started: {e}"))?;
    result.recv_timeout(patience).unwrap_or_else(|_| {
        stop.store(true, Ordering::Relaxed);
        interrupt(&measuring)?;
        Err(format!("a vCPU that should count and halt did not in {patience:?}"))
    })
}

/// Interrupts the thread's system calls until it has ended.
fn interrupt<T>(running: &JoinHandle<T>) -> Result<(), String> {
    // SAFETY: the handler does nothing, so it calls no function that is unsafe in a signal handler.
    let handler = unsafe { signal_hook::low_level::register(STOP, || {}) };
    let handler = handler.map_err(|e| format!("a vCPU does not halt and cannot be stopped: {e}"))?;
    while !running.is_finished() {
        // SAFETY: the thread was not joined, so its id is still valid even if the thread has ended.
        unsafe { libc::pthread_kill(running.as_pthread_t(), STOP) };
        thread::sleep(STOP_AGAIN);
    }
    signal_hook::low_level::unregister(handler);
    Ok(())
}

fn measure(code: [u8; CODE.len()], stop: &AtomicBool) -> Result<u64, String> {
    let mut memory = Memory::new(code);
    let failed = |what: &'static str| move |e: kvm_ioctls::Error| format!("{what}: {e}");
    let kvm = Kvm::new().map_err(failed("/dev/kvm cannot be opened"))?;
    let vm = kvm.create_vm().map_err(failed("KVM makes no virtual machine"))?;
    let region = kvm_userspace_memory_region {
        memory_size: MEMORY_BYTES as u64,
        userspace_addr: memory.0.as_mut_ptr().expose_provenance() as u64,
        ..Default::default()
    };
    // SAFETY: the region is the memory of the box. The box is declared before the virtual machine, so it is dropped after it. No other code
    // uses the box while a vCPU runs.
    unsafe { vm.set_user_memory_region(region) }.map_err(failed("KVM takes no memory"))?;
    let mut vcpu = vm.create_vcpu(0).map_err(failed("KVM makes no vCPU"))?;
    let sregs = vcpu.get_sregs().map_err(failed("KVM tells no registers"))?;
    vcpu.set_sregs(&kernel_mode(sregs)).map_err(failed("KVM takes no registers"))?;
    let mut fastest = Duration::MAX;
    for _ in 0..MEASUREMENTS {
        fastest = fastest.min(count_down(&mut vcpu, stop)?);
    }
    let ns = u64::try_from(fastest.as_nanos()).unwrap_or(u64::MAX).max(1);
    Ok((TURNS * TURN_INSTRUCTIONS).saturating_mul(1_000_000_000) / ns)
}

/// Runs the countdown on the vCPU. Returns its duration in this thread's CPU time, which does not advance while other threads run.
fn count_down(vcpu: &mut VcpuFd, stop: &AtomicBool) -> Result<Duration, String> {
    let regs = kvm_regs { rcx: TURNS, rip: 0, rflags: 2, ..Default::default() };
    vcpu.set_regs(&regs).map_err(|e| format!("KVM takes no registers: {e}"))?;
    let began = thread_time();
    loop {
        match vcpu.run() {
            Ok(VcpuExit::Hlt) => return Ok(thread_time().saturating_sub(began)),
            Ok(exit) => return Err(format!("a vCPU that should count and halt ended with {exit:?}")),
            Err(e) if e.errno() == libc::EINTR && stop.load(Ordering::Relaxed) => {
                return Err("it was stopped".to_owned());
            }
            // After another signal the vCPU continues.
            Err(e) if e.errno() == libc::EINTR => {}
            Err(e) => return Err(format!("a vCPU does not run: {e}")),
        }
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (s, ns) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(s.unwrap_or_default(), ns.unwrap_or_default())
}

/// Registers for long mode, ring 0 and flat segments.
fn kernel_mode(sregs: kvm_sregs) -> kvm_sregs {
    let code = kvm_segment {
        base: 0,
        limit: u32::MAX,
        selector: 0x10,
        // Execute, read, accessed.
        type_: 11,
        present: 1,
        s: 1,
        l: 1,
        g: 1,
        ..Default::default()
    };
    // Read, write, accessed.
    let data = kvm_segment { type_: 3, selector: 0x18, l: 0, db: 1, ..code };
    kvm_sregs {
        cs: code,
        ds: data,
        es: data,
        fs: data,
        gs: data,
        ss: data,
        // As Linux sets them: PE, MP, ET, NE, WP, AM and PG in CR0, PAE in CR4, LME and LMA in EFER.
        cr0: 0x8005_0033,
        cr3: TABLES[0] as u64,
        cr4: 1 << 5,
        efer: 1 << 8 | 1 << 10,
        ..sregs
    }
}

/// The guest's memory, aligned to a page.
#[repr(C, align(4096))]
struct Memory([u8; MEMORY_BYTES]);

impl Memory {
    fn new(code: [u8; CODE.len()]) -> Box<Memory> {
        let mut bytes = [0; MEMORY_BYTES];
        bytes[..CODE.len()].copy_from_slice(&code);
        let entries = [TABLES[1] as u64 | ENTRY, TABLES[2] as u64 | ENTRY, ENTRY | LARGE];
        for (table, entry) in TABLES.into_iter().zip(entries) {
            bytes[table..table + 8].copy_from_slice(&entry.to_le_bytes());
        }
        Box::new(Memory(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::fs::OpenOptions;
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    /// `poll` stands for a vCPU that never halts: like KVM's system call, it does not restart after a signal.
    #[test]
    fn a_thread_that_waits_in_the_kernel_is_interrupted() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let waiting = thread::spawn(move || poll(&mut [PollFd::new(&ours, PollFlags::IN)], None));
        thread::sleep(Duration::from_millis(20));
        interrupt(&waiting).unwrap();
        assert_eq!(waiting.join().unwrap(), Err(rustix::io::Errno::INTR));
    }

    #[test]
    fn a_vcpu_that_never_halts_is_stopped() {
        if let Err(why) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
            eprintln!("skipped: /dev/kvm cannot be opened: {why}");
            return;
        }
        // A jump to itself.
        let undone = measured([0xeb, 0xfe, 0xf4, 0xf4, 0xf4, 0xf4], Duration::from_millis(200)).unwrap_err();
        assert!(undone.contains("did not in 200ms"), "{undone}");
    }

    #[test]
    fn a_kvm_that_interprets_kernels_is_detected() {
        if let Err(why) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
            eprintln!("skipped: /dev/kvm cannot be opened: {why}");
            return;
        }
        let per_s = instructions_per_s().unwrap();
        eprintln!("this host's KVM runs {per_s} instructions of a guest's kernel in a second");
        let interprets = per_s < crate::accel::INTERPRETED_PER_S_MAX;
        if Path::new("/sys/module/kvm_pvm").exists() {
            assert!(interprets, "{per_s}");
        } else if ["intel", "amd"].iter().any(|name| Path::new(&format!("/sys/module/kvm_{name}")).exists()) {
            assert!(!interprets, "{per_s}");
        } else {
            eprintln!("skipped: no module of this host's says which it should be");
        }
    }
}
