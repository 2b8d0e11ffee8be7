//! Several boots in one file, as people paste them to compare: each begins with another summary.

use super::{Analysis, Finished, Link, Times};
use crate::formats::several_boots::boot_number;
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// Far more boots than a paste has.
const BOOTS_MAX: usize = 1 << 12;

/// The parts of an account that are one boot's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Boot {
    finished: Option<Finished>,
    reached: Option<(String, Ns)>,
    blame: Vec<(String, Ns, u32)>,
    chain: Vec<Link>,
    times: Vec<Times>,
    /// The number of the line with its summary.
    line: u32,
}

/// The boots before the one that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Earlier {
    boots: Vec<Boot>,
    /// The line with the summary of the boot that is read; 0 if this file has none yet.
    line: u32,
}

impl Earlier {
    pub(super) fn begin_file(&mut self) {
        self.line = 0;
    }

    pub(super) fn begins_at(&mut self, line: u32) {
        self.line = line;
    }
}

impl Analysis {
    /// True if a summary is not of the boot that this file is about so far.
    pub(super) fn is_another_boot(&self, finished: &Finished) -> bool {
        let is_other = self.finished.as_ref().is_some_and(|known| known != finished);
        is_other && self.earlier.line > 0 && self.earlier.boots.len() < BOOTS_MAX
    }

    /// Begins the boot with this summary.
    pub(super) fn begin_boot(&mut self, finished: Finished, line: u32) {
        let mut boot = Boot { finished: Some(finished), line, ..Boot::default() };
        self.swap(&mut boot);
        self.earlier.boots.push(boot);
    }

    fn swap(&mut self, boot: &mut Boot) {
        std::mem::swap(&mut self.finished, &mut boot.finished);
        std::mem::swap(&mut self.reached, &mut boot.reached);
        std::mem::swap(&mut self.blame, &mut boot.blame);
        std::mem::swap(&mut self.chain, &mut boot.chain);
        std::mem::swap(&mut self.times, &mut boot.times);
        std::mem::swap(&mut self.earlier.line, &mut boot.line);
    }

    /// Keeps one of several boots: 0 is the last, which is kept if none is chosen, -1 the one before.
    pub(crate) fn keep_boot(&mut self, file: &str, chosen: Option<i32>, diagnostics: &mut Diagnostics) {
        let mut earlier = std::mem::take(&mut self.earlier.boots);
        if earlier.is_empty() {
            return;
        }
        let number = chosen.unwrap_or_default().unsigned_abs() as usize;
        if number > earlier.len() {
            diagnostics.note_about(DiagnosticKind::LogBootMissing, &boot_number(number), || file.to_owned());
        } else if number > 0 {
            let place = earlier.len() - number;
            let mut boot = std::mem::take(&mut earlier[place]);
            self.swap(&mut boot);
            // The boots stay in their order, without the one that is kept.
            earlier.remove(place);
            earlier.push(boot);
        }
        let kept = if number > earlier.len() { 0 } else { number };
        let others = (0..=earlier.len()).rev().filter(|behind| *behind != kept);
        for (boot, behind) in earlier.iter().zip(others) {
            let total = boot.finished.as_ref().and_then(|finished| finished.total);
            let total = total.map_or_else(String::new, |total| format!(", {:.3} s", total.0 as f64 / 1e9));
            let about = format!("boot {}, line {}{total}", boot_number(behind), boot.line);
            diagnostics.note_about(DiagnosticKind::LogOtherBoot, &about, || format!("{file}:{}", boot.line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASTE: &[u8] = b"Startup finished in 2.108s (kernel) + 10.134s (userspace) = 12.242s\na.target reached after 10.133s in userspace.\n\
        Startup finished in 2.090s (kernel) + 10.145s (userspace) = 12.235s\n\
        Startup finished in 2.090s (kernel) + 10.145s (userspace) = 12.235s\n5.000s x.service\n\
        Startup finished in 546ms (kernel) + 9.931s (userspace) = 10.477s\na.target reached after 9.930s in userspace.\n";

    #[test]
    fn each_summary_of_a_paste_is_a_boot() {
        let check = |chosen: Option<i32>, total_ms: i64, blamed: usize, others: u64| {
            let mut diagnostics = Diagnostics::default();
            let mut analysis = Analysis::default();
            analysis.read("a.txt", PASTE, &mut diagnostics);
            analysis.keep_boot("a.txt", chosen, &mut diagnostics);
            let finished = analysis.finished.unwrap();
            assert_eq!((finished.total, analysis.blame.len()), (Some(Ns::from_ms(total_ms)), blamed), "{chosen:?}");
            assert_eq!(diagnostics.count(DiagnosticKind::LogOtherBoot), others, "{chosen:?}");
            diagnostics
        };
        check(None, 10_477, 0, 2);
        check(Some(-1), 12_235, 1, 2);
        check(Some(-2), 12_242, 0, 2);
        assert_eq!(check(Some(-3), 10_477, 0, 2).count(DiagnosticKind::LogBootMissing), 1);
    }
}
