//! The command line. It chooses the slow parts of the boot, and the places where the boot is delayed, hangs or panics.
//!
//! Words are separated by white space. A word is `switch=value`, with the switches and values listed below, or
//!
//! * `delay.PLACE=TIME`: spend TIME there (`12` and `12ms` are milliseconds, `250us` microseconds). For a scripted device it
//!   is the time until the device answers. Its driver polls for the answer, and does not get the time;
//! * `busy.PLACE=TIME`: keep the CPU for this time, also in a thread, which `delay` puts to sleep;
//! * `hang=PLACE`: stop there, with interrupts off;
//! * `panic=PLACE`: panic there;
//! * `fault=PLACE`: execute an invalid instruction there. Before interrupts are set up that is a triple fault.
//!
//! A place is a SYSINIT, a probe, an attach, a mount, a thread or a device's answer: `clocks`, `psm`, `psm0`, `initrd`,
//! `usbus0`, `port1`. If a name has several meanings, put the kind first: `sysinit.clocks`, `probe.psm`, `attach.psm0`,
//! `mount.initrd`, `thread.usbus0`, `answer.ena0`. Before the first SYSINIT there are stages: `stage.paging`. The plain words
//! `stage`, `sysinit`, `probe`, `attach`, `mount`, `thread` and `answer` mean every place of that kind.
//!
//! Unknown words are printed and have no effect. The kernel ignores words that begin with `bootscope.`: they are for bootscope.
//! If a switch occurs twice, the later word wins. Delays of one place add up.

mod parse;

use parse::{Delay, List};
pub use parse::{Kind, means, time_ns};

/// Largest number of delays on a command line; later ones are reported as unknown.
pub const DELAYS_MAX: usize = 64;
/// Largest number of unknown words that are kept; later ones are only counted.
pub const UNKNOWN_MAX: usize = 16;
/// Largest length of the command line in bytes; the rest is cut off.
pub const LINE_BYTES_MAX: usize = 4096;
/// Largest number of timer ticks per second.
pub const HZ_MAX: u32 = 10_000;
/// Largest number of lines that a talkative driver prints.
pub const MESSAGES_MAX: u32 = 1_000_000;
/// Largest number of lines that the driver adds in a verbose boot.
pub const DETAILS_MAX: u32 = 100_000;
/// Largest number of samples per second.
pub const SAMPLE_HZ_MAX: u32 = 10_000;
/// Largest number of user processes started before the boot is done.
pub const SERVICES_MAX: u32 = 256;
/// Largest number of CPUs that the kernel starts.
pub const CPUS_MAX: u32 = 16;
/// Largest number of rounds of the TLB shootdown check.
pub const TLB_ROUNDS_MAX: u32 = 100_000_000;
/// Largest number of system calls in the measuring loop.
pub const CALLS_MAX: u32 = 10_000_000;
/// Longest single delay: ten minutes. A longer one counts as a mistake.
pub const DELAY_NS_MAX: u64 = 600 * 1_000_000_000;

/// A switch for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The word before the `=`.
    pub name: &'static str,
    /// The possible values; empty for a switch with a number.
    pub values: &'static [&'static str],
    /// The smallest and the largest number; 0 and 0 for a switch with words.
    pub numbers: (u32, u32),
    /// The value without the switch.
    pub default: &'static str,
}

