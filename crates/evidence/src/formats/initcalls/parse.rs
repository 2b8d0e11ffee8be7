//! Parses the messages of `initcall_debug`.
//!
//! A message may follow another thread's half-printed line, so it is searched for in the line. Device power management
//! prints `calling  dev+ @ 1, parent: …` in the same words; that is not an initcall and is ignored.

use super::Kind;
use crate::input::text::{Symbol, number, signed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    Calling {
        symbol: &'a str,
        thread: Option<u32>,
    },
    Returned {
        symbol: &'a str,
        returned: Option<i64>,
        figure: Option<u64>,
    },
    Probe {
        device: &'a str,
        driver: Option<&'a str>,
        returned: Option<i64>,
        us: i64,
        again: bool,
    },
    /// A thread waited for all asynchronous calls.
    Waited {
        thread: Option<u32>,
        figure: u64,
    },
    Level(&'a str),
}

/// The message in a line, if there is one. The end of a line shows which messages are possible, so most lines cost next
/// to nothing.
pub(super) fn message(text: &str) -> Option<Message<'_>> {
    let text = text.trim_end_matches(|c: char| !c.is_ascii_graphic());
    match text.as_bytes().last()? {
        b'0'..=b'9' => {
            if let Some(message) =
                behind(text, "calling  ").filter(|rest| !is_of_a_device(text, rest)).and_then(calling)
            {
                return Some(message);
            }
        }
        b's' if text.ends_with(" usecs") => return timed(text),
        b'c' if text.ends_with(" usec") => return waited(text),
        _ => {}
    }
    if let Some(name) = text.strip_prefix("entering initcall level: ") {
        return Some(Message::Level(name));
    }
    cut(text)
}

/// A message that ends in `after 12 usecs`.
fn timed(text: &str) -> Option<Message<'_>> {
    if let Some(message) = behind(text, "initcall ").and_then(returned) {
        return Some(message);
    }
    if let Some(message) = behind(text, "deferred probe ").and_then(|rest| probe(rest, true)) {
        return Some(message);
    }
    behind(text, "probe of ").and_then(|rest| probe(rest, false))
}

/// `async_continuing @ 1 after 12 usec`
fn waited(text: &str) -> Option<Message<'_>> {
    let (thread, rest) = behind(text, "async_continuing @ ")?.split_once(" after ")?;
    let (figure, _) = number(rest.as_bytes())?;
    Some(Message::Waited { thread: thread.parse().ok(), figure })
}

/// `initcall f+0x0/0x1 returned 0 aft`: the call has returned, but its length is not known.
fn cut(text: &str) -> Option<Message<'_>> {
    text.strip_prefix("initcall ").and_then(returned)
}

/// The text after the last `word`: a message that interrupted another one comes after it.
fn behind<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    if let Some(rest) = text.strip_prefix(word) {
        return Some(rest);
    }
    let at = memchr::memmem::rfind(text.as_bytes(), word.as_bytes())?;
    Some(&text[at + word.len()..])
}

/// `pci 0000:00:00.0: calling  quirk_f+0x0/0x10 @ 1`: a device's quirk. Its return has another message.
fn is_of_a_device(text: &str, rest: &str) -> bool {
    text[..text.len() - rest.len()].trim_end_matches("calling  ").ends_with(": ")
}

/// `acpi_init+0x0/0x4c2 @ 1`
fn calling(rest: &str) -> Option<Message<'_>> {
    let (symbol, thread) = rest.rsplit_once(" @ ").unwrap_or((rest, ""));
    if !is_symbol(symbol) || thread.contains(',') {
        return None;
    }
    Some(Message::Calling { symbol, thread: thread.trim().parse().ok() })
}

/// `acpi_init+0x0/0x4c2 returned 0 with disabled interrupts after 9765 usecs`
fn returned(rest: &str) -> Option<Message<'_>> {
    let (symbol, rest) = rest.split_once(" returned ")?;
    is_symbol(symbol).then_some(())?;
    let (returned, figure) = outcome(rest);
    Some(Message::Returned { symbol, returned, figure })
}

