//! Where the vCPUs are while the guest says nothing: they are stopped for a moment, not the guest, and their stacks are read.
//!
//! [`SilenceWatch`] decides when: once the console has said nothing for so long, and again each time that the silence has
//! become half as long again, so that a silence of any length costs a few stops. Silence is of the host's time, because
//! the host stamps what the console says. Each stop costs the guest time, which is measured and kept beside it.
//!
//! A gdbstub that fails ends the stops and not the boot: the caller lets the vCPUs run.

mod names;
mod stack;
mod text;

use std::collections::BTreeSet;

use crate::arch::Arch;
use crate::gdb::{Client, GdbError};
pub(crate) use names::Names;
use stack::{Stack, Walker};
pub(crate) use text::FILE;

/// So many stops within one silence: from 100 ms on, these reach to 18 minutes.
const STOPS_OF_ONE_MAX: usize = 24;
/// So many of a boot.
const STOPS_MAX: usize = 400;

/// The vCPUs, stopped once.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stop {
    at_ns: i64,
    /// How long they stood, at most: from before they were told to stop until they were told to go on.
    stood_ns: i64,
    cpus: Vec<Stack>,
}

/// A time in which the console said nothing, and the stops in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Silence {
    from_ns: i64,
    until_ns: i64,
    stops: Vec<Stop>,
}

/// Watches the console of one boot.
#[derive(Debug)]
pub(crate) struct SilenceWatch {
    after_ns: i64,
    /// None since it failed.
    client: Option<Client>,
    walker: Walker,
    /// Since when it has been silent, once the vCPUs run.
    since_ns: Option<i64>,
    next_ns: i64,
    /// The stops of the silence of now.
    stops: Vec<Stop>,
    silences: Vec<Silence>,
    stops_before: usize,
    remarks: Vec<String>,
}

impl SilenceWatch {
    /// Stops the vCPUs by this client once there was silence for so long.
    pub(crate) fn new(after_ms: u64, client: Option<Client>, arch: &'static Arch) -> SilenceWatch {
        let remarks =
            if client.is_some() { Vec::new() } else { vec!["no stop could be made: there is no gdbstub".to_owned()] };
        SilenceWatch {
            after_ns: i64::try_from(after_ms).unwrap_or(i64::MAX / 2_000_000).saturating_mul(1_000_000),
            client,
            walker: Walker::new(arch),
            since_ns: None,
            next_ns: i64::MAX,
            stops: Vec::new(),
            silences: Vec::new(),
            stops_before: 0,
            remarks,
        }
    }

    /// The vCPUs began to run, or the console said something, at this time.
    pub(crate) fn heard(&mut self, at_ns: i64) {
        self.close(at_ns);
        self.since_ns = Some(at_ns);
        self.next_ns = at_ns.saturating_add(self.after_ns);
    }

    /// When the vCPUs are to be stopped next, if nothing is said until then.
    pub(crate) fn next_ns(&self) -> Option<i64> {
        let spent = self.stops.len() >= STOPS_OF_ONE_MAX || self.stops_before + self.stops.len() >= STOPS_MAX;
        (self.client.is_some() && self.since_ns.is_some() && !spent).then_some(self.next_ns)
    }

    /// Stops the vCPUs, reads their stacks, and lets them run. False if they may stand still: there is no other stop then.
    #[must_use]
    pub(crate) fn stop(&mut self, now_ns: &dyn Fn() -> i64) -> bool {
        let (Some(client), Some(since_ns)) = (&mut self.client, self.since_ns) else { return true };
        let at_ns = now_ns();
        match stacks(client, &mut self.walker) {
            Ok(cpus) => {
                let stood_ns = now_ns() - at_ns;
                self.stops.push(Stop { at_ns, stood_ns, cpus });
                // What the stop itself took is no reason for the next.
                self.next_ns = (at_ns + (at_ns - since_ns) / 2).max(at_ns + stood_ns.saturating_mul(10));
                if self.stops_before + self.stops.len() == STOPS_MAX {
                    self.remarks.push(format!("there is no stop after the first {STOPS_MAX}"));
                }
                true
            }
            Err(error) => {
                self.client = None;
                self.remarks.push(format!("there is no stop after {} ms: {error}", at_ns / 1_000_000));
                false
            }
        }
    }

