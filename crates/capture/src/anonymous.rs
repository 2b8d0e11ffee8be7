//! A recording as somebody can give it away: what tells one machine or one person from all others becomes tokens in each of its
//! texts, as it does in a capture.
//!
//! A stream's index says where each of its lines begins, so it moves with them. What is no text is kept where its format has
//! nothing of a machine's own, and is left out where nobody knows.

use crate::scrub::Scrubber;
use recording::{Error, InMemory, MANIFEST_NAME, Manifest, Recording};
use regex::bytes::Regex;

/// A recording that is ready to be packed, and the names of the files that are not in it.
#[derive(Debug)]
pub struct Anonymous {
    /// The recording.
    pub recording: InMemory,
    /// What is no text, and may have anything in it.
    pub left_out: Vec<String>,
}

/// Files that are no text: addresses of code, times, names of functions, a kernel's configuration.
const SAFE: [&str; 3] = ["first-run.bin", "calls.bin", "fpdt.bin"];
/// Packed lists of names, and the kernel's configuration.
const SAFE_PACKED: [&str; 3] = ["kallsyms", "symbols", "config"];
/// What a guest says of its own name: systemd on the console, getty, the kernel's command line.
const NAMES: &str =
    r"(?m)Hostname set to <([^>\s]+)>|^([A-Za-z0-9][A-Za-z0-9.-]*) login:|systemd\.hostname=([A-Za-z0-9.-]+)";
/// A host name is short, and evidence may be anything.
const NAME_BYTES_MAX: usize = 255;
const NAMES_MAX: usize = 64;

/// Reads a recording, and makes tokens of what is its machine's own. Linear in its size.
///
/// # Errors
/// If a file of it cannot be read.
pub fn anonymous(recording: &Recording) -> Result<Anonymous, Error> {
    let mut files = Vec::new();
    for name in recording.names().filter(|name| *name != MANIFEST_NAME) {
        files.extend(recording.read(name)?.map(|bytes| (name.to_owned(), bytes)));
    }
    let mut names: Vec<Vec<u8>> = files.iter().flat_map(|(_, bytes)| names_in(bytes)).collect();
    names.sort();
    names.dedup();
    names.truncate(NAMES_MAX);
    let scrubber = Scrubber::of_this_machine(names.iter().map(|name| String::from_utf8_lossy(name).into_owned()));
    // Tokens have no character that JSON knows, so it reads as before. If it did not, nothing of it would be given away.
    let manifest = recording.manifest().rewritten(|text| scrubber.text(text)).unwrap_or_else(Manifest::begun_now);
    let origin = |name: &str| {
        let listed = manifest.evidence.iter().find(|evidence| evidence.file == name);
        listed.map_or_else(String::new, |evidence| evidence.origin.clone())
    };
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for (name, bytes) in &files {
        let index_of = |stem: &str| files.iter().find(|(other, _)| other.strip_suffix(".log") == Some(stem));
        let bytes = match name.strip_suffix(".idx").and_then(index_of) {
            Some((_, stream)) => moved(bytes, stream, &scrubber),
            None if is_text(name, bytes) => pieces(bytes).map(|line| scrubber.text(line)).collect::<Vec<_>>().concat(),
            None if is_safe(name) => bytes.clone(),
            None => {
                left_out.push(name.clone());
                continue;
            }
        };
        kept.push((name.clone(), bytes, origin(name)));
    }
    Ok(Anonymous { recording: InMemory { manifest, files: kept }, left_out })
}

fn names_in(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let names = Regex::new(NAMES).expect("the pattern is a constant, and a test builds it");
    let of = |found: regex::bytes::Captures<'_>| (1..=3).find_map(|n| Some(found.get(n)?.as_bytes().to_vec()));
    let found: Vec<Vec<u8>> = names.captures_iter(bytes).filter_map(of).take(NAMES_MAX).collect();
    found.into_iter().filter(|name| name.len() <= NAME_BYTES_MAX)
}

/// A console may have any bytes in it and is text all the same.
fn is_text(name: &str, bytes: &[u8]) -> bool {
    let ends = [".log", ".txt", ".idx", ".json", ".csv", ".md"];
    ends.iter().any(|end| name.ends_with(end)) || (!bytes.contains(&0) && std::str::from_utf8(bytes).is_ok())
}

