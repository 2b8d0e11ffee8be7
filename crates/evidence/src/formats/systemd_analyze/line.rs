//! One line of systemd-analyze. It knows spans of time, names of units, and the tree in front of them.

use super::{Finished, Link, Stage};
use crate::formats::systemd_span::span;
use crate::input::text::lossy;
use serde::Deserialize;
use timeline::Ns;

/// The content of a line.
pub(super) enum Line {
    Finished(Finished),
    /// The default target, and when, since user space began.
    Reached(String, Ns),
    /// A unit, and how long it took.
    Blame(String, Ns),
    Link(Link),
}

const FINISHED: &[u8] = b"Startup finished in ";

/// Names of units end so.
const SUFFIXES: [&[u8]; 11] = [
    b".service",
    b".target",
    b".device",
    b".mount",
    b".socket",
    b".path",
    b".slice",
    b".swap",
    b".timer",
    b".scope",
    b".automount",
];

/// Units have names of at most 255 bytes.
pub(super) const NAME_MAX: usize = 255;

/// A unit's name, bounded.
#[derive(Deserialize)]
#[serde(from = "String")]
pub(super) struct Unit(pub String);

impl From<String> for Unit {
    fn from(mut name: String) -> Unit {
        let mut end = name.len().min(NAME_MAX);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
        Unit(name)
    }
}

/// Reads a line without colours.
pub(super) fn read(text: &[u8]) -> Option<Line> {
    let text = text.trim_ascii_end();
    if let Some(stages) = text.strip_prefix(FINISHED) {
        return finished(stages).map(Line::Finished);
    }
    reached(text).or_else(|| blame(text)).or_else(|| link(text))
}

/// A line without the date, the host and the sender that a journal prints before systemd's summary of a boot.
pub(super) fn of_journal(text: &[u8]) -> &[u8] {
    const FROM_SYSTEMD: &[u8] = b"systemd[1]: ";
    let Some(at) = memchr::memmem::find(text, FINISHED).filter(|at| *at > 0) else { return text };
    let is_said = text[..at].ends_with(FROM_SYSTEMD) && crate::formats::kernel_log::after_date(text).is_some();
    if is_said { &text[at..] } else { text }
}

/// True if a line is one of these, or should be one. Cheap for all other lines.
pub(super) fn claims(text: &[u8]) -> bool {
    let text = of_journal(text);
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'S') => text.starts_with(FINISHED),
        Some(b'0'..=b'9') => blame(text.trim_ascii_end()).is_some(),
        // The tree's corners and a terminal's colours stand before any other link of the chain.
        Some(b'`' | b'|' | 0xe2 | 0x1b) => {
            link(crate::formats::kernel_log::Cleaner::default().clean(text).0.trim_ascii_end()).is_some()
        }
        // The head of a chain has no time where its unit is not active yet.
        Some(_) => {
            let has_mark = text.contains(&b'@') || memchr::memmem::find(text, b" +").is_some();
            let has_time = |line| matches!(line, Line::Link(link) if link.at.is_some() || link.took.is_some());
            has_mark && link(text.trim_ascii_end()).is_some_and(has_time)
        }
        None => false,
    }
}

/// True for a link of a chain that a pager cut: a tree's corner, and an @ with a time that has no unit.
pub(super) fn is_damaged_link(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    let has_corner = text.starts_with("└─".as_bytes()) || text.starts_with(b"`-");
    let time = || memchr::memmem::rfind(text, b" @").map(|at| &text[at + 2..]);
    has_corner && time().is_some_and(|time| time.first().is_some_and(u8::is_ascii_digit)) && link(text).is_none()
}

/// True if the JSON of units may begin here: `[{"name":…`, or a `[` alone where it is printed prettily.
pub(super) fn begins_json(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    text == b"[" || (text.starts_with(b"[{") && is_json(text))
}

/// True if a line is certainly of that JSON.
pub(super) fn is_json(text: &[u8]) -> bool {
    const LOOKED_AT: usize = 4096;
    let text = text.trim_ascii_start();
    let head = &text[..text.len().min(LOOKED_AT)];
    match head {
        [b'[', b'{', ..] => memchr::memmem::find(head, b"\"activating\"").is_some(),
        _ => head.starts_with(b"\"activating\"") && head[12..].trim_ascii_start().starts_with(b":"),
    }
}

/// `6.321s (firmware) + 529ms (loader) + … = 43.891s`
fn finished(mut rest: &[u8]) -> Option<Finished> {
    let mut found = Finished::default();
    loop {
        let (took, after) = span(rest)?;
        let (stage, after) = stage(after.strip_prefix(b" (")?)?;
        // In their order, each once: this bounds them too.
        if found.stages.last().is_some_and(|(last, _)| *last >= stage) {
            return None;
        }
        found.stages.push((stage, took));
        match after.strip_prefix(b" + ") {
            Some(next) => rest = next,
            None => {
                rest = after;
                break;
            }
        }
    }
    let total = rest.trim_ascii_start().strip_prefix(b"= ").and_then(span);
    found.total = total.map(|(total, _)| total);
    Some(found)
}

