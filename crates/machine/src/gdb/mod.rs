//! A client for the gdbstub of a VMM (GDB remote serial protocol). It stops the vCPUs without the guest's involvement, and reads their
//! registers and the guest's memory at the vCPUs' addresses.
//!
//! A [`Client`] waits a bounded time for each answer. A stub that is silent, gone or malformed causes a [`GdbError`], and then
//! the client must not be used again. This module implements the protocol and must not depend on one VMM. [`crate::arch`] defines the
//! layout of registers.

mod packet;

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

pub use packet::{Packets, Received};
use packet::{bytes_of, packet};

/// Longest wait for an answer. On a busy host QEMU's main loop has to wait for a CPU.
const MAX_ANSWER_WAIT: Duration = Duration::from_secs(3);
/// Time between two checks whether to go on waiting.
const WAIT_SLICE: Duration = Duration::from_millis(50);
/// Largest read of memory in one request: QEMU's packets hold 4096 bytes, and each byte of memory takes two digits.
const MAX_READ_BYTES: usize = 1 << 10;
/// Largest number of threads, more than a stub can have vCPUs.
const MAX_THREADS: usize = 1024;

/// The reason why a stub cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GdbError {
    /// The stub closed the connection.
    Gone,
    /// The stub did not answer in time.
    Silent,
    /// The stub's answer does not fit the request.
    Odd(String),
    /// The stub refused the request, with this error number.
    Refused(String),
    /// The host refused to read or write.
    Io(String),
    /// The caller ended the request before it was complete.
    Cut,
}

impl fmt::Display for GdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GdbError::Gone => write!(f, "the gdbstub closed the connection"),
            GdbError::Silent => write!(f, "the gdbstub did not answer in time"),
            GdbError::Odd(what) => write!(f, "the gdbstub answered {what:?}, which is no answer to the question"),
            GdbError::Refused(how) => write!(f, "the gdbstub refused: {how}"),
            GdbError::Io(why) => write!(f, "the gdbstub cannot be reached: {why}"),
            GdbError::Cut => write!(f, "it was cut short"),
        }
    }
}

impl From<io::Error> for GdbError {
    fn from(error: io::Error) -> GdbError {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => GdbError::Gone,
            _ => GdbError::Io(error.to_string()),
        }
    }
}

/// A vCPU, as the stub names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread(String);

/// A stop of the vCPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The vCPU that caused it.
    pub thread: Thread,
    /// True if that vCPU is at a breakpoint or has completed a step. False if a command stopped it, or the guest has ended.
    pub is_trap: bool,
}

/// One end of a connection to a stub.
#[derive(Debug)]
pub struct Client {
    socket: UnixStream,
    packets: Packets,
    received: VecDeque<Received>,
    patience: Duration,
    /// Deadline for all answers of the stub.
    until: Option<Instant>,
}

