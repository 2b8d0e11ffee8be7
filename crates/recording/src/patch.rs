//! A change to the code of a running guest, as the user writes it: `call@FUNC+0x41=nop`.
//!
//! ```text
//! call@FUNC+0x41=nop            remove the call there
//! call@FUNC+0x41=OTHER          redirect the call there to the function OTHER
//! bytes@FUNC+0x41=7454:9090     replace the bytes 74 54 there by 90 90
//! ```
//! A patch says what to change, not how. The recorder checks that the guest has the old code there, and refuses the
//! patch if not.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most bytes that one patch replaces.
const MAX_EDIT_BYTES: usize = 64;
/// No function is longer than this.
const MAX_OFFSET: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Patch {
    /// The function to change: its name, or its start address with `0x`.
    pub function: String,
    /// The distance from the function's start, in bytes.
    pub offset: u64,
    pub edit: Edit,
}

/// The change at a place in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    RemoveCall,
    /// Redirect the call to this function.
    RedirectCall(String),
    /// Replace bytes.
    Bytes {
        /// The bytes that must be there.
        before: Vec<u8>,
        /// The new bytes, as many as the old ones.
        after: Vec<u8>,
    },
}

impl Patch {
    /// The patches in a text, separated by `;`.
    ///
    /// # Errors
    /// If one of them is malformed. The text has the fault and the syntax.
    pub fn all(text: &str) -> Result<Vec<Patch>, String> {
        let all: Result<Vec<Patch>, String> = text.split(';').map(|patch| patch.trim().parse()).collect();
        all.map_err(|why| match text.contains(';') {
            true => format!(
                "{why}. A ';' separates patches: of a function with ';' in its name, write the address where it begins, \
                 such as call@0xffffffff81000000+0x41=nop"
            ),
            false => why,
        })
    }
}

impl FromStr for Patch {
    type Err = String;

    fn from_str(text: &str) -> Result<Patch, String> {
        const USAGE: &str =
            "write call@FUNC+0x41=nop, call@FUNC+0x41=OTHER or bytes@FUNC+0x41=OLD:NEW with hexadecimal digits";
        let wrong = |why: &str| format!("{text:?}: {why}: {USAGE}");
        let (kind, place) = text.split_once('@').ok_or_else(|| wrong("there is no @ in it"))?;
        // Names can contain any of these characters. The last `+0x` begins the offset.
        let (function, rest) =
            place.rsplit_once("+0x").ok_or_else(|| wrong("it does not say how far into the function"))?;
        let (digits, edit) = rest.split_once('=').ok_or_else(|| wrong("there is no = behind the offset"))?;
        if function.is_empty() {
            return Err(wrong("it names no function"));
        }
        let offset = u64::from_str_radix(digits, 16).ok().filter(|_| is_digits(digits));
        let offset = offset.ok_or_else(|| wrong(&format!("{digits:?} is no hexadecimal number")))?;
        if offset > MAX_OFFSET {
            return Err(wrong(&format!("no function is longer than {MAX_OFFSET:#x} bytes")));
        }
        let edit = match kind {
            "call" if edit.is_empty() => return Err(wrong("it says nothing to put in the call's place")),
            "call" if edit == "nop" => Edit::RemoveCall,
            "call" => Edit::RedirectCall(edit.to_owned()),
            "bytes" => {
                let (before, after) =
                    edit.split_once(':').ok_or_else(|| wrong("there is no : between old and new bytes"))?;
                let both =
                    bytes(before).zip(bytes(after)).ok_or_else(|| wrong("bytes are pairs of hexadecimal digits"))?;
                bytes_edit(both).map_err(|why| wrong(&why))?
            }
            other => return Err(wrong(&format!("{other:?} is nothing that is changed"))),
        };
        Ok(Patch { function: function.to_owned(), offset, edit })
    }
}

