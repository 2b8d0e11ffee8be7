//! Checks that `kill -9` in the middle of a bench loses no boot that was over.
//!
//! The test starts itself again as the bench to kill, which prints the boots that it has kept.

use benchmark::{Boot, Boots, Head, Journal, JournalError, Measured, Plan, Stop, Turn, Variant, read, run};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const PATH: &str = "BOOTSCOPE_TEST_JOURNAL";

struct Quick(Journal);

impl Boots for Quick {
    type Error = JournalError;
    fn boot(&mut self, turn: &Turn) -> Result<Option<Measured>, JournalError> {
        // A boot with many phases has a line of this length.
        let detail = "x".repeat(turn.number as usize * 37 % 5000);
        Ok(Some(Measured { outcome: "reached".to_owned(), detail, total_ns: Some(1), ..Measured::default() }))
    }
    fn keep(&mut self, boot: &Boot) -> Result<(), JournalError> {
        self.0.boot(boot)?;
        println!("kept {}", boot.number);
        std::io::stdout().flush().unwrap();
        Ok(())
    }
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

#[test]
#[ignore = "the bench that the other test kills"]
fn bench() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let stop = Stop { rounds: u32::MAX, ..Stop::default() };
    let plan = Plan { variants: 2, warm_ups: 1, stop, seed: 1, ..Plan::default() };
    let head = Head::of(plan.clone(), vec![Variant::named("a"), Variant::named("b")]);
    run(&plan, &mut Quick(Journal::create(Path::new(&path), &head).unwrap()));
}

#[test]
fn a_kill_at_any_moment_loses_no_boot_that_was_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::new();
    println!("random numbers from {}", random.get_seed());
    for kill in 0..20 {
        let path = folder.path().join(format!("{kill}.jsonl"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "killed::bench", "--nocapture"])
            .env(PATH, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.by_ref().map(Result::unwrap).find(|line| line.starts_with("kept"));
        assert!(first.is_some(), "it never began");
        let reader = std::thread::spawn(move || lines.map_while(Result::ok).filter(|l| l.starts_with("kept")).count());
        std::thread::sleep(Duration::from_micros(random.u64(0..20_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let reported = 1 + reader.join().unwrap();
        let journaled = read(&path).unwrap();
        let numbers: Vec<u32> = journaled.document.boots.iter().map(|b| b.number).collect();
        assert!(
            numbers.len() >= reported && numbers.len() <= reported + 1,
            "{} kept, {reported} said so",
            numbers.len()
        );
        assert!(numbers.iter().copied().eq(0..numbers.len() as u32));
        assert!(journaled.damaged.len() <= 1 && journaled.document.ended.is_none());
    }
}
