//! Whole recordings of scripted boots: their outcomes, the kept evidence, and the requests to the VMM.

use super::*;
use crate::functions;
use crate::guest_channel::Wire;
use crate::observe::{Progress, Silent};
use crate::stops;
use crate::stops::Names;
use crate::vmm::Program;
use crate::vmm::stub::{Script, Stub};
use crate::vmm::{GuestEnd, News, Source};
use guest_init::messages::Message;
use guest_init::port::PortEvent;
use guest_init::round::ANSWER_OFFSET;
use recording::{Accel, Init, Recording};
use tempfile::TempDir;

const SECOND: i64 = 1_000_000_000;
const PAGE_BYTES: u64 = guest_init::round::PAGE_BYTES as u64;

/// An observer that stops the recording at this time.
struct StopsAt(i64, i64);

impl Observer for StopsAt {
    fn progress(&mut self, progress: &Progress<'_>) {
        self.1 = progress.elapsed_ns;
    }

    fn stop(&mut self) -> bool {
        self.1 >= self.0
    }
}

/// Options for a machine that boots from its disk.
fn options(dir: &TempDir, until: Until) -> RecordOptions {
    let disk = dir.path().join("disk.img");
    std::fs::write(&disk, [0; 512]).unwrap();
    let guest = GuestSpec { disks: vec![disk], init: Init::Keep, accel: Accel::Tcg, until, ..GuestSpec::default() };
    let mut options = RecordOptions::of(guest);
    options.observe.first_executions = false;
    options.out = dir.path().join("boot");
    options
}

fn runs() -> Script {
    Script::default().has_news(100, News::Running)
}

fn played(script: &Script, options: &RecordOptions, stop_ns: i64) -> Result<Recorded, Error> {
    played_by(script, options, &mut StopsAt(stop_ns, 0))
}

fn played_by(script: &Script, options: &RecordOptions, observer: &mut dyn Observer) -> Result<Recorded, Error> {
    let find = |_: &GuestSpec| Ok(Box::new(Stub(script.clone())) as Box<dyn Program>);
    record_with(&find, options, observer)
}

fn ended(script: &Script, until: Until) -> (OutcomeKind, i64, String) {
    let dir = tempfile::tempdir().unwrap();
    let recorded = played(script, &options(&dir, until), i64::MAX).unwrap();
    (recorded.outcome.kind, recorded.outcome.at_ns.unwrap(), recorded.outcome.detail)
}

#[test]
fn a_line_on_the_console_ends_a_boot_and_all_output_is_kept() {
    let script = runs()
        .says(500, Source::Firmware, "hello\n")
        .says(700, Source::Vmm, "a warning\n")
        .says(1000, Source::Console, "booting\nlog")
        .says(2000, Source::Console, "in: ");
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir, Until::Regex("login:".to_owned()));
    let recorded = played(&script, &options, i64::MAX).unwrap();
    assert_eq!((recorded.outcome.kind, recorded.outcome.at_ns), (OutcomeKind::Reached, Some(2 * SECOND)));
    assert_eq!(recorded.end.unwrap().what, "login:");
    let kept = Recording::open(&options.out).unwrap();
    let text = |name: &str| String::from_utf8(kept.read(name).unwrap().unwrap_or_default()).unwrap();
    assert_eq!(text("console.log"), "booting\nlogin: ");
    assert_eq!((text("firmware.log"), text("vmm.log")), ("hello\n".to_owned(), "a warning\n".to_owned()));
    assert!(text("vmm.json").contains("executed") && !kept.names().any(|name| name == "guest.log"));
    assert_eq!(*script.done.lock().unwrap(), ["quit"], "it is asked to end, and does");
    assert_eq!(recorded.manifest.vmm.command, ["stub", "None"]);
}

/// Records the boot of a Linux kernel that ends with a unit.
fn to_unit(name: &str, script: &Script) -> Recorded {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&dir, Until::Unit(name.to_owned()));
    let kernel = dir.path().join("bzImage");
    let mut header = vec![0; 4096];
    header[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    header[0x202..0x206].copy_from_slice(b"HdrS");
    std::fs::write(&kernel, header).unwrap();
    options.guest.kernel = Some(kernel);
    options.guest.trace_events = false;
    played(script, &options, i64::MAX).unwrap()
}

