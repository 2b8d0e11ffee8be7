//! Sentences that name options of a boot, without the words of a command line.
//!
//! This crate names a field of the specs. Only the caller knows how a user writes that field, and says so as [`Words`].

use std::borrow::Cow;
use std::fmt;

use recording::{Field, Setting};

/// The way a caller's users write a setting.
#[derive(Clone, Copy)]
pub struct Words(pub fn(&Setting) -> String);

impl Default for Words {
    /// As in a recording: `accel=kvm`.
    fn default() -> Words {
        Words(|setting| match setting.value.as_str() {
            "" => setting.field.name().to_owned(),
            value => format!("{}={value}", setting.field.name()),
        })
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0(&Field::Accel.is("kvm")))
    }
}

/// A text with settings in it. Displays them in its words, which are those of a recording until [`Text::in_words`] is called.
#[derive(Clone, Debug, Default)]
pub struct Text {
    parts: Vec<Part>,
    words: Words,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Plain(Cow<'static, str>),
    Setting(Setting),
}

impl Text {
    /// The same text in the caller's words.
    #[must_use]
    pub fn in_words(self, words: Words) -> Text {
        Text { words, ..self }
    }

    /// Appends another text.
    pub(crate) fn extend(&mut self, other: impl Into<Text>) {
        self.parts.extend(other.into().parts);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

#[cfg(test)]
impl Text {
    pub(crate) fn contains(&self, words: &str) -> bool {
        self.to_string().contains(words)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.parts == other.parts
    }
}

impl Eq for Text {}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Plain(text) => f.write_str(text),
            Part::Setting(setting) => f.write_str(&self.words.0(setting)),
        })
    }
}

impl From<Part> for Text {
    fn from(part: Part) -> Text {
        Text { parts: vec![part], words: Words::default() }
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Text {
        if text.is_empty() { Text::default() } else { Part::Plain(text.into()).into() }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Part::Plain(text.into()).into()
    }
}

impl From<Setting> for Text {
    fn from(setting: Setting) -> Text {
        Part::Setting(setting).into()
    }
}

impl From<Field> for Text {
    fn from(field: Field) -> Text {
        Setting::from(field).into()
    }
}

/// Joins strings, fields, settings and texts into one [`Text`].
macro_rules! text {
    ($($part:expr),+ $(,)?) => {{
        let mut text = $crate::refusal::Text::default();
        $(text.extend($part);)+
        text
    }};
}
pub(crate) use text;

/// Options that do not fit together or cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The field to change.
    pub field: Field,
    /// The problem, as a clause.
    pub why: Text,
    /// The next step for the user. Empty if the problem says it.
    pub instead: Text,
}

impl Refusal {
    /// The same refusal in the caller's words.
    #[must_use]
    pub fn in_words(self, words: Words) -> Refusal {
        Refusal { why: self.why.in_words(words), instead: self.instead.in_words(words), ..self }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal { why, instead, .. } = self;
        if instead.is_empty() { write!(f, "{why}") } else { write!(f, "{why}: {instead}") }
    }
}
