//! Where the vCPUs are while the guest says nothing: they are stopped for a moment, not the guest, and their stacks are read.
//!
//! [`SilenceWatch`] decides when: once the console has said nothing for so long, and again each time that the silence has
//! become half as long again, so that a silence of any length costs a few stops. Silence is of the host's time, because
//! the host stamps what the console says. Each stop costs the guest time, which is measured and kept beside it.
//!
//! A gdbstub that fails ends the stops and not the boot: the caller lets the vCPUs run. No stop is long, because all else
//! that watches the boot stands still with the vCPUs.

mod names;
mod stack;
mod text;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::arch::{Arch, Registers};
use crate::gdb::{Client, GdbError, Thread};
pub(crate) use names::Names;
use stack::{How, Memory, Stack, Walker};
pub(crate) use text::FILE;

/// So many stops within one silence: from 100 ms on, these reach to 18 minutes.
const STOPS_OF_ONE_MAX: usize = 24;
/// So many of a boot.
const STOPS_MAX: usize = 400;
/// Once the file has so many lines, there is no other stop. One stop adds 2^17 at most, and its reader takes 2^20.
const LINES_MAX: usize = 1 << 19;
/// So many silences without a stop are kept.
const UNSTOPPED_MAX: usize = 1000;
/// The vCPUs are stopped and read for so long at most.
const STOP_MAX: Duration = Duration::from_secs(3);
/// The stub may take so long to let them run, also where nothing is left of that.
const RESUME_MAX: Duration = Duration::from_secs(1);

/// The vCPUs, stopped once.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stop {
    at_ns: i64,
    /// How long they stood, at most: from before they were told to stop until they were told to go on.
    stood_ns: i64,
    /// Those that were read: fewer, or none, where reading failed or took too long.
    cpus: Vec<Stack>,
}

/// A time in which the console said nothing, and the stops in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Silence {
    from_ns: i64,
    until_ns: i64,
    stops: Vec<Stop>,
}

/// What was seen on the stacks, by which names for them are found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OnStacks {
    /// Where calls lead to.
    pub(crate) called: BTreeSet<u64>,
    /// Whether there are stacks without frame pointers.
    pub(crate) needs_tables: bool,
}

/// Watches the console of one boot.
#[derive(Debug)]
pub(crate) struct SilenceWatch {
    after_ns: i64,
    /// None since it failed, or if there is none.
    client: Option<Client>,
    walker: Walker,
    /// How long a stop may take.
    stop_max: Duration,
    has_ended: bool,
    /// Since when it has been silent, once the vCPUs run.
    since_ns: Option<i64>,
    next_ns: i64,
    /// The stops of the silence of now.
    stops: Vec<Stop>,
    silences: Vec<Silence>,
    stops_before: usize,
    /// Lines that all stops so far take in the file.
    lines: usize,
    lines_max: usize,
    /// Stops that took too long.
    cut: usize,
    /// Silences without a stop; of those beyond the bound only this number is kept.
    unstopped: usize,
    remarks: Vec<String>,
}

impl SilenceWatch {
    /// Stops the vCPUs by this client once there was silence for so long.
    pub(crate) fn new(after_ms: u64, client: Option<Client>, arch: &'static Arch) -> SilenceWatch {
        let remarks = if client.is_some() {
            Vec::new()
        } else {
            vec!["no stop could be made: there was no gdbstub for it".to_owned()]
        };
        SilenceWatch {
            after_ns: i64::try_from(after_ms).unwrap_or(i64::MAX / 2_000_000).saturating_mul(1_000_000),
            client,
            walker: Walker::new(arch),
            stop_max: STOP_MAX,
            has_ended: false,
            since_ns: None,
            next_ns: i64::MAX,
            stops: Vec::new(),
            silences: Vec::new(),
            stops_before: 0,
            lines: 0,
            lines_max: LINES_MAX,
            cut: 0,
            unstopped: 0,
            remarks,
        }
    }

    /// Stops the vCPUs by this client, which somebody else had before.
    pub(crate) fn take_over(&mut self, client: Client) {
        self.client = Some(client);
        self.remarks.clear();
    }

