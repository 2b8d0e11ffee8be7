//! Process 1 of a Linux guest that bootscope records. It reports that the kernel has handed over, and transfers the
//! kernel's evidence to the host. Then it powers off or executes the user's own init.
//!
//! The program's first instructions mark the hand-over ([`arch::entry`]). If there is a root to mount, those of its
//! second start do ([`root`]). Everything else comes after that moment, and evidence that changes when it is read comes
//! first. If the kernel lacks something, the program reports it (`L`) and goes on: nothing here may keep a guest from
//! reaching its end. It leaves no mount, open file or privilege to the init that follows it. The library has the
//! protocol. This program has the code that needs a kernel, and all unsafe code.
#![no_main]

#[cfg(guest)]
mod arch;
#[cfg(guest)]
mod carrier;
#[cfg(guest)]
mod end;
#[cfg(guest)]
mod gather;
#[cfg(guest)]
mod memory;
#[cfg(guest)]
mod mounts;
#[cfg(guest)]
mod root;
#[cfg(guest)]
mod sync;
#[cfg(guest)]
mod workload;

/// libc calls this directly. The standard library's own start-up would first open files and set up signals, and abort
/// if the guest has neither console nor /dev/null.
#[unsafe(no_mangle)]
pub extern "C" fn main(_argc: i32, _argv: *const *const u8) -> i32 {
    #[cfg(guest)]
    if std::process::id() == 1 {
        run();
    }
    eprintln!(
        "guest-init: this is process 1 of a Linux guest, started by `rdinit=/bootscope/init`; \
         `bootscope record` puts it there"
    );
    2
}

#[cfg(guest)]
fn run() -> ! {
    use guest_init::config::Config;
    use guest_init::cpio::CONFIG_PATH;
    use guest_init::messages::Message;

    if arch::entry::leaves_mark_to_second_start() {
        root::mount_and_mark();
    }
    let port = arch::entry::finish_mark();
    end::power_off_on_panic(port);
    sync::ticks(port);

    let text = std::fs::read_to_string(CONFIG_PATH);
    let (config, problems) = Config::parse(text.as_deref().unwrap_or(""));
    let unread = text.err().map(|e| format!("{CONFIG_PATH}: {e}"));
    for problem in unread.into_iter().chain(problems) {
        port.send_message(&Message::Lack { what: "config".into(), why: problem });
    }
    if port.is_connected() {
        let mounts = mounts::Mounts::new(port);
        sync::logs(port, &mounts);
        gather::transfer(port, &config, &mounts);
        workload::run(port, &config, &mounts);
        mounts.undo(port);
        sync::ticks(port);
        sync::clock(port);
    }
    end::end(port, &config)
}
