//! Makes a recording that its owner can give away: tokens replace identities in all of its files, in the manifest, and
//! in file names.
//!
//! A file is kept if it is text, or if its format has no text except names of functions. All other files are left out.
//! A stream's index has the offset of each line, so its offsets move with the lines. A last check looks for learnt
//! identities in the bytes of each file, also in packed ones. A file that still has one is left out.

use crate::journal_export;
use crate::learned_identities::{LearnedIdentities, Words};
use crate::scrub::{LineScrubber, Scrubber, learn_this_machine};
use recording::{BYTES_MAX, Error, InMemory, MANIFEST_NAME, Manifest, Recording};
use std::borrow::Cow;
use std::io::{Read, Write};

/// A recording that is ready to be packed, and the names of the files left out of it.
#[derive(Debug)]
pub struct Anonymous {
    pub recording: InMemory,
    /// Files that are not text and may contain anything, and files with an identity that cannot be replaced.
    pub left_out: Vec<String>,
    /// The number of identities that are replaced only where a form finds them, because there were more than
    /// [`crate::IDENTITIES_MAX`].
    pub not_learned: usize,
    /// The number of identities of each kind, with the kind in words.
    pub identities: Vec<(&'static str, usize)>,
}

/// Formats without text, by name and first bytes: they have addresses of code, times and numbers.
const WITHOUT_TEXT: [(&str, &[u8]); 4] =
    [("first-run.bin", b"BSFIRST\n"), ("calls.bin", b"BSCALLS\n"), ("exits.bin", b"BSEXITS\n"), ("fpdt.bin", b"FPDT")];
/// Lists of names of functions; a number may follow these names.
const SYMBOL_LISTS: [&str; 3] = ["kallsyms", "symbols", "image-symbols"];
/// Reads a recording, and replaces the identities in it by tokens. Linear in its size.
///
/// # Errors
/// If one of its files cannot be read.
pub fn anonymous(recording: &Recording) -> Result<Anonymous, Error> {
    let mut learned = learn(recording)?;
    learn_this_machine(&mut learned);
    let scrubber = Scrubber::new(&learned);
    let (mut files, mut left_out) = (Vec::new(), Vec::new());
    for name in recording.names().filter(|name| *name != MANIFEST_NAME) {
        let Some(bytes) = recording.read(name)? else { continue };
        let stream = match name.strip_suffix(".idx") {
            Some(stem) => recording.read(&format!("{stem}.log"))?,
            None => None,
        };
        let without = match stream {
            Some(stream) => Some(move_index(&bytes, &stream, &scrubber)),
            None => without_identities(name, bytes, &scrubber),
        };
        let Some(bytes) = without.filter(|bytes| !has_learned_identity(name, bytes, &scrubber)) else {
            left_out.push(name.to_owned());
            continue;
        };
        let listed = recording.manifest().evidence.iter().find(|evidence| evidence.file == name);
        let origin = listed.map_or_else(String::new, |evidence| scrubber.word(&evidence.origin));
        files.push((scrubber.word(name), bytes, origin));
    }
    let mut manifest = recording.manifest().clone();
    manifest.change_texts(&mut |text| *text = scrubber.word(text));
    let identities = in_words(&learned);
    Ok(Anonymous { recording: InMemory { manifest, files }, left_out, not_learned: learned.overflow, identities })
}

/// The number of identities of each kind, with the kind in words.
pub(crate) fn in_words(learned: &LearnedIdentities) -> Vec<(&'static str, usize)> {
    learned.counts().into_iter().map(|(kind, count)| (kind.plural(), count)).collect()
}

/// Learns the identities in all texts of a recording.
///
/// # Errors
/// If one of its files cannot be read.
pub(crate) fn learn(recording: &Recording) -> Result<LearnedIdentities, Error> {
    let mut learned = LearnedIdentities::default();
    learn_manifest(recording.manifest(), &mut learned);
    for name in recording.names() {
        learned.text(name.as_bytes());
        let bytes = recording.read(name)?.unwrap_or_default();
        match unpacked(&bytes) {
            _ if is_without_text(name, &bytes) => {}
            found if is_symbol_list(name) => {
                let text = found.map_or(bytes, |(text, _)| text);
                let others = text.split(|&byte| byte == b'\n').filter(|line| !is_symbol(line));
                others.for_each(|line| learned.text(line));
            }
            None if journal_export::has_lengths(&bytes) => {
                journal_export::change_texts(&bytes, |text| {
                    learned.text(text);
                    Vec::new()
                });
            }
            Some((text, _)) if is_text(&text) => learned.text(&text),
            None if is_text(&bytes) => learned.text(&bytes),
            _ => {}
        }
    }
    Ok(learned)
}

fn learn_manifest(manifest: &Manifest, learned: &mut LearnedIdentities) {
    // Joined to one line, because `--token` stands before its value.
    learned.text(manifest.vmm.command.join(" ").as_bytes());
    manifest.clone().change_texts(&mut |text| learned.text(text.as_bytes()));
}

/// A file without identities; `None` if it may have identities that cannot be found.
fn without_identities(name: &str, bytes: Vec<u8>, scrubber: &Scrubber) -> Option<Vec<u8>> {
    if is_without_text(name, &bytes) {
        return Some(bytes);
    }
    let scrubbed = |text: &[u8]| match is_symbol_list(name) {
        true => symbols(text, scrubber),
        false => scrubber.text(text),
    };
    match unpacked(&bytes) {
        Some((text, compression)) => {
            let out = Some(text).filter(|text| is_text(text)).map(|text| (scrubbed(&text), text))?;
            // Unchanged content keeps its bytes.
            if out.0 == out.1 { Some(bytes) } else { compression.compress(&out.0) }
        }
        None if journal_export::has_lengths(&bytes) => journal_export::change_texts(&bytes, scrubbed),
        None => is_text(&bytes).then(|| scrubbed(&bytes)),
    }
}

/// True if a learnt identity is in the bytes of a file, or in its unpacked content.
fn has_learned_identity(name: &str, bytes: &[u8], scrubber: &Scrubber) -> bool {
    let words = if is_symbol_list(name) { Words::Symbols } else { Words::Text };
    let is_in = |bytes: &[u8]| scrubber.matcher.is_in(bytes, words);
    match unpacked(bytes) {
        Some((text, _)) => is_in(&text),
        None => is_in(bytes),
    }
}

/// Scrubs a list of functions. Lines of an address, a letter and a name stay; other lines are text.
fn symbols(text: &[u8], scrubber: &Scrubber) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        if is_symbol(line) { out.extend_from_slice(line) } else { out.extend(scrubber.text(line)) }
    }
    out
}

