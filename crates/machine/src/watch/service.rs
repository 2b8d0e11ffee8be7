//! Waits for a service of the guest: the host connects to it over the guest's network, again and again, until it answers.
//!
//! The VMM accepts each connection for the guest, and closes it when the guest refuses. While the guest has no network, the connection
//! stays open without an answer. So an attempt has failed when it is closed, or when the VMM reports that the guest did not accept it
//! in time. A port is ready when the guest has accepted a connection. A page is ready when it was served with a status of 2xx or 3xx.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use recording::{End, EndMark, Until};

use crate::Error;
use crate::lines::shown;
use crate::vmm::{Answer, Question, Ticket, Vmm};

/// Pause between two attempts. Each costs the guest an interrupt.
const RETRY_PAUSE_NS: i64 = 20_000_000;
/// Pause between two looks at an attempt.
const LOOK_NS: i64 = 3_000_000;
/// Longest wait for the guest to accept a connection. A guest that has a network accepts sooner.
const MAX_ACCEPT_NS: i64 = 60_000_000;
/// Longest wait for a page once the guest has accepted the connection.
const MAX_SERVE_NS: i64 = 30_000_000_000;
/// Longest first line of an answer.
const MAX_ANSWER_BYTES: usize = 4096;

/// The wait for a service.
#[derive(Debug)]
pub(super) struct ServiceWatch {
    /// The host port that is forwarded to the guest.
    port: u16,
    /// The awaited service, in words.
    what: String,
    /// The HTTP request, if a page is awaited.
    request: Option<String>,
    attempt: Option<Attempt>,
    next_ns: i64,
    /// The start of the last attempt that failed.
    absent_ns: i64,
}

#[derive(Debug)]
struct Attempt {
    socket: TcpStream,
    /// The host port that it connected to.
    port: u16,
    began_ns: i64,
    question: Option<Ticket>,
    is_taken: bool,
    answer: Vec<u8>,
}

/// Progress of an attempt to reach the service.
enum AttemptState {
    Open,
    Answered(String),
    Failed,
}

/// A free port of the host.
///
/// # Errors
/// If the system has none.
pub(crate) fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(Error::host("find a free port for the guest's network"))
}

impl ServiceWatch {
    /// A wait for the service that is the end mark, through this host port. `None` if the end mark is not a service.
    pub(super) fn new(until: &Until, port: Option<u16>) -> Option<ServiceWatch> {
        let (what, request) = match until {
            Until::Tcp(port) => (format!("port {port} accepts connections"), None),
            Until::Http(page) => {
                let (host, path) = (&page.host, &page.path);
                let request = format!(
                    "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: bootscope\r\nConnection: close\r\n\r\n"
                );
                (format!("{page} is served"), Some(request))
            }
            _ => return None,
        };
        Some(ServiceWatch { port: port?, what, request, attempt: None, next_ns: 0, absent_ns: 0 })
    }

    /// The time at which the next look is due.
    pub(super) fn next_ns(&self) -> i64 {
        self.next_ns
    }

    /// Looks at the attempt, or begins one, if that is due.
    pub(super) fn look(&mut self, vm: &mut dyn Vmm) -> Option<End> {
        let now_ns = vm.elapsed_ns();
        if now_ns < self.next_ns {
            return None;
        }
        let Some(mut attempt) =
            self.attempt.take().or_else(|| Attempt::begin(self.port, self.request.as_deref(), now_ns))
        else {
            // The VMM does not listen yet, or has stopped listening.
            self.absent_ns = now_ns;
            self.next_ns = now_ns + RETRY_PAUSE_NS;
            return None;
        };
        match attempt.look(self.request.is_some(), now_ns, vm) {
            AttemptState::Open => {
                self.attempt = Some(attempt);
                self.next_ns = now_ns + LOOK_NS;
                None
            }
            AttemptState::Failed => {
                self.absent_ns = attempt.began_ns;
                self.next_ns = now_ns + RETRY_PAUSE_NS;
                None
            }
            AttemptState::Answered(how) => {
                let (mark, error_ns) = (Some(EndMark::Answer), Some(now_ns - self.absent_ns));
                Some(End { mark, what: format!("{}{how}", self.what), at_ns: now_ns, error_ns, printk_ns: None })
            }
        }
    }
}

impl Attempt {
    fn begin(port: u16, request: Option<&str>, began_ns: i64) -> Option<Attempt> {
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        // The VMM listens in its main loop, which accepts connections at once.
        let mut socket = TcpStream::connect_timeout(&server, Duration::from_millis(100)).ok()?;
        socket.set_nonblocking(true).ok()?;
        if let Some(request) = request {
            // The request is short, and the VMM keeps it until the guest accepts the connection.
            socket.write_all(request.as_bytes()).ok()?;
        }
        Some(Attempt { socket, port, began_ns, question: None, is_taken: false, answer: Vec::new() })
    }

