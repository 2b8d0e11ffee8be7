//! Two boots side by side, as a document and as text.
//!
//! The document has the schema `bootscope.diff/1`; fields are added, never renamed or removed. `diff.example.json`, beside
//! this file, is a whole document; a test parses it. Where both boots' calls were followed, each function and each path is
//! compared; what is spent is counted in nanoseconds, which in a deterministic boot are instructions.

mod dither;
mod tables;

pub use dither::Dither;

use crate::paragraph::paragraph;
use crate::text::{by_layout, counted, places, two_digits};
use crate::{Boot, Layout, harmless};
use analysis::floor;
use analysis::{Amount, Change, RowChange, Side};
use recording::Difference;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use tables::{Whole, row_table, table};
use timeline::{Ns, TimeBase};

/// What became of a function that both boots have.
const CHANGED: &str = "changed";

/// The name and version of the document.
const SCHEMA: &str = "bootscope.diff/1";

/// What of two boots is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum Compared {
    /// Every call.
    #[serde(rename = "calls")]
    Calls,
    /// The functions of their boot paths.
    #[default]
    #[serde(rename = "boot path")]
    BootPath,
}

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Diff {
    /// `bootscope.diff/1`.
    pub schema: String,
    /// One boot.
    pub before: DiffSide,
    /// The other.
    pub after: DiffSide,
    /// What was compared: `calls`, each of them; or `boot path`, of which functions are compared.
    pub evidence: Compared,
    /// Whether one of the two has a trace or a log of its kernel's that the other lacks, and which was therefore left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub evidence_left_out: bool,
    /// Whether both boots are deterministic: a nanosecond is an instruction, and whatever differs has a cause.
    pub deterministic: bool,
    /// Whether one is deterministic and the other is not, so that their times are of two kinds.
    #[serde(default)]
    pub clocks_differ: bool,
    /// Whether kernel, initrd and command line are known to be the same.
    pub same_inputs: bool,
    /// In what the two boots were run differently, as far as their recordings say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub how_differs: Vec<Difference>,
    /// Of deterministic boots with different inputs: a total that moves by a smaller share says nothing. `null` otherwise.
    pub floor: Option<f64>,
    /// Where each side was booted several times with dummy arguments: how. Then only what changed by more than it moves by
    /// itself is listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dither: Option<Dither>,
    /// How many functions were compared.
    pub functions_compared: usize,
    /// How many paths of calls were.
    pub paths_compared: usize,
    /// Phases that are not as long, in order of time.
    pub phases: Vec<DiffRow>,
    /// Rows of `where` that are not charged the same, the greatest effect first.
    pub rows: Vec<DiffRow>,
    /// Functions that differ, the greatest effect on the boot path first.
    pub functions: Vec<DiffLine>,
    /// Paths of calls that differ themselves, not only in what they call.
    pub paths: Vec<DiffLine>,
}

/// One of the boots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DiffSide {
    /// The recording.
    pub recording: String,
    /// What was booted.
    pub kernel: String,
    /// How it ended.
    pub outcome: String,
    /// How long it took to the end mark.
    pub total_ns: i64,
}

/// A phase that is not as long, or a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DiffRow {
    /// What it is.
    pub name: String,
    /// How long it was; `null`: it appeared.
    pub before_ns: Option<i64>,
    /// How long it is; `null`: it vanished.
    pub after_ns: Option<i64>,
    /// Of dithered boots, by how much it changed: median less median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_ns: Option<i64>,
    /// Of dithered boots, how far it moves by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_ns: Option<i64>,
}

impl DiffRow {
    fn change(&self) -> i64 {
        self.change_ns.unwrap_or_else(|| self.after_ns.unwrap_or(0) - self.before_ns.unwrap_or(0))
    }
}

