//! The command line: which spot of the boot is to be slow, and where it is to be delayed, to hang or to panic.
//!
//! Words are separated by white space. A word is `switch=value`, with the switches and values listed below, or
//!
//! * `delay.PLACE=TIME`: spend TIME there (`12` and `12ms` are milliseconds, `250us` microseconds); of a scripted device,
//!   the time after which it answers, which its driver polls for and does not know;
//! * `busy.PLACE=TIME`: keep the CPU for so long, also in a thread, which `delay` puts to sleep;
//! * `hang=PLACE`: stop there, with interrupts off;
//! * `panic=PLACE`: panic there;
//! * `fault=PLACE`: execute an invalid instruction there, which before interrupts are set up is a triple fault.
//!
//! A place is a SYSINIT, a probe, an attach, a mount, a thread or a device's answer: `clocks`, `psm`, `psm0`, `initrd`,
//! `usbus0`, `port1`. Where one name could be several, the kind comes first: `sysinit.clocks`, `probe.psm`,
//! `attach.psm0`, `mount.initrd`, `thread.usbus0`, `answer.ena0`. Before the first SYSINIT there are stages:
//! `stage.paging`. Plain `stage`, `sysinit`, `probe`, `attach`, `mount`, `thread`, `answer` is every place of that kind.
//!
//! What is not understood is kept aside, to be printed, and changes nothing; `bootscope.` begins words that are for
//! whoever boots the kernel. Of two words for one switch the later wins; delays of one place add up.

use core::fmt;

/// How many delays a command line can hold; later ones are reported as not understood.
pub const DELAYS_MAX: usize = 64;
/// How many words that are not understood are kept; later ones are only counted.
pub const UNKNOWN_MAX: usize = 16;
/// The longest command line, in bytes: what is beyond is cut off.
pub const LINE_BYTES_MAX: usize = 4096;
/// The most timer ticks a second.
pub const HZ_MAX: u32 = 10_000;
/// The most lines that a talkative driver prints.
pub const MESSAGES_MAX: u32 = 1_000_000;
/// The most lines that a verbose boot adds.
pub const DETAILS_MAX: u32 = 100_000;
/// The most samples a second.
pub const SAMPLE_HZ_MAX: u32 = 10_000;
/// The most user processes that are started before the boot is done.
pub const SERVICES_MAX: u32 = 256;
/// The most CPUs that the kernel starts.
pub const CPUS_MAX: u32 = 16;
/// The most rounds of the check of TLB shootdown.
pub const TLB_ROUNDS_MAX: u32 = 100_000_000;
/// The most system calls that there are not.
pub const CALLS_MAX: u32 = 10_000_000;
/// The longest single delay: ten minutes. More is taken for a slip.
pub const DELAY_NS_MAX: u64 = 600 * 1_000_000_000;