    fn look(&mut self, is_page: bool, now_ns: i64, vm: &mut dyn Vmm) -> AttemptState {
        let mut bytes = [0; 512];
        match self.socket.read(&mut bytes) {
            Ok(0) => return AttemptState::Failed,
            Ok(_) if !is_page => return AttemptState::Answered(String::new()),
            Ok(read) => {
                self.is_taken = true;
                self.answer.extend_from_slice(&bytes[..read]);
                let has_time = now_ns - self.began_ns < MAX_SERVE_NS;
                return match status(&self.answer) {
                    Some(line) if line.is_good => AttemptState::Answered(format!(" ({})", line.text)),
                    // Without the time limit, a server that sends a byte a second would hold the connection for an hour.
                    None if self.answer.len() < MAX_ANSWER_BYTES && has_time => AttemptState::Open,
                    _ => AttemptState::Failed,
                };
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return AttemptState::Failed,
        }
        self.ask(vm);
        match (self.is_taken, is_page, now_ns - self.began_ns) {
            (true, false, _) => AttemptState::Answered(String::new()),
            (true, true, open_ns) if open_ns < MAX_SERVE_NS => AttemptState::Open,
            (false, _, open_ns) if open_ns < MAX_ACCEPT_NS => AttemptState::Open,
            _ => AttemptState::Failed,
        }
    }

    /// Asks the VMM if the guest has accepted the connection, which only the VMM knows. An earlier connection that the guest accepts late
    /// also counts.
    fn ask(&mut self, vm: &mut dyn Vmm) {
        if self.is_taken {
            return;
        }
        if let Some(ticket) = self.question {
            let Some(answer) = vm.answer(ticket) else { return };
            self.question = None;
            self.is_taken = matches!(answer, Some(Answer::Accepted(ports)) if ports.contains(&self.port));
        }
        if !self.is_taken {
            self.question = vm.ask(Question::Connections);
        }
    }
}

/// The first line of an HTTP answer.
struct StatusLine {
    text: String,
    is_good: bool,
}

/// The first line, if it is complete. A line that is not HTTP has `is_good` false.
fn status(answer: &[u8]) -> Option<StatusLine> {
    let end = memchr::memchr(b'\n', answer)?;
    let text = shown(answer[..end].trim_ascii(), 100);
    let is_good = text.starts_with("HTTP/") && text.split(' ').nth(1).is_some_and(|code| code.starts_with(['2', '3']));
    Some(StatusLine { text, is_good })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vmm::stub::{Script, Stub};
    use crate::vmm::{Instruments, Launch, Program};
    use recording::{GuestSpec, Page};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_page_is_ready_if_its_status_is_good() {
        let good = |answer: &str| status(answer.as_bytes()).map(|line| line.is_good);
        assert_eq!(good("HTTP/1.1 200 OK\r\nServer: x"), Some(true));
        assert_eq!(good("HTTP/1.0 302 Found\n"), Some(true));
        assert_eq!(good("HTTP/1.1 503 Service Unavailable\r\n"), Some(false));
        assert_eq!(good("SSH-2.0-OpenSSH_9.2\r\n"), Some(false));
        assert_eq!(good("HTTP/1.1 20"), None);
    }

    /// A machine that provides only the time, and reports that it accepted no connection.
    fn machine() -> Box<dyn Vmm> {
        let guest = GuestSpec::default();
        let instruments = Instruments::default();
        let launch = Launch { guest: &guest, kvm: false, kernel_line: "", initrd: None, channel: None, instruments };
        Stub(Script::default()).start(&launch).unwrap()
    }

    /// Waits for a service that gives these answers to the connections in order, and repeats the last one.
    fn waited(until: &Until, answers: &'static [&'static str]) -> (End, usize) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&served);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let number = counted.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1);
                // The client may have closed the connection already.
                let _ = socket.and_then(|mut socket| socket.write_all(answers[number].as_bytes()));
            }
        });
        let (mut vm, mut service) = (machine(), ServiceWatch::new(until, Some(port)).unwrap());
        for _ in 0..20_000 {
            if let Some(end) = service.look(&mut *vm) {
                return (end, served.load(Ordering::Relaxed));
            }
            std::thread::sleep(Duration::from_millis(1));
            vm.hear(Duration::from_millis(2));
        }
        panic!("nothing answered");
    }

    #[test]
    fn a_page_that_arrives_a_byte_at_a_time_is_abandoned() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut attempt = Attempt::begin(port, Some("GET / HTTP/1.1\r\n\r\n"), 0).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut vm = machine();
        // Repeats until the byte has arrived, because the socket does not wait.
        let mut look = |attempt: &mut Attempt, now_ns: i64| {
            server.write_all(b"H").unwrap();
            let before = attempt.answer.len();
            loop {
                let state = attempt.look(true, now_ns, &mut *vm);
                if attempt.answer.len() > before {
                    return state;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        assert!(matches!(look(&mut attempt, MAX_SERVE_NS - 1), AttemptState::Open));
        assert!(matches!(look(&mut attempt, MAX_SERVE_NS), AttemptState::Failed));
    }

    #[test]
    fn a_service_is_tried_until_its_answer_is_good() {
        let page: Page = "http://guest/health".parse().unwrap();
        let (end, served) =
            waited(&Until::Http(page), &["", "HTTP/1.1 503 Starting\r\n\r\n", "HTTP/1.1 204 Well\r\n\r\n"]);
        assert_eq!(end.what, "http://guest/health is served (HTTP/1.1 204 Well)");
        assert!(served >= 3 && end.error_ns > Some(0) && end.error_ns < Some(end.at_ns), "{served}: {end:?}");
        let (end, served) = waited(&Until::Tcp(22), &["", "", "SSH-2.0-x\r\n"]);
        assert_eq!((end.what.as_str(), end.mark), ("port 22 accepts connections", Some(EndMark::Answer)));
        assert!(served >= 3);
    }
}
