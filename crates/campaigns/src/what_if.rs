//! Ledgers of savings: the steps as users write them, and the boot that each step leads to.

use crate::opened_boot::OpenedBoot;
use analysis::{Becomes, Groups, Saving, WhatIf};
use anyhow::{Context, bail};
use report::{Boot, Ledger, State};
use std::borrow::Borrow;
use std::path::{Path, PathBuf};
use timeline::Unit;
use timeline::amount::time;

/// The most savings of one ledger. Each runs the boot again.
const MAX_SAVINGS: usize = 256;

/// A step of the ledger.
#[derive(Clone)]
pub enum Step {
    /// The text that the user typed, its meaning, and its progress.
    Save(String, Saving, State),
    Rung(String, PathBuf, State),
    /// Drivers that probe asynchronously: the text that the user typed, and their names.
    Async(String, String, State),
}

/// Parses `NAME`, `NAME=TIME` or `NAME=-PERCENT`, optionally with a state.
fn saving(text: &str) -> Result<(String, Saving, State), String> {
    let (typed, state) = state(text)?;
    let (name, becomes) = match typed.rsplit_once('=') {
        Some((name, value)) if value.starts_with('-') => (name, Becomes::Less(percent(&value[1..])?)),
        Some((name, value)) if value.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
            (name, Becomes::Takes(time(value)?))
        }
        Some((name, value)) if value.starts_with('+') => {
            let name = name.trim();
            return Err(format!(
                "`{value}` would make it longer: write what it would take ({name}=20ms), by how much it gets shorter \
                 ({name}=-50%), or {name} alone if it takes no time at all"
            ));
        }
        // The equals sign belongs to the name.
        _ => (typed, Becomes::Nothing),
    };
    let saving = Saving { name: name.trim().to_owned(), becomes };
    if saving.name.is_empty() {
        Err("it names nothing to save".to_owned())
    } else {
        Ok((typed.to_owned(), saving, state))
    }
}

/// Parses a saving of `--save`.
pub fn save(text: &str) -> Result<Step, String> {
    saving(text).map(|(typed, saving, state)| Step::Save(typed, saving, state))
}

/// Parses names of drivers or devices, optionally with a state.
pub fn beside(text: &str) -> Result<Step, String> {
    let (names, state) = state(text)?;
    if names.split(',').any(|name| name.trim().is_empty()) {
        return Err("it names no driver and no device".to_owned());
    }
    Ok(Step::Async(format!("{names} asynchronous"), names.to_owned(), state))
}

/// Parses `NAME=RECORDING`, optionally with a state. Both may contain equals signs. The split is at the last one before
/// an existing path, or at the last one.
pub fn rung(text: &str) -> Result<Step, String> {
    let (typed, state) = state(text)?;
    let signs = || typed.rmatch_indices('=').map(|(i, _)| (typed[..i].trim(), &typed[i + 1..]));
    match signs().find(|(_, path)| !path.is_empty() && Path::new(path).exists()).or_else(|| signs().next()) {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok(Step::Rung(name.to_owned(), PathBuf::from(path), state))
        }
        _ => Err("write a name, an equals sign and a recording: before=boots/b".to_owned()),
    }
}

/// Splits `[STATE NOTE]` off the end.
fn state(text: &str) -> Result<(&str, State), String> {
    const STATES: [&str; 3] = ["done", "in progress", "wanted"];
    let text = text.trim();
    let Some((before, inside)) = text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) else {
        return Ok((text, State::default()));
    };
    let inside = inside.trim();
    let after = |state: &&str| {
        let (word, rest) = inside.split_at_checked(state.len())?;
        (word.eq_ignore_ascii_case(state) && (rest.is_empty() || rest.starts_with([' ', ',']))).then_some(rest)
    };
    let matched = STATES.iter().find_map(|state| Some((*state, after(state)?)));
    let (state, note) = matched.unwrap_or(("", inside));
    let note = note.trim_start_matches([' ', ',']).trim();
    Ok((before.trim_end(), State { state: state.to_owned(), note: note.to_owned() }))
}

