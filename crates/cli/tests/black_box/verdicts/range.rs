//! `bootscope range`: a repository of tiny kernels, in which one commit makes the boot slower. It uses real git, real
//! builds and real boots. The user's tree, index, branch and stash must stay unchanged.

use crate::support::boots::Scratch;
use crate::support::kills::wait_for;
use crate::support::schemas::Schemas;
use crate::support::{bootscope, list, run, skip, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Builds the guest of a commit: `waits` in the tree sets its length.
const BUILD: &str = "cc -nostdlib -static -no-pie -Wl,-Ttext-segment=0x100000 -Wl,-z,noseparate-code \
    -Wl,--build-id=none -Wl,-z,noexecstack -Wa,--defsym,WAITS=$(cat waits) -o kernel.elf waits.s";
/// Rounds of its loop: a negligible time, and a third of the boot or more.
const QUICK: u32 = 1_000;
const SLOW: u32 = 20_000_000;

/// The variable in the environment of a test's build processes. Its value is the path of the test's repository.
const REPO_VARIABLE: &str = "BOOTSCOPE_TEST_REPO";

struct Repo {
    scratch: Scratch,
}

impl Repo {
    fn new() -> Option<Repo> {
        if cfg!(not(target_arch = "x86_64")) || Command::new("git").arg("--version").output().is_err() {
            skip("the guest is for x86-64, and there has to be git");
            return None;
        }
        let repo = Repo { scratch: Scratch::new() };
        fs::create_dir(repo.path("")).unwrap();
        repo.git(&["init", "-q", "-b", "main"]);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/waits.s");
        fs::copy(source, repo.path("waits.s")).unwrap();
        repo.commit("the first", QUICK);
        Some(repo)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path("repo").join(name)
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.path("")).args([
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@b",
            "-c",
            "commit.gpgsign=false",
        ]);
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Makes a commit with this subject, and returns its name.
    fn commit(&self, subject: &str, waits: u32) -> String {
        fs::write(self.path("waits"), format!("{waits}\n")).unwrap();
        fs::write(self.path("notes"), subject).unwrap();
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", subject]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn range(&self, range: &str, into: &str) -> Command {
        self.range_of(BUILD, range, into)
    }

    fn range_of(&self, build: &str, range: &str, into: &str) -> Command {
        let mut command = bootscope("range");
        command.arg(range).arg("--repo").arg(self.path("")).args(["--build", build, "--kernel", "kernel.elf"]);
        command.arg("--cache").arg(self.scratch.path("cache")).arg("-o").arg(self.scratch.path(into));
        command.args(["--accel", "tcg", "--init", "keep", "--until", "^init: done", "--memory", "32M"]);
        command.args(["--trace", "none"]).env(REPO_VARIABLE, self.path(""));
        command
    }

    /// The number of sleeping processes that a build of this repository started. Their environment has its path,
    /// whatever their parent is now.
    fn sleeping(&self) -> usize {
        let mark = format!("{REPO_VARIABLE}={}", self.path("").display());
        let is_ours = |process: &Path| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
        };
        let sleeps = |process: &Path| fs::read(process.join("cmdline")).is_ok_and(|line| line.starts_with(b"sleep\0"));
        let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        processes.filter(|process| sleeps(process) && is_ours(process)).count()
    }

    /// All user data: every file except git's objects and its notes of work trees, byte for byte.
    fn state(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut all = Vec::new();
        let mut folders = vec![self.path("")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true if path.ends_with(".git/objects") || path.ends_with(".git/worktrees") => {}
                    true => folders.push(path),
                    false => all.push((path.clone(), fs::read(&path).unwrap())),
                }
            }
        }
        all.sort();
        all
    }
}