    /// The vCPUs began to run, or the console said something, at this time.
    pub(crate) fn heard(&mut self, at_ns: i64) {
        if self.has_ended {
            return;
        }
        self.close(at_ns);
        self.since_ns = Some(at_ns);
        self.next_ns = at_ns.saturating_add(self.after_ns);
    }

    /// The boot is over, or what is looked at of it: no silence ends later. All but the first call does nothing.
    pub(crate) fn end(&mut self, at_ns: i64) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.close(at_ns);
            self.since_ns = None;
        }
    }

    /// When the vCPUs are to be stopped next, if nothing is said until then.
    pub(crate) fn next_ns(&self) -> Option<i64> {
        let spent = self.stops.len() >= STOPS_OF_ONE_MAX || self.stops_before + self.stops.len() >= STOPS_MAX;
        (self.client.is_some() && self.since_ns.is_some() && !spent && self.lines < self.lines_max)
            .then_some(self.next_ns)
    }

    /// Stops the vCPUs, reads their stacks, and lets them run, also where it `is_over` before all is read. False if they
    /// may stand still or stop later: there is no other stop then.
    #[must_use]
    pub(crate) fn stop(&mut self, now_ns: &dyn Fn() -> i64, is_over: &mut dyn FnMut() -> bool) -> bool {
        let (Some(client), Some(since_ns)) = (&mut self.client, self.since_ns) else { return true };
        let (at_ns, mut cpus) = (now_ns(), Vec::new());
        let read = stacks(client, &mut self.walker, self.stop_max, is_over, &mut cpus);
        let stood_ns = now_ns() - at_ns;
        self.lines += 1 + cpus.iter().map(|stack| 2 + stack.returns.len()).sum::<usize>();
        self.stops.push(Stop { at_ns, stood_ns, cpus });
        let at_ms = at_ns / 1_000_000;
        match read {
            Ok(is_whole) => self.cut += usize::from(!is_whole),
            Err(error) => {
                self.client = None;
                self.remarks.push(format!("there is no stop after {at_ms} ms: {error}"));
                return false;
            }
        }
        // What the stop itself took is no reason for the next.
        self.next_ns = (at_ns + (at_ns - since_ns) / 2).max(at_ns + stood_ns.saturating_mul(10));
        if self.lines >= self.lines_max {
            self.remarks.push(format!("there is no stop after {at_ms} ms: what was read fills {} lines", self.lines));
        } else if self.stops_before + self.stops.len() == STOPS_MAX {
            self.remarks.push(format!("there is no stop after {at_ms} ms: it was the boot's stop {STOPS_MAX}"));
        } else if self.stops.len() == STOPS_OF_ONE_MAX {
            let since_ms = since_ns / 1_000_000;
            self.remarks.push(format!(
                "the silence from {since_ms} ms on has no stop after {at_ms} ms: it was its stop {STOPS_OF_ONE_MAX}"
            ));
        }
        true
    }

    /// All that was seen, as the file that the recording keeps. `names` is made from what was seen.
    pub(crate) fn finish(mut self, names: impl FnOnce(&OnStacks) -> Names) -> String {
        if self.cut > 0 {
            let (cut, limit) = (self.cut, self.stop_max.as_secs());
            let why = format!("after {limit} s, or because the recording was ended");
            self.remarks.push(format!("stops that were broken off before all was read, {why}: {cut}"));
        }
        if self.unstopped > UNSTOPPED_MAX {
            let left = self.unstopped - UNSTOPPED_MAX;
            self.remarks.push(format!("{left} later silences are not listed: no stop was made in them"));
        }
        let stacks = || self.silences.iter().flat_map(|silence| &silence.stops).flat_map(|stop| &stop.cpus);
        let returns = stacks().flat_map(|stack| &stack.returns);
        let called: BTreeSet<u64> = returns.filter_map(|found| found.called).collect();
        let seen = OnStacks { called, needs_tables: stacks().any(|stack| stack.top.is_some()) };
        let mut names = if stacks().next().is_none() { Names::default() } else { names(&seen) };
        let stops = self.silences.iter_mut().flat_map(|silence| &mut silence.stops);
        names.unwind(stops.flat_map(|stop| &mut stop.cpus));
        text::write(self.after_ns, &self.silences, &names, &self.remarks)
    }

    fn close(&mut self, at_ns: i64) {
        let Some(from_ns) = self.since_ns else { return };
        let stops = std::mem::take(&mut self.stops);
        if stops.is_empty() {
            if at_ns - from_ns < self.after_ns {
                return;
            }
            self.unstopped += 1;
            if self.unstopped > UNSTOPPED_MAX {
                return;
            }
        }
        self.stops_before += stops.len();
        self.silences.push(Silence { from_ns, until_ns: at_ns.max(from_ns), stops });
    }
}

