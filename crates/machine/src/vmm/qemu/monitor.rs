//! A client of QEMU's monitor protocol (QMP): sends commands, and parses events and answers.
//!
//! Both sides send one JSON document per line (QEMU's docs/interop/qmp-spec). The types of the documents differ between versions, and
//! an event that a later version adds must not end a recording. So every question is one with an answer in text
//! (`human-monitor-command`), and events are recognized by name.
//!
//! This module must not wait for input: the caller feeds bytes as they arrive, and fetches answers later.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::vmm::{GuestEnd, News};

/// Longest line. The answers to bootscope's questions are far shorter.
const MAX_LINE_BYTES: usize = 16 << 20;

/// Longest wait for QEMU to read a command.
const MAX_WRITE_WAIT: Duration = Duration::from_secs(5);

const CAPABILITIES_ID: u64 = 1;
const CONT_ID: u64 = 2;

/// An event from the monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The monitor is ready.
    Greeting,
    /// The machine is complete, and QEMU's main loop runs.
    Complete,
    News(News),
}

/// The monitor's end of the socket.
#[derive(Debug)]
pub(super) struct Monitor {
    socket: UnixStream,
    partial: Vec<u8>,
    answers: BTreeMap<u64, Result<String, String>>,
    last_id: u64,
    /// Commands whose answers are dropped.
    ignored_ids: Vec<u64>,
    /// The number of lines that could not be parsed.
    pub(super) malformed: u64,
}

impl Monitor {
    /// Takes the host's end of the socket and writes the commands that start the guest. QEMU reads them as soon as it is ready, so neither
    /// side waits for the other. If the guest is `held`, the caller starts it later.
    pub(super) fn new(socket: UnixStream, held: bool) -> io::Result<Monitor> {
        socket.set_write_timeout(Some(MAX_WRITE_WAIT))?;
        let answers = BTreeMap::new();
        let mut monitor =
            Monitor { socket, partial: Vec::new(), answers, last_id: 0, ignored_ids: Vec::new(), malformed: 0 };
        monitor.send("qmp_capabilities", None)?;
        if held {
            monitor.last_id = CONT_ID;
        } else {
            monitor.send("cont", None)?;
        }
        debug_assert_eq!(monitor.last_id, CONT_ID);
        Ok(monitor)
    }

    /// Sends a command of the human monitor. The returned number identifies its answer.
    pub(super) fn ask(&mut self, command_line: &str) -> io::Result<u64> {
        self.send("human-monitor-command", Some(json!({ "command-line": command_line })))
    }

    /// Resumes the vCPUs. The answer is dropped.
    pub(super) fn cont(&mut self) -> io::Result<()> {
        let id = self.send("cont", None)?;
        self.ignored_ids.push(id);
        Ok(())
    }

    /// Requests QEMU's end.
    pub(super) fn quit(&mut self) -> io::Result<()> {
        self.send("quit", None).map(drop)
    }

    /// The answer to a command, if it has arrived: the text, or QEMU's error message.
    pub(super) fn answer(&mut self, id: u64) -> Option<Result<String, String>> {
        self.answers.remove(&id)
    }

    /// Parses bytes from QEMU, and returns the events of all complete lines.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            if self.partial.len() + piece.len() > MAX_LINE_BYTES {
                self.partial.clear();
                self.malformed += 1;
            }
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.partial);
                events.extend(self.take_line(&line));
            }
        }
        events
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
                "SHUTDOWN" => Some(Event::News(News::Off(guest_end(reason.unwrap_or("unknown"))))),
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
        if self.ignored_ids.contains(&id) {
            self.ignored_ids.retain(|&ignored| ignored != id);
            return None;
        }
        if id > CONT_ID {
            self.answers.insert(id, answer);
            return None;
        }
        (id == CAPABILITIES_ID && answer.is_ok()).then_some(Event::Complete)
    }
}

/// Translates QEMU's reason for the end of a guest (`ShutdownCause` in its qapi/run-state.json).
fn guest_end(reason: &str) -> GuestEnd {
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

    fn next_command(qemu: &mut BufReader<UnixStream>) -> Value {
        let mut line = String::new();
        qemu.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn the_start_waits_in_the_socket() {
        let (_monitor, mut qemu) = monitor();
        assert_eq!(next_command(&mut qemu)["execute"], "qmp_capabilities");
        assert_eq!(next_command(&mut qemu)["execute"], "cont");
    }

    #[test]
    fn a_guest_that_is_held_is_started_later() {
        let (ours, qemus) = UnixStream::pair().unwrap();
        let (mut monitor, mut qemu) = (Monitor::new(ours, true).unwrap(), BufReader::new(qemus));
        assert_eq!(next_command(&mut qemu)["execute"], "qmp_capabilities");
        let first = monitor.ask("x").unwrap();
        assert_eq!(next_command(&mut qemu)["execute"], "human-monitor-command");
        monitor.feed(format!("{{\"return\": \"text\", \"id\": {first}}}\n").as_bytes());
        assert_eq!(monitor.answer(first), Some(Ok("text".to_owned())));
    }

    #[test]
    fn events_are_parsed_in_order() {
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
    fn each_shutdown_reason_is_translated() {
        let reasons = ["guest-reset", "guest-shutdown", "guest-panic", "host-signal", "host-error"];
        let ends = [
            GuestEnd::Reset,
            GuestEnd::PowerOff,
            GuestEnd::Panic,
            GuestEnd::Asked,
            GuestEnd::Other("host-error".to_owned()),
        ];
        assert_eq!(reasons.map(guest_end), ends);
    }

    #[test]
    fn answers_find_their_questions() {
        let (mut monitor, mut qemu) = monitor();
        let (first, second) = (monitor.ask("info mtree -f").unwrap(), monitor.ask("x").unwrap());
        let command = std::iter::repeat_with(|| next_command(&mut qemu)).nth(2).unwrap();
        assert_eq!(command["arguments"]["command-line"], "info mtree -f");
        assert_eq!(command["id"], first);
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
