//! Small formats without a separate target, in one recording: `bootstat`, `boottimes`, `boottrace`,
//! `android_events`, `vmm_log`, `stacks`, `dmesg --json`, a journal with dates, `devices_deferred`, Android's init in a kernel log
//! (`android_words`), `meminfo`, `vmm` marks, a trace's sockets (`ports`), the files of an `archive`, and `recording.json` with the
//! specs of its boot (`how`). A grammar makes the files from the input. An input that begins with `RAW` is the files themselves,
//! with a NUL between them. For any input the phases and the boot path add up to the total, and a spec that is written is read back
//! the same.
#![no_main]

mod made;

use evidence::{load, meminfo, meminfo_after_workload};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use recording::{GuestSpec, ObserveSpec, Recording};
use serde_json::{Value, json};
use std::fs;
use timeline::Ns;

/// The files, and for each text file its possible lines.
const FILES: [(&str, &[&str]); 16] = [
    ("recording.json", &[]),
    ("00-bootstat.txt", &BOOTSTAT),
    ("01-getprop.txt", &BOOTTIMES),
    ("02-android.log", &ANDROID),
    ("meminfo.txt", &MEMINFO),
    ("meminfo-after.txt", &MEMINFO),
    ("trace.txt", &TRACE),
    ("vmm.json", &[]),
    ("03-files.tar", &[]),
    ("04-boottrace.txt", &BOOTTRACE),
    ("05-events.txt", &EVENTS),
    ("06-vmm.log", &VMM),
    ("07-stacks.txt", &STACKS),
    ("08-dmesg.json", &DMESG_JSON),
    ("09-journal.txt", &JOURNAL),
    ("10-deferred.txt", &DEFERRED),
];
const BOOTSTAT: [&str; 3] = [
    "/tmp/uptime-{w}:{t} {t}",
    "x.tar:tmp/uptime-{w}:{t} {t}",
    "/tmp/disk-{w}:{n} {n} {n} {n} {n} {n} {n} {n} {n} {n} {n}",
];
const BOOTTRACE: [&str; 3] = [
    " CPU      msecs      delta process                  event                                      PID CPUtime IBlks OBlks",
    "   {n}    {n}          {n} {w}                 {w} {w}                                {n}    {t}     {n}     {n}",
    "   {n}    {n}          {n} init                 multi-user start                          1    0.20     0     0",
];
/// Lines of a file that is named after an event.
const UPTIME: [&str; 2] = ["{t} {t}", "{n} {n} {n} {n} {n} {n} {n} {n} {n} {n} {n}"];
const BOOTTIMES: [&str; 4] =
    ["[ro.boottime.{w}]: [{n}]", "[ro.boottime.init]: [{n}]", "[ro.boottime.init.{w}]: [{n}]", "[ro.{w}]: [{w}]"];
