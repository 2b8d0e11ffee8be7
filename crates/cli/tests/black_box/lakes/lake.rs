//! A lake, read by an independent Parquet reader: its figures of a boot equal those of `show --json`, each boot is
//! there once, and a kill at any moment loses nothing.

use crate::support::kills::{Random, kills, wait_for};
use crate::support::{bootscope, list, ns, run, shown, skip, text};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Recordings with a truncated file. They are not comparable with other boots.
const TRUNCATED: [&str; 3] =
    ["linux-calls-cut.tar.zst", "linux-first-run-cut.tar.zst", "linux-traced-no-symbols.tar.zst"];

/// Real boots and imports, packed by earlier versions.
fn kept() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept");
    let inside = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = inside.filter(|path| path.extension().is_some_and(|e| e == "zst")).collect();
    found.retain(|path| !TRUNCATED.iter().any(|cut| path.ends_with(cut)));
    found.sort();
    assert!(found.len() >= 12, "{found:?}");
    found
}

fn one(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept").join(name)
}

fn add(recordings: &[PathBuf], lake: &Path) -> Command {
    let mut command = bootscope("lake");
    command.arg("add").args(recordings).arg("--to").arg(lake);
    command
}

/// All rows of a table, with the names of their columns.
fn table(lake: &Path, name: &str) -> Vec<BTreeMap<String, Field>> {
    let mut rows = Vec::new();
    for day in fs::read_dir(lake.join(name)).into_iter().flatten() {
        let day = day.unwrap().path();
        assert!(day.file_name().unwrap().to_str().unwrap().starts_with("day="), "{}", day.display());
        for file in fs::read_dir(day).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "parquet") {
                let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
                rows.extend(reader.get_row_iter(None).unwrap().map(Result::unwrap).map(named));
            }
        }
    }
    rows
}

fn named(row: Row) -> BTreeMap<String, Field> {
    row.get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect()
}

fn word(row: &BTreeMap<String, Field>, column: &str) -> String {
    match &row[column] {
        Field::Str(text) => text.clone(),
        other => panic!("{column} is {other:?}"),
    }
}

fn integer(row: &BTreeMap<String, Field>, column: &str) -> i64 {
    match &row[column] {
        Field::Long(value) => *value,
        other => panic!("{column} is {other:?}"),
    }
}

/// Recordings whose boot has no end mark.
const WITHOUT_END_MARK: [&str; 7] =
    ["given-up", "last-sample", "last-sign", "log-ends", "panicked", "table-ends", "table-ends-before-exit"];

/// A document's value in the lake's types.
fn cell(value: &Value) -> Field {
    match value {
        Value::Null => Field::Null,
        Value::Bool(flag) => Field::Bool(*flag),
        Value::String(text) => Field::Str(text.clone()),
        Value::Number(number) if number.is_f64() => Field::Double(number.as_f64().unwrap()),
        number => Field::Long(ns(number)),
    }
}

/// A table's rows in order, only with these columns, which are fields of a document too.
fn cells(lake: &Path, name: &str, columns: &[&str]) -> Vec<Vec<Field>> {
    table(lake, name).iter().map(|row| columns.iter().map(|column| row[*column].clone()).collect()).collect()
}

/// The same fields of a document's list.
fn lines(list_of: &Value, fields: &[&str]) -> Vec<Vec<Field>> {
    list(list_of).iter().map(|line| fields.iter().map(|field| cell(&line[field])).collect()).collect()
}

