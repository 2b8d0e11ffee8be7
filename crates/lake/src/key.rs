//! The key: the columns with which each table of boots begins. They identify the boot, and queries filter by them. Equal values
//! are adjacent, so they need almost no space. Each column's name, description and value are defined in one place.

use crate::boot::Boot;
use crate::column::{Cell, Column, Type, column, maybe, text};

#[derive(Clone, Copy)]
pub struct KeyColumn {
    pub column: Column,
    /// Returns the value for a boot.
    value: for<'a> fn(&'a Keyed<'_>) -> Cell<'a>,
}

const fn key(column: Column, value: for<'a> fn(&'a Keyed<'_>) -> Cell<'a>) -> KeyColumn {
    KeyColumn { column, value }
}

/// The columns of the key, in order.
pub const KEY: [KeyColumn; 7] = [
    key(maybe("hardware", Type::Text, "the kind of machine: compare boots of one kind and one `time_base`"), |keyed| {
        keyed.hardware.as_deref().into()
    }),
    key(text("time_base", "`host`, `guest-virtual` (counted) or `evidence`"), |keyed| {
        keyed.boot.summary.time_base.as_str().into()
    }),
    key(text("kernel", "kernel release or file name"), |keyed| keyed.boot.summary.subject.kernel.as_str().into()),
    key(maybe("began", Type::Time, "when the boot was recorded, captured or imported"), |keyed| {
        keyed.boot.began_ms().into()
    }),
    key(text("boot_id", "the boot: 32 hexadecimal digits, made of its evidence"), |keyed| {
        keyed.boot.id.as_str().into()
    }),
    key(
        column("ended", Type::Flag, "whether it reached an end mark: only then do times tell how long it took"),
        |keyed| keyed.boot.ended.into(),
    ),
    key(
        maybe(
            "machine",
            Type::Text,
            "the machine: a token that only the key's owner can make, or a name with --identify",
        ),
        |keyed| keyed.boot.machine.as_deref().into(),
    ),
];

/// Number of columns of the key by which rows are sorted.
pub const SORTED_BY: usize = 5;

/// A boot, with the computed part of its key.
pub struct Keyed<'a> {
    pub boot: &'a Boot,
    hardware: Option<String>,
}

impl<'a> Keyed<'a> {
    pub fn new(boot: &'a Boot) -> Self {
        Keyed { boot, hardware: boot.hardware() }
    }

    /// The boot's values in the columns of the key.
    pub fn key(&self) -> [Cell<'_>; KEY.len()] {
        KEY.map(|column| (column.value)(self))
    }
}

/// Sorts boots in the order of the rows of each table.
pub fn sorted(boots: &[Boot]) -> Vec<Keyed<'_>> {
    let mut keyed: Vec<Keyed> = boots.iter().map(Keyed::new).collect();
    keyed.sort_by(|a, b| {
        let (a, b) = (a.key(), b.key());
        a[..SORTED_BY].partial_cmp(&b[..SORTED_BY]).unwrap_or(std::cmp::Ordering::Equal)
    });
    keyed
}
