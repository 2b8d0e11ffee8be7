use super::*;
use crate::budgets::About;

fn observed(noise: Noise, values: &[f64]) -> Observed {
    let mut observed = Observed::new("boots", noise);
    for (round, value) in (0..).zip(values) {
        observed.add(round, [(What::total(), *value), (What::new(Kind::Function, "initcall acpi_init"), *value / 2.0)]);
    }
    observed
}

fn budgets(text: &str) -> Budgets {
    Budgets::parse(text).unwrap()
}

#[track_caller]
fn one(text: &str, boots: &Observed, baseline: Option<Baseline>) -> Checked {
    let mut checked = check(&budgets(text), &[(boots.clone(), baseline)]).unwrap();
    assert_eq!(checked.len(), 1);
    checked.remove(0)
}

#[track_caller]
fn status(text: &str, boots: &Observed, baseline: Option<Baseline>) -> Status {
    one(text, boots, baseline).status
}

const MS: f64 = 1e6;

fn around(random: &mut fastrand::Rng, ms: f64, n: usize) -> Vec<f64> {
    (0..n).map(|_| ms * MS * (1.0 + 0.1 * -(1.0 - random.f64()).ln())).collect()
}

#[test]
fn an_absolute_limit() {
    let boots = |values: &[f64]| observed(Noise::Clock, &values.iter().map(|v| v * MS).collect::<Vec<_>>());
    let clear = boots(&[101.0, 102.0, 104.0, 103.0, 150.0]);
    assert_eq!(status("total = \"100ms\"", &clear, None), Status::Over);
    assert_eq!(status("total = \"150ms\"", &clear, None), Status::Within);
    assert_eq!(status("total = \"102ms\"", &clear, None), Status::CannotTell);
    assert_eq!(status("total = \"1ms\"", &boots(&[100.0; 4]), None), Status::CannotTell, "four are too few");
    let one = observed(Noise::Repeats, &[100.0 * MS]);
    let limit = |text| status(text, &one, None);
    assert_eq!(limit("total = \"99.9M instr\""), Status::Over, "one that repeats exactly is enough");
    assert_eq!(limit("total = \"100M instr\""), Status::Within);
}

#[test]
fn a_milestone_that_is_never_passed_keeps_no_budget() {
    let ssh = || What::new(Kind::Milestone, "unit:ssh.service");
    let boots = |missing: u32| {
        let mut boots = Observed::new("boots", Noise::Clock);
        for round in 0..12 {
            let passed = (round >= missing).then(|| (ssh(), 90.0 * MS));
            boots.add(round, std::iter::once((What::total(), 100.0 * MS)).chain(passed));
        }
        boots
    };
    let budget = "[milestone]\n\"unit:ssh.service\" = \"95ms\"";
    let of = |missing| status(budget, &boots(missing), None);
    assert_eq!([of(0), of(6), of(11)], [Status::Within, Status::CannotTell, Status::Over]);
    let relative = "[milestone]\n\"unit:ssh.service\" = \"+50%\"";
    let apart = || Some(Baseline::Apart(vec![boots(0)]));
    assert_eq!(status(relative, &boots(0), apart()), Status::Within);
    assert_eq!(status(relative, &boots(3), apart()), Status::CannotTell);
    let unknown = check(&budgets("[milestone]\nsshd = \"1s\""), &[(boots(0), None)]).unwrap_err();
    assert!(unknown.to_string().contains("unit:ssh.service"), "{unknown}");
}

#[test]
fn a_relative_limit() {
    let boots = |ms: f64| observed(Noise::Clock, &(0..10).map(|i| (ms + f64::from(i)) * MS).collect::<Vec<_>>());
    for (ms, expected) in [(130.0, Status::Over), (100.0, Status::Within), (105.5, Status::CannotTell)] {
        let apart = Baseline::Apart(vec![boots(100.0)]);
        assert_eq!(status("total = \"+5%\"", &boots(ms), Some(apart)), expected, "{ms}");
    }
    // In the same rounds, the host's drift of 1 ms a round affects both.
    assert_eq!(status("total = \"+5%\"", &boots(106.0), Some(Baseline::Rounds(Box::new(boots(100.0))))), Status::Over);
    let noisy = Baseline::Apart(vec![boots(100.0), boots(125.0), boots(101.0)]);
    assert_eq!(
        status("total = \"+5%\"", &boots(130.0), Some(noisy)),
        Status::CannotTell,
        "it was nearly as slow before"
    );
}

