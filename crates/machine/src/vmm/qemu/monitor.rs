//! QEMU's monitor (QMP): what is sent to it, and what it says of the machine.
//!
//! One JSON document a line, both ways (QEMU's docs/interop/qmp-spec). What comes back is read without types of its own:
//! they differ from version to version, and an event that a later version adds must not end a recording. So all that is
//! asked is asked in ways whose answer is text (`human-monitor-command`), and events are taken by name.
//!
//! Nothing here waits: bytes are fed in as they are heard, answers are kept until they are fetched.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::vmm::{GuestEnd, News};

/// No answer that is asked for comes near it.
const LINE_BYTES_MAX: usize = 16 << 20;

/// How long QEMU may leave a command unread.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

const CAPABILITIES_ID: u64 = 1;
const CONT_ID: u64 = 2;

/// Something that the monitor said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The monitor is there.
    Greeting,
    /// The machine is complete, and QEMU's main loop runs.
    Complete,
    /// Something about the guest.
    News(News),
}

/// The monitor's end of the socket.
#[derive(Debug)]
pub(super) struct Monitor {
    socket: UnixStream,
    partial: Vec<u8>,
    answers: BTreeMap<u64, Result<String, String>>,
    last_id: u64,
    /// Commands whose answers nobody fetches.
    unawaited: Vec<u64>,
    /// Lines that could not be understood.
    pub(super) malformed: u64,
}

impl Monitor {
    /// Takes the host's end of the socket and writes what the guest's start waits for. QEMU finds it there as soon as
    /// it looks; nobody has to wait for anybody. A guest that is `held` is started by somebody else.
    pub(super) fn new(socket: UnixStream, held: bool) -> io::Result<Monitor> {
        socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let answers = BTreeMap::new();
        let mut monitor =
            Monitor { socket, partial: Vec::new(), answers, last_id: 0, unawaited: Vec::new(), malformed: 0 };
        monitor.send("qmp_capabilities", None)?;
        if held {
            monitor.last_id = CONT_ID;
        } else {
            monitor.send("cont", None)?;
        }
        debug_assert_eq!(monitor.last_id, CONT_ID);
        Ok(monitor)
    }

    /// Asks a question in the human monitor's language; the answer comes under the number returned.
    pub(super) fn ask(&mut self, command_line: &str) -> io::Result<u64> {
        self.send("human-monitor-command", Some(json!({ "command-line": command_line })))
    }

    /// Tells QEMU to let the vCPUs run. The answer is of no interest.
    pub(super) fn cont(&mut self) -> io::Result<()> {
        let id = self.send("cont", None)?;
        self.unawaited.push(id);
        Ok(())
    }

    /// Tells QEMU to leave.
    pub(super) fn quit(&mut self) -> io::Result<()> {
        self.send("quit", None).map(drop)
    }

    /// The answer to a question, if it has come: the text, or QEMU's complaint.
    pub(super) fn answer(&mut self, id: u64) -> Option<Result<String, String>> {
        self.answers.remove(&id)
    }

    /// Takes bytes that QEMU said.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut news = Vec::new();
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            if self.partial.len() + piece.len() > LINE_BYTES_MAX {
                self.partial.clear();
                self.malformed += 1;
            }
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.partial);
                news.extend(self.take_line(&line));
            }
        }
        news
    }

    fn send(&mut self, command: &str, arguments: Option<Value>) -> io::Result<u64> {
        self.last_id += 1;
        let mut message = json!({ "execute": command, "id": self.last_id });
        if let Some(arguments) = arguments {
            message["arguments"] = arguments;
        }
        let mut line = serde_json::to_vec(&message)?;
        line.push(b'\n');
        self.socket.write_all(&line)?;
        Ok(self.last_id)
    }

    fn take_line(&mut self, line: &[u8]) -> Option<Event> {
        let Ok(Value::Object(message)) = serde_json::from_slice(line) else {
            self.malformed += 1;
            return None;
        };
        if message.contains_key("QMP") {
            return Some(Event::Greeting);
        }
        if let Some(event) = message.get("event").and_then(Value::as_str) {
            let reason = message.get("data").and_then(|data| data.get("reason")).and_then(Value::as_str);
            return match event {
                "RESUME" => Some(Event::News(News::Running)),
                "STOP" => Some(Event::News(News::Stopped)),
                "SHUTDOWN" => Some(Event::News(News::Off(off(reason.unwrap_or("unknown"))))),
                "GUEST_PANICKED" => Some(Event::News(News::Panicked)),
                _ => None,
            };
        }
        let id = message.get("id").and_then(Value::as_u64)?;
        let answer = match (message.get("return"), message.get("error")) {
            (Some(text), None) => Ok(text.as_str().unwrap_or_default().to_owned()),
            (_, Some(error)) => Err(error["desc"].as_str().unwrap_or("no reason given").to_owned()),
            (None, None) => Err("neither answer nor error".to_owned()),
        };
        if self.unawaited.contains(&id) {
            self.unawaited.retain(|&unawaited| unawaited != id);
            return None;
        }
        if id > CONT_ID {
            self.answers.insert(id, answer);
            return None;
        }
        (id == CAPABILITIES_ID && answer.is_ok()).then_some(Event::Complete)
    }
}

