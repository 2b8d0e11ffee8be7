//! The options of a boot, one row each: its support by VMMs and boards, and its arguments for QEMU.
//!
//! A refusal "X does not go with Y" follows from a row. Options whose support depends on files, the host or other options are checked in
//! [`check`](crate::check) and in the VMMs' folders. A VMM's folder also sends what depends on more than the guest's spec.

use recording::{Accel, Field, GuestSpec, Init, Setting, Then, Until};

use crate::refusal::{Text, text};
use crate::vmm_line::VmmLine;
use crate::{Error, RecordOptions};

/// The VMM or board that boots the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Booter {
    Firecracker,
    CloudHypervisor,
    Board,
}

type AddArguments = fn(&GuestSpec, &mut VmmLine) -> Result<(), Error>;

/// An option, or some of its values.
pub(crate) struct OptionRow {
    /// The setting, if the user gave another one than the default.
    given: fn(&RecordOptions) -> Option<Setting>,
    /// Adds QEMU's arguments, if they depend on the guest's spec alone.
    qemu: Option<AddArguments>,
    firecracker: Option<Unsupported>,
    cloud_hypervisor: Option<Unsupported>,
    board: Option<Unsupported>,
}

/// The reason why an option is refused, and what to do instead.
#[derive(Clone, Copy)]
struct Unsupported {
    why: &'static str,
    instead: fn() -> Text,
}

impl OptionRow {
    /// A row of an option that everything supports.
    const fn of(given: fn(&RecordOptions) -> Option<Setting>) -> OptionRow {
        OptionRow { given, qemu: None, firecracker: None, cloud_hypervisor: None, board: None }
    }

    const fn for_qemu(self, add: AddArguments) -> OptionRow {
        OptionRow { qemu: Some(add), ..self }
    }

    const fn not_firecracker(self, why: &'static str, instead: fn() -> Text) -> OptionRow {
        OptionRow { firecracker: Some(Unsupported { why, instead }), ..self }
    }

    const fn not_cloud_hypervisor(self, why: &'static str, instead: fn() -> Text) -> OptionRow {
        OptionRow { cloud_hypervisor: Some(Unsupported { why, instead }), ..self }
    }

    /// Neither Firecracker nor cloud-hypervisor supports it.
    const fn not_api_vmms(self, why: &'static str, instead: fn() -> Text) -> OptionRow {
        self.not_firecracker(why, instead).not_cloud_hypervisor(why, instead)
    }

    const fn not_board(self, why: &'static str, instead: fn() -> Text) -> OptionRow {
        OptionRow { board: Some(Unsupported { why, instead }), ..self }
    }

    fn unsupported(&self, booter: Booter) -> Option<Unsupported> {
        match booter {
            Booter::Firecracker => self.firecracker,
            Booter::CloudHypervisor => self.cloud_hypervisor,
            Booter::Board => self.board,
        }
    }
}

impl Booter {
    /// The setting that chooses it.
    fn setting(self) -> Setting {
        match self {
            Booter::Firecracker => Field::Vmm.is("firecracker"),
            Booter::CloudHypervisor => Field::Vmm.is("cloud-hypervisor"),
            Booter::Board => Field::Serial.into(),
        }
    }

    /// The refusal of a setting that it does not support.
    pub(crate) fn refusal(self, setting: Setting, why: &'static str, instead: impl Into<Text>) -> Error {
        let field = setting.field;
        Error::refused(field, text![setting, " does not go with ", self.setting(), ", because ", why], instead)
    }
}

/// Fails with the first given option that `booter` does not support.
pub(crate) fn refuse_unsupported(options: &RecordOptions, booter: Booter) -> Result<(), Error> {
    for row in TABLE {
        let (Some(no), Some(given)) = (row.unsupported(booter), (row.given)(options)) else { continue };
        return Err(booter.refusal(given, no.why, (no.instead)()));
    }
    Ok(())
}

/// Adds QEMU's arguments for the options that depend on the guest's spec alone.
pub(crate) fn add_qemu_arguments(guest: &GuestSpec, line: &mut VmmLine) -> Result<(), Error> {
    TABLE.iter().filter_map(|row| row.qemu).try_for_each(|add| add(guest, line))
}

fn if_set(is_set: bool, setting: impl Into<Setting>) -> Option<Setting> {
    is_set.then(|| setting.into())
}

fn use_qemu() -> Text {
    text!["use ", Field::Vmm.is("qemu")]
}

