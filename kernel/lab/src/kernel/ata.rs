//! A scripted disk controller with two disks. Root is on one of them or on both (`root_on=`).
//!
//! A disk answers once it has spun up (`delay.answer.ada0=300`). Each channel has a thread that polls every 10 ms, reads the
//! disk's label, and then releases its hold on the root mount. A root mount that needs only some of the disks looks for them
//! by name, or by the labels of a pool.

use crate::answer::Answer;
use crate::console::verbose;
use crate::device::{Device, Failure, Fit, driver};
use crate::hold::ROOT_MOUNT;
use crate::wait::Shared;
use crate::{boot, thread};
use lab::switches::RootOn;

driver!(ata, on nexus, probe, attach);

/// The disk of each channel, and the thread that finds it.
const CHANNELS: [(&str, &str); 2] = [("ada0", "atach0"), ("ada1", "atach1")];
const POLL_US: u64 = 10_000;
/// Number of disks of the pool, which is in every member's label.
const POOL_MEMBERS: usize = CHANNELS.len();

/// A disk that has answered.
#[derive(Clone, Copy)]
struct Disk {
    name: &'static str,
    /// Number of members of the disk's pool, by its label; `None` if it belongs to no pool.
    pool_members: Option<usize>,
}

static FOUND: Shared<[Option<Disk>; CHANNELS.len()]> = Shared::new([None; CHANNELS.len()]);

fn probe(_: &Device) -> Option<Fit> {
    (boot::switches().root_on != RootOn::Memory).then_some(Fit::Exact)
}

fn attach(_: &Device) -> Result<(), Failure> {
    for (channel, (_, thread)) in CHANNELS.into_iter().enumerate() {
        ROOT_MOUNT.hold();
        thread::create(thread, find, channel);
    }
    Ok(())
}

fn find(channel: usize) {
    let (name, _) = CHANNELS[channel];
    Answer::ask(name).poll(thread::sleep_us, POLL_US);
    let pool_members = (boot::switches().root_on == RootOn::Zfs).then_some(POOL_MEMBERS);
    FOUND.change_unawaited(|found| found[channel] = Some(Disk { name, pool_members }));
    verbose!("{name}: found");
    ROOT_MOUNT.release();
}

/// True if the disk of that name has answered.
pub fn is_found(name: &str) -> bool {
    FOUND.change_unawaited(|found| found.iter().flatten().any(|disk| disk.name == name))
}

/// True if all members of the pool have answered, by the number in their labels.
pub fn is_pool_whole() -> bool {
    FOUND.change_unawaited(|found| {
        let members = || found.iter().flatten().filter_map(|disk| disk.pool_members);
        members().next().is_some_and(|wanted| members().count() >= wanted)
    })
}
