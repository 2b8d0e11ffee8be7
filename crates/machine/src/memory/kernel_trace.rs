//! A Linux kernel's trace (ftrace's ring buffers), read out of the guest's memory from outside. The result is text in the form of
//! `/sys/kernel/tracing/trace`; an event that no analysis uses is printed by name alone.
//!
//! The guest needs only a command line that switches events on (`trace_event=`): no process, no mount, no file system. So a guest with its
//! own init can be recorded up to the service that matters. The kernel's image must have the table of its symbols with variables
//! (`CONFIG_KALLSYMS_ALL`) and its types ([`btf`](super::btf), `CONFIG_DEBUG_INFO_BTF`); Debian's kernels have both. The kernel's VMCOREINFO note says
//! where it runs.
//!
//! [`ring`] reads the records, and `trace_records` formats them as lines. Nothing in the guest's memory is trusted.

mod ring;

use std::collections::HashMap;
use std::io;

use object::read::{Object, ObjectSection};

use super::btf::Btf;
use super::kernel_log::{Located, located};
use super::{PhysicalMemory, TaskList};
use crate::arch::paging::{Space, View};
use crate::kernel_image::{self, NoFunctions};
use trace_records::{Field, Fields, Forms, Names, Printer, Stamps};

/// The variable of the trace that `trace_event=` writes into.
const TRACE: &str = "global_trace";
/// The variable with the number of possible CPUs; a kernel for one CPU does not have it.
const CPUS: &str = "nr_cpu_ids";
/// Upper bound for a name in the guest.
const MAX_NAME_BYTES: usize = 64;
/// Upper bound for the clocks of a kernel's trace; it has about ten.
const MAX_CLOCKS: u64 = 64;

/// A trace that was read from memory.
pub struct KernelTrace {
    /// The trace as the kernel prints it.
    pub text: Vec<u8>,
    /// The content of the file `trace_clock`, with the clock in use in brackets; empty if unknown.
    pub clock: String,
    /// The number of records that were overwritten before the read.
    pub overwritten: u64,
}

/// The reason why no trace could be read.
#[derive(Debug, thiserror::Error)]
pub enum NoTrace {
    /// There is no image.
    #[error("the kernel's image, by which its trace is found in memory, cannot be had: {0}")]
    NoKernel(NoFunctions),
    /// The image lacks data.
    #[error("the kernel's image has no {0}, by which its trace is found in memory")]
    Image(&'static str),
    /// The image has the data, but the guest does not say where the kernel runs.
    #[error(
        "the kernel has not written its VMCOREINFO note, which says where it runs: it does so among its initcalls, with \
         CONFIG_VMCORE_INFO"
    )]
    NotLocated,
    /// The kernel has no trace buffer.
    #[error("the kernel has no trace buffer: it ended before it made one")]
    NoBuffer,
    /// The memory does not contain a valid trace.
    #[error("the kernel's trace cannot be read in memory: {0}")]
    Unreadable(#[from] io::Error),
}

/// Offsets of the fields that lead to the records.
struct Layout {
    array_buffer: u64,
    /// Up to 6.11; later kernels have as many buffers as their variable [`CPUS`] says.
    buffer_cpus: Option<u64>,
    buffer_buffers: u64,
    /// Since 6.8: the binary logarithm of the pages in a page of records.
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

/// Data about the trace from a kernel's image, gathered before any guest is read.
pub struct TraceImage {
    layout: Layout,
    forms: Forms,
    functions: Vec<(u64, String)>,
    variables: HashMap<String, u64>,
    tasks: Option<TaskList>,
}

impl TraceImage {
    /// Places of the guest's process list, if the image has them.
    pub(crate) fn tasks(&self) -> Option<&TaskList> {
        self.tasks.as_ref()
    }

    /// Reads a bzImage or an ELF kernel. Linear in its size.
    ///
    /// # Errors
    /// [`NoTrace::NoKernel`], or [`NoTrace::Image`] if it lacks data.
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

    /// Reads the trace. The guest must stand still; otherwise its writes tear the trace. Linear in the touched memory and in the trace.
    ///
    /// # Errors
    /// [`NoTrace`] if there is no trace in it.
    pub fn read(&self, memory: &dyn PhysicalMemory) -> Result<KernelTrace, NoTrace> {
        let Located { space, moved_by } = located(memory).ok_or(NoTrace::NotLocated)?;
        self.read_in(&View::new(memory, &space), moved_by)
    }

