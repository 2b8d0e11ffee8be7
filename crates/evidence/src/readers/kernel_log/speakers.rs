//! The speaker of a line that no kernel stamped, by its words.

use crate::formats::linux_words::user_space;

/// A speaker, and what its lines begin with or contain.
struct Speaker {
    name: &'static str,
    begins: &'static [&'static str],
    contains: &'static [&'static str],
}

const FIRMWARE: &str = "firmware";
const LOADER: &str = "a boot loader";
const HYPERVISOR: &str = "a hypervisor";
const OTHER_KERNEL: &str = "another system's kernel";
/// Lines of process 1 and of what it starts.
const USER_SPACE: &str = "user space";

const SPEAKERS: [Speaker; 4] = [
    Speaker {
        name: FIRMWARE,
        begins: &[
            // Trusted Firmware-A, OP-TEE, OpenSBI, coreboot, SeaBIOS, EDK2, Rockchip's and Amlogic's first stages.
            "NOTICE:  ",
            "INFO:    ",
            "WARNING: ",
            "ERROR:   ",
            "I/TC: ",
            "D/TC: ",
            "OpenSBI v",
            "coreboot-",
            "SeaBIOS (version ",
            "UEFI firmware ",
            "--== Welcome to Hostboot",
            "DDR version ",
            "DDR Version ",
            "BL2 ",
            "BL31",
            "S - ",
            "D - ",
            "B - ",
        ],
        contains: &["Booting Trusted Firmware"],
    },
    Speaker {
        name: LOADER,
        begins: &[
            "U-Boot ",
            "barebox ",
            "Welcome to GRUB",
            "=== systemd-boot",
            "Hit any key to stop autoboot",
            "Starting kernel ...",
            "Starting depthcharge",
            "Scanning ",
            "Retrieving file: ",
            "## Loading ",
            "## Booting kernel from ",
            "## Flattened Device Tree ",
        ],
        contains: &["TegraBoot", " bytes read in ", "welcome to lk"],
    },
    Speaker { name: HYPERVISOR, begins: &["(XEN) "], contains: &[] },
    Speaker { name: OTHER_KERNEL, begins: &["*** Booting ", "***** Booting "], contains: &["Zephyr OS"] },
];

/// The speaker of a line, if its words give it away.
pub(super) fn of(text: &str) -> Option<&'static str> {
    let says = |speaker: &&Speaker| {
        speaker.begins.iter().any(|words| text.starts_with(words))
            || speaker.contains.iter().any(|words| text.contains(words))
    };
    let named = SPEAKERS.iter().find(says).map(|speaker| speaker.name);
    named.or_else(|| (user_space::greets(text) || user_space::is_of_a_program(text)).then_some(USER_SPACE))
}

/// True if that speaker is a kernel.
pub(super) fn is_kernel(speaker: &str) -> bool {
    speaker == OTHER_KERNEL
}

/// The speaker of lines that no kernel stamped, in a log in which a kernel stamps its own. What says nothing of its speaker is of the
/// one that spoke last: of firmware before the kernel, and of a program once it runs.
pub(super) struct Unstamped {
    last: Option<&'static str>,
}

impl Unstamped {
    /// The speaker of the first lines: firmware, if any firmware or loader speaks before the kernel.
    pub(super) fn new<'t>(mut before_kernel: impl Iterator<Item = &'t str>) -> Unstamped {
        Unstamped { last: before_kernel.find_map(of).filter(|speaker| [FIRMWARE, LOADER].contains(speaker)) }
    }

    /// The kernel printed a line: what follows without a stamp is a program's.
    pub(super) fn kernel_spoke(&mut self) {
        self.last = Some(USER_SPACE);
    }

    /// The speaker of a line.
    pub(super) fn of(&mut self, text: &str) -> Option<&'static str> {
        self.last = of(text).or(self.last);
        self.last
    }
}

/// True if firmware, a boot loader or a hypervisor prints this.
pub(super) fn runs_before_the_kernel(text: &str) -> bool {
    of(text).is_some_and(|speaker| [FIRMWARE, LOADER, HYPERVISOR].contains(&speaker))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_gives_nothing_away_is_of_the_last_speaker() {
        let mut speakers = Unstamped::new(["F0: 102B 0000", "U-Boot 2024.04"].into_iter());
        assert_eq!(speakers.of("F0: 102B 0000"), Some(LOADER));
        let mut speakers = Unstamped::new(["hello"].into_iter());
        assert_eq!(speakers.of("hello"), None);
        assert_eq!(speakers.of("NOTICE:  BL2: v2.4"), Some(FIRMWARE));
        assert_eq!(speakers.of("board rev 3"), Some(FIRMWARE));
        speakers.kernel_spoke();
        assert_eq!(speakers.of("Starting initramfs ..."), Some(USER_SPACE));
    }

    #[test]
    fn words_give_speakers_away() {
        for (line, speaker) in [
            ("NOTICE:  BL31: v2.10.0(release)", Some(FIRMWARE)),
            ("U-Boot SPL 2024.04 (Jun 01 2024)", Some(LOADER)),
            ("7836344 bytes read in 375 ms (19.9 MiB/s)", Some(LOADER)),
            ("(XEN) Xen version 4.20", Some("a hypervisor")),
            ("[  OK  ] Reached target Local File Systems.", Some(USER_SPACE)),
            ("am62xx-evm login:", Some(USER_SPACE)),
            ("hello", None),
        ] {
            assert_eq!(of(line), speaker, "{line}");
        }
    }
}
