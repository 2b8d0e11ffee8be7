//! Reads `exits.bin` as evidence of a boot: accesses get the names of functions, and the call paths of `calls.bin`.

use crate::boot::{Found, Placing, arch, regions};
use crate::formats::calls::Node;
use crate::formats::exits::{Counted, exit_kind, read};
use crate::input::{File, Input};
use crate::readers::reader::{Evidence, Own, Reader};
use hashbrown::HashMap;
use plugin_formats::exits::{Kind, PAGE_BITS, Row};
use std::rc::Rc;
use timeline::{Diagnostics, ExitPath, ExitRow, Exits, FileLoss, NameId, Names, Timeline};

/// Ports of a PC that instructions contain: first and last port, name.
static PORTS: &[(u64, u64, &str)] = &[
    (0x20, 0x21, "PIC"),
    (0x40, 0x43, "PIT"),
    (0x60, 0x60, "keyboard controller"),
    (0x61, 0x61, "PIT"),
    (0x64, 0x64, "keyboard controller"),
    (0x70, 0x71, "RTC"),
    (0xa0, 0xa1, "PIC"),
];

/// The name of a row's device or port.
fn place_name(target: &str, row: &Row) -> String {
    let Some(place) = row.place else { return String::new() };
    match row.kind {
        Kind::PortRead | Kind::PortWrite => {
            let known = PORTS.iter().find(|(first, last, _)| (*first..=*last).contains(&place));
            known.map_or_else(|| format!("port {place:#x}"), |(_, _, name)| (*name).to_owned())
        }
        _ => {
            let address = place.saturating_mul(1 << PAGE_BITS);
            let devices = arch::of(target).map_or(&[][..], |arch| arch.devices);
            let known = devices.iter().find(|(first, last, _)| (*first..=*last).contains(&address));
            known.map_or_else(|| format!("address {address:#x}"), |(_, _, name)| (*name).to_owned())
        }
    }
}

/// The file of a recording.
#[derive(Default)]
pub(crate) struct Files {
    file: Option<Rc<File>>,
}

impl Reader for Files {
    fn own(&self) -> &'static [Own] {
        &[Own::Plain("exits.bin")]
    }

    fn loss(&self, _own: usize, _is_index: bool) -> FileLoss {
        FileLoss::Exits
    }

    /// Its times and call paths mean something only beside the other files of the recording.
    fn wants_files(&self) -> bool {
        false
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.file.get_or_insert(input.file);
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let file = self.file.as_ref()?;
        let counted = read(&file.name, &file.bytes, &mut timeline.diagnostics);
        *found.exits = Some(counted);
        None
    }
}

/// Puts the counts on the timeline, once all files are read. `boot.found` has no counts then.
pub(crate) fn name(counted: Counted, boot: &mut Placing<'_>) {
    let found = boot.found;
    let called = found.first_executions.as_ref().map(|run| run.called());
    let entered = regions::entered_at(&found.stages);
    // The readers of calls and of first executions count what is wrong with the lists.
    let mut of_the_lists = Diagnostics::default();
    let symbols = found.lists.names(called.into_iter().flatten(), &counted.target, entered, &mut of_the_lists);
    let name = |address: u64| symbols.find(address).map_or("", |place| place.name);
    boot.timeline.exits = Some(place(counted, &found.call_nodes, name, &mut boot.timeline.names));
}

/// Names rows and call paths. `nodes` are those of `calls.bin`; empty if calls were not followed.
fn place<'n>(counted: Counted, nodes: &[Node], name: impl Fn(u64) -> &'n str, names: &mut Names) -> Exits {
    let mut paths = Paths { nodes, known: HashMap::new(), paths: Vec::new() };
    let rows = counted
        .rows
        .iter()
        .map(|row| ExitRow {
            kind: exit_kind(row.kind),
            function: names.intern(name(row.insn)),
            place: names.intern(&place_name(&counted.target, row)),
            path: paths.of(row.node, &mut |address| names.intern(name(address))),
        })
        .collect();
    Exits { rows, runs: counted.runs, paths: paths.paths, rest: counted.rest }
}

/// The call paths that rows mention, and their callers.
struct Paths<'n> {
    nodes: &'n [Node],
    known: HashMap<u32, u32>,
    paths: Vec<ExitPath>,
}

