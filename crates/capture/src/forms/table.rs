//! The table of forms. It is data: a name for the docs, the kind of identity, a check, an expression, and two examples. The tests
//! walk it. In an expression, each capture group is one identity; all other groups are `(?:…)`.
//!
//! In an example, identities stand between « and ». The other example has none, by this form or any other.

use super::{Form, Kind};

/// A host's name, or any of its kind: it ends in a letter or a digit, so the full stop of a sentence is no part of it.
macro_rules! name {
    () => {
        r"([0-9A-Za-z\x80-\xff](?:[0-9A-Za-z\x80-\xff._-]*[0-9A-Za-z\x80-\xff])?)"
    };
}
/// A user's name, as useradd(8) takes it, and others.
macro_rules! user {
    () => {
        r"([A-Za-z_\x80-\xff](?:[0-9A-Za-z_.\x80-\xff-]*[0-9A-Za-z_\x80-\xff-])?)"
    };
}
/// The separator in a UUID: systemd and D-Bus escape dashes.
macro_rules! dash {
    () => {
        r"(?:-|\\{1,2}x2d|_2d|_)"
    };
}
/// Names of options and fields whose values only their owner may know.
macro_rules! secret_name {
    () => {
        r"(?:key\d?|token|passw(?:or)?d|pass(?:phrase|code|wd)?|pwd|pw|secret|credentials?|psk|signature|bearer|cookie)"
    };
}

mod names;
mod numbers;
mod secrets;
mod users;

const fn form(
    name: &'static str,
    kind: Kind,
    check: super::Check,
    pattern: &'static str,
    example: &'static str,
    other: &'static str,
) -> Form {
    Form { name, kind, check, pattern, example, other }
}

/// Where spans overlap, the first of this table names the kind.
pub(super) const FORMS: [&[Form]; 7] =
    [secrets::SECRETS, numbers::DISKS, numbers::ADDRESSES, numbers::SERIALS, names::HOSTS, names::CLOUD, users::USERS];
