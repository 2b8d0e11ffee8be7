//! From a TSLOG to a flame chart: a full buffer, a short log, and ten million records. It also runs the public scripts
//! (freebsd-boot-profiling) if `BOOTSCOPE_TSLOG_SCRIPTS` names their folder. They have no licence, so they are not
//! here.

use crate::BOOTSCOPE;
use crate::instructions::Counter;
use crate::show::{RUNS, children_cpu_ms, peak_mb};
use crate::table::{MB, MILLIONS, MS, Promise, RATIO, Table, last_line};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The records of a kernel's full buffer.
const FULL: usize = 262_144;
const SHORT: usize = 12_000;
const MANY: usize = 10_000_000;
/// A log that takes hardly more than the program's start.
const TINY: usize = 100;
/// The number of turns between the public scripts and bootscope.
const TURNS: usize = 3;

/// Adds all figures of this part.
pub fn measure(work: &Path, table: &mut Table) {
    let folder = work.join("tslog");
    let measured = fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()));
    if let Err(why) = measured.and_then(|()| all(&folder, table)) {
        table.fail("TSLOG", &why);
    }
    let _ = fs::remove_dir_all(&folder);
}

fn all(folder: &Path, table: &mut Table) -> Result<(), String> {
    let counter = Counter::find();
    let full = to_svg(folder, FULL, Promise::AtMost(260.0), &counter, table)?;
    to_svg(folder, SHORT, Promise::AtMost(30.0), &counter, table)?;
    to_svg(folder, TINY, Promise::None, &counter, table)?;
    let recording = imported(folder, MANY)?;
    let start = Instant::now();
    let peak = peak_mb(Command::new(BOOTSCOPE).args(["export", "--to", "svg"]).arg(&recording).stdout(Stdio::null()))?;
    let many_ms = start.elapsed().as_secs_f64() * 1e3;
    let per_record = (many_ms / MANY as f64) / (full / FULL as f64);
    table.add("TSLOG, 10⁷ records, time a record ÷ a full log's", per_record, RATIO, Promise::AtMost(1.5), "");
    table.add("TSLOG, 10⁷ records, peak memory", peak, MB, Promise::AtMost(1500.0), "");
    const FIGURE: &str = "TSLOG, the public scripts ÷ ours";
    let Some(scripts) = std::env::var_os("BOOTSCOPE_TSLOG_SCRIPTS").map(PathBuf::from) else {
        table.skip(FIGURE, "BOOTSCOPE_TSLOG_SCRIPTS names no folder with tslog.sh");
        return Ok(());
    };
    beside_scripts(FIGURE, folder, &scripts, table)
}

/// Runs the public scripts and bootscope in turns on the same log, so that both have the same host.
fn beside_scripts(figure: &str, folder: &Path, scripts: &Path, table: &mut Table) -> Result<(), String> {
    let (recording, mut theirs) = (folder.join(FULL.to_string()), pipeline(folder, scripts)?);
    let mut ours = export(&recording, &folder.join("boot.svg"));
    let (mut ratios, mut theirs_ms, mut ours_cpu_ms, mut theirs_cpu_ms) = (Vec::new(), 0.0, 0.0, 0.0);
    for _ in 0..TURNS {
        let start_ms = children_cpu_ms();
        let mut runs = (0..RUNS).map(|_| timed(&mut ours)).collect::<Result<Vec<f64>, String>>()?;
        let between_ms = children_cpu_ms();
        let took_ms = timed(&mut theirs)?;
        ours_cpu_ms += (between_ms - start_ms) / RUNS as f64;
        theirs_cpu_ms += children_cpu_ms() - between_ms;
        theirs_ms += took_ms;
        runs.sort_by(f64::total_cmp);
        ratios.push(took_ms / runs[RUNS / 2]);
    }
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    let seconds = theirs_ms / 1e3 / TURNS as f64;
    let aside = format!("theirs {seconds:.1} s, in CPU time {:.0}, load {load}", theirs_cpu_ms / ours_cpu_ms);
    table.add_all(figure, ratios, RATIO, Promise::AtLeast(500.0), &aside);
    Ok(())
}