    /// All that was seen, as the file that the recording keeps. `names` is made from the calls that were seen.
    pub(crate) fn finish(mut self, now_ns: i64, names: impl FnOnce(&BTreeSet<u64>) -> Names) -> String {
        self.close(now_ns);
        let stacks = self.silences.iter().flat_map(|silence| &silence.stops).flat_map(|stop| &stop.cpus);
        let called: BTreeSet<u64> = stacks.flat_map(|stack| &stack.returns).filter_map(|found| found.called).collect();
        let names = if self.silences.is_empty() { Names::default() } else { names(&called) };
        text::write(self.after_ns, &self.silences, &names, &self.remarks)
    }

    fn close(&mut self, at_ns: i64) {
        if let (Some(from_ns), false) = (self.since_ns, self.stops.is_empty()) {
            self.stops_before += self.stops.len();
            self.silences.push(Silence { from_ns, until_ns: at_ns, stops: std::mem::take(&mut self.stops) });
        }
    }
}

/// The stack of each vCPU, all of which stand meanwhile and run when this is done.
fn stacks(client: &mut Client, walker: &mut Walker) -> Result<Vec<Stack>, GdbError> {
    client.stop()?;
    let mut stacks = Vec::new();
    for thread in client.threads()? {
        let registers = client.registers(&thread)?;
        let at = (walker.arch().registers)(&registers);
        let at = at.ok_or_else(|| GdbError::Odd(format!("{} bytes of registers", registers.len())))?;
        stacks.push(walker.walk(at, client)?);
    }
    client.resume()?;
    Ok(stacks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::ARCH;
    use crate::gdb::tests::scripted;

    const MS: i64 = 1_000_000;

    /// A stub whose one vCPU is still in firmware, for so many stops.
    fn in_firmware(stops: usize) -> Client {
        let registers = format!("+{}", packet(&"00".repeat(600)));
        let registers: &'static str = registers.leak();
        let stop = [
            ("\x03", "$T02thread:01;#04"),
            ("qfThreadInfo", "+$m01#ce"),
            ("qsThreadInfo", "+$l#6c"),
            ("Hg01", "+$OK#9a"),
            ("g", registers),
            ("c", "+"),
        ];
        scripted(&stop.repeat(stops))
    }

    fn packet(data: &str) -> String {
        format!("${data}#{:02x}", data.bytes().fold(0u8, u8::wrapping_add))
    }

    #[test]
    fn one_silence_is_stopped_in_ever_later() {
        let mut watch = SilenceWatch::new(100, Some(in_firmware(4)), &ARCH);
        assert_eq!(watch.next_ns(), None, "nothing runs yet");
        watch.heard(50 * MS);
        for due in [150, 200, 275] {
            assert_eq!(watch.next_ns(), Some(due * MS));
            assert!(watch.stop(&|| due * MS));
        }
        watch.heard(300 * MS);
        assert_eq!(watch.next_ns(), Some(400 * MS), "what was said begins another");
        assert!(watch.stop(&|| 400 * MS));
        let text = watch.finish(500 * MS, |_| Names::default());
        let silences: Vec<&str> = text.lines().filter(|line| line.starts_with("silence ")).collect();
        assert_eq!(silences, ["silence 50000000 300000000", "silence 300000000 500000000"], "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("stop ")).count(), 4);
        assert!(text.contains("cpu 0 in-firmware none"), "{text}");
    }

    #[test]
    fn stops_are_bounded() {
        let mut watch = SilenceWatch::new(100, Some(in_firmware(STOPS_OF_ONE_MAX + 1)), &ARCH);
        watch.heard(0);
        let mut stops = 0;
        while let Some(due) = watch.next_ns() {
            assert!(watch.stop(&|| due));
            stops += 1;
        }
        assert_eq!(stops, STOPS_OF_ONE_MAX);
    }

    #[test]
    fn a_stub_that_goes_away_ends_the_stops_and_what_was_seen_is_kept() {
        let mut watch = SilenceWatch::new(100, Some(in_firmware(1)), &ARCH);
        watch.heard(0);
        assert!(watch.stop(&|| 100 * MS));
        assert!(!watch.stop(&|| 150 * MS), "it may stand still");
        assert_eq!(watch.next_ns(), None);
        let text = watch.finish(1000 * MS, |_| Names::default());
        assert!(text.contains("no stop after 150 ms: the gdbstub closed the connection"), "{text}");
        assert!(text.contains("stop 100000000 "), "{text}");
    }
}