/// A boot to which savings are applied, and the rules for its rows.
struct Base<O> {
    opened: O,
    groups: Groups,
    /// The replayed boot, after the first saving.
    what_if: Option<WhatIf>,
}

impl<O: Borrow<OpenedBoot>> Base<O> {
    fn of(opened: O, group: Option<&Path>) -> anyhow::Result<Base<O>> {
        let groups = opened.borrow().groups(group)?;
        Ok(Base { opened, groups, what_if: None })
    }

    fn save(&mut self, saving: &Saving, stop: &dyn Fn() -> bool) -> anyhow::Result<analysis::Rung> {
        let opened = self.opened.borrow();
        if opened.timeline.unit == Unit::Ticks && matches!(saving.becomes, Becomes::Takes(_)) {
            bail!(
                "the times of this boot are in ticks, and nobody knows how long one is: save per cent, or import it with --tsc-frequency"
            );
        }
        self.what_if()?.save_unless(saving, stop).with_context(|| format!("cannot save {:?}", saving.name))
    }

    fn probe_beside(&mut self, names: &str) -> anyhow::Result<analysis::Rung> {
        let cpus = self.opened.borrow().facts.subject.cpus;
        self.what_if()?.probe_beside(names, cpus).with_context(|| format!("cannot probe {names:?} beside the boot"))
    }

    fn what_if(&mut self) -> anyhow::Result<&mut WhatIf> {
        if self.what_if.is_none() {
            self.what_if = Some(WhatIf::new(self.opened.borrow().timeline.clone(), self.groups.clone())?);
        }
        Ok(self.what_if.as_mut().expect("made above"))
    }

    /// The boot with the savings applied.
    fn boot(&self) -> Boot<'_> {
        let opened = self.opened.borrow();
        let timeline = self.what_if.as_ref().map_or(&opened.timeline, WhatIf::timeline);
        Boot::with_groups(timeline, &opened.facts, self.groups.clone())
    }
}

/// Refuses more savings than one ledger may have.
///
/// # Errors
/// If there are too many.
pub fn check_number(savings: usize) -> anyhow::Result<()> {
    if savings > MAX_SAVINGS {
        bail!(
            "{savings} savings are too many: save at most {MAX_SAVINGS} at once; a name with * is all rows that match"
        );
    }
    Ok(())
}

/// The ledger of savings in an open recording. Each saving is written as on the command line. Returns an error once
/// `stop` is true.
pub fn of_texts(
    opened: &OpenedBoot,
    name: &str,
    savings: &[String],
    stop: &dyn Fn() -> bool,
) -> anyhow::Result<Ledger> {
    check_number(savings.len())?;
    let mut base = Base::of(opened, None)?;
    let before = base.boot().wheres();
    let mut ledger = Ledger::new(name, base.boot().cost(), opened.timeline.unit);
    for text in savings {
        let (typed, saving, state) = saving(text).map_err(anyhow::Error::msg)?;
        ledger.estimate(&typed, state, base.save(&saving, stop)?);
    }
    ledger.left(base.boot().wheres(), &before);
    Ok(ledger)
}

/// The ledger of these steps from a recording on. `open` opens it and the recordings of rungs; `group` has the rules for rows.
///
/// # Errors
/// If a recording cannot be opened or run again, or a step names nothing in it.
pub fn ledger(
    recording: &Path,
    steps: &[Step],
    group: Option<&Path>,
    open: &dyn Fn(&Path) -> anyhow::Result<OpenedBoot>,
) -> anyhow::Result<Ledger> {
    let mut base = Base::of(open(recording)?, group)?;
    let before = base.boot().wheres();
    let mut ledger = Ledger::new(&recording.display().to_string(), base.boot().cost(), base.opened.timeline.unit);
    for step in steps {
        match step {
            Step::Save(typed, saving, state) => ledger.estimate(typed, state.clone(), base.save(saving, &|| false)?),
            Step::Async(typed, names, state) => {
                ledger.estimate(typed, state.clone(), base.probe_beside(names)?);
            }
            Step::Rung(name, path, state) => {
                let next = Base::of(open(path)?, group)?;
                if next.opened.timeline.unit != base.opened.timeline.unit {
                    bail!(
                        "{} and {} measure in different units (instructions or time)",
                        path.display(),
                        recording.display()
                    );
                }
                base = next;
                ledger.measured(name, state.clone(), base.boot().cost());
            }
        }
    }
    ledger.left(base.boot().wheres(), &before);
    Ok(ledger)
}

