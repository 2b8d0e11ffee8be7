//! Inputs in text formats, each as dense as the format allows.

use super::{Kind, imported, imported_as, own};
use std::fmt::Write as _;

pub const KINDS: &[Kind] = &[
    imported("unknown: newlines", |bytes| vec![b'\n'; bytes]),
    imported("unknown: 0xff", |bytes| vec![0xff; bytes]),
    imported("unknown: zeros", |bytes| vec![0; bytes]),
    imported("kernel log: shortest lines", |bytes| lines("", bytes, |_, to| write!(to, "[0.0]"))),
    imported("kernel log: one letter", |bytes| {
        lines("[    0.000000] Linux version 6\n", bytes, |_, to| write!(to, "[0.1]a"))
    }),
    imported("kernel log: different texts", |bytes| {
        lines("[    0.000000] Linux version 6\n", bytes, |i, to| write!(to, "[0.1]{i:x}"))
    }),
    imported("kernel log: newlines", |bytes| lines("[    0.000001] Linux version 6\n", bytes, |_, _| Ok(()))),
    imported("kernel log: lines of others", |bytes| {
        lines("[    0.000001] Linux version 6\n", bytes, |_, to| write!(to, "a"))
    }),
    imported("kernel log: others, different", |bytes| {
        lines("[    0.000001] Linux version 6\n", bytes, |i, to| write!(to, "{i:x}"))
    }),
    imported("kernel log: lines of 0xff", |bytes| bytes_after(b"[    0.000001] Linux version 6\n", b"\xff\n", bytes)),
    imported("kernel log: one line of 0xff", |bytes| {
        bytes_after(b"[    0.000001] Linux version 6\n[0.1] ", b"\xff", bytes)
    }),
    imported("kernel log: one line", |bytes| bytes_after(b"[    0.000001] Linux version 6\n[0.1] ", b"a", bytes)),
    imported("kernel log: zeros", |bytes| bytes_after(b"[    0.000001] Linux version 6\n", b"\0", bytes)),
    imported("kernel log: glued", |bytes| bytes_after(b"[    0.000001] Linux version 6\n", b"a[    0.100000] ", bytes)),
    imported("kernel log: records", |bytes| lines("", bytes, |i, to| write!(to, "6,{i},1,-;"))),
    imported("kernel log: records, different", |bytes| lines("", bytes, |i, to| write!(to, "6,{i},{i},-;{i:x}"))),
    imported("kernel log: records' continuations", |bytes| lines("6,1,1,-;a\n", bytes, |_, to| write!(to, " "))),
    imported("kernel log: comments of records", |bytes| lines("6,1,1,-;a\n", bytes, |_, to| write!(to, "#"))),
    imported("kernel log: initcalls entered", |bytes| {
        lines("[    0.000001] Linux version 6\n", bytes, |i, to| write!(to, "[0.1]calling  {i:x}+0x0/0x1 @ 1"))
    }),
    imported("kernel log: initcalls returned", |bytes| {
        lines("[    0.000001] Linux version 6\n", bytes, |i, to| {
            write!(to, "[0.1]initcall {i:x}+0x0/0x1 returned 0 after 1 usecs")
        })
    }),
    imported("kernel log: probes", |bytes| {
        lines("[    0.000001] Linux version 6\n", bytes, |i, to| {
            write!(to, "[0.1]probe of {i:x} returned 0 after 1 usecs")
        })
    }),
    imported("kernel log: units", |bytes| {
        lines("[    0.000001] Linux version 6\n", bytes, |i, to| write!(to, "[0.1]systemd[1]: Started {i:x}."))
    }),
    imported("kernel log: services of Android", |bytes| {
        lines("[    0.000001] Linux version 6\n", bytes, |i, to| write!(to, "[0.1]init: starting service '{i:x}'..."))
    }),
    imported("kernel log: syslog", |bytes| lines("", bytes, |_, to| write!(to, "Nov 21 10:11:12 b kernel: [0.1]a"))),
    imported("kernel log: JSON", |bytes| {
        lines("{\"dmesg\":[{\"msg\":\"Linux version 6\"}", bytes, |i, to| write!(to, ",{{\"msg\":\"{i:x}\"}}"))
    }),
    imported("kernel log: empty JSON", |bytes| bytes_after(b"{\"dmesg\":[{}", b",{}", bytes)),
    imported("journal: verbose", |bytes| lines("", bytes, |i, to| write!(to, " [s=;b=;m={i:x}]\n    MESSAGE={i:x}"))),
    imported("journal: dates", |bytes| {
        let end = "Jan 1 00:00:00 b systemd[1]: Startup finished in 1s (kernel) + 1s (userspace)\n";
        lines(end, bytes, |i, to| write!(to, "Jan 1 00:00:00 b systemd[1]: Started {i:x}"))
    }),
    own("console: 0xff", "console.log", |bytes| vec![0xff; bytes]),
    own("console: lines of 0xff", "console.log", |bytes| bytes_after(b"", b"\xff\n", bytes)),
    own("console: newlines", "console.log", |bytes| vec![b'\n'; bytes]),
    own("console: lines", "console.log", |bytes| lines("", bytes, |i, to| write!(to, "{i:x}"))),
    own("console: its index", "console.idx", |bytes| lines("", bytes, |i, to| write!(to, "{i} 1"))),
    own("kmsg.log: newlines", "kmsg.log", |bytes| vec![b'\n'; bytes]),
    own("guest: ticks", "guest.log", |bytes| lines("", bytes, |_, to| write!(to, "T 5"))),
    own("guest: lacks", "guest.log", |bytes| lines("", bytes, |i, to| write!(to, "L {i:x} x"))),
    own("guest: syncs", "guest.log", |bytes| lines("", bytes, |i, to| write!(to, "S kmsg 1 2 {i}"))),
    own("guest: ends", "guest.log", |bytes| lines("", bytes, |_, to| write!(to, "E poweroff"))),
    own("guest: no messages", "guest.log", |bytes| lines("", bytes, |_, to| write!(to, "x"))),
    own("firmware: lines", "firmware.log", |bytes| lines("", bytes, |_, to| write!(to, "a"))),
    own("firmware: different lines", "firmware.log", |bytes| lines("", bytes, |i, to| write!(to, "{i:x}"))),
    own("firmware: 0xff", "firmware.log", |bytes| vec![0xff; bytes]),
    own("silence: silences", "silence.txt", |bytes| lines("", bytes, |_, to| write!(to, "silence 1 2"))),
    own("silence: stops", "silence.txt", |bytes| lines("silence 1 2\n", bytes, |_, to| write!(to, "stop 1 1"))),
    own("silence: stacks", "silence.txt", |bytes| {
        lines("silence 1 2\nstop 1 1\ncpu 0 in-kernel x\n", bytes, |i, to| write!(to, "{i:x}"))
    }),
    own("silence: notes", "silence.txt", |bytes| lines("", bytes, |_, to| write!(to, "# note x"))),
    own("watch: readings", "watch.txt", |bytes| lines("# variable x\n", bytes, |_, to| write!(to, "1 1 1 f"))),
    own("watch: one name", "watch.txt", |bytes| bytes_after(b"# variable ", b"\xff", bytes)),
    own("vmm: marks", "vmm.json", |bytes| list(bytes, |_, to| write!(to, r#"{{"name":"linked","at_ns":1}}"#))),
    own("vmm: unknown marks", "vmm.json", |bytes| list(bytes, |i, to| write!(to, r#"{{"name":"{i:x}","at_ns":1}}"#))),
    own("vmm: small things", "vmm.json", |bytes| list(bytes, |_, to| write!(to, "1"))),
    own("recording.json: notes", "recording.json", |bytes| {
        let mut text = br#"{"schema":"bootscope.recording/1","notes":["#.to_vec();
        text.extend(br#""","#.repeat(bytes / 3));
        text.extend(br#"""]}"#);
        text
    }),
    own("recording.json: nested", "recording.json", |bytes| {
        [br#"{"schema":"bootscope.recording/1","how":"#.to_vec(), vec![b'['; bytes]].concat()
    }),
    own("recording.json: evidence", "recording.json", |bytes| {
        let mut text = br#"{"schema":"bootscope.recording/1","evidence":["#.to_vec();
        text.extend(b"{},".repeat(bytes / 3));
        text.extend(br#"{}]}"#);
        text
    }),
    imported("TSLOG: calls never left", |bytes| lines("", bytes, |i, to| write!(to, "0x1 {} ENTER f{i}", i + 1))),
    imported("TSLOG: one call never left", |bytes| lines("", bytes, |_, to| write!(to, "0x1 1 ENTER a"))),
    imported("TSLOG: calls", |bytes| lines("", bytes, |_, to| write!(to, "0x1 1 ENTER a\n0x1 1 EXIT a"))),
    imported("TSLOG: returns alone", |bytes| lines("0x1 1 ENTER a\n", bytes, |i, to| write!(to, "0x1 1 EXIT {i:x}"))),
    imported("TSLOG: threads", |bytes| lines("", bytes, |i, to| write!(to, "0x{i:x} 1 THREAD {i:x}"))),
    imported("TSLOG: a call of each thread", |bytes| lines("", bytes, |i, to| write!(to, "0x{i:x} 1 ENTER a"))),
    imported("TSLOG: waits", |bytes| lines("", bytes, |i, to| write!(to, "0x1 1 EVENT WAIT {i:x}"))),
    imported("TSLOG: holds", |bytes| lines("", bytes, |i, to| write!(to, "0x1 1 EVENT HOLD {i:x}"))),
    imported("TSLOG: releases", |bytes| lines("", bytes, |_, to| write!(to, "0x1 1 EVENT RELEASE a"))),
    imported("TSLOG: events", |bytes| lines("", bytes, |i, to| write!(to, "0x1 1 EVENT {i:x}"))),
    imported("TSLOG: processes", |bytes| lines("", bytes, |i, to| write!(to, r#"{} 1 1 0 "" """#, i + 1))),
    imported("TSLOG: other lines", |bytes| {
        lines("0x1 1 ENTER a\n", bytes, |i, to| match i % 2 {
            0 => write!(to, "0x1 1 EXIT a"),
            _ => write!(to, "x"),
        })
    }),
    imported("trace: switches", |bytes| {
        lines("", bytes, |i, to| {
            let (from, next) = (i % 2, (i + 1) % 2);
            write!(
                to,
                "a-{from} [000] 1.0: sched_switch: prev_comm=a prev_pid={from} prev_prio=1 prev_state=S ==> next_comm=a next_pid={next} next_prio=1"
            )
        })
    }),
    imported("trace: threads", |bytes| {
        lines("", bytes, |i, to| {
            let next = i + 1;
            write!(
                to,
                "a-{i} [000] 1.0: sched_switch: prev_comm=a prev_pid={i} prev_prio=1 prev_state=S ==> next_comm=a next_pid={next} next_prio=1"
            )
        })
    }),
    imported("trace: wake-ups", |bytes| {
        lines("", bytes, |i, to| write!(to, "a-1 [000] 1.0: sched_waking: comm=a pid={i} prio=1 target_cpu=0"))
    }),
    imported("trace: forks", |bytes| {
        lines("", bytes, |i, to| {
            write!(to, "a-{i} [000] 1.0: sched_process_fork: comm=a pid={i} child_comm=a child_pid={}", i + 1)
        })
    }),
    imported("trace: executions", |bytes| {
        lines("", bytes, |i, to| write!(to, "a-{i} [000] 1.0: sched_process_exec: filename={i:x} pid={i} old_pid={i}"))
    }),
    imported("trace: initcalls entered", |bytes| {
        lines("", bytes, |i, to| write!(to, "a-1 [000] 1.0: initcall_start: func={i:x}"))
    }),
    imported("trace: interrupts", |bytes| {
        lines("", bytes, |i, to| write!(to, "a-1 [000] 1.0: irq_handler_entry: irq={i} name=a"))
    }),
    imported("trace: console", |bytes| lines("", bytes, |i, to| write!(to, "a-1 [000] 1.0: console: {i:x}"))),
    imported("trace: markers", |bytes| {
        lines("", bytes, |i, to| write!(to, "a-1 [000] 1.0: tracing_mark_write: bootscope-sync {i}"))
    }),
    imported("trace: other events", |bytes| lines("", bytes, |_, to| write!(to, "a-1 [000] 1.0: b: "))),
    imported("function graph: calls never left", |bytes| {
        lines(GRAPH, bytes, |i, to| write!(to, "1.0|0) a-1 || f{i:x}() {{"))
    }),
    imported("function graph: one call never left", |bytes| lines(GRAPH, bytes, |_, to| write!(to, "1.0|0)||a() {{"))),
    imported("function graph: leaves", |bytes| lines(GRAPH, bytes, |_, to| write!(to, "1.0|0)|1.0 us|a();"))),
    imported("function graph: threads", |bytes| lines(GRAPH, bytes, |i, to| write!(to, "1.0|0) a-{i} |1.0 us|a();"))),
    imported("function graph: returns", |bytes| lines(GRAPH, bytes, |_, to| write!(to, "1.0|0)|1.0 us|}}"))),
    imported("samples: stacks", |bytes| {
        lines("", bytes, |i, to| match i % 1000 {
            0 => write!(to, "\na 1 1.0: c:"),
            _ => write!(to, "\t{i:x} f{i:x} (a)"),
        })
    }),
    imported("samples: one line each", |bytes| lines("", bytes, |i, to| write!(to, "a 1 1.0: c: {i:x} a (a)"))),
    imported("samples: threads", |bytes| lines("", bytes, |i, to| write!(to, "a {i} 1.0: c: 1 a (a)"))),
    imported("libguestfs: events", |bytes| {
        lines("", bytes, |i, to| write!(to, r#"0.{}ms (+0.1) [appliance] "{i:x}""#, 1 + i % 9))
    }),
    imported("libguestfs: numbered", |bytes| lines("", bytes, |i, to| write!(to, r#"#{i}: +1 [appliance] "a""#))),
    imported("journal: export", |bytes| lines("__MONOTONIC_TIMESTAMP=1\n\n", bytes, |_, to| writeln!(to, "A="))),
    imported("journal: export, messages", |bytes| {
        lines("__MONOTONIC_TIMESTAMP=1\n\n", bytes, |i, to| write!(to, "__MONOTONIC_TIMESTAMP={i}\nMESSAGE={i:x}\n"))
    }),
    imported("journal: export, units", |bytes| {
        lines("__MONOTONIC_TIMESTAMP=1\n\n", bytes, |i, to| {
            write!(to, "__MONOTONIC_TIMESTAMP={i}\nMESSAGE_ID=7d4958e842da4a758f6c1cdc7b36dcc5\nUNIT={i:x}\n")
        })
    }),
    imported("journal: json", |bytes| lines("", bytes, |_, to| write!(to, r#"{{"__MONOTONIC_TIMESTAMP":"1"}}"#))),
    imported("journal: json, many fields", |bytes| {
        let mut text = String::from(r#"{"__MONOTONIC_TIMESTAMP":"1""#);
        (0..).map_while(|i| (text.len() < bytes).then(|| write!(text, r#","{i:x}":1"#).unwrap())).for_each(drop);
        (text + "}\n").into_bytes()
    }),
    imported("journal: json, message of bytes", |bytes| {
        let mut text = br#"{"__MONOTONIC_TIMESTAMP":"1","MESSAGE":["#.to_vec();
        text.extend(b"1,".repeat(bytes / 2));
        text.extend(b"1]}\n");
        text
    }),
    imported("journal: json, nested", |bytes| {
        [br#"{"__MONOTONIC_TIMESTAMP":"1","MESSAGE":"#.to_vec(), vec![b'['; bytes]].concat()
    }),
    imported("journal: short-monotonic", |bytes| lines("", bytes, |i, to| write!(to, "[    0.000001] a b[1]: {i:x}"))),
    imported("systemd-analyze: plot", |bytes| {
        list(bytes, |i, to| write!(to, r#"{{"name":"{i:x}.service","activated":1,"activating":1,"time":1}}"#))
    }),
    imported("systemd-analyze: plot, small", |bytes| list(bytes, |_, to| write!(to, r#"{{"name":"","time":0}}"#))),
    imported("systemd-analyze: plot, nested", |bytes| [b"[{\"name\":".to_vec(), vec![b'['; bytes]].concat()),
    imported("systemd-analyze: blame", |bytes| lines("", bytes, |i, to| write!(to, "1ms {i:x}.service"))),
    imported("systemd-analyze: chain", |bytes| {
        lines("multi-user.target @1s\n", bytes, |i, to| write!(to, "└─{i:x}.service @1s +1ms"))
    }),
    imported("systemctl show: units", |bytes| {
        lines("UserspaceTimestampMonotonic=1\nFinishTimestampMonotonic=2\n\n", bytes, |i, to| {
            write!(to, "Id={i:x}.service\nInactiveExitTimestampMonotonic=1\n")
        })
    }),
    imported("systemctl show: orders", |bytes| {
        lines("UserspaceTimestampMonotonic=1\nFinishTimestampMonotonic=2\n\nId=a.service\n", bytes, |i, to| {
            match i % 1000 {
                0 => write!(to, "\n\nId={i:x}.service\nInactiveExitTimestampMonotonic=1\nAfter="),
                _ => write!(to, "{i:x}.service"),
            }
        })
        .into_iter()
        .scan(false, |in_order, byte| {
            *in_order = if byte == b'=' { true } else { *in_order && byte != b'I' };
            Some(if *in_order && byte == b'\n' { b' ' } else { byte })
        })
        .collect()
    }),
    imported("systemd-analyze: dump", |bytes| {
        lines("Manager: systemd 252\nTimestamp userspace: Tue 2026-11-24 13:31:32 UTC\n", bytes, |i, to| {
            write!(to, "-> Unit {i:x}.service:\n\tAfter: {i:x}.target (origin-file)")
        })
    }),
    imported("bootchart: processes", |bytes| {
        lines("1\n", bytes, |i, to| write!(to, "{i} (a) S 0 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0"))
    }),
    imported("bootchart: samples", |bytes| {
        lines("", bytes, |i, to| write!(to, "{}\n1 (a) S 0 0 0 0 -1 0 0 0 0 0 {i} 0 0 0 20 0 1 0 1 0 0\n", i + 1))
    }),
    imported("bootchart: taskstats", |bytes| lines("1\n", bytes, |i, to| write!(to, "{i} 0 a 1 0 0"))),
    imported("bootchart: picture", |bytes| {
        lines(PICTURE, bytes, |i, to| {
            write!(
                to,
                "<!-- a [{i}] ppid=1 runtime=1.0ms -->\n<rect class=\"ps\" x=\"1\" y=\"0\" width=\"1\" height=\"20\" />"
            )
        })
    }),
    imported("bootstat", |bytes| lines("", bytes, |i, to| write!(to, "/tmp/uptime-{i:x}:1.00 1.00"))),
    imported("ro.boottime", |bytes| lines("", bytes, |i, to| write!(to, "[ro.boottime.{i:x}]: [1]"))),
    imported("cbmem", |bytes| lines("0:1st timestamp 0 (0)\n", bytes, |i, to| write!(to, "1:a{i:x} {i} (1)"))),
    imported("bootstage", |bytes| {
        lines("Timer summary in microseconds (1 records):\n Mark Elapsed Stage\n", bytes, |i, to| {
            write!(to, "{i} 1  {i:x}")
        })
    }),
    imported("bootstage: sums", |bytes| {
        lines("Timer summary in microseconds (1 records):\n 0 0  reset\nAccumulated time:\n", bytes, |i, to| {
            write!(to, "1  {i:x}")
        })
    }),
    imported("bootstage: tree as text", |bytes| {
        lines("bootstage {\n", bytes, |i, to| write!(to, "a {{\nname = \"{i:x}\";\nmark = <0x1>;\n}};"))
    }),
    imported("FPDT: Linux' files", |bytes| lines("", bytes, |_, to| write!(to, "boot/bootloader_launch_ns:5"))),
    imported("EFI loader", |bytes| lines("", bytes, |_, to| write!(to, "LoaderTimeInitUSec=1"))),
    imported("process table", |bytes| {
        lines("# bootscope.processes/1 100\n1\t0\t0\t/\tinit\n", bytes, |i, to| write!(to, "{i}\t1\t1\t\t"))
    }),
    imported("process table: programs", |bytes| {
        lines("# bootscope.processes/1 100\n1\t0\t0\t/\tinit\n", bytes, |i, to| write!(to, "{i}\t1\t1\t\t{i:x}"))
    }),
    imported("list of functions", |bytes| {
        lines("", bytes, |i, to| write!(to, "{:x} t a", 0xffff_ffff_8100_0000u64 + i as u64))
    }),
    own("list of functions: shortest", "kallsyms.gz", |bytes| {
        super::binary::gzip(&lines("", bytes, |i, to| write!(to, "{i:x} t {i:x}")))
    }),
    imported_as("uptime of an event", "uptime-x", |bytes| lines("", bytes, |_, to| write!(to, "1.00 1.00"))),
    imported("lines without end of no kind", |bytes| {
        lines("[0.1]a\n", bytes, |i, to| write!(to, "{i:x} \x1b[0m\u{fffd}"))
    }),
];

const GRAPH: &str = "# tracer: function_graph\n#\n";
const PICTURE: &str = "<?xml version=\"1.0\"?>\n<!-- This file is a bootchart SVG file. -->\n<!-- Frequency=25.0 -->\n\
    <!-- ScaleX=100.0 -->\n<!-- Relative=0 -->\n<rect class=\"box\" x=\"0\" y=\"0\" width=\"100\" height=\"1\" />\n\
    <text>Log start time: 1.0s</text>\n";

/// A heading, followed by lines up to this number of bytes.
pub fn lines(heading: &str, bytes: usize, mut line: impl FnMut(usize, &mut String) -> std::fmt::Result) -> Vec<u8> {
    let mut text = String::with_capacity(bytes + 1024);
    text.push_str(heading);
    for i in 0.. {
        if text.len() >= bytes {
            break;
        }
        line(i, &mut text).expect("a line");
        text.push('\n');
    }
    text.into_bytes()
}

/// A heading, followed by a repeated piece.
fn bytes_after(heading: &[u8], piece: &[u8], bytes: usize) -> Vec<u8> {
    [heading, &piece.repeat(bytes / piece.len())].concat()
}

/// A JSON list.
fn list(bytes: usize, mut entry: impl FnMut(usize, &mut String) -> std::fmt::Result) -> Vec<u8> {
    let mut text = String::from("[");
    for i in 0.. {
        entry(i, &mut text).expect("an entry");
        if text.len() >= bytes {
            break;
        }
        text.push(',');
    }
    (text + "]").into_bytes()
}
