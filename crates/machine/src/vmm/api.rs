//! A client of a VMM's API: HTTP/1.1 over a Unix socket, one request after the other on one connection.
//!
//! It supports the part of HTTP that such a server uses: a status line, headers, and a body with a `Content-Length`. The size of an
//! answer and the wait for it are bounded.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Error;
use crate::lines::shown;

/// Longest wait for an answer. A start loads the kernel from a disk, and the host may be busy.
const MAX_ANSWER_WAIT: Duration = Duration::from_secs(30);
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Longest quotation of an error, in characters.
const MAX_QUOTED_CHARS: usize = 400;

/// The reason why a request failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    /// The server refused it.
    Refused { status: u16, why: String },
    /// The server ended, or did not answer.
    Gone(String),
    /// The answer is not HTTP.
    Malformed(String),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Refused { status, why } => write!(f, "it was refused with status {status}: {why}"),
            RequestError::Gone(why) => write!(f, "there was no answer: {why}"),
            RequestError::Malformed(answer) => write!(f, "the answer is no HTTP: {answer}"),
        }
    }
}

/// A resource and its new value, or an action without a body.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) body: Option<Value>,
}

impl Request {
    pub(super) fn new(path: impl Into<String>, body: Value) -> Request {
        Request { path: path.into(), body: Some(body) }
    }

    /// A request without a body.
    pub(super) fn bare(path: impl Into<String>) -> Request {
        Request { path: path.into(), body: None }
    }

    /// The request as text for the recording.
    pub(super) fn text(&self) -> String {
        let body = self.body.as_ref().map_or_else(String::new, |body| format!(" {body}"));
        format!("PUT {}{body}", self.path)
    }
}

/// A path as a JSON string, which must be UTF-8. `name` is the VMM that receives it.
pub(super) fn utf8_path<'p>(path: &'p Path, name: &str) -> Result<&'p str, Error> {
    path.to_str().ok_or_else(|| {
        Error::Unusable(format!("{}: {name} takes only paths in UTF-8: rename the file", path.display()))
    })
}

/// A connection to the API.
#[derive(Debug)]
pub(super) struct Api {
    socket: UnixStream,
    /// The received bytes of the next answer.
    read: Vec<u8>,
}

impl Api {
    pub(super) fn new(socket: UnixStream) -> Result<Api, RequestError> {
        let gone = |e: std::io::Error| RequestError::Gone(e.to_string());
        socket.set_write_timeout(Some(MAX_ANSWER_WAIT)).map_err(gone)?;
        Ok(Api { socket, read: Vec::new() })
    }

    /// Sends a request, and waits for the answer.
    pub(super) fn put(&mut self, request: &Request) -> Result<(), RequestError> {
        let body = request.body.as_ref().map_or_else(String::new, Value::to_string);
        let body_headers = match body.len() {
            0 => String::new(),
            length => format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"),
        };
        let path = &request.path;
        let request =
            format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n{body_headers}\r\n{body}");
        self.socket.write_all(request.as_bytes()).map_err(|e| RequestError::Gone(e.to_string()))?;
        let (status, body) = self.answer(Instant::now() + MAX_ANSWER_WAIT)?;
        match status {
            200..=299 => Ok(()),
            _ => Err(RequestError::Refused { status, why: fault(&body) }),
        }
    }

