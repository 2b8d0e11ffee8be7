//! The text of a bench: each variant, its comparison with the first, the rows that changed, and the remarks to read
//! first. It is made from the document alone, so that it can be printed again.

mod comparisons;
mod csv_markdown;
mod page;
mod plot;
mod remarks;
mod scaling;
mod tables;

pub use csv_markdown::{bench_csv, bench_markdown};
pub use page::bench_page;
pub(crate) use tables::of_time;

use crate::paragraph::paragraph;
use crate::{Layout, harmless, text};
use benchmark::{Document, Ended};
use std::fmt::Write;
use timeline::Unit;

/// The output of `bootscope bench`. With `whole`, each variant's tables are included if there are several.
pub fn bench(document: &Document, whole: bool, layout: Layout) -> String {
    let layout = Layout { unit: tables::unit(document), ..layout };
    let mut out = String::new();
    header(document, layout, &mut out);
    let results = &document.results;
    let several = results.variants.len() > 1;
    if several {
        tables::variants(document, layout, &mut out);
    }
    for (variant, runs) in results.variants.iter().enumerate() {
        if !several {
            tables::alone(runs, layout, &mut out);
        }
        remarks::remarks(document, variant, layout, &mut out);
    }
    if several && !out.ends_with("\n\n") {
        out.push('\n');
    }
    comparisons::comparisons(document, whole, layout, &mut out);
    scaling::scaling(document, layout, &mut out);
    for runs in results.variants.iter().filter(|_| whole || !several) {
        if several {
            let _ = writeln!(out, "\n{}", layout.style.heading(&harmless(&runs.name)));
        }
        tables::phases(runs, layout, &mut out);
        tables::rows(runs, layout, &mut out);
    }
    tables::metrics(results, layout, &mut out);
    out
}

fn header(document: &Document, layout: Layout, out: &mut String) {
    let counted = document.boots.iter().filter(|b| b.round.is_some()).count();
    let warm_ups = document.boots.len() - counted;
    let variants = document.head.variants.len();
    let what = if variants > 1 { format!(" of {variants} variants in turn") } else { String::new() };
    let warm = if warm_ups > 0 { format!(" after {warm_ups} to warm up") } else { String::new() };
    let boots = text::counted(counted as u64, "boot");
    paragraph(&format!("{boots}{what}{warm}; {}", ended(document)), "", layout, out);
    let head = &document.head;
    if let Some(booted) = head.variants.first().map(|v| &v.booted).filter(|b| !b.kernel.is_empty()) {
        let text = format!("{} · {} · {}", booted.kernel, booted.accelerator, booted.vmm);
        paragraph(&harmless(&text), "", layout, out);
    }
    let loads = || document.boots.iter().map(|b| b.measured.host_load);
    let (least, most) = (loads().fold(f64::INFINITY, f64::min), loads().fold(0.0, f64::max));
    if !document.boots.is_empty() && !head.host.cpu.is_empty() {
        let cpus = &head.host_cpus_allowed;
        let text = format!("host: {}, on CPUs {cpus}, load {least:.2} to {most:.2}", head.host.cpu);
        paragraph(&harmless(&text), "", layout, out);
    }
    if let Some(milestone) = &head.up_to {
        paragraph(&format!("each boot is measured to the milestone {}", harmless(milestone)), "", layout, out);
    }
    if head.deterministic {
        let how = match head.dithered {
            true => {
                "each boot of a variant gets a different unused argument, to average out layout effects (dithering)"
                    .to_owned()
            }
            false => {
                format!(
                    "the boots repeat exactly: another layout alone changes the total by up to {}",
                    text::by_layout()
                )
            }
        };
        paragraph(&format!("{}; {how}", figures(layout.unit)), "", layout, out);
    }
    for boots in &document.continued {
        let boots = text::counted((*boots).into(), "boot");
        let text = format!("it was cut off after {boots} and went on later: the host may have been another in between");
        paragraph(&text, "note: ", layout, out);
    }
    out.push('\n');
}

/// The unit of figures of deterministic boots.
fn figures(unit: Unit) -> &'static str {
    match unit {
        Unit::Instructions => "all figures count instructions, not wall time",
        _ => {
            "all figures are guest time, not wall time: an instruction counts as 1 ns, and a timed wait as long as it lasts"
        }
    }
}

/// The reason why the bench ended.
fn ended(document: &Document) -> String {
    match document.ended {
        Some(Ended::Rounds) => "all rounds are done".to_owned(),
        Some(Ended::Sure) => "every verdict is sure".to_owned(),
        Some(Ended::Width) => "enough for intervals as narrow as was asked".to_owned(),
        Some(Ended::Budget) => "then the time was up".to_owned(),
        Some(Ended::Interrupted) => "then it was interrupted".to_owned(),
        Some(Ended::NeverReached(variant)) => {
            let name = document.head.variants.get(variant).map_or("a variant", |v| v.name.as_str());
            format!("given up because {} never reached its end mark", harmless(name))
        }
        Some(Ended::Error) => "then it could not go on".to_owned(),
        None => "it was killed, or is still running".to_owned(),
    }
}
