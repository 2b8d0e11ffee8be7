//! The kernel's messages as `dmesg --json` prints them, which become records as `/dev/kmsg` has them.
//!
//! ```text
//! {
//!    "dmesg": [
//!       {
//!          "fac": "kern",                with --decode
//!          "pri": 5,                     a word with --decode
//!          "time":     0.000000,         with any time format; absent with --notime
//!          "caller": "T1",
//!          "msg": "Linux version 6.1.0"
//!       },{
//! ```
//! (util-linux, `sys-utils/dmesg.c`.) A file that is cut is read as far as it goes. The records take no more memory than the file.

use super::kmsg::escape;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use timeline::{DiagnosticKind, Diagnostics};

/// The name of the list of messages.
const LIST: &str = "dmesg";
/// The words for priorities, the most urgent first.
const PRIORITIES: [&str; 8] = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];
/// The priority of messages without one.
const DEFAULT_PRIORITY: u64 = 6;

/// True if bytes begin as such a file does.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    let inner = bytes.trim_ascii_start().strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    let list = inner.and_then(|inner| inner.strip_prefix(b"\"dmesg\"")).map(<[u8]>::trim_ascii_start);
    list.is_some_and(|list| list.starts_with(b":"))
}

/// The messages as records, one a line.
pub(crate) fn records(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Vec<u8> {
    let mut records = Records { text: String::new(), number: 0, bytes_max: bytes.len(), beyond: 0 };
    if let Err(error) = serde_json::Deserializer::from_slice(bytes).deserialize_map(Document(&mut records)) {
        diagnostics.note_about(DiagnosticKind::FileCut, file, || format!("{file}: {error}"));
    }
    let place = || file.to_owned();
    diagnostics.add(DiagnosticKind::EntriesBeyondBound, "kernel log", records.beyond, None, place);
    records.text.into_bytes()
}

/// The records that were read so far.
struct Records {
    text: String,
    number: u64,
    /// A real message is longer in JSON than as a record.
    bytes_max: usize,
    /// The number of messages that are not kept.
    beyond: u64,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    pri: Scalar<'a>,
    #[serde(borrow, default)]
    time: Scalar<'a>,
    #[serde(borrow, default)]
    caller: Scalar<'a>,
    #[serde(borrow, default)]
    msg: Scalar<'a>,
}

/// A value. Its type depends on the options of `dmesg`.
#[derive(Default)]
enum Scalar<'a> {
    #[default]
    Other,
    Number(f64),
    Text(Cow<'a, str>),
}

impl Scalar<'_> {
    fn text(&self) -> &str {
        match self {
            Scalar::Text(text) => text,
            Scalar::Other | Scalar::Number(_) => "",
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Scalar::Number(number) => Some(*number),
            Scalar::Text(text) => text.trim().parse().ok(),
            Scalar::Other => None,
        }
    }
}

impl Records {
    fn add(&mut self, message: &Message<'_>) {
        if self.text.len() >= self.bytes_max {
            self.beyond += 1;
            return;
        }
        let priority = PRIORITIES.iter().zip(0..).find(|(word, _)| **word == message.pri.text());
        let number = || message.pri.number().filter(|number| (0.0..=191.0).contains(number));
        let priority = priority.map(|(_, level)| level).or_else(|| number().map(whole)).unwrap_or(DEFAULT_PRIORITY);
        let us = message.time.number().map_or(0, |time| whole(time * 1e6));
        let _ = write!(self.text, "{priority},{},{us},-", self.number);
        let caller = message.caller.text().trim_matches([' ', '[', ']']);
        if !caller.is_empty() && caller.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            let _ = write!(self.text, ",caller={caller}");
        }
        self.text.push(';');
        escape(message.msg.text(), &mut self.text);
        self.text.push('\n');
        self.number += 1;
    }
}

/// A number without its fraction, at least 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyScalar)
    }
}

/// Takes numbers and texts; what is in lists and maps is skipped.
struct AnyScalar;

impl<'de> Visitor<'de> for AnyScalar {
    type Value = Scalar<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Other)
    }

    fn visit_unit<E>(self) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Other)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Number(number as f64))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Number(number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Scalar<'de>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}

/// The whole document.
struct Document<'r>(&'r mut Records);

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the kernel's messages")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match &*name {
                LIST => map.next_value_seed(List(self.0))?,
                _ => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(())
    }
}

/// The list of messages, which are used one by one.
struct List<'r>(&'r mut Records);

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(message) = list.next_element::<Message<'de>>()? {
            self.0.add(&message);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, Diagnostics) {
        let mut diagnostics = Diagnostics::default();
        let records = records("d", text.as_bytes(), &mut diagnostics);
        (String::from_utf8(records).unwrap(), diagnostics)
    }

    const TEXT: &str = r#"{
   "dmesg": [
      {
         "pri": 5,
         "time":     0.000000,
         "msg": "Linux version 6.1.0"
      },{
         "fac": "kern",
         "pri": "warn",
         "time":    12.345678,
         "caller": "T1",
         "msg": "a \"b\" c\\d\ne"
      }
   ]
}
"#;

    #[test]
    fn messages_become_records() {
        let (records, diagnostics) = read(TEXT);
        assert_eq!(records, "5,0,0,-;Linux version 6.1.0\n4,1,12345678,-,caller=T1;a \"b\" c\\x5cd\\x0ae\n");
        assert!(diagnostics.is_empty() && begins(TEXT.as_bytes()) && begins(b" {\"dmesg\" : [{}]}"));
        for other in ["", "{", "{\"dmesgs\": []}", "[]", "dmesg"] {
            assert!(!begins(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_cut_file_is_read_up_to_the_cut() {
        for end in 0..TEXT.len() - 3 {
            let (records, diagnostics) = read(&TEXT[..end]);
            assert!(records.lines().count() <= 2);
            assert_eq!(diagnostics.count(DiagnosticKind::FileCut), 1, "{end}");
        }
    }
}