/// `0 after 12 usecs`, `after 12 usecs`, or cut short.
fn outcome(rest: &str) -> (Option<i64>, Option<u64>) {
    let returned = signed(rest.as_bytes()).map(|(value, _)| value);
    let figure = rest.split_once("after ").and_then(|(_, figure)| {
        let (figure, rest) = number(figure.as_bytes())?;
        // A figure that is cut by the line's end is wrong.
        rest.starts_with(b" usec").then_some(figure)
    });
    (returned, figure)
}

/// `00:03 with driver serial returned 0 after 4297 usecs`
fn probe(rest: &str, again: bool) -> Option<Message<'_>> {
    let (device, rest) = rest.split_once(" returned ")?;
    let with_driver = device.split_once(" with driver ").map(|(device, driver)| (device, Some(driver)));
    let (device, driver) = with_driver.unwrap_or((device, None));
    let (returned, figure) = outcome(rest);
    Some(Message::Probe { device, driver, returned, us: i64::try_from(figure?).ok()?, again })
}

/// `name+0x0/0x10`, perhaps with a module or a cookie; or a bare address.
fn is_symbol(text: &str) -> bool {
    text.contains("+0x") || text.starts_with("0x")
}

/// The kind of call that a symbol stands for, and its function with the module. With a cookie before it
/// (`3_async_port_probe+0x0/0x60`), it is an asynchronous call.
pub(super) fn kind_and_name(symbol: &str) -> (Kind, String) {
    let cookie = symbol.bytes().take_while(u8::is_ascii_digit).count();
    match symbol[cookie..].strip_prefix('_').filter(|_| cookie > 0) {
        Some(function) => (Kind::Async, Symbol::parse(function.as_bytes()).text().into_owned()),
        None => (Kind::Initcall, Symbol::parse(symbol.as_bytes()).text().into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<Message<'_>>) {
        assert_eq!(message(text), expected, "{text}");
    }

    #[test]
    fn messages_of_all_kernels() {
        let symbol = "acpi_init+0x0/0x4c2";
        check("calling  acpi_init+0x0/0x4c2 @ 1", Some(Message::Calling { symbol, thread: Some(1) }));
        check(
            "initcall acpi_init+0x0/0x4c2 returned 0 after 9765 usecs",
            Some(Message::Returned { symbol, returned: Some(0), figure: Some(9765) }),
        );
        check(
            "initcall acpi_init+0x0/0x4c2 returned -19 with disabled interrupts after 3 usecs",
            Some(Message::Returned { symbol, returned: Some(-19), figure: Some(3) }),
        );
        check(
            "half a line of initcall acpi_init+0x0/0x4c2 returned 0 after 9 usecs\u{fffd}",
            Some(Message::Returned { symbol, returned: Some(0), figure: Some(9) }),
        );
        check(
            "initcall acpi_init+0x0/0x4c2 returned 0 after 97",
            Some(Message::Returned { symbol, returned: Some(0), figure: None }),
        );
        check(
            "initcall 0xffffffff81000000 returned 0 after 1 usecs",
            Some(Message::Returned { symbol: "0xffffffff81000000", returned: Some(0), figure: Some(1) }),
        );
        check("async_continuing @ 1 after 12 usec", Some(Message::Waited { thread: Some(1), figure: 12 }));
        check("calling  input2+ @ 768, parent: serio1", None);
        check("call input2+ returned 0 after 2011 usecs", None);
        check("initcall blacklisted", None);
        check("PM: Calling ledtrig_cpu_syscore_shutdown+0x0/0x10", None);
        assert_eq!(kind_and_name("12_foo+0x0/0x1 [m]"), (Kind::Async, "foo [m]".to_owned()));
        assert_eq!(kind_and_name("3w_init+0x0/0x1"), (Kind::Initcall, "3w_init".to_owned()));
        assert_eq!(kind_and_name("init+0x0/0x1 [m]"), (Kind::Initcall, "init [m]".to_owned()));
    }
}
