//! The phases of a boot, as types and not as names.
//!
//! Every phase that bootscope defines stands once in the table of [`Phase`], with its name in JSON, CSV and views. Code
//! that decides compares phases, and never looks at the beginning of a name.

use crate::{NameId, Names};
use std::borrow::Cow;

/// Makes [`Phase`] from one table of variant and name.
macro_rules! phases {
    ($($(#[$doc:meta])* $variant:ident = $name:expr,)*) => {
        /// A phase of a boot. A new one needs a line here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Phase {
            $($(#[$doc])* $variant,)*
            /// Initcalls of Linux.
            Initcalls(Initcalls),
            /// A phase that the evidence names.
            Other(NameId),
        }

        impl Phase {
            /// All phases with a fixed name.
            pub const ALL: &[Phase] = &[$(Phase::$variant),*];

            /// The name that programs use and that views show. Stored benches hold it, so a change needs a line in the
            /// benchmark crate's `of_today`. `names` are those of its timeline.
            pub fn name(self, names: &Names) -> Cow<'_, str> {
                Cow::Borrowed(match self {
                    $(Phase::$variant => $name,)*
                    Phase::Initcalls(which) => return Cow::Owned(format!("initcalls: {}", which.name(names))),
                    Phase::Other(name) => names.get(name),
                })
            }
        }
    };
}

phases! {
    /// Time that no evidence covers. There may be several stretches of it.
    Unexplained = "unexplained",
    /// The whole boot, if there are only samples.
    Sampled = "sampled",
    // The virtual machine monitor.
    /// The monitor's program is loaded.
    MonitorExec = "VMM: exec",
    /// Its libraries are linked.
    MonitorLinking = "VMM: linking",
    /// The monitor reads its options and greets.
    MonitorOptions = "VMM: options and monitor",
    /// The monitor creates all devices.
    MonitorDevices = "VMM: devices",
    /// The monitor starts the virtual CPUs.
    MonitorCpus = "VMM: start vCPUs",
    /// The monitor's whole start, where no evidence separates its steps.
    MonitorStart = "VMM: start",
    // A launch by libguestfs.
    /// libguestfs begins.
    LibguestfsLaunch = "libguestfs: launch",
    /// libguestfs builds its appliance.
    LibguestfsBuild = "libguestfs: build the appliance",
    /// libguestfs has built its appliance.
    LibguestfsBuilt = "libguestfs: appliance built",
    /// libguestfs queries QEMU's features.
    LibguestfsAskQemu = "libguestfs: ask QEMU for its features",
    /// libguestfs has QEMU's features.
    LibguestfsQemuKnown = "libguestfs: QEMU's features known",
    /// libguestfs connects to libvirt.
    LibvirtConnect = "libvirt: connect",
    /// libguestfs queries libvirt's capabilities.
    LibvirtCapabilities = "libvirt: capabilities",
    /// libguestfs writes libvirt's description of the machine to start.
    LibguestfsXml = "libguestfs: create libvirt XML",
    /// libvirt starts QEMU.
    LibvirtStart = "libvirt: start QEMU",
    /// libguestfs' daemon in its appliance.
    Guestfsd = "guestfsd",
    // Before the kernel.
    /// From the reset vector on.
    Firmware = "firmware",
    /// UEFI firmware before its first dispatcher: it unpacks the others.
    UefiSec = "firmware: SEC",
    /// UEFI firmware, the dispatcher that finds RAM.
    UefiPei = "firmware: PEI",
    /// UEFI firmware, the dispatcher of drivers.
    UefiDxe = "firmware: DXE",
    /// UEFI firmware chooses what to boot, and starts drivers for it.
    UefiBds = "firmware: BDS",
    /// The program that fetches the kernel.
    Loader = "loader",
    /// The kernel's real-mode part.
    SetupCode = "setup code",
    /// The code that unpacks the kernel and chooses its address.
    Decompressor = "decompressor",
    /// The kernel's own UEFI program, which places it.
    EfiStub = crate::EFI_STUB,
    /// All of these, where no evidence separates them.
    BeforeTheKernel = "before the kernel",
    // Linux.
    /// The kernel up to its first initcall.
    EarlyKernel = "early kernel",
    /// The kernel, from the first sign of it on.
    Kernel = "kernel",
    /// The kernel up to the hand-over, where no evidence shows when initcalls ran.
    KernelWithInitcalls = "kernel, initcalls not told apart",
    /// Between early initcalls and the others.
    StartOtherCpus = "start other CPUs",
    /// The time after the last initcall of an excerpt.
    AfterTheLastInitcall = "after the last initcall",
    /// From the kernel's last initcall to process 1.
    HandOver = "hand-over",
    // A BSD kernel.
    /// The first work of the kernel, for its machine.
    MachineDependentInit = "machine-dependent init",
    /// FreeBSD's `mi_startup`.
    Sysinits = "SYSINITs",
    /// NetBSD's `main`.
    NetbsdMain = "main",
    /// `start_init`.
    MountRoot = "mount root, process 1",
    /// The time after a gap in the log.
    AfterTheMissingPart = "after the missing part",
    /// User space: rc, and the processes that it starts.
    UserProcesses = "user processes",
    // User space.
    /// bootscope's process 1 loads modules and mounts the root, before the end mark.
    ModulesAndRoot = "modules and root",
    /// Process 1 runs.
    Process1 = "process 1",
    /// systemd in the initial RAM disk.
    Initrd = "initrd",
    /// User space starts again; the kernel does not.
    SoftReboot = "soft reboot",
    /// User space: by systemd's account, or from the program that process 1 becomes when it leaves the initrd.
    UserSpace = "user space",
    /// User space, with its file systems mounted and its devices present.
    AfterSysinit = "user space: after sysinit.target",
    /// User space, with its sockets, timers and paths present.
    AfterBasic = "user space: after basic.target",
    /// User space, with its services present.
    AfterMultiUser = "user space: after multi-user.target",
    /// The recorder went on watching a boot that never reached its end.
    NoFurtherSign = "no further sign",
    /// A hypervisor, until it starts the first guest's kernel.
    Hypervisor = "hypervisor",
}

impl Phase {
    /// The group that the phase and its neighbours form; `None` if it stands alone.
    pub fn family(self) -> Option<&'static str> {
        use Phase as P;
        match self {
            P::MonitorExec
            | P::MonitorLinking
            | P::MonitorOptions
            | P::MonitorDevices
            | P::MonitorCpus
            | P::MonitorStart => Some("VMM"),
            P::LibguestfsLaunch
            | P::LibguestfsBuild
            | P::LibguestfsBuilt
            | P::LibguestfsAskQemu
            | P::LibguestfsQemuKnown
            | P::LibguestfsXml => Some("libguestfs"),
            P::LibvirtConnect | P::LibvirtCapabilities | P::LibvirtStart => Some("libvirt"),
            P::UefiSec | P::UefiPei | P::UefiDxe | P::UefiBds => Some("firmware"),
            P::Initcalls(_) => Some("initcalls"),
            P::AfterSysinit | P::AfterBasic | P::AfterMultiUser => Some("user space"),
            _ => None,
        }
    }
}

/// The initcalls that a phase covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Initcalls {
    All,
    /// The initcalls that an excerpt of a log has.
    OfTheLog,
    /// The initcalls that run before other CPUs are started.
    Early,
    /// The initcalls that run after that.
    PureToLate,
    Level(NameId),
}

