//! `bootscope view`: only a client with the address gets the page, and it is the page that `report` writes.

use crate::support::{bootscope, fixture, imported, run};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

/// A running server, ended with the test.
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

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The status and the body of the answer to a page.
    fn what_if(&self, question: &serde_json::Value) -> (String, String) {
        let body = question.to_string();
        let (path, host, length) = (format!("{}what-if", self.path), &self.host, body.len());
        let answer =
            self.ask(&format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n{body}"));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
    }

    fn get(&self, path: &str, host: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
    }
}

/// A page without the random values that differ in each page.
fn without_nonces(page: &str) -> String {
    let nonce = page.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).expect("a nonce");
    page.replace(nonce, "")
}

#[test]
fn only_clients_with_the_address_get_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-3.5.7-imx6-only-returns.log"), &folder.path().join("boot"));
    run(bootscope("report").arg(&recording)).exits(0);
    let written = std::fs::read_to_string(folder.path().join("boot.html")).unwrap();

    let served = Served::of(&recording);
    assert!(served.host.starts_with("127.0.0.1:"), "{}", served.host);
    // A silent connection must not delay others.
    let _silent = TcpStream::connect(&served.host).unwrap();
    let answer = served.get(&served.path, &served.host);
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("Content-Type: text/html"), "{head}");
    // The page may connect only to its server. A page in a file computes savings itself, if it was built with that
    // code.
    let (asks, itself) = (" connect-src 'self';", " 'wasm-unsafe-eval'");
    let policy = |page: &str| page.split_once("<style>").unwrap().0.to_owned();
    assert!(policy(page).contains(asks) && !policy(page).contains(itself) && !policy(&written).contains("connect-src"));
    let tables =
        |page: &str| without_nonces(page).split_once("<script").unwrap().0.replace(asks, "").replace(itself, "");
    assert_eq!(tables(page), tables(&written));
    // Both pages have the same boot data. The file also has the data for replaying the boot.
    let parts = |page: &str| -> Vec<report::page::Table> {
        report::page::read(page).unwrap().into_iter().filter(|table| table.name != "names").collect()
    };
    let (served_parts, written_parts) = (parts(page), parts(&written));
    assert!(served_parts.iter().all(|table| written_parts.contains(table)) && served_parts.len() > 8);
    assert!(written_parts.iter().any(|table| table.name == "model"));
    assert!(served_parts.iter().all(|table| table.name != "model") && !page.contains("x-bootscope-what-if\">"));

    let status = |answer: String| answer.split(' ').nth(1).unwrap_or_default().to_owned();
    assert_eq!(status(served.get("/", &served.host)), "404");
    assert_eq!(status(served.get(&served.path, "attacker.example")), "400");
    assert_eq!(status(served.ask(&format!("POST {} HTTP/1.1\r\nHost: {}\r\n\r\n", served.path, served.host))), "405");
    assert_eq!(status(served.ask("\r\n\r\n")), "400");
}

/// A page with a moved slider gets the result of the command, to the nanosecond.
#[test]
fn savings_in_the_page_equal_those_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-3.5.7-imx6-only-returns.log"), &folder.path().join("boot"));
    let shown = run(bootscope("show").arg(&recording).arg("--json")).json();
    let rows = shown["where"].as_array().unwrap();
    let name = |row: usize| rows[row]["name"].as_str().unwrap().to_owned();
    let served = Served::of(&recording);
    let ask = |question: &serde_json::Value| served.what_if(question);
    let all = |row| format!("{}=-100%", name(row));
    for save in [vec![], vec![all(0)], vec![format!("{}=-37%", name(0)), format!("{}=-5%", name(1)), all(2)]] {
        let (status, answer) = ask(&serde_json::json!({"boot": 0, "save": save}));
        assert_eq!(status, "200", "{answer}");
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["steps"].as_array().unwrap().len(), save.len());
        if save.is_empty() {
            assert_eq!(answer["total_ns"], shown["total_ns"]);
            continue;
        }
        let mut command = bootscope("what-if");
        command.arg(&recording).arg("--json");
        for one in &save {
            command.arg("--save").arg(one);
        }
        let document = run(&mut command).json();
        assert_eq!(answer, document);
        let left = document["steps"].as_array().unwrap().last().unwrap()["total_ns"].as_i64().unwrap();
        assert!(left < shown["total_ns"].as_i64().unwrap(), "{document}");
    }
    let refused = |question: serde_json::Value, why: &str| {
        let (status, answer) = ask(&question);
        assert!(status == "422" && answer.contains(why), "{status} {answer}");
    };
    refused(serde_json::json!({"boot": 1, "save": []}), "no boot 1");
    refused(serde_json::json!({"boot": 0, "save": ["no such row"]}), "no such row");
    refused(serde_json::json!([1]), "invalid");
}

