//! Makes a remedy's change to the options of a boot.
//!
//! A change concerns what is started: command line, machine, files. A change to the running guest is a variant of the
//! same kind: `make` sets its option, and the recorder makes the change.

use super::change_error::ChangeError;
use super::kernels::Kernels;
use benchmark::Setting;
use findings::Change;
use machine::{Patch, RecordOptions};

/// Checks that a change can be made, and makes it. Only the kernel of a configuration is not built.
pub fn check(change: &Change, options: &mut RecordOptions, kernels: &Kernels) -> Result<(), ChangeError> {
    match change {
        Change::AppendWords(words) => append(options, words),
        Change::LabSwitch { from, to } => switch(options, from, to),
        Change::QemuArguments { from, to } => arguments(&mut options.guest.extra, from, to),
        Change::Cpus(cpus) if options.guest.cpus >= *cpus => Err(ChangeError::AlreadyMade),
        Change::Cpus(cpus) => {
            options.guest.cpus = *cpus;
            Ok(())
        }
        Change::Memory(bytes) if options.guest.memory_bytes <= *bytes => Err(ChangeError::AlreadyMade),
        Change::Memory(bytes) => {
            options.guest.memory_bytes = *bytes;
            Ok(())
        }
        Change::Patch(patches) => patch(options, patches),
        Change::UnpackedKernel => kernels.unpack(options),
        Change::UnpackedInitrd => kernels.unpack_initrd(options),
        Change::KernelConfig(changes) => kernels.check_config(changes),
    }
}

/// Makes the change.
pub fn make(change: &Change, options: &mut RecordOptions, kernels: &mut Kernels) -> Result<(), ChangeError> {
    match change {
        Change::KernelConfig(changes) => kernels.configure(changes, options),
        other => check(other, options, kernels),
    }
}

/// The change as a setting of a variant.
pub fn setting(change: &Change) -> Setting {
    let (key, value) = match change {
        Change::AppendWords(words) => ("append-words", words.join(" ")),
        Change::LabSwitch { to, .. } => ("lab-switch", to.join(" ")),
        Change::QemuArguments { to, .. } => ("qemu-arguments", to.join(" ")),
        Change::Cpus(cpus) => ("cpus", cpus.to_string()),
        Change::Memory(bytes) => ("memory", format!("--memory {}M", bytes >> 20)),
        Change::Patch(patches) => ("patch", patches.join("; ")),
        Change::UnpackedKernel => ("unpacked-kernel", "unpacked-kernel".to_owned()),
        Change::UnpackedInitrd => ("unpacked-initrd", "unpacked-initrd".to_owned()),
        Change::KernelConfig(options) => ("kernel-config", options.join(" ")),
    };
    Setting { key: key.to_owned(), value }
}

fn patch(options: &mut RecordOptions, patches: &[String]) -> Result<(), ChangeError> {
    let parsed = patches.iter().map(|text| text.parse::<Patch>()).collect::<Result<Vec<Patch>, String>>();
    let new: Vec<Patch> = parsed.map_err(ChangeError::NoPatch)?;
    let new: Vec<Patch> = new.into_iter().filter(|patch| !options.guest.patches.contains(patch)).collect();
    if new.is_empty() {
        return Err(ChangeError::AlreadyMade);
    }
    options.guest.patches.extend(new);
    Ok(())
}

fn append(options: &mut RecordOptions, words: &[String]) -> Result<(), ChangeError> {
    if options.guest.kernel.is_none() {
        return Err(ChangeError::NoCommandLine);
    }
    let line = &options.guest.append;
    let kernels = &line[..end_of_kernels_words(line)];
    let new: Vec<&str> = words.iter().map(String::as_str).filter(|word| !has(kernels, word)).collect();
    if new.is_empty() {
        return Err(ChangeError::AlreadyMade);
    }
    // If a word occurs twice with different values, the kernel uses the last.
    let (kernels, inits) = line.split_at(kernels.len());
    options.guest.append = [kernels.trim_end(), &new.join(" "), inits.trim_start()]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<&str>>()
        .join(" ");
    Ok(())
}

fn switch(options: &mut RecordOptions, from: &[String], to: &[String]) -> Result<(), ChangeError> {
    let line = &options.guest.append;
    if let Some(missing) = from.iter().find(|word| !has(line, word)) {
        let is_so = to.iter().all(|word| has(line, word));
        return Err(if is_so { ChangeError::AlreadyMade } else { ChangeError::NotThere(missing.clone()) });
    }
    let mut words: Vec<&str> = line.split_ascii_whitespace().collect();
    let at = words.iter().position(|word| from.iter().any(|gone| gone == word)).unwrap_or(words.len());
    words.retain(|word| !from.iter().any(|gone| gone == word));
    let at = at.min(words.len());
    words.splice(at..at, to.iter().map(String::as_str));
    let line = words.join(" ");
    options.guest.append = line;
    Ok(())
}

/// Changes QEMU's arguments. The removed ones must be consecutive, and the new ones are appended.
fn arguments(extra: &mut Vec<String>, from: &[String], to: &[String]) -> Result<(), ChangeError> {
    let at = |words: &[String]| extra.windows(words.len().max(1)).position(|existing| existing == words);
    if from.is_empty() && at(to).is_some() {
        return Err(ChangeError::AlreadyMade);
    }
    if !from.is_empty() {
        let Some(first) = at(from) else {
            let is_so = at(to).is_some();
            return Err(if is_so { ChangeError::AlreadyMade } else { ChangeError::NotThere(from.join(" ")) });
        };
        extra.drain(first..first + from.len());
    }
    extra.extend_from_slice(to);
    Ok(())
}

