//! The kinds of work in spans and in profiles.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SpanKind {
    /// A part of the boot that is one piece of work (linking the VMM, decompressing).
    Stage,
    /// A level or other group of initcalls.
    Level,
    /// An initcall, a SYSINIT.
    Initcall,
    /// A module being loaded.
    Module,
    /// A driver's probe of a device.
    Probe,
    /// A driver's attaching to a device that its probe found.
    Attach,
    /// A file system being mounted.
    Mount,
    /// A work item or asynchronous call that one thread runs for another.
    Work,
    /// A function of the kernel.
    Call,
    /// An interrupt handler.
    Interrupt,
    /// A process, from exec to exit.
    Process,
    /// The stretch from one message to the next; only the text of the first one shows the work.
    Message,
}
