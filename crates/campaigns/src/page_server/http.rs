//! Reads one HTTP/1.1 request and sends its answer, bounded in bytes and time. A connection carries one request.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// The longest time for a request to arrive.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(10);
/// The longest time for sending an answer.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(60);
/// The longest wait for the client to close the connection after its answer.
const MAX_CLOSE_TIME: Duration = Duration::from_secs(1);
/// The most bytes of a request's line and headers.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// The most bytes of a request's body.
const MAX_BODY_BYTES: usize = 256 << 10;
const MAX_HEADERS: usize = 64;
const HEAD_END: &[u8] = b"\r\n\r\n";

#[derive(Debug, Default, PartialEq)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub host: String,
    pub origin: Option<String>,
    body_bytes: usize,
    /// The part of the body that arrived with the headers.
    body: Vec<u8>,
}

#[derive(Debug, PartialEq)]
pub struct Answer<'b> {
    pub status: &'static str,
    pub kind: &'static str,
    /// Additional headers, each with its end of line.
    pub headers: &'static str,
    pub body: std::borrow::Cow<'b, [u8]>,
}

impl<'b> Answer<'b> {
    /// An answer with one line of text.
    pub fn text(status: &'static str, text: &str) -> Answer<'b> {
        Answer { status, kind: "text/plain", headers: "", body: format!("{text}\n").into_bytes().into() }
    }

    /// The answer to a request with another method.
    pub fn only(allowed: &'static str) -> Answer<'b> {
        let headers = match allowed {
            "POST" => "Allow: POST\r\n",
            _ => "Allow: GET, HEAD\r\n",
        };
        let text = format!("this address answers {allowed} only");
        Answer { headers, ..Answer::text("405 Method Not Allowed", &text) }
    }

    /// Sends the answer, with its body if requested, and ends the connection.
    pub fn send(&self, stream: &TcpStream, with_body: bool) -> io::Result<()> {
        let mut out = WithDeadline::new(stream, MAX_ANSWER_TIME);
        write!(
            out,
            "HTTP/1.1 {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\n{}\
             Cache-Control: no-store\r\nReferrer-Policy: same-origin\r\nX-Content-Type-Options: nosniff\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n",
            self.status,
            self.kind,
            self.body.len(),
            self.headers,
        )?;
        if with_body {
            out.write_all(&self.body)?;
        }
        stream.shutdown(Shutdown::Write)?;
        // If request bytes are unread, closing at once would reset the connection and lose the answer.
        let mut rest = WithDeadline::new(stream, MAX_CLOSE_TIME).take((MAX_HEAD_BYTES + MAX_BODY_BYTES) as u64);
        io::copy(&mut rest, &mut io::sink()).map(drop)
    }
}

impl Request {
    /// Reads a request up to its body. Returns `Err` with the answer that refuses it, or `None` if no request arrived.
    pub fn read(stream: &TcpStream) -> io::Result<Option<Result<Request, Answer<'static>>>> {
        let mut input = WithDeadline::new(stream, MAX_REQUEST_TIME);
        let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
        let head_bytes = loop {
            let length = match input.read(&mut part) {
                Ok(0) if bytes.is_empty() => return Ok(None),
                Ok(0) => return Ok(Some(Err(bad("the request is cut")))),
                Ok(length) => length,
                Err(e) if e.kind() == ErrorKind::TimedOut && !bytes.is_empty() => {
                    return Ok(Some(Err(Answer::text("408 Request Timeout", "the request took too long"))));
                }
                Err(e) => return Err(e),
            };
            let from = bytes.len().saturating_sub(HEAD_END.len());
            bytes.extend_from_slice(&part[..length]);
            if let Some(at) = bytes[from..].windows(HEAD_END.len()).position(|end| end == HEAD_END) {
                break from + at + HEAD_END.len();
            }
            if bytes.len() > MAX_HEAD_BYTES {
                let why = "the request's line and headers are too long";
                return Ok(Some(Err(Answer::text("431 Request Header Fields Too Large", why))));
            }
        };
        Ok(Some(Request::parse(&bytes[..head_bytes], bytes[head_bytes..].to_vec())))
    }

    fn parse(head: &[u8], body: Vec<u8>) -> Result<Request, Answer<'static>> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        let is_whole = parsed.parse(head).map_err(|e| bad(&format!("the request is malformed: {e}")))?.is_complete();
        let (true, Some(method), Some(path)) = (is_whole, parsed.method, parsed.path) else {
            return Err(bad("the request is malformed"));
        };
        let mut request = Request { method: method.to_owned(), path: path.to_owned(), body, ..Request::default() };
        let (mut host, mut length) = (None, None);
        for header in &*parsed.headers {
            let value = || String::from_utf8_lossy(header.value).into_owned();
            let earlier = match &*header.name.to_ascii_lowercase() {
                "host" => host.replace(value()),
                "origin" => request.origin.replace(value()),
                "content-length" => length.replace(value()),
                "transfer-encoding" => return Err(Answer::text("501 Not Implemented", "send a Content-Length")),
                _ => None,
            };
            if earlier.is_some() {
                return Err(bad(&format!("the header {} comes twice", header.name)));
            }
        }
        request.host = host.ok_or_else(|| bad("there is no Host"))?;
        let length = length.unwrap_or_else(|| "0".to_owned());
        if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad("Content-Length is not a number"));
        }
        request.body_bytes = length.parse().unwrap_or(usize::MAX);
        if request.body_bytes > MAX_BODY_BYTES {
            return Err(Answer::text("413 Content Too Large", "the question is too long"));
        }
        Ok(request)
    }

    /// The body; `None` if it is truncated or late.
    pub fn body(&self, stream: &TcpStream) -> Option<Vec<u8>> {
        let mut body = self.body[..self.body.len().min(self.body_bytes)].to_vec();
        let rest = (self.body_bytes - body.len()) as u64;
        WithDeadline::new(stream, MAX_REQUEST_TIME).take(rest).read_to_end(&mut body).ok()?;
        (body.len() == self.body_bytes).then_some(body)
    }
}

