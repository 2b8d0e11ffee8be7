//! Samples the vCPUs' stacks while the console is silent. The vCPUs are stopped for a moment, without the guest's involvement.
//!
//! [`SilenceWatch`] decides when to stop them: after a given time of silence, and again each time that the silence has grown by half.
//! So a silence of any length costs a few stops. Silence is measured in wall-clock time, because the host stamps the console's output.
//! Each stop costs the guest time, which is measured and recorded.
//!
//! A gdbstub that fails ends the stops, but must not end the boot: the caller resumes the vCPUs. Stops must be short, because the whole
//! recorder waits with the vCPUs.

mod names;
mod stack;
mod text;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::arch::{Arch, Registers};
use crate::gdb::{Client, GdbError, Thread};
pub(crate) use names::Names;
use stack::{Memory, Method, Stack, Walker};
pub(crate) use text::FILE;

/// Largest number of stops in one silence. If the first is at 100 ms, these reach to 18 minutes.
const MAX_STOPS_PER_SILENCE: usize = 24;
/// Largest number of stops in a boot.
const MAX_STOPS: usize = 400;
/// Once the file has this number of lines, there are no more stops. One stop adds at most 2^17 lines, and the file's reader accepts 2^20.
const MAX_LINES: usize = 1 << 19;
/// Largest number of silences without a stop that are kept.
const MAX_UNSTOPPED_SILENCES: usize = 1000;
/// Longest duration of a stop with the reads in it.
const MAX_STOP_TIME: Duration = Duration::from_secs(3);
/// Time that the stub always has to resume the vCPUs, even if the time of the stop is used up.
const RESUME_TIME: Duration = Duration::from_secs(1);

/// A stop of all vCPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stop {
    at_ns: i64,
    /// Upper bound of its duration: from before the command to stop until after the command to resume.
    stood_ns: i64,
    /// The stacks that were read. Some or all are missing if reading failed or took too long.
    cpus: Vec<Stack>,
}

/// A time without output on the console, and the stops in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Silence {
    from_ns: i64,
    until_ns: i64,
    stops: Vec<Stop>,
}

/// The evidence on the stacks against which lists of functions are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OnStacks {
    /// The targets of calls.
    pub(crate) called: BTreeSet<u64>,
    /// True if there are stacks without frame pointers.
    pub(crate) needs_tables: bool,
}

/// Watches the console of one boot.
#[derive(Debug)]
pub(crate) struct SilenceWatch {
    after_ns: i64,
    /// `None` if there is no gdbstub, or it has failed.
    client: Option<Client>,
    walker: Walker,
    /// Longest duration of a stop.
    max_stop_time: Duration,
    has_ended: bool,
    /// The start of the current silence, once the vCPUs run.
    since_ns: Option<i64>,
    next_ns: i64,
    /// The stops in the current silence.
    stops: Vec<Stop>,
    silences: Vec<Silence>,
    stops_before: usize,
    /// The number of lines in the file for all stops so far.
    lines: usize,
    max_lines: usize,
    /// The number of stops that took too long.
    cut_count: usize,
    /// The number of silences without a stop, also those beyond the bound, which are not kept.
    unstopped_count: usize,
    remarks: Vec<String>,
}