#[test]
fn a_unit_that_never_comes_is_named_with_those_that_came() {
    let log = "\
        [    0.9] systemd[1]: Running in initrd.\n\
        [    1.0] systemd[1]: Started sshd2.service - only in the initrd.\n\
        [    1.1] systemd[1]: systemd 252.39-1~deb12u1 running in system mode\n\
        [    1.2] systemd[1]: Started cron.service - Regular background program processing daemon.\n\
        [    1.3] systemd[1]: Starting ssh.service - OpenBSD Secure Shell server...\n\
        [    1.4] sshd[7]: Started ssht.service - not systemd's word.\n\
        [    1.5] systemd[1]: Reached target network.target.\n";
    let script = runs().says(1000, Source::Console, log);
    let noted = |name: &str, script: &Script| {
        let recorded = to_unit(name, script);
        (recorded.outcome.kind, recorded.manifest.notes.join("\n"))
    };
    let (kind, note) = noted("sshd.service", &script);
    assert_eq!(kind, OutcomeKind::Timeout);
    assert!(note.contains("logged 3 units and not sshd.service; nearest: ssh.service, "), "{note}");
    assert!(!note.contains("sshd2") && !note.contains("ssht"), "{note}");
    let (kind, note) = noted("cron.timer", &script.clone().has_news(3000, News::Off(GuestEnd::PowerOff)));
    assert_eq!(kind, OutcomeKind::PowerOff);
    assert!(note.contains("nearest: cron.service"), "{note}");
    let (_, note) = noted("ssh.service", &script);
    assert!(note.contains("it starts ssh.service, and not that it is active"), "{note}");
    let (_, note) = noted("ssh.service", &runs());
    assert!(note.contains("no line of systemd's names a unit"), "{note}");
    let after = script.says(2000, Source::Console, "[    2.5] systemd[1]: Started ssh.service - A.\n");
    assert!(!noted("ssh.service", &after).1.contains("ssh.service"), "it came");
}

#[test]
fn a_unit_that_fails_ends_the_boot_that_waits_for_it() {
    let ended = |script: &Script| {
        let outcome = to_unit("a.service", script).outcome;
        (outcome.kind, outcome.at_ns.unwrap(), outcome.detail)
    };
    let line = "[    2.5] systemd[1]: Failed to start a.service - A.\n";
    let script = runs().says(1000, Source::Console, "[    1.5] systemd[1]: Starting a.service - A...\n");
    let failed = ended(&script.clone().says(2000, Source::Console, line));
    assert_eq!((failed.0, failed.1, failed.2.as_str()), (OutcomeKind::UnitFailed, 2 * SECOND, line.trim_end()));
    let after = script.says(2000, Source::Console, "[    2.5] systemd[1]: Started a.service - A.\n");
    let reached = ended(&after.says(2001, Source::Console, line));
    assert_eq!((reached.0, reached.1), (OutcomeKind::Reached, 2 * SECOND), "what comes later is no part of it");
}

#[test]
fn what_the_guest_does_before_its_end_mark_is_how_the_boot_ended() {
    let line = || Until::Regex("login:".to_owned());
    let off = |why| runs().has_news(3000, News::Off(why));
    assert_eq!(ended(&off(GuestEnd::Reset), line()).0, OutcomeKind::Reset);
    assert_eq!(ended(&off(GuestEnd::PowerOff), line()).0, OutcomeKind::PowerOff);
    assert_eq!(ended(&off(GuestEnd::Panic), line()).0, OutcomeKind::Panic);
    let requested = ended(&off(GuestEnd::Asked), line());
    assert_eq!((requested.0, requested.2.as_str()), (OutcomeKind::Interrupted, "Stub was told to end"));
    let other = ended(&off(GuestEnd::Other("host-error".to_owned())), line());
    assert_eq!((other.0, other.2.as_str()), (OutcomeKind::VmmFailed, "Stub ended with exit status: 0: host-error"));
    assert_eq!(ended(&off(GuestEnd::PowerOff), Until::PowerOff).0, OutcomeKind::Reached);
    let panic = runs().says(1000, Source::Console, "Kernel panic - not syncing: x\n---[ end Kernel panic ]---\n");
    let panicked = ended(&panic, line());
    assert_eq!((panicked.0, panicked.1), (OutcomeKind::Panic, SECOND));
}

