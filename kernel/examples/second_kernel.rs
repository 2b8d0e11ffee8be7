//! A second kernel, for QEMU. It takes frames from `p2buddy` and addresses from `vmem`, and samples its time with `sampler`.
//!
//! ```sh
//! RUSTFLAGS="-C force-frame-pointers=yes" cargo build --profile lab -p kernel-examples --features kernel
//! qemu-system-x86_64 -M q35 -m 64M -display none -serial file:serial.txt -no-reboot \
//!     -device isa-debug-exit,iobase=0xf4,iosize=4 -kernel target/lab/second-kernel
//! bootscope import serial.txt -o boots/second && bootscope show boots/second
//! ```
//! It boots by PVH on one CPU, stays in one address space and has only the sampler's interrupt. It must not use the lab.

#![no_std]
#![no_main]

use core::arch::{asm, global_asm};
use core::cell::RefCell;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use p2buddy::{Buddy, Record, frames_in};
use sampler::text::{Heading, write_heading, write_sample};
use sampler::{Cpu, Interrupted, Moment, Stack, Stacks};
use vmem::{Arena, Request, Source, Tag};

const FRAME_BYTES: u64 = 4096;
const STACK_BYTES: usize = 64 << 10;

global_asm!(
    include_str!("second_kernel.s"),
    stack_bytes = const STACK_BYTES,
);

unsafe extern "C" {
    static stack: u8;
    static nmi_stack_end: u8;
    static nmi_entry: u8;
    static kernel_end: u8;
    static named_start: u8;
    static named_end: u8;
    static mut gdt_tss: [u64; 2];
}

fn out(port: u16, value: u8) {
    // SAFETY: a write to a port touches no memory, and only this file chooses the ports.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack)) };
}

fn ticks() -> u64 {
    // SAFETY: it only reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The serial port. It needs no waiting, because QEMU's port is always ready.
struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| out(0x3f8, byte));
        Ok(())
    }
}

fn finish(code: u8) -> ! {
    out(0xf4, code);
    loop {
        core::hint::spin_loop();
    }
}

#[panic_handler]
fn panic(why: &core::panic::PanicInfo) -> ! {
    let _ = writeln!(Serial, "{why}");
    finish(1)
}

// --- sampler: a ring, the stack, and NMIs -------------------------------------------------------------------------------------

static WORDS: [AtomicU64; 1 << 14] = [const { AtomicU64::new(0) }; 1 << 14];
static CPU: Cpu = Cpu::new(&WORDS);
static BEATS: AtomicU64 = AtomicU64::new(0);

/// The registers that `nmi_entry` and the CPU push on the stack.
#[repr(C)]
struct Frame {
    rbp: u64,
    saved: [u64; 9],
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

struct OneStack;

impl Stacks for OneStack {
    fn stack_of(&self, address: u64) -> Option<Stack> {
        let start = (&raw const stack).addr() as u64;
        let range = start..start + STACK_BYTES as u64;
        range.contains(&address).then_some(Stack { range, is_interrupts: false })
    }

