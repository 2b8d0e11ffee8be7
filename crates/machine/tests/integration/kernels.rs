//! Boots of a real Linux kernel, named by `BOOTSCOPE_TEST_KERNEL`. guest-init must be built (`make build`) and be in `BOOTSCOPE_LIB` or an
//! installed place.

use crate::common::{Boot, Scratch, boot, initrd_with_init, program_that_says};
use machine::{Init, Silent, Then, Until, time_plain};
use recording::{OutcomeKind, TimeBase};

/// The stamps in a stream's index.
fn stamps(boot: &Boot, name: &str) -> Vec<i64> {
    boot.text(name).lines().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect()
}

#[test]
fn a_stock_kernel_reaches_process_one_and_its_evidence_comes_home() {
    let scratch = Scratch::new();
    let Some(options) = scratch.kernel_options() else { return };
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Reached, "{}", boot.detail());
    let end = boot.recorded.end.as_ref().unwrap();
    assert_eq!(end.what, "init");
    assert!(boot.text("kmsg.log").contains("Linux version"));
    assert!(boot.text("trace.txt").contains("initcall_finish"));
    assert!(boot.text("meminfo.txt").contains("MemTotal"));
    assert!(boot.recording.read("kallsyms.gz").unwrap().unwrap().starts_with(&[0x1f, 0x8b]));
    assert!(!boot.has("kmsg-memory.log"), "the guest's own is there");
    assert!(boot.recording.diagnostics.is_empty(), "{:?}", boot.recording.diagnostics);
    // The end mark is the first line on guest-init's port, and nothing of the boot comes after it.
    assert_eq!(stamps(&boot, "guest.idx")[0], end.at_ns);
    let firmware = stamps(&boot, "firmware.idx");
    assert!(firmware.is_sorted() && *firmware.last().unwrap() < end.at_ns);
    let manifest = &boot.recorded.manifest;
    assert_eq!(manifest.time_base, TimeBase::Host);
    assert!(manifest.host.tsc_hz.unwrap() > 1e8);
    assert_eq!(manifest.inputs[0].sha256.len(), 64);
    assert!(!manifest.subject.kernel.is_empty());
}

#[test]
#[ignore = "30 s: in make test-all"]
fn a_panic_is_named_and_its_log_read_from_memory() {
    let scratch = Scratch::new();
    let Some(mut options) = scratch.kernel_options() else { return };
    options.guest.init = Init::Keep;
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Panic);
    assert!(boot.detail().contains("Kernel panic - not syncing: VFS"), "{}", boot.detail());
    let log = boot.text("kmsg-memory.log");
    assert!(log.contains("Linux version") && log.contains("Kernel panic - not syncing"), "{log}");
}

#[test]
#[ignore = "26 s: in make test-all"]
fn a_panic_that_resets_at_once_is_still_a_panic() {
    let scratch = Scratch::new();
    let Some(mut options) = scratch.kernel_options() else { return };
    options.guest.init = Init::Keep;
    // With a console that is not recorded, only the log in memory shows the panic.
    options.guest.append = "quiet no_timer_check console=ttyS3 panic=-1".to_owned();
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Panic);
    assert_eq!(boot.text("console.log"), "");
    assert!(boot.detail().contains("VFS"), "{}", boot.detail());
}

#[test]
fn power_off_can_be_the_end() {
    let scratch = Scratch::new();
    let Some(mut options) = scratch.kernel_options() else { return };
    options.guest.until = Until::PowerOff;
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Reached);
    assert_eq!(boot.recorded.end.as_ref().unwrap().what, "power-off");
    assert!(boot.has("trace.txt"));
}

#[test]
fn a_power_off_before_the_end_mark_has_its_own_name() {
    let scratch = Scratch::new();
    let Some(mut options) = scratch.kernel_options() else { return };
    options.guest.until = Until::Regex("never printed".to_owned());
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::PowerOff);
    assert_eq!(boot.recorded.end, None);
    assert!(boot.has("trace.txt"));
}

