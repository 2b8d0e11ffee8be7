//! What tells one machine or one person from all others, and is known by its form or by the words before it. One list serves `pack
//! --anonymous`, `capture` and `lake`.
//!
//! It must not match other things: names of functions, PCI addresses, times, versions.

mod checks;
mod table;

pub(crate) use checks::is_in;
use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

/// A kind of identity: the first part of its token.
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
    /// The first part of a token.
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

    /// The word that a lake has in its place.
    pub(crate) fn lake_word(self) -> String {
        match self {
            Kind::Ip | Kind::Mac => "[address]".to_owned(),
            kind => format!("[{}]", kind.word()),
        }
    }

    /// The plural, for people.
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

/// A value that has the form of an identity, and its line.
struct Found<'l> {
    before: &'l [u8],
    value: &'l [u8],
    after: &'l [u8],
}

type Check = fn(&Found<'_>) -> bool;

/// A row of the table.
struct Form {
    #[cfg_attr(not(test), expect(dead_code, reason = "for the docs"))]
    name: &'static str,
    kind: Kind,
    check: Check,
    /// Each capture group is an identity.
    pattern: &'static str,
    /// A text with identities between « and ».
    #[cfg_attr(not(test), expect(dead_code, reason = "for the docs and the tests"))]
    example: &'static str,
    /// A text that has none.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the docs and the tests"))]
    other: &'static str,
}

/// Where an identity stands in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub range: Range<usize>,
    pub kind: Kind,
}

/// The expressions: one that finds which forms a line may have, and each form's own.
struct Built {
    any: RegexSet,
    each: Vec<(Regex, &'static Form)>,
    escapes: Regex,
}

static BUILT: LazyLock<Built> = LazyLock::new(|| {
    /// States that the set keeps; with few it computes them again and again.
    const STATES_BYTES: usize = 32 << 20;
    let forms: Vec<&'static Form> = table::FORMS.into_iter().flatten().collect();
    let built = |pattern: &str| {
        let built = RegexBuilder::new(pattern).unicode(false).size_limit(64 << 20).build();
        built.expect("the pattern is a constant, and a test builds it")
    };
    let any = RegexSetBuilder::new(forms.iter().map(|form| form.pattern))
        .unicode(false)
        .size_limit(256 << 20)
        .dfa_size_limit(STATES_BYTES)
        .build()
        .expect("the patterns are constants, and a test builds them");
    Built { any, each: forms.into_iter().map(|form| (built(form.pattern), form)).collect(), escapes: built(ESCAPES) }
});

/// Colours of a terminal, as they are and as the kernel and JSON write them; and what JSON escapes.
const ESCAPES: &str = r#"(?:\x1b|\\x1b|\\u001[bB]|\\033)(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]{0,200}\x07)|\\[nrt"/\\]"#;

/// The same line for matching: what a terminal does not show is blank, so that it joins no words. As long as the line.
pub(crate) fn shown(line: &[u8]) -> Cow<'_, [u8]> {
    if !line.contains(&b'\x1b') && !line.contains(&b'\\') {
        return Cow::Borrowed(line);
    }
    let mut shown = Cow::Borrowed(line);
    for found in BUILT.escapes.find_iter(line) {
        let blank = match found.as_bytes() {
            br"\/" => &b"//"[..],
            br#"\""# => b" \"",
            br"\\" => br"\\",
            _ => b"",
        };
        if found.as_bytes() == blank {
            continue;
        }
        let place = &mut shown.to_mut()[found.range()];
        place.fill(b' ');
        place[..blank.len()].copy_from_slice(blank);
    }
    shown
}

/// The identities in a line, in their order; those that overlap are one.
pub(crate) fn spans(line: &[u8]) -> Vec<Span> {
    /// No identity with what makes it known is so short.
    const SHORT: usize = 4;
    if line.len() < SHORT {
        return Vec::new();
    }
    let line = &*shown(line);
    let mut found = Vec::new();
    for number in &BUILT.any.matches(line) {
        let (regex, form) = &BUILT.each[number];
        for captures in regex.captures_iter(line) {
            let groups = captures.iter().skip(1).flatten().map(|group| trimmed(line, group.range()));
            found.extend(
                groups.filter(|range| (form.check)(&at(line, range))).map(|range| Span { range, kind: form.kind }),
            );
        }
    }
    joined(found)
}

/// Without the blanks at its ends, which may stand for something else.
fn trimmed(line: &[u8], range: Range<usize>) -> Range<usize> {
    let start = range.start + (range.len() - line[range.clone()].trim_ascii_start().len());
    start..start + line[start..range.end].trim_ascii_end().len()
}

fn at<'l>(line: &'l [u8], range: &Range<usize>) -> Found<'l> {
    Found { before: &line[..range.start], value: &line[range.clone()], after: &line[range.end..] }
}

/// Spans in the order of their places. Of those that overlap, the first in the list names the kind.
pub(crate) fn joined(found: Vec<Span>) -> Vec<Span> {
    let mut numbered: Vec<(usize, Span)> = found.into_iter().enumerate().collect();
    numbered.sort_by_key(|(_, span)| span.range.start);
    let mut joined: Vec<(usize, Span)> = Vec::with_capacity(numbered.len());
    for (number, span) in numbered {
        match joined.last_mut().filter(|(_, last)| span.range.start < last.range.end) {
            Some((first, last)) => {
                last.range.end = last.range.end.max(span.range.end);
                if number < *first {
                    (*first, last.kind) = (number, span.kind);
                }
            }
            None => joined.push((number, span)),
        }
    }
    joined.into_iter().map(|(_, span)| span).collect()
}

/// A line with something else in place of each span.
pub(crate) fn replaced(line: &[u8], spans: &[Span], word: impl Fn(Kind, &[u8]) -> Vec<u8>) -> Vec<u8> {
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
