//! What a bench compares: variants of the options that all share, given by `--vary` or `--sweep`.
//!
//! A variant is written as the flags of `record` are, and read by the same parser: whatever can be recorded can be varied.

use crate::amount::bytes;
use crate::plan::BootArgs;
use anyhow::{Context, anyhow, bail};
use benchmark::{Axis, Setting};
use clap::Parser;
use machine::RecordOptions;

/// A variant before anything is booted.
#[derive(Debug)]
pub struct Varied {
    /// What tells it from the others.
    pub name: String,
    /// How it differs from what all share.
    pub settings: Vec<Setting>,
    /// All of its options.
    pub options: RecordOptions,
}

/// More points than this are no grid that anybody waits for.
const POINTS_MOST: usize = 1000;

/// The variants of these options: one for each `--vary`; one alone is compared with the options as they are.
pub fn varied(base: &RecordOptions, vary: &[String]) -> anyhow::Result<Vec<Varied>> {
    let as_given = || Varied { name: "as given".to_owned(), settings: Vec::new(), options: base.clone() };
    let mut all: Vec<Varied> = if vary.len() < 2 { vec![as_given()] } else { Vec::new() };
    for text in vary {
        let (flags, settings) = flags(text).with_context(|| format!("--vary {text}"))?;
        let options = applied(base, flags).with_context(|| format!("--vary {text}"))?;
        all.push(Varied { name: text.trim().to_owned(), settings, options });
    }
    name_apart(&mut all);
    Ok(all)
}

/// The points of a grid, one axis for each `--sweep`, the last axis first to change.
pub fn swept(base: &RecordOptions, sweep: &[String]) -> anyhow::Result<(Vec<Varied>, Vec<Axis>)> {
    let axes = sweep.iter().map(|text| axis(text)).collect::<anyhow::Result<Vec<Axis>>>()?;
    let points: usize = axes.iter().map(|axis| axis.values.len()).product();
    if points > POINTS_MOST {
        bail!("--sweep makes {points} variants: give fewer values, {POINTS_MOST} at most in all");
    }
    let mut all = vec![Varied { name: String::new(), settings: Vec::new(), options: base.clone() }];
    for axis in &axes {
        let mut longer = Vec::new();
        for point in &all {
            for value in &axis.values {
                let setting = Setting { key: axis.key.clone(), value: value.clone() };
                let with = || format!("--sweep {}={value}", axis.key);
                let options = applied(&point.options, vec![flag(&setting)]).with_context(with)?;
                let name = format!("{} {}={value}", point.name, axis.key).trim_start().to_owned();
                let settings = point.settings.iter().cloned().chain([setting]).collect();
                longer.push(Varied { name, settings, options });
            }
        }
        all = longer;
    }
    name_apart(&mut all);
    Ok((all, axes))
}

/// `cpus=1,2,4`
fn axis(text: &str) -> anyhow::Result<Axis> {
    let (key, values) =
        text.split_once('=').context(format!("--sweep {text}: write KEY=VALUE,VALUE,…, as cpus=1,2,4"))?;
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if values.len() < 2 {
        bail!("--sweep {text}: a sweep needs two values or more, set apart by commas; for one, give --{key}");
    }
    if let Some(twice) = values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)).map(|(_, v)| v) {
        bail!("--sweep {text}: {twice} is there twice; to boot each value more often, give --runs");
    }
    Ok(Axis { key: key.trim_start_matches('-').to_owned(), values })
}

/// Sizes that a sweep's scaling models predict: numbers, or sizes of memory in GiB.
pub fn sizes(at: &[String], sweep: &[Axis]) -> anyhow::Result<Vec<f64>> {
    let one = |text: &String| {
        let number = text.parse().ok().filter(|size: &f64| size.is_finite() && *size > 0.0);
        let gib = || bytes(text).ok().map(|bytes| bytes as f64 / f64::from(1 << 30));
        let size = number.or_else(gib).filter(|size| *size > 0.0);
        let size = size.with_context(|| format!("--at {text}: give a number, such as 128, or a size, such as 64G"))?;
        if number.is_none() && !sweep.iter().any(|axis| axis.key == "memory") {
            bail!("--at {text} is a size of memory, and that is not swept: give a number");
        }
        Ok(size)
    };
    at.iter().map(one).collect()
}

/// The flags that a variant's text stands for: `KEY=VALUE`, `KEY`, or flags as `record` takes them.
fn flags(text: &str) -> anyhow::Result<(Vec<String>, Vec<Setting>)> {
    let text = text.trim();
    if text.starts_with('-') {
        let words = shlex::split(text).context("a quote is never closed")?;
        return Ok((words, vec![Setting { key: "flags".to_owned(), value: text.to_owned() }]));
    }
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let setting = Setting { key: key.to_owned(), value: value.to_owned() };
    let flag = if text.contains('=') { flag(&setting) } else { format!("--{key}") };
    Ok((vec![flag], vec![setting]))
}

