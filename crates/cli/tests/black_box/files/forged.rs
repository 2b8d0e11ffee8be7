//! Forged benches, searches, lakes and histories: whatever they say, bootscope runs no program for them and changes no
//! file outside its output.
//!
//! Each program on PATH only leaves a mark. The user's own files are compared after each command, byte by byte.

use crate::support::journals::Bench;
use crate::support::scripts::Random;
use crate::support::{bootscope, run};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The seed of the generator. A failure names the forged input.
const SEED: u64 = 35;

/// A user's folder: `own` has the files that must stay, `out` is where commands may write.
struct Scene {
    folder: TempDir,
    own: BTreeMap<PathBuf, Vec<u8>>,
    commands: usize,
}

impl Scene {
    fn new() -> Scene {
        let folder = TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["bin", "own", "own/deep", "out", "home"] {
            fs::create_dir(path(name)).unwrap();
        }
        for program in ["qemu-system-x86_64", "qemu-system-aarch64", "firecracker", "sh", "bash", "id", "make", "zstd"]
        {
            let program = path("bin").join(program);
            // One line for each run.
            let script = format!(
                "#!/bin/bash\narguments=\"$*\"\necho \"$0 ${{arguments//$'\\n'/ }}\" >>{}\nexit 1\n",
                path("ran").display()
            );
            fs::write(&program, script).unwrap();
            fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        }
        fs::write(path("own/letter.txt"), "Dear\n").unwrap();
        fs::write(path("own/deep/bench.jsonl"), "{}\n").unwrap();
        let own = files(&path("own"));
        Scene { folder, own, commands: 0 }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An empty folder for the next forged input.
    fn fresh(&self, name: &str) -> PathBuf {
        let path = self.path("out").join(name);
        let _ = fs::remove_dir_all(&path);
        path
    }

    /// Runs a command in `out`. Asserts that it ran no program and changed no file of the user's.
    #[track_caller]
    fn try_command(&mut self, arguments: &[&str], forged: &dyn std::fmt::Debug) -> i32 {
        let mut command = bootscope(arguments[0]);
        command.args(&arguments[1..]).current_dir(self.path("out")).env("PATH", self.path("bin"));
        let homes = ["HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"];
        let ran = run(command.envs(homes.map(|name| (name, self.path("home")))));
        self.commands += 1;
        let message = format!("{arguments:?} with {forged:?}: {}", ran.stderr);
        assert!(ran.status < 100 && !ran.stderr.contains("panicked"), "status {}: {message}", ran.status);
        let programs = fs::read_to_string(self.path("ran")).unwrap_or_default();
        assert_eq!(programs, "", "programs ran: {message}");
        assert_eq!(files(&self.path("own")), self.own, "files changed: {message}");
        let beside: Vec<_> =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(beside.len(), 4, "files beside the output: {beside:?}: {message}");
        ran.status
    }

    /// Texts that would run a program or reach the user's files, were they taken for a command, an option or a path.
    fn texts(&self) -> Vec<String> {
        let (own, mark) = (self.path("own").display().to_string(), self.path("own/mark").display().to_string());
        vec![
            format!("{own}/letter.txt"),
            "../../own/letter.txt".to_owned(),
            "../own".to_owned(),
            format!("{own}/deep"),
            format!("id >{mark}"),
            format!("$(id >{mark})`id >{mark}`;id >{mark}|id"),
            format!("exec:id >{mark}"),
            format!("pc,dumpdtb={mark}"),
            format!("file:{mark}"),
            format!("--output={mark}"),
            "-o".to_owned(),
            "\u{1b}]0;x\u{7}\n".to_owned(),
            String::new(),
            "A".repeat(5_000),
        ]
    }

    /// A value of any type.
    fn value(&self, random: &mut Random) -> Value {
        let texts = self.texts();
        let text = |random: &mut Random| Value::from(&*texts[random.below(texts.len() as u64) as usize]);
        match random.below(10) {
            0 => Value::Null,
            1 => json!(random.below(2) == 1),
            2 => json!([0, -1, 1, i64::MAX][random.below(4) as usize]),
            3 => json!(u64::MAX),
            4 => json!([text(random), text(random)]),
            5 => {
                json!({"path": text(random), "serial": text(random), "power_cycle": text(random), "tree": text(random)})
            }
            _ => text(random),
        }
    }
}

/// All files below a folder, with their contents; of a link, its target.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_symlink() {
            all.insert(entry.clone(), fs::read_link(&entry).unwrap().into_os_string().into_encoded_bytes());
        } else if entry.is_dir() {
            all.extend(files(&entry));
            all.insert(entry, Vec::new());
        } else {
            all.insert(entry.clone(), fs::read(&entry).unwrap());
        }
    }
    all
}

