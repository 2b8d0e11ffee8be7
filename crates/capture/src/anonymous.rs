//! A recording as somebody can give it away: what tells one machine or one person from all others becomes tokens in each of its
//! texts, as it does in a capture.
//!
//! A stream's index says where each of its lines begins, so it moves with them. What is no text is kept where its format has
//! nothing of a machine's own, and is left out where nobody knows.

use crate::scrub::Scrubber;
use recording::{Error, InMemory, MANIFEST_NAME, Recording};
use regex::bytes::Regex;
use std::collections::BTreeSet;

/// A recording that is ready to be packed, and the names of the files that are not in it.
#[derive(Debug)]
pub struct Anonymous {
    /// The recording.
    pub recording: InMemory,
    /// What is no text, and may have anything in it.
    pub left_out: Vec<String>,
    /// How many names of hosts are in it that are no tokens, because there are more than [`NAMES_MAX`].
    pub hosts_left: usize,
}

/// Files that are no text: addresses of code, times, names of functions.
const SAFE: [&str; 3] = ["first-run.bin", "calls.bin", "fpdt.bin"];
/// Packed lists of names of functions; a number may stand behind these.
const SAFE_PACKED: [&str; 3] = ["kallsyms", "symbols", "image-symbols"];
/// Files of bootscope's own making, with times and numbers in a form of their own, in which no word is a name.
const OWN: [&str; 3] = ["guest.log", "trace-clock.txt", "vmm.json"];
/// What a guest says of its own name: systemd on the console, getty, the kernel's command line.
const NAMES: &str =
    r"(?m)Hostname set to <([^>\s]+)>|^([A-Za-z0-9][A-Za-z0-9.-]*) login:|systemd\.hostname=([A-Za-z0-9.-]+)";
/// A host name is short, and evidence may be anything.
const NAME_BYTES_MAX: usize = 255;
/// So many different names become tokens: each costs time in every text.
pub const NAMES_MAX: usize = 64;
/// So many are counted: a file that is made to have more says no more.
const NAMES_COUNTED: usize = 10_000;

/// Reads a recording, and makes tokens of what is its machine's own. Linear in its size; two files of it are in memory at once, and
/// what comes of all.
///
/// # Errors
/// If a file of it cannot be read.
pub fn anonymous(recording: &Recording) -> Result<Anonymous, Error> {
    // Those that are met first: what the guest calls itself stands before what it says of others.
    let mut hosts: Vec<Vec<u8>> = Vec::new();
    let mut seen: BTreeSet<Vec<u8>> = BTreeSet::new();
    for name in recording.names().filter(|name| may_have_names(name)) {
        names_in(&recording.read(name)?.unwrap_or_default(), &mut seen, &mut hosts);
    }
    let hosts_left = hosts.len().saturating_sub(NAMES_MAX);
    hosts.truncate(NAMES_MAX);
    let scrubber = Scrubber::of_this_machine(hosts.iter().map(|name| String::from_utf8_lossy(name).into_owned()));
    let word = |text: &str| String::from_utf8_lossy(&scrubber.text(text.as_bytes())).into_owned();
    let (mut files, mut left_out) = (Vec::new(), Vec::new());
    for name in recording.names().filter(|name| *name != MANIFEST_NAME) {
        let Some(bytes) = recording.read(name)? else { continue };
        let stream = match name.strip_suffix(".idx") {
            Some(stem) => recording.read(&format!("{stem}.log"))?,
            None => None,
        };
        let bytes = match stream {
            _ if OWN.contains(&name) || is_safe(name) => bytes,
            Some(stream) => moved(&bytes, &stream, &scrubber),
            None if is_text(name, &bytes) => scrubbed(&bytes, &scrubber, |_, _| {}),
            None => {
                left_out.push(name.to_owned());
                continue;
            }
        };
        let listed = recording.manifest().evidence.iter().find(|evidence| evidence.file == name);
        files.push((word(name), bytes, listed.map_or_else(String::new, |evidence| word(&evidence.origin))));
    }
    let mut manifest = recording.manifest().clone();
    manifest.change_texts(&mut |text| *text = word(text));
    Ok(Anonymous { recording: InMemory { manifest, files }, left_out, hosts_left })
}

/// The logs: where a guest says its name.
fn may_have_names(name: &str) -> bool {
    [".log", ".txt"].iter().any(|end| name.ends_with(end)) && !OWN.contains(&name)
}

/// Adds the names in a text that were not seen before.
fn names_in(bytes: &[u8], seen: &mut BTreeSet<Vec<u8>>, hosts: &mut Vec<Vec<u8>>) {
    let names = Regex::new(NAMES).expect("the pattern is a constant, and a test builds it");
    let of = |found: regex::bytes::Captures<'_>| (1..=3).find_map(|n| Some(found.get(n)?.as_bytes().to_vec()));
    // `Last login: Mon Nov 23` is no prompt.
    for name in names.captures_iter(bytes).filter_map(of).filter(|name| name.len() <= NAME_BYTES_MAX && name != b"Last")
    {
        if seen.len() == NAMES_COUNTED {
            return;
        }
        if seen.insert(name.clone()) {
            hosts.push(name);
        }
    }
}

