//! `export --to otlp --endpoint`: the requests that a collector receives.

use crate::support::{bootscope, run};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

fn recording(name: &str) -> PathBuf {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../evidence/tests/data/cbmem/kernel-beside-it.txt");
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("otlp-{name}-{}", std::process::id()));
    run(bootscope("import").arg(log).arg("-o").arg(&into)).exits(0);
    into
}

/// A received request: its path, its headers and its body.
struct Posted {
    path: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

/// A server that receives this number of requests and gives each the same answer.
fn collector(requests: usize, answer: &'static str) -> (String, JoinHandle<Vec<Posted>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let received = std::thread::spawn(move || (0..requests).map(|_| receive(&listener, answer)).collect());
    (address, received)
}

fn receive(listener: &TcpListener, answer: &str) -> Posted {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let request: Vec<&str> = lines[0].split(' ').collect();
    assert_eq!((request[0], request[2]), ("POST", "HTTP/1.1"));
    let header = |line: &String| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: HashMap<String, String> = lines[1..].iter().filter_map(header).collect();
    let mut body = vec![0; headers["content-length"].parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    reader.into_inner().write_all(answer.as_bytes()).unwrap();
    Posted { path: request[1].to_owned(), headers, body }
}

const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";

#[test]
fn a_collector_receives_the_trace_and_the_metrics() {
    let recording = recording("heard");
    let (address, received) = collector(2, TAKEN);
    let ran =
        run(bootscope("export").arg(&recording).args(["--to", "otlp", "--endpoint"]).arg(format!("{address}/in/")))
            .exits(0);
    let posted = received.join().unwrap();
    assert_eq!(posted.iter().map(|one| one.path.as_str()).collect::<Vec<_>>(), ["/in/v1/traces", "/in/v1/metrics"]);
    let written = run(bootscope("export").arg(&recording).args(["--to", "otlp"])).exits(0).stdout;
    let written = String::from_utf8(written).unwrap();
    for (one, line) in posted.iter().zip(written.lines()) {
        assert_eq!(one.headers["content-type"], "application/json");
        assert_eq!(one.body, line.as_bytes());
    }
    let traces: Value = serde_json::from_slice(&posted[0].body).unwrap();
    let spans = traces["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    assert_eq!((&spans[0]["name"], &spans[1]["parentSpanId"]), (&Value::from("boot"), &spans[0]["spanId"]));
    assert!(ran.stdout.is_empty() && ran.stderr.contains("/v1/metrics"), "{}", ran.stderr);
}

#[test]
fn a_refusal_of_the_collector_is_reported() {
    let recording = recording("refused");
    let (address, received) = collector(1, "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\nno such \u{1b}[31mpath");
    run(bootscope("export").arg(&recording).args(["--to", "otlp", "--endpoint", &address])).refuses(&[
        "404",
        "no such \\x1b",
        "receiver",
    ]);
    received.join().unwrap();

    let partly = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"too old\"}}";
    let (address, received) = collector(2, partly);
    let ran = run(bootscope("export").arg(&recording).args(["--to", "otlp", "--endpoint", &address])).exits(0);
    received.join().unwrap();
    assert!(ran.stderr.contains("too old"), "{}", ran.stderr);

    // No server listens at a port that was just released.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let to = format!("http://{free}");
    run(bootscope("export").arg(&recording).args(["--to", "otlp", "--endpoint", &to]))
        .refuses(&["cannot send", "/v1/traces"]);
    run(bootscope("export").arg(&recording).args(["--to", "csv", "--endpoint", &to])).refuses(&[
        "--endpoint",
        "otlp",
        "csv",
    ]);
    run(bootscope("export").arg(&recording).args(["--to", "otlp", "--endpoint", "https://a"]))
        .refuses(&["http://", "TLS"]);
}
