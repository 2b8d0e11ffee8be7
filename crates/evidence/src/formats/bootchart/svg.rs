//! Reads systemd-bootchart's picture of a boot. The program keeps no samples, and its SVG has their figures as lengths.
//!
//! ```text
//! <!-- This file is a bootchart SVG file. …
//! <!-- hz="25.000000" n="120" -->               version 234: samples in a second; <!-- Frequency=25.000000 --> since 235
//! <!-- x="100.000000" y="20.000000" -->         pixels of a second;               <!-- ScaleX=100.000000 -->
//! <!-- rel="0" f="1" -->                        1: times count from its start;    <!-- Relative=0 -->
//! <rect class="box" x="0.000" y="0" width="795.704" …             the last sample is at the box's end
//! <!-- thread="acpi_init" time="0.401" elapsed="12011" result="0" -->      an initcall out of the kernel's log
//! <!-- gzip [95] ppid=93 runtime=499.526ms -->  a process, its parent, and its total CPU time
//!   <rect class="ps" x="4.400" … width="54.200" height="20.000" />         first seen, last seen
//!     <rect class="wait" x="4.723" … width="4.042" height="5.527" />       between two samples, as a share of the bar's
//!     <rect class="cpu" x="4.723" … width="4.042" height="16.859" />       height: could run and had no CPU; had a CPU
//!   <text …><![CDATA[gzip]]> [95]<tspan …        its name as it was; in the comment "--" is "-_"
//! <text …>Log start time: 3.095s</text>         the kernel's clock at its start
//! ```
//! (systemd-bootchart, `src/svg.c` and `src/bootchart.c`.) Stretches in which a process used less than a tenth of a CPU
//! are not drawn. A process has only its last name. A process that the program filtered out has no bar, and so no time.
//!
//! The figures of the whole machine (CPUs, disks, memory) are not used, nor are the kernel's initcalls, which are in
//! whole ms: the kernel's log has them to the µs.

use super::NAME;
use super::parse::is_picture;
use super::samples::{PROCESSES_MAX, Process, Samples, Use};
use crate::input::text::{Line, Lines, lossy, number, shorten, whole_number};
use memchr::memmem;
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// Larger times are errors: no boot takes that long.
const SECONDS_MAX: f64 = 1e7;

/// The scale of a picture.
#[derive(Default)]
struct Scale {
    pixels_a_second: Option<f64>,
    hz: Option<f64>,
    is_relative: bool,
    started: Option<f64>,
}

impl Scale {
    /// Converts a position in the picture to a time on the kernel's clock.
    fn at(&self, pixels: f64) -> Option<Ns> {
        let from = if self.is_relative { self.started.unwrap_or(0.0) } else { 0.0 };
        seconds(from + pixels / self.pixels_a_second?)
    }
}

fn seconds(seconds: f64) -> Option<Ns> {
    #[allow(clippy::cast_possible_truncation)] // It is in range.
    (0.0..SECONDS_MAX).contains(&seconds).then(|| Ns((seconds * 1e9).round() as i64))
}

/// A box: its left edge, width and height, in pixels.
#[derive(Clone, Copy)]
struct Rect {
    x: f64,
    width: f64,
    height: f64,
}

