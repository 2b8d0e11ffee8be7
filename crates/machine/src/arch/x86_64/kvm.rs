//! How this host's KVM runs the code of a guest's kernel: on the CPU, or by interpreting it.
//!
//! Not every KVM has the hardware behind it. Where the host is itself a virtual machine without nested virtualisation,
//! its KVM may run only a guest's user space on the CPU, and interpret each instruction of its kernel. A KVM for
//! paravirtualised guests (`kvm_pvm`) does so with any kernel that was not built for it. Such a kernel is a thousand times
//! slower, and it stops at the first instruction that KVM cannot interpret.
//!
//! So a vCPU in 64-bit mode, with a kernel's privilege, counts down from [`TURNS`]. KVM says when it has halted.

use std::time::Duration;

use kvm_bindings::{kvm_regs, kvm_segment, kvm_sregs, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd};
use rustix::time::{ClockId, clock_gettime};

/// A CPU does it in 20 µs; a KVM that interprets it, at some million instructions a second, in 20 ms.
const TURNS: u64 = 32 << 10;
/// `top: dec rcx; jnz top; hlt`.
const CODE: [u8; 6] = [0x48, 0xff, 0xc9, 0x75, 0xfb, 0xf4];
/// How many instructions a turn is.
const TURN_INSTRUCTIONS: u64 = 2;
/// The fastest of some: the first one maps the guest's pages.
const TRIES: u32 = 3;

/// Guest memory: the code's page, then a page table of each level, of which the last maps 2 MiB.
const MEMORY_BYTES: usize = 4 * PAGE_BYTES;
const PAGE_BYTES: usize = 4096;
const TABLES: [usize; 3] = [PAGE_BYTES, 2 * PAGE_BYTES, 3 * PAGE_BYTES];
/// Present, writable; and in the last table a page and no further table.
const ENTRY: u64 = 0b11;
const LARGE: u64 = 1 << 7;

/// How many instructions of a guest's kernel KVM runs in a second of the thread's time.
///
/// # Errors
/// What could not be done.
pub(crate) fn instructions_per_s() -> Result<u64, String> {
    let mut memory = Memory::new();
    let failed = |what: &'static str| move |e: kvm_ioctls::Error| format!("{what}: {e}");
    let kvm = Kvm::new().map_err(failed("/dev/kvm cannot be opened"))?;
    let vm = kvm.create_vm().map_err(failed("KVM makes no virtual machine"))?;
    let region = kvm_userspace_memory_region {
        memory_size: MEMORY_BYTES as u64,
        userspace_addr: memory.0.as_mut_ptr().expose_provenance() as u64,
        ..Default::default()
    };
    // SAFETY: the region is the box's, which is dropped after the virtual machine because it was made before, and which
    // nobody else uses while a vCPU runs.
    unsafe { vm.set_user_memory_region(region) }.map_err(failed("KVM takes no memory"))?;
    let mut vcpu = vm.create_vcpu(0).map_err(failed("KVM makes no vCPU"))?;
    let sregs = vcpu.get_sregs().map_err(failed("KVM tells no registers"))?;
    vcpu.set_sregs(&kernel_mode(sregs)).map_err(failed("KVM takes no registers"))?;
    let mut fastest = Duration::MAX;
    for _ in 0..TRIES {
        fastest = fastest.min(count_down(&mut vcpu)?);
    }
    let ns = u64::try_from(fastest.as_nanos()).unwrap_or(u64::MAX).max(1);
    Ok((TURNS * TURN_INSTRUCTIONS).saturating_mul(1_000_000_000) / ns)
}

/// Lets the vCPU count down; how long that took of this thread's time, which does not go on while others run.
fn count_down(vcpu: &mut VcpuFd) -> Result<Duration, String> {
    let regs = kvm_regs { rcx: TURNS, rip: 0, rflags: 2, ..Default::default() };
    vcpu.set_regs(&regs).map_err(|e| format!("KVM takes no registers: {e}"))?;
    let began = thread_time();
    loop {
        match vcpu.run() {
            Ok(VcpuExit::Hlt) => return Ok(thread_time().saturating_sub(began)),
            Ok(exit) => return Err(format!("a vCPU that should count and halt ended with {exit:?}")),
            // A signal; it goes on where it was.
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

/// Long mode, ring 0, flat segments.
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
        // PE, MP, ET, NE, WP, AM, PG; PAE; LME, LMA: as Linux has them.
        cr0: 0x8005_0033,
        cr3: TABLES[0] as u64,
        cr4: 1 << 5,
        efer: 1 << 8 | 1 << 10,
        ..sregs
    }
}

/// The guest's memory, at the start of a page.
#[repr(C, align(4096))]
struct Memory([u8; MEMORY_BYTES]);

impl Memory {
    fn new() -> Box<Memory> {
        let mut bytes = [0; MEMORY_BYTES];
        bytes[..CODE.len()].copy_from_slice(&CODE);
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
    use std::fs::OpenOptions;
    use std::path::Path;

    #[test]
    fn a_kvm_that_interprets_kernels_is_told_from_one_that_does_not() {
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
