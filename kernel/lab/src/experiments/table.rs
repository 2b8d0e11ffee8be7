//! The table of experiments.
//!
//! Each experiment imitates a published boot, and has its figures: FreeBSD's (Percival 2018, *Profiling the FreeBSD kernel
//! boot*), Linux 3.5's on an i.MX6, Redox's (Lorentzon 2024), and others that [`Experiment::source`] names. Those boots ran on
//! other machines and at other sizes. The direction must be the same here, and also the ratio, unless the hardware determines
//! it.

use super::{Amount, Experiment, Figure, Machine, Measure};

const PERCIVAL: &str = "Percival 2018";
const LORENTZON: &str = "Redox, Lorentzon 2024";
const SMALL: Machine = Machine { cpus: 1, memory_bytes: 128 << 20, root_bytes: 0, arguments: &[] };
/// The console on the screen: 400 × 112 cells.
const SCREEN: &[&str] = &["-vga", "std"];

/// Bytes of a figure published in MiB (`free -m`).
const fn mib(mebibytes: u64) -> u64 {
    mebibytes << 20
}

/// Bytes of a figure published in KiB (`getrusage`).
const fn kib(kibibytes: u64) -> u64 {
    kibibytes << 10
}

/// An empty experiment, for the fields that an experiment does not use.
const NOTHING: Experiment = Experiment {
    name: "",
    what: "",
    source: "",
    always: "",
    slow: "",
    remedies: &[],
    check: "",
    figures: &[],
    amounts: &[],
    chosen: "",
    note: "",
    differs: &[],
    adds: &[],
    no_better: &[],
    saves_nothing: &[],
    blamed: &[],
    machine: SMALL,
};

/// A bus with one port that settles slowly, and two disks that spin up meanwhile.
macro_rules! root_on {
    ($on:literal) => {
        concat!(
            "usb=yes delay.port1=100 delay.port2=100 delay.port3=8700 delay.port4=100 ",
            "root_on=",
            $on,
            " delay.answer.ada0=300 delay.answer.ada1=700"
        )
    };
}
const ROOT_ON_UFS: &str = root_on!("ufs");
const ROOT_ON_ZFS: &str = root_on!("zfs");
const ROOT_CHOSEN: &str = "when each port settles, nine seconds in all as published, and when each disk has spun up; \
                           bus and disks are scripted";

/// Services of 1024 pages each, half of which are freed.
const SERVICES: &str = "services=3";
const SERVICES_CHOSEN: &str = "3 services, each of 512 pages that stay and 512 that do not, so that frames=scan comes near the \
                               published share";
const SERVICES_NOTE: &str = "with p2buddy a call takes 122 instructions, and 64 more for the recorder's two events, of which \
                             only 15 are in its figures; a frame is cleared outside of the allocator, a byte an instruction";

/// An NVMe controller without a disk.
const NVME: &[&str] = &["-device", "nvme,serial=lab"];

/// A figure for a whole boot.
const fn whole(
    name: &'static str,
    functions: &'static [&'static str],
    slow_us: Option<u64>,
    fast_us: Option<u64>,
) -> Figure {
    Figure { name, functions, per: "", units: 1, slow_us, fast_us }
}

