//! Boots of kernels for other architectures than this machine's, on QEMU's `virt`, and the properties that all of them
//! must have.

use super::boots::{Scratch, evidence, found, manifest, messages, record, recorded};
use super::{assert_adds_up, list, ns, shown, skip, text};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Functions that only initcalls call. None of them runs before the kernel's tracer starts, nor for process 1.
const TRACED: [&str; 8] = [
    "bus_add_driver",
    "crypto_register_alg",
    "device_add",
    "do_one_initcall",
    "driver_register",
    "kernfs_add_one",
    "misc_register",
    "platform_device_add",
];

/// An architecture, and the sources of the files for a boot.
pub struct OtherArch {
    /// The name in QEMU.
    pub name: &'static str,
    /// The variable that names the kernel to boot.
    pub variable: &'static str,
    /// The name of such a kernel for `scripts/fetch-kernel`.
    pub fetched_as: &'static str,
    /// The rate of its counter on QEMU's `virt`.
    pub counter_hz: f64,
    /// The number of CPUs for boots in host time.
    pub cpus: &'static str,
}

impl OtherArch {
    fn qemu(&self) -> String {
        format!("qemu-system-{}", self.name)
    }

    /// The kernel to boot. Without it or another required file the tests skip, and print why.
    pub fn kernel(&self) -> Option<PathBuf> {
        let OtherArch { name, variable, fetched_as, .. } = self;
        let without = |why: &str| {
            skip(why);
            None
        };
        let Some(kernel) = std::env::var(variable).ok().filter(|name| !name.is_empty()) else {
            return without(&format!("{variable} names no Image: scripts/fetch-kernel {fetched_as} fetches one"));
        };
        let qemu = Command::new(self.qemu()).arg("--version").stdout(Stdio::null()).status();
        if !qemu.is_ok_and(|status| status.success()) {
            return without(&format!("there is no {}: scripts/setup installs Debian's package of it", self.qemu()));
        }
        let init = format!("guest-init-{name}");
        if !std::env::var_os("BOOTSCOPE_LIB").is_some_and(|lib| PathBuf::from(lib).join(&init).is_file()) {
            return without(&format!("there is no {init}: scripts/build-guest-init says why it could not be built"));
        }
        Some(found(&kernel))
    }

    /// Boots it as any other kernel, and compares the results with the kernel's own log.
    pub fn is_recorded_as_any_other(&self) {
        let Some(kernel) = self.kernel() else { return };
        let scratch = Scratch::new();
        let boot = scratch.path("boot");
        recorded(record(&kernel, &boot).args(["--cpus", self.cpus]), &boot, "reached");
        let how = &manifest(&boot)["how"];
        assert_eq!((text(&how["arch"]), text(&how["qemu"])), (self.name, &*self.qemu()));

        let document = shown(&boot);
        assert_adds_up(&document);
        let phases: Vec<&str> = list(&document["phases"]).iter().map(|phase| text(&phase["name"])).collect();
        for phase in ["firmware", "early kernel", "initcalls: early", "initcalls: late", "hand-over", "process 1"] {
            assert!(phases.contains(&phase), "{phase} in {phases:?}");
        }
        let unexplained = list(&document["phases"]).iter().filter(|phase| phase["name"] == "unexplained");
        let unexplained: i64 = unexplained.map(|phase| ns(&phase["end_ns"]) - ns(&phase["start_ns"])).sum();
        assert!(unexplained * 50 <= ns(&document["total_ns"]), "{unexplained} ns are unexplained");
        let counter = &list(&document["clocks"])[0];
        assert_eq!(counter["name"], "guest counter");
        assert!((counter["hz"].as_f64().unwrap() - self.counter_hz).abs() < 1.0, "{counter}");

        // The kernel's log has the end on its own clock, which process 1 joined with the host's.
        let log = messages(&evidence(&boot, "kmsg.log"));
        let run_init = log.iter().find(|(_, message)| message.starts_with("Run /bootscope/init")).expect("it says so");
        let handed_over = list(&document["phases"]).iter().find(|phase| phase["name"] == "hand-over").unwrap();
        let first = list(&document["phases"]).iter().find(|phase| phase["name"] == "initcalls: early").unwrap();
        let by_log = run_init.0 as f64 * 1e3;
        let by_host = (ns(&handed_over["start_ns"]) - ns(&first["start_ns"])) as f64;
        println!(
            "{:.1} ms by the kernel's clock until process 1, of which {:.1} by ours from the first initcall on",
            by_log / 1e6,
            by_host / 1e6
        );
        assert!(by_host < by_log && by_log < ns(&document["total_ns"]) as f64);
    }

