//! This boot's journal until the boot was done, printed by `journalctl` without the fields that no reader uses.

use super::Finish;
use crate::bounded;
use crate::gather::{Collected, File};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The folders to which journald writes (systemd-journald.service(8)).
const FOLDERS: [&str; 2] = ["/run/log/journal", "/var/log/journal"];
const MAX_BYTES: usize = 16 << 20;
/// The margin after the end of the boot: messages may be logged a little later than their event.
const AFTER_S: u64 = 10;
const FIELDS: &str = "MESSAGE,MESSAGE_ID,PRIORITY,SYSLOG_IDENTIFIER,SYSLOG_PID,_COMM,_PID,_TRANSPORT,UNIT,JOB_TYPE,JOB_RESULT,_SYSTEMD_UNIT,\
                      _SOURCE_MONOTONIC_TIMESTAMP,_SOURCE_BOOTTIME_TIMESTAMP,KERNEL_USEC,INITRD_USEC,USERSPACE_USEC,FIRMWARE_USEC,\
                      LOADER_USEC";

/// Collects the journal. A container has its host's boot ID, even if it was started several times in that boot. `began`
/// is its last start, in seconds.
pub(crate) fn collect(began: Option<u64>, finish: Finish, until: Instant) -> Collected {
    let mut collected = Collected::default();
    if !FOLDERS.iter().any(|folder| Path::new(folder).is_dir()) {
        collected.missing("journal", "no journald has written one here");
        return collected;
    }
    let mut command = Command::new("journalctl");
    command.args(["-b", "-q", "--no-pager", "-o", "json", "--output-fields", FIELDS]);
    if let Some(began) = began {
        command.arg(format!("--since=@{began}"));
    }
    if finish.monotonic_us > 0 {
        command.arg(format!("--until=@{}", finish.wall_s + AFTER_S));
    }
    match bounded::program(&mut command, MAX_BYTES, until) {
        Ok(content) if content.bytes.is_empty() => {
            collected
                .missing("journal", format!("it has nothing of this boot that may be read{}", bounded::root_hint()));
        }
        Ok(content) => {
            collected.put(File::evidence("journal.txt", content.bytes, "journalctl -b -o json"), content.cut)
        }
        Err(why) => collected.missing("journal", why.to_string()),
    }
    collected
}