#[test]
fn a_quiet_boot_times_out_and_one_that_stands_still_hangs() {
    let (kind, at_ns, detail) = ended(&runs(), Until::PowerOff);
    assert_eq!(kind, OutcomeKind::Timeout, "{detail}");
    assert!((600 * SECOND..601 * SECOND).contains(&at_ns), "{at_ns}");
    let (kind, at_ns, detail) = ended(&Script { stands_still: true, ..runs() }, Until::PowerOff);
    assert_eq!(kind, OutcomeKind::Hang, "{detail}");
    assert!((10 * SECOND..15 * SECOND).contains(&at_ns) && detail.contains("busy in one place"), "{at_ns}: {detail}");
}

/// A foreign channel: each letter is a message.
#[derive(Debug)]
struct Letters;

impl GuestChannel for Letters {
    fn wire(&self) -> Wire {
        Wire::IoPort(0x99)
    }

    fn origin(&self) -> &'static str {
        "letters"
    }

    fn feed(&mut self, bytes: &[u8], hear: &mut dyn FnMut(PortEvent<'_>)) {
        for (n, byte) in (0..).zip(bytes) {
            hear(PortEvent::Output(&[*byte]));
            hear(match byte {
                b'i' => PortEvent::Message(Message::Init { tsc: 1 }),
                b'h' => PortEvent::Message(Message::Round { header_phys: n * PAGE_BYTES }),
                b'e' => PortEvent::Message(Message::End { outcome: "poweroff".to_owned() }),
                _ => PortEvent::Malformed("?"),
            });
        }
    }
}

/// The launch of a guest with the channel of [`Letters`].
fn launched(guest: &GuestSpec) -> Launch<'_> {
    Launch {
        guest,
        kvm: false,
        kernel_line: "",
        initrd: None,
        channel: Some(Letters.wire()),
        instruments: Instruments::default(),
    }
}

#[test]
fn any_channel_can_carry_the_guests_messages() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&dir, Until::Init);
    options.guest.init = Init::Guest;
    let script = runs().says(1000, Source::Guest, "?i").says(2000, Source::Guest, "e");
    let mut writer = Writer::create(&options.out, false, &Manifest::begun_now()).unwrap();
    let vm = Stub(script).start(&launched(&options.guest)).unwrap();
    assert_eq!(vm.command()[1], "Some(IoPort(153))");
    let profile = GuestProfile::default();
    let mut silent = Silent;
    let mut watch =
        Watch::new(&options, &profile, None, Some(Box::new(Letters)), vm, &mut writer, &mut silent).unwrap();
    let ending = boot(&options, &profile, &mut watch).unwrap();
    assert_eq!((ending.kind, ending.at_ns, ending.note), (OutcomeKind::Reached, SECOND, None));
    let finished = watch.finish(None);
    assert_eq!(finished.facts.guest_done.unwrap().at_ns, 2 * SECOND);
    assert_eq!(finished.notes, ["1 lines on guest-init's port are malformed; they were skipped"]);
    assert_eq!(std::fs::read(options.out.join("guest.log")).unwrap(), b"?ie");
}

fn silence(options: &RecordOptions) -> String {
    let kept = Recording::open(&options.out).unwrap();
    String::from_utf8(kept.read(stops::FILE).unwrap().unwrap_or_default()).unwrap()
}