#[test]
fn deterministic_boots_and_their_floor() {
    let boots = |value: f64| observed(Noise::Repeats, &[value]);
    for (value, expected) in [(1.0e9, Status::Within), (1.001e9, Status::CannotTell), (1.003e9, Status::Over)] {
        let apart = Baseline::Apart(vec![boots(1e9)]);
        assert_eq!(status("total = \"+0%\"", &boots(value), Some(apart)), expected, "{value}");
    }
}

#[test]
fn time_is_no_limit_of_instructions_nor_they_of_time() {
    let refused = |text: &str, noise| check(&budgets(text), &[(observed(noise, &[1e9; 6]), None)]).unwrap_err();
    for noise in [Noise::Repeats, Noise::Dithered] {
        for (text, instead) in [
            ("total = \"1.2s\"", "`1.20 G instr`"),
            ("[function]\n\"initcall acpi_init\" = \"+2ms\"", "`+2.00 M instr`"),
        ] {
            let error = refused(text, noise).to_string();
            assert!(error.contains("is time") && error.contains(instead) && error.contains("+5%"), "{error}");
        }
    }
    let error = refused("total = \"1G instr\"", Noise::Clock).to_string();
    assert!(error.contains("--deterministic"), "{error}");
    let unit = |text: &str, noise| check(&budgets(text), &[(observed(noise, &[1.0; 6]), None)]).unwrap().remove(0).unit;
    assert_eq!(unit("total = \"1G instr\"", Noise::Dithered), "instructions");
    assert_eq!(unit("total = \"1s\"", Noise::Clock), "ns");
}

#[test]
fn false_alarms_are_rare() {
    let mut random = fastrand::Rng::with_seed(30);
    // Budgets that are just kept: the limit is the median.
    let text = "total = [\"106.9315ms\", \"106.9315ms\", \"106.9315ms\", \"106.9315ms\", \"106.9315ms\"]";
    let trials = 2000;
    let alarms = (0..trials).filter(|_| {
        let boots = observed(Noise::Clock, &around(&mut random, 100.0, 12));
        check(&budgets(text), &[(boots, None)]).unwrap().iter().any(|c| c.status == Status::Over)
    });
    let rate = alarms.count() as f64 / f64::from(trials);
    assert!(rate <= 0.06, "{rate}");
}

#[test]
fn a_regression_is_found() {
    let mut random = fastrand::Rng::with_seed(31);
    let found = (0..300).filter(|_| {
        let (before, now) = (around(&mut random, 100.0, 12), around(&mut random, 125.0, 12));
        let apart = Baseline::Apart(vec![observed(Noise::Clock, &before)]);
        status("total = \"+5%\"", &observed(Noise::Clock, &now), Some(apart)) == Status::Over
    });
    let found = found.count();
    assert!(found >= 270, "{found} of 300");
}

#[test]
fn an_unknown_name_is_reported_with_similar_ones() {
    let boots = observed(Noise::Clock, &[1.0; 8]);
    let refused = |text: &str| check(&budgets(text), &[(boots.clone(), None)]).unwrap_err().to_string();
    let error = refused("\n[function]\nacpi_innit = \"1ms\"");
    assert!(error.contains("line 3") && error.contains("initcall acpi_init"), "{error}");
    assert!(refused("[phase]\nkernel = \"1ms\"").contains("nothing of that kind"));
    assert!(refused("[instructions]\ntotal = \"1G\"").contains("--deterministic"));
    assert!(refused("total = \"+5%\"").contains("--baseline"));
}

#[test]
fn a_new_or_missing_row_counts_as_zero() {
    let with = observed(Noise::Clock, &[10.0 * MS; 6]);
    let mut without = Observed::new("before", Noise::Clock);
    (0..6).for_each(|round| without.add(round, [(What::total(), 1.0)]));
    let text = "[function]\n\"initcall acpi_init\" = \"+2ms\"";
    assert_eq!(status(text, &with, Some(Baseline::Apart(vec![without.clone()]))), Status::Over);
    assert_eq!(status(text, &without, Some(Baseline::Rounds(Box::new(with)))), Status::Within);
}