/// The stack of each vCPU, all of which stand meanwhile and run when this is done; and whether all was read in time.
/// After an error they may stand, or stop later.
fn stacks(
    client: &mut Client,
    walker: &mut Walker,
    limit: Duration,
    is_over: &mut dyn FnMut() -> bool,
    found: &mut Vec<Stack>,
) -> Result<bool, GdbError> {
    let deadline = Instant::now() + limit;
    client.end_by(deadline);
    client.stop(is_over)?;
    let is_over = &mut || Instant::now() >= deadline || is_over();
    let read = read(&mut Bounded { client, is_over }, walker, found);
    if !matches!(read, Ok(()) | Err(GdbError::Cut)) {
        return read.map(|()| true);
    }
    client.end_by(deadline.max(Instant::now() + RESUME_MAX));
    client.resume()?;
    Ok(read.is_ok())
}

fn read(from: &mut Bounded<'_>, walker: &mut Walker, found: &mut Vec<Stack>) -> Result<(), GdbError> {
    for thread in from.client.threads()? {
        let at = from.registers(&thread, walker.arch())?;
        let walked = walker.walk(at, from);
        let is_cut = walked == Err(GdbError::Cut);
        // Where it was is known all the same.
        found.push(if is_cut {
            Stack { pc: at.pc, mode: at.mode, how: How::Not, returns: Vec::new(), top: None }
        } else {
            walked?
        });
        if is_cut {
            return Err(GdbError::Cut);
        }
    }
    Ok(())
}

/// A stopped machine that is read until it is over.
struct Bounded<'a> {
    client: &'a mut Client,
    is_over: &'a mut dyn FnMut() -> bool,
}

impl Bounded<'_> {
    fn registers(&mut self, thread: &Thread, arch: &Arch) -> Result<Registers, GdbError> {
        self.go_on()?;
        let registers = self.client.registers(thread)?;
        (arch.registers)(&registers).ok_or_else(|| GdbError::Odd(format!("{} bytes of registers", registers.len())))
    }

    fn go_on(&mut self) -> Result<(), GdbError> {
        if (self.is_over)() { Err(GdbError::Cut) } else { Ok(()) }
    }
}

