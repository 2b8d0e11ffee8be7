//! The reference kernel: its boot time and size, the overhead of its recorder, and the speed of its log's transfer.

use crate::table::{MS, Promise, RATIO, SECONDS, Table, last_line};
use crate::{BOOTSCOPE, json_document, manifest};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const BOOT: &str = "lab: power-on to process 1, guest time";
const HOST: &str = "lab: QEMU's start to process 1, host time";
const SIZE: &str = "lab: the kernel's size";
const COST: &str = "lab: instructions, recorder on ÷ off";
const COST_CHATTY: &str = "lab: the same, and 2000 lines printed";
const SAMPLED: &str = "lab: instructions, sampled at 1000 Hz ÷ not sampled";
const LOST: &str = "lab: samples lost at 1000 Hz, 1 CPU";
const LOST_OF_FOUR: &str = "lab: samples lost at 1000 Hz, 4 CPUs";
const FULL: &str = "lab: 262 144 records home";
const HUNG: &str = "lab: the same, of a hung guest";

/// Options that make two events each, more than the log holds.
const FILLS_THE_LOG: &str = "messages=140000";

/// A boot of half a second. The frame allocator takes a third of it.
const SAMPLED_BOOT: &str = "services=3 frames=scan";

/// Adds all figures of this part.
pub fn measure(work: &Path, table: &mut Table) {
    let folder = work.join("lab");
    let _ = std::fs::remove_dir_all(&folder);
    if let Err(why) = std::fs::create_dir_all(&folder) {
        return table.fail(BOOT, &format!("{}: {why}", folder.display()));
    }
    boot(&folder, table);
    for (figure, append) in [(COST, ""), (COST_CHATTY, "messages=2000")] {
        match cost(&folder, append) {
            Ok((ratio, aside)) => table.add(figure, ratio, RATIO, Promise::AtMost(1.02), &aside),
            Err(why) => table.fail(figure, &why),
        }
    }
    match cost_sampled(&folder) {
        Ok((ratio, aside)) => table.add(SAMPLED, ratio, RATIO, Promise::AtMost(1.01), &aside),
        Err(why) => table.fail(SAMPLED, &why),
    }
    for (figure, cpus) in [(LOST, "1"), (LOST_OF_FOUR, "4")] {
        match lost(&folder, cpus) {
            Ok((lost, aside)) => table.add(figure, lost, COUNT, Promise::AtMost(0.0), &aside),
            Err(why) => table.fail(figure, &why),
        }
    }
    let hangs = format!("{FILLS_THE_LOG} hang=create_init");
    for (figure, append, most_s) in [(FULL, FILLS_THE_LOG, 0.5), (HUNG, hangs.as_str(), 1.0)] {
        match home_s(&folder, append) {
            Ok(seconds) => table.add(figure, seconds, SECONDS, Promise::AtMost(most_s), "all but the boot itself"),
            Err(why) => table.fail(figure, &why),
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// A plain boot, once counted in instructions and once in time.
fn boot(folder: &Path, table: &mut Table) {
    let total_ms = |deterministic: bool| -> Result<f64, String> {
        let into = recorded(folder, &LAB, "", if deterministic { &["--deterministic"] } else { &[] })?;
        let shown = json_document(Command::new(BOOTSCOPE).args(["show", "--json"]).arg(&into))?;
        Ok(shown["total_ns"].as_f64().ok_or("show says no total")? / 1e6)
    };
    match total_ms(true) {
        Ok(ms) => table.add(BOOT, ms, MS, Promise::AtMost(100.0), "deterministic: one instruction is 1 ns"),
        Err(why) => table.fail(BOOT, &why),
    }
    match total_ms(false) {
        Ok(ms) => table.add(HOST, ms, MS, Promise::None, ""),
        Err(why) => table.fail(HOST, &why),
    }
    let bytes = manifest(&folder.join("boot")).and_then(|manifest| {
        let inputs = manifest["inputs"].as_array().ok_or("no inputs")?;
        inputs.iter().find_map(|input| input["bytes"].as_f64()).ok_or_else(|| "no size".to_owned())
    });
    match bytes {
        Ok(bytes) => table.add(SIZE, bytes / f64::from(1 << 20), MIB, Promise::AtMost(2.0), ""),
        Err(why) => table.fail(SIZE, &why),
    }
}

const MIB: crate::table::Unit = crate::table::Unit { name: "MiB", digits: 2 };
const COUNT: crate::table::Unit = crate::table::Unit { name: "", digits: 0 };
const LAB: [&str; 1] = ["--lab"];

/// Instructions up to the hand-over, with the recorder and without.
fn cost(folder: &Path, append: &str) -> Result<(f64, String), String> {
    let plain = without_recorder()?;
    let plain = plain.to_str().ok_or("the path of the target folder is not UTF-8")?;
    let off = handed_over(folder, &["--kernel", plain, "--init", "keep", "--until", "poweroff"], append)?;
    let on = handed_over(folder, &LAB, append)?;
    Ok((on / off, format!("{:.3} and {:.3} M", on / 1e6, off / 1e6)))
}

/// As [`cost`], with samples and without.
fn cost_sampled(folder: &Path) -> Result<(f64, String), String> {
    let off = handed_over(folder, &LAB, SAMPLED_BOOT)?;
    let on = handed_over(folder, &LAB, &format!("{SAMPLED_BOOT} sample=1000"))?;
    Ok((on / off, format!("{:.3} and {:.3} M", on / 1e6, off / 1e6)))
}

/// The lost samples and all samples, with this number of CPUs and the host's clock. The samples use the port that
/// [`handed_over`] needs, so this is a separate boot.
fn lost(folder: &Path, cpus: &str) -> Result<(f64, String), String> {
    let append = format!("{SAMPLED_BOOT} sample=1000");
    let into = recorded(folder, &LAB, &append, &["--cpus", cpus])?;
    let shown = json_document(Command::new(BOOTSCOPE).args(["show", "--json"]).arg(&into))?;
    let sampled = &shown["sampled"];
    let lost = sampled["lost"].as_f64().ok_or("show says nothing of lost samples")?;
    let taken = sampled["samples"].as_u64().filter(|&taken| taken > 0).ok_or("no sample was taken")?;
    Ok((lost, format!("of {taken}")))
}

/// The TSC that the kernel writes to a port at the hand-over. In a deterministic boot it counts instructions.
fn handed_over(folder: &Path, what: &[&str], append: &str) -> Result<f64, String> {
    let port = folder.join("port");
    let _ = std::fs::remove_file(&port);
    let chardev = format!("file,id=port,path={}", port.display());
    let device = "isa-debugcon,iobase=0xe9,chardev=port";
    recorded(folder, what, append, &["--deterministic", "--", "-chardev", &chardev, "-device", device])?;
    let output_text = std::fs::read(&port).map_err(|e| format!("{}: {e}", port.display()))?;
    let output_text = String::from_utf8_lossy(&output_text);
    let tsc = output_text.lines().find_map(|line| line.strip_prefix("I ")?.parse().ok());
    tsc.ok_or_else(|| format!("the kernel said {output_text:?} on its port"))
}

/// The same kernel built without the feature `tslog`.
fn without_recorder() -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/lab-off");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--profile", "lab", "-p", "lab", "--no-default-features", "--features", "kernel"])
        .arg("--target-dir")
        .arg(&target)
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    if output.status.success() { Ok(target.join("lab/lab")) } else { Err(last_line(&output.stderr)) }
}

