//! A small made-up boot with everything that a view must handle: several tracks, waits, a thread that another waits
//! for, evidence before time zero, and text that does harm unless it is quoted.

use report::{Facts, Overhead, Subject};
use timeline::{
    Clock, DiagnosticKind, End, Mark, NameId, Ns, Reading, Running, SpanId, SpanKind, SpanRow, Ticks, TimeBase,
    Timeline, TrackId, TrackKind, Wait, WaitedOn, Watched,
};

/// Markup, script, an escape sequence, a bell, a direction override, quoting characters of every format.
pub const HOSTILE: &str =
    "</script><script>ran=1</script><img src=x onerror=ran=2>\u{1b}[2J\u{7}\u{202e};\"'`&\\,\n%00";

pub struct Maker {
    pub t: Timeline,
}

impl Maker {
    pub fn track(&mut self, name: &str, kind: TrackKind, id: u64) -> TrackId {
        let name = self.t.names.intern(name);
        self.t.tracks.add(name, kind, id)
    }

    pub fn span(
        &mut self,
        track: TrackId,
        kind: SpanKind,
        (name, detail): (&str, &str),
        us: (i64, i64),
        parent: Option<SpanId>,
    ) -> SpanId {
        let (name, detail) = (self.t.names.intern(name), self.t.names.intern(detail));
        let row = SpanRow { name, detail, start: Ns::from_us(us.0), end: Ns::from_us(us.1), track, kind };
        self.t.spans.push(row, parent)
    }

    fn ran(&mut self, track: TrackId, cpu: u32, us: (i64, i64)) {
        self.t.running.push(Running { track, cpu, from: Ns::from_us(us.0), to: Ns::from_us(us.1) });
    }

    fn waited(&mut self, track: TrackId, us: (i64, i64, i64), by: WaitedOn) {
        let (from, woken, until) = (Ns::from_us(us.0), Ns::from_us(us.1), Ns::from_us(us.2));
        self.t.waits.push(Wait { track, from, woken, until, by, uninterruptible: false });
    }
}

pub fn timeline() -> Timeline {
    made(0)
}

/// A slower boot: its last small initcalls are later, the first of them takes 20 ms longer, and one initcall is new.
pub fn slower() -> Timeline {
    made(20_000)
}

fn made(more_us: i64) -> Timeline {
    let mut m = Maker { t: Timeline::new(TimeBase::Host) };
    let vmm = m.track("qemu", TrackKind::Vmm, 0);
    let firmware = m.track("SeaBIOS", TrackKind::Firmware, 0);
    let init = m.track("swapper/0", TrackKind::Thread, 1);
    let worker = m.track("kworker/u2:1", TrackKind::Thread, 23);
    let evil = m.track(HOSTILE, TrackKind::Thread, 66);

    m.t.tracks.get_mut(firmware).created = Some((Ns::from_us(90_000), vmm));
    m.t.tracks.get_mut(init).created = Some((Ns::from_us(200_000), firmware));

    m.span(vmm, SpanKind::Stage, ("linking", ""), (-500, 20_000), None);
    m.span(vmm, SpanKind::Stage, ("devices", ""), (20_000, 90_000), None);
    let bios = m.span(firmware, SpanKind::Stage, ("SeaBIOS", ""), (90_000, 200_000), None);
    m.span(firmware, SpanKind::Stage, ("option ROM", "linuxboot"), (150_000, 190_000), Some(bios));

    m.span(init, SpanKind::Call, ("start_kernel", ""), (200_000, 400_000), None);
    let level = m.span(init, SpanKind::Level, ("initcalls", "device"), (400_000, 900_000), None);
    let acpi = m.span(init, SpanKind::Initcall, ("initcall", "acpi_init"), (410_000, 640_000), Some(level));
    m.span(init, SpanKind::Call, ("msleep", ""), (500_000, 520_000), Some(acpi));
    m.span(init, SpanKind::Initcall, ("initcall", HOSTILE), (640_000, 700_000), Some(level));
    m.span(
        init,
        SpanKind::Initcall,
        ("initcall", "wait_for_initramfs_very_long_name_of_a_step"),
        (700_000, 890_000),
        Some(level),
    );
    for i in 0..30 {
        let detail = if more_us > 0 && i == 29 { "new_init".to_owned() } else { format!("small_init_{i}") };
        let (from, longer) = (900_000 + i * 1_000 + if i > 0 { more_us } else { 0 }, if i == 0 { more_us } else { 0 });
        m.span(init, SpanKind::Initcall, ("initcall", &detail), (from, from + 700 + longer), None);
    }
    let unpack = m.span(worker, SpanKind::Work, ("work", "do_populate_rootfs"), (710_000, 880_000), None);
    m.span(worker, SpanKind::Call, ("unpack_to_rootfs", ""), (715_000, 870_000), Some(unpack));
    m.span(evil, SpanKind::Call, (HOSTILE, HOSTILE), (300_000, 310_000), None);

    m.ran(init, 0, (200_000, 500_000));
    let timer = m.t.names.intern("timer");
    m.waited(init, (500_000, 519_000, 520_000), WaitedOn::Interrupt(timer));
    m.ran(init, 0, (520_000, 710_000));
    m.waited(init, (710_000, 880_000, 885_000), WaitedOn::Thread(worker));
    m.ran(init, 0, (885_000, 940_000 + more_us));
    m.ran(worker, 0, (710_000, 885_000));
    m.ran(evil, 1, (300_000, 310_000));

    let reading = |at_us, value, function: &str| Reading {
        at: Ns::from_us(at_us),
        stood: Ns::from_us(700),
        value,
        function: function.to_owned(),
    };
    m.t.watched = Some(Watched {
        variable: HOSTILE.to_owned(),
        is_signed: false,
        functions: ["acpi_init", HOSTILE, "panic"].map(str::to_owned).to_vec(),
        readings: vec![
            reading(410_000, Some(7), "acpi_init"),
            reading(640_000, None, HOSTILE),
            reading(700_000, Some(u64::MAX), HOSTILE),
        ],
        notes: vec![HOSTILE.to_owned()],
    });
    for (track, at, text) in [(init, 450_000, "ACPI: Core revision"), (evil, 305_000, HOSTILE)] {
        let name = m.t.names.intern(text);
        m.t.marks.push(Mark { at: Ns::from_us(at), name, track });
    }
    finish(
        m,
        init,
        &[
            ("VMM set-up", 0),
            ("firmware", 90_000),
            ("early kernel", 200_000),
            ("initcalls", 400_000),
            (HOSTILE, 930_000 + more_us),
        ],
        940_000 + more_us,
    )
}

