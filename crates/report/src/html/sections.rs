//! The sections of the page beside the chart: header, phases, tables, console, configuration of the run.

use super::{ConsoleLine, MAX_LINES, MAX_ROWS, esc};
use crate::layout::{at_least_sign, cost};
use crate::text::{bytes, counted, percent, thousands};
use crate::{Boot, PhaseLine, Summary, harmless_bytes};
use analysis::RowKey;
use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;
use timeline::{Cost, NameId, Names, Ns, Unit};

type Out<'a> = &'a mut dyn Write;

pub fn header(s: &Summary, title: &str, out: Out) -> io::Result<()> {
    let good = if s.is_reached() { "good" } else { "bad" };
    let outcome = if s.outcome.is_empty() { "outcome unknown" } else { &s.outcome };
    let end = match &s.end {
        Some(end) => format!("to {} (±{})", esc(&end.evidence), s.at(end.error_ns)),
        None => "to the last evidence; there is no end mark".to_owned(),
    };
    writeln!(
        out,
        "<header><h1>{}</h1>\n<p class=\"total\"><strong>{}</strong> {end} \
         <span class=\"outcome {good}\">{}</span></p>",
        esc(title),
        s.cost(s.total_cost()),
        esc(outcome)
    )?;
    if !s.outcome_detail.is_empty() {
        writeln!(out, "<p class=\"detail\">{}</p>", esc(&s.outcome_detail))?;
    }
    let subject = &s.subject;
    let nonempty = |text: &str| (!text.is_empty()).then(|| esc(text));
    let facts = [
        ("machine", nonempty(&subject.machine)),
        ("accelerator", nonempty(&subject.accelerator)),
        ("CPUs", (subject.cpus > 0).then(|| subject.cpus.to_string())),
        ("memory", (subject.memory_bytes > 0).then(|| bytes(subject.memory_bytes))),
        ("explained", Some(percent(s.explained))),
    ];
    write!(out, "<dl class=\"facts\">")?;
    let facts = facts.into_iter().filter_map(|(label, value)| Some((label, value?)));
    for (label, value) in facts.chain(s.measured()) {
        write!(out, "<div><dt>{label}</dt><dd>{value}</dd></div>")?;
    }
    writeln!(out, "</dl></header>")
}

/// Writes the warnings.
pub fn warnings(s: &Summary, out: Out) -> io::Result<()> {
    s.warnings.iter().try_for_each(|w| writeln!(out, "<p class=\"warning\" role=\"alert\">Warning: {}.</p>", esc(w)))
}

/// Writes the kernel's list of initcalls, the longest first, with those that the boot path did not wait for.
pub fn initcalls(s: &Summary, out: Out) -> io::Result<()> {
    if s.initcalls.is_empty() {
        return Ok(());
    }
    let word = s.initcalls_word();
    writeln!(
        out,
        "<details open><summary><h2>{}{}</h2> <span class=\"faint\">{}</span></summary><p>Each from its call to its \
         return, waits included. They overlap where threads run side by side, so this is no account of the boot's \
         length.</p>\n<div class=\"wide tall\" tabindex=\"0\"><table class=\"sortable\" id=\"initcalls\"><thead><tr>\
         <th scope=\"col\">function</th><th scope=\"col\" class=\"n\" aria-sort=\"descending\">elapsed</th>\
         <th scope=\"col\" class=\"n\">boot path</th><th scope=\"col\" class=\"n\">start</th><th scope=\"col\">thread</th></tr></thead><tbody>",
        word[..1].to_uppercase(),
        &word[1..],
        thousands(s.initcalls.len() as u64)
    )?;
    let shown = &s.initcalls[..s.initcalls.len().min(MAX_ROWS)];
    for i in shown {
        writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td class=\"n\" data-v=\"{}\">{}</td><td class=\"n\" data-v=\"{}\">{}</td>\
             <td class=\"n\" data-v=\"{}\">{}</td><td>{}</td></tr>",
            esc(&i.name),
            i.elapsed_ns,
            s.cost(cost(i.elapsed_ns, i.waited_ns)),
            i.path_ns,
            s.cost(cost(i.path_ns, i.path_waited_ns)),
            i.start_ns,
            s.at(i.start_ns),
            esc(&i.track)
        )?;
    }
    let more = match s.initcalls.len() - shown.len() {
        0 => String::new(),
        more => format!("<p>{} shorter ones are in <code>bootscope show --json</code>.</p>", thousands(more as u64)),
    };
    writeln!(out, "</tbody></table></div>{more}</details>")
}

