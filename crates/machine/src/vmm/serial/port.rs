//! The connection to a board's console: a serial device of this host, or a port of a terminal server. A device is opened raw and
//! exclusively, and its settings are restored on close. `docs/machines.md` describes the effects on a board.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use recording::Board;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::termios::{
    ControlModes, OptionalActions, QueueSelector, Termios, ioctl_tiocexcl, ioctl_tiocnxcl, isatty, tcflush, tcgetattr,
    tcsetattr,
};

use crate::Error;
use crate::refusal::text;
use recording::Field;

/// Longest wait for a terminal server to accept the connection.
const MAX_CONNECT_TIME: Duration = Duration::from_secs(10);
/// A start bit, eight data bits, and a stop bit.
const BITS_PER_CHARACTER: i64 = 10;
/// The delay after the last character before a USB adapter sends its buffer. The default of FTDI is 16 ms.
const USB_LATENCY_MS: i64 = 16;
/// Largest number of characters that a UART reports at once.
const FIFO_CHARACTERS: i64 = 16;
/// Largest relative difference between the requested rate and the port's.
const MAX_BAUD_ERROR: f64 = 0.03;

/// The address of a board's console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Device(PathBuf),
    Tcp(Server),
    Telnet(Server),
}

/// A port of a terminal server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    host: String,
    port: u16,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Server { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl Address {
    /// Parses `/dev/ttyUSB0`, `tcp:HOST:PORT` or `telnet:HOST:PORT`.
    ///
    /// # Errors
    /// If the text has another form.
    pub(crate) fn of(text: &str) -> Result<Address, Error> {
        let server = |rest: &str| {
            let (host, port) = rest.rsplit_once(':')?;
            let port = port.parse().ok().filter(|&port| port > 0)?;
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            (!host.is_empty()).then(|| Server { host: host.to_owned(), port })
        };
        let address = match text.split_once(':') {
            Some(("tcp", rest)) => server(rest).map(Address::Tcp),
            Some(("telnet", rest)) => server(rest).map(Address::Telnet),
            _ => Some(Address::Device(PathBuf::from(text))).filter(|_| !text.is_empty()),
        };
        address.ok_or_else(|| {
            let instead = "write a device such as /dev/ttyUSB0, or tcp:HOST:PORT, or telnet:HOST:PORT";
            Error::refused(Field::Serial, text![Field::Serial.is(text), " is no port"], instead)
        })
    }

    /// Checks that a device is there and may be a port. It must not open the port, because some boards take that as a signal.
    ///
    /// # Errors
    /// If it is not there, or is another kind of file.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Address::Device(path) = self else { return Ok(()) };
        let meta = fs::metadata(path).map_err(|why| not_opened(path, &why))?;
        if meta.file_type().is_char_device() { Ok(()) } else { Err(not_a_port(path)) }
    }
}

/// The largest delay of a port, and its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Latency {
    pub(super) ns: i64,
    pub(super) why: String,
}

/// A port that is open.
#[derive(Debug)]
pub(super) struct Port {
    connection: Connection,
    character_ns: i64,
    latency: Latency,
}

#[derive(Debug)]
enum Connection {
    Device { path: PathBuf, file: File, original: Box<Termios> },
    Server { address: Server, stream: TcpStream },
}

impl Port {
    /// Opens the port; a device at this rate, or [`Board::BAUD`].
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(super) fn open(address: &Address, baud: Option<u32>) -> Result<Port, Error> {
        match address {
            Address::Device(path) => Port::open_device(path, baud.unwrap_or(Board::BAUD)),
            Address::Tcp(server) | Address::Telnet(server) => Port::connect(server, baud),
        }
    }