fn bad(why: &str) -> Answer<'static> {
    Answer::text("400 Bad Request", why)
}

/// True if the client closed its connection.
pub fn is_gone(stream: &TcpStream) -> bool {
    let closed = stream.set_nonblocking(true).map(|()| match stream.peek(&mut [0]) {
        Ok(waiting) => waiting == 0,
        Err(e) => e.kind() != ErrorKind::WouldBlock,
    });
    stream.set_nonblocking(false).is_err() || closed.unwrap_or(true)
}

/// A connection with a deadline. Single late bytes do not extend it.
struct WithDeadline<'s> {
    stream: &'s TcpStream,
    until: Instant,
}

impl<'s> WithDeadline<'s> {
    fn new(stream: &'s TcpStream, time: Duration) -> WithDeadline<'s> {
        WithDeadline { stream, until: Instant::now() + time }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

/// Changes the system's error for a time-out into `TimedOut`.
fn late(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { ErrorKind::TimedOut.into() } else { error }
}

impl Read for WithDeadline<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            self.stream.set_read_timeout(self.left()?)?;
            match self.stream.read(into) {
                // A read with a time-out is interrupted when the process continues after a stop (Ctrl-Z and fg).
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                read => return read.map_err(late),
            }
        }
    }
}

impl Write for WithDeadline<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes).map_err(late)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str) -> &'static str {
        Request::parse(head.as_bytes(), Vec::new()).map_or_else(|refused| refused.status, |_| "")
    }

    #[test]
    fn requests_are_read_or_refused() {
        let head = "POST /x HTTP/1.1\r\nhost: h:1\r\nORIGIN: http://h:1\r\nContent-Length: 3\r\n\r\n";
        let request = Request::parse(head.as_bytes(), b"abcd".to_vec()).unwrap();
        assert_eq!((&*request.method, &*request.path, &*request.host), ("POST", "/x", "h:1"));
        assert_eq!((request.origin.as_deref(), request.body_bytes), (Some("http://h:1"), 3));
        for (head, expected) in [
            ("\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999999999999\r\n\r\n", "413 Content Too Large"),
            ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "501 Not Implemented"),
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", ""),
        ] {
            assert_eq!(status(head), expected, "{head:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1));
        assert_eq!(status(&many), "400 Bad Request");
    }
}
