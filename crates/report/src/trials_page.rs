//! All tries of a history as a page of Markdown: for each detector, the claims and the measurements on each kernel.

use crate::harmless;
use crate::trial::{ProofLine, range, time, unit_of, word};
use benchmark::history::PastTrial;
use benchmark::trial::{Cause, Proof, is_at_price};
use findings::DETECTORS;
use std::fmt::Write;

/// The heading of the notes that users write at the end of the page.
pub const PROOFS_NOTES: &str = "\n## Notes\n";

/// The page. `file` is the file that it is written into.
pub fn proofs_page(trials: &[PastTrial], file: &str) -> String {
    let newest = newest(trials);
    let is_claim = |past: &&PastTrial| !past.together && !past.remedy.findings.is_empty();
    let of_findings: Vec<&PastTrial> = newest.iter().copied().filter(is_claim).collect();
    let command = code(&format!("bootscope try --page {file}"));
    let mut out = format!("# Findings: claimed and measured\n\n{command} wrote this page out of its history. {HEAD}");
    out.push_str(&counts(&of_findings));
    let refuted = |tries: &[&PastTrial]| tries.iter().filter(|past| past.tried.proof == Some(Proof::Refuted)).count();
    let gone = refuted(&trials.iter().filter(is_claim).collect::<Vec<_>>()) - refuted(&of_findings);
    let _ = writeln!(out, "Of other tries of these claims, which newer or longer ones replace, {gone} were refuted.");
    let mut others: Vec<&str> = rules(&of_findings);
    others.retain(|rule| findings::named(rule).is_none());
    let detectors = DETECTORS.iter().map(|rule| (rule.id, rule.title));
    for (rule, title) in detectors.chain(others.into_iter().map(|rule| (rule, "a rule of another version"))) {
        let of_rule: Vec<&PastTrial> =
            of_findings.iter().copied().filter(|past| past.remedy.findings[0].rule == rule).collect();
        let _ = write!(out, "\n## {}\n{}.\n\n", harmless(rule), harmless(title));
        if of_rule.is_empty() {
            out.push_str("Not tried.\n");
        } else {
            table(&of_rule, &mut out);
        }
    }
    let of_users: Vec<&PastTrial> =
        newest.iter().copied().filter(|past| !past.together && past.remedy.findings.is_empty()).collect();
    if !of_users.is_empty() {
        out.push_str("\n## Remedies of users\nNo finding proposed them. They are not among the claims that are counted above.\n\n");
        table(&of_users, &mut out);
    }
    let together: Vec<&PastTrial> = newest.iter().copied().filter(|past| past.together).collect();
    if !together.is_empty() {
        out.push_str("\n## All confirmed remedies together\nOf one try each.\n\n");
        table(&together, &mut out);
    }
    out
}

/// The tries that count: one per remedy and boot. A complete try comes before one that was cut off, then the one with
/// most boots, then the newest.
fn newest(trials: &[PastTrial]) -> Vec<&PastTrial> {
    let measured: Vec<&PastTrial> = trials.iter().filter(|past| past.tried.proof.is_some()).collect();
    let rank = |at: usize| (measured[at].whole, measured[at].tried.boots, at);
    let counts = |&at: &usize| {
        let others = (0..measured.len()).filter(|&other| is_same(measured[at], measured[other]));
        others.max_by_key(|&other| rank(other)) == Some(at)
    };
    (0..measured.len()).filter(counts).map(|at| measured[at]).collect()
}

fn is_same(one: &PastTrial, other: &PastTrial) -> bool {
    let about = |past: &PastTrial| -> Vec<(String, String)> {
        past.remedy.findings.iter().map(|finding| (finding.rule.clone(), finding.about.clone())).collect()
    };
    (&one.kernel, &one.setup, one.together) == (&other.kernel, &other.setup, other.together)
        && one.remedy.changes == other.remedy.changes
        && about(one) == about(other)
}

