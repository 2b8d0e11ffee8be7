//! Boots with known answers: random scripts of delays in the reference kernel, and a model of their costs that uses
//! only the script. The boots are recorded and shown as any other. Every row of the boot path must match the model
//! within 10 µs or 0.1 %, and no other row may change.
//!
//! In the model, delays of stages, SYSINITs, probes, attaches and mounts add up one after the other. Delays of threads
//! run in parallel, and are on the path only while the boot waits for them. Three threads wait for each other, so blame
//! goes three deep. In about every other script, mounting root does not wait for the USB bus. Then the bus's delay must
//! not be on the path.
//!
//! The model's other input is a plain boot's work between its waits. The seed of each script is printed.
//! `BOOTSCOPE_TRUTH_SCRIPTS=500` runs more than the default fifty, `BOOTSCOPE_TRUTH_SEED` sets the first seed.
//! `BOOTSCOPE_TRUTH_CPUS=4` boots with more than one CPU. `BOOTSCOPE_TRUTH_CLOCK=host` uses the host's clock, for
//! manual runs on a quiet machine. With that clock no row may be shorter than the model by more than 2 % or 1 ms: its
//! time would be in another row. Longer rows, due to the host, are printed and counted.

use crate::support::boots::{Scratch, evidence, recorded};
use crate::support::lab::{built, record_lab};
use crate::support::scripts::{Random, ns_between, number, seeds};
use crate::support::{list, ns, shown, text};
use std::collections::{BTreeMap, BTreeSet};
use std::env;

/// A place, and its row.
type Place = (&'static str, &'static str);

/// Places that run one after the other until the boot waits for the configuration hooks.
const BEFORE_HOOKS: [Place; 16] = [
    ("stage.pit", "hammer_time"),
    ("stage.heap", "hammer_time"),
    ("sysinit.announce", "SYSINIT announce"),
    ("sysinit.vm_mem", "SYSINIT vm_mem"),
    ("sysinit.cpu", "SYSINIT cpu"),
    ("sysinit.cpu_mp", "SYSINIT cpu_mp"),
    ("sysinit.clocks", "SYSINIT clocks"),
    ("sysinit.g_init", "SYSINIT g_init"),
    ("probe.isa", "DEVICE_PROBE isa"),
    ("attach.uart0", "DEVICE_ATTACH uart0"),
    ("probe.psm", "DEVICE_PROBE psm"),
    ("attach.pcib0", "DEVICE_ATTACH pcib0"),
    ("probe.cam", "DEVICE_PROBE cam"),
    ("attach.usbus0", "DEVICE_ATTACH usbus0"),
    ("attach.nexus0", "DEVICE_ATTACH nexus0"),
    ("sysinit.intr_config_hooks", "SYSINIT intr_config_hooks"),
];
/// Places that run after the hooks.
const AFTER_HOOKS: [Place; 6] = [
    ("sysinit.g_waitidle", "SYSINIT g_waitidle"),
    ("sysinit.chain", "SYSINIT chain"),
    ("sysinit.start_aps", "SYSINIT start_aps"),
    ("sysinit.create_init", "SYSINIT create_init"),
    ("mount.devfs", "VFS_MOUNT devfs"),
    ("mount.ramfs", "VFS_MOUNT ramfs"),
];
/// Threads. `init` is the boot's own after its creation.
const THREADS: [Place; 7] = [
    ("thread.xpt_thrd", "THREAD xpt_thrd"),
    ("thread.g_event", "THREAD g_event"),
    ("thread.chain1", "THREAD chain1"),
    ("thread.chain2", "THREAD chain2"),
    ("thread.chain3", "THREAD chain3"),
    ("thread.usbus0", "THREAD usbus0"),
    ("thread.init", "_sleep"),
];
const PLAIN_BOOTS: usize = 5;
const STEP_US: u64 = 20_000;
const THREAD_US: u64 = 100_000;

/// The machine of a script's boot.
struct Machine {
    cpus: u64,
    /// True for host time, false for one nanosecond per instruction.
    by_host: bool,
}

impl Machine {
    fn from_environment() -> Machine {
        let by_host = env::var("BOOTSCOPE_TRUTH_CLOCK").is_ok_and(|clock| clock == "host");
        Machine { cpus: number("BOOTSCOPE_TRUTH_CPUS", 1), by_host }
    }

    fn tolerance_ns(&self, added_ns: u64) -> u64 {
        if self.by_host { 1_000_000.max(added_ns / 50) } else { 10_000.max(added_ns / 1000) }
    }