/// Writes the devices whose probe the kernel put off.
pub fn deferred_probes(s: &Summary, out: Out) -> io::Result<()> {
    if s.deferred_probes.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<details open><summary><h2>Deferred probes</h2> <span class=\"faint\">{}</span></summary><p>Devices that the \
         kernel tried to probe before their suppliers were there. Linux prints the lengths of attempts with \
         <code>initcall_debug</code>.</p>\n<div class=\"wide tall\" tabindex=\"0\"><table class=\"sortable\"><thead><tr>\
         <th scope=\"col\">device</th><th scope=\"col\" class=\"n\">attempts</th>\
         <th scope=\"col\" class=\"n\" aria-sort=\"descending\">elapsed</th><th scope=\"col\" class=\"n\">boot path</th>\
         <th scope=\"col\">waits for</th></tr></thead><tbody>",
        thousands(s.deferred_probes.len() as u64)
    )?;
    for probe in s.deferred_probes.iter().take(MAX_ROWS) {
        let cell = |ns, waited_ns| format!("<td class=\"n\" data-v=\"{ns}\">{}</td>", s.cost(cost(ns, waited_ns)));
        let unknown = || "<td class=\"n\" data-v=\"0\">?</td>".to_owned();
        let [elapsed, on_path] = match probe.attempts {
            0 => [unknown(), unknown()],
            _ => [cell(probe.elapsed_ns, probe.waited_ns), cell(probe.path_ns, probe.path_waited_ns)],
        };
        writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td>{elapsed}{on_path}<td>{}{}</td></tr>",
            esc(&probe.name),
            if probe.attempts == 0 { "?".to_owned() } else { thousands(probe.attempts) },
            esc(&probe.suppliers.join(", which waits for ")),
            if probe.is_pending { " (still pending)" } else { "" }
        )?;
    }
    writeln!(out, "</tbody></table></div></details>")
}

/// Writes the user processes as a tree.
pub fn processes(s: &Summary, out: Out) -> io::Result<()> {
    /// The deepest level that is indented.
    const MAX_DEPTH: u32 = 20;
    if s.processes.is_empty() {
        return Ok(());
    }
    let shown = &s.processes[..s.processes.len().min(MAX_ROWS)];
    writeln!(
        out,
        "<details open><summary><h2>User processes</h2> <span class=\"faint\">{}</span></summary>\n\
         <div class=\"wide tall\" tabindex=\"0\"><table id=\"processes\"><thead><tr><th scope=\"col\">process</th>\
         <th scope=\"col\" class=\"n\">pid</th><th scope=\"col\" class=\"n\">start</th>\
         <th scope=\"col\" class=\"n\">length</th></tr></thead><tbody>",
        thousands(s.processes.len() as u64)
    )?;
    for p in shown {
        let length = p.end_ns.map_or("alive".to_owned(), |end| s.at(end - p.start_ns));
        writeln!(
            out,
            "<tr><th scope=\"row\" style=\"padding-left:{}em\">{}</th><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{length}</td></tr>",
            p.depth.min(MAX_DEPTH) * 2 + 1,
            esc(&p.name),
            p.pid,
            s.at(p.start_ns)
        )?;
    }
    let more = s.processes.len() - shown.len();
    let more =
        if more > 0 { format!("<p>{more} more are in <code>bootscope show --json</code>.</p>") } else { String::new() };
    writeln!(out, "</tbody></table></div>{more}</details>")
}

/// The least share of a bar, in percent, that carries a phase's name there. All names appear on hover and in the table.
const MIN_NAMED_PERCENT: f64 = 6.0;

pub fn phases(s: &Summary, out: Out) -> io::Result<()> {
    let share = |ns: i64| if s.total_ns > 0 { ns as f64 / s.total_ns as f64 } else { 0.0 };
    let class = |p: &PhaseLine| p.tone.map_or("p-x".to_owned(), |tone| format!("p{tone}"));
    writeln!(
        out,
        "<section aria-labelledby=\"h-phases\"><h2 id=\"h-phases\">Phases</h2>\n<div class=\"bar\" aria-hidden=\"true\">"
    )?;
    for p in &s.phases {
        let length = p.end_ns - p.start_ns;
        let (class, name) = (class(p), esc(&p.name));
        let width = share(length) * 100.0;
        let shown = if width >= MIN_NAMED_PERCENT { name.as_str() } else { "" };
        write!(
            out,
            "<div class=\"{class}\" style=\"width:{width:.4}%\" title=\"{name}: {}, {}\"><span>{shown}</span></div>",
            s.cost(p.cost()),
            percent(share(length))
        )?;
    }
    writeln!(
        out,
        "</div>\n<div class=\"wide\"><table class=\"phases\"><thead><tr><th scope=\"col\">phase</th><th scope=\"col\" class=\"n\">start</th>\
         <th scope=\"col\" class=\"n\">length</th><th scope=\"col\" class=\"n\">share</th>\
         <th scope=\"col\" class=\"n\">error of start</th><th scope=\"col\">evidence of start</th></tr></thead><tbody>"
    )?;
    for p in &s.phases {
        let length = p.end_ns - p.start_ns;
        writeln!(
            out,
            "<tr><th scope=\"row\"><i class=\"key {}\"></i>{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">±{}</td><td>{}</td></tr>",
            class(p),
            esc(&p.name),
            s.at(p.start_ns),
            s.cost(p.cost()),
            percent(share(length)),
            s.at(p.error_ns),
            esc(&p.evidence)
        )?;
    }
    let sum: Cost = s.phases.iter().map(PhaseLine::cost).sum();
    writeln!(
        out,
        "</tbody><tfoot><tr><th scope=\"row\">total</th><td></td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td></td><td></td></tr></tfoot></table></div></section>",
        s.cost(sum),
        percent(share(sum.length.0))
    )
}

