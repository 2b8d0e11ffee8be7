//! Serves the page of recordings on the loopback interface.
//!
//! The page is made once and kept in memory. It can post a question about savings, and gets the document of `what-if
//! --json`. Only users of this machine can connect. The address contains a secret. A request must name this host, and
//! its origin must not be another page. So a page from elsewhere, open in the same browser, can neither read nor post.
//! Other users cannot guess the secret. If they may see the arguments of processes, they see it while a browser starts.
//!
//! Bytes, time, connections and questions are bounded, so that no client delays another for long.

mod connections;
mod http;

use crate::opened_boot::OpenedBoot;
use crate::what_if;
use anyhow::Context;
use connections::{Connection, Connections};
use http::{Answer, Request, is_gone};
use serde::Deserialize;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest time for answering or refusing a question.
const MAX_QUESTION_TIME: Duration = Duration::from_secs(20);
/// The most questions that are computed at once. Each has a copy of its boot.
const MAX_QUESTIONS: usize = 2;
/// The interval at which a waiting question checks that its client is still connected.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The suffix that the page appends to its own path to post a question about savings.
const WHAT_IF: &str = "what-if";

/// A page and its address, before and while it is served.
pub struct PageServer {
    listener: TcpListener,
    site: Arc<Site>,
}

impl PageServer {
    /// Listens on a port, or on any free one if it is 0. `names` are those of the boots.
    ///
    /// # Errors
    /// If the port cannot be used.
    pub fn bind(port: u16, page: Vec<u8>, boots: Vec<OpenedBoot>, names: Vec<String>) -> anyhow::Result<PageServer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("cannot listen on port {port} of 127.0.0.1: try another --port"))?;
        let (host, path) = (listener.local_addr()?, format!("/{}/", secret()));
        let site = Arc::new(Site { page, host, path, boots, names, questions: Questions::default() });
        Ok(PageServer { listener, site })
    }

    /// The address, with its secret.
    pub fn address(&self) -> String {
        format!("http://{}{}", self.site.host, self.site.path)
    }

    /// Answers requests until the process ends.
    pub fn serve(self) -> ! {
        let connections = Arc::new(Connections::default());
        loop {
            let accepted = self.listener.accept().ok();
            // If this process has no more files, or all connections have shown the secret, this connection is closed.
            let Some(connection) = accepted.and_then(|(stream, _)| connections.admit(stream)) else {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            let site = Arc::clone(&self.site);
            // An answer that the client does not read is no error. If no thread can be started, the connection is closed.
            drop(std::thread::Builder::new().spawn(move || drop(site.answer(&connection))));
        }
    }
}

/// A random word from the source that seeds hash maps.
fn secret() -> String {
    let random = || std::hash::RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

/// A question from a page: the index of one of its boots, and savings as `what-if --save` takes them.
#[derive(Deserialize)]
struct Question {
    boot: usize,
    save: Vec<String>,
}

struct Site {
    page: Vec<u8>,
    host: SocketAddr,
    path: String,
    boots: Vec<OpenedBoot>,
    names: Vec<String>,
    questions: Questions,
}

/// The questions that are being computed.
#[derive(Default)]
struct Questions {
    active: Mutex<usize>,
    ended: Condvar,
}

impl Questions {
    /// Computes an answer once fewer than [`MAX_QUESTIONS`] are being computed. Returns `None` if `stop` becomes true
    /// before.
    fn compute<T>(&self, stop: &dyn Fn() -> bool, work: impl FnOnce() -> T) -> Option<T> {
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        while *active >= MAX_QUESTIONS {
            if stop() {
                return None;
            }
            active = self.ended.wait_timeout(active, CLIENT_CHECK_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
        *active += 1;
        drop(active);
        let _ended = Ended(self);
        Some(work())
    }
}

/// Counts a question as ended when it is dropped, also by a panic.
struct Ended<'q>(&'q Questions);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        *self.0.active.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.ended.notify_one();
    }
}

