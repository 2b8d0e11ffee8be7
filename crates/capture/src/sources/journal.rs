//! This boot's journal, as far as the boot was not done: `journalctl` prints it, without the fields that no reader uses.

use super::Finish;
use crate::bounded;
use crate::gather::{File, Given};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Where journald writes (systemd-journald.service(8)).
const FOLDERS: [&str; 2] = ["/run/log/journal", "/var/log/journal"];
const BYTES_MAX: usize = 16 << 20;
/// Messages may be written down a little later than what they tell of.
const AFTER_S: u64 = 10;
const FIELDS: &str = "MESSAGE,MESSAGE_ID,PRIORITY,SYSLOG_IDENTIFIER,SYSLOG_PID,_COMM,_PID,_TRANSPORT,UNIT,JOB_TYPE,JOB_RESULT,_SYSTEMD_UNIT,\
                      _SOURCE_MONOTONIC_TIMESTAMP,_SOURCE_BOOTTIME_TIMESTAMP,KERNEL_USEC,INITRD_USEC,USERSPACE_USEC,FIRMWARE_USEC,\
                      LOADER_USEC";

/// A container has its host's number of a boot, however often it was started in it: `began` is when it last was, in seconds.
pub(crate) fn ask(began: Option<u64>, finish: Finish, until: Instant) -> Given {
    let mut given = Given::default();
    if !FOLDERS.iter().any(|folder| Path::new(folder).is_dir()) {
        given.missing("journal", "no journald has written one here");
        return given;
    }
    let mut command = Command::new("journalctl");
    command.args(["-b", "-q", "--no-pager", "-o", "json", "--output-fields", FIELDS]);
    if let Some(began) = began {
        command.arg(format!("--since=@{began}"));
    }
    if finish.monotonic_us > 0 {
        command.arg(format!("--until=@{}", finish.wall_s + AFTER_S));
    }
    match bounded::program(&mut command, BYTES_MAX, until) {
        Ok(content) if content.bytes.is_empty() => {
            given.missing("journal", format!("it has nothing of this boot that may be read{}", bounded::as_root()));
        }
        Ok(content) => given.put(File::evidence("journal.txt", content.bytes, "journalctl -b -o json"), content.cut),
        Err(why) => given.missing("journal", why.to_string()),
    }
    given
}