/// A switch as a user sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Before the `=`.
    pub name: &'static str,
    /// What may follow it; empty where a number does.
    pub values: &'static [&'static str],
    /// The least and the greatest number that may follow it; 0 and 0 where a word does.
    pub numbers: (u32, u32),
    /// What holds if nothing is said.
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
            /// As it stands on the command line.
            pub const fn as_str(self) -> &'static str {
                match self { $($choice::$variant => $value,)* }
            }
        })*

        /// All switches that choose among values, in the order in which they are declared, then those that take a number.
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

        /// Everything that the command line decides.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Switches<'a> {
            $($(#[doc = $doc])* pub $field: $choice,)*
            /// Timer ticks a second, 1 to [`HZ_MAX`].
            pub hz: u32,
            /// How many lines a talkative driver prints, at most [`MESSAGES_MAX`].
            pub messages: u32,
            /// How many lines that driver prints besides in a verbose boot, at most [`DETAILS_MAX`].
            pub details: u32,
            /// How often in a second each CPU is sampled while the kernel boots, at most [`SAMPLE_HZ_MAX`]; 0 for not at all.
            pub sample: u32,
            /// How many user processes are started before the boot is done, at most [`SERVICES_MAX`].
            pub services: u32,
            /// How many CPUs run at most, 1 to [`CPUS_MAX`]: the others are left asleep.
            pub maxcpus: u32,
            /// How many rounds `check=tlb-shootdown` makes, 1 to [`TLB_ROUNDS_MAX`].
            pub tlb_rounds: u32,
            /// How often a user process asks for a system call that there is not, at most [`CALLS_MAX`].
            pub calls: u32,
            /// Where to stop with interrupts off.
            pub hang: Option<&'a str>,
            /// Where to panic.
            pub panic: Option<&'a str>,
            /// Where to execute an invalid instruction.
            pub fault: Option<&'a str>,
            delays: List<Delay<'a>, DELAYS_MAX>,
            busy: List<Delay<'a>, DELAYS_MAX>,
            unknown: List<&'a str, UNKNOWN_MAX>,
        }

        impl<'a> Switches<'a> {
            /// What holds for an empty command line: all that is fast.
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
    /// How the structures that stand for page frames are initialised.
    vm_page: VmPage = OnePass {
        /// Every structure is walked over three times.
        "three-pass" => ThreePass,
        /// All of each structure at once.
        "one-pass" => OnePass,
        /// The first part at boot, the rest by a thread that runs while no other can.
        "lazy" => Lazy,
        /// The first part at boot, the rest by a thread that takes its turn on the run queue like any other.
        "eager-thread" => EagerThread,
    }
    /// What the whole kernel allocates page frames from.
    frames: Frames = P2buddy {
        /// An array of ranges that were given back: each operation looks through all of it.
        "recycle" => Recycle,
        /// A byte for each frame, looked through from the start of memory.
        "scan" => Scan,
        /// Blocks of a power of two of frames, by size: as many steps as there are sizes.
        "p2buddy" => P2buddy,
    }
    /// Whose the memory is that drivers map.
    ownership: Ownership = Counted {
        /// The allocator's until the last mapping of it is gone; no other frame of the allocator's can be mapped.
        "counted" => Counted,
        /// Nobody's: every address can be mapped as borrowed, and frames stay with who mapped them.
        "none" => None,
    }
    /// What a system call does for debuggers on its way through the kernel, whether or not there is one.
    syscall: Syscall = Lean {
        /// Notes where on the kernel stack the registers are, then as `flat`.
        "traced" => Traced,
        /// Looks for a tracer before and after, then as `cached`.
        "flat" => Flat,
        /// Copies number and arguments into the thread's context.
        "cached" => Cached,
        /// Nothing: registers lie where they were saved, and each CPU knows of its thread's tracer.
        "lean" => Lean,
    }
    /// Whether the system calls of user processes are traced.
    trace: Trace = No {
        /// Each is printed before and after.
        "yes" => Yes,
        /// They are not.
        "no" => No,
    }
    /// What the boot checks, and prints a verdict of.
    check: Check = None {
        /// Nothing.
        "none" => None,
        /// That frames which drivers map have one owner, and come back.
        "frame-ownership" => FrameOwnership,
        /// That a page which one CPU unmaps faults on the others before its frame is given out again.
        "tlb-shootdown" => TlbShootdown,
        /// That a thread which is killed in the kernel gives back what it holds.
        "signal-exit" => SignalExit,
    }
    /// How application processors are started.
    aps: Aps = Parallel {
        /// One after the other, 10 ms after INIT each.
        "serial" => Serial,
        /// INIT to all, 10 ms once, then STARTUP to all.
        "parallel" => Parallel,
    }
    /// When application processors begin to run threads.
    smp: Smp = Late {
        /// After all devices, as FreeBSD had it.
        "late" => Late,
        /// Before them.
        "early" => Early,
    }
    /// Whether the TSC of each application processor is compared with the first CPU's.
    tsc_sync: TscSync = Trust {
        /// For 20 ms each, one after the other, as Linux does.
        "check" => Check,
        /// It is not.
        "trust" => Trust,
    }
    /// How the devices on PCI are probed and attached.
    pci: Pci = Serial {
        /// One after the other.
        "serial" => Serial,
        /// Each by a thread of its own.
        "parallel" => Parallel,
    }
    /// Whether the threads that probe PCI devices hold one lock while they do.
    driver_lock: DriverLock = None {
        /// All of them the same one, as with FreeBSD's Giant: they take their turns.
        "giant" => Giant,
        /// None.
        "none" => None,
    }
    /// How the driver of a network card on PCI waits while the card is reset, when it attaches.
    pci_wait: PciWait = None {
        /// The card is not reset.
        "none" => None,
        /// It keeps its CPU.
        "poll" => Poll,
        /// It sleeps.
        "sleep" => Sleep,
    }
    /// Whether each application processor says on the console that it is there.
    ap_announce: ApAnnounce = No {
        /// It does, and the first CPU waits for all of them.
        "yes" => Yes,
        /// It does not.
        "no" => No,
    }
    /// How the TSC and the local APIC timer are calibrated against the PIT.
    calibrate: Calibrate = Regression {
        /// Two readings a second apart.
        "delay" => Delay,
        /// A regression over as many readings as 20 ms hold.
        "regression" => Regression,
    }
    /// What a newline at the bottom of the framebuffer console does.
    console: Console = Shadow {
        /// Every cell is drawn again.
        "redraw" => Redraw,
        /// The cells whose character changes are.
        "shadow" => Shadow,
    }
    /// How much is printed on the serial console.
    verbose: Verbose = No {
        /// What each driver finds as well.
        "yes" => Yes,
        /// A few lines.
        "no" => No,
    }
    /// Whether the PS/2 controller and what hangs on it are reset and waited for.
    ps2: Ps2 = Skip {
        /// As the hardware asks: 200 ms after each reset.
        "probe" => Probe,
        /// It is left alone.
        "skip" => Skip,
    }
    /// Where a driver whose hardware is absent initialises it.
    hpt: Hpt = InAttach {
        /// In its probe method, before it looks for the hardware.
        "in-probe" => InProbe,
        /// In its attach method, which is then never called.
        "in-attach" => InAttach,
    }
    /// Where an NVMe controller is waited for while it is reset, and a scripted network card for its answers.
    reset: Reset = Async {
        /// In its attach method.
        "wait" => Wait,
        /// In a thread of its own.
        "async" => Async,
    }
    /// When the hash of the address arena begins to be fitted to what is in it.
    vmem_rescale: VmemRescale = Early {
        /// Once drivers have attached.
        "late" => Late,
        /// A single time before they do, and then as late.
        "once" => Once,
        /// Before they do.
        "early" => Early,
    }
    /// Whether the kernel was loaded over the network: then each card is opened while drivers attach, to find the one.
    netboot: Netboot = No {
        /// It was, as an install image is.
        "yes" => Yes,
        /// It was not: no card is opened before the boot's end.
        "no" => No,
    }
    /// How many buffers the driver of a network card takes when it is opened.
    dma_buffers: DmaBuffers = Few {
        /// For eight rings.
        "many" => Many,
        /// For one.
        "few" => Few,
    }
    /// What mounting root waits for.
    root_wait: RootWait = Needed {
        /// Every bus that may still find a disk.
        "all" => All,
        /// The device that root is on.
        "needed" => Needed,
    }
    /// What root is on.
    root_on: RootOn = Memory {
        /// An initrd, or nothing: a file system that needs no device.
        "memory" => Memory,
        /// A scripted disk that the file system finds by its name.
        "ufs" => Ufs,
        /// A scripted pool of two disks, of which the file system must see all.
        "zfs" => Zfs,
    }
    /// How the root image is read.
    root: Root = Direct {
        /// Through a cache, a frame for each page.
        "copy" => Copy,
        /// Where it lies.
        "direct" => Direct,
    }
    /// Whether there are two encrypted disks, and whether each needs a key of its own.
    kdf: Kdf = None {
        /// There are none.
        "none" => None,
        /// They have salts of their own, so two keys are derived.
        "per-disk" => PerDisk,
        /// They have one salt, so one key is.
        "shared-salt" => SharedSalt,
    }
    /// Whether there is a scripted USB bus of four ports; each settles after `delay.port1` to `delay.port4`.
    usb: Usb = No {
        /// There is.
        "yes" => Yes,
        /// There is none.
        "no" => No,
    }
    /// Whether there is a scripted network card; it answers each of eight commands after `delay.answer.ena0`.
    nic: Nic = No {
        /// There is.
        "yes" => Yes,
        /// There is none.
        "no" => No,
    }
    /// Whether the boot waits for three threads that wait for each other (`delay.thread.chain1` to `chain3`).
    chain: Chain = No {
        /// It does.
        "yes" => Yes,
        /// It does not.
        "no" => No,
    }
    /// How an initcall waits until the thread it created is off the run queue, before it binds it to CPU 0.
    bind: Bind = Skip {
        /// It sleeps for a tick from now, and wakes at the first tick after that.
        "tick" => Tick,
        /// It yields.
        "yield" => Yield,
        /// Not at all: no other CPU is up yet.
        "skip" => Skip,
        /// It sleeps for 1 ms, and wakes at the first tick after that: timers are not exact that early.
        "hrtimer" => Hrtimer,
    }
    /// When a running thread gives way to one that was woken.
    preempt: Preempt = Full {
        /// At once, also when an interrupt woke it.
        "full" => Full,
        /// Where it asks whether it should.
        "voluntary" => Voluntary,
        /// Where it waits itself.
        "none" => None,
    }
    /// Whether the boot measures what ticks cost a thread that computes, and how late another one is woken beside it.
    sched_cost: SchedCost = No {
        /// It does.
        "yes" => Yes,
        /// It does not.
        "no" => No,
    }
    /// Which CPUs forget a page that one of them has unmapped.
    shootdown: Shootdown = Ipi {
        /// That one alone.
        "none" => None,
        /// All of them: the others are interrupted, and waited for.
        "ipi" => Ipi,
    }
    /// What a thread does that was killed, where it next asks.
    signal: Signal = Unwind {
        /// It ends where it stands.
        "drop" => Drop,
        /// Each of its functions gives back what it holds and returns to its caller.
        "unwind" => Unwind,
    }
    /// What the event log says of the scheduler.
    sched_log: SchedLog = No {
        /// Which thread each CPU runs, and when each thread can run.
        "yes" => Yes,
        /// How long each sleep lasts at most.
        "timeouts" => Timeouts,
        /// Nothing.
        "no" => No,
    }
    /// Whether the event log is printed on the serial console at the end.
    log: Log = None {
        /// It stays in memory, where the host finds it.
        "none" => None,
        /// As text, between two marker lines.
        "text" => Text,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Delay<'a> {
    place: &'a str,
    ns: u64,
}

/// A kind of place in the boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A step before the first SYSINIT.
    Stage,
    /// A SYSINIT.
    Sysinit,
    /// A driver's probe method.
    Probe,
    /// A driver's attach method.
    Attach,
    /// The mounting of a file system.
    Mount,
    /// A kernel thread.
    Thread,
    /// A scripted device that was asked for something.
    Answer,
}

impl Kind {
    /// As it stands in front of a place's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Stage => "stage",
            Kind::Sysinit => "sysinit",
            Kind::Probe => "probe",
            Kind::Attach => "attach",
            Kind::Mount => "mount",
            Kind::Thread => "thread",
            Kind::Answer => "answer",
        }
    }
}