impl SilenceWatch {
    /// A watch that stops the vCPUs through this client after `after_ms` of silence.
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
            max_stop_time: MAX_STOP_TIME,
            has_ended: false,
            since_ns: None,
            next_ns: i64::MAX,
            stops: Vec::new(),
            silences: Vec::new(),
            stops_before: 0,
            lines: 0,
            max_lines: MAX_LINES,
            cut_count: 0,
            unstopped_count: 0,
            remarks,
        }
    }

    /// Uses this client for the stops from now on, after other code has finished with it.
    pub(crate) fn set_client(&mut self, client: Client) {
        self.client = Some(client);
        self.remarks.clear();
    }

    /// Notes that the vCPUs began to run, or output arrived on the console, at this time.
    pub(crate) fn heard(&mut self, at_ns: i64) {
        if self.has_ended {
            return;
        }
        self.close(at_ns);
        self.since_ns = Some(at_ns);
        self.next_ns = at_ns.saturating_add(self.after_ns);
    }

    /// Notes the end of the boot, or of its watched part: no silence ends later. Only the first call has an effect.
    pub(crate) fn end(&mut self, at_ns: i64) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.close(at_ns);
            self.since_ns = None;
        }
    }

    /// The time of the next stop, if no output arrives before it.
    pub(crate) fn next_ns(&self) -> Option<i64> {
        let spent = self.stops.len() >= MAX_STOPS_PER_SILENCE || self.stops_before + self.stops.len() >= MAX_STOPS;
        (self.client.is_some() && self.since_ns.is_some() && !spent && self.lines < self.max_lines)
            .then_some(self.next_ns)
    }

    /// Stops the vCPUs, reads their stacks, and resumes them, also if the recording `is_over` before all is read. Returns false if the
    /// vCPUs may still be stopped or may stop later. Then there are no more stops.
    #[must_use]
    pub(crate) fn stop(&mut self, now_ns: &dyn Fn() -> i64, is_over: &mut dyn FnMut() -> bool) -> bool {
        let (Some(client), Some(since_ns)) = (&mut self.client, self.since_ns) else { return true };
        let (at_ns, mut cpus) = (now_ns(), Vec::new());
        let read = read_stacks(client, &mut self.walker, self.max_stop_time, is_over, &mut cpus);
        let stood_ns = now_ns() - at_ns;
        self.lines += 1 + cpus.iter().map(|stack| 2 + stack.returns.len()).sum::<usize>();
        self.stops.push(Stop { at_ns, stood_ns, cpus });
        let at_ms = at_ns / 1_000_000;
        match read {
            Ok(is_whole) => self.cut_count += usize::from(!is_whole),
            Err(error) => {
                self.client = None;
                self.remarks.push(format!("there is no stop after {at_ms} ms: {error}"));
                return false;
            }
        }
        // The duration of this stop must not cause the next one.
        self.next_ns = (at_ns + (at_ns - since_ns) / 2).max(at_ns + stood_ns.saturating_mul(10));
        if self.lines >= self.max_lines {
            self.remarks.push(format!("there is no stop after {at_ms} ms: what was read fills {} lines", self.lines));
        } else if self.stops_before + self.stops.len() == MAX_STOPS {
            self.remarks.push(format!("there is no stop after {at_ms} ms: it was the boot's stop {MAX_STOPS}"));
        } else if self.stops.len() == MAX_STOPS_PER_SILENCE {
            let since_ms = since_ns / 1_000_000;
            self.remarks.push(format!(
                "the silence from {since_ms} ms on has no stop after {at_ms} ms: it was its stop {MAX_STOPS_PER_SILENCE}"
            ));
        }
        true
    }

    /// The silences and stacks as the text of a file in the recording. `names` finds names for the addresses on the stacks.
    pub(crate) fn finish(mut self, names: impl FnOnce(&OnStacks) -> Names) -> String {
        if self.cut_count > 0 {
            let (count, limit) = (self.cut_count, self.max_stop_time.as_secs());
            let why = format!("after {limit} s, or because the recording was ended");
            self.remarks.push(format!("stops that were broken off before all was read, {why}: {count}"));
        }
        if self.unstopped_count > MAX_UNSTOPPED_SILENCES {
            let left = self.unstopped_count - MAX_UNSTOPPED_SILENCES;
            self.remarks.push(format!("{left} later silences are not listed: no stop was made in them"));
        }
        let stacks = || self.silences.iter().flat_map(|silence| &silence.stops).flat_map(|stop| &stop.cpus);
        let returns = stacks().flat_map(|stack| &stack.returns);
        let called: BTreeSet<u64> = returns.filter_map(|word| word.called).collect();
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
            self.unstopped_count += 1;
            if self.unstopped_count > MAX_UNSTOPPED_SILENCES {
                return;
            }
        }
        self.stops_before += stops.len();
        self.silences.push(Silence { from_ns, until_ns: at_ns.max(from_ns), stops });
    }
}