#[test]
fn vcpus_that_stop_after_their_stub_failed_are_resumed_until_the_guests_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&dir, Until::PowerOff);
    options.observe.silence_ms = Some(100);
    let stops = |script: Script| script.has_news(150, News::Stopped).has_news(400, News::Stopped);
    let script = stops(runs())
        .has_news(600, News::Off(GuestEnd::PowerOff))
        .has_news(600, News::Stopped)
        .has_news(700, News::Stopped);
    // The other end is closed.
    *script.gdbstub.lock().unwrap() = Some(std::os::unix::net::UnixStream::pair().unwrap().0);
    let recorded = played(&script, &options, i64::MAX).unwrap();
    assert_eq!(recorded.outcome.kind, OutcomeKind::Reached);
    // The stub fails after 200 ms. The stop before that came from elsewhere, and the one at 600 ms is the guest's end.
    assert_eq!(*script.done.lock().unwrap(), ["let run", "let run", "quit"]);
    assert!(silence(&options).contains("# note there is no stop after 200 ms: "), "{}", silence(&options));
    // A VMM that stops its vCPUs again each time is not resumed for ever.
    let script = (0..100).fold(runs(), |script, n| script.has_news(300 + n, News::Stopped)).ends(1000);
    *script.gdbstub.lock().unwrap() = Some(std::os::unix::net::UnixStream::pair().unwrap().0);
    options.force = true;
    played(&script, &options, i64::MAX).unwrap();
    assert_eq!(script.done.lock().unwrap().iter().filter(|done| **done == "let run").count(), 17);
}

#[test]
fn the_last_silence_ends_with_the_boot() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&dir, Until::Regex("login:".to_owned()));
    options.observe.silence_ms = Some(100);
    // The recorder waits for the rest of the prompt's line, and takes evidence after it.
    played(&runs().says(2000, Source::Console, "login: "), &options, i64::MAX).unwrap();
    assert!(silence(&options).ends_with("\nsilence 100000000 2000000000\n"), "{}", silence(&options));
    options.force = true;
    played(&runs().has_news(3000, News::Off(GuestEnd::Reset)), &options, i64::MAX).unwrap();
    assert!(silence(&options).ends_with("\nsilence 100000000 3000000000\n"), "{}", silence(&options));
    played(&runs().ends(1500), &options, i64::MAX).unwrap();
    assert!(silence(&options).ends_with("\nsilence 100000000 1500000000\n"), "{}", silence(&options));
    let stopped = played(&runs(), &options, 4 * SECOND).unwrap();
    let end = format!("\nsilence 100000000 {}\n", stopped.outcome.at_ns.unwrap());
    assert!(silence(&options).ends_with(&end), "{}", silence(&options));
}

#[test]
fn no_stop_is_due_or_waited_for_after_process_1() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&dir, Until::Init);
    options.guest.init = Init::Guest;
    options.observe.silence_ms = Some(300);
    let (ours, _stubs) = std::os::unix::net::UnixStream::pair().unwrap();
    let script = runs().says(300, Source::Guest, "i").says(2000, Source::Guest, "e");
    *script.gdbstub.lock().unwrap() = Some(ours);
    let mut writer = Writer::create(&options.out, false, &Manifest::begun_now()).unwrap();
    let vm = Stub(script).start(&launched(&options.guest)).unwrap();
    let profile = GuestProfile::default();
    let mut silent = Silent;
    let mut watch =
        Watch::new(&options, &profile, None, Some(Box::new(Letters)), vm, &mut writer, &mut silent).unwrap();
    let ending = boot(&options, &profile, &mut watch).unwrap();
    assert_eq!(ending.kind, OutcomeKind::Reached);
    let text = watch.silences(|_| Names::default()).unwrap();
    assert!(text.lines().all(|line| line.starts_with('#')), "nobody was silent for 300 ms: {text}");
    watch.finish(None);
}

/// A guest that runs process 1 at once and powers off after 2 s, while a patch waits for its function.
fn patched(until: Until, is_patched: bool) -> (Ending, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&dir, until);
    options.guest.init = Init::Guest;
    let script = Script::default()
        .has_news(0, News::Running)
        .says(0, Source::Guest, "i")
        .has_news(2000, News::Off(GuestEnd::PowerOff));
    *script.gdbstub.lock().unwrap() = Some(functions::tests::entered(is_patched));
    let mut writer = Writer::create(&options.out, false, &Manifest::begun_now()).unwrap();
    let vm = Stub(script).start(&launched(&options.guest)).unwrap();
    let (profile, until) = (GuestProfile::default(), awaited_line(&options));
    let mut silent = Silent;
    let mut watch =
        Watch::new(&options, &profile, until, Some(Box::new(Letters)), vm, &mut writer, &mut silent).unwrap();
    watch.stop_at_functions(functions::tests::plan(), arch::of(&options.guest));
    let ending = boot(&options, &profile, &mut watch).unwrap();
    (ending, watch.finish(None).patched)
}