/// A console may have any bytes in it and is text all the same.
fn is_text(name: &str, bytes: &[u8]) -> bool {
    let ends = [".log", ".txt", ".idx", ".json", ".csv", ".md"];
    ends.iter().any(|end| name.ends_with(end)) || (!bytes.contains(&0) && std::str::from_utf8(bytes).is_ok())
}

fn is_safe(name: &str) -> bool {
    let packed = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst"));
    let is_list = |stem: &str| SAFE_PACKED.contains(&stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-'));
    SAFE.contains(&name) || packed.is_some_and(is_list)
}

/// A text without what is its machine's own. `line` gets where each line began, and begins now. No value goes over the end of a line.
fn scrubbed(text: &[u8], scrubber: &Scrubber, mut line: impl FnMut(usize, usize)) -> Vec<u8> {
    /// No value is so short.
    const SHORT: usize = 5;
    let (mut out, mut began) = (Vec::with_capacity(text.len()), 0);
    for piece in text.split_inclusive(|&byte| byte == b'\n') {
        line(began, out.len());
        began += piece.len();
        if piece.len() < SHORT {
            out.extend_from_slice(piece);
        } else {
            out.extend(scrubber.text(piece));
        }
    }
    line(began, out.len());
    out
}

/// An index of a stream, whose lines are as long as they are now. What stands in it in another form is kept as it is.
fn moved(index: &[u8], stream: &[u8], scrubber: &Scrubber) -> Vec<u8> {
    let lines = || index.split_inclusive(|&byte| byte == b'\n');
    let offset_of = |text: &[u8]| -> Option<usize> {
        let digits = &text[..text.iter().position(|&byte| byte == b' ')?];
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    let mut asked: Vec<usize> = lines().filter_map(offset_of).collect();
    asked.sort_unstable();
    // Each offset that the index asks for, and where that is now; the last line, where it began and begins now.
    let (mut known, mut next, mut last) = (Vec::new(), 0, (0, 0));
    scrubbed(stream, scrubber, |began, begins| {
        while asked.get(next).is_some_and(|offset| *offset < began) {
            known.push((asked[next], (last.1 + (asked[next] - last.0)).min(begins)));
            next += 1;
        }
        last = (began, begins);
    });
    let place = |offset: usize| {
        let at = known.partition_point(|(asked, _)| *asked < offset);
        known.get(at).filter(|(asked, _)| *asked == offset).map_or(last.1, |(_, now)| *now)
    };
    let mut out = Vec::with_capacity(index.len());
    for text in lines() {
        match offset_of(text) {
            Some(offset) => {
                let rest = text.iter().position(|&byte| byte == b' ').unwrap_or(0);
                out.extend(place(offset).to_string().into_bytes());
                out.extend_from_slice(&text[rest..]);
            }
            None => out.extend_from_slice(text),
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

    fn file<'a>(of: &'a Anonymous, name: &str) -> &'a [u8] {
        &of.recording.files.iter().find(|(other, ..)| other == name).unwrap().1
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
    fn the_manifest_names_no_user_and_what_nobody_knows_is_left_out() {
        let found = packed(&[
            ("first-run.bin", b"\0\x01"),
            ("system.journal", b"LPKSHHRH\0anna"),
            ("kallsyms.gz", b"\x1f\x8b\0"),
            ("config.gz", b"\x1f\x8b\0"),
        ]);
        let command = &found.recording.manifest.vmm.command;
        assert!(command[1].starts_with("/home/user-") && command[1].ends_with("/bzImage"), "{command:?}");
        assert_eq!(found.left_out, ["config.gz", "system.journal"], "a configuration may name a user's folder");
        assert_eq!(found.recording.files.len(), 2);
    }

    #[test]
    fn names_beyond_the_most_are_counted_and_one_name_counts_once() {
        let prompts = |count: usize| -> Vec<u8> {
            let all = (0..count).map(|host| format!("machine{host:03} login: \n"));
            all.flat_map(|line| line.repeat(3).into_bytes()).collect()
        };
        let most = packed(&[("console.log", &prompts(NAMES_MAX)), ("kmsg.log", &prompts(NAMES_MAX))]);
        assert_eq!(most.hosts_left, 0);
        assert!(!String::from_utf8_lossy(file(&most, "console.log")).contains("machine"));
        let more = packed(&[("console.log", &prompts(NAMES_MAX + 6))]);
        assert_eq!(more.hosts_left, 6);
        let console = String::from_utf8_lossy(file(&more, "console.log")).into_owned();
        assert!(!console.contains("machine063") && console.contains("machine064"), "those that are met first");
    }

    #[test]
    fn a_host_that_is_called_as_a_word_of_the_schema_costs_no_manifest() {
        let console = b"host login: \nLast login: Mon\nLast words\n";
        let found = packed(&[("console.log", console), ("03-web7-host.txt", b"x\n"), ("guest.log", b"T host 1\n")]);
        let names: Vec<&str> = found.recording.files.iter().map(|(name, ..)| &**name).collect();
        assert!(names[0].starts_with("03-web7-host-") && !names[0].ends_with("host.txt"), "{names:?}");
        assert_eq!(file(&found, "guest.log"), b"T host 1\n", "its words are no names");
        assert!(file(&found, "console.log").ends_with(b"Last login: Mon\nLast words\n"));
        assert!(found.recording.files.iter().all(|(_, _, origin)| origin == "test"));
        assert_eq!(found.recording.manifest.vmm.command[0], "qemu");
    }
}
