//! The picture that `systemd-analyze plot` draws, from which its figures are read back.
//!
//! ```text
//! <text x="20" y="50">Startup finished in 3.614s (kernel) + 8.121s (userspace) = 11.735s
//! graphical.target reached after 8.056s in userspace</text><text x="20" y="30">Ubuntu 20.04 host (Linux 4.9.103+ #1 SMP …) arm64 </text>…
//! <text class="sec" x="100.000" y="-5.000" >1.0s</text>                  the scale: 100 pixels of a second, unless another was requested
//! <rect class="kernel" x="0.000" y="0.000" width="361.436" … />          a stage, from the kernel's zero
//! <text class="left" x="5.000" y="14.000">kernel</text>                  ends a row; firmware and loader are left of 0
//! <rect class="active" … />, "security", "generators", "unitsload"       the row of systemd itself
//! <rect class="activating" …>, "active", "deactivating"                  the row of a unit
//! <text class="left" …>dev-sda6.device (1.672s)</text>
//! ```
//! (systemd, `src/analyze/analyze-plot.c`.) Lengths have three decimals of a pixel, which are 10 µs. What goes on when the boot is done ends
//! with it.
//!
//! It takes one line at a time and keeps a row's bars until the row's text comes.

use super::line::NAME_MAX;
use super::{Finished, Stage, Times};
use crate::input::text::{lossy, seconds};
use memchr::memmem;
use timeline::Ns;

/// Pixels of a second, in thousandths, unless the picture's axis has another scale.
const SCALE: i64 = 100_000;
/// A row of systemd's has four bars.
const BARS_MAX: usize = 8;
const RECT: &[u8] = b"<rect class=\"";
/// The classes of bars, and of the stages among them.
const CLASSES: [(&[u8], Option<Stage>); 11] = [
    (b"firmware", Some(Stage::Firmware)),
    (b"loader", Some(Stage::Loader)),
    (b"kernel", Some(Stage::Kernel)),
    (b"initrd", Some(Stage::Initrd)),
    (b"soft-reboot", Some(Stage::SoftReboot)),
    (b"activating", None),
    (b"active", None),
    (b"deactivating", None),
    (b"security", None),
    (b"generators", None),
    (b"unitsload", None),
];
const ACTIVATING: usize = 5;
const ACTIVE: usize = 6;
const DEACTIVATING: usize = 7;
const SECURITY: usize = 8;

/// A bar: its class, its left end and its length in thousandths of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bar {
    class: usize,
    from: i64,
    length: i64,
}

/// The parts of a picture that are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plot {
    /// The stages by their bars.
    pub stages: Vec<(Stage, Ns)>,
    /// Start and end of each part of systemd's own work, in the order of [`super::state::WORK`].
    pub work: [Option<(Ns, Ns)>; 3],
    /// The kernel's release.
    pub release: Option<String>,
    scale: Option<i64>,
    bars: Vec<Bar>,
}

/// The content of a line.
pub(super) enum Found {
    Bar,
    Unit(Times),
    /// Text outside of the rows.
    Other,
}

/// True for a bar of a stage or unit.
pub(super) fn is_line(line: &[u8]) -> bool {
    bar(line).is_some()
}

/// The value of an attribute, in thousandths.
fn attribute(line: &[u8], name: &[u8]) -> Option<i64> {
    let rest = &line[memmem::find(line, name)? + name.len()..];
    let (sign, rest) = rest.strip_prefix(b"-").map_or((1, rest), |rest| (-1, rest));
    let (value, _, rest) = seconds(rest)?;
    // An end that is no number's.
    rest.starts_with(b"\"").then_some(())?;
    Some(sign * i64::try_from(value / 1_000_000).ok()?)
}

fn bar(line: &[u8]) -> Option<Bar> {
    let rest = line.trim_ascii_start().strip_prefix(RECT)?;
    let class =
        CLASSES.iter().position(|(name, _)| rest.strip_prefix(*name).is_some_and(|r| r.starts_with(b"\" x=\"")))?;
    let (from, length) = (attribute(rest, b" x=\"")?, attribute(rest, b" width=\"")?);
    (length >= 0).then_some(Bar { class, from, length })
}