    /// Reads the trace of a kernel that runs at a known distance from its linked address.
    fn read_in(&self, view: &View, moved_by: u64) -> Result<KernelTrace, NoTrace> {
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
        let records = ring::records(view, &self.layout, buffer, cpus)?;
        let numbers = self.numbers(view, moved_by);
        let names = Names::new(self.functions.clone(), moved_by);
        let (clock, in_ns) = self.clock(view, trace, moved_by).unwrap_or_default();
        let stamps = if in_ns { Stamps::Microseconds } else { Stamps::Counter };
        Ok(KernelTrace {
            text: text(&records, Printer::new(&self.forms, &numbers, &names, stamps)),
            clock,
            overwritten: lost(&records),
        })
    }

    /// Event numbers in this kernel's records, which the kernel assigns while it boots. The variable `event_x` describes the event x.
    fn numbers(&self, view: &View, moved_by: u64) -> HashMap<String, u16> {
        let events = self.variables.iter().filter_map(|(name, &address)| {
            let event = name.strip_prefix("event_").filter(|event| !event.starts_with("class_"))?;
            let number = view.read_u32(address.wrapping_add(moved_by).wrapping_add(self.layout.event_number)).ok()?;
            Some((event.to_owned(), u16::try_from(number).ok().filter(|&number| number > 0)?))
        });
        events.collect()
    }