#[test]
fn code_is_changed_until_the_end_mark_whether_process_1_runs_or_not() {
    let (ending, done) = patched(Until::PowerOff, true);
    assert_eq!(ending.kind, OutcomeKind::Reached, "{ending:?}");
    assert!(matches!(&done[..], [one] if one.contains("when f was entered for the first time")), "{done:?}");
    let (ending, done) = patched(Until::Init, false);
    assert_eq!((ending.kind, done.len()), (OutcomeKind::Unpatched, 0), "{ending:?}");
    assert!(ending.detail.contains("came to f only after its end mark"), "{ending:?}");
}

#[test]
fn a_patch_that_is_refused_before_anything_runs_ends_the_boot() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir, Until::PowerOff);
    let (plan, stub) = functions::tests::not_kept();
    let script = runs().has_news(3000, News::Off(GuestEnd::PowerOff));
    *script.gdbstub.lock().unwrap() = Some(stub);
    let done = script.done.clone();
    let mut writer = Writer::create(&options.out, false, &Manifest::begun_now()).unwrap();
    let vm = Stub(script).start(&launched(&options.guest)).unwrap();
    let profile = GuestProfile::default();
    let mut silent = Silent;
    let mut watch = Watch::new(&options, &profile, None, None, vm, &mut writer, &mut silent).unwrap();
    watch.stop_at_functions(plan, arch::of(&options.guest));
    // Held vCPUs never run, so such a boot would never end.
    assert_eq!(*done.lock().unwrap(), ["let run"]);
    let ending = boot(&options, &profile, &mut watch).unwrap();
    assert_eq!(ending.kind, OutcomeKind::Unpatched, "{ending:?}");
    assert!(ending.detail.contains("the guest has e8 fa 0f 00 00 there"), "{ending:?}");
    watch.finish(None);
}

#[test]
fn a_stub_that_goes_away_ends_the_readings_and_not_the_boot() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir, Until::PowerOff);
    let (plan, stub) = functions::tests::watched_once();
    let script = runs().has_news(3000, News::Off(GuestEnd::PowerOff));
    *script.gdbstub.lock().unwrap() = Some(stub);
    let done = script.done.clone();
    let mut writer = Writer::create(&options.out, false, &Manifest::begun_now()).unwrap();
    let vm = Stub(script).start(&launched(&options.guest)).unwrap();
    let profile = GuestProfile::default();
    let mut silent = Silent;
    let mut watch = Watch::new(&options, &profile, None, None, vm, &mut writer, &mut silent).unwrap();
    watch.stop_at_functions(plan, arch::of(&options.guest));
    let ending = boot(&options, &profile, &mut watch).unwrap();
    assert_eq!(ending.kind, OutcomeKind::Reached, "{ending:?}");
    assert!(watch.watched().unwrap().ends_with(" 263 f\n"), "what was read is kept: {:?}", watch.watched());
    assert_eq!(*done.lock().unwrap(), ["let run"], "the vCPUs may have stood still");
    let notes = watch.finish(None).notes.join("\n");
    assert!(notes.contains("watch ended early: the gdbstub ") && notes.contains("record once more"), "{notes}");
}

#[test]
fn all_output_is_read_while_a_patch_waits() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir, Until::PowerOff);
    let console_bytes_of = |pieces: u32| {
        let script = (0..pieces).fold(Script::default(), |script, _| script.says(0, Source::Console, "x"));
        *script.gdbstub.lock().unwrap() = Some(functions::tests::entered(true));
        let mut writer = Writer::create(&options.out, true, &Manifest::begun_now()).unwrap();
        let vm = Stub(script).start(&launched(&options.guest)).unwrap();
        let mut silent = Silent;
        let mut watch =
            Watch::new(&options, &GuestProfile::default(), None, None, vm, &mut writer, &mut silent).unwrap();
        watch.stop_at_functions(functions::tests::plan(), arch::of(&options.guest));
        watch.step(&|_| false).unwrap();
        watch.facts.console_bytes
    };
    assert_eq!(console_bytes_of(200), 200);
    assert_eq!(console_bytes_of(900), 256, "a guest that never falls silent does not keep its stop from being seen");
}