/// Exports a log with this number of records. Measures instructions, which are promised in millions, and the median
/// time in ms, which depends on the host.
fn to_svg(
    folder: &Path,
    records: usize,
    promise: Promise,
    counter: &Counter,
    table: &mut Table,
) -> Result<f64, String> {
    let recording = imported(folder, records)?;
    let mut export = export(&recording, &folder.join("boot.svg"));
    timed(&mut export)?;
    let before_ms = children_cpu_ms();
    let mut runs = (0..RUNS).map(|_| timed(&mut export)).collect::<Result<Vec<f64>, String>>()?;
    let cpu_ms = (children_cpu_ms() - before_ms) / RUNS as f64;
    let figure = format!("TSLOG, {records} records to SVG");
    if let Counter::None(why) = counter {
        table.skip(&figure, why);
    } else {
        match counter.count(&export) {
            Ok(count) => table.add(&figure, count / 1e6, MILLIONS, promise, counter.name()),
            Err(why) => table.fail(&figure, &why),
        }
    }
    table.add_all(&format!("{figure}, time"), runs.clone(), MS, Promise::None, &format!("CPU {cpu_ms:.0}"));
    runs.sort_by(f64::total_cmp);
    Ok(runs[runs.len() / 2])
}

fn export(recording: &Path, svg: &Path) -> Command {
    let mut export = Command::new(BOOTSCOPE);
    export.args(["export", "--to", "svg", "--force", "-o"]).arg(svg).arg(recording);
    export
}

fn timed(command: &mut Command) -> Result<f64, String> {
    let start = Instant::now();
    let output = command.output().map_err(|e| e.to_string())?;
    if output.status.success() { Ok(start.elapsed().as_secs_f64() * 1e3) } else { Err(last_line(&output.stderr)) }
}

/// Imports a synthetic log.
pub fn imported(folder: &Path, records: usize) -> Result<PathBuf, String> {
    let (text, recording) = (folder.join("tslog.txt"), folder.join(records.to_string()));
    fs::write(&text, log(records)).map_err(|e| format!("{}: {e}", text.display()))?;
    let mut import = Command::new(BOOTSCOPE);
    timed(import.args(["import", "--tsc-frequency", "1GHz", "-o"]).arg(&recording).arg(&text))?;
    Ok(recording)
}

/// A log with the structure of a boot's: SYSINITs, calls up to ten deep, and one thread in seven that the boot waits
/// for.
fn log(records: usize) -> String {
    let mut text = String::with_capacity(records * 34);
    let (mut ticks, mut state) = (1_000_000_u64, 42_u64);
    let mut record = |thread: u64, what: &str| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ticks += state >> 54;
        // Writing to a string cannot fail.
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

/// The public scripts on a full log, with shims for the BSD programs that they expect.
fn pipeline(folder: &Path, scripts: &Path) -> Result<Command, String> {
    let log_file = folder.join("scripts.txt");
    fs::write(&log_file, log(FULL)).map_err(|e| e.to_string())?;
    let shims = [
        ("sysctl", "case \"$2\" in debug.tslog) cat \"$TSLOG\" ;; debug.tslog_user) : ;; *) exit 1 ;; esac"),
        ("uname", "echo FreeBSD"),
        // The BSD version takes a prefix, the GNU version a template.
        ("mktemp", "exec /usr/bin/mktemp -d \"$TMPDIR/tslog.XXXXXX\""),
        ("lam", "sed -e \"s/^/$2/\""),
    ];
    for (name, script) in shims {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).map_err(|e| e.to_string())?;
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).map_err(|e| e.to_string())?;
    }
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let scripts_in_turn =
        "sh tslog.sh | perl stackcollapse-tslog.pl | perl flamechart.pl -flamechart -colors tslog --hash";
    let mut command = Command::new("sh");
    command.args(["-c", scripts_in_turn]).current_dir(scripts).envs([("PATH", path.as_str()), ("LC_ALL", "C")]);
    command.envs([("TSLOG", &log_file), ("TMPDIR", &folder.to_path_buf())]);
    Ok(command)
}
