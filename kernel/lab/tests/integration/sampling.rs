//! Sampling while the kernel boots: no sample is lost, sampling takes less than 1 % of the time, and the shares agree with the
//! recorder's.

use crate::support::{Boot, DONE, Machine, kernel};
use object::{Object, ObjectSymbol};
use std::path::Path;

/// A sample of a CPU. The functions are innermost first, with the mangled names of the kernel's file.
struct Sample {
    cpu: u32,
    functions: Vec<String>,
}

struct Sampled {
    boot: Boot,
    samples: Vec<Sample>,
    lost: u64,
    began_ns: u64,
}

impl Sampled {
    /// Number of samples with a function of this name on the stack.
    fn count(&self, name: &str) -> usize {
        self.samples.iter().filter(|sample| sample.functions.iter().any(|function| function.contains(name))).count()
    }

    /// An event's share of the time since sampling began, by the log, in per cent.
    fn recorded(&self, name: &str) -> f64 {
        let ns = self.boot.log.lines().fold(0u64, |sum, line| {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                [_, ticks, "ENTER", event] if event == name => sum.wrapping_sub(ticks.parse::<u64>().unwrap()),
                [_, ticks, "EXIT", event] if event == name => sum.wrapping_add(ticks.parse::<u64>().unwrap()),
                _ => sum,
            }
        });
        ns as f64 * 100.0 / (self.boot.ticks_at("EXIT start_init") - self.began_ns) as f64
    }
}

/// Boots the kernel and reads its samples. If the kernel was built without frame pointers, prints that and returns `None`.
fn sampled(machine: Machine, kernel: &Path, words: &str) -> Option<Sampled> {
    let folder = tempfile::tempdir().unwrap();
    let port = folder.path().join("port");
    let machine = machine.with(&["-debugcon", &format!("file:{}", port.display())]);
    let boot = machine.boot(kernel, words);
    assert_eq!(boot.status, DONE, "{words}: {}", boot.console);
    if boot.console.contains("built without frame pointers") {
        println!("skipped: the kernel is built without frame pointers; `make build` has them");
        return None;
    }
    let output = String::from_utf8(std::fs::read(port).unwrap()).unwrap();
    // The pieces of the file. Each follows a `P` line, which has its length.
    let mut text = String::new();
    let mut rest = output.as_str();
    while let Some(at) = rest.find("P samples.txt ") {
        let (line, after) = rest[at..].split_once('\n').unwrap();
        let bytes: usize = line.split(' ').nth(3).unwrap().parse().unwrap();
        text.push_str(&after[..bytes]);
        rest = &after[bytes..];
    }
    let file = std::fs::read(kernel).unwrap();
    let image = object::File::parse(&*file).unwrap();
    let mut symbols: Vec<(u64, String)> = image
        .symbols()
        .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?.to_owned())))
        .filter(|(_, name)| !name.is_empty())
        .collect();
    symbols.sort();
    let function = |address: u64| {
        let after = symbols.partition_point(|symbol| symbol.0 <= address);
        symbols[..after].last().map_or_else(String::new, |symbol| symbol.1.clone())
    };
    let number = |what: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_else(|| panic!("{what} in {text}"));
        line.trim().trim_end_matches(" ns").replace('.', "").parse::<u64>().unwrap()
    };
    let mut samples: Vec<Sample> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.strip_prefix('\t') {
            None => {
                let cpu = line.split_once('[').unwrap().1.split_once(']').unwrap().0.parse().unwrap();
                samples.push(Sample { cpu, functions: Vec::new() });
            }
            Some(frame) => {
                let functions = &mut samples.last_mut().unwrap().functions;
                let address = u64::from_str_radix(frame.split_whitespace().next().unwrap(), 16).unwrap();
                // A return address may be the first address of the next function.
                functions.push(function(address - u64::from(!functions.is_empty())));
            }
        }
    }
    Some(Sampled { boot, samples, lost: number("# lost:"), began_ns: number("# sampled from:") })
}

