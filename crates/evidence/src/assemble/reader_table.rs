//! The table of readers, and which one wins when two recognise the same evidence. Adding a reader is one line here.
//!
//! Files are read and evidence is placed in this order: a reader stands after those whose facts it needs. Each row says which facts a
//! reader provides and needs; a test checks the order, and each load in a debug build that readers do what their rows say. A file that two
//! readers might take goes to the one that recognises its lines for sure, then to the first in this table.
//!
//! It is data: it must look into no file, and no reader may be asked here what it read.

use crate::boot::FactKind;
use crate::readers::reader::Reader;
use crate::readers::{
    android_events, bootchart, bootstage, bootstat, boottimes, boottrace, calls, cbmem, devices_deferred, efi_loader,
    exits, firmware, first_executions, fpdt, ftrace, function_graph, guest_messages, guestfs, journal, kernel_log,
    perf_data, perf_script, perfetto_tracks, process_table, silence, stacks, symbols, systemd_analyze, tslog, uftrace,
    vmm, vmm_log, watched,
};
use timeline::DiagnosticKind;

fn open<R: Reader + Default + 'static>() -> Box<dyn Reader> {
    Box::new(R::default())
}

/// A format, what makes its reader, and the facts that this reader has in common with others.
pub(crate) struct Row {
    pub format: Format,
    pub open: fn() -> Box<dyn Reader>,
    /// The facts that it may change, and so look at too.
    pub provides: &'static [FactKind],
    /// The facts of readers above it that it looks at.
    pub needs: &'static [FactKind],
}