fn is_symbol(line: &[u8]) -> bool {
    let mut words = line.trim_ascii_end().split(|&byte| byte == b' ');
    let is_hexadecimal = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_hexdigit);
    let is_start = words.next().is_some_and(is_hexadecimal) && words.next().is_some_and(|word| word.len() == 1);
    is_start && words.count() == 1
}

fn is_without_text(name: &str, bytes: &[u8]) -> bool {
    WITHOUT_TEXT.iter().any(|(file, first)| *file == name && bytes.starts_with(first))
}

fn is_symbol_list(name: &str) -> bool {
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    SYMBOL_LISTS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-'))
}

/// True for text. A console's text may have any bytes, but bytes of which more than a quarter are not text are another
/// format.
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    /// The formats of journald, programs, perf, trace-cmd and SQLite.
    const FORMATS: [&[u8]; 6] =
        [b"LPKSHHRH", b"\x7fELF", b"PERFILE", b"2ELIFREP", b"\x17\x08Dtracing", b"SQLite format 3"];
    let is_other =
        |byte: &&u8| !(byte.is_ascii_graphic() || byte.is_ascii_whitespace() || matches!(**byte, 0x1b | 0x08));
    let text = String::from_utf8_lossy(bytes);
    let other = match text {
        Cow::Borrowed(_) => bytes.iter().filter(|byte| byte.is_ascii_control()).filter(is_other).count(),
        Cow::Owned(_) => bytes.iter().filter(is_other).count(),
    };
    !FORMATS.iter().any(|format| bytes.starts_with(format)) && other * 4 <= bytes.len()
}

/// The compression of one file.
#[derive(Clone, Copy)]
pub(crate) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    fn compress(self, text: &[u8]) -> Option<Vec<u8>> {
        match self {
            Compression::Gzip => {
                let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                to.write_all(text).and_then(|()| to.finish()).ok()
            }
            Compression::Zstd => zstd::encode_all(text, 9).ok(),
        }
    }
}