/// A share in per cent, such as `73%`: 0.73.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.filter(|percent| (0.0..=100.0).contains(percent)).map(|percent| percent / 100.0);
    share.ok_or_else(|| format!("`{text}` is no share: write per cent from 0% to 100%"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::Ns;

    /// `view` stops a question whose time is over, before any of its replays.
    #[test]
    fn a_question_ends_once_its_time_is_over() {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/kept/linux-traced-no-symbols.tar.zst");
        let opened = crate::opened_boot::open(&kept).unwrap();
        let savings = vec!["initcall *=-50%".to_owned(); 256];
        for checks in [0_u32, 1, 4] {
            let left = std::cell::Cell::new(checks);
            let stop = || left.replace(left.get().saturating_sub(1)) == 0;
            let error = of_texts(&opened, "a", &savings, &stop).expect_err("256 savings take more checks");
            assert!(format!("{error:#}").contains("it takes too long to work out: save less at once"), "{error:#}");
        }
    }

    fn check(text: &str, name: &str, becomes: Becomes, (state, note): (&str, &str)) {
        let Ok(Step::Save(_, saving, how)) = save(text) else { panic!("{text}") };
        assert_eq!((saving.name.as_str(), saving.becomes), (name, becomes), "{text}");
        assert_eq!((how.state.as_str(), how.note.as_str()), (state, note), "{text}");
    }

    #[test]
    fn savings_are_read() {
        check("_vprintf", "_vprintf", Becomes::Nothing, ("", ""));
        check("_vprintf=-73%", "_vprintf", Becomes::Less(0.73), ("", ""));
        check("SYSINIT cpu · DELAY=20ms [done]", "SYSINIT cpu · DELAY", Becomes::Takes(Ns::from_ms(20)), ("done", ""));
        check("hpt* = x", "hpt* = x", Becomes::Nothing, ("", ""));
        check("f[0]=1ms", "f[0]", Becomes::Takes(Ns::from_ms(1)), ("", ""));
        check("f [in progress PR 17]", "f", Becomes::Nothing, ("in progress", "PR 17"));
        check("f [Done 17]", "f", Becomes::Nothing, ("done", "17"));
        check("f [doneish]", "f", Becomes::Nothing, ("", "doneish"));
        for text in ["", "=20ms", "f=20", "f=-20", "f=-120%", "f=20parsecs [done]", "=+50%"] {
            assert!(save(text).is_err(), "{text}");
        }
        let Err(why) = save("f=+50%") else { panic!("it is longer") };
        assert!(why.contains("f=20ms") && why.contains("f=-50%"), "{why}");
    }

    #[test]
    fn rungs_are_read() {
        let Ok(Step::Rung(name, path, how)) = rung("ps2=skip=boots/b [done 4f2a]") else { panic!() };
        assert_eq!((name.as_str(), path.as_path(), how.note.as_str()), ("ps2=skip", Path::new("boots/b"), "4f2a"));
        let folder = tempfile::Builder::new().prefix("b=c").tempdir().unwrap();
        let Ok(Step::Rung(name, path, _)) = rung(&format!("signals={}", folder.path().display())) else { panic!() };
        assert_eq!((name.as_str(), path.as_path()), ("signals", folder.path()));
        assert!(rung("boots/b").is_err() && rung("=boots/b").is_err() && rung("a=").is_err());
    }

    #[test]
    fn shares() {
        assert_eq!(percent("73%"), Ok(0.73));
        for text in ["73", "101%", "-1%", "x%", "nan%"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
