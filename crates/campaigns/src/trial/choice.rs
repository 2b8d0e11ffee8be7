//! Chooses the remedies of a trial, and gives a reason for each finding that is not tried.

use super::apply_change;
use super::change_error::ChangeError;
use super::kernels::Kernels;
use super::{Request, claim};
use crate::boot_findings::{find, with_seen};
use crate::opened_boot::{self, OpenedBoot};
use anyhow::bail;
use benchmark::Document;
use benchmark::trial::{Cause, Proof, Remedy, Saved, Untried, tried};
use findings::{Change, Finding, joint_price};
use machine::{Patch, RecordOptions, Words};
use std::path::Path;

/// The most remedies if the user names no findings.
const MAX_REMEDIES: usize = 5;

/// The chosen remedies, and the findings that are not tried.
pub struct Choice {
    pub remedies: Vec<Remedy>,
    pub untried: Vec<Untried>,
}

impl Choice {
    /// Chooses among a boot's findings: the named ones, or the first.
    pub fn of(
        opened: &OpenedBoot,
        options: &RecordOptions,
        request: &Request,
        kernels: &mut Kernels,
    ) -> anyhow::Result<Choice> {
        let result = find(opened, usize::MAX);
        let only_own = request.findings.is_empty() && !user_remedies(request).is_empty();
        let is_named = |name: &String, finding: &Finding| *name == finding.rule.id || *name == finding.about;
        for name in &request.findings {
            if !result.findings.iter().any(|finding| is_named(name, finding)) {
                bail!(
                    "{name} was not found in {}: {}",
                    opened.recording.path().display(),
                    list_of_findings(&result.findings)
                );
            }
        }
        let wanted = |finding: &&Finding| {
            !only_own && (request.findings.is_empty() || request.findings.iter().any(|name| is_named(name, finding)))
        };
        let mut groups: Vec<Vec<&Finding>> = Vec::new();
        let mut untried = Vec::new();
        for finding in result.findings.iter().filter(wanted) {
            let same = groups.iter_mut().find(|group| group[0].remedy.changes == finding.remedy.changes);
            match (cannot(finding, options, kernels), same) {
                (Some(why), _) => untried.push(Untried { finding: cause(opened, finding), why }),
                // One change can be the remedy of several findings. It then saves the cost of all of them.
                (None, Some(group)) => group.push(finding),
                (None, None) => groups.push(vec![finding]),
            }
        }
        if request.findings.is_empty() && groups.len() > MAX_REMEDIES {
            let beyond = groups.drain(MAX_REMEDIES..).flatten();
            let why = format!("not among the first {MAX_REMEDIES} remedies; name one to try it");
            untried.extend(beyond.map(|finding| Untried { finding: cause(opened, finding), why: why.clone() }));
        }
        let mut remedies: Vec<Remedy> = Vec::new();
        for group in &groups {
            // A kernel that does not build must not end the whole trial.
            match super::with_remedy(options, &remedy(opened, group), kernels) {
                Ok(_) => remedies.push(remedy(opened, group)),
                Err(why @ ChangeError::Stopped(_)) => return Err(why.into()),
                Err(why) => untried.extend(
                    group.iter().map(|finding| Untried { finding: cause(opened, finding), why: why.to_string() }),
                ),
            }
        }
        remedies.extend(user_remedies(request));
        Ok(Choice { remedies, untried })
    }
}

fn list_of_findings(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "nothing was; `bootscope findings` says what was looked for".to_owned();
    }
    let all: Vec<String> = findings.iter().map(|f| format!("{} ({})", f.rule.id, f.about)).collect();
    format!("there are {}", all.join(", "))
}

/// The reason why a finding's remedy cannot be made, if any.
fn cannot(finding: &Finding, options: &RecordOptions, kernels: &Kernels) -> Option<String> {
    if finding.remedy.changes.is_empty() {
        return Some(format!("its remedy is no option of a boot: {}", finding.remedy.what));
    }
    let mut changed = options.clone();
    let made: Result<Vec<()>, ChangeError> =
        finding.remedy.changes.iter().map(|change| apply_change::check(change, &mut changed, kernels)).collect();
    match made {
        // One of several changes may be made already.
        Err(ChangeError::AlreadyMade) if changed != *options => None,
        Err(why) => Some(why.to_string()),
        Ok(_) => None,
    }
}

