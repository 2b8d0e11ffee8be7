//! Checks the options of a recording before anything is started or written. Questions that only QEMU can answer (its version, whether it
//! loads plugins) are checked elsewhere.

use recording::{Accel, Board, Target, Then, Until, VmmKind};

use crate::guest_profiles::profile_of;
use crate::option_table::{Booter, refuse_unsupported};
use crate::profile::GuestProfile;
use crate::refusal::text;
use crate::vmm::WHY_NOT_REPEATED;
use crate::vmm::serial::Address;
use crate::{Error, RecordOptions, arch, host, image, root, vmm};
use recording::Field;

/// Shortest silence: stops take some milliseconds each, which would be a good part of a shorter silence.
const SILENCE_MS_MIN: u64 = 10;

impl RecordOptions {
    /// Returns the guest's profile, or what is wrong with the options.
    pub(crate) fn check(&self) -> Result<GuestProfile, Error> {
        let vmm = match &self.guest.target {
            Target::Board(board) => {
                self.check_board(board)?;
                self.check_observed()?;
                return profile_of(&self.guest);
            }
            Target::Vmm { kind, .. } => *kind,
        };
        arch::check(&self.guest)?;
        match vmm {
            VmmKind::Qemu => {}
            VmmKind::Firecracker => vmm::firecracker::check(self)?,
            VmmKind::CloudHypervisor => vmm::cloud_hypervisor::check(self)?,
        }
        self.check_memory()?;
        if self.guest.cpus == 0 {
            return Err(Error::refused(Field::Cpus, text![Field::Cpus, " is 0"], "give at least 1"));
        }
        self.check_observed()?;
        if let Some(ms) = self.observe.silence_ms.filter(|&ms| ms < SILENCE_MS_MIN) {
            let why = text![Field::Silence, format!(" is {ms} ms")];
            let instead = format!("give at least {SILENCE_MS_MIN}ms, because each stop takes the guest some of them");
            return Err(Error::refused(Field::Silence, why, instead));
        }
        if self.observe.watch.is_some() && self.observe.silence_ms.is_some() {
            let why = text![Field::Watch, " and ", Field::Silence, " cannot be recorded in one boot"];
            return Err(Error::refused(Field::Watch, why, "record two"));
        }
        self.check_units()?;
        self.check_awaited()?;
        if self.guest.append.matches('"').count() % 2 == 1 {
            let why = format!(
                " has a double quote that is never closed: {:?}; the kernel would take all that follows, what recording \
                 adds too, for one parameter",
                self.guest.append
            );
            return Err(Error::refused(Field::Append, text![Field::Append, why], "close it or leave it out"));
        }
        self.check_a_kernel_or_disk()?;
        self.check_device_tree()?;
        self.check_firmware()?;
        let profile = profile_of(&self.guest)?;
        self.check_files(&profile)?;
        if self.guest.deterministic {
            self.check_deterministic()?;
        }
        self.check_calls()?;
        Ok(profile)
    }

    fn check_memory(&self) -> Result<(), Error> {
        let mib = 1 << 20;
        if self.guest.memory_bytes < 16 * mib || self.guest.memory_bytes % mib != 0 {
            let found = self.guest.memory_bytes;
            let why = text![Field::Memory, format!(" is {found} bytes")];
            return Err(Error::refused(Field::Memory, why, "give a multiple of 1 MiB, at least 16M"));
        }
        if let Some(host) = host::memory_bytes().filter(|&host| self.guest.memory_bytes > host) {
            let (requested, host) = (self.guest.memory_bytes >> 20, host >> 20);
            let why =
                text![Field::Memory.is(format!("{requested}M")), format!(" is more than this host has ({host} MiB)")];
            return Err(Error::refused(Field::Memory, why, "give less"));
        }
        Ok(())
    }

    /// Checks the options that name units of the guest's systemd.
    fn check_units(&self) -> Result<(), Error> {
        let guest = &self.guest;
        let runs_systemd = !guest.has_guest_init() && guest.kernel.is_some();
        if let Until::Unit(unit) = &guest.until {
            let until = Field::Until.is(format!("unit:{unit}"));
            if !recording::is_unit_name(unit) {
                let instead =
                    "give its name as systemd logs it, with what it is, such as ssh.service or multi-user.target";
                return Err(Error::refused(Field::Until, text![until, " names no unit"], instead));
            }
            if !runs_systemd {
                let why = text![until, " waits for the guest's own systemd, and for its words in the kernel's log"];
                let instead = text!["give ", Field::Init.is("keep"), ", and the kernel with ", Field::Kernel];
                return Err(Error::refused(Field::Until, why, instead));
            }
        }
        if let Some(unit) = guest.mask.iter().find(|unit| !recording::is_unit_name(unit)) {
            let instead = "give its name with what it is, such as apt-daily.timer";
            return Err(Error::refused(Field::Mask, text![Field::Mask.is(unit), " names no unit"], instead));
        }
        if !guest.mask.is_empty() && !runs_systemd {
            let why = text![Field::Mask, " is for the guest's own systemd, and travels on the kernel's command line"];
            let instead = text!["give ", Field::Init.is("keep"), " and ", Field::Kernel];
            return Err(Error::refused(Field::Mask, why, instead));
        }
        Ok(())
    }

