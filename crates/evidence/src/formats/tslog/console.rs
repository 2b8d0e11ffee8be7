//! Console messages of a BSD kernel: which system and machine it is, and, if a logger stamped the lines, when messages
//! appeared whose function is in the log too.
//!
//! ```text
//! Copyright (c) 1992-2025 The FreeBSD Project.                  SYSINIT announce prints it
//! FreeBSD is a registered trademark of The FreeBSD Foundation.  SYSINIT trademark
//! FreeBSD 15.0-RELEASE-p13 #0 releng/15.0-af58d0db156a: …       SYSINIT version
//! real memory  = 536870912 (512 MB)
//! FreeBSD/SMP: Multiprocessor System Detected: 16 CPUs
//! hw.ncpu: 16                                                   sysctl; also `ncpu=16` in notes
//! NetBSD 10.0 (GENERIC) #0: …
//! total memory = 511 MB
//! ```

use crate::input::text::{grouped_number, lossy, number, skip_spaces};
use timeline::{Ns, Os};

/// The system and its machine. The first statement about each counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub os: Option<Os>,
    pub release: Option<String>,
    pub cpus: Option<u32>,
    pub memory_bytes: Option<u64>,
}

impl Facts {
    /// Reads a line. Returns true if it has any of these facts.
    pub(crate) fn line(&mut self, text: &[u8]) -> bool {
        if !text.first().is_some_and(|first| b"FNrthS".contains(first)) {
            return false;
        }
        let banner = banner(text);
        let cpus = cpus(text).and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
        let memory_bytes = memory(text).filter(|&n| n > 0);
        let says = banner.is_some() || cpus.is_some() || memory_bytes.is_some();
        if let Some((os, release)) = banner {
            self.os.get_or_insert(os);
            self.release.get_or_insert(release);
        }
        self.cpus = self.cpus.or(cpus);
        self.memory_bytes = self.memory_bytes.or(memory_bytes);
        says
    }
}

fn banner(text: &[u8]) -> Option<(Os, String)> {
    let names: [(Os, &[u8]); 2] = [(Os::FreeBsd, b"FreeBSD "), (Os::NetBsd, b"NetBSD ")];
    let (os, rest) = names.into_iter().find_map(|(os, prefix)| Some((os, text.strip_prefix(prefix)?)))?;
    let release = rest.split(|&b| b == b' ').next()?;
    // Excludes `FreeBSD is a registered trademark …`.
    let is_release = release.first()?.is_ascii_digit() && release.contains(&b'.') && release.len() < 64;
    is_release.then(|| (os, lossy(release).into_owned()))
}

fn cpus(text: &[u8]) -> Option<u64> {
    const DETECTED: &[u8] = b"Multiprocessor System Detected: ";
    let after = |key: &[u8]| Some(&text[memchr::memmem::find(text, key)? + key.len()..]);
    let value = |key: &[u8]| after(key).and_then(assigned);
    after(DETECTED).and_then(number).or_else(|| value(b"hw.ncpu")).or_else(|| value(b" ncpu")).map(|(n, _)| n)
}

/// The number behind `:` or `=`.
fn assigned(text: &[u8]) -> Option<(u64, &[u8])> {
    let [b':' | b'=', rest @ ..] = skip_spaces(text) else { return None };
    grouped_number(skip_spaces(rest))
}

fn memory(text: &[u8]) -> Option<u64> {
    let value = |key: &[u8]| text.strip_prefix(key).and_then(assigned);
    if let Some((megabytes, rest)) = value(b"total memory") {
        return rest.starts_with(b" MB").then_some(megabytes)?.checked_mul(1 << 20);
    }
    let (bytes, _) = value(b"real memory").or_else(|| value(b"hw.realmem")).or_else(|| value(b"hw.physmem"))?;
    Some(bytes)
}

/// A message whose printing function is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The message that the SYSINIT of this name prints.
    Sysinit(&'static str),
}

/// A message and the time when it appeared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub message: Message,
    pub at: Ns,
}

/// Returns the message and its time if the log has its function too and a logger stamped the line.
pub(super) fn said(text: &[u8], stamp: Option<Ns>) -> Option<Said> {
    let at = stamp?;
    let sysinit = match text {
        _ if text.starts_with(b"Copyright (c) 1992-") => "announce",
        _ if text.starts_with(b"FreeBSD is a registered trademark") => "trademark",
        _ if banner(text).is_some_and(|(os, _)| os == Os::FreeBsd) => "version",
        _ => return None,
    };
    Some(Said { message: Message::Sysinit(sysinit), at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_from_either_console() {
        let mut facts = Facts::default();
        let text = "FreeBSD is a registered trademark of The FreeBSD Foundation.\nFreeBSD 15.0-RELEASE-p13 #0 releng\n\
                    real memory  = 536870912 (512 MB)\nSMOLFIRE_TSLOG_META tsc_freq=1 ncpu=1 ident=x\nhw.ncpu: 7";
        assert!(text.lines().all(|line| facts.line(line.as_bytes()) != line.contains("trademark")));
        let expected = Facts {
            os: Some(Os::FreeBsd),
            release: Some("15.0-RELEASE-p13".to_owned()),
            cpus: Some(1),
            memory_bytes: Some(536870912),
        };
        assert_eq!(facts, expected);

        let mut facts = Facts::default();
        let text = "NetBSD 10.0 (GENERIC) #0: Thu\ntotal memory = 511 MB\nhw.ncpu = 4\nhw.physmem: 535,822,336";
        assert!(text.lines().all(|line| facts.line(line.as_bytes()) != line.contains("trademark")));
        assert_eq!((facts.os, facts.memory_bytes), (Some(Os::NetBsd), Some(511 << 20)));

        let mut facts = Facts::default();
        assert!(facts.line(b"FreeBSD/SMP: Multiprocessor System Detected: 16 CPUs"));
        assert!(!facts.line(b"hw.model: none"));
        assert_eq!(facts.cpus, Some(16));
    }
}