#[test]
#[ignore = "16 s: in make test-all"]
fn the_first_slow_commit_is_found_and_the_users_tree_is_as_it_was() {
    let Some(repo) = Repo::new() else { return };
    let good = repo.git(&["rev-parse", "HEAD"]);
    repo.commit("quick still", QUICK);
    // A commit that does not build, before the slow one.
    fs::write(repo.path("waits.s"), "no assembler knows this").unwrap();
    repo.commit("broken", QUICK);
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/waits.s"), repo.path("waits.s")).unwrap();
    repo.commit("mended", QUICK);
    let slow = repo.commit("slow", SLOW);
    repo.commit("slow still", SLOW);
    // The user's own state: a stash, a staged and an unstaged change, and a hook that must not run.
    fs::write(repo.path("notes"), "stashed").unwrap();
    repo.git(&["stash", "-q"]);
    fs::write(repo.path("notes"), "staged").unwrap();
    repo.git(&["add", "notes"]);
    fs::write(repo.path("notes"), "changed").unwrap();
    let hook = repo.path(".git/hooks/post-checkout");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", repo.path("hook-ran").display())).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&hook).status().unwrap().success());
    let before = repo.state();

    let range = format!("{good}..main");
    let found = run(repo.range(&range, "search").args(["--bisect", "--json"])).exits(0);
    assert!(found.stderr.contains("no part of the range"), "{}", found.stderr);
    let document = found.json();
    assert_eq!((text(&document["schema"]), text(&document["verdict"])), ("bootscope.bisect/1", "slow"), "{document}");
    Schemas::read().check(&document);
    assert_eq!(text(&document["candidates"][0]["commit"]), slow, "{document}");
    assert!(
        document["probability"].as_f64().unwrap() >= 0.97 && document["after"]["low"].as_f64().unwrap() > 1.1,
        "{document}"
    );
    let changed: Vec<PathBuf> =
        before.iter().zip(repo.state()).filter(|(a, b)| *a != b).map(|(a, _)| a.0.clone()).collect();
    assert!(before.len() == repo.state().len() && changed.is_empty(), "{changed:?}");
    assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 1, "its own tree is gone");

    // The same command again takes all results from the folder: nothing is booted.
    let again = run(repo.range(&range, "search").args(["--bisect", "--json"])).exits(0);
    assert!(again.stderr.contains("going on"), "{}", again.stderr);
    assert_eq!(again.json()["candidates"], document["candidates"]);
    assert_eq!(again.json()["pairs"], document["pairs"]);
    run(bootscope("show").arg(repo.scratch.path("search"))).refuses(&["search among commits", "step-"]);
    // A search with other ends is refused in this folder.
    run(repo.range("main~2..main", "search").args(["--bisect"])).refuses(&["another search", "-o"]);
}

/// Two different kernels, 40 % or more apart, in ten commits: two boots, and the function that moved.
#[test]
fn a_search_by_instructions_boots_each_kernel_once() {
    let Some(repo) = Repo::new() else { return };
    let good = repo.git(&["rev-parse", "HEAD"]);
    for commit in 1..6 {
        repo.commit(&format!("quick {commit}"), QUICK);
    }
    let slow = repo.commit("slow", SLOW);
    for commit in 7..=10 {
        repo.commit(&format!("slow {commit}"), SLOW);
    }
    let search = || {
        let mut command = repo.range(&format!("{good}..main"), "exact");
        command.args(["--bisect", "--deterministic", "--symbols"]).arg(repo.path("kernel.elf"));
        command
    };
    // Its functions' names are those of any of these kernels.
    let build = Command::new("sh").args(["-c", BUILD]).current_dir(repo.path("")).status().unwrap();
    assert!(build.success());
    let ran = run(search().arg("--json")).exits(0);
    let document = ran.json();
    Schemas::read().check(&document);
    assert_eq!((text(&document["verdict"]), text(&document["candidates"][0]["commit"])), ("slow", slow.as_str()));
    assert_eq!((&document["images"], &document["boots"]), (&2.into(), &2.into()), "{document}");
    let moved = &document["moved"]["functions"][0];
    assert_eq!(text(&moved["name"]), "pass_time", "{document}");
    let rounds = u64::from(SLOW - QUICK) * 2;
    let change = moved["on_path_change_ns"].as_u64().unwrap();
    assert!(change.abs_diff(rounds) < rounds / 1000, "{change} and not {rounds}");
    // The same command again boots nothing, and `diff` compares the two recordings that it names.
    let again = run(&mut search()).exits(0);
    assert!(again.stderr.contains("2 boots of 2 images"), "{}", again.stderr);
    assert!(again.text().contains("pass_time") && again.text().contains("2 boots of 2 images"), "{}", again.text());
    let [before, after] = ["before", "after"].map(|side| text(&document["moved"][side]).to_owned());
    let diff = run(bootscope("diff").args([&before, &after])).exits(0);
    assert!(diff.text().contains("pass_time"), "{}", diff.text());

    // The list of all eleven commits needs two boots as well, and one more is allowed.
    let list_all = || {
        let mut command = repo.range(&format!("{good}..main"), "all");
        command.args(["--deterministic", "--json"]);
        run(&mut command).exits(0).json()
    };
    let document = list_all();
    Schemas::read().check(&document);
    let commits = list(&document["commits"]);
    let changes: Vec<&str> = commits.iter().map(|c| c["step"]["change"].as_str().unwrap_or("-")).collect();
    assert_eq!(changes, ["-", "-", "-", "-", "-", "-", "more", "-", "-", "-", "-"], "{document}");
    assert_eq!(commits.iter().filter(|c| c["is_same_image"] == true).count(), 9, "{document}");
    assert_eq!(fs::read_dir(repo.scratch.path("all")).unwrap().filter(is_step).count(), 2);
    assert_eq!(list_all(), document, "from the boots that are over");
    assert_eq!(fs::read_dir(repo.scratch.path("all")).unwrap().filter(is_step).count(), 2);
}