fn is_safe(name: &str) -> bool {
    let packed = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst"));
    SAFE.contains(&name) || packed.is_some_and(|stem| SAFE_PACKED.iter().any(|safe| stem.contains(safe)))
}

/// Lines with their ends. No value goes over the end of one.
fn pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|&byte| byte == b'\n')
}

/// An index of a stream, whose lines are as long as they are now. What stands in it in another form is kept as it is.
fn moved(index: &[u8], stream: &[u8], scrubber: &Scrubber) -> Vec<u8> {
    // Where each line began, and begins now; then where both end.
    let (mut places, mut before, mut now) = (Vec::new(), 0, 0);
    for line in pieces(stream) {
        places.push((before, now));
        before += line.len();
        now += scrubber.text(line).len();
    }
    places.push((before, now));
    let place = |offset: usize| {
        let line = places.partition_point(|(began, _)| *began <= offset).saturating_sub(1);
        let (began, begins) = places[line];
        let next = places.get(line + 1).map_or(now, |(_, begins)| *begins);
        (begins + (offset - began)).min(next)
    };
    let line = |text: &[u8]| -> Option<Vec<u8>> {
        let space = text.iter().position(|&byte| byte == b' ')?;
        let offset: usize = std::str::from_utf8(&text[..space]).ok()?.parse().ok()?;
        Some([place(offset).to_string().as_bytes(), &text[space..]].concat())
    };
    pieces(index).map(|text| line(text).unwrap_or_else(|| text.to_vec())).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(files: &[(&str, &[u8])]) -> Anonymous {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar.zst");
        let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec(), "test".to_owned()));
        let mut manifest = Manifest::begun_now();
        manifest.vmm.command = vec!["qemu".to_owned(), "/home/anna/bzImage".to_owned()];
        InMemory { manifest, files: files.collect() }.pack(&path, false).unwrap();
        anonymous(&Recording::open(&path).unwrap()).unwrap()
    }

    fn file<'a>(of: &'a Anonymous, name: &str) -> &'a [u8] {
        &of.recording.files.iter().find(|(other, ..)| other == name).unwrap().1
    }

    #[test]
    fn names_are_gone_and_each_line_still_begins_where_its_index_says() {
        let console = b"systemd[1]: Hostname set to <web7prod>.\n\xff\0eth0 52:54:00:12:34:56 up\nweb7prod login: ";
        let index = b"0 100\n40 250\n67 900\n80 950\nno index\n";
        let found = packed(&[("console.log", console), ("console.idx", index)]);
        let (console, index) =
            (file(&found, "console.log"), String::from_utf8(file(&found, "console.idx").to_vec()).unwrap());
        let text = String::from_utf8_lossy(console);
        assert!(
            !text.contains("web7prod") && !text.contains("52:54") && text.contains("\u{fffd}\0eth0 mac-"),
            "{text}"
        );
        let starts: Vec<usize> = index.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
        assert_eq!(starts[0], 0);
        assert!(console[starts[1]..].starts_with(b"\xff\0eth0 mac-"));
        assert!(console[starts[2]..].starts_with(b"host-") && console[starts[2]..].ends_with(b" login: "));
        assert!(starts[3] > starts[2] && starts[3] <= console.len(), "in the middle of a line: {starts:?}");
        assert!(index.ends_with(" 950\nno index\n"));
    }

    #[test]
    fn the_manifest_names_no_user_and_what_nobody_knows_is_left_out() {
        let found = packed(&[
            ("first-run.bin", b"\0\x01"),
            ("system.journal", b"LPKSHHRH\0anna"),
            ("kallsyms.gz", b"\x1f\x8b\0"),
        ]);
        let command = &found.recording.manifest.vmm.command;
        assert!(command[1].starts_with("/home/user-") && command[1].ends_with("/bzImage"), "{command:?}");
        assert_eq!(found.left_out, ["system.journal"]);
        assert_eq!(found.recording.files.len(), 2);
    }
}
