//! Logs of bootchart's collectors: samples of the processes of a boot, every few hundredths of a second, with the CPU
//! time of each.
//!
//! ```text
//! header              version = 0.14.9, title = Boot chart for …, system.cpu.num = 2
//! proc_ps.log         207                                       a sample: its time in 1/100 s, then /proc/PID/stat of each
//!                     1 (init) S 0 0 0 0 -1 4194560 191 …       process (proc(5)), then an empty line
//! taskstats.log       189                                       the same of bootchart2, from the kernel's taskstats:
//!                     95 1 sh 56000000 0 0                      pid, parent, name, ns on a CPU, ns for a disk, ns for swap;
//!                                                               a sample leaves out processes with nothing new
//! proc_stat.log, proc_diskstats.log, proc_meminfo.log, cmdline2.log, kernel_pacct     figures of the machine, or names
//! ```
//! (bootchart2, `collector/collector.c` and `pybootchartgui/parsing.py`; Android, `system/core/init/bootchart.cpp`.)
//! All files lie in one tar archive. Times are those of `/proc/uptime`, so they are on the kernel's clock. With its
//! option `-r`, the collector counts from its own start: then processes seem to have started after they were seen,
//! which is counted.
//!
//! systemd-bootchart samples too, and keeps only its picture: `svg.rs` reads the samples back from it.
//!
//! Events between two samples are not known. A process that began and ended between them is missing. For other
//! processes, the time between two samples counts as on a CPU if the process had one for at least half of it. A
//! diagnostic states the sampling interval.

pub(crate) mod parse;
mod samples;
mod svg;

pub use samples::{Process, Samples, Stretch, Use};

use parse::Part;
use timeline::Diagnostics;

/// The name of this evidence in diagnostics.
pub(crate) const NAME: &str = "bootchart";

impl Samples {
    /// Reads `proc_ps.log`, `taskstats.log` or a picture of systemd-bootchart. Returns `None` for other bytes.
    pub fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Option<Samples> {
        match parse::part(bytes)? {
            Part::Processes => Some(Samples::of_text(file, bytes, true, diagnostics)),
            Part::Taskstats => Some(Samples::of_text(file, bytes, false, diagnostics)),
            Part::Picture => svg::read(file, bytes, diagnostics),
            Part::Header | Part::Unused(_) => None,
        }
    }
}

/// The kind of a boot chart's file, in words; `None` if it is not one.
pub(crate) fn part_in_words(bytes: &[u8]) -> Option<&'static str> {
    Some(match parse::part(bytes)? {
        Part::Header => "boot chart (header)",
        Part::Processes => "boot chart (processes, /proc/PID/stat)",
        Part::Taskstats => "boot chart (processes, taskstats)",
        Part::Picture => "boot chart (systemd-bootchart's picture)",
        Part::Unused(what) => what,
    })
}
