//! A variable of the guest to read at the entries of functions, as the user writes it: `VAR@FUNC,FUNC`.
//!
//! `VAR` is the name of a symbol, then `+0xOFF` for an offset in it, then `:BYTES` if the symbol has no size.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A variable and the functions at whose entries it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Watched {
    /// The symbol's name.
    pub variable: String,
    /// The distance from the symbol's start, in bytes.
    pub offset: u64,
    /// The size in bytes: 1, 2, 4 or 8; `None` if the symbol has the size.
    pub bytes: Option<u8>,
    pub functions: Vec<String>,
}

impl FromStr for Watched {
    type Err = String;

    fn from_str(text: &str) -> Result<Watched, String> {
        const USAGE: &str = "write VAR@FUNC,FUNC, or VAR+0x10:8@FUNC for 8 bytes at a place in VAR";
        let wrong = |why: &str| format!("{text:?}: {why}: {USAGE}");
        let (place, functions) = text.rsplit_once('@').ok_or_else(|| wrong("there is no @ in it"))?;
        let functions: Vec<String> = functions.split(',').map(|name| name.trim().to_owned()).collect();
        if functions.iter().any(String::is_empty) {
            return Err(wrong("a function has no name"));
        }
        // The last `:` of a path such as `a::b` does not begin a size.
        let sized = place.rsplit_once(':').filter(|(before, _)| !before.ends_with(':'));
        let (place, bytes) = match sized {
            Some((place, digits)) => {
                let bytes = digits.parse().ok().filter(|bytes| [1, 2, 4, 8].contains(bytes));
                (place, Some(bytes.ok_or_else(|| wrong("a variable has 1, 2, 4 or 8 bytes"))?))
            }
            None => (place, None),
        };
        let (variable, offset) = match place.rsplit_once("+0x") {
            Some((variable, digits)) => {
                let offset = u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
                (variable, offset.ok_or_else(|| wrong("what follows +0x is no hexadecimal number"))?)
            }
            None => (place, 0),
        };
        if variable.is_empty() {
            return Err(wrong("it names no variable"));
        }
        Ok(Watched { variable: variable.to_owned(), offset, bytes, functions })
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.variable)?;
        if self.offset > 0 {
            write!(f, "+{:#x}", self.offset)?;
        }
        self.bytes.map_or(Ok(()), |bytes| write!(f, ":{bytes}"))?;
        write!(f, "@{}", self.functions.join(","))
    }
}

impl TryFrom<String> for Watched {
    type Error = String;

    fn try_from(text: String) -> Result<Watched, String> {
        text.parse()
    }
}

impl From<Watched> for String {
    fn from(watched: Watched) -> String {
        watched.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_variable_is_a_symbol_a_place_in_it_and_a_size() {
        let parsed = |text: &str| {
            let watched: Watched = text.parse().unwrap();
            assert_eq!(watched.to_string(), text);
            (watched.variable, watched.offset, watched.bytes, watched.functions.join(" "))
        };
        assert_eq!(parsed("jiffies@f"), ("jiffies".to_owned(), 0, None, "f".to_owned()));
        assert_eq!(parsed("a::B+0x3b0:8@c::d,e"), ("a::B".to_owned(), 0x3b0, Some(8), "c::d e".to_owned()));
        assert_eq!(parsed("a::B@f").0, "a::B");
        for (text, why) in [
            ("jiffies", "no @"),
            ("@f", "no variable"),
            ("a@", "no name"),
            ("a@f,", "no name"),
            ("a:3@f", "1, 2, 4 or 8"),
            ("a+0xz@f", "no hexadecimal"),
        ] {
            let error = text.parse::<Watched>().unwrap_err();
            assert!(error.contains(why) && error.contains("write VAR@"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_parsed_variable_prints_as_it_parses(text: String) {
            if let Ok(watched) = text.parse::<Watched>() {
                prop_assert_eq!(watched.to_string().parse::<Watched>(), Ok(watched));
            }
        }
    }
}
