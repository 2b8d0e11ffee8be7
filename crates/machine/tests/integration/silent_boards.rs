//! Boards that never begin to boot: the timeout counts from the start of listening.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use machine::{GuestSpec, Init, ObserveSpec, Observer, RecordOptions, Target, Until, record};
use recording::{Board, OutcomeKind, Recording, State};

/// Stops a recording that its timeout does not end.
struct GivesUp(Instant);

impl Observer for GivesUp {
    fn stop(&mut self) -> bool {
        self.0.elapsed() > Duration::from_secs(30)
    }
}

/// Records a board at this kind of port for 2 s; `say` writes to the port until it fails.
fn check(kind: &str, say: fn(&mut TcpStream) -> std::io::Result<()>, power_cycle: Option<&str>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let serial = format!("{kind}:{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        while say(&mut socket).is_ok() {}
    });
    let folder = tempfile::tempdir().unwrap();
    let board = Board { serial, power_cycle: power_cycle.map(str::to_owned), ..Board::default() };
    let until = Until::Regex("never".to_owned());
    let guest = GuestSpec { target: Target::Board(board), init: Init::Keep, until, ..GuestSpec::default() };
    let observe = ObserveSpec { timeout_ms: Some(2000), ..ObserveSpec::default() };
    let options = RecordOptions { observe, out: folder.path().join("boot"), ..RecordOptions::of(guest) };
    let recorded = record(&options, &mut GivesUp(Instant::now())).unwrap();
    assert_eq!(recorded.outcome.kind, OutcomeKind::Timeout, "{}", recorded.outcome.detail);
    assert!(recorded.outcome.detail.contains("was not switched on within 2 s"), "{}", recorded.outcome.detail);
    assert_eq!(Recording::open(&options.out).unwrap().manifest().state, State::Finished);
}

fn waits(_: &mut TcpStream) -> std::io::Result<()> {
    std::thread::sleep(Duration::from_millis(20));
    Ok(())
}

#[test]
fn a_board_that_never_sends_a_byte() {
    check("tcp", waits, None);
}

#[test]
fn a_terminal_server_that_only_negotiates() {
    check("telnet", |socket| socket.write_all(b"\xff\xf1").and_then(|()| waits(socket)), None);
    check("telnet", |socket| socket.write_all(&b"\xff\xfd\x01".repeat(20_000)), None);
    check("telnet", |socket| socket.write_all(&[&b"\xff\xfa"[..], &[b'A'; 60_000]].concat()), None);
}

#[test]
fn a_power_cycle_that_does_not_end() {
    check("tcp", waits, Some("sleep 1000"));
    // Output of the board during the power cycle belongs to the boot before.
    check("tcp", |socket| socket.write_all(&[b'\n'; 1 << 16]), Some("sleep 1000"));
}