fn cause(opened: &OpenedBoot, finding: &Finding) -> Cause {
    let title = report::finding_title(&opened.timeline, finding);
    Cause { rule: finding.rule.id.to_owned(), about: finding.about.clone(), title }
}

fn remedy(opened: &OpenedBoot, group: &[&Finding]) -> Remedy {
    let claimed = with_seen(opened, |seen| joint_price(seen, group)).map(claim);
    let findings = group.iter().map(|finding| cause(opened, finding)).collect();
    Remedy { findings, changes: group[0].remedy.changes.clone(), claimed, along: Vec::new() }
}

/// The remedies that the user gave.
pub fn user_remedies(request: &Request) -> Vec<Remedy> {
    let claimed = request.claim.map(|time| time.0 as f64);
    let claimed = claimed.map(|ns| Saved { low_ns: ns, likely_ns: ns, high_ns: ns });
    let words = |text: &String| Change::AppendWords(text.split_whitespace().map(str::to_owned).collect());
    let options = |text: &String| Change::KernelConfig(text.split(',').map(|word| word.trim().to_owned()).collect());
    let patches = |patches: &Vec<Patch>| Change::Patch(patches.iter().map(Patch::to_string).collect());
    let changes = request.append.iter().map(words).chain(request.patches.iter().map(patches));
    let changes = changes.chain(request.config.iter().map(options));
    changes.map(|change| Remedy { changes: vec![change], claimed, ..Remedy::default() }).collect()
}

/// Refuses a user's remedy that cannot be made, before the findings are computed.
pub fn check_user_remedies(request: &Request, options: &RecordOptions, kernels: &Kernels) -> anyhow::Result<()> {
    if request.claim.is_some() && user_remedies(request).is_empty() {
        bail!("--claim is what a remedy of your own is said to save: give that with --append, --patch or --config");
    }
    for change in user_remedies(request).into_iter().flat_map(|remedy| remedy.changes) {
        let flag = match &change {
            Change::KernelConfig(options) => {
                kernels.refuse_unknown(options)?;
                "--config"
            }
            Change::Patch(_) => "--patch",
            _ => "--append",
        };
        if let Err(why) = apply_change::check(&change, &mut options.clone(), kernels) {
            bail!("{flag} {}: {why}", apply_change::setting(&change).value);
        }
    }
    Ok(())
}

/// Splits the remedies into those that can be made one after the other in the same boot, and the others with a reason.
/// A reason names settings in `words`.
pub fn fitting(
    options: &RecordOptions,
    remedies: Vec<Remedy>,
    kernels: &Kernels,
    words: Words,
) -> (Vec<Remedy>, Vec<Untried>) {
    let (mut fitting, mut untried) = (Vec::new(), Vec::new());
    let mut options = options.clone();
    for remedy in remedies {
        let mut with = options.clone();
        let check = |change: &Change| match apply_change::check(change, &mut with, kernels) {
            // One remedy may have made another's change.
            Ok(()) | Err(ChangeError::AlreadyMade) => Ok(()),
            Err(why) => Err(why),
        };
        let made = remedy.changes.iter().try_for_each(check).and_then(|()| fits(&options, &with, words));
        match made {
            Ok(()) => {
                options = with;
                fitting.push(remedy);
            }
            Err(why) => {
                let what: Vec<String> =
                    remedy.changes.iter().map(|change| apply_change::setting(change).value).collect();
                let user_cause = Cause { rule: "your own".to_owned(), about: what.join(" "), title: String::new() };
                let findings = if remedy.findings.is_empty() { vec![user_cause] } else { remedy.findings };
                let why = format!("not after the other remedies: {why}");
                untried.extend(findings.into_iter().map(|finding| Untried { finding, why: why.clone() }));
            }
        }
    }
    (fitting, untried)
}