/// Whether what a user wrote means this place.
pub fn means(written: &str, kind: Kind, name: &str) -> bool {
    let kind = kind.as_str();
    // Asked at every place of the boot for every delay, so nothing is searched for.
    let both = || written.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.')) == Some(name);
    written == name || written == kind || both()
}

impl<'a> Switches<'a> {
    /// Reads a command line. Nothing fails: what is not understood is in [`Switches::unknown`].
    pub fn parse(line: &'a str) -> Switches<'a> {
        let mut switches = Switches::new();
        for word in line.split_ascii_whitespace() {
            if !switches.take(word) {
                switches.unknown.push(word);
            }
        }
        switches
    }

    fn take(&mut self, word: &'a str) -> bool {
        let Some((name, value)) = word.split_once('=') else { return false };
        match name {
            _ if name.starts_with("bootscope.") => {}
            "hang" if !value.is_empty() => self.hang = Some(value),
            "panic" if !value.is_empty() => self.panic = Some(value),
            "fault" if !value.is_empty() => self.fault = Some(value),
            "hz" => match value.parse() {
                Ok(hz @ 1..=HZ_MAX) => self.hz = hz,
                _ => return false,
            },
            "messages" => match value.parse() {
                Ok(messages @ 0..=MESSAGES_MAX) => self.messages = messages,
                _ => return false,
            },
            "details" => match value.parse() {
                Ok(details @ 0..=DETAILS_MAX) => self.details = details,
                _ => return false,
            },
            "sample" => match value.parse() {
                Ok(0) => self.sample = 0,
                // The PIT counts no further down.
                Ok(hz @ 20..=SAMPLE_HZ_MAX) => self.sample = hz,
                _ => return false,
            },
            "maxcpus" => match value.parse() {
                Ok(cpus @ 1..=CPUS_MAX) => self.maxcpus = cpus,
                _ => return false,
            },
            "tlb_rounds" => match value.parse() {
                Ok(rounds @ 1..=TLB_ROUNDS_MAX) => self.tlb_rounds = rounds,
                _ => return false,
            },
            "calls" => match value.parse() {
                Ok(calls @ 0..=CALLS_MAX) => self.calls = calls,
                _ => return false,
            },
            "services" => match value.parse() {
                Ok(services @ 0..=SERVICES_MAX) => self.services = services,
                _ => return false,
            },
            _ => {
                let (places, list) = match name.strip_prefix("busy.") {
                    Some(place) => (Some(place), &mut self.busy),
                    None => (name.strip_prefix("delay."), &mut self.delays),
                };
                return match (places, time_ns(value)) {
                    (Some(place), Some(ns)) if !place.is_empty() => list.push(Delay { place, ns }),
                    (Some(_), _) => false,
                    (None, _) => self.choose(name, value),
                };
            }
        }
        true
    }

    /// How long the boot is to be delayed at a place.
    pub fn delay_ns(&self, kind: Kind, name: &str) -> u64 {
        let here = self.delays.iter().filter(|delay| means(delay.place, kind, name));
        here.fold(0, |sum: u64, delay| sum.saturating_add(delay.ns))
    }

    /// How long a place is to keep its CPU.
    pub fn busy_ns(&self, kind: Kind, name: &str) -> u64 {
        let here = self.busy.iter().filter(|busy| means(busy.place, kind, name));
        here.fold(0, |sum: u64, busy| sum.saturating_add(busy.ns))
    }

    /// All delays together, wherever they are: no place is delayed by more.
    pub fn delays_ns(&self) -> u64 {
        self.delays.iter().chain(self.busy.iter()).fold(0, |sum: u64, delay| sum.saturating_add(delay.ns))
    }

    /// The words that were not understood, in order.
    pub fn unknown(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.unknown.iter().copied()
    }

    /// How many words were not understood: at least as many as [`Switches::unknown`] has.
    pub fn unknown_count(&self) -> usize {
        self.unknown.wanted
    }
}

impl Default for Switches<'_> {
    fn default() -> Self {
        Switches::new()
    }
}

