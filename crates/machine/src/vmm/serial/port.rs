//! The way to a board's console: a serial device of this host, or a port of a terminal server's. It is opened raw and for
//! nobody else, and closed as it was found. What a board hears of that is in `docs/machines.md`.

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

/// So long a terminal server may take to accept.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// A start bit, eight bits, a stop bit.
const BITS_PER_CHARACTER: i64 = 10;
/// A USB adapter sends what it has so long after the last character, where nobody set another time (FTDI's is 16 ms).
const USB_LATENCY_MS: i64 = 16;
/// A UART tells of so many characters at once.
const FIFO_CHARACTERS: i64 = 16;
/// A rate of a port further off than this is another one.
const BAUD_OFF_MAX: f64 = 0.03;

/// Where a board's console is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Device(PathBuf),
    Tcp(Server),
    Telnet(Server),
}

/// A port of a terminal server's.
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
    /// `/dev/ttyUSB0`, `tcp:HOST:PORT`, `telnet:HOST:PORT`
    ///
    /// # Errors
    /// If it is none of these.
    pub(crate) fn of(text: &str) -> Result<Address, Error> {
        let server = |rest: &str| {
            let (host, port) = rest.rsplit_once(':')?;
            let port = port.parse().ok().filter(|&port| port > 0)?;
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            (!host.is_empty()).then(|| Server { host: host.to_owned(), port })
        };
        let found = match text.split_once(':') {
            Some(("tcp", rest)) => server(rest).map(Address::Tcp),
            Some(("telnet", rest)) => server(rest).map(Address::Telnet),
            _ => Some(Address::Device(PathBuf::from(text))).filter(|_| !text.is_empty()),
        };
        found.ok_or_else(|| {
            Error::option(format!(
                "--serial {text} is no port: write a device such as /dev/ttyUSB0, or tcp:HOST:PORT, or telnet:HOST:PORT"
            ))
        })
    }

    /// Whether it may be one, by a look that does not open it: to open a port is a signal to some boards.
    ///
    /// # Errors
    /// If it is not there, or something else.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Address::Device(path) = self else { return Ok(()) };
        let meta = fs::metadata(path).map_err(|why| not_opened(path, &why))?;
        if meta.file_type().is_char_device() { Ok(()) } else { Err(no_terminal(path)) }
    }
}

/// How late the port is, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Late {
    pub(super) ns: i64,
    pub(super) why: String,
}

/// A port that is open.
#[derive(Debug)]
pub(super) struct Port {
    way: Way,
    character_ns: i64,
    late: Late,
}

#[derive(Debug)]
enum Way {
    Device { path: PathBuf, file: File, before: Box<Termios> },
    Server { address: Server, stream: TcpStream },
}

impl Port {
    /// Opens it; a device at this rate, or [`Board::BAUD`].
    ///
    /// # Errors
    /// If it cannot be had.
    pub(super) fn open(address: &Address, baud: Option<u32>) -> Result<Port, Error> {
        match address {
            Address::Device(path) => Port::open_device(path, baud.unwrap_or(Board::BAUD)),
            Address::Tcp(server) | Address::Telnet(server) => Port::connect(server, baud),
        }
    }