    /// Checks the options that apply to every machine.
    fn check_observed(&self) -> Result<(), Error> {
        if self.observe.stream_bytes_max == 0 {
            return Err(Error::Unusable("no stream can be kept in 0 bytes".to_owned()));
        }
        if let Until::Regex(pattern) = &self.guest.until {
            regex::bytes::Regex::new(pattern).map_err(|e| pattern_error(pattern, &e))?;
        }
        Ok(())
    }

    /// Refuses the options that work only for a machine that bootscope makes.
    fn check_board(&self, board: &Board) -> Result<(), Error> {
        Address::of(&board.serial)?.check()?;
        if board.baud == Some(0) {
            let instead = "give the rate of the board's console, such as 115200";
            return Err(Error::refused(Field::Baud, text![Field::Baud, " is 0"], instead));
        }
        if board.power_cycle.as_ref().is_some_and(|command| command.trim().is_empty()) {
            let instead = "give the command that switches the board off and on, or leave it out and do it by hand";
            return Err(Error::refused(Field::PowerCycle, text![Field::PowerCycle, " is empty"], instead));
        }
        refuse_unsupported(self, Booter::Board)
    }

    /// Checks the end marks that look into the guest or connect to it.
    fn check_awaited(&self) -> Result<(), Error> {
        let guest = &self.guest;
        if let Some(port) = guest.until.port() {
            const CARDS: [&str; 6] = ["-nic", "--nic", "-net", "--net", "-netdev", "--netdev"];
            if guest.deterministic {
                let why = text![Field::Until, " asks the guest over its network, and a deterministic boot has none"];
                return Err(Error::refused(Field::Until, why, ""));
            }
            if let Some(card) = guest.extra.iter().find(|word| CARDS.contains(&word.as_str())) {
                let through = format!(" asks port {port} of the guest through a network card that bootscope adds");
                return Err(Error::refused(Field::Extra, text![Field::Until, through], format!("leave out {card}")));
            }
        }
        let Until::Process(name) = &guest.until else { return Ok(()) };
        let until = Field::Until.is(format!("process:{name}"));
        if name.is_empty() || name.contains('/') {
            let instead = "give the name of its program without its path, such as nginx";
            return Err(Error::refused(Field::Until, text![until, " names no process"], instead));
        }
        if guest.deterministic || guest.has_guest_init() || guest.kernel.is_none() {
            let why = text![until, " looks into the memory of a guest with its own init while it runs"];
            let instead =
                text!["give ", Field::Init.is("keep"), " and ", Field::Kernel, ", and not ", Field::Deterministic];
            return Err(Error::refused(Field::Until, why, instead));
        }
        Ok(())
    }

    fn check_calls(&self) -> Result<(), Error> {
        let arch = arch::of(&self.guest);
        if self.observe.calls && !arch.facts.qemu.follows_calls {
            let why = text![Field::Calls, format!(" does not follow the calls of {} guests yet", arch.facts.name)];
            return Err(Error::refused(Field::Calls, why, "leave it out; when code first ran is recorded"));
        }
        if self.observe.exits && !arch.facts.qemu.follows_calls {
            let why = text![Field::Exits, format!(" does not know the instructions of {} guests yet", arch.facts.name)];
            return Err(Error::refused(Field::Exits, why, "leave it out"));
        }
        let needs_translation = [(self.observe.calls, Field::Calls), (self.observe.exits, Field::Exits)];
        let wanted = needs_translation.into_iter().find(|(is_wanted, _)| *is_wanted);
        if let Some((_, field)) = wanted.filter(|_| self.guest.accel == Accel::Kvm) {
            let why = " needs QEMU to translate the guest's code, and with KVM the CPU runs it itself";
            let instead = text!["leave out ", Field::Accel.is("kvm"), ", or ", field];
            return Err(Error::refused(field, text![field, why], instead));
        }
        if self.observe.min_call_ns.is_some() && !self.observe.calls {
            let why = text![Field::MinCall, " is about the calls of ", Field::Calls];
            return Err(Error::refused(Field::MinCall, why, "give that too"));
        }
        Ok(())
    }