impl Initcalls {
    fn name(self, names: &Names) -> &str {
        match self {
            Initcalls::All => "all levels",
            Initcalls::OfTheLog => "those in the log",
            Initcalls::Early => "early",
            Initcalls::PureToLate => "pure to late",
            Initcalls::Level(level) => names.get(level),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Code never derives the family from the name; people do.
    #[test]
    fn a_family_is_what_its_phases_names_begin_with() {
        let names = Names::default();
        for phase in Phase::ALL.iter().copied().chain([Phase::Initcalls(Initcalls::All)]) {
            let name = phase.name(&names);
            assert_eq!(phase.family(), name.split_once(": ").map(|(family, _)| family), "{name}");
        }
    }

    #[test]
    fn each_phase_has_a_name_of_its_own() {
        let mut names = Names::default();
        let (fs, other) = (names.intern("fs"), names.intern("a phase of somebody else's"));
        let which =
            [Initcalls::All, Initcalls::OfTheLog, Initcalls::Early, Initcalls::PureToLate, Initcalls::Level(fs)];
        let all = Phase::ALL.iter().copied().chain(which.map(Phase::Initcalls)).chain([Phase::Other(other)]);
        let all: Vec<_> = all.map(|phase| phase.name(&names)).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        assert!(all.contains(&"initcalls: fs".into()) && all.contains(&"a phase of somebody else's".into()));
    }
}
