//! The phases of a boot, by what they are and not by what they are called.
//!
//! Every phase that bootscope knows stands once, in the table of [`Phase`], with the name that JSON and CSV know it by and
//! that views show. Decisions compare phases. What another name begins with says nothing.

use crate::{NameId, Names};
use std::borrow::Cow;

/// Makes [`Phase`] of one table: variant, name.
macro_rules! phases {
    ($($(#[$doc:meta])* $variant:ident = $name:expr,)*) => {
        /// A phase of a boot. A new one is a line here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Phase {
            $($(#[$doc])* $variant,)*
            /// Initcalls of Linux.
            Initcalls(Initcalls),
            /// One that the evidence brings a name for.
            Other(NameId),
        }

        impl Phase {
            /// All that have one name.
            pub const ALL: &[Phase] = &[$(Phase::$variant),*];

            /// The name that programs know it by, and that views show. Stored benches hold it, so
            /// a change needs a line in the benchmark crate's `of_today`. `names` are those of its timeline.
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
    /// Time that no evidence reaches. There may be several stretches of it.
    Unexplained = "unexplained",
    /// Where there are samples and nothing else: all of it.
    Sampled = "sampled",
    // The virtual machine monitor.
    /// The monitor's program is loaded.
    MonitorExec = "VMM: exec",
    /// Its libraries are linked.
    MonitorLinking = "VMM: linking",
    /// It reads its options and greets.
    MonitorOptions = "VMM: options and monitor",
    /// It makes all devices.
    MonitorDevices = "VMM: devices",
    /// It starts the virtual CPUs.
    MonitorCpus = "VMM: start vCPUs",
    /// All of the monitor's start, where nothing tells its steps.
    MonitorStart = "VMM: start",
    // A launch by libguestfs.
    /// libguestfs begins.
    LibguestfsLaunch = "libguestfs: launch",
    /// It builds its appliance.
    LibguestfsBuild = "libguestfs: build the appliance",
    /// It has built it.
    LibguestfsBuilt = "libguestfs: appliance built",
    /// It asks QEMU what it can do.
    LibguestfsAskQemu = "libguestfs: ask QEMU for its features",
    /// It knows that.
    LibguestfsQemuKnown = "libguestfs: QEMU's features known",
    /// It connects to libvirt.
    LibvirtConnect = "libvirt: connect",
    /// It asks libvirt what it can do.
    LibvirtCapabilities = "libvirt: capabilities",
    /// It writes what libvirt is to start.
    LibguestfsXml = "libguestfs: create libvirt XML",
    /// libvirt starts QEMU.
    LibvirtStart = "libvirt: start QEMU",
    /// libguestfs' daemon in its appliance.
    Guestfsd = "guestfsd",
    // Before the kernel.
    /// From the reset vector on.
    Firmware = "firmware",
    /// What fetches the kernel.
    Loader = "loader",
    /// The kernel's real-mode part.
    SetupCode = "setup code",
    /// Unpacks the kernel and chooses where it goes.
    Decompressor = "decompressor",
    /// The kernel's own UEFI program, which places it.
    EfiStub = crate::EFI_STUB,
    /// All of these, where nothing tells them apart.
    BeforeTheKernel = "before the kernel",
    // Linux.
    /// The kernel up to its first initcall.
    EarlyKernel = "early kernel",
    /// The kernel from its first sign on.
    Kernel = "kernel",
    /// The kernel up to the hand-over, where nothing says when initcalls ran.
    KernelWithInitcalls = "kernel, initcalls not told apart",
    /// Between early initcalls and the others.
    StartOtherCpus = "start other CPUs",
    /// What follows the last initcall of an excerpt.
    AfterTheLastInitcall = "after the last initcall",
    /// From the kernel's last initcall to process 1.
    HandOver = "hand-over",
    // A BSD kernel.
    /// What the kernel does for its machine first.
    MachineDependentInit = "machine-dependent init",
    /// FreeBSD's `mi_startup`.
    Sysinits = "SYSINITs",
    /// NetBSD's `main`.
    NetbsdMain = "main",
    /// `start_init`.
    MountRoot = "mount root, process 1",
    /// What follows a gap of the log.
    AfterTheMissingPart = "after the missing part",
    /// The user's part: rc, and what it starts.
    UserProcesses = "user processes",
    // User space.
    /// bootscope's process 1 loads modules and mounts the root, before the end mark.
    ModulesAndRoot = "modules and root",
    /// Process 1 runs.
    Process1 = "process 1",
    /// systemd in the initial RAM disk.
    Initrd = "initrd",
    /// User space starts again, the kernel does not.
    SoftReboot = "soft reboot",
    /// User space: by systemd's account, or from the program that process 1 becomes when it leaves the initrd.
    UserSpace = "user space",
    /// Its file systems are mounted and its devices are there.
    AfterSysinit = "user space: after sysinit.target",
    /// Its sockets, timers and paths are there.
    AfterBasic = "user space: after basic.target",
    /// Its services are there.
    AfterMultiUser = "user space: after multi-user.target",
    /// A boot that never reached its end was watched on.
    NoFurtherSign = "no further sign",
}

impl Phase {
    /// What it and its neighbours are parts of; none if it stands for itself.
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
            P::Initcalls(_) => Some("initcalls"),
            P::AfterSysinit | P::AfterBasic | P::AfterMultiUser => Some("user space"),
            _ => None,
        }
    }
}

/// Which initcalls a phase is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Initcalls {
    /// All of them.
    All,
    /// Those that an excerpt of a log has.
    OfTheLog,
    /// Those that run before other CPUs are started.
    Early,
    /// Those that run after that.
    PureToLate,
    /// Those of one level.
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

    /// No decision reads it from the name; people do.
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
