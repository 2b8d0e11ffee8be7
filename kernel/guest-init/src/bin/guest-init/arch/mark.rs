//! Sends the mark "kernel handed over" on machines whose channel to the host opens only after the first instructions.

use super::Port;
use guest_init::cpio::ROOT_PATH;
use guest_init::messages::Message;

/// True if a second start of this program will make the mark: this start used the program's other name, [`ROOT_PATH`].
/// The kernel puts the name into argv[0].
pub fn leaves_mark_to_second_start() -> bool {
    std::env::args_os().next().is_some_and(|name| name == ROOT_PATH)
}

/// Sends the line of the mark, with the tick at the program's start, and the counter's rate. Without a channel to the
/// host, prints the reason to the console.
pub fn send(tick: u64, opened: Result<u64, String>) -> Port {
    match opened {
        Ok(hz) => {
            let port = Port::connected();
            port.send_message(&Message::Init { tsc: tick });
            port.send_message(&Message::Rate { hz });
            port
        }
        Err(why) => {
            println!("bootscope: process 1 runs; {why}, so nothing is gathered");
            Port::disconnected()
        }
    }
}