pub static EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "page-array",
        what: "one structure for each page frame: walked over three times, or once, or only the first part of it",
        source: PERCIVAL,
        slow: "vm_page=three-pass",
        remedies: &["vm_page=one-pass", "vm_page=lazy"],
        figures: &[Figure {
            name: "SYSINIT vm_mem",
            functions: &["SYSINIT vm_mem"],
            per: "GB",
            units: 1,
            slow_us: Some(15_000),
            fast_us: Some(3_500),
        }],
        blamed: &["SYSINIT vm_mem"],
        machine: Machine { memory_bytes: 1 << 30, ..SMALL },
        ..NOTHING
    },
    Experiment {
        name: "page-rest",
        what: "all of the page structures at boot, or the first part of them and the rest when no other thread can run",
        source: "FreeBSD b16b4c22d2d1 (2024): almost all of 21.5 ms at 1 GB",
        slow: "vm_page=one-pass",
        remedies: &["vm_page=lazy"],
        figures: &[Figure {
            name: "SYSINIT vm_mem",
            functions: &["SYSINIT vm_mem"],
            per: "GB",
            units: 1,
            slow_us: Some(21_500),
            fast_us: None,
        }],
        blamed: &["SYSINIT vm_mem"],
        machine: Machine { memory_bytes: 1 << 30, ..SMALL },
        ..NOTHING
    },
    Experiment {
        name: "page-thread",
        what: "the thread that initialises the rest takes its turn before whom the boot waits for, or runs when no other can",
        source: "FreeBSD b16b4c22d2d1 (2024): its thread has the lowest priority",
        slow: "vm_page=eager-thread",
        remedies: &["vm_page=lazy"],
        figures: &[whole("SYSINIT intr_config_hooks", &["SYSINIT intr_config_hooks"], None, None)],
        blamed: &["THREAD vm_rest · runqueue"],
        machine: Machine { memory_bytes: 1 << 30, ..SMALL },
        ..NOTHING
    },
    Experiment {
        name: "ap-start",
        what: "application processors are started one after the other, 10 ms after INIT each, or all at once",
        source: PERCIVAL,
        slow: "aps=serial",
        remedies: &["aps=parallel"],
        figures: &[Figure {
            name: "wake_aps",
            functions: &["wake_aps"],
            per: "AP",
            units: 3,
            slow_us: Some(10_400),
            fast_us: None,
        }],
        blamed: &["wake_aps · DELAY"],
        machine: Machine { cpus: 4, ..SMALL },
        ..NOTHING
    },
    Experiment {
        name: "ap-announce",
        what: "each application processor prints a line, on a screen that is drawn anew each time; the first CPU waits",
        source: PERCIVAL,
        always: "console=redraw messages=120",
        slow: "ap_announce=yes",
        remedies: &["ap_announce=no"],
        figures: &[Figure {
            name: "SYSINIT start_aps",
            functions: &["SYSINIT start_aps"],
            per: "AP",
            units: 3,
            slow_us: Some(41_000),
            fast_us: Some(3_000),
        }],
        chosen: "120 lines before the application processors', so that the screen is full and scrolls",
        blamed: &["_vprintf"],
        machine: Machine { cpus: 4, arguments: SCREEN, ..SMALL },
        ..NOTHING
    },
    Experiment {
        name: "clock-calibration",
        what: "the TSC and the local APIC timer against the PIT: over a second each, or by regression over 20 ms",
        source: PERCIVAL,
        slow: "calibrate=delay",
        remedies: &["calibrate=regression"],
        figures: &[
            whole("SYSINIT cpu", &["SYSINIT cpu"], Some(1_000_000), Some(20_000)),
            whole("SYSINIT clocks", &["SYSINIT clocks"], Some(1_000_000), Some(20_000)),
        ],
        differs: &[(
            "calibrate=regression",
            "the regression itself takes 20 ms for each clock, in the rows SYSINIT cpu and SYSINIT clocks, which the \
             foretold boot does not have",
        )],
        blamed: &["SYSINIT cpu · DELAY", "SYSINIT clocks · DELAY"],
        ..NOTHING
    },
    Experiment {
        name: "console-scroll",
        what: "300 lines on a screen that draws every cell at a newline, or only those that changed",
        source: PERCIVAL,
        always: "messages=300",
        slow: "console=redraw",
        remedies: &["console=shadow"],
        figures: &[whole("_vprintf", &["_vprintf"], Some(3_240_000), Some(860_000))],
        chosen: "300 lines, which is how long the slow boot prints",
        blamed: &["_vprintf"],
        machine: Machine { arguments: SCREEN, ..SMALL },
        ..NOTHING
    },
    Experiment {
        name: "console-uart",
        what: "3000 lines of what was found are printed on the serial port, or not; each character is waited for",
        source: "libguestfs",
        always: "details=3000",
        slow: "verbose=yes",
        remedies: &["verbose=no"],
        figures: &[whole("_vprintf", &["_vprintf"], None, None)],
        amounts: &[Amount { of: Measure::NsPerCharacter, slow: Some(4_000), fast: &[] }],
        chosen: "3000 lines, each as long as one of a memory map",
        note: "a character is an exit to the hypervisor where 4 us were published; here it is some 55 emulated instructions; \
               of the whole boot 3500 ms and, with `quiet`, 2500 ms were published",
        blamed: &["_vprintf"],
        ..NOTHING
    },
    Experiment {
        name: "ps2-probe",
        what: "keyboard controller, keyboard and mouse are reset and waited for, 200 ms each time, or left alone",
        source: PERCIVAL,
        slow: "ps2=probe",
        remedies: &["ps2=skip"],
        figures: &[
            whole("DEVICE_PROBE psm", &["DEVICE_PROBE psm"], Some(1_570_000), None),
            whole("DEVICE_ATTACH atkbd0", &["DEVICE_ATTACH atkbd0"], Some(430_000), None),
            whole("hammer_time", &["hammer_time"], Some(640_000), None),
        ],
        chosen: "how many resets each driver makes, so that 200 ms each come near the published times; \
                 200 ms is what the hardware asks for, and QEMU's needs none of it",
        blamed: &["DEVICE_PROBE psm", "DEVICE_ATTACH atkbd0 · DELAY", "hammer_time · DELAY"],
        ..NOTHING
    },
    Experiment {
        name: "probe-work",
        what: "three drivers set up hardware that is not there in their probe methods, or in attach, which is never called",
        source: PERCIVAL,
        slow: "hpt=in-probe",
        remedies: &["hpt=in-attach"],
        figures: &[whole(
            "three probes",
            &["DEVICE_PROBE hptnr", "DEVICE_PROBE hptrr", "DEVICE_PROBE hpt27xx"],
            Some(330_000),
            Some(100),
        )],
        chosen: "how much the three drivers set up, a scatter list for each of 2048 commands of 256 adapters: \
                 no hardware's work, and its length says nothing of theirs",
        blamed: &["DEVICE_PROBE hptnr", "DEVICE_PROBE hptrr", "DEVICE_PROBE hpt27xx"],
        ..NOTHING
    },
    Experiment {
        name: "reset-wait",
        what: "an NVMe controller is reset twice, and a network card answers eight commands, \
               waited for in their attach methods or in threads",
        source: PERCIVAL,
        always: "nic=yes delay.answer.ena0=100",
        slow: "reset=wait",
        remedies: &["reset=async"],
        figures: &[
            whole("DEVICE_ATTACH nvme0", &["DEVICE_ATTACH nvme0"], Some(250_000), None),
            whole("DEVICE_ATTACH ena0", &["DEVICE_ATTACH ena0"], Some(800_000), None),
        ],
        chosen: "that the network card answers each command after the published 100 ms: it is scripted; all 220 ms of NVMe \
                 are the driver's pauses, twice 100 + 5 + 5, as FreeBSD's driver has them: QEMU's controller answers at once",
        blamed: &["DEVICE_ATTACH nvme0 · DELAY", "DEVICE_ATTACH ena0 · DELAY"],
        machine: Machine { arguments: NVME, ..SMALL },
        ..NOTHING
    },
    Experiment {
        name: "vmem-hash",
        what: "a network driver gives 28 672 buffers back to an arena whose hash is fitted to them in time, or stays small",
        source: "illumos bug 12262",
        always: "netboot=yes dma_buffers=many",
        slow: "vmem_rescale=late",
        remedies: &[
            "vmem_rescale=early",
            "vmem_rescale=late dma_buffers=few",
            "vmem_rescale=late netboot=no",
            "vmem_rescale=once",
        ],
        figures: &[whole("em_stop", &["em_stop"], Some(1_800_000_000), None)],
        amounts: &[Amount { of: Measure::ChainSteps, slow: Some(27_606_301_196), fast: &[228_351] }],
        chosen: "28 672 buffers, one in 32 of the 917 504 where this was published, and a ring's 3584 for few",
        note: "chain steps go by the square of the number of buffers, so that 1/1024 of the published ones are expected; \
               4.9 % of those were other segments, which this boot does not have. With the first remedy there are none, \
               because consecutive addresses fall into buckets of their own. The published boot was slow over the network \
               only: installed on a disk, the same kernel opened no card before the update had started (netboot=no)",
        differs: &[
            ("vmem_rescale=late dma_buffers=few", "em_start allocates an eighth of the buffers too"),
            (
                "vmem_rescale=late netboot=no",
                "the card is not opened at all, so that em_start is gone too, with the 20 ms of its reset",
            ),
        ],
        no_better: &[(
            "vmem_rescale=once",
            "one call before the drivers attach sees an arena with hardly anything in it, and leaves the hash as it is",
        )],
        saves_nothing: &["vmem_rescale=once"],
        blamed: &["vmem_free"],
        machine: Machine { arguments: &["-device", "e1000,romfile="], ..SMALL },
        ..NOTHING
    },
    Experiment {
        name: "frame-allocator",
        what: "three user processes touch their pages, a fault and a frame each: the allocator looks through a byte for each frame \
               in use, or takes the first block of a list",
        source: LORENTZON,
        always: SERVICES,
        slow: "frames=scan",
        remedies: &["frames=p2buddy"],
        figures: &[whole("frame_allocator", &["frame_allocator"], None, None)],
        amounts: &[Amount { of: Measure::FrameAllocatorPermille, slow: Some(350), fast: &[9] }],
        chosen: SERVICES_CHOSEN,
        note: SERVICES_NOTE,
        blamed: &["frame_allocator"],
        ..NOTHING
    },
    Experiment {
        name: "frame-recycling",
        what: "the same, and the allocator looks through an array of ranges that were given back",
        source: LORENTZON,
        always: SERVICES,
        slow: "frames=recycle",
        remedies: &["frames=p2buddy"],
        figures: &[whole("frame_allocator", &["frame_allocator"], None, None)],
        amounts: &[Amount { of: Measure::FrameAllocatorPermille, slow: None, fast: &[] }],
        chosen: SERVICES_CHOSEN,
        note: "what this allocator took was never published: Redox had it before 2020",
        blamed: &["frame_allocator"],
        ..NOTHING
    },
    Experiment {
        name: "sampler",
        what: "the boots of frame-allocator, sampled 10 000 times a second: the allocator's share by recorder and by samples",
        source: LORENTZON,
        always: "services=3 sample=10000",
        slow: "frames=scan",
        remedies: &["frames=p2buddy"],
        figures: &[whole("frame_allocator", &["frame_allocator"], None, None)],
        amounts: &[
            Amount { of: Measure::RecordedPermille, slow: Some(350), fast: &[9] },
            Amount { of: Measure::SampledPermille, slow: Some(350), fast: &[9] },
        ],
        chosen: SERVICES_CHOSEN,
        note: "both shares are of the time since sampling began; what was before is unseen by samples. Samples also see what the \
               recorder's events take outside of its own figures: by counted calls p2buddy's share is 1.5 % there",
        blamed: &["frame_allocator"],
        ..NOTHING
    },
    Experiment {
        name: "pci-probe",
        what: "three network cards on PCI are reset for 20 ms each when they attach: one after the other on one CPU, or each by a \
               thread of its own, on four CPUs that have to be started first",
        source: "libguestfs",
        always: "smp=early tsc_sync=check pci_wait=poll",
        slow: "maxcpus=1 pci=serial",
        remedies: &[
            "maxcpus=4 pci=parallel",
            "maxcpus=1 pci=parallel",
            "maxcpus=4 pci=parallel tsc_sync=trust",
            "maxcpus=1 pci=parallel pci_wait=sleep",
        ],
        figures: &[
            whole("DEVICE_ATTACH pcib0", &["DEVICE_ATTACH pcib0"], Some(66_000), Some(39_000)),
            whole("starting CPUs", &["SYSINIT cpu_mp", "SYSINIT start_aps_early"], Some(0), Some(200_000)),
        ],
        chosen: "three cards, so that probing comes near the published 66 ms; 20 ms is the driver's pause after a reset: QEMU's card \
                 needs none of it",
        note: "only waits overlap: where instructions are counted, CPUs take turns, and work is not done at once. Of the published \
               200 ms that four CPUs cost, the comparison of their TSCs was 25 ms each; here it is 20",
        adds: &[
            ("maxcpus=4 pci=parallel", &["check_tsc_sync", "wake_aps · DELAY", "THREAD pci_probe"]),
            ("maxcpus=1 pci=parallel", &["THREAD pci_probe"]),
            ("maxcpus=4 pci=parallel tsc_sync=trust", &["wake_aps · DELAY", "THREAD pci_probe"]),
            ("maxcpus=1 pci=parallel pci_wait=sleep", &["THREAD pci_probe"]),
        ],
        no_better: &[
            (
                "maxcpus=4 pci=parallel",
                "starting three CPUs costs more than probing in parallel saves, as was published",
            ),
            (
                "maxcpus=1 pci=parallel",
                "a driver that polls keeps the one CPU there is, and the threads cost a little, as was published",
            ),
        ],
        saves_nothing: &["maxcpus=1 pci=parallel"],
        blamed: &["em_reset"],
        machine: Machine {
            cpus: 4,
            arguments: &["-device", "e1000,romfile=", "-device", "e1000,romfile=", "-device", "e1000,romfile="],
            ..SMALL
        },
        ..NOTHING
    },
    Experiment {
        name: "driver-lock",
        what: "three network cards on PCI are reset by a thread each, which sleeps for 20 ms: with one lock for all drivers in its \
               hand, or without it",
        source: "after FreeBSD's Giant and Linux's big kernel lock; no figure was published",
        always: "pci=parallel pci_wait=sleep",
        slow: "driver_lock=giant",
        remedies: &["driver_lock=none"],
        figures: &[whole("DEVICE_ATTACH pcib0", &["DEVICE_ATTACH pcib0"], None, None)],
        chosen: "three cards, and the driver's pause of 20 ms after a reset: QEMU's card needs none of it",
        blamed: &["THREAD pci_probe"],
        machine: Machine {
            arguments: &["-device", "e1000,romfile=", "-device", "e1000,romfile=", "-device", "e1000,romfile="],
            ..SMALL
        },
        ..NOTHING
    },
    Experiment {
        name: "tlb-shootdown",
        what: "a page that three CPUs have read is unmapped on the fourth, and its frame given to another owner: the three go on \
               with what they remember, or forget it before the frame is free",
        source: LORENTZON,
        always: "check=tlb-shootdown",
        slow: "shootdown=none",
        remedies: &["shootdown=ipi"],
        check: "tlb-shootdown",
        chosen: "1000 rounds",
        machine: Machine { cpus: 4, ..SMALL },
        ..NOTHING
    },
    Experiment {
        name: "signal-exit",
        what: "threads are killed that wait, sleep or work in the kernel with frames, a hold, a reference and two spans each: they \
               end where they stand, or return through their functions, which give all of it back",
        source: LORENTZON,
        always: "check=signal-exit",
        slow: "signal=drop",
        remedies: &["signal=unwind"],
        check: "signal-exit",
        chosen: "four threads of 16 frames each",
        note: "this kernel is built without unwinding tables: a killed thread returns an error through its functions, as a system \
               call that is interrupted does. The published kernel ended threads on a copied stack",
        ..NOTHING
    },
    Experiment {
        name: "syscall-path",
        what: "what each system call does for debuggers, with none there: notes where its registers are, looks for a tracer, \
               copies its arguments, and for each of these looks its thread up; or none of it",
        source: LORENTZON,
        always: "calls=20000",
        slow: "syscall=traced",
        remedies: &["syscall=flat", "syscall=cached", "syscall=lean"],
        figures: &[whole("system_calls", &["system_calls"], None, None)],
        amounts: &[
            Amount { of: Measure::SystemCall, slow: Some(344), fast: &[236, 184, 116] },
            Amount { of: Measure::BareSystemCall, slow: Some(56), fast: &[56, 56, 56] },
            // In thousandths: 344, 236, 184 and 116, each divided by 56.
            Amount { of: Measure::SystemCallOfBare, slow: Some(6_143), fast: &[4_214, 3_286, 2_071] },
        ],
        chosen: "20 000 calls of one process, so that they take a share of the boot that can be seen",
        note: "instructions are counted here, and cycles were published: syscall and sysret are two instructions and 56 cycles, \
               so that the ratio to the bare trip is larger here",
        blamed: &["system_calls"],
        ..NOTHING
    },
    Experiment {
        name: "root-hold",
        what: "root is on a disk that the file system finds by name: mounting waits for every bus, \
               one of which takes nine seconds, or for that disk",
        source: PERCIVAL,
        always: ROOT_ON_UFS,
        slow: "root_wait=all",
        remedies: &["root_wait=needed"],
        figures: &[whole("vfs_mountroot", &["vfs_mountroot"], Some(9_000_000), None)],
        chosen: ROOT_CHOSEN,
        differs: &[(
            "root_wait=needed",
            "the slow boot waits for both disks, and atach1 takes 700 ms; the remedy needs ada0 alone, which takes 300 ms",
        )],
        blamed: &["THREAD usbus0"],
        ..NOTHING
    },
    Experiment {
        name: "root-pool",
        what: "root is on a pool of two disks: mounting waits for every bus, or until all members of the pool are there",
        source: PERCIVAL,
        always: ROOT_ON_ZFS,
        slow: "root_wait=all",
        remedies: &["root_wait=needed"],
        figures: &[whole("vfs_mountroot", &["vfs_mountroot"], Some(9_000_000), None)],
        chosen: ROOT_CHOSEN,
        blamed: &["THREAD usbus0"],
        ..NOTHING
    },
    Experiment {
        name: "root-dax",
        what: "a root image of 18 MiB that lies in memory is read through a cache, or where it lies",
        source: "libguestfs",
        slow: "root=copy",
        remedies: &["root=direct"],
        figures: &[whole("VFS_MOUNT initrd", &["VFS_MOUNT initrd"], None, None)],
        amounts: &[
            Amount { of: Measure::GuestCache, slow: Some(mib(30)), fast: &[mib(12)] },
            Amount { of: Measure::VmmResident, slow: Some(kib(238_965)), fast: &[kib(233_990)] },
        ],
        chosen: "an image of 18 MiB, which is by how much the published cache became smaller",
        note: "12 MiB of the published cache were not the image's; the VMM's figures are the means of three published ones each, \
               and it did more than boot",
        blamed: &["VFS_MOUNT initrd"],
        machine: Machine { root_bytes: 18 << 20, ..SMALL },
        ..NOTHING
    },
    Experiment {
        name: "key-derivation",
        what: "two encrypted disks with one passphrase: a salt for each, so that a key is derived twice, or one for both",
        source: PERCIVAL,
        slow: "kdf=per-disk",
        remedies: &["kdf=shared-salt"],
        figures: &[whole("geli_unlock", &["geli_unlock"], Some(2_600_000), None)],
        chosen: "20 000 iterations for each key, some hundred times less than a disk of today has",
        note: "that one derivation would do was published, and not how long it takes",
        blamed: &["THREAD g_event"],
        ..NOTHING
    },
    Experiment {
        name: "kthread-bind",
        what: "four initcalls create a thread each and sleep for a tick from then on, to bind it once it is off the run queue",
        source: "Linux 3.5 on an i.MX6",
        slow: "bind=tick",
        remedies: &["bind=tick hz=1000", "bind=yield", "bind=skip", "bind=tick preempt=voluntary", "bind=hrtimer"],
        figures: &[whole(
            "four initcalls",
            &[
                "SYSINIT spawn_ksoftirqd",
                "SYSINIT init_workqueues",
                "SYSINIT cpu_stop_init",
                "SYSINIT rcu_spawn_kthreads",
            ],
            Some(55_000),
            Some(4_000),
        )],
        note: "each call here begins just after a tick and takes two (80 ms); on the i.MX6 they took one, one, two and two",
        no_better: &[(
            "bind=hrtimer",
            "1 ms is asked for and a tick is waited for, as was published: no better than a tick. What is saved is the second \
             tick, which a timer of a whole tick waits for here",
        )],
        blamed: &["kthread_bind · _sleep"],
        ..NOTHING
    },
    Experiment {
        name: "frame-ownership",
        what: "memory that drivers map is counted by mapping and free when the last is gone, and a frame of the allocator's \
               cannot be mapped as borrowed; or frames are handed out by number, and any address can be mapped",
        source: LORENTZON,
        always: "check=frame-ownership",
        slow: "ownership=none",
        remedies: &["ownership=counted"],
        check: "frame-ownership",
        chosen: "two rings of 16 frames, each mapped twice, and one frame that is somebody else's",
        ..NOTHING
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switches::Switches;

    #[test]
    fn the_kernel_understands_every_word_and_each_makes_a_difference() {
        for experiment in EXPERIMENTS {
            let line = |words: &str| format!("{} {words}", experiment.always);
            let slow = line(experiment.slow);
            assert_eq!(Switches::parse(&slow).unknown_count(), 0, "{slow}");
            for fast in experiment.remedies.iter().map(|words| line(words)) {
                assert_eq!(Switches::parse(&fast).unknown_count(), 0, "{fast}");
                assert_ne!(Switches::parse(&fast), Switches::parse(&slow), "{}", experiment.name);
            }
        }
    }

    #[test]
    fn notes_on_remedies_name_existing_remedies() {
        for experiment in EXPERIMENTS {
            for (remedy, why) in experiment.differs.iter().chain(experiment.no_better) {
                assert!(experiment.remedies.contains(remedy) && !why.is_empty(), "{}: {remedy}", experiment.name);
            }
            for amount in experiment.amounts {
                assert!(amount.fast.len() <= experiment.remedies.len(), "{}: {:?}", experiment.name, amount.of);
            }
            for (remedy, rows) in experiment.adds {
                assert!(experiment.remedies.contains(remedy) && !rows.is_empty(), "{}: {remedy}", experiment.name);
            }
            for remedy in experiment.saves_nothing {
                assert!(experiment.no_better.iter().any(|(other, _)| other == remedy), "{}: {remedy}", experiment.name);
            }
        }
    }

    /// The lengths here are set by the command line or by a constant, and are not published.
    #[test]
    fn chosen_lengths_are_declared() {
        for (name, length) in [
            ("ap-announce", "120 lines"),
            ("console-scroll", "300 lines"),
            ("console-uart", "3000 lines"),
            ("vmem-hash", "28 672"),
            ("frame-allocator", "3 services"),
            ("frame-recycling", "3 services"),
            ("pci-probe", "three cards"),
            ("tlb-shootdown", "1000 rounds"),
            ("signal-exit", "16 frames"),
            ("root-dax", "18 MiB"),
            ("key-derivation", "20 000"),
            ("frame-ownership", "16 frames"),
            ("syscall-path", "20 000 calls"),
            ("reset-wait", "the driver's pauses"),
            ("ps2-probe", "200 ms"),
            ("probe-work", "2048"),
        ] {
            assert!(Experiment::named(name).unwrap().chosen.contains(length), "{name}: {length}");
        }
    }

    #[test]
    fn only_experiments_judged_by_time_have_rows_to_blame() {
        for experiment in EXPERIMENTS {
            let is_judged_by_time = experiment.check.is_empty();
            assert_eq!(experiment.blamed.is_empty(), !is_judged_by_time, "{}", experiment.name);
        }
    }

    #[test]
    fn names_are_unique_and_found() {
        for experiment in EXPERIMENTS {
            assert!(Experiment::named(experiment.name).is_some_and(|named| core::ptr::eq(named, experiment)));
        }
        assert!(Experiment::named("page-arrays").is_none());
    }
}
