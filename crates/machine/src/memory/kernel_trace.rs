//! A Linux kernel's trace (ftrace's ring buffers), read out of the guest's memory from outside, as text in the form of
//! `/sys/kernel/tracing/trace`. Events that nothing is made of stand there by name alone.
//!
//! It needs nothing in the guest but a command line that switches events on (`trace_event=`): no process, no mount, no file
//! system. So a guest's own init can be recorded to the service that people wait for. What it needs of the kernel is in its
//! image: the table of its symbols, with variables (`CONFIG_KALLSYMS_ALL`), and its types ([`btf`], `CONFIG_DEBUG_INFO_BTF`). Debian's
//! kernels have both. Its VMCOREINFO note says where the kernel runs.
//!
//! [`ring`] reads the records, `trace_records` makes lines of them. Nothing in the guest's memory is trusted.

mod btf;
mod ring;

use std::collections::HashMap;
use std::io;

use object::read::{Object, ObjectSection};

use super::kernel_log::{Located, located};
use super::{PhysicalMemory, TaskList};
use crate::arch::paging::View;
use crate::kernel_image::{self, NoFunctions};
pub(super) use btf::Btf;
use trace_records::{Forms, Names, Printer, Stamps};

/// The variable of the trace that `trace_event=` writes into.
const TRACE: &str = "global_trace";
/// The variable that says how many CPUs there can be; a kernel for one CPU has none.
const CPUS: &str = "nr_cpu_ids";
/// A name in the guest is not longer.
const NAME_BYTES_MAX: usize = 64;
/// The clocks that a kernel's trace can have; it has about ten.
const CLOCKS_MAX: u64 = 64;

/// A trace.
pub struct KernelTrace {
    /// As the kernel prints it.
    pub text: Vec<u8>,
    /// The file `trace_clock`, with the clock in use in brackets; empty if it is not known.
    pub clock: String,
    /// How many were overwritten before this was read.
    pub overwritten: u64,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum NoTrace {
    /// There is no image.
    #[error("the kernel's image, by which its trace is found in memory, cannot be had: {0}")]
    NoKernel(NoFunctions),
    /// The image says too little.
    #[error("the kernel's image has no {0}, by which its trace is found in memory")]
    Image(&'static str),
    /// The image says where it is, and the guest does not.
    #[error(
        "the kernel has not written its VMCOREINFO note, which says where it runs: it does so among its initcalls, with \
         CONFIG_VMCORE_INFO; record with --trace none --append initcall_debug to have its log instead"
    )]
    NotLocated,
    /// The kernel keeps none.
    #[error("the kernel has no trace buffer: it ended before it made one")]
    NoBuffer,
    /// What is there is none.
    #[error("the kernel's trace cannot be read in memory: {0}")]
    Unreadable(#[from] io::Error),
}

/// Where the fields are that lead to the records.
struct Layout {
    array_buffer: u64,
    /// Up to 6.11; later kernels have as many buffers as their variable [`CPUS`] says.
    buffer_cpus: Option<u64>,
    buffer_buffers: u64,
    /// Since 6.8: how often a page of records is twice as long.
    buffer_page_order: Option<u64>,
    cpu_pages: u64,
    cpu_reader_page: u64,
    cpu_commit_page: u64,
    cpu_overrun: u64,
    page_list: u64,
    page_read: u64,
    page_data: u64,
    data_stamp: u64,
    data_used: u64,
    data_records: u64,
    clock_id: Option<u64>,
    event_number: u64,
}

impl Layout {
    fn of(btf: &Btf) -> Option<Layout> {
        let at = |structure: &str, field: &str| btf.field(structure, field).map(|field| field.offset as u64);
        Some(Layout {
            // `struct array_buffer` lies in `struct trace_array`, and points to the buffer.
            array_buffer: at("trace_array", "array_buffer")? + at("array_buffer", "buffer")?,
            buffer_cpus: at("trace_buffer", "cpus"),
            buffer_buffers: at("trace_buffer", "buffers")?,
            buffer_page_order: at("trace_buffer", "subbuf_order"),
            cpu_pages: at("ring_buffer_per_cpu", "pages")?,
            cpu_reader_page: at("ring_buffer_per_cpu", "reader_page")?,
            cpu_commit_page: at("ring_buffer_per_cpu", "commit_page")?,
            cpu_overrun: at("ring_buffer_per_cpu", "overrun")?,
            page_list: at("buffer_page", "list")?,
            page_read: at("buffer_page", "read")?,
            page_data: at("buffer_page", "page")?,
            data_stamp: at("buffer_data_page", "time_stamp")?,
            data_used: at("buffer_data_page", "commit")?,
            data_records: at("buffer_data_page", "data")?,
            clock_id: at("trace_array", "clock_id"),
            event_number: at("trace_event_call", "event")? + at("trace_event", "type")?,
        })
    }
}

/// What a kernel's image says of its trace, before any guest is looked at.
pub struct TraceImage {
    layout: Layout,
    forms: Forms,
    functions: Vec<(u64, String)>,
    variables: HashMap<String, u64>,
    tasks: Option<TaskList>,
}

impl TraceImage {
    /// Where it says that the guest's processes are.
    pub(crate) fn tasks(&self) -> Option<&TaskList> {
        self.tasks.as_ref()
    }

