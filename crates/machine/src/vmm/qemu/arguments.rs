//! Builds QEMU's command line.
//!
//! The machine keeps its defaults (display adapter, network card, CD-ROM drive), because a boot is recorded as the user would
//! run it. `-- -nodefaults` removes them. bootscope adds the options that watching needs:
//! - `-S`, and a `cont` that waits in the monitor's socket before QEMU is even started: the guest runs as soon as the
//!   machine is complete, and the monitor reports when that was;
//! - `-no-reboot -no-shutdown`: a guest that resets or powers off is paused, so that its end can be recorded and its
//!   memory read;
//! - console, firmware's debug port and guest-init's port, each on an inherited pipe, and the monitor on an inherited
//!   socket: there is nothing in the file system to clean up;
//! - guest RAM in an inherited memfd.
//!
//! The user's own arguments come last, so that they can override the others.

use std::os::fd::RawFd;
use std::path::Path;

use recording::GuestSpec;

use super::escape::escaped;
use super::root_device;
use crate::Error;
use crate::guest_channel::Wire;
use crate::image::disk_format;
use crate::option_table::add_qemu_arguments;
use crate::vmm_line::VmmLine;
use recording::Field;

/// The most serial ports of a machine that bootscope does not know.
const SERIAL_PORTS: u8 = 4;

/// Descriptors that QEMU inherits.
#[derive(Clone, Debug)]
pub(crate) struct Inherited {
    pub(crate) monitor: RawFd,
    /// The gdbstub's, if the recorder uses it.
    pub(crate) gdbstub: Option<RawFd>,
    pub(crate) console: RawFd,
    /// The guest's channel, and the device that the guest writes to.
    pub(crate) guest: Option<(RawFd, Wire)>,
    /// The firmware's debug port, and its number.
    pub(crate) firmware: Option<(RawFd, u16)>,
    pub(crate) ram: Option<RawFd>,
    pub(crate) initrd: Option<RawFd>,
    /// The host port that is forwarded to the guest. It is not a descriptor, but belongs to the machine like these.
    pub(crate) port: Option<u16>,
}

/// A plugin to load, and its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Plugin<'a> {
    pub(crate) object: &'a Path,
    /// The file for first executions.
    pub(crate) fd: Option<RawFd>,
    /// The file for calls.
    pub(crate) calls_fd: Option<RawFd>,
    pub(crate) exits_fd: Option<RawFd>,
    /// The plugin records the times of calls that took at least this long.
    pub(crate) min_call_ns: Option<u64>,
    /// After this number of blocks of user space, the plugin records no more first executions.
    pub(crate) user_blocks: Option<u32>,
    pub(crate) zero_ns: i64,
}

/// The model of the guest's CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cpu {
    /// The host's, run by KVM.
    Host,
    /// Translated CPUs of this model, or of QEMU's default.
    Translated(Option<&'static str>),
}

/// The arguments, without the program's name.
pub(crate) fn arguments(
    guest: &GuestSpec,
    cpu: Cpu,
    kernel_line: &str,
    fds: &Inherited,
    plugin: Option<&Plugin<'_>>,
) -> Result<Vec<String>, Error> {
    let mut line = VmmLine::default();
    line.machine(guest, cpu, fds)?;
    add_qemu_arguments(guest, &mut line)?;
    line.boot(guest, kernel_line, fds)?;
    line.disks(guest)?;
    line.network(guest, fds.port);
    let arch = crate::arch::of(guest);
    match arch.is_plain(guest) {
        true => line.watch_plainly(fds),
        false => line.watch(fds, arch.console_place(guest)),
    }
    if let Some(plugin) = plugin {
        line.plugin(guest, plugin)?;
    }
    line.0.extend(guest.extra.iter().cloned());
    Ok(line.0)
}

impl VmmLine {
    fn plugin(&mut self, guest: &GuestSpec, plugin: &Plugin<'_>) -> Result<(), Error> {
        let mut value = escaped(plugin.object)?;
        let mut add =
            |name: &str, value_text: Option<String>| value.extend(value_text.map(|text| format!(",{name}={text}")));
        add("fd", plugin.fd.map(|fd| fd.to_string()));
        add("calls-fd", plugin.calls_fd.map(|fd| fd.to_string()));
        add("exits-fd", plugin.exits_fd.map(|fd| fd.to_string()));
        add("min-call", plugin.min_call_ns.map(|ns| ns.to_string()));
        add("user-blocks", plugin.user_blocks.map(|blocks| blocks.to_string()));
        add("zero", Some(plugin.zero_ns.to_string()));
        add("clock", guest.deterministic.then(|| "virtual".to_owned()));
        self.pair("-plugin", value);
        Ok(())
    }