/// Stops all vCPUs, reads the stack of each, and resumes them. Returns true if all stacks were read in time. After an error the vCPUs may
/// still be stopped, or may stop later.
fn read_stacks(
    client: &mut Client,
    walker: &mut Walker,
    limit: Duration,
    is_over: &mut dyn FnMut() -> bool,
    stacks: &mut Vec<Stack>,
) -> Result<bool, GdbError> {
    let deadline = Instant::now() + limit;
    client.end_by(deadline);
    client.stop(is_over)?;
    let is_over = &mut || Instant::now() >= deadline || is_over();
    let read = read_threads(&mut BoundedClient { client, is_over }, walker, stacks);
    if !matches!(read, Ok(()) | Err(GdbError::Cut)) {
        return read.map(|()| true);
    }
    client.end_by(deadline.max(Instant::now() + RESUME_TIME));
    client.resume()?;
    Ok(read.is_ok())
}

fn read_threads(source: &mut BoundedClient<'_>, walker: &mut Walker, stacks: &mut Vec<Stack>) -> Result<(), GdbError> {
    for thread in source.client.threads()? {
        let registers = source.registers(&thread, walker.arch())?;
        let walked = walker.walk(registers, source);
        let is_cut = walked == Err(GdbError::Cut);
        // The vCPU's position is known even then.
        stacks.push(if is_cut {
            Stack { pc: registers.pc, mode: registers.mode, method: Method::Unknown, returns: Vec::new(), top: None }
        } else {
            walked?
        });
        if is_cut {
            return Err(GdbError::Cut);
        }
    }
    Ok(())
}

/// A client whose reads end when the stop has to.
struct BoundedClient<'a> {
    client: &'a mut Client,
    is_over: &'a mut dyn FnMut() -> bool,
}

impl BoundedClient<'_> {
    fn registers(&mut self, thread: &Thread, arch: &Arch) -> Result<Registers, GdbError> {
        self.check_limit()?;
        let registers = self.client.registers(thread)?;
        (arch.registers)(&registers).ok_or_else(|| GdbError::Odd(format!("{} bytes of registers", registers.len())))
    }

    fn check_limit(&mut self) -> Result<(), GdbError> {
        if (self.is_over)() { Err(GdbError::Cut) } else { Ok(()) }
    }
}

impl Memory for BoundedClient<'_> {
    fn read(&mut self, address: u64, length: usize) -> Result<Vec<u8>, GdbError> {
        self.check_limit()?;
        self.client.read(address, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::ARCH;
    use crate::gdb::tests::scripted;

    const MS: i64 = 1_000_000;

    /// A stub for this number of stops, whose one vCPU is still in firmware.
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
    fn stops_in_one_silence_become_rarer() {
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
        let mut watch = SilenceWatch::new(100, Some(in_firmware(MAX_STOPS_PER_SILENCE + 1)), &ARCH);
        watch.heard(0);
        let mut stops = 0;
        while let Some(due) = watch.next_ns() {
            assert!(watch.stop(&|| due, &mut || false));
            stops += 1;
        }
        assert_eq!(stops, MAX_STOPS_PER_SILENCE);
        watch.end(i64::MAX);
        let text = watch.finish(|_| Names::default());
        assert!(text.contains("it was its stop 24"), "{text}");
        let mut watch = SilenceWatch::new(100, Some(in_firmware(MAX_STOPS + 1)), &ARCH);
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
        watch.max_lines = 7;
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
    fn a_stub_that_goes_away_ends_the_stops_and_earlier_ones_are_kept() {
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
    fn a_stop_that_is_cut_keeps_its_stacks_and_resumes_the_vcpus() {
        let mut watch = SilenceWatch::new(100, Some(in_firmware(2)), &ARCH);
        watch.heard(0);
        let mut left = 2;
        let mut ends_at_the_registers = || {
            left -= 1;
            left <= 1
        };
        watch.max_stop_time = Duration::from_secs(60);
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
        watch.max_stop_time = Duration::from_millis(100);
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
        assert_eq!(text.lines().filter(|line| line.starts_with("silence ")).count(), MAX_UNSTOPPED_SILENCES);
        assert!(text.contains("200 later silences are not listed"), "{text}");
    }
}
