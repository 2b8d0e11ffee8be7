//! Stamps that systems other than Linux put before their own lines.
//!
//! ```text
//! I (31) boot: text                                  ESP-IDF: level, milliseconds since reset, component
//! [00:00:00.004,638] <inf> main: text                Zephyr, since reset
//! [00000.123] 00000:00000> text                      Fuchsia: seconds since reset, process, thread
//! 11-21 10:11:12.123  1234  1235 I init    : text    Android's logcat -v threadtime: the wall clock
//! ```

use crate::formats::read_stamp::{Read, after_month_and_day};
use crate::input::text::{number, seconds, skip_spaces};

/// `I (31) boot: text`
pub(super) fn esp_idf(line: &[u8]) -> Option<(Read, &[u8])> {
    let (level, rest) = line.split_first()?;
    let (ms, rest) = number(rest.strip_prefix(b" (")?).filter(|_| b"EWIDV".contains(level))?;
    let rest = rest.strip_prefix(b") ")?;
    let colon = memchr::memchr(b':', &rest[..rest.len().min(TAG_BYTES_MAX)])?;
    let is_tag = colon > 0 && !rest[..colon].contains(&b'(');
    is_tag.then_some((Read::plain(i64::try_from(ms).ok()?.checked_mul(1_000_000)?), rest))
}

/// The longest name of a component.
const TAG_BYTES_MAX: usize = 48;

/// `[00:00:00.004,638] <inf> main: text`
pub(super) fn zephyr(line: &[u8]) -> Option<(Read, &[u8])> {
    let (hours, rest) = number(line.strip_prefix(b"[")?)?;
    let (minutes, rest) = number(rest.strip_prefix(b":")?)?;
    let (ns, 3, rest) = seconds(rest.strip_prefix(b":")?)? else { return None };
    let (us, rest) = number(rest.strip_prefix(b",")?).filter(|(us, _)| *us < 1000)?;
    let rest = rest.strip_prefix(b"] ")?;
    let begins = hours.checked_mul(3600)?.checked_add(minutes * 60)?.checked_mul(1_000_000_000)?;
    let ns = begins.checked_add(ns)?.checked_add(us * 1000).filter(|_| minutes < 60)?;
    Some((Read::plain(i64::try_from(ns).ok()?), rest))
}

/// `[00000.123] 00000:00000> text`
pub(super) fn fuchsia(line: &[u8]) -> Option<(Read, &[u8])> {
    let (ns, 3.., rest) = seconds(line.strip_prefix(b"[")?)? else { return None };
    let (_, rest) = number(skip_spaces(rest.strip_prefix(b"]")?))?;
    let (_, rest) = number(rest.strip_prefix(b":")?)?;
    Some((Read::plain(i64::try_from(ns).ok()?), rest.strip_prefix(b"> ")?))
}

/// `11-21 10:11:12.123  1234  1235 I init    : text`, with the process and the thread.
pub(super) fn logcat(line: &[u8]) -> Option<(Read, &[u8])> {
    let (month, rest) = number(line)?;
    let (day, rest) = number(rest.strip_prefix(b"-")?)?;
    let (read, rest) = after_month_and_day(month, day, rest)?;
    let (_, rest) = number(skip_spaces(rest.strip_prefix(b" ")?))?;
    let (_, rest) = number(skip_spaces(rest.strip_prefix(b" ")?))?;
    let (level, rest) = rest.strip_prefix(b" ")?.split_first()?;
    b"VDIWEFS".contains(level).then_some(())?;
    Some((read, rest.strip_prefix(b" ")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Form = fn(&[u8]) -> Option<(Read, &[u8])>;

    #[test]
    fn stamps_of_other_systems() {
        let check = |form: Form, line: &str, ns: i64, text: &str| {
            assert_eq!(form(line.as_bytes()), Some((Read::plain(ns), text.as_bytes())), "{line}");
        };
        check(esp_idf, "I (31) boot: ESP-IDF v5.3", 31_000_000, "boot: ESP-IDF v5.3");
        check(zephyr, "[00:01:00.004,638] <inf> main: up", 60_004_638_000, "<inf> main: up");
        check(fuchsia, "[00001.250] 00000:00000> x", 1_250_000_000, "x");
        let (read, text) = logcat(b"11-21 00:00:01.500  1234  1235 I init    : up").unwrap();
        assert_eq!((read, text), (logcat(b"11-21 00:00:01.500 1 2 I x").unwrap().0, &b"init    : up"[..]));
        for line in ["I (x) boot: y", "I am (3) y", "[00:00:00.004] x", "[1.5] 3 x", "11-21 10:11 x", "X (1) y: z", ""]
        {
            let forms: [Form; 4] = [esp_idf, zephyr, fuchsia, logcat];
            assert!(forms.iter().all(|form| form(line.as_bytes()).is_none()), "{line}");
        }
    }
}
