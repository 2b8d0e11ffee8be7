//! The tables of a lake and their columns. `docs/lake.md` documents them for users, and a test compares the two.
//!
//! Columns are added, never renamed, and never change their meaning or their type. `null` means unknown.

use crate::column::{Column, Type, column, integer, maybe, text};
use crate::key::{KEY, SORTED_BY};

/// Name and version of the layout. A lake of a later version is refused.
pub const SCHEMA: &str = "bootscope.lake/1";

/// Name of the file that marks a folder as a lake and names its layout.
pub const HEAD: &str = "lake.json";

/// A table of a lake.
#[derive(Debug)]
pub struct Table {
    /// Kind of its rows.
    pub kind: TableKind,
    /// Name of the table and of its folder.
    pub name: &'static str,
    /// Description of a row for `docs/lake.md`.
    pub text: &'static str,
    /// The columns, in the order of the file.
    pub columns: &'static [Column],
    /// Number of the first columns by which rows are sorted.
    pub sorted_by: usize,
}

/// Kind of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // See `TABLES`.
pub enum TableKind {
    Phases,
    Rows,
    Initcalls,
    Units,
    Findings,
    Metrics,
    Labels,
    Machines,
    Boots,
}

const fn table(kind: TableKind, name: &'static str, text: &'static str, columns: &'static [Column]) -> Table {
    Table { kind, name, text, columns, sorted_by: SORTED_BY }
}

/// The columns of the key, followed by others.
const fn keyed<const M: usize, const N: usize>(more: [Column; M]) -> [Column; N] {
    assert!(KEY.len() + M == N, "all columns fit");
    let mut all = [KEY[0].column; N];
    let mut i = 0;
    while i < N {
        all[i] = if i < KEY.len() { KEY[i].column } else { more[i - KEY.len()] };
        i += 1;
    }
    all
}

static BOOT: [Column; 27] = keyed([
    text("os", "operating system, such as `Linux`"),
    text("kernel_sha256", "hash of the kernel's file; empty if it is not known"),
    text("machine_type", "such as `pc`"),
    text("accelerator", "`tcg`, `kvm`, or empty"),
    integer("cpus", "CPUs of the machine; 0 if it is not known"),
    integer("memory_bytes", "its memory; 0 if it is not known"),
    text("host_cpu", "CPU model of the host that a guest ran on"),
    text("vmm", "the virtual machine monitor and its version"),
    text("outcome", "how the boot ended, as in `show --json`"),
    text("end_code", "what shows where the boot ends, as in `show --json`; empty where nothing does"),
    maybe(
        "total_ns",
        Type::Integer,
        "from time zero to the end mark; `null` where it did not end, or where times are ticks",
    ),
    maybe("total_error_ns", Type::Integer, "how far off that may be"),
    maybe(
        "shown_ns",
        Type::Integer,
        "how much of the boot is shown: its phases and its rows sum to this; `total_ns` where it ended",
    ),
    column("explained", Type::Fraction, "share of the boot path that is charged to more than a whole phase"),
    column("who_waited_for_whom", Type::Flag, "whether the evidence shows it, so that a row is what to blame"),
    integer("warnings", "what one must know before any figure of it: how many such warnings `show` prints"),
    integer("diagnostics", "what did not add up in its evidence: kinds of it"),
    column("findings_looked_for", Type::Flag, "whether anybody looked: without, a boot has no rows in `findings`"),
    text("tool_version", "the bootscope that recorded it"),
    text("read_by_version", "the bootscope that put it into the lake"),
]);

static PHASE: [Column; 11] = keyed([
    integer("position", "which phase of the boot, from 0"),
    text("name", "as in `show`"),
    integer("start_ns", "since time zero"),
    integer("length_ns", "of a boot, these sum to its `shown_ns`"),
]);

static ROW: [Column; 11] = keyed([
    text("name", "what the boot path is charged to, as in `show`; it may quote a line of the log"),
    integer("self_ns", "charged to it; of a boot, these sum to its `shown_ns`"),
    integer("total_ns", "under way, also what other rows are charged for"),
    integer("count", "how often"),
]);

static INITCALL: [Column; 10] = keyed([
    text("name", "the function"),
    integer("start_ns", "since time zero"),
    integer("elapsed_ns", "from its call to its return"),
]);

static UNIT: [Column; 13] = keyed([
    text("name", "such as `ssh.service`"),
    maybe("start_ns", Type::Integer, "when it was started, since time zero"),
    maybe("settled_ns", Type::Integer, "when it was active, or had failed"),
    column("failed", Type::Flag, "whether it failed"),
    maybe("boot_path_ns", Type::Integer, "its part of the boot path"),
    maybe("cpu_ns", Type::Integer, "CPU time of its processes"),
]);