    fn word(&self, address: u64) -> u64 {
        // SAFETY: the trait promises that the address lies in the stack.
        unsafe { (address as *const u64).read_volatile() }
    }
}

#[unsafe(no_mangle)]
extern "sysv64" fn nmi(frame: &Frame) {
    BEATS.fetch_add(1, Relaxed);
    let at = Interrupted { ip: frame.rip, stack_pointer: frame.rsp, frame_pointer: frame.rbp, is_user: false };
    CPU.sample(&OneStack, &at, Moment { ticks: ticks(), thread: 1 });
}

/// Starts NMIs at 1000 Hz. Sets up a task state with the NMI's stack, an interrupt table with the NMI's entry, and the PIT, which
/// sends the NMI through the I/O APIC.
fn sample_at_1000_hz() {
    static mut TASK: [u32; 26] = [0; 26];
    static mut INTERRUPTS: [u64; 6] = [0; 6];
    let nmi_stack = (&raw const nmi_stack_end).addr() as u64;
    let (task, gate) = ((&raw const TASK).addr() as u64, (&raw const nmi_entry).addr() as u64);
    // SAFETY: this runs once, and only this function uses the tables before the CPU loads them.
    unsafe {
        (TASK[9], TASK[10]) = (nmi_stack as u32, (nmi_stack >> 32) as u32);
        gdt_tss = [103 | (task & 0xff_ffff) << 16 | 0x89 << 40 | (task >> 24 & 0xff) << 56, task >> 32];
        INTERRUPTS[4] = gate & 0xffff | 0x08 << 16 | 1 << 32 | 0x8e << 40 | (gate >> 16 & 0xffff) << 48;
        INTERRUPTS[5] = gate >> 32;
        let mut pointer = [0_u8; 10];
        pointer[..2].copy_from_slice(&47_u16.to_le_bytes());
        pointer[2..].copy_from_slice(&((&raw const INTERRUPTS).addr() as u64).to_le_bytes());
        asm!("ltr {:x}", "lidt [{}]", in(reg) 0x18, in(reg) &raw const pointer);
        // On a PC, the PIT is at pin 2 of the I/O APIC: deliver it as an NMI to CPU 0.
        for (register, value) in [(0x15, 0), (0x14, 0x400)] {
            (0xfec0_0000 as *mut u32).write_volatile(register);
            (0xfec0_0010 as *mut u32).write_volatile(value);
        }
    }
    out(0x43, 0x34);
    1193_u16.to_le_bytes().into_iter().for_each(|byte| out(0x40, byte));
}

// --- p2buddy and vmem: frames of the memory map, and addresses that the heap imports 64 KiB at a time ---------------------------

static RECORDS: [Record; 1 << 14] = [const { Record::new() }; 1 << 14];

/// Adds the memory above the kernel, from the firmware's memory map. PVH's boot information has the map's address and length.
fn frames_of(boot_information: *const u64) -> Buddy<'static> {
    let mut frames = Buddy::new(&RECORDS, 0).expect("frame 0 is aligned");
    let first = (&raw const kernel_end).addr() as u64;
    // SAFETY: PVH hands over a `struct hvm_start_info` of version 1, and entries of 24 bytes. All of it is mapped.
    let map = unsafe {
        let (at, entries) = (*boot_information.add(5), *boot_information.add(6) as u32);
        core::slice::from_raw_parts(at as *const [u64; 3], entries as usize)
    };
    for &[start, bytes, _] in map.iter().filter(|entry| entry[2] as u32 == 1) {
        let end = (start + bytes).min(RECORDS.len() as u64 * FRAME_BYTES) / FRAME_BYTES * FRAME_BYTES;
        let start = start.max(first).next_multiple_of(FRAME_BYTES);
        if start < end {
            frames
                .add(frames_in(start, end - start, FRAME_BYTES).expect("whole frames"))
                .expect("a map without overlaps");
        }
    }
    frames
}

/// The kernel's addresses, from which the heap imports.
struct Space<'a>(&'a RefCell<Arena<'a>>);

impl Source for Space<'_> {
    fn quantum(&self) -> Option<u64> {
        Some(0x1_0000)
    }

    fn import(&mut self, size: u64, _may_wait: bool) -> Result<u64, vmem::Error> {
        self.0.borrow_mut().allocate(&Request::new(size))
    }

    fn give_back(&mut self, start: u64, size: u64) {
        self.0.borrow_mut().free(start, size).expect("what was imported");
    }
}

/// Allocates blocks of several sizes, and addresses for a mapping of each, like a kernel that starts programs.
#[unsafe(link_section = ".text.named")]
#[inline(never)]
fn hand_out(frames: &mut Buddy, heap: &mut Arena<Space>, held: &mut [(usize, u64); 256]) {
    for (i, (frame, address)) in held.iter_mut().enumerate() {
        *frame = frames.allocate(i % 4).expect("memory");
        *address = heap.allocate(&Request::new(FRAME_BYTES << (i % 4))).expect("addresses");
    }
}