/// A row of any of the three tables.
struct Row<'a> {
    name: Cow<'a, str>,
    own: Cost,
    total: Cost,
    count: u64,
    /// `≥ ` if only first calls have its time, else empty.
    at_least: &'static str,
    tracks: &'a [Arc<str>],
}

impl<'a> Row<'a> {
    fn new(row: &'a analysis::Row) -> Self {
        Row {
            name: Cow::Borrowed(&row.name),
            own: row.self_cost(),
            total: row.total_cost(),
            count: row.count,
            at_least: at_least_sign(row.first_calls_only),
            tracks: &row.tracks,
        }
    }

    /// A row of the table of functions, by the function's own name.
    fn of_function(row: &'a analysis::Row, names: &'a Names) -> Self {
        let name = match row.key {
            RowKey::Step(name, NameId::EMPTY) => Cow::Borrowed(names.get(name)),
            RowKey::Step(name, detail) => Cow::Owned(format!("{} {}", names.get(name), names.get(detail))),
            RowKey::Other => Cow::Borrowed(&*row.name),
        };
        Row { name, ..Row::new(row) }
    }
}

pub fn tables(boot: &Boot, s: &Summary, out: Out) -> io::Result<()> {
    let moved = if s.blame().is_empty() { String::new() } else { format!(" Note: {}.", s.blame()) };
    let about =
        format!("The boot path, each stretch charged once, by what one can fix. The rows sum to the total.{moved}");
    let (unit, tables, names) = (s.time_unit(), boot.tables(), &boot.timeline.names);
    table(("where", "Where the boot path went"), &about, &tables.wheres, &Row::new, unit, true, out)?;
    let about = "The boot path by function: self is time in which it was innermost, total also what it called.";
    let of_function = |row| Row::of_function(row, names);
    table(("functions", "Functions on the boot path"), about, &tables.functions, &of_function, unit, false, out)?;
    let about = "Not the path: what every thread did until the end mark. Threads work and wait side by side, so the rows \
                 may sum to more than the boot. Time in which no thread is known to run has rows too.";
    table(("threads", "All threads, summed"), about, &tables.all_threads, &Row::new, unit, false, out)
}

fn table<'a>(
    (id, title): (&str, &str),
    about: &str,
    rows: &'a [analysis::Row],
    shown: &dyn Fn(&'a analysis::Row) -> Row<'a>,
    unit: Unit,
    open: bool,
    out: Out,
) -> io::Result<()> {
    let time = |cost: Cost| unit.show_cost(cost);
    // Summed over all threads, times may exceed 64 bits: the sum then stays at the largest value.
    let self_sum = |rows: &[analysis::Row]| rows.iter().map(analysis::Row::self_cost).sum::<Cost>();
    let whole = self_sum(rows);
    let share = |cost: Cost| match whole.length {
        Ns(1..) => cost.length.0 as f64 / whole.length.0 as f64,
        _ => 0.0,
    };
    let open = if open { " open" } else { "" };
    writeln!(
        out,
        "<details{open}><summary><h2>{title}</h2> <span class=\"faint\">{}</span></summary><p>{about}</p>\n\
         <div class=\"wide tall\" tabindex=\"0\"><table class=\"sortable\" id=\"{id}\"><thead><tr><th scope=\"col\">what</th>\
         <th scope=\"col\" class=\"n\" aria-sort=\"descending\">self</th><th scope=\"col\" class=\"n\">share</th>\
         <th scope=\"col\" class=\"n\">total</th><th scope=\"col\" class=\"n\">count</th><th scope=\"col\">threads</th>\
         </tr></thead><tbody>",
        counted(rows.len() as u64, "row")
    )?;
    for r in rows.iter().take(MAX_ROWS).map(shown) {
        row(&r, share(r.own), unit, out)?;
    }
    writeln!(out, "</tbody><tfoot>")?;
    let mut foot = |name: &str, cost: Cost| {
        let (length, share) = (time(cost), percent(share(cost)));
        writeln!(
            out,
            "<tr><th scope=\"row\">{name}</th><td class=\"n\">{length}</td><td class=\"n\">{share}</td><td></td><td></td><td></td></tr>"
        )
    };
    if let Some(rest) = rows.get(MAX_ROWS..).filter(|rest| !rest.is_empty()) {
        let name = format!("everything else ({})", counted(rest.len() as u64, "row"));
        foot(&name, self_sum(rest))?;
    }
    foot("total", whole)?;
    writeln!(out, "</tfoot></table></div></details>")
}

