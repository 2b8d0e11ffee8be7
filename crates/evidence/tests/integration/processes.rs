//! Processes of user space from hand-made traces in the form of Linux 6.1 and 6.12, compared with known answers.

use evidence::ftrace::Trace;
use timeline::{Clock, Diagnostics, InterruptKind, Ns, TimeBase, Timeline};

fn built(lines: &[&str]) -> Timeline {
    let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let mut diagnostics = Diagnostics::default();
    let trace = Trace::read("t", text.as_bytes(), &mut diagnostics).unwrap();
    let clock = Clock::linear("trace", 1e9, trace.first, Ns::ZERO, timeline::RateSource::User);
    let mut timeline = Timeline::new(TimeBase::Evidence);
    timeline.diagnostics = diagnostics;
    trace.build(&clock, &mut timeline);
    timeline.finalize(Ns::ZERO);
    timeline
}

/// The processes: depth, number, name, from, to, threads, unit.
fn table(timeline: &Timeline) -> Vec<String> {
    let rows = timeline.processes.iter().enumerate().map(|(place, p)| {
        let of = |track: &&timeline::Track| track.process == Some(u32::try_from(place).unwrap());
        let threads: Vec<_> = timeline.tracks.iter().map(|(_, track)| track).filter(of).collect();
        let unit = threads[0].unit.map_or("-", |unit| timeline.names.get(unit));
        let end = p.end.map_or("alive".to_owned(), |end| (end.0 / 1000).to_string());
        let (name, start) = (timeline.names.get(p.name), p.start.0 / 1000);
        format!("{} {} {name} {start}..{end} threads {} {unit}", p.depth, p.pid, threads.len())
    });
    rows.collect()
}

const INIT: &str = "init-1 [000] ..... 0.000000: sched_process_exec: filename=/sbin/init pid=1 old_pid=1";

#[test]
fn a_thread_belongs_to_its_process_which_ends_with_its_last_thread() {
    let timeline = built(&[
        INIT,
        "init-1 [000] ..... 0.000001: task_newtask: pid=7 comm=init clone_flags=1200000 oom_score_adj=0",
        "init-1 [000] ..... 0.000001: sched_process_fork: comm=init pid=1 child_comm=init child_pid=7",
        "a-7 [000] ..... 0.000002: sched_process_exec: filename=/bin/a pid=7 old_pid=7",
        "a-7 [000] ..... 0.000003: task_newtask: pid=8 comm=a clone_flags=3d0f00 oom_score_adj=0",
        "a-7 [000] ..... 0.000003: sched_process_fork: comm=a pid=7 child_comm=a child_pid=8",
        // A thread forks: the child belongs to its process.
        "a-8 [000] ..... 0.000004: task_newtask: pid=9 comm=a clone_flags=1200011 oom_score_adj=0",
        "a-8 [000] ..... 0.000004: sched_process_fork: comm=a pid=8 child_comm=a child_pid=9",
        "a-7 [000] ..... 0.000005: sched_process_exit: comm=a pid=7 prio=120",
        "a-8 [000] ..... 0.000009: sched_process_exit: comm=a pid=8 prio=120",
    ]);
    let expected = ["0 1 /sbin/init 0..alive threads 1 -", "1 7 /bin/a 1..9 threads 2 -", "2 9 a 4..alive threads 1 -"];
    assert_eq!(table(&timeline), expected);
}