#[unsafe(link_section = ".text.named")]
#[inline(never)]
fn give_back(frames: &mut Buddy, heap: &mut Arena<Space>, held: &[(usize, u64); 256]) {
    for (i, &(frame, address)) in held.iter().enumerate() {
        frames.free(frame, i % 4).expect("a block that was handed out");
        heap.free(address, FRAME_BYTES << (i % 4)).expect("addresses that were handed out");
    }
}

/// Spins. The caller makes it three times as long as the other work, which the samples have to show.
#[unsafe(link_section = ".text.named")]
#[inline(never)]
fn spin(ticks_long: u64) {
    let from = ticks();
    while ticks() - from < ticks_long {
        (0..500).for_each(|n| _ = core::hint::black_box(n));
    }
}

#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.named")]
extern "sysv64" fn kmain(boot_information: *const u64) -> ! {
    static mut TAGS: [[Tag; 1024]; 2] = [const { [const { Tag::new() }; 1024] }; 2];
    // SAFETY: this runs once, so there is only one reference.
    let [space_tags, heap_tags] = unsafe { (&raw mut TAGS).as_mut() }.expect("a static is somewhere");
    let mut frames = frames_of(boot_information);
    let space = RefCell::new(Arena::new(0x1_0000).expect("a power of two"));
    space.borrow_mut().add_tags(space_tags).expect("room for a piece");
    space.borrow_mut().add(0xffff_d000_0000_0000, 1 << 30).expect("a span");
    let mut heap = Arena::importing(FRAME_BYTES, Space(&space), 0x1_0000).expect("a larger quantum");
    heap.add_tags(heap_tags).expect("room for a piece");

    let (began, mut held) = (ticks(), [(0, 0); 256]);
    let free = frames.free_frames();
    let mut least_free = free;
    sample_at_1000_hz();
    while BEATS.load(Relaxed) < 400 {
        let from = ticks();
        hand_out(&mut frames, &mut heap, &mut held);
        least_free = least_free.min(frames.free_frames());
        give_back(&mut frames, &mut heap, &held);
        spin(3 * (ticks() - from));
    }
    out(0x43, 0x30); // the PIT counts down once more, and stops: no samples of printing
    let (beats, took) = (BEATS.load(Relaxed), ticks() - began);

    let merged = (frames.check().is_ok(), frames.allocate(10).is_some());
    let imported = space.borrow().counters().alloc;
    let _ = writeln!(Serial, "# frames: {free} free, {least_free} while handed out, merged again: {merged:?}");
    let _ = writeln!(Serial, "# arena: {imported} imports, {} given back", space.borrow().counters().free);
    let heading =
        Heading { ticks_hz: took * 1000 / beats, period_ticks: took / beats, began_ticks: began, lost: CPU.lost() };
    let _ = write_heading(&mut Serial, &heading);
    CPU.drain(|sample| {
        let _ = write_sample(&mut Serial, &heading, 0, "kmain", sample, name_of);
    });
    finish(0)
}

/// The function in `.text.named` that contains an address, and the offset in it. Other code has no name here.
fn name_of(address: u64) -> Option<(&'static str, u64)> {
    let within = (&raw const named_start).addr() as u64..(&raw const named_end).addr() as u64;
    let begins = [
        ("kmain", kmain as *const () as u64),
        ("spin", spin as *const () as u64),
        ("hand_out", hand_out as *const () as u64),
        ("give_back", give_back as *const () as u64),
    ];
    let before = begins.into_iter().filter(|&(_, start)| within.contains(&address) && start <= address);
    before.max_by_key(|&(_, start)| start).map(|(name, start)| (name, address - start))
}