fn rules<'a>(trials: &[&'a PastTrial]) -> Vec<&'a str> {
    let mut rules: Vec<&str> = trials.iter().map(|past| past.remedy.findings[0].rule.as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

fn counts(trials: &[&PastTrial]) -> String {
    let count = |proof: Proof| trials.iter().filter(|past| past.tried.proof == Some(proof)).count();
    let (all, confirmed) = (trials.len(), count(Proof::Confirmed));
    let share = if all == 0 { 0.0 } else { 100.0 * confirmed as f64 / all as f64 };
    let (refuted, noisy, broke) = (count(Proof::Refuted), count(Proof::TooNoisy), count(Proof::BreaksTheBoot));
    let at_price = |past: &&&PastTrial| {
        past.tried.proof == Some(Proof::Confirmed)
            && past
                .remedy
                .claimed
                .zip(past.tried.measured)
                .is_some_and(|(claimed, measured)| is_at_price(&claimed, &measured))
    };
    let near = trials.iter().filter(at_price).count();
    let how = format!("{near} within 10 % of the price, {} elsewhere within its interval", confirmed - near);
    let others = format!("{refuted} refuted, {noisy} too noisy, {broke} broke the boot");
    format!("{all} claims were tried. {confirmed} confirmed ({share:.0} %): {how}. {others}.\n")
}

fn table(trials: &[&PastTrial], out: &mut String) {
    out.push_str(
        "|kernel|machine|recording|boot|about|remedy|claimed|measured|of the claim|verdict|\n\
         |---|---|---|---:|---|---|---:|---:|---:|---|\n",
    );
    let mut remarks = Vec::new();
    for past in trials {
        let line = ProofLine::of(&past.remedy, &past.tried);
        let setup = &past.setup;
        let cpus = if setup.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", setup.cpus) };
        let unit = if past.deterministic { "guest time" } else { setup.accelerator.as_str() };
        let counted_in = unit_of(past.deterministic);
        let about: Vec<&str> = line.findings.iter().map(|finding: &Cause| finding.about.as_str()).collect();
        let changes: Vec<String> = line.changes.iter().map(crate::ChangeLine::short).collect();
        let share = line.measured.zip(line.claimed).filter(|(_, claimed)| claimed.likely_ns > 0.0);
        let share = share
            .map_or("-".to_owned(), |(found, claimed)| format!("{:.0} %", 100.0 * found.likely_ns / claimed.likely_ns));
        let cells = [
            cell(&past.kernel),
            cell(&format!("{}, {cpus}, {} MiB, {unit}", setup.machine, setup.memory_bytes >> 20)),
            recorded(past),
            past.base_ns.map_or("-".to_owned(), |ns| time(counted_in, ns)),
            code(&about.join(", ")),
            code(&changes.join(" ")),
            range(counted_in, line.claimed),
            range(counted_in, line.measured),
            share,
            word(line.verdict).to_owned(),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
        let title = line.findings.first().map_or("a remedy of a user", |finding| finding.title.as_str());
        if let Some(along) = line.along_text() {
            remarks.push(format!("* {} on {}: {}", cell(title), cell(&past.kernel), cell(&along)));
        }
        if !line.why.is_empty() {
            remarks.push(format!(
                "* {} on {}: {}: {}",
                cell(title),
                cell(&past.kernel),
                word(line.verdict),
                cell(&line.why)
            ));
        }
    }
    if !remarks.is_empty() {
        let _ = writeln!(out, "\n{}", remarks.join("\n"));
    }
}

/// The kind of the recording that the claims are about.
fn recorded(past: &PastTrial) -> String {
    let quiet = past.setup.append.split_whitespace().any(|word| word == "quiet").then_some("quiet");
    let followed = match past.followed {
        Some(true) => Some("followed"),
        Some(false) => None,
        None => Some("?"),
    };
    let parts: Vec<&str> = quiet.into_iter().chain(followed).collect();
    if parts.is_empty() { "plain".to_owned() } else { parts.join(", ") }
}

/// Untrusted text, escaped for a cell of a table.
fn cell(text: &str) -> String {
    let mut safe = String::new();
    for c in harmless(text).chars() {
        if "\\`*_[]<>|&#".contains(c) {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

/// Untrusted text as code, or as text if it has a character that ends code.
fn code(text: &str) -> String {
    if text.is_empty() || text.contains(['`', '|', '\n']) { cell(text) } else { format!("`{}`", harmless(text)) }
}

const HEAD: &str = "\
Each line is a finding's remedy
that was booted beside the same guest without it. What stands below *Notes* is a person's.

* *recording*: how the recording was made whose claims these are. *quiet*: with that word on the command line. *followed*: with
  `--trace calls`. *plain*: neither. *?*: the history does not have whether it was followed.
* *boot*: what the boot takes without the remedy.
* *claimed*: what the finding said before, with its interval: the boot replayed with less time there.
* *measured*: how much shorter the boots with the remedy were, with the interval of the comparison.
* *confirmed*: the boot is faster, and the estimate lies in the claimed interval, widened to ±10 % of the price. *refuted*:
  the two intervals have no value in common, or the boot is not faster and so much cannot hide in the noise. *too noisy*:
  neither. *breaks the boot*: it does not reach its end mark. One round has one memory layout. So it says nothing of savings of
  less than 3 % of the boot.
* *guest time*: deterministic boots, in which one instruction is one nanosecond; the figures are the same on every host.

";

#[cfg(test)]
pub mod testing {
    //! Tries for tests.

    use super::*;
    use benchmark::history::Setup;
    use benchmark::trial::{Remedy, Saved, Tried};

    /// A try of a remedy whose claimed saving is 100 ms.
    pub fn past(rule: &str, kernel: &str, ms: f64, proof: Proof) -> PastTrial {
        let finding = Cause { rule: rule.to_owned(), about: "f".to_owned(), title: "f: it|is slow".to_owned() };
        let saved = |ms: f64| Some(Saved { low_ns: ms * 1e6, likely_ns: ms * 1e6, high_ns: ms * 1e6 });
        let change = findings::Change::AppendWords(vec!["a=1".to_owned()]);
        PastTrial {
            bench: 1,
            created: "2026-01-01T00:00:00Z".to_owned(),
            kernel: kernel.to_owned(),
            setup: Setup { machine: "pc".to_owned(), cpus: 2, memory_bytes: 512 << 20, ..Setup::default() },
            deterministic: true,
            followed: Some(false),
            base_ns: Some(1e9),
            remedy: Remedy { findings: vec![finding], changes: vec![change], claimed: saved(100.0), along: Vec::new() },
            together: false,
            whole: true,
            tried: Tried {
                measured: saved(ms),
                proof: Some(proof),
                rounds_needed: None,
                basis: None,
                uncountable: Vec::new(),
                boots: 1,
                failed: 0,
                failure: None,
                base: (1, 0),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::past;
    use super::*;
    use benchmark::trial::Saved;

    #[test]
    fn a_try_of_fewer_boots_does_not_replace_one_of_more() {
        let mut long = past("calibration", "6.1", 99.0, Proof::Confirmed);
        long.tried.boots = 6;
        let short = past("calibration", "6.1", 50.0, Proof::Refuted);
        let page = proofs_page(&[long, short], "page.md");
        assert!(
            page.contains("1 claims were tried. 1 confirmed (100 %)") && page.contains("1 were refuted."),
            "{page}"
        );
    }

    #[test]
    fn a_try_that_was_cut_off_replaces_nothing() {
        let whole = past("calibration", "6.1", 99.0, Proof::Confirmed);
        let cut = PastTrial { whole: false, ..past("calibration", "6.1", 0.0, Proof::TooNoisy) };
        for trials in [[whole.clone(), cut.clone()], [cut.clone(), whole.clone()]] {
            let page = proofs_page(&trials, "page.md");
            assert!(page.contains("1 claims were tried. 1 confirmed (100 %)"), "{page}");
        }
        assert!(proofs_page(&[cut], "page.md").contains("1 too noisy"), "better than nothing");
    }

    #[test]
    fn a_wide_interval_and_a_user_s_own_remedy_are_counted_apart() {
        let mut wide = past("calibration", "6.1", 3.0, Proof::Confirmed);
        wide.remedy.claimed = Some(Saved { low_ns: 0.0, likely_ns: 100e6, high_ns: 100e6 });
        let mut of_user = past("none", "6.12", 50.0, Proof::Confirmed);
        of_user.remedy.findings.clear();
        of_user.remedy.along = vec!["-PROFILING".to_owned()];
        let page = proofs_page(&[wide, of_user], "page.md");
        assert!(
            page.contains("* a remedy of a user on 6.12: 1 option of the configuration changed too: -PROFILING\n"),
            "{page}"
        );
        assert!(
            page.contains("1 confirmed (100 %): 0 within 10 % of the price, 1 elsewhere within its interval"),
            "{page}"
        );
        assert!(page.contains("## Remedies of users\n") && page.contains("| 50.0 ms (50.0 ms) |"), "{page}");
    }

    #[test]
    fn each_line_says_how_its_recording_was_made() {
        let recorded = |append: &str, followed| {
            let mut past = PastTrial { followed, ..past("calibration", "6.1", 99.0, Proof::Confirmed) };
            past.setup.append = append.to_owned();
            super::recorded(&past)
        };
        assert_eq!(recorded("a quiet", Some(true)), "quiet, followed");
        assert_eq!(recorded("quiet=no", Some(true)), "followed");
        assert_eq!(recorded("", Some(false)), "plain");
        assert_eq!(recorded("quiet", None), "quiet, ?");
        assert_eq!(recorded("", None), "?");
    }

    #[test]
    fn the_newest_of_each_counts_and_none_is_left_out() {
        let trials = [
            past("calibration", "6.1", 0.0, Proof::Refuted),
            past("calibration", "6.1", 99.0, Proof::Confirmed),
            past("calibration", "6.12", 0.0, Proof::Refuted),
            past("of-old", "6.1", 98.0, Proof::Confirmed),
        ];
        let page = proofs_page(&trials, "page.md");
        assert!(page.contains("3 claims were tried. 2 confirmed (67 %): 2 within 10 % of the price, 0 "), "{page}");
        assert!(
            page.contains("\nOf other tries of these claims, which newer or longer ones replace, 1 were refuted.\n"),
            "{page}"
        );
        let line = "| 6.1 | pc, 2 CPUs, 512 MiB, guest time | plain | 1.00 s | `f` | `a=1` | 100 ms (100 ms) | 99.0 ms \
                    (99.0 ms) | 99 % | confirmed |";
        assert!(page.contains(line), "{page}");
        assert!(page.contains("\n`bootscope try --page page.md` wrote this page"), "{page}");
        assert!(page.contains("## of-old\n") && page.contains("## tsc-check\n"), "{page}");
        assert!(page.contains("* f: it\\|is slow on 6.12: refuted: it saves nothing"), "{page}");
    }
}
