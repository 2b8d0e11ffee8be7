//! Parses the output of cloud-hypervisor's event monitor (`--event-monitor fd=N`), a sequence of JSON objects:
//! ```text
//! {"timestamp": {"secs": 0, "nanos": 528803}, "source": "vmm", "event": "starting", "properties": null}
//! ```
//! Its stamps count from its own start. bootscope uses the arrival instead, which is on the clock of all other evidence.

use serde::Deserialize;
use serde_json::error::Category;

/// Longest incomplete object that is kept.
const MAX_OBJECT_BYTES: usize = 64 << 10;

/// A change of the machine that an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MachineEvent {
    /// cloud-hypervisor runs.
    Runs,
    /// The machine is described, and is now made.
    Booting,
    /// All devices are made, the kernel is loaded, and the vCPUs were started.
    Booted,
    /// The guest reset: cloud-hypervisor ends this machine, and makes another one in which the guest starts again.
    Resets,
    /// The machine was switched off, by the guest or because a vCPU cannot go on.
    Off,
    /// The guest reports that it panicked.
    Panicked,
}

#[derive(Deserialize)]
struct Event {
    source: String,
    event: String,
}

impl Event {
    fn machine_event(&self) -> Option<MachineEvent> {
        Some(match (&*self.source, &*self.event) {
            ("vmm", "starting") => MachineEvent::Runs,
            ("vm", "booting") => MachineEvent::Booting,
            ("vm", "booted") => MachineEvent::Booted,
            ("vm", "rebooting") => MachineEvent::Resets,
            ("vm", "shutdown") => MachineEvent::Off,
            ("guest", "panic") => MachineEvent::Panicked,
            _ => return None,
        })
    }
}

/// A parser that keeps the bytes of an incomplete object.
#[derive(Debug, Default)]
pub(super) struct Events {
    rest: Vec<u8>,
}

impl Events {
    /// Parses bytes that arrived, which may be cut anywhere, and returns the changes in them. Anything but an event is skipped, up to the
    /// end of its line.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<MachineEvent> {
        self.rest.extend_from_slice(bytes);
        let mut all = Vec::new();
        loop {
            let mut objects = serde_json::Deserializer::from_slice(&self.rest).into_iter::<Event>();
            let next = objects.next();
            let used = objects.byte_offset();
            match next {
                None => {
                    self.rest.clear();
                    return all;
                }
                Some(Ok(event)) => {
                    all.extend(event.machine_event());
                    self.rest.drain(..used);
                }
                Some(Err(error)) if error.classify() == Category::Eof && self.rest.len() <= MAX_OBJECT_BYTES => {
                    return all;
                }
                Some(Err(_)) => {
                    let end = memchr::memchr(b'\n', &self.rest).map_or(self.rest.len(), |at| at + 1);
                    self.rest.drain(..end);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of version 53 for a guest that resets by the keyboard controller, with the second start of that guest.
    const RESETS: &[u8] = include_bytes!("events-reset.json");
    /// The same for a guest that switches its machine off.
    const OFF: &[u8] = include_bytes!("events-off.json");

    #[test]
    fn a_guest_that_resets_starts_again() {
        let all = [
            MachineEvent::Runs,
            MachineEvent::Booting,
            MachineEvent::Booted,
            MachineEvent::Resets,
            MachineEvent::Resets,
        ];
        assert_eq!(Events::default().feed(RESETS), all);
        let mut events = Events::default();
        let by_one: Vec<MachineEvent> = RESETS.chunks(1).flat_map(|byte| events.feed(byte)).collect();
        assert_eq!(by_one, all, "in whatever pieces");
        assert!(events.rest.iter().all(u8::is_ascii_whitespace));
    }

    #[test]
    fn a_guest_switches_its_machine_off() {
        assert_eq!(
            Events::default().feed(OFF),
            [MachineEvent::Runs, MachineEvent::Booting, MachineEvent::Booted, MachineEvent::Off]
        );
    }

    #[test]
    fn text_that_is_no_event_is_skipped() {
        let event = r#"{"timestamp":{"secs":0,"nanos":1},"source":"vm","event":"booted","properties":{"a":"b"}}"#;
        for noise in
            ["oops\n", "[1, 2]\n", "{\"source\": 1}\n", "\u{0}\u{7f}\n", "}}}\n", "{\"source\": \"vm\"}\n", "\n\n"]
        {
            let mut events = Events::default();
            assert_eq!(events.feed(format!("{noise}{event}\n\n").as_bytes()), [MachineEvent::Booted], "{noise:?}");
        }
        assert_eq!(Events::default().feed(br#"{"source": "vm", "event": "resized"}"#), []);
    }

    #[test]
    fn an_object_without_end_is_not_kept() {
        let mut events = Events::default();
        assert_eq!(events.feed(b"{\"source\": \""), []);
        for _ in 0..64 {
            assert_eq!(events.feed(&[b'x'; 4096]), []);
            assert!(events.rest.len() <= MAX_OBJECT_BYTES + 4096);
        }
    }
}
