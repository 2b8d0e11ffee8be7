//! The application processors. INIT and STARTUP wake them, they wait until the boot needs them, and then they schedule threads
//! like the first CPU.
//!
//! An application processor begins in real mode at 0x8000, where a trampoline switches to long mode. It finds its stack and its
//! data by its local APIC id. `cpu_mp` wakes all of them. Each then waits for `start_aps`, which lets them go. `start_aps` waits
//! until every one runs, and has printed its line with `ap_announce=yes`. The first CPU waits, but for the printing of the
//! others: each of them holds the topic while it prints.

use crate::clock::{self, delay_us};
use crate::console::kprintln;
use crate::cpu::{self, CPUS_MAX};
use crate::lock::SpinLock;
use crate::sysinit::{Subsystem, sysinit};
use crate::{acpi_tables, apic, boot, descriptors, paging, sampling, shootdown, syscall, thread, trap};
use alloc::boxed::Box;
use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use lab::switches::{ApAnnounce, Aps, Smp, TscSync};
use x86_64::instructions::interrupts;

sysinit!(cpu_mp, Subsystem::Cpu, 1, cpu_mp);
sysinit!(start_aps_early, Subsystem::EarlySmp, 0, start_aps_early);
sysinit!(start_aps, Subsystem::Smp, 0, start_aps);

/// Address at which application processors begin: a page below 1 MiB that nothing else uses.
pub const TRAMPOLINE: u64 = 0x8000;
const STACK_BYTES: usize = 16 * 1024;
const TOPIC: &str = "aps";
/// Waits of the Intel MultiProcessor specification: 10 ms after INIT, 200 µs after STARTUP.
const AFTER_INIT_US: u64 = 10_000;
const AFTER_STARTUP_US: u64 = 200;
/// Period of the timer events while CPUs are woken: 50 µs. If instructions are counted, QEMU gives a CPU that is reset all the
/// time until the machine's next timer event, and CPUs take turns only then.
const BEAT_TICKS: u32 = 50_000;
/// Length of the comparison of two TSCs, as in Linux for CPUs of different packages.
const TSC_CHECK_NS: u64 = 20_000_000;
/// If a CPU is not awake after this time, the kernel panics.
const MAX_WAKE_US: u64 = 1_000_000;

/// The data that an application processor loads first, by local APIC id.
#[repr(C)]
struct Place {
    cpu: u64,
    stack: u64,
}

struct Places(UnsafeCell<[Place; 256]>);

// SAFETY: the first CPU writes an entry before it wakes the CPU that reads it.
unsafe impl Sync for Places {}

#[unsafe(no_mangle)]
static ap_places: Places = Places(UnsafeCell::new([const { Place { cpu: 0, stack: 0 } }; 256]));

/// Root of the page tables, which all CPUs share.
#[unsafe(no_mangle)]
static ap_root: AtomicU32 = AtomicU32::new(0);

/// Number of CPUs that have left their trampoline.
static AWAKE: AtomicU32 = AtomicU32::new(0);
/// The CPU whose TSC is compared now.
static TSC_CHECKS: AtomicU32 = AtomicU32::new(0);
/// The last CPU that has begun its comparison.
static TSC_READY: AtomicU32 = AtomicU32::new(0);
/// The last CPU that has finished its comparison.
static TSC_CHECKED: AtomicU32 = AtomicU32::new(0);
/// The last reading of either CPU, and the number of readings that were less than the one before.
static TSC_READ: SpinLock<(u64, u64)> = SpinLock::new((0, 0));
/// True when the application processors may go on.
static GO: AtomicBool = AtomicBool::new(false);