fn flag(setting: &Setting) -> String {
    format!("--{}={}", setting.key, setting.value)
}

/// The flags by themselves, as `record` takes them.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Flags {
    #[command(flatten)]
    boot: BootArgs,
}

/// The options with these flags set.
fn applied(base: &RecordOptions, flags: Vec<String>) -> anyhow::Result<RecordOptions> {
    let parsed = Flags::try_parse_from(flags).map_err(|error| anyhow!(said(&error.to_string())))?;
    parsed.boot.onto(base.clone())
}

/// What a parser says, in one line.
fn said(error: &str) -> String {
    let lines = error.lines().map(str::trim).take_while(|line| !line.starts_with("Usage"));
    let lines: Vec<&str> =
        lines.map(|line| line.trim_start_matches("error: ")).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

/// The same variant twice is how one sees what chance does; it has two names.
fn name_apart(all: &mut [Varied]) {
    for i in 1..all.len() {
        let same = all[..i].iter().filter(|other| other.options == all[i].options).count();
        if same > 0 {
            all[i].name =
                format!("{} (again{})", all[i].name, if same > 1 { format!(" {same}") } else { String::new() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{Accel, GuestSpec};

    fn names(all: &[Varied]) -> Vec<&str> {
        all.iter().map(|v| v.name.as_str()).collect()
    }

    fn vary(texts: &[&str]) -> anyhow::Result<Vec<Varied>> {
        let texts: Vec<String> = texts.iter().map(|&t| t.to_owned()).collect();
        varied(&RecordOptions::of(GuestSpec { append: "quiet".to_owned(), ..GuestSpec::default() }), &texts)
    }

    #[test]
    fn a_variant_is_what_record_would_take() {
        let one = vary(&["append=quiet acpi=off"]).unwrap();
        assert_eq!(names(&one), ["as given", "append=quiet acpi=off"]);
        assert_eq!(
            (one[0].options.guest.append.as_str(), one[1].options.guest.append.as_str()),
            ("quiet", "quiet acpi=off")
        );
        let two = vary(&["--cpus 2 --accel tcg -- -cpu 'max'", "no-first-run"]).unwrap();
        assert_eq!((two[0].options.guest.cpus, two[0].options.guest.accel), (2, Accel::Tcg));
        assert_eq!(two[0].options.guest.extra, ["-cpu", "max"]);
        assert!(!two[1].options.observe.first_run && two[1].options.guest.append == "quiet");
        assert_eq!(
            names(&vary(&["cpus=1", "memory=512M", "cpus=1"]).unwrap())[1..],
            ["memory=512M (again)", "cpus=1 (again 2)"]
        );
        assert_eq!(names(&vary(&[]).unwrap()), ["as given"]);
    }

    #[test]
    fn what_no_record_takes_is_refused_with_its_name() {
        for (text, words) in [("cpu=2", "--cpu"), ("cpus=two", "two"), ("--append 'x", "quote"), ("cpus", "--cpus")] {
            let error = format!("{:#}", vary(&[text]).unwrap_err());
            assert!(error.contains(words) && error.contains("--vary") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_grid_has_every_point() {
        let sweep =
            |texts: &[&str]| swept(&RecordOptions::default(), &texts.iter().map(|&t| t.to_owned()).collect::<Vec<_>>());
        let (points, axes) = sweep(&["cpus=1,2", "memory=256M, 1G"]).unwrap();
        let grid = ["cpus=1 memory=256M", "cpus=1 memory=1G", "cpus=2 memory=256M", "cpus=2 memory=1G"];
        assert_eq!(names(&points), grid);
        assert_eq!((points[3].options.guest.cpus, points[3].options.guest.memory_bytes), (2, 1 << 30));
        assert_eq!(axes[1].values, ["256M", "1G"]);
        for wrong in ["cpus", "cpus=2", "cpus=1,x", "cpus=1,1", "cpus=1,2, 1"] {
            assert!(format!("{:#}", sweep(&[wrong]).unwrap_err()).contains("--sweep"), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_numbers_or_memory() {
        let axis = |key: &str| Axis { key: key.to_owned(), values: Vec::new() };
        let at = |text: &str, key: &str| sizes(&[text.to_owned()], &[axis(key)]).map(|found| found[0]);
        for (text, key, size) in
            [("128", "cpus", 128.0), ("64G", "memory", 64.0), ("512M", "memory", 0.5), ("4", "memory", 4.0)]
        {
            assert_eq!(at(text, key).unwrap(), size);
        }
        for (text, key, says) in [
            ("64G", "cpus", "not swept"),
            ("many", "cpus", "such as"),
            ("-1", "cpus", "such as"),
            ("0", "memory", "such as"),
            ("inf", "cpus", "such as"),
        ] {
            assert!(at(text, key).unwrap_err().to_string().contains(says), "{text}");
        }
    }
}
