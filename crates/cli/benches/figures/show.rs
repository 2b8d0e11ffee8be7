//! The time and memory of `bootscope show`, on a recording and on a million events.

use crate::BOOTSCOPE;
use crate::synthetic;
use crate::table::{MB, MS, Promise, Table, last_line};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub const RUNS: usize = 7;
const EVENTS: usize = 1_000_000;

/// Shows a recording that has only a trace of a million events and the kernel's first message.
pub fn synthetic(work: &Path, table: &mut Table) {
    let folder = work.join("synthetic");
    let made = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("trace.txt"), synthetic::trace(EVENTS)))
        .and_then(|()| fs::write(folder.join("kmsg.log"), "5,0,0,-;Linux version 0.0-synthetic (nobody@nowhere)\n"));
    match made {
        Ok(()) => {
            time("show, a million events", &folder, 1000.0, table);
            peak("show, a million events, peak memory", &folder, 300.0, table);
        }
        Err(e) => table.fail("show, a million events", &format!("{}: {e}", folder.display())),
    }
    // It is large, and quickly made again.
    let _ = fs::remove_dir_all(&folder);
}

/// Times `show` on a recording. The CPU time is printed too, for a machine with other load.
pub fn time(figure: &str, folder: &Path, limit_ms: f64, table: &mut Table) {
    let run = || {
        let start = Instant::now();
        let output = Command::new(BOOTSCOPE).arg("show").arg(folder).output().map_err(|e| e.to_string())?;
        let elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
        if output.status.success() { Ok(elapsed_ms) } else { Err(last_line(&output.stderr)) }
    };
    // The first run brings the file into the page cache.
    if let Err(why) = run() {
        return table.fail(figure, &why);
    }
    let before_ms = children_cpu_ms();
    let runs: Result<Vec<f64>, String> = (0..RUNS).map(|_| run()).collect();
    let cpu_ms = (children_cpu_ms() - before_ms) / RUNS as f64;
    match runs {
        Ok(ms) => table.add_all(figure, ms, MS, Promise::AtMost(limit_ms), &format!("CPU {cpu_ms:.0}")),
        Err(why) => table.fail(figure, &why),
    }
}

/// User and system time of all ended children, from `/proc/self/stat`, in hundredths of a second there.
pub fn children_cpu_ms() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is a name in brackets, which may contain spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() * 10.0
}

fn peak(figure: &str, folder: &Path, limit_mb: f64, table: &mut Table) {
    match peak_mb(Command::new(BOOTSCOPE).arg("show").arg(folder).stdout(Stdio::null())) {
        Ok(mb) => table.add(figure, mb, MB, Promise::AtMost(limit_mb), ""),
        Err(why) => table.fail(figure, &why),
    }
}

/// Runs a command to its end. Returns its peak resident set, polled while it runs. The kernel's figure for an ended
/// child also counts the memory of the parent that forked it.
pub fn peak_mb(command: &mut Command) -> Result<f64, String> {
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0.0;
    let ended = loop {
        if let Some(ended) = child.try_wait().map_err(|e| e.to_string())? {
            break ended;
        }
        let text = fs::read_to_string(&status).unwrap_or_default();
        let field = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = field.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse().ok());
        peak_kib = kib.unwrap_or(0.0_f64).max(peak_kib);
        std::thread::sleep(Duration::from_millis(1));
    };
    if ended.success() { Ok(peak_kib * 1024.0 / 1e6) } else { Err(format!("it ended with {ended}")) }
}