/// The places of all values in a document, as paths of keys.
fn places(document: &Value, at: &str, all: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match document {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(values) => values.iter().enumerate().map(|(i, value)| (i.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (key, value) in children {
        let at = format!("{at}/{key}");
        places(value, &at, all);
        all.push(at);
    }
}

/// A bench, or a trial, whose header has every field.
fn bench(trial: bool) -> Vec<Value> {
    let folder = TempDir::new().unwrap();
    let rounds = [vec![Some(1000.0), Some(900.0)], vec![Some(1001.0), None]];
    Bench { created: "2026-11-01T00:00:00Z", kernels: &["aaaa", "bbbb"], rounds: &rounds }.write(folder.path());
    let text = fs::read_to_string(folder.path().join("bench.jsonl")).unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let head = &mut lines[0];
    head["seal"] = "00".repeat(32).into();
    head["up_to"] = "process-1".into();
    head["sweep"] = json!([{"key": "cpus", "values": ["1", "2"]}]);
    for variant in head["variants"].as_array_mut().unwrap() {
        variant["settings"] = json!([{"key": "commit", "value": "aaaa"}]);
        for (field, value) in [
            ("qemu", json!("/bin/sh")),
            ("extra", json!(["-S"])),
            ("board", json!({"serial": "x", "power_cycle": "id"})),
            ("disks", json!([{"path": "/x"}])),
            ("initrd", json!("/x")),
            ("root", json!("/x")),
            ("workload", json!("/x")),
        ] {
            variant["how"][field] = value;
        }
    }
    if trial {
        head["trial"] = json!({
            "recording": "/r", "remedies": [{"findings": [{"rule": "a", "about": "b", "title": "c"}], "changes": [], "claimed": null}],
            "sources": {"tree": "/t", "config": "/c"}, "untried": [{"finding": {"rule": "a", "about": "b", "title": "c"}, "why": "d"}],
        });
    }
    lines.last_mut().unwrap()["recording"] = "0001".into();
    lines
}

/// Files that another user may have left in a bench's folder: links to files of this user.
fn lay_links(scene: &Scene, folder: &Path, random: &mut Random) {
    let names = [
        "bench.json",
        "bench.json.partial",
        ".bench.json.partial",
        "0000",
        "0001",
        "boots",
        "results.json",
        "page.html",
    ];
    let targets = ["own/letter.txt", "own", "own/deep", "own/mark"];
    for _ in 0..random.below(4) {
        let _ = symlink(
            scene.path(targets[random.below(targets.len() as u64) as usize]),
            folder.join(names[random.below(names.len() as u64) as usize]),
        );
    }
}

#[test]
fn forged_benches_and_trials_run_nothing_and_change_no_file() {
    let (mut scene, mut random) = (Scene::new(), Random::of(SEED));
    let db = scene.path("out/history.db").display().to_string();
    let mut forged = 0;
    for trial in [false, true] {
        let usual = bench(trial);
        let mut all = Vec::new();
        usual.iter().enumerate().for_each(|(line, value)| places(value, &line.to_string(), &mut all));
        for place in all {
            let (line, pointer) = place.split_once('/').unwrap();
            let mut lines = usual.clone();
            let value = scene.value(&mut random);
            *lines[line.parse::<usize>().unwrap()].pointer_mut(&format!("/{pointer}")).unwrap() = value.clone();
            let folder = scene.fresh("bench");
            fs::create_dir(&folder).unwrap();
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            fs::write(folder.join("bench.jsonl"), text).unwrap();
            lay_links(&scene, &folder, &mut random);
            let what = (trial, &place, &value);
            let again = if trial { "try" } else { "bench" };
            assert_ne!(scene.try_command(&[again, "--continue", "bench"], &what), 0, "{what:?} was resumed");
            match forged % 4 {
                0 => scene.try_command(&["show", "bench"], &what),
                1 => scene.try_command(&["history", "--db", &db, "--add", "bench"], &what),
                2 => scene.try_command(&["report", "bench", "--force", "-o", "page.html"], &what),
                _ => scene.try_command(&["history", "--db", &db, "--json"], &what),
            };
            forged += 1;
        }
    }
    println!("{forged} forged benches and trials, {} commands", scene.commands);
    assert!(forged >= 150, "{forged}");
}

/// A search keeps measurements in its folder. The build and the boots are the user's own.
#[test]
fn forged_searches_run_only_the_users_own_build() {
    let (scene, mut random) = (Scene::new(), Random::of(SEED));
    let Some(git) = ["/usr/bin/git", "/usr/local/bin/git"].into_iter().find(|git| Path::new(git).exists()) else {
        return crate::support::skip("git is missing");
    };
    let repository = scene.path("out/tree");
    fs::create_dir(&repository).unwrap();
    let commit = |text: &str| {
        fs::write(repository.join("kernel"), text).unwrap();
        for arguments in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", text]] {
            let mut command = Command::new(git);
            command.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(arguments);
            assert!(command.current_dir(&repository).env("HOME", scene.path("home")).status().unwrap().success());
        }
    };
    ["first", "second", "third"].into_iter().for_each(commit);
    symlink(git, scene.path("bin/git")).unwrap();
    let search = [
        "range",
        "--bisect",
        "HEAD~2..HEAD",
        "--repo",
        "tree",
        "--build",
        "true",
        "--kernel",
        "kernel",
        "--init",
        "keep",
        "--until",
        "x",
        "-o",
        "search",
    ];
    // A build of its own runs `sh`, which only leaves the mark and fails.
    let folder = scene.fresh("search");
    let mut command = bootscope(search[0]);
    command.args(&search[1..]).current_dir(scene.path("out")).env("PATH", scene.path("bin"));
    let _ = run(command.env("HOME", scene.path("home")).env("XDG_CACHE_HOME", scene.path("home")));
    let own_build = fs::read_to_string(scene.path("ran")).unwrap_or_default();
    let first = own_build.lines().next().expect("the user's own build").to_owned();
    assert!(own_build.lines().all(|line| line == first), "{own_build}");
    fs::remove_file(scene.path("ran")).unwrap();
    let identity: Value = serde_json::from_slice(&fs::read(folder.join("range.json")).unwrap()).unwrap();
    for forged in 0..40 {
        let folder = scene.fresh("search");
        fs::create_dir(&folder).unwrap();
        let mut spec = identity.clone();
        let fields = ["schema", "good", "bad", "build", "kernel", "how"];
        // Every other one keeps the identity, so that its measurements are read.
        if forged % 2 == 0 {
            spec[fields[random.below(fields.len() as u64) as usize]] = scene.value(&mut random);
        }
        fs::write(folder.join("range.json"), spec.to_string()).unwrap();
        let step = folder.join("step-0001");
        match random.below(3) {
            0 => symlink(scene.path("own/deep"), &step).unwrap(),
            _ => fs::create_dir(&step).unwrap(),
        }
        if !step.is_symlink() {
            let mut lines = bench(false);
            let variant = random.below(2) as usize;
            lines[0]["variants"][variant]["how"] = scene.value(&mut random);
            lines[0]["variants"][variant]["settings"][0]["value"] = identity["bad"].clone();
            fs::write(step.join("bench.jsonl"), lines.iter().map(|line| format!("{line}\n")).collect::<String>())
                .unwrap();
        }
        let skipped = folder.join("cannot-say.jsonl");
        match random.below(3) {
            0 => symlink(scene.path("own/letter.txt"), &skipped).unwrap(),
            1 => symlink(scene.path("own/mark"), &skipped).unwrap(),
            _ => fs::write(&skipped, format!("{}\n", json!({"commit": identity["good"], "why": "x"}))).unwrap(),
        }
        let mut command = bootscope(search[0]);
        command.args(&search[1..]).current_dir(scene.path("out")).env("PATH", scene.path("bin"));
        let ran = run(command.env("HOME", scene.path("home")).env("XDG_CACHE_HOME", scene.path("home")));
        let message = format!("search {forged}, {spec}: {}", ran.stderr);
        assert!(ran.status < 100 && !ran.stderr.contains("panicked"), "{message}");
        let programs = fs::read_to_string(scene.path("ran")).unwrap_or_default();
        assert!(programs.lines().all(|line| line == first), "{programs}\n{message}");
        assert_eq!(files(&scene.path("own")), scene.own, "{message}");
    }
}

#[test]
fn forged_lakes_change_no_file_outside() {
    let (mut scene, mut random) = (Scene::new(), Random::of(SEED));
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept/lab-two-cpus.tar.zst").display().to_string();
    let usual = scene.path("out/usual");
    assert_eq!(scene.try_command(&["lake", "add", &kept, "--to", "usual"], &"a usual lake"), 0);
    let usual = files(&usual);
    let paths: Vec<&PathBuf> =
        usual.keys().filter(|path| path.extension().is_some_and(|end| end == "parquet")).collect();
    let root = scene.path("out/usual");
    for forged in 0..60 {
        let lake = scene.fresh("lake");
        fs::create_dir(&lake).unwrap();
        let here = |path: &Path| lake.join(path.strip_prefix(&root).unwrap());
        // The folders come last in each folder's list, so parents are made first.
        for (path, content) in &usual {
            match root.join(path).is_dir() {
                true => fs::create_dir_all(here(path)).unwrap(),
                false => {
                    fs::create_dir_all(here(path).parent().unwrap()).unwrap();
                    fs::write(here(path), content).unwrap();
                }
            }
        }
        let part = here(paths[random.below(paths.len() as u64) as usize]);
        let text = scene.texts()[random.below(14) as usize].clone();
        let target = scene.path(["own/letter.txt", "own", "own/deep", "own/mark"][random.below(4) as usize]);
        let what = format!("kind {}, {}, {text:?}, {}", forged % 10, part.display(), target.display());
        match forged % 10 {
            0 => fs::write(lake.join("lake.json"), json!({"schema": text, "about": text}).to_string()).unwrap(),
            1 => fs::write(lake.join("adding.json"), json!([text, "../../own/letter"]).to_string()).unwrap(),
            2 => fs::write(lake.join("adding.json"), json!({"name": text, "day": "../../../own"}).to_string()).unwrap(),
            3 | 4 => {
                let day = if forged % 2 == 0 { text.clone() } else { "x/../../../own".to_owned() };
                let names = json!([text, "../../../own/letter", "../../own/deep/bench"]);
                let change = json!({day.clone(): {"gone": names, "made": names}});
                fs::create_dir_all(lake.join(".rewriting/boots/day=x")).unwrap();
                fs::write(lake.join(".rewriting/changes.json"), change.to_string()).unwrap();
            }
            5 => {
                fs::remove_file(&part).unwrap();
                symlink(&target, &part).unwrap();
            }
            6 => {
                let day = part.parent().unwrap();
                fs::remove_dir_all(day).unwrap();
                symlink(&target, day).unwrap();
            }
            7 => {
                let partial = format!(".{}.partial", part.file_name().unwrap().to_str().unwrap());
                symlink(&target, part.with_file_name(partial)).unwrap();
                symlink(&target, lake.join(".adding.json.partial")).unwrap();
                symlink(&target, lake.join(".lake.json.partial")).unwrap();
                fs::remove_file(&part).unwrap();
            }
            8 => {
                let mut bytes = fs::read(&part).unwrap();
                for _ in 0..20 {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] = random.below(256) as u8;
                }
                fs::write(&part, bytes).unwrap();
            }
            _ => {
                for name in [".preparing", ".rewriting", "adding.json", "lock", ".lock"] {
                    let _ = symlink(&target, lake.join(name));
                }
            }
        }
        for command in [
            &["lake", "compact", "lake"][..],
            &["lake", "add", &kept, "--to", "lake"],
            &["lake", "forget", "lake", "--boot", "00"],
            &["lake", "page", "lake", "--force", "-o", "page.html"],
        ] {
            scene.try_command(command, &what);
        }
    }
    println!("60 forged lakes, {} commands", scene.commands);
}

#[test]
fn forged_histories_change_no_other_file() {
    let (mut scene, mut random) = (Scene::new(), Random::of(SEED));
    let made = scene.fresh("bench");
    fs::create_dir(&made).unwrap();
    fs::write(made.join("bench.jsonl"), bench(true).iter().map(|line| format!("{line}\n")).collect::<String>())
        .unwrap();
    assert_eq!(scene.try_command(&["history", "--db", "usual.db", "--add", "bench"], &"a usual history"), 0);
    let usual = fs::read(scene.path("out/usual.db")).unwrap();
    let own = scene.path("own").display().to_string();
    let attack = format!("{own}/mark");
    let statements = [
        format!("CREATE TRIGGER t AFTER INSERT ON bench BEGIN SELECT load_extension('{attack}'); END"),
        format!("CREATE TRIGGER t AFTER INSERT ON variant BEGIN SELECT writefile('{attack}', 'x'); END"),
        format!("CREATE TRIGGER t AFTER INSERT ON bench BEGIN INSERT INTO setup SELECT edit('{attack}', 'id'); END"),
        "ALTER TABLE variant RENAME TO v; CREATE VIEW variant AS SELECT * FROM v".to_owned(),
        "PRAGMA user_version = 1".to_owned(),
        "PRAGMA user_version = 99".to_owned(),
        "DROP TABLE metric".to_owned(),
        "PRAGMA journal_mode = DELETE".to_owned(),
    ];
    for forged in 0..60 {
        let db = scene.path("out/forged.db");
        for ending in ["", "-wal", "-shm", "-journal"] {
            let _ = fs::remove_file(format!("{}{ending}", db.display()));
        }
        fs::write(&db, &usual).unwrap();
        let target = scene.path(["own/letter.txt", "own/mark", "own/deep/bench.jsonl"][random.below(3) as usize]);
        let what = match forged % 4 {
            0 => {
                let statement = &statements[forged / 4 % statements.len()];
                rusqlite::Connection::open(&db).unwrap().execute_batch(statement).unwrap();
                statement.clone()
            }
            1 => {
                let value = scene.value(&mut random);
                let text = if let Value::String(text) = &value { text.clone() } else { value.to_string() };
                let (table, column) = [
                    ("setup", "append"),
                    ("setup", "options"),
                    ("variant", "name"),
                    ("variant", "kernel"),
                    ("bench", "created"),
                    ("setup", "machine"),
                    ("document", "json"),
                ][random.below(7) as usize];
                let set = format!(
                    "UPDATE {table} SET {column} = CAST(?1 AS {})",
                    if column == "json" { "BLOB" } else { "TEXT" }
                );
                rusqlite::Connection::open(&db).unwrap().execute(&set, [text]).unwrap();
                format!("{table}.{column} = {value}")
            }
            2 => {
                let mut bytes = usual.clone();
                for _ in 0..=random.below(30) {
                    let end = [4096, bytes.len() as u64][random.below(2) as usize];
                    let at = random.below(end) as usize;
                    bytes[at] = random.below(256) as u8;
                }
                fs::write(&db, bytes).unwrap();
                "changed bytes".to_owned()
            }
            _ => {
                let ending = ["", "-wal", "-shm", "-journal"][random.below(4) as usize];
                let path = format!("{}{ending}", db.display());
                let _ = fs::remove_file(&path);
                symlink(&target, &path).unwrap();
                format!("{ending:?} links to {}", target.display())
            }
        };
        for command in [
            &["history", "--db", "forged.db"][..],
            &["history", "--db", "forged.db", "--json", "--bench", "1"],
            &["history", "--db", "forged.db", "--add", "bench"],
        ] {
            scene.try_command(command, &(forged, &what));
        }
    }
    println!("60 forged histories, {} commands", scene.commands);
}