#[test]
fn each_cpu_is_sampled_at_the_rate_and_nothing_is_lost() {
    let Some(kernel) = kernel() else { return };
    for cpus in [1, 4] {
        let mut machine = Machine::deterministic();
        machine.cpus = cpus;
        let Some(sampled) = sampled(machine, &kernel, "sample=1000 services=1 hpt=in-probe") else { return };
        let end_ns = sampled.boot.ticks_at("EXIT start_init");
        let expected = (end_ns - sampled.began_ns) as f64 / 999_846.0;
        for cpu in 0..cpus {
            let count = sampled.samples.iter().filter(|sample| sample.cpu == cpu).count();
            println!("{cpus} CPUs: CPU {cpu}: {count} samples, {} lost", sampled.lost);
            // The other CPUs are sampled a little later, when they have been started.
            let min = if cpu == 0 { 0.99 } else { 0.7 };
            assert!((min..1.03).contains(&(count as f64 / expected)), "CPU {cpu}: {count} of {expected}");
        }
        assert_eq!(sampled.lost, 0);
    }
}

/// The 1250 samples of a boot have a standard error of 1.3 points. If instructions are counted, the instants of a rate are the
/// same in each boot. With one build of the kernel all boots at 10 000 Hz were 2.3 to 3.3 points off, with other builds none. So
/// the test combines three rates, whose instants differ.
#[test]
#[ignore = "21 s: in make test-all"]
fn samples_and_recorder_agree() {
    const RATES_HZ: [u32; 3] = [7_000, 9_000, 10_000];
    let Some(kernel) = kernel() else { return };
    for frames in ["scan", "recycle", "p2buddy"] {
        let boots = RATES_HZ.map(|hz| {
            let words = format!("sample={hz} services=9 frames={frames}");
            sampled(Machine::deterministic(), &kernel, &words)
        });
        if boots.iter().any(Option::is_none) {
            return;
        }
        let boots: Vec<Sampled> = boots.into_iter().flatten().collect();
        assert!(boots.iter().all(|boot| boot.lost == 0));
        for (event, function) in [
            ("frame_allocator", "6memory6logged"),
            ("page_fault", "8services10page_fault"),
            ("SYSINIT cpu", "5clock13calibrate_tsc"),
        ] {
            let recorded = boots.iter().map(|boot| boot.recorded(event)).sum::<f64>() / boots.len() as f64;
            let all: usize = boots.iter().map(|boot| boot.samples.len()).sum();
            let count = boots.iter().map(|boot| boot.count(function)).sum::<usize>();
            let sampled = count as f64 * 100.0 / all as f64;
            println!("frames={frames}: {event}: recorded {recorded:.1} %, sampled {sampled:.1} % of {all}");
            assert!((recorded - sampled).abs() < 2.0, "frames={frames}: {event}: {recorded} {sampled}");
        }
    }
}

#[test]
fn a_thousand_samples_a_second_cost_less_than_a_hundredth() {
    let Some(kernel) = kernel() else { return };
    let starting_ns = |sample: &str| {
        let boot = Machine::deterministic().boot(&kernel, &format!("services=3 frames=scan {sample}"));
        assert_eq!(boot.status, DONE, "{}", boot.console);
        boot.ticks_at("EXIT start_init") - boot.ticks_at("ENTER start_init")
    };
    let (plain, sampled) = (starting_ns("sample=0"), starting_ns("sample=1000"));
    println!("services start in {plain} ns, {sampled} sampled at 1000 Hz");
    // One instruction is one nanosecond.
    assert!(sampled > plain && (sampled - plain) * 100 < plain, "{plain} {sampled}");
}

#[test]
fn every_machine_is_sampled_and_a_panic_still_stops_all() {
    let Some(kernel) = kernel() else { return };
    for name in ["pc", "q35", "microvm"] {
        let mut machine = Machine::new(name);
        machine.cpus = 2;
        let boot = machine.boot(&kernel, "sample=1000");
        assert_eq!(boot.status, DONE, "{name}: {}", boot.console);
        assert!(boot.console.contains(" samples, 0 lost"), "{name}: {}", boot.console);
    }
    // A sampling interrupt must not stop the panicking CPU while it prints the reason.
    for (name, cpus) in [("pc", 4), ("q35", 1), ("q35", 4), ("microvm", 4)] {
        let mut machine = Machine::new(name);
        machine.cpus = cpus;
        let boot = machine.boot(&kernel, "sample=10000 panic=create_init");
        assert_eq!(boot.status, crate::support::PANICKED, "{name}, {cpus} CPUs: {}", boot.console);
        assert!(boot.console.ends_with("asked for at sysinit create_init\n"), "{name}, {cpus} CPUs: {}", boot.console);
    }
}
