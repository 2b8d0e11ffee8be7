//! Any boot can be made, and what it does is known beforehand: random scripts of delays, and a model of what they cost.
//!
//! The model knows nothing but the script and what a plain boot does between its waits: delays of stages, SYSINITs, probes, attaches and mounts add up
//! one after the other; those of threads run beside each other, and count only where the boot waits for them. Threads first
//! run when thread0 first waits, for the configuration hooks. The seed of each script is printed;
//! `BOOTSCOPE_TRUTH_SCRIPTS=500` runs more than the usual ten, `BOOTSCOPE_TRUTH_SEED` begins elsewhere.

mod support;

use std::collections::HashMap;
use std::env;
use support::{Boot, DETERMINISTIC, DONE, Machine, kernel};

/// What runs one after the other until the boot waits for the configuration hooks: place, and the frame it is in.
const BEFORE_HOOKS: [(&str, &str); 16] = [
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
/// And what does after it.
const AFTER_HOOKS: [(&str, &str); 5] = [
    ("sysinit.g_waitidle", "SYSINIT g_waitidle"),
    ("sysinit.start_aps", "SYSINIT start_aps"),
    ("sysinit.create_init", "SYSINIT create_init"),
    ("mount.devfs", "VFS_MOUNT devfs"),
    ("mount.ramfs", "VFS_MOUNT ramfs"),
];
const THREADS: [&str; 4] = ["thread.xpt_thrd", "thread.g_event", "thread.usbus0", "thread.init"];
const WORDS: &str = "usb=yes root_wait=all";

struct Random(u64);

impl Random {
    /// xorshift64*.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

/// Delays in microseconds, by place; a place without one has 0.
struct Script(HashMap<&'static str, u64>);

impl Script {
    fn random(random: &mut Random) -> Script {
        let sequence = BEFORE_HOOKS.iter().chain(&AFTER_HOOKS).map(|(place, _)| *place);
        let mut delays = HashMap::new();
        for place in sequence {
            if random.below(3) == 0 {
                delays.insert(place, 1 + random.below(20_000));
            }
        }
        for thread in THREADS {
            if random.below(4) != 0 {
                delays.insert(thread, 1 + random.below(100_000));
            }
        }
        Script(delays)
    }

    fn us(&self, place: &str) -> u64 {
        self.0.get(place).copied().unwrap_or(0)
    }

    fn command_line(&self) -> String {
        // Delays that are none keep the length alike, and so the layout.
        let places = BEFORE_HOOKS.iter().chain(&AFTER_HOOKS).map(|(place, _)| *place).chain(THREADS);
        let words: Vec<String> = places.map(|place| format!("delay.{place}={:06}us", self.us(place))).collect();
        format!("{WORDS} {}", words.join(" "))
    }

    fn ns(&self, place: &str) -> u64 {
        self.us(place) * 1000
    }

    /// When `start_init` ends, in nanoseconds after what a plain boot needs until the configuration hooks are waited for.
    fn end_ns(&self, work: &Work) -> u64 {
        let threads_run = BEFORE_HOOKS.iter().map(|(place, _)| self.ns(place)).sum::<u64>();
        let released = |thread| threads_run + self.ns(thread);
        let hooks_taken_back = released("thread.xpt_thrd");
        let waits_for_events = hooks_taken_back + work.from_hooks_to_events_ns + self.ns("sysinit.g_waitidle");
        let events_done = waits_for_events.max(released("thread.g_event"));
        let init_runs = events_done + self.ns("sysinit.start_aps") + self.ns("sysinit.create_init");
        let waits_for_root = init_runs + work.from_events_to_root_ns + self.ns("thread.init") + self.ns("mount.devfs");
        waits_for_root.max(released("thread.usbus0")) + self.ns("mount.ramfs")
    }

    /// How much longer it takes than a plain boot.
    fn added_ns(&self, work: &Work) -> u64 {
        self.end_ns(work) - Script(HashMap::new()).end_ns(work)
    }
}

/// What a plain boot does between its waits: in it nobody is waited for long, so it is all work.
struct Work {
    from_hooks_to_events_ns: u64,
    from_events_to_root_ns: u64,
}

fn end_ns(boot: &Boot) -> u64 {
    boot.ticks_between("ENTER hammer_time", "EXIT start_init")
}

/// What belongs to a frame itself: without what it calls, but for `DELAY`.
fn own_ns(boot: &Boot, frame: &str) -> u64 {
    let mut stacks: HashMap<&str, Vec<(&str, u64, u64)>> = HashMap::new();
    let mut own = 0;
    for line in boot.log.lines() {
        let mut words = line.splitn(4, ' ');
        let [Some(thread), Some(ticks), Some(kind), Some(name)] = [(); 4].map(|()| words.next()) else { continue };
        let ticks: u64 = ticks.parse().unwrap();
        let stack = stacks.entry(thread).or_default();
        match kind {
            "ENTER" => stack.push((name, ticks, 0)),
            "EXIT" => {
                let (entered, from, below) = stack.pop().unwrap_or_else(|| panic!("nothing to leave: {line}"));
                assert_eq!(entered, name, "{line}");
                if name == frame {
                    own += ticks - from - below;
                }
                if let Some(caller) = stack.last_mut().filter(|_| name != "DELAY") {
                    caller.2 += ticks - from;
                }
            }
            _ => {}
        }
    }
    own
}

#[test]
fn a_boot_takes_what_its_script_says() {
    let Some(kernel) = kernel() else { return };
    let number = |name: &str, default: u64| env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (scripts, first) = (number("BOOTSCOPE_TRUTH_SCRIPTS", 10), number("BOOTSCOPE_TRUTH_SEED", 1));
    let boot = |script: &Script| {
        let boot = Machine::new("q35").with(DETERMINISTIC).boot(&kernel, &script.command_line());
        assert_eq!(boot.status, DONE, "{}", boot.console);
        assert!(!boot.console.contains("not understood"), "{}", boot.console);
        boot
    };
    let plain = boot(&Script(HashMap::new()));
    let work = Work {
        from_hooks_to_events_ns: plain.ticks_between("WAIT config hooks", "EVENT WAIT events"),
        from_events_to_root_ns: plain.ticks_between("UNWAIT events", "EVENT WAIT root mount"),
    };
    let near = |measured_ns: u64, plain_ns: u64, added_ns: u64| {
        measured_ns.abs_diff(plain_ns + added_ns) <= 10_000.max(added_ns / 1000)
    };
    for seed in first..first + scripts {
        let script = Script::random(&mut Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1));
        let slow = boot(&script);
        let (measured, usual, added) = (end_ns(&slow), end_ns(&plain), script.added_ns(&work));
        println!("seed {seed}: {} ns more, the model says {added}", measured - usual);
        assert!(near(measured, usual, added), "seed {seed}: {}", script.command_line());
        for frame in BEFORE_HOOKS.iter().chain(&AFTER_HOOKS).map(|(_, frame)| *frame) {
            let places = BEFORE_HOOKS.iter().chain(&AFTER_HOOKS).filter(|(_, of)| *of == frame);
            let added = places.map(|(place, _)| script.ns(place)).sum();
            let (measured, usual) = (own_ns(&slow, frame), own_ns(&plain, frame));
            assert!(near(measured, usual, added), "seed {seed}: {frame}: {measured} ns, {usual} ns, {added} ns");
        }
    }
}