impl Site {
    fn answer(&self, connection: &Connection) -> io::Result<()> {
        let stream = connection.stream();
        let Some(request) = Request::read(stream)? else { return Ok(()) };
        let request = match request {
            Ok(request) => request,
            Err(refused) => return refused.send(stream, true),
        };
        let path = request.path.strip_prefix(&self.path);
        if path.is_some() {
            connection.trust();
        }
        let is_head = request.method == "HEAD";
        let answer = match (path, &*request.method) {
            _ if !self.is_host(&request.host) => Answer::text(
                "400 Bad Request",
                &format!("this address is http://{}/: a request for another host is not answered", self.host),
            ),
            // Only requests from pages have an origin, and only this server's page may post questions.
            _ if !self.is_own_origin(request.origin.as_deref()) => {
                Answer::text("403 Forbidden", "a page from elsewhere gets no answer")
            }
            (Some(""), "GET" | "HEAD") => {
                Answer { status: "200 OK", kind: "text/html", headers: "", body: (&self.page[..]).into() }
            }
            (Some(""), _) => Answer::only("GET and HEAD"),
            (Some(WHAT_IF), "POST") => match self.what_if(&request, stream) {
                Some(answer) => answer,
                // The page posts a new question when a slider moves, and drops the earlier one.
                None => return Ok(()),
            },
            (Some(WHAT_IF), _) => Answer::only("POST"),
            _ => Answer::text("404 Not Found", "not found"),
        };
        answer.send(stream, !is_head)
    }

    fn is_host(&self, host: &str) -> bool {
        // Browsers leave out the default port.
        host == self.host.to_string() || (self.host.port() == 80 && host == self.host.ip().to_string())
    }

    fn is_own_origin(&self, origin: Option<&str>) -> bool {
        origin.is_none_or(|origin| origin.strip_prefix("http://").is_some_and(|host| self.is_host(host)))
    }

    /// The document of `what-if --json`, or the reason why it cannot be computed. Returns `None` if the client is gone.
    fn what_if(&self, request: &Request, stream: &TcpStream) -> Option<Answer<'static>> {
        let question = request.body(stream)?;
        let until = Instant::now() + MAX_QUESTION_TIME;
        let stop = || Instant::now() >= until || is_gone(stream);
        let answer = self.questions.compute(&stop, || self.ledger(&question, &stop));
        if is_gone(stream) {
            return None;
        }
        Some(match answer {
            None => Answer::text("503 Service Unavailable", "other questions are worked out: ask again later"),
            Some(Ok(json)) => {
                Answer { status: "200 OK", kind: "application/json", headers: "", body: json.into_bytes().into() }
            }
            Some(Err(why)) => Answer::text("422 Unprocessable Content", &why),
        })
    }

    fn ledger(&self, question: &[u8], stop: &dyn Fn() -> bool) -> Result<String, String> {
        let Question { boot, save } = serde_json::from_slice(question).map_err(|e| e.to_string())?;
        let (Some(opened), Some(name)) = (self.boots.get(boot), self.names.get(boot)) else {
            return Err(format!("there is no boot {boot} on this page"));
        };
        let ledger = what_if::of_texts(opened, name, &save, stop).map_err(|e| format!("{e:#}"))?;
        report::json(&ledger, true).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_question_waits_for_others_and_can_be_cancelled() {
        let (questions, begun) = (Questions::default(), AtomicUsize::new(0));
        let (all_begun, end) = (Barrier::new(MAX_QUESTIONS + 1), Barrier::new(MAX_QUESTIONS + 1));
        std::thread::scope(|scope| {
            for _ in 0..MAX_QUESTIONS {
                scope.spawn(|| {
                    questions.compute(&|| false, || {
                        all_begun.wait();
                        end.wait();
                    })
                });
            }
            all_begun.wait();
            assert_eq!(questions.compute(&|| true, || begun.fetch_add(1, Ordering::SeqCst)), None, "given up");
            let waits = scope.spawn(|| questions.compute(&|| false, || begun.load(Ordering::SeqCst)));
            end.wait();
            assert_eq!(waits.join().unwrap(), Some(0));
        });
        // A failed computation makes room too.
        let fails = || {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                questions.compute(&|| false, || panic!("on purpose"))
            }))
        };
        (0..=MAX_QUESTIONS).for_each(|_| assert!(fails().is_err()));
        assert_eq!(questions.compute(&|| true, || 1), Some(1));
    }
}