/// A function, or a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DiffLine {
    /// The function.
    pub name: String,
    /// Of a path, who called it: the thread first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<String>,
    /// `changed`, `appeared` or `vanished`.
    pub what: String,
    /// What it was likely called before, if the other kernel has it under another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<String>,
    /// Of what appeared or vanished: the function that its code is likely in, in the kernel that lacks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inlined_in: Option<String>,
    /// What it was; `null`: it appeared.
    pub before: Option<DiffAmount>,
    /// What it is; `null`: it vanished.
    pub after: Option<DiffAmount>,
    /// By how much the boot path became longer in it itself; of dithered boots, median less median.
    pub on_path_change_ns: i64,
    /// Of dithered boots, how far that moves by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_ns: Option<i64>,
}

impl DiffLine {
    /// What it is, whatever it took.
    fn key(&self) -> (&[String], &str) {
        (&self.callers, &self.name)
    }

    /// The name, and where the other kernel likely has the function.
    fn name_and_kin(&self) -> String {
        match (&self.renamed_from, &self.inlined_in) {
            (Some(old), _) => format!("{} (likely {old} before)", self.name),
            (None, Some(into)) if self.before.is_none() => format!("{} (likely inlined in {into} before)", self.name),
            (None, Some(into)) => format!("{} (likely inlined in {into} now)", self.name),
            (None, None) => self.name.clone(),
        }
    }
}

/// What a function or a path took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DiffAmount {
    /// Calls until the end mark.
    pub calls: u64,
    /// In it itself.
    pub self_ns: i64,
    /// In it and what it called.
    pub total_ns: i64,
    /// Of the boot path, in it itself.
    pub on_path_ns: i64,
}

impl From<Amount> for DiffAmount {
    fn from(a: Amount) -> DiffAmount {
        DiffAmount { calls: a.calls, self_ns: a.own.0, total_ns: a.total.0, on_path_ns: a.on_path.0 }
    }
}

impl Diff {
    /// Compares two boots by their recordings' names.
    pub fn new(before: (&str, &Boot), after: (&str, &Boot), same_inputs: bool) -> Diff {
        let of = |boot: &Boot| -> (TimeBase, Ns) { (boot.timeline.time_base, boot.total) };
        let deterministic = [before.1, after.1].iter().all(|boot| of(boot).0 == TimeBase::GuestVirtual);
        let [old, new] = [before.1, after.1].map(|boot| Side {
            timeline: boot.timeline,
            path: boot.path(),
            functions: &boot.tables().functions,
            wheres: &boot.tables().wheres,
        });
        let kernels = [before.1, after.1].map(|boot| (&boot.facts.subject.os, &boot.facts.subject.kernel));
        let found = analysis::diff(old, new, kernels[0] == kernels[1]);
        let path = |change: &Change| {
            let mut names: Vec<String> = found.path(change).map(str::to_owned).collect();
            let name = if names.is_empty() { String::new() } else { names.remove(0) };
            names.reverse();
            line(change, name, names)
        };
        Diff {
            schema: SCHEMA.to_owned(),
            before: side(before),
            after: side(after),
            evidence: if found.followed { Compared::Calls } else { Compared::BootPath },
            evidence_left_out: false,
            deterministic,
            clocks_differ: of(before.1).0 != of(after.1).0,
            same_inputs,
            how_differs: Vec::new(),
            floor: (deterministic && !same_inputs).then_some(floor::VIRTUAL_TIME),
            dither: None,
            functions_compared: found.compared.0,
            paths_compared: found.compared.1,
            phases: phases(before.1, after.1),
            rows: found.rows.iter().map(row).collect(),
            functions: found
                .functions
                .iter()
                .map(|change| DiffLine {
                    renamed_from: found.renamed_from(change).map(str::to_owned),
                    inlined_in: found.inlined_in(change).map(str::to_owned),
                    ..line(change, found.function(change).to_owned(), Vec::new())
                })
                .collect(),
            paths: found.paths.iter().map(path).collect(),
        }
    }

    /// Functions and paths as another diff of the same two boots has them: where a kernel's own log tells of its phases
    /// and rows, and its followed calls of each function.
    pub fn with_functions_of(mut self, calls: Diff) -> Diff {
        self.evidence = calls.evidence;
        (self.functions_compared, self.paths_compared) = (calls.functions_compared, calls.paths_compared);
        (self.functions, self.paths) = (calls.functions, calls.paths);
        self
    }