/// The text of a row or of the axis, and its class.
fn text_of(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.trim_ascii_start().strip_prefix(b"<text class=\"")?;
    let (class, rest) = rest.split_at(memchr::memchr(b'"', rest)?);
    let text = &rest[memchr::memchr(b'>', rest)? + 1..];
    Some((class, &text[..memmem::find(text, b"</text>")?]))
}

/// A line without the tags around the picture's summary.
pub(super) fn without_tags(line: &[u8]) -> &[u8] {
    let text = line.strip_prefix(b"<text x=\"20\" y=\"50\">").unwrap_or(line);
    memmem::find(text, b"</text>").map_or(text, |end| &text[..end])
}

/// `Ubuntu 20.04.6 LTS host (Linux 4.9.103+ #1 SMP …) arm64`
fn release(line: &[u8]) -> Option<String> {
    let at = memmem::find(line, b"<text x=\"20\" y=\"30\">")?;
    let rest = &line[memmem::find(&line[at..], b"(Linux ")? + at + 7..];
    let release = rest.split(|byte| b" )<".contains(byte)).next()?;
    (!release.is_empty() && release.len() <= NAME_MAX).then(|| lossy(release).into_owned())
}

impl Plot {
    /// Takes a line, if it is of a picture.
    pub(super) fn line(&mut self, line: &[u8]) -> Option<Found> {
        if let Some(bar) = bar(line) {
            if self.bars.len() < BARS_MAX {
                self.bars.push(bar);
            }
            return Some(Found::Bar);
        }
        if let Some(release) = release(line) {
            self.release.get_or_insert(release);
            return None;
        }
        let (class, text) = text_of(line)?;
        if class == b"sec" {
            self.scale = self.scale.or_else(|| scale(line, text));
            return Some(Found::Other);
        }
        let bars = std::mem::take(&mut self.bars);
        let unit = match bars[..] {
            [
                Bar { class: ACTIVATING, from, .. },
                active @ Bar { class: ACTIVE, .. },
                stops @ Bar { class: DEACTIVATING, .. },
            ] => self.unit(text, from, active, stops),
            _ => {
                self.row(text, &bars);
                None
            }
        };
        Some(unit.map_or(Found::Other, Found::Unit))
    }

    /// A time on the kernel's clock.
    fn at(&self, pixels: i64) -> Ns {
        let scale = i128::from(self.scale.unwrap_or(SCALE));
        Ns(i64::try_from(i128::from(pixels) * 1_000_000_000 / scale).unwrap_or(i64::MAX))
    }

    /// `dev-sda6.device (1.672s)`
    fn unit(&self, text: &[u8], from: i64, active: Bar, stops: Bar) -> Option<Times> {
        let name = match memmem::rfind(text, b" (").filter(|_| text.ends_with(b")")) {
            Some(bracket) => &text[..bracket],
            None => text,
        };
        let (activating, activated) = (self.at(from), self.at(active.from).max(self.at(from)));
        let stop = (self.at(stops.from), self.at(stops.from.saturating_add(stops.length)));
        let stopping = Some(stop).filter(|(from, until)| activated <= *from && from < until);
        let is_name = !name.is_empty() && activating >= Ns::ZERO;
        let unit = || lossy(&name[..name.len().min(NAME_MAX)]).into_owned();
        is_name.then(|| Times { unit: unit(), activating, activated, stopping })
    }

    /// The row of a stage, or of systemd itself.
    fn row(&mut self, text: &[u8], bars: &[Bar]) {
        let stage = match bars.first() {
            Some(Bar { class: ACTIVE, .. }) if text == b"systemd" => Some(Stage::Userspace),
            Some(bar) if CLASSES[bar.class].0 == text => CLASSES[bar.class].1,
            _ => None,
        };
        let (Some(stage), Some(first)) = (stage, bars.first()) else { return };
        if self.stages.iter().any(|(known, _)| *known >= stage) {
            return;
        }
        // The kernel's bar goes on to systemd, and the initrd's begins within it or at its end.
        let (mut from, until) = (self.at(first.from), self.at(first.from.saturating_add(first.length)));
        if stage == Stage::Userspace {
            let before =
                self.stages.iter().filter(|(stage, _)| *stage >= Stage::Kernel).map(|(_, took)| *took).sum::<Ns>();
            // Two bars that meet are each rounded.
            from = if before > Ns::ZERO && (from - before).abs() <= Ns::from_us(10) { before } else { from };
            for bar in bars.iter().filter(|bar| bar.class >= SECURITY && bar.length > 0) {
                self.work[bar.class - SECURITY] =
                    Some((self.at(bar.from), self.at(bar.from.saturating_add(bar.length))));
            }
        }
        self.stages.push((stage, until - from));
    }