    /// Checks that two deterministic boots are equal and have names for code that ran before any message. Returns the
    /// document of the first; `None` if skipped.
    pub fn is_equal_twice(&self) -> Option<Value> {
        let kernel = self.kernel()?;
        let scratch = Scratch::new();
        let [first, second] = ["first", "second"].map(|name| {
            let boot = scratch.path(name);
            recorded(record(&kernel, &boot).arg("--deterministic"), &boot, "reached");
            let mut document = shown(&boot);
            // QEMU's own use of the host.
            for field in ["vmm_max_rss_bytes", "vmm_cpu_ns"] {
                document["memory"][field].take();
                document["metrics"][field].take();
            }
            document
        });
        assert!(ns(&first["total_ns"]) > 100_000_000);
        // After the end mark the guest waits for the host, and what it runs meanwhile is counted in its diagnostics.
        for (field, value) in first.as_object().unwrap().iter().filter(|(field, _)| *field != "diagnostics") {
            assert_eq!(value, &second[field], "{field}");
        }
        has_early_names(&first);
        Some(first)
    }

    /// Checks that two deterministic boots with call traces are equal in each function. The kernel's own tracer must
    /// count the same, and the promises for call traces must hold.
    pub fn is_followed(&self) {
        let Some(kernel) = self.kernel() else { return };
        let scratch = Scratch::new();
        let tracer = format!("ftrace=function ftrace_filter={} trace_buf_size=32M", TRACED.join(","));
        let [first, second] = ["first", "second"].map(|name| {
            let boot = scratch.path(name);
            let mut command = record(&kernel, &boot);
            command.args(["--trace", "calls", "--deterministic", "--memory", "1G", "--append", &tracer]);
            recorded(&mut command, &boot, "reached");
            shown(&boot)["calls"].clone()
        });
        let [matched, owned, count] = ["matched", "owned", "count"].map(|name| first[name].as_f64().unwrap());
        println!("{count} calls, {:.4} % matched, {:.4} % owned", matched * 100.0, owned * 100.0);
        assert!(matched >= 0.999 && owned >= 0.99 && count > 1e6, "{matched} {owned} {count}");
        assert_eq!(first["instructions"], second["instructions"]);
        // Functions that only ran after the end mark depend on the host's timing.
        let ran = |row: &&Value| row["total_instructions"] != 0 || row["calls"] != 0;
        let [one, other] = [&first, &second].map(|calls| list(&calls["functions"]).iter().filter(ran));
        for (one, other) in one.zip(other) {
            assert_eq!(one, other);
        }

        let trace = evidence(&scratch.path("first"), "trace.txt");
        let called = |line: &str| Some(line.split_once(" <-")?.0.split_whitespace().next_back()?.to_owned());
        let lines: Vec<String> = trace.lines().filter(|line| !line.starts_with('#')).filter_map(called).collect();
        let mut of_all = 0;
        for name in TRACED {
            let by_kernel = lines.iter().filter(|line| *line == name).count() as i64;
            let row = list(&first["functions"]).iter().find(|row| row["name"] == name);
            let by_plugin = row.map_or(0, |row| ns(&row["calls"]));
            println!("{name}: {by_kernel} lines, {by_plugin} calls");
            assert_eq!(by_kernel, by_plugin, "{name}");
            of_all += by_kernel;
        }
        assert!(of_all > 1000, "the tracer's lines");
    }
}

/// Checks that code has names from the kernel's entry on, before any message or trace.
pub fn has_early_names(document: &Value) {
    let functions = list(&document["functions"]);
    for name in ["start_kernel", "setup_arch", "time_init"] {
        assert!(functions.iter().any(|row| row["name"] == name), "{name} was not seen to run");
    }
}