/// The page writes all of a row as a share, since a row's name may end like a state or a time.
#[test]
fn all_of_a_row_is_saved_whatever_its_name_ends_in() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("odd.log");
    let names = ["plain", "ends[done]", "ends=20ms", "[wanted]", "a=b[in progress x]"];
    let lines = names.iter().enumerate().flat_map(|(i, name)| {
        let (from, to) = (1_000 + i * 2_000, 2_500 + i * 2_000);
        [format!("0x0 {from} ENTER {name}\n"), format!("0x0 {to} EXIT {name}\n")]
    });
    std::fs::write(&log, lines.collect::<String>()).unwrap();
    let recording = imported(&log, &folder.path().join("boot"));
    let shown = run(bootscope("show").arg(&recording).arg("--json")).json();
    let rows: Vec<String> =
        shown["where"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
    let served = Served::of(&recording);
    for name in names {
        let row = rows.iter().find(|row| row.contains(name)).unwrap_or_else(|| panic!("{name}: {rows:?}"));
        let (status, answer) = served.what_if(&serde_json::json!({"boot": 0, "save": [format!("{row}=-100%")]}));
        assert_eq!(status, "200", "{answer}");
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["steps"][0]["saved_ns"], 1_500, "{row}: {answer}");
    }
}

#[test]
fn a_closed_connection_is_not_answered_and_a_waiting_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-3.5.7-imx6-only-returns.log"), &folder.path().join("boot"));
    let served = Served::of(&recording);
    let body = serde_json::json!({"boot": 0, "save": []}).to_string();
    let request = format!(
        "POST {}what-if HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n{body}",
        served.path,
        served.host,
        body.len()
    );
    // The server is stopped meanwhile, so it finds the connection closed, not about to be closed.
    let mut gone = TcpStream::connect(&served.host).unwrap();
    served.signal("STOP");
    gone.write_all(request.as_bytes()).unwrap();
    gone.shutdown(std::net::Shutdown::Write).unwrap();
    served.signal("CONT");
    let mut answer = String::new();
    gone.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "");
    assert!(served.ask(&request).starts_with("HTTP/1.1 200 OK"));
}