fn has(line: &str, word: &str) -> bool {
    line.split_ascii_whitespace().any(|existing| existing == word)
}

/// The position of init's words, which follow `--`. A double quote keeps blanks in a word.
fn end_of_kernels_words(line: &str) -> usize {
    let (mut quoted, mut at_start) = (false, true);
    for (at, c) in line.char_indices() {
        let rest = &line[at..];
        if at_start && !quoted && rest.starts_with("--") && rest[2..].chars().next().is_none_or(char::is_whitespace) {
            return at;
        }
        quoted ^= c == '"';
        at_start = c.is_ascii_whitespace();
    }
    line.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::GuestSpec;

    fn options(append: &str) -> RecordOptions {
        RecordOptions::of(GuestSpec {
            append: append.to_owned(),
            kernel: Some("vmlinuz".into()),
            ..GuestSpec::default()
        })
    }

    /// As the outer `check`, without sources.
    fn check(change: &Change, options: &mut RecordOptions) -> Result<(), ChangeError> {
        super::check(change, options, &Kernels::without_sources())
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn words_are_the_kernels_and_not_inits() {
        let line = |append: &str, added: &str| {
            let mut options = options(append);
            check(&Change::AppendWords(words(added)), &mut options).map(|()| options.guest.append)
        };
        assert_eq!(line("", "a=1").unwrap(), "a=1");
        assert_eq!(line("quiet", "a=1 b").unwrap(), "quiet a=1 b");
        assert_eq!(line("quiet b -- single b", "a=1 b").unwrap(), "quiet b a=1 -- single b");
        assert_eq!(line("x=\"a -- b\" --y", "a").unwrap(), "x=\"a -- b\" --y a");
        assert_eq!(line("-- x", "a").unwrap(), "a -- x");
        assert_eq!(line("a b", "b"), Err(ChangeError::AlreadyMade));
        assert_eq!(line("-- b", "b").unwrap(), "b -- b");
        let mut disk = RecordOptions::default();
        assert_eq!(check(&Change::AppendWords(words("a")), &mut disk), Err(ChangeError::NoCommandLine));
    }

    #[test]
    fn arguments_of_qemu_come_last() {
        let change = |from: &str, to: &str| {
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
            Change::QemuArguments { from: words(from), to: words(to) }
        };
        let mut options = options("quiet");
        options.guest.extra = words("-device pvpanic -m 1");
        check(&change("-device pvpanic", "-bios qboot"), &mut options).unwrap();
        assert_eq!(options.guest.extra, words("-m 1 -bios qboot"));
        assert_eq!(check(&change("-device pvpanic", "-bios qboot"), &mut options), Err(ChangeError::AlreadyMade));
        assert_eq!(check(&change("", "-bios qboot"), &mut options), Err(ChangeError::AlreadyMade));
        assert!(matches!(check(&change("-no-acpi", ""), &mut options), Err(ChangeError::NotThere(_))));
        let why = check(&Change::KernelConfig(words("-FTRACE -USB")), &mut options).unwrap_err().to_string();
        assert!(why.contains("--tree DIR") && why.contains("--config -FTRACE,-USB"), "{why}");
    }

    #[test]
    fn a_machine_is_given_more_cpus_and_never_fewer() {
        let mut options = options("quiet");
        options.guest.cpus = 1;
        check(&Change::Cpus(2), &mut options).unwrap();
        assert_eq!((options.guest.cpus, check(&Change::Cpus(2), &mut options)), (2, Err(ChangeError::AlreadyMade)));
    }

    #[test]
    fn a_machine_is_given_less_memory_and_never_more() {
        let mut options = options("quiet");
        options.guest.memory_bytes = 2 << 30;
        let change = Change::Memory(512 << 20);
        check(&change, &mut options).unwrap();
        assert_eq!(
            (options.guest.memory_bytes, check(&change, &mut options)),
            (512 << 20, Err(ChangeError::AlreadyMade))
        );
        assert_eq!(check(&Change::Memory(1 << 30), &mut options), Err(ChangeError::AlreadyMade));
        assert_eq!(setting(&change).value, "--memory 512M");
    }

    #[test]
    fn patches_are_added_once() {
        let change = Change::Patch(words("call@f+0x1=nop call@g+0x2=h"));
        let mut options = options("");
        check(&change, &mut options).unwrap();
        assert_eq!(options.guest.patches.len(), 2);
        assert_eq!(check(&change, &mut options), Err(ChangeError::AlreadyMade));
        assert!(matches!(check(&Change::Patch(words("f")), &mut options), Err(ChangeError::NoPatch(_))));
        assert_eq!(setting(&change).value, "call@f+0x1=nop; call@g+0x2=h");
    }

    #[test]
    fn a_switch_is_in_the_place_of_the_other() {
        let change = Change::LabSwitch { from: words("reset=wait nic=yes"), to: words("reset=async nic=yes") };
        let mut options = options("a reset=wait nic=yes delay.x=1");
        check(&change, &mut options).unwrap();
        assert_eq!(options.guest.append, "a reset=async nic=yes delay.x=1");
        assert_eq!(check(&change, &mut options), Err(ChangeError::AlreadyMade));
        options.guest.append = "a".to_owned();
        assert_eq!(check(&change, &mut options), Err(ChangeError::NotThere("reset=wait".to_owned())));
    }
}
