//! Refuses options that cloud-hypervisor does not support, each with the alternative. It starts no program.

use recording::Init;

use super::NAME;
use crate::vmm::channel::Wire;
use crate::vmm::unsupported_options::{refuse, refuse_qemu_options};
use crate::{Error, RecordOptions};

/// Checks that cloud-hypervisor supports all options of a recording.
///
/// # Errors
/// The first option that it does not support.
pub(crate) fn check(options: &RecordOptions) -> Result<(), Error> {
    refuse_qemu_options(options, NAME, NAME)?;
    let guest = &options.guest;
    let is_pc = matches!(crate::arch::of(guest).channel(guest).wire(), Wire::IoPort(_));
    refuse(
        NAME,
        &[
            (
                !is_pc,
                &format!("--arch {}", guest.arch),
                "bootscope knows its PC alone, and not where another machine has its memory; use --vmm qemu",
            ),
            (
                guest.init == Init::Guest,
                "--init guest",
                "its port 0xe9 does not answer bootscope's process 1; use --init keep: logs and trace are read in memory",
            ),
            (guest.workload.is_some(), "--workload", "it needs bootscope's process 1; use --vmm qemu"),
            (
                guest.kernel.is_none(),
                "no --kernel",
                "bootscope starts it with a kernel and not with firmware; give a vmlinux or bzImage",
            ),
            (guest.dtb.is_some(), "--dtb", "it describes its machine by ACPI; leave it out"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::{Accel, GuestSpec, ObserveSpec, Until, VmmKind};

    #[test]
    fn unsupported_options_are_refused_with_what_to_do() {
        let base = || {
            let (vmm, init, kernel) = (VmmKind::CloudHypervisor, Init::Keep, Some("/boot/vmlinux".into()));
            RecordOptions::of(GuestSpec { vmm, init, kernel, ..GuestSpec::default() })
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
        refuses(&|g, _| g.arch = "aarch64".to_owned(), "--arch aarch64", "--vmm qemu");
        refuses(&|g, _| g.accel = Accel::Tcg, "--accel tcg", "leave it out");
        refuses(&|g, _| g.deterministic = true, "--deterministic", "--vmm qemu");
        refuses(&|g, _| g.machine = "q35".to_owned(), "--machine q35", "leave it out");
        refuses(&|g, _| g.extra = vec!["-nic".to_owned()], "arguments", "leave them out");
        refuses(&|g, _| g.init = Init::Guest, "--init guest", "--init keep");
        refuses(&|g, _| g.workload = Some("ls".to_owned()), "--workload", "--vmm qemu");
        refuses(&|g, _| g.dtb = Some("a.dtb".into()), "--dtb", "leave it out");
        refuses(&|_, o| o.calls = true, "--trace calls", "--vmm qemu");
        refuses(&|_, o| o.silence_ms = Some(100), "--silence", "--vmm qemu");
        refuses(&|g, _| g.dax = true, "--dax", "--vmm qemu");
        refuses(&|g, _| g.until = Until::Tcp(22), "--until a port", "a line");
        refuses(&|g, _| g.kernel = None, "no --kernel", "vmlinux");
    }
}
