//! Stamps that firmware, boot loaders and hypervisors print themselves. Each counts from the start of its own program.
//!
//! ```text
//! [0000.126] text              TegraBoot, MB1, MB2, CBoot: seconds
//! [   0.114] text              U-Boot of some vendors: seconds
//!   3.07333|text               Hostboot: seconds
//! [   75.323720711,3] text     skiboot: seconds, and the level
//! (XEN) [    0.013864] text    Xen: seconds
//! B -    153466 - text         Qualcomm's XBL: microseconds
//! [10] text                    Little Kernel: milliseconds
//! libguestfs: [02850ms] text   libguestfs: milliseconds; the command line of QEMU has no name before it
//! ```
//! The kernel's own stamps have six digits behind the point. One line is no proof: a form needs two lines that agree.

use super::Loggers;
use super::stamp::stamp;
use crate::input::text::{Lines, number, seconds, skip_spaces};
use timeline::{Ns, Phase};

/// The stamp in nanoseconds, and the text behind it.
type Strip = fn(&[u8]) -> Option<(i64, &[u8])>;

/// A form of stamps, and the program that prints it.
struct Form {
    program: &'static str,
    /// The phase that begins with its first line.
    phase: Phase,
    strip: Strip,
    /// A banner that the file must have, because the form alone says too little; empty if it says enough.
    banner: &'static [u8],
    /// The resolution of its stamps.
    error: Ns,
}

const FORMS: [Form; 7] = [
    Form { program: "Hostboot", phase: Phase::Firmware, strip: hostboot, banner: b"", error: Ns::from_us(10) },
    Form { program: "skiboot", phase: Phase::Loader, strip: skiboot, banner: b"", error: Ns(1) },
    Form { program: "Xen", phase: Phase::Hypervisor, strip: xen, banner: b"", error: Ns::from_us(1) },
    Form { program: "XBL", phase: Phase::Firmware, strip: xbl, banner: b"", error: Ns::from_us(1) },
    Form {
        program: "Little Kernel",
        phase: Phase::Loader,
        strip: little_kernel,
        banner: b"welcome to lk",
        error: Ns::from_ms(10),
    },
    Form {
        program: "libguestfs",
        phase: Phase::LibguestfsLaunch,
        strip: libguestfs,
        banner: b"libguestfs: launch: ",
        error: Ns::from_ms(1),
    },
    Form { program: "boot loader", phase: Phase::Firmware, strip: milliseconds, banner: b"", error: Ns::from_ms(1) },
];
/// A file's first lines decide which forms it has.
const MAX_LINES_TRIED: usize = 2000;
/// A form needs this number of lines.
const MIN_LINES: usize = 2;

/// The forms of stamps in one file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoaderStamps {
    /// One bit for each of [`FORMS`].
    forms: u8,
}

impl LoaderStamps {
    /// Finds the forms that at least two lines have, and whose lines are not the kernel's.
    pub(crate) fn detect(bytes: &[u8], loggers: &Loggers) -> LoaderStamps {
        let mut counts = [0_usize; FORMS.len()];
        let mut has_banner = [false; FORMS.len()];
        let mut is_kernels = [false; FORMS.len()];
        for line in Lines::new(bytes).take(MAX_LINES_TRIED) {
            let text = loggers.without_stamp(line.bytes);
            for (place, form) in FORMS.iter().enumerate() {
                has_banner[place] |= form.banner.is_empty() || memchr::memmem::find(text, form.banner).is_some();
                let Some((_, rest)) = (form.strip)(text) else { continue };
                counts[place] += 1;
                is_kernels[place] |= says_kernel(rest);
                break;
            }
        }
        let holds = |place: &usize| counts[*place] >= MIN_LINES && has_banner[*place] && !is_kernels[*place];
        LoaderStamps { forms: (0..FORMS.len()).filter(holds).fold(0, |forms, place| forms | 1 << place) }
    }

    /// True if the file has any such form.
    pub(crate) fn is_any(self) -> bool {
        self.forms != 0
    }