const ANDROID: [&str; 9] = [
    "[    {T}] init: processing action ({w}) from (/system/etc/init/hw/init.rc:{n})",
    "[    {T}] init: processing action ({w})",
    "[    {T}] init: Command '{w} {w}' action={w} (/init.rc:{n}) took {n}ms and succeeded",
    "[    {T}] init: Command 'start {w}' action={w} (/init.rc:{n}) returned {n} took {n}.5ms.",
    "[    {T}] init: starting service '{w}'...",
    "[    {T}] init: ... started service '{w}' has pid {n}",
    "[    {T}] init: Service '{w}' (pid {n}) exited with status {n} waiting took {T} seconds",
    "[    {T}] init: Service '{w}' (pid {n}) exited with status {n} oneshot service took {T} seconds in background",
    "[    {T}] init: Service '{w}' (pid {n}) received signal {n}",
];
const EVENTS: [&str; 4] = [
    "10-05 00:00:00.920   362   362 I boot_progress_{w}: {n}",
    "I/boot_progress_start( {n}): {n}",
    "12-23 11:03:15.260   553   553 I SurfaceFlinger: Boot is finished ({n} ms)",
    "boot_progress_system_run: {n}",
];
const VMM: [&str; 5] = [
    "2026-09-23T07:39:00.{n} [a:main] Running Firecracker v1.12.0",
    "2026-09-23T07:39:01.{n} [a:main:DEBUG] event_end: {w}",
    "2026-09-23T07:39:02.{n} [a:fc_vcpu 0] Guest-boot-time = {n} us",
    "cloud-hypervisor: {T}s: <vmm> INFO:vmm/src/lib.rs:557 -- {w}",
    "cloud-hypervisor: {T}s: <vcpu0> WARN:x.rs:76 -- [Debug I/O port: Kernel code {n}]",
];
const STACKS: [&str; 5] = ["{w};{w} {n}", "{w};{w};{w} {n}.{n}", "    {w}`{w}+0x{n}", "    0x{n}", "      {n}"];
const DMESG_JSON: [&str; 4] = [
    "{\"dmesg\": [",
    "{\"pri\": {n}, \"time\": {T}, \"msg\": \"{w} {w}\"},",
    "{\"fac\": \"kern\", \"pri\": \"warn\", \"time\": \"{T}\", \"caller\": \"T{n}\", \"msg\": \"{w}\"},",
    "{}]}",
];
const JOURNAL: [&str; 5] = [
    "Nov 24 13:58:21.{n} box kernel: Linux version {w}",
    "Nov 24 13:58:22.{n} box systemd[1]: Starting {w}.service - {w}...",
    "Nov 24 13:58:23.{n} box systemd[1]: Started {w}.service - {w}.",
    "Nov 24 13:59:01.{n} box systemd[1]: Startup finished in {t}s (kernel) + {t}s (userspace) = {t}s.",
    "-- Boot {w} --",
];
const DEFERRED: [&str; 4] = [
    "{w}\tplatform: wait for supplier /{w}@{n}/{w}",
    "{n}.{w}:{w}\tplatform: supplier {n}.{w} not ready",
    "{w}\t",
    "[    {T}] platform {n}.{w}: deferred probe pending: wait for supplier {w}",
];
const MEMINFO: [&str; 4] = ["MemTotal:       {n} kB", "MemFree: {n} kB", "Cached: {n}", "{w}: {n} kB"];
const TRACE: [&str; 7] = [
    "            init-1       [000] ..... {T}: sched_process_fork: comm=init pid=1 child_comm={w} child_pid=70",
    "            init-1       [000] d.... {T}: sched_wakeup_new: comm=web pid=70 prio=120 target_cpu=000",
    "            init-1       [000] d.... {T}: sched_switch: prev_comm=init prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=web next_pid=70 next_prio=120",
    "             web-70      [000] ..... {T}: inet_sock_set_state: family=AF_INET protocol=IPPROTO_TCP sport=80 dport=0 saddr=0.0.0.0 daddr=0.0.0.0 saddrv6=::ffff:0.0.0.0 daddrv6=::ffff:0.0.0.0 oldstate=TCP_CLOSE newstate=TCP_LISTEN",
    "             web-70      [000] ..s1. {T}: inet_sock_set_state: family=AF_INET protocol=IPPROTO_TCP sport=80 dport={n} saddr=0.0.0.0 daddr=0.0.0.0 saddrv6=::ffff:0.0.0.0 daddrv6=::ffff:0.0.0.0 oldstate=TCP_SYN_RECV newstate=TCP_ESTABLISHED",
    "             web-70      [000] ..... {T}: inet_sock_set_state: family=AF_INET protocol=IPPROTO_TCP sport=80 dport=0 saddr=10.0.0.1 daddr=0.0.0.0 oldstate=TCP_ESTABLISHED newstate=TCP_FIN_WAIT1",
    "             web-70      [000] ..... {T}: inet_sock_set_state: family=AF_INET6 protocol=IPPROTO_TCP sport={n} dport=0 saddr=127.0.0.1 oldstate=TCP_LISTEN newstate=TCP_CLOSE",
];
const MEMBERS: [&str; 6] =
    ["tmp/uptime-chrome-exec", "tmp/disk-boot", "./header", "../../etc/passwd", "getprop.txt", ""];

fuzz_target!(|bytes: &[u8]| {
    match bytes.strip_prefix(b"RAW") {
        // The last file may have NULs itself.
        Some(raw) => check(raw.splitn(FILES.len(), |&byte| byte == 0).map(<[u8]>::to_vec).collect()),
        None => check(files(&mut Unstructured::new(bytes)).unwrap_or_default()),
    }
});

fn files(u: &mut Unstructured) -> Result<Vec<Vec<u8>>> {
    FILES
        .iter()
        .map(|&(name, lines)| match name {
            "recording.json" => document(u, recording_json()),
            "vmm.json" => document(u, vmm_json()),
            "03-files.tar" => archive(u),
            _ => made::text(u, lines),
        })
        .collect()
}

fn document(u: &mut Unstructured, mut document: Value) -> Result<Vec<u8>> {
    made::change(u, &mut document)?;
    let mut text = document.to_string().into_bytes();
    made::damage(u, &mut text)?;
    Ok(text)
}