fn finish(mut m: Maker, init: TrackId, phases: &[(&str, i64)], end_us: i64) -> Timeline {
    for &(phase, at) in phases {
        let phase = timeline::Phase::Other(m.t.names.intern(phase));
        m.t.boundary(phase, Ns::from_us(at), Ns(1_500), "a made-up boundary of the sample");
    }
    let evidence = timeline::EndEvidence::Process1Sent;
    m.t.end = Some(End { at: Ns::from_us(end_us), error: Ns::from_us(30), track: Some(init), evidence });
    m.t.clocks.push(Clock::linear("tsc", 2.2e9, Ticks(0), Ns::ZERO, timeline::RateSource::User));
    m.t.diagnostics.note_many(DiagnosticKind::ExitWithoutEntry, 2, || "trace.txt:118".to_owned());
    m.t.diagnostics.note_about(DiagnosticKind::EvidenceNotGathered, HOSTILE, || HOSTILE.to_owned());
    m.t.finalize(Ns::from_us(1));
    m.t
}

/// A boot of about `spans` spans on eight threads, three deep, of names that repeat.
pub fn large(spans: usize) -> Timeline {
    let mut m = Maker { t: Timeline::new(TimeBase::Host) };
    let threads: Vec<TrackId> = (0..8).map(|i| m.track(&format!("thread {i}"), TrackKind::Thread, i + 1)).collect();
    let names: Vec<NameId> = (0..2_000).map(|i| m.t.names.intern(&format!("function_{i}"))).collect();
    let per_thread = (spans / threads.len() / 10) as i64;
    for (n, &track) in threads.iter().enumerate() {
        for i in 0..per_thread {
            let name = |k: i64| names[((i * 7 + k * 13 + n as i64) % 2_000) as usize];
            let row = |k: i64, start: i64, end: i64| SpanRow {
                name: name(k),
                detail: NameId::EMPTY,
                start: Ns(i * 10_000 + start),
                end: Ns(i * 10_000 + end),
                track,
                kind: SpanKind::Call,
            };
            let outer = m.t.spans.push(row(0, 0, 10_000), None);
            for j in 0..3 {
                let middle = m.t.spans.push(row(1 + j, j * 3_000, j * 3_000 + 2_500), Some(outer));
                for k in 0..2 {
                    let start = j * 3_000 + k * 1_000;
                    m.t.spans.push(row(5 + k, start, start + 900), Some(middle));
                }
            }
        }
    }
    finish(m, threads[0], &[("kernel", 0)], per_thread * 10)
}

/// The facts that no timeline holds.
pub fn facts() -> Facts {
    Facts {
        subject: Subject {
            os: "Linux".to_owned(),
            kernel: "6.1.0-47-cloud-amd64".to_owned(),
            machine: "pc".to_owned(),
            accelerator: "tcg".to_owned(),
            cpus: 2,
            memory_bytes: 512 << 20,
        },
        outcome: "reached".to_owned(),
        outcome_detail: HOSTILE.to_owned(),
        metrics: serde_json::from_value(serde_json::json!({
            "guest_total_bytes": 498_000_000,
            "guest_available_bytes": 431_000_000,
            "vmm_max_rss_bytes": 187_000_000,
        }))
        .unwrap(),
        overhead: Some(Overhead { ratio: 1.06, low: 1.01, high: 1.12, how: "5 plain and 5 recorded boots in turn".to_owned() }),
        how: vec![
            ("command line".to_owned(), format!("qemu-system-x86_64 -append '{HOSTILE}'")),
            ("host CPU".to_owned(), "made up".to_owned()),
        ],
        created: "2026-11-24T10:47:09Z".to_owned(),
        notes: vec!["KVM made no progress with this kernel within 5 s; TCG was used. This is remembered for this host and kernel.".to_owned()],
    }
}
