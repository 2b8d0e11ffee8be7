//! Names in a record: strings by address.
//!
//! C's strings end before a NUL. Rust's have a length, which the record holds beside the address. The recorder never reads
//! a string, so a string must live for ever, or be in the log's arena (see [`copy`](crate::copy)).

use core::ffi::CStr;

/// Largest number of bytes of a name that is printed.
pub const NAME_BYTES_MAX: usize = 1024;

/// Flag: the name is the path of an item inside the function that is meant, as `core::any::type_name` gives it.
pub(crate) const FUNCTION_PATH: u8 = 1;

/// A string that lives for ever, by address; or no string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    pub(crate) address: u64,
    /// Length in bytes; 0: the string ends at the first NUL.
    pub(crate) bytes: u16,
    pub(crate) flags: u8,
}

impl Name {
    /// No string.
    pub const NONE: Name = Name { address: 0, bytes: 0, flags: 0 };

    /// Name of the function that contains an item, from `core::any::type_name` of the item.
    ///
    /// Readers cut the path down to the function's name, so that recording costs nothing. If the path is longer than readers
    /// look at, its end is recorded, because the function's name is there.
    #[inline(always)]
    pub fn of_function(path_of_item: &'static str) -> Name {
        let bytes = path_of_item.len().min(NAME_BYTES_MAX);
        let skipped = path_of_item.len() - bytes;
        Name { address: Name::from(path_of_item).address + skipped as u64, bytes: bytes as u16, flags: FUNCTION_PATH }
    }

    /// Address of the string, in the recording kernel; 0: no string.
    pub fn address(self) -> u64 {
        self.address
    }

    /// Length in bytes, if the record has it. Else the string ends before its first NUL.
    pub fn bytes(self) -> Option<usize> {
        (self.bytes > 0).then_some(usize::from(self.bytes))
    }

    /// True if there is no string at all.
    pub fn is_none(self) -> bool {
        self.address == 0
    }

    /// The part of the bytes at the address that is shown. For the path of an item in a function, that is the function's name.
    pub fn shown(self, bytes: &[u8]) -> &[u8] {
        if self.flags & FUNCTION_PATH != 0 { function_of(bytes) } else { bytes }
    }
}

impl From<&'static str> for Name {
    /// A string longer than 65 535 bytes is cut to that length.
    #[inline(always)]
    fn from(text: &'static str) -> Name {
        // A length of 0 means "until NUL", so the empty string has to end with a NUL.
        let (text, bytes) = match text.len() {
            0 => ("\0", 0),
            bytes => (text, bytes.min(usize::from(u16::MAX)) as u16),
        };
        Name { address: text.as_ptr().expose_provenance() as u64, bytes, flags: 0 }
    }
}

impl From<&'static CStr> for Name {
    #[inline(always)]
    fn from(text: &'static CStr) -> Name {
        Name { address: text.as_ptr().expose_provenance() as u64, bytes: 0, flags: 0 }
    }
}

/// Name of the function that an item's path lies in. `kernel::clock::delay::here` and
/// `kernel::clock::delay::{{closure}}::here` both lie in `delay`.
fn function_of(path: &[u8]) -> &[u8] {
    let mut rest = path;
    let mut is_item = true;
    while let Some(at) = rest.windows(2).rposition(|pair| pair == b"::") {
        let last = &rest[at + 2..];
        if !is_item && !last.starts_with(b"{") {
            return last;
        }
        is_item = false;
        rest = &rest[..at];
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_an_item_gives_its_function() {
        let check =
            |path: &str, function: &str| assert_eq!(function_of(path.as_bytes()), function.as_bytes(), "{path}");
        check("kernel::clock::delay::here", "delay");
        check("kernel::delay::{{closure}}::here", "delay");
        check("kernel::delay::{{closure}}::{{closure}}::here", "delay");
        check("<kernel::Nvme<u8> as kernel::Driver>::probe::here", "probe");
        check("kernel::main::here", "main");
        check("main::here", "main");
        check("here", "here");
        check("", "");
        check("::", "");
        check("::::", "");
    }

    #[test]
    fn the_compiler_names_items_the_way_that_is_expected() {
        fn generic<T>(_: T) -> &'static str {
            fn here() {}
            core::any::type_name_of_val(&here)
        }
        trait Driver {
            fn probe(&self) -> &'static str;
        }
        struct Nvme<T>(T);
        impl<T> Driver for Nvme<T> {
            fn probe(&self) -> &'static str {
                let in_closure = || {
                    fn here() {}
                    core::any::type_name_of_val(&here)
                };
                in_closure()
            }
        }
        assert_eq!(function_of(generic((1u8, "two")).as_bytes()), b"generic");
        assert_eq!(function_of(Nvme(1u8).probe().as_bytes()), b"probe");
        let in_closure = || {
            fn here() {}
            core::any::type_name_of_val(&here)
        };
        assert_eq!(function_of(in_closure().as_bytes()), b"the_compiler_names_items_the_way_that_is_expected");
    }

    #[test]
    fn the_end_of_a_long_path_is_recorded() {
        let check = |bytes: usize| {
            let generics = "Bus<pci::Device>".repeat(bytes.div_ceil(16));
            let path: &'static str = Box::leak(format!("<kernel::{generics} as Driver>::probe::here").into_boxed_str());
            let name = Name::of_function(path);
            let recorded = &path[(name.address() - path.as_ptr().addr() as u64) as usize..][..usize::from(name.bytes)];
            assert!(recorded.len() <= NAME_BYTES_MAX && path.ends_with(recorded));
            assert_eq!(name.shown(recorded.as_bytes()), b"probe", "{} bytes", path.len());
        };
        [16, 990, 1024, 2000, 70_000].into_iter().for_each(check);
    }

    #[test]
    fn the_empty_string_ends_at_once() {
        let name = Name::from("");
        assert!(!name.is_none());
        assert_eq!(name.bytes(), None);
        assert_eq!(Name::from("x").bytes(), Some(1));
        assert_eq!(Name::from(c"x").bytes(), None);
    }

    #[test]
    fn a_string_too_long_is_cut() {
        let long: &'static str = Box::leak("x".repeat(70_000).into_boxed_str());
        assert_eq!(Name::from(long).bytes(), Some(65_535));
    }
}
