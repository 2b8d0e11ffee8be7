//! SYSINITs: functions to call at boot. Each file declares its own, and the linker gathers the table.
//!
//! `sysinit!(name, subsystem, order, function)` puts an entry into the link section `set_sysinit` (lab.ld). `mi_startup` sorts
//! the table and calls each entry through the shim `call`. The shim logs every SYSINIT, so no SYSINIT needs its own hook.

use crate::script;
use lab::order::calling_order;
use lab::switches::Kind;

/// The subsystems of SYSINITs, in calling order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subsystem {
    /// The name of the kernel.
    Copyright,
    /// Memory.
    Vm,
    /// The CPUs: their rate and their number.
    Cpu,
    /// The local APIC timer, and ticks.
    Clocks,
    /// Kernel threads from before the devices.
    Kthreads,
    /// Timers that expire between ticks.
    Hrtimers,
    /// With `smp=early`, the other CPUs run threads from here on.
    EarlySmp,
    /// The event queue.
    Events,
    /// All devices.
    Drivers,
    /// Work that drivers could not finish without interrupts.
    ConfigHooks,
    /// The wait for an idle event queue.
    WaitIdle,
    /// Threads that wait for each other.
    Chain,
    /// Cost of ticks and preemption.
    SchedCost,
    /// With `smp=late`, the other CPUs run threads from here on. Also the work after all devices.
    Smp,
    /// Process 1.
    Init,
}

pub struct Sysinit {
    pub subsystem: Subsystem,
    pub order: u32,
    pub name: &'static str,
    pub function: fn(),
}

const _: () = assert!(size_of::<Sysinit>() == 32, "the section is read as an array");

/// Largest number of entries. With more the kernel panics.
const MAX_SYSINITS: usize = 64;

macro_rules! sysinit {
    ($name:ident, $subsystem:expr, $order:expr, $function:path) => {
        const _: () = {
            #[used]
            #[unsafe(link_section = "set_sysinit")]
            static ENTRY: $crate::sysinit::Sysinit = $crate::sysinit::Sysinit {
                subsystem: $subsystem,
                order: $order,
                name: stringify!($name),
                function: $function,
            };
        };
    };
}
pub(crate) use sysinit;

unsafe extern "C" {
    static sysinit_start: u8;
    static sysinit_end: u8;
}

fn table() -> &'static [Sysinit] {
    let (from, to) = (&raw const sysinit_start, &raw const sysinit_end);
    // SAFETY: the linker put whole entries between the two symbols, and no code writes them.
    unsafe { core::slice::from_raw_parts(from.cast(), (to.addr() - from.addr()) / size_of::<Sysinit>()) }
}

/// Calls all SYSINITs, in order.
#[inline(never)]
pub fn mi_startup() {
    let _scope = tslog::scope!("mi_startup");
    let table = table();
    let mut places = [0; MAX_SYSINITS];
    let order = calling_order(table.len(), |i| (table[i].subsystem, table[i].order, table[i].name), &mut places);
    let order = order.unwrap_or_else(|| panic!("mi_startup: {} SYSINITs, room for {MAX_SYSINITS}", table.len()));
    for &place in order {
        call(&table[place]);
    }
}

/// The shim around every SYSINIT.
#[inline(never)]
fn call(sysinit: &'static Sysinit) {
    tslog::enter!("SYSINIT", sysinit.name);
    script::at(Kind::Sysinit, sysinit.name);
    (sysinit.function)();
    tslog::exit!("SYSINIT", sysinit.name);
}