    fn open_device(path: &Path, baud: u32) -> Result<Port, Error> {
        // Without waiting for a carrier, which three wires do not have.
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|why| not_opened(path, &why.into()))?;
        let file = File::from(file);
        if !isatty(&file) {
            return Err(no_terminal(path));
        }
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| in_use(path))?;
        let before = tcgetattr(&file).map_err(Error::host("read how the serial port is set"))?;
        let is_pty = is_pseudo_terminal(path);
        set_raw(&file, &before, baud).map_err(|why| {
            Error::option(format!(
                "--baud {baud} is no rate of {}: {why}; give the rate of the board's console",
                path.display()
            ))
        })?;
        // Root may open it all the same, and the lock is for those who ask for one.
        let _ = ioctl_tiocexcl(&file);
        // What the board said to nobody.
        let _ = tcflush(&file, QueueSelector::IFlush);
        let character_ns = if is_pty { 0 } else { character_ns(baud) };
        let late = device_late(path, is_pty, character_ns);
        Ok(Port { way: Way::Device { path: path.to_owned(), file, before: Box::new(before) }, character_ns, late })
    }

    fn connect(server: &Server, baud: Option<u32>) -> Result<Port, Error> {
        let refused = |why: &io::Error| {
            Error::option(format!(
                "cannot connect to {server} for --serial: {why}; check that the terminal server runs (ser2net?) and that \
                 nobody else is connected to this port"
            ))
        };
        let addresses = (server.host.as_str(), server.port).to_socket_addrs().map_err(|why| refused(&why))?;
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            let began = Instant::now();
            match TcpStream::connect_timeout(&address, CONNECT_MAX) {
                Ok(stream) => {
                    let there_and_back_ns = i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX);
                    stream.set_nonblocking(true).map_err(Error::host("set up a socket"))?;
                    return Ok(Port {
                        way: Way::Server { address: server.clone(), stream },
                        character_ns: baud.map_or(0, character_ns),
                        late: Late {
                            ns: there_and_back_ns,
                            why: "the network's, as long as connecting took; what the terminal server holds back is not known".to_owned(),
                        },
                    });
                }
                Err(why) => last = why,
            }
        }
        Err(refused(&last))
    }

    /// What the thread that listens reads from.
    pub(super) fn reader(&self) -> Result<OwnedFd, Error> {
        let fd = match &self.way {
            Way::Device { file, .. } => file.as_fd(),
            Way::Server { stream, .. } => stream.as_fd(),
        };
        fd.try_clone_to_owned().map_err(Error::host("copy a descriptor"))
    }

    /// What a character takes on the wire, in ns; 0 where there is none, or its rate is not known.
    pub(super) fn character_ns(&self) -> i64 {
        self.character_ns
    }

    /// How late what it says is, beside the host's own part.
    pub(super) fn late(&self) -> &Late {
        &self.late
    }

    /// Answers a terminal server. Nothing is written to a board.
    pub(super) fn reply(&self, bytes: &[u8]) {
        if let Way::Server { stream, .. } = &self.way {
            // A server that does not read its answers has no need of them.
            let mut stream: &TcpStream = stream;
            let _ = stream.write(bytes);
        }
    }

    /// What it most likely means that nothing comes any more.
    pub(super) fn lost(&self) -> String {
        match &self.way {
            Way::Device { path, .. } => format!(
                "{} has gone. Was the adapter unplugged, or is it powered by the board? Such a one cannot hear a power cycle",
                path.display()
            ),
            Way::Server { address, .. } => {
                format!("{address} has closed the connection. Look at the terminal server, or who else connected to it")
            }
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Way::Device { file, before, .. } = &self.way {
            // A device that is gone needs neither.
            let _ = ioctl_tiocnxcl(file);
            let _ = tcsetattr(file, OptionalActions::Now, before);
        }
    }
}

/// Bytes as they come, at this rate, without a word to the modem lines: neither waits for them nor hangs up at the end, so that
/// a board whose reset is at DTR is not reset by us once more.
fn set_raw(file: &File, before: &Termios, baud: u32) -> io::Result<()> {
    let mut raw = before.clone();
    raw.make_raw();
    raw.control_modes |= ControlModes::CLOCAL | ControlModes::CREAD;
    raw.control_modes &= !(ControlModes::HUPCL | ControlModes::CRTSCTS | ControlModes::CSTOPB);
    raw.set_speed(baud)?;
    tcsetattr(file, OptionalActions::Now, &raw)?;
    // A driver takes the nearest rate that it has, and says nothing.
    let set = tcgetattr(file)?.input_speed();
    if (f64::from(set) / f64::from(baud) - 1.0).abs() > BAUD_OFF_MAX {
        tcsetattr(file, OptionalActions::Now, before)?;
        return Err(io::Error::other(format!("the port has {set} instead")));
    }
    Ok(())
}