/// Checks that the newest patches fit the guest beside the others. Two patches can change the same bytes, and a CPU
/// stops at only a few functions.
fn fits(before: &RecordOptions, with: &RecordOptions, words: Words) -> Result<(), ChangeError> {
    if before.guest.patches == with.guest.patches {
        return Ok(());
    }
    machine::check_patches(with, words).map_err(|why| ChangeError::NoPatch(why.to_string()))
}

/// The confirmed remedies.
pub fn confirmed(document: &Document) -> Vec<Remedy> {
    let confirmed = tried(document).into_iter().filter(|(_, tried)| tried.proof == Some(Proof::Confirmed));
    confirmed.map(|(remedy, _)| remedy.clone()).collect()
}

/// All of these remedies in one boot. The claim is their joint saving, if all have findings and their recording still
/// exists.
pub fn joint(recording: &Path, remedies: &[Remedy]) -> Remedy {
    let findings: Vec<Cause> = remedies.iter().flat_map(|remedy| remedy.findings.clone()).collect();
    let changes = remedies.iter().flat_map(|remedy| remedy.changes.clone()).collect();
    let all_have = remedies.iter().all(|remedy| !remedy.findings.is_empty());
    let claimed = if all_have { joint_claim(recording, &findings) } else { None };
    Remedy { findings, changes, claimed, along: Vec::new() }
}

fn joint_claim(recording: &Path, causes: &[Cause]) -> Option<Saved> {
    let opened = opened_boot::open(recording).ok()?;
    let result = find(&opened, usize::MAX);
    let is_one = |finding: &&Finding| causes.contains(&cause(&opened, finding));
    let all: Vec<&Finding> = result.findings.iter().filter(is_one).collect();
    if all.len() != causes.len() {
        return None;
    }
    with_seen(&opened, |seen| joint_price(seen, &all)).map(claim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::GuestSpec;

    #[test]
    fn a_remedy_that_another_takes_the_place_of_is_left_out_and_named() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let remedy = |to: &str| {
            let change = Change::QemuArguments { from: words("-device pvpanic"), to: words(to) };
            Remedy { changes: vec![change], ..Remedy::default() }
        };
        let options = RecordOptions::of(GuestSpec { extra: words("-device pvpanic"), ..GuestSpec::default() });
        let (fitting, untried) = fitting(
            &options,
            vec![remedy("-bios a"), remedy("-bios b")],
            &Kernels::without_sources(),
            Words::default(),
        );
        assert_eq!(fitting, [remedy("-bios a")]);
        let [one] = &untried[..] else { panic!("{untried:?}") };
        assert!(one.finding.about == "-bios b" && one.why.contains("`-device pvpanic`"), "{one:?}");
    }

    #[test]
    fn patches_that_exclude_each_other_are_not_booted_together() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("symbols");
        let lines: String = (0..10).map(|n| format!("{:016x} T f{n}\n", 0x1000 + 16 * n)).collect();
        std::fs::write(&path, lines).unwrap();
        let mut options = RecordOptions::default();
        options.observe.symbols.push(machine::SymbolFile { path, base: None });
        let patch = |text: &str| Remedy { changes: vec![Change::Patch(vec![text.to_owned()])], ..Remedy::default() };
        let texts = ["bytes@f0+0x1=7401:9090", "bytes@f0+0x2=01c3:9090", "call@f1+0x1=nop"];
        let (fits, untried) =
            fitting(&options, texts.map(patch).to_vec(), &Kernels::without_sources(), Words::default());
        assert_eq!(fits, [patch(texts[0]), patch(texts[2])]);
        let [one] = &untried[..] else { panic!("{untried:?}") };
        assert!(one.finding.about == texts[1] && one.why.contains("changes the same bytes"), "{one:?}");
        // A CPU can stop at 4 functions.
        let five = (0..5).map(|n| patch(&format!("call@f{n}+0x1=nop"))).collect();
        let (fits, untried) = fitting(&options, five, &Kernels::without_sources(), Words::default());
        assert_eq!((fits.len(), untried.len()), (4, 1));
        assert!(
            untried[0].finding.about.contains("f4") && untried[0].why.contains("at most 4 functions"),
            "{untried:?}"
        );
    }
}
