//! A board, which is heard through its serial port and switched on by a command or by hand. Behind the seam it is a VMM that
//! can be heard and never asked: it has no memory, no CPUs and no process that anybody here could look at.
//!
//! **Time zero** is the moment when the power-cycle command has ended, because the last thing that such a command does is to
//! switch the board on; what the port says before is of the boot before, or noise of a supply that comes and goes, and is
//! dropped and counted. What the command itself prints is never dropped, however late it is read. Without a command, time
//! zero is the first byte that arrives. Until then the boot's own time stands at 0, and the timeout counts from when listening
//! began: a board that never says anything ends a recording too.
//!
//! `port` opens and closes it, `stamps` says when a byte came, `telnet` takes a terminal server's language off, `power` runs the
//! command. Nothing is ever written to a board; to a terminal server only that its options are refused.

mod port;
mod power;
mod stamps;
mod telnet;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use recording::{Board, GuestSpec};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::listen::{Piece, WAITING_MAX, What, listen, ways};
use super::{ARRIVAL_ERROR_NS, Exit, Heard, Launch, News, Program, SetUpMark, Source, Vmm, Zero};
use crate::Error;
use crate::clock::{Moment, monotonic_ns};
use crate::cpu_time::CpuTimes;
pub(crate) use port::Address;
use port::Port;
use power::Cycle;
use stamps::Stamps;
use telnet::Telnet;

/// What people call it.
const NAME: &str = "the board";
/// So long the command may take.
const CYCLE_MAX: Duration = Duration::from_secs(60);
/// So long its last words may be on their way once it has ended.
const LAST_WORDS_NS: i64 = 500_000_000;
/// Most bytes and pieces that are kept while the command runs: those at the end may turn out to have come after it.
const HELD_BYTES_MAX: usize = 1 << 20;
const HELD_MAX: usize = 4096;
/// With so many bytes it is worth saying that they are no text.
const BYTES_ENOUGH: u64 = 64;

/// The port of a board, which was not opened yet.
#[derive(Debug)]
pub(crate) struct Line {
    board: Board,
    address: Address,
    path: PathBuf,
    cycle_max: Duration,
}

impl Line {
    /// That of this board.
    ///
    /// # Errors
    /// If it has no port of this name.
    pub(crate) fn of(board: &Board) -> Result<Line, Error> {
        let address = Address::of(&board.serial)?;
        address.check()?;
        Ok(Line { board: board.clone(), address, path: PathBuf::from(&board.serial), cycle_max: CYCLE_MAX })
    }
}

impl Program for Line {
    fn name(&self) -> &'static str {
        NAME
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn version(&self) -> &str {
        ""
    }

    fn check(&self, _guest: &GuestSpec, _spared: &[&str], _yields: bool) -> Result<(), Error> {
        Ok(())
    }

    fn plugin(&self) -> Result<PathBuf, String> {
        Err("a board runs its code itself".to_owned())
    }

    fn start(&self, _launch: &Launch<'_>) -> Result<Box<dyn Vmm>, Error> {
        Ok(Box::new(Connected::start(self)?))
    }
}

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ear {
    /// The board.
    Port,
    /// The power-cycle command.
    Command,
    /// Nobody: that command has ended.
    Cycled(ExitStatus),
    /// Nobody: who listens is to stop.
    Stop,
}

/// How far the board's power is.
#[derive(Debug)]
enum Power {
    /// The command runs, and what was heard meanwhile.
    Cycled(Cycle, Held),
    /// The user is to switch it on.
    ByHand,
    /// It is on.
    On,
}

/// The newest output of a board that is being switched on.
#[derive(Debug, Default)]
struct Held {
    pieces: VecDeque<(i64, Vec<u8>)>,
    bytes: usize,
}

impl Held {
    /// Keeps a piece. Returns how many bytes of older ones had to go for it.
    fn push(&mut self, at_ns: i64, bytes: Vec<u8>) -> u64 {
        let mut gone = 0;
        self.bytes += bytes.len();
        self.pieces.push_back((at_ns, bytes));
        while self.pieces.len() > HELD_MAX || self.bytes > HELD_BYTES_MAX {
            let Some((_, oldest)) = self.pieces.pop_front() else { break };
            self.bytes -= oldest.len();
            gone += oldest.len() as u64;
        }
        gone
    }
}

/// A board that is listened to.
#[derive(Debug)]
struct Connected {
    /// When listening began.
    began_ns: i64,
    /// The number of pieces that are still handed on, once listening is to end: those that waited then.
    left: Option<usize>,
    serial: String,
    command: Vec<String>,
    port: Port,
    stamps: Stamps,
    telnet: Option<Telnet>,
    power: Power,
    zero: Option<Zero>,
    /// None once nobody listens any more.
    heard: Option<Receiver<Piece<Ear>>>,
    /// Closed, it ends the thread that listens.
    stop: Option<OwnedFd>,
    listener: Option<JoinHandle<()>>,
    /// What was heard and not handed on yet.
    said: VecDeque<Heard>,
    /// How it ended, in words that follow its name.
    over: Option<String>,
    early_bytes: u64,
    bytes: u64,
    /// Those of them that are in no text.
    odd_bytes: u64,
}

