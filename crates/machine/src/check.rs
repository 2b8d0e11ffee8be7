//! Checks the options of a recording before anything is started or written. Questions that only QEMU can answer (its version, whether it
//! loads plugins) are checked elsewhere.

use recording::{Accel, Board, GuestSpec, Init, Then, Until, VmmKind};

use crate::guest_profiles::profile_of;
use crate::profile::GuestProfile;
use crate::vmm::serial::Address;
use crate::{Error, RecordOptions, arch, host, image, root, vmm};

/// Shortest `--silence`: stops take some milliseconds each, which would be a good part of a shorter silence.
const SILENCE_MS_MIN: u64 = 10;

impl RecordOptions {
    /// Returns the guest's profile, or what is wrong with the options.
    pub(crate) fn check(&self) -> Result<GuestProfile, Error> {
        if let Some(board) = &self.guest.board {
            self.check_board(board)?;
            self.check_observed()?;
            return profile_of(&self.guest);
        }
        arch::check(&self.guest)?;
        match self.guest.vmm {
            VmmKind::Qemu => {}
            VmmKind::Firecracker => vmm::firecracker::check(self)?,
            VmmKind::CloudHypervisor => vmm::cloud_hypervisor::check(self)?,
        }
        let mib = 1 << 20;
        if self.guest.memory_bytes < 16 * mib || self.guest.memory_bytes % mib != 0 {
            let found = self.guest.memory_bytes;
            return Err(Error::option(format!("--memory is {found} bytes: give a multiple of 1 MiB, at least 16M")));
        }
        if let Some(host) = host::memory_bytes().filter(|&host| self.guest.memory_bytes > host) {
            let (requested, host) = (self.guest.memory_bytes >> 20, host >> 20);
            return Err(Error::option(format!(
                "--memory {requested}M is more than this host has ({host} MiB): give less"
            )));
        }
        if self.guest.cpus == 0 {
            return Err(Error::option("--cpus is 0: give at least 1"));
        }
        self.check_observed()?;
        if let Some(ms) = self.observe.silence_ms.filter(|&ms| ms < SILENCE_MS_MIN) {
            return Err(Error::option(format!(
                "--silence is {ms} ms: give at least {SILENCE_MS_MIN}ms, because each stop takes the guest some of them"
            )));
        }
        if self.observe.watch.is_some() && self.observe.silence_ms.is_some() {
            return Err(Error::option("--watch and --silence cannot be recorded in one boot: record two"));
        }
        if let Until::Unit(unit) = &self.guest.until {
            if !recording::is_unit_name(unit) {
                return Err(Error::option(format!(
                    "--until unit:{unit} names no unit: give its name as systemd logs it, with what it is, such as \
                     ssh.service or multi-user.target"
                )));
            }
            if self.guest.has_guest_init() || self.guest.kernel.is_none() {
                return Err(Error::option(format!(
                    "--until unit:{unit} waits for the guest's own systemd, and for its words in the kernel's log: give \
                     --init keep, and the kernel with --kernel"
                )));
            }
        }
        self.check_awaited()?;
        if let Some(unit) = self.guest.mask.iter().find(|unit| !recording::is_unit_name(unit)) {
            return Err(Error::option(format!(
                "--mask {unit} names no unit: give its name with what it is, such as apt-daily.timer"
            )));
        }
        if !self.guest.mask.is_empty() && (self.guest.has_guest_init() || self.guest.kernel.is_none()) {
            return Err(Error::option(
                "--mask is told to the guest's own systemd by the kernel's command line: give --init keep and --kernel",
            ));
        }
        if self.guest.append.matches('"').count() % 2 == 1 {
            return Err(Error::option(format!(
                "--append has a double quote that is never closed: {:?}; the kernel would take all that follows, what \
                 recording adds too, for one parameter: close it or leave it out",
                self.guest.append
            )));
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

    /// Checks the options that apply to every machine.
    fn check_observed(&self) -> Result<(), Error> {
        if self.observe.stream_bytes_max == 0 {
            return Err(Error::option("no stream can be kept in 0 bytes"));
        }
        if let Until::Regex(pattern) = &self.guest.until {
            regex::bytes::Regex::new(pattern).map_err(|e| Error::option(pattern_error(pattern, &e)))?;
        }
        Ok(())
    }

    /// Refuses the options that work only for a machine that bootscope makes.
    fn check_board(&self, board: &Board) -> Result<(), Error> {
        Address::of(&board.serial)?.check()?;
        if board.baud == Some(0) {
            return Err(Error::option("--baud is 0: give the rate of the board's console, such as 115200"));
        }
        if board.power_cycle.as_ref().is_some_and(|command| command.trim().is_empty()) {
            return Err(Error::option(
                "--power-cycle is empty: give the command that switches the board off and on, or leave it out and do it by hand",
            ));
        }
        let (guest, observe, usual) = (&self.guest, &self.observe, GuestSpec::default());
        const OWN: &str = "bootscope starts nothing on a board, which boots what is installed on it";
        const MADE: &str = "the board is the machine, and bootscope makes none";
        const HEARD: &str = "of a board only its serial port is seen, and nothing of its memory or CPUs";
        let waits_for_line = matches!(guest.until, Until::Init | Until::Regex(_));
        let given = [
            (guest.kernel.is_some(), "--kernel", OWN, "install the kernel there"),
            (guest.bios.is_some(), "--bios", OWN, "install the firmware there"),
            (guest.initrd.is_some(), "--initrd", OWN, "install the initrd there"),
            (!guest.append.is_empty(), "--append", OWN, "set the command line in its boot loader (U-Boot: bootargs)"),
            (!guest.mask.is_empty(), "--mask", OWN, "set systemd.mask= in its boot loader"),
            (!guest.disks.is_empty(), "--disk", OWN, "write the image to the board's own storage"),
            (guest.root.is_some() || guest.dax, "--root", OWN, "write the image to the board's own storage"),
            (guest.workload.is_some(), "--workload", OWN, "start it by the board's own init"),
            (guest.init == Init::Guest, "--init guest", OWN, "the board's own process 1 is recorded"),
            (guest.then == Then::Exec, "--then", OWN, "the board stays on when its boot was recorded"),
            (guest.memory_bytes != usual.memory_bytes, "--memory", MADE, "mem= in its command line takes some away"),
            (guest.cpus != usual.cpus, "--cpus", MADE, "maxcpus= in its command line takes some away"),
            (guest.machine != usual.machine, "--machine", MADE, "there is nothing to choose"),
            (guest.arch != usual.arch, "--arch", MADE, "its log says which one it is"),
            (guest.qemu != usual.qemu, "--qemu", MADE, "to record a guest of QEMU, leave out --serial"),
            (
                !guest.extra.is_empty(),
                "-- and arguments for QEMU",
                MADE,
                "to record a guest of QEMU, leave out --serial",
            ),
            (guest.accel != usual.accel, "--accel", MADE, "there is nothing to choose"),
            (guest.deterministic, "--deterministic", MADE, "record several boots with bootscope bench"),
            (!guest.patches.is_empty(), "--patch", HEARD, "change the kernel on the board"),
            (
                observe.calls || observe.min_call_ns.is_some(),
                "--trace calls",
                HEARD,
                "the board's own ftrace follows calls",
            ),
            (!observe.symbols.is_empty(), "--symbols", HEARD, "there is no address that needs a name"),
            (observe.silence_ms.is_some(), "--silence", HEARD, "give --hang-after for a limit to silence"),
            (observe.watch.is_some(), "--watch", HEARD, "have the kernel print it"),
            (
                !waits_for_line,
                "--until with this mark",
                HEARD,
                "wait for a line of the console, such as --until 'login:'",
            ),
        ];
        match given.iter().find(|(given, ..)| *given) {
            Some((_, option, why, instead)) => {
                Err(Error::option(format!("{option} does not go with --serial: {why}. Leave it out; {instead}")))
            }
            None => Ok(()),
        }
    }

    /// Checks the end marks that look into the guest or connect to it.
    fn check_awaited(&self) -> Result<(), Error> {
        let guest = &self.guest;
        if let Some(port) = guest.until.port() {
            const CARDS: [&str; 6] = ["-nic", "--nic", "-net", "--net", "-netdev", "--netdev"];
            if guest.deterministic {
                return Err(Error::option(
                    "--until asks the guest over its network, and a deterministic boot has none",
                ));
            }
            if let Some(card) = guest.extra.iter().find(|word| CARDS.contains(&word.as_str())) {
                return Err(Error::option(format!(
                    "--until asks port {port} of the guest through a network card that bootscope adds: leave out {card}"
                )));
            }
        }
        let Until::Process(name) = &guest.until else { return Ok(()) };
        if name.is_empty() || name.contains('/') {
            return Err(Error::option(format!(
                "--until process:{name} names no process: give the name of its program without its path, such as nginx"
            )));
        }
        if guest.deterministic || guest.has_guest_init() || guest.kernel.is_none() {
            return Err(Error::option(format!(
                "--until process:{name} looks into the memory of a guest with its own init while it runs: give --init keep \
                 and --kernel, and not --deterministic"
            )));
        }
        Ok(())
    }

    fn check_calls(&self) -> Result<(), Error> {
        let arch = arch::of(&self.guest);
        if self.observe.calls && !arch.follows_calls {
            return Err(Error::option(format!(
                "--trace calls does not follow the calls of {} guests yet: leave it out; when code first ran is recorded",
                arch.name
            )));
        }
        if self.observe.calls && self.guest.accel == Accel::Kvm {
            return Err(Error::option(
                "--trace calls needs QEMU to translate the guest's code, and with KVM the CPU runs it itself: leave out \
                 --accel kvm, or --trace calls",
            ));
        }
        if self.observe.min_call_ns.is_some() && !self.observe.calls {
            return Err(Error::option("--min-call is about the calls of --trace calls: give that too"));
        }
        Ok(())
    }

    fn check_a_kernel_or_disk(&self) -> Result<(), Error> {
        match &self.guest.kernel {
            Some(kernel) => image::check_kernel(arch::of(&self.guest), kernel)?,
            None if self.guest.has_guest_init() => {
                return Err(Error::option(
                    "without --kernel the machine boots from its own disk, and its own process 1 runs: \
                     add --init keep, or give a --kernel",
                ));
            }
            None if self.guest.initrd.is_some() || !self.guest.append.is_empty() => {
                return Err(Error::option("--initrd and --append need a --kernel"));
            }
            None if self.guest.disks.is_empty() && self.guest.extra.is_empty() && self.guest.bios.is_none() => {
                return Err(Error::option("nothing to boot: give a --kernel, a --disk or a --bios"));
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
                Some(board) => Err(Error::option(format!(
                    "--machine {} brings no device tree, and its kernel needs one: give the kernel's own for this board \
                     with --dtb",
                    board.name
                ))),
                None => Ok(()),
            };
        };
        if !arch.takes_device_tree {
            return Err(Error::option(format!("--dtb: {} guests take no device tree: leave it out", arch.name)));
        }
        if guest.kernel.is_none() {
            return Err(Error::option("--dtb is for a --kernel, and what boots from a disk has its own: leave it out"));
        }
        image::check_device_tree(path)
    }

    /// Checks that the VMM takes firmware, and that the file can be read.
    fn check_firmware(&self) -> Result<(), Error> {
        match &self.guest.bios {
            Some(_) if self.guest.vmm != VmmKind::Qemu => Err(Error::option(
                "--bios is for QEMU, and another VMM starts a kernel by itself: leave it out, or use --vmm qemu",
            )),
            Some(bios) => image::check_readable(bios),
            None => Ok(()),
        }
    }

    fn check_files(&self, profile: &GuestProfile) -> Result<(), Error> {
        root::check(&self.guest, profile)?;
        if self.guest.then == Then::Exec
            && (!self.guest.has_guest_init() || self.guest.initrd.is_none() && self.guest.root.is_none())
        {
            return Err(Error::option(
                "--then exec hands over to the init of an --initrd or a --root: give one, or boot the guest's own init \
                 from its disk with --init keep",
            ));
        }
        for path in self.guest.initrd.iter().chain(&self.guest.disks) {
            image::check_readable(path)?;
        }
        match self.initrd_oddity()? {
            // It would lie behind bootscope's own archive, and the kernel would skip it.
            Some(oddity) if self.guest.has_guest_init() => Err(Error::option(format!(
                "--initrd {oddity}: give what the kernel can unpack, made by `find . | cpio -o -H newc` and compressed \
                 or not"
            ))),
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
            return Err(Error::option("--deterministic counts instructions, which KVM cannot: leave out --accel kvm"));
        }
        if let Some(disk) = self.guest.disks.first() {
            let disk = disk.display();
            return Err(Error::option(format!(
                "--deterministic takes no block device, but --disk {disk} is one: {WHY_NOT_REPEATED}; put what the boot \
                 needs into the initrd"
            )));
        }
        Ok(())
    }
}

/// The reason why a device makes one boot differ from the next.
pub(crate) const WHY_NOT_REPEATED: &str =
    "its requests are answered by the host's clock, and the boot would not repeat";

/// The error of a pattern in one line: the regex library draws a picture and puts its explanation last.
fn pattern_error(pattern: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let why = text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
    format!(
        "--until {pattern:?} is no regular expression: {why}; to match one of ( ) [ ] {{ }} . * + ? | ^ $ \\ itself, \
             put a \\ before it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::ObserveSpec;
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
        check(GuestSpec { memory_bytes: 100, ..base() }, "--memory");
        check(GuestSpec { cpus: 0, ..base() }, "--cpus");
        check(GuestSpec { until: Until::Regex("(".to_owned()), ..base() }, "--until");
        check(GuestSpec { until: Until::Unit("ssh".to_owned()), ..base() }, "names no unit");
        check(GuestSpec { until: Until::Tcp(80), deterministic: true, ..base() }, "has none");
        let nic = vec!["-nic".to_owned(), "user".to_owned()];
        check(GuestSpec { until: Until::Tcp(80), extra: nic, ..base() }, "leave out -nic");
        check(GuestSpec { until: Until::Process("/usr/sbin/nginx".to_owned()), ..base() }, "without its path");
        check(GuestSpec { until: Until::Process("nginx".to_owned()), ..base() }, "--init keep");
        check(GuestSpec { mask: vec!["a b".to_owned()], ..base() }, "--mask a b");
        check(GuestSpec { mask: vec!["a.timer".to_owned()], ..base() }, "--init keep");
        check(GuestSpec { until: Until::Unit("ssh.service".to_owned()), ..base() }, "--init keep");
        check(GuestSpec { append: "quiet dyndbg=\"file x +p".to_owned(), ..base() }, "--append");
        check(GuestSpec { arch: "vax".to_owned(), ..base() }, "--arch vax");
        let arm = RecordOptions::of(GuestSpec { arch: "arm".to_owned(), ..base() });
        let calls = RecordOptions { observe: ObserveSpec { calls: true, ..arm.observe.clone() }, ..arm };
        assert!(calls.check_calls().unwrap_err().to_string().contains("arm guests"));
        check(base(), "--kernel");
        let tree = GuestSpec { dtb: Some(PathBuf::from("a.dtb")), init: Init::Keep, ..base() };
        let tree_error =
            |guest: &GuestSpec| RecordOptions::of(guest.clone()).check_device_tree().unwrap_err().to_string();
        assert!(tree_error(&tree).contains("x86_64 guests take no device tree"));
        let arm = GuestSpec { arch: "arm".to_owned(), machine: "sabrelite".to_owned(), ..tree };
        assert!(tree_error(&arm).contains("is for a --kernel"));
        let arm = GuestSpec { kernel: Some(PathBuf::from("/proc/version")), ..arm };
        assert!(
            tree_error(&GuestSpec { dtb: arm.kernel.clone(), ..arm.clone() })
                .contains("/proc/version is no device tree")
        );
        assert!(tree_error(&GuestSpec { dtb: None, ..arm }).contains("sabrelite brings no device tree"));
        check(GuestSpec { init: Init::Keep, ..base() }, "nothing to boot");
        let board = |serial: &str| Some(Board { serial: serial.to_owned(), ..Board::default() });
        check(GuestSpec { board: board("/dev/nonexistent"), init: Init::Keep, ..base() }, "ls /dev/serial/by-id");
        let board = || GuestSpec { board: board("tcp:localhost:1"), init: Init::Keep, ..base() };
        assert!(RecordOptions::of(board()).check().is_ok());
        check(GuestSpec { kernel: Some("vmlinuz".into()), ..board() }, "--kernel does not go with --serial");
        check(GuestSpec { cpus: 4, ..board() }, "--cpus does not go with --serial");
        check(GuestSpec { deterministic: true, ..board() }, "bootscope bench");
        check(GuestSpec { until: Until::PowerOff, ..board() }, "--until 'login:'");
        check(GuestSpec { until: Until::Regex("(".to_owned()), ..board() }, "--until");
        let gone = Some(PathBuf::from("/nonexistent/vmlinuz"));
        check(GuestSpec { kernel: gone, ..base() }, "/nonexistent/vmlinuz");
    }
}
