//! What engineers found by hand and published, bootscope finds in recordings like theirs, without being told where to look.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::boots::Scratch;
use support::{bootscope, list, ns, run, text};

/// A log as it was published.
fn published(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../evidence/tests/data").join(name)
}

/// The findings of a log, imported.
fn found_in(log: &Path, flags: &[&str]) -> Vec<Value> {
    let scratch = Scratch::new();
    let boot = scratch.path("boot");
    run(bootscope("import").arg(log).args(flags).arg("-o").arg(&boot)).exits(0);
    let document = run(bootscope("findings").arg("--json").arg(&boot)).exits(0).json();
    list(&document["findings"]).to_vec()
}

/// Behme and Raza, linux-embedded: four initcalls of an i.MX6 sleep one or two ticks of 10 ms each; with HZ=1000 their
/// 55 ms are 4 ms.
#[test]
fn initcalls_that_sleep_for_ticks() {
    for log in ["linux-3.5.7-imx6-only-returns.log", "linux-3.5.7-imx6-wrapped-by-mail.log"] {
        let found = found_in(&published("log").join(log), &[]);
        let [only] = &found[..] else { panic!("{log}: {found:#?}") };
        assert_eq!(text(&only["id"]), "tick-waits");
        let title = text(&only["title"]);
        assert!(title.starts_with("initcall rcu_spawn_kthreads") && title.contains("HZ 100"), "{title}");
        assert!((46_000_000..54_000_000).contains(&ns(&only["cost_ns"])), "{only:#}");
        assert!(text(&only["remedy"]).contains("HZ=1000"), "{only:#}");
        let who: Vec<&str> = list(&only["evidence"]).iter().map(|span| text(&span["name"])).collect();
        for initcall in ["spawn_ksoftirqd", "init_workqueues", "cpu_stop_init", "rcu_spawn_kthreads"] {
            assert!(who.iter().any(|name| name.ends_with(initcall)), "{initcall}: {who:?}");
        }
    }
}

/// Logs of other kernels have nothing of what was published of this one.
#[test]
fn other_kernels_are_not_accused() {
    for log in
        ["linux-3.12-x86-no-stamps.log", "linux-4.0-vexpress-coarse-clock.log", "linux-5.2-sparc64-coarse-clock.log"]
    {
        let found = found_in(&published("log").join(log), &[]);
        assert!(found.is_empty(), "{log}: {found:#?}");
    }
}
