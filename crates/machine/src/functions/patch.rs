//! A change to the guest's code. It is checked against the image before the boot, and against the guest's memory before it is written.
//!
//! A change that does not fit is refused, never adapted. The place must begin an instruction, which is found by decoding the function from
//! its start. A call must be a call. The bytes there must be those of the image, or those that the user gave. This file decides and writes
//! nothing: [`Planned::check`] returns the bytes.

use std::ops::Range;

use recording::{Edit, Patch};

use super::code::{Code, Function};
use crate::arch::{Arch, CallTo};

/// Length of the longest instruction of any supported architecture.
const MAX_INSTRUCTION_BYTES: u64 = 16;
/// The number of calls that an error lists if a place has no call.
const MAX_LISTED_CALLS: usize = 8;

/// A patch whose places were found.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    /// The patch as the user wrote it.
    pub(crate) text: String,
    pub(crate) function: Function,
    offset: u64,
    edit: PlannedEdit,
    /// The number of bytes that it changes, as far as known: of a call without an image, only the first byte. A patch that begins inside
    /// that call is refused all the same, because no instruction begins there.
    bytes: u64,
    /// The function's code in the kernel's image, up to the end of the patched place.
    image: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
enum PlannedEdit {
    /// Redirects the call to `to`, or removes it.
    Call {
        to: Option<u64>,
    },
    Bytes {
        before: Vec<u8>,
        after: Vec<u8>,
    },
}

/// Bytes to write, and the bytes that they replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) address: u64,
    pub(crate) before: Vec<u8>,
    pub(crate) after: Vec<u8>,
}

impl Planned {
    /// Finds the places of a patch, and checks it against the image if there is one.
    ///
    /// # Errors
    /// If it does not fit, with the reason.
    pub(crate) fn of(patch: &Patch, code: &Code, arch: &Arch) -> Result<Planned, String> {
        let function = code.find(&patch.function)?;
        let length = function.end - function.address;
        if patch.offset >= length {
            let Function { name, .. } = &function;
            return Err(format!("{name} is {length:#x} bytes long: there is no {name}+{:#x}", patch.offset));
        }
        let edit = match &patch.edit {
            Edit::RemoveCall => PlannedEdit::Call { to: None },
            Edit::RedirectCall(other) => PlannedEdit::Call { to: Some(code.find(other)?.address) },
            Edit::Bytes { before, after } => PlannedEdit::Bytes { before: before.clone(), after: after.clone() },
        };
        let (text, offset) = (patch.to_string(), patch.offset);
        let bytes = match &edit {
            PlannedEdit::Call { .. } => 1,
            PlannedEdit::Bytes { before, .. } => before.len() as u64,
        };
        let mut planned = Planned { text, function, offset, edit, bytes, image: None };
        planned.image = code.bytes(planned.function.address, planned.wanted_bytes());
        if let Some(image) = &planned.image {
            let whole = code.bytes(planned.function.address, length);
            let whole = whole.as_deref().unwrap_or(image);
            planned.bytes = planned.change(image, whole, code, arch, "the kernel's image")?.before.len() as u64;
        }
        Ok(planned)
    }

    /// The known part of the addresses that it changes.
    pub(crate) fn range(&self) -> Range<u64> {
        let start = self.function.address + self.offset;
        start..start + self.bytes
    }

    /// Sets the image of the function.
    #[cfg(test)]
    pub(crate) fn with_image(self, image: &[u8]) -> Planned {
        Planned { image: Some(image.to_vec()), ..self }
    }

    /// The number of bytes that must be read from the function's start on.
    pub(crate) fn wanted_bytes(&self) -> u64 {
        let behind = match &self.edit {
            PlannedEdit::Call { .. } => MAX_INSTRUCTION_BYTES,
            PlannedEdit::Bytes { before, .. } => before.len() as u64,
        };
        (self.offset + behind).min(self.function.end - self.function.address)
    }