/// The figure that follows `before` in a line.
fn figure(line: &[u8], before: &[u8]) -> Option<f64> {
    let rest = &line[memmem::find(line, before)? + before.len()..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit() || b".-".contains(byte)).count();
    let value: f64 = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

fn rect(line: &[u8]) -> Option<Rect> {
    let rect =
        Rect { x: figure(line, b" x=\"")?, width: figure(line, b" width=\"")?, height: figure(line, b" height=\"")? };
    (rect.width >= 0.0 && rect.height >= 0.0).then_some(rect)
}

/// `<!-- gzip [95] ppid=93 runtime=499.526ms -->`
fn process(line: &[u8]) -> Option<(u64, u64, &[u8], Ns)> {
    let line = line.strip_prefix(b"<!-- ")?.strip_suffix(b"ms -->")?;
    // A name may have brackets and spaces.
    let runtime = memmem::rfind(line, b" runtime=")?;
    let (before, ms) = (&line[..runtime], figure(&line[runtime..], b" runtime=")?);
    let parent = memmem::rfind(before, b" ppid=")?;
    let (before, parent) = (&before[..parent], whole_number(&before[parent + 6..])?);
    let bracket = memmem::rfind(before, b" [")?;
    let pid = whole_number(before[bracket + 2..].strip_suffix(b"]")?)?;
    Some((pid, parent, &before[..bracket], seconds(ms / 1e3)?))
}

/// The name in `<text …><![CDATA[gzip]]> [95]<tspan …`.
fn name(line: &[u8]) -> Option<&[u8]> {
    const BEGINS: &[u8] = b"<![CDATA[";
    let from = memmem::find(line, BEGINS)? + BEGINS.len();
    let to = memmem::rfind(line, b"]]> [")?;
    number(&line[to + 5..])?;
    line.get(from..to)
}

/// The state of reading a picture.
struct Reading<'d> {
    file: &'d str,
    samples: Samples,
    scale: Scale,
    /// The bar of the last process, after it has been read.
    bar: Option<Rect>,
    /// True if a process was named and its bar is still missing.
    is_named: bool,
    /// The share of a bar in which the process waited for a CPU. The share on a CPU follows it.
    queued: f64,
    initcalls: u64,
    end: Option<f64>,
    diagnostics: &'d mut Diagnostics,
}

/// Reads a picture. Returns `None` if the bytes are not one, or have no scale.
pub(super) fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Option<Samples> {
    if !is_picture(bytes) {
        return None;
    }
    let scale = scale(bytes);
    if scale.pixels_a_second.is_none() {
        diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, || format!("{file}: it has no scale"));
        return None;
    }
    let samples = Samples::of_whole_tables(Ns::MAX);
    let mut reading =
        Reading { file, samples, scale, bar: None, is_named: false, queued: 0.0, initcalls: 0, end: None, diagnostics };
    for line in Lines::new(bytes) {
        reading.line(line);
    }
    Some(reading.finish())
}

/// Reads the scale from the first lines, and the time of the start from the last ones.
fn scale(bytes: &[u8]) -> Scale {
    const LINES_LOOKED_AT: usize = 64;
    let mut scale = Scale::default();
    for line in Lines::new(bytes).take(LINES_LOOKED_AT).map(|line| line.bytes).filter(|line| line.starts_with(b"<!-- "))
    {
        let pixels = figure(line, b"<!-- x=\"").or_else(|| figure(line, b"<!-- ScaleX="));
        scale.pixels_a_second = scale.pixels_a_second.or(pixels.filter(|pixels| *pixels > 0.0));
        let hz = figure(line, b"<!-- hz=\"").or_else(|| figure(line, b"<!-- Frequency="));
        scale.hz = scale.hz.or(hz.filter(|hz| *hz > 0.0));
        let relative = figure(line, b"<!-- rel=\"").or_else(|| figure(line, b"<!-- Relative="));
        scale.is_relative |= relative.is_some_and(|relative| relative != 0.0);
    }
    let says_start = memmem::rfind(bytes, b">Log start time: ");
    scale.started = says_start.and_then(|at| figure(&bytes[at..bytes.len().min(at + 64)], b"Log start time: "));
    scale
}