/// The manifest that a recorder writes, with a value for every option of its boot.
fn recording_json() -> Value {
    let mut how = serde_json::to_value(GuestSpec::default()).expect("plain data");
    for (name, value) in serde_json::to_value(ObserveSpec::default()).expect("plain data").as_object().expect("fields")
    {
        how[name] = value.clone();
    }
    how["until"] = json!({"http": {"host": "guest", "port": 80, "path": "/"}});
    how["board"] = json!({"serial": "/dev/ttyUSB0", "baud": 9600, "power_cycle": "relay"});
    how["mask"] = json!(["ssh.service"]);
    how["root"] = json!("root.img");
    how["symbols"] = json!([{"path": "vmlinux", "base": 4096}]);
    json!({
        "schema": "bootscope.recording/1", "tool_version": "0.1.0", "created": "2026-01-01T00:00:00Z",
        "state": "finished", "time_base": "host", "how": how,
        "subject": {"os": "Linux", "kernel": "6.1", "machine": "pc", "accelerator": "tcg", "cpus": 1, "memory_bytes": 1 << 29},
        "inputs": [{"role": "kernel", "path": "bzImage", "bytes": 1, "sha256": "ab"}],
        "outcome": {"kind": "reached", "detail": ""},
        "end": {"mark": "answer", "what": "port 80", "at_ns": 5_000_000_000_i64, "error_ns": 30_000_000},
        "evidence": [{"file": "trace.txt", "bytes": 10, "origin": "x"}],
        "overhead": {"ratio": 1.1, "low": 1.0, "high": 1.2, "how": "x", "of": {}},
        "ticks_hz": null, "arrival_error_ns": 5, "boot_key": "x", "notes": ["x"]
    })
}

fn vmm_json() -> Value {
    let names = ["executed", "linked", "monitor ready", "machine complete", "first instruction", "power on", "other"];
    let mark = |(i, name)| json!({"name": name, "at_ns": i * 1000, "error_ns": 300, "evidence": "x"});
    Value::Array((1..).zip(names).map(mark).collect())
}

/// A tar archive with correct headers, then damaged.
fn archive(u: &mut Unstructured) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for _ in 0..u.int_in_range(0..=6)? {
        let (name, lines) = (*u.choose(&MEMBERS)?, *u.choose(&[&UPTIME[..], &BOOTTIMES, &ANDROID])?);
        let content = made::text(u, lines)?;
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(tar::EntryType::new(*u.choose(b"0000007125gLKxS")?));
        // The size is correct most of the time.
        header.set_size(if u.ratio(1, 10)? { u.arbitrary::<u32>()?.into() } else { content.len() as u64 });
        header.set_cksum();
        builder.append(&header, &content[..]).expect("a vector takes all");
    }
    let mut bytes = builder.into_inner().expect("a vector takes all");
    made::damage(u, &mut bytes)?;
    Ok(bytes)
}

fn check(files: Vec<Vec<u8>>) {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in /dev/shm");
    for ((name, _), content) in FILES.iter().zip(files) {
        fs::write(folder.path().join(name), content).expect("room in /dev/shm");
    }
    let Ok(recording) = Recording::open(folder.path()) else { return };
    check_how(&recording);
    for memory in [meminfo(&recording), meminfo_after_workload(&recording)] {
        let bytes = memory.expect("it can be read").bytes("MemTotal");
        assert!(bytes.is_none_or(|bytes| bytes % 1024 == 0));
    }
    let timeline = load(&recording).expect("its files can be read");
    let total = analysis::total(&timeline);
    let phases = analysis::phases(&timeline);
    let path = analysis::boot_path(&timeline);
    assert_eq!(phases.iter().map(|phase| phase.length()).sum::<Ns>(), total);
    if !path.stretches.is_empty() {
        assert_eq!(path.stretches.iter().map(|stretch| stretch.length()).sum::<Ns>(), total);
    }
}

fn check_how(recording: &Recording) {
    let how = &recording.manifest().how;
    if let Some(guest) = GuestSpec::of(how) {
        let written = serde_json::to_value(&guest).expect("a spec is plain data");
        assert_eq!(GuestSpec::of(&written).as_ref(), Some(&guest));
        assert_eq!(guest.differences(&guest), []);
    }
    if let Some(observe) = ObserveSpec::of(how) {
        let written = serde_json::to_value(&observe).expect("a spec is plain data");
        assert_eq!(ObserveSpec::of(&written), Some(observe));
    }
    let _ = recording.manifest().measured();
    let _ = recording.lost();
}
