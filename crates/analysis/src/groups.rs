//! The rules that make the rows of `where`: an ordered list in which the first match wins.
//!
//! Each operating system has its own rules ([`Groups::of`]), in the syntax for users' rules: one rule on each line. `#`
//! begins a comment.
//!
//! ```text
//! HOW WHAT [| WHAT]... [-> ROW]
//!
//! whole WHAT      the outermost WHAT is a row, with all under it
//! outer WHAT      the outermost WHAT is a row; delays and waits under it are rows apart: "acpi_init · msleep"
//! inner WHAT      the same with the innermost WHAT
//! delay WHAT      WHAT only lets time pass: what called it has the row, with WHAT as the suffix
//! skip WHAT       WHAT only calls the steps of the boot: no rule above makes a row of it
//! recording WHAT  WHAT takes its time because the boot is recorded: a suffix says so
//! threads WORD    a blamed thread is called "WORD NAME"
//! use SYSTEM      the rules of a system come here: linux, freebsd, generic
//! ```
//!
//! WHAT is what tables print: a name and perhaps its detail (`DEVICE_PROBE psm`). In it, `*` stands for any text and
//! `?` for any character. A kind may stand before it: `probe:*`, `call:f`, and `thread:usbus*` for a thread that
//! another one waits for. `-> ROW` makes one row of everything that the rule matches.

use std::fmt;
use timeline::{Os, SpanKind};

/// The rules of one operating system, or a user's rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    pub(crate) rules: Vec<Rule>,
    pub(crate) delays: Vec<Pattern>,
    pub(crate) skips: Vec<Pattern>,
    pub(crate) recording: Vec<Pattern>,
    /// The word before the name of a blamed thread.
    pub(crate) thread_word: String,
}

/// A rule that makes rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    pub place: Place,
    pub what: Vec<Pattern>,
    pub row: Option<String>,
}

/// The choice among several matches around a place: the one that has the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The outermost match, with everything under it.
    Whole,
    Outer,
    Inner,
}

/// The subject of a rule: an optional kind, and a glob for names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pattern {
    kind: Option<Kind>,
    glob: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Thread,
    Span(SpanKind),
}

const KINDS: [(&str, Kind); 13] = [
    ("thread", Kind::Thread),
    ("stage", Kind::Span(SpanKind::Stage)),
    ("level", Kind::Span(SpanKind::Level)),
    ("initcall", Kind::Span(SpanKind::Initcall)),
    ("module", Kind::Span(SpanKind::Module)),
    ("probe", Kind::Span(SpanKind::Probe)),
    ("attach", Kind::Span(SpanKind::Attach)),
    ("mount", Kind::Span(SpanKind::Mount)),
    ("work", Kind::Span(SpanKind::Work)),
    ("call", Kind::Span(SpanKind::Call)),
    ("interrupt", Kind::Span(SpanKind::Interrupt)),
    ("process", Kind::Span(SpanKind::Process)),
    ("message", Kind::Span(SpanKind::Message)),
];

const BUILT_IN: [(&str, &str); 3] = [
    ("linux", include_str!("groups/linux.rules")),
    ("freebsd", include_str!("groups/freebsd.rules")),
    ("generic", include_str!("groups/generic.rules")),
];

/// An error: a line that cannot be parsed as a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotARule {
    /// The line number, from 1.
    pub line: usize,
    /// The fault, and what would be right.
    pub what: String,
}

impl fmt::Display for NotARule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for NotARule {}

impl Groups {
    /// Returns the rules for an operating system. Every known kernel except Linux is assumed to log as FreeBSD does. An
    /// unknown one gets the generic rules.
    pub fn of(os: &Os) -> Groups {
        match os {
            Os::Unknown => Groups::built_in("generic"),
            Os::Linux => Groups::linux(),
            Os::FreeBsd | Os::NetBsd | Os::Lab | Os::Other(_) => Groups::freebsd(),
        }
    }

    /// Returns the rules for Linux.
    pub fn linux() -> Groups {
        Groups::built_in("linux")
    }