/// Adds a recording to a new lake and compares every figure. Returns the number of rows of each table.
#[track_caller]
fn assert_equals_show(recording: &Path, lake: &Path) -> BTreeMap<&'static str, usize> {
    // Without --identify texts would differ; another test checks that.
    let added = run(add(&[recording.to_path_buf()], lake).args(["--json", "--identify"])).exits(0).json();
    assert_eq!((&added["schema"], &added["new"]), (&"bootscope.lake-add/1".into(), &1.into()));
    let shown = run(bootscope("show").arg("--json").arg(recording)).exits(0).json();
    let findings = run(bootscope("findings").arg("--json").arg(recording)).exits(0).json();
    let boots = table(lake, "boots");
    let [boot] = &boots[..] else { panic!("{boots:?}") };
    let in_ns = shown["unit"] != "ticks";
    let code = shown["end"]["code"].as_str().unwrap_or("");
    let ended = !code.is_empty() && !WITHOUT_END_MARK.contains(&code);
    let known = |value: &Value, is: bool| if is { cell(value) } else { Field::Null };
    let subject = &shown["subject"];
    let count = |of: &Value| Field::Long(list(of).len().try_into().unwrap());
    let expected = [
        ("kernel", cell(&subject["kernel"])),
        ("os", cell(&subject["os"])),
        ("machine_type", cell(&subject["machine"])),
        ("accelerator", cell(&subject["accelerator"])),
        ("cpus", cell(&subject["cpus"])),
        ("memory_bytes", cell(&subject["memory_bytes"])),
        ("outcome", cell(&shown["outcome"])),
        ("time_base", cell(&shown["time_base"])),
        ("end_code", Field::Str(code.to_owned())),
        ("ended", Field::Bool(ended)),
        ("total_ns", known(&shown["total_ns"], in_ns && ended)),
        ("total_error_ns", known(&shown["end"]["error_ns"], in_ns && ended)),
        ("shown_ns", known(&shown["total_ns"], in_ns)),
        ("warnings", count(&shown["warnings"])),
        ("diagnostics", count(&shown["diagnostics"])),
        ("findings_looked_for", Field::Bool(true)),
        ("machine", Field::Null),
    ];
    for (column, value) in expected {
        assert_eq!(boot[column], value, "{column} of {}", recording.display());
    }
    let Field::Double(explained) = boot["explained"] else { panic!("{boot:?}") };
    assert!((explained - shown["explained"].as_f64().unwrap()).abs() < 1e-12, "{explained}");
    let same = |name: &str, columns: &[&str], fields: &[&str], of: &Value| {
        let expected = if in_ns { lines(of, fields) } else { Vec::new() };
        assert_eq!(cells(lake, name, columns), expected, "{name} of {}", recording.display());
    };
    let as_they_are = |name: &str, columns: &[&str], of: &Value| same(name, columns, columns, of);
    as_they_are("phases", &["name", "start_ns"], &shown["phases"]);
    let lengths: Vec<i64> = table(lake, "phases").iter().map(|phase| integer(phase, "length_ns")).collect();
    let length = |phase: &Value| ns(&phase["end_ns"]) - ns(&phase["start_ns"]);
    let expected = if in_ns { list(&shown["phases"]).iter().map(length).collect() } else { Vec::new() };
    assert_eq!(lengths, expected);
    as_they_are("rows", &["name", "self_ns", "total_ns", "count"], &shown["where"]);
    as_they_are("initcalls", &["name", "start_ns", "elapsed_ns"], &shown["initcalls"]);
    as_they_are("units", &["name", "start_ns", "settled_ns", "failed", "boot_path_ns", "cpu_ns"], &shown["units"]);
    let columns = ["id", "title", "cost_ns", "cost_low_ns", "cost_high_ns", "confidence"];
    as_they_are("findings", &columns, &findings["findings"]);
    let metrics: BTreeMap<String, Field> = table(lake, "metrics")
        .iter()
        .map(|row| (format!("{}_{}", word(row, "name"), word(row, "unit")), row["value"].clone()))
        .collect();
    let of_document = shown["metrics"].as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
    assert_eq!(metrics, of_document.map(|(name, value)| (name.clone(), cell(value))).collect());
    let machines = table(lake, "machines");
    let [machine] = &machines[..] else { panic!("{machines:?}") };
    for column in ["hardware", "machine", "machine_type", "accelerator", "cpus", "memory_bytes", "host_cpu"] {
        assert_eq!(machine[column], boot[column], "{column}");
    }
    assert_eq!((&machine["boots"], &machine["first_began"]), (&Field::Long(1), &boot["began"]));
    let tables = ["phases", "rows", "initcalls", "units", "findings", "metrics"];
    tables.map(|name| (name, table(lake, name).len())).into_iter().collect()
}

#[test]
fn a_lake_has_the_figures_of_show_for_each_boot() {
    let folder = tempfile::tempdir().unwrap();
    let mut most: BTreeMap<&str, usize> = BTreeMap::new();
    let units = crate::support::imported(
        &crate::support::fixture("systemd-analyze/debian12-dump.txt"),
        &folder.path().join("units"),
    );
    for (i, recording) in kept().iter().chain([&units]).enumerate() {
        for (name, rows) in assert_equals_show(recording, &folder.path().join(format!("lake-{i}"))) {
            most.entry(name).and_modify(|most| *most = rows.max(*most)).or_insert(rows);
        }
    }
    assert!(most.values().all(|&rows| rows > 0), "a table was never compared: {most:?}");
}

