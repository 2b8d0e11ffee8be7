//! Strings by address: what a record holds of a name.
//!
//! C's strings end before a NUL; Rust's have a length, which the record holds beside the address. A recorder never looks
//! into a string: it must live for ever, or be in the log's arena (see [`copy`](crate::copy)).

use core::ffi::CStr;

/// A name is printed up to so many bytes.
pub const NAME_BYTES_MAX: usize = 1024;

/// The name is the path of an item inside the function that is meant, as `core::any::type_name` gives it.
pub(crate) const FUNCTION_PATH: u8 = 1;

/// A string that lives for ever, by address; or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    pub(crate) address: u64,
    /// Its length; 0: until the first NUL.
    pub(crate) bytes: u16,
    pub(crate) flags: u8,
}

impl Name {
    /// No string.
    pub const NONE: Name = Name { address: 0, bytes: 0, flags: 0 };

    /// The function that contains an item, by `core::any::type_name` of the item: readers cut the path down to the
    /// function's own name, so that it costs nothing when it is recorded. Of a path longer than readers look at, the end
    /// is recorded, where that name is.
    #[inline(always)]
    pub fn of_function(path_of_item: &'static str) -> Name {
        let bytes = path_of_item.len().min(NAME_BYTES_MAX);
        let skipped = path_of_item.len() - bytes;
        Name { address: Name::from(path_of_item).address + skipped as u64, bytes: bytes as u16, flags: FUNCTION_PATH }
    }

    /// Where it is, as the recorder saw it; 0: nowhere.
    pub fn address(self) -> u64 {
        self.address
    }

    /// Its length in bytes, if the record says so; else it ends before its first NUL.
    pub fn bytes(self) -> Option<usize> {
        (self.bytes > 0).then_some(usize::from(self.bytes))
    }

    /// Whether there is no string at all.
    pub fn is_none(self) -> bool {
        self.address == 0
    }

    /// What of the bytes at the address is to be shown: of the path of an item in a function, the function's name.
    pub fn shown(self, bytes: &[u8]) -> &[u8] {
        if self.flags & FUNCTION_PATH != 0 { function_of(bytes) } else { bytes }
    }
}

impl From<&'static str> for Name {
    /// A string longer than 65 535 bytes is cut there.
    #[inline(always)]
    fn from(text: &'static str) -> Name {
        // A length of 0 means "until NUL", which is what the empty string has to be, then.
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

/// `kernel::clock::delay::here` and `kernel::clock::delay::{{closure}}::here` are both in `delay`.
fn function_of(path: &[u8]) -> &[u8] {
    let mut rest = path;
    let mut item = true;
    while let Some(at) = rest.windows(2).rposition(|pair| pair == b"::") {
        let last = &rest[at + 2..];
        if !item && !last.starts_with(b"{") {
            return last;
        }
        item = false;
        rest = &rest[..at];
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_known_by_an_item_in_it() {
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
    fn of_a_long_path_the_end_is_recorded() {
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