#[test]
fn a_thread_that_starts_a_program_is_the_process_from_then_on() {
    let timeline = built(&[
        INIT,
        "init-1 [000] ..... 0.000001: task_newtask: pid=7 comm=init clone_flags=1200000 oom_score_adj=0",
        "a-7 [000] ..... 0.000003: task_newtask: pid=8 comm=a clone_flags=3d0f00 oom_score_adj=0",
        "a-7 [000] ..... 0.000004: sched_process_exit: comm=a pid=7 prio=120",
        "a-7 [000] d.... 0.000005: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=Z ==> next_comm=a next_pid=8 next_prio=120",
        "b-7 [000] ..... 0.000006: sched_process_exec: filename=/bin/b pid=7 old_pid=8",
        "b-7 [000] d.... 0.000009: sched_switch: prev_comm=b prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=init next_pid=1 next_prio=120",
        "init-1 [000] d.... 0.000010: sched_switch: prev_comm=init prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=7 next_prio=120",
        "b-7 [000] ..... 0.000012: sched_process_exit: comm=b pid=7 prio=120",
    ]);
    assert_eq!(table(&timeline), ["0 1 /sbin/init 0..alive threads 1 -", "1 7 /bin/b 1..12 threads 2 -"]);
    // One thread ran all of it, and no switch is missing.
    let ran: Vec<_> = timeline.running.iter().filter(|r| timeline.tracks.get(r.track).id == 7).collect();
    let last: Vec<_> = ran.iter().filter(|r| r.from.0 >= 5_000).map(|r| (r.from.0, r.to.0)).collect();
    assert_eq!(last, [(5_000, 9_000), (10_000, 12_000)]);
    let amiss = timeline::DiagnosticKind::ThreadSwitchMissing;
    // The hand-made beginning has no switch from process 1 to the first thread.
    assert_eq!(timeline.diagnostics.iter().filter(|d| d.kind == amiss).map(|d| d.count).sum::<u64>(), 1);
}

#[test]
fn a_number_that_is_used_again_is_another_process_and_a_trace_without_task_newtask_is_read() {
    let fork =
        |at: &str| format!("init-1 [000] ..... {at}: sched_process_fork: comm=init pid=1 child_comm=init child_pid=7");
    let timeline = built(&[
        INIT,
        &fork("0.000001"),
        "a-7 [000] ..... 0.000002: sched_process_exec: filename=/bin/a pid=7 old_pid=7",
        "a-7 [000] ..... 0.000003: sched_process_exit: comm=a pid=7 prio=120",
        &fork("0.000005"),
        "b-7 [000] ..... 0.000006: sched_process_exec: filename=/bin/b pid=7 old_pid=7",
    ]);
    let rows =
        ["0 1 /sbin/init 0..alive threads 1 -", "1 7 /bin/a 1..3 threads 1 -", "1 7 /bin/b 5..alive threads 1 -"];
    assert_eq!(table(&timeline), rows);
}

/// Two ways of systemd: 252 moves the child that it forked, and 257 creates it in its control group.
#[test]
fn a_process_belongs_to_the_unit_whose_group_it_is_in() {
    let timeline = built(&[
        INIT,
        "init-1 [000] d.... 0.000001: cgroup_attach_task: dst_root=0 dst_id=2 dst_level=1 dst_path=/init.scope pid=1 comm=init",
        "init-1 [000] ..... 0.000002: task_newtask: pid=7 comm=init clone_flags=1200000 oom_score_adj=0",
        "init-1 [000] d..2. 0.000003: cgroup_notify_populated: root=0 id=3 level=2 path=/system.slice/a.service val=1",
        "init-1 [000] d..1. 0.000003: cgroup_attach_task: dst_root=0 dst_id=3 dst_level=2 dst_path=/system.slice/a.service pid=7 comm=(a)",
        "a-7 [000] ..... 0.000004: task_newtask: pid=8 comm=a clone_flags=1200000 oom_score_adj=0",
        "init-1 [000] ..... 0.000005: task_newtask: pid=9 comm=init clone_flags=1200000 oom_score_adj=0",
        "init-1 [000] d..2. 0.000006: cgroup_notify_populated: root=0 id=5 level=3 path=/system.slice/system-b.slice/b@1.service val=1",
        "init-1 [000] d..2. 0.000006: cgroup_notify_populated: root=0 id=4 level=2 path=/system.slice/system-b.slice val=1",
        "init-1 [000] ..... 0.000007: task_newtask: pid=10 comm=init clone_flags=300005100 oom_score_adj=0",
    ]);
    let expected = [
        "0 1 /sbin/init 0..alive threads 1 init.scope",
        "1 7 a 2..alive threads 1 a.service",
        "2 8 a 4..alive threads 1 a.service",
        "1 9 init 5..alive threads 1 init.scope",
        "1 10 init 7..alive threads 1 b@1.service",
    ];
    assert_eq!(table(&timeline), expected);
}

