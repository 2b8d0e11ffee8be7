//! The end of a boot is a kind of event, not its text: a line may contain any text.

use crate::support::{list, ns, shown, text};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A real boot to process 1, unpacked, with its manifest.
fn unpacked(folder: &TempDir) -> (PathBuf, Value) {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept/linux-first-run-cut.tar.zst");
    let archive = zstd::Decoder::new(fs::File::open(packed).unwrap()).unwrap();
    tar::Archive::new(archive).unpack(folder.path()).unwrap();
    let recording = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let manifest = serde_json::from_slice(&fs::read(recording.join("recording.json")).unwrap()).unwrap();
    (recording, manifest)
}

#[test]
fn a_line_that_reads_init_is_not_process_1() {
    let folder = TempDir::new().unwrap();
    let (recording, mut manifest) = unpacked(&folder);
    let to_process_1 = ns(&shown(&recording)["total_ns"]);
    let mut end_with = |end: Value| {
        manifest["outcome"]["detail"] = end["what"].clone();
        manifest["end"] = end;
        fs::write(recording.join("recording.json"), manifest.to_string()).unwrap();
        let document = shown(&recording);
        (
            ns(&document["total_ns"]),
            text(&document["outcome_detail"]).to_owned(),
            text(&document["end"]["evidence"]).to_owned(),
        )
    };
    let line = end_with(json!({"mark": "line", "what": "init", "at_ns": 1_000_000_000, "error_ns": 100_000}));
    assert_eq!(line, (1_000_000_000, "init".to_owned(), "init".to_owned()));
    let init = end_with(json!({"mark": "init", "what": "init", "at_ns": 1_000_000_000}));
    assert_eq!((init.0, init.1.as_str()), (to_process_1, ""));
    // The recording has no kind of event, so the text decides.
    assert_eq!(end_with(json!({"what": "init", "at_ns": 1_000_000_000})).0, to_process_1);
}

#[test]
fn an_unknown_vmm_mark_is_counted() {
    let folder = TempDir::new().unwrap();
    let (recording, _) = unpacked(&folder);
    let of_vmm = |document: &Value| {
        let found = list(&document["diagnostics"]).iter().find(|d| d["code"] == "vmm-mark-unknown").cloned();
        found.map(|d| (ns(&d["count"]), text(&d["about"]).to_owned()))
    };
    assert_eq!(of_vmm(&shown(&recording)), None);
    let marks = fs::read_to_string(recording.join("vmm.json")).unwrap();
    assert!(marks.contains("\"machine complete\""), "{marks}");
    fs::write(recording.join("vmm.json"), marks.replace("machine complete", "machine made")).unwrap();
    assert_eq!(of_vmm(&shown(&recording)), Some((1, "machine made".to_owned())));
}

/// A boot that ends when its port 80 answers, as seen by its host, and the rows from its trace. Times are in ms.
fn path_to_port(until: &Value, answer: (i64, i64), sockets: &[(&str, i64, &str)]) -> (Value, Vec<(String, i64)>) {
    let folder = TempDir::new().unwrap();
    let (recording, mut manifest) = unpacked(&folder);
    let to_process_1 = ns(&shown(&recording)["total_ns"]);
    let (at_ns, error_ns) = (to_process_1 + answer.0 * 1_000_000, answer.1 * 1_000_000);
    manifest["how"]["until"] = until.clone();
    manifest["end"] = json!({"mark": "answer", "what": "port 80", "at_ns": at_ns, "error_ns": error_ns});
    fs::write(recording.join("recording.json"), manifest.to_string()).unwrap();
    // Process 1 forks `web`, which has the CPU from then on.
    let mut lines = fs::read_to_string(recording.join("trace.txt")).unwrap();
    // The end mark `init` by the trace's clock: the trace's markers come 74 ms later.
    let zero_us = 3_105_869;
    let mut event = |task: &str, ms: i64, flags: &str, event: &str| {
        let us = zero_us + ms * 1000;
        lines += &format!("{task:>16} [000] {flags} {:>5}.{:06}: {event}\n", us / 1_000_000, us % 1_000_000);
    };
    let switch = |from: &str, to: &str| {
        let named = |which: &str, task: &str| {
            let (comm, pid) = task.split_once('-').unwrap();
            format!("{which}_comm={comm} {which}_pid={pid} {which}_prio=120")
        };
        format!("sched_switch: {} prev_state=S ==> {}", named("prev", from), named("next", to))
    };
    event("init-1", 101, ".....", "sched_process_fork: comm=init pid=1 child_comm=web child_pid=70");
    event("init-1", 101, "d....", "sched_wakeup_new: comm=web pid=70 prio=120 target_cpu=000");
    event("init-1", 102, "d....", &switch("init-1", "web-70"));
    for &(task, ms, states) in sockets {
        let flags =
            if states.contains("ESTABLISHED newstate") || states.contains("LISTEN") { "....." } else { "..s1." };
        let ports = "family=AF_INET protocol=IPPROTO_TCP sport=80 dport=0 saddr=0.0.0.0 daddr=0.0.0.0";
        let ports = format!("{ports} saddrv6=::ffff:0.0.0.0 daddrv6=::ffff:0.0.0.0");
        event(task, ms, flags, &format!("inet_sock_set_state: {ports} {states}"));
    }
    event("web-70", 500, "d....", &switch("web-70", "swapper/0-0"));
    fs::write(recording.join("trace.txt"), lines).unwrap();
    let document = shown(&recording);
    assert_eq!(ns(&document["total_ns"]), at_ns, "the end mark is what the host saw");
    let rows =
        list(&document["where"]).iter().map(|row| (text(&row["name"]).to_owned(), ns(&row["self_ns"]) / 1_000_000));
    (document.clone(), rows.collect())
}

