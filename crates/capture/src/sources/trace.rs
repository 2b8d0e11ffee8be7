//! The kernel's trace buffer, or that of an instance (`trace_instance=`), if something was traced while the machine booted.

use super::Finish;
use crate::bounded::{self, Content};
use crate::gather::{Collected, File};
use std::borrow::Cow;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

const MAX_BYTES: usize = 16 << 20;
const INSTANCES_MAX: usize = 64;
/// The assumed length of a boot if its end is unknown.
const ASSUMED_BOOT_US: u64 = 600_000_000;
const FOLDERS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The file of an instance that names the boot of its events, and its first line if this is the running one.
const LAST_BOOT: &str = "last_boot_info";
const RUNNING_BOOT: &str = "# Current";

pub(crate) fn collect(finish: Finish, until: Instant) -> Collected {
    let is_mounted = |folder: &&&str| Path::new(folder).join("trace").exists();
    let folder = FOLDERS.iter().find(is_mounted).unwrap_or(&FOLDERS[0]);
    collect_in(Path::new(folder), finish, until)
}

/// The buffer of the boot: the kernel's own, else the first instance that has events of it.
fn collect_in(folder: &Path, finish: Finish, until: Instant) -> Collected {
    let mut collected = Collected::default();
    let content = match bounded::read_until(folder.join("trace"), MAX_BYTES, until) {
        Ok(content) => content,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let why = format!(
                "nothing is mounted at {} (mount -t tracefs tracefs {0}), or this kernel cannot trace",
                FOLDERS[0]
            );
            collected.missing("trace buffer", why);
            return collected;
        }
        Err(e) => {
            collected.missing("trace buffer", format!("{}/trace: {e}{}", folder.display(), bounded::root_hint()));
            return collected;
        }
    };
    let is_taken = take(&mut collected, "trace buffer", content, finish);
    instances(&mut collected, folder, is_taken, (finish, until));
    collected
}

/// Takes the first instance with events of the boot, unless there is a trace already, and names the others.
fn instances(collected: &mut Collected, folder: &Path, mut is_taken: bool, (finish, until): (Finish, Instant)) {
    let entries = fs::read_dir(folder.join("instances")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).take(INSTANCES_MAX).collect();
    paths.sort();
    for path in paths {
        let what = format!("trace instance {}", path.file_name().unwrap_or_default().to_string_lossy());
        let Ok(content) = bounded::read_until(path.join("trace"), MAX_BYTES, until) else { continue };
        if first_event(&content.bytes).is_none() {
            continue;
        }
        let trace = path.join("trace");
        let trace = trace.display();
        if bounded::line(path.join(LAST_BOOT)).is_some_and(|line| !line.starts_with(RUNNING_BOOT)) {
            collected.missing(&what, format!("its events are of the boot before; bootscope show {trace} shows them"));
        } else if is_taken {
            collected.missing(&what, format!("another trace of this boot was taken; bootscope show {trace} shows it"));
        } else {
            is_taken = take(collected, &what, content, finish);
        }
    }
}

/// Takes a trace if it has events of the boot.
fn take(collected: &mut Collected, what: &str, content: Content, finish: Finish) -> bool {
    let Some(first) = first_event(&content.bytes) else { return false };
    // A trace that began hours later has nothing of the boot.
    let done = if finish.monotonic_us > 0 { finish.monotonic_us } else { ASSUMED_BOOT_US };
    match begins(&first) {
        Some(seconds) if seconds * 1e6 > us(done) => {
            let why =
                format!("nothing of the boot is in it: its first event is {seconds:.0} s after the kernel's start");
            collected.missing(what, why);
            false
        }
        _ => {
            collected.put(File::evidence("trace.txt", content.bytes, &format!("the kernel's {what}")), content.cut);
            true
        }
    }
}

fn first_event(text: &[u8]) -> Option<String> {
    let mut lines = text.split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
    lines.find(|line| !line.starts_with('#') && !line.trim().is_empty()).map(Cow::into_owned)
}

#[expect(clippy::cast_precision_loss, reason = "only compared with a time that is as rough")]
fn us(us: u64) -> f64 {
    us as f64
}

/// The stamp in `  sshd-235  [000] d..2.   105.152907: sched_switch: …`. `None` if stamps are a counter's ticks, which
/// have no point.
fn begins(line: &str) -> Option<f64> {
    line.split_ascii_whitespace().find_map(|word| {
        let stamp = word.strip_suffix(':').filter(|stamp| stamp.contains('.'))?;
        stamp.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_trace_begins() {
        assert_eq!(begins("  sshd-235  [000] d..2.   105.152907: sched_switch: prev_comm=sshd"), Some(105.152_907));
        assert_eq!(begins("  sshd-235  [000] d..2.   6570230422: sched_switch: prev_comm=sshd"), None);
        assert_eq!(begins("nothing"), None);
    }

    /// The first event of each trace, and the text on what is missing.
    fn collected(files: &[(&str, &str)]) -> (Vec<String>, String) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let until = Instant::now() + std::time::Duration::from_secs(60);
        let collected = collect_in(folder.path(), Finish::default(), until);
        let firsts = collected.files.iter().filter_map(|file| first_event(&file.bytes)).collect();
        let missing = collected.missing.iter().map(|missing| format!("{}: {}\n", missing.what, missing.why)).collect();
        (firsts, missing)
    }

    const BOOT: &str = "# tracer: nop\n#\n init-1 [000] ..... 0.500000: initcall_level: level=fs\n";
    const LATER: &str = "# tracer: nop\n#\n a-70 [000] ..... 9000.500000: sched_process_exit: comm=a\n";

    #[test]
    fn an_instance_is_taken_if_the_kernels_own_buffer_has_nothing_of_the_boot() {
        let (firsts, missing) = collected(&[("trace", "# tracer: nop\n"), ("instances/boot/trace", BOOT)]);
        assert_eq!((firsts.len(), missing.as_str()), (1, ""));
        let (firsts, missing) = collected(&[("trace", BOOT), ("instances/boot/trace", BOOT)]);
        assert!(firsts.len() == 1 && missing.starts_with("trace instance boot: another trace"), "{missing}");
        let (firsts, missing) = collected(&[("trace", LATER), ("instances/boot/trace", BOOT)]);
        assert!(firsts.len() == 1 && missing.starts_with("trace buffer: nothing of the boot"), "{missing}");
    }

    #[test]
    fn a_buffer_of_the_boot_before_is_named_and_not_taken() {
        let before = ("instances/map/last_boot_info", "1a800000\t[kernel]\n");
        let (firsts, missing) = collected(&[("trace", BOOT), ("instances/map/trace", BOOT), before]);
        assert!(firsts.len() == 1 && missing.contains("of the boot before; bootscope show "), "{missing}");
        let running = ("instances/map/last_boot_info", "# Current\n");
        let (firsts, missing) = collected(&[("trace", ""), ("instances/map/trace", BOOT), running]);
        assert_eq!((firsts.len(), missing.as_str()), (1, ""));
    }
}