    /// Of a bzImage, or an ELF kernel. Linear in it.
    ///
    /// # Errors
    /// [`NoTrace::NoKernel`], or [`NoTrace::Image`] if it says too little.
    pub fn of(image: &[u8]) -> Result<TraceImage, NoTrace> {
        let elf = &*kernel_image::unpacked_image(image).map_err(NoTrace::NoKernel)?;
        const TYPES: NoTrace = NoTrace::Image("types (CONFIG_DEBUG_INFO_BTF)");
        let btf = types(elf).and_then(Btf::parse).ok_or(TYPES)?;
        let variables: HashMap<String, u64> =
            kernel_image::variables(elf).into_iter().map(|(address, name)| (name, address)).collect();
        if !variables.contains_key(TRACE) {
            return Err(NoTrace::Image("table of its variables (CONFIG_KALLSYMS_ALL), or no trace (CONFIG_TRACING)"));
        }
        Ok(TraceImage {
            layout: Layout::of(&btf)
                .ok_or(NoTrace::Image("ring buffers of a form that bootscope knows (Linux 5.6 to 6.12)"))?,
            forms: Forms::of(&btf)
                .ok_or(NoTrace::Image("records of a form that bootscope knows (Linux 5.6 to 6.12)"))?,
            functions: kernel_image::functions_of(elf),
            tasks: TaskList::of(&btf, &variables),
            variables,
        })
    }

    /// Reads the trace. The guest has to stand still, or what it writes meanwhile tears it. Linear in the memory that the guest
    /// touched, and in the trace.
    ///
    /// # Errors
    /// [`NoTrace`], if there is none in it.
    pub fn read(&self, memory: &dyn PhysicalMemory) -> Result<KernelTrace, NoTrace> {
        let Located { space, moved_by } = located(memory).ok_or(NoTrace::NotLocated)?;
        let view = View::new(memory, &space);
        let trace = self.variables.get(TRACE).map_or(0, |trace| trace.wrapping_add(moved_by));
        let buffer = view.read_u64(trace.wrapping_add(self.layout.array_buffer))?;
        if buffer == 0 {
            return Err(NoTrace::NoBuffer);
        }
        let cpus = match (self.layout.buffer_cpus, self.variables.get(CPUS)) {
            (Some(at), _) => view.read_u32(buffer.wrapping_add(at))?,
            (None, Some(variable)) => view.read_u32(variable.wrapping_add(moved_by))?,
            (None, None) => 1,
        };
        let records = ring::records(&view, &self.layout, buffer, cpus)?;
        let numbers = self.numbers(&view, moved_by);
        let names = Names::new(self.functions.clone(), moved_by);
        let (clock, in_ns) = self.clock(&view, trace, moved_by).unwrap_or_default();
        let stamps = if in_ns { Stamps::Microseconds } else { Stamps::Counter };
        Ok(KernelTrace {
            text: text(&records, Printer::new(&self.forms, &numbers, &names, stamps)),
            clock,
            overwritten: lost(&records),
        })
    }
    /// The number of each event in this kernel's records: they are given while it boots. The variable `event_x` describes the event x.
    fn numbers(&self, view: &View, moved_by: u64) -> HashMap<String, u16> {
        let events = self.variables.iter().filter_map(|(name, &address)| {
            let event = name.strip_prefix("event_").filter(|event| !event.starts_with("class_"))?;
            let number = view.read_u32(address.wrapping_add(moved_by).wrapping_add(self.layout.event_number)).ok()?;
            Some((event.to_owned(), u16::try_from(number).ok().filter(|&number| number > 0)?))
        });
        events.collect()
    }