const LISTENS: &str = "oldstate=TCP_CLOSE newstate=TCP_LISTEN";
const CONNECTED: &str = "oldstate=TCP_SYN_RECV newstate=TCP_ESTABLISHED";
const CLOSED: &str = "oldstate=TCP_ESTABLISHED newstate=TCP_FIN_WAIT1";

/// The time of a row, in ms; 0 if it is missing.
fn row_ms(rows: &[(String, i64)], name: &str) -> i64 {
    rows.iter().filter(|row| row.0 == name).map(|row| row.1).sum()
}

#[test]
fn the_path_to_a_port_goes_through_the_listening_process() {
    let until = json!({"tcp": 80});
    let sockets = [("web-70", 200, LISTENS), ("web-70", 250, CONNECTED)];
    // The last attempt that failed began at 230 ms, 30 ms after the port listened.
    let (document, rows) = path_to_port(&until, (260, 30), &sockets);
    assert_eq!(row_ms(&rows, "host gets no answer, though port 80 listens"), 30, "{rows:?}");
    assert!((19..=20).contains(&row_ms(&rows, "host asks port 80 again")), "{rows:?}");
    assert_eq!(row_ms(&rows, "host hears the answer of port 80"), 10, "{rows:?}");
    assert_eq!(text(&document["end"]["code"]), "answered");
    // Without events of sockets the listening process is not known: process 1 went to sleep at 102 ms. Otherwise the
    // path shows the process that it forked at 101 ms and that listened at 200 ms.
    let (_, unsaid) = path_to_port(&until, (260, 30), &[]);
    assert!(!unsaid.iter().any(|row| row.0.starts_with("host ")), "{unsaid:?}");
    let ran = |rows: &[(String, i64)]| row_ms(rows, "(process 1)");
    assert_eq!(ran(&rows) - ran(&unsaid), 200 - 102 - 1, "{rows:?} {unsaid:?}");
    assert!((157..=158).contains(&row_ms(&unsaid, "(process 1) · wait")), "{unsaid:?}");
    assert_eq!(row_ms(&rows, "(process 1) · wait"), 0, "{rows:?}");
}

#[test]
fn the_path_to_a_page_goes_through_the_serving_process() {
    let until = json!({"http": {"host": "guest", "port": 80, "path": "/"}});
    let sockets = [("web-70", 103, LISTENS), ("web-70", 250, CONNECTED), ("web-70", 258, CLOSED)];
    let (_, rows) = path_to_port(&until, (260, 30), &sockets);
    assert_eq!(row_ms(&rows, "host hears the answer of port 80"), 2, "{rows:?}");
    assert!(!rows.iter().any(|row| row.0.contains("asks") || row.0.contains("no answer")), "{rows:?}");
    // The boot ended before the connection was closed.
    let (_, rows) = path_to_port(&until, (260, 30), &sockets[..2]);
    assert_eq!(row_ms(&rows, "host gets no answer, though port 80 listens"), 127, "{rows:?}");
    assert_eq!(row_ms(&rows, "host waits for the page of port 80"), 10, "{rows:?}");
}