impl Connected {
    fn start(line: &Line) -> Result<Connected, Error> {
        let port = Port::open(&line.address, line.board.baud)?;
        let (sender, heard) = ways();
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).map_err(Error::host("make a pipe"))?;
        let mut ears = vec![(Ear::Port, port.reader()?), (Ear::Stop, stopped)];
        let mut power = Power::ByHand;
        let mut command = Vec::new();
        if let Some(text) = &line.board.power_cycle {
            let (cycle, output) = Cycle::start(text, line.cycle_max, sender.clone())?;
            ears.push((Ear::Command, output));
            power = Power::Cycled(cycle, Held::default());
            command = ["sh", "-c", text].map(str::to_owned).to_vec();
        }
        let listener = listen(ears, sender)?;
        Ok(Connected {
            began_ns: monotonic_ns(),
            left: None,
            serial: line.board.serial.clone(),
            command,
            stamps: Stamps::new(port.character_ns()),
            telnet: matches!(line.address, Address::Telnet(_)).then(Telnet::default),
            port,
            power,
            zero: None,
            heard: Some(heard),
            stop: Some(stop),
            listener: Some(listener),
            said: VecDeque::new(),
            over: None,
            early_bytes: 0,
            bytes: 0,
            odd_bytes: 0,
        })
    }

    fn take(&mut self, piece: Piece<Ear>) {
        let Piece { ear, at_ns, what } = piece;
        match (ear, what) {
            (Ear::Port, What::Said(bytes)) => self.take_port(bytes, at_ns),
            (Ear::Port, What::Ended(why)) => self.over = self.over.take().or_else(|| Some(self.lost(why))),
            (Ear::Command, What::Said(bytes)) => {
                // It is never too early: all that it does is before time zero.
                let at_ns = self.zero.map_or(0, |zero| (at_ns - zero.ns).max(0));
                self.said.push_back(Heard::Said { source: Source::Vmm, at_ns, bytes });
            }
            (Ear::Cycled(status), _) => self.take_cycled(status, at_ns),
            (Ear::Command | Ear::Stop, _) => {}
        }
    }

    fn take_port(&mut self, bytes: Vec<u8>, at_ns: i64) {
        let bytes = match &mut self.telnet {
            Some(telnet) => {
                let (text, replies) = telnet.take(&bytes);
                self.port.reply(&replies);
                text
            }
            None => bytes,
        };
        for (at_ns, bytes) in self.stamps.place(bytes, at_ns) {
            if matches!(self.power, Power::ByHand) {
                self.begin(at_ns);
            }
            match &mut self.power {
                Power::Cycled(_, held) => self.early_bytes += held.push(at_ns, bytes),
                Power::On | Power::ByHand => self.hand_on(bytes, at_ns),
            }
        }
    }

    /// Hands on what the board said since it was switched on.
    fn hand_on(&mut self, bytes: Vec<u8>, at_ns: i64) {
        let Some(zero) = self.zero.filter(|zero| at_ns >= zero.ns) else {
            self.early_bytes += bytes.len() as u64;
            return;
        };
        let is_text = |b: &u8| matches!(b, b'\t' | b'\r' | b'\n' | 0x1b | b' '..=b'~');
        self.bytes += bytes.len() as u64;
        self.odd_bytes += bytes.iter().filter(|b| !is_text(b)).count() as u64;
        self.said.push_back(Heard::Said { source: Source::Console, at_ns: at_ns - zero.ns, bytes });
    }

    /// The board is switched on.
    fn begin(&mut self, at_ns: i64) {
        self.zero = Some(Zero { ns: at_ns, moment: Moment::now() });
        self.said.push_back(Heard::News { news: vec![News::Running], at_ns: 0 });
        if let Power::Cycled(_, held) = std::mem::replace(&mut self.power, Power::On) {
            held.pieces.into_iter().for_each(|(at_ns, bytes)| self.hand_on(bytes, at_ns));
        }
    }

    fn take_cycled(&mut self, status: ExitStatus, at_ns: i64) {
        let Power::Cycled(cycle, _) = &mut self.power else { return };
        match cycle.over(status) {
            None => self.begin(at_ns),
            Some(why) => {
                self.hear_last_words();
                self.over.get_or_insert(why);
            }
        }
    }

    /// Waits for what the command that failed still says: it may be on its way.
    fn hear_last_words(&mut self) {
        let until_ns = monotonic_ns() + LAST_WORDS_NS;
        for _ in 0..WAITING_MAX {
            let Some(left) = u64::try_from(until_ns - monotonic_ns()).ok().filter(|&left| left > 0) else { return };
            match self.heard.as_ref().map(|heard| heard.recv_timeout(Duration::from_nanos(left))) {
                Some(Ok(Piece { ear: Ear::Command, what: What::Ended(_), .. }) | Err(_)) | None => return,
                Some(Ok(piece)) => self.take(piece),
            }
        }
    }

    /// What it means that nothing will come from the port any more.
    fn lost(&self, why: Option<Errno>) -> String {
        let why = why.map_or(String::new(), |errno| format!(" ({})", std::io::Error::from(errno)));
        format!("is not heard any more: {}{why}", self.port.lost())
    }
}