fn stage(text: &[u8]) -> Option<(Stage, &[u8])> {
    const STAGES: [(&[u8], Stage); 6] = [
        (b"firmware)", Stage::Firmware),
        (b"loader)", Stage::Loader),
        (b"kernel)", Stage::Kernel),
        (b"initrd)", Stage::Initrd),
        (b"soft reboot)", Stage::SoftReboot),
        (b"userspace)", Stage::Userspace),
    ];
    STAGES.iter().find_map(|(name, stage)| Some((*stage, text.strip_prefix(*name)?)))
}

/// `graphical.target reached after 32.429s in userspace.`
fn reached(text: &[u8]) -> Option<Line> {
    let (unit, rest) = unit(text)?;
    let (after, rest) = span(rest.strip_prefix(b" reached after ")?)?;
    rest.starts_with(b" in userspace").then_some(Line::Reached(unit, after))
}

/// `  1min 3.753s apt-daily.service`
fn blame(text: &[u8]) -> Option<Line> {
    let (took, rest) = span(text.trim_ascii_start())?;
    let (unit, rest) = unit(rest.strip_prefix(b" ")?)?;
    rest.is_empty().then_some(Line::Blame(unit, took))
}

/// `  └─pmie.service @35.968s +548ms`
fn link(text: &[u8]) -> Option<Line> {
    let (depth, rest) = tree(text);
    let (unit, rest) = unit(rest)?;
    let (at, rest) = marked(rest, b" @")?;
    let (took, rest) = marked(rest, b" +")?;
    // A name alone is a unit that was there before; without a tree it can be anything.
    let is_link = rest.is_empty() && (depth > 0 || at.is_some() || took.is_some());
    is_link.then_some(Line::Link(Link { unit, depth, at, took }))
}

/// A span behind a mark: none if the mark is not there.
fn marked<'a>(text: &'a [u8], mark: &[u8]) -> Option<(Option<Ns>, &'a [u8])> {
    match text.strip_prefix(mark) {
        None => Some((None, text)),
        Some(rest) => span(rest).map(|(span, rest)| (Some(span), rest)),
    }
}

/// A line's depth in the tree, and the rest of the line. Each branch above it takes two columns.
fn tree(mut text: &[u8]) -> (usize, &[u8]) {
    const BRANCHES: [&[u8]; 8] =
        ["└─".as_bytes(), "├─".as_bytes(), "│ ".as_bytes(), b"`-", b"|-", b"| ", b"  ", "\u{a0}\u{a0}".as_bytes()];
    let mut depth = 0;
    while let Some(rest) = BRANCHES.iter().find_map(|branch| text.strip_prefix(*branch)) {
        (depth, text) = (depth + 1, rest);
    }
    (depth, text)
}

/// A unit's name, and what follows it.
fn unit(text: &[u8]) -> Option<(String, &[u8])> {
    // The characters that systemd allows in a name. A cut column ends in `…`, which it does not allow.
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(byte);
    let length = text.iter().take(NAME_MAX + 1).take_while(|byte| is_name(byte)).count();
    let (name, rest) = text.split_at(length);
    let is_unit = SUFFIXES.iter().any(|suffix| name.len() > suffix.len() && name.ends_with(suffix));
    (length <= NAME_MAX && is_unit).then(|| (lossy(name).into_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_a_pager_cut_is_known() {
        for text in ["      └─systemd-backlight@backlight:intel_backlight.service @4.66>", "  `-a.service @1.2s +3m"]
        {
            assert!(is_damaged_link(text.as_bytes()), "{text}");
        }
        for text in ["└─a.service @1.2s +3ms", "└─foo@1.txt", "└── a @home", "a.service @1.2x"] {
            assert!(!is_damaged_link(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn names_of_units() {
        let unit = |text: &str| unit(text.as_bytes()).map(|(name, _)| name);
        let device = "dev-disk-by\\x2did-nvme\\x2d1.device";
        for text in ["user@1000.service", "-.mount", device, "sys-devices-pci0000:00-0000:00:1a.0.device"] {
            assert_eq!(unit(text).as_deref(), Some(text));
        }
        let long = format!("{}.service", "x".repeat(255));
        for text in ["", ".service", "...", "a.exe", "dev-ttyS0.dev…", &long] {
            assert_eq!(unit(text), None, "{text}");
        }
    }
}
