//! Slow spots of the reference kernel that only its own table of experiments names.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Value};
use crate::{Need, Remedy, Seen, lab_switch};
use lab::experiments::{Experiment, Measure};
use timeline::{Ns, Os, SpanRow};

pub const DETECTOR: Detector = Detector {
    id: "reference-kernel",
    title: "a switch of the reference kernel makes it slow",
    rule: "The reference kernel was booted with the words of an experiment, and its table names the functions, probes, mounts \
           and SYSINITs that these words make slow. Rules for any kernel come first.",
    source: "the table of experiments of the reference kernel, with the author of each",
    threshold: "half a per cent of the boot",
    price: "as much is left as was published for the first remedy; at the best nothing, at the worst all",
    needs: &[Need::BootPath],
    look,
};

const MIN_SHARE: f64 = 0.005;

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os != Os::Lab {
        return Vec::new();
    }
    let booted = lab_switch::booted_slow(seen.machine);
    booted.flat_map(|experiment| experiment.blamed.iter().filter_map(move |row| draft(seen, experiment, row))).collect()
}

fn draft(seen: &Seen, experiment: &Experiment, row: &str) -> Option<Draft> {
    let spans: Vec<SpanRow> =
        seen.spans().map(|(_, span)| span).filter(|span| seen.called((span.name, span.detail)) == row).collect();
    let total: Ns = spans.iter().map(SpanRow::length).sum();
    let longest = spans.iter().max_by_key(|span| span.length())?;
    if (total.0 as f64) < seen.end.0 as f64 * MIN_SHARE {
        return None;
    }
    let left = Left::of(0.0, published(experiment), 1.0);
    Some(Draft {
        about: (longest.name, longest.detail),
        figures: vec![
            Figure { of: "calls", value: Value::Count(spans.len() as u64) },
            Figure { of: "in all", value: Value::Time(total) },
        ],
        parts: spans.iter().map(|span| Part { stretch: seen.stretch(span), left }).collect(),
        confidence: Confidence::Medium,
        remedy: Remedy::code("boot the reference kernel with the other words of its switch"),
    })
}

/// The share of the time that was left after the first remedy of the published boot; 0 if nothing was published.
fn published(experiment: &Experiment) -> f64 {
    let of_figure = || {
        let figure = experiment.figures.first()?;
        Some((figure.slow_us? as f64, figure.fast_us? as f64))
    };
    let of_calls = || {
        let calls = experiment.amounts.iter().find(|amount| amount.of == Measure::SystemCall)?;
        Some((calls.slow? as f64, *calls.fast.first()? as f64))
    };
    let left = |(slow, fast): (f64, f64)| if slow > 0.0 { (fast / slow).clamp(0.0, 1.0) } else { 0.0 };
    of_figure().or_else(of_calls).map_or(0.0, left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Found;
    use crate::remedy::Change;
    use crate::seen::testing::{Log, ms};

    fn boot(os: Os, line: &str) -> Found {
        let mut log = Log::new();
        log.machine.os = os;
        log.machine.command_line = Some(line.split(' ').map(str::to_owned).collect());
        log.call("works", ms(100));
        log.call("system_calls", ms(344));
        log.call("works", ms(100));
        log.found_by(&[DETECTOR])
    }

    #[test]
    fn a_row_of_an_experiment_is_found_with_its_switch() {
        let found = boot(Os::Lab, "calls=20000 syscall=traced");
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.about.as_str(), only.price.low, only.price.high), ("system_calls", ms(0), ms(344)));
        assert_eq!(only.price.likely, ms(344 - 236), "as published");
        let [from, to] = ["syscall=traced", "syscall=flat"].map(|word| vec![word.to_owned()]);
        assert_eq!(only.remedy.changes, [Change::LabSwitch { from, to }]);
    }

    #[test]
    fn other_kernels_and_other_boots_are_not() {
        assert!(boot(Os::FreeBsd, "calls=20000 syscall=traced").findings.is_empty());
        assert!(boot(Os::Lab, "calls=20000 syscall=flat").findings.is_empty());
        assert!(boot(Os::Lab, "syscall=traced").findings.is_empty(), "without the words of the experiment");
    }
}
