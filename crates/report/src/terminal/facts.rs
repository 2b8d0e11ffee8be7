//! The measured metrics, the clocks, and the cost of recording.

use crate::paragraph::paragraph;
use crate::text::amount;
use crate::{Layout, Overhead, Summary, harmless};
use benchmark::METRICS;
use timeline::Unit;

/// Writes a paragraph for each fact.
pub(super) fn facts(summary: &Summary, layout: Layout, out: &mut String) {
    let values = METRICS.iter().filter_map(|metric| Some((metric, summary.metrics.get(metric)?)));
    let metrics: Vec<String> =
        values.map(|(metric, v)| format!("{} {}", metric.text, amount(metric.unit, v as f64))).collect();
    let mut fact = |title: &str, text: &str| {
        let indent = format!("{title:<10}");
        paragraph(text, &indent, layout, out);
    };
    if !metrics.is_empty() {
        fact("measured", &metrics.join(", "));
    }
    for clock in &summary.clocks {
        let counts = match clock.pieces {
            2.. => format!("in {} linear segments", clock.pieces),
            // A kernel's log has stamps in time. The guest's clock advances by one for each instruction.
            _ if clock.hz == 1e9 && matches!(layout.unit, Unit::Instructions | Unit::GuestTime) => {
                "counts nanoseconds of guest time".to_owned()
            }
            _ if clock.hz == 1e9 => "counts nanoseconds".to_owned(),
            _ => format!("at {}", rate(clock.hz)),
        };
        let text = format!(
            "{} {counts}, {}, within {}",
            harmless(&clock.name),
            harmless(&clock.rate_from),
            layout.at(clock.residual_ns)
        );
        fact("clock", &text);
    }
    if let Some(o) = &summary.overhead {
        fact("overhead", &harmless(&overhead(o)));
    }
}

/// The cost of recording, and whether it exceeds chance.
pub(crate) fn overhead(o: &Overhead) -> String {
    let sure = if o.low <= 1.0 && o.high >= 1.0 { "; that includes 1, so recording may cost nothing" } else { "" };
    format!(
        "a recorded boot takes {:.3} times as long as a plain one ({:.3} to {:.3}{sure}): {}",
        o.ratio, o.low, o.high, o.how
    )
}

fn rate(hz: f64) -> String {
    let (value, unit) = match hz {
        hz if hz >= 1e9 => (hz / 1e9, "GHz"),
        hz if hz >= 1e6 => (hz / 1e6, "MHz"),
        hz => (hz / 1e3, "kHz"),
    };
    format!("{value:.6} {unit}")
}
