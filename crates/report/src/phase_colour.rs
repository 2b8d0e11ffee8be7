//! The colours of phases, by their names: the same in every boot and export, and those of the page (charts/colours.ts).

use timeline::Phase;

/// The light colours of a page. Text on them is dark.
const COLOURS: [&str; 8] = ["#92c8e8", "#f8c981", "#95e4cf", "#db9fc1", "#eee88b", "#eba48e", "#a5c3d4", "#b8a2d7"];
const UNEXPLAINED: &str = "#d5d2cc";
/// The most characters of a name that choose its colour.
const MAX_CHARACTERS: usize = 64;

/// A colour of phases by its number; `None` for time that no evidence covers.
pub fn phase_tone(phase: Phase, name: &str) -> Option<usize> {
    let lower = name.to_ascii_lowercase();
    let begins = |words: &[&str]| words.iter().any(|word| lower.starts_with(word));
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    Some(match phase {
        Phase::Unexplained => return None,
        Phase::AfterTheLastInitcall | Phase::HandOver => 5,
        _ if name.starts_with("VMM") => 7,
        _ if begins(&["firmware", "bios", "uefi", "seabios", "coreboot"]) => 2,
        _ if begins(&["loader", "decompressor", "setup code", "bootloader", "boot loader", "grub"]) => 4,
        _ if has(&["initcall", "device", "driver"]) || begins(&["sysinits"]) => 1,
        _ if name.contains("machine-dependent") => 6,
        _ if has(&["process 1", "user", "service", "initrd", "initramfs", "guestfsd"]) => 3,
        _ if has(&["kernel"]) => 0,
        _ => (tone(name) * 2 + 1) % COLOURS.len(),
    })
}

/// The colour of a phase, as `#rrggbb`.
pub fn phase_colour(phase: Phase, name: &str) -> &'static str {
    phase_tone(phase, name).map_or(UNEXPLAINED, |tone| COLOURS[tone])
}

/// A number of 0 to 3 that is always the same for a text.
fn tone(text: &str) -> usize {
    let units = text.encode_utf16().take(MAX_CHARACTERS);
    let hash = units.fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)));
    (hash >> 3 & 3) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::Path;
    use timeline::Names;

    #[test]
    fn the_tables_of_a_page_have_these_colours_of_phases() {
        let style = include_str!("html/style.css");
        for (tone, colour) in COLOURS.iter().enumerate() {
            assert!(style.contains(&format!(".p{tone} {{ background: {colour}; }}")), "{tone}: {colour}");
        }
    }

    /// The page's tests compare this list with the colours that the page draws.
    #[test]
    fn the_page_has_these_colours_of_phases() {
        let mut names = Names::default();
        let others = ["initcalls: early", "libguestfs: launch", "dracut", "été", "GRUB menu", "Boot Loader Stage"];
        let others = others.map(|name| Phase::Other(names.intern(name)));
        let all = Phase::ALL.iter().copied().chain(others);
        let all = all.map(|phase| (phase, phase.name(&names).into_owned()));
        let all = all.map(|(phase, name)| (name.clone(), phase_colour(phase, &name)));
        let list = serde_json::to_string_pretty(&all.collect::<BTreeMap<String, &str>>()).unwrap() + "\n";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../page/test/phase-colours.json");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &list).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), list, "BLESS=1 writes it anew");
    }
}
