//! Two encrypted disks with one passphrase, whose keys are derived when they are found: an event for each (`events.rs`),
//! and root waits until there is none left.
//!
//! The disks are scripted, their keys are not: `lab::keys` derives them as GELI does. `kdf=per-disk` has a salt for each
//! disk, as they would be set up one after the other; `kdf=shared-salt` the same for both, so that one key does.

use crate::console::{kprintln, verbose};
use crate::lock::SpinLock;
use crate::{boot, events, thread};
use lab::keys::{Keyring, Metadata};
use lab::switches::Kdf;

const PASSPHRASE: &[u8] = b"correct horse";
/// Some hundred times less than what a disk of today has, so that a boot is not minutes of emulation.
const ITERATIONS: u32 = 20_000;
const FIRST: Metadata =
    Metadata { salt: *b"lab disk 0 salt.", iterations: ITERATIONS, check: [0x66, 0xb4, 0xd3, 0x04] };
const SECOND: Metadata =
    Metadata { salt: *b"lab disk 1 salt.", iterations: ITERATIONS, check: [0xeb, 0x9e, 0xab, 0x21] };

static KEYRING: SpinLock<Keyring<'static>> = SpinLock::new(Keyring::new(PASSPHRASE));

/// The scan of the storage layer has found what disks there are.
pub fn found() {
    if boot::switches().kdf != Kdf::None {
        events::post(|| unlock(&FIRST));
        events::post(|| unlock(if boot::switches().kdf == Kdf::PerDisk { &SECOND } else { &FIRST }));
    }
}

#[inline(never)]
fn unlock(disk: &Metadata) {
    // Nothing takes the CPU from a thread that computes: the boot goes on first, to where it has to wait for this.
    thread::yield_now();
    let _scope = tslog::scope!("geli_unlock");
    // Nobody but this thread uses it: the keys are taken out while they are made, so that interrupts stay on.
    let mut keyring = core::mem::replace(&mut *KEYRING.lock(), Keyring::new(PASSPHRASE));
    match keyring.unlock(disk) {
        Some(_) => verbose!("geli: unlocked, {} derivations so far", keyring.derived()),
        None => kprintln!("geli: the passphrase is another disk's"),
    }
    *KEYRING.lock() = keyring;
}
