//! Times of the wall clock, as systemd prints them for people; and what it calls a container.

use crate::input::text::number;
use timeline::Ns;

/// The values of systemd's `Virtualization` for a container, not a machine (`systemd-detect-virt --list`).
const CONTAINERS: [&[u8]; 10] = [
    b"systemd-nspawn",
    b"lxc-libvirt",
    b"lxc",
    b"openvz",
    b"docker",
    b"podman",
    b"rkt",
    b"wsl",
    b"proot",
    b"container-other",
];

pub(super) fn is_container(word: &[u8]) -> bool {
    CONTAINERS.contains(&word)
}

/// `Tue 2026-11-24 13:30:55 UTC` as seconds of a calendar without zones: all stamps of a text are in one zone.
pub(super) fn seconds(text: &[u8]) -> Option<i64> {
    let (day, rest) = text.split_at_checked(4)?;
    if !day[..3].iter().all(u8::is_ascii_alphabetic) || day[3] != b' ' {
        return None;
    }
    let part = |rest| number(rest).and_then(|(value, rest)| Some((i64::try_from(value).ok()?, rest)));
    let (year, rest) = part(rest)?;
    let (month, rest) = part(rest.strip_prefix(b"-")?)?;
    let (day, rest) = part(rest.strip_prefix(b"-")?)?;
    let (hour, rest) = part(rest.strip_prefix(b" ")?)?;
    let (minute, rest) = part(rest.strip_prefix(b":")?)?;
    let (second, _) = part(rest.strip_prefix(b":")?)?;
    let is_date = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_time = hour < 24 && minute < 60 && second < 61;
    (is_date && is_time).then(|| days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Days since 1970-01-01 in the Gregorian calendar. A year that begins in March has its leap day last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap = year / 4 - year / 100 + year / 400;
    year * 365 + leap + (month * 153 + 2) / 5 + day - 719_469
}

/// Whole seconds.
pub(super) fn whole(seconds: i64) -> Ns {
    Ns(seconds.saturating_mul(1_000_000_000))
}

/// The time from `zero` to `seconds`; `None` if that is negative, or there is no zero.
pub(super) fn since(zero: Option<i64>, seconds: i64) -> Option<Ns> {
    Some(seconds - zero?).filter(|since| *since >= 0).map(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (text, expected) in [
            ("Thu 1970-01-01 00:00:00 UTC", Some(0)),
            ("Tue 2026-11-24 13:30:55 UTC", Some(1_795_527_055)),
            ("Thu 2024-02-29 23:59:60 CET", Some(1_709_251_200)),
            ("Fri 2024-03-01 00:00:00.123456 CET", Some(1_709_251_200)),
            ("n/a", None),
            ("Tue 2026-13-24 13:30:55 UTC", None),
            ("Tue 2026-11-24", None),
            ("", None),
        ] {
            assert_eq!(seconds(text.as_bytes()), expected, "{text}");
        }
        assert_eq!((since(Some(5), 7), since(Some(7), 5), since(None, 5)), (Some(Ns(2_000_000_000)), None, None));
    }
}