fn is_step(entry: &std::io::Result<fs::DirEntry>) -> bool {
    entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("step-")
}

/// The first commit of a range and one in the middle hang; the others are measured.
#[test]
fn a_range_goes_on_after_a_commit_that_hangs() {
    let Some(repo) = Repo::new() else { return };
    let works = fs::read_to_string(repo.path("waits.s")).unwrap();
    let hangs = works.replace("mov $said, %esi", "jmp 3f");
    assert_ne!(works, hangs);
    let commit = |subject: &str, source: &str, waits| {
        fs::write(repo.path("waits.s"), source).unwrap();
        repo.commit(subject, waits)
    };
    let first = commit("hangs first", &hangs, QUICK);
    commit("quick", &works, QUICK);
    commit("hangs", &hangs, QUICK + 1);
    commit("slow", &works, SLOW);
    for (into, flags) in [("each", &["--runs", "7"][..]), ("exact", &["--deterministic"])] {
        let mut command = repo.range(&format!("{first}..main"), into);
        let document = run(command.args(flags).args(["--timeout", "2s", "--json"])).exits(0).json();
        let commits = list(&document["commits"]);
        for (commit, hangs) in commits.iter().zip([true, false, true, false]) {
            let why = commit["cannot_say"].as_str().unwrap_or_default();
            assert_eq!(why.contains("does not boot"), hangs, "{document}");
        }
        assert_eq!(commits[3]["step"]["change"], "more", "{document}");
    }
}

#[test]
fn every_commit_of_a_range_with_its_step() {
    let Some(repo) = Repo::new() else { return };
    let first = repo.git(&["rev-parse", "HEAD"]);
    let slow = repo.commit("slow", SLOW);
    fs::write(repo.path("waits.s"), "no assembler knows this").unwrap();
    repo.commit("broken", SLOW);
    // Two steps need five dithered boots of each commit. With fewer, nothing is built.
    let few = ["--deterministic", "--runs", "4"];
    run(repo.range(&format!("{first}..main"), "few").args(few)).refuses(&["--runs 4 is too few", "--runs 5 or more"]);
    assert!(!repo.scratch.path("few/builds").exists());
    // In instructions, a few boots are enough on any host.
    let mut command = repo.range(&format!("{first}..main"), "each");
    let ran = run(command.args(["--deterministic", "--runs", "5", "--json"])).exits(0);
    assert!(!ran.stderr.contains("too few"), "{}", ran.stderr);
    let document = ran.json();
    let head = fs::read_to_string(repo.scratch.path("each/bench.jsonl")).unwrap();
    let head: Value = serde_json::from_str(head.lines().next().unwrap()).unwrap();
    assert_eq!(head["variants"][0]["booted"]["kernel"], "kernel.elf", "not by the name that it has in the cache");
    assert_eq!(document["schema"], "bootscope.range/1");
    Schemas::read().check(&document);
    let commits = list(&document["commits"]);
    assert_eq!(commits.len(), 3, "with the one that it grows on: {document}");
    assert_eq!((text(&commits[0]["commit"]), text(&commits[1]["commit"])), (first.as_str(), slow.as_str()));
    assert_eq!(commits[1]["step"]["change"], "more", "{document}");
    assert!(text(&commits[2]["cannot_say"]).contains("the build failed"), "{document}");
    run(&mut repo.range(&format!("{first}..main"), "each")).refuses(&["bench in it already", "-o"]);
}

/// The sleep of a hanging build, in seconds: longer than any test.
const HANG_SECONDS: u32 = 10_000;

