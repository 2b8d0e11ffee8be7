//! `synthetic-fleet --to LAKE`: writes a lake of a simulated fleet, and the planted regressions to `LAKE.truth.json`.

use anyhow::Context as _;
use clap::Parser;
use lake::Lake;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use synthetic_fleet::Fleet;

/// Makes a lake of simulated boots with known regressions
#[derive(Parser)]
struct Args {
    /// The lake's folder. The planted regressions are written to LAKE.truth.json
    #[arg(long)]
    to: PathBuf,
    /// Seed that determines all boots
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Total number of boots
    #[arg(long, default_value_t = 1_000_000)]
    boots: u64,
    /// Kinds of machine
    #[arg(long, default_value_t = 200)]
    kinds: u64,
    /// Days over which they are spread
    #[arg(long, default_value_t = 90)]
    days: u64,
    /// Rows of each boot
    #[arg(long, default_value_t = 300)]
    rows: u64,
    /// Rows that become slower, each in another kind of machine
    #[arg(long, default_value_t = 40)]
    regressions: u64,
    /// Slowdown of these rows: 1.05 is 5 % slower
    #[arg(long, default_value_t = 1.05)]
    ratio: f64,
}

/// Maximum number of boots added at once, which make one file of each table. It bounds the memory.
const BATCH: u64 = 8192;

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let Args { seed, boots, kinds, days, rows, regressions, ratio, .. } = args;
    let fleet = Fleet { seed, boots, kinds, days, rows, regressions, ratio };
    let truth = serde_json::json!({
        "fleet": fleet, "planted": fleet.planted(), "slow_machines": fleet.slow_machines()
    });
    let mut truth_path = args.to.clone().into_os_string();
    truth_path.push(".truth.json");
    let truth_path = PathBuf::from(truth_path);
    std::fs::write(&truth_path, serde_json::to_vec_pretty(&truth)?)
        .with_context(|| truth_path.display().to_string())?;
    let lake = Mutex::new(Lake::open(&args.to)?);
    let next_day = AtomicU64::new(0);
    let threads = std::thread::available_parallelism()?.get();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| make(&fleet, &lake, &next_day))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow::anyhow!("a worker failed"))?)
    })
}

fn make(fleet: &Fleet, lake: &Mutex<Lake>, next_day: &AtomicU64) -> anyhow::Result<()> {
    loop {
        let day = next_day.fetch_add(1, Ordering::Relaxed);
        if day >= fleet.days {
            return Ok(());
        }
        let all = fleet.of_day(day);
        for from in all.clone().step_by(usize::try_from(BATCH)?) {
            let boots = (from..all.end.min(from + BATCH)).map(|number| fleet.boot(number)).collect();
            lake.lock().map_err(|_| anyhow::anyhow!("a worker failed"))?.add(boots)?;
        }
    }
}