global_asm!(
    r#"
    .section .rodata.trampoline, "a"
    .balign 16
    .global ap_trampoline
    .global ap_trampoline_end
    ap_trampoline:
    .code16
        cli
        cld
        xor ax, ax
        mov ds, ax
        lgdt [ap_gdt_pointer_low]
        mov eax, cr0
        or al, 1
        mov cr0, eax
        .byte 0x66, 0xea                # far jump to 0x08:ap32
        .long {base} + ap32 - ap_trampoline
        .word 0x08
    .code32
    ap32:
        mov ax, 0x10
        mov ds, ax
        mov es, ax
        mov ss, ax
        lea eax, [ap_root]
        mov eax, [eax]
        mov cr3, eax
        mov eax, 0x620
        mov cr4, eax
        mov ecx, 0xc0000080
        rdmsr
        or eax, 0x901
        wrmsr
        mov eax, 0x80010033
        mov cr0, eax
        .byte 0xea                      # far jump to 0x18:ap64
        .long ap64
        .word 0x18
    .balign 8
    ap_gdt:
        .quad 0
        .quad 0x00cf9b000000ffff        # 0x08: 32-bit code
        .quad 0x00cf93000000ffff        # 0x10: data
        .quad 0x00af9b000000ffff        # 0x18: 64-bit code
    ap_gdt_pointer:
        .word 31
        .long {base} + ap_gdt - ap_trampoline
    ap_trampoline_end:
    .set ap_gdt_pointer_low, {base} + ap_gdt_pointer - ap_trampoline

    .section .text.ap, "ax"
    .code64
    ap64:
        xor eax, eax
        mov fs, ax
        mov gs, ax
        mov eax, 1
        cpuid
        shr ebx, 24                     # id of this local APIC
        shl rbx, 4
        lea rsi, [rip + ap_places]
        add rsi, rbx
        mov rsp, [rsi + 8]
        mov rax, [rsi]
        mov rdx, rax
        shr rdx, 32
        mov ecx, 0xc0000101             # GS base
        wrmsr
        xor ebp, ebp
        call ap_main
        ud2
    "#,
    base = const TRAMPOLINE,
);

unsafe extern "C" {
    static ap_trampoline: u8;
    static ap_trampoline_end: u8;
}

/// SYSINIT cpu_mp: finds the other CPUs and wakes them.
fn cpu_mp() {
    apic::start();
    let mut apic_ids = [0; CPUS_MAX];
    let (mut count, here) = (1, apic::id());
    acpi_tables::for_each_cpu(|apic_id| {
        if apic_id != here {
            if let Some(place) = apic_ids.get_mut(count) {
                *place = apic_id;
            }
            count += 1;
        }
    });
    let max = boot::switches().maxcpus as usize;
    if count > max {
        kprintln!("cpu_mp: {count} CPUs, {max} are used");
        count = max;
    }
    let others = &apic_ids[1..count];
    if others.is_empty() {
        return;
    }
    place_trampoline();
    for (index, &apic_id) in (1..).zip(others) {
        prepare(index, apic_id);
    }
    match boot::switches().aps {
        Aps::Serial => others.iter().for_each(|&apic_id| wake(&[apic_id])),
        Aps::Parallel => wake(others),
    }
}

fn place_trampoline() {
    let (from, to) = (&raw const ap_trampoline, &raw const ap_trampoline_end);
    // SAFETY: the page is in low memory, which is never allocated, and is mapped writable.
    unsafe { core::ptr::copy_nonoverlapping(from, TRAMPOLINE as *mut u8, to.addr() - from.addr()) };
    let root = u32::try_from(paging::root_phys()).expect("smp: the root of the page tables is above 4 GiB");
    ap_root.store(root, Ordering::Release);
}

fn prepare(index: usize, apic_id: u32) {
    let stack = Box::leak(Box::new([0u128; STACK_BYTES / 16]));
    let stack = stack.as_ptr_range().start.addr() as u64..stack.as_ptr_range().end.addr() as u64;
    let place = Place { cpu: cpu::prepare(index, apic_id, stack.clone()), stack: stack.end };
    sampling::prepare(index as u32);
    // SAFETY: that CPU is not awake yet, and no other CPU reads its place.
    unsafe { (*ap_places.0.get())[apic_id as usize & 255] = place };
}

/// Wakes these CPUs together, and waits until they are awake.
fn wake(apic_ids: &[u32]) {
    let _scope = tslog::scope!("wake_aps");
    let before = AWAKE.load(Ordering::Acquire);
    apic::beat(Some(BEAT_TICKS));
    apic_ids.iter().for_each(|&apic_id| apic::send_init(apic_id));
    delay_us(AFTER_INIT_US);
    apic_ids.iter().for_each(|&apic_id| apic::send_startup(apic_id, TRAMPOLINE));
    delay_us(AFTER_STARTUP_US);
    let mut waited_us = AFTER_STARTUP_US;
    while AWAKE.load(Ordering::Acquire) - before < apic_ids.len() as u32 {
        assert!(waited_us < MAX_WAKE_US, "smp::wake: {apic_ids:?}: not awake after {waited_us} us");
        delay_us(AFTER_STARTUP_US);
        waited_us += AFTER_STARTUP_US;
    }
    if boot::switches().tsc_sync == TscSync::Check {
        (before + 1..=before + apic_ids.len() as u32).for_each(check_tsc_with);
    }
    apic::beat(None);
}

