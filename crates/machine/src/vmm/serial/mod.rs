//! A board, whose output is read from its serial port and which is switched on by a command or by hand. It implements [`Vmm`], but
//! answers no question: the host cannot read its memory or CPUs, and it has no process. It must never write to a board. To a
//! terminal server it writes only that its options are refused.
//!
//! **Time zero** is the end of the power-cycle command, because such a command switches the board on as its last step. Earlier output
//! of the port is from the boot before, or noise of the switched supply. It is dropped and counted. Output of the command itself is
//! never dropped, however late it is read. Without a command, time zero is the first byte that arrives. Until time zero, the
//! boot's time stays at 0, and the timeout counts from the start of listening: a silent board ends a recording too.
//!
//! `port` opens and closes the port, `stamps` computes when a byte arrived, `telnet` removes a terminal server's protocol, and `power`
//! runs the command.

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

use super::listen::{Content, MAX_QUEUED_PIECES, Piece, listen, piece_queue};
use super::{ARRIVAL_ERROR_NS, Exit, Heard, Launch, News, Program, SetUpMark, Source, Vmm, Zero};
use crate::Error;
use crate::clock::{Moment, monotonic_ns};
use crate::cpu_time::CpuTimes;
use crate::refusal::{Text, text};
pub(crate) use port::Address;
use port::Port;
use power::PowerCycle;
use recording::Field;
use stamps::Stamps;
use telnet::Telnet;

/// The name for messages to the user.
const NAME: &str = "the board";
/// Longest duration of the power-cycle command.
const MAX_CYCLE_TIME: Duration = Duration::from_secs(60);
/// Longest wait for the command's last output once it has ended.
const MAX_LAST_OUTPUT_NS: i64 = 500_000_000;
/// Bytes and pieces that are kept while the command runs. The newest may turn out to have arrived after its end.
const MAX_EARLY_BYTES: usize = 1 << 20;
const MAX_EARLY_PIECES: usize = 4096;
/// From this number of bytes on, a note reports that most of them are not text.
const MIN_JUDGED_BYTES: u64 = 64;

/// The port of a board, not yet opened.
#[derive(Debug)]
pub(crate) struct BoardPort {
    board: Board,
    address: Address,
    path: PathBuf,
    max_cycle_time: Duration,
}

impl BoardPort {
    /// The port that the board's specification names.
    ///
    /// # Errors
    /// If there is no such port.
    pub(crate) fn of(board: &Board) -> Result<BoardPort, Error> {
        let address = Address::of(&board.serial)?;
        address.check()?;
        Ok(BoardPort {
            board: board.clone(),
            address,
            path: PathBuf::from(&board.serial),
            max_cycle_time: MAX_CYCLE_TIME,
        })
    }
}

impl Program for BoardPort {
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
        Ok(Box::new(ConnectedBoard::start(self)?))
    }
}

/// The source of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// Output of the board.
    Port,
    /// Output of the power-cycle command.
    Command,
    /// The end of the power-cycle command.
    Cycled(ExitStatus),
    /// The request to end the thread that listens.
    Stop,
}

/// The state of the board's power.
#[derive(Debug)]
enum Power {
    /// The power-cycle command runs. The second value is the board's output since its start.
    Cycling(PowerCycle, EarlyOutput),
    /// The user has to switch the board on.
    ByHand,
    On,
}

/// The newest output of a board that is being switched on.
#[derive(Debug, Default)]
struct EarlyOutput {
    pieces: VecDeque<(i64, Vec<u8>)>,
    bytes: usize,
}

impl EarlyOutput {
    /// Keeps a piece. Returns the number of bytes of older pieces that were dropped for it.
    fn push(&mut self, at_ns: i64, bytes: Vec<u8>) -> u64 {
        let mut gone = 0;
        self.bytes += bytes.len();
        self.pieces.push_back((at_ns, bytes));
        while self.pieces.len() > MAX_EARLY_PIECES || self.bytes > MAX_EARLY_BYTES {
            let Some((_, oldest)) = self.pieces.pop_front() else { break };
            self.bytes -= oldest.len();
            gone += oldest.len() as u64;
        }
        gone
    }
}

/// A board whose port is open.
#[derive(Debug)]
struct ConnectedBoard {
    /// The start of listening.
    began_ns: i64,
    /// Once listening is to end, the number of pieces that are still forwarded: those that were queued then.
    pieces_left: Option<usize>,
    serial: String,
    command: Vec<String>,
    port: Port,
    stamps: Stamps,
    telnet: Option<Telnet>,
    power: Power,
    zero: Option<Zero>,
    /// `None` once listening has ended.
    pieces: Option<Receiver<Piece<Input>>>,
    /// Closing it ends the thread that listens.
    stop: Option<OwnedFd>,
    listener: Option<JoinHandle<()>>,
    /// Received and not yet returned by `hear`.
    queue: VecDeque<Heard>,
    /// The reason of the end. The text follows the board's name.
    end_reason: Option<String>,
    early_bytes: u64,
    bytes: u64,
    /// The bytes among them that do not occur in text.
    binary_bytes: u64,
}