#[test]
fn the_users_init_is_handed_over_to() {
    let scratch = Scratch::new();
    let Some(mut options) = scratch.kernel_options() else { return };
    let initrd = scratch.path("initrd");
    initrd_with_init(&initrd, &program_that_says("demo login: "));
    options.guest.initrd = Some(initrd);
    options.guest.then = Then::Exec;
    options.guest.until = Until::Regex("login:".to_owned());
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Reached, "{}", boot.detail());
    assert!(boot.has("trace.txt"));
    assert!(boot.text("console.log").contains("demo login: "));
}

#[test]
#[ignore = "25 s: in make test-all"]
fn a_guest_with_its_own_init_is_recorded_from_memory() {
    let scratch = Scratch::new();
    let Some(mut options) = scratch.kernel_options() else { return };
    let initrd = scratch.path("initrd");
    initrd_with_init(&initrd, &program_that_says("own init\n"));
    options.guest.initrd = Some(initrd);
    options.guest.init = Init::Keep;
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Reached, "{}", boot.detail());
    // The console is quiet: the line was found in the kernel log.
    let end = boot.recorded.end.as_ref().unwrap();
    assert!(end.what.contains("Run /init as init process"), "{end:?}");
    // It was printed between two looks, well after the kernel's clock began.
    assert!(end.error_ns.is_some_and(|ns| (0..end.at_ns / 2).contains(&ns)), "{end:?}");
    let log = boot.text("kmsg-memory.log");
    let line = log.lines().find(|line| line.contains("Run /init as init process")).unwrap();
    let stamp: f64 = line.split(',').nth(2).unwrap().parse().unwrap();
    assert_eq!(end.printk_ns, Some((stamp * 1e3).round() as i64), "{line}");
    assert!(boot.text("kmsg-memory.log").contains("Run /init as init process"));
    assert_eq!(boot.text("guest.log"), "");
}

#[test]
#[ignore = "10 s: in make test-all"]
fn a_deterministic_boot_reaches_process_one() {
    let scratch = Scratch::new();
    let Some(mut options) = scratch.kernel_options() else { return };
    options.guest.deterministic = true;
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Reached, "{}", boot.detail());
    assert_eq!(boot.recorded.manifest.time_base, TimeBase::GuestVirtual);
    assert!(boot.has("trace.txt") && boot.has("kmsg.log"), "{:?}", boot.recorded.manifest.notes);
}

#[test]
fn the_accelerator_is_one_that_works() {
    let scratch = Scratch::new();
    let Some(mut options) = scratch.kernel_options() else { return };
    options.guest.accel = machine::Accel::Auto;
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Reached, "{}", boot.detail());
    let manifest = &boot.recorded.manifest;
    // If the accelerator is not KVM, a note has the reason.
    let has_reason = manifest.notes.iter().any(|note| note.starts_with("TCG is used: "));
    assert_eq!(manifest.subject.accelerator == "tcg", has_reason, "{:?}", manifest.notes);
}

#[test]
fn a_plain_boot_is_timed() {
    let scratch = Scratch::new();
    let Some(options) = scratch.kernel_options() else { return };
    match time_plain(&options, &mut Silent) {
        Ok(ns) => assert!(ns > 50_000_000, "{ns}"),
        Err(machine::Error::VmmMissing { .. } | machine::Error::LibraryMissing { .. }) => eprintln!("skipped"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
#[ignore = "11 s: in make test-all"]
fn what_ran_first_is_recorded_where_qemu_takes_the_plugin() {
    let scratch = Scratch::new();
    let Some(options) = scratch.kernel_options() else { return };
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Reached, "{}", boot.detail());
    let has_reason = boot.recorded.manifest.notes.iter().any(|note| note.contains("first ran is not recorded"));
    assert_ne!(boot.has("first-run.bin"), has_reason, "either it is there, or why not");
}