#[test]
fn a_stubborn_vmm_is_killed_and_one_that_stops_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let script = Script { stubborn: true, ..runs() };
    let stopped = played(&script, &options(&dir, Until::PowerOff), 2 * SECOND).unwrap();
    assert_eq!(stopped.outcome.kind, OutcomeKind::Interrupted);
    assert_eq!(*script.done.lock().unwrap(), ["quit", "kill"]);
    let registers = std::fs::read_to_string(dir.path().join("boot/registers.txt")).unwrap();
    assert_eq!(registers, "IP=1");
}

#[test]
fn a_vmm_that_ends_before_the_machine_runs_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let script = Script::default().says(10, Source::Vmm, "no such machine\n").ends(20);
    let refused = played(&script, &options(&dir, Until::PowerOff), i64::MAX).unwrap_err();
    assert!(matches!(&refused, Error::VmmRefused { why, .. } if why.contains("no such machine")), "{refused}");
    assert!(!dir.path().join("boot").exists());
    // Once the machine ran, the VMM's end is the boot's outcome.
    let (kind, at_ns, detail) = ended(&runs().says(900, Source::Vmm, "assertion failed\n").ends(1000), Until::PowerOff);
    assert_eq!((kind, at_ns), (OutcomeKind::VmmFailed, SECOND));
    assert!(detail.contains("assertion failed"), "{detail}");
}

/// A guest that offers rounds in its first 300 pages at once. Returns how many were answered until the boot was over, and the notes.
fn rounds(observer: &mut dyn Observer) -> (usize, Vec<String>) {
    const ROUNDS: u64 = 300;
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&dir, Until::Init);
    options.guest.init = Init::Guest;
    let ram = std::sync::Arc::new(tempfile::tempfile().unwrap());
    ram.set_len(ROUNDS * PAGE_BYTES).unwrap();
    let offers = "h".repeat(ROUNDS as usize);
    let script = Script { ram: Some(ram.clone()), ..runs().says(1000, Source::Guest, &offers) };
    let mut writer = Writer::create(&options.out, false, &Manifest::begun_now()).unwrap();
    let vm = Stub(script.says(1500, Source::Guest, "ie")).start(&launched(&options.guest)).unwrap();
    let profile = GuestProfile::default();
    let mut watch = Watch::new(&options, &profile, None, Some(Box::new(Letters)), vm, &mut writer, observer).unwrap();
    boot(&options, &profile, &mut watch).unwrap();
    let answered = (0..ROUNDS).filter(|round| {
        let mut word = [0; 4];
        std::os::unix::fs::FileExt::read_exact_at(&*ram, &mut word, round * PAGE_BYTES + ANSWER_OFFSET).unwrap();
        word != [0; 4]
    });
    (answered.count(), watch.finish(None).notes)
}

#[test]
fn rounds_are_read_one_at_a_time_and_too_many_are_refused() {
    // A guest offers 300 rounds at once: the user can stop the recording between two of them.
    let (answered, _) = rounds(&mut StopsAt(SECOND, 0));
    assert!(answered <= 2, "{answered} rounds were read before the clock and the user were looked at");
    // At most 16 wait; those that lie ready before the end are read.
    let (answered, notes) = rounds(&mut StopsAt(i64::MAX, 0));
    assert_eq!(answered, 16);
    assert!(notes.iter().any(|note| note.contains("300 pieces of evidence were not taken")), "{notes:?}");
}

/// An observer that stops the recording at this call.
struct StopsAtCall(u32);

impl Observer for StopsAtCall {
    fn stop(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 == 0
    }
}