    /// Returns the rules for FreeBSD, which NetBSD also uses.
    pub fn freebsd() -> Groups {
        Groups::built_in("freebsd")
    }

    fn built_in(name: &str) -> Groups {
        let text = BUILT_IN.iter().find(|(known_name, _)| *known_name == name).map_or("", |(_, text)| text);
        Groups::parse(text).expect("a test parses them")
    }

    /// Parses rules from text.
    ///
    /// # Errors
    /// The first line that cannot be parsed as a rule.
    pub fn parse(text: &str) -> Result<Groups, NotARule> {
        let mut groups = Groups {
            rules: Vec::new(),
            delays: Vec::new(),
            skips: Vec::new(),
            recording: Vec::new(),
            thread_word: "thread".to_owned(),
        };
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                groups.parse_line(line).map_err(|what| NotARule { line: i + 1, what })?;
            }
        }
        Ok(groups)
    }

    fn parse_line(&mut self, line: &str) -> Result<(), String> {
        let (keyword, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        if rest.is_empty() {
            return Err(format!("{keyword:?} is not followed by what it is for"));
        }
        let (what, row) = match rest.split_once("->") {
            Some((what, row)) => (what.trim(), Some(row.trim().to_owned())),
            None => (rest, None),
        };
        let mut rule = |place| {
            let what = patterns(what)?;
            self.rules.push(Rule { place, what, row: row.clone() });
            Ok(())
        };
        match keyword {
            "whole" => return rule(Place::Whole),
            "outer" => return rule(Place::Outer),
            "inner" => return rule(Place::Inner),
            _ if row.is_some() => return Err(format!("{keyword:?} makes no row, so it cannot have \"->\"")),
            "delay" => self.delays.extend(patterns(what)?),
            "skip" => self.skips.extend(patterns(what)?),
            "recording" => self.recording.extend(patterns(what)?),
            "threads" => what.clone_into(&mut self.thread_word),
            "use" => self.include(what)?,
            _ => {
                let names = "whole, outer, inner, delay, skip, recording, threads, use";
                return Err(format!("{keyword:?} is none of {names}"));
            }
        }
        Ok(())
    }

    fn include(&mut self, name: &str) -> Result<(), String> {
        if !BUILT_IN.iter().any(|(known_name, _)| *known_name == name) {
            return Err(format!(
                "there are no rules of {name:?}, but of {}",
                BUILT_IN.map(|(known_name, _)| known_name).join(", ")
            ));
        }
        let other = Groups::built_in(name);
        self.rules.extend(other.rules);
        self.delays.extend(other.delays);
        self.skips.extend(other.skips);
        self.recording.extend(other.recording);
        self.thread_word = other.thread_word;
        Ok(())
    }

    /// True if something of this kind, name and detail only lets time pass.
    pub fn is_delay(&self, kind: SpanKind, name: &str, detail: &str) -> bool {
        match detail {
            "" => any_matches(&self.delays, kind, name),
            detail => any_matches(&self.delays, kind, &format!("{name} {detail}")),
        }
    }

    /// Returns the first rule for a span that is printed as `text`.
    pub(crate) fn rule_of(&self, kind: SpanKind, text: &str) -> Option<usize> {
        self.rules.iter().position(|rule| any_matches(&rule.what, kind, text))
    }

    /// Returns the first rule for a blamed thread.
    pub(crate) fn rule_of_thread(&self, name: &str) -> Option<usize> {
        let matches_thread = |p: &Pattern| p.kind == Some(Kind::Thread) && matches(&p.glob, name);
        self.rules.iter().position(|rule| rule.what.iter().any(matches_thread))
    }
}

/// True if one of the patterns matches a span that is printed as `text`.
pub(crate) fn any_matches(patterns: &[Pattern], kind: SpanKind, text: &str) -> bool {
    patterns.iter().any(|p| p.kind.is_none_or(|k| k == Kind::Span(kind)) && matches(&p.glob, text))
}

fn patterns(text: &str) -> Result<Vec<Pattern>, String> {
    text.split('|').map(|what| pattern(what.trim())).collect()
}

