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
//! What happens between two samples is not known. A process that came and went in between is missing; of the others a
//! stretch is on a CPU where the process had one for half of it. The sampling's interval is said with the result.

mod parse;
mod place;
mod samples;

pub(crate) use place::Files;
pub use samples::{Process, Samples, Stretch, Use};

use parse::Part;
use timeline::Timeline;

/// What diagnostics call it.
const NAME: &str = "bootchart";

impl Samples {
    /// Alone on a timeline, for who wants to see what it gives without a recording.
    pub fn on_a_timeline(&self) -> Timeline {
        place::on_a_timeline(self)
    }
}

/// What a file of a boot chart is, in words; none if it is none.
fn part_in_words(bytes: &[u8]) -> Option<&'static str> {
    Some(match parse::part(bytes)? {
        Part::Header => "boot chart (header)",
        Part::Processes => "boot chart (processes, /proc/PID/stat)",
        Part::Taskstats => "boot chart (processes, taskstats)",
        Part::Unused(what) => what,
    })
}
