//! SYSINIT: what is to be called at boot is declared where it is written, and the linker gathers the table.
//!
//! `sysinit!(name, subsystem, order, function)` puts an entry into the link section `set_sysinit` (lab.ld). `mi_startup`
//! sorts the table and calls each entry through `call`, the shim that logs: every SYSINIT there will ever be is in the
//! log without a line of its own.

use crate::script;
use lab::order::calling_order;
use lab::switches::Kind;

/// In the order in which they are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subsystem {
    /// Who we are.
    Copyright,
    /// Memory.
    Vm,
    /// The CPUs: how fast, and how many.
    Cpu,
    /// The local APIC timer, and ticks.
    Clocks,
    /// Kernel threads that are there before any device.
    Kthreads,
    /// Timers that expire between ticks.
    Hrtimers,
    /// The other CPUs run threads from here on, if they are to be early.
    EarlySmp,
    /// The event queue.
    Events,
    /// All devices.
    Drivers,
    /// What drivers could not finish without interrupts.
    ConfigHooks,
    /// The event queue is to be idle.
    WaitIdle,
    /// Threads that wait for each other.
    Chain,
    /// What ticks and preemption cost.
    SchedCost,
    /// They do at the latest.
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

/// More entries than these are a panic.
const SYSINITS_MAX: usize = 64;

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
    // SAFETY: the linker put whole entries between the two, and nothing writes them.
    unsafe { core::slice::from_raw_parts(from.cast(), (to.addr() - from.addr()) / size_of::<Sysinit>()) }
}

/// Calls all SYSINITs, in order.
#[inline(never)]
pub fn mi_startup() {
    let _scope = tslog::scope!("mi_startup");
    let table = table();
    let mut places = [0; SYSINITS_MAX];
    let order = calling_order(table.len(), |i| (table[i].subsystem, table[i].order, table[i].name), &mut places);
    let order = order.unwrap_or_else(|| panic!("mi_startup: {} SYSINITs, room for {SYSINITS_MAX}", table.len()));
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
