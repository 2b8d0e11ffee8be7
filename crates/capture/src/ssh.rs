//! Captures another machine: copies this machine's small static program there over ssh, runs it, and removes it.
//!
//! One connection is enough: the program goes in on standard input, the recording comes out on standard output, and
//! missing evidence is reported on standard error. `mktemp -d` makes the folder there, and it is removed however the
//! shell ends.
//!
//! It must not prompt for a password itself: ssh does.

use crate::bounded;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// The limit on a recording; one of a running machine has a few MiB.
const MAX_BYTES: usize = 256 << 20;
/// The shell's exit status there if the program cannot run.
const CANNOT_RUN: i32 = 126;

/// The reason why a capture failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host's name is malformed.
    #[error("{0:?} is no host: give USER@HOST, as ssh takes it")]
    NoHost(String),
    /// There is no program to copy.
    #[error("{0} cannot be read: {1}")]
    NoProgram(PathBuf, std::io::Error),
    /// The program is not static.
    #[error("{0} is linked dynamically, so it may not run there: build the static one with `make build`")]
    Dynamic(PathBuf),
    /// ssh did not start.
    #[error("cannot run {0}: {1}")]
    NoSsh(String, std::io::Error),
    /// The program does not run there, and there is no bootscope.
    #[error(
        "{program} does not run on {host} (a machine of another kind, or /tmp is mounted noexec), and there is no bootscope there: \
         build bootscope for it, and run `bootscope capture` there"
    )]
    CannotRun {
        /// The program that was copied.
        program: PathBuf,
        host: String,
    },
    /// The program there ended with an error.
    #[error("capture on {host} failed ({status}); ssh or the program said why above")]
    Failed {
        host: String,
        /// The exit status.
        status: String,
    },
    /// The received bytes are not a whole recording.
    #[error("{host} sent no packed recording, but {bytes} bytes of something else")]
    NotWhole {
        host: String,
        /// The number of bytes received.
        bytes: usize,
    },
}

/// The program to run, and the host to run it on.
#[derive(Clone, Debug)]
pub struct There {
    /// `USER@HOST`, as ssh takes it.
    pub host: String,
    /// ssh, with its options.
    pub ssh: Vec<String>,
    /// The program to copy.
    pub program: PathBuf,
    /// Its options: `--identify`, `--no-journal`.
    pub options: Vec<&'static str>,
}

/// True if a program needs no library of the machine that it runs on: an ELF file without an interpreter.
fn is_static(program: &[u8]) -> bool {
    const INTERPRETER: u32 = 3;
    let u16_at = |at: usize| Some(usize::from(u16::from_le_bytes(program.get(at..at + 2)?.try_into().ok()?)));
    let headers = || {
        let at = u64::from_le_bytes(program.get(32..40)?.try_into().ok()?);
        Some((usize::try_from(at).ok()?, u16_at(54)?, u16_at(56)?))
    };
    // 64 bits, little-endian, like this program.
    let Some((at, size, count)) = headers().filter(|_| program.starts_with(b"\x7fELF\x02\x01")) else { return false };
    let kind = |number: usize| {
        let from = at.checked_add(number.checked_mul(size)?)?;
        Some(u32::from_le_bytes(program.get(from..from.checked_add(4)?)?.try_into().ok()?))
    };
    !(0..count).any(|number| kind(number) == Some(INTERPRETER))
}

/// The script for the shell there. The folder is removed even if the connection breaks.
fn script(options: &[&str]) -> String {
    let options = options.join(" ");
    // A shell may run a program of another machine as a script, so the script checks the kind of machine first.
    let machine = std::env::consts::ARCH;
    format!(
        "d=$(mktemp -d) || exit 1; trap 'rm -rf \"$d\"' EXIT; trap 'exit 1' HUP INT TERM PIPE; umask 077; \
         p=$d/bootscope-capture; cat >\"$p\" && chmod 700 \"$p\" || exit 1; s={CANNOT_RUN}; \
         if [ \"$(uname -sm)\" = \"Linux {machine}\" ]; then \"$p\" -o - {options} </dev/null; s=$?; fi; \
         if [ $s -eq 126 ] || [ $s -eq 127 ]; then s={CANNOT_RUN}; \
         if command -v bootscope >/dev/null; then bootscope capture -o - {options} </dev/null; s=$?; fi; fi; exit $s"
    )
}