/// Unpacks a packed recording into a folder.
fn unpacked(packed: &Path, into: &Path) -> PathBuf {
    let tar = zstd::Decoder::new(File::open(packed).unwrap()).unwrap();
    tar::Archive::new(tar).unpack(into).unwrap();
    fs::read_dir(into).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn a_boot_is_there_once_packed_or_not_and_by_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let packed = one("lab-two-cpus.tar.zst");
    let copy = folder.path().join("of a friend.tar.zst");
    fs::copy(&packed, &copy).unwrap();
    let open = unpacked(&packed, &folder.path().join("open"));
    let ran = run(&mut add(&[packed.clone(), copy, open.clone()], &lake)).exits(0);
    assert!(ran.text().contains("added 1 boot to") && ran.text().contains("2 boots there already"), "{}", ran.text());
    fs::write(open.join("note.txt"), "what a user put beside it").unwrap();
    assert_eq!(run(add(std::slice::from_ref(&open), &lake).arg("--json")).exits(0).json()["there"], 1);
    assert_eq!(table(&lake, "boots").len(), 1);
    assert_eq!(table(&lake, "rows").len(), list(&shown(&packed)["where"]).len());
}

/// The same log from two machines is two boots. Imported twice for one machine, it is one boot.
#[test]
fn a_log_is_a_boot_of_the_named_machine() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let log = crate::support::fixture("log/linux-6.1-serial.log");
    let twice = [1, 2].map(|i| crate::support::imported(&log, &folder.path().join(i.to_string())));
    let new = |machine: &str| {
        let ran = run(add(&twice, &lake).args(["--json", "--identify", "--machine", machine])).exits(0).json();
        (ran["new"].as_u64().unwrap(), ran["there"].as_u64().unwrap())
    };
    assert_eq!((new("a"), new("b"), new("a")), ((1, 1), (1, 1), (0, 2)));
}

#[test]
fn labels_and_a_token_of_the_machine_go_with_each_boot() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let key = folder.path().join("key");
    let recordings = [one("lab-two-cpus.tar.zst"), one("trace-and-log.tar.zst")];
    run(add(&recordings, &lake)
        .args(["--machine", "db7.example.org", "--label", "team=db", "--label", "rack=7"])
        .arg("--key")
        .arg(&key))
    .exits(0);
    let boots = table(&lake, "boots");
    let tokens: Vec<String> = boots.iter().map(|boot| word(boot, "machine")).collect();
    assert!(tokens[0].starts_with("machine-") && tokens[0] == tokens[1], "{tokens:?}");
    for file in ["boots", "labels", "rows"] {
        // A token may contain `db7` by chance.
        assert!(!format!("{:?}", table(&lake, file)).contains("example"), "a name in {file}");
    }
    let mut labels: Vec<String> = table(&lake, "labels")
        .iter()
        .map(|label| format!("{}={}", word(label, "name"), word(label, "value")))
        .collect();
    labels.sort();
    assert_eq!(labels, ["rack=7", "rack=7", "team=db", "team=db"]);
    let open = folder.path().join("open");
    run(add(&recordings, &open).args(["--machine", "db7", "--identify", "--hardware", "shelf"])).exits(0);
    assert!(
        table(&open, "boots").iter().all(|boot| word(boot, "machine") == "db7" && word(boot, "hardware") == "shelf")
    );
    run(add(&recordings, &lake).args(["--label", "a=1", "--label", "a=2"])).refuses(&["twice"]);
    run(add(&recordings, &lake).args(["--machine", ""])).refuses(&["--machine"]);
    fs::write(&key, "short").unwrap();
    run(add(&recordings, &lake).args(["--machine", "db7", "--key"]).arg(&key)).refuses(&["is no key", "32 bytes"]);
}

