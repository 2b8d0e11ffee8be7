//! What systemd says in the kernel's log, where it logs there (`systemd.log_target=kmsg`): that it began, and what it reached.
//!
//! By systemd's src/core/main.c and src/core/job.c. It names a unit, describes it, or does both, as its option
//! `status_unit_format` says.

use timeline::Phase;

/// How the message begins in which it says its version.
pub const BEGINS: &str = "systemd[1]: systemd ";

/// Targets that many wait for, and the phase that begins when one is reached.
pub const MILESTONES: [(&str, Phase); 3] = [
    ("sysinit.target", Phase::AfterSysinit),
    ("basic.target", Phase::AfterBasic),
    ("multi-user.target", Phase::AfterMultiUser),
];

/// What these targets are called where systemd only describes them.
const DESCRIBED: [(&str, &str); 3] = [
    ("System Initialization", "sysinit.target"),
    ("Basic System", "basic.target"),
    ("Multi-User System", "multi-user.target"),
];

/// The target that is reached, by its name.
pub fn reached(text: &str) -> Option<&str> {
    let unit = text.strip_prefix("systemd[1]: Reached target ")?;
    let unit = unit.split_once(" - ").map_or_else(|| unit.trim_end_matches('.'), |(name, _)| name);
    Some(DESCRIBED.iter().find(|(described, _)| *described == unit).map_or(unit, |&(_, name)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_known_in_each_of_systemds_forms() {
        for text in ["basic.target - Basic System.", "basic.target.", "Basic System."] {
            assert_eq!(reached(&format!("systemd[1]: Reached target {text}")), Some("basic.target"), "{text}");
        }
        assert_eq!(reached("systemd[1]: Reached target swap.target - Swaps."), Some("swap.target"));
        assert_eq!(reached("systemd[1]: Started cron.service - cron."), None);
        assert_eq!(reached("Reached target Basic System."), None);
    }
}