    /// True if a row is checked. The time of QEMU and its firmware depends on the host.
    fn judges(&self, row: &str) -> bool {
        const KERNELS: [&str; 6] = ["SYSINIT ", "DEVICE_", "VFS_", "THREAD ", "_sleep", "hammer_time"];
        !self.by_host || KERNELS.iter().any(|kernels| row.starts_with(kernels))
    }
}

/// The delays by place, and true if root waits for the USB bus.
#[derive(Default)]
struct Script {
    delays_us: BTreeMap<&'static str, u64>,
    waits_for_usb: bool,
}

impl Script {
    fn plain() -> Script {
        Script { waits_for_usb: true, ..Script::default() }
    }

    fn random(seed: u64) -> Script {
        let mut random = Random::of(seed);
        let mut delays_us = BTreeMap::new();
        for (place, _) in BEFORE_HOOKS.iter().chain(&AFTER_HOOKS) {
            if random.below(3) == 0 {
                delays_us.insert(*place, 1 + random.below(STEP_US));
            }
        }
        for (place, _) in &THREADS {
            if random.below(4) != 0 {
                delays_us.insert(*place, 1 + random.below(THREAD_US));
            }
        }
        Script { delays_us, waits_for_usb: random.below(2) == 0 }
    }

    /// The command line has the same length for any delays, since another length gives another layout.
    fn command_line(&self) -> String {
        let places = BEFORE_HOOKS.iter().chain(&AFTER_HOOKS).chain(&THREADS).map(|(place, _)| *place);
        let delays: Vec<String> = places.map(|place| format!("delay.{place}={:06}us", self.ns(place) / 1000)).collect();
        let root = if self.waits_for_usb { "root_wait=all   " } else { "root_wait=needed" };
        format!("usb=yes chain=yes {root} {}", delays.join(" "))
    }

    fn ns(&self, place: &str) -> u64 {
        self.delays_us.get(place).copied().unwrap_or(0) * 1000
    }

    /// The increase of each row over a plain boot's.
    fn added_ns(&self, work: &Work) -> BTreeMap<&'static str, u64> {
        let mut added = BTreeMap::new();
        for (place, row) in BEFORE_HOOKS.iter().chain(&AFTER_HOOKS) {
            *added.entry(*row).or_default() += self.ns(place);
        }
        let mut now = Clock(BEFORE_HOOKS.iter().map(|(place, _)| self.ns(place)).sum());
        // Threads run from here on. The boot's thread waits first for the hooks, then for events, three deep, and for
        // root.
        let threads_run = now.0;
        let until = |thread: &str| threads_run + self.ns(thread);
        let usb_until = until("thread.usbus0") + work.from_hooks_to_usb_ns;
        added.insert("THREAD xpt_thrd", now.wait_until(until("thread.xpt_thrd")));
        now.pass(work.from_hooks_to_events_ns + self.ns("sysinit.g_waitidle"));
        added.insert("THREAD g_event", now.wait_until(until("thread.g_event")));
        now.pass(self.ns("sysinit.chain"));
        let chain = now.0;
        for thread in ["chain1", "chain2", "chain3"] {
            let (place, row) = THREADS.iter().find(|(place, _)| place.ends_with(thread)).expect("it is in the list");
            added.insert(row, now.wait_until(chain + self.ns(place)));
        }
        now.pass(self.ns("sysinit.start_aps") + self.ns("sysinit.create_init") + work.from_events_to_root_ns);
        now.pass(self.ns("thread.init") + self.ns("mount.devfs"));
        added.insert("_sleep", self.ns("thread.init"));
        added.insert("THREAD usbus0", if self.waits_for_usb { now.wait_until(usb_until) } else { 0 });
        added
    }
}

/// The current time of the simulated boot.
struct Clock(u64);

impl Clock {
    fn pass(&mut self, ns: u64) {
        self.0 += ns;
    }

    /// Waits for a moment, which may be past. Returns the time waited.
    fn wait_until(&mut self, moment: u64) -> u64 {
        let waited = moment.saturating_sub(self.0);
        self.0 += waited;
        waited
    }
}

/// The work of a plain boot between its waits. No thread is waited for long in it, so it is all work.
struct Work {
    from_hooks_to_events_ns: u64,
    /// Threads that were created before the USB bus's thread run before it.
    from_hooks_to_usb_ns: u64,
    from_events_to_root_ns: u64,
}

