//! Calls all of the macros in the order of a boot, and prints the kernel's one log as FreeBSD prints it. Then maps the log's
//! memory at another address, as when the kernel turns paging on.

mod support;

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use support::without_own_rate;

static CURRENT: AtomicU64 = AtomicU64::new(0);

tslog::kernel!(thread = || CURRENT.load(Ordering::Relaxed));

mod clock {
    pub struct Timer;

    impl Timer {
        pub fn calibrate<T>(&self, _: T) {
            tslog::enter!();
            (0..1).for_each(|_| tslog::event!("in a closure"));
            tslog::exit!();
        }
    }
}

fn mount_root(found: bool) -> Option<()> {
    let _scope = tslog::scope!();
    let _mount = tslog::scope!("VFS_MOUNT", "zfs");
    found.then_some(())?;
    tslog::event!("not reached");
    Some(())
}

const RECORDS: usize = 32;
const ARENA_BYTES: usize = 64;
/// The log's memory takes whole pages here, so that it can be mapped twice.
const BYTES: usize = 4096;

/// Maps the same memory at two addresses.
fn mapped_twice() -> [NonNull<u8>; 2] {
    // SAFETY: it maps a new file at addresses that the system chooses.
    unsafe {
        let file = libc::memfd_create(c"log".as_ptr(), 0);
        assert!(file >= 0 && libc::ftruncate(file, BYTES as i64) == 0);
        let map = || {
            let map = libc::mmap(null_mut(), BYTES, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file, 0);
            assert_ne!(map, libc::MAP_FAILED);
            NonNull::new(map.cast()).expect("not at address 0")
        };
        [map(), map()]
    }
}

/// The printed log, with `T` in place of the ticks.
fn text() -> String {
    let mut text = String::new();
    tslog::write_text(&mut text).expect("a string takes all");
    let line = |line: &str| {
        let mut words: Vec<&str> = line.splitn(3, ' ').collect();
        assert!(words[1].parse::<u64>().expect("ticks") > 0);
        words[1] = "T";
        words.join(" ")
    };
    without_own_rate(&text, usize::from(!text.is_empty())).lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_boot_is_recorded() {
    assert_eq!(text(), "");
    tslog::event!("before the start");
    tslog::enter!();
    tslog::start!(records = RECORDS, arena_bytes = ARENA_BYTES);
    tslog::enter!();
    clock::Timer.calibrate(0u8);
    tslog::enter!("SYSINIT", "clocks");
    tslog::exit!("SYSINIT", c"clocks");
    let bus = format!("usbus{}", 7);
    tslog::thread!(0x1000, tslog::copy(&bus));
    drop(bus);
    CURRENT.store(0x1000, Ordering::Relaxed);
    tslog::hold!("root mount");
    tslog::timeout!("250us");
    tslog::ready!(0x2000);
    tslog::ready!(0x2000, "timer");
    tslog::run!(0x2000, "0");
    tslog::idle!("0");
    CURRENT.store(0, Ordering::Relaxed);
    tslog::wait!("root mount");
    CURRENT.store(0x1000, Ordering::Relaxed);
    tslog::release!("root mount");
    CURRENT.store(0, Ordering::Relaxed);
    tslog::unwait!("root mount");
    mount_root(false);
    tslog::event!();
    let line = line!() - 1;
    tslog::exit!();
    let expected = format!(
        "0x0 T ENTER a_boot_is_recorded\n\
         0x0 T ENTER calibrate\n\
         0x0 T EVENT in_a_closure\n\
         0x0 T EXIT calibrate\n\
         0x0 T ENTER SYSINIT clocks\n\
         0x0 T EXIT SYSINIT clocks\n\
         0x1000 T THREAD usbus7\n\
         0x1000 T EVENT HOLD root mount\n\
         0x1000 T EVENT TIMEOUT 250us\n\
         0x2000 T EVENT READY\n\
         0x2000 T EVENT READY timer\n\
         0x2000 T EVENT RUN 0\n\
         0x1000 T EVENT IDLE 0\n\
         0x0 T EVENT WAIT root mount\n\
         0x1000 T EVENT RELEASE root mount\n\
         0x0 T EVENT UNWAIT root mount\n\
         0x0 T ENTER mount_root\n\
         0x0 T ENTER VFS_MOUNT zfs\n\
         0x0 T EXIT VFS_MOUNT zfs\n\
         0x0 T EXIT mount_root\n\
         0x0 T EVENT {} {line}\n\
         0x0 T EXIT a_boot_is_recorded\n\
         0x0 T EVENT TSLOG before-start 2",
        file!()
    );
    assert_eq!(text(), expected);

    let [before, after] = mapped_twice();
    // SAFETY: only the log uses the mapping, which stays.
    assert!(unsafe { tslog::start_in(before, BYTES, ARENA_BYTES) });
    tslog::event!("before", tslog::copy("paging"));
    // SAFETY: the same memory is mapped at the new address, and stays. No name made before is recorded after.
    unsafe { tslog::rebase(after.as_ptr() as isize - before.as_ptr() as isize) };
    assert_eq!(tslog::log().expect("it goes on").base().cast(), after);
    // SAFETY: only the log used the old mapping, and it uses the new one now.
    assert_eq!(unsafe { libc::munmap(before.as_ptr().cast(), BYTES) }, 0);
    tslog::event!("after", tslog::copy("paging"));

    // Among the addresses from before the move, only those in the log are still valid.
    let printed = text();
    let [old, new] = printed.lines().collect::<Vec<_>>()[..] else { panic!("{printed}") };
    assert!(old.starts_with("0x0 T EVENT @0x") && old.ends_with(" paging"), "{printed}");
    assert_eq!(new, "0x0 T EVENT after paging");

    // SAFETY: the memory is mapped, and no thread writes into it.
    let image = unsafe { std::slice::from_raw_parts(after.as_ptr(), BYTES) };
    let image = tslog::Image::new(image).expect("a log");
    let mut text = String::new();
    let mut no_names = |_: u64, _: &mut [u8]| false;
    let dump = tslog::write_image_text(&image, &mut text, &mut no_names).expect("a string takes all");
    assert_eq!((dump.records, dump.unresolved), (2, 2), "{text}");
    assert_eq!(text.matches(" paging\n").count(), 2, "{text}");
}