    fn open_device(path: &Path, baud: u32) -> Result<Port, Error> {
        // `NONBLOCK` skips the wait for a carrier, which a connection of three wires does not have.
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|why| not_opened(path, &why.into()))?;
        let file = File::from(file);
        if !isatty(&file) {
            return Err(not_a_port(path));
        }
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| in_use(path))?;
        let before = tcgetattr(&file).map_err(Error::host("read how the serial port is set"))?;
        let is_pty = is_pseudo_terminal(path);
        set_raw(&file, &before, baud).map_err(|why| {
            let why = format!(" is no rate of {}: {why}; give the rate of the board's console", path.display());
            Error::refused(Field::Baud, text![Field::Baud.is(baud), why], "")
        })?;
        // Root may still open the port, and the lock above is only advisory.
        let _ = ioctl_tiocexcl(&file);
        // Drop output that arrived before the port was opened.
        let _ = tcflush(&file, QueueSelector::IFlush);
        let character_ns = if is_pty { 0 } else { character_ns(baud) };
        let latency = device_latency(path, is_pty, character_ns);
        Ok(Port {
            connection: Connection::Device { path: path.to_owned(), file, original: Box::new(before) },
            character_ns,
            latency,
        })
    }

    fn connect(server: &Server, baud: Option<u32>) -> Result<Port, Error> {
        let refused = |why: &io::Error| {
            let why = format!(
                ": {why}; check that the terminal server runs (ser2net?) and that no other program is connected to this port"
            );
            Error::refused(Field::Serial, text![format!("cannot connect to {server} for "), Field::Serial, why], "")
        };
        let addresses = (server.host.as_str(), server.port).to_socket_addrs().map_err(|why| refused(&why))?;
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            let began = Instant::now();
            match TcpStream::connect_timeout(&address, MAX_CONNECT_TIME) {
                Ok(stream) => {
                    let round_trip_ns = i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX);
                    stream.set_nonblocking(true).map_err(Error::host("set up a socket"))?;
                    return Ok(Port {
                        connection: Connection::Server { address: server.clone(), stream },
                        character_ns: baud.map_or(0, character_ns),
                        latency: Latency {
                            ns: round_trip_ns,
                            why: "the network's, as long as connecting took; what the terminal server holds back is not known".to_owned(),
                        },
                    });
                }
                Err(why) => last = why,
            }
        }
        Err(refused(&last))
    }

    /// The descriptor for the thread that listens.
    pub(super) fn reader(&self) -> Result<OwnedFd, Error> {
        let fd = match &self.connection {
            Connection::Device { file, .. } => file.as_fd(),
            Connection::Server { stream, .. } => stream.as_fd(),
        };
        fd.try_clone_to_owned().map_err(Error::host("copy a descriptor"))
    }

    /// The duration of a character on the wire, in ns; 0 where there is no wire, or its rate is not known.
    pub(super) fn character_ns(&self) -> i64 {
        self.character_ns
    }

    /// The delay of the port's output, without the host's own part.
    pub(super) fn latency(&self) -> &Latency {
        &self.latency
    }

    /// Sends bytes to a terminal server. For a device it does nothing.
    pub(super) fn reply(&self, bytes: &[u8]) {
        if let Connection::Server { stream, .. } = &self.connection {
            // The result is ignored: a server that does not read replies does not need them.
            let mut stream: &TcpStream = stream;
            let _ = stream.write(bytes);
        }
    }

    /// The most likely reason why the port ended.
    pub(super) fn lost(&self) -> String {
        match &self.connection {
            Connection::Device { path, .. } => format!(
                "{} has gone. Was the adapter unplugged, or is it powered by the board? Such a one cannot hear a power cycle",
                path.display()
            ),
            Connection::Server { address, .. } => {
                format!("{address} has closed the connection. Look at the terminal server, or who else connected to it")
            }
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Connection::Device { file, original, .. } = &self.connection {
            // Both fail only if the device is gone.
            let _ = ioctl_tiocnxcl(file);
            let _ = tcsetattr(file, OptionalActions::Now, original);
        }
    }
}

/// Sets the port to raw bytes at this rate. It ignores the modem lines: it neither waits for them nor hangs up on close. Otherwise a board
/// whose reset is wired to DTR would be reset once more.
fn set_raw(file: &File, before: &Termios, baud: u32) -> io::Result<()> {
    let mut raw = before.clone();
    raw.make_raw();
    raw.control_modes |= ControlModes::CLOCAL | ControlModes::CREAD;
    raw.control_modes &= !(ControlModes::HUPCL | ControlModes::CRTSCTS | ControlModes::CSTOPB);
    raw.set_speed(baud)?;
    tcsetattr(file, OptionalActions::Now, &raw)?;
    // A driver silently takes the nearest rate that it supports.
    let set = tcgetattr(file)?.input_speed();
    if (f64::from(set) / f64::from(baud) - 1.0).abs() > MAX_BAUD_ERROR {
        tcsetattr(file, OptionalActions::Now, before)?;
        return Err(io::Error::other(format!("the port has {set} instead")));
    }
    Ok(())
}

fn character_ns(baud: u32) -> i64 {
    BITS_PER_CHARACTER * 1_000_000_000 / i64::from(baud.max(1))
}

/// True for a pseudo-terminal, whose rate has no effect.
fn is_pseudo_terminal(path: &Path) -> bool {
    fs::canonicalize(path).is_ok_and(|path| path.starts_with("/dev/pts"))
}

