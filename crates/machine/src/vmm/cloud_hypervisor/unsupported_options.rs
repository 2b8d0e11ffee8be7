//! Refuses options that cloud-hypervisor does not support, each with the alternative. It starts no program.

use recording::Field;

use crate::guest_channel::Wire;
use crate::option_table::Booter;
use crate::refusal::text;
use crate::vmm::unsupported_options::refuse_qemu_options;
use crate::{Error, RecordOptions};

/// Checks that cloud-hypervisor supports all options of a recording.
///
/// # Errors
/// The first option that it does not support.
pub(crate) fn check(options: &RecordOptions) -> Result<(), Error> {
    const BOOTER: Booter = Booter::CloudHypervisor;
    refuse_qemu_options(options, BOOTER)?;
    let guest = &options.guest;
    let arch = crate::arch::of(guest);
    if !matches!(arch.channel(guest).wire(), Wire::IoPort(_)) {
        let why = "bootscope knows its PC alone, and not where another machine has its memory";
        return Err(BOOTER.refusal(Field::Arch.is(arch.facts.name), why, text!["use ", Field::Vmm.is("qemu")]));
    }
    if guest.kernel.is_none() {
        let why = "bootscope starts cloud-hypervisor with a kernel and not with firmware";
        return Err(Error::refused(Field::Kernel, why, text!["give a vmlinux or bzImage with ", Field::Kernel]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::NAME;
    use super::*;
    use recording::{Accel, GuestSpec, Init, ObserveSpec, Target, Until, VmmKind};

    #[test]
    fn unsupported_options_are_refused_with_what_to_do() {
        let base = || {
            let target = Target::Vmm { kind: VmmKind::CloudHypervisor, program: NAME.into() };
            RecordOptions::of(GuestSpec {
                target,
                init: Init::Keep,
                kernel: Some("/boot/vmlinux".into()),
                ..GuestSpec::default()
            })
        };
        for until in [Until::Init, Until::PowerOff, Until::Process("nginx".to_owned())] {
            let mut options = base();
            options.guest.until = until;
            check(&options).unwrap();
        }
        let refuses = |change: &dyn Fn(&mut GuestSpec, &mut ObserveSpec), named: &str, instead: &str| {
            let mut options = base();
            change(&mut options.guest, &mut options.observe);
            let error = check(&options).unwrap_err().to_string();
            assert!(error.starts_with(named) && error.contains(instead) && error.contains(NAME), "{error}");
        };
        refuses(&|g, _| g.arch = "aarch64".to_owned(), "arch=aarch64", "vmm=qemu");
        refuses(&|g, _| g.accel = Accel::Tcg, "accel=tcg", "leave it out");
        refuses(&|g, _| g.deterministic = true, "deterministic", "vmm=qemu");
        refuses(&|g, _| g.machine = "q35".to_owned(), "machine=q35", "leave it out");
        refuses(&|g, _| g.extra = vec!["-nic".to_owned()], "extra", "leave them out");
        refuses(&|g, _| g.init = Init::Guest, "init=guest", "init=keep");
        refuses(&|g, _| g.workload = Some("ls".to_owned()), "workload", "vmm=qemu");
        refuses(&|g, _| g.dtb = Some("a.dtb".into()), "dtb", "leave it out");
        refuses(&|_, o| o.calls = true, "calls", "vmm=qemu");
        refuses(&|_, o| o.silence_ms = Some(100), "silence_ms", "vmm=qemu");
        refuses(&|g, _| g.dax = true, "dax", "vmm=qemu");
        refuses(&|g, _| g.until = Until::Tcp(22), "until=a port", "a line");
        refuses(&|g, _| g.kernel = None, "bootscope starts cloud-hypervisor", "vmlinux");
    }
}