#[test]
fn unreadable_recordings_are_listed_and_the_rest_is_added() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let good = one("lab-two-cpus.tar.zst");
    let whole = fs::read(&good).unwrap();
    let later = folder.path().join("later");
    fs::create_dir(&later).unwrap();
    fs::write(later.join("recording.json"), r#"{"schema": "bootscope.recording/999"}"#).unwrap();
    // A folder that is still being copied, and one without recorded evidence.
    let half = unpacked(&good, &folder.path().join("half"));
    fs::remove_file(half.join("tslog.txt")).unwrap();
    let nothing = folder.path().join("nothing");
    fs::create_dir(&nothing).unwrap();
    fs::write(nothing.join("recording.json"), r#"{"schema": "bootscope.recording/1"}"#).unwrap();
    let bad = [
        file("cut.tar.zst", &whole[..whole.len() / 2]),
        file("noise.tar.zst", b"no archive"),
        file("empty", b""),
        later,
        half,
        nothing,
        one(TRUNCATED[0]),
        folder.path().join("nowhere"),
    ];
    let lake = folder.path().join("lake");
    let all = [&bad[..2], &[good, one("log-no-stamps.tar.zst")], &bad[2..]].concat();
    let document = run(add(&all, &lake).arg("--json")).exits(1).json();
    assert_eq!(document["new"], 2, "{document}");
    let failed: Vec<&str> = list(&document["failed"]).iter().map(|line| text(&line["recording"])).collect();
    for path in &bad {
        assert!(failed.contains(&path.to_str().unwrap()), "{} is not in {failed:?}", path.display());
    }
    assert_eq!((failed.len(), table(&lake, "boots").len()), (bad.len(), 2));
    let ran = run(&mut add(&bad, &lake)).exits(1);
    assert!(ran.stderr.matches("not added: ").count() == bad.len() && ran.stderr.contains("999"), "{}", ran.stderr);
}

#[test]
fn other_folders_and_later_lakes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = [one("lab-two-cpus.tar.zst")];
    fs::write(folder.path().join("thesis.txt"), "").unwrap();
    run(&mut add(&good, folder.path())).refuses(&["is not a lake", "give a new folder"]);
    fs::write(folder.path().join("lake.json"), r#"{"schema": "bootscope.lake/2"}"#).unwrap();
    run(&mut add(&good, folder.path())).refuses(&["later bootscope", "update bootscope"]);
    run(&mut add(&good, &folder.path().join("thesis.txt/x"))).refuses(&["cannot make the folder"]);
}

#[test]
fn a_full_disk_leaves_a_lake_that_reads_and_takes_more_later() {
    let folder = tempfile::tempdir().unwrap();
    let (small, first) = (folder.path().join("small"), one("log-excerpt.tar.zst"));
    fs::create_dir(&small).unwrap();
    // The size of the disk is limited only in this mount namespace.
    let script = "mount -t tmpfs -o size=64k none \"$1\" || exit 77; lake=$1/lake; first=$2; program=$3; shift 3
        \"$program\" lake add \"$first\" --to \"$lake\" || exit 78
        ! \"$program\" lake add \"$@\" --to \"$lake\" || exit 79
        mount -o remount,size=10m \"${lake%/lake}\"
        \"$program\" lake add \"$first\" --to \"$lake\" --json
        \"$program\" lake add \"$@\" --to \"$lake\" --json";
    // Root needs no user namespace, which a chroot does not give even to root.
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let mut command = Command::new("unshare");
    command.arg("--mount").args((!is_root).then_some("--map-root-user"));
    command.args(["sh", "-c", script, "-"]).arg(&small).arg(&first);
    command.arg(env!("CARGO_BIN_EXE_bootscope")).args(kept());
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || stderr.contains("unshare failed") {
        return skip(&format!("no file system can be mounted here: {stderr}"));
    }
    assert!(output.status.success(), "{}: {stderr}", output.status);
    // The very first error: nothing needs restoring, and the same command works later.
    assert!(
        stderr.contains("no space left on the disk") && stderr.contains("free some space and try again"),
        "{stderr}"
    );
    assert!(!stderr.contains("bring it back from a copy"), "{stderr}");
    let documents: Vec<Value> =
        serde_json::Deserializer::from_slice(&output.stdout[output.stdout.iter().position(|&b| b == b'{').unwrap()..])
            .into_iter()
            .map(Result::unwrap)
            .collect();
    assert_eq!((&documents[0]["there"], &documents[1]["new"]), (&1.into(), &(kept().len() - 1).into()));
}

/// The number of rows of a table for each boot.
fn count(lake: &Path, name: &str) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for row in table(lake, name) {
        *count.entry(word(&row, "boot_id")).or_insert(0) += 1;
    }
    count
}

/// Checks that every boot is there once and complete: each table has the same rows for it as in a lake without kills.
fn assert_whole(lake: &Path, expected: &BTreeMap<String, usize>) {
    let boots: BTreeMap<String, usize> = expected.keys().map(|id| (id.clone(), 1)).collect();
    assert_eq!(count(lake, "boots"), boots);
    let rows: BTreeMap<String, usize> = expected.clone().into_iter().filter(|(_, rows)| *rows > 0).collect();
    assert_eq!(count(lake, "rows"), rows);
}

