//! The prefix of a message's text: level, stamp, caller.
//!
//! ```text
//! <6>[    1.234567][   T17] text        printk on a console
//! [    1.234567 <    0.000012>] text    dmesg -d
//! kern  :info  : [    1.234567] text    dmesg -x
//! ```

use super::stamp::stamp;
use super::{Caller, vendor};
use crate::input::text::{number, skip_spaces};
use timeline::Ns;

/// The parts that stand before a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub stamp: Option<Ns>,
    pub level: Option<u8>,
    pub caller: Option<Caller>,
    /// There was a stamp, if only 0.000000.
    pub stamped: bool,
}

impl Prefix {
    /// Takes the prefix off a line.
    pub(crate) fn strip(text: &[u8]) -> (Prefix, &[u8]) {
        let (level, rest) = match level(text) {
            Some((level, rest)) => (Some(level), rest),
            None => (None, text),
        };
        let Some((ns, after)) = stamp(rest) else {
            return (Prefix { level, ..Prefix::default() }, rest);
        };
        let (caller, after) = match caller(after) {
            Some((caller, after)) => (Some(caller), after),
            None => (None, after),
        };
        let (caller, after) = vendors(caller, after);
        let stamp = Some(Ns(ns)).filter(|&ns| ns > Ns::ZERO);
        (Prefix { stamp, level, caller, stamped: true }, after)
    }
}

/// Takes vendors' prefixes off: some kernels have the chip's and the phone's.
fn vendors(mut caller: Option<Caller>, mut text: &[u8]) -> (Option<Caller>, &[u8]) {
    const MAX_PREFIXES: usize = 3;
    for found in 0..MAX_PREFIXES {
        let Some((thread, rest)) = vendor::strip(text) else {
            let rest = if found == 0 { text.strip_prefix(b" ").unwrap_or(text) } else { text };
            return (caller, rest);
        };
        (caller, text) = (caller.or(thread), rest);
    }
    (caller, text)
}

/// `<6>`, or dmesg's `kern  :info  : `.
fn level(text: &[u8]) -> Option<(u8, &[u8])> {
    if let Some(rest) = text.strip_prefix(b"<") {
        let (priority, rest) = number(rest)?;
        return Some(((priority & 7) as u8, rest.strip_prefix(b">").filter(|_| priority < 256)?));
    }
    const LEVELS: [&[u8]; 8] = [b"emerg", b"alert", b"crit", b"err", b"warn", b"notice", b"info", b"debug"];
    let facility =
        text.iter().take(8).position(|&b| b == b':').filter(|_| text.first().is_some_and(u8::is_ascii_lowercase))?;
    let (name, rest) = (text.get(facility + 1..facility + 7)?, text.get(facility + 7..)?);
    let (level, _) = (0..).zip(LEVELS).find(|(_, level)| level == &name.trim_ascii_end())?;
    Some((level, rest.trim_ascii_start().strip_prefix(b": ")?))
}

/// `[   T17]` or `[    C0]`, perhaps after a space.
fn caller(text: &[u8]) -> Option<(Caller, &[u8])> {
    let inner = skip_spaces(text.strip_prefix(b" ").unwrap_or(text).strip_prefix(b"[")?);
    let (kind, digits) = inner.split_first()?;
    let (id, rest) = number(digits)?;
    let id = u32::try_from(id).ok()?;
    let caller = match kind {
        b'T' => Caller::Thread(id),
        b'C' => Caller::Cpu(id),
        _ => return None,
    };
    Some((caller, rest.strip_prefix(b"]")?))
}