    /// As the file `trace_clock` says it, up to the clock in use, and whether that counts nanoseconds: a table of a function, a name
    /// and that.
    fn clock(&self, view: &View, trace: u64, moved_by: u64) -> Option<(String, bool)> {
        const ENTRY_BYTES: u64 = 24;
        let table = self.variables.get("trace_clocks")?.wrapping_add(moved_by);
        let id = u64::from(view.read_u32(trace.wrapping_add(self.layout.clock_id?)).ok()?).min(CLOCKS_MAX);
        let mut names = Vec::new();
        for number in 0..=id {
            let entry = table.wrapping_add(ENTRY_BYTES * number);
            let name = text_at(view, view.read_u64(entry.wrapping_add(8)).ok()?)?;
            names.push(if number == id { format!("[{name}]") } else { name });
        }
        let in_ns = view.read_u32(table.wrapping_add(ENTRY_BYTES * id + 16)).ok()? != 0;
        Some((names.join(" ") + "\n", in_ns))
    }
}

/// The section of an image that has its types.
fn types(elf: &[u8]) -> Option<&[u8]> {
    let file = object::File::parse(elf).ok()?;
    file.section_by_name(".BTF")?.data().ok()
}

/// A text in the kernel's memory, if it is one.
fn text_at(view: &View, address: u64) -> Option<String> {
    let mut bytes = [0; NAME_BYTES_MAX];
    view.read(address, &mut bytes).ok()?;
    let end = memchr::memchr(0, &bytes)?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    text.chars().all(|c| c.is_ascii_graphic()).then(|| text.to_owned())
}

/// How many records were overwritten, of all CPUs.
fn lost(records: &ring::Records) -> u64 {
    records.overwritten.iter().fold(0, |sum, &of_cpu| sum.saturating_add(of_cpu))
}

/// The lines, below the heading that the kernel writes.
fn text(records: &ring::Records, mut printer: Printer) -> Vec<u8> {
    let record = |raw: &ring::Raw| &records.bytes[raw.from..raw.to];
    records.raw.iter().for_each(|raw| printer.learn(record(raw)));
    let overwritten = lost(records);
    let (kept, cpus) = (records.raw.len(), records.overwritten.len());
    let written = overwritten.saturating_add(kept as u64);
    let mut out = format!("# tracer: nop\n#\n# entries-in-buffer/entries-written: {kept}/{written}   #P:{cpus}\n#\n")
        .into_bytes();
    let mut unprinted = 0u64;
    let mut begun = vec![false; cpus];
    for raw in &records.raw {
        let cpu = raw.cpu as usize;
        let lost = records.overwritten[cpu];
        if !std::mem::replace(&mut begun[cpu], true) && lost > 0 {
            out.extend_from_slice(format!("CPU:{cpu} [LOST {lost} EVENTS]\n").as_bytes());
        }
        unprinted += u64::from(!printer.line(record(raw), raw.cpu, raw.stamp, &mut out));
    }
    if unprinted > 0 {
        out.extend_from_slice(format!("# {unprinted} records of kinds that are not known\n").as_bytes());
    }
    if records.damaged_pages > 0 {
        out.extend_from_slice(format!("# {} pages that contradict themselves\n", records.damaged_pages).as_bytes());
    }
    out
}
