//! A boot that is only timed: what recording is compared with.
//!
//! The same machine, kernel, console and process 1, and none of the instruments: guest RAM is QEMU's own, the firmware's
//! port is not there, no plugin, no linker statistics, nothing traced. Left in is what gives the one stamp that is
//! needed (guest-init's port), and the monitor's socket that starts it.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use guest_init::port::{Heard as Said, PortReader};
use guest_init::words::Word;

use crate::launch::{Instruments, Launch};
use crate::lines::shown;
use crate::listen::Source;
use crate::options::RecordOptions;
use crate::record::prepare;
use crate::{Error, Observer, Progress, Stage};

/// Boots a machine without recording it; the time from VMM start to process 1, in ns.
///
/// # Errors
/// If the boot cannot be begun, process 1 is the guest's own, or it is not reached.
pub fn time_plain(options: &RecordOptions, observer: &mut dyn Observer) -> Result<i64, Error> {
    if !options.guest.has_guest_init() {
        return Err(Error::option("a plain boot is timed to bootscope's process 1: leave out --init keep"));
    }
    let prepared = prepare(options, true, observer)?;
    let mut vm = Launch {
        options,
        qemu: &prepared.qemu.path,
        cpu: prepared.qemu.cpu(prepared.kvm),
        kernel_line: &prepared.line.text,
        initrd: prepared.initrd.as_ref(),
        instruments: Instruments::default(),
    }
    .start()?;
    let (mut port, mut first_byte_ns, mut reached, mut said) = (PortReader::new(), None, false, String::new());
    let mut no_root = None;
    while !reached {
        match vm.heard.recv_timeout(Duration::from_millis(50)) {
            Ok(heard) if heard.source == Source::Guest => {
                let first_byte_ns = first_byte_ns.get_or_insert(heard.at_ns - vm.zero.ns);
                port.feed(&heard.bytes, &mut |word| match word {
                    Said::Word(Word::Init { .. }) => reached = true,
                    Said::Word(Word::Lack { what, why }) if what == "root" => no_root = Some(why),
                    // Something else was said first, so the stamp was not that of the mark.
                    Said::Word(_) | Said::Strange(_) if !reached => *first_byte_ns = heard.at_ns - vm.zero.ns,
                    _ => {}
                });
            }
            Ok(heard) if heard.source == Source::Vmm => said = shown(&heard.bytes, 300),
            Ok(heard) if heard.source == Source::Monitor => drop(vm.monitor.feed(&heard.bytes)),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let status = vm.wait()?.status;
                return Err(Error::option(format!("the plain boot failed: QEMU ended with {status}: {said}")));
            }
        }
        if let Some(why) = no_root {
            return Err(Error::option(format!("the plain boot failed: the root could not be mounted: {why}")));
        }
        let elapsed_ns = vm.elapsed_ns();
        let late = options.observe.timeout_ms.is_some_and(|ms| elapsed_ns as u64 / 1_000_000 > ms);
        if late || observer.stop() {
            return Err(Error::option("the plain boot did not reach process 1: it was stopped, or its time was up"));
        }
        observer.progress(&Progress {
            elapsed_ns,
            stage: Stage::Booting,
            last_line: "",
            console_bytes: 0,
            evidence_bytes: 0,
        });
    }
    first_byte_ns.ok_or_else(|| Error::option("process 1 was reached without a stamp"))
}