fn row(r: &Row, share: f64, unit: Unit, out: Out) -> io::Result<()> {
    let time = |cost: Cost| unit.show_cost(cost);
    let tracks = r.tracks.iter().take(8).map(|t| esc(t)).collect::<Vec<_>>().join(", ");
    let more = if r.tracks.len() > 8 { format!(" and {} more", r.tracks.len() - 8) } else { String::new() };
    writeln!(
        out,
        "<tr><th scope=\"row\">{}</th><td class=\"n\" data-v=\"{}\">{}</td>\
             <td class=\"n\" data-v=\"{}\"><i class=\"share\" style=\"width:{:.2}em\"></i>{}</td>\
             <td class=\"n\" data-v=\"{}\">{}</td><td class=\"n\" data-v=\"{}\">{}</td><td>{tracks}{more}</td></tr>",
        esc(r.name.trim_end()),
        r.own.length.0,
        format_args!("{}{}", r.at_least, time(r.own)),
        r.own.length.0,
        share * 8.0,
        percent(share),
        r.total.length.0,
        format_args!("{}{}", r.at_least, time(r.total)),
        r.count,
        thousands(r.count)
    )
}

/// The most bytes of a console line in the page.
const MAX_LINE_BYTES: usize = 2_000;

pub fn console(lines: &[ConsoleLine], unit: Unit, out: Out) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<details open><summary><h2>Console</h2> <span class=\"faint\">{}</span></summary>\n\
         <p>Each line as it came, stamped when its first byte arrived.</p>\n<div class=\"console\" tabindex=\"0\" role=\"log\" \
         aria-label=\"console\">",
        counted(lines.len() as u64, "line")
    )?;
    let (head, tail) = if lines.len() <= MAX_LINES {
        (lines, &lines[..0])
    } else {
        (&lines[..MAX_LINES / 2], &lines[lines.len() - MAX_LINES / 2..])
    };
    head.iter().try_for_each(|line| console_line(line, unit, out))?;
    if !tail.is_empty() {
        let n = lines.len() - head.len() - tail.len();
        writeln!(out, "<p class=\"gap\">{} not shown; the recording has them</p>", counted(n as u64, "line"))?;
    }
    tail.iter().try_for_each(|line| console_line(line, unit, out))?;
    writeln!(out, "</div></details>")
}

fn console_line(line: &ConsoleLine, unit: Unit, out: Out) -> io::Result<()> {
    let at = line.at.map_or(String::new(), |at| match unit {
        Unit::Nanoseconds | Unit::GuestTime | Unit::Instructions | Unit::Priced => format!("{:.6}", at.0 as f64 / 1e9),
        counts => counts.show(at),
    });
    let shown = &line.text[..line.text.len().min(MAX_LINE_BYTES)];
    // A tab stays a tab: an escape in its place would change the look of the line.
    let text = shown.split(|&b| b == b'\t').map(|part| esc(&harmless_bytes(part))).collect::<Vec<_>>().join("\t");
    let rest = line.text.len() - shown.len();
    let more = if rest > 0 { format!("<em> … {}</em>", counted(rest as u64, "more byte")) } else { String::new() };
    writeln!(out, "<div><time>{at}</time><span>{text}{more}</span></div>")
}

pub fn run(boot: &Boot, s: &Summary, out: Out) -> io::Result<()> {
    writeln!(
        out,
        "<section aria-labelledby=\"h-run\"><h2 id=\"h-run\">How it was run, and how sure this is</h2><dl class=\"run\">"
    )?;
    let mut item = |label: &str, text: &str| writeln!(out, "<dt>{}</dt><dd>{}</dd>", esc(label), esc(text));
    for (label, text) in &boot.facts.how {
        item(label, text)?;
    }
    item("time base", &s.time_base)?;
    for c in &s.clocks {
        let rate = if c.pieces > 1 { "in pieces".to_owned() } else { format!("at {:.0} Hz", c.hz) };
        item("clock", &format!("{} {rate}, {}, within {}", c.name, c.rate_from, s.at(c.residual_ns)))?;
    }
    if let Some(o) = &s.overhead {
        item("overhead", &crate::terminal::overhead(o))?;
    }
    for d in &s.diagnostics {
        item(&format!("evidence, {}", d.severity), &d.line())?;
    }
    for note in &s.notes {
        item("note", note)?;
    }
    writeln!(out, "</dl></section>")
}