impl Client {
    /// Takes the host's end of the connection.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn new(socket: UnixStream) -> io::Result<Client> {
        socket.set_write_timeout(Some(MAX_ANSWER_WAIT))?;
        let (packets, received) = (Packets::default(), VecDeque::new());
        Ok(Client { socket, packets, received, patience: MAX_ANSWER_WAIT, until: None })
    }

    /// Sets a deadline for all further answers.
    pub fn end_by(&mut self, until: Instant) {
        self.until = Some(until);
    }

    /// Sets the longest wait for each further answer.
    pub fn be_patient(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Waits until the stub answers for the first time, or the wait `is_over`. This can take long if the VMM has just started.
    ///
    /// # Errors
    /// If it does not answer in time.
    pub fn reach(&mut self, is_over: &mut dyn FnMut() -> bool) -> Result<(), GdbError> {
        let deadline = self.deadline();
        // Asks for the reason of the stop, as a debugger does first.
        self.socket.write_all(&packet("?"))?;
        while Instant::now() < deadline {
            match self.next_packet(deadline.min(Instant::now() + WAIT_SLICE)) {
                Ok(_) => return Ok(()),
                Err(GdbError::Silent) if is_over() => return Err(GdbError::Cut),
                Err(GdbError::Silent) => {}
                Err(error) => return Err(error),
            }
        }
        Err(GdbError::Silent)
    }

    /// Stops all vCPUs, and waits until they have stopped or the wait `is_over`. After an error they may stop at any later time.
    ///
    /// # Errors
    /// If the stub does not report the stop.
    pub fn stop(&mut self, is_over: &mut dyn FnMut() -> bool) -> Result<(), GdbError> {
        let deadline = self.deadline();
        self.received.clear();
        self.socket.write_all(&[0x03])?;
        while Instant::now() < deadline {
            if self.wait_for_stop(WAIT_SLICE)?.is_some() {
                return Ok(());
            }
            if is_over() {
                return Err(GdbError::Cut);
            }
        }
        Err(GdbError::Silent)
    }

    /// Waits at most `patience` for the vCPUs to stop, for any reason.
    ///
    /// # Errors
    /// If the stub is gone, or sends something else.
    pub fn wait_for_stop(&mut self, patience: Duration) -> Result<Option<Stopped>, GdbError> {
        const TRAP: &str = "05";
        match self.next_packet(Instant::now() + patience) {
            Ok(data) => match data.first() {
                Some(b'T' | b'S') => {
                    let text = String::from_utf8_lossy(&data).into_owned();
                    let thread = text.split_once("thread:").and_then(|(_, rest)| rest.split(';').next());
                    let is_trap = text.get(1..3) == Some(TRAP);
                    Ok(Some(Stopped { thread: Thread(thread.unwrap_or("0").to_owned()), is_trap }))
                }
                _ => Err(unexpected(&data)),
            },
            Err(GdbError::Silent) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Resumes all vCPUs.
    ///
    /// # Errors
    /// If the stub does not acknowledge the command.
    pub fn resume(&mut self) -> Result<(), GdbError> {
        self.send("c")
    }

    /// Lets one vCPU execute one instruction, while the others stay stopped.
    ///
    /// # Errors
    /// If the stub does not report the end of the step.
    pub fn step(&mut self, thread: &Thread) -> Result<(), GdbError> {
        self.send(&format!("vCont;s:{}", thread.0))?;
        self.wait_for_stop(self.patience)?.ok_or(GdbError::Silent).map(drop)
    }

    /// The vCPUs.
    ///
    /// # Errors
    /// If the stub does not list them.
    pub fn threads(&mut self) -> Result<Vec<Thread>, GdbError> {
        let mut threads = Vec::new();
        let mut data = self.ask("qfThreadInfo")?;
        while let Some(names) = data.strip_prefix(b"m") {
            let names = String::from_utf8_lossy(names).into_owned();
            threads.extend(names.split(',').map(|name| Thread(name.to_owned())));
            if threads.len() > MAX_THREADS {
                return Err(GdbError::Odd(format!("more than {MAX_THREADS} threads")));
            }
            data = self.ask("qsThreadInfo")?;
        }
        if data == b"l" && !threads.is_empty() { Ok(threads) } else { Err(unexpected(&data)) }
    }

    /// The registers of a vCPU, in the stub's layout. The following reads of memory use this vCPU's addresses.
    ///
    /// # Errors
    /// If the stub does not return them.
    pub fn registers(&mut self, thread: &Thread) -> Result<Vec<u8>, GdbError> {
        self.order(&format!("Hg{}", thread.0))?;
        let data = self.ask("g")?;
        bytes_of(&data).filter(|bytes| !bytes.is_empty()).ok_or_else(|| unexpected(&data))
    }

    /// Reads at most `length` bytes at a virtual address, and fewer if the rest is not mapped. If nothing is mapped there, the result is
    /// empty.
    ///
    /// # Errors
    /// If the stub is gone or its answer is malformed.
    pub fn read(&mut self, address: u64, length: usize) -> Result<Vec<u8>, GdbError> {
        let mut bytes = Vec::new();
        while bytes.len() < length {
            // A piece must not cross a page: the stub returns no byte of a piece whose end is not mapped.
            let at = address.wrapping_add(bytes.len() as u64);
            let to_page = MAX_READ_BYTES - usize::try_from(at % MAX_READ_BYTES as u64).unwrap_or(0);
            let piece = (length - bytes.len()).min(to_page);
            match self.ask(&format!("m{at:x},{piece:x}")) {
                Ok(data) => {
                    let bytes_read =
                        bytes_of(&data).filter(|bytes| bytes.len() == piece).ok_or_else(|| unexpected(&data))?;
                    bytes.extend(bytes_read);
                }
                Err(GdbError::Refused(_)) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }

    /// Writes to memory at a virtual address.
    ///
    /// # Errors
    /// If the stub does not confirm it.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), GdbError> {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.order(&format!("M{address:x},{:x}:{digits}", bytes.len()))
    }

    /// Sets a hardware breakpoint: the vCPUs stop before the instruction at this address.
    ///
    /// # Errors
    /// If the stub has none left.
    pub fn set_breakpoint(&mut self, address: u64) -> Result<(), GdbError> {
        self.order(&format!("Z1,{address:x},1"))
    }

    /// Clears a hardware breakpoint.
    ///
    /// # Errors
    /// If the stub does not confirm it.
    pub fn clear_breakpoint(&mut self, address: u64) -> Result<(), GdbError> {
        self.order(&format!("z1,{address:x},1"))
    }

    /// The deadline for the answer to a request that is sent now.
    fn deadline(&self) -> Instant {
        let deadline = Instant::now() + self.patience;
        self.until.map_or(deadline, |until| until.min(deadline))
    }

    /// Sends a command, and expects the answer `OK`.
    fn order(&mut self, command: &str) -> Result<(), GdbError> {
        let data = self.ask(command)?;
        if data == b"OK" { Ok(()) } else { Err(unexpected(&data)) }
    }

    fn ask(&mut self, command: &str) -> Result<Vec<u8>, GdbError> {
        self.send(command)?;
        let data = self.next_packet(self.deadline())?;
        if matches!(*data, [b'E', _, _]) {
            let (command, refused) = (command.split(',').next().unwrap_or(command), String::from_utf8_lossy(&data));
            return Err(GdbError::Refused(format!("{refused} to {command}")));
        }
        Ok(data)
    }

    /// Sends a packet, again if the stub requests that, until the stub acknowledges it.
    fn send(&mut self, command: &str) -> Result<(), GdbError> {
        const MAX_TRIES: u32 = 3;
        let deadline = self.deadline();
        self.received.clear();
        for _ in 0..MAX_TRIES {
            self.socket.write_all(&packet(command))?;
            loop {
                match self.next(deadline)? {
                    Received::Ack => return Ok(()),
                    Received::Nack => break,
                    // Left over from an earlier request.
                    Received::Packet(_) | Received::Malformed => self.socket.write_all(b"+")?,
                }
            }
        }
        Err(GdbError::Odd("-".to_owned()))
    }

    /// Waits for the next packet, and acknowledges it.
    fn next_packet(&mut self, deadline: Instant) -> Result<Vec<u8>, GdbError> {
        const MAX_TRIES: u32 = 3;
        let mut malformed = 0;
        loop {
            match self.next(deadline)? {
                Received::Packet(data) => {
                    self.socket.write_all(b"+")?;
                    return Ok(data);
                }
                Received::Malformed => {
                    malformed += 1;
                    if malformed == MAX_TRIES {
                        return Err(GdbError::Odd("a packet that does not fit its checksum".to_owned()));
                    }
                    self.socket.write_all(b"-")?;
                }
                Received::Ack | Received::Nack => {}
            }
        }
    }

    fn next(&mut self, deadline: Instant) -> Result<Received, GdbError> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(received) = self.received.pop_front() {
                return Ok(received);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(GdbError::Silent);
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.read(&mut buffer) {
                Ok(0) => return Err(GdbError::Gone),
                Ok(n) => self.received.extend(self.packets.feed(&buffer[..n])),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(GdbError::Silent),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

fn unexpected(data: &[u8]) -> GdbError {
    GdbError::Odd(crate::lines::shown(data, 60))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::thread;

    /// A client of a stub with a script of expected requests and their answers. The stub closes the connection after the last answer.
    pub(crate) fn scripted(script: &[(&'static str, &'static str)]) -> Client {
        let mut client = Client::new(scripted_socket(script)).unwrap();
        client.patience = Duration::from_millis(300);
        client
    }

    /// The host's end of a connection to such a stub.
    pub(crate) fn scripted_socket(script: &[(&'static str, &'static str)]) -> UnixStream {
        let (ours, mut stubs) = UnixStream::pair().unwrap();
        let script = script.to_vec();
        thread::spawn(move || {
            for (expected, answer) in script {
                let mut packets = Packets::default();
                let mut byte = [0];
                loop {
                    if stubs.read(&mut byte).unwrap_or(0) == 0 {
                        return;
                    }
                    let is_expected = match packets.feed(&byte).pop() {
                        Some(Received::Packet(data)) => {
                            assert_eq!(String::from_utf8(data).unwrap(), expected);
                            true
                        }
                        _ => byte == [0x03] && expected == "\x03",
                    };
                    if is_expected {
                        break;
                    }
                }
                // The client may be gone by now.
                let _ = stubs.write_all(answer.as_bytes());
            }
            // Closing the socket with unread input would drop the answers, so the input is read to its end first.
            let _ = stubs.shutdown(std::net::Shutdown::Write);
            let _ = stubs.read_to_end(&mut Vec::new());
        });
        ours
    }

    #[test]
    fn the_vcpus_stop_are_read_and_resume() {
        let mut client = scripted(&[
            ("\x03", "$T02thread:01;#04"),
            ("qfThreadInfo", "+$m01#ce"),
            ("qsThreadInfo", "+$m02#cf"),
            ("qsThreadInfo", "+$l#6c"),
            ("Hg02", "+$OK#9a"),
            ("g", "+$0102#c3"),
            ("m3fe,2", "+$aabb#86"),
            ("m400,1", "+$E14#aa"),
            ("Z1,1000,1", "+$OK#9a"),
            ("c", "+"),
        ]);
        client.stop(&mut || false).unwrap();
        let threads = client.threads().unwrap();
        assert_eq!(threads, [Thread("01".to_owned()), Thread("02".to_owned())]);
        assert_eq!(client.registers(&threads[1]), Ok(vec![1, 2]));
        assert_eq!(client.read(0x3fe, 3), Ok(vec![0xaa, 0xbb]), "what is mapped");
        client.set_breakpoint(0x1000).unwrap();
        client.resume().unwrap();
    }

    #[test]
    fn a_damaged_packet_is_requested_again() {
        let mut client = scripted(&[("Hg1", "+$OK#00$OK#9a"), ("g", "-"), ("g", "+$00#60")]);
        assert_eq!(client.registers(&Thread("1".to_owned())), Ok(vec![0]));
    }

    #[test]
    fn a_stub_that_is_gone_silent_or_malformed_is_an_error() {
        let thread = Thread("1".to_owned());
        let mut gone = scripted(&[("\x03", "$T02thread:01;#04"), ("qfThreadInfo", "+$m0")]);
        gone.stop(&mut || false).unwrap();
        assert_eq!(gone.threads(), Err(GdbError::Gone));
        let (ours, _stubs) = UnixStream::pair().unwrap();
        let mut silent = Client::new(ours).unwrap();
        silent.patience = Duration::from_millis(20);
        assert_eq!(silent.stop(&mut || false), Err(GdbError::Silent));
        silent.patience = MAX_ANSWER_WAIT;
        assert_eq!(silent.stop(&mut || true), Err(GdbError::Cut));
        silent.end_by(Instant::now() + Duration::from_millis(20));
        assert_eq!(silent.resume(), Err(GdbError::Silent), "what is asked ends then too");
        let mut odd = scripted(&[("Hg1", "+$OK#9a"), ("g", "+$hello#14")]);
        assert_eq!(odd.registers(&thread), Err(GdbError::Odd("hello".to_owned())));
        let mut refusing = scripted(&[("Z1,5,1", "+$E22#a9")]);
        assert!(matches!(refusing.set_breakpoint(5), Err(GdbError::Refused(_))));
        let mut short = scripted(&[("m0,4", "+$00#60")]);
        assert!(matches!(short.read(0, 4), Err(GdbError::Odd(_))));
    }
}
