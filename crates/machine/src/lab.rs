//! The reference kernel (`kernel/lab`) as a guest: its file, its machine, the check of its command line, and its [profile]. No code outside
//! of this file checks whether this kernel is booted.
//!
//! The kernel prints words that it does not understand and boots all the same, so a typing error would measure something else. The kernel's
//! own table, `lab::switches`, has the words, and its own parser reads them.

use std::path::Path;

use lab::places::{KINDS, is_place, left_out, names};
use lab::switches::{DELAY_NS_MAX, DELAYS_MAX, LINE_BYTES_MAX, SWITCHES, Switch, Switches};

use recording::{GuestSpec, Init, Until};

use crate::profile::{GuestProfile, Log};
use crate::refusal::text;
use crate::{Error, RecordOptions, library};
use recording::Field;

/// The system's name in a recording.
const OS: &str = "lab";
/// Minimum memory: the kernel's log alone, for 262 144 records, is 10 MiB.
const MIN_MEMORY_BYTES: u64 = 32 << 20;
/// Factor by which a boot with counted instructions takes longer than the time that it counts, on a busy host.
const COUNTED_SLOWDOWN: u64 = 20;
/// Devices whose registers the lab only touches, and which answer at once: it sends them no request.
const UNUSED_DEVICES: &[&str] = &["nvme", "e1000"];
/// Words that name a place.
const PLACE_WORDS: [&str; 3] = ["hang", "panic", "fault"];
/// Further arguments for the VMM: a device that ends QEMU if the kernel panics.
pub(crate) const VMM_ARGUMENTS: [&str; 2] = ["-device", "pvpanic"];

const HELP: &str = "`bootscope lab list` has all words";

/// Default options for the reference kernel: the boot ends when it powers the machine off, and the machine reports its panics.
///
/// # Errors
/// If the kernel was not built.
pub fn lab() -> Result<RecordOptions, Error> {
    let missing = || Error::LibraryMissing {
        missing: library::missing(library::LAB),
        instead: text![", or name another kernel with ", Field::Kernel],
    };
    let guest = GuestSpec {
        kernel: Some(library::find(library::LAB).ok_or_else(missing)?),
        init: Init::Keep,
        until: Until::PowerOff,
        extra: VMM_ARGUMENTS.map(str::to_owned).to_vec(),
        ..GuestSpec::default()
    };
    Ok(RecordOptions::of(guest))
}

/// True if the guest is the reference kernel.
pub(crate) fn is_booted(options: &GuestSpec) -> bool {
    let same = |a: &Path, b: &Path| a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b));
    options.kernel.as_deref().is_some_and(|kernel| library::find(library::LAB).is_some_and(|lab| same(kernel, &lab)))
}

/// True if the guest is the reference kernel and sends samples through the port.
pub(crate) fn is_sampled(guest: &GuestSpec) -> bool {
    Switches::parse(&guest.append).sample > 0 && is_booted(guest)
}

/// The reference kernel's profile.
///
/// # Errors
/// If the options request something that the kernel does not understand.
pub(crate) fn profile(guest: &GuestSpec) -> Result<GuestProfile, Error> {
    if guest.memory_bytes < MIN_MEMORY_BYTES {
        let (requested, least) = (guest.memory_bytes >> 20, MIN_MEMORY_BYTES >> 20);
        let why = text![Field::Memory.is(format!("{requested}M")), " is too little for the lab"];
        return Err(Error::refused(Field::Memory, why, format!("give at least {least}M")));
    }
    check_line(&guest.append).map_err(|wrong| Error::refused(Field::Append, text![Field::Append, ": ", wrong], ""))?;
    Ok(GuestProfile {
        // Its log has FreeBSD's functions, and would be taken for FreeBSD's.
        os: OS,
        kernel: String::new(),
        log: Log::Anywhere,
        takes_linux_words: false,
        mounts: false,
        // Waiting CPUs execute `pause`, which lets the next one run.
        yields: true,
        spared_devices: UNUSED_DEVICES,
        says_before_reset: Some(lab::RESETS_INSTEAD),
        quiet_ms: quiet_ms(guest),
        notes: notes(guest),
    })
}

/// Additional quiet time of the lab's boot, in real time: the sum of the delays that its command line requests, which are no hang. No place
/// is delayed for longer. A boot with counted instructions takes longer than it counts.
fn quiet_ms(guest: &GuestSpec) -> u64 {
    let scripted_ms = Switches::parse(&guest.append).delays_ns() / 1_000_000;
    if guest.deterministic { scripted_ms.saturating_mul(COUNTED_SLOWDOWN) } else { scripted_ms }
}

/// Notes on words about a place that the boot does not reach, because another word leaves it out.
fn notes(guest: &GuestSpec) -> Vec<String> {
    let switches = Switches::parse(&guest.append);
    let note = |word: &str| {
        let wanted = left_out(place(word)?, &switches)?;
        Some(format!("`{word}` changes nothing: the lab's boot comes there only with {wanted}"))
    };
    guest.append.split_ascii_whitespace().filter_map(note).collect()
}

