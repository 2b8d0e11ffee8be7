//! The table of readers, and which one wins when two recognise the same evidence. Adding a reader is one line here.
//!
//! Files are read and evidence is placed in this order: a reader stands after those that it builds on. A file that two
//! readers might take goes to the one that recognises its lines for sure, then to the first in this table.
//!
//! It is data: it must look into no file, and no reader may be asked here what it read.

use crate::readers::reader::Reader;
use crate::readers::{
    bootchart, bootstage, bootstat, boottimes, calls, cbmem, efi_loader, firmware, first_executions, fpdt, ftrace,
    function_graph, guest_messages, guestfs, journal, kernel_log, perf_data, perf_script, process_table, silence,
    symbols, systemd_analyze, tslog, uftrace, vmm, watched,
};
use timeline::DiagnosticKind;

fn open<R: Reader + Default + 'static>() -> Box<dyn Reader> {
    Box::new(R::default())
}

macro_rules! readers {
    ($($(#[$doc:meta])* $format:ident: $reader:ty,)*) => {
        /// A format that has a reader.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format {
            $($(#[$doc])* $format,)*
        }

        /// Each format, and what makes its reader.
        pub(crate) static READERS: &[(Format, fn() -> Box<dyn Reader>)] = &[$((Format::$format, open::<$reader>),)*];
    };
}

readers! {
    /// The event log of a BSD kernel, or of one with bootscope's own recorder: [`crate::formats::tslog`].
    Tslog: tslog::Files,
    /// What process 1 of a recorded guest says to the host: [`crate::formats::guest_messages`].
    GuestMessages: guest_messages::Files,
    /// A launch as libguestfs' boot-analysis prints it: [`crate::formats::guestfs`].
    Guestfs: guestfs::Files,
    /// Lists of functions, such as `/proc/kallsyms`: [`crate::formats::symbols`].
    Symbols: symbols::Files,
    /// Samples as `perf script` prints them: [`crate::formats::perf_script`].
    Samples: perf_script::Files,
    /// Where vCPUs were while the console was silent: [`crate::formats::silence`].
    Silence: silence::Files,
    /// What a variable was where functions were entered: [`crate::formats::watched`].
    Watched: watched::Files,
    /// Text of `/sys/kernel/tracing/trace`: [`crate::formats::ftrace`].
    Trace: ftrace::Files,
    /// Calls as Linux' tracer of them prints them: [`crate::formats::function_graph`].
    FunctionGraph: function_graph::Files,
    /// Samples and tracepoints in perf's own file: [`crate::formats::perf_data`].
    PerfData: perf_data::Files,
    /// Calls of programs: [`crate::formats::uftrace`].
    Uftrace: uftrace::Files,
    /// When each block of code ran first: [`crate::formats::first_executions`].
    FirstExecutions: first_executions::Files,
    /// Every call: [`crate::formats::calls`].
    Calls: calls::Files,
    /// What journald kept: [`crate::formats::journal`].
    Journal: journal::Files,
    /// Kernel messages in any dress: [`crate::formats::kernel_log`].
    KernelLog: kernel_log::Files,
    /// Processes as bootchart's collectors sample them: [`crate::formats::bootchart`].
    Bootchart: bootchart::Files,
    /// Events of a Chrome OS boot: [`crate::formats::bootstat`].
    Bootstat: bootstat::Files,
    /// When Android's services were started: [`crate::formats::boottimes`].
    Boottimes: boottimes::Files,
    /// coreboot's timestamps: [`crate::formats::cbmem`].
    Cbmem: cbmem::Files,
    /// U-Boot's stages: [`crate::formats::bootstage`].
    Bootstage: bootstage::Files,
    /// UEFI's times of a boot: [`crate::formats::fpdt`].
    Fpdt: fpdt::Files,
    /// When an EFI boot loader ran: [`crate::formats::efi_loader`].
    EfiLoader: efi_loader::Files,
    /// Processes of a machine that was captured: [`crate::formats::process_table`].
    ProcessTable: process_table::Files,
    /// What systemd-analyze prints: [`crate::formats::systemd_analyze`].
    SystemdAnalyze: systemd_analyze::Files,
    /// What the host saw of the virtual machine monitor: [`crate::formats::vmm`].
    Vmm: vmm::Files,
    /// The firmware's debug lines: [`crate::formats::firmware`].
    Firmware: firmware::Files,
}

/// Which reader wins when two have the same kind of evidence.
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

/// Who says which thread ran when, beside calls: left out where a boot is to be shown by its calls alone.
pub(crate) const THREADS: [Format; 2] = [Format::Tslog, Format::Trace];