    /// The content of the file `trace_clock` up to the clock in use, and true if that clock counts nanoseconds. The kernel's table has a
    /// function, a name and that flag for each clock.
    fn clock(&self, view: &View, trace: u64, moved_by: u64) -> Option<(String, bool)> {
        const ENTRY_BYTES: u64 = 24;
        let table = self.variables.get("trace_clocks")?.wrapping_add(moved_by);
        let id = u64::from(view.read_u32(trace.wrapping_add(self.layout.clock_id?)).ok()?).min(MAX_CLOCKS);
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

/// The layout of hand-made memory, for tests and the fuzz target.
const MADE: Layout = Layout {
    array_buffer: 0,
    buffer_cpus: None,
    buffer_buffers: 8,
    buffer_page_order: None,
    cpu_pages: 0,
    cpu_reader_page: 8,
    cpu_commit_page: 16,
    cpu_overrun: 24,
    page_list: 0,
    page_read: 16,
    page_data: 24,
    data_stamp: 0,
    data_used: 8,
    data_records: 16,
    clock_id: Some(8),
    event_number: 0,
};

/// Addresses of the variables in that memory.
const MADE_VARIABLES: [(&str, u64); 4] =
    [(TRACE, 0x80), (CPUS, 0x90), ("event_sched_switch", 0xa0), ("trace_clocks", 0xc0)];

/// Offsets of every field in its record: the common fields and those of a switch, without padding. The fields of other events overlap.
struct MadeFields;

const MADE_SWITCH: [(&str, Field); 6] = [
    ("prev_comm", Field { offset: 8, bytes: 16 }),
    ("prev_pid", Field { offset: 24, bytes: 4 }),
    ("prev_prio", Field { offset: 28, bytes: 4 }),
    ("next_comm", Field { offset: 32, bytes: 16 }),
    ("next_pid", Field { offset: 48, bytes: 4 }),
    ("next_prio", Field { offset: 52, bytes: 4 }),
];

impl Fields for MadeFields {
    fn common(&self, field: &str) -> Option<Field> {
        let (offset, bytes) = match field {
            "type" => (0, 2),
            "flags" => (2, 1),
            "preempt_count" => (3, 1),
            _ => (4, 4),
        };
        Some(Field { offset, bytes })
    }

    fn own(&self, _event: &str, _structure: &str, field: &str) -> Option<Field> {
        let of_switch = |name: &str| MADE_SWITCH.iter().find(|(known, _)| *known == name).map(|(_, place)| *place);
        // The texts of a switch are stored in it.
        if field.strip_prefix("__data_loc_").and_then(of_switch).is_some() {
            return None;
        }
        of_switch(field).or(Some(Field { offset: 8 + field.len(), bytes: 4 }))
    }
}

/// Reads the trace in hand-made memory, in which all addresses are physical. It is for the fuzz target, which has no kernel image.
///
/// # Errors
/// Those of [`TraceImage::read`].
#[doc(hidden)]
pub fn made_trace(memory: &dyn PhysicalMemory) -> Result<KernelTrace, NoTrace> {
    const SPACE: Space = Space::Shifted { image: None, other: Some(0) };
    let image = TraceImage {
        layout: MADE,
        forms: Forms::of(&MadeFields).ok_or(NoTrace::Image("records"))?,
        functions: Vec::new(),
        variables: MADE_VARIABLES.map(|(name, at)| (name.to_owned(), at)).into(),
        tasks: None,
    };
    image.read_in(&View::new(memory, &SPACE), 0)
}

/// The section of an image that has its types.
fn types(elf: &[u8]) -> Option<&[u8]> {
    let file = object::File::parse(elf).ok()?;
    file.section_by_name(".BTF")?.data().ok()
}

/// A printable text in the kernel's memory, if there is one.
fn text_at(view: &View, address: u64) -> Option<String> {
    let mut bytes = [0; MAX_NAME_BYTES];
    view.read(address, &mut bytes).ok()?;
    let end = memchr::memchr(0, &bytes)?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    text.chars().all(|c| c.is_ascii_graphic()).then(|| text.to_owned())
}

/// The number of overwritten records on all CPUs.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::image::Image;

    /// A switch from this thread, with the fields of [`MadeFields`].
    fn switch(pid: u32, comm: &str) -> [u8; 56] {
        let mut record = [0; 56];
        record[0] = 7;
        let place = |field: &str| MADE_SWITCH.iter().find(|(known, _)| *known == field).unwrap().1.offset;
        for at in [4, place("prev_pid")] {
            record[at..at + 4].copy_from_slice(&pid.to_le_bytes());
        }
        let at = place("prev_comm");
        record[at..at + comm.len()].copy_from_slice(comm.as_bytes());
        record
    }

    /// Two CPUs, one of which has a buffer of two pages; the second page is in use.
    fn memory() -> Image {
        let mut image = Image::new(0, 0x1000);
        let (trace, buffer, buffers, cpu, pages) = (0x80, 0x100, 0x140, 0x180, [0x1c0, 0x200]);
        let variable = |name: &str| MADE_VARIABLES.iter().find(|(known, _)| *known == name).unwrap().1;
        image.put_u64(trace, buffer);
        image.put_u64(trace + 8, 1); // the second clock
        image.put(variable(CPUS), &2u32.to_le_bytes());
        image.put(variable("event_sched_switch"), &7u32.to_le_bytes());
        for (entry, name, in_ns) in [(0, 0x240, 1), (1, 0x248, 0)] {
            let at = variable("trace_clocks") + 24 * entry;
            image.put_u64(at + 8, name);
            image.put(at + 16, &u32::to_le_bytes(in_ns));
        }
        image.put(0x240, b"local");
        image.put(0x248, b"x86-tsc");
        image.put_u64(buffer + MADE.buffer_buffers, buffers);
        image.put_u64(buffers, cpu);
        let [first, second] = pages;
        for (field, value) in [(MADE.cpu_pages, first), (MADE.cpu_commit_page, second), (MADE.cpu_overrun, 5)] {
            image.put_u64(cpu + field, value);
        }
        for (page, next, data, stamp, text) in
            [(first, second, 0x400, 1000, ["a", "b"]), (second, first | 1, 0x600, 2000, ["c", "d"])]
        {
            image.put_u64(page, next);
            image.put_u64(page + MADE.page_data, data);
            let one = |comm: &str| [&(10u32 << 5 | 14).to_le_bytes()[..], &switch(9, comm)].concat();
            let records = text.map(one).concat();
            image.put_u64(data, stamp);
            image.put_u64(data + MADE.data_used, records.len() as u64);
            image.put(data + MADE.data_records, &records);
        }
        image
    }

    const SEED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/kernel_trace/two-pages");

    /// The fuzz target starts from this memory. `BLESS=1` writes its seed.
    #[test]
    fn a_trace_in_memory_is_text() {
        let mut memory = memory();
        let trace = made_trace(&memory).unwrap();
        assert_eq!((trace.clock.as_str(), trace.overwritten), ("local [x86-tsc]\n", 5));
        let text = String::from_utf8(trace.text).unwrap();
        assert!(
            text.contains("entries-in-buffer/entries-written: 4/9   #P:2\n") && text.contains("CPU:0 [LOST 5 EVENTS]")
        );
        let events: Vec<&str> = text.lines().filter(|line| line.contains("sched_switch: prev_comm=")).collect();
        assert_eq!(events.len(), 4, "{text}");
        for (event, (stamp, comm)) in events.iter().zip([(1010, "a"), (1020, "b"), (2010, "c"), (2020, "d")]) {
            assert!(event.contains(&format!("{stamp}: sched_switch: prev_comm={comm} ")), "{event}");
        }
        if std::env::var_os("BLESS").is_some() {
            std::fs::create_dir_all(std::path::Path::new(SEED).parent().unwrap()).unwrap();
            std::fs::write(SEED, memory.bytes_mut()).unwrap();
        }
        assert_eq!(std::fs::read(SEED).unwrap(), memory.bytes_mut(), "the seed is this memory");
    }

    #[test]
    fn a_kernel_that_made_no_buffer_yet() {
        let mut memory = memory();
        memory.put_u64(0x80, 0);
        assert!(matches!(made_trace(&memory), Err(NoTrace::NoBuffer)));
        memory.put_u64(0x80, 0x10_0000);
        assert!(matches!(made_trace(&memory), Err(NoTrace::Unreadable(_))));
    }
}
