//! The text of a comparison: totals, warnings, and the tables.

use super::signed::{signed, signed_cost, signed_percent};
use super::tables::{Whole, row_table, table};
use super::{Compared, Diff, Dither};
use crate::paragraph::paragraph;
use crate::text::{by_layout, counted, two_digits};
use crate::{Layout, harmless};
use recording::Difference;
use std::fmt::Write;
use timeline::{Cost, Ns, Unit};

impl Diff {
    /// The lines before the tables: what differs in how they were run, the totals, and what is not comparable.
    pub fn heading(&self, layout: Layout) -> String {
        let layout = Layout { unit: self.unit(), ..layout };
        let mut out = String::new();
        self.before_the_figures(layout, &mut out);
        self.totals(layout, &mut out);
        out
    }

    pub fn text(&self, layout: Layout) -> String {
        let mut out = self.heading(layout);
        let layout = Layout { unit: Unit::named(&self.before.unit), ..layout };
        if self.counts_differ() {
            return out;
        }
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
        // The parts of these lengths are not compared.
        let layout = Layout { unit: if self.has_waits() { layout.unit.with_waits() } else { layout.unit }, ..layout };
        if layout.unit == Unit::GuestTime && !(self.functions.is_empty() && self.paths.is_empty()) {
            paragraph("guest time, instructions and timed waits together:", "", layout, &mut out);
        }
        table(title, &self.functions, &whole(|d| d.functions_within), layout, &mut out);
        table("path, function first", &self.paths, &whole(|d| d.paths_within), layout, &mut out);
        out
    }

    /// True if one boot counts instructions and the other time: no figure of one is comparable with one of the other.
    pub fn counts_differ(&self) -> bool {
        let [before, after] = self.units().map(Unit::with_waits);
        before != after
    }

    fn units(&self) -> [Unit; 2] {
        [&self.before, &self.after].map(|side| Unit::named(&side.unit))
    }

    /// The unit of the tables.
    fn unit(&self) -> Unit {
        let [before, after] = self.units();
        let is_apart = before == after && !(self.dither.is_some() && self.has_waits());
        if is_apart { before } else { before.with_waits() }
    }

    /// True if a boot has timed waits.
    fn has_waits(&self) -> bool {
        [&self.before, &self.after].iter().any(|side| side.waited_ns > 0)
    }

    /// The sums of a table in which `within_noise` rows changed by no more than their noise.
    fn whole(&self, within_noise: Option<usize>) -> Whole {
        let (before, after) = (self.before.cost(), self.after.cost());
        let change = match (&self.dither, within_noise) {
            (Some(dither), Some(_)) => Cost::busy(Ns(dither.total_change_ns)),
            _ => after - before,
        };
        let unlisted = if self.not_comparable.is_some() { "not comparable" } else { "charged to no row" };
        let (is_dithered, only) = (self.dither.is_some(), self.only);
        Whole { before, after, change, is_dithered, within_noise, unlisted, only }
    }

    /// The noise of the total, as a share; `None` if it is not known.
    fn noise(&self) -> Option<f64> {
        self.floor.or((self.deterministic && !self.clocks_differ).then_some(0.0))
    }

    /// Writes the differences and warnings that a reader needs before the figures.
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
            let total = layout.style.heading(&Unit::named(&side.unit).show_cost(side.cost()));
            let name = harmless(&side.recording);
            let _ = writeln!(out, "{word}  {total}  {name} · {} · {}", harmless(&side.kernel), harmless(&side.outcome));
        }
        if self.counts_differ() {
            let text = "one counts instructions, the other the host's time: they are not comparable";
            return paragraph(text, "warning: ", layout, out);
        }
        let change = self.after.total_ns - self.before.total_ns;
        let share = if self.before.total_ns > 0 { change as f64 / self.before.total_ns as f64 } else { 0.0 };
        // For dithered boots the line below has the total: these figures are of each side's first boot only.
        if self.dither.is_none() {
            let change = signed_cost(self.after.cost() - self.before.cost(), layout);
            let _ = writeln!(out, "total   {change} ({})", signed_percent(share, self.noise()));
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
            let text = "their times begin at different events: their difference is not a change";
            paragraph(text, "warning: ", layout, out);
        }
        if self.evidence_left_out {
            let text = "only one of them has a trace or a kernel log; it is left out, and calls are compared";
            paragraph(text, "", layout, out);
        }
        if let Some(lost) = &self.not_comparable {
            let counts = [(lost.phases, "phase"), (lost.rows, "row"), (lost.functions, "function")];
            let counts: Vec<String> = counts.iter().map(|(count, thing)| counted(*count as u64, thing)).collect();
            let side = if lost.after_lacks { "after" } else { "before" };
            let text = format!("not comparable: {side} has no {} ({})", lost.lacks.text(), counts.join(", "));
            paragraph(&text, "", layout, out);
        } else if self.evidence == Compared::BootPath {
            let text = "the functions of the two boot paths are compared; to compare every call, record both with --trace calls";
            paragraph(text, "", layout, out);
        }
        out.push('\n');
    }
}

/// Writes the change of the dithered total, and the number of rows that are left out.
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
