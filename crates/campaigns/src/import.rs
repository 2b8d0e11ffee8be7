//! Imports evidence that was recorded without bootscope: detects its formats by content and puts it into a recording.

use crate::Notes;
use anyhow::{Context, bail};
use recording::{Known, Source};
use serde::Serialize;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A file and its detected formats.
#[derive(Serialize)]
pub struct Recognised {
    /// The path, or `stdin`.
    pub file: String,
    /// The formats, in words; empty if the content is not recognised.
    pub formats: Vec<String>,
}

/// Files that are known and hold no times: what they are, and what to give in their place.
#[derive(Debug)]
pub struct Unusable(&'static str);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing to import: {}", self.0)
    }
}

impl Error for Unusable {}

/// Makes a recording from files of one boot; `-` is standard input.
///
/// # Errors
/// If a file cannot be read, the files hold no evidence of a boot, or the recording cannot be written.
pub fn import(
    paths: &[PathBuf],
    into: &Path,
    force: bool,
    facts: Known,
    notes: &dyn Notes,
) -> anyhow::Result<Vec<Recognised>> {
    let (mut files, mut sources, mut of_a_boot, mut instead) = (Vec::new(), Vec::new(), false, None);
    let mut next_time = None;
    for path in paths {
        let (source, recognised) = read(path)?;
        of_a_boot |= recognised.of_a_boot;
        instead = instead.or(recognised.instead);
        note_file(&source, &recognised, notes);
        next_time = next_time.or(recognised.next_time);
        files.push(Recognised { file: source.path.display().to_string(), formats: recognised.kinds });
        sources.push(source);
    }
    let is_nothing = files.iter().all(|file| file.formats.is_empty());
    if let Some(instead) = instead.filter(|_| is_nothing || !of_a_boot) {
        return Err(Unusable(instead).into());
    }
    if is_nothing {
        bail!(
            "nothing to import: give kernel messages (dmesg, /dev/kmsg, a capture of a serial line, with or without a \
             logger's time stamps), the text of /sys/kernel/tracing/trace, trace-cmd's trace.dat, a perf.data, a TSLOG dump (sysctl -b debug.tslog), a \
             libguestfs launch (boot-analysis --verbose), what systemd-analyze prints (time, blame, critical-chain, plot \
             --json=short, dump), `systemctl show '*'`, a journal (journalctl -b -o export), a boot chart (bootchart.tgz), \
             uftrace's directory in an archive, the times of coreboot (cbmem -t), U-Boot (bootstage report) or UEFI \
             (grep . /sys/firmware/acpi/fpdt/boot/*), the LoaderTime variables of efivars in an archive, or several of one boot"
        );
    }
    if !of_a_boot {
        bail!(
            "nothing of a boot to import: how fast a counter runs, and what machine it is, says nothing without a log; give \
             them together with one (a TSLOG dump: sysctl -b debug.tslog)"
        );
    }
    if let Some(next_time) = next_time.filter(|_| files.len() == 1) {
        notes.note(next_time);
    }
    recording::import_known(sources, into, force, facts)?;
    Ok(files)
}

/// Notes the formats of a file, and the parts that are not read.
fn note_file(source: &Source, recognised: &evidence::Recognised, notes: &dyn Notes) {
    let path = source.path.display();
    if source.cut {
        notes.note(&format!(
            "{path} goes on after {} MiB, the most that is read of a pipe: what follows is left out; a file may have {} MiB",
            recording::PIPE_BYTES_MAX >> 20,
            recording::BYTES_MAX >> 20
        ));
    }
    if recognised.cut {
        notes.note(&format!(
            "{path} unpacks to more than {} MiB, or 200 times its size: what follows is not read; cut out the part that is of interest",
            evidence::UNPACKED_BYTES_MAX >> 20
        ));
    }
    let formats = match recognised.kinds.is_empty() {
        true => recognised.instead.unwrap_or("nothing that is known").to_owned(),
        false => recognised.kinds.join(", "),
    };
    notes.note(&format!("{path}: {formats}"));
}

/// Reads a file and detects its formats. The content of anything but a regular file is kept, because it can be read
/// only once.
fn read(path: &Path) -> anyhow::Result<(Source, evidence::Recognised)> {
    if path.as_os_str() == "-" {
        let (bytes, cut) = beginning(std::io::stdin().lock()).context("cannot read standard input")?;
        let recognised = evidence::recognise(&bytes);
        return Ok((Source { path: "stdin".into(), bytes: Some(bytes), cut }, recognised));
    }
    let failed = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(failed)?;
    let meta = file.metadata().with_context(failed)?;
    if meta.is_file() {
        // The size is checked before the file is read, so a refused file costs nothing.
        let bytes = recording::read_file(path)?;
        return Ok((Source { path: path.to_owned(), bytes: None, cut: false }, evidence::recognise(&bytes)));
    }
    let (bytes, cut) = beginning(file).with_context(failed)?;
    let recognised = evidence::recognise(&bytes);
    Ok((Source { path: path.to_owned(), bytes: Some(bytes), cut }, recognised))
}

/// The bytes up to the limit for a pipe, and true if more follow.
fn beginning(from: impl Read) -> std::io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    from.take(recording::PIPE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let cut = bytes.len() as u64 > recording::PIPE_BYTES_MAX;
    bytes.truncate(usize::try_from(recording::PIPE_BYTES_MAX).unwrap_or(usize::MAX));
    Ok((bytes, cut))
}