impl There {
    /// Captures the host, and returns the packed recording.
    ///
    /// # Errors
    /// If the program cannot be copied or run, or if no whole recording comes back.
    pub fn capture(&self) -> Result<Vec<u8>, Error> {
        // ssh would take a host that begins with a dash for an option.
        if self.host.is_empty() || self.host.starts_with('-') {
            return Err(Error::NoHost(self.host.clone()));
        }
        let content = bounded::read(&self.program, MAX_BYTES);
        let content = content.map_err(|e| Error::NoProgram(self.program.clone(), e))?.bytes;
        if !is_static(&content) {
            return Err(Error::Dynamic(self.program.clone()));
        }
        let ssh = self.ssh.first().map_or("ssh", String::as_str);
        let mut child = Command::new(ssh)
            .args(self.ssh.iter().skip(1))
            .args(["-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=4", "-T", "--"])
            .args([OsStr::new(&self.host), OsStr::new(&script(&self.options))])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| Error::NoSsh(ssh.to_owned(), e))?;
        let input = child.stdin.take();
        // A program that ends early does not read all of it.
        let send = thread::spawn(move || input.map(|mut input| input.write_all(&content)));
        let mut packed = Vec::new();
        if let Some(out) = child.stdout.take() {
            let _ = out.take(MAX_BYTES as u64).read_to_end(&mut packed);
        }
        let status = child.wait().map_err(|e| Error::NoSsh(ssh.to_owned(), e))?;
        drop(send.join());
        if status.code() == Some(CANNOT_RUN) {
            return Err(Error::CannotRun { program: self.program.clone(), host: self.host.clone() });
        }
        if !status.success() {
            return Err(Error::Failed { host: self.host.clone(), status: status.to_string() });
        }
        if !packed.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            return Err(Error::NotWhole { host: self.host.clone(), bytes: packed.len() });
        }
        Ok(packed)
    }
}

/// Writes the received recording to `out`, under that name only once it is whole. Only its owner may read it.
///
/// # Errors
/// If `out` exists and may not be replaced, or cannot be written.
pub fn write(packed: &[u8], out: &Path, force: bool) -> Result<(), recording::Error> {
    recording::may_be_written(out, force)?;
    let failed = |why| recording::Error::Io { doing: "write", path: out.to_path_buf(), why };
    let mut beside = recording::private_beside(out).map_err(failed)?;
    beside.write_all(packed).map_err(failed)?;
    beside.persist(out).map_err(|why| failed(why.error))?;
    // A malformed recording is reported now, not when it is used.
    recording::Recording::open(out).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(host: &str, ssh: &[&str], program: &Path) -> There {
        let ssh = ssh.iter().map(|word| (*word).to_owned()).collect();
        There { host: host.to_owned(), ssh, program: program.to_path_buf(), options: vec!["--identify"] }
    }

    #[test]
    fn a_host_is_no_option_and_a_program_is_static() {
        let own = std::env::current_exe().unwrap();
        assert!(matches!(there("-oProxyCommand=x", &["false"], &own).capture(), Err(Error::NoHost(_))));
        assert!(matches!(there("", &["false"], &own).capture(), Err(Error::NoHost(_))));
        assert!(matches!(there("a@b", &["false"], Path::new("/nonexistent")).capture(), Err(Error::NoProgram(..))));
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        assert!(matches!(there("a@b", &["false"], &script).capture(), Err(Error::Dynamic(_))));
    }

    #[test]
    fn a_cut_program_is_not_static() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for length in [0, 10, 40, 63, 64, 70] {
            let _ = is_static(&own[..length]);
        }
        assert!(!is_static(b"") && !is_static(&own[..40]));
    }
}
