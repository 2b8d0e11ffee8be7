//! The mark "kernel handed over" where the way to the host is opened only after the first instructions: whether it is said, and how.

use super::Port;
use guest_init::cpio::ROOT_PATH;
use guest_init::messages::Message;

/// Whether the mark is left to a second start of this program: it was started by its other name, [`ROOT_PATH`], which the kernel puts
/// into argv[0].
pub fn is_not_yet_the_mark() -> bool {
    std::env::args_os().next().is_some_and(|name| name == ROOT_PATH)
}

/// Says the line of the mark, which is the tick at the program's start, and how many ticks a second has, once there is a way to the
/// host. Where there is none, the console says why.
pub fn say(tick: u64, opened: Result<u64, String>) -> Port {
    match opened {
        Ok(hz) => {
            let port = Port::heard();
            port.say(&Message::Init { tsc: tick });
            port.say(&Message::Rate { hz });
            port
        }
        Err(why) => {
            println!("bootscope: process 1 runs; {why}, so nothing is gathered");
            Port::unheard()
        }
    }
}