/// The content of a packed file, and its compression. Returns `None` if it is not packed or damaged; its bytes are then
/// not text.
pub(crate) fn unpacked(bytes: &[u8]) -> Option<(Vec<u8>, Compression)> {
    let read = |from: &mut dyn Read| {
        let mut text = Vec::new();
        let is_whole = from.take(BYTES_MAX + 1).read_to_end(&mut text).is_ok() && text.len() as u64 <= BYTES_MAX;
        is_whole.then_some(text)
    };
    match bytes {
        [0x1f, 0x8b, ..] => Some((read(&mut flate2::read::MultiGzDecoder::new(bytes))?, Compression::Gzip)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some((read(&mut zstd::Decoder::new(bytes).ok()?)?, Compression::Zstd)),
        _ => None,
    }
}

/// A text without identities. `line` receives the old and the new offset of each line.
fn scrubbed(text: &[u8], scrubber: &Scrubber, mut line: impl FnMut(usize, usize)) -> Vec<u8> {
    let (mut out, mut began, mut lines) = (Vec::with_capacity(text.len()), 0, LineScrubber::new(scrubber));
    for piece in text.split_inclusive(|&byte| byte == b'\n') {
        line(began, out.len());
        began += piece.len();
        out.extend_from_slice(&lines.next(piece));
    }
    line(began, out.len());
    out
}

/// Moves the offsets in a stream's index to the scrubbed lines. Lines of another form are scrubbed as text.
fn move_index(index: &[u8], stream: &[u8], scrubber: &Scrubber) -> Vec<u8> {
    let lines = || index.split_inclusive(|&byte| byte == b'\n');
    let offset_of = |text: &[u8]| -> Option<usize> {
        let (digits, time) = text.split_at(text.iter().position(|&byte| byte == b' ')?);
        let is_time = time.trim_ascii().iter().all(|byte| byte.is_ascii_digit() || *byte == b'-');
        std::str::from_utf8(digits).ok().filter(|_| is_time)?.parse().ok()
    };
    let mut offsets: Vec<usize> = lines().filter_map(offset_of).collect();
    offsets.sort_unstable();
    // The old and the new offset of each index entry, and of the last line.
    let (mut moved, mut next, mut last) = (Vec::new(), 0, (0, 0));
    scrubbed(stream, scrubber, |began, begins| {
        while offsets.get(next).is_some_and(|offset| *offset < began) {
            moved.push((offsets[next], (last.1 + (offsets[next] - last.0)).min(begins)));
            next += 1;
        }
        last = (began, begins);
    });
    let place = |offset: usize| {
        let at = moved.partition_point(|(old, _)| *old < offset);
        moved.get(at).filter(|(old, _)| *old == offset).map_or(last.1, |(_, now)| *now)
    };
    let mut out = Vec::with_capacity(index.len());
    for text in lines() {
        match offset_of(text) {
            Some(offset) => {
                let rest = text.iter().position(|&byte| byte == b' ').unwrap_or(0);
                out.extend(place(offset).to_string().into_bytes());
                out.extend_from_slice(&text[rest..]);
            }
            None => out.extend(scrubber.text(text)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::Manifest;

    fn packed(files: &[(&str, &[u8])]) -> Anonymous {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar.zst");
        let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec(), "test".to_owned()));
        let mut manifest = Manifest::begun_now();
        manifest.vmm.command = vec!["qemu".to_owned(), "/home/anna/bzImage".to_owned()];
        InMemory { manifest, files: files.collect() }.pack(&path, false).unwrap();
        anonymous(&Recording::open(&path).unwrap()).unwrap()
    }

    fn file<'a>(anonymous: &'a Anonymous, name: &str) -> &'a [u8] {
        &anonymous.recording.files.iter().find(|(other, ..)| other == name).unwrap().1
    }

    #[test]
    fn names_are_gone_and_each_line_still_begins_where_its_index_says() {
        let console = b"systemd[1]: Hostname set to <web7prod>.\n\xff\0eth0 52:54:00:12:34:56 up\nweb7prod login: ";
        let index = b"0 100\n40 250\n67 900\n80 950\nno index\n18446744073709551615 960\n";
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
        assert!(index.contains(" 950\nno index\n"), "{index}");
        assert_eq!(starts[4], console.len(), "beyond the end");
    }

    #[test]
    fn the_manifest_names_no_user_and_other_formats_are_left_out() {
        let gzip = |text: &str| Compression::Gzip.compress(text.as_bytes()).unwrap();
        let found = packed(&[
            ("first-run.bin", b"BSFIRST\n\0\x01"),
            ("calls.bin", b"web7prod\0\x01\0\0\0\0\0\0"),
            ("system.journal", b"LPKSHHRH\0anna"),
            ("kallsyms.gz", &gzip("ffffffff81000000 T key_put\tweb7prod\n")),
            ("symbols-1.gz", &gzip("1000 T hostname=x\n1008 t web7prod_init\n")),
            ("config.gz", &gzip("CONFIG_DEFAULT_HOSTNAME=\"web7prod\"\nCONFIG_X=y\n")),
            ("damaged.gz", b"\x1f\x8b\0"),
            ("wide.txt", b"w\0e\0b\x007\0\n\0"),
        ]);
        let command = &found.recording.manifest.vmm.command;
        assert!(command[1].starts_with("/home/user-") && command[1].ends_with("/bzImage"), "{command:?}");
        assert_eq!(found.left_out, ["calls.bin", "damaged.gz", "kallsyms.gz", "system.journal", "wide.txt"]);
        let list = unpacked(file(&found, "symbols-1.gz")).unwrap().0;
        assert_eq!(String::from_utf8(list).unwrap(), "1000 T hostname=x\n1008 t web7prod_init\n", "names of functions");
        let config = String::from_utf8(unpacked(file(&found, "config.gz")).unwrap().0).unwrap();
        assert!(
            config.starts_with("CONFIG_DEFAULT_HOSTNAME=\"host-") && config.ends_with("\"\nCONFIG_X=y\n"),
            "{config}"
        );
    }

    #[test]
    fn names_beyond_the_most_are_counted_and_one_name_counts_once() {
        use crate::IDENTITIES_MAX;
        let prompts = |count: usize| -> Vec<u8> {
            let all = (0..count).map(|host| format!("machine{host:05} login: \n"));
            all.flat_map(|line| line.repeat(2).into_bytes()).collect()
        };
        let more = packed(&[("console.log", &prompts(IDENTITIES_MAX)), ("kmsg.log", b"machine00000 is up\n")]);
        // This machine's own identities and a user in the command are learnt, too.
        assert!(more.not_learned > 0 && more.not_learned < 100, "{}", more.not_learned);
        assert!(!String::from_utf8_lossy(file(&more, "console.log")).contains("machine"), "their form shows them");
        assert!(!String::from_utf8_lossy(file(&more, "kmsg.log")).contains("machine"), "those that are met first");
    }

    #[test]
    fn a_host_that_is_called_as_a_word_of_the_schema_costs_no_manifest() {
        let console = b"host login: \nLast login: Mon\nLast words\n";
        let found = packed(&[("console.log", console), ("03-web7-host.txt", b"x\n"), ("guest.log", b"T host 1\n")]);
        assert_eq!(file(&found, "guest.log"), b"T host 1\n", "its words are no names");
        assert!(file(&found, "console.log").ends_with(b"Last login: Mon\nLast words\n"));
        assert!(found.recording.files.iter().all(|(_, _, origin)| origin == "test"));
        assert_eq!(found.recording.manifest.vmm.command[0], "qemu");
    }

    #[test]
    fn a_name_that_one_file_shows_is_gone_from_all_and_from_file_names() {
        let found = packed(&[
            ("console.log", b"web7prod.corp.example login: anna\n" as &[u8]),
            ("guest.log", b"L console.log: WEB7PROD is away\n"),
            ("vmm.json", b"[{\"name\": \"tap-web7prod\"}]\n"),
            ("02-web7prod-dmesg.txt", b"web7\\x2dprod corp.example: annas mail to anna\n"),
            ("journal.txt", b"{\"MESSAGE\":[27,91,109,119,101,98,55,112,114,111,100],\"X\":[1,2,3,4]}\n"),
            ("odd.idx", b"0 web7prod\n1 5\n"),
            ("trace.txt", b"host=reed reed: random_reed(tap_web7prod)\n"),
        ]);
        let all: Vec<u8> =
            found.recording.files.iter().flat_map(|(name, bytes, _)| [name.as_bytes(), bytes].concat()).collect();
        let text = String::from_utf8(all).unwrap();
        assert!(!text.to_lowercase().contains("web7prod") && !text.contains("corp.example"), "{text}");
        assert!(
            text.contains("annas mail to user-") && !text.contains("119,101,98,55") && text.contains("[1,2,3,4]"),
            "{text}"
        );
        assert!(text.contains(": random_reed(tap_host-"), "a function's name: {text}");
        assert_eq!(found.left_out, [""; 0]);
    }
}
