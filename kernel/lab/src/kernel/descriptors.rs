//! Segments, and a separate stack for every kind of interrupt.
//!
//! Compiled code keeps data below its stack pointer (the red zone), also in `core`, which our compiler options do not reach. An
//! interrupt on the same stack would overwrite it. So every vector switches to a stack of the interrupt stack table. Handlers
//! run with interrupts off, so no stack is used twice at the same time. The exception is a fault in a fault's handler. It
//! overwrites the stack, but then the kernel panics and only has to print that.

use crate::cpu::{self, Cpu};
use core::mem::{MaybeUninit, offset_of};
use core::ops::Range;
use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable, SegmentSelector};
use x86_64::structures::tss::TaskStateSegment;

/// Indices in the interrupt stack table.
pub const IST_INTERRUPT: u16 = 0;
pub const IST_FAULT: u16 = 1;
pub const IST_DOUBLE_FAULT: u16 = 2;
pub const IST_NMI: u16 = 3;
const STACKS: usize = 4;
const STACK_BYTES: usize = 16 * 1024;

/// Numbers of a user process's segments, as in `selectors`.
pub const USER_DATA: u16 = 3 << 3 | 3;
pub const USER_CODE: u16 = 4 << 3 | 3;

/// The tables of a CPU. They are all zeros until `load`, so that they take no room in the kernel's file.
pub struct Descriptors {
    stacks: [MaybeUninit<[u8; STACK_BYTES]>; STACKS],
    tss: MaybeUninit<TaskStateSegment>,
    gdt: MaybeUninit<GlobalDescriptorTable>,
}

/// The segments, which are the same on every CPU.
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

/// Loads the tables of this CPU.
pub fn load() {
    load_on(cpu::this());
}

fn load_on(cpu: &'static Cpu) {
    // SAFETY: only this CPU uses its descriptors, and calls this once.
    let descriptors: &'static mut Descriptors = unsafe { &mut *cpu.descriptors.get() };
    let mut tss = TaskStateSegment::new();
    for (place, stack) in descriptors.stacks.iter_mut().enumerate() {
        let top = stack.as_mut_ptr().addr() + STACK_BYTES;
        tss.interrupt_stack_table[place] = VirtAddr::new(top as u64 & !15);
    }
    let tss = descriptors.tss.write(tss);
    let gdt = descriptors.gdt.write(GlobalDescriptorTable::new());
    // `syscall` and `sysret` require this order.
    let kernel_code = gdt.append(Descriptor::kernel_code_segment());
    let kernel_data = gdt.append(Descriptor::kernel_data_segment());
    gdt.append(Descriptor::user_data_segment());
    gdt.append(Descriptor::user_code_segment());
    let task = gdt.append(Descriptor::tss_segment(tss));
    let gdt: &'static GlobalDescriptorTable = gdt;
    gdt.load();
    // SAFETY: the selectors were just made and have the right kinds. GS is left alone; its base is in a separate register.
    unsafe {
        CS::set_reg(kernel_code);
        SS::set_reg(kernel_data);
        DS::set_reg(kernel_data);
        ES::set_reg(kernel_data);
        x86_64::instructions::tables::load_tss(task);
    }
}

/// The interrupt stacks of a CPU.
pub fn interrupt_stacks(cpu: &Cpu) -> [Range<u64>; STACKS] {
    // Takes only the address, because the CPU may be using one of the stacks.
    let first = cpu.descriptors.get().addr() as u64 + offset_of!(Descriptors, stacks) as u64;
    core::array::from_fn(|place| {
        let from = first + (place * STACK_BYTES) as u64;
        from..from + STACK_BYTES as u64
    })
}

/// The segments that `load` made.
pub fn selectors() -> Selectors {
    use x86_64::PrivilegeLevel::Ring0;
    Selectors {
        kernel_code: SegmentSelector::new(1, Ring0),
        kernel_data: SegmentSelector::new(2, Ring0),
        user_data: SegmentSelector(USER_DATA),
        user_code: SegmentSelector(USER_CODE),
    }
}
