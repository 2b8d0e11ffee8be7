//! Tests with a board that is a pseudo-terminal: which output belongs to its boot, and how the recording ends.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use recording::Board;
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::*;

/// The board's end of a pseudo-terminal, and the name of the recorder's end.
fn line() -> (File, String) {
    let board: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&board).unwrap();
    unlockpt(&board).unwrap();
    let name = ptsname(&board, Vec::new()).unwrap().into_string().unwrap();
    (File::from(board), name)
}

fn connected(serial: &str, power_cycle: Option<&str>, max_cycle_time: Duration) -> ConnectedBoard {
    let board = Board { serial: serial.to_owned(), power_cycle: power_cycle.map(str::to_owned), ..Board::default() };
    ConnectedBoard::start(&BoardPort { max_cycle_time, ..BoardPort::of(&board).unwrap() }).unwrap()
}

/// Collects what arrives until `is_enough`. Panics after 10 s.
fn hear(board: &mut ConnectedBoard, is_enough: impl Fn(&[Heard]) -> bool) -> Vec<Heard> {
    let (mut all, began) = (Vec::new(), std::time::Instant::now());
    while !is_enough(&all) {
        assert!(began.elapsed() < Duration::from_secs(10), "it is never heard: {all:?}");
        match board.hear(Duration::from_millis(20)) {
            Heard::Silence => {}
            event => all.push(event),
        }
    }
    all
}

fn output_of(all: &[Heard], wanted: Source) -> (Vec<i64>, String) {
    let output = all.iter().filter_map(|event| match event {
        Heard::Said { source, at_ns, bytes } if *source == wanted => Some((*at_ns, bytes.clone())),
        _ => None,
    });
    let (at, bytes): (Vec<i64>, Vec<Vec<u8>>) = output.unzip();
    (at, String::from_utf8(bytes.concat()).unwrap())
}

fn is_gone(all: &[Heard]) -> bool {
    matches!(all.last(), Some(Heard::Gone))
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn output_before_the_end_of_the_command_is_dropped_but_not_that_of_the_command() {
    let (mut board, name) = line();
    // `hear` is called only after the command has ended, so the command's output is still in its pipe.
    let mut recorder = connected(&name, Some("sleep 0.3; echo relay on"), LONG);
    assert_eq!(recorder.elapsed_ns(), 0, "no time passes before");
    board.write_all(b"of the boot before\n").unwrap();
    std::thread::sleep(Duration::from_millis(600));
    board.write_all(b"U-Boot 2024.01\r\nlogin: ").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let all = hear(&mut recorder, |all| {
        output_of(all, Source::Console).1.ends_with("login: ") && output_of(all, Source::Vmm).1.len() > 8
    });
    let (at, text) = output_of(&all, Source::Vmm);
    assert_eq!(text, "relay on\n");
    // The output was in its pipe at time zero, and is stamped when it is read.
    assert!(at.iter().all(|at| (0..MAX_LAST_OUTPUT_NS).contains(at)), "{at:?}");
    let (at, text) = output_of(&all, Source::Console);
    assert_eq!(text, "U-Boot 2024.01\r\nlogin: ");
    assert!(at.iter().all(|&at| (100_000_000..2_000_000_000).contains(&at)), "{at:?}");
    let running =
        all.iter().position(|event| matches!(event, Heard::News { news, at_ns: 0 } if *news == [News::Running]));
    let console = all.iter().position(|event| matches!(event, Heard::Said { source: Source::Console, .. }));
    assert!(running.is_some() && running < console, "{all:?}");
    let notes = recorder.notes().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(notes.contains("19 bytes came before power_cycle had ended"), "{notes}");
    assert_eq!(recorder.set_up(None).len(), 1);
}

#[test]
fn last_output_of_a_failing_command_is_kept() {
    let (_board, name) = line();
    let mut recorder = connected(&name, Some("echo no such relay >&2; exit 3"), LONG);
    let all = hear(&mut recorder, is_gone);
    assert_eq!(output_of(&all, Source::Vmm).1, "no such relay\n");
    let how = recorder.wait().unwrap().how;
    assert!(how.contains("exit 3` ended with exit status: 3"), "{how}");
}

#[test]
fn a_command_that_does_not_end_is_killed() {
    let (_board, name) = line();
    let mut recorder = connected(&name, Some("echo waiting; sleep 1000"), Duration::from_secs(1));
    let all = hear(&mut recorder, is_gone);
    assert_eq!(output_of(&all, Source::Vmm).1, "waiting\n");
    let how = recorder.wait().unwrap().how;
    assert!(how.contains("did not end within 1 s"), "{how}");
}

#[test]
fn by_hand_the_boot_begins_with_the_first_byte() {
    let (mut board, name) = line();
    let mut recorder = connected(&name, None, LONG);
    assert!(recorder.wants().unwrap().contains(&name));
    assert!(matches!(recorder.hear(Duration::from_millis(50)), Heard::Silence));
    assert_eq!(recorder.elapsed_ns(), 0);
    board.write_all(b"\0SPL\n").unwrap();
    let all = hear(&mut recorder, |all| !output_of(all, Source::Console).1.is_empty());
    assert_eq!(output_of(&all, Source::Console), (vec![0], "\0SPL\n".to_owned()));
    assert!(recorder.elapsed_ns() > 0);
    recorder.kill();
    assert!(is_gone(&hear(&mut recorder, is_gone)));
}

#[test]
fn a_line_that_ends_ends_the_recording_after_all_output() {
    let (mut board, name) = line();
    let mut recorder = connected(&name, None, LONG);
    board.write_all(b"last words\n").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    drop(board);
    let all = hear(&mut recorder, is_gone);
    assert_eq!(output_of(&all, Source::Console).1, "last words\n");
    let how = recorder.wait().unwrap().how;
    assert!(how.contains(&name) && how.contains("unplugged"), "{how}");
}

/// A terminal server that sends newlines without an end, and a recorder that listens to it.
fn flooded(baud: Option<u32>) -> ConnectedBoard {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let serial = format!("tcp:{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut board, _) = listener.accept().unwrap();
        // Until the recorder closes the connection.
        while board.write_all(&[b'\n'; 1 << 16]).is_ok() {}
    });
    let board = Board { serial, baud, ..Board::default() };
    ConnectedBoard::start(&BoardPort { max_cycle_time: LONG, ..BoardPort::of(&board).unwrap() }).unwrap()
}