#[test]
fn boots_that_measured_nothing_decide_nothing() {
    let boots = observed(Noise::Clock, &[100.0 * MS; 10]);
    let why = |text: &str, boots: &Observed, baseline| {
        let checked = one(text, boots, baseline);
        assert_eq!((checked.status, checked.p_over), (Status::CannotTell, None), "{text}");
        checked.undecided.unwrap()
    };
    let none = Observed::new("none", Noise::Clock);
    assert_eq!(why("total = \"1s\"", &none, None), Undecided::NoBoots);
    assert_eq!(why("total = \"+5%\"", &none, None), Undecided::NoBoots);
    assert_eq!(why("total = \"1s\"", &observed(Noise::Clock, &[1.0; 4]), None), Undecided::TooFew);
    let apart = |boots: &Observed| Some(Baseline::Apart(vec![boots.clone()]));
    let two = observed(Noise::Clock, &[1.0; 2]);
    assert_eq!(why("total = \"+5%\"", &two, apart(&two)), Undecided::TooFew);
    assert_eq!(why("[metric]\nvmm_cpu = \"1s\"", &boots, None), Undecided::NoEvidence);
    assert_eq!(why("total = \"+5%\"", &boots, apart(&none)), Undecided::NoEvidence);
    assert_eq!(why("kernel = \"6.1\"\ntotal = \"1s\"", &boots, None), Undecided::OtherKernel);
    let on = |machine: &str, kernel: &str| {
        let about = About { machine: machine.to_owned(), kernel: kernel.to_owned(), ..About::default() };
        let mut boots = boots.clone();
        boots.about = about;
        boots
    };
    assert_eq!(status("kernel = \"6.1\"\ntotal = \"1s\"", &on("pc", "6.1.0-1"), None), Status::Within);
    assert_eq!(why("kernel = \"6.1\"\ntotal = \"1s\"", &on("pc", "6.12.0"), None), Undecided::OtherKernel);
    assert_eq!(why("total = \"+5%\"", &on("pc", ""), apart(&on("q35", ""))), Undecided::OtherSetup);
    assert_eq!(status("total = \"1s\"", &on("pc", ""), apart(&on("q35", ""))), Status::Within);
    let refused = check(&budgets("[machine.q35]\ntotal = \"1s\""), &[(on("pc", ""), None)]).unwrap_err();
    assert!(refused.to_string().contains("\"pc\"") && refused.to_string().contains("q35"), "{refused}");
}

/// A gate as it is used: ten boots of a kernel against its own image, with outliers and drift, and a margin of 5 %.
#[test]
fn a_kernel_against_itself_raises_no_alarm() {
    let mut random = fastrand::Rng::with_seed(32);
    let mut counts = [0; 2];
    for _ in 0..200 {
        let drift = 1.0 + 0.02 * random.f64();
        let (before, now) = (around(&mut random, 100.0, 10), around(&mut random, 100.0 * drift, 10));
        let (before, now) = (observed(Noise::Clock, &before), observed(Noise::Clock, &now));
        for (alarms, baseline) in
            counts.iter_mut().zip([Baseline::Apart(vec![before.clone()]), Baseline::Rounds(Box::new(before))])
        {
            *alarms += usize::from(status("total = \"+5%\"", &now, Some(baseline)) == Status::Over);
        }
    }
    println!("{counts:?} alarms in 200 runs");
    assert!(counts.iter().all(|alarms| *alarms <= 2), "{counts:?} alarms in 200 runs");
}

#[test]
fn heads_of_coins() {
    for (heads, n, p) in [(0, 5, 1.0), (5, 5, 1.0 / 32.0), (4, 5, 6.0 / 32.0), (8, 10, 56.0 / 1024.0)] {
        assert!((at_least(heads, n) - p).abs() < 1e-12, "{heads} of {n}");
    }
    assert!(at_least(3000, 4000) < 1e-12 && at_least(2000, 4000) > 0.4);
}