/// A time as it is written: `12` and `12ms`, `250us`. None if it is not one, or longer than [`DELAY_NS_MAX`].
pub fn time_ns(text: &str) -> Option<u64> {
    let (digits, unit_ns) = match text.strip_suffix("us") {
        Some(digits) => (digits, 1_000),
        None => (text.strip_suffix("ms").unwrap_or(text), 1_000_000),
    };
    // `parse` would take a sign.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let ns = digits.parse::<u64>().ok()?.checked_mul(unit_ns)?;
    (ns <= DELAY_NS_MAX).then_some(ns)
}

/// As many things as there is room for, and how many there would have been.
#[derive(Clone)]
struct List<T, const N: usize> {
    items: [T; N],
    wanted: usize,
}

impl<T: Copy, const N: usize> List<T, N> {
    const fn new(filler: T) -> Self {
        List { items: [filler; N], wanted: 0 }
    }

    fn push(&mut self, item: T) -> bool {
        let slot = self.items.get_mut(self.wanted);
        let room = slot.is_some();
        if let Some(slot) = slot {
            *slot = item;
        }
        self.wanted += 1;
        room
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().take(self.wanted)
    }
}

impl<T: Copy + PartialEq, const N: usize> PartialEq for List<T, N> {
    fn eq(&self, other: &Self) -> bool {
        self.wanted == other.wanted && self.iter().eq(other.iter())
    }
}

impl<T: Copy + fmt::Debug, const N: usize> fmt::Debug for List<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
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
    fn what_is_not_understood_is_kept_and_changes_nothing() {
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
    fn more_delays_than_there_is_room_for_are_reported() {
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