impl Reading<'_> {
    fn line(&mut self, line: Line<'_>) {
        let text = line.bytes.trim_ascii();
        if text.starts_with(b"<!-- thread=\"") {
            self.initcalls += 1;
        } else if let Some((pid, parent, name, cpu)) = process(text) {
            self.begin(pid, parent, name, cpu, line);
        } else if let Some(at) = text.strip_prefix(b"<!-- idle detected at ").and_then(|rest| figure(rest, b"")) {
            self.samples.idle = self.scale.at(at * self.scale.pixels_a_second.unwrap_or(1.0));
        } else if text.starts_with(b"<rect class=\"box\"") {
            self.end = rect(text).map(|rect| rect.x + rect.width).into_iter().chain(self.end).reduce(f64::max);
        } else if text.starts_with(b"<rect class=\"ps\"") {
            self.bar(line, text);
        } else if let Some(bar) = self.bar {
            if text.starts_with(b"<rect class=\"wait\"") {
                self.queued = rect(text).map_or(0.0, |rect| rect.height / bar.height);
            } else if text.starts_with(b"<rect class=\"cpu\"") {
                self.stretch(line, text, bar);
            } else if let (Some(name), Some(process)) = (name(text), self.samples.processes.last_mut()) {
                process.names[0].1 = shorten(&lossy(name.trim_ascii_end()));
            }
        }
    }

    fn unreadable(&mut self, line: Line<'_>) {
        let file = self.file;
        self.diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, || format!("{file}:{}", line.number));
    }

    /// Begins a process. It is kept when its bar shows its times.
    fn begin(&mut self, pid: u64, parent: u64, name: &[u8], cpu: Ns, line: Line<'_>) {
        self.drop_unplaced();
        self.bar = None;
        if self.samples.processes.len() == PROCESSES_MAX {
            let file = self.file;
            self.diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, || format!("{file}:{}", line.number));
            return;
        }
        let name = shorten(&lossy(name.trim_ascii_end()));
        let mut process = Process::new(pid, parent, name, Ns::ZERO, Ns::ZERO);
        process.cpu = cpu;
        self.samples.processes.push(process);
        self.is_named = true;
    }

    /// Drops the last process if it has no bar: the program filtered it out.
    fn drop_unplaced(&mut self) {
        if std::mem::take(&mut self.is_named) {
            self.samples.processes.pop();
            let file = self.file;
            let what = "processes that it filtered";
            self.diagnostics.note_about(DiagnosticKind::BootchartPartUnused, what, || file.to_owned());
        }
    }

    /// Reads the bar of the process that was named last.
    fn bar(&mut self, line: Line<'_>, text: &[u8]) {
        let found = rect(text).filter(|bar| bar.height > 0.0);
        let times = found.and_then(|bar| Some((self.scale.at(bar.x)?, self.scale.at(bar.x + bar.width)?)));
        let (Some(bar), Some((from, until)), true) = (found, times, self.is_named) else {
            return self.unreadable(line);
        };
        self.is_named = false;
        self.bar = Some(bar);
        self.samples.first = self.samples.first.min(from);
        self.samples.last = self.samples.last.max(until);
        if let Some(process) = self.samples.processes.last_mut() {
            process.names[0].0 = from;
            process.until = until;
        }
    }

    /// Reads the main activity of the process between two samples.
    fn stretch(&mut self, line: Line<'_>, text: &[u8], bar: Rect) {
        let queued = std::mem::take(&mut self.queued);
        let found = rect(text);
        let times = found.and_then(|cpu| Some((self.scale.at(cpu.x)?, self.scale.at(cpu.x + cpu.width)?)));
        let (Some(cpu), Some((from, to))) = (found, times) else { return self.unreadable(line) };
        let used = match () {
            () if cpu.height / bar.height >= 0.5 => Use::Cpu,
            () if queued >= 0.5 => Use::Queue,
            () => Use::Other,
        };
        self.samples.longest = self.samples.longest.max(to - from);
        if let Some(process) = self.samples.processes.last_mut() {
            process.draw(used, from, to);
        }
    }

    fn finish(mut self) -> Samples {
        self.drop_unplaced();
        let end = self.end.and_then(|pixels| self.scale.at(pixels));
        let samples = &mut self.samples;
        samples.first = samples.first.min(samples.last);
        samples.last = samples.last.max(end.unwrap_or(samples.last));
        // Pixels have three digits, so a bar that ends with the box may seem to end before it.
        let interval = self.scale.hz.and_then(|hz| seconds(1.0 / hz)).unwrap_or(Ns::ZERO);
        let (last, length) = (samples.last, samples.last - samples.first);
        for process in &mut samples.processes {
            process.is_over = last - process.until > Ns(interval.0 / 2);
            process.draw(Use::Other, process.until, process.until);
        }
        samples.longest = samples.longest.max(interval).min(length);
        samples.counts.samples = if interval > Ns::ZERO { 1 + (length.0 / interval.0).unsigned_abs() } else { 0 };
        let unused = "the kernel's initcalls (its log has them to the µs)";
        let file = self.file;
        self.diagnostics.add(DiagnosticKind::BootchartPartUnused, unused, self.initcalls, None, || file.to_owned());
        let unused = "CPUs and disks of the machine as a whole";
        self.diagnostics.note_about(DiagnosticKind::BootchartPartUnused, unused, || file.to_owned());
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head, as version 235 writes it.
    const HEAD: &str = "<?xml version=\"1.0\" standalone=\"no\"?>\n<!-- This file is a bootchart SVG file. It is best -->\n\
        <!-- Frequency=10.000000 -->\n<!-- Relative=1 -->\n<!-- ScaleX=100.000000 -->\n\
        <rect class=\"box\" x=\"0.000\" y=\"0\" width=\"100.000\" height=\"100.000\" />\n";
    const END: &str = "<text class=\"t2\" x=\"20\" y=\"125\">Log start time: 2.000s</text>\n";

    fn picture(processes: &str) -> (Samples, Diagnostics) {
        let mut diagnostics = Diagnostics::default();
        let text = format!("{HEAD}{processes}{END}");
        (read("p", text.as_bytes(), &mut diagnostics).unwrap(), diagnostics)
    }

    #[test]
    fn bars_are_on_the_kernels_clock() {
        let (samples, diagnostics) = picture(
            "<!-- a [1] b-_]]> [7] ppid=1 runtime=130.000ms -->\n  <rect class=\"ps\" x=\"10.000\" y=\"0\" width=\"50.000\" height=\"20.000\" />\n\
             <rect class=\"wait\" x=\"10.0\" y=\"0\" width=\"10.0\" height=\"12.0\" />\n<rect class=\"cpu\" x=\"10.0\" y=\"0\" width=\"10.0\" height=\"3.0\" />\n\
             <rect class=\"wait\" x=\"20.0\" y=\"0\" width=\"10.0\" height=\"0.0\" />\n<rect class=\"cpu\" x=\"20.0\" y=\"0\" width=\"10.0\" height=\"20.0\" />\n\
             <text x=\"1\" y=\"2\"><![CDATA[a [1] b--]]>]]> [7]<tspan class=\"run\">130.0ms</tspan> </text>\n\n\
             <!-- filtered [8] ppid=7 runtime=0.000ms -->\n",
        );
        let [process] = &samples.processes[..] else { panic!("{:?}", samples.processes) };
        assert_eq!((process.pid, process.parent, &*process.names[0].1), (7, 1, "a [1] b--]]>"));
        let ms = |ms| Ns::from_ms(ms);
        assert_eq!((process.from(), process.until, process.is_over, process.cpu), (ms(2100), ms(2600), true, ms(130)));
        let stretches: Vec<_> = process.stretches.iter().map(|s| (s.used, s.from, s.to)).collect();
        let expected =
            [(Use::Queue, ms(2100), ms(2200)), (Use::Cpu, ms(2200), ms(2300)), (Use::Other, ms(2300), ms(2600))];
        assert_eq!(stretches, expected);
        assert_eq!((samples.first, samples.last, samples.interval()), (ms(2100), ms(3000), ms(100)));
        assert_eq!(diagnostics.count(DiagnosticKind::BootchartPartUnused), 2);
    }

    #[test]
    fn bars_out_of_place_are_counted() {
        let (samples, diagnostics) = picture(
            "<rect class=\"ps\" x=\"1\" y=\"0\" width=\"5\" height=\"20\" />\n<!-- a [7] ppid=1 runtime=1e99ms -->\n\
             <!-- a [7] ppid=1 runtime=1ms -->\n<rect class=\"ps\" x=\"nan\" y=\"0\" width=\"5\" height=\"20\" />\n\
             <rect class=\"ps\" x=\"-500\" y=\"0\" width=\"5\" height=\"20\" />\n<rect class=\"ps\" x=\"5\" y=\"0\" width=\"5\" height=\"0\" />\n",
        );
        assert_eq!((samples.processes.len(), diagnostics.count(DiagnosticKind::LinesUnreadable)), (0, 4));
        for text in ["", "<?xml", "<?xml?>\n<svg>\n<!-- a [7] ppid=1 runtime=1ms -->\n"] {
            assert_eq!(read("p", text.as_bytes(), &mut Diagnostics::default()), None, "{text}");
        }
    }
}