impl Vmm for Connected {
    fn name(&self) -> &'static str {
        NAME
    }

    fn zero(&self) -> Zero {
        self.zero.unwrap_or_else(|| Zero { ns: monotonic_ns(), moment: None })
    }

    fn elapsed_ns(&self) -> i64 {
        self.zero.map_or(0, |zero| monotonic_ns() - zero.ns)
    }

    fn listened_ns(&self) -> i64 {
        monotonic_ns() - self.zero.map_or(self.began_ns, |zero| zero.ns)
    }

    fn command(&self) -> &[String] {
        &self.command
    }

    fn hear(&mut self, patience: Duration) -> Heard {
        if self.said.is_empty() && self.over.is_none() {
            if let Power::Cycled(cycle, _) = &mut self.power {
                cycle.end_if_late();
            }
            if self.left == Some(0) {
                self.heard = None;
            }
            let patience = if self.left.is_some() { Duration::ZERO } else { patience };
            match self.heard.as_ref().map(|heard| heard.recv_timeout(patience)) {
                Some(Ok(piece)) => {
                    self.left = self.left.map(|left| left - 1);
                    self.take(piece);
                }
                Some(Err(RecvTimeoutError::Timeout)) if self.left.is_some() => self.left = Some(0),
                Some(Err(RecvTimeoutError::Timeout)) => return Heard::Silence,
                Some(Err(RecvTimeoutError::Disconnected)) | None => {
                    self.over.get_or_insert_with(|| "was not listened to any more".to_owned());
                }
            }
        }
        let nothing = if self.over.is_some() { Heard::Gone } else { Heard::Silence };
        self.said.pop_front().unwrap_or(nothing)
    }

    fn cpu_times(&self) -> CpuTimes {
        CpuTimes::default()
    }

    fn quit(&mut self) -> bool {
        false
    }

    /// The board stays on: only listening ends. What waits to be handed on still is, piece by piece: all at once it could be more
    /// than there is memory for, and a board that talks on would never let it end.
    fn kill(&mut self) {
        self.left.get_or_insert(WAITING_MAX);
    }

    fn wait(&mut self) -> Result<Exit, Error> {
        let now = if self.left.is_some() { "was not listened to any more" } else { "is still listened to" };
        let how = self.over.clone().unwrap_or_else(|| now.to_owned());
        Ok(Exit { how, used: None })
    }

    fn arrival_error_ns(&self) -> i64 {
        ARRIVAL_ERROR_NS + self.port.late().ns + self.port.character_ns()
    }

    fn wants(&self) -> Option<String> {
        let Power::ByHand = self.power else { return None };
        Some(format!("switch the board on now; time zero is the first byte on {}", self.serial))
    }

    fn notes(&self) -> Vec<String> {
        let ms = |ns: i64| format!("{:.3} ms", ns as f64 / 1e6);
        let late = self.port.late();
        let wire = match self.port.character_ns() {
            0 => String::new(),
            ns => format!(" by its place on the wire, where a character takes {}", ms(ns)),
        };
        let error = ms(self.arrival_error_ns());
        let mut notes = vec![format!(
            "what the board said is stamped on arrival{wire}: a stamp may be off by {error}, of which {} are {}",
            ms(late.ns),
            late.why
        )];
        if self.early_bytes > 0 {
            notes.push(format!(
                "{} bytes came before --power-cycle had ended; they are not of this boot, and were dropped",
                self.early_bytes
            ));
        }
        if self.bytes >= BYTES_ENOUGH && self.odd_bytes * 4 > self.bytes {
            notes.push(format!(
                "{} of the {} bytes from the board are no text: check --baud, which must be the rate of the board's console",
                self.odd_bytes, self.bytes
            ));
        }
        if self.bytes == 0 && self.zero.is_some() {
            notes.push(format!(
                "the board said nothing: check that its console is on {}, that TX and RX are crossed, and --baud",
                self.serial
            ));
        }
        notes
    }

    fn set_up(&mut self, _counter_hz: Option<f64>) -> Vec<SetUpMark> {
        let (error_ns, evidence) = match self.command.is_empty() {
            true => (self.arrival_error_ns(), "the first byte from the board"),
            false => (ARRIVAL_ERROR_NS, "--power-cycle has ended"),
        };
        let mark = SetUpMark { name: "power on", at_ns: 0, error_ns, evidence: evidence.to_owned() };
        self.zero.map(|_| mark).into_iter().collect()
    }
}

impl Drop for Connected {
    /// The port is closed when this returns, so that the next boot can open it.
    fn drop(&mut self) {
        drop(self.heard.take());
        drop(self.stop.take());
        if let Some(listener) = self.listener.take() {
            // It has no way to panic, and nobody could do anything about it.
            let _ = listener.join();
        }
    }
}
