//! The table of forms. It is data: a name for the docs, the kind of identity, a check, an expression, and two examples.
//! The tests run every row. In an expression, each capture group is one identity; all other groups are `(?:…)`.
//!
//! In an example, identities stand between « and ». The other example has no identity of any form.

use super::{Form, Kind};

/// A host's name, or a similar name. It ends in a letter or a digit, so it excludes the full stop of a sentence.
macro_rules! name {
    () => {
        r"([0-9A-Za-z\x80-\xff](?:[0-9A-Za-z\x80-\xff._-]*[0-9A-Za-z\x80-\xff])?)"
    };
}
/// A user's name, as useradd(8) accepts it, and similar names.
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
/// Names of options and fields with values that only their owner may have.
macro_rules! secret_name {
    () => {
        r"(?:key\d?|token|passw(?:or)?d|pass(?:phrase|code|wd)?|pwd|pw|secret|credentials?|psk|signature|bearer|cookie)(?:_(?:base|value|data|string|hash))?"
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

/// If spans overlap, the first one in this table determines the kind.
pub(super) const FORMS: [&[Form]; 7] =
    [secrets::SECRETS, numbers::DISKS, numbers::ADDRESSES, numbers::SERIALS, names::HOSTS, names::CLOUD, users::USERS];