    /// Takes such a stamp off a line. Returns it with its form's place.
    pub(crate) fn strip(self, text: &[u8]) -> Option<(LoaderStamp, &[u8])> {
        if self.forms == 0 {
            return None;
        }
        let of = |place: usize| {
            let (ns, rest) = (FORMS[place].strip)(text)?;
            Some((LoaderStamp { at: Ns(ns), form: u8::try_from(place).ok()? }, rest))
        };
        (0..FORMS.len()).filter(|place| self.forms & 1 << place != 0).find_map(of)
    }
}

/// A stamp of a program that runs before the kernel, or below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoaderStamp {
    /// Since its program began to count.
    pub at: Ns,
    form: u8,
}

impl LoaderStamp {
    fn form(self) -> &'static Form {
        &FORMS[usize::from(self.form)]
    }

    /// The name of the program that stamped.
    pub(crate) fn program(self) -> &'static str {
        self.form().program
    }

    /// The phase that begins with the program's first line.
    pub(crate) fn phase(self) -> Phase {
        self.form().phase
    }

    /// The resolution of the program's stamps.
    pub(crate) fn error(self) -> Ns {
        self.form().error
    }
}

/// True if only a kernel says this: then the stamps are the kernel's, however many digits they have.
fn says_kernel(text: &[u8]) -> bool {
    let text = skip_spaces(text);
    text.starts_with(b"Linux version ") || text.starts_with(b"Booting Linux on ")
}

/// `[0000.126] text`, `[   0.114] text`: three to five digits behind the point.
fn milliseconds(text: &[u8]) -> Option<(i64, &[u8])> {
    let (ns, digits, rest) = seconds(skip_spaces(text.strip_prefix(b"[")?))?;
    let rest = rest.strip_prefix(b"]")?;
    let rest = if rest.is_empty() { rest } else { rest.strip_prefix(b" ")? };
    ((3..6).contains(&digits)).then_some((i64::try_from(ns).ok()?, rest))
}

/// `  3.07333|text`: five digits.
fn hostboot(text: &[u8]) -> Option<(i64, &[u8])> {
    let (ns, digits, rest) = seconds(skip_spaces(text))?;
    (digits == 5).then_some((i64::try_from(ns).ok()?, rest.strip_prefix(b"|")?))
}

/// `[   75.323720711,3] text`
fn skiboot(text: &[u8]) -> Option<(i64, &[u8])> {
    let (ns, digits, rest) = seconds(skip_spaces(text.strip_prefix(b"[")?))?;
    let (_, rest) = number(rest.strip_prefix(b",")?)?;
    let rest = rest.strip_prefix(b"]")?;
    (digits == 9).then_some((i64::try_from(ns).ok()?, rest.strip_prefix(b" ").unwrap_or(rest)))
}

/// `(XEN) [    0.013864] text`
fn xen(text: &[u8]) -> Option<(i64, &[u8])> {
    let (ns, rest) = stamp(text.strip_prefix(b"(XEN) ")?)?;
    Some((ns, rest.strip_prefix(b" ").unwrap_or(rest)))
}

/// `B -    153466 - text`
fn xbl(text: &[u8]) -> Option<(i64, &[u8])> {
    let (us, rest) = number(skip_spaces(text.strip_prefix(b"B - ")?))?;
    Some((i64::try_from(us).ok()?.checked_mul(1000)?, rest.strip_prefix(b" - ")?))
}

/// `libguestfs: [02850ms] text`, `[03285ms] /usr/bin/qemu-system-x86_64 \`: since the launch began
/// (`guestfs_int_launch_send_progress` and `print_timestamped_message` in libguestfs, `lib/launch.c`).
fn libguestfs(text: &[u8]) -> Option<(i64, &[u8])> {
    let text = text.strip_prefix(b"libguestfs: ").unwrap_or(text);
    let (ms, rest) = number(text.strip_prefix(b"[")?)?;
    Some((i64::try_from(ms).ok()?.checked_mul(1_000_000)?, rest.strip_prefix(b"ms] ")?))
}

/// `[10] text`
fn little_kernel(text: &[u8]) -> Option<(i64, &[u8])> {
    let (ms, rest) = number(text.strip_prefix(b"[")?)?;
    Some((i64::try_from(ms).ok()?.checked_mul(1_000_000)?, rest.strip_prefix(b"] ")?))
}
