//! The other CPUs: woken by INIT and STARTUP, held until the boot wants them, then scheduling like the first.
//!
//! An application processor begins in real mode at 0x8000, where a trampoline takes it to long mode; it finds its stack
//! and its own data by its local APIC's number. `cpu_mp` wakes them all; each then waits for `start_aps`, which lets
//! them go and waits until every one is on its way, and has said so if it is to (`ap_announce=yes`). That wait is the
//! first CPU's, but what it waits for is their printing: each of them holds it while it prints.

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

/// Where application processors begin: a page below 1 MiB that nothing else uses.
pub const TRAMPOLINE: u64 = 0x8000;
const STACK_BYTES: usize = 16 * 1024;
const TOPIC: &str = "aps";
/// As the Intel MultiProcessor specification asks: 10 ms after INIT, 200 µs after STARTUP.
const AFTER_INIT_US: u64 = 10_000;
const AFTER_STARTUP_US: u64 = 200;
/// Where instructions are counted, QEMU lets a CPU that is reset have all the time until the machine's next timer event,
/// and CPUs take turns until then: there is one every 50 µs while they are woken.
const BEAT_TICKS: u32 = 50_000;
/// For how long two TSCs are compared, as Linux does for CPUs of different packages.
const TSC_CHECK_NS: u64 = 20_000_000;
/// A CPU that is not awake by then is taken for absent.
const WAKE_US_MAX: u64 = 1_000_000;

/// By local APIC number: what an application processor loads first.
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

/// The page tables' root. The first CPU's are everybody's.
#[unsafe(no_mangle)]
static ap_root: AtomicU32 = AtomicU32::new(0);

/// CPUs that have come out of their trampoline.
static AWAKE: AtomicU32 = AtomicU32::new(0);
/// The CPU whose TSC is to be compared, the last one that has begun, and the last one that is done.
static TSC_CHECKS: AtomicU32 = AtomicU32::new(0);
static TSC_READY: AtomicU32 = AtomicU32::new(0);
static TSC_CHECKED: AtomicU32 = AtomicU32::new(0);
/// What either CPU read last, and how often the other one read less after it.
static TSC_READ: SpinLock<(u64, u64)> = SpinLock::new((0, 0));
/// They may go on.
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
        shr ebx, 24                     # this local APIC's number
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
    let mut found = [0; CPUS_MAX];
    let (mut count, here) = (1, apic::id());
    acpi_tables::for_each_cpu(|apic_id| {
        if apic_id != here {
            if let Some(place) = found.get_mut(count) {
                *place = apic_id;
            }
            count += 1;
        }
    });
    let most = boot::switches().maxcpus as usize;
    if count > most {
        kprintln!("cpu_mp: {count} CPUs, {most} are used");
        count = most;
    }
    let others = &found[1..count];
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
    // SAFETY: the page is in low memory, which is never given to anybody, and mapped writable.
    unsafe { core::ptr::copy_nonoverlapping(from, TRAMPOLINE as *mut u8, to.addr() - from.addr()) };
    let root = u32::try_from(paging::root_phys()).expect("smp: the root of the page tables is above 4 GiB");
    ap_root.store(root, Ordering::Release);
}

fn prepare(index: usize, apic_id: u32) {
    let stack = Box::leak(Box::new([0u128; STACK_BYTES / 16]));
    let stack = stack.as_ptr_range().start.addr() as u64..stack.as_ptr_range().end.addr() as u64;
    let place = Place { cpu: cpu::prepare(index, apic_id, stack.clone()), stack: stack.end };
    sampling::prepare(index as u32);
    // SAFETY: that CPU is not awake yet, and nobody else reads its place.
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
        assert!(waited_us < WAKE_US_MAX, "smp::wake: {apic_ids:?}: not awake after {waited_us} us");
        delay_us(AFTER_STARTUP_US);
        waited_us += AFTER_STARTUP_US;
    }
    if boot::switches().tsc_sync == TscSync::Check {
        (before + 1..=before + apic_ids.len() as u32).for_each(check_tsc_with);
    }
    apic::beat(None);
}

/// Compares this CPU's TSC with that of another, which waits for it.
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

/// What both CPUs do: whoever has the lock must not read less than whoever had it before.
fn read_tsc_in_turn() {
    let until = clock::now_ns() + TSC_CHECK_NS;
    while clock::now_ns() < until {
        let mut read = TSC_READ.lock();
        let now = cpu::rdtsc();
        read.1 += u64::from(now < read.0);
        read.0 = now;
        drop(read);
        // Where CPUs take turns, the other one's.
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
        // Not by spinning: on a busy host that would take time from the CPU that boots.
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

/// SYSINIT start_aps_early: the same before there are devices, if it is to be.
fn start_aps_early() {
    if boot::switches().smp == Smp::Early {
        let_aps_go();
    }
}

/// SYSINIT start_aps.
fn start_aps() {
    if boot::switches().smp == Smp::Late {
        let_aps_go();
    }
    kprintln!("SMP: {} CPUs", cpu::running());
}

/// Lets them go, and waits until all have.
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