macro_rules! readers {
    ($($(#[$doc:meta])* $format:ident: $reader:ty, provides [$($provided:ident),*], needs [$($needed:ident),*];)*) => {
        /// A format that has a reader.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format {
            $($(#[$doc])* $format,)*
        }

        /// The table.
        pub(crate) static READERS: &[Row] = &[$(Row {
            format: Format::$format,
            open: open::<$reader>,
            provides: &[$(FactKind::$provided),*],
            needs: &[$(FactKind::$needed),*],
        },)*];
    };
}

readers! {
    /// The event log of a BSD kernel, or of one with bootscope's own recorder: [`crate::formats::tslog`].
    Tslog: tslog::Files, provides [Subject], needs [];
    /// The messages of process 1 of a recorded guest to the host: [`crate::formats::guest_messages`].
    GuestMessages: guest_messages::Files, provides [Process1], needs [];
    /// A launch as libguestfs' boot-analysis prints it: [`crate::formats::guestfs`].
    Guestfs: guestfs::Files, provides [Subject, HeardMessages], needs [];
    /// Lists of functions, such as `/proc/kallsyms`: [`crate::formats::symbols`].
    Symbols: symbols::Files, provides [Lists], needs [];
    /// Samples as `perf script` prints them: [`crate::formats::perf_script`].
    Samples: perf_script::Files, provides [], needs [Lists];
    /// The functions that vCPUs were in while the console was silent: [`crate::formats::silence`].
    Silence: silence::Files, provides [], needs [];
    /// The values of a variable at the entries of functions: [`crate::formats::watched`].
    Watched: watched::Files, provides [], needs [];
    /// Text of `/sys/kernel/tracing/trace`: [`crate::formats::ftrace`].
    Trace: ftrace::Files, provides [Subject], needs [];
    /// Calls as Linux' tracer of them prints them: [`crate::formats::function_graph`].
    FunctionGraph: function_graph::Files, provides [Subject], needs [];
    /// Samples and tracepoints in perf's own file: [`crate::formats::perf_data`].
    PerfData: perf_data::Files, provides [Subject], needs [Lists];
    /// Stacks with their counts: [`crate::formats::stacks`].
    Stacks: stacks::Files, provides [], needs [];
    /// The tracks of programs in a Perfetto trace: [`crate::formats::perfetto`].
    PerfettoTracks: perfetto_tracks::Files, provides [], needs [];
    /// Calls of programs: [`crate::formats::uftrace`].
    Uftrace: uftrace::Files, provides [], needs [];
    /// The first execution of each block of code: [`crate::formats::first_executions`].
    FirstExecutions: first_executions::Files, provides [FirstExecutions], needs [Lists];
    /// Accesses that leave the guest, by functions and call paths: [`crate::formats::exits`].
    Exits: exits::Files, provides [Exits], needs [];
    /// Every call: [`crate::formats::calls`].
    Calls: calls::Files, provides [Exits], needs [Lists, FirstExecutions];
    /// The journal: [`crate::formats::journal`].
    Journal: journal::Files, provides [JournalMessages, Container, Subject], needs [];
    /// Kernel messages in any dress: [`crate::formats::kernel_log`].
    KernelLog: kernel_log::Files, provides [Subject, Firmware], needs [HeardMessages, JournalMessages];
    /// Processes as bootchart's collectors sample them: [`crate::formats::bootchart`].
    Bootchart: bootchart::Files, provides [Subject], needs [];
    /// Events of a Chrome OS boot: [`crate::formats::bootstat`].
    Bootstat: bootstat::Files, provides [], needs [];
    /// The starts of Android's services: [`crate::formats::boottimes`].
    Boottimes: boottimes::Files, provides [], needs [];
    /// Events of a FreeBSD boot: [`crate::formats::boottrace`].
    Boottrace: boottrace::Files, provides [Subject], needs [];
    /// The progress of Android's boot: [`crate::formats::android_events`].
    AndroidEvents: android_events::Files, provides [], needs [];
    /// coreboot's timestamps: [`crate::formats::cbmem`].
    Cbmem: cbmem::Files, provides [], needs [];
    /// U-Boot's stages: [`crate::formats::bootstage`].
    Bootstage: bootstage::Files, provides [], needs [];
    /// UEFI's times of a boot: [`crate::formats::fpdt`].
    Fpdt: fpdt::Files, provides [], needs [];
    /// The times of an EFI boot loader: [`crate::formats::efi_loader`].
    EfiLoader: efi_loader::Files, provides [], needs [];
    /// Processes of a machine that was captured: [`crate::formats::process_table`].
    ProcessTable: process_table::Files, provides [Container], needs [];
    /// Devices that still wait for a probe: [`crate::formats::devices_deferred`].
    DevicesDeferred: devices_deferred::Files, provides [], needs [];
    /// Output of systemd-analyze: [`crate::formats::systemd_analyze`].
    SystemdAnalyze: systemd_analyze::Files, provides [Container, Subject], needs [];
    /// The virtual machine monitor, seen from the host: [`crate::formats::vmm`].
    Vmm: vmm::Files, provides [VcpusStarted], needs [];
    /// A virtual machine monitor's own log: [`crate::formats::vmm_log`].
    VmmLog: vmm_log::Files, provides [], needs [];
    /// The firmware's debug lines: [`crate::formats::firmware`].
    Firmware: firmware::Files, provides [Firmware], needs [];
}

/// The reader that wins if two have the same kind of evidence.
pub(crate) struct Precedence {
    /// The one that is used, if it has a boot's evidence.
    pub used: Format,
    /// The others, which are not read then.
    pub unread: &'static [Format],
    /// Said if any of these has a boot's evidence.
    pub note: DiagnosticKind,
}

/// A kernel's own log of its boot says all there is to say of its threads, and nothing joins another log to it.
pub(crate) const WHOLE_BOOTS: [Precedence; 1] = [Precedence {
    used: Format::Tslog,
    unread: &[
        Format::Trace,
        Format::FunctionGraph,
        Format::PerfData,
        Format::PerfettoTracks,
        Format::Uftrace,
        Format::KernelLog,
        Format::Guestfs,
        Format::FirstExecutions,
        Format::SystemdAnalyze,
        Format::Bootchart,
    ],
    note: DiagnosticKind::LinuxEvidenceBesideTslog,
}];

/// (A, B): if B recognises lines of a file, A does not get that file. Addresses in a kernel log look like symbols.
pub(crate) const YIELDS_TO: [(Format, Format); 1] = [(Format::Symbols, Format::KernelLog)];

/// (A, B): B also takes a file that is A's as a whole.
pub(crate) const SHARES: [(Format, Format); 1] = [(Format::Trace, Format::PerfettoTracks)];

/// The formats beside calls that show which thread ran: left out if a boot is to be shown by its calls alone.
pub(crate) const THREADS: [Format; 2] = [Format::Tslog, Format::Trace];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_provided_before_they_are_needed() {
        for (place, row) in READERS.iter().enumerate() {
            for need in row.needs {
                let above = &READERS[..place];
                assert!(above.iter().any(|other| other.provides.contains(need)), "{:?} needs {need:?}", row.format);
                let below = &READERS[place..];
                let late = below.iter().find(|other| other.provides.contains(need));
                assert!(late.is_none(), "{:?} is too late for {:?}", late.map(|row| row.format), row.format);
            }
        }
    }
}