    fn check_a_kernel_or_disk(&self) -> Result<(), Error> {
        match &self.guest.kernel {
            Some(kernel) => image::check_kernel(arch::of(&self.guest), kernel)?,
            None if self.guest.has_guest_init() => {
                let why = text![
                    "without ",
                    Field::Kernel,
                    " the machine boots from its own disk, and its own process 1 runs"
                ];
                let instead = text!["add ", Field::Init.is("keep"), ", or give a ", Field::Kernel];
                return Err(Error::refused(Field::Kernel, why, instead));
            }
            None if self.guest.initrd.is_some() || !self.guest.append.is_empty() => {
                let why = text![Field::Initrd, " and ", Field::Append, " need a ", Field::Kernel];
                return Err(Error::refused(Field::Kernel, why, ""));
            }
            None if self.guest.disks.is_empty() && self.guest.extra.is_empty() && self.guest.bios.is_none() => {
                let instead = text!["give a ", Field::Kernel, ", a ", Field::Disks, " or a ", Field::Bios];
                return Err(Error::refused(Field::Kernel, "nothing to boot", instead));
            }
            None => {}
        }
        Ok(())
    }

    /// Checks that the guest takes a device tree, and that the file is one.
    fn check_device_tree(&self) -> Result<(), Error> {
        let (guest, arch) = (&self.guest, arch::of(&self.guest));
        let Some(path) = &guest.dtb else {
            return match arch.board(guest).filter(|_| guest.kernel.is_some()) {
                Some(board) => {
                    let why = " brings no device tree, and its kernel needs one";
                    let instead = text!["give the kernel's own for this board with ", Field::Dtb];
                    Err(Error::refused(Field::Dtb, text![Field::Machine.is(board.name), why], instead))
                }
                None => Ok(()),
            };
        };
        if !arch.facts.qemu.takes_device_tree {
            let why = text![Field::Dtb, format!(": {} guests take no device tree", arch.facts.name)];
            return Err(Error::refused(Field::Dtb, why, "leave it out"));
        }
        if guest.kernel.is_none() {
            let why = text![Field::Dtb, " is for a ", Field::Kernel, ", and what boots from a disk has its own"];
            return Err(Error::refused(Field::Dtb, why, "leave it out"));
        }
        image::check_device_tree(path)
    }

    /// Checks that the firmware's file can be read.
    fn check_firmware(&self) -> Result<(), Error> {
        self.guest.bios.as_deref().map_or(Ok(()), image::check_readable)
    }

    fn check_files(&self, profile: &GuestProfile) -> Result<(), Error> {
        root::check(&self.guest, profile)?;
        if self.guest.then == Then::Exec
            && (!self.guest.has_guest_init() || self.guest.initrd.is_none() && self.guest.root.is_none())
        {
            let then = Field::Then.is("exec");
            let why = text![then, " hands over to the init of an ", Field::Initrd, " or a ", Field::Root];
            let instead = text!["give one, or boot the guest's own init from its disk with ", Field::Init.is("keep")];
            return Err(Error::refused(Field::Then, why, instead));
        }
        for path in self.guest.initrd.iter().chain(&self.guest.disks) {
            image::check_readable(path)?;
        }
        match self.initrd_oddity()? {
            // It would lie behind bootscope's own archive, and the kernel would skip it.
            Some(oddity) if self.guest.has_guest_init() => {
                let instead =
                    "give what the kernel can unpack, made by `find . | cpio -o -H newc` and compressed or not";
                Err(Error::refused(Field::Initrd, text![Field::Initrd.is(oddity)], instead))
            }
            _ => Ok(()),
        }
    }

    /// The reason why the kernel cannot unpack the initrd, after the initrd's name.
    pub(crate) fn initrd_oddity(&self) -> Result<Option<String>, Error> {
        let Some(path) = &self.guest.initrd else {
            return Ok(None);
        };
        let found = image::check_initrd(path)?;
        Ok(found.err().map(|why| format!("{} is no initial RAM file system: {why}", path.display())))
    }

    fn check_deterministic(&self) -> Result<(), Error> {
        if self.guest.accel == Accel::Kvm {
            let why = text![Field::Deterministic, " counts instructions, which KVM cannot"];
            return Err(Error::refused(Field::Deterministic, why, text!["leave out ", Field::Accel.is("kvm")]));
        }
        if let Some(disk) = self.guest.disks.first() {
            let why = text![
                Field::Deterministic,
                " takes no block device, but ",
                Field::Disks.is(disk.display()),
                format!(" is one: {WHY_NOT_REPEATED}; put what the boot needs into the initrd")
            ];
            return Err(Error::refused(Field::Disks, why, ""));
        }
        Ok(())
    }
}

