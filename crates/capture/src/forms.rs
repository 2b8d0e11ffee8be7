//! Identities of one machine or one person, recognised by their form or by the words before them. `pack --anonymous`,
//! `capture` and `lake` share this one list.
//!
//! It must not match other things: names of functions, PCI addresses, times, versions.

mod checks;
mod table;

pub(crate) use checks::is_in;
use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

/// A kind of identity; its word is the first part of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Host,
    Ip,
    Mac,
    Network,
    Secret,
    Serial,
    User,
    Uuid,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Host => "host",
            Kind::Ip => "ip",
            Kind::Mac => "mac",
            Kind::Network => "network",
            Kind::Secret => "secret",
            Kind::Serial => "serial",
            Kind::User => "user",
            Kind::Uuid => "uuid",
        }
    }

    /// The word that a lake uses in its place.
    pub(crate) fn lake_word(self) -> String {
        match self {
            Kind::Ip | Kind::Mac => "[address]".to_owned(),
            kind => format!("[{}]", kind.word()),
        }
    }

    /// The plural in words.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Kind::Host => "names of hosts",
            Kind::Ip => "IP addresses",
            Kind::Mac => "hardware addresses",
            Kind::Network => "names of networks",
            Kind::Secret => "passwords and keys",
            Kind::Serial => "serial numbers",
            Kind::User => "users",
            Kind::Uuid => "IDs of disks and machines",
        }
    }
}

/// A value with the form of an identity, and its line.
struct Candidate<'l> {
    before: &'l [u8],
    value: &'l [u8],
    after: &'l [u8],
}

type Check = fn(&Candidate<'_>) -> bool;

/// A row of the table of forms.
struct Form {
    #[cfg_attr(not(test), expect(dead_code, reason = "for the docs"))]
    name: &'static str,
    kind: Kind,
    check: Check,
    /// Each capture group is an identity.
    pattern: &'static str,
    /// A text with its identities between « and ».
    #[cfg_attr(not(test), expect(dead_code, reason = "for the docs and the tests"))]
    example: &'static str,
    /// A text without identities.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the docs and the tests"))]
    other: &'static str,
}

/// The place of an identity in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub range: Range<usize>,
    pub kind: Kind,
}

/// The compiled expressions: one that finds the forms that a line may have, and one for each form.
struct Patterns {
    any: RegexSet,
    each: Vec<(Regex, &'static Form)>,
    escapes: Regex,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    /// The cache for the set's states. With few states, they would be computed again and again.
    const MAX_CACHE_BYTES: usize = 32 << 20;
    let forms: Vec<&'static Form> = table::FORMS.into_iter().flatten().collect();
    let build = |pattern: &str| {
        let regex = RegexBuilder::new(pattern).unicode(false).size_limit(64 << 20).build();
        regex.expect("the pattern is a constant, and a test builds it")
    };
    let any = RegexSetBuilder::new(forms.iter().map(|form| form.pattern))
        .unicode(false)
        .size_limit(256 << 20)
        .dfa_size_limit(MAX_CACHE_BYTES)
        .build()
        .expect("the patterns are constants, and a test builds them");
    Patterns { any, each: forms.into_iter().map(|form| (build(form.pattern), form)).collect(), escapes: build(ESCAPES) }
});

/// Colours of a terminal, raw and as the kernel and JSON write them, and JSON's escapes.
const ESCAPES: &str = r#"(?:\x1b|\\x1b|\\u001[bB]|\\033)(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]{0,200}\x07)|\\[nrt"/\\]"#;

/// The line for matching: invisible characters are blank, so they do not join words. Its length is the line's.
pub(crate) fn without_escapes(line: &[u8]) -> Cow<'_, [u8]> {
    if !line.contains(&b'\x1b') && !line.contains(&b'\\') {
        return Cow::Borrowed(line);
    }
    let mut visible = Cow::Borrowed(line);
    for found in PATTERNS.escapes.find_iter(line) {
        let blank = match found.as_bytes() {
            br"\/" => &b"//"[..],
            br#"\""# => b" \"",
            br"\\" => br"\\",
            _ => b"",
        };
        if found.as_bytes() == blank {
            continue;
        }
        let place = &mut visible.to_mut()[found.range()];
        place.fill(b' ');
        place[..blank.len()].copy_from_slice(blank);
    }
    visible
}

/// The identities in a line, in order; overlapping ones are merged.
pub(crate) fn spans(line: &[u8]) -> Vec<Span> {
    /// The length of the shortest identity, with the words that identify it.
    const MIN_BYTES: usize = 4;
    if line.len() < MIN_BYTES {
        return Vec::new();
    }
    let line = &*without_escapes(line);
    let mut found = Vec::new();
    for number in &PATTERNS.any.matches(line) {
        let (regex, form) = &PATTERNS.each[number];
        for captures in regex.captures_iter(line) {
            let groups = captures.iter().skip(1).flatten().map(|group| trim_range(line, group.range()));
            found.extend(
                groups.filter(|range| (form.check)(&at(line, range))).map(|range| Span { range, kind: form.kind }),
            );
        }
    }
    merge_spans(found)
}

/// The range without the blanks at its ends, which may replace something else.
fn trim_range(line: &[u8], range: Range<usize>) -> Range<usize> {
    let start = range.start + (range.len() - line[range.clone()].trim_ascii_start().len());
    start..start + line[start..range.end].trim_ascii_end().len()
}

fn at<'l>(line: &'l [u8], range: &Range<usize>) -> Candidate<'l> {
    Candidate { before: &line[..range.start], value: &line[range.clone()], after: &line[range.end..] }
}

/// Merges overlapping spans, and sorts all by their place. The first one in `found` determines the kind.
pub(crate) fn merge_spans(found: Vec<Span>) -> Vec<Span> {
    let mut numbered: Vec<(usize, Span)> = found.into_iter().enumerate().collect();
    numbered.sort_by_key(|(_, span)| span.range.start);
    let mut merged: Vec<(usize, Span)> = Vec::with_capacity(numbered.len());
    for (number, span) in numbered {
        match merged.last_mut().filter(|(_, last)| span.range.start < last.range.end) {
            Some((first, last)) => {
                last.range.end = last.range.end.max(span.range.end);
                if number < *first {
                    (*first, last.kind) = (number, span.kind);
                }
            }
            None => merged.push((number, span)),
        }
    }
    merged.into_iter().map(|(_, span)| span).collect()
}

/// A line in which `word` replaces each span.
pub(crate) fn replace_spans(line: &[u8], spans: &[Span], word: impl Fn(Kind, &[u8]) -> Vec<u8>) -> Vec<u8> {
    let (mut out, mut done) = (Vec::with_capacity(line.len()), 0);
    for Span { range, kind } in spans {
        out.extend_from_slice(&line[done..range.start]);
        out.extend(word(*kind, &line[range.clone()]));
        done = range.end;
    }
    out.extend_from_slice(&line[done..]);
    out
}

#[cfg(test)]
mod tests;
