//! Reads files and runs programs, with limits on bytes and time.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The bytes read, and the reason why there may be more.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub bytes: Vec<u8>,
    pub cut: Cut,
}

/// The reason why reading ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The end of the content.
    #[default]
    No,
    /// The limit on bytes.
    Bytes,
    /// The limit on time.
    Time,
}

/// Reads a file's first bytes, at most `max_bytes`.
pub(crate) fn read(path: impl AsRef<Path>, max_bytes: usize) -> io::Result<Content> {
    read_up_to(File::open(path)?, max_bytes)
}

/// Like [`read`], until a moment, for a file that may be slow to read.
pub(crate) fn read_until(path: impl AsRef<Path>, max_bytes: usize, until: Instant) -> io::Result<Content> {
    let mut file = File::open(path)?;
    let (mut bytes, mut part) = (Vec::new(), vec![0; 64 << 10]);
    while bytes.len() < max_bytes && Instant::now() < until {
        match file.read(&mut part)? {
            0 => return Ok(Content { bytes, cut: Cut::No }),
            length => bytes.extend_from_slice(&part[..length]),
        }
    }
    let cut = if bytes.len() < max_bytes { Cut::Time } else { Cut::Bytes };
    Ok(Content { bytes, cut })
}

/// Reads a small text file of the kernel, without surrounding space. Returns `None` if it cannot be read.
pub(crate) fn line(path: impl AsRef<Path>) -> Option<String> {
    let content = read(path, 4096).ok()?;
    let text = String::from_utf8_lossy(&content.bytes);
    Some(text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()).filter(|text| !text.is_empty())
}

/// The hint for a file that may not be read; empty if this process is already root.
pub(crate) fn root_hint() -> &'static str {
    if rustix::process::geteuid().is_root() { "" } else { "; run as root" }
}

fn read_up_to(from: impl Read, max_bytes: usize) -> io::Result<Content> {
    let mut bytes = Vec::new();
    from.take(max_bytes as u64 + 1).read_to_end(&mut bytes)?;
    let cut = if bytes.len() > max_bytes { Cut::Bytes } else { Cut::No };
    bytes.truncate(max_bytes);
    Ok(Content { bytes, cut })
}

/// The reason why a program gave no output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    #[error("there is no program {0} that may be run")]
    Absent(String),
    #[error("{0} did not end in time")]
    Late(String),
    #[error("{program} failed: {message}")]
    Refused { program: String, message: String },
}

/// Kills its process when it is dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program, and returns at most `max_bytes` of its output until a moment. The program never runs longer. If it
/// is late, the output until then is returned.
pub(crate) fn program(command: &mut Command, max_bytes: usize, until: Instant) -> Result<Content, Failed> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |message: String| Failed::Refused { program: name.clone(), message };
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env("LC_ALL", "C");
    let mut child = match command.spawn() {
        Ok(child) => KillOnDrop(child),
        // The program may also be in a folder of PATH that may not be searched.
        Err(e) if [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied].contains(&e.kind()) => {
            return Err(Failed::Absent(name));
        }
        Err(e) => return Err(failed(e.to_string())),
    };
    let (out, err) = (child.0.stdout.take(), child.0.stderr.take());
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || _ = sender.send(out.map(|out| read_up_to(out, max_bytes))));
    let error_output = thread::spawn(move || err.and_then(|err| read_up_to(err, 4096).ok()).unwrap_or_default());
    let left = until.saturating_duration_since(Instant::now());
    let content = match receiver.recv_timeout(left) {
        Ok(Some(Ok(content))) => content,
        Ok(Some(Err(e))) => return Err(failed(e.to_string())),
        Ok(None) => Content::default(),
        Err(_) => {
            drop(child);
            // Its output ends with the program, unless a child of the program still has it open.
            return match receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(Some(Ok(Content { bytes, .. }))) if !bytes.is_empty() => Ok(Content { bytes, cut: Cut::Time }),
                _ => Err(Failed::Late(name)),
            };
        }
    };
    if content.cut != Cut::No {
        return Ok(content);
    }
    // The program has closed its output. Its exit is awaited only until the time limit.
    let status = loop {
        match child.0.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(2)),
            _ => break None,
        }
    };
    match status {
        Some(status) if !status.success() && content.bytes.is_empty() => {
            let error_output = error_output.join().unwrap_or_default().bytes;
            let message = String::from_utf8_lossy(&error_output);
            Err(failed(message.lines().next().map_or_else(|| status.to_string(), str::to_owned)))
        }
        _ => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, max_bytes: usize, ms: u64) -> Result<Content, Failed> {
        program(Command::new("sh").args(["-c", script]), max_bytes, Instant::now() + Duration::from_millis(ms))
    }

    #[test]
    fn programs_are_bounded_in_bytes_and_time() {
        let all = run("printf abc", 10, 5000).unwrap();
        assert_eq!((&all.bytes[..], all.cut), (&b"abc"[..], Cut::No));
        let begun = Instant::now();
        let cut = run("yes", 1000, 20_000).unwrap();
        assert_eq!((cut.bytes.len(), cut.cut), (1000, Cut::Bytes));
        let late = run("printf abc; exec sleep 30", 1000, 1000).unwrap();
        assert_eq!((&late.bytes[..], late.cut), (&b"abc"[..], Cut::Time));
        assert!(matches!(run("sleep 30", 10, 100), Err(Failed::Late(_))));
        assert!(begun.elapsed() < Duration::from_secs(15));
        assert_eq!(run("echo no >&2; exit 3", 10, 5000).unwrap_err().to_string(), "sh failed: no");
        let absent = program(&mut Command::new("no-such-program-here"), 10, Instant::now());
        assert!(matches!(absent, Err(Failed::Absent(_))));
    }
}
