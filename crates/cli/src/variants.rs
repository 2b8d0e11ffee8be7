//! The variants of a bench: changes of the shared options, given by `--vary` or `--sweep`.
//!
//! A variant is written as flags of `record` and parsed by the same parser, so every option of `record` can vary. The
//! crate `benchmark` computes the points of a sweep.

use crate::boot_options::BootArgs;
use anyhow::{Context, anyhow};
use benchmark::variants::{self, Point};
use benchmark::{Axis, Setting};
use campaigns::{Notes, PlannedVariant};
use clap::Parser;
use machine::{Init, RecordOptions};

/// The data shared by all variants.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    pub options: &'a RecordOptions,
    /// True if the user did not choose process 1. A variant with a kernel then chooses it.
    pub leaves_init: bool,
    /// The receiver of warnings about a recording that a variant repeats.
    pub notes: &'a dyn Notes,
}

/// The variants of these options, one for each `--vary`. A single one is compared with the unchanged options.
pub fn varied(base: Shared<'_>, vary: &[String]) -> anyhow::Result<Vec<PlannedVariant>> {
    let as_given =
        || PlannedVariant { name: "as given".to_owned(), settings: Vec::new(), options: base.options.clone() };
    let mut all: Vec<PlannedVariant> = if vary.len() < 2 { vec![as_given()] } else { Vec::new() };
    for text in vary {
        let (flags, settings) = flags(text).with_context(|| format!("--vary {text}"))?;
        let options = applied(base, flags).with_context(|| format!("--vary {text}"))?;
        all.push(PlannedVariant { name: text.trim().to_owned(), settings, options });
    }
    name_apart(&mut all);
    Ok(all)
}

/// The points of a grid with one axis for each `--sweep`. The last axis changes first.
pub fn swept(base: Shared<'_>, sweep: &[String]) -> anyhow::Result<(Vec<PlannedVariant>, Vec<Axis>)> {
    let axes = sweep.iter().map(|text| variants::axis(text)).collect::<Result<Vec<Axis>, _>>()?;
    let mut all = Vec::new();
    for Point { name, settings } in variants::grid(&axes)? {
        let mut options = base.options.clone();
        for setting in &settings {
            let with = || format!("--sweep {}={}", setting.key, setting.value);
            options = applied(Shared { options: &options, ..base }, vec![flag(setting)]).with_context(with)?;
        }
        all.push(PlannedVariant { name, settings, options });
    }
    name_apart(&mut all);
    Ok((all, axes))
}

/// Parses a variant's text into flags: `KEY=VALUE`, `KEY`, or flags of `record`.
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
fn applied(base: Shared<'_>, flags: Vec<String>) -> anyhow::Result<RecordOptions> {
    let parsed = Flags::try_parse_from(flags).map_err(|error| anyhow!(one_line(&error.to_string())))?;
    let mut options = parsed.boot.onto(base.options.clone(), base.notes)?;
    let brings_kernel = base.options.guest.kernel.is_none() && options.guest.kernel.is_some();
    if brings_kernel && base.leaves_init && parsed.boot.leaves_init() && options.guest.target.is_qemu() {
        // The shared options had no kernel, and therefore the guest's own process 1.
        options.guest.init = Init::Guest;
    }
    Ok(options)
}

