//! The table of figures: measured, promised, and kept or not.

use std::fmt;

/// The promise for a figure.
#[derive(Clone, Copy)]
pub enum Promise {
    AtMost(f64),
    AtLeast(f64),
    /// No promise: the figure is only printed.
    None,
}

/// The unit of a quantity, with its format.
#[derive(Clone, Copy)]
pub struct Unit {
    pub name: &'static str,
    pub digits: usize,
}

pub const RATIO: Unit = Unit { name: "", digits: 3 };
pub const PERCENT: Unit = Unit { name: "%", digits: 2 };
pub const MS: Unit = Unit { name: "ms", digits: 0 };
pub const SECONDS: Unit = Unit { name: "s", digits: 2 };
pub const MILLIONS: Unit = Unit { name: "M instructions", digits: 1 };
pub const MB: Unit = Unit { name: "MB", digits: 0 };
pub const MB_PER_S: Unit = Unit { name: "MB/s", digits: 0 };
pub const SLOW_MB_PER_S: Unit = Unit { name: "MB/s", digits: 2 };

/// The figures of a run.
#[derive(Default)]
pub struct Table {
    lines: Vec<Line>,
}

struct Line {
    figure: String,
    found: Found,
}

enum Found {
    /// The measured value, the promise, and whether it was kept.
    Measured(String, String, Option<bool>),
    /// A requirement of the measurement is missing here.
    Skipped(String),
    /// The measurement failed, which keeps no promise.
    Failed(String),
}

impl Table {
    /// Adds a figure; `aside` follows it in brackets.
    pub fn add(&mut self, figure: &str, measured: f64, unit: Unit, promise: Promise, aside: &str) {
        let write = |value: f64| format!("{value:.*} {}", unit.digits, unit.name).trim_end().to_owned();
        let (promised, kept) = match promise {
            Promise::AtMost(limit) => (format!("≤ {}", write(limit)), Some(measured <= limit)),
            Promise::AtLeast(limit) => (format!("≥ {}", write(limit)), Some(measured >= limit)),
            Promise::None => (String::new(), None),
        };
        let aside = if aside.is_empty() { String::new() } else { format!(" ({aside})") };
        let measured = format!("{}{aside}", write(measured));
        self.lines.push(Line { figure: figure.to_owned(), found: Found::Measured(measured, promised, kept) });
    }

    /// Adds the median of several values, with their range.
    pub fn add_all(&mut self, figure: &str, mut measured: Vec<f64>, unit: Unit, promise: Promise, aside: &str) {
        measured.sort_by(f64::total_cmp);
        let [low, .., high] = measured[..] else { return self.fail(figure, "measured less than twice") };
        let aside = format!("{low:.*}–{high:.*}, {aside}", unit.digits, unit.digits);
        self.add(figure, measured[measured.len() / 2], unit, promise, &aside);
    }

    /// Adds a figure that cannot be measured here.
    pub fn skip(&mut self, figure: &str, why: &str) {
        self.lines.push(Line { figure: figure.to_owned(), found: Found::Skipped(why.to_owned()) });
    }

    /// Adds a figure whose measurement failed.
    pub fn fail(&mut self, figure: &str, why: &str) {
        self.lines.push(Line { figure: figure.to_owned(), found: Found::Failed(why.to_owned()) });
    }

    /// True if no measured promise was broken and no measurement failed.
    pub fn kept(&self) -> bool {
        !self.lines.iter().any(|line| matches!(line.found, Found::Measured(_, _, Some(false)) | Found::Failed(_)))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<44} {:<30} {:<14} kept", "figure", "measured", "promised")?;
        for Line { figure, found } in &self.lines {
            match found {
                Found::Measured(measured, promised, kept) => {
                    let kept = kept.map_or("", |kept| if kept { "yes" } else { "NO" });
                    writeln!(f, "{figure:<44} {measured:<30} {promised:<14} {kept}")?;
                }
                Found::Skipped(why) => writeln!(f, "{figure:<44} skipped: {why}")?,
                Found::Failed(why) => writeln!(f, "{figure:<44} FAILED: {why}")?,
            }
        }
        Ok(())
    }
}

/// The last line that a program printed, which usually has the reason of a failure.
pub fn last_line(output_text: &[u8]) -> String {
    String::from_utf8_lossy(output_text)
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("it said nothing")
        .to_owned()
}
