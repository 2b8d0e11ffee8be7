//! What bootchart's collectors log of a boot: who was there each few hundredths of a second, and how much CPU each had had.
//!
//! ```text
//! header              version = 0.14.9, title = Boot chart for …, system.cpu.num = 2
//! proc_ps.log         207                                       a sample: its time in 1/100 s, then /proc/PID/stat of each
//!                     1 (init) S 0 0 0 0 -1 4194560 191 …       process (proc(5)), then an empty line
//! taskstats.log       189                                       the same of bootchart2, from the kernel's taskstats:
//!                     95 1 sh 56000000 0 0                      pid, parent, name, ns on a CPU, ns for a disk, ns for swap;
//!                                                               a process that had nothing new is left out of a sample
//! proc_stat.log, proc_diskstats.log, proc_meminfo.log, cmdline2.log, kernel_pacct     of the machine as a whole, or a name's rest
//! ```
//! (bootchart2, `collector/collector.c` and `pybootchartgui/parsing.py`; Android, `system/core/init/bootchart.cpp`.) All lie in one tar
//! archive. Times are `/proc/uptime`'s, and so the kernel's clock, unless the collector was told to count from its own start
//! (`-r`): then processes seem to have started after they were seen, which is counted.
//!
//! systemd-bootchart samples too, and keeps its picture alone: `svg.rs` reads that back.
//!
//! What happens between two samples is not known. A process that came and went in between is missing; of the others a
//! stretch is on a CPU where the process had one for half of it. The sampling's interval is said with the result.

pub(crate) mod parse;
mod samples;
mod svg;

pub use samples::{Process, Samples, Stretch, Use};

use parse::Part;
use timeline::Diagnostics;

/// What diagnostics call it.
pub(crate) const NAME: &str = "bootchart";

impl Samples {
    /// Reads `proc_ps.log`, `taskstats.log` or a picture of systemd-bootchart's; none if the bytes are none of these.
    pub fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Option<Samples> {
        match parse::part(bytes)? {
            Part::Processes => Some(Samples::of_text(file, bytes, true, diagnostics)),
            Part::Taskstats => Some(Samples::of_text(file, bytes, false, diagnostics)),
            Part::Picture => svg::read(file, bytes, diagnostics),
            Part::Header | Part::Unused(_) => None,
        }
    }
}

/// What a file of a boot chart is, in words; none if it is none.
pub(crate) fn part_in_words(bytes: &[u8]) -> Option<&'static str> {
    Some(match parse::part(bytes)? {
        Part::Header => "boot chart (header)",
        Part::Processes => "boot chart (processes, /proc/PID/stat)",
        Part::Taskstats => "boot chart (processes, taskstats)",
        Part::Picture => "boot chart (systemd-bootchart's picture)",
        Part::Unused(what) => what,
    })
}
