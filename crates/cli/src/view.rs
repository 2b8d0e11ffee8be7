//! `bootscope view`: the page of recordings, served on the loopback interface until somebody interrupts it.
//!
//! The page is made once and kept in memory. It may ask what savings bring, and gets the document of `what-if --json`. Only
//! users of this machine can connect. The address has a word in it that nobody can guess, and a request must name this host: so
//! a page from elsewhere, open in the same browser, cannot read it. Other users cannot guess it either, but where they may see
//! the arguments of processes, they see it there while a browser starts: `--no-browser` starts none.

use crate::boot::Opened;
use crate::output::Output;
use crate::report::{open_all, with_boots};
use crate::up_to::UpTo;
use crate::{Done, benches, what_if};
use anyhow::{Context, bail};
use report::Asks;
use serde::Deserialize;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a connection may take for its request, and again as long for each piece of the answer that it takes.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections at once, at most.
const MOST_CONNECTIONS: usize = 64;
/// Bytes of a request, at most.
const LONGEST_REQUEST: u64 = 256 << 10;
/// What the page appends to its own path to ask what savings bring.
const WHAT_IF: &str = "what-if";

/// Show recordings in a browser: the page that report writes, from memory
///
/// view serves the page on 127.0.0.1 alone, prints its address, and opens a browser. Ctrl-C ends it. What-if asks this program,
/// which works as bootscope what-if does.
#[derive(clap::Args)]
pub struct Args {
    /// A recording (folder or packed file), or two to eight to compare
    #[arg(required = true, num_args = 1..=8)]
    recordings: Vec<PathBuf>,
    #[command(flatten)]
    up_to: UpTo,
    /// Print the address and open no browser
    #[arg(long)]
    no_browser: bool,
    /// The port; 0: any that is free
    #[arg(long, default_value_t = 0)]
    port: u16,
}

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    if let Some(bench) = args.recordings.iter().find(|path| benches::is_bench(path)) {
        bail!("{} is a bench: bootscope report writes its page", bench.display());
    }
    let boots = open_all(&args.recordings, &args.up_to)?;
    let page = with_boots(&args.recordings, &boots, output, |boots| {
        let mut page = Vec::new();
        report::page(boots, Asks::Server, &mut page)?;
        Ok(page)
    })?;
    let names = args.recordings.iter().map(|path| path.display().to_string()).collect();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .with_context(|| format!("cannot listen on port {} of 127.0.0.1: try another --port", args.port))?;
    let (host, path) = (listener.local_addr()?, format!("/{}/", secret()));
    let site = Arc::new(Site { page, host, path, boots, names, one_at_a_time: Mutex::new(()) });
    let address = format!("http://{}{}", site.host, site.path);
    output.text(&format!("{address}\n"))?;
    if !args.no_browser {
        open_browser(&address, output);
    }
    for connection in listener.incoming() {
        // Where this process has no more files or too many connections, this one is closed. Each has a reference to the site.
        let Some(stream) = connection.ok().filter(|_| Arc::strong_count(&site) <= MOST_CONNECTIONS) else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let site = Arc::clone(&site);
        // Who connects and says nothing holds up nobody else. An answer that nobody takes is no error, and a connection for which
        // there is no thread is closed.
        drop(std::thread::Builder::new().spawn(move || drop(site.answer(&stream))));
    }
    Ok(Done::Well)
}

/// What a connection sends, until its time is over.
struct Sent<'s> {
    stream: &'s TcpStream,
    until: Instant,
}

impl Read for Sent<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(into)
    }
}

/// Whether the other end closed its connection.
fn is_gone(stream: &TcpStream) -> bool {
    let closed = stream.set_nonblocking(true).map(|()| match stream.peek(&mut [0]) {
        Ok(waiting) => waiting == 0,
        Err(e) => e.kind() != io::ErrorKind::WouldBlock,
    });
    stream.set_nonblocking(false).is_err() || closed.unwrap_or(true)
}

