//! What cloud-hypervisor's event monitor says (`--event-monitor fd=N`): JSON objects, one behind the other.
//! ```text
//! {"timestamp": {"secs": 0, "nanos": 528803}, "source": "vmm", "event": "starting", "properties": null}
//! ```
//! Its stamps count from its own start. bootscope takes the arrival instead, which is on the clock of everything else.

use serde::Deserialize;
use serde_json::error::Category;

/// So much of an object whose end does not come is kept.
const OBJECT_BYTES_MAX: usize = 64 << 10;

/// What an event tells of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// cloud-hypervisor runs.
    Runs,
    /// The machine is described, and is now made.
    Booting,
    /// All devices are made, the kernel is loaded, the vCPUs were started.
    Booted,
    /// The guest reset: cloud-hypervisor ends this machine, and makes another one for the guest to start anew.
    Resets,
    /// The machine was switched off, by the guest or because a vCPU cannot go on.
    Off,
    /// The guest says that it panicked.
    Panicked,
}

#[derive(Deserialize)]
struct Event {
    source: String,
    event: String,
}

impl Event {
    fn told(&self) -> Option<Told> {
        Some(match (&*self.source, &*self.event) {
            ("vmm", "starting") => Told::Runs,
            ("vm", "booting") => Told::Booting,
            ("vm", "booted") => Told::Booted,
            ("vm", "rebooting") => Told::Resets,
            ("vm", "shutdown") => Told::Off,
            ("guest", "panic") => Told::Panicked,
            _ => return None,
        })
    }
}

/// What has arrived of an object that is not whole.
#[derive(Debug, Default)]
pub(super) struct Events {
    rest: Vec<u8>,
}

impl Events {
    /// Takes what just arrived, in whatever pieces; what the events in it tell. What is no event is passed over, up to the end of its
    /// line.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Told> {
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
                    all.extend(event.told());
                    self.rest.drain(..used);
                }
                Some(Err(error)) if error.classify() == Category::Eof && self.rest.len() <= OBJECT_BYTES_MAX => {
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

    /// Version 53's own words for a guest that resets by the keyboard controller, with the second start of that guest.
    const RESETS: &[u8] = include_bytes!("events-reset.json");
    /// The same for a guest that switches its machine off.
    const OFF: &[u8] = include_bytes!("events-off.json");

    #[test]
    fn a_guest_that_resets_starts_anew() {
        let all = [Told::Runs, Told::Booting, Told::Booted, Told::Resets, Told::Resets];
        assert_eq!(Events::default().feed(RESETS), all);
        let mut events = Events::default();
        let by_one: Vec<Told> = RESETS.chunks(1).flat_map(|byte| events.feed(byte)).collect();
        assert_eq!(by_one, all, "in whatever pieces");
        assert!(events.rest.iter().all(u8::is_ascii_whitespace));
    }

    #[test]
    fn a_guest_switches_its_machine_off() {
        assert_eq!(Events::default().feed(OFF), [Told::Runs, Told::Booting, Told::Booted, Told::Off]);
    }

    #[test]
    fn what_is_no_event_is_passed_over() {
        let event = r#"{"timestamp":{"secs":0,"nanos":1},"source":"vm","event":"booted","properties":{"a":"b"}}"#;
        for noise in
            ["oops\n", "[1, 2]\n", "{\"source\": 1}\n", "\u{0}\u{7f}\n", "}}}\n", "{\"source\": \"vm\"}\n", "\n\n"]
        {
            let mut events = Events::default();
            assert_eq!(events.feed(format!("{noise}{event}\n\n").as_bytes()), [Told::Booted], "{noise:?}");
        }
        assert_eq!(Events::default().feed(br#"{"source": "vm", "event": "resized"}"#), []);
    }

    #[test]
    fn an_object_without_end_is_not_kept() {
        let mut events = Events::default();
        assert_eq!(events.feed(b"{\"source\": \""), []);
        for _ in 0..64 {
            assert_eq!(events.feed(&[b'x'; 4096]), []);
            assert!(events.rest.len() <= OBJECT_BYTES_MAX + 4096);
        }
    }
}