/// A stop and its end interrupt reads that have a time-out.
#[test]
fn a_server_that_was_stopped_reads_on() {
    let folder = tempfile::tempdir().unwrap();
    let served = small_boot(&folder);
    let request = format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", served.path, served.host);
    let mut stream = TcpStream::connect(&served.host).unwrap();
    for part in request.as_bytes().chunks(8) {
        served.signal("STOP");
        served.signal("CONT");
        stream.write_all(part).unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

fn small_boot(folder: &tempfile::TempDir) -> Served {
    let recording = imported(&fixture("log/linux-3.5.7-imx6-only-returns.log"), &folder.path().join("boot"));
    Served::of(&recording)
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn a_page_from_elsewhere_is_refused_even_if_it_has_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let served = small_boot(&folder);
    let Served { host, path, .. } = &served;
    let body = r#"{"boot": 0, "save": []}"#;
    for (origin, expected) in [
        (format!("http://{host}"), "200"),
        ("http://attacker.example".to_owned(), "403"),
        ("null".to_owned(), "403"),
        (format!("https://{host}"), "403"),
        (format!("http://{host}.attacker.example"), "403"),
        ("http://127.0.0.1".to_owned(), "403"),
    ] {
        let head = format!("HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\n");
        assert_eq!(status(&served.ask(&format!("GET {path} {head}\r\n"))), expected, "{origin}");
        let ask = format!("POST {path}what-if {head}Content-Length: {}\r\n\r\n{body}", body.len());
        assert_eq!(status(&served.ask(&ask)), expected, "{origin}");
    }
}

#[test]
fn each_method_gets_its_answer() {
    let folder = tempfile::tempdir().unwrap();
    let served = small_boot(&folder);
    let ask = |method: &str, path: &str, more: &str| {
        served.ask(&format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n{more}\r\n", served.host))
    };
    let (page, what_if) = (served.path.clone(), format!("{}what-if", served.path));
    let (head, get) = (ask("HEAD", &page, ""), ask("GET", &page, ""));
    assert_eq!(Some(&*head), get.split_inclusive("\r\n\r\n").next(), "the same without a body");
    for (method, path, allowed) in [
        ("OPTIONS", &page, "GET, HEAD"),
        ("POST", &page, "GET, HEAD"),
        ("OPTIONS", &what_if, "POST"),
        ("GET", &what_if, "POST"),
    ] {
        let answer = ask(method, path, "");
        assert!(status(&answer) == "405" && answer.contains(&format!("\r\nAllow: {allowed}\r\n")), "{answer}");
    }
    assert_eq!(status(&ask("OPTIONS", "/", "")), "404");
    // Limits of the server: a longer request is refused, though it is not read to its end.
    let long = "x".repeat(300 << 10);
    assert_eq!(status(&ask("POST", &what_if, &format!("Content-Length: {}\r\n\r\n{long}", long.len()))), "413");
    assert_eq!(status(&ask("GET", &page, &format!("Cookie: {}\r\n", &long[..32 << 10]))), "431");
    assert_eq!(status(&ask("POST", &what_if, "Transfer-Encoding: chunked\r\n")), "501");
}

#[test]
fn silent_and_slow_clients_do_not_keep_others_out() {
    let folder = tempfile::tempdir().unwrap();
    let served = small_boot(&folder);
    let mut silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(&served.host).unwrap()).collect();
    assert_eq!(status(&served.get(&served.path, &served.host)), "200");
    // A request that arrives byte by byte, and a page that the client does not read.
    silent.iter_mut().for_each(|slow| drop(slow.write_all(b"GET / HT")));
    let _not_taken: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(&served.host).unwrap();
            let request = format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", served.path, served.host);
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert_eq!(status(&served.get(&served.path, &served.host)), "200");
    assert_eq!(served.what_if(&serde_json::json!({"boot": 0, "save": []})).0, "200");
}

#[test]
fn savings_are_bounded_in_number() {
    let folder = tempfile::tempdir().unwrap();
    let served = small_boot(&folder);
    let save = |number: usize| vec!["initcall *=-50%"; number];
    let (many, most) = (save(8000), save(256));
    let (refused, why) = served.what_if(&serde_json::json!({"boot": 0, "save": many}));
    assert!(refused == "422" && why.contains("8000 savings are too many") && why.contains("at most 256"), "{why}");
    assert_eq!(served.what_if(&serde_json::json!({"boot": 0, "save": most})).0, "200");
    let recording = folder.path().join("boot");
    let mut command = bootscope("what-if");
    command.arg(&recording);
    for one in save(257) {
        command.arg("--save").arg(one);
    }
    run(&mut command).refuses(&["257 savings are too many"]);
}

#[test]
fn a_bench_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bench.jsonl"), "").unwrap();
    run(bootscope("view").arg(folder.path())).refuses(&["is a bench"]);
}
