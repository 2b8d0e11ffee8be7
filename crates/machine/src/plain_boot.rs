//! Boots that are only timed, to measure the cost of recording against them.
//!
//! Such a boot has the same machine, kernel, console and process 1 as a recorded one, but no instruments. Guest RAM is in the VMM's own
//! memory; there is no firmware port, plugin, linker statistics or trace. Only the guest's channel is left, for the one time stamp that is
//! needed.

use std::time::Duration;

use guest_init::messages::{Lacked, Message};
use guest_init::port::PortEvent;

use crate::guest_channel::GuestChannel;
use crate::lines::shown;
use crate::options::RecordOptions;
use crate::record::{channel, prepare};
use crate::refusal::text;
use crate::vmm::{Heard, Instruments, Launch, Source};
use crate::{Error, Observer, Progress, Stage, vmm};
use recording::{Field, GuestSpec};

/// Boots a machine without recording it. Returns the time from the VMM's start to process 1, in ns.
///
/// # Errors
/// If the boot cannot be begun, the guest's code is to be changed, process 1 is the guest's own, or it is not reached.
pub fn time_plain(options: &RecordOptions, observer: &mut dyn Observer) -> Result<i64, Error> {
    let words = observer.words();
    time(options, observer).map_err(|error| error.in_words(words))
}

fn time(options: &RecordOptions, observer: &mut dyn Observer) -> Result<i64, Error> {
    let mut channel = checked_channel(&options.guest)?;
    let prepared = prepare(&vmm::find, options, true, observer)?;
    let options = &*prepared.opened.options;
    let mut vm = prepared.program.start(&Launch {
        guest: &options.guest,
        kvm: prepared.kvm,
        kernel_line: &prepared.line.text,
        initrd: prepared.initrd.as_ref(),
        channel: Some(channel.wire()),
        instruments: Instruments::default(),
    })?;
    let (mut first_byte_ns, mut reached, mut vmm_output) = (None, false, String::new());
    let mut no_root = None;
    while !reached {
        match vm.hear(Duration::from_millis(50)) {
            Heard::Said { source: Source::Guest, at_ns, bytes } => {
                let first_byte_ns = first_byte_ns.get_or_insert(at_ns);
                channel.feed(&bytes, &mut |event| match event {
                    PortEvent::Message(Message::Init { .. }) => reached = true,
                    PortEvent::Message(Message::Lack { what: Lacked::Root, why }) => no_root = Some(why),
                    // Another message came first, so its stamp is not that of the mark.
                    PortEvent::Message(_) | PortEvent::Malformed(_) if !reached => *first_byte_ns = at_ns,
                    _ => {}
                });
            }
            Heard::Said { source: Source::Vmm, bytes, .. } => vmm_output = shown(&bytes, 300),
            Heard::Said { .. } | Heard::News { .. } | Heard::Silence => {}
            Heard::Gone => {
                let (vmm, how) = (vm.name(), vm.wait()?.how);
                return Err(Error::Unusable(format!("the plain boot failed: {vmm} {how}: {vmm_output}")));
            }
        }
        if let Some(why) = no_root {
            return Err(Error::Unusable(format!("the plain boot failed: the root could not be mounted: {why}")));
        }
        let elapsed_ns = vm.elapsed_ns();
        let late = options.observe.timeout_ms.is_some_and(|ms| elapsed_ns.unsigned_abs() / 1_000_000 > ms);
        if late || observer.stop() {
            let why = "the plain boot did not reach process 1: it was stopped, or its time was up";
            return Err(Error::Unusable(why.to_owned()));
        }
        observer.progress(&Progress {
            elapsed_ns,
            stage: Stage::Booting,
            last_line: "",
            console_bytes: 0,
            evidence_bytes: 0,
        });
    }
    first_byte_ns.ok_or_else(|| Error::Unusable("process 1 was reached without a stamp".to_owned()))
}

/// The channel to process 1 of a guest whose plain boot can be timed.
fn checked_channel(guest: &GuestSpec) -> Result<Box<dyn GuestChannel>, Error> {
    if guest.target.is_board() {
        let why = "recording costs a board nothing, because it only listens";
        return Err(Error::refused(Field::Serial, why, text!["measure no overhead, or leave out ", Field::Serial]));
    }
    if !guest.patches.is_empty() {
        // The guest would differ from the recorded one, and the comparison would charge the difference to recording.
        let why = text!["a plain boot has no gdbstub, so ", Field::Patches, " would change the recorded boots alone"];
        return Err(Error::refused(Field::Patches, why, text!["leave out ", Field::Patches]));
    }
    channel(guest).ok_or_else(|| {
        let why = "a plain boot is timed to bootscope's process 1";
        Error::refused(Field::Init, why, text!["leave out ", Field::Init.is("keep")])
    })
}