    /// Says that one of the two boots has evidence that the other lacks, and that it was left out.
    pub fn although_more_is_known(self) -> Diff {
        Diff { evidence_left_out: true, ..self }
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        let same_length = self.before.total_ns == self.after.total_ns;
        same_length
            && self.phases.is_empty()
            && self.rows.is_empty()
            && self.functions.is_empty()
            && self.paths.is_empty()
    }

    /// As text.
    pub fn text(&self, layout: Layout) -> String {
        let mut out = String::new();
        self.before_the_figures(layout, &mut out);
        self.totals(layout, &mut out);
        if self.is_empty() {
            let paths = if self.paths_compared > 0 {
                format!(", on {}", counted(self.paths_compared as u64, "path"))
            } else {
                String::new()
            };
            let what = counted(self.functions_compared as u64, "function");
            let text = format!("no difference: {what}{paths}, each called as often and as long; all phases too");
            paragraph(&text, "", layout, &mut out);
            return out;
        }
        row_table("phase", &self.phases, usize::MAX, &self.whole(None), layout, &mut out);
        let within = |of: fn(&Dither) -> usize| self.dither.as_ref().map(of);
        let whole = |of| self.whole(within(of));
        row_table("where the boot path went", &self.rows, layout.top, &whole(|d| d.rows_within), layout, &mut out);
        let title = if self.evidence == Compared::Calls { "function" } else { "function, step or message" };
        table(title, &self.functions, &whole(|d| d.functions_within), layout, &mut out);
        table("path, function first", &self.paths, &whole(|d| d.paths_within), layout, &mut out);
        out
    }

    /// What a table has to sum to, in which so many changed by no more than their noise.
    fn whole(&self, within_noise: Option<usize>) -> Whole {
        let (before_ns, after_ns) = (self.before.total_ns, self.after.total_ns);
        let change_ns = match (&self.dither, within_noise) {
            (Some(dither), Some(_)) => dither.total_change_ns,
            _ => after_ns - before_ns,
        };
        Whole { before_ns, after_ns, change_ns, is_dithered: self.dither.is_some(), within_noise }
    }

    /// How far the total moves by itself, as a share; none where nobody knows.
    fn noise(&self) -> Option<f64> {
        self.floor.or((self.deterministic && !self.clocks_differ).then_some(0.0))
    }

    /// What one has to know before one believes a figure.
    fn before_the_figures(&self, layout: Layout, out: &mut String) {
        let value =
            |text: &str| if text.is_empty() { "not given".to_owned() } else { format!("“{}”", harmless(text)) };
        let differs = |d: &Difference| format!("{}: {} → {}", harmless(&d.what), value(&d.before), value(&d.after));
        let all: Vec<String> = self.how_differs.iter().map(differs).collect();
        if !all.is_empty() {
            paragraph(&format!("run differently: {}", all.join("; ")), "", layout, out);
        }
        if !self.deterministic && self.dither.is_none() {
            paragraph("noise: unknown after one boot each; `bootscope bench` measures it", "", layout, out);
        }
    }

    fn totals(&self, layout: Layout, out: &mut String) {
        for (word, side) in [("before", &self.before), ("after ", &self.after)] {
            let (name, total) = (harmless(&side.recording), layout.style.heading(&layout.time(side.total_ns)));
            let _ = writeln!(out, "{word}  {total}  {name} · {} · {}", harmless(&side.kernel), harmless(&side.outcome));
        }
        let change = self.after.total_ns - self.before.total_ns;
        let share = if self.before.total_ns > 0 { change as f64 / self.before.total_ns as f64 } else { 0.0 };
        // Of dithered boots the line below says it: these are only the first of each side.
        if self.dither.is_none() {
            let _ = writeln!(out, "total   {} ({})", signed(change, layout), signed_percent(share, self.noise()));
        }
        if let Some(dither) = &self.dither {
            dither_line(dither, self.before.total_ns, layout, out);
        } else if let Some(floor) = self.floor {
            let below = if share.abs() < floor { ": this one" } else { "" };
            let text = format!(
                "the inputs differ: that alone moves the total by up to {}, because code and data then lie elsewhere. A \
                 smaller change of the total says nothing{below}; the change of a single function does. `diff --dither 5` \
                 averages it out.",
                by_layout()
            );
            paragraph(&text, "", layout, out);
        }
        if self.clocks_differ {
            let text = "one counts instructions, the other the host's time: their difference is not a change";
            paragraph(text, "warning: ", layout, out);
        }
        if self.evidence_left_out {
            let text = "only one of them has a trace or a kernel log; it is left out, and calls are compared";
            paragraph(text, "", layout, out);
        }
        if self.evidence == Compared::BootPath {
            let text = "the functions of the two boot paths are compared; to compare every call, record both with --trace calls";
            paragraph(text, "", layout, out);
        }
        out.push('\n');
    }
}