#[test]
fn an_interrupt_in_which_a_block_device_answers_is_a_disk_interrupt() {
    let timeline = built(&[
        "a-7 [000] d.h1. 0.000001: irq_handler_entry: irq=9 name=virtio0-req.0",
        "a-7 [000] d.h2. 0.000002: block_rq_complete: 254,0 R () 0 + 8 [0]",
        "a-7 [000] d.h1. 0.000003: sched_waking: comm=b pid=8 prio=120 target_cpu=000",
        "a-7 [000] d.h1. 0.000004: irq_handler_exit: irq=9 ret=handled",
        "a-7 [000] ..... 0.000005: task_newtask: pid=9 comm=a clone_flags=0 oom_score_adj=0",
        "a-7 [000] d.h1. 0.000006: irq_handler_entry: irq=4 name=ttyS0",
        "a-7 [000] d.h1. 0.000007: sched_waking: comm=c pid=10 prio=120 target_cpu=000",
        "a-7 [000] d.h1. 0.000008: irq_handler_exit: irq=4 ret=handled",
        "a-7 [000] ..... 0.000009: task_newtask: pid=11 comm=a clone_flags=0 oom_score_adj=0",
        "a-7 [000] d.h1. 0.000010: sched_waking: comm=d pid=12 prio=120 target_cpu=000",
    ]);
    let kinds = timeline.interrupt_kinds.iter().map(|(&name, &kind)| (timeline.names.get(name), kind));
    let mut kinds: Vec<_> = kinds.collect();
    kinds.sort_unstable();
    let expected = [
        ("irq ttyS0", InterruptKind::Device),
        ("irq virtio0-req.0", InterruptKind::Disk),
        ("timer or unnamed interrupt", InterruptKind::Timer),
    ];
    assert_eq!(kinds, expected);
}

/// A fork bomb: the table is bounded, and further processes are counted.
#[test]
fn more_processes_than_are_kept_are_counted() {
    const MANY: usize = 140_000;
    let mut lines = vec![INIT.to_owned()];
    let fork = |n: usize| {
        format!("init-1 [000] ..... 0.{:06}: task_newtask: pid={} comm=x clone_flags=0 oom_score_adj=0", n, n + 1)
    };
    lines.extend((1..=MANY).map(fork));
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let timeline = built(&lines);
    assert_eq!(timeline.processes.len(), 1 << 17);
    let beyond = timeline.diagnostics.iter().find(|d| d.kind == timeline::DiagnosticKind::EntriesBeyondBound).unwrap();
    assert_eq!(beyond.count as usize, MANY + 1 - (1 << 17));
}

fn units(timeline: &Timeline) -> Vec<String> {
    let us = |at: Option<Ns>| at.map_or("-".to_owned(), |at| (at.0 / 1000).to_string());
    let rows = timeline.units.iter().map(|unit| {
        let manager = timeline.unit_managers.get(&unit.name).copied().unwrap_or_default();
        format!("{} {}..{} {manager:?}", timeline.names.get(unit.name), us(unit.start), us(unit.settled))
    });
    rows.collect()
}