/// The message of a parser, in one line.
fn one_line(error: &str) -> String {
    let lines = error.lines().map(str::trim).take_while(|line| !line.starts_with("Usage"));
    let lines: Vec<&str> =
        lines.map(|line| line.trim_start_matches("error: ")).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

/// Gives equal variants different names.
fn name_apart(all: &mut [PlannedVariant]) {
    let options: Vec<&RecordOptions> = all.iter().map(|variant| &variant.options).collect();
    let behind = variants::name_apart(&options);
    for (variant, behind) in all.iter_mut().zip(behind) {
        variant.name.push_str(&behind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{Accel, GuestSpec, Target};

    struct Silent;

    impl Notes for Silent {
        fn note(&self, _: &str) {}
        fn warn(&self, _: &str) {}
    }

    fn names(all: &[PlannedVariant]) -> Vec<&str> {
        all.iter().map(|v| v.name.as_str()).collect()
    }

    fn vary(texts: &[&str]) -> anyhow::Result<Vec<PlannedVariant>> {
        let texts: Vec<String> = texts.iter().map(|&t| t.to_owned()).collect();
        let options = RecordOptions::of(GuestSpec { append: "quiet".to_owned(), ..GuestSpec::default() });
        varied(Shared { options: &options, leaves_init: true, notes: &Silent }, &texts)
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
        assert!(!two[1].options.observe.first_executions && two[1].options.guest.append == "quiet");
        assert_eq!(
            names(&vary(&["cpus=1", "memory=512M", "cpus=1"]).unwrap())[1..],
            ["memory=512M (again)", "cpus=1 (again 2)"]
        );
        assert_eq!(names(&vary(&[]).unwrap()), ["as given"]);
    }

    #[test]
    fn a_variant_that_brings_the_kernel_brings_bootscopes_process_1() {
        let base = RecordOptions::of(GuestSpec { init: Init::Keep, ..GuestSpec::default() });
        let init = |leaves_init: bool, text: &str| {
            let shared = Shared { options: &base, leaves_init, notes: &Silent };
            varied(shared, &[text.to_owned()]).unwrap()[1].options.guest.init
        };
        assert_eq!(init(true, "kernel=/nonexistent/bzImage"), Init::Guest);
        assert_eq!(init(false, "kernel=/nonexistent/bzImage"), Init::Keep, "--init keep was given");
        assert_eq!(init(true, "--kernel /nonexistent/bzImage --init keep"), Init::Keep);
        assert_eq!(init(true, "cpus=2"), Init::Keep, "there is no kernel");
    }

    #[test]
    fn a_variant_may_be_another_vmm() {
        let all = vary(&["vmm=firecracker", "vmm=/opt/cloud-hypervisor-static", "vmm=qemu"]).unwrap();
        let vmms: Vec<(&str, String)> = all
            .iter()
            .map(|v| match &v.options.guest.target {
                Target::Vmm { kind, program } => (kind.as_str(), program.display().to_string()),
                Target::Board(board) => ("board", board.serial.clone()),
            })
            .collect();
        let expected = [
            ("firecracker", "firecracker"),
            ("cloud-hypervisor", "/opt/cloud-hypervisor-static"),
            ("qemu", "qemu-system-x86_64"),
        ];
        assert_eq!(vmms, expected.map(|(kind, program)| (kind, program.to_owned())));
        let error = format!("{:#}", vary(&["vmm=bochs"]).unwrap_err());
        assert!(error.contains("--vary vmm=bochs") && error.contains("cloud-hypervisor"), "{error}");
    }

    #[test]
    fn unknown_options_are_refused_by_name() {
        for (text, words) in [("cpu=2", "--cpu"), ("cpus=two", "two"), ("--append 'x", "quote"), ("cpus", "--cpus")] {
            let error = format!("{:#}", vary(&[text]).unwrap_err());
            assert!(error.contains(words) && error.contains("--vary") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_grid_has_every_point() {
        let sweep = |texts: &[&str]| {
            swept(
                Shared { options: &RecordOptions::default(), leaves_init: true, notes: &Silent },
                &texts.iter().map(|&t| t.to_owned()).collect::<Vec<_>>(),
            )
        };
        let (points, axes) = sweep(&["cpus=1,2", "memory=256M, 1G"]).unwrap();
        let grid = ["cpus=1 memory=256M", "cpus=1 memory=1G", "cpus=2 memory=256M", "cpus=2 memory=1G"];
        assert_eq!(names(&points), grid);
        assert_eq!((points[3].options.guest.cpus, points[3].options.guest.memory_bytes), (2, 1 << 30));
        assert_eq!(axes[1].values, ["256M", "1G"]);
        for wrong in ["cpus", "cpus=1,x"] {
            assert!(format!("{:#}", sweep(&[wrong]).unwrap_err()).contains("--sweep"), "{wrong}");
        }
    }
}