fn check_line(line: &str) -> Result<(), String> {
    if line.len() >= LINE_BYTES_MAX {
        return Err(format!("the lab reads {} bytes, and these are {}", LINE_BYTES_MAX - 1, line.len()));
    }
    line.split_ascii_whitespace().try_for_each(check_word)?;
    match Switches::parse(line).unknown_count() {
        0 => Ok(()),
        more => Err(format!("the lab has room for {DELAYS_MAX} delays: leave {more} out")),
    }
}

fn check_word(word: &str) -> Result<(), String> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let understood = Switches::parse(word).unknown_count() == 0;
    match place(word) {
        Some(place) if !is_place(place) => Err(no_place(word, place)),
        _ if understood => Ok(()),
        Some(_) => Err(format!(
            "`{word}`: a delay is a time such as 12, 12ms or 250us, at most {} ms",
            DELAY_NS_MAX / 1_000_000
        )),
        None => Err(match SWITCHES.iter().find(|switch| switch.name == name) {
            Some(switch) => no_value(word, switch, value),
            None => no_switch(word, name),
        }),
    }
}

/// The place that a word is about.
fn place(word: &str) -> Option<&str> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    name.strip_prefix("delay.").or_else(|| PLACE_WORDS.contains(&name).then_some(value))
}

fn no_switch(word: &str, name: &str) -> String {
    let names = SWITCHES.iter().map(|switch| switch.name).chain(PLACE_WORDS);
    format!("`{word}`: the lab has no switch `{name}`{}; {HELP}", did_you_mean(name, names))
}

fn no_value(word: &str, switch: &Switch, value: &str) -> String {
    let name = switch.name;
    if switch.values.is_empty() {
        let (least, most) = switch.numbers;
        return format!("`{word}`: write {name}= and a number from {least} to {most}");
    }
    let meant = did_you_mean(value, switch.values.iter().copied());
    format!("`{word}`: {name} takes {}{meant}", switch.values.join(", "))
}

fn no_place(word: &str, place: &str) -> String {
    let name = place.split_once('.').map_or(place, |(_, name)| name);
    let all = KINDS.iter().flat_map(|kind| names(*kind).iter().copied().chain([kind.as_str()]));
    format!("`{word}`: the lab's boot has no place `{place}`{}; {HELP}", did_you_mean(name, all))
}

/// A hint at the nearest name, if one is near: less than half of it would have to be retyped.
fn did_you_mean<'a>(written: &str, names: impl Iterator<Item = &'a str>) -> String {
    let distance = |name: &&str| strsim::osa_distance(written, name);
    let near = |name: &&str| 2 * distance(name) < written.len().max(name.len());
    names.filter(near).min_by_key(distance).map_or_else(String::new, |name| format!(": did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_the_kernel_understands_pass() {
        for line in [
            "",
            "calibrate=delay ps2=probe",
            "hz=1000 messages=0",
            "delay.psm=7 delay.thread.usbus0=250us hang=attach",
            "bootscope.dither=xx",
        ] {
            assert_eq!(check_line(line), Ok(()), "{line}");
        }
        for switch in SWITCHES {
            let all = switch.values.iter().chain([&switch.default]);
            all.for_each(|value| assert_eq!(check_word(&format!("{}={value}", switch.name)), Ok(())));
        }
    }

    #[test]
    fn a_slip_is_named_with_what_was_meant() {
        for (slip, words) in [
            ("calibrat=delay", &["`calibrat=delay`", "`calibrate`", "lab list"][..]),
            ("calibrate=dely", &["delay, regression", "did you mean `delay`?"]),
            ("ps2", &["`ps2`: ps2 takes probe, skip"]),
            ("hz=0", &["from 1 to 10000"]),
            ("messages=many", &["from 0 to 1000000"]),
            ("hang=clock", &["no place `clock`: did you mean `clocks`?"]),
            ("hang=", &["no place ``"]),
            ("pamic=clocks", &["did you mean `panic`?"]),
            ("delay.probe.psn=3", &["no place `probe.psn`: did you mean `psm`?"]),
            ("delay.psm=1s", &["12ms or 250us", "600000 ms"]),
            ("quiet", &["no switch `quiet`; "]),
        ] {
            let wrong = check_line(&format!("aps=serial {slip}")).unwrap_err();
            words.iter().for_each(|word| assert!(wrong.contains(word), "{slip}: no {word:?} in: {wrong}"));
        }
    }

    #[test]
    fn more_than_the_kernel_has_room_for_is_refused() {
        let delays = "delay.psm=1 ".repeat(DELAYS_MAX + 3);
        assert!(check_line(&delays).unwrap_err().contains("leave 3 out"));
        assert!(check_line(&"hz=100 ".repeat(1000)).unwrap_err().contains("these are 7000"));
    }
}
