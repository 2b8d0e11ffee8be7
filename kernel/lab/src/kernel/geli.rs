//! Two encrypted disks with one passphrase. Finding a disk posts an event that derives its key (`events.rs`), and the root mount
//! waits until no event is left.
//!
//! The disks are scripted, but their keys are real: `lab::keys` derives them as GELI does. `kdf=per-disk` has a salt for each
//! disk, as if the disks were set up one after the other. `kdf=shared-salt` has one salt for both, so that one key is enough.

use crate::console::{kprintln, verbose};
use crate::lock::SpinLock;
use crate::{boot, events, thread};
use lab::keys::{Keyring, Metadata};
use lab::switches::Kdf;

const PASSPHRASE: &[u8] = b"correct horse";
/// About a hundredth of the iterations of a disk of today, so that a boot does not take minutes of emulation.
const ITERATIONS: u32 = 20_000;
const FIRST: Metadata =
    Metadata { salt: *b"lab disk 0 salt.", iterations: ITERATIONS, check: [0x66, 0xb4, 0xd3, 0x04] };
const SECOND: Metadata =
    Metadata { salt: *b"lab disk 1 salt.", iterations: ITERATIONS, check: [0xeb, 0x9e, 0xab, 0x21] };

static KEYRING: SpinLock<Keyring<'static>> = SpinLock::new(Keyring::new(PASSPHRASE));

/// Posts the events for the disks, after the storage layer's scan.
pub fn found() {
    if boot::switches().kdf != Kdf::None {
        events::post(|| unlock(&FIRST));
        events::post(|| unlock(if boot::switches().kdf == Kdf::PerDisk { &SECOND } else { &FIRST }));
    }
}

#[inline(never)]
fn unlock(disk: &Metadata) {
    // A computing thread is not preempted, so it yields first: the boot goes on to the place where it has to wait for this.
    thread::yield_now();
    let _scope = tslog::scope!("geli_unlock");
    // Only this thread uses the keyring. It takes it out of the lock while it derives a key, so that interrupts stay on.
    let mut keyring = core::mem::replace(&mut *KEYRING.lock(), Keyring::new(PASSPHRASE));
    match keyring.unlock(disk) {
        Some(_) => verbose!("geli: unlocked, {} derivations so far", keyring.derived()),
        None => kprintln!("geli: the passphrase is another disk's"),
    }
    *KEYRING.lock() = keyring;
}