/// The time of recording beside the boot: before QEMU started, and after the outcome was known.
fn home_s(folder: &Path, append: &str) -> Result<f64, String> {
    let start = Instant::now();
    let no_screen = ["--hang-after", "1s", "--", "-vga", "none"];
    let into = recorded(folder, &LAB, append, &no_screen)?;
    let all_s = start.elapsed().as_secs_f64();
    let log = std::fs::read_to_string(into.join("tslog.txt")).map_err(|e| format!("tslog.txt: {e}"))?;
    let records = log.lines().filter(|line| !line.contains(" EVENT TSLOG ")).count();
    if records != 262_144 {
        return Err(format!("{records} records came home"));
    }
    let ended_ns = manifest(&into)?["outcome"]["at_ns"].as_f64().ok_or("the outcome has no time")?;
    Ok(all_s - ended_ns / 1e9)
}

/// Records a boot into the folder, with any outcome.
fn recorded(folder: &Path, what: &[&str], append: &str, further: &[&str]) -> Result<PathBuf, String> {
    let into = folder.join("boot");
    let mut command = Command::new(BOOTSCOPE);
    command.args(["record", "--quiet", "--force", "--accel", "tcg", "--memory", "256M"]).args(what);
    command.args(["--append", append, "-o"]).arg(&into).args(further);
    let output = command.output().map_err(|e| e.to_string())?;
    if output.status.code() == Some(2) { Err(last_line(&output.stderr)) } else { Ok(into) }
}