#[test]
fn listening_to_a_board_that_never_falls_silent_ends_and_needs_little_memory() {
    for baud in [None, Some(115_200)] {
        let (sender, over) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut recorder = flooded(baud);
            hear(&mut recorder, |all| output_of(all, Source::Console).1.len() > 100);
            // By now the queue is full.
            std::thread::sleep(Duration::from_millis(500));
            recorder.kill();
            let mut most = recorder.queue.len();
            while !matches!(recorder.hear(Duration::from_millis(20)), Heard::Gone) {
                most = most.max(recorder.queue.len());
            }
            sender.send(most).unwrap();
        });
        let most = over.recv_timeout(Duration::from_secs(60)).expect("listening does not end");
        assert!(most <= 1 << 16, "{most} lines waited at once");
    }
}

#[test]
fn time_passes_for_a_board_that_is_never_switched_on() {
    let (_board, name) = line();
    let mut recorder = connected(&name, None, LONG);
    let began = std::time::Instant::now();
    assert!(matches!(recorder.hear(Duration::from_millis(50)), Heard::Silence));
    assert_eq!(recorder.elapsed_ns(), 0);
    let listened = Duration::from_nanos(recorder.listened_ns().unsigned_abs());
    assert!(listened >= Duration::from_millis(50) && listened <= began.elapsed() + Duration::from_secs(1));
}

#[test]
fn output_before_the_power_is_on_is_bounded() {
    let (mut held, mut gone) = (EarlyOutput::default(), 0);
    for n in 0..100 {
        gone += held.push(n, vec![0; 1 << 16]);
    }
    assert_eq!((held.pieces.len(), held.bytes, gone), (16, 1 << 20, 84 << 16));
    for n in 0..10_000 {
        held.push(n, vec![b'\n']);
    }
    assert_eq!((held.pieces.len(), held.bytes), (MAX_EARLY_PIECES, MAX_EARLY_PIECES));
}

#[test]
fn a_port_is_for_one_program_at_a_time_and_free_again_after_it() {
    let (_board, name) = line();
    let first = connected(&name, None, LONG);
    let second = Port::open(&Address::of(&name).unwrap(), None).unwrap_err().to_string();
    assert!(second.contains("in use") && second.contains("fuser"), "{second}");
    drop(first);
    for baud in [None, Some(9600), Some(1_500_000)] {
        drop(Port::open(&Address::of(&name).unwrap(), baud).unwrap());
    }
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    rustix::fs::open(&name, flags, rustix::fs::Mode::empty()).expect("whoever comes next can have it");
}