/// The outcome of a recording with a timeout of 20 s, and when its VMM was killed.
fn killed_at(script: &Script, observer: &mut dyn Observer) -> (OutcomeKind, i64) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&dir, Until::PowerOff);
    options.observe.timeout_ms = Some(20_000);
    let recorded = played_by(script, &options, observer).unwrap();
    (recorded.outcome.kind, script.killed_ns.lock().unwrap().unwrap())
}

#[test]
fn a_vmm_that_answers_nothing_ends_with_its_timeout() {
    // This VMM answers no request, not even the one to end. It times out whether or not a look for a hang falls on that time.
    let mute = || Script { mute: true, stubborn: true, ..runs() };
    for said_ms in [0, 2000, 4000, 9000, 14_000] {
        let (kind, at_ns) = killed_at(&mute().says(said_ms, Source::Console, "."), &mut Silent);
        assert_eq!(kind, OutcomeKind::Timeout);
        assert!((20 * SECOND..26 * SECOND).contains(&at_ns), "killed after {at_ns} ns");
    }
    // If a signal stopped the VMM, no answer is waited for.
    let (kind, at_ns) = killed_at(&Script { suspended: true, ..mute() }, &mut Silent);
    assert_eq!(kind, OutcomeKind::Timeout);
    assert!((20 * SECOND..21 * SECOND).contains(&at_ns), "killed after {at_ns} ns");
    // `stop` is called each 50 ms at least, also while an answer is waited for.
    let (kind, at_ns) = killed_at(&mute(), &mut StopsAtCall(150));
    assert_eq!(kind, OutcomeKind::Interrupted);
    assert!(at_ns < 8 * SECOND, "killed after {at_ns} ns");
}

#[test]
fn the_end_of_a_stubborn_vmm_is_within_the_time_for_the_last_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir, Until::PowerOff);
    let killed_at = |used_ns: i64| {
        let script = Script { stubborn: true, ..runs() };
        let mut writer = Writer::create(&options.out, true, &Manifest::begun_now()).unwrap();
        let vm = Stub(script.clone()).start(&launched(&options.guest)).unwrap();
        let (profile, mut observer) = (GuestProfile::default(), Silent);
        let mut watch = Watch::new(&options, &profile, None, None, vm, &mut writer, &mut observer).unwrap();
        watch.begin_last_evidence();
        while watch.vm.elapsed_ns() < used_ns {
            watch.step(&|_| false).unwrap();
        }
        watch.finish(None);
        script.killed_ns.lock().unwrap().unwrap()
    };
    // The evidence and the VMM's end share 10 s, of which the end alone may take 3 s.
    assert_eq!(killed_at(SECOND), 4 * SECOND);
    assert_eq!(killed_at(9 * SECOND), 10 * SECOND);
    let at_ns = killed_at(12 * SECOND);
    assert!((12 * SECOND..12 * SECOND + SECOND / 10).contains(&at_ns), "killed after {at_ns} ns");
}

#[test]
fn a_guest_that_reports_its_end_and_resets_in_the_same_moment_has_reached_it() {
    // The news of the reset comes by another channel than the guest's output before it, and can arrive first.
    let reset = || runs().has_news(1000, News::Off(GuestEnd::Reset));
    let line = Until::Regex("login:".to_owned());
    let (kind, at_ns, _) = ended(&reset().says(1000, Source::Console, "login:"), line.clone());
    assert_eq!((kind, at_ns), (OutcomeKind::Reached, SECOND));
    let (kind, at_ns, _) =
        ended(&reset().says(1001, Source::Console, "a\n").says(1002, Source::Console, "login:"), line);
    assert_eq!((kind, at_ns), (OutcomeKind::Reached, SECOND + 2_000_000));
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&dir, Until::Init);
    options.guest.init = Init::Guest;
    let vm = Stub(reset().says(1000, Source::Guest, "i")).start(&launched(&options.guest)).unwrap();
    let mut writer = Writer::create(&options.out, false, &Manifest::begun_now()).unwrap();
    let (profile, mut silent) = (GuestProfile::default(), Silent);
    let mut watch =
        Watch::new(&options, &profile, None, Some(Box::new(Letters)), vm, &mut writer, &mut silent).unwrap();
    assert_eq!(boot(&options, &profile, &mut watch).unwrap().kind, OutcomeKind::Reached);
}