/// QEMU's word for why a guest is at its end (`ShutdownCause` in its qapi/run-state.json).
fn off(reason: &str) -> GuestEnd {
    match reason {
        "guest-reset" => GuestEnd::Reset,
        "guest-shutdown" => GuestEnd::PowerOff,
        "guest-panic" => GuestEnd::Panic,
        "host-signal" | "host-ui" | "host-qmp-quit" => GuestEnd::Asked,
        other => GuestEnd::Other(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    fn monitor() -> (Monitor, BufReader<UnixStream>) {
        let (ours, qemus) = UnixStream::pair().unwrap();
        (Monitor::new(ours, false).unwrap(), BufReader::new(qemus))
    }

    fn said(qemu: &mut BufReader<UnixStream>) -> Value {
        let mut line = String::new();
        qemu.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn the_start_waits_in_the_socket() {
        let (_monitor, mut qemu) = monitor();
        assert_eq!(said(&mut qemu)["execute"], "qmp_capabilities");
        assert_eq!(said(&mut qemu)["execute"], "cont");
    }

    #[test]
    fn a_guest_that_is_held_is_started_later() {
        let (ours, qemus) = UnixStream::pair().unwrap();
        let (mut monitor, mut qemu) = (Monitor::new(ours, true).unwrap(), BufReader::new(qemus));
        assert_eq!(said(&mut qemu)["execute"], "qmp_capabilities");
        let first = monitor.ask("x").unwrap();
        assert_eq!(said(&mut qemu)["execute"], "human-monitor-command");
        monitor.feed(format!("{{\"return\": \"text\", \"id\": {first}}}\n").as_bytes());
        assert_eq!(monitor.answer(first), Some(Ok("text".to_owned())));
    }

    #[test]
    fn a_boot_is_told_as_it_goes() {
        let (mut monitor, _qemu) = monitor();
        let text = "{\"QMP\": {\"version\": {}, \"capabilities\": [\"oob\"]}}\r\n{\"return\": {}, \"id\": 1}\r\n\
                    {\"timestamp\": {}, \"event\": \"RESUME\"}\r\n{\"return\": {}, \"id\": 2}\r\n\
                    {\"event\": \"STOP\"}\r\n\
                    {\"event\": \"RTC_CHANGE\", \"data\": {\"offset\": 1}}\r\nnonsense\r\n\
                    {\"event\": \"SHUTDOWN\", \"data\": {\"guest\": true, \"reason\": \"guest-reset\"}}\r\n";
        let news = [News::Running, News::Stopped, News::Off(GuestEnd::Reset)].map(Event::News);
        let expected: Vec<Event> = [Event::Greeting, Event::Complete].into_iter().chain(news).collect();
        assert_eq!(monitor.feed(text.as_bytes()), expected);
        assert_eq!(monitor.malformed, 1);
        // The same, a byte at a time.
        let (mut monitor, _qemu) = self::monitor();
        let news: Vec<Event> = text.bytes().flat_map(|byte| monitor.feed(&[byte])).collect();
        assert_eq!(news, expected);
    }

    #[test]
    fn each_end_has_its_name() {
        let reasons = ["guest-reset", "guest-shutdown", "guest-panic", "host-signal", "host-error"];
        let ends = [
            GuestEnd::Reset,
            GuestEnd::PowerOff,
            GuestEnd::Panic,
            GuestEnd::Asked,
            GuestEnd::Other("host-error".to_owned()),
        ];
        assert_eq!(reasons.map(off), ends);
    }

    #[test]
    fn answers_find_their_questions() {
        let (mut monitor, mut qemu) = monitor();
        let (first, second) = (monitor.ask("info mtree -f").unwrap(), monitor.ask("x").unwrap());
        let asked = std::iter::repeat_with(|| said(&mut qemu)).nth(2).unwrap();
        assert_eq!(asked["arguments"]["command-line"], "info mtree -f");
        assert_eq!(asked["id"], first);
        assert_eq!(monitor.answer(first), None);
        let line = format!(
            "{{\"error\": {{\"class\": \"GenericError\", \"desc\": \"no\"}}, \"id\": {second}}}\n\
             {{\"return\": \"text\", \"id\": {first}}}\n"
        );
        monitor.feed(line.as_bytes());
        assert_eq!(monitor.answer(first), Some(Ok("text".to_owned())));
        assert_eq!(monitor.answer(second), Some(Err("no".to_owned())));
    }
}
