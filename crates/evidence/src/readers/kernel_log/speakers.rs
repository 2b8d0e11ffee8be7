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
    Speaker { name: "another system's kernel", begins: &["*** Booting ", "***** Booting "], contains: &["Zephyr OS"] },
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

/// True if firmware, a boot loader or a hypervisor prints this.
pub(super) fn runs_before_the_kernel(text: &str) -> bool {
    of(text).is_some_and(|speaker| [FIRMWARE, LOADER, HYPERVISOR].contains(&speaker))
}

#[cfg(test)]
mod tests {
    use super::*;

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
