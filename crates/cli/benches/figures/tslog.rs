//! A TSLOG to a flame chart: a full buffer, a short log, and ten million records, beside the public scripts if
//! `BOOTSCOPE_TSLOG_SCRIPTS` names a folder with them (freebsd-boot-profiling; they have no licence, so they are not here).

use crate::BOOTSCOPE;
use crate::show::{RUNS, children_cpu_ms, peak_mb};
use crate::table::{MB, MS, Promise, RATIO, Table, last_line};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// A kernel's buffer, full.
const FULL: usize = 262_144;
const SHORT: usize = 12_000;
const MANY: usize = 10_000_000;
/// The scripts took 23.7 s for a full log where the promise was made; this is the 500th part.
const FULL_MS: f64 = 47.0;

/// All figures of this part.
pub fn measure(work: &Path, table: &mut Table) {
    let folder = work.join("tslog");
    let measured = fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()));
    if let Err(why) = measured.and_then(|()| all(&folder, table)) {
        table.fail("TSLOG", &why);
    }
    let _ = fs::remove_dir_all(&folder);
}

fn all(folder: &Path, table: &mut Table) -> Result<(), String> {
    let full = to_svg(folder, FULL, FULL_MS, table)?;
    to_svg(folder, SHORT, 10.0, table)?;
    let recording = imported(folder, MANY)?;
    let start = Instant::now();
    let peak = peak_mb(Command::new(BOOTSCOPE).args(["export", "--to", "svg"]).arg(&recording).stdout(Stdio::null()))?;
    let many_ms = start.elapsed().as_secs_f64() * 1e3;
    let per_record = (many_ms / MANY as f64) / (full / FULL as f64);
    table.add("TSLOG, 10⁷ records, time a record ÷ a full log's", per_record, RATIO, Promise::AtMost(1.5), "");
    table.add("TSLOG, 10⁷ records, peak memory", peak, MB, Promise::AtMost(1500.0), "");
    match scripts(folder) {
        Some(took) => {
            table.add("TSLOG, the public scripts ÷ ours", took? * 1e3 / full, RATIO, Promise::AtLeast(500.0), "")
        }
        None => table.skip("TSLOG, the public scripts ÷ ours", "BOOTSCOPE_TSLOG_SCRIPTS names no folder with tslog.sh"),
    }
    Ok(())
}

/// Times the export of a log with so many records; the median, in milliseconds.
fn to_svg(folder: &Path, records: usize, limit_ms: f64, table: &mut Table) -> Result<f64, String> {
    let recording = imported(folder, records)?;
    let svg = folder.join("boot.svg");
    let mut export = Command::new(BOOTSCOPE);
    export.args(["export", "--to", "svg", "--force", "-o"]).arg(&svg).arg(&recording);
    timed(&mut export)?;
    let before_ms = children_cpu_ms();
    let mut runs = (0..RUNS).map(|_| timed(&mut export)).collect::<Result<Vec<f64>, String>>()?;
    let cpu_ms = (children_cpu_ms() - before_ms) / RUNS as f64;
    let figure = format!("TSLOG, {records} records to SVG");
    table.add_all(&figure, runs.clone(), MS, Promise::AtMost(limit_ms), &format!("CPU {cpu_ms:.0}"));
    runs.sort_by(f64::total_cmp);
    Ok(runs[runs.len() / 2])
}

fn timed(command: &mut Command) -> Result<f64, String> {
    let start = Instant::now();
    let output = command.output().map_err(|e| e.to_string())?;
    if output.status.success() { Ok(start.elapsed().as_secs_f64() * 1e3) } else { Err(last_line(&output.stderr)) }
}

/// A recording of a made log.
fn imported(folder: &Path, records: usize) -> Result<std::path::PathBuf, String> {
    let (text, recording) = (folder.join("tslog.txt"), folder.join(records.to_string()));
    fs::write(&text, log(records)).map_err(|e| format!("{}: {e}", text.display()))?;
    let mut import = Command::new(BOOTSCOPE);
    timed(import.args(["import", "--tsc-frequency", "1GHz", "-o"]).arg(&recording).arg(&text))?;
    Ok(recording)
}

/// A log in the shape of a boot's: SYSINITs, functions called up to ten deep, a thread in seven that the boot waits for.
fn log(records: usize) -> String {
    let mut text = String::with_capacity(records * 34);
    let (mut ticks, mut state) = (1_000_000_u64, 42_u64);
    let mut record = |thread: u64, what: &str| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ticks += state >> 54;
        // Writing to a string does not fail.
        let _ = writeln!(text, "0x{thread:x} {ticks} {what}");
        state >> 33
    };
    record(0xffff_ffff_8251_db00, "ENTER mi_startup");
    let (mut depth, mut open, mut left) = (0, [0_u64; 10], records.saturating_sub(4));
    while left > depth {
        let chance = record(
            0xffff_ffff_8251_db00,
            &match depth {
                0 => format!("ENTER SYSINIT s{}", left % 400),
                _ => format!("ENTER f{}", left % 3_000),
            },
        );
        open[depth] = left as u64;
        (depth, left) = (depth + 1, left - 1);
        let leave = if depth == open.len() { depth } else { (chance % 4) as usize % (depth + 1) };
        for _ in 0..leave.min(left) {
            (depth, left) = (depth - 1, left - 1);
            let name = match depth {
                0 => format!("EXIT SYSINIT s{}", open[0] % 400),
                _ => format!("EXIT f{}", open[depth] % 3_000),
            };
            record(0xffff_ffff_8251_db00, &name);
        }
    }
    while depth > 0 {
        depth -= 1;
        let (kind, modulus) = if depth == 0 { ("SYSINIT s", 400) } else { ("f", 3_000) };
        record(0xffff_ffff_8251_db00, &format!("EXIT {kind}{}", open[depth] % modulus));
    }
    record(0xffff_ffff_8251_db00, "EXIT mi_startup");
    record(0xffff_f800_03a1_c000, "ENTER start_init");
    record(0xffff_f800_03a1_c000, "EXIT start_init");
    text
}

/// Seconds that the public scripts take for a full log, if they are here: with what they expect of a BSD put before them.
fn scripts(folder: &Path) -> Option<Result<f64, String>> {
    let scripts = std::env::var_os("BOOTSCOPE_TSLOG_SCRIPTS").map(std::path::PathBuf::from)?;
    let run = || {
        let log_file = folder.join("scripts.txt");
        fs::write(&log_file, log(FULL)).map_err(|e| e.to_string())?;
        let shims = [
            ("sysctl", "case \"$2\" in debug.tslog) cat \"$TSLOG\" ;; debug.tslog_user) : ;; *) exit 1 ;; esac"),
            ("uname", "echo FreeBSD"),
            // BSD's takes a prefix where GNU's takes a template.
            ("mktemp", "exec /usr/bin/mktemp -d \"$TMPDIR/tslog.XXXXXX\""),
            ("lam", "sed -e \"s/^/$2/\""),
        ];
        for (name, script) in shims {
            let path = folder.join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).map_err(|e| e.to_string())?;
            fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).map_err(|e| e.to_string())?;
        }
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        let pipeline =
            "sh tslog.sh | perl stackcollapse-tslog.pl | perl flamechart.pl -flamechart -colors tslog --hash";
        let mut command = Command::new("sh");
        command.args(["-c", pipeline]).current_dir(&scripts).envs([("PATH", path.as_str()), ("LC_ALL", "C")]);
        timed(command.envs([("TSLOG", &log_file), ("TMPDIR", &folder.to_path_buf())])).map(|ms| ms / 1e3)
    };
    Some(run())
}