/// A boot as shown by bootscope.
struct Shown {
    total_ns: u64,
    /// The self time by row, with its delays and waits.
    rows: BTreeMap<String, u64>,
    log: String,
}

impl Shown {
    /// A boot without delays. The host's clock adds noise now and then, and never makes a row shorter.
    fn plain(machine: &Machine) -> Shown {
        let mut plain = Shown::of(&Script::plain(), machine);
        for again in (1..PLAIN_BOOTS).filter(|_| machine.by_host).map(|_| Shown::of(&Script::plain(), machine)) {
            plain.rows.iter_mut().for_each(|(row, ns)| *ns = again.row(row).min(*ns));
            plain.total_ns = plain.total_ns.min(again.total_ns);
        }
        plain
    }

    fn of(script: &Script, machine: &Machine) -> Shown {
        let scratch = Scratch::new();
        let into = scratch.path("boot");
        let mut command = record_lab(&into);
        command.args(["--memory", "128M", "--no-first-run", "--no-firmware-log", "--cpus", &machine.cpus.to_string()]);
        command.args((!machine.by_host).then_some("--deterministic"));
        recorded(command.args(["--append", &script.command_line()]), &into, "reached");
        let document = shown(&into);
        let mut rows: BTreeMap<String, u64> = BTreeMap::new();
        for row in list(&document["where"]) {
            let name = text(&row["name"]).split(" · ").next().expect("a name").to_owned();
            *rows.entry(name).or_default() += ns(&row["self_ns"]) as u64;
        }
        rows.retain(|row, _| machine.judges(row));
        let total_ns = if machine.by_host { rows.values().sum() } else { ns(&document["total_ns"]) as u64 };
        Shown { total_ns, rows, log: evidence(&into, "tslog.txt") }
    }

    fn row(&self, name: &str) -> u64 {
        self.rows.get(name).copied().unwrap_or(0)
    }
}

#[test]
fn every_delay_is_in_its_row_and_nowhere_else() {
    if !built() {
        return;
    }
    let machine = Machine::from_environment();
    let seeds = seeds();
    let scripts = seeds.end - seeds.start;
    let plain = Shown::plain(&machine);
    // By the host's clock a tick is not a nanosecond, and the work is far less than the tolerance.
    let between = |events| if machine.by_host { 0 } else { ns_between(&plain.log, events) };
    let work = Work {
        from_hooks_to_events_ns: between("WAIT config hooks".."EVENT WAIT events"),
        from_hooks_to_usb_ns: between("WAIT config hooks".."EVENT RELEASE root mount"),
        from_events_to_root_ns: between("UNWAIT events".."EVENT WAIT root mount"),
    };
    let (mut worst_ns, mut hidden, mut judged, mut longer) = (0, 0, 0, 0);
    for seed in seeds {
        let script = Script::random(seed);
        let slow = Shown::of(&script, &machine);
        let model = script.added_ns(&work);
        let mut check = |what: &str, measured_ns: u64, plain_ns: u64, added_ns: u64| {
            let off_ns = measured_ns.abs_diff(plain_ns + added_ns);
            let miss = format!("seed {seed}: {what}: {measured_ns} ns, plain {plain_ns} ns, the model adds {added_ns}");
            let within = off_ns <= machine.tolerance_ns(added_ns);
            let disturbed = !within && machine.by_host && measured_ns > plain_ns + added_ns;
            assert!(within || disturbed, "{miss}\n{}", script.command_line());
            if disturbed {
                println!("longer by {off_ns} ns: {miss}");
            }
            (judged, longer) = (judged + 1, longer + u64::from(disturbed));
            worst_ns = worst_ns.max(off_ns);
        };
        let added: u64 = model.values().sum();
        println!("seed {seed}: {added} ns more, {} ns measured", slow.total_ns as i64 - plain.total_ns as i64);
        check("the whole boot", slow.total_ns, plain.total_ns, added);
        let rows = slow.rows.keys().chain(plain.rows.keys()).map(String::as_str).chain(model.keys().copied());
        let rows: BTreeSet<&str> = rows.collect();
        for row in rows {
            check(row, slow.row(row), plain.row(row), model.get(row).copied().unwrap_or(0));
        }
        hidden += usize::from(script.ns("thread.usbus0") > 0 && slow.row("THREAD usbus0") < 1000);
    }
    println!("{scripts} scripts, no row more than {worst_ns} ns off; a delay was hidden in parallel in {hidden}");
    println!("{judged} rows judged, {longer} of them longer");
    assert!(scripts < 20 || hidden > 0, "no script hid its delay of the USB bus");
}