/// The largest delay between a character's arrival and its report by a device, from what `/sys` says of the device.
fn device_latency(path: &Path, is_pty: bool, character_ns: i64) -> Latency {
    let latency = |ns: i64, why: &str| Latency { ns, why: why.to_owned() };
    if is_pty {
        return latency(0, "a pseudo-terminal's, which holds nothing back");
    }
    let device = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = device.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let sys = Path::new("/sys/class/tty").join(&name).join("device");
    if let Some(ms) = latency_timer_ms(&sys) {
        return latency(ms.saturating_mul(1_000_000), "the latency timer of the USB adapter");
    }
    let is_usb = fs::canonicalize(&sys).is_ok_and(|path| path.to_string_lossy().contains("/usb"));
    if is_usb || name.starts_with("ttyUSB") || name.starts_with("ttyACM") {
        return latency(USB_LATENCY_MS * 1_000_000, "assumed for the USB adapter, which does not say its latency");
    }
    latency(FIFO_CHARACTERS * character_ns, "the FIFO of the UART, of 16 characters")
}

/// The latency timer in a port's folder in `/sys`, in ms.
fn latency_timer_ms(sys: &Path) -> Option<i64> {
    fs::read_to_string(sys.join("latency_timer")).ok()?.trim().parse().ok().filter(|ms| (0..=255).contains(ms))
}

fn not_opened(path: &Path, why: &io::Error) -> Error {
    let serial = Field::Serial.is(path.display());
    let errno = why.raw_os_error().map(Errno::from_raw_os_error);
    let what = match errno {
        Some(Errno::NOENT | Errno::NXIO | Errno::NODEV) => {
            "is not there: plug the adapter in, and look for its name with ls /dev/serial/by-id"
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            "must not be opened by you: join the group that it has (ls -l), which is mostly dialout, and log in again"
        }
        Some(Errno::BUSY) => return in_use(path),
        _ => return Error::refused(Field::Serial, text![serial, format!(" cannot be opened: {why}")], ""),
    };
    Error::refused(Field::Serial, text![serial, " ", what], "")
}

fn not_a_port(path: &Path) -> Error {
    let instead = "give a device such as /dev/ttyUSB0, or tcp:HOST:PORT for a terminal server";
    Error::refused(Field::Serial, text![Field::Serial.is(path.display()), " is no serial port"], instead)
}

fn in_use(path: &Path) -> Error {
    let device = path.display();
    let instead = format!("end that one (fuser -v {device} names it)");
    Error::refused(Field::Serial, text![Field::Serial.is(device), " is in use by another program"], instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_on_a_device_or_a_server() {
        let server = |host: &str, port| Server { host: host.to_owned(), port };
        let check = |text: &str, expected: Address| assert_eq!(Address::of(text).unwrap(), expected, "{text}");
        check("/dev/ttyUSB0", Address::Device("/dev/ttyUSB0".into()));
        check("/dev/serial/by-path/pci-0:1", Address::Device("/dev/serial/by-path/pci-0:1".into()));
        check("tcp:lab:7001", Address::Tcp(server("lab", 7001)));
        check("telnet:[fe80::1]:23", Address::Telnet(server("fe80::1", 23)));
        assert_eq!(server("fe80::1", 23).to_string(), "[fe80::1]:23");
        for text in ["", "tcp:", "tcp:lab", "tcp:lab:0", "tcp::1", "telnet:lab:x"] {
            let refused = Address::of(text).unwrap_err().to_string();
            assert!(refused.contains("tcp:HOST:PORT"), "{text}: {refused}");
        }
    }

    #[test]
    fn other_files_are_refused_with_what_to_do() {
        let refused = |path: &str| Address::of(path).unwrap().check().unwrap_err().to_string();
        assert!(refused("/dev/nonexistent").contains("ls /dev/serial/by-id"), "{}", refused("/dev/nonexistent"));
        assert!(refused("/proc/self/stat").contains("no serial port"), "{}", refused("/proc/self/stat"));
        let null = Port::open(&Address::of("/dev/null").unwrap(), None).unwrap_err().to_string();
        assert!(null.contains("no serial port"), "{null}");
    }

    #[test]
    fn the_latency_of_a_port_is_read_from_sys_or_assumed() {
        let sys = tempfile::tempdir().unwrap();
        assert_eq!(latency_timer_ms(sys.path()), None);
        for (text, ms) in [("1\n", Some(1)), ("16\n", Some(16)), ("x", None), ("-1", None), ("9999999", None)] {
            fs::write(sys.path().join("latency_timer"), text).unwrap();
            assert_eq!(latency_timer_ms(sys.path()), ms);
        }
        assert_eq!(character_ns(115_200), 86_805);
        let late = |path: &str| device_latency(Path::new(path), false, 86_805).ns;
        assert_eq!((late("/dev/ttyUSB77"), late("/dev/ttyAMA77")), (16_000_000, 16 * 86_805));
    }
}
