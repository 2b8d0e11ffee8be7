//! Demangles the names that a C++ or Rust compiler mangled.
//!
//! Rust's hash at the end and a C++ function's parameters are removed: readers look for the rest.

use std::borrow::Cow;
use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, Symbol};

/// A name whose demangled form would be longer stays mangled: some unfold to megabytes.
const NAME_BYTES_MAX: usize = 512;

/// Returns the demangled name, or the name itself if it is not mangled.
pub(crate) fn plain(name: &str) -> Cow<'_, str> {
    if !name.starts_with("_R") && !name.starts_with("_Z") {
        return Cow::Borrowed(name);
    }
    let mut short = Short::default();
    let written = match rustc_demangle::try_demangle(name) {
        Ok(rust) => write!(short, "{rust:#}").is_ok(),
        Err(_) => cpp(name, &mut short),
    };
    if written && !short.0.is_empty() { Cow::Owned(short.0) } else { Cow::Borrowed(name) }
}

fn cpp(name: &str, into: &mut Short) -> bool {
    let options = DemangleOptions::new().no_params().no_return_type();
    Symbol::new(name).is_ok_and(|symbol| symbol.structured_demangle(into, &options).is_ok())
}

/// A text of at most [`NAME_BYTES_MAX`] bytes.
#[derive(Default)]
struct Short(String);

impl Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > NAME_BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled_as_written() {
        let cases = [
            ("do_one_initcall", "do_one_initcall"),
            ("_ZN3lab6kernel6thread5sleep17h0123456789abcdefE", "lab::kernel::thread::sleep"),
            ("_RNvCs4fqI2P2rA04_4main3run", "main::run"),
            (
                "_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0123456789abcdefE",
                "core::ptr::drop_in_place<alloc::string::String>",
            ),
            ("_ZN6Kernel9Scheduler4bootEPNS_6ThreadE", "Kernel::Scheduler::boot"),
            ("_ZNK6Kernel6Thread4nameEv", "Kernel::Thread::name"),
            ("_ZTV6Thread", "{vtable(Thread)}"),
            ("_Zebra", "_Zebra"),
            ("_Read", "_Read"),
            ("_R", "_R"),
        ];
        for (mangled, written) in cases {
            assert_eq!(plain(mangled), written);
        }
    }

    #[test]
    fn a_name_that_unfolds_to_megabytes_stays_mangled() {
        // f<t, pair<t, t>, pair<pair<t, t>, pair<t, t>>, …>: each argument is a pair of the one before it.
        let digit = |i: u32| char::from_digit(i, 36).unwrap().to_ascii_uppercase();
        let pairs = |n: u32| (2..n).map(|i| format!("S1_IS{0}_S{0}_E", digit(i))).collect::<String>();
        let name = |n: u32| format!("_Z1fI1t4pairIS0_S0_E{}Evv", pairs(n));
        assert_eq!(plain(&name(2)), "f<t, pair<t, t> >");
        assert!(plain(&name(4)).contains("pair<pair<pair<t, t>, pair<t, t> >"));
        assert_eq!(plain(&name(30)), name(30));
    }
}
