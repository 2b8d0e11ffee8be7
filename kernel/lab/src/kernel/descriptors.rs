//! Segments, and a stack of its own for every kind of interrupt.
//!
//! Compiled code keeps data below its stack pointer (the red zone), in `core` too, where no option of ours reaches. An
//! interrupt on the same stack would overwrite it; so every vector switches to a stack of the interrupt stack table.
//! Handlers run with interrupts off, so none of these stacks is used twice at once; a fault in the handler of a fault does,
//! which is a panic that only has to be told.

use crate::cpu::{self, Cpu};
use core::mem::{MaybeUninit, offset_of};
use core::ops::Range;
use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable, SegmentSelector};
use x86_64::structures::tss::TaskStateSegment;

/// Places in the interrupt stack table.
pub const IST_INTERRUPT: u16 = 0;
pub const IST_FAULT: u16 = 1;
pub const IST_DOUBLE_FAULT: u16 = 2;
pub const IST_NMI: u16 = 3;
const STACKS: usize = 4;
const STACK_BYTES: usize = 16 * 1024;

/// A user process's segments, as numbers: what `selectors` says of them.
pub const USER_DATA: u16 = 3 << 3 | 3;
pub const USER_CODE: u16 = 4 << 3 | 3;

/// A CPU's tables. All zeros until `load`, so that they take no room in the kernel's file.
pub struct Descriptors {
    stacks: [MaybeUninit<[u8; STACK_BYTES]>; STACKS],
    tss: MaybeUninit<TaskStateSegment>,
    gdt: MaybeUninit<GlobalDescriptorTable>,
}

/// The segments, the same on every CPU.
#[derive(Clone, Copy)]
pub struct Selectors {
    pub kernel_code: SegmentSelector,
    pub kernel_data: SegmentSelector,
    pub user_data: SegmentSelector,
    pub user_code: SegmentSelector,
}

impl Descriptors {
    pub const fn new() -> Self {
        Descriptors {
            stacks: [const { MaybeUninit::uninit() }; STACKS],
            tss: MaybeUninit::uninit(),
            gdt: MaybeUninit::uninit(),
        }
    }
}

/// Loads this CPU's.
pub fn load() {
    load_on(cpu::this());
}

fn load_on(cpu: &'static Cpu) {
    // SAFETY: a CPU's descriptors are its own, and this is called once on each.
    let descriptors: &'static mut Descriptors = unsafe { &mut *cpu.descriptors.get() };
    let mut tss = TaskStateSegment::new();
    for (place, stack) in descriptors.stacks.iter_mut().enumerate() {
        let top = stack.as_mut_ptr().addr() + STACK_BYTES;
        tss.interrupt_stack_table[place] = VirtAddr::new(top as u64 & !15);
    }
    let tss = descriptors.tss.write(tss);
    let gdt = descriptors.gdt.write(GlobalDescriptorTable::new());
    // The order is that of `syscall` and `sysret`.
    let kernel_code = gdt.append(Descriptor::kernel_code_segment());
    let kernel_data = gdt.append(Descriptor::kernel_data_segment());
    gdt.append(Descriptor::user_data_segment());
    gdt.append(Descriptor::user_code_segment());
    let task = gdt.append(Descriptor::tss_segment(tss));
    let gdt: &'static GlobalDescriptorTable = gdt;
    gdt.load();
    // SAFETY: the selectors were just made, of the right kinds; GS, whose base is in a register of its own, is left alone.
    unsafe {
        CS::set_reg(kernel_code);
        SS::set_reg(kernel_data);
        DS::set_reg(kernel_data);
        ES::set_reg(kernel_data);
        x86_64::instructions::tables::load_tss(task);
    }
}

/// A CPU's stacks for interrupts.
pub fn interrupt_stacks(cpu: &Cpu) -> [Range<u64>; STACKS] {
    // Only its address is taken: the CPU may be using one.
    let first = cpu.descriptors.get().addr() as u64 + offset_of!(Descriptors, stacks) as u64;
    core::array::from_fn(|place| {
        let from = first + (place * STACK_BYTES) as u64;
        from..from + STACK_BYTES as u64
    })
}

/// The segments, as `load` made them.
pub fn selectors() -> Selectors {
    use x86_64::PrivilegeLevel::Ring0;
    Selectors {
        kernel_code: SegmentSelector::new(1, Ring0),
        kernel_data: SegmentSelector::new(2, Ring0),
        user_data: SegmentSelector(USER_DATA),
        user_code: SegmentSelector(USER_CODE),
    }
}
