//! A service of the guest's that is waited for: the host asks it over the guest's network, again and again, until it answers.
//!
//! The VMM takes each connection for the guest, and closes it when the guest refuses. While the guest has no network nobody
//! answers at all. So an attempt is over when it is closed, or when the VMM says that the guest did not take it in time.
//! A port is there when the guest took a connection, and a page when it was served with a status of 2xx or 3xx.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use recording::{End, EndMark, Until};

use crate::Error;
use crate::lines::shown;
use crate::vmm::{Answer, Question, Ticket, Vmm};

/// How soon after an attempt the next one is made. Each costs the guest an interrupt.
const AGAIN_NS: i64 = 20_000_000;
/// How soon an attempt is looked at again.
const LOOK_NS: i64 = 3_000_000;
/// A guest that has a network takes a connection sooner.
const TAKES_NS: i64 = 60_000_000;
/// So long a page may take once the guest has taken the connection.
const SERVES_NS: i64 = 30_000_000_000;
/// The first line of an answer is shorter.
const ANSWER_BYTES_MAX: usize = 4096;

/// The wait.
#[derive(Debug)]
pub(super) struct ServiceWatch {
    /// The port of the host's that leads to the guest's.
    port: u16,
    /// What is waited for, in words.
    what: String,
    /// What is asked of a server of pages.
    request: Option<String>,
    attempt: Option<Attempt>,
    next_ns: i64,
    /// When the last attempt began that failed.
    absent_ns: i64,
}

#[derive(Debug)]
struct Attempt {
    socket: TcpStream,
    /// The port of the host's that it went to.
    port: u16,
    began_ns: i64,
    asked: Option<Ticket>,
    is_taken: bool,
    answer: Vec<u8>,
}

/// How an attempt stands.
enum Stand {
    Open,
    Answered(String),
    Failed,
}

/// A port of the host's that nobody listens on.
///
/// # Errors
/// If the system has none.
pub(crate) fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(Error::host("find a free port for the guest's network"))
}

impl ServiceWatch {
    /// For the service that the guest's boot ends with, if it ends with one, at this port of the host's.
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

    /// When the next look is due.
    pub(super) fn next_ns(&self) -> i64 {
        self.next_ns
    }

    /// Looks, if that is due.
    pub(super) fn look(&mut self, vm: &mut dyn Vmm) -> Option<End> {
        let now_ns = vm.elapsed_ns();
        if now_ns < self.next_ns {
            return None;
        }
        let Some(mut attempt) =
            self.attempt.take().or_else(|| Attempt::begin(self.port, self.request.as_deref(), now_ns))
        else {
            // The VMM does not listen yet, or no more.
            self.absent_ns = now_ns;
            self.next_ns = now_ns + AGAIN_NS;
            return None;
        };
        match attempt.look(self.request.is_some(), now_ns, vm) {
            Stand::Open => {
                self.attempt = Some(attempt);
                self.next_ns = now_ns + LOOK_NS;
                None
            }
            Stand::Failed => {
                self.absent_ns = attempt.began_ns;
                self.next_ns = now_ns + AGAIN_NS;
                None
            }
            Stand::Answered(how) => {
                let (mark, error_ns) = (Some(EndMark::Answer), Some(now_ns - self.absent_ns));
                Some(End { mark, what: format!("{}{how}", self.what), at_ns: now_ns, error_ns, printk_ns: None })
            }
        }
    }
}

impl Attempt {
    fn begin(port: u16, request: Option<&str>, began_ns: i64) -> Option<Attempt> {
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        // The VMM listens in its main loop, which takes connections at once.
        let mut socket = TcpStream::connect_timeout(&server, Duration::from_millis(100)).ok()?;
        socket.set_nonblocking(true).ok()?;
        if let Some(request) = request {
            // It is short, and the VMM keeps it until the guest takes the connection.
            socket.write_all(request.as_bytes()).ok()?;
        }
        Some(Attempt { socket, port, began_ns, asked: None, is_taken: false, answer: Vec::new() })
    }

