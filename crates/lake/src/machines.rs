//! Computes rows of `machines` from a file of `boots`.

use crate::Error;
use crate::columns::Rows;
use crate::stored::Stored;
use crate::tables::machines;
use std::collections::BTreeMap;
use std::path::Path;

/// The columns that identify a machine: hardware, machine, machine_type, accelerator, cpus, memory_bytes and host_cpu.
type Machine = (Option<String>, Option<String>, String, String, i64, i64, String);

/// Number of boots of a machine, and the times of the first and the last.
#[derive(Default)]
struct Boots {
    count: i64,
    first: Option<i64>,
    last: Option<i64>,
}

/// Computes the rows of `machines` for a file of `boots`.
///
/// # Errors
/// If the file cannot be read.
pub fn machines_in(boots: &Path) -> Result<Rows, Error> {
    let stored = Stored::open(boots)?;
    let columns = ["hardware", "machine", "machine_type", "accelerator", "cpus", "memory_bytes", "host_cpu", "began"];
    let mut values = Vec::new();
    for column in columns {
        values.push(stored.column(column)?);
    }
    let mut machines_found: BTreeMap<Machine, Boots> = BTreeMap::new();
    for row in 0..stored.rows() {
        let text = |column: usize| values[column].text(row);
        let known = |column: usize| text(column).unwrap_or_default();
        let integer = |column: usize| values[column].integer(row);
        let count = |column: usize| integer(column).unwrap_or_default();
        let machine = (text(0), text(1), known(2), known(3), count(4), count(5), known(6));
        let boots = machines_found.entry(machine).or_default();
        boots.count += 1;
        if let Some(began) = integer(7) {
            boots.first = Some(boots.first.map_or(began, |first| first.min(began)));
            boots.last = boots.last.max(Some(began));
        }
    }
    let mut rows = Rows::new(machines());
    for ((hardware, machine, kind, accelerator, cpus, memory, host), boots) in &machines_found {
        rows.push(&[
            hardware.as_deref().into(),
            machine.as_deref().into(),
            kind.as_str().into(),
            accelerator.as_str().into(),
            (*cpus).into(),
            (*memory).into(),
            host.as_str().into(),
            boots.count.into(),
            boots.first.into(),
            boots.last.into(),
        ]);
    }
    Ok(rows)
}
