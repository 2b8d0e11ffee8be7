//! Times of an EFI boot loader: variables that loaders such as systemd-boot leave by systemd's Boot Loader Interface.
//!
//! ```text
//! LoaderTimeInitUSec=1534210         as `bootscope capture` writes them; µs since reset, by the CPU's counter
//! LoaderTimeMenuUSec=1543021
//! LoaderTimeExecUSec=2566203
//! LoaderTimeInitUSec-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f
//!                                    a file of /sys/firmware/efi/efivars: 4 bytes of attributes, then digits in UTF-16, then a 0
//! ```
//! (systemd's "Boot Loader Interface"; Linux, `Documentation/filesystems/efivarfs.rst`.) The times are when the loader
//! was started, showed its menu, and started the kernel's image. The image's work until the kernel's clock begins has
//! no stamp: it reads the initrd, leaves the firmware, and unpacks the kernel.
//!
//! All of it happens before the kernel. [`crate::readers::before_kernel`] places it. systemd reads the same variables, so both
//! agree.

use crate::formats::steps::{Step, Steps};
use crate::input::text::{Lines, whole_number};
use timeline::{DiagnosticKind, Diagnostics, Ns, Phase};

/// The program's name in views.
const PROGRAM: &str = "EFI boot loader";
const ATTRIBUTES_BYTES: usize = 4;
/// The number of digits of a u64, and the 0 after them.
const UNITS_MAX: usize = 21;

/// The times: the variable, the name of the step, and the phase that begins there.
const TIMES: [(&str, &str, Option<Phase>); 3] = [
    ("LoaderTimeInitUSec", "boot loader", Some(Phase::Loader)),
    ("LoaderTimeMenuUSec", "boot menu", None),
    ("LoaderTimeExecUSec", "start the kernel's image", None),
];

/// The times, in µs since reset; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times(pub [u64; 3]);

/// Reads a line that `capture` wrote.
pub(crate) fn value(line: &[u8]) -> Option<(usize, u64)> {
    let (which, rest) =
        TIMES.iter().enumerate().find_map(|(which, (name, ..))| Some((which, line.strip_prefix(name.as_bytes())?)))?;
    Some((which, whole_number(rest.strip_prefix(b"=")?.trim_ascii())?))
}

/// Reads a variable's file. Its name shows which variable it is.
pub(crate) fn variable(name: &str, bytes: &[u8]) -> Option<(usize, u64)> {
    let name = name.rsplit(['/', ':']).next()?;
    let which = TIMES.iter().position(|(of, ..)| name.strip_prefix(of).is_some_and(|rest| rest.starts_with('-')))?;
    let units = bytes.get(ATTRIBUTES_BYTES..).filter(|units| units.len() % 2 == 0 && units.len() <= 2 * UNITS_MAX)?;
    let mut digits = Vec::with_capacity(UNITS_MAX);
    for unit in units.chunks_exact(2) {
        match [unit[0], unit[1]] {
            [0, 0] => break,
            [digit, 0] => digits.push(digit),
            _ => return None,
        }
    }
    Some((which, whole_number(&digits)?))
}

/// Reads the lines of a file.
pub fn read(bytes: &[u8]) -> Times {
    let mut times = Times::default();
    for (which, us) in Lines::new(bytes).filter_map(|line| value(line.bytes)) {
        times.0[which] = us;
    }
    times
}

/// The times as steps since reset.
pub fn steps(times: Times, file: &str, diagnostics: &mut Diagnostics) -> Steps {
    let mut steps = Steps::new(PROGRAM, Ns::from_us(1));
    for (us, (variable, name, begins)) in times.0.iter().zip(TIMES).filter(|(us, _)| **us > 0) {
        let place = || format!("{file}: {variable}");
        // Times above ten years are from a counter that was never set.
        let Some(at) = i64::try_from(*us).ok().and_then(|us| us.checked_mul(1000)).filter(|ns| *ns < i64::MAX / 30)
        else {
            diagnostics.note_about(DiagnosticKind::LinesUnreadable, PROGRAM, place);
            continue;
        };
        if steps.steps.is_empty() {
            let reset = Step { at: Ns::ZERO, name: "firmware".to_owned(), begins: Some(Phase::Firmware) };
            steps.add(reset, diagnostics, String::new);
        }
        steps.add(Step { at: Ns(at), name: name.to_owned(), begins }, diagnostics, place);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(text: &str) -> Vec<u8> {
        [7, 0, 0, 0].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
    }

    #[test]
    fn variables_are_digits_in_utf_16() {
        let name = "efivars/LoaderTimeExecUSec-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
        assert_eq!(variable(name, &wide("2566203\0")), Some((2, 2_566_203)));
        assert_eq!(variable(name, &wide("2566203")), Some((2, 2_566_203)));
        for wrong in ["", "\0", "x1\0", "99999999999999999999999\0", "\u{131}1\0"] {
            assert_eq!(variable(name, &wide(wrong)), None, "{wrong:?}");
        }
        assert_eq!(variable("LoaderInfo-4a67b082", &wide("1\0")), None);
        let whole = wide("2566203\0");
        for length in 0..whole.len() {
            let _ = variable(name, &whole[..length]);
        }
    }

    #[test]
    fn unknown_times_are_not_steps() {
        let mut diagnostics = Diagnostics::default();
        let text = b"LoaderTimeInitUSec=0\nLoaderTimeExecUSec=2566203\nLoaderTimeMenuUSec=18446744073709551615\nLoaderInfo=x\n";
        let steps = steps(read(text), "f", &mut diagnostics);
        let found: Vec<_> = steps.steps.iter().map(|step| (step.at.0, &*step.name)).collect();
        assert_eq!(found, [(0, "firmware"), (2_566_203_000, "start the kernel's image")]);
        assert_eq!(diagnostics.count(DiagnosticKind::LinesUnreadable), 1);
        assert!(!steps.hands_over);
    }
}