    /// The change to write into a guest that has this code in memory.
    ///
    /// # Errors
    /// If the memory differs from the image or from the user's bytes. The message has the bytes found, and what to do.
    pub(crate) fn check(&self, memory: &[u8], code: &Code, arch: &Arch) -> Result<Change, String> {
        if let (Some(image), PlannedEdit::Call { .. }) = (&self.image, &self.edit) {
            // Only the call must be equal: the kernel may have changed other places of the function meanwhile.
            let (place, names) = (self.place(), "the kernel's image");
            let in_image = self.change(image, image, code, arch, names)?.before;
            let from = self.offset_bytes();
            let found = memory.get(from..from + in_image.len()).unwrap_or_default();
            if found != in_image {
                return Err(format!(
                    "at {place} the guest has {}, and {names} {}: the kernel has changed it since it was loaded, or it is \
                     another kernel. Write the bytes instead, if you mean these: bytes@{place}={}:…",
                    spaced(found),
                    spaced(&in_image),
                    digits(found)
                ));
            }
        }
        self.change(memory, memory, code, arch, "the guest's memory")
    }

    /// True if this memory equals the image, up to the end of the patched place.
    pub(crate) fn is_the_images(&self, memory: &[u8]) -> bool {
        self.image.as_deref() == Some(memory)
    }

    fn offset_bytes(&self) -> usize {
        usize::try_from(self.offset).unwrap_or(usize::MAX)
    }

    fn place(&self) -> String {
        format!("{}+{:#x}", self.function.name, self.offset)
    }

    /// The change to this code, which begins with the function. `whole` is the part of the function that is known.
    fn change(&self, bytes: &[u8], whole: &[u8], code: &Code, arch: &Arch, names: &str) -> Result<Change, String> {
        let (place, start) = (self.place(), self.function.address);
        self.check_boundary(bytes, arch, names).map_err(|why| match self.edit {
            PlannedEdit::Call { .. } => format!("{why}; {}", calls(whole, start, code, arch)),
            PlannedEdit::Bytes { .. } => why,
        })?;
        let address = start + self.offset;
        let rest = bytes.get(self.offset_bytes()..).unwrap_or_default();
        let (before, after) = match &self.edit {
            PlannedEdit::Bytes { before, after } => {
                let found = &rest[..rest.len().min(before.len())];
                if found != before {
                    return Err(format!("at {place} {names} has {}, not {}", spaced(found), spaced(before)));
                }
                (before.clone(), after.clone())
            }
            PlannedEdit::Call { to } => {
                let found = (arch.instruction)(rest, address).filter(|found| found.call.is_some());
                let Some(found) = found else {
                    let calls = calls(whole, start, code, arch);
                    return Err(format!("at {place} {names} has {}, which is no call; {calls}", spaced(first(rest))));
                };
                let after = (arch.call_or_nothing)(address, *to, found.bytes).ok_or_else(|| {
                    let bytes = found.bytes;
                    format!("the call at {place} has {bytes} bytes, in which no call of that function has room")
                })?;
                (rest[..found.bytes].to_vec(), after)
            }
        };
        Ok(Change { address, before, after })
    }

    /// Checks that an instruction begins at the place.
    fn check_boundary(&self, bytes: &[u8], arch: &Arch, names: &str) -> Result<(), String> {
        let (mut at, wanted) = (0, self.offset_bytes());
        while at < wanted {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(found) = (arch.instruction)(rest, self.function.address + at as u64) else {
                let name = &self.function.name;
                let found = spaced(first(rest));
                return Err(format!("{names} has no code that can be read at {name}+{at:#x}, but {found}"));
            };
            if at + found.bytes > wanted {
                let name = &self.function.name;
                return Err(format!("no instruction of {name} begins at +{wanted:#x}, but one at +{at:#x} by {names}"));
            }
            at += found.bytes;
        }
        Ok(())
    }
}