impl ConnectedBoard {
    fn start(line: &BoardPort) -> Result<ConnectedBoard, Error> {
        let port = Port::open(&line.address, line.board.baud)?;
        let (sender, pieces) = piece_queue();
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).map_err(Error::host("make a pipe"))?;
        let mut inputs = vec![(Input::Port, port.reader()?), (Input::Stop, stopped)];
        let mut power = Power::ByHand;
        let mut command = Vec::new();
        if let Some(text) = &line.board.power_cycle {
            let (cycle, output) = PowerCycle::start(text, line.max_cycle_time, sender.clone())?;
            inputs.push((Input::Command, output));
            power = Power::Cycling(cycle, EarlyOutput::default());
            command = ["sh", "-c", text].map(str::to_owned).to_vec();
        }
        let listener = listen(inputs, sender)?;
        Ok(ConnectedBoard {
            began_ns: monotonic_ns(),
            pieces_left: None,
            serial: line.board.serial.clone(),
            command,
            stamps: Stamps::new(port.character_ns()),
            telnet: matches!(line.address, Address::Telnet(_)).then(Telnet::default),
            port,
            power,
            zero: None,
            pieces: Some(pieces),
            stop: Some(stop),
            listener: Some(listener),
            queue: VecDeque::new(),
            end_reason: None,
            early_bytes: 0,
            bytes: 0,
            binary_bytes: 0,
        })
    }

    fn take(&mut self, piece: Piece<Input>) {
        let Piece { input, at_ns, content } = piece;
        match (input, content) {
            (Input::Port, Content::Bytes(bytes)) => self.take_port(bytes, at_ns),
            (Input::Port, Content::Ended(why)) => {
                self.end_reason = self.end_reason.take().or_else(|| Some(self.lost(why)))
            }
            (Input::Command, Content::Bytes(bytes)) => {
                // Unlike the port's output, it is kept even from before time zero.
                let at_ns = self.zero.map_or(0, |zero| (at_ns - zero.ns).max(0));
                self.queue.push_back(Heard::Said { source: Source::Vmm, at_ns, bytes });
            }
            (Input::Cycled(status), _) => self.take_cycle_end(status, at_ns),
            (Input::Command | Input::Stop, _) => {}
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
                Power::Cycling(_, held) => self.early_bytes += held.push(at_ns, bytes),
                Power::On | Power::ByHand => self.forward(bytes, at_ns),
            }
        }
    }

    /// Queues output that the board wrote since it was switched on.
    fn forward(&mut self, bytes: Vec<u8>, at_ns: i64) {
        let Some(zero) = self.zero.filter(|zero| at_ns >= zero.ns) else {
            self.early_bytes += bytes.len() as u64;
            return;
        };
        let is_text = |b: &u8| matches!(b, b'\t' | b'\r' | b'\n' | 0x1b | b' '..=b'~');
        self.bytes += bytes.len() as u64;
        self.binary_bytes += bytes.iter().filter(|b| !is_text(b)).count() as u64;
        self.queue.push_back(Heard::Said { source: Source::Console, at_ns: at_ns - zero.ns, bytes });
    }

    /// Notes that the board was switched on.
    fn begin(&mut self, at_ns: i64) {
        self.zero = Some(Zero { ns: at_ns, moment: Moment::now() });
        self.queue.push_back(Heard::News { news: vec![News::Running], at_ns: 0 });
        if let Power::Cycling(_, held) = std::mem::replace(&mut self.power, Power::On) {
            held.pieces.into_iter().for_each(|(at_ns, bytes)| self.forward(bytes, at_ns));
        }
    }

    fn take_cycle_end(&mut self, status: ExitStatus, at_ns: i64) {
        let Power::Cycling(cycle, _) = &mut self.power else { return };
        match cycle.failure(status) {
            None => self.begin(at_ns),
            Some(why) => {
                self.take_last_output();
                self.end_reason.get_or_insert(why);
            }
        }
    }

    /// Waits for the last output of a command that failed, which may still be in its pipe.
    fn take_last_output(&mut self) {
        let until_ns = monotonic_ns() + MAX_LAST_OUTPUT_NS;
        for _ in 0..MAX_QUEUED_PIECES {
            let Some(left) = u64::try_from(until_ns - monotonic_ns()).ok().filter(|&left| left > 0) else { return };
            match self.pieces.as_ref().map(|pieces| pieces.recv_timeout(Duration::from_nanos(left))) {
                Some(Ok(Piece { input: Input::Command, content: Content::Ended(_), .. }) | Err(_)) | None => return,
                Some(Ok(piece)) => self.take(piece),
            }
        }
    }

    /// The reason of the end, for a port that was lost.
    fn lost(&self, why: Option<Errno>) -> String {
        let why = why.map_or(String::new(), |errno| format!(" ({})", std::io::Error::from(errno)));
        format!("is not heard any more: {}{why}", self.port.lost())
    }
}

