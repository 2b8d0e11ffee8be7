//! `bootscope view`: only who knows its address gets the page, and it is the page that `report` writes.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use support::{bootscope, fixture, imported, run};

/// A server, ended with the test.
struct Served {
    child: Child,
    host: String,
    path: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    fn of(recording: &Path) -> Served {
        let mut command = bootscope("view");
        let mut child = command.arg(recording).arg("--no-browser").stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let address = address.trim().strip_prefix("http://").expect("an address").to_owned();
        let (host, path) = address.split_once('/').unwrap();
        Served { child, host: host.to_owned(), path: format!("/{path}") }
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(&self, path: &str, host: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
    }
}

/// What is different in each page.
fn without_nonces(page: &str) -> String {
    let nonce = page.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).expect("a nonce");
    page.replace(nonce, "")
}

#[test]
fn only_who_knows_the_address_gets_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-3.5.7-imx6-only-returns.log"), &folder.path().join("boot"));
    run(bootscope("report").arg(&recording)).exits(0);
    let written = std::fs::read_to_string(folder.path().join("boot.html")).unwrap();

    let served = Served::of(&recording);
    assert!(served.host.starts_with("127.0.0.1:"), "{}", served.host);
    // A connection that says nothing holds up nobody.
    let _silent = TcpStream::connect(&served.host).unwrap();
    let answer = served.get(&served.path, &served.host);
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("Content-Type: text/html"), "{head}");
    assert_eq!(without_nonces(page), without_nonces(&written));

    let status = |answer: String| answer.split(' ').nth(1).unwrap_or_default().to_owned();
    assert_eq!(status(served.get("/", &served.host)), "404");
    assert_eq!(status(served.get(&served.path, "attacker.example")), "400");
    assert_eq!(status(served.ask(&format!("POST {} HTTP/1.1\r\nHost: {}\r\n\r\n", served.path, served.host))), "405");
    assert_eq!(status(served.ask("\r\n\r\n")), "400");
}

#[test]
fn a_bench_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bench.jsonl"), "").unwrap();
    run(bootscope("view").arg(folder.path())).refuses(&["is a bench"]);
}