    fn look(&mut self, is_page: bool, now_ns: i64, vm: &mut dyn Vmm) -> Stand {
        let mut bytes = [0; 512];
        match self.socket.read(&mut bytes) {
            Ok(0) => return Stand::Failed,
            Ok(_) if !is_page => return Stand::Answered(String::new()),
            Ok(read) => {
                self.is_taken = true;
                self.answer.extend_from_slice(&bytes[..read]);
                let has_time = now_ns - self.began_ns < SERVES_NS;
                return match status(&self.answer) {
                    Some(line) if line.is_good => Stand::Answered(format!(" ({})", line.text)),
                    // One that sends a byte a second would hold the connection for an hour.
                    None if self.answer.len() < ANSWER_BYTES_MAX && has_time => Stand::Open,
                    _ => Stand::Failed,
                };
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Stand::Failed,
        }
        self.ask(vm);
        match (self.is_taken, is_page, now_ns - self.began_ns) {
            (true, false, _) => Stand::Answered(String::new()),
            (true, true, open_ns) if open_ns < SERVES_NS => Stand::Open,
            (false, _, open_ns) if open_ns < TAKES_NS => Stand::Open,
            _ => Stand::Failed,
        }
    }

    /// Asks the VMM whether the guest took the connection: it alone knows. An earlier one that the guest takes late says as much.
    fn ask(&mut self, vm: &mut dyn Vmm) {
        if self.is_taken {
            return;
        }
        if let Some(ticket) = self.asked {
            let Some(answer) = vm.answer(ticket) else { return };
            self.asked = None;
            self.is_taken = matches!(answer, Some(Answer::Accepted(ports)) if ports.contains(&self.port));
        }
        if !self.is_taken {
            self.asked = vm.ask(Question::Connections);
        }
    }
}

/// The first line of an answer by HTTP.
struct StatusLine {
    text: String,
    is_good: bool,
}

/// The line, if all of it is there. What is no answer by HTTP is not good.
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
    fn a_page_is_there_when_its_status_says_so() {
        let good = |answer: &str| status(answer.as_bytes()).map(|line| line.is_good);
        assert_eq!(good("HTTP/1.1 200 OK\r\nServer: x"), Some(true));
        assert_eq!(good("HTTP/1.0 302 Found\n"), Some(true));
        assert_eq!(good("HTTP/1.1 503 Service Unavailable\r\n"), Some(false));
        assert_eq!(good("SSH-2.0-OpenSSH_9.2\r\n"), Some(false));
        assert_eq!(good("HTTP/1.1 20"), None);
    }

    /// A machine of which only the time is asked, and that says it took no connection.
    fn machine() -> Box<dyn Vmm> {
        let guest = GuestSpec::default();
        let instruments = Instruments::default();
        let launch = Launch { guest: &guest, kvm: false, kernel_line: "", initrd: None, channel: None, instruments };
        Stub(Script::default()).start(&launch).unwrap()
    }

    /// Waits for a service that answers the connections in their order, and then as it answered the last.
    fn waited(until: &Until, answers: &'static [&'static str]) -> (End, usize) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&served);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let number = counted.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1);
                // Who asked may have gone already.
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
    fn a_page_that_comes_a_byte_at_a_time_is_given_up() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut attempt = Attempt::begin(port, Some("GET / HTTP/1.1\r\n\r\n"), 0).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut vm = machine();
        // Until what was sent is there: the socket does not wait.
        let mut look = |attempt: &mut Attempt, now_ns: i64| {
            server.write_all(b"H").unwrap();
            let before = attempt.answer.len();
            loop {
                let stand = attempt.look(true, now_ns, &mut *vm);
                if attempt.answer.len() > before {
                    return stand;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        assert!(matches!(look(&mut attempt, SERVES_NS - 1), Stand::Open));
        assert!(matches!(look(&mut attempt, SERVES_NS), Stand::Failed));
    }

    #[test]
    fn a_service_is_asked_until_it_answers_well() {
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