/// What dithered boots say of the total, and how much is left out.
fn dither_line(dither: &Dither, before_ns: i64, layout: Layout, out: &mut String) {
    let share = |ns: i64| if before_ns > 0 { ns as f64 / before_ns as f64 } else { 0.0 };
    let (change, floor) = (dither.total_change_ns, dither.total_floor_ns);
    let verdict = if change.abs() > floor { "more than its noise" } else { "no more than its noise" };
    let text = format!(
        "{} boots a side, each with a dummy argument of another length: the total changed by {} ({}), {verdict}: {} \
         ({})",
        dither.boots,
        signed(change, layout),
        signed_percent(share(change), Some(share(floor))),
        layout.time(floor),
        two_digits(share(floor))
    );
    paragraph(&text, "", layout, out);
    let text = format!(
        "left out, because they changed by no more than their noise: {}, {}, {}",
        counted(dither.rows_within as u64, "row"),
        counted(dither.functions_within as u64, "function"),
        counted(dither.paths_within as u64, "path")
    );
    paragraph(&text, "", layout, out);
}

/// A change of a share, with the sign that lengths have. As many digits as its noise leaves; two where nobody knows it.
fn signed_percent(share: f64, noise: Option<f64>) -> String {
    const DECIMALS_MOST: f64 = 3.0;
    let sign = if share < 0.0 { "−" } else { "+" };
    let decimals = match noise {
        None => return format!("{sign}{}", two_digits(share.abs())),
        Some(noise) if noise > 0.0 => (-(noise * 100.0).log10().floor()).clamp(0.0, DECIMALS_MOST),
        Some(_) => DECIMALS_MOST,
    };
    format!("{sign}{:.*} %", places(decimals), share.abs() * 100.0)
}

/// A change of a length, with its sign.
pub(crate) fn signed(ns: i64, layout: Layout) -> String {
    match ns {
        0 => "0".to_owned(),
        1.. => format!("+{}", layout.time(ns)),
        _ => format!("−{}", layout.time(ns.saturating_neg())),
    }
}

fn side((recording, boot): (&str, &Boot)) -> DiffSide {
    let subject = &boot.facts.subject;
    DiffSide {
        recording: recording.to_owned(),
        kernel: [subject.os.as_str(), subject.kernel.as_str()].join(" ").trim().to_owned(),
        outcome: boot.facts.outcome.clone(),
        total_ns: boot.total.0,
    }
}

fn row(change: &RowChange) -> DiffRow {
    DiffRow {
        name: change.name.clone(),
        before_ns: change.before.map(|ns| ns.0),
        after_ns: change.after.map(|ns| ns.0),
        ..DiffRow::default()
    }
}

fn line(change: &Change, name: String, callers: Vec<String>) -> DiffLine {
    let what = match (change.before, change.after) {
        (None, _) => "appeared",
        (_, None) => "vanished",
        _ => CHANGED,
    };
    DiffLine {
        name,
        callers,
        what: what.to_owned(),
        before: change.before.map(DiffAmount::from),
        after: change.after.map(DiffAmount::from),
        on_path_change_ns: change.on_path().0,
        ..DiffLine::default()
    }
}