    fn machine(&mut self, guest: &GuestSpec, cpu: Cpu, fds: &Inherited) -> Result<(), Error> {
        let mib = guest.memory_bytes >> 20;
        let mut machine = guest.machine.clone();
        if let Some(ram) = fds.ram {
            let path = format!("/proc/self/fd/{ram}");
            self.pair("-object", format!("memory-backend-file,id=ram,size={mib}M,share=on,mem-path={path}"));
            machine += ",memory-backend=ram";
        }
        self.pair("-machine", machine);
        self.pair("-accel", if cpu == Cpu::Host { "kvm" } else { "tcg" });
        match cpu {
            // The usual choice with KVM: QEMU's default model hides half of the CPU's features.
            Cpu::Host => self.pair("-cpu", "host"),
            Cpu::Translated(Some(model)) => self.pair("-cpu", model),
            Cpu::Translated(None) => {}
        }
        self.pair("-m", format!("{mib}M{}", root_device::room(guest)?));
        Ok(())
    }

    fn boot(&mut self, guest: &GuestSpec, kernel_line: &str, fds: &Inherited) -> Result<(), Error> {
        let Some(kernel) = &guest.kernel else {
            return Ok(());
        };
        self.path("-kernel", Field::Kernel, kernel)?;
        if let Some(fd) = fds.initrd {
            self.pair("-initrd", format!("/proc/self/fd/{fd}"));
        }
        if let Some(dtb) = &guest.dtb {
            self.path("-dtb", Field::Dtb, dtb)?;
        }
        self.pair("-append", kernel_line);
        Ok(())
    }

    fn disks(&mut self, guest: &GuestSpec) -> Result<(), Error> {
        // The root comes first, so that it is the guest's first disk.
        for (flag, value) in root_device::device(guest)? {
            self.pair(flag, value);
        }
        for disk in &guest.disks {
            let (file, format) = (escaped(disk)?, disk_format(disk)?);
            self.pair("-drive", format!("file={file},format={format},snapshot=on,if=virtio"));
        }
        Ok(())
    }

    /// Adds the network card. If the end mark is an answer on a TCP port, a card that every kernel for virtual machines supports replaces
    /// the machine's own. An isolated guest reaches nothing through its card.
    fn network(&mut self, guest: &GuestSpec, port: Option<u16>) {
        let restrict = if guest.isolated { ",restrict=on" } else { "" };
        let Some(guest_port) = guest.until.port() else {
            // A deterministic guest has no card. A machine without a place for a card makes QEMU warn, and boots.
            if guest.isolated && !guest.deterministic {
                self.pair("-nic", format!("user{restrict}"));
            }
            return;
        };
        let model = if guest.machine.starts_with("microvm") { "virtio-net-device" } else { "virtio-net-pci" };
        let forward = port.map_or_else(String::new, |port| format!(",hostfwd=tcp:127.0.0.1:{port}-:{guest_port}"));
        self.pair("-nic", format!("user,model={model}{restrict}{forward}"));
    }

    fn watch(&mut self, fds: &Inherited, console_place: u8) {
        self.stopped(fds);
        self.serial_ports(fds, console_place);
        self.ports(fds);
    }

    /// Watches a machine whose console may be on any of its serial ports: all write to the same pipe. QEMU ignores ports that the machine
    /// does not have.
    fn watch_plainly(&mut self, fds: &Inherited) {
        self.stopped(fds);
        self.pair("-serial", "chardev:console");
        for place in 1..SERIAL_PORTS {
            let id = format!("console{place}");
            self.pipe(&id, fds.console);
            self.pair("-serial", format!("chardev:{id}"));
        }
        self.ports(fds);
    }

    /// Holds the machine at its first instruction, with a monitor and a console.
    fn stopped(&mut self, fds: &Inherited) {
        self.pair("-display", "none");
        self.flag("-no-reboot");
        self.flag("-no-shutdown");
        self.flag("-S");
        self.pair("-chardev", format!("socket,id=monitor,fd={}", fds.monitor));
        self.pair("-mon", "chardev=monitor,mode=control");
        if let Some(fd) = fds.gdbstub {
            self.pair("-chardev", format!("socket,id=gdbstub,fd={fd}"));
            self.pair("-gdb", "chardev:gdbstub");
        }
        self.pipe("console", fds.console);
    }

    /// Adds the ports of the firmware and the guest.
    fn ports(&mut self, fds: &Inherited) {
        if let Some((fd, port)) = fds.firmware {
            self.pipe("firmware", fd);
            self.pair("-device", format!("isa-debugcon,iobase={port:#x},chardev=firmware"));
        }
        if let Some((fd, wire)) = fds.guest {
            self.pipe("guest", fd);
            match wire {
                Wire::IoPort(port) => self.pair("-device", format!("isa-debugcon,iobase={port:#x},chardev=guest")),
                Wire::VirtioConsole(place) => {
                    self.pair("-device", format!("virtio-serial-device,id=guest-port,bus=virtio-mmio-bus.{place}"));
                    self.pair("-device", "virtconsole,bus=guest-port.0,chardev=guest");
                }
                // `serial_ports` connects it.
                Wire::SerialPort { .. } => {}
            }
        }
    }