fn character_ns(baud: u32) -> i64 {
    BITS_PER_CHARACTER * 1_000_000_000 / i64::from(baud.max(1))
}

/// A pseudo-terminal has a rate that slows nobody.
fn is_pseudo_terminal(path: &Path) -> bool {
    fs::canonicalize(path).is_ok_and(|path| path.starts_with("/dev/pts"))
}

/// How late a device tells of a character, by what the system says of it.
fn device_late(path: &Path, is_pty: bool, character_ns: i64) -> Late {
    let late = |ns: i64, why: &str| Late { ns, why: why.to_owned() };
    if is_pty {
        return late(0, "a pseudo-terminal's, which holds nothing back");
    }
    let device = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = device.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let sys = Path::new("/sys/class/tty").join(&name).join("device");
    if let Some(ms) = latency_timer_ms(&sys) {
        return late(ms.saturating_mul(1_000_000), "the latency timer of the USB adapter");
    }
    let is_usb = fs::canonicalize(&sys).is_ok_and(|path| path.to_string_lossy().contains("/usb"));
    if is_usb || name.starts_with("ttyUSB") || name.starts_with("ttyACM") {
        return late(USB_LATENCY_MS * 1_000_000, "assumed for the USB adapter, which does not say its latency");
    }
    late(FIFO_CHARACTERS * character_ns, "the FIFO of the UART, of 16 characters")
}

/// Of a port's folder in `/sys`.
fn latency_timer_ms(sys: &Path) -> Option<i64> {
    fs::read_to_string(sys.join("latency_timer")).ok()?.trim().parse().ok().filter(|ms| (0..=255).contains(ms))
}

fn not_opened(path: &Path, why: &io::Error) -> Error {
    let device = path.display();
    let errno = why.raw_os_error().map(Errno::from_raw_os_error);
    let what = match errno {
        Some(Errno::NOENT | Errno::NXIO | Errno::NODEV) => {
            "is not there: plug the adapter in, and look for its name with ls /dev/serial/by-id"
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            "must not be opened by you: join the group that it has (ls -l), which is mostly dialout, and log in again"
        }
        Some(Errno::BUSY) => return in_use(path),
        _ => return Error::option(format!("--serial {device} cannot be opened: {why}")),
    };
    Error::option(format!("--serial {device} {what}"))
}

fn no_terminal(path: &Path) -> Error {
    Error::option(format!(
        "--serial {} is no serial port: give a device such as /dev/ttyUSB0, or tcp:HOST:PORT for a terminal server",
        path.display()
    ))
}

fn in_use(path: &Path) -> Error {
    let device = path.display();
    Error::option(format!("--serial {device} is in use by another program: end that one (fuser -v {device} names it)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_a_device_or_a_servers() {
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
    fn what_is_no_port_is_refused_with_what_to_do() {
        let refused = |path: &str| Address::of(path).unwrap().check().unwrap_err().to_string();
        assert!(refused("/dev/nonexistent").contains("ls /dev/serial/by-id"), "{}", refused("/dev/nonexistent"));
        assert!(refused("/proc/self/stat").contains("no serial port"), "{}", refused("/proc/self/stat"));
        let null = Port::open(&Address::of("/dev/null").unwrap(), None).unwrap_err().to_string();
        assert!(null.contains("no serial port"), "{null}");
    }

    #[test]
    fn how_late_a_port_is_stands_in_the_system_or_is_assumed() {
        let sys = tempfile::tempdir().unwrap();
        assert_eq!(latency_timer_ms(sys.path()), None);
        for (text, ms) in [("1\n", Some(1)), ("16\n", Some(16)), ("x", None), ("-1", None), ("9999999", None)] {
            fs::write(sys.path().join("latency_timer"), text).unwrap();
            assert_eq!(latency_timer_ms(sys.path()), ms);
        }
        assert_eq!(character_ns(115_200), 86_805);
        let late = |path: &str| device_late(Path::new(path), false, 86_805).ns;
        assert_eq!((late("/dev/ttyUSB77"), late("/dev/ttyAMA77")), (16_000_000, 16 * 86_805));
    }
}
