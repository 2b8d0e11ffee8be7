//! Reading files and running programs with a bound on bytes and time.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// What was read, and whether there is more.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub bytes: Vec<u8>,
    pub cut: Cut,
}

/// Where reading ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cut {
    /// At the end.
    #[default]
    No,
    /// At as many bytes as are taken at most.
    Bytes,
    /// When the time was over.
    Time,
}

/// A file's first bytes, up to `most`.
pub(crate) fn read(path: impl AsRef<Path>, most: usize) -> io::Result<Content> {
    beginning(File::open(path)?, most)
}

/// The same until a moment, from a file that takes long to read.
pub(crate) fn read_until(path: impl AsRef<Path>, most: usize, until: Instant) -> io::Result<Content> {
    let mut file = File::open(path)?;
    let (mut bytes, mut part) = (Vec::new(), vec![0; 64 << 10]);
    while bytes.len() < most && Instant::now() < until {
        match file.read(&mut part)? {
            0 => return Ok(Content { bytes, cut: Cut::No }),
            length => bytes.extend_from_slice(&part[..length]),
        }
    }
    let cut = if bytes.len() < most { Cut::Time } else { Cut::Bytes };
    Ok(Content { bytes, cut })
}

/// A small text file of the kernel's, without the space around it; none where it cannot be read.
pub(crate) fn line(path: impl AsRef<Path>) -> Option<String> {
    let content = read(path, 4096).ok()?;
    let text = String::from_utf8_lossy(&content.bytes);
    Some(text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()).filter(|text| !text.is_empty())
}

/// What to do about something that may not be read; nothing where nobody may.
pub(crate) fn as_root() -> &'static str {
    if rustix::process::geteuid().is_root() { "" } else { "; run as root" }
}

fn beginning(from: impl Read, most: usize) -> io::Result<Content> {
    let mut bytes = Vec::new();
    from.take(most as u64 + 1).read_to_end(&mut bytes)?;
    let cut = if bytes.len() > most { Cut::Bytes } else { Cut::No };
    bytes.truncate(most);
    Ok(Content { bytes, cut })
}

/// Why a program gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    #[error("there is no program {0} that may be run")]
    Absent(String),
    #[error("{0} did not end in time")]
    Late(String),
    #[error("{program} failed: {said}")]
    Refused { program: String, said: String },
}

/// Kills its process when it goes.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a program prints, up to `most` bytes and until a moment. It never outlives that. Of one that is late, what it printed so far.
pub(crate) fn program(command: &mut Command, most: usize, until: Instant) -> Result<Content, Failed> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |said: String| Failed::Refused { program: name.clone(), said };
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env("LC_ALL", "C");
    let mut child = match command.spawn() {
        Ok(child) => Killed(child),
        // Also where a folder of PATH may not be looked into.
        Err(e) if [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied].contains(&e.kind()) => {
            return Err(Failed::Absent(name));
        }
        Err(e) => return Err(failed(e.to_string())),
    };
    let (out, err) = (child.0.stdout.take(), child.0.stderr.take());
    let (tell, answer) = mpsc::channel();
    thread::spawn(move || _ = tell.send(out.map(|out| beginning(out, most))));
    let complaint = thread::spawn(move || err.and_then(|err| beginning(err, 4096).ok()).unwrap_or_default());
    let left = until.saturating_duration_since(Instant::now());
    let content = match answer.recv_timeout(left) {
        Ok(Some(Ok(content))) => content,
        Ok(Some(Err(e))) => return Err(failed(e.to_string())),
        Ok(None) => Content::default(),
        Err(_) => {
            drop(child);
            // Without the program its output ends, unless a child of its own still has it.
            return match answer.recv_timeout(Duration::from_millis(100)) {
                Ok(Some(Ok(Content { bytes, .. }))) if !bytes.is_empty() => Ok(Content { bytes, cut: Cut::Time }),
                _ => Err(Failed::Late(name)),
            };
        }
    };
    if content.cut != Cut::No {
        return Ok(content);
    }
    // It has closed its output. One that stays for another reason is not waited for.
    let status = loop {
        match child.0.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(2)),
            _ => break None,
        }
    };
    match status {
        Some(status) if !status.success() && content.bytes.is_empty() => {
            let complaint = complaint.join().unwrap_or_default().bytes;
            let said = String::from_utf8_lossy(&complaint);
            Err(failed(said.lines().next().map_or_else(|| status.to_string(), str::to_owned)))
        }
        _ => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, most: usize, ms: u64) -> Result<Content, Failed> {
        program(Command::new("sh").args(["-c", script]), most, Instant::now() + Duration::from_millis(ms))
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