/// The error of a pattern in one line: the regex library draws a picture and puts its explanation last.
fn pattern_error(pattern: &str, error: &regex::Error) -> Error {
    let text = error.to_string();
    let why = text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
    let why = format!(
        " is no regular expression: {why}; to match one of ( ) [ ] {{ }} . * + ? | ^ $ \\ itself, put a \\ before it"
    );
    Error::refused(Field::Until, text![Field::Until.is(format!("{pattern:?}")), why], "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::{GuestSpec, Init, ObserveSpec};
    use std::path::PathBuf;

    #[test]
    fn the_error_of_a_pattern_has_one_line() {
        for (pattern, why) in [("(", "unclosed group"), ("a{2", "unclosed"), ("x{999999999}", "size limit")] {
            let options =
                RecordOptions::of(GuestSpec { until: Until::Regex(pattern.to_owned()), ..GuestSpec::default() });
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(pattern) && error.contains(why) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_names_the_option() {
        let check = |guest: GuestSpec, named: &str| {
            let error = RecordOptions::of(guest).check().unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        };
        let base = GuestSpec::default;
        check(GuestSpec { memory_bytes: 100, ..base() }, "memory_bytes");
        check(GuestSpec { cpus: 0, ..base() }, "cpus");
        check(GuestSpec { until: Until::Regex("(".to_owned()), ..base() }, "until=");
        check(GuestSpec { until: Until::Unit("ssh".to_owned()), ..base() }, "names no unit");
        check(GuestSpec { until: Until::Tcp(80), deterministic: true, ..base() }, "has none");
        let nic = vec!["-nic".to_owned(), "user".to_owned()];
        check(GuestSpec { until: Until::Tcp(80), extra: nic, ..base() }, "leave out -nic");
        check(GuestSpec { until: Until::Process("/usr/sbin/nginx".to_owned()), ..base() }, "without its path");
        check(GuestSpec { until: Until::Process("nginx".to_owned()), ..base() }, "init=keep");
        check(GuestSpec { mask: vec!["a b".to_owned()], ..base() }, "mask=a b");
        check(GuestSpec { mask: vec!["a.timer".to_owned()], ..base() }, "init=keep");
        check(GuestSpec { until: Until::Unit("ssh.service".to_owned()), ..base() }, "init=keep");
        check(GuestSpec { append: "quiet dyndbg=\"file x +p".to_owned(), ..base() }, "append");
        check(GuestSpec { arch: "vax".to_owned(), ..base() }, "arch=vax");
        let arm = RecordOptions::of(GuestSpec { arch: "arm".to_owned(), ..base() });
        let calls = RecordOptions { observe: ObserveSpec { calls: true, ..arm.observe.clone() }, ..arm };
        assert!(calls.check_calls().unwrap_err().to_string().contains("arm guests"));
        check(base(), "kernel");
        let tree = GuestSpec { dtb: Some(PathBuf::from("a.dtb")), init: Init::Keep, ..base() };
        let tree_error =
            |guest: &GuestSpec| RecordOptions::of(guest.clone()).check_device_tree().unwrap_err().to_string();
        assert!(tree_error(&tree).contains("x86_64 guests take no device tree"));
        let arm = GuestSpec { arch: "arm".to_owned(), machine: "sabrelite".to_owned(), ..tree };
        assert!(tree_error(&arm).contains("is for a kernel"));
        let arm = GuestSpec { kernel: Some(PathBuf::from("/proc/version")), ..arm };
        assert!(
            tree_error(&GuestSpec { dtb: arm.kernel.clone(), ..arm.clone() })
                .contains("/proc/version is no device tree")
        );
        assert!(tree_error(&GuestSpec { dtb: None, ..arm }).contains("sabrelite brings no device tree"));
        check(GuestSpec { init: Init::Keep, ..base() }, "nothing to boot");
        let board = |serial: &str| Target::Board(Board { serial: serial.to_owned(), ..Board::default() });
        check(GuestSpec { target: board("/dev/nonexistent"), init: Init::Keep, ..base() }, "ls /dev/serial/by-id");
        let board = || GuestSpec { target: board("tcp:localhost:1"), init: Init::Keep, ..base() };
        assert!(RecordOptions::of(board()).check().is_ok());
        check(GuestSpec { kernel: Some("vmlinuz".into()), ..board() }, "kernel does not go with serial");
        check(GuestSpec { cpus: 4, ..board() }, "cpus does not go with serial");
        check(GuestSpec { deterministic: true, ..board() }, "bootscope bench");
        check(GuestSpec { until: Until::PowerOff, ..board() }, "until='login:'");
        check(GuestSpec { until: Until::Regex("(".to_owned()), ..board() }, "until=");
        let gone = Some(PathBuf::from("/nonexistent/vmlinuz"));
        check(GuestSpec { kernel: gone, ..base() }, "/nonexistent/vmlinuz");
    }
}