impl Vmm for ConnectedBoard {
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
        if self.queue.is_empty() && self.end_reason.is_none() {
            if let Power::Cycling(cycle, _) = &mut self.power {
                cycle.end_if_late();
            }
            if self.pieces_left == Some(0) {
                self.pieces = None;
            }
            let patience = if self.pieces_left.is_some() { Duration::ZERO } else { patience };
            match self.pieces.as_ref().map(|pieces| pieces.recv_timeout(patience)) {
                Some(Ok(piece)) => {
                    self.pieces_left = self.pieces_left.map(|left| left - 1);
                    self.take(piece);
                }
                Some(Err(RecvTimeoutError::Timeout)) if self.pieces_left.is_some() => self.pieces_left = Some(0),
                Some(Err(RecvTimeoutError::Timeout)) => return Heard::Silence,
                Some(Err(RecvTimeoutError::Disconnected)) | None => {
                    self.end_reason.get_or_insert_with(|| "was not listened to any more".to_owned());
                }
            }
        }
        let nothing = if self.end_reason.is_some() { Heard::Gone } else { Heard::Silence };
        self.queue.pop_front().unwrap_or(nothing)
    }

    fn cpu_times(&self) -> CpuTimes {
        CpuTimes::default()
    }

    fn quit(&mut self) -> bool {
        false
    }

    /// Ends listening; the board stays on. Queued pieces are still returned one by one. Taken all at once they could exceed memory, and a
    /// board that goes on printing would prolong this for ever.
    fn kill(&mut self) {
        self.pieces_left.get_or_insert(MAX_QUEUED_PIECES);
    }

    fn wait(&mut self) -> Result<Exit, Error> {
        let now = if self.pieces_left.is_some() { "was not listened to any more" } else { "is still listened to" };
        let how = self.end_reason.clone().unwrap_or_else(|| now.to_owned());
        Ok(Exit { how, used: None })
    }

    fn arrival_error_ns(&self) -> i64 {
        ARRIVAL_ERROR_NS + self.port.latency().ns + self.port.character_ns()
    }

    fn wants(&self) -> Option<String> {
        let Power::ByHand = self.power else { return None };
        Some(format!("switch the board on now; time zero is the first byte on {}", self.serial))
    }

    fn notes(&self) -> Vec<Text> {
        let ms = |ns: i64| format!("{:.3} ms", ns as f64 / 1e6);
        let latency = self.port.latency();
        let wire = match self.port.character_ns() {
            0 => String::new(),
            ns => format!(" by its place on the wire, where a character takes {}", ms(ns)),
        };
        let error = ms(self.arrival_error_ns());
        let stamps = format!(
            "what the board said is stamped on arrival{wire}: a stamp may be off by {error}, of which {} are {}",
            ms(latency.ns),
            latency.why
        );
        let mut notes = vec![Text::from(stamps)];
        if self.early_bytes > 0 {
            notes.push(text![
                format!("{} bytes came before ", self.early_bytes),
                Field::PowerCycle,
                " had ended; they are not of this boot, and were dropped"
            ]);
        }
        if self.bytes >= MIN_JUDGED_BYTES && self.binary_bytes * 4 > self.bytes {
            notes.push(text![
                format!("{} of the {} bytes from the board are no text: check ", self.binary_bytes, self.bytes),
                Field::Baud,
                ", which must be the rate of the board's console"
            ]);
        }
        if self.bytes == 0 && self.zero.is_some() {
            let said =
                format!("the board said nothing: check that its console is on {}, that TX and RX are ", self.serial);
            notes.push(text![said, "crossed, and ", Field::Baud]);
        }
        notes
    }

    fn set_up(&mut self, _counter_hz: Option<f64>) -> Vec<SetUpMark> {
        let (error_ns, evidence) = match self.command.is_empty() {
            true => (self.arrival_error_ns(), "the first byte from the board"),
            false => (ARRIVAL_ERROR_NS, "the command that switches the board on has ended"),
        };
        let mark = SetUpMark { name: "power on", at_ns: 0, error_ns, evidence: evidence.to_owned() };
        self.zero.map(|_| mark).into_iter().collect()
    }
}

impl Drop for ConnectedBoard {
    /// The port is closed when this returns, so that the next boot can open it.
    fn drop(&mut self) {
        drop(self.pieces.take());
        drop(self.stop.take());
        if let Some(listener) = self.listener.take() {
            // The thread cannot panic, and a panic could not be handled here.
            let _ = listener.join();
        }
    }
}