    /// Adds the machine's serial ports, up to the last one that is recorded.
    fn serial_ports(&mut self, fds: &Inherited, console_place: u8) {
        let guest_place = match fds.guest {
            Some((_, Wire::SerialPort { place, .. })) => Some(place),
            _ => None,
        };
        for place in 0..=console_place.max(guest_place.unwrap_or_default()) {
            self.pair(
                "-serial",
                match place {
                    _ if place == console_place => "chardev:console",
                    _ if Some(place) == guest_place => "chardev:guest",
                    _ => "null",
                },
            );
        }
    }

    /// Adds a character device that writes to a pipe, by its path in `/proc`. A socket would cost QEMU more, and no answer goes back.
    fn pipe(&mut self, id: &str, fd: RawFd) {
        self.pair("-chardev", format!("file,id={id},path=/proc/self/fd/{fd}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn fds() -> Inherited {
        Inherited {
            monitor: 3,
            gdbstub: None,
            console: 4,
            guest: Some((5, Wire::IoPort(0xe9))),
            firmware: Some((6, 0x402)),
            ram: Some(7),
            initrd: Some(8),
            port: None,
        }
    }

    fn line(change: impl FnOnce(&mut GuestSpec)) -> String {
        let mut guest = GuestSpec { kernel: Some(PathBuf::from("/boot/vmlinuz")), ..GuestSpec::default() };
        change(&mut guest);
        arguments(&guest, Cpu::Translated(None), "quiet", &fds(), None).unwrap().join(" ")
    }

    #[test]
    fn a_machine_is_watched_through_inherited_descriptors() {
        let line = line(|_| {});
        for part in [
            "-object memory-backend-file,id=ram,size=512M,share=on,mem-path=/proc/self/fd/7",
            "-machine pc,memory-backend=ram -accel tcg -m 512M -smp 1",
            "-kernel /boot/vmlinuz -initrd /proc/self/fd/8 -append quiet",
            "-chardev socket,id=monitor,fd=3 -mon chardev=monitor,mode=control",
            "-chardev file,id=console,path=/proc/self/fd/4 -serial chardev:console",
            "-device isa-debugcon,iobase=0x402,chardev=firmware",
            "-device isa-debugcon,iobase=0xe9,chardev=guest",
            "-no-reboot -no-shutdown -S",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(!line.contains("-icount") && !line.contains("-nodefaults") && !line.contains("-plugin"));
    }

    #[test]
    fn a_guest_without_ports_writes_to_a_console_of_virtio() {
        let fds = Inherited { guest: Some((5, Wire::VirtioConsole(0))), firmware: None, ..fds() };
        let cpu = Cpu::Translated(Some("cortex-a72"));
        let line = arguments(&GuestSpec::default(), cpu, "", &fds, None).unwrap().join(" ");
        assert!(line.contains("-chardev file,id=guest,path=/proc/self/fd/5 -device virtio-serial-device,id=guest-port,bus=virtio-mmio-bus.0 -device virtconsole,bus=guest-port.0,chardev=guest"), "{line}");
        assert!(line.contains("-accel tcg -cpu cortex-a72") && !line.contains("debugcon"), "{line}");
    }

    #[test]
    fn a_board_has_separate_serial_ports_for_console_and_channel() {
        let mut guest = GuestSpec { arch: "arm".to_owned(), machine: "sabrelite".to_owned(), ..GuestSpec::default() };
        (guest.kernel, guest.dtb) = (Some("/boot/zImage".into()), Some("/boot/imx6q-sabrelite.dtb".into()));
        let arch = crate::arch::of(&guest);
        let cpu = Cpu::Translated(arch.cpu(&guest, 7));
        let wire = arch.channel(&guest).wire();
        let fds = Inherited { guest: Some((5, wire)), firmware: None, ..fds() };
        let line = arguments(&guest, cpu, arch.console(&guest), &fds, None).unwrap().join(" ");
        for part in [
            "-machine sabrelite,memory-backend=ram -accel tcg -m 512M",
            "-dtb /boot/imx6q-sabrelite.dtb -append ttymxc1",
            "-serial null -serial chardev:console -serial chardev:guest -chardev file,id=guest,path=/proc/self/fd/5",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        let keep = Inherited { guest: None, ..fds };
        let line = arguments(&guest, cpu, "", &keep, None).unwrap().join(" ");
        assert!(line.contains("-serial null -serial chardev:console") && !line.contains("guest"), "{line}");
    }

    #[test]
    fn each_serial_port_of_an_unknown_machine_is_the_console() {
        let fds = Inherited { guest: None, firmware: None, ..fds() };
        let guest = GuestSpec { arch: "aarch64".to_owned(), machine: "raspi3b".to_owned(), ..GuestSpec::default() };
        let line = arguments(&guest, Cpu::Translated(crate::arch::of(&guest).cpu(&guest, 7)), "", &fds, None).unwrap();
        let line = line.join(" ");
        assert!(line.contains("-serial chardev:console -chardev file,id=console1,path=/proc/self/fd/4"), "{line}");
        assert!(
            line.contains("-serial chardev:console3") && !line.contains("-device") && !line.contains("-cpu"),
            "{line}"
        );
    }

    #[test]
    fn the_users_firmware_starts_a_kernel_or_a_disk() {
        let given = |kernel: Option<&str>| {
            line(|guest| (guest.kernel, guest.bios) = (kernel.map(PathBuf::from), Some("/lib/u-boot.bin".into())))
        };
        assert!(given(Some("/boot/Image")).contains("-bios /lib/u-boot.bin -kernel /boot/Image"));
        assert!(given(None).contains("-bios /lib/u-boot.bin ") && !line(|_| {}).contains("-bios"));
    }

    #[test]
    fn a_gdbstub_is_there_only_if_it_is_used() {
        assert!(!line(|_| {}).contains("gdb"));
        let guest = GuestSpec::default();
        let fds = Inherited { gdbstub: Some(9), ..fds() };
        let line = arguments(&guest, Cpu::Translated(None), "", &fds, None).unwrap().join(" ");
        assert!(line.contains("-chardev socket,id=gdbstub,fd=9 -gdb chardev:gdbstub"), "{line}");
    }

    #[test]
    fn the_users_own_arguments_come_last() {
        assert!(line(|guest| guest.extra = vec!["-device".into(), "foo".into()]).ends_with(" -device foo"));
    }

    #[test]
    fn a_guest_with_an_awaited_port_has_a_network_card() {
        let guest = GuestSpec { until: recording::Until::Tcp(22), ..GuestSpec::default() };
        let fds = Inherited { port: Some(4022), ..fds() };
        let line = arguments(&guest, Cpu::Translated(None), "", &fds, None).unwrap().join(" ");
        assert!(line.contains("-nic user,model=virtio-net-pci,hostfwd=tcp:127.0.0.1:4022-:22"), "{line}");
        let microvm = GuestSpec { machine: "microvm,rtc=on".to_owned(), ..guest };
        let line = arguments(&microvm, Cpu::Translated(None), "", &fds, None).unwrap().join(" ");
        assert!(line.contains("model=virtio-net-device,"), "{line}");
    }

    #[test]
    fn an_isolated_guest_reaches_nothing_through_its_card() {
        assert!(line(|guest| guest.isolated = true).contains("-nic user,restrict=on"));
        let line = line(|guest| (guest.isolated, guest.deterministic) = (true, true));
        assert!(!line.contains("-nic"), "it has no card: {line}");
        let guest = GuestSpec { until: recording::Until::Tcp(22), isolated: true, ..GuestSpec::default() };
        let fds = Inherited { port: Some(4022), ..fds() };
        let line = arguments(&guest, Cpu::Translated(None), "", &fds, None).unwrap().join(" ");
        assert!(line.contains("-nic user,model=virtio-net-pci,restrict=on,hostfwd=tcp:127.0.0.1:4022-:22"), "{line}");
    }

    #[test]
    fn a_deterministic_machine_does_not_use_the_hosts_clock() {
        let line = line(|guest| guest.deterministic = true);
        assert!(line.contains("-icount shift=0,sleep=off -rtc base=2020-01-01T00:00:00,clock=vm -seed 1 -nodefaults"));
    }

    #[test]
    fn disks_are_never_written_and_their_commas_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("a,b.img");
        std::fs::write(&disk, b"QFI\xfb....").unwrap();
        let line = line(|guest| guest.disks = vec![disk]);
        assert!(line.contains("a,,b.img,format=qcow2,snapshot=on,if=virtio"), "{line}");
    }

    #[test]
    fn the_plugin_receives_time_zero() {
        let guest = GuestSpec { deterministic: true, ..GuestSpec::default() };
        let object = Path::new("/lib/p,1.so");
        let plugin = Plugin {
            object,
            fd: Some(9),
            calls_fd: None,
            exits_fd: Some(5),
            min_call_ns: None,
            user_blocks: Some(7),
            zero_ns: 42,
        };
        let line = arguments(&guest, Cpu::Translated(None), "", &fds(), Some(&plugin)).unwrap().join(" ");
        assert!(line.contains("-plugin /lib/p,,1.so,fd=9,exits-fd=5,user-blocks=7,zero=42,clock=virtual"), "{line}");
    }
}