static FINDING: [Column; 13] = keyed([
    text("id", "the rule's name"),
    text("title", "what is wrong, and where"),
    integer("cost_ns", "how much shorter the boot becomes, by a replay"),
    integer("cost_low_ns", "at the worst"),
    integer("cost_high_ns", "at the best"),
    text("confidence", "`high` or `medium`"),
]);

static METRIC: [Column; 10] =
    keyed([text("name", "as in `show --json`"), text("unit", "`ns` or `bytes`"), integer("value", "in that unit")]);

static LABEL: [Column; 9] = keyed([text("name", "of the label"), text("value", "as `--label NAME=VALUE` said")]);

/// Columns of `machines`. They do not begin with the key, because a row is not of one boot.
static MACHINE: [Column; 10] = [
    maybe("hardware", Type::Text, "the kind of machine, as in `boots`"),
    maybe("machine", Type::Text, "the machine, as in `boots`; `null` stands for all of a kind that nobody named"),
    text("machine_type", "such as `pc`"),
    text("accelerator", "`tcg`, `kvm`, or empty"),
    integer("cpus", "CPUs of the machine; 0 if it is not known"),
    integer("memory_bytes", "its memory; 0 if it is not known"),
    text("host_cpu", "CPU model of the host that a guest ran on"),
    integer("boots", "so many boots of it are in the file of the same name in `boots`"),
    maybe("first_began", Type::Time, "`began` of the first of these"),
    maybe("last_began", Type::Time, "`began` of the last of these"),
];

static TABLES: [Table; 9] = [
    table(TableKind::Phases, "phases", "a stage of a boot; they are contiguous", &PHASE),
    table(TableKind::Rows, "rows", "a row of a boot path: what the time is charged to", &ROW),
    table(
        TableKind::Initcalls,
        "initcalls",
        "an initcall of a Linux kernel, or a driver's attach of another",
        &INITCALL,
    ),
    table(TableKind::Units, "units", "a unit of a manager of services", &UNIT),
    table(TableKind::Findings, "findings", "a cause that was found, with its price", &FINDING),
    table(TableKind::Metrics, "metrics", "what was measured beside the time", &METRIC),
    table(TableKind::Labels, "labels", "a label that `lake add` was given", &LABEL),
    Table {
        kind: TableKind::Machines,
        name: "machines",
        text: "what a file of `boots` has of a machine: group them, as above",
        columns: &MACHINE,
        sorted_by: 2,
    },
    table(TableKind::Boots, "boots", "a boot", &BOOT),
];

/// All tables, in the order in which a batch's files get their names. `boots` is the last, because a boot is in the lake when
/// `boots` has it.
pub fn tables() -> &'static [Table] {
    &TABLES
}

pub fn machines() -> &'static Table {
    &TABLES[TABLES.len() - 2]
}

pub fn boots() -> &'static Table {
    &TABLES[TABLES.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boots_come_last_and_every_table_begins_with_the_key() {
        assert_eq!((boots().kind, machines().kind), (TableKind::Boots, TableKind::Machines));
        for table in tables().iter().filter(|table| table.kind != TableKind::Machines) {
            let head: Vec<&str> = table.columns.iter().take(KEY.len()).map(|column| column.name).collect();
            assert_eq!(head, KEY.map(|key| key.column.name), "{}", table.name);
            let mut names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), table.columns.len(), "a name twice in {}", table.name);
        }
    }
    /// The section of `docs/lake.md` about the tables.
    fn documented() -> String {
        let mut text = String::new();
        let kind = |column: &Column| match column.kind {
            Type::Text => "text",
            Type::Integer => "integer",
            Type::Fraction => "fraction",
            Type::Time => "time, UTC, ms",
            Type::Flag => "yes or no",
        };
        let mut section = |name: &str, about: &str, columns: &[Column]| {
            text.push_str(&format!("\n### {name}\n{about}\n\n| column | kind | |\n|---|---|---|\n"));
            for column in columns {
                let or_null = if column.optional { " or `null`" } else { "" };
                text.push_str(&format!("| `{}` | {}{or_null} | {} |\n", column.name, kind(column), column.text));
            }
        };
        section("In every table of boots", "Which boot a row is of:", &KEY.map(|key| key.column));
        for table in TABLES.iter().rev() {
            let first = if table.kind == TableKind::Machines { 0 } else { KEY.len() };
            section(&format!("`{}`", table.name), &format!("A row is {}.", table.text), &table.columns[first..]);
        }
        text.push('\n');
        text
    }

    #[test]
    fn the_document_has_every_column() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lake.md");
        let document = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = document.split_once("cargo test -p lake` -->\n").unwrap();
        let (tables, after) = rest.split_once("<!-- end of tables -->").unwrap();
        let expected = documented();
        if std::env::var_os("BLESS").is_some() {
            let text = format!("{before}cargo test -p lake` -->\n{expected}<!-- end of tables -->{after}");
            std::fs::write(&path, text).unwrap();
        } else {
            assert_eq!(tables, expected, "BLESS=1 writes the section anew");
        }
    }
}