#[test]
fn a_kill_at_any_moment_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let recordings = kept();
    let whole = folder.path().join("whole");
    let began = Instant::now();
    run(&mut add(&recordings, &whole)).exits(0);
    let takes = began.elapsed();
    let mut expected: BTreeMap<String, usize> =
        table(&whole, "boots").iter().map(|b| (word(b, "boot_id"), 0)).collect();
    assert_eq!(expected.len(), recordings.len());
    for row in table(&whole, "rows") {
        *expected.get_mut(&word(&row, "boot_id")).unwrap() += 1;
    }
    let mut random = Random::new();
    println!("seed {}", random.seed());
    for round in 0..kills(12) {
        let lake = folder.path().join(format!("lake-{round}"));
        let (first, rest) = recordings.split_at((random.share() * recordings.len() as f64) as usize);
        if !first.is_empty() {
            run(&mut add(first, &lake)).exits(0);
        }
        let there: Vec<String> = table(&lake, "boots").iter().map(|boot| word(boot, "boot_id")).collect();
        let mut child = add(rest, &lake).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Most kills are near the end, where the files are written.
        let until = takes.mul_f64(random.share().sqrt() * 1.1);
        std::thread::sleep(until.min(Duration::from_secs(60)));
        child.kill().unwrap();
        child.wait().unwrap();
        let found: Vec<String> = table(&lake, "boots").iter().map(|boot| word(boot, "boot_id")).collect();
        for id in &there {
            assert!(found.contains(id), "round {round}: {id} was there before");
        }
        // A boot in the table `boots` is complete at once, whatever else a kill left.
        let rows = count(&lake, "rows");
        for id in &found {
            assert_eq!(rows.get(id).copied().unwrap_or(0), expected[id], "round {round}: {id}");
        }
        run(&mut add(&recordings, &lake)).exits(0);
        assert_whole(&lake, &expected);
    }
}

#[test]
fn two_that_add_at_once_add_each_boot_once() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let mut children: Vec<_> = (0..3).map(|_| add(&kept(), &lake).stdout(Stdio::null()).spawn().unwrap()).collect();
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    let mut ids: Vec<String> = table(&lake, "boots").iter().map(|boot| word(boot, "boot_id")).collect();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), table(&lake, "boots").len()), (kept().len(), kept().len()));
}

#[test]
fn a_watched_folder_is_added_as_recordings_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let (incoming, lake) = (folder.path().join("incoming"), folder.path().join("lake"));
    fs::create_dir(&incoming).unwrap();
    let drop_in = |name: &str| fs::copy(one(name), incoming.join(name)).unwrap();
    drop_in("lab-two-cpus.tar.zst");
    let whole = fs::read(one("two-traces.tar.zst")).unwrap();
    // A recording that is still being copied.
    fs::write(incoming.join("slow.tar.zst"), &whole[..100]).unwrap();
    let mut command = bootscope("lake");
    command.args(["watch", "--every", "0.1s", "--json", "--to"]).arg(&lake).arg(&incoming);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let has = |count: usize| table(&lake, "boots").len() == count;
    wait_for(|| has(1));
    drop_in("trace-and-log.tar.zst");
    fs::write(incoming.join("slow.tar.zst"), &whole).unwrap();
    wait_for(|| has(3));
    let pid = child.id();
    assert!(Command::new("sh").args(["-c", &format!("kill -INT {pid}")]).status().unwrap().success());
    let ran = crate::support::ran(child.wait_with_output().unwrap(), "watch".to_owned()).exits(0);
    assert_eq!(ran.json()["new"], 3);
    assert_eq!(ran.stderr.matches("not added: ").count(), 1, "once, and not at each look: {}", ran.stderr);
    assert_eq!(fs::read_dir(&incoming).unwrap().count(), 3, "nothing is changed there");
}

fn forget(lake: &Path, which: &[&str]) -> Command {
    let mut command = bootscope("lake");
    command.arg("forget").arg(lake).args(which);
    command
}

fn compact(lake: &Path) -> Command {
    let mut command = bootscope("lake");
    command.arg("compact").arg(lake);
    command
}

fn ids_of(lake: &Path, name: &str) -> Vec<String> {
    let mut ids: Vec<String> = table(lake, name).iter().map(|row| word(row, "boot_id")).collect();
    ids.sort();
    ids
}

const OF_BOOTS: [&str; 8] = ["boots", "labels", "metrics", "findings", "units", "initcalls", "rows", "phases"];

/// A lake of all kept recordings in batches of three, alternating between the machines `a` and `b`. Returns the command
/// that made it.
fn of_two_machines(lake: &Path, key: &Path) {
    for (i, batch) in kept().chunks(3).enumerate() {
        let machine = ["a", "b"][i % 2];
        run(add(batch, lake).args(["--no-findings", "--label", "team=x", "--machine", machine, "--key"]).arg(key))
            .exits(0);
    }
}