macro_rules! switches {
    ($($(#[doc = $doc:literal])* $field:ident: $choice:ident = $default:ident {
        $($(#[doc = $value_doc:literal])* $value:literal => $variant:ident,)*
    })*) => {
        $($(#[doc = $doc])* #[derive(Clone, Copy, Debug, PartialEq, Eq)] pub enum $choice {
            $($(#[doc = $value_doc])* $variant,)*
        }
        impl $choice {
            /// The value on the command line.
            pub const fn as_str(self) -> &'static str {
                match self { $($choice::$variant => $value,)* }
            }
        })*

        /// All switches that choose among values, in the order of their declaration, then those that take a number.
        pub const SWITCHES: &[Switch] = &[
            $(Switch {
                name: stringify!($field),
                values: &[$($value),*],
                numbers: (0, 0),
                default: $choice::$default.as_str(),
            },)*
            Switch { name: "hz", values: &[], numbers: (1, HZ_MAX), default: "100" },
            Switch { name: "messages", values: &[], numbers: (0, MESSAGES_MAX), default: "0" },
            Switch { name: "details", values: &[], numbers: (0, DETAILS_MAX), default: "0" },
            Switch { name: "sample", values: &[], numbers: (0, SAMPLE_HZ_MAX), default: "0" },
            Switch { name: "services", values: &[], numbers: (0, SERVICES_MAX), default: "0" },
            Switch { name: "maxcpus", values: &[], numbers: (1, CPUS_MAX), default: "16" },
            Switch { name: "tlb_rounds", values: &[], numbers: (1, TLB_ROUNDS_MAX), default: "1000" },
            Switch { name: "calls", values: &[], numbers: (0, CALLS_MAX), default: "0" },
        ];

        /// All choices of the command line.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Switches<'a> {
            $($(#[doc = $doc])* pub $field: $choice,)*
            /// Timer ticks per second, 1 to [`HZ_MAX`].
            pub hz: u32,
            /// Number of lines that a talkative driver prints, at most [`MESSAGES_MAX`].
            pub messages: u32,
            /// Number of lines that the driver adds in a verbose boot, at most [`DETAILS_MAX`].
            pub details: u32,
            /// Samples of each CPU per second while the kernel boots, at most [`SAMPLE_HZ_MAX`]; 0 for no sampling.
            pub sample: u32,
            /// Number of user processes started before the boot is done, at most [`SERVICES_MAX`].
            pub services: u32,
            /// Largest number of running CPUs, 1 to [`CPUS_MAX`]; the others stay asleep.
            pub maxcpus: u32,
            /// Number of rounds of `check=tlb-shootdown`, 1 to [`TLB_ROUNDS_MAX`].
            pub tlb_rounds: u32,
            /// Number of times a user process makes a system call that does not exist, at most [`CALLS_MAX`].
            pub calls: u32,
            /// Place at which to stop with interrupts off.
            pub hang: Option<&'a str>,
            /// Place at which to panic.
            pub panic: Option<&'a str>,
            /// Place at which to execute an invalid instruction.
            pub fault: Option<&'a str>,
            delays: List<Delay<'a>, DELAYS_MAX>,
            busy: List<Delay<'a>, DELAYS_MAX>,
            unknown: List<&'a str, UNKNOWN_MAX>,
        }

        impl<'a> Switches<'a> {
            /// The choices of an empty command line, all of them fast.
            pub const fn new() -> Self {
                Switches {
                    $($field: $choice::$default,)*
                    hz: 100,
                    messages: 0,
                    details: 0,
                    sample: 0,
                    services: 0,
                    maxcpus: CPUS_MAX,
                    tlb_rounds: 1000,
                    calls: 0,
                    hang: None,
                    panic: None,
                    fault: None,
                    delays: List::new(Delay { place: "", ns: 0 }),
                    busy: List::new(Delay { place: "", ns: 0 }),
                    unknown: List::new(""),
                }
            }

            fn choose(&mut self, name: &str, value: &str) -> bool {
                match (name, value) {
                    $($((stringify!($field), $value) => self.$field = $choice::$variant,)*)*
                    _ => return false,
                }
                true
            }
        }
    };
}

switches! {
    /// Initialisation of the page structures.
    vm_page: VmPage = OnePass {
        /// Three passes over all structures.
        "three-pass" => ThreePass,
        /// One pass, which does each structure completely.
        "one-pass" => OnePass,
        /// The first part at boot, the rest by a thread that runs while no other can.
        "lazy" => Lazy,
        /// The first part at boot, the rest by a thread that competes for the CPU like any other.
        "eager-thread" => EagerThread,
    }
    /// The frame allocator of the whole kernel.
    frames: Frames = P2buddy {
        /// An array of freed ranges. Each operation searches all of it.
        "recycle" => Recycle,
        /// A byte for each frame, searched from the start of memory.
        "scan" => Scan,
        /// Lists of blocks of 2ⁿ frames. An operation takes as many steps as there are sizes.
        "p2buddy" => P2buddy,
    }
    /// Ownership of the memory that drivers map.
    ownership: Ownership = Counted {
        /// Mappings are counted, and frames are free after the last one. No other frame of the allocator can be mapped.
        "counted" => Counted,
        /// No ownership. Every address can be mapped as borrowed, and mapped frames are never freed.
        "none" => None,
    }
    /// Work of a system call for debuggers, even if there is no debugger.
    syscall: Syscall = Lean {
        /// Notes the place of the registers on the kernel stack, then does the work of `flat`.
        "traced" => Traced,
        /// Looks for a tracer before and after the call, and does the work of `cached`.
        "flat" => Flat,
        /// Copies number and arguments into the thread's context.
        "cached" => Cached,
        /// No work: registers stay where they were saved, and each CPU's data has its thread's tracer.
        "lean" => Lean,
    }
    /// Tracing of the system calls of user processes.
    trace: Trace = No {
        /// Prints each call before and after it.
        "yes" => Yes,
        /// Prints no call.
        "no" => No,
    }
    /// The check that the boot makes, with a verdict on the console.
    check: Check = None {
        /// No check.
        "none" => None,
        /// Checks that frames which drivers map have one owner, and are freed.
        "frame-ownership" => FrameOwnership,
        /// Checks that a page which one CPU unmaps faults on the others before its frame is allocated again.
        "tlb-shootdown" => TlbShootdown,
        /// Checks that a thread which is killed in the kernel releases all it holds.
        "signal-exit" => SignalExit,
    }
    /// Start of the application processors.
    aps: Aps = Parallel {
        /// One after the other, 10 ms after INIT each.
        "serial" => Serial,
        /// INIT to all, 10 ms once, then STARTUP to all.
        "parallel" => Parallel,
    }
    /// Time at which application processors begin to run threads.
    smp: Smp = Late {
        /// After all devices, as in FreeBSD then.
        "late" => Late,
        /// Before all devices.
        "early" => Early,
    }
    /// Comparison of the TSC of each application processor with the first CPU's.
    tsc_sync: TscSync = Trust {
        /// Compares for 20 ms each, one after the other, as Linux does.
        "check" => Check,
        /// Does not compare.
        "trust" => Trust,
    }
    /// Probing and attaching of the devices on PCI.
    pci: Pci = Serial {
        /// One after the other.
        "serial" => Serial,
        /// A thread for each device.
        "parallel" => Parallel,
    }
    /// Lock of the threads that probe PCI devices.
    driver_lock: DriverLock = None {
        /// One lock for all threads, like FreeBSD's Giant: they run one after the other.
        "giant" => Giant,
        /// No lock.
        "none" => None,
    }
    /// Wait of a PCI network card's driver for the reset of the card, when it attaches.
    pci_wait: PciWait = None {
        /// The driver does not reset the card.
        "none" => None,
        /// The driver polls and keeps its CPU.
        "poll" => Poll,
        /// The driver sleeps.
        "sleep" => Sleep,
    }
    /// Console lines of the application processors.
    ap_announce: ApAnnounce = No {
        /// Each prints a line, and the first CPU waits for all of them.
        "yes" => Yes,
        /// They print no line.
        "no" => No,
    }
    /// Calibration of the TSC and the local APIC timer against the PIT.
    calibrate: Calibrate = Regression {
        /// Two readings a second apart.
        "delay" => Delay,
        /// A regression over as many readings as fit into 20 ms.
        "regression" => Regression,
    }
    /// Effect of a newline at the bottom of the framebuffer console.
    console: Console = Shadow {
        /// Redraws every cell.
        "redraw" => Redraw,
        /// Draws only the cells whose character changes.
        "shadow" => Shadow,
    }
    /// Amount of output on the serial console.
    verbose: Verbose = No {
        /// Also the findings of each driver.
        "yes" => Yes,
        /// A few lines.
        "no" => No,
    }
    /// Reset of the PS/2 controller, keyboard and mouse.
    ps2: Ps2 = Skip {
        /// Resets them, and waits 200 ms after each reset, as the hardware requires.
        "probe" => Probe,
        /// Leaves them alone.
        "skip" => Skip,
    }
    /// Method in which a driver whose hardware is absent initialises it.
    hpt: Hpt = InAttach {
        /// In its probe method, before it looks for the hardware.
        "in-probe" => InProbe,
        /// In its attach method, which is then never called.
        "in-attach" => InAttach,
    }
    /// Wait for the reset of an NVMe controller, and for the answers of a scripted network card.
    reset: Reset = Async {
        /// In the attach method.
        "wait" => Wait,
        /// In a separate thread.
        "async" => Async,
    }
    /// Time at which the kernel begins to adapt the hash of the address arena to its segments.
    vmem_rescale: VmemRescale = Early {
        /// After the drivers attached.
        "late" => Late,
        /// A single time before they attach, and then as `late`.
        "once" => Once,
        /// Before they attach.
        "early" => Early,
    }
    /// Boot over the network. Such a kernel opens each card while drivers attach, to find the one it was loaded by.
    netboot: Netboot = No {
        /// The kernel was loaded over the network, like an install image.
        "yes" => Yes,
        /// It was not, so it opens no card before the end of the boot.
        "no" => No,
    }
    /// Number of buffers that a network card's driver allocates when it opens the card.
    dma_buffers: DmaBuffers = Few {
        /// Buffers for eight rings.
        "many" => Many,
        /// Buffers for one ring.
        "few" => Few,
    }
    /// Wait before mounting root.
    root_wait: RootWait = Needed {
        /// For every bus that may still find a disk.
        "all" => All,
        /// For the device that root is on.
        "needed" => Needed,
    }
    /// The device that root is on.
    root_on: RootOn = Memory {
        /// No device: an initrd, or an empty RAM file system.
        "memory" => Memory,
        /// A scripted disk that the file system finds by its name.
        "ufs" => Ufs,
        /// A scripted pool of two disks. The file system needs both.
        "zfs" => Zfs,
    }
    /// Access to the root image.
    root: Root = Direct {
        /// Through a cache, with a frame for each page.
        "copy" => Copy,
        /// In place.
        "direct" => Direct,
    }
    /// Two encrypted disks, and their keys.
    kdf: Kdf = None {
        /// No encrypted disks.
        "none" => None,
        /// A salt for each disk, so that two keys are derived.
        "per-disk" => PerDisk,
        /// One salt for both disks, so that one key is derived.
        "shared-salt" => SharedSalt,
    }
    /// A scripted USB bus with four ports. Each port settles after `delay.port1` to `delay.port4`.
    usb: Usb = No {
        /// With the bus.
        "yes" => Yes,
        /// Without the bus.
        "no" => No,
    }
    /// A scripted network card. It answers each of eight commands after `delay.answer.ena0`.
    nic: Nic = No {
        /// With the card.
        "yes" => Yes,
        /// Without the card.
        "no" => No,
    }
    /// Three threads that wait for each other (`delay.thread.chain1` to `chain3`), and that the boot waits for.
    chain: Chain = No {
        /// With the threads.
        "yes" => Yes,
        /// Without the threads.
        "no" => No,
    }
    /// Wait of an initcall until the thread that it created is off the run queue, before it binds the thread to CPU 0.
    bind: Bind = Skip {
        /// Sleeps for a tick, and wakes at the first tick after that time.
        "tick" => Tick,
        /// Yields.
        "yield" => Yield,
        /// Does not wait, because no other CPU is up yet.
        "skip" => Skip,
        /// Sleeps for 1 ms, and wakes at the first tick after that time, because timers are not exact yet.
        "hrtimer" => Hrtimer,
    }
    /// Moment at which a running thread yields to a woken one.
    preempt: Preempt = Full {
        /// At once, also when an interrupt woke it.
        "full" => Full,
        /// At the next point where the running thread checks for it.
        "voluntary" => Voluntary,
        /// At the running thread's next wait.
        "none" => None,
    }
    /// Measurement of the cost of ticks for a computing thread, and of the delay of another thread's wake-ups.
    sched_cost: SchedCost = No {
        /// Measures.
        "yes" => Yes,
        /// Does not measure.
        "no" => No,
    }
    /// CPUs that forget a page which one CPU has unmapped.
    shootdown: Shootdown = Ipi {
        /// Only that CPU.
        "none" => None,
        /// All CPUs: the others are interrupted and waited for.
        "ipi" => Ipi,
    }
    /// End of a killed thread, at its next check for being killed.
    signal: Signal = Unwind {
        /// The thread ends at once, and releases nothing.
        "drop" => Drop,
        /// Each of its functions releases all it holds and returns to its caller.
        "unwind" => Unwind,
    }
    /// Events of the scheduler in the event log.
    sched_log: SchedLog = No {
        /// The thread that each CPU runs, and the moments at which threads become runnable.
        "yes" => Yes,
        /// The longest length of each sleep.
        "timeouts" => Timeouts,
        /// No events.
        "no" => No,
    }
    /// Printing of the event log on the serial console at the end.
    log: Log = None {
        /// Not printed. The log stays in memory, where the host finds it.
        "none" => None,
        /// As text, between two marker lines.
        "text" => Text,
    }
}

impl Default for Switches<'_> {
    fn default() -> Self {
        Switches::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_every_switch_is_understood() {
        for switch in SWITCHES.iter().filter(|switch| !switch.values.is_empty()) {
            for value in switch.values {
                let line = format!("{}={value}", switch.name);
                let switches = Switches::parse(&line);
                assert_eq!(switches.unknown_count(), 0, "{line}");
                assert_eq!(switches == Switches::new(), *value == switch.default, "{line}");
            }
        }
    }

    #[test]
    fn the_later_of_two_wins() {
        assert_eq!(Switches::parse("aps=serial aps=parallel").aps, Aps::Parallel);
        assert_eq!(Switches::parse("hz=1000 hz=250").hz, 250);
    }

    #[test]
    fn unknown_words_are_kept_and_have_no_effect() {
        for word in [
            "aps",
            "aps=",
            "aps=fast",
            "APS=serial",
            "hz=0",
            "hz=10001",
            "hz=-1",
            "messages=1000001",
            "services=257",
            "maxcpus=0",
            "maxcpus=17",
            "tlb_rounds=0",
            "tlb_rounds=100000001",
            "calls=10000001",
            "sample=7",
            "sample=10001",
            "delay.=3",
            "delay.x=",
            "x=y",
        ] {
            let switches = Switches::parse(word);
            assert!(switches.unknown().eq([word]), "{word}");
            assert_eq!(Switches { unknown: Switches::new().unknown, ..switches }, Switches::new(), "{word}");
        }
    }

    #[test]
    fn a_place_is_meant_by_name_by_kind_or_by_both() {
        let switches =
            Switches::parse("delay.psm=3 delay.probe.psm=250us delay.probe=1ms delay.attach.psm=9 hang=attach");
        assert_eq!(switches.delay_ns(Kind::Probe, "psm"), 4_250_000);
        assert_eq!(switches.delay_ns(Kind::Attach, "psm"), 12_000_000);
        assert_eq!(switches.delay_ns(Kind::Thread, "psmx"), 0);
        assert_eq!(switches.hang, Some("attach"));
        assert_eq!(switches.delays_ns(), 13_250_000);
        let switches = Switches::parse("delay.thread.x=3 busy.x=4 busy.thread=1 busy.=1 busy.y=z");
        assert_eq!((switches.delay_ns(Kind::Thread, "x"), switches.busy_ns(Kind::Thread, "x")), (3_000_000, 5_000_000));
        assert_eq!((switches.delays_ns(), switches.unknown_count()), (8_000_000, 2));
    }

    #[test]
    fn times() {
        let check = |text, ns| assert_eq!(time_ns(text), ns, "{text}");
        check("0", Some(0));
        check("12", Some(12_000_000));
        check("12ms", Some(12_000_000));
        check("250us", Some(250_000));
        check("600000", Some(DELAY_NS_MAX));
        for nonsense in ["", "ms", "us", "+1", "-1", "1.5", "1s", "600001", "99999999999999999999"] {
            check(nonsense, None);
        }
    }

    #[test]
    fn delays_without_room_are_reported() {
        let line = "delay.x=1 ".repeat(DELAYS_MAX + 3);
        let switches = Switches::parse(&line);
        assert_eq!(switches.delay_ns(Kind::Mount, "x"), DELAYS_MAX as u64 * 1_000_000);
        assert_eq!(switches.unknown_count(), 3);
    }

    proptest::proptest! {
        #[test]
        fn no_line_does_harm(line: String) {
            let switches = Switches::parse(&line);
            proptest::prop_assert!(switches.unknown_count() <= line.split_ascii_whitespace().count());
        }
    }
}