impl Memory for Bounded<'_> {
    fn read(&mut self, address: u64, length: usize) -> Result<Vec<u8>, GdbError> {
        self.go_on()?;
        self.client.read(address, length)
    }
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
            assert!(watch.stop(&|| due * MS, &mut || false));
        }
        watch.heard(300 * MS);
        assert_eq!(watch.next_ns(), Some(400 * MS), "what was said begins another");
        assert!(watch.stop(&|| 400 * MS, &mut || false));
        watch.end(500 * MS);
        let text = watch.finish(|_| Names::default());
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
            assert!(watch.stop(&|| due, &mut || false));
            stops += 1;
        }
        assert_eq!(stops, STOPS_OF_ONE_MAX);
        watch.end(i64::MAX);
        let text = watch.finish(|_| Names::default());
        assert!(text.contains("it was its stop 24"), "{text}");
        let mut watch = SilenceWatch::new(100, Some(in_firmware(STOPS_MAX + 1)), &ARCH);
        let mut now_ns = 0;
        watch.heard(0);
        while let Some(due) = watch.next_ns() {
            assert!(watch.stop(&|| due, &mut || false));
            now_ns = due;
            watch.heard(due);
        }
        assert_eq!(now_ns, 400 * 100 * MS);
        assert!(watch.finish(|_| Names::default()).contains("it was the boot's stop 400"));
    }

    #[test]
    fn the_file_is_bounded() {
        let mut watch = SilenceWatch::new(100, Some(in_firmware(5)), &ARCH);
        watch.lines_max = 7;
        watch.heard(0);
        for due in [100, 150, 225] {
            assert_eq!(watch.next_ns(), Some(due * MS));
            assert!(watch.stop(&|| due * MS, &mut || false));
        }
        assert_eq!(watch.next_ns(), None);
        watch.heard(300 * MS);
        assert_eq!(watch.next_ns(), None, "also in the next silence");
        let text = watch.finish(|_| Names::default());
        assert!(text.contains("no stop after 225 ms: what was read fills 9 lines"), "{text}");
        assert_eq!(text.lines().filter(|line| !line.starts_with(['#']) && !line.starts_with("silence")).count(), 9);
    }

    #[test]
    fn a_stub_that_goes_away_ends_the_stops_and_what_was_seen_is_kept() {
        let mut watch = SilenceWatch::new(100, Some(in_firmware(1)), &ARCH);
        watch.heard(0);
        assert!(watch.stop(&|| 100 * MS, &mut || false));
        assert!(!watch.stop(&|| 150 * MS, &mut || false), "it may stand still");
        assert_eq!(watch.next_ns(), None);
        watch.end(1000 * MS);
        let text = watch.finish(|_| Names::default());
        assert!(text.contains("no stop after 150 ms: the gdbstub closed the connection"), "{text}");
        assert!(text.contains("stop 100000000 "), "{text}");
    }

    #[test]
    fn a_stop_that_takes_too_long_or_is_ended_keeps_what_it_read_and_lets_the_vcpus_run() {
        let mut watch = SilenceWatch::new(100, Some(in_firmware(2)), &ARCH);
        watch.heard(0);
        let mut left = 2;
        let mut ends_at_the_registers = || {
            left -= 1;
            left <= 1
        };
        watch.stop_max = Duration::from_secs(60);
        assert!(watch.stop(&|| 100 * MS, &mut || false));
        watch.client = Some(scripted(&[
            ("\x03", "$T02thread:01;#04"),
            ("qfThreadInfo", "+$m01#ce"),
            ("qsThreadInfo", "+$l#6c"),
            ("c", "+"),
        ]));
        assert!(watch.stop(&|| 150 * MS, &mut ends_at_the_registers), "it runs again");
        assert!(watch.client.is_some(), "later stops go on");
        let (ours, _silent) = std::os::unix::net::UnixStream::pair().unwrap();
        watch.client = Some(Client::new(ours).unwrap());
        watch.stop_max = Duration::from_millis(100);
        let (begun, now) = (Instant::now(), std::cell::Cell::new(200 * MS));
        let counted = || {
            now.set(now.get() + 7 * MS);
            now.get()
        };
        assert!(!watch.stop(&counted, &mut || false));
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        watch.end(300 * MS);
        let text = watch.finish(|_| Names::default());
        assert!(text.contains("or because the recording was ended: 1"), "{text}");
        assert!(text.contains(&format!("stop {} {}\n", 207 * MS, 7 * MS)), "a stop that failed took time too: {text}");
    }

    #[test]
    fn nothing_is_due_and_no_silence_ends_after_the_end() {
        let mut watch = SilenceWatch::new(100, Some(in_firmware(1)), &ARCH);
        watch.heard(0);
        watch.end(150 * MS);
        assert_eq!(watch.next_ns(), None);
        watch.heard(200 * MS);
        watch.end(900 * MS);
        assert_eq!(watch.next_ns(), None);
        let text = watch.finish(|_| Names::default());
        assert!(text.ends_with("\nsilence 0 150000000\n"), "{text}");
    }

    #[test]
    fn silences_without_a_stop_are_kept_if_they_are_long_enough_and_bounded() {
        let mut watch = SilenceWatch::new(100, None, &ARCH);
        (0..=1200).for_each(|n| watch.heard(n * 100 * MS));
        watch.heard(1200 * 100 * MS + 99 * MS);
        let text = watch.finish(|_| panic!("there is nothing to name"));
        assert_eq!(text.lines().filter(|line| line.starts_with("silence ")).count(), UNSTOPPED_MAX);
        assert!(text.contains("200 later silences are not listed"), "{text}");
    }
}