/// Compares this CPU's TSC with that of a waiting CPU.
#[inline(never)]
fn check_tsc_with(index: u32) {
    let _scope = tslog::scope!("check_tsc_sync");
    *TSC_READ.lock() = (0, 0);
    TSC_CHECKS.store(index, Ordering::Release);
    // An interrupt's handler may write the same command register.
    interrupts::without_interrupts(|| apic::interrupt(cpu::apic_id_of(index), trap::RESCHEDULE));
    while TSC_READY.load(Ordering::Acquire) != index {
        core::hint::spin_loop();
    }
    read_tsc_in_turn();
    while TSC_CHECKED.load(Ordering::Acquire) != index {
        core::hint::spin_loop();
    }
    let (_, warps) = *TSC_READ.lock();
    if warps > 0 {
        kprintln!("cpu_mp: the TSCs of CPU 0 and {index} differ: {warps} times one was behind the other");
    }
}

/// Reads the TSC under the lock, on both CPUs. A reading must not be less than the one before it.
fn read_tsc_in_turn() {
    let until = clock::now_ns() + TSC_CHECK_NS;
    while clock::now_ns() < until {
        let mut read = TSC_READ.lock();
        let now = cpu::rdtsc();
        read.1 += u64::from(now < read.0);
        read.0 = now;
        drop(read);
        // If CPUs take turns, this gives the other CPU its turn.
        core::hint::spin_loop();
    }
}

#[unsafe(no_mangle)]
extern "sysv64" fn ap_main() -> ! {
    descriptors::load();
    trap::load_again();
    apic::start();
    syscall::start();
    sampling::add_this_cpu();
    AWAKE.fetch_add(1, Ordering::AcqRel);
    while !GO.load(Ordering::Acquire) {
        let index = cpu::this().index.get();
        if TSC_CHECKS.load(Ordering::Acquire) == index && TSC_CHECKED.load(Ordering::Relaxed) != index {
            TSC_READY.store(index, Ordering::Release);
            read_tsc_in_turn();
            TSC_CHECKED.store(index, Ordering::Release);
            continue;
        }
        // Halts instead of spinning. On a busy host, spinning would take time from the CPU that boots.
        x86_64::instructions::interrupts::enable_and_hlt();
        x86_64::instructions::interrupts::disable();
    }
    let index = cpu::this().index.get();
    tslog::thread!(thread::idle_id(index), thread::idle_name(index));
    tslog::hold!(TOPIC);
    if boot::switches().ap_announce == ApAnnounce::Yes {
        kprintln!("SMP: AP CPU #{index} launched");
    }
    tslog::release!(TOPIC);
    shootdown::join();
    cpu::RUNNING.fetch_add(1, Ordering::AcqRel);
    thread::schedule_for_ever()
}

/// SYSINIT start_aps_early: lets the application processors go before there are devices, with `smp=early`.
fn start_aps_early() {
    if boot::switches().smp == Smp::Early {
        let_aps_go();
    }
}

/// SYSINIT start_aps: lets the application processors go, with `smp=late`.
fn start_aps() {
    if boot::switches().smp == Smp::Late {
        let_aps_go();
    }
    kprintln!("SMP: {} CPUs", cpu::running());
}

/// Lets the application processors go, and waits until all of them run.
fn let_aps_go() {
    tslog::wait!(TOPIC);
    GO.store(true, Ordering::Release);
    let awake = AWAKE.load(Ordering::Acquire);
    (1..=awake).for_each(|index| apic::interrupt(cpu::apic_id_of(index), trap::RESCHEDULE));
    while cpu::running() <= awake {
        core::hint::spin_loop();
    }
    tslog::unwait!(TOPIC);
}