    /// The status and body of the next answer, which must be complete by then.
    fn answer(&mut self, by: Instant) -> Result<(u16, Vec<u8>), RequestError> {
        let head = self.until(by, |read| memchr::memmem::find(read, b"\r\n\r\n").map(|at| at + 4))?;
        let head = String::from_utf8_lossy(&head).into_owned();
        let malformed = || RequestError::Malformed(shown(head.as_bytes(), MAX_QUOTED_CHARS));
        let mut lines = head.lines();
        let status = lines.next().and_then(status).ok_or_else(malformed)?;
        let mut length = 0;
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse::<usize>().map_err(|_| malformed())?;
            }
        }
        if length > MAX_ANSWER_BYTES {
            return Err(malformed());
        }
        Ok((status, self.until(by, |read| (read.len() >= length).then_some(length))?))
    }

    /// Reads until `enough` returns a length, then removes and returns that number of bytes.
    fn until(&mut self, by: Instant, enough: impl Fn(&[u8]) -> Option<usize>) -> Result<Vec<u8>, RequestError> {
        let mut piece = [0; 4096];
        loop {
            if let Some(bytes) = enough(&self.read) {
                return Ok(self.read.drain(..bytes).collect());
            }
            if self.read.len() > MAX_ANSWER_BYTES {
                return Err(RequestError::Malformed(shown(&self.read, MAX_QUOTED_CHARS)));
            }
            let late = || RequestError::Gone(format!("none within {} s", MAX_ANSWER_WAIT.as_secs()));
            // A timeout of zero is an error, and one below a millisecond may be one too.
            let left = by.saturating_duration_since(Instant::now());
            if left < Duration::from_millis(1) {
                return Err(late());
            }
            self.socket.set_read_timeout(Some(left)).map_err(|e| RequestError::Gone(e.to_string()))?;
            match self.socket.read(&mut piece) {
                Ok(0) => return Err(RequestError::Gone("it closed the connection".to_owned())),
                Ok(n) => self.read.extend_from_slice(&piece[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Err(late()),
                Err(e) => return Err(RequestError::Gone(e.to_string())),
            }
        }
    }
}

/// The status code of a line such as `HTTP/1.1 204 No Content`.
fn status(line: &str) -> Option<u16> {
    line.strip_prefix("HTTP/1.")?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The error message in an answer: in Firecracker's a field, in cloud-hypervisor's a list of reasons, the outermost first.
fn fault(body: &[u8]) -> String {
    let json = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let chain = || json.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<&str>>>();
    let message =
        json.get("fault_message").and_then(Value::as_str).map(str::to_owned).or_else(|| Some(chain()?.join(": ")));
    shown(message.as_ref().map_or(body, |message| message.as_bytes()), MAX_QUOTED_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::thread;

    /// Serves these answers, each after a request. Returns the results of the requests, and the requests.
    fn check(answers: &[&str]) -> (Vec<Result<(), RequestError>>, Vec<String>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let answers: Vec<String> = answers.iter().map(|&answer| answer.to_owned()).collect();
        let count = answers.len();
        let server = thread::spawn(move || {
            let mut requests = Vec::new();
            let mut socket = theirs;
            for answer in answers {
                requests.push(request(&mut socket));
                // In pieces, as a socket may deliver it.
                for piece in answer.as_bytes().chunks(7) {
                    socket.write_all(piece).unwrap();
                }
            }
            requests
        });
        let mut api = Api::new(ours).unwrap();
        let results = (0..count).map(|n| api.put(&Request::new(format!("/x{n}"), json!({"n": n})))).collect();
        (results, server.join().unwrap())
    }

    /// Reads a whole request, up to its `Content-Length`.
    fn request(socket: &mut UnixStream) -> String {
        let mut text = String::new();
        loop {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            text.push(char::from(byte[0]));
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap_or("0");
                if body.len() == length.parse::<usize>().unwrap() {
                    return text;
                }
            }
        }
    }

    #[test]
    fn requests_are_answered_one_after_the_other() {
        let (results, requests) = check(&[
            "HTTP/1.1 204 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 400 \r\nContent-Length: 34\r\n\r\n{\"fault_message\":\"no such kernel\"}",
        ]);
        let refused = RequestError::Refused { status: 400, why: "no such kernel".to_owned() };
        assert_eq!(results, [Ok(()), Ok(()), Err(refused)]);
        assert!(requests[0].starts_with("PUT /x0 HTTP/1.1\r\n") && requests[0].ends_with("\r\n\r\n{\"n\":0}"));
        assert!(requests[2].ends_with("{\"n\":2}"), "{requests:?}");
    }

    #[test]
    fn a_chain_of_reasons_is_one_sentence() {
        let body = r#"["Error from API","The VM could not boot","Failed to load kernel"]"#;
        let (results, _) = check(&[&format!("HTTP/1.1 500 \r\nContent-Length: {}\r\n\r\n{body}", body.len())]);
        let why = "Error from API: The VM could not boot: Failed to load kernel".to_owned();
        assert_eq!(results, [Err(RequestError::Refused { status: 500, why })]);
        assert_eq!(fault(b"[1]"), "[1]");
    }

    #[test]
    fn an_action_has_no_body() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"HTTP/1.1 204 \r\n\r\n").unwrap();
        Api::new(ours).unwrap().put(&Request::bare("/boot")).unwrap();
        let sent = request(&mut theirs);
        assert!(sent.starts_with("PUT /boot HTTP/1.1\r\n") && !sent.contains("Content-"), "{sent}");
        assert_eq!(Request::bare("/boot").text(), "PUT /boot");
    }

    #[test]
    fn malformed_answers_are_errors() {
        for bad in ["hello\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 204 \r\nContent-Length: -1\r\n\r\n"] {
            let (results, _) = check(&[bad]);
            assert!(matches!(&results[0], Err(RequestError::Malformed(_))), "{bad:?}: {results:?}");
        }
        let (results, _) = check(&["HTTP/1.1 204 \r\nContent-Length: 99999999\r\n\r\n"]);
        assert!(matches!(&results[0], Err(RequestError::Malformed(_))), "nobody reads so much: {results:?}");
        let endless = "x".repeat(2 * MAX_ANSWER_BYTES);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        // The server keeps its end open until the request is sent too.
        let server = thread::spawn(move || (theirs.write_all(endless.as_bytes()), theirs));
        let results = Api::new(ours).unwrap().put(&Request::bare("/"));
        assert!(matches!(results, Err(RequestError::Malformed(_))), "{results:?}");
        drop(server.join().unwrap());
        let (results, _) = check(&["HTTP/1.1 400 \r\nContent-Length: 30\r\n\r\nshort"]);
        assert_eq!(results, [Err(RequestError::Gone("it closed the connection".to_owned()))]);
        let (results, _) = check(&["HTTP/1.1 500 \r\nContent-Length: 8\r\n\r\nno\x1bjson!"]);
        assert_eq!(results, [Err(RequestError::Refused { status: 500, why: "no?json!".to_owned() })]);
    }
}