fn open_browser(address: &str, output: &Output) {
    let browser = std::env::var_os("BROWSER").filter(|b| !b.is_empty()).unwrap_or_else(|| "xdg-open".into());
    let null = Stdio::null;
    let mut command = Command::new(&browser);
    command.arg(address).stdin(null()).stdout(null()).stderr(null());
    // The Ctrl-C that ends this program is not for the browser.
    let started = command.process_group(0).spawn();
    match started {
        // Somebody has to take its end.
        Ok(mut browser) => drop(std::thread::spawn(move || browser.wait())),
        Err(e) => output.note(&format!("cannot start {}: {e}; open the address by hand", browser.to_string_lossy())),
    }
}

/// From the randomness that seeds hash maps.
fn secret() -> String {
    let random = || std::hash::RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

/// What a page asks: which of its boots, and what to save as `what-if --save` has it.
#[derive(Deserialize)]
struct Question {
    boot: usize,
    save: Vec<String>,
}

struct Site {
    page: Vec<u8>,
    host: SocketAddr,
    path: String,
    boots: Vec<Opened>,
    names: Vec<String>,
    /// Who moves a slider asks often, and each answer is a boot run again.
    one_at_a_time: Mutex<()>,
}

impl Site {
    /// The document of `what-if --json`; else why there is none. Nothing for who `is_gone` when it is their turn.
    fn what_if(&self, question: &[u8], is_gone: impl Fn() -> bool) -> Option<Result<String, String>> {
        let _one_at_a_time = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        if is_gone() { None } else { Some(self.worked_out(question)) }
    }

    fn worked_out(&self, question: &[u8]) -> Result<String, String> {
        let Question { boot, save } = serde_json::from_slice(question).map_err(|e| e.to_string())?;
        let (Some(opened), Some(name)) = (self.boots.get(boot), self.names.get(boot)) else {
            return Err(format!("there is no boot {boot} on this page"));
        };
        let ledger = what_if::ledger(opened, name, &save).map_err(|e| format!("{e:#}"))?;
        report::json(&ledger, true).map_err(|e| e.to_string())
    }

    fn answer(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut input = BufReader::new(Sent { stream, until: Instant::now() + PATIENCE }.take(LONGEST_REQUEST));
        let mut lines = input.by_ref().lines();
        let request = lines.next().transpose()?.unwrap_or_default();
        let (mut host, mut length) = (None, 0);
        for line in lines {
            let line = line?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("host") {
                host = Some(value.trim().to_owned());
            } else if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        // Browsers leave out the port that every address has.
        let is_ours = |host: String| {
            host == self.host.to_string() || (self.host.port() == 80 && host == self.host.ip().to_string())
        };
        let is_ours = host.is_some_and(is_ours);
        let other_host = format!("this address is http://{}/: a request for another host is not answered\n", self.host);
        let answered;
        let (status, kind, body): (&str, &str, &[u8]) = match request.split(' ').collect::<Vec<_>>()[..] {
            _ if !is_ours => ("400 Bad Request", "text/plain", other_host.as_bytes()),
            ["GET", path, _] if path == self.path => ("200 OK", "text/html", &self.page),
            ["POST", path, _] if path.strip_prefix(&self.path) == Some(WHAT_IF) => {
                let mut question = Vec::new();
                input.take(length).read_to_end(&mut question)?;
                // The page asks anew when a slider moves, and drops what it asked before.
                let Some(worked_out) = self.what_if(&question, || is_gone(stream)) else { return Ok(()) };
                answered = worked_out;
                match &answered {
                    Ok(json) => ("200 OK", "application/json", json.as_bytes()),
                    Err(why) => ("422 Unprocessable Content", "text/plain", why.as_bytes()),
                }
            }
            ["GET", ..] => ("404 Not Found", "text/plain", b"not found\n"),
            _ => ("405 Method Not Allowed", "text/plain", b"only GET, and POST to what-if\n"),
        };
        let mut out = stream;
        write!(
            out,
            "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n",
            body.len()
        )?;
        out.write_all(body)?;
        out.flush()
    }
}