/// A timeline of forks, programs and ends of processes, from hand-made lines.
fn lives(all: &[(&str, u32, u32)]) -> Timeline {
    let mut lines = vec![INIT.to_owned()];
    for (at, &(what, pid, other)) in all.iter().enumerate() {
        let stamp = format!("x-{pid} [000] ..... 0.{:06}:", at + 1);
        lines.push(match what {
            "forks" => format!("{stamp} task_newtask: pid={other} comm=x clone_flags=1200000 oom_score_adj=0"),
            "ends" => format!("{stamp} sched_process_exit: comm=x pid={pid} prio=120"),
            file => format!("{stamp} sched_process_exec: filename={file} pid={pid} old_pid={pid}"),
        });
    }
    built(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

/// As on Debian 12 with sysvinit: a script's daemon stays, and a script that another script runs is part of it.
#[test]
fn scripts_of_sysvinit_are_units() {
    let timeline = lives(&[
        ("forks", 1, 7),
        ("/etc/init.d/rc", 7, 0),
        ("forks", 7, 8),
        ("/etc/init.d/ssh", 8, 0),
        ("forks", 8, 9),
        ("/usr/sbin/sshd", 9, 0),
        ("ends", 8, 0),
        ("forks", 7, 10),
        ("/etc/rc2.d/S02udev", 10, 0),
        ("forks", 10, 11),
        ("/etc/init.d/mountdevsubfs.sh", 11, 0),
        ("ends", 11, 0),
    ]);
    assert_eq!(units(&timeline), ["ssh 3..7 SysvInit", "udev 8..- SysvInit"]);
    let rows: Vec<String> = table(&timeline).into_iter().filter(|row| !row.ends_with(" -")).collect();
    assert_eq!(rows.len(), 4, "{rows:?}");
    assert!(rows[1].contains("/usr/sbin/sshd") && rows[1].ends_with("ssh"), "{rows:?}");
}

/// As on Debian 12 with OpenRC: above a script's process there is another one; OpenRC's own scripts run in one process.
#[test]
fn scripts_of_openrc_are_units() {
    let timeline = lives(&[
        ("forks", 1, 7),
        ("/sbin/openrc", 7, 0),
        ("forks", 7, 8),
        ("/sbin/openrc-run", 8, 0),
        ("forks", 8, 9),
        ("/lib/rc/sh/openrc-run.sh", 9, 0),
        ("/etc/init.d/cron", 9, 0),
        ("ends", 9, 0),
        ("ends", 8, 0),
        ("forks", 7, 10),
        ("/etc/init.d/sysfs", 10, 0),
        ("ends", 10, 0),
    ]);
    assert_eq!(units(&timeline), ["cron 3..9 OpenRc", "sysfs 10..12 OpenRc"]);
}

#[test]
fn a_supervised_program_is_a_unit() {
    let timeline = lives(&[
        ("forks", 1, 7),
        ("/usr/bin/runsv", 7, 0),
        ("forks", 7, 8),
        ("./run", 8, 0),
        ("/usr/sbin/sshd", 8, 0),
        ("forks", 1, 9),
        ("/bin/s6-supervise", 9, 0),
        ("forks", 9, 10),
        ("./run", 10, 0),
    ]);
    assert_eq!(units(&timeline), ["sshd 3..5 Runit"]);
}

/// A part of a real guest's trace; `tests/data/README.md` describes it.
fn cut(name: &str) -> Timeline {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/processes").join(name);
    let text = std::fs::read_to_string(file).unwrap();
    built(&text.lines().collect::<Vec<_>>())
}

/// Program and unit of each process that runs one of these programs.
fn units_of(timeline: &Timeline, programs: &[&str]) -> Vec<String> {
    let rows = timeline.processes.iter().enumerate().filter_map(|(place, process)| {
        let name = timeline.names.get(process.name);
        let track = timeline.tracks.iter().map(|(_, track)| track).find(|track| track.process == Some(place as u32))?;
        let unit = track.unit.map_or("-", |unit| timeline.names.get(unit));
        programs.contains(&name).then(|| format!("{name} {unit}"))
    });
    let mut rows: Vec<String> = rows.collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

#[test]
fn a_real_debian_13_has_its_processes_in_their_units() {
    let timeline = cut("debian13-units.txt");
    let rows = units_of(&timeline, &["/usr/sbin/sshd", "/usr/sbin/nginx", "/usr/sbin/cron", "/usr/bin/dbus-daemon"]);
    let expected = [
        "/usr/bin/dbus-daemon dbus.service",
        "/usr/sbin/cron cron.service",
        "/usr/sbin/nginx nginx.service",
        "/usr/sbin/sshd ssh.service",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_real_sysvinit_and_a_real_openrc_have_their_services() {
    let of = |timeline: &Timeline| {
        let names = timeline.units.iter().map(|unit| timeline.names.get(unit.name).to_owned());
        names.collect::<Vec<_>>()
    };
    let timeline = cut("debian12-sysvinit.txt");
    assert_eq!(of(&timeline), ["bootlogs", "cron", "nginx", "rmnologin", "ssh", "rc.local"]);
    let rows = units_of(&timeline, &["/usr/sbin/sshd", "/usr/sbin/nginx", "/usr/sbin/cron"]);
    assert_eq!(rows, ["/usr/sbin/cron cron", "/usr/sbin/nginx nginx", "/usr/sbin/sshd ssh"]);
    let timeline = cut("debian12-openrc.txt");
    assert_eq!(of(&timeline), ["mountnfs.sh", "mountnfs-bootclean.sh", "bootmisc.sh"]);
    assert!(timeline.unit_managers.values().all(|&manager| manager == timeline::Manager::OpenRc));
}