#[test]
fn a_machine_is_forgotten_completely_and_can_be_added_again() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, key, no_key) = (folder.path().join("lake"), folder.path().join("key"), folder.path().join("other"));
    of_two_machines(&lake, &key);
    let by_machine = |lake: &Path| {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for boot in table(lake, "boots") {
            found.entry(word(&boot, "machine")).or_default().push(word(&boot, "boot_id"));
        }
        found
    };
    let before = by_machine(&lake);
    assert_eq!(before.len(), 2);
    let ran = run(forget(&lake, &["--machine", "a", "--key"]).arg(&no_key)).exits(1);
    assert!(ran.stderr.contains("no key") && ran.stderr.contains("no such boot"), "{}", ran.stderr);
    assert!(!no_key.exists(), "a key is not made for that");
    let gone = run(forget(&lake, &["--json", "--machine", "a", "--key"]).arg(&key)).exits(0).json();
    assert_eq!(gone["schema"], "bootscope.lake-forget/1");
    let after = by_machine(&lake);
    let (token, kept_ids) = after.iter().next().unwrap();
    let other: Vec<&String> = before.iter().filter(|(machine, _)| *machine != token).flat_map(|(_, ids)| ids).collect();
    assert_eq!((after.len(), &before[token], gone["boots"].as_u64()), (1, kept_ids, Some(other.len() as u64)));
    for name in OF_BOOTS {
        assert!(ids_of(&lake, name).iter().all(|id| kept_ids.contains(id)), "{name}");
    }
    assert!(table(&lake, "machines").iter().all(|row| word(row, "machine") == *token));
    assert_eq!(run(&mut forget(&lake, &["--json", "--boot", &kept_ids[0]])).exits(0).json()["boots"], 1);
    let text = run(&mut forget(&lake, &["--token", token])).exits(0);
    assert!(text.text().contains(&format!("removed {} boots", kept_ids.len() - 1)), "{}", text.text());
    assert!(table(&lake, "boots").is_empty());
    assert_eq!(run(add(&kept(), &lake).args(["--json", "--no-findings"])).exits(0).json()["new"], kept().len());
    run(&mut forget(&lake, &[])).refuses(&["--machine"]);
    run(&mut forget(&folder.path().join("nowhere"), &["--boot", "1"])).refuses(&["is no lake", "lake.json"]);
}

#[test]
fn a_reader_finds_each_boot_once_while_files_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, key) = (folder.path().join("lake"), folder.path().join("key"));
    of_two_machines(&lake, &key);
    let expected: Vec<Vec<String>> = OF_BOOTS.map(|name| ids_of(&lake, name)).into();
    // A reader lists the files and then opens them. Between the two, a file may be removed.
    let ids = |name: &str| -> Option<Vec<String>> {
        let mut found = Vec::new();
        for day in fs::read_dir(lake.join(name)).unwrap() {
            for file in fs::read_dir(day.unwrap().path()).ok()? {
                let reader = SerializedFileReader::new(File::open(file.unwrap().path()).ok()?).unwrap();
                found.extend(reader.get_row_iter(None).unwrap().map(|row| word(&named(row.unwrap()), "boot_id")));
            }
        }
        found.sort();
        Some(found)
    };
    let mut child = compact(&lake).arg("--json").stdout(Stdio::piped()).spawn().unwrap();
    let mut looked = 0;
    let is_at_work = |child: &mut std::process::Child| child.try_wait().unwrap().is_none();
    while is_at_work(&mut child) || looked < OF_BOOTS.len() {
        let at = looked % OF_BOOTS.len();
        if let Some(found) = ids(OF_BOOTS[at]) {
            assert_eq!(found, expected[at], "{} at look {looked}", OF_BOOTS[at]);
        }
        looked += 1;
    }
    println!("looked {looked} times");
    let document = crate::support::ran(child.wait_with_output().unwrap(), "compact".to_owned()).exits(0).json();
    assert_eq!(document["schema"], "bootscope.lake-compact/1");
    let count = |field: &str| document[field].as_u64().unwrap();
    assert!(
        count("days") > 0 && count("files_after") == count("days") && count("files_before") > count("files_after"),
        "{document}"
    );
    for (name, ids) in OF_BOOTS.iter().zip(&expected) {
        assert_eq!(ids_of(&lake, name), *ids, "{name}");
    }
    assert_eq!(run(compact(&lake).arg("--json")).exits(0).json()["days"], 0);
}

