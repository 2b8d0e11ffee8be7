//! Ends a boot at a milestone that the user names.

use anyhow::{Context, bail};
use regex::Regex;
use std::borrow::Cow;
use timeline::{Milestone, MilestoneKind, Names, Timeline};

/// Ends a boot at the milestone of this name.
///
/// # Errors
/// If the boot did not pass the milestone, or has followed calls, which cannot be cut.
pub(crate) fn end_at(wanted: &str, timeline: &mut Timeline, has_calls: bool) -> anyhow::Result<()> {
    let milestone = find(wanted, timeline)?;
    if has_calls && Some(milestone.at) != timeline.end.map(|end| end.at) {
        bail!("--up-to {wanted} cannot cut followed calls: their sums reach to the end mark");
    }
    timeline.end_at(milestone);
    Ok(())
}

/// The milestone of this name.
fn find(wanted: &str, timeline: &Timeline) -> anyhow::Result<Milestone> {
    let names = &timeline.names;
    let milestones = timeline.milestones();
    if let Some(matching) = milestones.iter().find(|milestone| milestone.kind.name(names) == wanted) {
        return Ok(*matching);
    }
    let matching = match wanted.split_once(':') {
        Some(("process", name)) => timeline.process_named(name),
        Some(("line", pattern)) => line(timeline, pattern)?,
        _ => None,
    };
    matching.with_context(|| {
        let nearest = nearest(wanted, &milestones, names).map_or(String::new(), |name| format!(" (nearest: {name})"));
        format!("the boot did not pass {wanted:?}{nearest}{}", passed(&milestones, names))
    })
}

/// The first message that a pattern matches.
fn line(timeline: &Timeline, pattern: &str) -> anyhow::Result<Option<Milestone>> {
    // The error draws the position on several lines. The last one has the reason.
    let reason = |e: regex::Error| e.to_string().lines().last().unwrap_or_default().replace("error: ", "");
    let pattern = Regex::new(pattern)
        .map_err(|e| anyhow::anyhow!("--up-to line:{pattern} is no regular expression: {}", reason(e)))?;
    let matching = timeline.marks.iter().find(|mark| pattern.is_match(timeline.names.get(mark.name)));
    let error = timeline.clocks.iter().map(|clock| clock.residual).max().unwrap_or_default();
    Ok(matching.map(|mark| Milestone { kind: MilestoneKind::Line(mark.name), at: mark.at, error, track: None }))
}

/// The milestone with the name most similar to the requested one, if any is similar.
fn nearest(wanted: &str, milestones: &[Milestone], names: &Names) -> Option<String> {
    const ALIKE: f64 = 0.8;
    let alike = |name: &str| strsim::normalized_damerau_levenshtein(name, wanted);
    let all = milestones.iter().map(|milestone| milestone.kind.name(names).into_owned());
    // The user may have omitted the kind of the milestone, or the type of a unit.
    let all = all.map(|name| {
        let bare = name.split_once(':').map_or(&*name, |(_, bare)| bare);
        let is_part = bare == wanted || name.split_once('.').is_some_and(|(stem, _)| stem == wanted);
        (if is_part { 1.0 } else { alike(&name) }, name)
    });
    all.filter(|(alike, _)| *alike >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

/// The milestones that a boot passed, in words. Units are only counted, because there are too many.
fn passed(milestones: &[Milestone], names: &Names) -> String {
    let (units, others): (Vec<&Milestone>, Vec<&Milestone>) =
        milestones.iter().partition(|milestone| matches!(milestone.kind, MilestoneKind::Unit(_)));
    let others: Vec<Cow<'_, str>> = others.into_iter().map(|milestone| milestone.kind.name(names)).collect();
    match (others.is_empty(), units.len()) {
        (true, _) => ": it has no end mark, and so no milestones".to_owned(),
        (false, 0) => format!("; it passed {}", others.join(", ")),
        (false, units) => {
            format!("; it passed {} and {units} units: `show --milestones` lists them", others.join(", "))
        }
    }
}