/// Waits until a program has written a file, and then interrupts it.
fn interrupt_when(command: &mut Command, there: &Path) -> i32 {
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    crate::support::kills::wait_for(|| there.exists());
    std::thread::sleep(Duration::from_millis(200));
    let interrupt = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &interrupt]).status().unwrap().success());
    child.wait().unwrap().code().unwrap()
}

#[test]
fn a_search_that_is_stopped_goes_on_and_a_build_that_hangs_cannot_say() {
    let Some(repo) = Repo::new() else { return };
    let good = repo.git(&["rev-parse", "HEAD"]);
    repo.commit("hangs", QUICK + 1);
    let slow = repo.commit("slow", SLOW);
    let range = format!("{good}..main");
    let hangs = format!("if grep -q {} waits; then sleep {HANG_SECONDS} & wait; fi; {BUILD}", QUICK + 1);
    let search = || {
        let mut command = repo.range_of(&hangs, &range, "search");
        command.args(["--bisect", "--json", "--build-timeout", "2s"]);
        command
    };
    let status = interrupt_when(&mut search(), &repo.scratch.path("search/step-0001/bench.jsonl"));
    assert_eq!(status, 1, "stopped");
    assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 1);
    let document: Value = run(&mut search()).exits(0).json();
    let candidates: Vec<&str> = list(&document["candidates"]).iter().map(|c| text(&c["subject"])).collect();
    assert_eq!(candidates, ["hangs", "slow"], "one that cannot say is not told from the next: {document}");
    assert_eq!(text(&document["candidates"][1]["commit"]), slow);
    let [failed] = list(&document["cannot_say"]) else { panic!("{document}") };
    assert!(text(&failed["why"]).contains("more than 2s"), "{failed}");
    assert_eq!(repo.sleeping(), 0, "what the build started is gone, too");
}

/// After a kill, bootscope itself can end no other process.
#[test]
fn a_build_ends_with_the_search_that_is_killed() {
    let Some(repo) = Repo::new() else { return };
    let good = repo.git(&["rev-parse", "HEAD"]);
    let bad = repo.commit("slow", SLOW);
    let build = format!("sleep {HANG_SECONDS} & sleep {HANG_SECONDS}");
    let mut command = repo.range_of(&build, &format!("{good}..{bad}"), "killed");
    let mut search = command.arg("--bisect").spawn().unwrap();
    wait_for(|| repo.sleeping() == 2);
    search.kill().unwrap();
    search.wait().unwrap();
    wait_for(|| repo.sleeping() == 0);
}

#[test]
#[ignore = "13 s: in make test-all"]
fn a_slow_commit_inside_of_a_merge_is_found() {
    let Some(repo) = Repo::new() else { return };
    let good = repo.git(&["rev-parse", "HEAD"]);
    repo.git(&["checkout", "-q", "-b", "side"]);
    let slow = repo.commit("slow on the side", SLOW);
    repo.git(&["checkout", "-q", "main"]);
    repo.git(&["merge", "-q", "--no-ff", "-m", "the merge", "side"]);
    let document = run(repo.range(&format!("{good}..main"), "search").args(["--bisect", "--json"])).exits(0).json();
    assert_eq!(text(&document["candidates"][0]["commit"]), slow, "{document}");
    assert_eq!(text(&document["merges"][0]["subject"]), "the merge", "{document}");
}

#[test]
fn malformed_ranges_are_refused() {
    let Some(repo) = Repo::new() else { return };
    let check = |range: &str, flags: &[&str], words: &[&str]| {
        drop(run(repo.range(range, "wrong").args(flags)).refuses(words));
    };
    check("main..nowhere", &["--bisect"], &["nowhere", "no commit"]);
    check("main", &["--bisect"], &["good..bad"]);
    check("main..main", &["--bisect"], &["or is the same"]);
    check("main..main", &[], &["no commit is in"]);
    check("nowhere..main", &[], &["nowhere"]);
    run(bootscope("range").args(["a..b", "--build", "true"])).refuses(&["--kernel"]);
    run(bootscope("range").args(["a..b", "--build", "true", "--kernel", "../x"])).refuses(&["--kernel ../x", "tree"]);
    let empty = repo.scratch.path("empty");
    fs::create_dir(&empty).unwrap();
    run(bootscope("range").args(["a..b", "--build", "true", "--kernel", "x", "--repo"]).arg(&empty)).refuses(&["git"]);
}