#[test]
fn a_kill_while_a_lake_is_rewritten_leaves_each_boot_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let (first, key) = (folder.path().join("first"), folder.path().join("key"));
    of_two_machines(&first, &key);
    let rows = count(&first, "rows");
    let all = ids_of(&first, "boots");
    let began = Instant::now();
    let copy = |to: &Path| assert!(Command::new("cp").arg("-a").arg(&first).arg(to).status().unwrap().success());
    let once = folder.path().join("once");
    copy(&once);
    run(forget(&once, &["--machine", "a", "--key"]).arg(&key)).exits(0);
    let takes = began.elapsed();
    let stay = ids_of(&once, "boots");
    let mut random = Random::new();
    println!("seed {}", random.seed());
    let (mut ended, mut undone) = (0, 0);
    for round in 0..kills(12) {
        let lake = folder.path().join(format!("lake-{round}"));
        copy(&lake);
        let compacts = round % 3 == 0;
        let mut command = if compacts { compact(&lake) } else { forget(&lake, &["--machine", "a", "--key"]) };
        if !compacts {
            command.arg(&key);
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(takes.mul_f64(random.share()));
        child.kill().unwrap();
        child.wait().unwrap();
        let whole = |when: &str| {
            let found = ids_of(&lake, "boots");
            let counted = count(&lake, "rows");
            for id in &found {
                assert_eq!(counted.get(id), rows.get(id), "round {round}, {when}: {id}");
            }
            assert!(
                stay.iter().all(|id| found.contains(id)),
                "round {round}, {when}: a boot of another machine is gone"
            );
            assert!(!compacts || found == all, "round {round}, {when}");
            found
        };
        whole("at once");
        // The next change of the lake completes or undoes the interrupted one.
        run(&mut forget(&lake, &["--boot", "none"])).exits(1);
        let found = whole("later").len();
        if found == all.len() {
            undone += 1
        } else {
            ended += 1
        }
        assert!(
            fs::read_dir(&lake).unwrap().all(|entry| !entry.unwrap().file_name().to_str().unwrap().starts_with('.'))
        );
    }
    println!("{ended} were ended, {undone} undone or compacted");
}