/// A list of a function's calls, in words.
fn calls(bytes: &[u8], start: u64, code: &Code, arch: &Arch) -> String {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(one) = bytes.get(at..).and_then(|rest| (arch.instruction)(rest, start + at as u64)) {
        match one.call {
            Some(CallTo::Address(to)) => found.push(format!("+{at:#x} ({})", code.name(to))),
            Some(CallTo::Unknown) => found.push(format!("+{at:#x} (through a pointer)")),
            None => {}
        }
        at += one.bytes;
    }
    let more = if found.len() > MAX_LISTED_CALLS { ", and more" } else { "" };
    found.truncate(MAX_LISTED_CALLS);
    match &*found {
        [] => "no call was found in the function".to_owned(),
        found => format!("the function's calls are at {}{more}", found.join(", ")),
    }
}

fn first(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(8)]
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes in hexadecimal, with spaces.
pub(crate) fn spaced(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "nothing that can be read".to_owned();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::code::tests::named;
    use super::*;
    use crate::arch::x86_64::ARCH;

    /// push %rbp; call other; je +1; nop; call *%rax; ret
    const CODE: &[u8] = &[0x55, 0xe8, 0xfa, 0x0f, 0, 0, 0x74, 1, 0x90, 0xff, 0xd0, 0xc3];

    fn lists() -> Code {
        named(&[("k", &[(0x1000, "f"), (0x1010, "g"), (0x2000, "other"), (0x2010, "third")])])
    }

    fn change(text: &str, memory: &[u8]) -> Result<Change, String> {
        let code = lists();
        Planned::of(&text.parse().unwrap(), &code, &ARCH)?.check(memory, &code, &ARCH)
    }

    #[test]
    fn calls_are_removed_and_redirected_and_bytes_are_written() {
        let made = |text: &str| change(text, CODE).map(|change| (change.address, change.before, change.after)).unwrap();
        assert_eq!(made("call@f+0x1=nop"), (0x1001, CODE[1..6].to_vec(), vec![0x90; 5]));
        assert_eq!(made("call@f+0x1=third"), (0x1001, CODE[1..6].to_vec(), vec![0xe8, 0x0a, 0x10, 0, 0]));
        assert_eq!(made("call@f+0x9=nop"), (0x1009, vec![0xff, 0xd0], vec![0x90, 0x90]));
        assert_eq!(made("bytes@f+0x6=7401:9090"), (0x1006, vec![0x74, 1], vec![0x90, 0x90]));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_is_there() {
        let refused = |text: &str, memory: &[u8], words: &[&str]| {
            let why = change(text, memory).unwrap_err();
            assert!(words.iter().all(|word| why.contains(word)), "{why}");
        };
        refused("call@f+0x6=nop", CODE, &["no call", "74 01 90", "+0x1 (other), +0x9 (through a pointer)"]);
        refused("call@f+0x2=nop", CODE, &["begins at +0x2", "one at +0x1"]);
        refused("call@f+0x9=third", CODE, &["2 bytes"]);
        refused("call@f+0x10=nop", CODE, &["0x10 bytes long"]);
        refused("bytes@f+0x6=7501:9090", CODE, &["has 74 01, not 75 01"]);
        refused("call@f+0x1=nop", &[], &["nothing that can be read"]);
        refused("call@f+0x1=nop", &[0x06; 12], &["no code that can be read at f+0x0"]);
        refused("call@nobody+0x1=nop", CODE, &["nobody"]);
        refused("call@f+0x1=nobody", CODE, &["nobody"]);
    }

    #[test]
    fn a_call_that_is_not_the_images_is_refused() {
        let code = lists();
        let mut planned = Planned::of(&"call@f+0x1=nop".parse().unwrap(), &code, &ARCH).unwrap();
        planned.image = Some(CODE.to_vec());
        assert!(planned.check(CODE, &code, &ARCH).is_ok());
        let mut changed = CODE.to_vec();
        changed[2] = 0;
        let why = planned.check(&changed, &code, &ARCH).unwrap_err();
        assert!(
            why.contains("e8 00 0f") && why.contains("e8 fa 0f") && why.contains("bytes@f+0x1=e8000f0000:"),
            "{why}"
        );
        // A change at another place of the function does not matter.
        let mut elsewhere = CODE.to_vec();
        elsewhere[8] = 0xcc;
        assert!(planned.check(&elsewhere, &code, &ARCH).is_ok());
    }
}