fn pattern(what: &str) -> Result<Pattern, String> {
    let kind = what.split_once(':').and_then(|(kind, glob)| {
        let (_, kind) = KINDS.iter().find(|(known_kind, _)| *known_kind == kind)?;
        Some(Pattern { kind: Some(*kind), glob: glob.to_owned() })
    });
    let pattern = kind.unwrap_or_else(|| Pattern { kind: None, glob: what.to_owned() });
    if pattern.glob.is_empty() {
        Err("there is a pattern without a name; * is for all".to_owned())
    } else {
        Ok(pattern)
    }
}

/// True if `glob` matches the whole of `text`. `*` is any text, `?` any character. `O(glob × text)`.
pub fn matches(glob: &str, text: &str) -> bool {
    let (glob, text) = (glob.as_bytes(), text.as_bytes());
    let (mut g, mut t) = (0, 0);
    // After the last star: the position in the glob to go on from, and the end of the text that the star stands for.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if glob.get(g) == Some(&b'*') {
            star = Some((g + 1, t));
            g += 1;
        } else if glob.get(g) == Some(&b'?') {
            g += 1;
            t = next_char(text, t);
        } else if glob.get(g) == Some(&text[t]) {
            g += 1;
            t += 1;
        } else if let Some((after, from)) = star {
            star = Some((after, from + 1));
            (g, t) = (after, from + 1);
        } else {
            return false;
        }
    }
    glob[g..].iter().all(|&b| b == b'*')
}

/// Returns the start of the next character of UTF-8 text.
fn next_char(text: &[u8], at: usize) -> usize {
    let continues = |&&b: &&u8| b & 0xc0 == 0x80;
    at + 1 + text[at + 1..].iter().take_while(continues).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_rules_can_be_parsed() {
        for (name, text) in BUILT_IN {
            let groups = Groups::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(!groups.rules.is_empty() && !groups.delays.is_empty() && !groups.skips.is_empty());
        }
        assert_eq!(Groups::parse("use freebsd").unwrap(), Groups::of(&Os::NetBsd));
        assert_eq!(Groups::parse("use generic").unwrap(), Groups::of(&Os::Unknown));
    }

    #[test]
    fn globs() {
        for (glob, text) in [
            ("*", ""),
            ("DEVICE_PROBE hpt*", "DEVICE_PROBE hptnr"),
            ("*a*b*", "xxaxxbxx"),
            ("a?c", "aäc"),
            ("a**", "a"),
            ("*ab", "aab"),
        ] {
            assert!(matches(glob, text), "{glob} {text}");
        }
        for (glob, text) in [("", "a"), ("a", ""), ("?", ""), ("DEVICE_PROBE", "DEVICE_PROBE psm"), ("*a?", "ba")] {
            assert!(!matches(glob, text), "{glob} {text}");
        }
        let (glob, text) = ("*a".repeat(40) + "b", "a".repeat(20_000));
        assert!(!matches(&glob, &text), "and does not take for ever");
    }

    #[test]
    fn first_match_wins() {
        let groups =
            Groups::parse("whole probe:hpt*\ninner probe:* | call:*\n outer thread:usb* -> USB # no comment").unwrap();
        assert_eq!(groups.rule_of(SpanKind::Probe, "hptnr"), Some(0));
        assert_eq!(groups.rule_of(SpanKind::Probe, "psm"), Some(1));
        assert_eq!(groups.rule_of(SpanKind::Initcall, "psm"), None);
        assert_eq!(groups.rule_of_thread("usbus0"), Some(2));
        assert_eq!(groups.rule_of_thread("g_event"), None);
        assert_eq!(groups.rules[2].row.as_deref(), Some("USB # no comment"));
    }

    #[test]
    fn a_malformed_rule_is_rejected_with_its_line() {
        for (text, words) in [
            ("inner *\n\nentire *", "line 3: \"entire\" is none of whole, outer"),
            ("whole", "\"whole\" is not followed"),
            ("use plan9", "of \"plan9\", but of linux, freebsd, generic"),
            ("delay DELAY -> sleeping", "makes no row"),
            ("inner a | | b", "without a name"),
        ] {
            let error = Groups::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