fn bytes_edit((before, after): (Vec<u8>, Vec<u8>)) -> Result<Edit, String> {
    if before.len() != after.len() || before.len() > MAX_EDIT_BYTES {
        let (old, new) = (before.len(), after.len());
        return Err(format!("{old} bytes cannot become {new}: give as many as there are, {MAX_EDIT_BYTES} at most"));
    }
    if before == after {
        return Err("these bytes are the same".to_owned());
    }
    Ok(Edit::Bytes { before, after })
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Parses pairs of digits, at least one.
fn bytes(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() || text.len() % 2 != 0 || !is_digits(text) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Patch { function, offset, edit } = self;
        let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        match edit {
            Edit::RemoveCall => write!(f, "call@{function}+{offset:#x}=nop"),
            Edit::RedirectCall(other) => write!(f, "call@{function}+{offset:#x}={other}"),
            Edit::Bytes { before, after } => {
                write!(f, "bytes@{function}+{offset:#x}={}:{}", digits(before), digits(after))
            }
        }
    }
}

impl TryFrom<String> for Patch {
    type Error = String;

    fn try_from(text: String) -> Result<Patch, String> {
        text.parse()
    }
}

impl From<Patch> for String {
    fn from(patch: Patch) -> String {
        patch.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_patch_is_a_place_and_a_change() {
        let patch = |text: &str| text.parse::<Patch>().unwrap();
        assert_eq!(
            patch("call@start_aps+0x41=nop"),
            Patch { function: "start_aps".to_owned(), offset: 0x41, edit: Edit::RemoveCall }
        );
        let rust = patch("call@<a::B as c::D<E=+0x1>>::f+0x0=g::h");
        assert_eq!((rust.function.as_str(), rust.offset), ("<a::B as c::D<E=+0x1>>::f", 0));
        assert_eq!(rust.edit, Edit::RedirectCall("g::h".to_owned()));
        let bytes = patch("bytes@f+0x9=745a:9090").edit;
        assert_eq!(bytes, Edit::Bytes { before: vec![0x74, 0x5a], after: vec![0x90, 0x90] });
        for text in ["call@f+0x41=nop", "call@0xffffffff81000000+0x1=g", "bytes@f+0x9=745a:9090"] {
            assert_eq!(patch(text).to_string(), text);
            let json = serde_json::to_value(patch(text)).unwrap();
            assert_eq!((json.as_str(), serde_json::from_value(json.clone()).ok()), (Some(text), Some(patch(text))));
        }
        assert_eq!(Patch::all("call@f+0x1=nop; call@g+0x2=h").unwrap().len(), 2);
        let why = Patch::all("call@<[u8; 4] as T>::f+0x1=nop").unwrap_err();
        assert!(why.contains("call@<[u8") && why.contains("write the address where it begins"), "{why}");
        assert!(!Patch::all("call@f").unwrap_err().contains("address"));
    }

    #[test]
    fn malformed_patches_are_refused_with_the_syntax() {
        for (text, why) in [
            ("nop", "no @"),
            ("call@f=nop", "how far"),
            ("call@+0x1=nop", "no function"),
            ("call@f+0x=nop", "no hexadecimal"),
            ("call@f+0xzz=nop", "no hexadecimal"),
            ("call@f+0x+1=nop", "no hexadecimal"),
            ("call@f+0x1", "no ="),
            ("call@f+0x1=", "nothing to put"),
            ("call@f+0xffffffffff=nop", "no function is longer"),
            ("jump@f+0x1=nop", "\"jump\""),
            ("bytes@f+0x1=74", "no :"),
            ("bytes@f+0x1=7:9", "pairs"),
            ("bytes@f+0x1=éé:éé", "pairs"),
            ("bytes@f+0x1=74:9090", "cannot become"),
            ("bytes@f+0x1=74:74", "the same"),
        ] {
            let error = text.parse::<Patch>().unwrap_err();
            assert!(error.contains(why) && error.contains("write call@"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_parsed_patch_prints_as_it_parses(text: String) {
            if let Ok(patch) = text.parse::<Patch>() {
                prop_assert_eq!(patch.to_string().parse::<Patch>(), Ok(patch));
            }
        }
    }
}