/// Phases by name, in the order of the boots; one that there are several of (what no evidence reaches) is one.
fn phases(before: &Boot, after: &Boot) -> Vec<DiffRow> {
    let lengths = |boot: &Boot| boot.phases.iter().map(|phase| (phase.name.clone(), phase.length().0)).collect();
    merged(lengths(before), lengths(after))
}

/// Two lists of phases as one. A phase that only the second boot has stands behind the one that it follows there.
fn merged(before: Vec<(String, i64)>, after: Vec<(String, i64)>) -> Vec<DiffRow> {
    let mut all: Vec<DiffRow> = Vec::new();
    let mut add = |phases: Vec<(String, i64)>, slot: fn(&mut DiffRow) -> &mut Option<i64>| {
        let mut next = 0;
        for (name, ns) in phases {
            let place = all.iter().position(|p| p.name == name).unwrap_or_else(|| {
                all.insert(next, DiffRow { name, ..DiffRow::default() });
                next
            });
            *slot(&mut all[place]).get_or_insert(0) += ns;
            next = place + 1;
        }
    };
    add(before, |p| &mut p.before_ns);
    add(after, |p| &mut p.after_ns);
    all.retain(|p| p.before_ns != p.after_ns);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_the_document() {
        let text = include_str!("diff.example.json");
        let example: Diff = serde_json::from_str(text).expect("the example parses");
        assert_eq!(example.schema, SCHEMA);
        let again: serde_json::Value = serde_json::to_value(&example).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(text).unwrap());
    }

    #[test]
    fn a_phase_that_only_one_boot_has_stands_where_it_lies_in_the_boot() {
        let list = |names: &[&str], ns: i64| names.iter().map(|name| ((*name).to_owned(), ns)).collect();
        let names = |before: &[&str], after: &[&str]| -> Vec<String> {
            merged(list(before, 1), list(after, 2)).into_iter().map(|row| row.name).collect()
        };
        assert_eq!(
            names(&["firmware", "kernel", "init"], &["firmware", "EFI stub", "kernel", "init"]),
            ["firmware", "EFI stub", "kernel", "init"]
        );
        assert_eq!(
            names(&["kernel"], &["firmware", "loader", "kernel", "init"]),
            ["firmware", "loader", "kernel", "init"]
        );
        assert_eq!(
            names(&["firmware", "decompressor", "kernel"], &["firmware", "kernel"]),
            ["firmware", "decompressor", "kernel"]
        );
        let twice = merged(list(&["a", "?", "b", "?"], 1), list(&["a", "b", "c"], 1));
        let row = |name: &str| twice.iter().find(|row| row.name == name).map(|row| (row.before_ns, row.after_ns));
        assert_eq!((row("?"), row("c"), row("a")), (Some((Some(2), None)), Some((None, Some(1))), None));
    }

    #[test]
    fn what_differs_and_that_the_noise_is_unknown_stand_before_the_figures() {
        let example: Diff = serde_json::from_str(include_str!("diff.example.json")).expect("the example parses");
        let text = |diff: &Diff| diff.text(Layout::default());
        assert!(
            text(&example).starts_with("run differently: append: not given → “quiet”\nbefore"),
            "{}",
            text(&example)
        );
        let host = Diff { deterministic: false, floor: None, how_differs: Vec::new(), ..example.clone() };
        assert!(text(&host).starts_with("noise: unknown after one boot each"), "{}", text(&host));
        let hostile = Difference { what: "append".to_owned(), before: "\x1b[2J".to_owned(), after: "b".to_owned() };
        assert!(!text(&Diff { how_differs: vec![hostile], ..example }).contains('\x1b'));
    }

    #[test]
    fn evidence_that_only_one_boot_has_is_said_to_be_left_out() {
        let example: Diff = serde_json::from_str(include_str!("diff.example.json")).expect("the example parses");
        let says = |diff: &Diff| {
            let text = diff.text(Layout::default()).split_whitespace().collect::<Vec<_>>().join(" ");
            text.contains("it is left out, and calls are compared")
        };
        assert!(!says(&example) && says(&example.although_more_is_known()));
    }
}