impl Paths<'_> {
    /// The path of a node; `None` if there is no such node.
    fn of(&mut self, node: u32, name: &mut impl FnMut(u64) -> NameId) -> Option<u32> {
        let mut new = Vec::new();
        let mut at = node;
        // A damaged file may lead in a circle. Callers have lower numbers, so such a node has none.
        while at != 0 && !self.known.contains_key(&at) {
            let Some(found) = self.nodes.get(at as usize) else { break };
            new.push((at, found.function));
            at = if found.parent < at { found.parent } else { 0 };
        }
        let mut caller = self.known.get(&at).copied();
        for (node, function) in new.into_iter().rev() {
            let path = timeline::number(self.paths.len());
            self.paths.push(ExitPath { function: name(function), caller });
            self.known.insert(node, path);
            caller = Some(path);
        }
        caller.filter(|_| self.known.contains_key(&node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::exits::recognise;
    use plugin_formats::exits::{Counts, HEADER_BYTES, Record, Stream, header_bytes};
    use plugin_formats::{Clock, Start, target};
    use proptest::prelude::*;
    use timeline::{DiagnosticKind, ExitKind, ExitRun, Ns};

    fn file(records: &[Record]) -> Vec<u8> {
        let target = target(b"x86_64");
        let start = Start { clock: Clock::Host, api: 1, vcpus: 1, zero_host_ns: 100, install_host_ns: 150, target };
        let mut bytes = header_bytes(&start).to_vec();
        let mut stream = Stream::default();
        records.iter().for_each(|record| stream.write(record, &mut bytes));
        bytes
    }

    fn row(kind: Kind, insn: u64, node: u32, place: Option<u64>) -> Record {
        Record::Row(Row { kind, insn, node, place })
    }

    fn sample() -> Vec<Record> {
        vec![
            row(Kind::PortRead, 0x1004, 3, Some(0x42)),
            row(Kind::MmioWrite, 0x2004, 0, Some(0xfee00)),
            row(Kind::FirstTouch, 0x9000, 9, None),
            Record::Run { row: 0, at_ns: 300, counts: Counts { all: 70, in_waits: 64 } },
            Record::Run { row: 2, at_ns: 50, counts: Counts { all: 1, in_waits: 0 } },
            Record::Late { row: 1, counts: Counts { all: 2, in_waits: 0 } },
            Record::Rest { kind: Kind::Cpuid, count: 5 },
            Record::Exit { at_ns: 900 },
        ]
    }

    #[test]
    fn rows_have_functions_devices_and_call_paths() {
        let mut diagnostics = Diagnostics::default();
        let counted = read("exits.bin", &file(&sample()), &mut diagnostics);
        assert!(counted.has_end && diagnostics.count(DiagnosticKind::ExitTableFull) == 5);
        let node = |parent, function| Node { parent, function, ..Node::default() };
        let nodes = [Node::default(), node(0, 0x500), node(1, 0x2000), node(2, 0x1000)];
        let name = |address: u64| match address >> 12 {
            0 => "start",
            1 => "pit",
            2 => "apic",
            _ => "",
        };
        let mut names = Names::default();
        let exits = place(counted, &nodes, name, &mut names);
        let texts: Vec<[&str; 2]> = exits.rows.iter().map(|r| [r.function, r.place].map(|id| names.get(id))).collect();
        assert_eq!(texts, [["pit", "PIT"], ["apic", "local APIC"], ["", ""]]);
        assert_eq!(exits.rows.iter().map(|r| r.path).collect::<Vec<_>>(), [Some(2), None, None]);
        let paths: Vec<_> = exits.paths.iter().map(|path| (names.get(path.function), path.caller)).collect();
        assert_eq!(paths, [("start", None), ("apic", Some(0)), ("pit", Some(1))]);
        let run = |row, at: Option<i64>, count, in_waits| ExitRun { row, at: at.map(Ns), count, in_waits };
        assert_eq!(exits.runs, [run(0, Some(200), 70, 64), run(2, Some(-50), 1, 0), run(1, None, 2, 0)]);
        assert_eq!(exits.rest, [(ExitKind::Cpuid, 5)]);
    }

    #[test]
    fn a_damaged_file_is_read_up_to_the_damage() {
        let whole = file(&sample());
        let damage = |bytes: &[u8]| {
            let mut diagnostics = Diagnostics::default();
            let counted = read("exits.bin", bytes, &mut diagnostics);
            (counted.rows.len(), diagnostics.count(DiagnosticKind::ExitMalformed))
        };
        assert_eq!(damage(&whole), (3, 0));
        assert_eq!(damage(&whole[..HEADER_BYTES + 3]), (0, 1));
        assert_eq!(damage(&file(&[Record::Late { row: 0, counts: Counts::default() }])), (0, 1), "no such row");
        let mut diagnostics = Diagnostics::default();
        read("exits.bin", b"BSEXITS\n\x09", &mut diagnostics);
        assert_eq!(diagnostics.count(DiagnosticKind::ExitsWithoutHeader), 1);
        assert!(recognise(&whole) && !recognise(b"BSCALLS\n"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            let mut whole = file(&[]);
            whole.extend(bytes);
            let mut diagnostics = Diagnostics::default();
            let counted = read("exits.bin", &whole, &mut diagnostics);
            prop_assert!(counted.runs.iter().all(|run| (run.row as usize) < counted.rows.len()));
            let nodes = [Node { parent: 1, ..Node::default() }; 4];
            let exits = place(counted, &nodes, |_| "f", &mut Names::default());
            prop_assert!(exits.paths.iter().enumerate().all(|(i, path)| path.caller.is_none_or(|c| (c as usize) < i)));
        }
    }
}