    /// The stages, if the picture has them all.
    pub(super) fn finished(&self, printed: Option<&Finished>) -> Option<Finished> {
        let has = |stage: Stage| self.stages.iter().any(|(known, _)| *known == stage);
        let all = printed.is_none_or(|printed| printed.stages.iter().all(|(stage, _)| has(*stage)));
        (all && has(Stage::Userspace)).then(|| Finished { stages: self.stages.clone(), total: None })
    }
}

/// Pixels of a second, in thousandths, by a figure of the axis.
fn scale(line: &[u8], text: &[u8]) -> Option<i64> {
    let (at, _, rest) = seconds(text)?;
    let x = attribute(line, b" x=\"").filter(|x| *x > 0)?;
    let scale = i128::from(x) * 1_000_000_000 / i128::from(at).max(1);
    (rest == b"s" && at > 0).then(|| i64::try_from(scale).ok()).flatten().filter(|scale| *scale > 0)
}

#[cfg(test)]
mod tests {
    use super::super::Analysis;
    use super::*;
    use timeline::Diagnostics;

    fn read(text: &str) -> Analysis {
        let mut analysis = Analysis::default();
        analysis.read("plot.svg", text.as_bytes(), &mut Diagnostics::default());
        analysis
    }

    fn row(bars: &[(&str, f64, f64)], text: &str) -> String {
        let bars = bars.iter().map(|(class, x, width)| {
            format!("  <rect class=\"{class}\" x=\"{x:.3}\" y=\"0.000\" width=\"{width:.3}\" height=\"19.000\" />\n")
        });
        bars.collect::<String>() + &format!("  <text class=\"left\" x=\"5.000\" y=\"14.000\">{text}</text>\n")
    }

    #[test]
    fn every_stage_has_its_bar_and_firmware_is_left_of_zero() {
        let text = [
            row(&[("firmware", -300.0, 200.0)], "firmware"),
            row(&[("loader", -100.0, 100.0)], "loader"),
            row(&[("kernel", 0.0, 150.001)], "kernel"),
            row(&[("initrd", 150.001, 50.0), ("generators", 151.0, 1.0)], "initrd"),
            row(&[("active", 200.002, 400.0), ("generators", 201.0, 2.5)], "systemd"),
            row(
                &[("activating", 210.0, 20.0), ("active", 230.0, 100.0), ("deactivating", 330.0, 30.0)],
                r"a\x2db.service (200ms)",
            ),
            row(&[("activating", 0.0, 30.0)], "Activating"),
            row(&[("generators", 0.0, 30.0)], "Generators"),
        ];
        let analysis = read(&text.concat());
        let us = |us| Ns::from_us(us);
        let stages = [
            (Stage::Firmware, us(2_000_000)),
            (Stage::Loader, us(1_000_000)),
            (Stage::Kernel, us(1_500_010)),
            (Stage::Initrd, us(500_000)),
            (Stage::Userspace, us(4_000_010)),
        ];
        assert_eq!(analysis.plot.finished(None).unwrap().stages, stages);
        assert_eq!(analysis.plot.work, [None, Some((us(2_010_000), us(2_035_000))), None]);
        let (activating, activated) = (us(2_100_000), us(2_300_000));
        let stopping = Some((us(3_300_000), us(3_600_000)));
        assert_eq!(analysis.times, [Times { unit: r"a\x2db.service".into(), activating, activated, stopping }]);
    }

    #[test]
    fn the_axis_has_the_scale() {
        let axis = "  <text class=\"sec\" x=\"0.000\" y=\"-5.000\" >0.0s</text>\n  <text class=\"sec\" x=\"250.000\" y=\"-5.000\" >1.0s</text>\n";
        let analysis = read(&(axis.to_owned() + &row(&[("kernel", 0.0, 500.0)], "kernel")));
        assert_eq!(analysis.plot.stages, [(Stage::Kernel, Ns::from_ms(2000))]);
    }
}
