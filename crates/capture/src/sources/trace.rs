//! The kernel's trace buffer, if something was traced while the machine booted.

use super::Finish;
use crate::bounded;
use crate::gather::{Collected, File};
use std::io::ErrorKind;
use std::time::Instant;

const MAX_BYTES: usize = 16 << 20;
/// The assumed length of a boot if its end is unknown.
const ASSUMED_BOOT_US: u64 = 600_000_000;
const FOLDERS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

pub(crate) fn collect(finish: Finish, until: Instant) -> Collected {
    let mut collected = Collected::default();
    let tried: Vec<_> =
        FOLDERS.iter().map(|folder| bounded::read_until(format!("{folder}/trace"), MAX_BYTES, until)).collect();
    let content = match tried.into_iter().reduce(|first, second| if first.is_ok() { first } else { second }) {
        Some(Ok(content)) => content,
        Some(Err(e)) if e.kind() == ErrorKind::NotFound => {
            let why = format!(
                "nothing is mounted at {} (mount -t tracefs tracefs {0}), or this kernel cannot trace",
                FOLDERS[0]
            );
            collected.missing("trace buffer", why);
            return collected;
        }
        Some(Err(e)) => {
            collected.missing("trace buffer", format!("{}/trace: {e}{}", FOLDERS[0], bounded::root_hint()));
            return collected;
        }
        None => return collected,
    };
    let text = String::from_utf8_lossy(&content.bytes);
    let Some(first) = text.lines().find(|line| !line.starts_with('#') && !line.trim().is_empty()) else {
        return collected;
    };
    // A trace that began hours later has nothing of the boot.
    let done = if finish.monotonic_us > 0 { finish.monotonic_us } else { ASSUMED_BOOT_US };
    match begins(first) {
        Some(seconds) if seconds * 1e6 > us(done) => {
            collected.missing(
                "trace buffer",
                format!("nothing of the boot is in it: its first event is {seconds:.0} s after the kernel's start"),
            );
        }
        _ => collected.put(File::evidence("trace.txt", content.bytes, "the kernel's trace buffer"), content.cut),
    }
    collected
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
}