fn use_a_line() -> Text {
    "use a line of the console".into()
}

fn use_own_storage() -> Text {
    "write the image to the board's own storage".into()
}

fn leave_out_serial() -> Text {
    text!["to record a guest of QEMU, leave out ", Field::Serial]
}

fn nothing_to_choose() -> Text {
    "leave it out; there is nothing to choose".into()
}

fn wait_for_a_line() -> Text {
    text!["wait for a line of the console, such as ", Field::Until.is("'login:'")]
}

/// Reasons why a board takes an option of no kind.
const OWN: &str = "bootscope starts nothing on a board, which boots what is installed on it";
const MADE: &str = "the board is the machine, and bootscope makes none";
const HEARD: &str = "of a board only its serial port is seen, and nothing of its memory or CPUs";
const ONE_PROCESS: &str = "it needs bootscope's process 1";
const GDBSTUB: &str = "it stops vCPUs by QEMU's gdbstub";

/// Every option, in the order in which they are refused and in which QEMU gets them.
const TABLE: &[OptionRow] = &[
    OptionRow::of(|o| if_set(o.guest.kernel.is_some(), Field::Kernel))
        .not_board(OWN, || "install the kernel there".into()),
    OptionRow::of(|o| if_set(o.guest.arch != GuestSpec::default().arch, Field::Arch.is(&o.guest.arch)))
        .not_board(MADE, || "leave it out; its log says which one it is".into()),
    OptionRow::of(|o| if_set(o.guest.accel == Accel::Tcg, Field::Accel.is("tcg")))
        .not_api_vmms("it runs guests by KVM alone", || text!["leave it out, or ", use_qemu()])
        .not_board(MADE, nothing_to_choose),
    OptionRow::of(|o| if_set(o.guest.accel == Accel::Kvm, Field::Accel.is("kvm"))).not_board(MADE, nothing_to_choose),
    OptionRow::of(|o| if_set(o.guest.deterministic, Field::Deterministic))
        .not_api_vmms("only QEMU counts instructions", use_qemu)
        .not_board(MADE, || "record several boots with bootscope bench".into())
        .for_qemu(|guest, line| {
            if guest.deterministic {
                // One instruction lasts one nanosecond, idle time is skipped, and every clock follows the guest's.
                line.pair("-icount", "shift=0,sleep=off");
                line.pair("-rtc", "base=2020-01-01T00:00:00,clock=vm");
                line.pair("-seed", "1");
                // The default network card and drives depend on the host's timing.
                line.flag("-nodefaults");
            }
            Ok(())
        }),
    OptionRow::of(|o| {
        if_set(o.guest.machine != crate::arch::of(&o.guest).facts.qemu.machine, Field::Machine.is(&o.guest.machine))
    })
    .not_api_vmms("it has one machine", || "leave it out".into())
    .not_board(MADE, nothing_to_choose),
    OptionRow::of(|o| if_set(!o.guest.extra.is_empty(), Field::Extra.is(o.guest.extra.join(" "))))
        .not_api_vmms("these arguments are QEMU's", || {
            text!["leave them out (the reference kernel has some too: ", use_qemu(), ")"]
        })
        .not_board(MADE, leave_out_serial),
    OptionRow::of(|o| if_set(o.observe.calls, Field::Calls))
        .not_api_vmms("only QEMU's plugin follows calls", use_qemu)
        .not_board(HEARD, || "leave it out; the board's own ftrace follows calls".into()),
    OptionRow::of(|o| if_set(o.observe.exits, Field::Exits))
        .not_api_vmms("only QEMU's plugin counts accesses", use_qemu)
        .not_board(HEARD, || "leave it out; only a guest of QEMU has its accesses counted".into()),
    OptionRow::of(|o| if_set(o.observe.min_call_ns.is_some(), Field::MinCall))
        .not_board(HEARD, || "leave it out; the board's own ftrace follows calls".into()),
    OptionRow::of(|o| if_set(o.observe.silence_ms.is_some(), Field::Silence))
        .not_api_vmms(GDBSTUB, use_qemu)
        .not_board(HEARD, || text!["give ", Field::HangAfter, " for a limit to silence"]),
    OptionRow::of(|o| if_set(o.observe.watch.is_some(), Field::Watch))
        .not_api_vmms(GDBSTUB, use_qemu)
        .not_board(HEARD, || "have the kernel print it".into()),
    OptionRow::of(|o| if_set(!o.guest.patches.is_empty(), Field::Patches))
        .not_api_vmms(GDBSTUB, use_qemu)
        .not_board(HEARD, || "change the kernel on the board".into()),
    OptionRow::of(|o| if_set(o.guest.dax, Field::Dax))
        .not_api_vmms("only QEMU's machine gets such memory", use_qemu)
        .not_board(OWN, use_own_storage),
    OptionRow::of(|o| if_set(o.guest.init == Init::Guest, Field::Init.is("guest")))
        .not_firecracker("Firecracker gives bootscope's process 1 no way for its messages", || {
            text!["use ", Field::Init.is("keep"), ", and the guest's own runs"]
        })
        .not_cloud_hypervisor("its port 0xe9 does not answer bootscope's process 1", || {
            text!["use ", Field::Init.is("keep"), "; logs and trace are read in memory"]
        })
        .not_board(OWN, || "leave it out; the board's own process 1 is recorded".into()),
    OptionRow::of(|o| if_set(o.guest.workload.is_some(), Field::Workload))
        .not_api_vmms(ONE_PROCESS, use_qemu)
        .not_board(OWN, || "start it by the board's own init".into()),
    OptionRow::of(|o| if_set(o.guest.until.port().is_some(), Field::Until.is("a port or page")))
        .not_api_vmms("bootscope gives it no network", use_a_line)
        .not_board(HEARD, wait_for_a_line),
    OptionRow::of(|o| if_set(matches!(o.guest.until, Until::Process(_)), Field::Until.is("process:")))
        .not_firecracker("bootscope cannot read its guest's memory", use_a_line)
        .not_board(HEARD, wait_for_a_line),
    OptionRow::of(|o| if_set(o.guest.until == Until::PowerOff, Field::Until.is("power-off")))
        .not_firecracker("its guests end by a reset", || {
            text!["use ", Field::Until.is("'reboot: Restarting system'"), ", which Linux prints before it"]
        })
        .not_board(HEARD, wait_for_a_line),
    OptionRow::of(|o| if_set(matches!(o.guest.until, Until::Unit(_)), Field::Until.is("unit:")))
        .not_board(HEARD, wait_for_a_line),
    OptionRow::of(|o| if_set(o.guest.dtb.is_some(), Field::Dtb))
        .not_cloud_hypervisor("it describes its machine by ACPI", || "leave it out".into())
        .not_board(OWN, || "install the device tree there".into()),
    OptionRow::of(|o| if_set(o.guest.cpus != GuestSpec::default().cpus, Field::Cpus))
        .not_board(MADE, || "leave it out; maxcpus= in its command line takes some away".into())
        .for_qemu(|guest, line| {
            line.pair("-smp", guest.cpus.to_string());
            Ok(())
        }),
    OptionRow::of(|o| if_set(o.guest.bios.is_some(), Field::Bios))
        .not_api_vmms("it starts a kernel by itself", || text!["leave it out, or ", use_qemu()])
        .not_board(OWN, || "install the firmware there".into())
        .for_qemu(|guest, line| guest.bios.iter().try_for_each(|bios| line.path("-bios", Field::Bios, bios))),
    OptionRow::of(|o| if_set(o.guest.initrd.is_some(), Field::Initrd))
        .not_board(OWN, || "install the initrd there".into()),
    OptionRow::of(|o| if_set(!o.guest.append.is_empty(), Field::Append))
        .not_board(OWN, || "set the command line in its boot loader (U-Boot: bootargs)".into()),
    OptionRow::of(|o| if_set(!o.guest.mask.is_empty(), Field::Mask))
        .not_board(OWN, || "set systemd.mask= in its boot loader".into()),
    OptionRow::of(|o| if_set(!o.guest.disks.is_empty(), Field::Disks)).not_board(OWN, use_own_storage),
    OptionRow::of(|o| if_set(o.guest.root.is_some(), Field::Root)).not_board(OWN, use_own_storage),
    OptionRow::of(|o| if_set(o.guest.then == Then::Exec, Field::Then.is("exec")))
        .not_board(OWN, || "leave it out; the board stays on when its boot was recorded".into()),
    OptionRow::of(|o| if_set(o.guest.memory_bytes != GuestSpec::default().memory_bytes, Field::Memory))
        .not_board(MADE, || "leave it out; mem= in its command line takes some away".into()),
    OptionRow::of(|o| if_set(!o.observe.symbols.is_empty(), Field::Symbols))
        .not_board(HEARD, || "leave it out; there is no address that needs a name".into()),
];