/// Recordings of 0.1 and each version since, hostile and truncated ones, and good ones, in one batch.
#[test]
fn recordings_of_every_schema_are_added_beside_hostile_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (mut good, mut parts) = (kept(), Vec::new());
    for layout in [1, 2] {
        let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/upgraded/layout-{layout}.tar.zst"));
        let into = folder.path().join(format!("layout-{layout}"));
        tar::Archive::new(zstd::Decoder::new(File::open(archive).unwrap()).unwrap()).unpack(&into).unwrap();
        good.extend(["lab.tar.zst", "lab-lazy"].map(|name| into.join(name)));
        // Two of its files were removed.
        parts.push(into.join("linux"));
    }
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let whole = fs::read(one("two-traces.tar.zst")).unwrap();
    // More than any recording has, from few bytes.
    let bomb = zstd::encode_all(std::io::repeat(0).take(1 << 30), 3).unwrap();
    let outside = {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(4);
        header.as_gnu_mut().unwrap().name[..13].copy_from_slice(b"../escaped.md");
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, &b"here"[..]).unwrap();
        zstd::encode_all(&tar.into_inner().unwrap()[..], 3).unwrap()
    };
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let folder_of = |name: &str, manifest: &str| {
        let path = folder.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("recording.json"), manifest).unwrap();
        path
    };
    let mut bad = vec![
        file("bomb.tar.zst", &bomb),
        file("outside.tar.zst", &outside),
        file("manifest.json", deep.as_bytes()),
        folder_of("deep", &deep),
        folder_of("later", r#"{"schema": "bootscope.recording/2"}"#),
        folder_of("wrong", r#"{"schema": "bootscope.recording/1", "evidence": 7}"#),
        folder_of("elsewhere", r#"{"schema": "bootscope.recording/1", "evidence": [{"file": "../../../etc/passwd"}]}"#),
        PathBuf::from("/dev/null"),
    ];
    bad.extend(parts);
    bad.extend((1..10).map(|tenth| file(&format!("cut-{tenth}.tar.zst"), &whole[..whole.len() * tenth / 10])));
    let mut all = Vec::new();
    for i in 0..good.len().max(bad.len()) {
        all.extend(good.get(i).into_iter().chain(bad.get(i)).cloned());
    }
    let lake = folder.path().join("lake");
    let document = run(add(&all, &lake).args(["--json", "--no-findings"])).exits(1).json();
    let failed: Vec<&str> = list(&document["failed"]).iter().map(|line| text(&line["recording"])).collect();
    let mut expected: Vec<&str> = bad.iter().map(|path| path.to_str().unwrap()).collect();
    let mut found = failed.clone();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected, "{document}");
    let boots = document["new"].as_u64().unwrap() + document["there"].as_u64().unwrap();
    assert_eq!((boots, table(&lake, "boots").len() as u64), (good.len() as u64, document["new"].as_u64().unwrap()));
    assert!(!folder.path().join("escaped.md").exists() && !folder.path().parent().unwrap().join("escaped.md").exists());
}

/// A folder on another machine that disappears and comes back.
#[test]
fn a_watch_goes_on_when_its_folder_was_away() {
    let folder = tempfile::tempdir().unwrap();
    let (incoming, away, lake) = (folder.path().join("in"), folder.path().join("away"), folder.path().join("lake"));
    fs::create_dir(&incoming).unwrap();
    fs::copy(one("lab-two-cpus.tar.zst"), incoming.join("1.tar.zst")).unwrap();
    let mut command = bootscope("lake");
    command.args(["watch", "--every", "0.1s", "--no-findings", "--json", "--to"]).arg(&lake).arg(&incoming);
    let stderr_file = folder.path().join("said");
    let child = command.stdout(Stdio::piped()).stderr(File::create(&stderr_file).unwrap()).spawn().unwrap();
    wait_for(|| table(&lake, "boots").len() == 1);
    fs::rename(&incoming, &away).unwrap();
    wait_for(|| fs::read_to_string(&stderr_file).unwrap().contains("trying again"));
    fs::rename(&away, &incoming).unwrap();
    fs::copy(one("two-traces.tar.zst"), incoming.join("2.tar.zst")).unwrap();
    wait_for(|| table(&lake, "boots").len() == 2);
    let pid = child.id();
    assert!(Command::new("sh").args(["-c", &format!("kill -INT {pid}")]).status().unwrap().success());
    let ran = crate::support::ran(child.wait_with_output().unwrap(), "watch".to_owned()).exits(0);
    assert_eq!(ran.json()["new"], 2);
    let stderr = fs::read_to_string(stderr_file).unwrap();
    assert_eq!(stderr.matches("trying again").count(), 1, "once, and not at each look: {stderr}");
}

/// In its own mount namespace, where a folder has a limited size.
#[test]
fn a_watch_goes_on_when_the_disk_was_full() {
    let folder = tempfile::tempdir().unwrap();
    let (small, incoming) = (folder.path().join("small"), folder.path().join("in"));
    fs::create_dir(&small).unwrap();
    fs::create_dir(&incoming).unwrap();
    for (i, recording) in kept().iter().enumerate() {
        fs::copy(recording, incoming.join(format!("{i}.tar.zst"))).unwrap();
    }
    let script = "mount -t tmpfs -o size=32k none \"$1\" || exit 77
        \"$3\" lake watch \"$2\" --to \"$1/lake\" --every 0.1s --no-findings --json 2> \"$2.said\" & watch=$!
        for i in $(seq 600); do grep -q 'trying again' \"$2.said\" && break; sleep 0.1; done
        mount -o remount,size=20m \"$1\"
        for i in $(seq 600); do ls \"$1\"/lake/boots/*/*.parquet > /dev/null 2>&1 && break; sleep 0.1; done
        sleep 1; kill -INT $watch; wait $watch || exit 78
        \"$3\" lake add \"$2\"/*.zst --to \"$1/lake\" --no-findings --json";
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let mut command = Command::new("unshare");
    command.arg("--mount").args((!is_root).then_some("--map-root-user"));
    command.args(["sh", "-c", script, "-"]).arg(&small).arg(&incoming).arg(env!("CARGO_BIN_EXE_bootscope"));
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || stderr.contains("unshare failed") {
        return skip(&format!("no file system can be mounted here: {stderr}"));
    }
    assert!(output.status.success(), "{}: {stderr}", output.status);
    let stderr = fs::read_to_string(folder.path().join("in.said")).unwrap();
    assert!(stderr.contains("no space left on the disk") && stderr.contains("free some space"), "{stderr}");
    let documents: Vec<Value> =
        serde_json::Deserializer::from_slice(&output.stdout).into_iter().map(Result::unwrap).collect();
    let all = kept().len();
    assert_eq!((&documents[0]["new"], &documents[1]["there"]), (&all.into(), &all.into()), "{documents:?}");
}

#[test]
fn identities_of_a_machine_are_not_added() {
    let folder = tempfile::tempdir().unwrap();
    // One of its units is named after the UUID of a disk.
    let dump = crate::support::fixture("systemd-analyze/debian12-dump.txt");
    let boot = crate::support::imported(&dump, &folder.path().join("boot"));
    let own = "da998ada";
    let all_of = |lake: &Path| -> String {
        let tables = ["boots", "labels", "metrics", "findings", "units", "initcalls", "rows", "phases", "machines"];
        tables.map(|name| format!("{:?}", table(lake, name))).concat()
    };
    let (plain, identified) = (folder.path().join("plain"), folder.path().join("identified"));
    run(&mut add(std::slice::from_ref(&boot), &plain)).exits(0);
    run(add(std::slice::from_ref(&boot), &identified).arg("--identify")).exits(0);
    let (plain, identified) = (all_of(&plain), all_of(&identified));
    assert!(identified.contains(own), "no name has it: {identified}");
    assert!(!plain.contains(own) && plain.contains(r"dev-disk-by\\x2duuid-[uuid].device"), "{plain}");
}
